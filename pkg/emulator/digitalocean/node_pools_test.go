package digitalocean

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

func TestNodePoolLife(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	kubernetes := f.client.Kubernetes
	cluster := must[*godo.KubernetesCluster](t)(kubernetes.Create(ctx, simpleCluster("prod")))

	pool := must[*godo.KubernetesNodePool](t)(kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{
		Name: "extra", Size: "s-4vcpu-8gb", Count: 3, Tags: []string{"batch"}, Labels: map[string]string{"a": "b"},
		Taints: []godo.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}, {Key: "k", Value: "v", Effect: "PreferNoSchedule"}},
	}))
	want := &godo.KubernetesNodePool{
		ID: pool.ID, Name: "extra", Size: "s-4vcpu-8gb", Count: 3, Nodes: pool.Nodes,
		Tags: []string{"batch", "k8s", "k8s:" + cluster.ID, "k8s:worker"}, Labels: map[string]string{"a": "b"},
		Taints: []godo.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}, {Key: "k", Value: "v", Effect: "PreferNoSchedule"}},
	}
	if diff := cmp.Diff(want, pool); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pool, must[*godo.KubernetesNodePool](t)(kubernetes.GetNodePool(ctx, cluster.ID, pool.ID))); diff != "" {
		t.Errorf("read back (-created +read):\n%s", diff)
	}
	pools := must[[]*godo.KubernetesNodePool](t)(kubernetes.ListNodePools(ctx, cluster.ID, nil))
	if len(pools) != 2 || pools[0].Name != "default" || pools[1].Name != "extra" {
		t.Errorf("pools = %v, want the default one first", pools)
	}

	mustDo(t)(kubernetes.DeleteNodePool(ctx, cluster.ID, pool.ID))
	_, _, err := kubernetes.GetNodePool(ctx, cluster.ID, pool.ID)
	wantError(t, err, 404, "not_found")
	_, err = kubernetes.DeleteNodePool(ctx, cluster.ID, pool.ID)
	wantError(t, err, 404, "not_found")

	_, err = kubernetes.DeleteNodePool(ctx, cluster.ID, pools[0].ID)
	wantError(t, err, 422, "unprocessable_entity")
}

