package digitalocean

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	emulated "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
)

// withCluster is a world with a cluster in it.
func withCluster(t *testing.T, timeScale float64) (*world, *thing) {
	t.Helper()
	w := newWorldAt(t, timeScale)
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.mustUp("create", simpleCluster())
	return w, cluster
}

func TestPoolLifeCycle(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	pool := w.thing(t, poolToken, "pool")
	program := simplePool(string(cluster.id))

	pool.mustUp("create", program)
	for path, want := range map[string]any{
		"clusterId":       string(cluster.id),
		"name":            "extra",
		"nodeCount":       1.0,
		"actualNodeCount": 1.0,
		"autoScale":       false,
		"minNodes":        0.0,
		"nodes[0].status": "running",
		"tags":            []any{},
		"labels":          map[string]any{},
		"__meta":          poolMeta,
	} {
		if got := pool.get(path); !cmp.Equal(got, want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if live := w.onlyCluster(t).Pool("extra"); hasTag(live.Tags, defaultPoolTag) {
		t.Errorf("the pool has the tag of a default pool")
	}
	pool.mustUp("same", program)
	pool.mustRefresh()
	pool.mustUp("same", program)
	// The cluster does not mistake the pool for its own.
	cluster.mustRefresh()
	cluster.mustUp("same", simpleCluster())

	if err := pool.destroy(); err != nil {
		t.Fatal(err)
	}
	if live := w.onlyCluster(t); live.Pool("extra") != nil {
		t.Error("the pool is still there")
	}
	if err := pool.destroy(); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}

func TestPoolIsUpdated(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		change props
		check  func(emulated.NodePool) any
		want   any
	}{
		{"it grows", props{"nodeCount": 4}, func(p emulated.NodePool) any { return len(p.Nodes) }, 4},
		{"it shrinks", props{"nodeCount": 1}, func(p emulated.NodePool) any { return len(p.Nodes) }, 1},
		{"it is renamed in place", props{"name": "other"}, func(p emulated.NodePool) any { return p.Name }, "other"},
		{"a tag comes", props{"tags": []any{"a", "b"}}, func(p emulated.NodePool) any { return userTags(p.Tags) }, []string{"a", "b"}},
		{"the last tag goes", props{"tags": nil}, func(p emulated.NodePool) any { return len(userTags(p.Tags)) }, 0},
		{"the last tag goes, said as an empty list", props{"tags": []any{}}, func(p emulated.NodePool) any { return len(userTags(p.Tags)) }, 0},
		{"a label comes and one changes", props{"labels": props{"a": "2", "b": "3"}},
			func(p emulated.NodePool) any { return p.Labels }, map[string]string{"a": "2", "b": "3"}},
		{"the last label goes", props{"labels": nil}, func(p emulated.NodePool) any { return len(p.Labels) }, 0},
		{"the last taint goes", props{"taints": nil}, func(p emulated.NodePool) any { return len(p.Taints) }, 0},
		{"a taint changes", props{"taints": []any{props{"key": "k", "value": "w", "effect": "NoExecute"}}},
			func(p emulated.NodePool) any { return p.Taints }, []emulated.Taint{{Key: "k", Value: "w", Effect: "NoExecute"}}},
		{"the autoscaler takes over", props{"autoScale": true, "minNodes": 0, "maxNodes": 5},
			func(p emulated.NodePool) any { return []any{p.AutoScale, p.MinNodes, p.MaxNodes, p.Count} }, []any{true, 0, 5, 2}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			w, cluster := withCluster(t, 0)
			pool := w.thing(t, poolToken, "pool")
			full := with(simplePool(string(cluster.id)), props{"nodeCount": 2, "tags": []any{"a"}, "labels": props{"a": "1"},
				"taints": []any{props{"key": "k", "value": "v", "effect": "NoSchedule"}}})
			pool.mustUp("create", full)
			id := pool.id
			changed := with(full, test.change)

			pool.mustUp("update", changed)
			live := w.onlyCluster(t).NodePools[1]
			if live.ID != string(id) {
				t.Fatal("it is another pool")
			}
			if diff := cmp.Diff(test.want, test.check(live)); diff != "" {
				t.Errorf("the cloud (-want +got):\n%s", diff)
			}
			pool.mustUp("same", changed)
			pool.mustRefresh()
			pool.mustUp("same", changed)
		})
	}
}

