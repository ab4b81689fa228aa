package endtoend

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/tools/clientcmd"

	civocloud "github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// civoNetwork makes a network beside the stack under test, and returns its id.
func (w *world) civoNetwork(label string) string {
	w.t.Helper()
	var made struct{ ID string }
	w.call(kinds.Civo, "POST", "/v2/networks", map[string]any{"label": label, "region": "LON1"}, &made)
	return made.ID
}

// civoFirewall makes a firewall beside the stack under test, and returns its id.
func (w *world) civoFirewall(name, network string) string {
	w.t.Helper()
	var made struct{ ID string }
	w.call(kinds.Civo, "POST", "/v2/firewalls", map[string]any{"name": name, "region": "LON1", "network_id": network, "create_rules": true}, &made)
	return made.ID
}

// civoCluster makes a cluster beside the stack under test, and returns its id.
func (w *world) civoCluster(name, network, firewall string) string {
	w.t.Helper()
	var made struct{ ID string }
	w.call(kinds.Civo, "POST", "/v2/kubernetes/clusters", map[string]any{
		"name": name, "region": "LON1", "network_id": network, "instance_firewall": firewall, "kubernetes_version": "1.30.5-k3s1",
		"pools": []map[string]any{{"id": "default", "count": 1, "size": "g4s.kube.medium"}},
	}, &made)
	return made.ID
}

// clusterNamed finds a cluster that is not on its way out.
func (w *world) clusterNamed(name string) civocloud.Cluster {
	w.t.Helper()
	var found []civocloud.Cluster
	for _, cluster := range w.civo.Clusters() {
		if cluster.Name == name && cluster.GoneAt.IsZero() {
			found = append(found, cluster)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d clusters are named %q, want 1", len(found), name)
	}
	return found[0]
}

func (w *world) networksNamed(label string) []civocloud.Network {
	var found []civocloud.Network
	for _, network := range w.civo.Networks() {
		if network.Label == label {
			found = append(found, network)
		}
	}
	return found
}

const civoVpc = `
apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata:
  name: net
spec:
  networkName: net
  region: lon1
  ipRangeCidr: 10.10.0.0/16
`

func TestCivoVpc(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.stack(civoVpc)
	expect := func(label, cidr string) func(t *testing.T) {
		return func(t *testing.T) {
			networks := w.networksNamed(label)
			if len(networks) != 1 || networks[0].CIDR != cidr || networks[0].Region != "LON1" {
				t.Errorf("want one network %s of %s in LON1, got %+v", label, cidr, networks)
			}
		}
	}
	s.live(civoVpc, changes{"create": 3}, expect("net", "10.10.0.0/16"), []step{
		{name: "rename in place", edit: []string{"networkName: net", "networkName: renamed"}, want: changes{"update": 1}, check: expect("renamed", "10.10.0.0/16")},
		{name: "another range replaces", edit: []string{"10.10.0.0/16", "10.20.0.0/16"}, want: changes{"replace": 1}, check: expect("renamed", "10.20.0.0/16")},
	})

	network := w.networksNamed("renamed")[0]
	if err := w.civo.DeleteNetwork(network.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changes{"delete": 1}, s.refresh()); diff != "" {
		t.Errorf("refresh after a deletion by hand: -want +got:\n%s", diff)
	}
	if got, _ := s.up(); got["create"] != 1 {
		t.Errorf("up after a deletion by hand: %v", got)
	}
	expect("renamed", "10.20.0.0/16")(t)
	s.destroy()
	if left := w.networksNamed("renamed"); len(left) != 0 {
		t.Errorf("left after destroy: %+v", left)
	}
}

func TestCivoVpcImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made struct{ ID string }
	w.call(kinds.Civo, "POST", "/v2/networks", map[string]any{"label": "net", "region": "LON1", "cidr_v4": "10.10.0.0/16"}, &made)
	s := w.stack(civoVpc)
	s.importResource("civo:index/network:Network", "network", made.ID, "civo")
	s.up()
	if networks := w.networksNamed("net"); len(networks) != 1 || networks[0].ID != made.ID {
		t.Errorf("want the imported network %s alone, got %+v", made.ID, networks)
	}
	s.expectSettled()
}

const civoFirewallManifest = `
apiVersion: civo.project-planton.org/v1
kind: CivoFirewall
metadata:
  name: fw
spec:
  name: fw
  networkId:
    value: NETWORK
  inboundRules:
    - protocol: tcp
      portRange: "6443"
      cidrs: [203.0.113.0/24]
      label: office
    - portRange: 8000-9000
      cidrs: [0.0.0.0/0]
  outboundRules:
    - protocol: udp
      portRange: 1-65535
      cidrs: [0.0.0.0/0]
`

