package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

// callers is how many goroutines a benchmark has.
const callers = 16

func benchmarkBoth(b *testing.B, run func(b *testing.B, db *store.DB)) {
	b.Run("sqlite", func(b *testing.B) { run(b, open(b, filepath.Join(b.TempDir(), "store.db"), store.Options{})) })
	b.Run("postgres", func(b *testing.B) { run(b, open(b, postgrestest.Database(b), store.Options{})) })
}

// inParallel runs a function b.N times on all callers.
func inParallel(b *testing.B, do func(i int64) error) {
	var next atomic.Int64
	var wait sync.WaitGroup
	before := cpuTime()
	b.ResetTimer()
	for range callers {
		wait.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	// On a machine that does other things too, this tells more.
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// document is of the size of a pool's.
var document = []byte(fmt.Sprintf(`{"spec":%q}`, make([]byte, 180)))

// create makes a pool as the service does: checks, object, event, audit entry and job.
func create(db *store.DB, id string, nodes int32) error {
	return db.Write(context.Background(), func(tx store.Tx) error {
		if _, err := tx.CountOwned(store.NodePool, "nobody@example.com"); err != nil {
			return err
		}
		key := store.Key{Kind: store.NodePool, ID: id}
		record := store.Record{
			Key: key, Name: "pool-" + id, ClusterID: "cluster", Owner: "user@example.com", Platform: "civo", Phase: "Pending", Generation: 1,
			Nodes: nodes, Labels: map[string]string{"environment": "test"}, Message: document[:300], Document: document,
		}
		if err := tx.Put(record); err != nil {
			return err
		}
		err := tx.Event(store.Event{Type: "nodepool.created", Actor: "user@example.com", Object: key, ClusterID: "cluster", Owner: "user@example.com", Document: document})
		if err != nil {
			return err
		}
		if err := tx.Audit(store.AuditEntry{Actor: "user@example.com", Action: "create", Resource: "nodepools", ObjectID: id, After: string(document)}); err != nil {
			return err
		}
		return tx.Enqueue(key, tx.Now())
	})
}

func BenchmarkCreate(b *testing.B) {
	benchmarkBoth(b, func(b *testing.B, db *store.DB) {
		inParallel(b, func(i int64) error { return create(db, fmt.Sprintf("%s-%d", b.Name(), i)+fmt.Sprint(b.N), 3) })
		stats := db.Stats()
		b.ReportMetric(float64(stats.Transactions)/float64(stats.Batches), "op/commit")
	})
}

func fill(b *testing.B, db *store.DB, pools int) {
	b.Helper()
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for i := caller; i < pools; i += callers {
				if err := create(db, fmt.Sprint(i), 3); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

func BenchmarkRead(b *testing.B) {
	const pools = 10_000
	benchmarkBoth(b, func(b *testing.B, db *store.DB) {
		fill(b, db, pools)
		ctx := context.Background()
		b.Run("get", func(b *testing.B) {
			inParallel(b, func(i int64) error {
				_, err := db.Get(ctx, store.Key{Kind: store.NodePool, ID: fmt.Sprint(i % pools)})
				return err
			})
		})
		b.Run("list50", func(b *testing.B) {
			inParallel(b, func(i int64) error {
				page, err := db.List(ctx, store.Query{Kind: store.NodePool, Owner: "user@example.com", Limit: 50, After: (i * 50) % pools})
				if err == nil && page.Total != pools {
					return fmt.Errorf("total %d", page.Total)
				}
				return err
			})
		})
		b.Run("list50-documents", func(b *testing.B) {
			inParallel(b, func(i int64) error {
				_, err := db.List(ctx, store.Query{Kind: store.NodePool, Owner: "user@example.com", Limit: 50, After: (i * 50) % pools, DocumentsOnly: true})
				return err
			})
		})
		b.Run("list50-counted", func(b *testing.B) {
			inParallel(b, func(i int64) error {
				_, err := db.List(ctx, store.Query{Kind: store.NodePool, ClusterID: "cluster", Owner: "user@example.com", Limit: 50, LabelKeys: []string{"environment", fmt.Sprint("x", i)}[:1], Offset: int(i % 100)})
				return err
			})
		})
	})
}

// cpuTime is how long this process has used processors.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
