package service_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// chain checks that the audit log of a pool is a chain: what each write found is what the write before it left. It returns the pool
// after each write.
func (b *bench) chain(t interface {
	Helper()
	Fatalf(string, ...any)
}, id string) []*nodepoolsv1.NodePool {
	t.Helper()
	log, err := b.store.Audit(context.Background(), store.AuditQuery{ObjectID: id, Limit: 0})
	if err != nil {
		t.Fatalf("read the audit log: %v", err)
	}
	slices.Reverse(log)
	result := make([]*nodepoolsv1.NodePool, 0, len(log))
	for i, entry := range log {
		if i > 0 && entry.Before != log[i-1].After {
			t.Fatalf("write %d found\n%s\nbut the write before left\n%s", i, entry.Before, log[i-1].After)
		}
		pool := &nodepoolsv1.NodePool{}
		if entry.After != "" {
			if err := protojson.Unmarshal([]byte(entry.After), pool); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
		}
		result = append(result, pool)
	}
	return result
}

func withCount(spec *nodepoolsv1.NodePoolSpec, count int32, writer string) *nodepoolsv1.NodePoolSpec {
	result := proto.CloneOf(spec)
	result.NodeCount = proto.Int32(count)
	result.Labels = map[string]string{"writer": writer}
	return result
}

// TestConcurrentPuts has 1,000 PUTs of one pool at the same time: some that nothing guards, some that carry a version, of which one at
// most can be right, and some clients that count up, reading again whenever they were too late. None that was acknowledged is lost.
func TestConcurrentPuts(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, address string) {
		b := newBenchAt(t, address)
		cluster := b.cluster(alice, "production", "gcp")
		pool, counter := b.pool(alice, cluster.GetId(), "workers"), b.pool(alice, cluster.GetId(), "counter")
		const blind, guarded, counters, each = 400, 400, 4, 50
		var group sync.WaitGroup
		var written, won, counted atomic.Int32
		acknowledged := make([]string, blind+guarded)
		for i := range blind + guarded {
			group.Go(func() {
				writer := fmt.Sprintf("w-%d", i)
				request := &nodepoolsv1.UpdateNodePoolRequest{Id: pool.GetId(), Nodepool: &nodepoolsv1.NodePool{Spec: withCount(pool.GetSpec(), int32(i), writer)}}
				ctx := b.as(alice)
				if i >= blind {
					if i%2 == 0 {
						ctx = b.as(alice, service.Request{IfMatch: `"` + pool.GetResourceVersion() + `"`})
					} else {
						request.Nodepool.ResourceVersion = pool.GetResourceVersion()
					}
				}
				_, err := b.UpdateNodePool(ctx, request)
				switch reason := service.Reason(err); {
				case err == nil:
					acknowledged[i] = writer
					written.Add(1)
					if i >= blind {
						won.Add(1)
					}
				case i < blind || reason != "PRECONDITION_FAILED" && reason != "CONFLICT":
					t.Errorf("PUT %d: %v", i, err)
				}
			})
		}
		for i := range counters {
			group.Go(func() {
				for n := 0; n < each; {
					current, err := b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: counter.GetId()})
					if err != nil {
						t.Error(err)
						return
					}
					_, err = b.UpdateNodePool(b.as(alice), &nodepoolsv1.UpdateNodePoolRequest{Id: counter.GetId(), Nodepool: &nodepoolsv1.NodePool{
						ResourceVersion: current.GetResourceVersion(), Spec: withCount(current.GetSpec(), current.GetSpec().GetNodeCount()+1, fmt.Sprintf("c-%d-%d", i, n)),
					}})
					switch {
					case err == nil:
						n++
						counted.Add(1)
					case service.Reason(err) != "CONFLICT":
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		if got := b.get(counter.GetId()); got.GetSpec().GetNodeCount() != 3+counters*each || got.GetGeneration() != 1+counters*each {
			t.Errorf("%d times counted up from 3, the count is %d at generation %d", counters*each, got.GetSpec().GetNodeCount(), got.GetGeneration())
		}
		b.chain(t, counter.GetId())
		if won.Load() > 1 {
			t.Errorf("%d writes were right about the same version", won.Load())
		}
		history := b.chain(t, pool.GetId())
		if len(history) != int(written.Load())+1 || b.get(pool.GetId()).GetGeneration() != written.Load()+1 {
			t.Errorf("%d writes were acknowledged, and %d are there", written.Load(), len(history)-1)
		}
		for i, writer := range acknowledged {
			if writer != "" && !slices.ContainsFunc(history, func(one *nodepoolsv1.NodePool) bool { return one.GetSpec().GetLabels()["writer"] == writer }) {
				t.Errorf("the acknowledged PUT %d is lost", i)
			}
		}
	})
}

// operation is one request of a client, with when it began and ended, in ticks of one clock.
type operation struct {
	kind, pool, writer string
	guard              bool
	count              int32
	began, ended       int64
	version            int64
	err                error
	seen               *nodepoolsv1.NodePool
}

// TestHistory has clients do what rapid draws, at the same time, and checks that there is an order of all requests that explains every
// answer: the order of the revisions.
func TestHistory(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, address string) {
		b := newBenchAt(t, address)
		cluster := b.cluster(alice, "production", "gcp")
		runs := 0
		rapid.Check(t, func(t *rapid.T) {
			runs++
			ids := make([]string, 2)
			for i := range ids {
				pool, err := b.create(alice, cluster.GetId(), fmt.Sprintf("run-%d-%d", runs, i), gcpSpec)
				if err != nil {
					t.Fatal(err)
				}
				ids[i] = pool.GetId()
			}
			plans := make([][]*operation, rapid.IntRange(2, 5).Draw(t, "clients"))
			for i := range plans {
				for n := range rapid.IntRange(1, 8).Draw(t, "operations") {
					plans[i] = append(plans[i], &operation{
						kind:   rapid.SampledFrom([]string{"get", "put", "put", "patch", "status", "list"}).Draw(t, "kind"),
						pool:   rapid.SampledFrom(ids).Draw(t, "pool"),
						guard:  rapid.Bool().Draw(t, "guard"),
						count:  rapid.Int32Range(0, 3).Draw(t, "count"),
						writer: fmt.Sprintf("w-%d-%d", i, n),
					})
				}
			}
			var clock atomic.Int64
			var group sync.WaitGroup
			for _, plan := range plans {
				group.Go(func() {
					for _, operation := range plan {
						operation.began = clock.Add(1)
						b.do(operation)
						operation.ended = clock.Add(1)
					}
				})
			}
			group.Wait()
			for _, id := range ids {
				b.explain(t, id, slices.Concat(plans...))
			}
		})
	})
}