// rulesOf writes a firewall's rules down, sorted.
func rulesOf(firewall civocloud.Firewall) []string {
	rules := []string{}
	for _, rule := range firewall.Rules {
		sort.Strings(rule.CIDR)
		rules = append(rules, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s %s",
			rule.Direction, rule.Action, rule.Protocol, rule.Ports, strings.Join(rule.CIDR, ","), rule.Label)))
	}
	sort.Strings(rules)
	return rules
}

func TestCivoFirewall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	network, another := w.civoNetwork("net"), w.civoNetwork("another")
	text := strings.Replace(civoFirewallManifest, "NETWORK", network, 1)
	s := w.stack(text)
	var id string
	expect := func(name string, rules ...string) func(t *testing.T) {
		return func(t *testing.T) {
			var found []civocloud.Firewall
			for _, firewall := range w.civo.Firewalls() {
				if firewall.Name == name {
					found = append(found, firewall)
				}
			}
			if len(found) != 1 {
				t.Fatalf("%d firewalls are named %q, want 1", len(found), name)
			}
			if id != "" && found[0].ID != id {
				t.Errorf("the firewall was replaced")
			}
			id = found[0].ID
			if diff := cmp.Diff(rules, rulesOf(found[0])); diff != "" {
				t.Errorf("rules: -want +got:\n%s", diff)
			}
		}
	}
	const (
		office  = "ingress allow tcp 6443 203.0.113.0/24 office"
		home    = "ingress allow tcp 6443 198.51.100.7/32,203.0.113.0/24 office"
		nodes   = "ingress allow tcp 8000-9000 0.0.0.0/0"
		denied  = "ingress deny tcp 8000-9000 0.0.0.0/0"
		answers = "egress allow udp 1-65535 0.0.0.0/0"
	)
	s.live(text, changes{"create": 3}, expect("fw", answers, office, nodes), []step{
		{name: "add an address", edit: []string{"[203.0.113.0/24]", "[203.0.113.0/24, 198.51.100.7/32]"}, want: changes{"update": 1}, check: expect("fw", answers, home, nodes)},
		{name: "deny", edit: []string{"portRange: 8000-9000", "portRange: 8000-9000\n      action: deny"}, want: changes{"update": 1}, check: expect("fw", answers, home, denied)},
		{name: "remove a rule", edit: []string{"    - portRange: 8000-9000\n      action: deny\n      cidrs: [0.0.0.0/0]\n", ""}, want: changes{"update": 1}, check: expect("fw", answers, home)},
		{name: "rename", edit: []string{"  name: fw\n  networkId", "  name: edge\n  networkId"}, want: changes{"update": 1}, check: expect("edge", answers, home)},
		{name: "another network replaces", edit: []string{network, another}, want: changes{"replace": 1}, check: func(t *testing.T) {
			id = ""
			expect("edge", answers, home)(t)
		}},
	})
	s.destroy()
	for _, firewall := range w.civo.Firewalls() {
		if firewall.Name == "edge" {
			t.Errorf("left after destroy: %+v", firewall)
		}
	}
}

func TestCivoFirewallImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	network := w.civoNetwork("net")
	id := w.civoFirewall("fw", network)
	s := w.stack(strings.Replace(civoFirewallManifest, "NETWORK", network, 1))
	s.importResource("civo:index/firewall:Firewall", "firewall", id, "civo")
	if got, _ := s.up(); got["replace"] != 0 || got["create"] != 0 {
		t.Errorf("up after an import: %v", got)
	}
	s.expectSettled()
	for _, firewall := range w.civo.Firewalls() {
		if firewall.Name == "fw" && (firewall.ID != id || len(firewall.Rules) != 3) {
			t.Errorf("the imported firewall %s is not what the manifest says: %+v", id, firewall)
		}
	}
}

const civoClusterManifest = `
apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata:
  name: prod-cluster
spec:
  clusterName: prod-k8s
  region: lon1
  kubernetesVersion: "1.29.0+k3s1"
  network:
    value: NETWORK
  tags: [team:platform, env:prod]
  defaultNodePool:
    size: g4s.kube.medium
    nodeCount: 3
  additionalNodePools:
    - name: batch
      size: g4s.kube.large
      nodeCount: 2
      autoScale: true
      minNodes: 1
      maxNodes: 5
      labels:
        workload: batch
      taints:
        - {key: dedicated, value: batch, effect: NoSchedule}
`

