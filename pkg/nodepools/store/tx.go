package store

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// tx is the transaction of one function.
type tx struct {
	transaction transaction
	state       state
	events      int64
	entries     int64
	jobs        []job
	enqueued    bool
	removed     map[Key]bool
	ended       bool

	known *known
	// pending are statements that were not sent: a function that fails has nothing to undo then.
	pending []sent
	// saved says that there is a savepoint, as statements were sent.
	saved bool
	// written are the objects that this transaction wrote, or wrote reports of.
	written          map[Key]bool
	wroteControllers bool
	// guessed says that an object is made without having asked whether it can be.
	guessed bool
	// failed is the error of a statement: without a savepoint, the transaction of all is of no use after it.
	failed error
}

// sent is a statement that is sent later.
type sent struct {
	statement string
	arguments []any
	each      func(scan scan) error
}

var _ Tx = (*tx)(nil)

const (
	columns = `kind, id, name, cluster_id, owner, platform, phase, health, generation, observed_generation, revision, sequence, ` +
		`nodes, labels, deleting, needs_reconcile, due, message, document`

	getStatement    = `SELECT ` + columns + ` FROM objects WHERE kind = ?1 AND id = ?2`
	poolsStatement  = `SELECT ` + columns + ` FROM objects WHERE kind = ?1 AND cluster_id = ?2 ORDER BY sequence`
	countStatement  = `SELECT count(*) FROM objects WHERE kind = ?1 AND owner = ?2`
	createStatement = `SELECT (SELECT count(*) FROM objects WHERE kind = ?1 AND id = ?2) + ` +
		`(SELECT count(*) FROM tombstones WHERE kind = ?1 AND id = ?2), ` +
		`(SELECT count(*) FROM objects WHERE kind = ?1 AND scope = ?3 AND name = ?4)`
	updateStatement = `SELECT o.sequence, o.revision, o.labels, ` +
		`(SELECT count(*) FROM objects n WHERE n.kind = ?1 AND n.scope = ?3 AND n.name = ?4 AND n.id <> ?2) ` +
		`FROM objects o WHERE o.kind = ?1 AND o.id = ?2`
	// insertObject fails when the id was used: then the kind is none. Of ids and names that are in use, the indexes take care.
	insertObject = `INSERT INTO objects (` + columns + `, scope) ` +
		`VALUES ((SELECT CASE count(*) WHEN 0 THEN ?1 END FROM tombstones WHERE kind = ?1 AND id = ?2), ` +
		`?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)`
	updateObject = `UPDATE objects SET name = ?3, cluster_id = ?4, owner = ?5, platform = ?6, phase = ?7, health = ?8, generation = ?9, ` +
		`observed_generation = ?10, revision = ?11, nodes = ?13, labels = ?14, deleting = ?15, needs_reconcile = ?16, due = ?17, ` +
		`message = ?18, document = ?19, scope = ?20 WHERE kind = ?1 AND id = ?2 AND sequence = ?12`
	insertLabel  = `INSERT INTO labels (sequence, key, value) VALUES (?1, ?2, ?3)`
	deleteLabels = `DELETE FROM labels WHERE sequence = ?1`

	reportsStatement = `SELECT controller, observed_generation, first_at, at, message FROM reports WHERE kind = ?1 AND id = ?2`
	insertReport     = `INSERT INTO reports (kind, id, controller, observed_generation, first_at, at, message) ` +
		`VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (kind, id, controller) DO UPDATE SET ` +
		`observed_generation = excluded.observed_generation, first_at = excluded.first_at, at = excluded.at, message = excluded.message`

	controllersStatement = `SELECT name, platforms, version, clusters, last_seen FROM controllers`
	insertController     = `INSERT INTO controllers (name, platforms, version, clusters, last_seen) VALUES (?1, ?2, ?3, ?4, ?5) ` +
		`ON CONFLICT (name) DO UPDATE SET platforms = excluded.platforms, version = excluded.version, clusters = excluded.clusters, ` +
		`last_seen = excluded.last_seen`

	insertEvent = `INSERT INTO events (revision, number, type, time, actor, kind, id, cluster_id, owner, platform, generation, text, document) ` +
		`VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`
	insertAudit = `INSERT INTO audit (revision, number, time, actor, action, resource, object_id, before, after, request_id) ` +
		`VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`

	idempotentStatement = `SELECT fingerprint, kind, id, answer, expires FROM idempotent WHERE actor = ?1 AND key = ?2 AND expires > ?3`
	insertIdempotent    = `INSERT INTO idempotent (actor, key, fingerprint, kind, id, answer, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ` +
		`ON CONFLICT (actor, key) DO UPDATE SET fingerprint = excluded.fingerprint, kind = excluded.kind, id = excluded.id, ` +
		`answer = excluded.answer, expires = excluded.expires`

	insertWebhook = `INSERT INTO webhooks (id, url, owner, types, secret, sees_all, created_at, delivered, last_error) ` +
		`VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO UPDATE SET url = excluded.url, owner = excluded.owner, ` +
		`types = excluded.types, secret = excluded.secret, sees_all = excluded.sees_all, created_at = excluded.created_at, ` +
		`delivered = excluded.delivered, last_error = excluded.last_error`
)

