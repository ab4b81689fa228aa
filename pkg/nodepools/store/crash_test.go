package store_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

const (
	childAddress = "STORE_TEST_CHILD"
	childTask    = "STORE_TEST_TASK"
	childRound   = "STORE_TEST_ROUND"
)

// child is what a process does that is to be killed.
func child() int {
	db, err := store.Open(context.Background(), os.Getenv(childAddress), store.Options{})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	if os.Getenv(childTask) == "work" {
		err := db.Work(context.Background(), store.WorkOptions{Claim: time.Second}, func(_ context.Context, key store.Key) (time.Duration, error) {
			fmt.Println("runs", key.ID)
			select {}
		})
		fmt.Println("error", err)
		return 1
	}
	var wait sync.WaitGroup
	for writer := range 6 {
		wait.Go(func() {
			for i := 0; ; i++ {
				key := pool(fmt.Sprintf("%s-%d-%d", os.Getenv(childRound), writer, i))
				var revision int64
				err := db.Write(context.Background(), func(tx store.Tx) error {
					revision = tx.Revision()
					if err := put(tx, key, nil); err != nil {
						return err
					}
					if err := tx.Event(store.Event{Object: key}); err != nil {
						return err
					}
					if err := tx.Audit(store.AuditEntry{ObjectID: key.ID}); err != nil {
						return err
					}
					return tx.Enqueue(key, time.Time{})
				})
				if err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("wrote", key.ID, revision)
			}
		})
	}
	wait.Wait()
	return 1
}

func startChild(t *testing.T, address, task string, round int) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childAddress+"="+address, childTask+"="+task, fmt.Sprintf("%s=%d", childRound, round))
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	return command, bufio.NewReader(output)
}

// TestKilledWriter kills a process that writes: all that it was told is written is there, with its event, audit entry and job.
func TestKilledWriter(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		ctx := context.Background()
		var before int64
		total := 0
		for round := range 3 {
			command, output := startChild(t, address, "write", round)
			wrote := map[string]int64{}
			for enough := 20 + rand.IntN(100); ; {
				line, err := output.ReadString('\n')
				if err == io.EOF {
					break
				}
				var id string
				var revision int64
				if _, err := fmt.Sscanf(line, "wrote %s %d\n", &id, &revision); err != nil {
					t.Fatalf("the child said %q, %v", line, err)
				}
				wrote[id] = revision
				if len(wrote) == enough {
					_ = command.Process.Kill()
				}
			}
			_ = command.Wait()
			db := open(t, address, store.Options{})
			latest, err := db.Revision(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for id, revision := range wrote {
				record, err := db.Get(ctx, pool(id))
				if err != nil || record.Revision != revision || revision <= before || revision > latest {
					t.Errorf("%s was written at %d and is there at %d, %v; before it all was %d, now %d", id, revision, record.Revision, err, before, latest)
				}
			}
			// Whatever was not acknowledged is there as a whole, or not at all.
			page, err := db.List(ctx, store.Query{Kind: store.NodePool})
			if err != nil {
				t.Fatal(err)
			}
			events, err := db.Events(ctx, store.EventQuery{})
			entries, failed := db.Audit(ctx, store.AuditQuery{})
			waiting, _, broken := db.Backlog(ctx)
			if err != nil || failed != nil || broken != nil || len(events) != page.Total || len(entries) != page.Total || waiting != page.Total || latest != int64(page.Total) {
				t.Errorf("%d objects, %d events, %d entries, %d jobs at revision %d: %v %v %v", page.Total, len(events), len(entries), waiting, latest, err, failed, broken)
			}
			if total += len(wrote); page.Total < total {
				t.Errorf("%d objects of %d that were acknowledged", page.Total, total)
			}
			before = latest
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestKilledWorker kills a process while it runs a job: another one runs it when the claim is over.
func TestKilledWorker(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		write(t, db, func(tx store.Tx) error {
			return cmp.Or(tx.Enqueue(pool("1"), time.Time{}), tx.Enqueue(pool("2"), time.Time{}))
		})
		command, output := startChild(t, address, "work", 0)
		for range 2 {
			if line, err := output.ReadString('\n'); err != nil || line != "runs 1\n" && line != "runs 2\n" {
				t.Fatalf("the child said %q, %v", line, err)
			}
		}
		// Asked for while it runs: who runs it next sees both. The other one is not asked for again.
		write(t, db, func(tx store.Tx) error { return tx.Enqueue(pool("1"), time.Time{}) })
		ran := make(chan store.Key, 10)
		stop := work(t, db, store.WorkOptions{}, func(_ context.Context, key store.Key) (time.Duration, error) {
			ran <- key
			return 0, nil
		})
		select {
		case <-ran:
			t.Fatal("two run the same job")
		case <-time.After(1500 * time.Millisecond): // longer than the claim
		}
		_ = command.Process.Kill()
		_ = command.Wait()
		if first, second := <-ran, <-ran; first == second {
			t.Errorf("%s ran twice", first.ID)
		}
		stop()
		if len(ran) > 0 {
			t.Error("a job ran more than once")
		}
		if waiting, running, err := db.Backlog(context.Background()); waiting+running != 0 || err != nil {
			t.Errorf("%d wait, %d run, %v", waiting, running, err)
		}
	})
}

// TestKilledPostgres ends the server at once while there are writers: what was acknowledged is there, and reads and writes go on
// when the server is back.
func TestKilledPostgres(t *testing.T) {
	t.Parallel()
	server, err := postgrestest.Start()
	if errors.Is(err, postgrestest.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	ctx := context.Background()
	address, err := server.Database(ctx)
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, address, store.Options{Poll: 50 * time.Millisecond})
	var mutex sync.Mutex
	wrote, unknown, failed := map[string]bool{}, map[string]bool{}, map[string]error{}
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for writer := range 8 {
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprint(writer, "-", i)
				err := db.Write(ctx, func(tx store.Tx) error { return put(tx, pool(id), nil) })
				mutex.Lock()
				switch {
				case err == nil:
					wrote[id] = true
				case errors.Is(err, store.ErrUnknown):
					unknown[id] = true
				default:
					failed[id] = err
				}
				mutex.Unlock()
				if err != nil {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	until := func(condition func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			mutex.Lock()
			met := condition()
			mutex.Unlock()
			if met {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("it takes too long")
			}
		}
	}
	until(func() bool { return len(wrote) > 50 })
	server.Kill()
	mutex.Lock()
	before := len(failed)
	mutex.Unlock()
	until(func() bool { return len(failed) > before })
	if _, err := db.Get(ctx, pool("0-0")); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a read without a server: %v; it must be a failure, not an answer", err)
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	changed := db.Changed(1 << 40)
	mutex.Lock()
	enough := len(wrote) + 50
	mutex.Unlock()
	until(func() bool { return len(wrote) > enough })
	close(stop)
	wait.Wait()
	<-changed
	page, err := db.List(ctx, store.Query{Kind: store.NodePool})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, record := range page.Records {
		there[record.ID] = true
		if !wrote[record.ID] && !unknown[record.ID] {
			t.Errorf("%s is there, and its writer was told that it is not: %v", record.ID, failed[record.ID])
		}
	}
	for id := range wrote {
		if !there[id] {
			t.Errorf("%s was acknowledged and is gone", id)
		}
	}
	t.Logf("%d acknowledged, %d not known, %d failed", len(wrote), len(unknown), len(failed))
	if page.Revision != int64(page.Total) {
		t.Errorf("%d objects at revision %d", page.Total, page.Revision)
	}
}
