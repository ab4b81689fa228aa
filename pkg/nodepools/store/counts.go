package store

import (
	"context"
	"time"
)

// Count is how many objects are alike.
type Count struct {
	Kind            Kind
	Platform, Phase string
	Objects         int
}

// Counts counts the objects, by kind, platform and phase.
func (d *DB) Counts(ctx context.Context) ([]Count, error) {
	const statement = `SELECT kind, platform, phase, count(*) FROM objects GROUP BY kind, platform, phase`
	return all(statement, nil, func(scan scan) (Count, error) {
		var c Count
		err := scan((*string)(&c.Kind), &c.Platform, &c.Phase, &c.Objects)
		return c, err
	}, d.reader(ctx))
}

// Longest is how long the object that waits longest to be worked on has waited; 0 when none waits.
func (d *DB) Longest(ctx context.Context) (time.Duration, error) {
	const statement = `SELECT coalesce(min(due), 0) FROM work WHERE due > 0 AND due <= ?1 AND (running = 0 OR until <= ?1)`
	now := time.Now()
	due, err := one(statement, []any{micros(now)}, scanInt64, d.reader(ctx))
	if err != nil || due == 0 {
		return 0, err
	}
	return now.Sub(instant(due)), nil
}