// poolsOf writes a cluster's pools down, in their order.
func poolsOf(cluster civocloud.Cluster) []string {
	var pools []string
	for _, pool := range cluster.Pools {
		user := map[string]string{}
		for key, value := range pool.Labels {
			if !strings.HasPrefix(key, "planton-") {
				user[key] = value
			}
		}
		pools = append(pools, fmt.Sprintf("%s %s x%d/%d %v %v", pool.ID, pool.Size, pool.Count, len(pool.Instances), user, pool.Taints))
	}
	return pools
}

func TestCivoKubernetesCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Replace(civoClusterManifest, "NETWORK", w.civoNetwork("net"), 1)
	s := w.stack(text)
	var id string
	expect := func(name, version, tags string, pools ...string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			cluster := w.clusterNamed(name)
			if id != "" && cluster.ID != id {
				t.Errorf("the cluster was replaced")
			}
			id = cluster.ID
			if cluster.Version != version || cluster.Status != "ACTIVE" {
				t.Errorf("version %s, status %s; want %s, ACTIVE", cluster.Version, cluster.Status, version)
			}
			sort.Strings(cluster.Tags)
			if got := strings.Join(cluster.Tags, " "); got != tags {
				t.Errorf("tags %q, want %q", got, tags)
			}
			if diff := cmp.Diff(pools, poolsOf(cluster), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pools: -want +got:\n%s", diff)
			}
		}
	}
	const (
		batch = "batch g4s.kube.large x2/2 map[workload:batch] [{dedicated batch NoSchedule}]"
		two   = "default g4s.kube.medium x2/2 map[] []"
		three = "default g4s.kube.medium x3/3 map[] []"
		five  = "default g4s.kube.medium x5/5 map[] []"
	)
	s.live(text, changes{"create": 5}, expect("prod-k8s", "1.29.0-k3s1", "env:prod team:platform", three, batch), []step{
		{name: "scale the default pool up", edit: []string{"nodeCount: 3", "nodeCount: 5"}, want: changes{"update": 1}, check: expect("prod-k8s", "1.29.0-k3s1", "env:prod team:platform", five, batch)},
		{name: "scale the default pool down", edit: []string{"nodeCount: 5", "nodeCount: 2"}, want: changes{"update": 1}, check: expect("prod-k8s", "1.29.0-k3s1", "env:prod team:platform", two, batch)},
		{name: "upgrade", edit: []string{"1.29.0+k3s1", "1.30.5+k3s1"}, want: changes{"update": 1}, check: expect("prod-k8s", "1.30.5-k3s1", "env:prod team:platform", two, batch)},
		{name: "rename, the firewall with it", edit: []string{"clusterName: prod-k8s", "clusterName: live"}, want: changes{"update": 2}, check: expect("live", "1.30.5-k3s1", "env:prod team:platform", two, batch)},
		{name: "change tags", edit: []string{"[team:platform, env:prod]", "[env:live]"}, want: changes{"update": 1}, check: expect("live", "1.30.5-k3s1", "env:live", two, batch)},
		{name: "remove tags", edit: []string{"  tags: [env:live]\n", ""}, want: changes{"update": 1}, check: expect("live", "1.30.5-k3s1", "", two, batch)},
		{name: "a network plugin cannot change", edit: []string{"  defaultNodePool:", "  cni: cilium\n  defaultNodePool:"}, refused: "cni"},
		{name: "a lower version cannot be had", edit: []string{"1.30.5+k3s1", "1.29.0+k3s1"}, refused: "ersion"},
		{name: "an unhonoured field changes nothing", edit: []string{"  defaultNodePool:", "  highlyAvailable: true\n  defaultNodePool:"}, want: changes{}},
	})

	_, outputs := s.up()
	kubeconfig := outputs["kubeconfig_b64"]
	if !kubeconfig.Secret {
		t.Error("kubeconfig_b64 is no secret")
	}
	raw, err := base64.StdEncoding.DecodeString(kubeconfig.Value.(string))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(raw)
	if err != nil {
		t.Fatalf("kubectl could not read the kubeconfig: %v", err)
	}
	if config.Host != outputs["api_server_endpoint"].Value {
		t.Errorf("the kubeconfig's server %s is not the output %v", config.Host, outputs["api_server_endpoint"].Value)
	}
	if created, err := time.Parse(time.RFC3339, outputs["created_at_rfc3339"].Value.(string)); err != nil || time.Since(created) > time.Hour {
		t.Errorf("created_at_rfc3339: %v, %v", created, err)
	}
	if diff := cmp.Diff([]any{"--nodes=1:5:batch"}, outputs["autoscaler_nodes_flags"].Value); diff != "" {
		t.Errorf("autoscaler_nodes_flags: -want +got:\n%s", diff)
	}
	if got := outputs["kubernetes_version"].Value; got != "1.30.5-k3s1" {
		t.Errorf("kubernetes_version %v", got)
	}
	firewallID := outputs["firewall_id"].Value
	for _, firewall := range w.civo.Firewalls() {
		if firewall.ID != firewallID {
			continue
		}
		var inbound []string
		for _, rule := range rulesOf(firewall) {
			if strings.HasPrefix(rule, "ingress") {
				inbound = append(inbound, strings.Fields(rule)[3])
			}
		}
		if diff := cmp.Diff([]string{"443", "6443", "80"}, inbound); diff != "" {
			t.Errorf("ports of the firewall that the module made: -want +got:\n%s", diff)
		}
	}
	if strings.Contains(fmt.Sprint(firewallID), "unknown") || firewallID == nil {
		t.Errorf("firewall_id %v", firewallID)
	}

	s.destroy()
	if left := w.civo.Clusters(); len(left) != 0 {
		t.Errorf("left after destroy: %+v", left)
	}
}

