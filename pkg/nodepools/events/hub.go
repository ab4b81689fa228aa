package events

import (
	"context"
	"sort"
	"sync"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// Source is where events are read from; a store.Store is one.
type Source interface {
	EventsAfter(ctx context.Context, revision int64, limit int) ([]store.Event, error)
	Changed(revision int64) <-chan struct{}
	Revision(ctx context.Context) (int64, error)
}

const (
	// kept is how many of the newest events the hub remembers for all watchers.
	kept = 4096
	// chunk is how many events are read at once.
	chunk = 500
)

// Hub gives events to any number of watchers, and reads each event from its source once for all that keep up. Watchers take events
// when they are ready for them: nothing is queued for a slow one, which reads from the source what the hub has forgotten meanwhile,
// and nothing is lost for it. Only where the source does not keep the events any more, it is told so.
type Hub struct {
	source Source

	// reading is held by the one watcher that reads for all.
	reading sync.Mutex

	mutex sync.RWMutex
	// newest are all events of the revisions after base, up to head, the oldest first. Its elements never change.
	newest     []*Entry
	base, head int64
	started    bool
}

// NewHub returns a hub.
func NewHub(source Source) *Hub { return &Hub{source: source} }

// Watch sends the events after a revision, in their order, until the context ends or send fails, whose error it returns as it is. The
// error is store.ErrExpired when events after the revision are no longer kept, or when there is no such revision yet: read anew, then
// watch from what was read. Send gets at least one entry, and whole revisions.
func (h *Hub) Watch(ctx context.Context, since int64, send func([]*Entry) error) error {
	if err := h.start(ctx); err != nil {
		return err
	}
	revision, err := h.source.Revision(ctx)
	if err != nil {
		return err
	}
	if since > revision {
		return errors.Wrapf(store.ErrExpired, "revision %d is not there yet", since)
	}
	for position := since; ; {
		found, next, err := h.next(ctx, position)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			if err := send(found); err != nil {
				return err
			}
		}
		position = next
	}
}

// start has the hub remember events from now on.
func (h *Hub) start(ctx context.Context) error {
	h.reading.Lock()
	defer h.reading.Unlock()
	if h.started {
		return nil
	}
	revision, err := h.source.Revision(ctx)
	if err != nil {
		return err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.base, h.head, h.started = revision, revision, true
	return nil
}

// next returns the events after a position, and the position after them. It waits until there are some.
func (h *Hub) next(ctx context.Context, position int64) ([]*Entry, int64, error) {
	for {
		found, head, forgotten := h.recall(position)
		switch {
		case forgotten:
			return h.readOld(ctx, position)
		case head > position:
			return found, head, nil
		}
		// The source is asked when it has something, not by each watcher that has all.
		select {
		case <-ctx.Done():
			return nil, position, ctx.Err()
		case <-h.source.Changed(position):
		}
		if err := h.read(ctx, position); err != nil {
			return nil, position, err
		}
	}
}

// recall returns what the hub remembers after a position; forgotten says that it does not remember all of it.
func (h *Hub) recall(position int64) (found []*Entry, head int64, forgotten bool) {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	if position < h.base {
		return nil, 0, true
	}
	first := sort.Search(len(h.newest), func(i int) bool { return h.newest[i].Revision > position })
	return h.newest[first:len(h.newest):len(h.newest)], h.head, false
}

// readOld reads what the hub has forgotten.
func (h *Hub) readOld(ctx context.Context, position int64) ([]*Entry, int64, error) {
	h.mutex.RLock()
	base := h.base
	h.mutex.RUnlock()
	list, err := h.source.EventsAfter(ctx, position, chunk)
	if err != nil {
		return nil, position, err
	}
	if len(list) == 0 {
		// There is none up to base, which was there before this was read.
		return nil, base, nil
	}
	return entries(list), list[len(list)-1].Revision, nil
}

// read reads what is new, unless another watcher has done so meanwhile.
func (h *Hub) read(ctx context.Context, position int64) error {
	h.reading.Lock()
	defer h.reading.Unlock()
	h.mutex.RLock()
	head := h.head
	h.mutex.RUnlock()
	if head > position {
		return nil
	}
	// Not every revision has events. What is not found up to this one is not there.
	revision, err := h.source.Revision(ctx)
	if err != nil || revision <= head {
		return err
	}
	list, err := h.source.EventsAfter(ctx, head, chunk)
	if err != nil {
		if errors.Is(err, store.ErrExpired) {
			// Nobody has watched for so long that the events are gone: remember from here on.
			h.mutex.Lock()
			h.newest, h.base, h.head = nil, revision, revision
			h.mutex.Unlock()
			return nil
		}
		return err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.head = revision
	if len(list) > 0 {
		// There may be more than one chunk, and events that were committed after the revision was read.
		h.head = list[len(list)-1].Revision
		h.newest = append(h.newest, entries(list)...)
	}
	if over := len(h.newest) - kept; over > 0 {
		for over < len(h.newest) && !h.newest[over-1].Last {
			over++
		}
		h.base = h.newest[over-1].Revision
		h.newest = append([]*Entry(nil), h.newest[over:]...)
	}
	return nil
}
