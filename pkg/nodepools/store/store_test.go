package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/store/postgrestest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childAddress) != "" {
		os.Exit(child())
	}
	os.Exit(postgrestest.Main(m))
}

// onBoth runs a test on each kind of database, which has to behave the same.
func onBoth(t *testing.T, test func(t *testing.T, address string)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "data", "store.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, postgrestest.Database(t))
	})
}

func open(t testing.TB, address string, options store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), address, options)
	if err != nil {
		t.Fatalf("open: %s", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %s", err)
		}
	})
	return db
}

// write runs a function that must not fail.
func write(t testing.TB, db *store.DB, function func(tx store.Tx) error) {
	t.Helper()
	if err := db.Write(context.Background(), function); err != nil {
		t.Fatalf("write: %s", err)
	}
}

func pool(id string) store.Key { return store.Key{Kind: store.NodePool, ID: id} }

// put makes an object, or changes it.
func put(tx store.Tx, key store.Key, change func(record *store.Record)) error {
	record, err := tx.Get(key)
	if errors.Is(err, store.ErrNotFound) {
		record, err = store.Record{Key: key, Name: key.ID, ClusterID: "cluster", Owner: "owner"}, nil
	}
	if err != nil {
		return err
	}
	if change != nil {
		change(&record)
	}
	return tx.Put(record)
}

func TestEverythingIsKept(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		ctx := context.Background()
		db := open(t, address, store.Options{})
		at := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
		record := store.Record{
			Key: pool("1"), Name: "näme 'q' \"d\" ?1 $1", ClusterID: "c", Owner: "o", Platform: "civo", Phase: "Ready", Health: "Healthy", Generation: 3,
			ObservedGeneration: 2, Nodes: 7, Labels: map[string]string{"a": "b", "": ""}, Deleting: true, NeedsReconcile: true, Due: at,
			Message: []byte{0, 1, 255}, Document: []byte(`{"a": "b"}`),
		}
		report := store.Report{Controller: "z", ObservedGeneration: 4, FirstAt: at, At: at.Add(time.Second), Message: []byte{9}}
		controllers := []store.Controller{
			{Name: "A", LastSeen: at}, {Name: "_", Platforms: []string{"gcp", "a,b"}, Version: "1", Clusters: true}, {Name: "a"},
		}
		webhook := store.Webhook{ID: "w", URL: "https://example.com", Owner: "o", Types: []string{"x"}, Secret: []byte{0}, All: true, CreatedAt: at, Delivered: 5, LastError: "e"}
		answer := store.Idempotent{Actor: "o", Key: "k", Fingerprint: []byte{1}, Object: pool("1"), Answer: []byte("{}"), Expires: at.AddDate(100, 0, 0)}
		event := store.Event{Type: "t", Time: at, Actor: "o", Object: pool("1"), ClusterID: "c", Owner: "o", Platform: "civo", Generation: 3, Text: "x", Document: []byte("{}")}
		entry := store.AuditEntry{Time: at, Actor: "o", Action: "create", Resource: "nodepools", ObjectID: "1", Before: "{", After: "}", RequestID: "r"}
		var now time.Time
		write(t, db, func(tx store.Tx) error {
			now = tx.Now()
			for _, err := range []error{
				tx.Put(record), tx.PutReport(record.Key, report), tx.PutReport(record.Key, store.Report{Controller: "Z"}), tx.Event(event),
				tx.Event(store.Event{}), tx.Audit(entry), tx.PutWebhook(webhook), tx.PutIdempotent(answer), tx.PutIdempotent(store.Idempotent{Actor: "o", Key: "old", Expires: at}),
				tx.PutController(controllers[2]), tx.PutController(controllers[1]), tx.PutController(controllers[0]),
			} {
				if err != nil {
					return err
				}
			}
			return nil
		})
		record.Revision, record.Sequence, event.Revision, entry.Revision = 1, 1, 1, 1
		same := func(what string, want, got any, err error) {
			t.Helper()
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v, -want +got:\n%s", what, err, diff)
			}
		}
		got, err := db.Get(ctx, record.Key)
		same("object", record, got, err)
		page, err := db.List(ctx, store.Query{Kind: store.NodePool, DocumentsOnly: true})
		same("documents", store.Page{Records: []store.Record{{Sequence: 1, Revision: 1, Document: record.Document}}, Total: 1, Revision: 1}, page, err)
		reports, err := db.Reports(ctx, record.Key)
		same("reports", []store.Report{{Controller: "Z"}, report}, reports, err)
		seen, err := db.Controllers(ctx)
		same("controllers", controllers, seen, err)
		webhooks, err := db.Webhooks(ctx)
		same("webhooks", []store.Webhook{webhook}, webhooks, err)
		events, err := db.EventsAfter(ctx, 0, 10)
		same("events", []store.Event{event, {Revision: 1, Time: now}}, events, err)
		entries, err := db.Audit(ctx, store.AuditQuery{ObjectID: "1", Actor: "o"})
		same("audit", []store.AuditEntry{entry}, entries, err)
		due, err := db.Due(ctx, at, 10)
		same("due", []store.Key{record.Key}, due, err)
		due, err = db.Due(ctx, at.Add(-time.Microsecond), 10)
		same("due before", []store.Key(nil), due, err)
		write(t, db, func(tx store.Tx) error {
			got, err := tx.Idempotent("o", "k")
			same("idempotent answer", answer, got, err)
			if _, err := tx.Idempotent("o", "old"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("an answer that has expired: %v", err)
			}
			for _, err := range []error{tx.DeleteController("nobody"), tx.DeleteWebhook("none"), tx.Remove(pool("none"))} {
				if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("delete what is not there: %v", err)
				}
			}
			if err := tx.DeleteController("A"); err != nil {
				return err
			}
			return tx.DeleteWebhook("w")
		})
		if seen, err = db.Controllers(ctx); err != nil || len(seen) != 2 {
			t.Errorf("%+v, %v", seen, err)
		}
		if now.Location() != time.UTC || now.Nanosecond()%1000 != 0 || time.Since(now).Abs() > time.Hour {
			t.Errorf("the time of the transaction is %s", now)
		}
	})
}

func TestPutRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		stale := store.Record{}
		write(t, db, func(tx store.Tx) (err error) {
			if err := put(tx, pool("a"), nil); err != nil {
				return err
			}
			stale, err = tx.Get(pool("a"))
			return err
		})
		write(t, db, func(tx store.Tx) error {
			if err := put(tx, pool("b"), nil); err != nil {
				return err
			}
			return put(tx, pool("a"), func(r *store.Record) { r.Phase = "Ready" })
		})
		for name, test := range map[string]struct {
			reason string
			write  func(tx store.Tx) error
			want   error // nil: any
		}{
			"stale": {"who read before the last write would undo it", func(tx store.Tx) error { return tx.Put(stale) }, nil},
			"id":    {"a new object of an id", func(tx store.Tx) error { return tx.Put(store.Record{Key: pool("a"), Name: "n"}) }, store.ErrIDTaken},
			"removed id": {"an id is not used again", func(tx store.Tx) error {
				if err := tx.Remove(pool("a")); err != nil {
					return err
				}
				return tx.Put(store.Record{Key: pool("a"), Name: "n"})
			}, store.ErrIDTaken},
			"name":     {"names are those of a cluster", func(tx store.Tx) error { return put(tx, pool("a"), func(r *store.Record) { r.Name = "b" }) }, store.ErrNameTaken},
			"new name": {"names are those of a cluster", func(tx store.Tx) error { return put(tx, pool("c"), func(r *store.Record) { r.Name = "b" }) }, store.ErrNameTaken},
			"gone": {"an update is no creation", func(tx store.Tx) error {
				return tx.Put(store.Record{Key: pool("c"), Name: "n", Sequence: 9, Revision: 1})
			}, store.ErrNotFound},
			"zero":    {"PostgreSQL cannot keep it", func(tx store.Tx) error { return put(tx, pool("c"), func(r *store.Record) { r.Owner = "a\x00" }) }, nil},
			"utf-8":   {"PostgreSQL cannot keep it", func(tx store.Tx) error { return tx.Event(store.Event{Text: "\xff"}) }, nil},
			"no id":   {"an object has an id", func(tx store.Tx) error { return put(tx, pool(""), nil) }, nil},
			"no kind": {"an object has a kind", func(tx store.Tx) error { return put(tx, store.Key{ID: "a"}, nil) }, nil},
		} {
			err := db.Write(context.Background(), test.write)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v: %s", name, err, test.want, test.reason)
			}
		}
		write(t, db, func(tx store.Tx) error {
			if err := tx.Remove(pool("b")); err != nil {
				return err
			}
			// The name of a removed object is free at once, and so is one in another cluster.
			if err := put(tx, pool("c"), func(r *store.Record) { r.Name = "b" }); err != nil {
				return err
			}
			return put(tx, pool("d"), func(r *store.Record) { r.Name, r.ClusterID = "b", "another" })
		})
		if revision, err := db.Revision(context.Background()); revision != 3 || err != nil {
			t.Errorf("revision %d, %v; those that failed take none", revision, err)
		}
	})
}

