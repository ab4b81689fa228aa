package digitalocean

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestVPCLifeCycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vpc := w.thing(t, vpcToken, "network")
	program := props{"name": "prod", "region": "NYC3", "description": "for prod"}

	vpc.mustUp("create", program)
	if got := vpc.get("region"); got != "nyc3" {
		t.Errorf("region is %v, want what the platform has", got)
	}
	if vpc.get("vpcUrn") != "do:vpc:"+string(vpc.id) || vpc.get("default") != false || vpc.get("ipRange") == "" {
		t.Errorf("outputs are missing: %v", vpc.state)
	}
	if got, _ := vpc.get("createdAt").(string); !strings.HasSuffix(got, " +0000 UTC") {
		t.Errorf("createdAt is %q, want it as the official plugin writes it", got)
	}
	vpc.mustUp("same", program)
	vpc.mustRefresh()
	vpc.mustUp("same", program)

	vpc.mustUp("update", with(program, props{"description": nil}))
	if got := w.body(t, http.MethodPut, string(vpc.id)); got != `{"default":false,"description":"","name":"prod"}` {
		t.Errorf("removing the description sent %s", got)
	}
	vpc.mustUp("same", with(program, props{"description": nil}))
	vpc.mustUp("update", with(program, props{"name": "prod-2", "description": nil}))
	vpc.mustUp("replace", with(program, props{"ipRange": "10.99.0.0/20"}))

	if err := vpc.destroy(); err != nil {
		t.Fatal(err)
	}
	if err := vpc.destroy(); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
	if there, err := vpc.refresh(); err != nil || there {
		t.Errorf("after the deletion: there %v, error %v", there, err)
	}
}

func TestVPCIsDeletedFirstWhenItsNameStays(t *testing.T) {
	t.Parallel()
	vpc := newWorld(t).thing(t, vpcToken, "network")
	program := props{"name": "prod", "region": "nyc3"}
	vpc.mustUp("create", program)
	vpc.mustUp("replace", with(program, props{"region": "ams3"}))
	if !vpc.deleted {
		t.Error("the same name, but the old one is not deleted first")
	}
	vpc.mustUp("replace", with(program, props{"region": "ams3", "name": "other"}))
	if vpc.deleted {
		t.Error("another name, but the old one is deleted first")
	}
}

func TestVPCNameIsMadeUp(t *testing.T) {
	t.Parallel()
	vpc := newWorld(t).thing(t, vpcToken, "network")
	vpc.mustUp("create", props{"region": "nyc3"})
	name, _ := vpc.get("name").(string)
	if !strings.HasPrefix(name, "network-") || len(name) != len("network-")+7 {
		t.Errorf("name is %q", name)
	}
	vpc.mustUp("same", props{"region": "nyc3"})
}

func TestVPCDeletionWaitsForMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cloud.SetVPCGracePeriod(600 * time.Millisecond)
	vpc := w.thing(t, vpcToken, "network")
	vpc.mustUp("create", props{"name": "prod", "region": "nyc1"})
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.mustUp("create", with(simpleCluster(), props{"vpcUuid": string(vpc.id)}))
	if err := cluster.destroy(); err != nil {
		t.Fatal(err)
	}

	vpc.timeout = 0.2
	wantErr(t, vpc.destroy(), "timed out after 200ms", "VPC with members")
	if len(w.cloud.VPCs()) == 0 {
		t.Fatal("the vpc is gone already")
	}
	vpc.timeout = patience
	if err := vpc.destroy(); err != nil {
		t.Fatal(err)
	}
	for _, left := range w.cloud.VPCs() {
		if left.ID == string(vpc.id) {
			t.Error("the vpc is still there")
		}
	}
}

func TestVPCDeletionTellsMembersFromRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vpc := w.thing(t, vpcToken, "network")
	for _, one := range w.cloud.VPCs() {
		if one.Region == "nyc3" && one.Default {
			if err := vpc.adopt(one.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantErr(t, vpc.destroy(), "default vpc of region nyc3", "pulumi state delete")

	own := w.thing(t, vpcToken, "own")
	own.mustUp("create", props{"name": "own", "region": "nyc3"})
	w.refuse(http.MethodDelete, "/v2/vpcs/", http.StatusForbidden, "forbidden")
	wantErr(t, own.destroy(), "scope")

	// The API once answered 403 for members.
	var asked atomic.Int32
	w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodDelete && asked.Add(1) == 1 {
			out.Header().Set("Content-Type", "application/json")
			out.WriteHeader(http.StatusForbidden)
			_, _ = out.Write([]byte(`{"id":"forbidden","message":"Can not delete VPC with members"}`))
			return
		}
		next.ServeHTTP(out, r)
	})
	if err := own.destroy(); err != nil {
		t.Errorf("after members were gone: %v", err)
	}
}

func TestVPCImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.thing(t, vpcToken, "network")
	made.mustUp("create", props{"name": "prod", "region": "nyc3", "ipRange": "10.99.0.0/20"})
	imported := w.thing(t, vpcToken, "imported")
	if err := imported.adopt(string(made.id)); err != nil {
		t.Fatal(err)
	}
	imported.mustUp("same", props{"name": "prod", "region": "nyc3", "ipRange": "10.99.0.0/20"})
	imported.mustUp("same", props{"name": "prod", "region": "nyc3"})
	wantErr(t, w.thing(t, vpcToken, "none").adopt("00000000-0000-4000-8000-000000000000"), "does not exist")
}
