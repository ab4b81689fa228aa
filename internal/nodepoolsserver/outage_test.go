//go:build unix

package nodepoolsserver

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

// TestOutageOfAMinute: the cloud goes away for a minute while it makes a pool, scales one and takes one away, and nobody hears that it did.
// The API says what is going on; afterwards everything is as it is to be without anybody's help, and nothing is there twice.
func TestOutageOfAMinute(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t)
	p := w.start("--parallel", "4")
	const pools, asks = "/api/v1/nodepools", "/v2/kubernetes/clusters/*/pools"
	p.do(http.MethodPost, "/api/v1/clusters", civoBody)
	scaled := p.do(http.MethodPost, pools, poolBody("scaled", 1))
	gone := p.do(http.MethodPost, pools, poolBody("gone", 1))
	p.ready(pools + "/" + scaled.ID)
	p.ready(pools + "/" + gone.ID)

	lost := make(chan struct{})
	w.hold(lost, "/pools")
	made := p.do(http.MethodPost, pools, poolBody("made", 2))
	p.do(http.MethodPatch, pools+"/"+scaled.ID, `{"spec": {"nodeCount": 3}}`)
	p.do(http.MethodDelete, pools+"/"+gone.ID, "")
	w.until("the cloud did all that it was asked for", func() bool { return w.nodes("main") == "default:1 made:2 scaled:3" })
	if err := w.civoFaults.Set(fault.Plan{Faults: []fault.Fault{{Kind: fault.ServerError, Route: "* /v2/**", Status: http.StatusServiceUnavailable}}}); err != nil {
		t.Fatal(err)
	}
	w.held.Store(nil)
	close(lost)
	minute := time.After(time.Minute)

	phases := map[string]string{made.ID: "Progressing", scaled.ID: "Progressing", gone.ID: "Deleting"}
	for id := range phases {
		w.until("the outage shows", func() bool {
			_, text := p.call(http.MethodGet, pools+"/"+id+"/status", "", nil)
			return strings.Contains(text, "CloudUnreachable")
		})
	}
	<-minute
	for id, want := range phases {
		var o object
		if code, text := p.call(http.MethodGet, pools+"/"+id, "", &o); code != http.StatusOK || o.Status.Phase != want || o.condition("Ready") != "False" {
			t.Errorf("after a minute without the cloud a pool is %s, want %s: %d %s", o.Status.Phase, want, code, text)
		}
	}
	var cluster object
	if p.call(http.MethodGet, "/api/v1/clusters/"+civoClusterID, "", &cluster); cluster.Status.Phase != "Ready" {
		t.Errorf("the cluster, of which nothing was wanted, is %s", cluster.Status.Phase)
	}
	asked := w.civo.Count("POST", asks)
	if err := w.civoFaults.Lift(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{made.ID, scaled.ID} {
		if o := p.ready(pools + "/" + id); o.condition("Drifted") == "True" {
			t.Errorf("the pool %s differs from the cloud", o.Name)
		}
	}
	p.gone(pools + "/" + gone.ID)
	if got, want := w.nodes("main"), "default:1 made:2 scaled:3"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
	if again := w.civo.Count("POST", asks) - asked; again != 0 {
		t.Errorf("after the outage pools were asked for %d times, and none was missing", again)
	}
	p.stop()
}
