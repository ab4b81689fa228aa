package civo

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	emulated "github.com/plantonhq/project-planton/pkg/emulator/civo"
)

func TestNetworkLifecycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	network := b.object(NetworkType, "net")
	program := map[string]any{"label": "one", "cidrV4": "10.10.0.0/16"}
	network.must("create", program)
	network.must("same", program)
	if network.value("region") != "LON1" || network.value("default") != false || network.value("id") != network.id {
		t.Errorf("state %v", network.state)
	}
	first := network.id

	network.must("update", map[string]any{"label": "two", "cidrV4": "10.10.0.0/16"})
	if network.id != first || network.value("label") != "two" {
		t.Errorf("a rename must be in place: %v", network.state)
	}
	network.must("delete-replace", map[string]any{"label": "two", "cidrV4": "10.20.0.0/16"})
	network.must("create-replace", map[string]any{"label": "three", "cidrV4": "10.30.0.0/16"})
	network.must("same", map[string]any{"label": "three", "cidrV4": "10.30.0.0/16", "region": "lon1"})

	if err := network.delete(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := network.delete(context.Background()); err != nil {
		t.Errorf("deleting what is gone must succeed: %v", err)
	}
	if gone, err := network.refresh(context.Background()); err != nil || !gone {
		t.Errorf("refresh: gone %t, %v", gone, err)
	}
}

func TestDefaultFirewallOfADeletedNetworkGoes(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	network := b.object(NetworkType, "net")
	network.must("create", map[string]any{"label": "net"})

	// The emulator takes the firewall along with the network. Here it lingers, as it may at Civo.
	var deleted []string
	b.setIntercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/v2/firewalls":
			_, _ = w.Write([]byte(`[{"id":"f1","name":"net-default","network_id":"` + network.id + `"},` +
				`{"id":"f2","name":"net-default","network_id":"another"},{"id":"f3","name":"mine","network_id":"` + network.id + `"}]`))
		case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/v2/firewalls/"):
			deleted = append(deleted, r.URL.Path)
			_, _ = w.Write([]byte(`{"result":"success"}`))
		default:
			next.ServeHTTP(w, r)
		}
	})
	if err := network.delete(context.Background()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/v2/firewalls/f1"}, deleted); diff != "" {
		t.Errorf("deleted firewalls (-want +got):\n%s", diff)
	}
}

func TestFirewallLifecycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, _ := b.place()
	firewall := b.object(FirewallType, "rules")
	program := func(changes map[string]any) map[string]any {
		p := map[string]any{
			"name": "rules", "networkId": networkID, "createDefaultRules": false,
			"ingressRules": []any{rule("80"), rule("443")}, "egressRules": []any{rule("53")},
		}
		for key, value := range changes {
			if value == nil {
				delete(p, key)
				continue
			}
			p[key] = value
		}
		return p
	}
	ports := func() []string {
		var all []string
		for _, f := range b.cloud.Firewalls() {
			if f.ID == firewall.id {
				for _, r := range f.Rules {
					all = append(all, r.Direction+" "+r.Ports)
				}
			}
		}
		slices.Sort(all)
		return all
	}

	firewall.must("create", program(nil))
	firewall.must("same", program(nil))
	firewall.must("same", program(map[string]any{"ingressRules": []any{rule("443"), rule("80")}}))
	id := firewall.id

	firewall.must("update", program(map[string]any{"ingressRules": []any{rule("443"), rule("6443")}}))
	if diff := cmp.Diff([]string{"egress 53", "ingress 443", "ingress 6443"}, ports()); diff != "" {
		t.Errorf("rules after a change (-want +got):\n%s", diff)
	}
	for _, request := range b.cloud.Requests() {
		if request.Method == http.MethodDelete && strings.HasSuffix(request.Path, "/firewalls/"+id) {
			t.Error("the firewall was replaced")
		}
	}
	firewall.must("update", program(map[string]any{"ingressRules": []any{rule("443"), rule("6443")}, "egressRules": nil}))
	if diff := cmp.Diff([]string{"ingress 443", "ingress 6443"}, ports()); diff != "" {
		t.Errorf("rules after a direction was taken out (-want +got):\n%s", diff)
	}
	firewall.must("update", program(map[string]any{"name": "renamed"}))
	if firewall.id != id {
		t.Error("a rename must be in place")
	}

	// Someone opens a port by hand: a refresh sees it, the next update closes it.
	if err := b.cloud.AddRule(id, emulated.Rule{Protocol: "tcp", StartPort: "22", EndPort: "22", Ports: "22", CIDR: []string{"0.0.0.0/0"}, Direction: "ingress", Action: "allow"}); err != nil {
		t.Fatal(err)
	}
	if _, err := firewall.refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	firewall.must("update", program(map[string]any{"name": "renamed"}))
	if got := ports(); slices.Contains(got, "ingress 22") {
		t.Errorf("port 22 is still open: %v", got)
	}

	other := b.object(NetworkType, "other")
	other.must("create", map[string]any{"label": "other"})
	firewall.must("delete-replace", program(map[string]any{"name": "renamed", "networkId": other.id}))
	firewall.must("create-replace", program(map[string]any{"name": "again", "networkId": networkID}))
	if err := firewall.delete(context.Background()); err != nil {
		t.Fatal(err)
	}

	// With Civo's own rules.
	defaults := b.object(FirewallType, "open")
	defaults.must("create", map[string]any{"name": "open", "networkId": networkID})
	defaults.must("same", map[string]any{"name": "open", "networkId": networkID})
	defaults.must("update", map[string]any{
		"name": "open", "networkId": networkID, "createDefaultRules": false, "ingressRules": []any{rule("443")},
	})
}

func TestClusterLifecycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{timeScale: 0.001})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	program := func(changes map[string]any) map[string]any { return clusterProgram(networkID, firewallID, changes) }
	get := func() emulated.Cluster {
		t.Helper()
		found, ok := b.cloud.Cluster(cluster.id)
		if !ok {
			t.Fatal("the cluster is gone")
		}
		return found
	}

	cluster.must("create", program(nil))
	cluster.must("same", program(nil))
	id := cluster.id
	if cluster.value("status") != "ACTIVE" || cluster.value("ready") != true {
		t.Errorf("the cluster is not ready: %v", cluster.value("status"))
	}
	if !cluster.state["kubeconfig"].IsSecret() {
		t.Error("the kubeconfig is not secret")
	}
	if kubeconfig, _ := cluster.value("kubeconfig").(string); !strings.Contains(kubeconfig, "apiVersion: v1") {
		t.Error("no kubeconfig although writeKubeconfig is true")
	}
	if created, _ := cluster.value("createdAt").(string); !strings.HasSuffix(created, " +0000 UTC") {
		t.Errorf("createdAt %q is not as Go prints times", created)
	}
	if names, _ := cluster.value("pools.instanceNames").([]any); len(names) != 2 {
		t.Errorf("instance names %v", names)
	}

	t.Run("a second pool is not touched by what happens to the cluster", func(t *testing.T) {
		pool := b.object(NodePoolType, "pool")
		pool.must("create", map[string]any{"clusterId": id, "label": "extra", "nodeCount": 1, "size": "g4s.kube.small"})
		if err := b.cloud.ScalePool(id, "extra", 4); err != nil { // an autoscaler
			t.Fatal(err)
		}
		cluster.must("update", program(map[string]any{"pools.nodeCount": 3}))
		cluster.must("update", program(map[string]any{"pools.nodeCount": 1}))
		if extra, _ := get().Pool("extra"); extra.Count != 4 {
			t.Errorf("the other pool has %d nodes, want the autoscaler's 4", extra.Count)
		}
		if own, _ := get().Pool("default"); own.Count != 1 || cluster.value("pools.nodeCount") != 1.0 {
			t.Errorf("the default pool has %d nodes, want 1", own.Count)
		}
		if err := pool.delete(context.Background()); err != nil {
			t.Error(err)
		}
	})

	cluster.must("update", program(map[string]any{"pools.labels": map[string]any{"a": "1", "b": "2"}}))
	cluster.must("update", program(map[string]any{"pools.labels": map[string]any{"b": "2"}}))
	cluster.must("update", program(map[string]any{"pools.taints": []any{
		map[string]any{"key": "k", "value": "v", "effect": "NoSchedule"},
	}}))
	if own, _ := get().Pool("default"); len(own.Labels) != 0 || len(own.Taints) != 1 {
		t.Errorf("labels %v and taints %v of the default pool", own.Labels, own.Taints)
	}
	cluster.must("update", program(nil))
	if own, _ := get().Pool("default"); len(own.Taints) != 0 {
		t.Errorf("taints %v are still there", own.Taints)
	}

	cluster.must("update", program(map[string]any{"tags": "team:a env:b"}))
	cluster.must("same", program(map[string]any{"tags": "env:b team:a"}))
	cluster.must("update", program(nil))
	if tags := get().Tags; len(tags) != 0 {
		t.Errorf("tags %v are still there", tags)
	}

	cluster.must("update", program(map[string]any{"kubernetesVersion": "v1.30.5+k3s1"}))
	cluster.must("same", program(map[string]any{"kubernetesVersion": "1.30.5-k3s1"}))
	if get().Version != "1.30.5-k3s1" || get().Status != "ACTIVE" {
		t.Errorf("version %s, status %s", get().Version, get().Status)
	}
	latest := func(changes map[string]any) map[string]any {
		p := program(changes)
		p["kubernetesVersion"] = "1.30.5-k3s1"
		return p
	}
	cluster.must("update", latest(map[string]any{"name": "renamed"}))
	cluster.must("update", latest(map[string]any{"writeKubeconfig": false}))
	if cluster.value("kubeconfig") != "" {
		t.Error("the kubeconfig is still recorded")
	}
	if cluster.id != id {
		t.Fatal("the cluster was replaced")
	}

	firewall := b.object(FirewallType, "fw2")
	firewall.must("create", map[string]any{
		"name": "fw2", "networkId": networkID, "createDefaultRules": false, "ingressRules": []any{rule("6443")},
	})
	cluster.must("update", latest(map[string]any{"firewallId": firewall.id}))
	if get().FirewallID != firewall.id {
		t.Error("the firewall was not changed")
	}

	cluster.must("delete-replace", latest(map[string]any{"pools.size": "g4s.kube.large"}))
	if cluster.id == id {
		t.Error("another size is another cluster")
	}
	if err := cluster.delete(context.Background()); err != nil {
		t.Fatal(err)
	}
	if left := b.cloud.Clusters(); len(left) != 0 {
		t.Errorf("clusters left: %v", left)
	}
}

func TestDefaultPoolGetsLabelsAndTaintsAtCreation(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	program := clusterProgram(networkID, firewallID, map[string]any{
		"pools.labels": map[string]any{"a": "1"},
		"pools.taints": []any{map[string]any{"key": "k", "value": "v", "effect": "NoExecute"}},
		"pools.label":  nil,
	})
	cluster.must("create", program)
	cluster.must("same", program)
	found, _ := b.cloud.Cluster(cluster.id)
	if pool := found.Pools[0]; pool.Labels["a"] != "1" || len(pool.Taints) != 1 || pool.ID != cluster.value("pools.label") {
		t.Errorf("pool %+v, state %v", pool, cluster.value("pools"))
	}
}

func TestNodePoolLifecycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{timeScale: 0.001})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	cluster.must("create", clusterProgram(networkID, firewallID, nil))
	program := func(changes map[string]any) map[string]any {
		p := map[string]any{"clusterId": cluster.id, "label": "extra", "nodeCount": 2, "size": "g4s.kube.small"}
		for key, value := range changes {
			p[key] = value
		}
		return p
	}
	pool := b.object(NodePoolType, "pool")
	get := func() emulated.Pool {
		t.Helper()
		found, _ := b.cloud.Cluster(cluster.id)
		p, ok := found.Pool("extra")
		if !ok {
			t.Fatal("the pool is gone")
		}
		return p
	}

	labelled := program(map[string]any{
		"labels": map[string]any{"a": "1"}, "taints": []any{map[string]any{"key": "k", "value": "v", "effect": "NoSchedule"}},
	})
	pool.must("create", labelled)
	pool.must("same", labelled)
	if pool.id != "extra" {
		t.Errorf("id %q, want the label", pool.id)
	}
	nodes := get().Instances

	pool.must("update", program(map[string]any{
		"nodeCount": 4, "labels": map[string]any{"a": "1"}, "taints": []any{map[string]any{"key": "k", "value": "v", "effect": "NoSchedule"}},
	}))
	if got := get(); got.Count != 4 || got.Instances[0].ID != nodes[0].ID || got.Labels["a"] != "1" || len(got.Taints) != 1 {
		t.Errorf("scaling must be in place and leave labels and taints: %+v", got)
	}
	if names, _ := pool.value("instanceNames").([]any); len(names) != 4 {
		t.Errorf("instance names %v", names)
	}
	pool.must("update", program(nil))
	if got := get(); got.Count != 2 || len(got.Labels) != 0 || len(got.Taints) != 0 {
		t.Errorf("scaled down, and labels and taints gone? %+v", got)
	}

	// An autoscaler moves the pool; a change of labels under ignoreChanges leaves the count alone.
	if err := b.cloud.ScalePool(cluster.id, "extra", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	pool.ignoreChanges = []string{"nodeCount"}
	pool.must("same", program(nil))
	pool.must("update", program(map[string]any{"labels": map[string]any{"x": "y"}}))
	if got := get(); got.Count != 5 {
		t.Errorf("count %d, want the autoscaler's 5", got.Count)
	}
	pool.ignoreChanges = nil
	pool.must("update", program(nil))

	pool.must("delete-replace", program(map[string]any{"size": "g4s.kube.medium"}))

	// Gone by someone else's hand.
	if err := b.cloud.DeletePool(cluster.id, "extra"); err != nil {
		t.Fatal(err)
	}
	if gone, err := pool.refresh(context.Background()); err != nil || !gone {
		t.Errorf("refresh: gone %t, %v", gone, err)
	}
	if err := pool.delete(context.Background()); err != nil {
		t.Errorf("deleting what is gone must succeed: %v", err)
	}
	if err := b.cloud.DeleteCluster(cluster.id); err != nil {
		t.Fatal(err)
	}
	if gone, err := pool.refresh(context.Background()); err != nil || !gone {
		t.Errorf("refresh without the cluster: gone %t, %v", gone, err)
	}
}

func TestLostDefaultPoolIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	program := clusterProgram(networkID, firewallID, nil)
	cluster.must("create", program)
	pool := b.object(NodePoolType, "pool")
	pool.must("create", map[string]any{"clusterId": cluster.id, "label": "extra", "nodeCount": 1, "size": "g4s.kube.small"})
	if err := b.cloud.DeletePool(cluster.id, "default"); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := cluster.value("pools.label"); got != "default" {
		t.Fatalf("pool %v was taken for the default pool", got)
	}
	cluster.must("update", program)
	found, _ := b.cloud.Cluster(cluster.id)
	if p, ok := found.Pool("default"); !ok || p.Count != 2 {
		t.Errorf("the default pool was not made again: %+v", found.Pools)
	}
}
