package store

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
)

// batchTime is how long a batch takes more transactions in before it commits those it has.
const batchTime = 100 * time.Millisecond

// request is a function that waits to be run.
type request struct {
	function func(*tx) error
	// revised says that the transaction has a revision of its own.
	revised bool
	taken   atomic.Bool // by the batch, or by the caller who gave it up
	done    chan error
	// panicked is what the function panicked with; the caller's goroutine goes on with it.
	panicked any
}

// Write runs a function in a transaction of its own revision. See Store. When the context ends before the function was begun,
// nothing is written and the error is the context's; after that, Write waits for the outcome.
func (d *DB) Write(ctx context.Context, function func(tx Tx) error) error {
	return d.write(ctx, true, func(tx *tx) error { return function(tx) })
}

func (d *DB) write(ctx context.Context, revised bool, function func(*tx) error) error {
	r := &request{function: function, revised: revised, done: make(chan error, 1)}
	if err := d.enqueue(ctx, r); err != nil {
		return err
	}
	var err error
	select {
	case err = <-r.done:
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return errors.Wrap(ctx.Err(), "wait for the transaction to begin")
		}
		err = <-r.done
	}
	if r.panicked != nil {
		panic(r.panicked)
	}
	return err
}

func (d *DB) enqueue(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return errors.Wrap(err, "wait for the transaction to begin")
	}
	d.closing.RLock()
	defer d.closing.RUnlock()
	if d.closed.Load() {
		return ErrClosed
	}
	select {
	case d.requests <- r:
		return nil
	case <-ctx.Done():
		return errors.Wrap(ctx.Err(), "wait for the transaction to begin")
	}
}

// commitAll runs all transactions, until the channel of requests is closed.
func (d *DB) commitAll() {
	drained := false
	defer func() {
		if drained {
			close(d.done)
			return
		}
		// A function has ended this goroutine, as the Fatal of a test does; the transactions of others must go on.
		go d.commitAll()
	}()
	for first := range d.requests {
		if d.closed.Load() {
			if first.taken.CompareAndSwap(false, true) {
				first.done <- ErrClosed
			}
			continue
		}
		if first.taken.CompareAndSwap(false, true) {
			d.commitBatch(first)
		}
	}
	drained = true
}

// commitBatch runs a function and those that wait behind it, commits once, and tells all of them. A function that fails is
// undone by itself.
func (d *DB) commitBatch(first *request) {
	// The callers' contexts end with their requests; a batch does not.
	ctx := d.background
	batch := []*request{first}
	answers := []error{nil}
	answered := false
	fail := func(err error) {
		answered = true
		for i, r := range batch {
			if answers[i] == nil {
				d.stats.failed.Add(1)
				r.done <- err
			} else {
				r.done <- answers[i]
			}
		}
	}
	transaction, state, err := d.backend.begin(ctx)
	if err != nil {
		fail(errors.Wrap(err, "begin a transaction"))
		return
	}
	finished := false
	defer func() {
		if !finished {
			transaction.rollback()
		}
		if !answered {
			fail(errors.New("a function of the batch ended its goroutine: it must return"))
		}
	}()
	begun := time.Now()
	var jobs []job
	changed := false
	for i := 0; ; i++ {
		tx := &tx{transaction: transaction, state: state}
		if batch[i].revised {
			tx.state.revision++
		}
		answer, err := tx.run(batch[i])
		if err != nil {
			fail(errors.Wrap(err, "run a transaction"))
			return
		}
		if answers[i] = answer; answer == nil {
			state, changed = tx.state, true
			jobs = append(jobs, tx.jobs...)
		}
		next := d.next(len(batch), begun)
		if next == nil {
			break
		}
		batch, answers = append(batch, next), append(answers, nil)
	}
	if !changed {
		finished = true
		transaction.rollback()
		fail(nil)
		return
	}
	if len(jobs) > 0 {
		if err := transaction.insert(jobs); err != nil {
			fail(errors.Wrap(err, "add jobs"))
			return
		}
	}
	finished = true
	if unknown, err := transaction.commit(state); err != nil {
		if unknown {
			d.changes.poke()
			err = errors.WithMessage(ErrUnknown, err.Error())
		}
		fail(errors.Wrap(err, "commit"))
		return
	}
	answered = true
	d.stats.batches.Add(1)
	d.changes.reached(state.revision)
	for i, r := range batch {
		if answers[i] == nil {
			d.stats.transactions.Add(1)
		}
		r.done <- answers[i]
	}
}

// next is the request that a batch takes in, nil when it is to commit.
func (d *DB) next(taken int, begun time.Time) *request {
	if taken >= d.options.Batch || time.Since(begun) > batchTime {
		return nil
	}
	for yielded := false; ; {
		select {
		case r, open := <-d.requests:
			if !open {
				return nil
			}
			if r.taken.CompareAndSwap(false, true) {
				return r
			}
		default:
			if yielded {
				return nil
			}
			// Who was told of the last commit may have its next transaction ready: a commit costs more than a moment.
			yielded = true
			runtime.Gosched()
		}
	}
}

// run runs the function of a request between savepoints. The answer is the function's; the error is one of the transaction,
// which fails all of the batch.
func (t *tx) run(r *request) (answer, err error) {
	t.transaction.send(nil, "SAVEPOINT one")
	func() {
		defer func() {
			if r.panicked = recover(); r.panicked != nil {
				answer = errors.New("the function panicked")
			}
			t.ended = true
		}()
		answer = r.function(t)
	}()
	if answer == nil {
		answer = t.transaction.flush()
	}
	if answer == nil {
		t.transaction.send(nil, "RELEASE SAVEPOINT one")
		return nil, nil
	}
	// Statements that were sent and not waited for may have failed too; they are undone with the others.
	_ = t.transaction.flush()
	t.transaction.send(nil, "ROLLBACK TO SAVEPOINT one")
	t.transaction.send(nil, "RELEASE SAVEPOINT one")
	return answer, t.transaction.flush()
}
