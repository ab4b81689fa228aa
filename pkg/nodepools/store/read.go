package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reader reads outside of transactions.
func (d *DB) reader(ctx context.Context) query {
	return func(statement string, arguments []any, each func(scan scan) error) error {
		return d.backend.query(ctx, statement, arguments, each)
	}
}

// Get reads an object. See Store.
func (d *DB) Get(ctx context.Context, key Key) (Record, error) {
	return one(getStatement, []any{string(key.Kind), key.ID}, scanRecord, d.reader(ctx))
}

// Revision is that of the last transaction. See Store.
func (d *DB) Revision(ctx context.Context) (int64, error) {
	return one(`SELECT revision FROM state`, nil, scanInt64, d.reader(ctx))
}

// Reports reads what controllers reported about an object. See Store.
func (d *DB) Reports(ctx context.Context, key Key) ([]Report, error) {
	return readReports(key, d.reader(ctx))
}

// Controllers reads the registered controllers. See Store.
func (d *DB) Controllers(ctx context.Context) ([]Controller, error) {
	return readControllers(d.reader(ctx))
}

// Webhooks reads all webhooks, in the order of their ids.
func (d *DB) Webhooks(ctx context.Context) ([]Webhook, error) {
	const statement = `SELECT id, url, owner, types, secret, sees_all, created_at, delivered, last_error FROM webhooks`
	webhooks, err := all(statement, nil, func(scan scan) (Webhook, error) {
		var w Webhook
		var types string
		var created int64
		if err := scan(&w.ID, &w.URL, &w.Owner, &types, &w.Secret, &w.All, &created, &w.Delivered, &w.LastError); err != nil {
			return w, err
		}
		w.CreatedAt, w.Secret = instant(created), some(w.Secret)
		return w, unlist(types, &w.Types)
	}, d.reader(ctx))
	slices.SortFunc(webhooks, func(a, b Webhook) int { return strings.Compare(a.ID, b.ID) })
	return webhooks, err
}

// Due reads the keys of objects that are due. See Store.
func (d *DB) Due(ctx context.Context, now time.Time, limit int) ([]Key, error) {
	const statement = `SELECT kind, id FROM objects WHERE due > 0 AND due <= ?1 ORDER BY due, sequence LIMIT ?2`
	return all(statement, []any{micros(now), limit}, scanKey, d.reader(ctx))
}

// total is how many objects a filter matches at a revision.
type total struct {
	revision int64
	count    int
}

// totals remembers the total of each filter: to count is most of the work of a list.
type totals struct {
	mutex sync.Mutex
	known map[string]total
}

// maxTotals is how many filters are remembered.
const maxTotals = 1024

func (t *totals) at(filter string, revision int64) (int, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known, ok := t.known[filter]
	return known.count, ok && known.revision == revision
}

func (t *totals) keep(filter string, found total) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.known == nil || len(t.known) >= maxTotals {
		t.known = map[string]total{}
	}
	if t.known[filter].revision <= found.revision {
		t.known[filter] = found
	}
}

// list reads a page of objects.
func (d *DB) list(ctx context.Context, query Query) (Page, error) {
	filter := filterOf(query)
	where, key := filter.String(), filter.key()
	page := filter.page(query)
	reader := d.reader(ctx)
	selected, scanned := columns, scanRecordAfter
	if query.DocumentsOnly {
		selected, scanned = documentColumns, scanDocumentAfter
	}

	rows := func() (records []Record, revision int64, err error) {
		records, err = all(`SELECT (SELECT revision FROM state), `+selected+` FROM objects o WHERE `+page.String(), page.arguments,
			func(scan scan) (Record, error) { return scanned(scan, &revision) }, reader)
		if err == nil && len(records) == 0 {
			revision, err = d.Revision(ctx)
		}
		return records, revision, err
	}
	if revision := d.changes.latest(); true {
		if count, ok := d.totals.at(key, revision); ok {
			records, seen, err := rows()
			if err != nil {
				return Page{}, err
			}
			if seen == revision {
				return pageOf(query, records, total{revision, count}), nil
			}
		}
	}
	var found total
	records, err := all(`WITH counted AS MATERIALIZED (SELECT revision AS at, (SELECT count(*) FROM objects o WHERE `+where+`) AS total FROM state) `+
		`SELECT counted.at, counted.total, `+selected+` FROM counted, objects o WHERE `+page.String(), page.arguments,
		func(scan scan) (Record, error) { return scanned(scan, &found.revision, &found.count) }, reader)
	if err != nil {
		return Page{}, err
	}
	// A page without rows tells neither total nor revision; both are asked for until nothing was written meanwhile.
	for attempt := 0; len(records) == 0; attempt++ {
		found, err = one(`SELECT revision, (SELECT count(*) FROM objects o WHERE `+where+`) FROM state`, filter.arguments,
			func(scan scan) (found total, err error) { return found, scan(&found.revision, &found.count) }, reader)
		if err != nil {
			return Page{}, err
		}
		var seen int64
		if records, seen, err = rows(); err != nil {
			return Page{}, err
		}
		// A revision that is too early is harmless: who watches from there is told of some changes that the page has.
		if seen == found.revision || attempt == 3 {
			break
		}
		records = nil
	}
	d.totals.keep(key, found)
	return pageOf(query, records, found), nil
}