// The three drift scenarios of the cluster module's specification.
func TestCivoKubernetesClusterDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Replace(civoClusterManifest, "NETWORK", w.civoNetwork("net"), 1)
	s := w.stack(text)
	s.up()
	id := w.clusterNamed("prod-k8s").ID

	// Someone scales the default pool in the dashboard: refresh sees it, the next up scales back.
	if err := w.civo.ScalePool(id, "default", 5); err != nil {
		t.Fatal(err)
	}
	if got := s.refresh(); got["update"] != 1 {
		t.Errorf("refresh after scaling by hand: %v", got)
	}
	if got, _ := s.up(); got["update"] != 1 {
		t.Errorf("up after scaling by hand: %v", got)
	}
	if pool, _ := w.clusterNamed("prod-k8s").Pool("default"); pool.Count != 3 {
		t.Errorf("the pool has %d nodes, want 3 again", pool.Count)
	}

	// Someone upgrades the cluster elsewhere; the manifest follows, and up has nothing to do.
	if err := w.civo.UpgradeCluster(id, "1.30.5-k3s1"); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	s.target = parse(t, strings.Replace(text, "1.29.0+k3s1", "1.30.5+k3s1", 1))
	if got, _ := s.up(); len(got) != 0 {
		t.Errorf("up after an upgrade elsewhere that the manifest follows: %v", got)
	}

	// The autoscaler grows its pool: refresh sees it, up leaves it alone.
	if err := w.civo.ScalePool(id, "batch", 4); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); len(got) != 0 {
		t.Errorf("up after the autoscaler's work: %v", got)
	}
	if pool, _ := w.clusterNamed("prod-k8s").Pool("batch"); pool.Count != 4 {
		t.Errorf("the autoscaled pool has %d nodes, want 4 still", pool.Count)
	}

	// Someone deletes the cluster: refresh sees it, up makes another one.
	if err := w.civo.DeleteCluster(id); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); got["create"] != 2 {
		t.Errorf("up after a deletion by hand: %v, want the cluster and its pool created", got)
	}
	if again := w.clusterNamed("prod-k8s"); again.ID == id {
		t.Error("the cluster has its old id")
	}
	s.expectSettled()
}

func TestCivoKubernetesClusterReplaceAndImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.civoNetwork("one"), w.civoNetwork("two")
	firewall := w.civoFirewall("fw", one)
	id := w.civoCluster("prod-k8s", one, firewall)
	manifest := strings.NewReplacer("NETWORK", one, "1.29.0+k3s1", "1.30.5+k3s1", "nodeCount: 3", "nodeCount: 1").Replace(civoClusterManifest)
	manifest = manifest[:strings.Index(manifest, "  additionalNodePools")] + "  firewall:\n    value: " + firewall + "\n"
	s := w.stack(manifest)
	s.importResource("civo:index/kubernetesCluster:KubernetesCluster", "cluster", id, "civo")
	if got, _ := s.up(); got["replace"] != 0 || got["create"] != 0 {
		t.Errorf("up after an import: %v", got)
	}
	if w.clusterNamed("prod-k8s").ID != id {
		t.Error("the imported cluster was replaced")
	}
	s.expectSettled()

	// Another network is another cluster: the plan says so, and the old one is gone before the new one comes.
	s.target = parse(t, strings.NewReplacer(one, two, firewall, w.civoFirewall("fw2", two)).Replace(manifest))
	if got := s.preview(); got["replace"] != 1 {
		t.Errorf("preview of another network: %v, want a replacement", got)
	}
	if got, _ := s.up(); got["replace"] != 1 {
		t.Errorf("up of another network: %v, want a replacement", got)
	}
	if replaced := w.clusterNamed("prod-k8s"); replaced.ID == id || replaced.NetworkID != two {
		t.Errorf("the cluster is %s in network %s, want another one in %s", replaced.ID, replaced.NetworkID, two)
	}
	s.expectSettled()
}

const civoPoolManifest = `
apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesNodePool
metadata:
  name: app-pool
  org: acme
  env: prod
spec:
  nodePoolName: app
  cluster:
    value: CLUSTER
  size: g4s.kube.medium
  nodeCount: 3
  labels:
    workload: application
  taints:
    - {key: dedicated, value: app, effect: NoSchedule}
`

func TestCivoKubernetesNodePool(t *testing.T) {
	t.Parallel()
	if pluginsUnderTest() == official {
		t.Skip("the official Civo plugin crashes when a pool is scaled; that the modules refuse it is what TestOfficialCivoPluginIsGuarded shows")
	}
	w := newWorld(t)
	network := w.civoNetwork("net")
	cluster := w.civoCluster("main", network, w.civoFirewall("fw", network))
	text := strings.Replace(civoPoolManifest, "CLUSTER", cluster, 1)
	s := w.stack(text)
	expect := func(pools ...string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if diff := cmp.Diff(append([]string{"default g4s.kube.medium x1/1 map[] []"}, pools...), poolsOf(w.clusterNamed("main"))); diff != "" {
				t.Errorf("pools: -want +got:\n%s", diff)
			}
		}
	}
	s.live(text, changes{"create": 3}, expect("app g4s.kube.medium x3/3 map[workload:application] [{dedicated app NoSchedule}]"), []step{
		{name: "scale up", edit: []string{"nodeCount: 3", "nodeCount: 5"}, want: changes{"update": 1}, check: expect("app g4s.kube.medium x5/5 map[workload:application] [{dedicated app NoSchedule}]")},
		{name: "scale down", edit: []string{"nodeCount: 5", "nodeCount: 1"}, want: changes{"update": 1}, check: expect("app g4s.kube.medium x1/1 map[workload:application] [{dedicated app NoSchedule}]")},
		{name: "change a label", edit: []string{"workload: application", "workload: web"}, want: changes{"update": 1}, check: expect("app g4s.kube.medium x1/1 map[workload:web] [{dedicated app NoSchedule}]")},
		{name: "add a label", edit: []string{"workload: web", "workload: web\n    tier: front"}, want: changes{"update": 1}, check: expect("app g4s.kube.medium x1/1 map[tier:front workload:web] [{dedicated app NoSchedule}]")},
		{name: "remove the labels", edit: []string{"  labels:\n    workload: web\n    tier: front\n", ""}, want: changes{"update": 1}, check: expect("app g4s.kube.medium x1/1 map[] [{dedicated app NoSchedule}]")},
		{name: "change a taint", edit: []string{"effect: NoSchedule", "effect: NoExecute"}, want: changes{"update": 1}, check: expect("app g4s.kube.medium x1/1 map[] [{dedicated app NoExecute}]")},
		{name: "remove the taints", edit: []string{"  taints:\n    - {key: dedicated, value: app, effect: NoExecute}\n", ""}, want: changes{"update": 1}, check: expect("app g4s.kube.medium x1/1 map[] []")},
		{name: "another size replaces", edit: []string{"g4s.kube.medium", "g4s.kube.large"}, want: changes{"replace": 1}, check: expect("app g4s.kube.large x1/1 map[] []")},
		{name: "another name replaces", edit: []string{"nodePoolName: app", "nodePoolName: web"}, want: changes{"replace": 1}, check: expect("web g4s.kube.large x1/1 map[] []")},
		{name: "the cluster by its name", edit: []string{"value: " + cluster, "value: main"}, want: changes{}, check: expect("web g4s.kube.large x1/1 map[] []")},
	})

	// Labels that tell where the nodes come from.
	pool, _ := w.clusterNamed("main").Pool("web")
	want := map[string]string{
		"planton-resource": "true", "planton-resource-name": "app-pool", "planton-resource-kind": "CivoKubernetesNodePool",
		"planton-organization": "acme", "planton-environment": "prod",
	}
	if diff := cmp.Diff(want, pool.Labels); diff != "" {
		t.Errorf("labels: -want +got:\n%s", diff)
	}

	// Deleted by hand: refresh sees it, up makes it again.
	if err := w.civo.DeletePool(cluster, "web"); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); got["create"] != 1 {
		t.Errorf("up after a deletion by hand: %v", got)
	}
	s.destroy()
	expect()(t)
}