// Revision is what the transaction will be known by. See Tx.
func (t *tx) Revision() int64 { return t.state.revision }

// Now is the time of the transaction. See Tx.
func (t *tx) Now() time.Time { return t.state.now }

var errTxEnded = errors.New("the transaction has ended: a Tx is for its function only")

// query runs a statement that may write, unless the function has ended: a Tx that is kept would read and write in the transaction of
// another.
func (t *tx) query(statement string, arguments []any, each func(scan scan) error) error {
	if t.ended {
		return errTxEnded
	}
	t.save()
	t.spill()
	err := t.transaction.query(statement, arguments, each)
	if err != nil && t.guessed {
		t.failed = err // it may be what the guess was wrong about
	}
	return err
}

// read runs a statement that does not write.
func (t *tx) read(statement string, arguments []any, each func(scan scan) error) error {
	if len(t.pending) > 0 {
		return t.query(statement, arguments, each)
	}
	return t.readBeside(statement, arguments, each)
}

// readBeside runs a statement that reads nothing of what waits to be sent.
func (t *tx) readBeside(statement string, arguments []any, each func(scan scan) error) error {
	if t.ended {
		return errTxEnded
	}
	err := t.transaction.query(statement, arguments, each)
	if err != nil && (!t.saved || t.guessed) {
		t.failed = err
	}
	return err
}

// save has what follows be undone when the function fails.
func (t *tx) save() {
	if !t.saved {
		t.saved = true
		t.transaction.send(nil, "SAVEPOINT one")
	}
}

// spill sends what waits.
func (t *tx) spill() {
	for _, s := range t.pending {
		// Rows of these tables are read by nobody before the end of the batch.
		if rows := t.known.rows[s.statement]; rows != nil && !t.saved {
			rows.add(s.arguments)
			continue
		}
		t.transaction.send(s.each, s.statement, s.arguments...)
	}
	t.pending = nil
}

func (t *tx) send(statement string, arguments ...any) error {
	return t.sendAnd(nil, statement, arguments...)
}

func (t *tx) sendAnd(each func(scan scan) error, statement string, arguments ...any) error {
	if t.ended {
		return errTxEnded
	}
	t.pending = append(t.pending, sent{statement, arguments, each})
	return nil
}

// writes notes that an object is written.
func (t *tx) writes(key Key) {
	if t.written == nil {
		t.written = map[Key]bool{}
	}
	t.written[key] = true
}

