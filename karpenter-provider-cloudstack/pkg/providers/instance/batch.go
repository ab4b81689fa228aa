package instance

import (
	"context"
	"sync"
	"time"

	"github.com/samber/lo"
)

// roundTimeout bounds a round of questions. Requests of the client have limits of their own.
const roundTimeout = 2 * time.Minute

// batcher puts questions together that are asked at about the same time. An answer is of a request that began after the question, so it
// is as fresh as one that was asked for alone.
type batcher[V any] struct {
	// window is how long a round waits for further questions.
	window time.Duration
	// ask answers a round. Keys without an answer get the zero value.
	ask func(ctx context.Context, keys []string) (map[string]V, error)
	// running has a place for each round that may run; questions gather while all are taken.
	running chan struct{}

	mu   sync.Mutex
	next *round[V]
}

// round is a number of questions that are asked together.
type round[V any] struct {
	keys map[string]struct{}
	done chan struct{}
	got  map[string]V
	err  error
}

func newBatcher[V any](window time.Duration, parallel int, ask func(context.Context, []string) (map[string]V, error)) *batcher[V] {
	return &batcher[V]{window: window, ask: ask, running: make(chan struct{}, parallel)}
}

// get asks. The error is that of the whole round, or that of the context.
func (b *batcher[V]) get(ctx context.Context, key string) (V, error) {
	b.mu.Lock()
	if b.next == nil {
		b.next = &round[V]{keys: map[string]struct{}{}, done: make(chan struct{})}
		// A round outlives whoever began it, as others wait for it.
		go b.run(context.WithoutCancel(ctx), b.next)
	}
	r := b.next
	r.keys[key] = struct{}{}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.got[key], r.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

func (b *batcher[V]) run(ctx context.Context, r *round[V]) {
	time.Sleep(b.window)
	b.running <- struct{}{}
	defer func() { <-b.running }()
	b.mu.Lock()
	b.next = nil
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	defer close(r.done)
	r.got, r.err = b.ask(ctx, lo.Keys(r.keys))
}