// The answer to an update is believed only when it shows the pool with as many nodes as were asked for, and all of them running.
func TestPoolUpdateWaitsForNodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		change *strings.Replacer // of the answer to the PUT
		looks  int               // after the PUT
	}{
		{"its nodes run", strings.NewReplacer(), 0},
		{"its nodes do not run yet", strings.NewReplacer(`"running"`, `"provisioning"`), 1},
		{"the answer is the pool of before", nil, 1},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			w, cluster := withCluster(t, 0)
			pool := w.thing(t, poolToken, "pool")
			pool.mustUp("create", simplePool(string(cluster.id)))
			path := poolPath(string(cluster.id), string(pool.id))
			var looks atomic.Int32
			w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method != http.MethodPut || r.URL.Path != path {
					if r.Method == http.MethodGet && r.URL.Path == path {
						looks.Add(1)
					}
					next.ServeHTTP(out, r)
					return
				}
				before, answer := newRecorder(), newRecorder()
				look := httptest.NewRequestWithContext(r.Context(), http.MethodGet, path, nil)
				look.Header = r.Header.Clone()
				next.ServeHTTP(before, look)
				next.ServeHTTP(answer, r)
				looks.Store(0)
				if test.change == nil {
					before.replay(out, strings.NewReplacer())
					return
				}
				answer.replay(out, test.change)
			})
			pool.mustUp("update", with(simplePool(string(cluster.id)), props{"nodeCount": 3}))
			if got := pool.get("actualNodeCount"); got != 3.0 || int(looks.Load()) != test.looks {
				t.Errorf("%v nodes are recorded after %d looks, want 3 after %d", got, looks.Load(), test.looks)
			}
		})
	}
}

func TestPoolPlans(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	made := w.thing(t, poolToken, "pool")
	base := with(simplePool(string(cluster.id)), props{"tags": []any{"Alpha", "beta"}, "taints": []any{
		props{"key": "a", "value": "1", "effect": "NoSchedule"}, props{"key": "b", "value": "2", "effect": "NoExecute"}}})
	made.mustUp("create", base)
	tests := []struct {
		reason  string
		program props
		want    []string // changed properties
		replace bool
		first   bool // the old one is deleted first
	}{
		{"nothing changes", base, nil, false, false},
		{"another cluster", with(base, props{"clusterId": "other"}), []string{"clusterId"}, true, true},
		{"another cluster and name", with(base, props{"clusterId": "other", "name": "n"}), []string{"clusterId", "name"}, true, false},
		{"another size", with(base, props{"size": "s-4vcpu-8gb"}), []string{"size"}, true, true},
		{"another size and name", with(base, props{"size": "s-4vcpu-8gb", "name": "n"}), []string{"name", "size"}, true, false},
		{"tags in another order and case", with(base, props{"tags": []any{"BETA", "alpha"}}), nil, false, false},
		{"taints in another order", with(base, props{"taints": []any{
			props{"key": "b", "value": "2", "effect": "NoExecute"}, props{"key": "a", "value": "1", "effect": "NoSchedule"}}}), nil, false, false},
		{"bounds without autoscaling", with(base, props{"minNodes": 1, "maxNodes": 3}), nil, false, false},
		{"more nodes", with(base, props{"nodeCount": 2}), []string{"nodeCount"}, false, false},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			pool := *made
			pool.t = t
			diff, err := pool.plan(test.program)
			if err != nil {
				t.Fatal(err)
			}
			if got := changes(diff); !slices.Equal(got, test.want) {
				t.Errorf("changes %v, want %v", got, test.want)
			}
			if replaces := len(diff.ReplaceKeys) > 0; replaces != test.replace || diff.DeleteBeforeReplace != test.first {
				t.Errorf("replaces %v, deletes first %v", replaces, diff.DeleteBeforeReplace)
			}
		})
	}
}

