package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/pkg/errors"
)

// lists reads each list once for all who ask for it at the same time: dashboards and controllers ask for the same one over and over. What a
// read finds was committed before it began, so nobody joins one that has begun.
type lists struct {
	mutex sync.Mutex
	// running are the lists that are being read, with who waits for the next read of them; nil when nobody does.
	running map[string]*reading
}

// reading is one read that several wait for.
type reading struct {
	page Page
	err  error
	done chan struct{}
}

// List reads a page of objects. A limit of 0 is none; the total is that of all pages. The records may be those of others who asked for the
// same: they are not to be changed. See Store.
func (d *DB) List(ctx context.Context, query Query) (Page, error) {
	key := fmt.Sprintf("%#v", query)
	d.lists.mutex.Lock()
	next, busy := d.lists.running[key]
	if !busy {
		d.lists.running[key] = nil
		d.lists.mutex.Unlock()
		page, err := d.list(ctx, query)
		d.lists.end(d, key, query)
		return page, err
	}
	if next == nil {
		next = &reading{done: make(chan struct{})}
		d.lists.running[key] = next
	}
	d.lists.mutex.Unlock()
	select {
	case <-next.done:
		return next.page, next.err
	case <-ctx.Done():
		return Page{}, errors.Wrap(ctx.Err(), "read the database")
	}
}

// end ends the reading of a list, and reads it again for those who have come meanwhile.
func (l *lists) end(d *DB, key string, query Query) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	next := l.running[key]
	if next == nil {
		delete(l.running, key)
		return
	}
	l.running[key] = nil
	go func() {
		// The contexts of those who wait end with their requests; those of the others do not.
		ctx, cancel := context.WithTimeout(d.background, batchTimeout)
		defer cancel()
		next.page, next.err = d.list(ctx, query)
		close(next.done)
		l.end(d, key, query)
	}()
}
