package store

import (
	"maps"
	"strings"
)

// known is what the transactions of a batch have read: no other process writes while a batch runs, so that it need not be read again.
type known struct {
	records map[Key]Record
	reports map[Key][]Report
	// controllers are nil when they were not read.
	controllers *[]Controller
	// optimistic has objects made without asking first whether they can be.
	optimistic bool
	// rows are those that are inserted at the end, all of a statement together; nil where a statement for each costs no more.
	rows map[string]*rows
	// revision is that of the batch's end.
	revision int64
}

// knownAt is what a batch knows that begins at a revision: the controllers, when nobody has written since the last batch of this process.
func (d *DB) knownAt(revision int64, pipelines bool) *known {
	fresh := &known{records: map[Key]Record{}, reports: map[Key][]Report{}}
	if pipelines {
		fresh.rows = map[string]*rows{insertEvent: {}, insertAudit: {}}
	}
	if d.known != nil && d.known.revision == revision {
		fresh.controllers = d.known.controllers
	}
	return fresh
}

// record returns a copy.
func (k *known) record(key Key) (Record, bool) {
	record, ok := k.records[key]
	record.Labels = maps.Clone(record.Labels)
	return record, ok
}

// forget forgets what a transaction wrote.
func (k *known) forget(t *tx) {
	for key := range t.written {
		delete(k.records, key)
		delete(k.reports, key)
	}
	if t.wroteControllers {
		k.controllers = nil
	}
}

// rows are the rows of an INSERT, by column: of int64, string and []byte.
type rows struct {
	columns []any
	count   int
}

func (r *rows) add(arguments []any) {
	if r.columns == nil {
		r.columns = make([]any, len(arguments))
	}
	for i, argument := range arguments {
		switch argument := argument.(type) {
		case int64:
			column, _ := r.columns[i].([]int64)
			r.columns[i] = append(column, argument)
		case string:
			column, _ := r.columns[i].([]string)
			r.columns[i] = append(column, argument)
		case []byte:
			column, _ := r.columns[i].([][]byte)
			r.columns[i] = append(column, argument)
		}
	}
	r.count++
}

// manyRows are the INSERTs of many rows, by those of one.
var manyRows = map[string]string{
	insertEvent: many(insertEvent, "bigint bigint text bigint text text text text text text bigint text bytea"),
	insertAudit: many(insertAudit, "bigint bigint bigint text text text text text text text"),
}

// many makes the INSERT of one row that of many, whose columns are arrays.
func many(statement, types string) string {
	before, after, _ := strings.Cut(statement, "VALUES (")
	marks := strings.Split(strings.TrimSuffix(after, ")"), ", ")
	for i, name := range strings.Fields(types) {
		marks[i] = "CAST(" + marks[i] + " AS " + name + "[])"
	}
	return before + "SELECT * FROM unnest(" + strings.Join(marks, ", ") + ")"
}

// sendRows sends the rows that were kept for the end.
func (k *known) sendRows(transaction transaction) {
	for _, statement := range []string{insertEvent, insertAudit} {
		if rows := k.rows[statement]; rows != nil && rows.count > 0 {
			transaction.send(nil, manyRows[statement], rows.columns...)
		}
	}
}
