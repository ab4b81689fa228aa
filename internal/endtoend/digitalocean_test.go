package endtoend

import (
	"encoding/base64"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/tools/clientcmd"

	digitaloceancloud "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Why the official plugin cannot take a step: its requests leave false and empty values out, so that the API keeps the old ones.
const (
	noLastTag  = "the official plugin does not send an empty list of tags"
	noSurgeOff = "the official plugin does not send that surge upgrades are off"
)

func (w *world) vpcsNamed(name string) []digitaloceancloud.VPC {
	var found []digitaloceancloud.VPC
	for _, vpc := range w.digitalocean.VPCs() {
		if vpc.Name == name {
			found = append(found, vpc)
		}
	}
	return found
}

// doksCluster makes a cluster beside the stack under test, and returns its id.
func (w *world) doksCluster(name string) string {
	w.t.Helper()
	var made struct {
		Cluster struct{ ID string } `json:"kubernetes_cluster"`
	}
	w.call(kinds.DigitalOcean, "POST", "/v2/kubernetes/clusters", map[string]any{
		"name": name, "region": "nyc1", "version": "1.31.1-do.4",
		"node_pools": []map[string]any{{"name": "default", "size": "s-2vcpu-4gb", "count": 1, "tags": []string{"terraform:default-node-pool"}}},
	}, &made)
	return made.Cluster.ID
}

func (w *world) doksNamed(name string) digitaloceancloud.Cluster {
	w.t.Helper()
	var found []digitaloceancloud.Cluster
	for _, cluster := range w.digitalocean.Clusters() {
		if cluster.Name == name {
			found = append(found, cluster)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%d clusters are named %q, want 1", len(found), name)
	}
	return found[0]
}

const digitaloceanVpc = `
apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanVpc
metadata:
  name: net
spec:
  region: nyc1
  description: for clusters
  ipRangeCidr: 10.10.0.0/16
`

func TestDigitalOceanVpc(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.stack(digitaloceanVpc)
	var id string
	expect := func(description, cidr string, same bool) func(t *testing.T) {
		return func(t *testing.T) {
			vpcs := w.vpcsNamed("net")
			if len(vpcs) != 1 || vpcs[0].Description != description || vpcs[0].IPRange != cidr || vpcs[0].Region != "nyc1" {
				t.Fatalf("want one VPC %q of %s in nyc1, got %+v", description, cidr, vpcs)
			}
			if same && vpcs[0].ID != id {
				t.Error("the VPC was replaced")
			}
			id = vpcs[0].ID
		}
	}
	s.live(digitaloceanVpc, changes{"create": 3}, expect("for clusters", "10.10.0.0/16", false), []step{
		{name: "change the description", edit: []string{"for clusters", "for all"}, want: changes{"update": 1}, check: expect("for all", "10.10.0.0/16", true)},
		{name: "remove the description", edit: []string{"  description: for all\n", ""}, want: changes{"update": 1}, check: expect("", "10.10.0.0/16", true)},
		{name: "another range replaces", edit: []string{"10.10.0.0/16", "10.20.0.0/16"}, want: changes{"replace": 1}, check: expect("", "10.20.0.0/16", false)},
	})
	s.destroy()
	if left := w.vpcsNamed("net"); len(left) != 0 {
		t.Errorf("left after destroy: %+v", left)
	}
}

func TestDigitalOceanVpcImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var made struct{ VPC struct{ ID string } }
	w.call(kinds.DigitalOcean, "POST", "/v2/vpcs", map[string]any{"name": "net", "region": "nyc1", "ip_range": "10.10.0.0/16"}, &made)
	s := w.stack(digitaloceanVpc)
	s.importResource("digitalocean:index/vpc:Vpc", "vpc", made.VPC.ID, "digitalocean")
	if got, _ := s.up(); got["replace"] != 0 || got["create"] != 0 {
		t.Errorf("up after an import: %v", got)
	}
	if vpcs := w.vpcsNamed("net"); len(vpcs) != 1 || vpcs[0].ID != made.VPC.ID || vpcs[0].Description != "for clusters" {
		t.Errorf("the imported VPC is not what the manifest says: %+v", vpcs)
	}
	s.expectSettled()
}

const digitaloceanClusterManifest = `
apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanKubernetesCluster
metadata:
  name: prod-cluster
spec:
  clusterName: prod-k8s
  region: nyc1
  kubernetesVersion: 1.31.1-do.4
  maintenanceWindow: sunday=02:00
  tags: [platform]
  controlPlaneFirewallAllowedIps: [203.0.113.0/24]
  defaultNodePool:
    size: s-2vcpu-4gb
    nodeCount: 3
    labels:
      tier: system
  additionalNodePools:
    - name: batch
      size: s-4vcpu-8gb
      nodeCount: 2
      autoScale: true
      minNodes: 0
      maxNodes: 5
      taints:
        - {key: dedicated, value: batch, effect: NoSchedule}
`

// userTags are the tags that a user gave, sorted.
func userTags(tags []string) string {
	var user []string
	for _, tag := range tags {
		if tag != "k8s" && !strings.HasPrefix(tag, "k8s:") && !strings.HasPrefix(tag, "terraform:") {
			user = append(user, tag)
		}
	}
	sort.Strings(user)
	return strings.Join(user, " ")
}

// doksPools writes a cluster's pools down, in their order.
func doksPools(cluster digitaloceancloud.Cluster) []string {
	var pools []string
	for _, pool := range cluster.NodePools {
		user := map[string]string{}
		for key, value := range pool.Labels {
			if !strings.HasPrefix(key, "planton-") {
				user[key] = value
			}
		}
		scale := ""
		if pool.AutoScale {
			scale = fmt.Sprintf(" %d-%d", pool.MinNodes, pool.MaxNodes)
		}
		pools = append(pools, strings.TrimSpace(fmt.Sprintf("%s %s x%d/%d%s %v %v %s",
			pool.Name, pool.Size, pool.Count, len(pool.Nodes), scale, user, pool.Taints, userTags(pool.Tags))))
	}
	return pools
}

func TestDigitalOceanKubernetesCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.stack(digitaloceanClusterManifest)
	var id string
	expect := func(name, version, tags string, pools ...string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			cluster := w.doksNamed(name)
			if id != "" && cluster.ID != id {
				t.Errorf("the cluster was replaced")
			}
			id = cluster.ID
			if cluster.Version != version || cluster.Status.State != "running" {
				t.Errorf("version %s, status %s; want %s, running", cluster.Version, cluster.Status.State, version)
			}
			if got := userTags(cluster.Tags); got != tags {
				t.Errorf("tags %q, want %q", got, tags)
			}
			if diff := cmp.Diff(pools, doksPools(cluster), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pools: -want +got:\n%s", diff)
			}
		}
	}
	surge := func(want bool) func(t *testing.T) {
		return func(t *testing.T) {
			if got := w.doksNamed("live").SurgeUpgrade; got != want {
				t.Errorf("surge upgrade %v, want %v", got, want)
			}
		}
	}
	const (
		batch = "batch s-4vcpu-8gb x2/2 0-5 map[] [{dedicated batch NoSchedule}]"
		three = "default s-2vcpu-4gb x3/3 map[tier:system] []"
		five  = "default s-2vcpu-4gb x5/5 map[tier:system] []"
		two   = "default s-2vcpu-4gb x2/2 map[tier:system] []"
		bare  = "default s-2vcpu-4gb x2/2 map[] []"
	)
	s.live(digitaloceanClusterManifest, changes{"create": 4}, expect("prod-k8s", "1.31.1-do.4", "platform", three, batch), []step{
		{name: "scale the default pool up", edit: []string{"nodeCount: 3", "nodeCount: 5"}, want: changes{"update": 1}, check: expect("prod-k8s", "1.31.1-do.4", "platform", five, batch)},
		{name: "scale the default pool down", edit: []string{"nodeCount: 5\n    labels", "nodeCount: 2\n    labels"}, want: changes{"update": 1}, check: expect("prod-k8s", "1.31.1-do.4", "platform", two, batch)},
		{name: "upgrade", edit: []string{"1.31.1-do.4", "1.31.1-do.5"}, want: changes{"update": 1}, check: expect("prod-k8s", "1.31.1-do.5", "platform", two, batch)},
		{name: "upgrade to the newest of a minor version", edit: []string{"1.31.1-do.5", "\"1.32\""}, want: changes{"update": 1}, check: expect("prod-k8s", "1.32.10-do.0", "platform", two, batch)},
		{name: "a lower version cannot be had", edit: []string{"\"1.32\"", "1.31.1-do.5"}, refused: "kubernetes_version"},
		{name: "rename", edit: []string{"clusterName: prod-k8s", "clusterName: live"}, want: changes{"update": 1}, check: expect("live", "1.32.10-do.0", "platform", two, batch)},
		{name: "change tags", edit: []string{"[platform]", "[live, platform-team]"}, want: changes{"update": 1}, check: expect("live", "1.32.10-do.0", "live platform-team", two, batch)},
		{name: "remove labels", edit: []string{"    labels:\n      tier: system\n", ""}, want: changes{"update": 1}, check: expect("live", "1.32.10-do.0", "live platform-team", bare, batch)},
		{name: "another window", edit: []string{"sunday=02:00", "any=04:00"}, want: changes{"update": 1}, check: func(t *testing.T) {
			if got := w.doksNamed("live").MaintenancePolicy; got.Day != "any" || got.StartTime != "04:00" {
				t.Errorf("maintenance %+v", got)
			}
		}},
		{name: "remove tags", edit: []string{"  tags: [live, platform-team]\n", ""}, want: changes{"update": 1}, check: expect("live", "1.32.10-do.0", "", bare, batch), nativeOnly: noLastTag},
		{name: "surge off", edit: []string{"  maintenanceWindow", "  disableSurgeUpgrade: true\n  maintenanceWindow"}, want: changes{"update": 1}, check: surge(false), nativeOnly: noSurgeOff},
		{name: "surge on", edit: []string{"  disableSurgeUpgrade: true\n", ""}, want: changes{"update": 1}, check: surge(true), nativeOnly: noSurgeOff},
	})

	_, outputs := s.up()
	if !outputs["kubeconfig"].Secret || !outputs["kubeconfig_b64"].Secret || !outputs["token"].Secret {
		t.Error("an output that carries credentials is no secret")
	}
	raw := outputs["kubeconfig"].Value.(string)
	if decoded, err := base64.StdEncoding.DecodeString(outputs["kubeconfig_b64"].Value.(string)); err != nil || string(decoded) != raw {
		t.Errorf("kubeconfig_b64 is not base64 of kubeconfig: %v", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(raw))
	if err != nil {
		t.Fatalf("kubectl could not read the kubeconfig: %v", err)
	}
	if config.Host != outputs["api_server_endpoint"].Value {
		t.Errorf("the kubeconfig's server %s is not the output %v", config.Host, outputs["api_server_endpoint"].Value)
	}
	for _, key := range []string{"created_at_rfc3339", "kubeconfig_expires_at_rfc3339"} {
		if _, err := time.Parse(time.RFC3339, outputs[key].Value.(string)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	s.destroy()
	if left := w.digitalocean.Clusters(); len(left) != 0 {
		t.Errorf("left after destroy: %+v", left)
	}
}

func TestDigitalOceanKubernetesClusterDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.stack(digitaloceanClusterManifest)
	s.up()
	cluster := w.doksNamed("prod-k8s")

	if err := w.digitalocean.ScalePool(cluster.ID, cluster.Pool("default").ID, 5); err != nil {
		t.Fatal(err)
	}
	if got := s.refresh(); got["update"] != 1 {
		t.Errorf("refresh after scaling by hand: %v", got)
	}
	if got, _ := s.up(); got["update"] != 1 {
		t.Errorf("up after scaling by hand: %v", got)
	}
	if pool := w.doksNamed("prod-k8s").Pool("default"); pool.Count != 3 {
		t.Errorf("the pool has %d nodes, want 3 again", pool.Count)
	}

	if err := w.digitalocean.UpgradeCluster(cluster.ID, "1.31.14-do.0"); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if _, log, err := s.tryPreview(); err == nil || !strings.Contains(log+err.Error(), "kubernetes_version") {
		t.Errorf("a manifest with a lower version than the cluster's must be refused: %v\n%s", err, log)
	}
	s.target = parse(t, strings.Replace(digitaloceanClusterManifest, "1.31.1-do.4", "1.31.14-do.0", 1))
	if got, _ := s.up(); len(got) != 0 {
		t.Errorf("up after an upgrade elsewhere that the manifest follows: %v", got)
	}

	if err := w.digitalocean.ScalePool(cluster.ID, cluster.Pool("batch").ID, 4); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); len(got) != 0 {
		t.Errorf("up after the autoscaler's work: %v", got)
	}
	if pool := w.doksNamed("prod-k8s").Pool("batch"); pool.Count != 4 {
		t.Errorf("the autoscaled pool has %d nodes, want 4 still", pool.Count)
	}

	if err := w.digitalocean.DeleteCluster(cluster.ID); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); got["create"] != 2 {
		t.Errorf("up after a deletion by hand: %v, want the cluster and its pool created", got)
	}
	if w.doksNamed("prod-k8s").ID == cluster.ID {
		t.Error("the cluster has its old id")
	}
	s.expectSettled()
}