// Get reads an object. See Tx.
func (t *tx) Get(key Key) (Record, error) {
	arguments := []any{string(key.Kind), key.ID}
	if t.written[key] {
		return one(getStatement, arguments, scanRecord, t.read)
	}
	if t.ended {
		return Record{}, errTxEnded
	}
	if record, ok := t.known.record(key); ok {
		return record, nil
	}
	var reports []Report
	ahead := key.Kind == NodePool && t.transaction.pipelines()
	if ahead {
		// Who reads a pool mostly reads what was reported about it next.
		t.transaction.send(func(scan scan) error {
			report, err := scanReport(scan)
			reports = append(reports, report)
			return err
		}, reportsStatement, arguments...)
	}
	record, err := one(getStatement, arguments, scanRecord, t.readBeside)
	if err == nil {
		t.known.records[key] = record
		if ahead {
			t.known.reports[key] = sorted(reports)
		}
		record.Labels = maps.Clone(record.Labels)
	}
	return record, err
}

// Pools reads the pools of a cluster. See Tx.
func (t *tx) Pools(clusterID string) ([]Record, error) {
	return all(poolsStatement, []any{string(NodePool), clusterID}, scanRecord, t.read)
}

// CountOwned counts the objects of an owner. See Tx.
func (t *tx) CountOwned(kind Kind, owner string) (int, error) {
	return one(countStatement, []any{string(kind), owner}, scanInt, t.read)
}

// NodesOwned sums the nodes of an owner. See Tx.
func (t *tx) NodesOwned(owner string) (int, error) {
	return one(`SELECT CAST(coalesce(sum(nodes), 0) AS BIGINT) FROM objects WHERE owner = ?1 AND kind IN ('nodepool', 'cluster')`, []any{owner}, scanInt, t.read)
}

// Put writes an object. A Record without a Sequence is a new one; one with it was read before, in this very transaction, so that
// nothing that was written in between is lost: a Record of another Revision than the object's is refused.
func (t *tx) Put(record Record) error {
	if err := checkText(record); err != nil {
		return err
	}
	labels, err := json.Marshal(record.Labels)
	if err != nil {
		return errors.Wrap(err, "encode the labels")
	}
	if len(record.Labels) == 0 {
		labels = nil
	}
	scope := record.ClusterID
	if record.Kind == Cluster {
		scope = record.Owner
	}
	statement, relabel := updateObject, false
	if record.Sequence == 0 {
		statement, relabel = insertObject, len(record.Labels) > 0
		if err := t.checkNew(record, scope); err != nil {
			return err
		}
		t.state.sequence++
		record.Sequence = t.state.sequence
	} else if before, ok := t.known.records[record.Key]; ok && !t.written[record.Key] && before.Name == record.Name && before.ClusterID == record.ClusterID && before.Owner == record.Owner {
		if err := checkRead(record, before.Sequence, before.Revision, t.state.revision); err != nil {
			return err
		}
		relabel = !maps.Equal(before.Labels, record.Labels)
	} else {
		var sequence, revision int64
		var before string
		var names int
		found := false
		err := t.read(updateStatement, []any{string(record.Kind), record.ID, scope, record.Name}, func(scan scan) error {
			found = true
			return scan(&sequence, &revision, &before, &names)
		})
		switch {
		case err != nil:
			return errors.Wrap(err, "look for the object")
		case !found:
			return ErrNotFound
		case names > 0:
			err = ErrNameTaken
		}
		if read := checkRead(record, sequence, revision, t.state.revision); read != nil {
			return read
		}
		if err != nil {
			return err
		}
		relabel = before != string(labels)
	}
	t.writes(record.Key)
	err = t.send(statement, string(record.Kind), record.ID, record.Name, record.ClusterID, record.Owner, record.Platform, record.Phase,
		record.Health, int64(record.Generation), int64(record.ObservedGeneration), t.state.revision, record.Sequence, int64(record.Nodes), string(labels),
		record.Deleting, record.NeedsReconcile, micros(record.Due), bytes(record.Message), bytes(record.Document), scope)
	if err != nil || !relabel {
		return err
	}
	if statement == updateObject {
		if err := t.send(deleteLabels, record.Sequence); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(record.Labels)) {
		if err := t.send(insertLabel, record.Sequence, key, record.Labels[key]); err != nil {
			return err
		}
	}
	return nil
}

