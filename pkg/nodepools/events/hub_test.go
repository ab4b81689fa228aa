package events_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// source is a store's events in memory.
type source struct {
	mutex    sync.Mutex
	events   []store.Event
	revision int64
	pruned   int64
	changed  chan struct{}
	reads    atomic.Int64
}

func newSource() *source { return &source{changed: make(chan struct{})} }

// add makes a revision with some events: none is possible.
func (s *source) add(count int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.revision++
	for range count {
		s.events = append(s.events, store.Event{Revision: s.revision, Type: "nodepool.updated", Object: store.Key{Kind: store.NodePool, ID: "x"}})
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *source) EventsAfter(_ context.Context, revision int64, limit int) ([]store.Event, error) {
	s.reads.Add(1)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if revision < s.pruned {
		return nil, store.ErrExpired
	}
	var result []store.Event
	for i, event := range s.events {
		if event.Revision > revision {
			result = append(result, event)
		}
		if len(result) >= limit && i+1 < len(s.events) && s.events[i+1].Revision != event.Revision {
			break
		}
	}
	return result, nil
}

func (s *source) Changed(revision int64) <-chan struct{} {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.revision > revision {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return s.changed
}

func (s *source) Revision(context.Context) (int64, error) {
	s.reads.Add(1)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.revision, nil
}

var errEnough = errors.New("enough")

// collect watches until there are count events, and checks that whole revisions come in order.
func collect(t *testing.T, hub *events.Hub, since int64, count int, each func()) []int64 {
	t.Helper()
	var result []int64
	err := hub.Watch(t.Context(), since, func(found []*events.Entry) error {
		for i, entry := range found {
			if last := i+1 == len(found) || found[i+1].Revision != entry.Revision; entry.Last != last {
				t.Errorf("entry %d of revision %d: last is %t", i, entry.Revision, entry.Last)
			}
			result = append(result, entry.Revision)
		}
		if each != nil {
			each()
		}
		if len(result) >= count {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("watch: %v after %d events", err, len(result))
	}
	return result
}

func TestHubGivesEverythingOnce(t *testing.T) {
	t.Parallel()
	from := newSource()
	hub := events.NewHub(from)
	for range 700 {
		from.add(1)
	}
	var want []int64
	const total = 700 + 400*3/2
	var group sync.WaitGroup
	results := make([][]int64, 8)
	for i := range results {
		group.Go(func() { results[i] = collect(t, hub, int64(i*50), total-i*50, nil) })
	}
	for i := range 400 {
		from.add(i % 4)
	}
	group.Wait()
	for _, event := range from.events {
		want = append(want, event.Revision)
	}
	for i, got := range results {
		if !slices.Equal(got, want[i*50:]) {
			t.Errorf("watcher %d got %d events, want %d", i, len(got), len(want)-i*50)
		}
	}
}

func TestHubReadsOnceForAll(t *testing.T) {
	t.Parallel()
	from := newSource()
	hub := events.NewHub(from)
	var group, ready sync.WaitGroup
	for range 200 {
		ready.Add(1)
		group.Go(func() {
			first := sync.OnceFunc(ready.Done)
			collect(t, hub, 0, 2, first)
		})
	}
	from.add(1)
	ready.Wait()
	before := from.reads.Load()
	from.add(1)
	group.Wait()
	// The revision and its event are read once each.
	if reads := from.reads.Load() - before; reads > 2 {
		t.Errorf("an event for 200 watchers was read %d times", reads)
	}
}

// TestHubSlowWatcher checks that a watcher that is slower than the hub remembers loses nothing.
func TestHubSlowWatcher(t *testing.T) {
	t.Parallel()
	from := newSource()
	hub := events.NewHub(from)
	from.add(1)
	flood := sync.OnceFunc(func() {
		for range 9000 {
			from.add(1)
		}
		// Somebody else has the hub go on, so that it forgets.
		collect(t, hub, 1, 9000, nil)
	})
	got := collect(t, hub, 0, 9001, flood)
	for i, revision := range got {
		if revision != int64(i)+1 {
			t.Fatalf("event %d has the revision %d", i, revision)
		}
	}
}

func TestHubExpired(t *testing.T) {
	t.Parallel()
	from := newSource()
	for range 10 {
		from.add(1)
	}
	from.pruned = 5
	hub := events.NewHub(from)
	for _, since := range []int64{3, 11} {
		if err := hub.Watch(t.Context(), since, nil); !errors.Is(err, store.ErrExpired) {
			t.Errorf("watch from %d: %v", since, err)
		}
	}
	if got := collect(t, hub, 5, 5, nil); len(got) != 5 {
		t.Errorf("watch from 5: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := hub.Watch(ctx, 10, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("watch without end: %v", err)
	}
}