func pageOf(query Query, records []Record, found total) Page {
	page := Page{Records: records, Total: found.count, Revision: found.revision}
	if query.Limit > 0 && len(records) > query.Limit {
		page.Records, page.More = records[:query.Limit], true
	}
	return page
}

// filter is a condition with its arguments.
type filter struct {
	conditions []string
	arguments  []any
	tail       string
}

func (f *filter) String() string { return strings.Join(f.conditions, " AND ") + f.tail }

// key is another for every other filter.
func (f *filter) key() string {
	var key strings.Builder
	key.WriteString(f.String())
	for _, argument := range f.arguments {
		text, _ := argument.(string)
		key.WriteString("\x00" + strconv.Itoa(len(text)) + " " + text)
	}
	return key.String()
}

// parameter adds an argument and returns its mark.
func (f *filter) parameter(argument any) string {
	f.arguments = append(f.arguments, argument)
	return "?" + strconv.Itoa(len(f.arguments))
}

func (f *filter) add(condition string) { f.conditions = append(f.conditions, condition) }

func (f *filter) equal(column, value string) {
	if value != "" {
		f.add(column + " = " + f.parameter(value))
	}
}

func (f *filter) in(column string, values []string) {
	if values == nil {
		return
	}
	marks := make([]string, len(values))
	for i, value := range values {
		marks[i] = f.parameter(value)
	}
	if len(marks) == 0 {
		f.add("1 = 0")
		return
	}
	f.add(column + " IN (" + strings.Join(marks, ", ") + ")")
}

func filterOf(query Query) filter {
	var f filter
	f.add("o.kind = " + f.parameter(string(query.Kind)))
	f.equal("o.owner", query.Owner)
	f.equal("o.cluster_id", query.ClusterID)
	f.equal("o.name", query.Name)
	f.equal("o.phase", query.Phase)
	f.equal("o.health", query.Health)
	f.in("o.platform", query.Platforms)
	if query.NeedsReconcile {
		f.add("o.needs_reconcile")
	}
	for _, key := range slices.Sorted(maps.Keys(query.Labels)) {
		f.add("EXISTS (SELECT 1 FROM labels l WHERE l.sequence = o.sequence AND l.key = " + f.parameter(key) +
			" AND l.value = " + f.parameter(query.Labels[key]) + ")")
	}
	for _, key := range query.LabelKeys {
		f.add("EXISTS (SELECT 1 FROM labels l WHERE l.sequence = o.sequence AND l.key = " + f.parameter(key) + ")")
	}
	return f
}

// page is the filter of one page, with one row more than the limit, which says that there are more.
func (f *filter) page(query Query) *filter {
	page := &filter{conditions: slices.Clone(f.conditions), arguments: slices.Clone(f.arguments)}
	if query.After > 0 {
		page.add("o.sequence > " + page.parameter(query.After))
	}
	page.tail = " ORDER BY o.sequence"
	// SQLite parses a statement anew at every use when the limit is a parameter.
	if query.Limit > 0 {
		page.tail += " LIMIT " + strconv.Itoa(query.Limit+1)
	} else if query.Offset > 0 {
		page.tail += " LIMIT " + strconv.Itoa(math.MaxInt)
	}
	if query.Offset > 0 {
		page.tail += " OFFSET " + page.parameter(query.Offset)
	}
	return page
}

const eventColumns = `revision, type, time, actor, kind, id, cluster_id, owner, platform, generation, text, document`

