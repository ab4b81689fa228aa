package store

import (
	"context"
	"sync"
	"time"
)

// changes tells who waits that the revision has risen.
type changes struct {
	mutex    sync.Mutex
	revision int64
	next     chan struct{} // closed, and made anew, at every rise
	waited   bool          // somebody has next
}

func newChanges(revision int64) *changes {
	return &changes{revision: revision, next: make(chan struct{})}
}

func (c *changes) latest() int64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.revision
}

// reached notes a revision that was committed.
func (c *changes) reached(revision int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if revision > c.revision {
		c.revision = revision
		c.wake()
	}
}

// poke has everybody look, as it is not known whether something was committed.
func (c *changes) poke() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.wake()
}

func (c *changes) wake() {
	close(c.next)
	c.next, c.waited = make(chan struct{}), false
}

func (c *changes) after(revision int64) <-chan struct{} {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.revision > revision {
		done := make(chan struct{})
		close(done)
		return done
	}
	c.waited = true
	return c.next
}

func (c *changes) isWaited() bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.waited
}

// Changed returns a channel that is closed when there may be events after the revision. See Store.
func (d *DB) Changed(revision int64) <-chan struct{} { return d.changes.after(revision) }

// listen learns what other processes write: by what the database tells, and by asking it as long as somebody waits.
func (d *DB) listen() {
	d.running.Go(func() { d.backend.listen(d.background, d.changes.reached) })
	ticker := time.NewTicker(d.options.Poll)
	defer ticker.Stop()
	for {
		select {
		case <-d.background.Done():
			return
		case <-ticker.C:
		}
		if !d.changes.isWaited() {
			continue
		}
		ctx, cancel := context.WithTimeout(d.background, 10*d.options.Poll)
		// A database that does not answer is asked again.
		if revision, err := d.Revision(ctx); err == nil {
			d.changes.reached(revision)
		}
		cancel()
	}
}
