package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// operation is a step of a transaction. Its result is text, so that what a database and the model answer can be compared.
type operation struct {
	Name                  string
	Key                   store.Key
	NewName, Value, Owner string
	ClusterID             string
	Nodes                 int32
}

// transaction is a function for Write.
type transaction struct {
	Operations []operation
	Fails      bool // at its end
}

// outcome is what a transaction saw.
type outcome struct {
	transaction
	revision  int64
	results   []string
	committed bool
}

var errWanted = errors.New("this transaction is meant to fail")

// onTx runs an operation.
func (o operation) onTx(tx store.Tx) string {
	switch o.Name {
	case "create":
		return text(tx.Put(store.Record{
			Key: o.Key, Name: o.NewName, ClusterID: o.ClusterID, Owner: o.Owner, Nodes: o.Nodes, Phase: o.Value, Labels: map[string]string{"v": o.Value},
		}))
	case "update":
		record, err := tx.Get(o.Key)
		if err != nil {
			return text(err)
		}
		record.Name, record.Phase, record.Nodes, record.Labels = o.NewName, record.Phase+o.Value, o.Nodes, map[string]string{"v": o.Value}
		return text(tx.Put(record))
	case "remove":
		return text(tx.Remove(o.Key))
	case "get":
		record, err := tx.Get(o.Key)
		return fmt.Sprint(record.Name, record.Phase, record.Revision, text(err))
	case "pools":
		records, err := tx.Pools(o.ClusterID)
		return strings.Join(ids(records), " ") + text(err)
	case "owned":
		count, err := tx.CountOwned(o.Key.Kind, o.Owner)
		nodes, failed := tx.NodesOwned(o.Owner)
		return fmt.Sprint(count, nodes, text(err), text(failed))
	case "report":
		return text(tx.PutReport(o.Key, store.Report{Controller: o.NewName, ObservedGeneration: o.Nodes}))
	case "reports":
		reports, err := tx.Reports(o.Key)
		return fmt.Sprint(reports, text(err))
	}
	panic(o.Name)
}

func ids(records []store.Record) (ids []string) {
	for _, record := range records {
		ids = append(ids, record.ID)
	}
	return ids
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return "error: " + err.Error()
}

// model is what a database is to hold.
type model struct {
	records  []store.Record // in the order of creation
	removed  map[store.Key]bool
	reports  map[store.Key][]store.Report
	revision int64
}

func (m *model) clone() *model {
	c := &model{records: slices.Clone(m.records), removed: map[store.Key]bool{}, reports: map[store.Key][]store.Report{}, revision: m.revision}
	for key := range m.removed {
		c.removed[key] = true
	}
	for key, reports := range m.reports {
		c.reports[key] = slices.Clone(reports)
	}
	return c
}

func (m *model) index(key store.Key) int {
	return slices.IndexFunc(m.records, func(r store.Record) bool { return r.Key == key })
}

func (m *model) nameTaken(r store.Record) bool {
	scope := func(r store.Record) string {
		if r.Kind == store.Cluster {
			return r.Owner
		}
		return r.ClusterID
	}
	return slices.ContainsFunc(m.records, func(o store.Record) bool {
		return o.Kind == r.Kind && o.ID != r.ID && scope(o) == scope(r) && o.Name == r.Name
	})
}

