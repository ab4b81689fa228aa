package store

import (
	"context"
	"time"

	"github.com/pkg/errors"
)

// Acquire takes the lease of an object. A holder that has it already keeps it, with the same token and a new time: give every
// attempt a holder of its own. See Store.
func (d *DB) Acquire(ctx context.Context, key Key, holder string, ttl time.Duration) (token int64, ok bool, err error) {
	const statement = `INSERT INTO leases (kind, id, holder, token, expires) VALUES (?1, ?2, ?3, 1, ?4) ` +
		`ON CONFLICT (kind, id) DO UPDATE SET holder = excluded.holder, expires = excluded.expires, ` +
		`token = CASE WHEN leases.holder = excluded.holder AND leases.expires > ?5 THEN leases.token ELSE leases.token + 1 END ` +
		`WHERE leases.holder = excluded.holder OR leases.expires <= ?5 RETURNING token`
	if err := valid("the lease", key.ID, holder); err != nil {
		return 0, false, err
	}
	err = d.write(ctx, false, func(tx *tx) error {
		now := tx.Now()
		token, err = one(statement, []any{string(key.Kind), key.ID, holder, micros(now.Add(ttl)), micros(now)}, scanInt64, tx.query)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return 0, false, nil
	}
	return token, err == nil, err
}

// Renew prolongs a lease. A lease whose time is over is still renewed, unless another has taken it. See Store.
func (d *DB) Renew(ctx context.Context, key Key, token int64, ttl time.Duration) (bool, error) {
	const statement = `UPDATE leases SET expires = ?4 WHERE kind = ?1 AND id = ?2 AND token = ?3 AND expires > 0 RETURNING 1`
	err := d.write(ctx, false, func(tx *tx) error {
		_, err := one(statement, []any{string(key.Kind), key.ID, token, micros(tx.Now().Add(ttl))}, scanInt, tx.query)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Release ends a lease. One that is another's by now is left to it. See Store.
func (d *DB) Release(ctx context.Context, key Key, token int64) error {
	const statement = `UPDATE leases SET expires = 0 WHERE kind = ?1 AND id = ?2 AND token = ?3`
	return d.write(ctx, false, func(tx *tx) error { return tx.send(statement, string(key.Kind), key.ID, token) })
}

// Lease tells who has, or had last, the lease of an object. See Store.
func (d *DB) Lease(ctx context.Context, key Key) (holder string, expires time.Time, err error) {
	const statement = `SELECT holder, expires FROM leases WHERE kind = ?1 AND id = ?2`
	expires, err = one(statement, []any{string(key.Kind), key.ID}, func(scan scan) (time.Time, error) {
		var until int64
		err := scan(&holder, &until)
		return instant(until), err
	}, d.reader(ctx))
	return holder, expires, err
}
