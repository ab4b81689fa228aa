package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// TestConflictsInOneBatch makes objects together of which some cannot be made: each is told so, and no other is affected.
func TestConflictsInOneBatch(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		ctx := context.Background()
		write(t, db, func(tx store.Tx) error { return put(tx, pool("there"), nil) })
		write(t, db, func(tx store.Tx) error { return put(tx, pool("removed"), nil) })
		write(t, db, func(tx store.Tx) error { return tx.Remove(pool("removed")) })
		for round := range 2 { // the second one begins after it was seen that conflicts happen
			release := occupy(t, db)
			defer release()
			var wait sync.WaitGroup
			try := func(id, name string, want error) {
				wait.Go(func() {
					err := db.Write(ctx, func(tx store.Tx) error {
						if err := tx.Put(store.Record{Key: pool(id), Name: name, ClusterID: "cluster", Owner: "owner"}); err != nil {
							return err
						}
						return tx.Event(store.Event{Type: "created", Object: pool(id)})
					})
					if !errors.Is(err, want) || want == nil && err != nil {
						t.Errorf("%s: %v, want %v", id, err, want)
					}
				})
			}
			for i := range 10 {
				try(fmt.Sprintf("%d-%d", round, i), fmt.Sprintf("%d-%d", round, i), nil)
			}
			try("there", "another", store.ErrIDTaken)
			try("removed", "removed", store.ErrIDTaken)
			try(fmt.Sprintf("%d-named", round), "there", store.ErrNameTaken)
			for db.Stats().Waiting < 13 {
				time.Sleep(time.Millisecond)
			}
			release()
			wait.Wait()
		}
		page, err := db.List(ctx, store.Query{Kind: store.NodePool})
		if err != nil || page.Total != 21 {
			t.Errorf("%d objects, %v; want 21", page.Total, err)
		}
		events, err := db.Events(ctx, store.EventQuery{})
		if err != nil || len(events) != 20 {
			t.Errorf("%d events, %v; want 20", len(events), err)
		}
		if stats := db.Stats(); stats.Failed != 0 {
			t.Errorf("%+v; want none that failed with its batch", stats)
		}
	})
}

// TestUsedIDs makes an object of each id that cannot be used, with nothing else in its batch that could have it asked for first.
func TestUsedIDs(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		for _, id := range []string{"there", "removed"} {
			db := open(t, address, store.Options{})
			key := pool(id)
			write(t, db, func(tx store.Tx) error { return put(tx, key, nil) })
			if id == "removed" {
				write(t, db, func(tx store.Tx) error { return tx.Remove(key) })
			}
			err := db.Write(context.Background(), func(tx store.Tx) error {
				return tx.Put(store.Record{Key: key, Name: "another", ClusterID: "cluster", Owner: "owner"})
			})
			if !errors.Is(err, store.ErrIDTaken) {
				t.Errorf("%s: %v, want %v", id, err, store.ErrIDTaken)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestReadsTogether reads what others read at the same time: everybody finds what was written before they asked.
func TestReadsTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		ctx := context.Background()
		id := pool("read by all")
		write(t, db, func(tx store.Tx) error { return put(tx, id, nil) })
		var wait sync.WaitGroup
		for caller := range 8 {
			wait.Go(func() {
				for range 30 {
					var wrote int64
					err := db.Write(ctx, func(tx store.Tx) error {
						wrote = tx.Revision()
						record, err := tx.Get(id)
						if err != nil {
							return err
						}
						record.Document = fmt.Appendf(nil, `{"revision":%d}`, wrote)
						return tx.Put(record)
					})
					if err != nil {
						t.Error(err)
						return
					}
					record, err := db.Document(ctx, id)
					if err != nil || record.Revision < wrote || string(record.Document) != fmt.Sprintf(`{"revision":%d}`, record.Revision) {
						t.Errorf("%d wrote revision %d, and read %d with %s: %v", caller, wrote, record.Revision, record.Document, err)
					}
					page, err := db.List(ctx, store.Query{Kind: store.NodePool, DocumentsOnly: true})
					if err != nil || page.Revision < wrote || page.Records[0].Revision < wrote {
						t.Errorf("%d wrote revision %d, and listed %+v: %v", caller, wrote, page, err)
					}
					if _, err := db.Document(ctx, pool("none")); !errors.Is(err, store.ErrNotFound) {
						t.Errorf("what there is not: %v", err)
					}
				}
			})
		}
		wait.Wait()
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := db.Document(ended, id); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a reader who has gone: %v", err)
		}
		if _, err := db.Document(ctx, pool("no\x00text")); err == nil {
			t.Error("an id that is no text was found")
		}
	})
}

// TestBatchReadsWhatItWrote changes one object, its report and a controller in many transactions of one batch: each goes on from the last.
func TestBatchReadsWhatItWrote(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		id := pool("counted")
		write(t, db, func(tx store.Tx) error { return put(tx, id, nil) })
		release := occupy(t, db)
		defer release()
		var wait sync.WaitGroup
		const writers = 20
		for range writers {
			wait.Go(func() {
				err := db.Write(context.Background(), func(tx store.Tx) error {
					reports, err := tx.Reports(id)
					if err != nil {
						return err
					}
					controllers, err := tx.Controllers()
					if err != nil {
						return err
					}
					if err := put(tx, id, func(r *store.Record) { r.Nodes++ }); err != nil {
						return err
					}
					if err := tx.PutController(store.Controller{Name: fmt.Sprint(len(controllers))}); err != nil {
						return err
					}
					return tx.PutReport(id, store.Report{Controller: fmt.Sprint(len(reports))})
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		for db.Stats().Waiting < writers {
			time.Sleep(time.Millisecond)
		}
		release()
		wait.Wait()
		ctx := context.Background()
		record, err := db.Get(ctx, id)
		reports, failed := db.Reports(ctx, id)
		controllers, broken := db.Controllers(ctx)
		if err != nil || failed != nil || broken != nil || record.Nodes != writers || len(reports) != writers || len(controllers) != writers {
			t.Errorf("%d nodes, %d reports, %d controllers, want %d of each: %v %v %v", record.Nodes, len(reports), len(controllers), writers, err, failed, broken)
		}
	})
}