// TestAutoscaledPool is about who may say how many nodes there are.
func TestAutoscaledPool(t *testing.T) {
	t.Parallel()
	scaling := props{"autoScale": true, "minNodes": 1, "maxNodes": 6}

	t.Run("a count that is not given is never sent and never missed", func(t *testing.T) {
		t.Parallel()
		w, cluster := withCluster(t, 0)
		pool := w.thing(t, poolToken, "pool")
		program := with(with(simplePool(string(cluster.id)), scaling), props{"nodeCount": nil})
		pool.mustUp("create", program)
		if err := w.cloud.ScalePool(string(cluster.id), string(pool.id), 4); err != nil {
			t.Fatal(err)
		}
		pool.mustUp("same", program)
		pool.mustRefresh()
		pool.mustUp("same", program)
		if got := pool.get("actualNodeCount"); got != 4.0 {
			t.Errorf("actualNodeCount is %v", got)
		}
		pool.mustUp("update", with(program, props{"labels": props{"a": "b"}, "maxNodes": 5}))
		if got := w.onlyCluster(t).Pool("extra").Count; got != 4 {
			t.Errorf("an unrelated change resized the pool to %d", got)
		}
	})
	t.Run("a count that is given is the first size, and then only what changes it", func(t *testing.T) {
		t.Parallel()
		w, cluster := withCluster(t, 0)
		pool := w.thing(t, poolToken, "pool")
		program := with(with(simplePool(string(cluster.id)), scaling), props{"nodeCount": 2})
		pool.mustUp("create", program)
		if got := w.onlyCluster(t).Pool("extra").Count; got != 2 {
			t.Errorf("it began with %d nodes", got)
		}
		if err := w.cloud.ScalePool(string(cluster.id), string(pool.id), 5); err != nil {
			t.Fatal(err)
		}
		pool.mustRefresh()
		pool.mustUp("same", program)
		relabelled := with(program, props{"labels": props{"a": "b"}})
		pool.mustUp("update", relabelled)
		if got := w.onlyCluster(t).Pool("extra").Count; got != 5 {
			t.Errorf("an unrelated change resized the pool to %d", got)
		}
		pool.mustUp("update", with(relabelled, props{"nodeCount": 3}))
		if got := w.onlyCluster(t).Pool("extra").Count; got != 3 {
			t.Errorf("the user asked for 3 nodes, there are %d", got)
		}
	})
	t.Run("the same holds for the default pool", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		cluster := w.thing(t, clusterToken, "cluster")
		program := withPool(simpleCluster(), with(scaling, props{"nodeCount": 2}))
		cluster.mustUp("create", program)
		if err := w.cloud.ScalePool(string(cluster.id), w.onlyCluster(t).NodePools[0].ID, 5); err != nil {
			t.Fatal(err)
		}
		cluster.mustRefresh()
		cluster.mustUp("same", program)
		cluster.mustUp("update", with(program, props{"tags": []any{"a"}}))
		cluster.mustUp("update", withPool(with(program, props{"tags": []any{"a"}}), props{"labels": props{"a": "b"}}))
		if got := w.onlyCluster(t).NodePools[0].Count; got != 5 {
			t.Errorf("an unrelated change resized the pool to %d", got)
		}
	})
	t.Run("without autoscaling the count is the declaration's again", func(t *testing.T) {
		t.Parallel()
		w, cluster := withCluster(t, 0)
		pool := w.thing(t, poolToken, "pool")
		program := with(with(simplePool(string(cluster.id)), scaling), props{"nodeCount": 2})
		pool.mustUp("create", program)
		if err := w.cloud.ScalePool(string(cluster.id), string(pool.id), 5); err != nil {
			t.Fatal(err)
		}
		pool.mustRefresh()
		pool.mustUp("update", with(program, props{"autoScale": false}))
		if got := w.onlyCluster(t).Pool("extra"); got.Count != 2 || got.AutoScale {
			t.Errorf("the pool has %d nodes, autoscaling %v", got.Count, got.AutoScale)
		}
		pool.mustUp("same", with(program, props{"autoScale": false}))
	})
	t.Run("a pool can begin empty", func(t *testing.T) {
		t.Parallel()
		w, cluster := withCluster(t, 0)
		pool := w.thing(t, poolToken, "pool")
		pool.mustUp("create", with(simplePool(string(cluster.id)), props{"autoScale": true, "minNodes": 0, "maxNodes": 3, "nodeCount": 0}))
		if got := w.onlyCluster(t).Pool("extra").Count; got != 0 {
			t.Errorf("it began with %d nodes", got)
		}
	})
}

func TestIgnoredCountStays(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	pool := w.thing(t, poolToken, "pool")
	program := simplePool(string(cluster.id))
	pool.mustUp("create", program)
	if err := w.cloud.ScalePool(string(cluster.id), string(pool.id), 3); err != nil {
		t.Fatal(err)
	}
	pool.mustRefresh()
	pool.ignore = []string{"nodeCount"}
	pool.mustUp("same", program)
	pool.mustUp("update", with(program, props{"labels": props{"a": "b"}}))
	if got := w.onlyCluster(t).Pool("extra").Count; got != 3 {
		t.Errorf("the pool has %d nodes, want the 3 that are ignored", got)
	}
}