func (m *model) run(o operation) string {
	at := m.index(o.Key)
	switch o.Name {
	case "create":
		record := store.Record{
			Key: o.Key, Name: o.NewName, ClusterID: o.ClusterID, Owner: o.Owner, Nodes: o.Nodes, Phase: o.Value, Labels: map[string]string{"v": o.Value},
			Revision: m.revision,
		}
		switch {
		case at >= 0 || m.removed[o.Key]:
			return text(store.ErrIDTaken)
		case m.nameTaken(record):
			return text(store.ErrNameTaken)
		}
		m.records = append(m.records, record)
		return ""
	case "update":
		if at < 0 {
			return text(store.ErrNotFound)
		}
		record := m.records[at]
		record.Name, record.Phase, record.Nodes, record.Labels = o.NewName, record.Phase+o.Value, o.Nodes, map[string]string{"v": o.Value}
		record.Revision = m.revision
		if m.nameTaken(record) {
			return text(store.ErrNameTaken)
		}
		m.records[at] = record
		return ""
	case "remove":
		if at < 0 {
			return text(store.ErrNotFound)
		}
		m.records = slices.Delete(slices.Clone(m.records), at, at+1)
		m.removed[o.Key] = true
		delete(m.reports, o.Key)
		return ""
	case "get":
		if at < 0 {
			return fmt.Sprint("", "", int64(0), text(store.ErrNotFound))
		}
		return fmt.Sprint(m.records[at].Name, m.records[at].Phase, m.records[at].Revision, "")
	case "pools":
		return strings.Join(ids(m.matching(store.Query{Kind: store.NodePool, ClusterID: o.ClusterID})), " ")
	case "owned":
		nodes := 0
		for _, record := range m.records {
			if record.Owner == o.Owner {
				nodes += int(record.Nodes)
			}
		}
		return fmt.Sprint(len(m.matching(store.Query{Kind: o.Key.Kind, Owner: o.Owner})), nodes, "", "")
	case "report":
		reports := slices.DeleteFunc(m.reports[o.Key], func(r store.Report) bool { return r.Controller == o.NewName })
		reports = append(reports, store.Report{Controller: o.NewName, ObservedGeneration: o.Nodes})
		slices.SortFunc(reports, func(a, b store.Report) int { return strings.Compare(a.Controller, b.Controller) })
		m.reports[o.Key] = reports
		return ""
	case "reports":
		return fmt.Sprint(m.reports[o.Key], "")
	}
	panic(o.Name)
}

func (m *model) matching(q store.Query) (matching []store.Record) {
	for _, r := range m.records {
		equal := func(wanted, is string) bool { return wanted == "" || wanted == is }
		if r.Kind == q.Kind && equal(q.Owner, r.Owner) && equal(q.ClusterID, r.ClusterID) && equal(q.Name, r.Name) && equal(q.Labels["v"], r.Labels["v"]) {
			matching = append(matching, r)
		}
	}
	return matching
}

// TestHistory has several writers run transactions at the same time, on two stores of the same database where several may be
// used, and replays what they saw in the order of revisions: every answer has to be that of the model at this place.
func TestHistory(t *testing.T) {
	onBoth(t, func(t *testing.T, address string) {
		stores := []*store.DB{open(t, address, store.Options{}), open(t, address, store.Options{})}
		ctx := context.Background()
		round := 0
		rapid.Check(t, func(t *rapid.T) {
			round++
			named := func(text string) string { return fmt.Sprintf("%s-%d", text, round) }
			keys := rapid.Custom(func(t *rapid.T) store.Key {
				kind := rapid.SampledFrom([]store.Kind{store.NodePool, store.NodePool, store.Cluster}).Draw(t, "kind")
				return store.Key{Kind: kind, ID: named(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id"))}
			})
			operations := rapid.Custom(func(t *rapid.T) operation {
				return operation{
					Name:      rapid.SampledFrom([]string{"create", "create", "update", "update", "remove", "get", "pools", "owned", "report", "reports"}).Draw(t, "name"),
					Key:       keys.Draw(t, "key"),
					NewName:   rapid.SampledFrom([]string{"x", "y", "Z"}).Draw(t, "new name"),
					Owner:     named(rapid.SampledFrom([]string{"o", "p"}).Draw(t, "owner")),
					ClusterID: named(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "cluster")),
					Value:     rapid.SampledFrom([]string{"+", "-"}).Draw(t, "value"),
					Nodes:     rapid.Int32Range(0, 5).Draw(t, "nodes"),
				}
			})
			writers := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) transaction {
				return transaction{Operations: rapid.SliceOfN(operations, 1, 4).Draw(t, "operations"), Fails: rapid.IntRange(0, 4).Draw(t, "fails") == 0}
			}), 1, 5), 1, 4).Draw(t, "writers")

			start, err := stores[0].Revision(ctx)
			if err != nil {
				t.Fatal(err)
			}
			history := run(t, stores, writers)
			slices.SortStableFunc(history, func(a, b outcome) int {
				if a.revision != b.revision {
					return int(a.revision - b.revision)
				}
				if a.committed == b.committed {
					return 0
				}
				if b.committed {
					return -1 // it failed, and saw what was there before the one that got the revision
				}
				return 1
			})
			is := &model{removed: map[store.Key]bool{}, reports: map[store.Key][]store.Report{}, revision: start}
			for _, outcome := range history {
				next := is.clone()
				next.revision++
				if outcome.revision != next.revision {
					t.Fatalf("a transaction has revision %d, the next one is %d: %+v", outcome.revision, next.revision, history)
				}
				var results []string
				for _, operation := range outcome.Operations {
					results = append(results, next.run(operation))
				}
				if diff := cmp.Diff(results, outcome.results); diff != "" {
					t.Fatalf("%+v at revision %d: -model +database:\n%s", outcome.Operations, outcome.revision, diff)
				}
				if outcome.committed {
					is = next
				}
			}
			for _, db := range stores {
				compare(t, db, is, named)
			}
		})
	})
}