func TestCivoKubernetesNodePoolAutoscaled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	network := w.civoNetwork("net")
	cluster := w.civoCluster("main", network, w.civoFirewall("fw", network))
	text := strings.NewReplacer("CLUSTER", cluster, "nodeCount: 3", "nodeCount: 3\n  autoScale: true\n  minNodes: 2\n  maxNodes: 10").Replace(civoPoolManifest)
	s := w.stack(text)
	_, log, err := s.tryUp()
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if !strings.Contains(log, "--nodes=2:10:app") || !strings.Contains(log, "autoscaler") {
		t.Errorf("the diagnostic about the missing autoscaler is not in the log:\n%s", log)
	}
	if err := w.civo.ScalePool(cluster, "app", 7); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	// The autoscaler's count is not fought, not even by a change of something else.
	s.target = parse(t, strings.Replace(text, "workload: application", "workload: web", 1))
	if got, _ := s.up(); got["update"] != 1 {
		t.Errorf("up: %v", got)
	}
	pool, _ := w.clusterNamed("main").Pool("app")
	if pool.Count != 7 || pool.Labels["workload"] != "web" {
		t.Errorf("the pool has %d nodes and labels %v; want 7 still, and workload=web", pool.Count, pool.Labels)
	}
	s.expectSettled()
}

func TestCivoKubernetesNodePoolImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	network := w.civoNetwork("net")
	cluster := w.civoCluster("main", network, w.civoFirewall("fw", network))
	w.call(kinds.Civo, "POST", "/v2/kubernetes/clusters/"+cluster+"/pools", map[string]any{
		"id": "app", "count": 3, "size": "g4s.kube.medium", "region": "LON1",
	}, nil)
	s := w.stack(strings.Replace(civoPoolManifest, "CLUSTER", cluster, 1))
	s.importResource("civo:index/kubernetesNodePool:KubernetesNodePool", "node_pool", cluster+":app", "civo")
	if got, _ := s.up(); got["replace"] != 0 || got["create"] != 0 {
		t.Errorf("up after an import: %v", got)
	}
	s.expectSettled()
	if pool, _ := w.clusterNamed("main").Pool("app"); pool.Count != 3 || pool.Labels["workload"] != "application" {
		t.Errorf("the imported pool is not what the manifest says: %+v", pool)
	}
}

// The manifests that the cluster module's specification prints, with the id of a network filled in.
func TestManifestsOfTheSpecification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var network struct{ ID string }
	w.call(kinds.Civo, "POST", "/v2/networks", map[string]any{"label": "net", "region": "FRA1"}, &network)
	for file, created := range map[string]changes{
		"office-firewall.yaml": {"create": 3},
		"prod-cluster.yaml":    {"create": 4},
	} {
		text, err := os.ReadFile(filepath.Join(repository, "examples/civo/by-id", file))
		if err != nil {
			t.Fatal(err)
		}
		placeholder := regexp.MustCompile(`value: [0-9a-f-]{36}`)
		if !placeholder.Match(text) {
			t.Fatalf("%s has no id to fill in", file)
		}
		s := w.stack(placeholder.ReplaceAllString(string(text), "value: "+network.ID))
		if got, _ := s.up(); !cmp.Equal(created, got) {
			t.Errorf("%s: %v, want %v", file, got, created)
		}
		s.expectSettled()
	}
	cluster := w.clusterNamed("prod-k8s")
	if pool, _ := cluster.Pool("default"); cluster.Version != "1.29.0-k3s1" || pool.Count != 5 || pool.Size != "g4s.kube.large" {
		t.Errorf("the cluster is not what the manifest says: %+v", cluster)
	}
}
