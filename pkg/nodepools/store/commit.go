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

// commitBatch runs a function and those that wait behind it, and commits once. When the database refuses a statement, it is not known
// whose it was: then each function runs again, in a transaction of its own.
func (d *DB) commitBatch(first *request) {
	rest := d.commitTogether(first, false)
	defer func() {
		for _, r := range rest { // one of them ended this goroutine
			d.stats.failed.Add(1)
			r.done <- errEnded
		}
	}()
	for len(rest) > 0 {
		r := rest[0]
		rest = rest[1:]
		d.commitTogether(r, true)
	}
}

// carefulBatches is how many batches ask first, after one that had to run again: who makes what is there already mostly does so again.
const carefulBatches = 100

var errEnded = errors.New("a function of the batch ended its goroutine: it must return")

// commitTogether runs a function, and those that wait behind it unless it is to be alone, commits once, and tells all of them. A function
// that fails is undone by itself. Those that it returns were not told, as they have to run again, one by one.
func (d *DB) commitTogether(first *request, alone bool) (again []*request) {
	d.begun.Store(time.Now().UnixNano())
	defer d.begun.Store(0)
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
		return nil
	}
	finished := false
	defer func() {
		if !finished {
			transaction.rollback()
		}
		if !answered {
			fail(errEnded)
			for _, r := range again {
				d.stats.failed.Add(1)
				r.done <- errEnded
			}
		}
	}()
	// broken ends a batch whose transaction is of no use any more.
	broken := func(err error) []*request {
		if alone || transaction.lost(err) {
			fail(err)
			return again
		}
		answered = true
		d.careful = carefulBatches
		return append(again, batch...)
	}
	begun := time.Now()
	known := d.knownAt(state.revision, transaction.pipelines())
	known.optimistic = !alone && d.careful == 0
	d.careful = max(0, d.careful-1)
	var done []*tx
	for {
		i := len(batch) - 1
		tx := &tx{transaction: transaction, state: state, known: known}
		if batch[i].revised {
			tx.state.revision++
		}
		answer, err := tx.run(batch[i])
		if err != nil {
			if alone && answer != nil {
				answers[i] = answer
			}
			return broken(errors.Wrap(err, "run a transaction"))
		}
		switch answers[i] = answer; {
		case answer == nil:
			state = tx.state
			done = append(done, tx)
			transaction.push()
		case tx.guessed:
			// Its guess was never looked at, and it might have failed with another error.
			again = append(again, batch[i])
			batch, answers = batch[:i], answers[:i]
		}
		if alone {
			break
		}
		next := d.next(len(batch)+len(again), begun)
		if next == nil {
			break
		}
		batch, answers = append(batch, next), append(answers, nil)
	}
	if len(done) == 0 {
		finished = true
		transaction.rollback()
		fail(nil)
		return again
	}
	known.sendRows(transaction)
	jobs, err := jobsOf(transaction, done)
	if err == nil && len(jobs) > 0 {
		err = errors.Wrap(transaction.insert(jobs), "add jobs")
	}
	if err != nil {
		return broken(err)
	}
	unknown, err := transaction.commit(state)
	finished = true
	switch {
	case err != nil && unknown:
		d.changes.poke()
		fail(errors.Wrap(errors.WithMessage(ErrUnknown, err.Error()), "commit"))
		return again
	case err != nil:
		return broken(errors.Wrap(err, "commit"))
	}
	answered = true
	known.revision, known.rows = state.revision, nil
	d.known = known
	d.stats.batches.Add(1)
	d.changes.reached(state.revision)
	for i, r := range batch {
		if answers[i] == nil {
			d.stats.transactions.Add(1)
		}
		r.done <- answers[i]
	}
	return again
}

// jobsOf are the jobs that transactions asked for. Those whose object was removed meanwhile are left out, which would find out by
// themselves that there is nothing to work on.
func jobsOf(transaction transaction, done []*tx) (jobs []job, err error) {
	for _, tx := range done {
		if tx.enqueued {
			// The database says whether a job is to be given out.
			if err := transaction.flush(); err != nil {
				return nil, err
			}
			break
		}
	}
	for _, tx := range done {
		for _, job := range tx.jobs {
			if !tx.removed[job.key()] {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs, nil
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

// run runs the function of a request. The answer is the function's; the error is one of the transaction, which is of no use after it.
func (t *tx) run(r *request) (answer, err error) {
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
		// What is sent is waited for with what follows it.
		t.spill()
		if t.saved {
			t.transaction.send(nil, "RELEASE SAVEPOINT one")
		}
		t.known.forget(t)
		return nil, t.failed
	}
	if !t.saved || t.failed != nil {
		return answer, t.failed // nothing was sent, or nothing can be saved
	}
	// Statements that were sent and not waited for may have failed too; they are undone with the others.
	_ = t.transaction.flush()
	t.transaction.send(nil, "ROLLBACK TO SAVEPOINT one")
	t.transaction.send(nil, "RELEASE SAVEPOINT one")
	return answer, t.transaction.flush()
}