func TestList(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		ctx := context.Background()
		write(t, db, func(tx store.Tx) error {
			for i, platform := range []string{"gcp", "civo", "aws", "civo"} {
				err := put(tx, pool(fmt.Sprint(i)), func(r *store.Record) {
					r.Platform, r.Labels, r.NeedsReconcile, r.Health = platform, map[string]string{"i": fmt.Sprint(i), platform: ""}, i > 1, "h"+platform
				})
				if err != nil {
					return err
				}
			}
			return put(tx, store.Key{Kind: store.Cluster, ID: "cluster"}, func(r *store.Record) { r.Owner = "another" })
		})
		for _, test := range []struct {
			query store.Query
			want  []string
			total int
			more  bool
		}{
			{store.Query{}, []string{"0", "1", "2", "3"}, 4, false},
			{store.Query{Limit: 3}, []string{"0", "1", "2"}, 4, true},
			{store.Query{Limit: 4}, []string{"0", "1", "2", "3"}, 4, false},
			{store.Query{Offset: 3}, []string{"3"}, 4, false},
			{store.Query{Limit: 1, Offset: 1}, []string{"1"}, 4, true},
			{store.Query{Limit: 2, Offset: 9}, nil, 4, false},
			{store.Query{After: 2, Limit: 1}, []string{"2"}, 4, true},
			{store.Query{After: 4}, nil, 4, false},
			{store.Query{Platforms: []string{"civo", "gcp"}}, []string{"0", "1", "3"}, 3, false},
			{store.Query{Platforms: []string{}}, nil, 0, false},
			{store.Query{Owner: "another"}, nil, 0, false},
			{store.Query{ClusterID: "none"}, nil, 0, false},
			{store.Query{Name: "2"}, []string{"2"}, 1, false},
			{store.Query{Health: "hcivo"}, []string{"1", "3"}, 2, false},
			{store.Query{NeedsReconcile: true}, []string{"2", "3"}, 2, false},
			{store.Query{Labels: map[string]string{"i": "3", "civo": ""}}, []string{"3"}, 1, false},
			{store.Query{Labels: map[string]string{"i": "3", "gcp": ""}}, nil, 0, false},
			{store.Query{LabelKeys: []string{"civo"}}, []string{"1", "3"}, 2, false},
			{store.Query{Kind: store.Cluster}, []string{"cluster"}, 1, false},
		} {
			if test.query.Kind == "" {
				test.query.Kind = store.NodePool
			}
			for range 2 { // counted, and remembered
				page, err := db.List(ctx, test.query)
				if err != nil || !slices.Equal(ids(page.Records), test.want) || page.Total != test.total || page.More != test.more || page.Revision != 1 {
					t.Errorf("%+v: %v, %d, %v at %d, %v; want %v, %d, %v at 1", test.query, ids(page.Records), page.Total, page.More, page.Revision, err, test.want, test.total, test.more)
				}
			}
		}
		// Labels that are taken away no longer match.
		write(t, db, func(tx store.Tx) error { return put(tx, pool("1"), func(r *store.Record) { r.Labels = nil }) })
		if page, err := db.List(ctx, store.Query{Kind: store.NodePool, LabelKeys: []string{"civo"}}); err != nil || page.Total != 1 || page.Revision != 2 {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

func TestEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{KeepEvents: time.Hour})
		ctx := context.Background()
		old := time.Now().Add(-2 * time.Hour)
		// Revisions 1 to 4 have 1, 2, 3 and 0 events.
		for revision := range 4 {
			write(t, db, func(tx store.Tx) error {
				for number := range (revision + 1) % 4 {
					event := store.Event{Object: pool(fmt.Sprint(number)), Owner: fmt.Sprint("owner", revision), Text: fmt.Sprint(revision+1, number), Platform: "p"}
					if revision == 0 {
						event.Time = old
					}
					if err := tx.Event(event); err != nil {
						return err
					}
				}
				return nil
			})
		}
		texts := func(events []store.Event, err error) string {
			result := ""
			for _, event := range events {
				result += event.Text + " "
			}
			return result + text(err)
		}
		for _, test := range []struct {
			after int64
			limit int
			want  string
		}{
			{0, 10, "1 0 2 0 2 1 3 0 3 1 3 2 "}, {0, 1, "1 0 "}, {0, 2, "1 0 "}, {0, 3, "1 0 2 0 2 1 "}, {1, 1, "2 0 2 1 "}, {2, 1, "3 0 3 1 3 2 "},
			{3, 1, ""}, {4, 1, ""}, {5, 1, text(store.ErrExpired)},
		} {
			if got := texts(db.EventsAfter(ctx, test.after, test.limit)); got != test.want {
				t.Errorf("after %d, at most %d: %q, want %q", test.after, test.limit, got, test.want)
			}
		}
		for _, test := range []struct {
			query store.EventQuery
			want  string
		}{
			{store.EventQuery{}, "3 2 3 1 3 0 2 1 2 0 1 0 "}, {store.EventQuery{Limit: 1}, "3 2 3 1 3 0 "}, {store.EventQuery{Limit: 4}, "3 2 3 1 3 0 "},
			{store.EventQuery{Limit: 5}, "3 2 3 1 3 0 2 1 2 0 "}, {store.EventQuery{Before: 3, Limit: 2}, "2 1 2 0 "}, {store.EventQuery{ObjectID: "1"}, "3 1 2 1 "},
			{store.EventQuery{Owner: "owner1"}, "2 1 2 0 "}, {store.EventQuery{ClusterID: "x"}, ""}, {store.EventQuery{Platforms: []string{}}, ""},
			{store.EventQuery{Platforms: []string{"p"}, ObjectID: "2"}, "3 2 "},
		} {
			if got := texts(db.Events(ctx, test.query)); got != test.want {
				t.Errorf("%+v: %q, want %q", test.query, got, test.want)
			}
		}
		if err := db.Prune(ctx); err != nil {
			t.Fatal(err)
		}
		if got := texts(db.EventsAfter(ctx, 0, 10)); got != text(store.ErrExpired) {
			t.Errorf("after events were pruned: %q", got)
		}
		if got := texts(db.EventsAfter(ctx, 1, 2)); got != "2 0 2 1 " {
			t.Errorf("after events before were pruned: %q", got)
		}
	})
}

