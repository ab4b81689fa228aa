package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// work runs jobs until stop is called, which waits for them.
func work(t *testing.T, db *store.DB, options store.WorkOptions, work store.Work) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- db.Work(ctx, options, work) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("work: %s", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func enqueue(t *testing.T, db *store.DB, id string, after time.Duration) {
	t.Helper()
	write(t, db, func(tx store.Tx) error { return tx.Enqueue(pool(id), tx.Now().Add(after)) })
}

func within(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s takes too long", what)
		}
	}
}

// TestWork has two stores work on objects that are asked for again and again: each is worked on after it was last asked for, and
// never by two at once.
func TestWork(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		stores := []*store.DB{open(t, address, store.Options{}), open(t, address, store.Options{})}
		const objects = 20
		var asked, seen [objects]atomic.Int64
		var busy [objects]atomic.Bool
		var runs atomic.Int64
		for _, db := range stores {
			work(t, db, store.WorkOptions{Concurrency: 5}, func(_ context.Context, key store.Key) (time.Duration, error) {
				var object int
				if _, err := fmt.Sscan(key.ID, &object); err != nil {
					return 0, err
				}
				if busy[object].Swap(true) {
					t.Errorf("two work on %d", object)
				}
				defer busy[object].Store(false)
				runs.Add(1)
				found := asked[object].Load()
				time.Sleep(2 * time.Millisecond)
				seen[object].Store(found)
				return 0, nil
			})
		}
		var wait sync.WaitGroup
		const times = 20
		for object := range objects {
			wait.Go(func() {
				for range times {
					asked[object].Add(1)
					enqueue(t, stores[object%2], fmt.Sprint(object), 0)
				}
			})
		}
		wait.Wait()
		within(t, "the work", func() bool {
			for object := range objects {
				if seen[object].Load() != times {
					return false
				}
			}
			return true
		})
		within(t, "the end of the work", func() bool {
			waiting, running, err := stores[0].Backlog(context.Background())
			return waiting+running == 0 && err == nil
		})
		t.Logf("%d runs for %d", runs.Load(), objects*times)
	})
}

func TestWorkAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		type run struct {
			id string
			at time.Time
		}
		ran := make(chan run, 100)
		// What each object's next runs return.
		answers := map[string][]struct {
			again time.Duration
			err   error
		}{
			"waits":    {{time.Hour, nil}, {0, nil}},
			"again":    {{100 * time.Millisecond, nil}, {0, nil}},
			"fails":    {{0, errWanted}, {0, errWanted}, {0, nil}},
			"panics":   {{0, nil}, {0, nil}},
			"later":    {{0, nil}},
			"sooner":   {{0, nil}},
			"earlier":  {{0, nil}},
			"running":  {{0, nil}, {0, nil}},
			"unharmed": {{0, nil}},
		}
		var mutex sync.Mutex
		stop := work(t, db, store.WorkOptions{Retry: 50 * time.Millisecond, MaxRetry: time.Second}, func(_ context.Context, key store.Key) (time.Duration, error) {
			mutex.Lock()
			defer mutex.Unlock()
			ran <- run{key.ID, time.Now()}
			answer := answers[key.ID][0]
			answers[key.ID] = answers[key.ID][1:]
			if key.ID == "running" && len(answers[key.ID]) == 1 {
				for _, after := range []time.Duration{time.Hour, 0} {
					enqueue(t, db, "running", after)
				}
			}
			if key.ID == "panics" && len(answers[key.ID]) == 1 {
				panic("on purpose")
			}
			return answer.again, answer.err
		})
		expect := func(id string, after time.Duration, since time.Time) time.Time {
			t.Helper()
			got := <-ran
			if got.id != id || got.at.Sub(since) < after {
				t.Errorf("%s ran after %s, want %s after %s at the earliest", got.id, got.at.Sub(since), id, after)
			}
			return got.at
		}
		enqueue(t, db, "waits", 0)
		at := expect("waits", 0, time.Time{})
		enqueue(t, db, "waits", 0) // does not wait for the hour
		expect("waits", 0, at)

		enqueue(t, db, "again", 0)
		at = expect("again", 0, at)
		expect("again", 100*time.Millisecond, at)

		enqueue(t, db, "fails", 0)
		at = expect("fails", 0, at)
		at = expect("fails", 40*time.Millisecond, at)
		at = expect("fails", 80*time.Millisecond, at)

		enqueue(t, db, "panics", 0)
		expect("panics", 0, at)
		expect("panics", 40*time.Millisecond, at)

		at = time.Now()
		enqueue(t, db, "later", 150*time.Millisecond)
		expect("later", 150*time.Millisecond-time.Microsecond, at)

		enqueue(t, db, "sooner", time.Hour)
		enqueue(t, db, "sooner", 0)
		enqueue(t, db, "sooner", time.Hour) // a later one changes nothing, but that one more run follows
		expect("sooner", 0, at)

		at = time.Now()
		enqueue(t, db, "earlier", time.Hour)
		enqueue(t, db, "earlier", 100*time.Millisecond)
		expect("earlier", 100*time.Millisecond-time.Microsecond, at)

		enqueue(t, db, "running", 0) // asks for two more while it runs; the earlier one counts
		at = expect("running", 0, at)
		expect("running", 0, at)

		// What is undone makes no job.
		if err := db.Write(context.Background(), func(tx store.Tx) error {
			if err := tx.Enqueue(pool("undone"), time.Time{}); err != nil {
				return err
			}
			return errWanted
		}); !errors.Is(err, errWanted) {
			t.Error(err)
		}
		enqueue(t, db, "unharmed", 0)
		expect("unharmed", 0, at)
		stop()
		if len(ran) > 0 {
			t.Errorf("one run too many: %v", <-ran)
		}
	})
}