// checkNew says whether an object can be made.
func (t *tx) checkNew(record Record, scope string) error {
	if t.known.optimistic && len(t.written) == 0 && !t.saved {
		// Nearly always it can. The database refuses it where not, and all of the batch runs again, with the question asked first.
		t.guessed = true
		return nil
	}
	read := t.read
	if len(t.written) == 0 {
		read = t.readBeside
	}
	var ids, names int
	err := read(createStatement, []any{string(record.Kind), record.ID, scope, record.Name}, func(scan scan) error { return scan(&ids, &names) })
	switch {
	case err != nil:
		return errors.Wrap(err, "look for the object")
	case ids > 0:
		return ErrIDTaken
	case names > 0:
		return ErrNameTaken
	}
	return nil
}

// checkRead says whether a record that is written was read in the transaction that writes it.
func checkRead(record Record, sequence, revision, own int64) error {
	if sequence == record.Sequence && (revision == record.Revision || revision == own) {
		return nil
	}
	return errors.Errorf("the %s was read before the transaction that writes it: revision %d, now %d", record.Kind, record.Revision, revision)
}

// Remove removes an object. See Tx.
func (t *tx) Remove(key Key) error {
	t.writes(key)
	sequence, err := one(`DELETE FROM objects WHERE kind = ?1 AND id = ?2 RETURNING sequence`, []any{string(key.Kind), key.ID}, scanInt64, t.query)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM reports WHERE kind = ?1 AND id = ?2`,
		`DELETE FROM leases WHERE kind = ?1 AND id = ?2`,
		`DELETE FROM work WHERE kind = ?1 AND id = ?2`,
	} {
		if err := t.send(statement, string(key.Kind), key.ID); err != nil {
			return err
		}
	}
	if err := t.send(deleteLabels, sequence); err != nil {
		return err
	}
	if t.removed == nil {
		t.removed = map[Key]bool{}
	}
	t.removed[key] = true
	return t.send(`INSERT INTO tombstones (kind, id, time) VALUES (?1, ?2, ?3)`, string(key.Kind), key.ID, micros(t.state.now))
}

// Reports reads the reports about an object. See Tx.
func (t *tx) Reports(key Key) ([]Report, error) {
	if t.written[key] {
		return readReports(key, t.read)
	}
	if reports, ok := t.known.reports[key]; ok && !t.ended {
		return slices.Clone(reports), nil
	}
	return readReports(key, t.readBeside)
}

// PutReport keeps a controller's report. See Tx.
func (t *tx) PutReport(key Key, report Report) error {
	if err := valid("the controller's name", report.Controller); err != nil {
		return err
	}
	t.writes(key)
	return t.send(insertReport, string(key.Kind), key.ID, report.Controller, int64(report.ObservedGeneration), micros(report.FirstAt),
		micros(report.At), bytes(report.Message))
}

// Controllers reads the registered controllers. See Tx.
func (t *tx) Controllers() ([]Controller, error) {
	if t.wroteControllers {
		return readControllers(t.read)
	}
	if t.known.controllers == nil || t.ended {
		controllers, err := readControllers(t.readBeside)
		if err != nil {
			return nil, err
		}
		t.known.controllers = &controllers
	}
	return slices.Clone(*t.known.controllers), nil
}

// PutController registers a controller. See Tx.
func (t *tx) PutController(controller Controller) error {
	if err := valid("the controller", append([]string{controller.Name, controller.Version}, controller.Platforms...)...); err != nil {
		return err
	}
	platforms, err := list(controller.Platforms)
	if err != nil {
		return err
	}
	t.wroteControllers = true
	return t.send(insertController, controller.Name, platforms, controller.Version, controller.Clusters, micros(controller.LastSeen))
}

// DeleteController forgets a controller. See Tx.
func (t *tx) DeleteController(name string) error {
	t.wroteControllers = true
	_, err := one(`DELETE FROM controllers WHERE name = ?1 RETURNING 1`, []any{name}, scanInt, t.query)
	return err
}

// Event adds an event. See Tx.
func (t *tx) Event(event Event) error {
	err := valid("the event", event.Type, event.Actor, event.Object.ID, event.ClusterID, event.Owner, event.Platform, event.Text)
	if err != nil {
		return err
	}
	if event.Time.IsZero() {
		event.Time = t.state.now
	}
	t.events++
	return t.send(insertEvent, t.state.revision, t.events, event.Type, micros(event.Time), event.Actor, string(event.Object.Kind), event.Object.ID,
		event.ClusterID, event.Owner, event.Platform, int64(event.Generation), event.Text, bytes(event.Document))
}

// Audit adds an audit entry. See Tx.
func (t *tx) Audit(entry AuditEntry) error {
	err := valid("the audit entry", entry.Actor, entry.Action, entry.Resource, entry.ObjectID, entry.Before, entry.After, entry.RequestID)
	if err != nil {
		return err
	}
	if entry.Time.IsZero() {
		entry.Time = t.state.now
	}
	t.entries++
	return t.send(insertAudit, t.state.revision, t.entries, micros(entry.Time), entry.Actor, entry.Action, entry.Resource, entry.ObjectID,
		entry.Before, entry.After, entry.RequestID)
}

// Idempotent reads the answer of a request. See Tx.
func (t *tx) Idempotent(actor, key string) (Idempotent, error) {
	return one(idempotentStatement, []any{actor, key, micros(t.state.now)}, func(scan scan) (Idempotent, error) {
		answer, expires := Idempotent{Actor: actor, Key: key}, int64(0)
		err := scan(&answer.Fingerprint, (*string)(&answer.Object.Kind), &answer.Object.ID, &answer.Answer, &expires)
		answer.Expires, answer.Fingerprint, answer.Answer = instant(expires), some(answer.Fingerprint), some(answer.Answer)
		return answer, err
	}, t.read)
}

// PutIdempotent keeps the answer of a request. See Tx.
func (t *tx) PutIdempotent(answer Idempotent) error {
	if err := valid("the idempotency key", answer.Actor, answer.Key, answer.Object.ID); err != nil {
		return err
	}
	return t.send(insertIdempotent, answer.Actor, answer.Key, bytes(answer.Fingerprint), string(answer.Object.Kind), answer.Object.ID,
		bytes(answer.Answer), micros(answer.Expires))
}

// PutWebhook keeps a webhook. See Tx.
func (t *tx) PutWebhook(webhook Webhook) error {
	if err := valid("the webhook", append([]string{webhook.ID, webhook.URL, webhook.Owner, webhook.LastError}, webhook.Types...)...); err != nil {
		return err
	}
	types, err := list(webhook.Types)
	if err != nil {
		return err
	}
	return t.send(insertWebhook, webhook.ID, webhook.URL, webhook.Owner, types, bytes(webhook.Secret), webhook.All, micros(webhook.CreatedAt),
		webhook.Delivered, webhook.LastError)
}

// DeleteWebhook removes a webhook. See Tx.
func (t *tx) DeleteWebhook(id string) error {
	_, err := one(`DELETE FROM webhooks WHERE id = ?1 RETURNING 1`, []any{id}, scanInt, t.query)
	return err
}

// query is a way to read.
type query func(statement string, arguments []any, each func(scan scan) error) error

// one reads one row, or returns ErrNotFound.
func one[T any](statement string, arguments []any, read func(scan) (T, error), query query) (T, error) {
	var value T
	found := false
	err := query(statement, arguments, func(scan scan) (err error) {
		found = true
		value, err = read(scan)
		return err
	})
	if err == nil && !found {
		return value, ErrNotFound
	}
	return value, err
}

// all reads all rows.
func all[T any](statement string, arguments []any, read func(scan) (T, error), query query) ([]T, error) {
	var values []T
	err := query(statement, arguments, func(scan scan) error {
		value, err := read(scan)
		values = append(values, value)
		return err
	})
	if err != nil {
		return nil, err // a part of a list is no list
	}
	return values, nil
}

func scanInt(scan scan) (value int, err error) { return value, scan(&value) }

func scanInt64(scan scan) (value int64, err error) { return value, scan(&value) }

func scanKey(scan scan) (key Key, err error) { return key, scan((*string)(&key.Kind), &key.ID) }

func scanRecord(scan scan) (Record, error) { return scanRecordAfter(scan) }

// scanRecordAfter reads a record that stands behind other columns.
func scanRecordAfter(scan scan, others ...any) (Record, error) {
	var r Record
	var labels string
	var due int64
	err := scan(append(others, (*string)(&r.Kind), &r.ID, &r.Name, &r.ClusterID, &r.Owner, &r.Platform, &r.Phase, &r.Health, &r.Generation,
		&r.ObservedGeneration, &r.Revision, &r.Sequence, &r.Nodes, &labels, &r.Deleting, &r.NeedsReconcile, &due, &r.Message, &r.Document)...)
	if err != nil {
		return r, err
	}
	r.Due = instant(due)
	r.Message, r.Document = some(r.Message), some(r.Document)
	if labels != "" {
		err = errors.Wrap(json.Unmarshal([]byte(labels), &r.Labels), "decode the labels")
	}
	return r, err
}

const documentColumns = `revision, sequence, document`

func scanDocumentAfter(scan scan, others ...any) (r Record, err error) {
	err = scan(append(others, &r.Revision, &r.Sequence, &r.Document)...)
	r.Document = some(r.Document)
	return r, err
}

func scanReport(scan scan) (report Report, err error) {
	var first, at int64
	err = scan(&report.Controller, &report.ObservedGeneration, &first, &at, &report.Message)
	report.FirstAt, report.At, report.Message = instant(first), instant(at), some(report.Message)
	return report, err
}

func readReports(key Key, query query) ([]Report, error) {
	reports, err := all(reportsStatement, []any{string(key.Kind), key.ID}, scanReport, query)
	return sorted(reports), err
}

// sorted puts reports in order. Databases differ in how they order text.
func sorted(reports []Report) []Report {
	slices.SortFunc(reports, func(a, b Report) int { return strings.Compare(a.Controller, b.Controller) })
	return reports
}

func readControllers(query query) ([]Controller, error) {
	controllers, err := all(controllersStatement, nil, func(scan scan) (Controller, error) {
		var controller Controller
		var platforms string
		var seen int64
		if err := scan(&controller.Name, &platforms, &controller.Version, &controller.Clusters, &seen); err != nil {
			return controller, err
		}
		controller.LastSeen = instant(seen)
		return controller, unlist(platforms, &controller.Platforms)
	}, query)
	slices.SortFunc(controllers, func(a, b Controller) int { return strings.Compare(a.Name, b.Name) })
	return controllers, err
}

// micros is a time as it is kept: microseconds since 1970, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return cmp.Or(t.UnixMicro(), 1)
}

func instant(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// bytes is never NULL.
func bytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// some is nil instead of empty.
func some(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func list(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	encoded, err := json.Marshal(values)
	return string(encoded), errors.Wrap(err, "encode a list")
}

func unlist(encoded string, values *[]string) error {
	if encoded == "" {
		return nil
	}
	return errors.Wrap(json.Unmarshal([]byte(encoded), values), "decode a list")
}

// valid refuses text that one of the databases could not keep.
func valid(what string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return errors.Errorf("%s: %s is not text: UTF-8 without the character zero is", what, strconv.Quote(text))
		}
	}
	return nil
}

func checkText(r Record) error {
	if r.Kind != NodePool && r.Kind != Cluster || r.ID == "" {
		return errors.Errorf("an object of kind %q and id %q: it needs a kind and an id", r.Kind, r.ID)
	}
	if err := valid("the object", r.ID, r.Name, r.ClusterID, r.Owner, r.Platform, r.Phase, r.Health); err != nil {
		return err
	}
	for key, value := range r.Labels {
		if err := valid("the label", key, value); err != nil {
			return err
		}
	}
	return nil
}