// An automatic upgrade, or a newer slug, never makes a later apply plan a lower version.
func TestDigitalOceanVersionNeverGoesDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.NewReplacer("kubernetesVersion: 1.31.1-do.4", "kubernetesVersion: \"1.31\"\n  autoUpgrade: true").Replace(digitaloceanClusterManifest)
	s := w.stack(text)
	s.up()
	cluster := w.doksNamed("prod-k8s")
	if cluster.Version != "1.31.14-do.0" {
		t.Fatalf("version %s, want the newest of 1.31", cluster.Version)
	}
	if err := w.digitalocean.UpgradeCluster(cluster.ID, "1.32.2-do.1"); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); len(got) != 0 {
		t.Errorf("up after an automatic upgrade: %v", got)
	}
	if again := w.doksNamed("prod-k8s"); again.ID != cluster.ID || again.Version != "1.32.2-do.1" {
		t.Errorf("the cluster is %s at %s, want %s at 1.32.2-do.1", again.ID, again.Version, cluster.ID)
	}
}

func TestDigitalOceanKubernetesClusterImportAndReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.doksCluster("prod-k8s")
	manifest := digitaloceanClusterManifest[:strings.Index(digitaloceanClusterManifest, "  additionalNodePools")]
	s := w.stack(manifest)
	s.importResource("digitalocean:index/kubernetesCluster:KubernetesCluster", "cluster", id, "digitalocean")
	if got, _ := s.up(); got["replace"] != 0 || got["create"] != 0 {
		t.Errorf("up after an import: %v", got)
	}
	cluster := w.doksNamed("prod-k8s")
	if cluster.ID != id || cluster.Pool("default").Count != 3 {
		t.Errorf("the imported cluster is not what the manifest says: %+v", cluster)
	}
	s.expectSettled()
	for reason, edit := range map[string][2]string{
		"another region":    {"nyc1", "nyc3"},
		"another size":      {"size: s-2vcpu-4gb", "size: s-4vcpu-8gb"},
		"another pod range": {"  maintenanceWindow", "  clusterSubnet: 10.100.0.0/16\n  maintenanceWindow"},
	} {
		s.target = parse(t, strings.Replace(manifest, edit[0], edit[1], 1))
		if got := s.preview(); got["replace"] != 1 {
			t.Errorf("preview of %s: %v, want a replacement", reason, got)
		}
	}

	// And for real: the old one is gone before the new one comes, because names are unique.
	s.target = parse(t, strings.Replace(manifest, "nyc1", "nyc3", 1))
	if got, _ := s.up(); got["replace"] != 1 {
		t.Errorf("up of another region: %v, want a replacement", got)
	}
	if replaced := w.doksNamed("prod-k8s"); replaced.ID == id || replaced.Region != "nyc3" {
		t.Errorf("the cluster is %s in %s, want another one in nyc3", replaced.ID, replaced.Region)
	}
	s.expectSettled()
}