func TestNodePoolUpdate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	before := must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{
		Name: "extra", Size: "s-2vcpu-4gb", Count: 2, Tags: []string{"one"}, Labels: map[string]string{"a": "b"},
		Taints: []godo.Taint{{Key: "k", Effect: "NoSchedule"}},
	}))
	put := func(t *testing.T, body map[string]any) *godo.KubernetesNodePool {
		t.Helper()
		return putPool(t, f, cluster.ID, before.ID, body)
	}

	t.Run("nothing given changes nothing", func(t *testing.T) {
		for _, body := range []map[string]any{
			{},
			{"name": nil, "count": nil, "tags": nil, "labels": nil, "taints": nil, "auto_scale": nil, "min_nodes": nil, "max_nodes": nil},
		} {
			if diff := cmp.Diff(before, put(t, body)); diff != "" {
				t.Errorf("%v (-before +after):\n%s", body, diff)
			}
		}
	})
	t.Run("what the Terraform provider sends on an import: tags alone", func(t *testing.T) {
		after := must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.UpdateNodePool(ctx, cluster.ID, before.ID,
			&godo.KubernetesNodePoolUpdateRequest{Tags: append(slices.Clone(before.Tags), "terraform:default-node-pool")}))
		if diff := cmp.Diff([]string{"one", "terraform:default-node-pool", "k8s", "k8s:" + cluster.ID, "k8s:worker"}, after.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
	})
	t.Run("lists are replaced", func(t *testing.T) {
		after := put(t, map[string]any{
			"name": "renamed", "tags": []string{"two"}, "labels": map[string]string{"c": "d"},
			"taints": []map[string]string{{"key": "x", "value": "y", "effect": "NoExecute"}},
		})
		if after.Name != "renamed" || !cmp.Equal(after.Labels, map[string]string{"c": "d"}) ||
			!cmp.Equal(after.Taints, []godo.Taint{{Key: "x", Value: "y", Effect: "NoExecute"}}) || after.Tags[0] != "two" || len(after.Tags) != 4 {
			t.Errorf("after = %+v", after)
		}
	})
	t.Run("given empty is emptied", func(t *testing.T) {
		after := put(t, map[string]any{"tags": []string{}, "labels": map[string]string{}, "taints": []any{}})
		if len(after.Labels) != 0 || len(after.Taints) != 0 || !cmp.Equal(after.Tags, []string{"k8s", "k8s:" + cluster.ID, "k8s:worker"}) {
			t.Errorf("after = %+v", after)
		}
	})
	t.Run("scaled in place, the oldest nodes stay", func(t *testing.T) {
		more := put(t, map[string]any{"count": 4})
		if more.Count != 4 || len(more.Nodes) != 4 || more.Nodes[0].ID != before.Nodes[0].ID || more.Nodes[1].ID != before.Nodes[1].ID {
			t.Errorf("scaled up to %+v", more)
		}
		fewer := put(t, map[string]any{"count": 1})
		if fewer.Count != 1 || len(fewer.Nodes) != 1 || fewer.Nodes[0].ID != before.Nodes[0].ID {
			t.Errorf("scaled down to %+v", fewer)
		}
	})
	t.Run("bounds are there only while it is scaled automatically", func(t *testing.T) {
		on := put(t, map[string]any{"auto_scale": true, "min_nodes": 2, "max_nodes": 4})
		if !on.AutoScale || on.MinNodes != 2 || on.MaxNodes != 4 || on.Count != 2 {
			t.Errorf("on: %+v, want the count brought within the bounds", on)
		}
		narrower := put(t, map[string]any{"count": 4, "max_nodes": 5})
		narrower = put(t, map[string]any{"name": narrower.Name, "max_nodes": 3})
		if narrower.Count != 3 || narrower.MaxNodes != 3 || len(narrower.Nodes) != 3 {
			t.Errorf("narrower: %+v", narrower)
		}
		off := put(t, map[string]any{"auto_scale": false, "min_nodes": 2, "max_nodes": 3})
		if off.AutoScale || off.MinNodes != 0 || off.MaxNodes != 0 || off.Count != 3 {
			t.Errorf("off: %+v", off)
		}
	})
	t.Run("scaled to zero by the autoscaler", func(t *testing.T) {
		put(t, map[string]any{"auto_scale": true, "min_nodes": 0, "max_nodes": 4})
		if err := f.ScalePool(cluster.ID, before.ID, 0); err != nil {
			t.Fatal(err)
		}
		zero := must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.GetNodePool(ctx, cluster.ID, before.ID))
		if zero.Count != 0 || len(zero.Nodes) != 0 {
			t.Errorf("zero: %+v", zero)
		}
		kept := put(t, map[string]any{"labels": map[string]string{"e": "f"}})
		if kept.Count != 0 {
			t.Errorf("an update without a count made %d nodes of 0", kept.Count)
		}
	})
	for _, tc := range []struct {
		reason string
		body   map[string]any
	}{
		{"a fixed pool has a node", map[string]any{"auto_scale": false, "count": 0}},
		{"a count is not negative", map[string]any{"count": -1}},
		{"min is at most max", map[string]any{"auto_scale": true, "min_nodes": 5, "max_nodes": 4}},
		{"the count is within the bounds", map[string]any{"auto_scale": true, "count": 9, "min_nodes": 1, "max_nodes": 4}},
		{"names are unique", map[string]any{"name": "default"}},
		{"names are well formed", map[string]any{"name": ""}},
		{"tags are well formed", map[string]any{"tags": []string{"a b"}}},
		{"labels are well formed", map[string]any{"labels": map[string]string{"": "x"}}},
		{"taints are well formed", map[string]any{"taints": []map[string]string{{"key": "a", "effect": "Never"}}}},
		{"a cluster has 512 nodes at most", map[string]any{"auto_scale": false, "count": 511}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			unchanged := must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.GetNodePool(ctx, cluster.ID, before.ID))
			request, err := f.client.NewRequest(ctx, "PUT", "/v2/kubernetes/clusters/"+cluster.ID+"/node_pools/"+before.ID, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.client.Do(ctx, request, nil)
			wantError(t, err, 422, "unprocessable_entity")
			if diff := cmp.Diff(unchanged, must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.GetNodePool(ctx, cluster.ID, before.ID))); diff != "" {
				t.Errorf("a refused update changed something:\n%s", diff)
			}
		})
	}
}

