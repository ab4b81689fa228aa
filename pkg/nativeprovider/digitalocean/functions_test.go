package digitalocean

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
)

func containsText(text, part string) bool { return strings.Contains(text, part) }

func (w *world) invoke(t *testing.T, token tokens.ModuleMember, args props) (resource.PropertyMap, error) {
	t.Helper()
	response, err := w.provider.Invoke(t.Context(), plugin.InvokeRequest{Tok: token, Args: propertyMap(args)})
	if err == nil && len(response.Failures) > 0 {
		t.Fatalf("failures: %+v", response.Failures)
	}
	return response.Properties, err
}

func TestGetKubernetesCluster(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	w.thing(t, poolToken, "pool").mustUp("create", simplePool(string(cluster.id)))

	found, err := w.invoke(t, getClusterToken, props{"name": "prod"})
	if err != nil {
		t.Fatal(err)
	}
	plain := plainState(found)
	if plain["id"].StringValue() != string(cluster.id) || plain["urn"].StringValue() != "do:kubernetes:"+string(cluster.id) {
		t.Errorf("it found %v", plain["id"])
	}
	if len(plain["kubeConfigs"].ArrayValue()) != 0 {
		t.Error("credentials were fetched")
	}
	pools := plain["nodePools"].ArrayValue()
	if len(pools) != 2 || pools[0].ObjectValue()["name"].StringValue() != "default" {
		t.Errorf("node pools are %v", pools)
	}
	for _, key := range []resource.PropertyKey{"maintenancePolicies", "controlPlaneFirewalls"} {
		if len(plain[key].ArrayValue()) != 1 {
			t.Errorf("%s is %v", key, plain[key])
		}
	}
	for _, key := range []resource.PropertyKey{"routingAgent", "amdGpuDevicePlugin", "nvidiaGpuDevicePlugin"} {
		if !plain[key].IsObject() {
			t.Errorf("%s is %v, and the SDK wants an object", key, plain[key])
		}
	}
	// One for the creation, none for the lookup.
	if n := w.count(http.MethodGet, "/credentials"); n != 1 {
		t.Errorf("credentials were fetched %d times", n)
	}

	_, err = w.invoke(t, getClusterToken, props{"name": "absent"})
	wantErr(t, err, "unable to find cluster with name: absent")
	w.refuse(http.MethodGet, "/clusters", http.StatusServiceUnavailable, "service_unavailable")
	_, err = w.invoke(t, getClusterToken, props{"name": "prod"})
	wantErr(t, err, "list digitalocean kubernetes clusters", "503")
	if containsText(err.Error(), "unable to find") {
		t.Error("an outage looks like an absence")
	}
}

func TestGetKubernetesVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		reason string
		args   props
		latest string
		valid  []any // nil means at least one
	}{
		{"all of them", props{}, "1.34.2-do.0", nil},
		{"of a minor version, by number and not by text", props{"versionPrefix": "1.31."}, "1.31.14-do.0",
			[]any{"1.31.14-do.0", "1.31.1-do.5", "1.31.1-do.4", "1.31.1-do.0"}},
		{"of none", props{"versionPrefix": "9."}, "", []any{}},
	} {
		found, err := w.invoke(t, getVersionsToken, test.args)
		if err != nil {
			t.Fatal(err)
		}
		got := found.Mappable()
		if got["latestVersion"] != test.latest {
			t.Errorf("%s: the latest is %v, want %s", test.reason, got["latestVersion"], test.latest)
		}
		if test.valid != nil && !cmp.Equal(got["validVersions"], any(test.valid)) {
			t.Errorf("%s: %v, want %v", test.reason, got["validVersions"], test.valid)
		}
		if got["id"] == "" {
			t.Errorf("%s: no id", test.reason)
		}
	}
}

func TestGetPlugin(t *testing.T) {
	t.Parallel()
	found, err := newWorld(t).invoke(t, "digitalocean:index/getPlugin:getPlugin", props{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(props{"name": "native", "version": "4.57.0"}, found.Mappable()); diff != "" {
		t.Error(diff)
	}
}

func TestListsAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	w, _ := withCluster(t, 0)
	// A page holds one cluster here, so that the second is on the second page.
	w.thing(t, clusterToken, "second").mustUp("create", with(simpleCluster(), props{"name": "second"}))
	w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		query := r.URL.Query()
		if query.Has("per_page") {
			query.Set("per_page", "1")
			r.URL.RawQuery = query.Encode()
		}
		next.ServeHTTP(out, r)
	})
	found, err := w.invoke(t, getClusterToken, props{"name": "second"})
	if err != nil || found["name"].StringValue() != "second" {
		t.Errorf("found %v, %v", found["name"], err)
	}
}