// TestBurst: of an object that is asked for often, one job waits at most; what is asked for during a run is one more run after it, however
// late the run itself wants to be done again; and the earliest time counts.
func TestBurst(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		burst := func() {
			t.Helper()
			for range 10 {
				write(t, db, func(tx store.Tx) error {
					if err := tx.Enqueue(pool("edited"), time.Time{}); err != nil {
						return err
					}
					return tx.Enqueue(pool("edited"), time.Time{})
				})
			}
		}
		burst()
		driver := "sqlite"
		if strings.HasPrefix(address, "postgres:") {
			driver = "pgx"
		}
		raw, err := sql.Open(driver, address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = raw.Close() }()
		var jobs int
		if err := raw.QueryRow(`SELECT count(*) FROM river_job`).Scan(&jobs); err != nil || jobs != 1 {
			t.Errorf("a burst is %d jobs, %v", jobs, err)
		}

		var mutex sync.Mutex
		runs := map[string]int{}
		ran := func(id string) int {
			mutex.Lock()
			defer mutex.Unlock()
			return runs[id]
		}
		begun, end := make(chan struct{}), make(chan struct{})
		work(t, db, store.WorkOptions{Concurrency: 5}, func(_ context.Context, key store.Key) (time.Duration, error) {
			mutex.Lock()
			runs[key.ID]++
			first := key.ID == "edited" && runs[key.ID] == 1
			mutex.Unlock()
			if !first {
				return 0, nil
			}
			close(begun)
			<-end
			return time.Hour, nil
		})
		// later returns when a job has run that was given out after all that were before.
		later := func(id string) {
			t.Helper()
			enqueue(t, db, id, 0)
			within(t, id, func() bool { return ran(id) == 1 })
		}
		<-begun
		burst()
		later("another")
		later("one more") // by now a job that was given out with the other one would run too
		if got := ran("edited"); got != 1 {
			t.Errorf("%d runs at a time", got)
		}
		close(end)
		within(t, "the run of what was asked for during one", func() bool { return ran("edited") == 2 })
		later("a third")
		if got := ran("edited"); got != 2 {
			t.Errorf("two bursts are %d runs", got)
		}

		enqueue(t, db, "soon", 100*time.Millisecond)
		enqueue(t, db, "soon", time.Hour)
		within(t, "the earlier of two times", func() bool { return ran("soon") == 1 })
	})
}

