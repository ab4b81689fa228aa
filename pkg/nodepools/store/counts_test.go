package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

func TestCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		if counts, err := db.Counts(context.Background()); len(counts) != 0 || err != nil {
			t.Errorf("an empty database has %v, %v", counts, err)
		}
		if longest, err := db.Longest(context.Background()); longest != 0 || err != nil {
			t.Errorf("nothing waits, and has for %s, %v", longest, err)
		}
		write(t, db, func(tx store.Tx) error {
			for id, phase := range map[string]string{"one": "Ready", "two": "Ready", "three": "Failed"} {
				if err := put(tx, pool(id), func(r *store.Record) { r.Platform, r.Phase = "civo", phase }); err != nil {
					return err
				}
			}
			// What is to be done later does not wait.
			return tx.Enqueue(pool("two"), time.Now().Add(time.Hour))
		})
		want := []store.Count{
			{Kind: store.NodePool, Platform: "civo", Phase: "Failed", Objects: 1}, {Kind: store.NodePool, Platform: "civo", Phase: "Ready", Objects: 2},
		}
		counts, err := db.Counts(context.Background())
		byPhase := cmpopts.SortSlices(func(a, b store.Count) bool { return a.Phase < b.Phase })
		if diff := cmp.Diff(want, counts, byPhase); diff != "" || err != nil {
			t.Errorf("counted (-want +got), %v:\n%s", err, diff)
		}
		if longest, err := db.Longest(context.Background()); longest != 0 || err != nil {
			t.Errorf("nothing is due, and waits for %s, %v", longest, err)
		}
		write(t, db, func(tx store.Tx) error { return tx.Enqueue(pool("one"), time.Time{}) })
		if longest, err := db.Longest(context.Background()); longest <= 0 || longest > time.Hour || err != nil {
			t.Errorf("what waits has waited for %s, %v", longest, err)
		}
	})
}
