// Package cache keeps what CloudStack says about things that seldom change: zones, networks, templates, service offerings.
package cache

import (
	"context"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// retryAfter is how long old values are served without a further request, after one that failed.
	retryAfter = 30 * time.Second
	// patience is how long a caller waits for a new value where there is an old one.
	patience = 5 * time.Second
)

// Cache keeps values by key. A key is loaded once for all who ask at the same time. Where loading fails or takes long, the value from
// before is served, however old it is: this is for catalogues, never for what machines there are. It is safe for concurrent use.
type Cache[V any] struct {
	name   string
	ttl    time.Duration
	clock  clock.Clock
	flight singleflight.Group

	mu       sync.Mutex
	sequence uint64
	entries  map[string]entry[V]
}

// entry is a value, and when it was loaded. It is exchanged, never changed.
type entry[V any] struct {
	value    V
	sequence uint64
	loaded   time.Time
	retryAt  time.Time
}

// New makes a cache whose values are loaded again after ttl. The name is the label of its metrics.
func New[V any](name string, ttl time.Duration, clk clock.Clock) *Cache[V] {
	return &Cache[V]{name: name, ttl: ttl, clock: clk, entries: map[string]entry[V]{}}
}

// Get returns the value of a key, which all callers share and none may change. The error is that of load, where there is no value from
// before, or that of the context.
func (c *Cache[V]) Get(ctx context.Context, key string, load func(context.Context) (V, error)) (V, error) {
	value, _, err := c.GetWithin(ctx, key, c.ttl, load)
	return value, err
}

// GetWithin is Get with a value that is not older than maxAge, unless loading fails. The number that it returns besides is another one
// whenever the value differs from that before, and is never that of another key.
func (c *Cache[V]) GetWithin(ctx context.Context, key string, maxAge time.Duration, load func(context.Context) (V, error)) (V, uint64, error) {
	now := c.clock.Now()
	old, known := c.entry(key)
	switch {
	case known && now.Sub(old.loaded) < min(maxAge, c.ttl):
		Hit(c.name)
		return old.value, old.sequence, nil
	case known && now.Before(old.retryAt):
		stale.WithLabelValues(c.name).Inc()
		return old.value, old.sequence, nil
	}
	Miss(c.name)
	var impatient <-chan time.Time
	if known {
		timer := c.clock.NewTimer(patience)
		defer timer.Stop()
		impatient = timer.C()
	}
	// The loading outlives whoever began it, as others may wait for it; its requests have limits of their own.
	done := c.flight.DoChan(key, func() (any, error) {
		if since, loaded := c.entry(key); loaded && !since.loaded.Equal(old.loaded) {
			return nil, nil // another loading ended between the look and here
		}
		return nil, c.load(context.WithoutCancel(ctx), key, load)
	})
	select {
	case result := <-done:
		if result.Err != nil && !known {
			var none V
			return none, 0, result.Err
		}
		if result.Err != nil {
			stale.WithLabelValues(c.name).Inc()
		}
	case <-impatient:
		stale.WithLabelValues(c.name).Inc()
	case <-ctx.Done():
		var none V
		return none, 0, ctx.Err()
	}
	got, _ := c.entry(key)
	return got.value, got.sequence, nil
}

func (c *Cache[V]) entry(key string) (entry[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, known := c.entries[key]
	return e, known
}

func (c *Cache[V]) load(ctx context.Context, key string, load func(context.Context) (V, error)) error {
	value, err := load(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	old, known := c.entries[key]
	switch {
	case err != nil && known:
		old.retryAt = now.Add(retryAfter)
		c.entries[key] = old
		log.FromContext(ctx).Info("what CloudStack said before is used, as it cannot be asked", "cache", c.name,
			"age", now.Sub(old.loaded).Round(time.Second).String(), "error", err.Error())
		return err
	case err != nil:
		return err
	case known && reflect.DeepEqual(old.value, value):
		old.loaded, old.retryAt = now, time.Time{}
		c.entries[key] = old
	default:
		c.sequence++
		c.entries[key] = entry[V]{value: value, sequence: c.sequence, loaded: now}
	}
	return nil
}