func run(t *rapid.T, stores []*store.DB, writers [][]transaction) (history []outcome) {
	var mutex sync.Mutex
	var wait sync.WaitGroup
	for i, transactions := range writers {
		wait.Go(func() {
			for _, transaction := range transactions {
				seen := outcome{transaction: transaction}
				err := stores[i%len(stores)].Write(context.Background(), func(tx store.Tx) error {
					seen.revision, seen.results = tx.Revision(), nil
					for _, operation := range transaction.Operations {
						seen.results = append(seen.results, operation.onTx(tx))
					}
					if transaction.Fails {
						return errWanted
					}
					return tx.Event(store.Event{Type: "test", Object: transaction.Operations[0].Key})
				})
				seen.committed = err == nil
				if err != nil && !errors.Is(err, errWanted) || transaction.Fails != (err != nil) {
					t.Errorf("write: %v", err)
				}
				mutex.Lock()
				history = append(history, seen)
				mutex.Unlock()
			}
		})
	}
	wait.Wait()
	return history
}

// compare compares what can be read from outside with the model.
func compare(t *rapid.T, db *store.DB, is *model, named func(string) string) {
	ctx := context.Background()
	revision, err := db.Revision(ctx)
	if err != nil || revision != is.revision {
		t.Fatalf("revision %d, %v; want %d", revision, err, is.revision)
	}
	for _, query := range []store.Query{
		{Kind: store.NodePool, ClusterID: named("1")},
		{Kind: store.NodePool, ClusterID: named("2"), Labels: map[string]string{"v": "+"}},
		{Kind: store.NodePool, Owner: named("o"), Name: "x"},
		{Kind: store.Cluster, Owner: named("p")},
	} {
		want := is.matching(query)
		// In pages, by offset and by sequence, all at the same revision.
		var byOffset, bySequence []store.Record
		for more := true; more; {
			query.Limit, query.Offset, query.After = 2, len(byOffset), 0
			page, err := db.List(ctx, query)
			if err != nil || page.Total != len(want) || page.Revision != is.revision {
				t.Fatalf("%+v: %+v, %v; want %d at %d", query, page, err, len(want), is.revision)
			}
			byOffset, more = append(byOffset, page.Records...), page.More
		}
		for more := true; more; {
			query.Limit, query.Offset = 2, 0
			if len(bySequence) > 0 {
				query.After = bySequence[len(bySequence)-1].Sequence
			}
			page, err := db.List(ctx, query)
			if err != nil || page.Total != len(want) {
				t.Fatalf("%+v: %+v, %v; want %d", query, page, err, len(want))
			}
			bySequence, more = append(bySequence, page.Records...), page.More
		}
		for i := range byOffset {
			byOffset[i].Sequence = 0
		}
		for i := range bySequence {
			bySequence[i].Sequence = 0
		}
		if diff := cmp.Diff(want, byOffset); diff != "" {
			t.Fatalf("%+v: -model +database:\n%s", query, diff)
		}
		if diff := cmp.Diff(byOffset, bySequence); diff != "" {
			t.Fatalf("%+v: -by offset +by sequence:\n%s", query, diff)
		}
	}
	for _, want := range is.records {
		record, err := db.Get(ctx, want.Key)
		record.Sequence = 0
		if diff := cmp.Diff(want, record); err != nil || diff != "" {
			t.Fatalf("get %v: %v -model +database:\n%s", want.Key, err, diff)
		}
	}
	for key := range is.removed {
		if _, err := db.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("get %v: %v, want not found", key, err)
		}
	}
}
