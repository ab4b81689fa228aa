package store

import (
	"context"
	"time"

	"github.com/pkg/errors"
)

// pruned is how many rows one transaction removes: it must not keep others waiting.
const pruned = 500

// Prune removes what is older than it is kept. See Store and Options. Events and audit entries go from the oldest; who watches from
// before the events that are left is told ErrExpired.
func (d *DB) Prune(ctx context.Context) error {
	now := time.Now()
	for _, table := range []struct {
		name, time, keys string
		before           time.Time
	}{
		{"tombstones", "time", "kind, id", now.Add(-d.options.KeepTombstones)},
		{"idempotent", "expires", "actor, key", now},
	} {
		statement := `DELETE FROM ` + table.name + ` WHERE (` + table.keys + `) IN ` +
			`(SELECT ` + table.keys + ` FROM ` + table.name + ` WHERE ` + table.time + ` <= ?1 LIMIT ?2) RETURNING 1`
		err := d.pruneAll(ctx, table.name, func(tx *tx) (int, error) {
			rows, err := all(statement, []any{micros(table.before), pruned}, scanInt, tx.query)
			return len(rows), err
		})
		if err != nil {
			return err
		}
	}
	for _, table := range []struct {
		name, floor string
		before      time.Time
	}{
		{"audit", ``, now.Add(-d.options.KeepAudit)},
		{"events", `UPDATE state SET floor = ?1`, now.Add(-d.options.KeepEvents)},
	} {
		if err := d.pruneAll(ctx, table.name, func(tx *tx) (int, error) { return pruneOldest(tx, table.name, table.floor, micros(table.before)) }); err != nil {
			return err
		}
	}
	return nil
}

// pruneAll runs a function until it removes less than it may.
func (d *DB) pruneAll(ctx context.Context, table string, prune func(tx *tx) (int, error)) error {
	for removed := pruned; removed == pruned; {
		err := d.write(ctx, false, func(tx *tx) (err error) {
			removed, err = prune(tx)
			return err
		})
		if err != nil {
			return errors.Wrapf(err, "prune the table %s", table)
		}
	}
	return nil
}

// pruneOldest removes the first rows of a table that is in the order of revisions. Their times do not run backwards, so the first
// that is too young ends it, and no more than what is removed is read.
func pruneOldest(tx *tx, table, floorStatement string, before int64) (removed int, err error) {
	type row struct{ revision, number, time int64 }
	oldest, err := all(`SELECT revision, number, time FROM `+table+` ORDER BY revision, number LIMIT ?1`, []any{pruned},
		func(scan scan) (row row, err error) { return row, scan(&row.revision, &row.number, &row.time) }, tx.query)
	if err != nil {
		return 0, err
	}
	var last row
	for _, row := range oldest {
		if row.time > before {
			break
		}
		last = row
		removed++
	}
	if removed == 0 {
		return 0, nil
	}
	err = tx.send(`DELETE FROM `+table+` WHERE revision < ?1 OR revision = ?1 AND number <= ?2`, last.revision, last.number)
	if err == nil && floorStatement != "" {
		err = tx.send(floorStatement, last.revision)
	}
	return removed, err
}
