package store_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// occupy keeps the database writing until release is called.
func occupy(t *testing.T, db *store.DB) (release func()) {
	t.Helper()
	begun, ended, wait := make(chan struct{}), make(chan struct{}), sync.WaitGroup{}
	begin := sync.OnceFunc(func() { close(begun) }) // the function may run again
	wait.Go(func() {
		if err := db.Write(context.Background(), func(store.Tx) error {
			begin()
			<-ended
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	return sync.OnceFunc(func() {
		close(ended)
		wait.Wait()
	})
}

func TestWriteThatIsGivenUp(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		release := occupy(t, db)
		defer release()
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error)
		go func() { result <- db.Write(ctx, func(tx store.Tx) error { return put(tx, pool("given up"), nil) }) }()
		for db.Stats().Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the context's error", err)
		}
		release()
		write(t, db, func(tx store.Tx) error {
			if _, err := tx.Get(pool("given up")); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the function ran: %v", err)
			}
			return nil
		})
		if err := db.Write(ctx, func(store.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the context's error", err)
		}
		// Once it has begun, the outcome is the answer, whatever the context does.
		ctx, cancel = context.WithCancel(context.Background())
		if err := db.Write(ctx, func(tx store.Tx) error {
			cancel()
			return put(tx, pool("begun"), nil)
		}); err != nil {
			t.Error(err)
		}
		if _, err := db.Get(context.Background(), pool("begun")); err != nil {
			t.Error(err)
		}
	})
}

// TestBatch commits functions together of which some fail: each by itself.
func TestBatch(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		release := occupy(t, db)
		defer release()
		var wait sync.WaitGroup
		for i := range 60 {
			id := pool(fmt.Sprint(i))
			wait.Go(func() {
				defer func() {
					if panicked := recover(); (panicked != nil) != (i%4 == 3) {
						t.Errorf("%d: panicked with %v", i, panicked)
					}
				}()
				err := db.Write(context.Background(), func(tx store.Tx) error {
					if err := put(tx, id, nil); err != nil {
						return err
					}
					if err := tx.Enqueue(id, time.Time{}); err != nil {
						return err
					}
					switch i % 4 {
					case 1:
						return errWanted
					case 2:
						// The database refuses it, and PostgreSQL refuses all that follows in the transaction.
						if err := tx.Event(store.Event{Object: id, Time: time.UnixMicro(1)}); err != nil {
							return err
						}
						return tx.Remove(pool("none"))
					case 3:
						panic("on purpose")
					}
					return nil
				})
				want := map[int]error{1: errWanted, 2: store.ErrNotFound}[i%4]
				if !errors.Is(err, want) {
					t.Errorf("%d: %v, want %v", i, err, want)
				}
			})
		}
		for db.Stats().Waiting < 60 {
			time.Sleep(time.Millisecond)
		}
		release()
		wait.Wait()
		page, err := db.List(context.Background(), store.Query{Kind: store.NodePool})
		if err != nil || page.Total != 15 || page.Revision != 16 {
			t.Errorf("%d objects at revision %d, %v; want 15 at 16", page.Total, page.Revision, err)
		}
		if waiting, _, err := db.Backlog(context.Background()); waiting != 15 || err != nil {
			t.Errorf("%d jobs wait, %v; want 15", waiting, err)
		}
		if jobs := count(t, address, `SELECT count(*) FROM river_job`); jobs != 15 {
			t.Errorf("%d jobs of the queue, want 15", jobs)
		}
		if stats := db.Stats(); stats.Transactions != 16 || stats.Failed != 0 {
			t.Errorf("%+v; want 16 transactions", stats)
		}
	})
}

// TestFunctionThatDoesNotReturn ends the goroutine that runs the function, as the Fatal of a test does.
func TestFunctionThatDoesNotReturn(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		err := db.Write(context.Background(), func(tx store.Tx) error {
			if err := put(tx, pool("1"), nil); err != nil {
				return err
			}
			runtime.Goexit()
			return nil
		})
		if err == nil {
			t.Error("no error")
		}
		write(t, db, func(tx store.Tx) error { return put(tx, pool("1"), nil) })
	})
}

func TestTxIsForItsFunction(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		var kept store.Tx
		write(t, db, func(tx store.Tx) error {
			kept = tx
			return nil
		})
		_, err := kept.Get(pool("1"))
		for _, err := range []error{err, kept.Event(store.Event{}), kept.Enqueue(pool("1"), time.Time{}), put(kept, pool("1"), nil)} {
			if err == nil || !strings.Contains(err.Error(), "has ended") {
				t.Errorf("a Tx that was kept: %v", err)
			}
		}
	})
}

func TestClose(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		release := occupy(t, db)
		result, closed := make(chan error), make(chan error)
		go func() { result <- db.Write(context.Background(), func(store.Tx) error { return nil }) }()
		for db.Stats().Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		go func() { closed <- db.Close() }()
		for refused := false; !refused; {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			refused = errors.Is(db.Write(ctx, func(store.Tx) error { return nil }), store.ErrClosed)
			cancel()
		}
		release() // what was begun is committed
		if err := <-result; err != nil && !errors.Is(err, store.ErrClosed) {
			t.Errorf("one that waited: %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := db.Get(context.Background(), pool("1")); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("a read after Close: %v; it must be a failure, not an answer", err)
		}
	})
}

// TestStuck tells for how long a transaction has not come to its end.
func TestStuck(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		write(t, db, func(tx store.Tx) error { return put(tx, pool("one"), nil) })
		begun, end := make(chan struct{}), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- db.Write(context.Background(), func(store.Tx) error {
				close(begun)
				<-end
				return nil
			})
		}()
		<-begun
		first := db.Stuck()
		time.Sleep(2 * time.Millisecond)
		if second := db.Stuck(); first <= 0 || second <= first {
			t.Errorf("stuck for %s, then for %s", first, second)
		}
		close(end)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		write(t, db, func(tx store.Tx) error { return put(tx, pool("two"), nil) })
		for deadline := time.Now().Add(time.Minute); db.Stuck() > 0; time.Sleep(time.Millisecond) { // who wrote is told first
			if time.Now().After(deadline) {
				t.Fatal("stuck with nothing to write")
			}
		}
	})
}