func TestPrune(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{KeepAudit: time.Hour, KeepTombstones: time.Microsecond})
		ctx := context.Background()
		write(t, db, func(tx store.Tx) error {
			for i := range 1100 {
				if err := tx.Audit(store.AuditEntry{Time: time.Now().Add(-2 * time.Hour), ObjectID: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			if err := tx.Audit(store.AuditEntry{ObjectID: "new"}); err != nil {
				return err
			}
			if err := tx.PutIdempotent(store.Idempotent{Key: "k", Expires: tx.Now().Add(time.Hour)}); err != nil {
				return err
			}
			if err := put(tx, pool("1"), nil); err != nil {
				return err
			}
			return tx.Remove(pool("1"))
		})
		if err := db.Prune(ctx); err != nil {
			t.Fatal(err)
		}
		if entries, err := db.Audit(ctx, store.AuditQuery{}); err != nil || len(entries) != 1 || entries[0].ObjectID != "new" {
			t.Errorf("%d entries are left, %v", len(entries), err)
		}
		write(t, db, func(tx store.Tx) error {
			if _, err := tx.Idempotent("", "k"); err != nil {
				t.Errorf("an answer that is valid: %v", err)
			}
			return put(tx, pool("1"), nil)
		})
	})
}

func TestChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		ours, others := open(t, address, store.Options{Poll: 20 * time.Millisecond}), open(t, address, store.Options{})
		for round := range 3 {
			changed := ours.Changed(int64(2 * round))
			for _, db := range []*store.DB{ours, others} {
				write(t, db, func(tx store.Tx) error { return nil })
				select {
				case <-changed:
				case <-time.After(20 * time.Second):
					t.Fatal("nobody told of the change")
				}
				changed = ours.Changed(int64(2*round + 1))
			}
			select {
			case <-ours.Changed(int64(2*round + 2)):
				t.Fatal("told of a change that was not")
			default:
			}
		}
	})
}

