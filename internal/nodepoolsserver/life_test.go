//go:build unix

package nodepoolsserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

const (
	civoClusterID = "550e8400-e29b-41d4-a716-446655440000"
	civoBody      = `{"id": "` + civoClusterID + `", "name": "main", "spec": {"kubernetesVersion": "1.29.0+k3s1",
		"platform": {"type": "civo", "civo": {"region": "fra1", "defaultNodePool": {"size": "g4s.kube.medium", "nodeCount": 1}}}}}`
	digitalOceanClusterID = "650e8400-e29b-41d4-a716-446655440000"
	digitalOceanBody      = `{"id": "` + digitalOceanClusterID + `", "name": "other", "spec": {"kubernetesVersion": "1.31",
		"platform": {"type": "digitalocean", "digitalocean": {"region": "nyc3", "defaultNodePool": {"size": "s-2vcpu-4gb", "nodeCount": 1}}}}}`
)

// poolBody is a pool of the cluster on Civo.
func poolBody(name string, nodes int) string {
	return fmt.Sprintf(`{"name": %q, "cluster_id": %q, "spec": {"nodeCount": %d, "platform": {"type": "civo", "civo": {"size": "g4s.kube.large"}}}}`,
		name, civoClusterID, nodes)
}

// TestLife: clusters on both clouds and their pools, from nothing to nothing. At each step the clouds hold what the
// API says.
func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	const pools = "/api/v1/nodepools"
	p.do(http.MethodPost, "/api/v1/clusters", civoBody)
	p.do(http.MethodPost, "/api/v1/clusters", digitalOceanBody)
	one := p.do(http.MethodPost, pools, poolBody("one", 1))
	two := p.do(http.MethodPost, pools, poolBody("two", 2))
	auto := p.do(http.MethodPost, pools, `{"name": "auto", "cluster_id": "`+digitalOceanClusterID+`", "spec": {
		"autoscaling": {"enabled": true, "minNodes": 1, "maxNodes": 4}, "platform": {"type": "digitalocean", "digitalocean": {"size": "s-4vcpu-8gb"}}}}`)
	if one.Status.Phase != "Pending" {
		t.Errorf("a new pool is %s", one.Status.Phase)
	}

	p.ready("/api/v1/clusters/" + civoClusterID)
	p.ready("/api/v1/clusters/" + digitalOceanClusterID)
	if got := p.ready(pools + "/" + one.ID); got.Status.Nodes.Ready != 1 {
		t.Errorf("of one pool %d nodes are ready: %+v", got.Status.Nodes.Ready, got.Status)
	}
	p.ready(pools + "/" + two.ID)
	p.ready(pools + "/" + auto.ID)
	if got, want := w.nodes("main"), "default:1 one:1 two:2"; got != want {
		t.Errorf("on Civo there are %s, want %s", got, want)
	}
	if all := w.digitalOcean.Clusters(); len(all) != 1 || len(all[0].NodePools) != 2 {
		t.Errorf("on DigitalOcean there is %+v", all)
	}
	found, _ := w.civo.Cluster("main")
	for _, pool := range found.Pools {
		if pool.ID == "one" && pool.Labels["nodepool"] != "one" {
			t.Errorf("the nodes of the pool have the labels %v", pool.Labels)
		}
	}

	// Scaled, edited and renamed.
	p.do(http.MethodPatch, pools+"/"+one.ID, `{"spec": {"nodeCount": 3}}`)
	p.do(http.MethodPatch, pools+"/"+two.ID, `{"spec": {"labels": {"tier": "batch"}}}`)
	p.do(http.MethodPatch, pools+"/"+auto.ID, `{"name": "scaled"}`)
	p.ready(pools + "/" + one.ID)
	p.ready(pools + "/" + two.ID)
	if got, want := w.nodes("main"), "default:1 one:3 two:2"; got != want {
		t.Errorf("after scaling there are %s, want %s", got, want)
	}
	w.until("the pool has its new name, and its nodes have its label", func() bool {
		pool := w.digitalOcean.Clusters()[0].NodePools[1]
		return pool.Name == "scaled" && pool.Labels["nodepool"] == "scaled"
	})

	// A cluster with pools is not deleted by mistake; with them it goes after them.
	if code, text := p.call(http.MethodDelete, "/api/v1/clusters/"+civoClusterID, "", nil); code != http.StatusConflict {
		t.Errorf("deleting a cluster with pools was answered with %d: %s", code, text)
	}
	p.do(http.MethodDelete, pools+"/"+two.ID, "")
	var going object
	if code, _ := p.call(http.MethodGet, pools+"/"+two.ID, "", &going); code == http.StatusOK && going.Status.Phase != "Deleting" {
		t.Errorf("a pool that is being deleted is %s", going.Status.Phase)
	}
	p.gone(pools + "/" + two.ID)
	if got, want := w.nodes("main"), "default:1 one:3"; got != want {
		t.Errorf("after a deletion there are %s, want %s", got, want)
	}
	// Its name is free again.
	again := p.do(http.MethodPost, pools, poolBody("two", 1))
	p.ready(pools + "/" + again.ID)
	p.do(http.MethodDelete, "/api/v1/clusters/"+civoClusterID+"?cascade=true", "")
	p.do(http.MethodDelete, "/api/v1/clusters/"+digitalOceanClusterID+"?cascade=true", "")
	p.gone("/api/v1/clusters/" + civoClusterID)
	p.gone("/api/v1/clusters/" + digitalOceanClusterID)
	if left := w.left(); left != "" {
		t.Errorf("left on Civo: %s", left)
	}
	if all := w.digitalOcean.Clusters(); len(all) != 0 {
		t.Errorf("left on DigitalOcean: %+v", all)
	}
	p.stop()
}