// putPool updates a pool with a body that godo's request type can't say.
func putPool(t *testing.T, f *fixture, clusterID, poolID string, body map[string]any) *godo.KubernetesNodePool {
	t.Helper()
	var answer struct {
		Pool *godo.KubernetesNodePool `json:"node_pool"`
	}
	request, err := f.client.NewRequest(context.Background(), "PUT", "/v2/kubernetes/clusters/"+clusterID+"/node_pools/"+poolID, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := f.client.Do(context.Background(), request, &answer)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusAccepted {
		t.Errorf("status = %d, want 202", response.StatusCode)
	}
	return answer.Pool
}

func TestFirstSizeOfAnAutomaticallyScaledPool(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	for i, tc := range []struct {
		reason          string
		count, min, max int
		want            int
	}{
		{"the count, when it is given", 2, 1, 3, 2},
		{"the fewest, when it is not", 0, 2, 3, 2},
		{"one, when it is not and the fewest is none", 0, 0, 3, 1},
	} {
		pool := must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{
			Name: "auto-" + string(rune('a'+i)), Size: "s-2vcpu-4gb", AutoScale: true, Count: tc.count, MinNodes: tc.min, MaxNodes: tc.max,
		}))
		if pool.Count != tc.want || len(pool.Nodes) != tc.want {
			t.Errorf("%s: %d, want %d", tc.reason, pool.Count, tc.want)
		}
	}
}

func TestNodePoolNotFound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	kubernetes, pool := f.client.Kubernetes, cluster.NodePools[0]
	for _, tc := range []struct {
		reason string
		call   func(clusterID, poolID string) error
	}{
		{"get", func(c, p string) error { _, _, err := kubernetes.GetNodePool(ctx, c, p); return err }},
		{"update", func(c, p string) error {
			_, _, err := kubernetes.UpdateNodePool(ctx, c, p, &godo.KubernetesNodePoolUpdateRequest{Name: "x"})
			return err
		}},
		{"delete", func(c, p string) error { _, err := kubernetes.DeleteNodePool(ctx, c, p); return err }},
		{"delete a node", func(c, p string) error {
			_, err := kubernetes.DeleteNode(ctx, c, p, pool.Nodes[0].ID, nil)
			return err
		}},
		{"recycle", func(c, p string) error {
			_, err := kubernetes.RecycleNodePoolNodes(ctx, c, p, &godo.KubernetesNodePoolRecycleNodesRequest{Nodes: []string{pool.Nodes[0].ID}})
			return err
		}},
	} {
		wantError(t, tc.call(emulator.NewID(), pool.ID), 404, "not_found")
		wantError(t, tc.call(cluster.ID, emulator.NewID()), 404, "not_found")
	}
	_, _, err := kubernetes.CreateNodePool(ctx, emulator.NewID(), &godo.KubernetesNodePoolCreateRequest{Name: "x", Size: "c-2", Count: 1})
	wantError(t, err, 404, "not_found")
	_, _, err = kubernetes.ListNodePools(ctx, emulator.NewID(), nil)
	wantError(t, err, 404, "not_found")
	_, err = kubernetes.DeleteNode(ctx, cluster.ID, pool.ID, emulator.NewID(), nil)
	wantError(t, err, 404, "not_found")
	_, err = kubernetes.RecycleNodePoolNodes(ctx, cluster.ID, pool.ID, &godo.KubernetesNodePoolRecycleNodesRequest{Nodes: []string{"x"}})
	wantError(t, err, 404, "not_found")
	_, _, err = kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "default", Size: "c-2", Count: 1})
	wantError(t, err, 422, "unprocessable_entity")
}

// states counts the states of a pool's nodes.
func states(pool *godo.KubernetesNodePool) map[string]int {
	counts := map[string]int{}
	for _, node := range pool.Nodes {
		counts[node.Status.State]++
	}
	return counts
}

