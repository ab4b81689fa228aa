package service_test

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// recorder is a store that counts what is asked of it, notes what is enqueued, and fails on demand.
type recorder struct {
	store.Store
	mutex    sync.Mutex
	reads    int
	writes   int
	enqueued []store.Key
	failure  error
	// failEvent fails the next transaction when it writes its event.
	failEvent bool
	// failList fails lists, after the write that they follow.
	failList bool
	// onList is called before a list is read.
	onList func()
}

// recorded puts a recorder between a service and its store.
func recorded(into **recorder) func(*service.Options) {
	return func(options *service.Options) {
		*into = &recorder{Store: options.Store}
		options.Store = *into
	}
}

func (r *recorder) count(field *int) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	*field++
	return r.failure
}

func (r *recorder) Get(ctx context.Context, key store.Key) (store.Record, error) {
	if err := r.count(&r.reads); err != nil {
		return store.Record{}, err
	}
	return r.Store.Get(ctx, key)
}

func (r *recorder) Document(ctx context.Context, key store.Key) (store.Record, error) {
	if err := r.count(&r.reads); err != nil {
		return store.Record{}, err
	}
	return r.Store.Document(ctx, key)
}

func (r *recorder) List(ctx context.Context, query store.Query) (store.Page, error) {
	if err := r.count(&r.reads); err != nil {
		return store.Page{}, err
	}
	if r.failList {
		return store.Page{}, errors.New("the process ended")
	}
	if r.onList != nil {
		r.onList()
	}
	return r.Store.List(ctx, query)
}

func (r *recorder) Reports(ctx context.Context, key store.Key) ([]store.Report, error) {
	if err := r.count(&r.reads); err != nil {
		return nil, err
	}
	return r.Store.Reports(ctx, key)
}

func (r *recorder) Write(ctx context.Context, function func(tx store.Tx) error) error {
	if err := r.count(&r.writes); err != nil {
		return err
	}
	var noted []store.Key
	err := r.Store.Write(ctx, func(tx store.Tx) error {
		noted = nil
		return function(&recordingTx{Tx: tx, recorder: r, noted: &noted})
	})
	if err == nil {
		r.mutex.Lock()
		r.enqueued = append(r.enqueued, noted...)
		r.mutex.Unlock()
	}
	return err
}

// take returns what was enqueued since it was called last.
func (r *recorder) take() []store.Key {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	result := r.enqueued
	r.enqueued = nil
	return result
}

type recordingTx struct {
	store.Tx
	recorder *recorder
	noted    *[]store.Key
}

func (t *recordingTx) Enqueue(key store.Key, at time.Time) error {
	*t.noted = append(*t.noted, key)
	return t.Tx.Enqueue(key, at)
}

func (t *recordingTx) Event(event store.Event) error {
	if t.recorder.failEvent {
		return errors.New("the disk is full")
	}
	return t.Tx.Event(event)
}