// TestDrift: what somebody changes behind the service's back is shown, and not undone; what an autoscaler does is no drift.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start("--drift-interval", "5s")
	p.do(http.MethodPost, "/api/v1/clusters", civoBody)
	pool := p.do(http.MethodPost, "/api/v1/nodepools", poolBody("one", 2))
	p.ready("/api/v1/nodepools/" + pool.ID)
	found, _ := w.civo.Cluster("main")
	if err := w.civo.DeletePool(found.ID, "one"); err != nil {
		t.Fatal(err)
	}
	w.until("the drift shows", func() bool {
		var o object
		p.call(http.MethodGet, "/api/v1/nodepools/"+pool.ID, "", &o)
		return o.condition("Drifted") == "True"
	})
	if got := w.nodes("main"); got != "default:1" {
		t.Errorf("the drift was undone: %s", got)
	}
	// A change of the spec makes the pool what it is to be, though it is gone.
	p.do(http.MethodPatch, "/api/v1/nodepools/"+pool.ID, `{"spec": {"nodeCount": 1}}`)
	p.ready("/api/v1/nodepools/" + pool.ID)
	if got := w.nodes("main"); got != "default:1 one:1" {
		t.Errorf("after a change of the spec there are %s", got)
	}
	p.stop()
}

// TestEdits: of a dry run nothing is written, of a burst of edits the last one counts, and a deletion in the middle of a creation leaves
// nothing.
func TestEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start()
	const pools = "/api/v1/nodepools"
	p.do(http.MethodPost, "/api/v1/clusters", civoBody)
	pool := p.do(http.MethodPost, pools, poolBody("one", 1))
	p.ready(pools + "/" + pool.ID)

	requests := w.civo.Count("PUT", "/**") + w.civo.Count("POST", "/**")
	would := p.do(http.MethodPatch, pools+"/"+pool.ID+"?dry_run=true", `{"spec": {"nodeCount": 4}}`)
	preview := ""
	for _, c := range would.Status.Conditions {
		if c.Type == "Preview" {
			preview = c.Message
		}
	}
	if !strings.Contains(preview, "nodeCount") {
		t.Errorf("the preview says %q", preview)
	}
	var now object
	p.call(http.MethodGet, pools+"/"+pool.ID, "", &now)
	if now.Generation != 1 || w.civo.Count("PUT", "/**")+w.civo.Count("POST", "/**") != requests {
		t.Errorf("a dry run changed something: generation %d", now.Generation)
	}

	before := w.civo.Count("PUT", "/**")
	for n := 2; n <= 31; n++ {
		p.do(http.MethodPatch, pools+"/"+pool.ID, fmt.Sprintf(`{"spec": {"nodeCount": %d}}`, 2+n%3))
	}
	got := p.ready(pools + "/" + pool.ID)
	if got.Generation != 31 {
		t.Errorf("the generation is %d, want 31", got.Generation)
	}
	if nodes := w.nodes("main"); nodes != "default:1 one:3" {
		t.Errorf("there are %s", nodes)
	}
	if writes := w.civo.Count("PUT", "/**") - before; writes > 10 {
		t.Errorf("thirty edits made %d writes at the cloud", writes)
	}

	// As long as a pool is on its way out, its name is taken.
	lost := make(chan struct{})
	w.hold(lost, "/pools")
	p.do(http.MethodDelete, pools+"/"+pool.ID, "")
	if code, text := p.call(http.MethodPost, pools, poolBody("one", 1), nil); code != http.StatusConflict {
		t.Errorf("the name of a pool that is being deleted was taken: %d %s", code, text)
	}
	w.until("the cloud deleted the pool", func() bool { return w.nodes("main") == "default:1" })
	w.held.Store(nil)
	close(lost)
	p.gone(pools + "/" + pool.ID)

	// The cluster is deleted while its pool of the old name is being made, and one waits.
	lost = make(chan struct{})
	w.hold(lost, "/pools")
	again := p.do(http.MethodPost, pools, poolBody("one", 2))
	w.until("the cloud made the pool", func() bool { return w.nodes("main") == "default:1 one:2" })
	p.do(http.MethodPost, pools, poolBody("two", 1))
	p.do(http.MethodDelete, "/api/v1/clusters/"+civoClusterID+"?cascade=true", "")
	w.held.Store(nil)
	close(lost)
	p.gone(pools + "/" + again.ID)
	p.gone("/api/v1/clusters/" + civoClusterID)
	if left := w.left(); left != "" {
		t.Errorf("left on Civo: %s", left)
	}
	p.stop()
}

// TestStopInTheMiddle: a shutdown while the cloud makes a cluster leaves no lock and nothing half written; the next process goes on.
func TestStopInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.civoFaults.Set(fault.Plan{Faults: []fault.Fault{
		{Kind: fault.Stuck, Route: "POST /v2/kubernetes/clusters"},
	}}); err != nil {
		t.Fatal(err)
	}
	// However long it may take, it does not wait for what the cloud has begun.
	p := w.start("--shutdown-grace", "1h")
	p.do(http.MethodPost, "/api/v1/clusters", civoBody)
	w.until("the cluster is being made", func() bool { return len(w.civo.Clusters()) == 1 })
	p.stop()
	if err := w.civoFaults.Lift(); err != nil {
		t.Fatal(err)
	}
	p = w.start()
	p.ready("/api/v1/clusters/" + civoClusterID)
	if got := w.civo.Count("POST", "/v2/kubernetes/clusters"); got != 1 {
		t.Errorf("%d clusters were asked for", got)
	}
	p.stop()
}