func scanEvent(scan scan) (Event, error) {
	var e Event
	var at int64
	err := scan(&e.Revision, &e.Type, &at, &e.Actor, (*string)(&e.Object.Kind), &e.Object.ID, &e.ClusterID, &e.Owner, &e.Platform,
		&e.Generation, &e.Text, &e.Document)
	e.Time, e.Document = instant(at), some(e.Document)
	return e, err
}

// Events reads past events, the newest first; all of a revision or none of it, so that Before can be the last one's. There are
// more than the limit only when one revision alone has more. A limit of 0 is none.
func (d *DB) Events(ctx context.Context, query EventQuery) ([]Event, error) {
	f := filter{conditions: []string{"1 = 1"}}
	f.equal("owner", query.Owner)
	f.equal("id", query.ObjectID)
	f.equal("cluster_id", query.ClusterID)
	f.in("platform", query.Platforms)
	return whole(f, "SELECT "+eventColumns+" FROM events", query.Before, query.Limit, scanEvent, func(e Event) int64 { return e.Revision }, d.reader(ctx))
}

// Audit reads entries, the newest first, as Events does.
func (d *DB) Audit(ctx context.Context, query AuditQuery) ([]AuditEntry, error) {
	f := filter{conditions: []string{"1 = 1"}}
	f.equal("object_id", query.ObjectID)
	f.equal("actor", query.Actor)
	const statement = `SELECT revision, time, actor, action, resource, object_id, before, after, request_id FROM audit`
	return whole(f, statement, query.Before, query.Limit, func(scan scan) (AuditEntry, error) {
		var e AuditEntry
		var at int64
		err := scan(&e.Revision, &at, &e.Actor, &e.Action, &e.Resource, &e.ObjectID, &e.Before, &e.After, &e.RequestID)
		e.Time = instant(at)
		return e, err
	}, func(e AuditEntry) int64 { return e.Revision }, d.reader(ctx))
}

// whole reads what stands before a revision, the newest first, and leaves the last revision out when the limit cuts it.
func whole[T any](f filter, statement string, before int64, limit int, read func(scan) (T, error), revision func(T) int64, query query) ([]T, error) {
	complete := f
	complete.conditions, complete.arguments = slices.Clone(f.conditions), slices.Clone(f.arguments)
	if before > 0 {
		f.add("revision < " + f.parameter(before))
	}
	f.tail = " ORDER BY revision DESC, number DESC"
	if limit > 0 {
		f.tail += " LIMIT " + f.parameter(limit+1)
	}
	values, err := all(statement+" WHERE "+f.String(), f.arguments, read, query)
	if err != nil || limit <= 0 || len(values) <= limit {
		return values, err
	}
	last := revision(values[limit])
	kept := slices.IndexFunc(values, func(value T) bool { return revision(value) == last })
	if kept > 0 {
		return values[:kept], nil
	}
	complete.add("revision = " + complete.parameter(last))
	complete.tail = " ORDER BY number DESC"
	return all(statement+" WHERE "+complete.String(), complete.arguments, read, query)
}

// EventsAfter reads events after a revision. There are more than the limit only when one revision alone has more. A revision that
// was never reached, as after a backup was restored, is ErrExpired too. See Store.
func (d *DB) EventsAfter(ctx context.Context, revision int64, limit int) ([]Event, error) {
	reader := d.reader(ctx)
	const statement = "SELECT " + eventColumns + " FROM events WHERE "
	events, err := all(statement+"revision > ?1 ORDER BY revision, number LIMIT ?2", []any{revision, limit + 1}, scanEvent, reader)
	if err != nil {
		return nil, err
	}
	// The floor is read after the events: when it is not above the revision now, it was not then.
	var floor, latest int64
	if _, err := one(`SELECT floor, revision FROM state`, nil, func(scan scan) (int, error) { return 0, scan(&floor, &latest) }, reader); err != nil {
		return nil, err
	}
	if revision < floor || revision > latest {
		return nil, ErrExpired
	}
	if len(events) <= limit {
		return events, nil
	}
	last := events[limit].Revision
	if kept := slices.IndexFunc(events, func(event Event) bool { return event.Revision == last }); kept > 0 {
		return events[:kept], nil
	}
	return all(statement+"revision = ?1 ORDER BY number", []any{last}, scanEvent, reader)
}