func TestLeases(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		db := open(t, address, store.Options{})
		ctx := context.Background()
		acquire := func(holder string, ttl time.Duration, want int64) {
			t.Helper()
			token, ok, err := db.Acquire(ctx, pool("1"), holder, ttl)
			if err != nil || token != want || ok != (want > 0) {
				t.Errorf("%s: token %d, %v, %v; want %d", holder, token, ok, err, want)
			}
		}
		renew := func(token int64, want bool) {
			t.Helper()
			if ok, err := db.Renew(ctx, pool("1"), token, time.Hour); ok != want || err != nil {
				t.Errorf("renew %d: %v, %v; want %v", token, ok, err, want)
			}
		}
		acquire("a", time.Hour, 1)
		acquire("b", time.Hour, 0)
		acquire("a", time.Microsecond, 1)
		renew(1, true)
		acquire("b", time.Hour, 0)
		acquire("a", -time.Second, 1)
		acquire("b", time.Hour, 2)
		renew(1, false)
		if err := db.Release(ctx, pool("1"), 1); err != nil { // it is b's now
			t.Error(err)
		}
		acquire("a", time.Hour, 0)
		if holder, expires, err := db.Lease(ctx, pool("1")); holder != "b" || time.Until(expires) < time.Minute || err != nil {
			t.Errorf("%s, %s, %v", holder, expires, err)
		}
		if err := db.Release(ctx, pool("1"), 2); err != nil {
			t.Error(err)
		}
		renew(2, false)
		acquire("a", time.Hour, 3)
		if _, _, err := db.Lease(ctx, pool("2")); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		if revision, err := db.Revision(ctx); revision != 0 || err != nil {
			t.Errorf("leases raised the revision to %d, %v", revision, err)
		}
	})
}

// TestConflicts has a thousand callers each change one object after reading it: every change is there at the end.
func TestConflicts(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		stores := []*store.DB{open(t, address, store.Options{}), open(t, address, store.Options{})}
		write(t, stores[0], func(tx store.Tx) error { return put(tx, pool("1"), nil) })
		var wait sync.WaitGroup
		for i := range 1000 {
			wait.Go(func() {
				err := stores[i%2].Write(context.Background(), func(tx store.Tx) error {
					return put(tx, pool("1"), func(r *store.Record) { r.Generation++ })
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		for _, db := range stores {
			record, err := db.Get(context.Background(), pool("1"))
			if err != nil || record.Generation != 1000 || record.Revision != 1001 {
				t.Errorf("generation %d at revision %d, %v; want 1000 at 1001", record.Generation, record.Revision, err)
			}
		}
		stats := stores[0].Stats()
		t.Logf("%d transactions in %d commits", stats.Transactions, stats.Batches)
	})
}