func TestNodeStates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startSlow(t)
	kubernetes := f.client.Kubernetes
	cluster := must[*godo.KubernetesCluster](t)(kubernetes.Create(ctx, simpleCluster("prod")))
	early := must[*godo.KubernetesNodePool](t)(kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "early", Size: "c-2", Count: 1}))
	f.time.advance(clusterCreation)
	get := func(id string) *godo.KubernetesNodePool {
		t.Helper()
		return must[*godo.KubernetesNodePool](t)(kubernetes.GetNodePool(ctx, cluster.ID, id))
	}
	if got := states(get(early.ID)); !cmp.Equal(got, map[string]int{"provisioning": 1}) {
		t.Errorf("a pool made before the cluster was up is %v as soon as it is", got)
	}

	pool := must[*godo.KubernetesNodePool](t)(kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "extra", Size: "c-2", Count: 2}))
	step := func(reason string, wait time.Duration, count int, want map[string]int) {
		t.Helper()
		f.time.advance(wait)
		if got := get(pool.ID); got.Count != count || !cmp.Equal(states(got), want) {
			t.Errorf("%s: count %d, %v, want %d, %v", reason, got.Count, states(got), count, want)
		}
	}
	step("made", 0, 2, map[string]int{"provisioning": 2})
	step("almost up", nodeCreation-time.Second, 2, map[string]int{"provisioning": 2})
	step("up", time.Second, 2, map[string]int{"running": 2})

	putPool(t, f, cluster.ID, pool.ID, map[string]any{"count": 3})
	step("scaled up", 0, 3, map[string]int{"running": 2, "provisioning": 1})
	putPool(t, f, cluster.ID, pool.ID, map[string]any{"count": 1})
	step("scaled down at once", 0, 1, map[string]int{"running": 1, "draining": 2})
	step("drained", nodeRemoval/2, 1, map[string]int{"running": 1, "deleting": 2})
	putPool(t, f, cluster.ID, pool.ID, map[string]any{"count": 2})
	step("scaled up meanwhile", 0, 2, map[string]int{"running": 1, "deleting": 2, "provisioning": 1})
	step("gone", nodeRemoval/2, 2, map[string]int{"running": 1, "provisioning": 1})
	step("up again", nodeCreation, 2, map[string]int{"running": 2})

	mustDo(t)(kubernetes.DeleteNodePool(ctx, cluster.ID, pool.ID))
	step("deleted", 0, 2, map[string]int{"draining": 2})
	mustDo(t)(kubernetes.DeleteNodePool(ctx, cluster.ID, pool.ID)) // asked for twice
	_, _, err := kubernetes.UpdateNodePool(ctx, cluster.ID, pool.ID, &godo.KubernetesNodePoolUpdateRequest{Name: "x"})
	wantError(t, err, 404, "not_found")
	_, _, err = kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "extra", Size: "c-2", Count: 2})
	wantError(t, err, 422, "unprocessable_entity")
	step("being deleted", nodeRemoval-time.Second, 2, map[string]int{"deleting": 2})
	f.time.advance(time.Second)
	_, _, err = kubernetes.GetNodePool(ctx, cluster.ID, pool.ID)
	wantError(t, err, 404, "not_found")
	if pools := must[[]*godo.KubernetesNodePool](t)(kubernetes.ListNodePools(ctx, cluster.ID, nil)); len(pools) != 2 {
		t.Errorf("%d pools are left, want 2", len(pools))
	}
	must[*godo.KubernetesNodePool](t)(kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "extra", Size: "c-2", Count: 2}))
}

func TestSingleNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	kubernetes := f.client.Kubernetes
	cluster := must[*godo.KubernetesCluster](t)(kubernetes.Create(ctx, simpleCluster("prod")))
	pool := cluster.NodePools[0]
	get := func() *godo.KubernetesNodePool {
		t.Helper()
		return must[*godo.KubernetesNodePool](t)(kubernetes.GetNodePool(ctx, cluster.ID, pool.ID))
	}

	mustDo(t)(kubernetes.RecycleNodePoolNodes(ctx, cluster.ID, pool.ID, &godo.KubernetesNodePoolRecycleNodesRequest{Nodes: []string{pool.Nodes[0].ID}}))
	recycled := get()
	if recycled.Count != 2 || len(recycled.Nodes) != 2 || recycled.Nodes[0].ID != pool.Nodes[1].ID {
		t.Errorf("recycled: %+v", recycled)
	}
	mustDo(t)(kubernetes.DeleteNode(ctx, cluster.ID, pool.ID, recycled.Nodes[0].ID, &godo.KubernetesNodeDeleteRequest{Replace: true, SkipDrain: true}))
	replaced := get()
	if replaced.Count != 2 || len(replaced.Nodes) != 2 || replaced.Nodes[0].ID != recycled.Nodes[1].ID {
		t.Errorf("replaced: %+v", replaced)
	}
	mustDo(t)(kubernetes.DeleteNode(ctx, cluster.ID, pool.ID, replaced.Nodes[0].ID, nil))
	deleted := get()
	if deleted.Count != 1 || len(deleted.Nodes) != 1 || deleted.Nodes[0].ID != replaced.Nodes[1].ID {
		t.Errorf("deleted: %+v", deleted)
	}
	_, err := kubernetes.DeleteNode(ctx, cluster.ID, pool.ID, deleted.Nodes[0].ID, nil)
	wantError(t, err, 422, "unprocessable_entity")
}

// TestNodePoolLaws drives one pool with random updates and checks what holds for every pool at every moment.
func TestNodePoolLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clock := newFakeTime()
		cloud, err := newCloud(emulator.Options{TimeScale: 1}, clock.Now)
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := change(cloud, func(s *state, now time.Time) (*clusterRecord, error) {
			one := 1
			made, err := cloud.newCluster(s, clusterRequest{
				Name: "c", Region: "fra1", Version: "1.31", NodePools: []poolRequest{{Name: "p", Size: "c-2", Count: &one}, {Name: "q", Size: "c-2", Count: &one}},
			}, now)
			if err == nil {
				s.Clusters = append(s.Clusters, made)
			}
			return made, err
		})
		if err != nil {
			t.Fatal(err)
		}
		clusterID, poolID := cluster.ID, cluster.Pools[0].ID
		optional := func(name string) *int {
			if !rapid.Bool().Draw(t, name+" given") {
				return nil
			}
			n := rapid.IntRange(-1, 8).Draw(t, name)
			return &n
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			update := poolUpdate{Count: optional("count"), MinNodes: optional("min"), MaxNodes: optional("max")}
			if rapid.Bool().Draw(t, "auto given") {
				auto := rapid.Bool().Draw(t, "auto")
				update.AutoScale = &auto
			}
			before := *cloud.Clusters()[0].Pool("p")
			_, err := change(cloud, func(s *state, now time.Time) (any, error) {
				cluster, pool, err := s.livePool(clusterID, poolID, now)
				if err != nil {
					return nil, err
				}
				return nil, cloud.editPool(s, cluster, pool, update, now)
			})
			after := *cloud.Clusters()[0].Pool("p")
			if err != nil {
				if diff := cmp.Diff(before, after); diff != "" {
					t.Fatalf("a refused update (%v) changed something:\n%s", err, diff)
				}
			} else if update.Count != nil && after.Count != *update.Count {
				t.Fatalf("count %d was accepted and is %d", *update.Count, after.Count)
			}
			if after.AutoScale {
				if after.Count < after.MinNodes || after.Count > after.MaxNodes {
					t.Fatalf("%d nodes are not within [%d, %d]", after.Count, after.MinNodes, after.MaxNodes)
				}
			} else if after.MinNodes != 0 || after.MaxNodes != 0 || after.Count < 1 {
				t.Fatalf("a fixed pool has %d nodes within [%d, %d]", after.Count, after.MinNodes, after.MaxNodes)
			}
			staying := slices.DeleteFunc(slices.Clone(after.Nodes), func(n Node) bool {
				return strings.HasPrefix(n.Status.State, "d") // draining, deleting
			})
			if len(staying) != after.Count {
				t.Fatalf("%d nodes stay, want %d", len(staying), after.Count)
			}
			clock.advance(time.Duration(rapid.IntRange(0, 120).Draw(t, "seconds")) * time.Second)
		}
		clock.advance(time.Hour)
		for _, node := range cloud.Clusters()[0].Pool("p").Nodes {
			if node.Status.State != "running" {
				t.Fatalf("in the end a node is %s", node.Status.State)
			}
		}
	})
}