func TestPoolCreationThatFailsIsNotForgotten(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0.01)
	pool := w.thing(t, poolToken, "pool")
	pool.timeout = 0.2
	program := simplePool(string(cluster.id))
	_, err := pool.up(program)
	wantErr(t, err, "timed out after 200ms", "0 of 1 nodes run")
	if pool.id == "" || !pool.unready || pool.get("clusterId") != string(cluster.id) {
		t.Fatal("the pool exists, but the state does not know it")
	}
	pool.timeout = patience
	pool.mustUp("update", program)
	if pool.get("nodes[0].status") != "running" {
		t.Error("the node does not run")
	}
	if n := w.count(http.MethodPost, "/node_pools"); n != 1 {
		t.Errorf("%d pools were asked for", n)
	}
}

func TestPoolDeletionIsWaitedFor(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0.01)
	pool := w.thing(t, poolToken, "pool")
	pool.mustUp("create", simplePool(string(cluster.id)))
	start := time.Now()
	if err := pool.destroy(); err != nil {
		t.Fatal(err)
	}
	if w.onlyCluster(t).Pool("extra") != nil || time.Since(start) < 100*time.Millisecond {
		t.Errorf("the deletion ended after %v", time.Since(start))
	}
}

func TestPoolOfAClusterThatIsGone(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	pool := w.thing(t, poolToken, "pool")
	pool.mustUp("create", simplePool(string(cluster.id)))
	if err := w.cloud.DeleteCluster(string(cluster.id)); err != nil {
		t.Fatal(err)
	}
	if there, err := pool.refresh(); there || err != nil {
		t.Errorf("there %v, error %v", there, err)
	}
	if err := pool.destroy(); err != nil {
		t.Errorf("deleting it: %v", err)
	}
	_, err := w.thing(t, poolToken, "late").up(simplePool(string(cluster.id)))
	wantErr(t, err, "create digitalocean node pool extra in cluster "+string(cluster.id), "404")
}

func TestPoolChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for reason, test := range map[string]struct {
		program props
		want    string
	}{
		"no cluster":            {with(simplePool("c"), props{"clusterId": nil}), "clusterId: missing"},
		"an empty cluster":      {with(simplePool(""), nil), "clusterId: must not be empty"},
		"no size":               {with(simplePool("c"), props{"size": nil}), "size: missing"},
		"no count":              {with(simplePool("c"), props{"nodeCount": nil}), "nodeCount: must be given"},
		"half a node":           {with(simplePool("c"), props{"nodeCount": 1.5}), "nodeCount: expected an integer"},
		"fewer than no nodes":   {with(simplePool("c"), props{"nodeCount": -1}), "nodeCount: is -1"},
		"no upper bound":        {with(simplePool("c"), props{"autoScale": true}), "maxNodes: must be given"},
		"a taint without key":   {with(simplePool("c"), props{"taints": []any{props{"value": "v", "effect": "NoExecute"}}}), "taints[0].key"},
		"a label with a number": {with(simplePool("c"), props{"labels": props{"a": 1}}), "labels.a"},
	} {
		_, failures := w.thing(t, poolToken, "pool").check(test.program)
		if got := fmt.Sprint(failures); len(failures) == 0 || !containsText(got, test.want) {
			t.Errorf("%s: failures %s, want one with %q", reason, got, test.want)
		}
	}
}

// An update whose answer is cut off is not lost, and is not asked for again.
func TestUpdateWithHalfAnAnswer(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	pool, vpc := w.thing(t, poolToken, "pool"), w.thing(t, vpcToken, "vpc")
	pool.mustUp("create", simplePool(string(cluster.id)))
	vpc.mustUp("create", props{"name": "net", "region": "nyc1"})
	changed := map[*thing]props{
		pool: with(simplePool(string(cluster.id)), props{"labels": props{"a": "b"}}),
		vpc:  {"name": "net", "region": "nyc1", "description": "changed"},
	}
	for o, program := range changed {
		w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
			answer := newRecorder()
			next.ServeHTTP(answer, r)
			if r.Method == http.MethodPut {
				answer.Body.Truncate(answer.Body.Len() / 2)
			}
			answer.replay(out, strings.NewReplacer())
		})
		if _, err := o.up(program); err == nil {
			t.Errorf("%s: half an answer is taken for a whole one", o.typ)
		}
		w.fault(nil)
		o.mustUp("update", program)
		o.mustUp("same", program)
		if puts := w.count(http.MethodPut, string(o.id)); puts != 1 {
			t.Errorf("%s: %d PUT requests, want one", o.typ, puts)
		}
	}
}