// do makes the request of an operation.
func (b *bench) do(o *operation) {
	current, err := b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: o.pool})
	if err != nil {
		o.err = err
		return
	}
	request := service.Request{}
	if o.guard {
		request.IfMatch = `"` + current.GetResourceVersion() + `"`
	}
	switch o.kind {
	case "get":
		o.seen = current
	case "list":
		list, err := b.ListNodePools(b.as(alice), &nodepoolsv1.ListNodePoolsRequest{Name: current.GetName()})
		if o.err = err; err == nil {
			o.seen = list.GetNodepools()[0]
		}
	case "put":
		o.seen, o.err = b.UpdateNodePool(b.as(alice, request), &nodepoolsv1.UpdateNodePoolRequest{Id: o.pool, Nodepool: &nodepoolsv1.NodePool{Spec: withCount(current.GetSpec(), o.count, o.writer)}})
	case "patch":
		patch := &nodepoolsv1.PatchNodePoolRequest{}
		if o.err = protojson.Unmarshal([]byte(fmt.Sprintf(`{"patch": {"spec": {"nodeCount": %d}}}`, o.count)), patch); o.err == nil {
			patch.Id = o.pool
			o.seen, o.err = b.PatchNodePool(b.as(alice, request), patch)
		}
	case "status":
		_, o.err = b.UpdateNodePoolStatus(b.as(controller), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: o.pool, Report: reportOf("machines", current.GetGeneration(), "Ready="+map[bool]string{true: "True", false: "False"}[o.guard])})
	}
	if o.seen != nil {
		_, _ = fmt.Sscan(o.seen.GetResourceVersion(), &o.version)
	}
}

// explain checks the answers about one pool against the history that the audit log tells.
func (b *bench) explain(t *rapid.T, id string, operations []*operation) {
	history := b.chain(t, id)
	byVersion := map[string]*nodepoolsv1.NodePool{}
	for i, pool := range history {
		byVersion[pool.GetResourceVersion()] = pool
		if i == 0 {
			continue
		}
		before := history[i-1]
		same := proto.Equal(before.GetSpec(), pool.GetSpec())
		if rises := pool.GetGeneration() - before.GetGeneration(); rises != map[bool]int32{true: 0, false: 1}[same] {
			t.Fatalf("the generation goes from %d to %d; the spec is the same: %t", before.GetGeneration(), pool.GetGeneration(), same)
		}
		if current := pool.GetStatus(); current.GetObservedGeneration() > pool.GetGeneration() || current.GetPhase() == "Ready" && current.GetObservedGeneration() != pool.GetGeneration() {
			t.Fatalf("at generation %d the status is %v", pool.GetGeneration(), current)
		}
	}
	var done []*operation
	for _, o := range operations {
		if o.pool != id {
			continue
		}
		switch reason := service.Reason(o.err); {
		case o.err == nil && o.seen != nil:
			if kept := byVersion[o.seen.GetResourceVersion()]; !proto.Equal(kept, o.seen) {
				t.Fatalf("%s answered %v, but version %s was %v", o.kind, o.seen, o.seen.GetResourceVersion(), kept)
			}
			if o.kind == "put" && (o.seen.GetSpec().GetLabels()["writer"] != o.writer || o.seen.GetSpec().GetNodeCount() != o.count) {
				t.Fatalf("the PUT of %s answered %v", o.writer, o.seen)
			}
			done = append(done, o)
		case o.err != nil && (reason == "PRECONDITION_FAILED" && o.guard || reason == "CONFLICT" && o.kind == "status"):
		case o.err != nil:
			t.Fatalf("%s: %v", o.kind, o.err)
		}
	}
	// What ended before something else began is not newer than that.
	for _, one := range done {
		for _, other := range done {
			if one.ended < other.began && one.version > other.version {
				t.Fatalf("%s ended at %d with version %d, and %s began at %d with version %d", one.kind, one.ended, one.version, other.kind, other.began, other.version)
			}
		}
	}
}