// TestWorkStops ends workers while jobs run: one that returns in time ends in peace, the other is told to end and runs again.
func TestWorkStops(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		enqueue(t, db, "peace", 0)
		enqueue(t, db, "hurry", 0)
		begun, proceed, hurried := make(chan string, 10), make(chan struct{}), make(chan struct{})
		stop := work(t, db, store.WorkOptions{Grace: 500 * time.Millisecond}, func(ctx context.Context, key store.Key) (time.Duration, error) {
			begun <- key.ID
			if key.ID == "peace" {
				<-proceed
				return 0, ctx.Err()
			}
			<-ctx.Done()
			close(hurried)
			return 0, ctx.Err()
		})
		<-begun
		<-begun
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		close(proceed)
		<-hurried
		<-stopped
		waiting, running, err := db.Backlog(context.Background())
		if waiting != 1 || running != 0 || err != nil {
			t.Errorf("%d wait, %d run, %v; want one that waits", waiting, running, err)
		}
		work(t, db, store.WorkOptions{}, func(_ context.Context, key store.Key) (time.Duration, error) {
			begun <- key.ID
			return 0, nil
		})
		if id := <-begun; id != "hurry" {
			t.Errorf("%s runs again", id)
		}
	})
}

// TestWorkNeverClaimed leaves jobs as a process does that River handed them to, and that ended, or could not write, before it claimed
// them. They run when the claim would have been over, not when River comes by.
func TestWorkNeverClaimed(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		for _, id := range []string{"handed out", "failed", "just now"} {
			enqueue(t, db, id, 0)
		}
		driver, ago, encoded := "sqlite", "datetime('now', '-%d seconds')", "json(args)"
		if strings.HasPrefix(address, "postgres:") {
			driver, ago, encoded = "pgx", "now() - interval '%d seconds'", "args::text"
		}
		raw, err := sql.Open(driver, address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = raw.Close() }()
		for id, state := range map[string]struct {
			name    string
			seconds int
		}{"handed out": {"running", 20}, "failed": {"retryable", 20}, "just now": {"running", 0}} {
			at := fmt.Sprintf(ago, state.seconds)
			statement := fmt.Sprintf(`UPDATE river_job SET state = '%s', attempt = 1, attempted_at = %s WHERE %s LIKE '%%%s%%'`, state.name, at, encoded, id)
			changed, err := raw.Exec(statement)
			if err != nil {
				t.Fatal(err)
			}
			if rows, err := changed.RowsAffected(); rows != 1 || err != nil {
				t.Fatalf("%d jobs are those of %q, %v", rows, id, err)
			}
		}
		ran := make(chan string, 10)
		stop := work(t, db, store.WorkOptions{Claim: 10 * time.Second}, func(_ context.Context, key store.Key) (time.Duration, error) {
			ran <- key.ID
			return 0, nil
		})
		runs := map[string]bool{}
		within(t, "a job that was not claimed", func() bool {
			select {
			case id := <-ran:
				if runs[id] {
					t.Errorf("%s runs twice", id)
				}
				runs[id] = true
			default:
			}
			return len(runs) == 2
		})
		if runs["just now"] {
			t.Error("a job that may be claimed still was given out again")
		}
		within(t, "the job whose claim had time", func() bool { return len(ran) > 0 })
		stop()
		if waiting, running, err := db.Backlog(context.Background()); waiting+running != 0 || len(ran) != 1 || err != nil {
			t.Errorf("%d wait, %d run, %d ran, %v", waiting, running, len(ran), err)
		}
	})
}

// TestWorkOnWhatIsRemoved removes an object in its job.
func TestWorkOnWhatIsRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		write(t, db, func(tx store.Tx) error {
			if err := put(tx, pool("1"), nil); err != nil {
				return err
			}
			return tx.Enqueue(pool("1"), time.Time{})
		})
		runs := make(chan struct{}, 10)
		stop := work(t, db, store.WorkOptions{}, func(ctx context.Context, key store.Key) (time.Duration, error) {
			runs <- struct{}{}
			return time.Microsecond, db.Write(ctx, func(tx store.Tx) error { return tx.Remove(key) })
		})
		<-runs
		stop()
		if waiting, running, err := db.Backlog(context.Background()); waiting+running+len(runs) != 0 || err != nil {
			t.Errorf("%d wait, %d run, %d ran, %v", waiting, running, len(runs), err)
		}
	})
}