const digitaloceanPoolManifest = `
apiVersion: digital-ocean.project-planton.org/v1
kind: DigitalOceanKubernetesNodePool
metadata:
  name: app-pool
  org: acme
spec:
  nodePoolName: app
  cluster:
    value: CLUSTER
  size: s-2vcpu-4gb
  nodeCount: 3
  labels:
    workload: application
  taints:
    - {key: dedicated, value: app, effect: NoSchedule}
  tags: [app]
`

func TestDigitalOceanKubernetesNodePool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.doksCluster("main")
	text := strings.Replace(digitaloceanPoolManifest, "CLUSTER", cluster, 1)
	s := w.stack(text)
	expect := func(pools ...string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if diff := cmp.Diff(append([]string{"default s-2vcpu-4gb x1/1 map[] []"}, pools...), doksPools(w.doksNamed("main"))); diff != "" {
				t.Errorf("pools: -want +got:\n%s", diff)
			}
		}
	}
	s.live(text, changes{"create": 3}, expect("app s-2vcpu-4gb x3/3 map[workload:application] [{dedicated app NoSchedule}] app"), []step{
		{name: "scale up", edit: []string{"nodeCount: 3", "nodeCount: 5"}, want: changes{"update": 1}, check: expect("app s-2vcpu-4gb x5/5 map[workload:application] [{dedicated app NoSchedule}] app")},
		{name: "scale down", edit: []string{"nodeCount: 5", "nodeCount: 1"}, want: changes{"update": 1}, check: expect("app s-2vcpu-4gb x1/1 map[workload:application] [{dedicated app NoSchedule}] app")},
		{name: "change a label", edit: []string{"workload: application", "workload: web"}, want: changes{"update": 1}, check: expect("app s-2vcpu-4gb x1/1 map[workload:web] [{dedicated app NoSchedule}] app")},
		{name: "remove the labels", edit: []string{"  labels:\n    workload: web\n", ""}, want: changes{"update": 1}, check: expect("app s-2vcpu-4gb x1/1 map[] [{dedicated app NoSchedule}] app")},
		{name: "add a taint", edit: []string{"  tags:", "    - {key: gpu, effect: NoExecute}\n  tags:"}, want: changes{"update": 1}, check: expect("app s-2vcpu-4gb x1/1 map[] [{dedicated app NoSchedule} {gpu  NoExecute}] app")},
		{name: "remove the taints", edit: []string{"  taints:\n    - {key: dedicated, value: app, effect: NoSchedule}\n    - {key: gpu, effect: NoExecute}\n", ""}, want: changes{"update": 1}, check: expect("app s-2vcpu-4gb x1/1 map[] [] app")},
		{name: "change a tag", edit: []string{"[app]", "[web]"}, want: changes{"update": 1}, check: expect("app s-2vcpu-4gb x1/1 map[] [] web")},
		{name: "rename in place", edit: []string{"nodePoolName: app", "nodePoolName: web"}, want: changes{"update": 1}, check: expect("web s-2vcpu-4gb x1/1 map[] [] web")},
		{name: "autoscale", edit: []string{"nodeCount: 1", "nodeCount: 1\n  autoScale: true\n  minNodes: 0\n  maxNodes: 4"}, want: changes{"update": 1}, check: expect("web s-2vcpu-4gb x1/1 0-4 map[] [] web")},
		{name: "another size replaces", edit: []string{"s-2vcpu-4gb", "s-4vcpu-8gb"}, want: changes{"replace": 1}, check: expect("web s-4vcpu-8gb x1/1 0-4 map[] [] web")},
		{name: "the cluster by its name", edit: []string{"value: " + cluster, "value: main"}, want: changes{}, check: expect("web s-4vcpu-8gb x1/1 0-4 map[] [] web")},
		{name: "remove the tags", edit: []string{"  tags: [web]\n", ""}, want: changes{"update": 1}, check: expect("web s-4vcpu-8gb x1/1 0-4 map[] []"), nativeOnly: noLastTag},
	})

	// The autoscaler's count is not fought, not even by a change of something else.
	pool := w.doksNamed("main").Pool("web")
	if err := w.digitalocean.ScalePool(cluster, pool.ID, 3); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); len(got) != 0 {
		t.Errorf("up after the autoscaler's work: %v", got)
	}
	s.target = parse(t, strings.NewReplacer("CLUSTER", "main", "nodePoolName: app", "nodePoolName: web", "size: s-2vcpu-4gb", "size: s-4vcpu-8gb",
		"nodeCount: 3", "nodeCount: 1\n  autoScale: true\n  minNodes: 0\n  maxNodes: 4").Replace(digitaloceanPoolManifest))
	if got, _ := s.up(); got["update"] != 1 {
		t.Errorf("up of a label beside the autoscaler's work: %v", got)
	}
	expect("web s-4vcpu-8gb x3/3 0-4 map[workload:application] [{dedicated app NoSchedule}] app")(t)

	if err := w.digitalocean.DeletePool(cluster, pool.ID); err != nil {
		t.Fatal(err)
	}
	s.refresh()
	if got, _ := s.up(); got["create"] != 1 {
		t.Errorf("up after a deletion by hand: %v", got)
	}
	s.destroy()
	expect()(t)
}

func TestDigitalOceanKubernetesNodePoolImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.doksCluster("main")
	var made struct {
		Pool struct{ ID string } `json:"node_pool"`
	}
	w.call(kinds.DigitalOcean, "POST", "/v2/kubernetes/clusters/"+cluster+"/node_pools", map[string]any{
		"name": "app", "count": 2, "size": "s-2vcpu-4gb",
	}, &made)
	s := w.stack(strings.Replace(digitaloceanPoolManifest, "CLUSTER", cluster, 1))
	s.importResource("digitalocean:index/kubernetesNodePool:KubernetesNodePool", "node_pool", made.Pool.ID, "digitalocean")
	if got, _ := s.up(); got["replace"] != 0 || got["create"] != 0 {
		t.Errorf("up after an import: %v", got)
	}
	if pool := w.doksNamed("main").Pool("app"); pool.ID != made.Pool.ID || pool.Count != 3 || pool.Labels["workload"] != "application" {
		t.Errorf("the imported pool is not what the manifest says: %+v", pool)
	}
	s.expectSettled()
}
