package digitalocean

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"k8s.io/client-go/tools/clientcmd"

	emulated "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
)

func TestClusterLifeCycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	program := with(simpleCluster(), props{
		"tags":              []any{"team:a", "prod"},
		"maintenancePolicy": props{"day": "Sunday", "startTime": "04:00"},
	})

	cluster.mustUp("create", program)
	for path, want := range map[string]any{
		"status":                        "running",
		"version":                       "1.31.1-do.4",
		"ha":                            false,
		"autoUpgrade":                   false,
		"surgeUpgrade":                  true,
		"registryIntegration":           false,
		"destroyAllAssociatedResources": false,
		"clusterUrn":                    "do:kubernetes:" + string(cluster.id),
		"maintenancePolicy.day":         "sunday",
		"maintenancePolicy.duration":    "4h0m0s",
		"nodePool.actualNodeCount":      2.0,
		"nodePool.nodeCount":            2.0,
		"nodePool.autoScale":            false,
		"nodePool.nodes[1].status":      "running",
		"tags":                          []any{"team:a", "prod"},
		"nodePool.tags":                 []any{},
		"__meta":                        clusterMeta,
		"id":                            string(cluster.id),
	} {
		if got := cluster.get(path); !cmp.Equal(got, want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	live := w.onlyCluster(t)
	if !hasTag(live.NodePools[0].Tags, defaultPoolTag) {
		t.Errorf("the default pool has tags %v, want %s among them", live.NodePools[0].Tags, defaultPoolTag)
	}
	if got, _ := cluster.get("createdAt").(string); got != live.CreatedAt.UTC().String() {
		t.Errorf("createdAt is %q, want %q", got, live.CreatedAt.UTC())
	}
	cluster.mustUp("same", program)
	cluster.mustRefresh()
	cluster.mustUp("same", program)

	if err := cluster.destroy(); err != nil {
		t.Fatal(err)
	}
	if len(w.cloud.Clusters()) != 0 {
		t.Error("the cluster is still there")
	}
	if err := cluster.destroy(); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
	if there, err := cluster.refresh(); err != nil || there {
		t.Errorf("after the deletion: there %v, error %v", there, err)
	}
}

// TestClusterIsUpdated changes one thing at a time, and looks at the cloud after it.
func TestClusterIsUpdated(t *testing.T) {
	t.Parallel()
	full := withPool(with(simpleCluster(), props{
		"tags":                            []any{"a", "b"},
		"autoUpgrade":                     true,
		"maintenancePolicy":               props{"day": "monday", "startTime": "01:00"},
		"controlPlaneFirewall":            props{"enabled": true, "allowedAddresses": []any{"192.0.2.1/32"}},
		"clusterAutoscalerConfigurations": []any{props{"scaleDownUtilizationThreshold": 0.5, "expanders": []any{"random"}}},
		"routingAgent":                    props{"enabled": true},
		"amdGpuDevicePlugin":              props{"enabled": true},
		"nvidiaGpuDevicePlugin":           props{"enabled": true},
		"rdmaSharedDevicePlugin":          props{"enabled": true},
	}), props{
		"tags":   []any{"pool"},
		"labels": props{"tier": "web", "zone": "1"},
		"taints": []any{props{"key": "dedicated", "value": "web", "effect": "NoSchedule"}},
	})
	tests := []struct {
		reason string
		change props
		check  func(emulated.Cluster) any
		want   any
	}{
		{"a rename is in place", with(full, props{"name": "other"}),
			func(c emulated.Cluster) any { return c.Name }, "other"},
		{"one tag fewer", with(full, props{"tags": []any{"b"}}),
			func(c emulated.Cluster) any { return userTags(c.Tags) }, []string{"b"}},
		{"the last tags go too", with(full, props{"tags": nil}),
			func(c emulated.Cluster) any { return userTags(c.Tags) }, []string{}},
		{"surge upgrades can be turned off", with(full, props{"surgeUpgrade": false}),
			func(c emulated.Cluster) any { return c.SurgeUpgrade }, false},
		{"automatic upgrades are off when they are not said", with(full, props{"autoUpgrade": nil}),
			func(c emulated.Cluster) any { return c.AutoUpgrade }, false},
		{"the control plane becomes highly available", with(full, props{"ha": true}),
			func(c emulated.Cluster) any { return c.HA }, true},
		{"the window moves, its day stays", with(full, props{"maintenancePolicy": props{"startTime": "05:00"}}),
			func(c emulated.Cluster) any { return c.MaintenancePolicy.StartTime + c.MaintenancePolicy.Day }, "05:00monday"},
		{"no address is let in", with(full, props{"controlPlaneFirewall": props{"enabled": true, "allowedAddresses": []any{}}}),
			func(c emulated.Cluster) any { return len(c.ControlPlaneFirewall.AllowedAddresses) }, 0},
		{"the firewall is turned off", with(full, props{"controlPlaneFirewall": props{"enabled": false, "allowedAddresses": []any{"192.0.2.1/32"}}}),
			func(c emulated.Cluster) any { return c.ControlPlaneFirewall.Enabled }, false},
		{"the autoscaler's settings go", with(full, props{"clusterAutoscalerConfigurations": nil}),
			func(c emulated.Cluster) any { return c.ClusterAutoscalerConfiguration == nil }, true},
		{"one setting of the autoscaler goes, another comes", with(full, props{"clusterAutoscalerConfigurations": []any{
			props{"scaleDownUnneededTime": "2m0s", "expanders": []any{"random"}}}}),
			func(c emulated.Cluster) any {
				a := c.ClusterAutoscalerConfiguration
				return fmt.Sprintf("%t %s %v", a.ScaleDownUtilizationThreshold == nil, *a.ScaleDownUnneededTime, a.Expanders)
			}, "true 2m0s [random]"},
		{"a component is turned off", with(full, props{"routingAgent": props{"enabled": false}}),
			func(c emulated.Cluster) any { return c.RoutingAgent.Enabled }, false},
		{"the default pool grows", withPool(full, props{"nodeCount": 3}),
			func(c emulated.Cluster) any { return len(c.NodePools[0].Nodes) }, 3},
		{"the default pool shrinks", withPool(full, props{"nodeCount": 1}),
			func(c emulated.Cluster) any { return c.NodePools[0].Count }, 1},
		{"the default pool is renamed", withPool(full, props{"name": "main"}),
			func(c emulated.Cluster) any { return c.NodePools[0].Name }, "main"},
		{"the last tag of the pool goes, and not the plugin's own", withPool(full, props{"tags": nil}),
			func(c emulated.Cluster) any {
				tags := c.NodePools[0].Tags
				return fmt.Sprint(userTags(tags), hasTag(tags, defaultPoolTag))
			}, "[] true"},
		{"one label goes, one changes", withPool(full, props{"labels": props{"tier": "db"}}),
			func(c emulated.Cluster) any { return c.NodePools[0].Labels }, map[string]string{"tier": "db"}},
		{"the last labels go too", withPool(full, props{"labels": nil}),
			func(c emulated.Cluster) any { return len(c.NodePools[0].Labels) }, 0},
		{"the last taint goes", withPool(full, props{"taints": nil}),
			func(c emulated.Cluster) any { return len(c.NodePools[0].Taints) }, 0},
		{"a taint comes", withPool(full, props{"taints": []any{props{"key": "k", "value": "", "effect": "NoExecute"}}}),
			func(c emulated.Cluster) any { return c.NodePools[0].Taints }, []emulated.Taint{{Key: "k", Effect: "NoExecute"}}},
		{"the pool is given to the autoscaler", withPool(full, props{"nodeCount": nil, "autoScale": true, "minNodes": 1, "maxNodes": 4}),
			func(c emulated.Cluster) any {
				p := c.NodePools[0]
				return fmt.Sprint(p.AutoScale, p.MinNodes, p.MaxNodes, p.Count)
			}, "true 1 4 2"},
		{"a newer version is an upgrade, and it is waited for", with(full, props{"version": "1.32.2-do.1"}),
			func(c emulated.Cluster) any { return c.Version + c.Status.State }, "1.32.2-do.1running"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			cluster := w.thing(t, clusterToken, "cluster")
			cluster.mustUp("create", full)
			id := cluster.id
			cluster.mustUp("same", full)

			cluster.mustUp("update", test.change)
			live := w.onlyCluster(t)
			if live.ID != string(id) {
				t.Fatal("it is another cluster")
			}
			if diff := cmp.Diff(test.want, test.check(live)); diff != "" {
				t.Errorf("the cloud (-want +got):\n%s", diff)
			}
			cluster.mustUp("same", test.change)
			cluster.mustRefresh()
			cluster.mustUp("same", test.change)
		})
	}
}

func TestClusterPlans(t *testing.T) {
	t.Parallel()
	base := with(simpleCluster(), props{"vpcUuid": "", "clusterSubnet": "10.100.0.0/16", "serviceSubnet": "10.101.0.0/16", "ha": true})
	delete(base, "vpcUuid")
	tests := []struct {
		reason  string
		program props
		replace string // the property that replaces
		err     string
		same    bool
	}{
		{reason: "another region", program: with(base, props{"region": "ams3"}), replace: "region"},
		{reason: "the same region, written otherwise", program: with(base, props{"region": "NYC1"}), same: true},
		{reason: "another VPC", program: with(base, props{"vpcUuid": "11111111-1111-4111-8111-111111111111"}), replace: "vpcUuid"},
		{reason: "another subnet of pods", program: with(base, props{"clusterSubnet": "10.102.0.0/16"}), replace: "clusterSubnet"},
		{reason: "another subnet of services", program: with(base, props{"serviceSubnet": "10.102.0.0/16"}), replace: "serviceSubnet"},
		{reason: "subnets that are not said are the platform's choice", program: with(base, props{"clusterSubnet": nil, "serviceSubnet": nil}), same: true},
		{reason: "another size of the default pool", program: withPool(base, props{"size": "s-4vcpu-8gb"}), replace: "nodePool.size"},
		{reason: "a lower version never replaces", program: with(base, props{"version": "1.30.14-do.0"}),
			err: "runs 1.31.1-do.4, and digitalocean cannot go back to 1.30.14-do.0"},
		{reason: "a lower revision of a version neither", program: with(base, props{"version": "1.31.1-do.0"}), err: "set version to 1.31.1-do.4"},
		{reason: "automatic upgrades may be ahead", program: with(base, props{"version": "1.31.1-do.0", "autoUpgrade": true})},
		{reason: "but not by a minor version", program: with(base, props{"version": "1.30.14-do.0", "autoUpgrade": true}), err: "version: cluster"},
		{reason: "a prefix of the version is the version", program: with(base, props{"version": "1.31"}), same: true},
		{reason: "a lower prefix is lower", program: with(base, props{"version": "1.30"}), err: "version: cluster"},
		{reason: "high availability cannot be turned off", program: with(base, props{"ha": false}), err: "ha: cluster"},
		{reason: "not even by leaving it out", program: with(base, props{"ha": nil}), err: "set ha to true"},
		{reason: "a cluster that is replaced may be anything", program: with(base, props{"region": "ams3", "version": "1.30.14-do.0", "ha": false}), replace: "region"},
		{reason: "bounds without autoscaling mean nothing", program: withPool(base, props{"minNodes": 1, "maxNodes": 5}), same: true},
	}
	w := newWorld(t)
	made := w.thing(t, clusterToken, "cluster")
	made.mustUp("create", base)
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			cluster := *made
			cluster.t = t
			diff, err := cluster.plan(test.program)
			if test.err != "" {
				wantErr(t, err, test.err, string(cluster.id))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			replaces := []string{}
			for _, key := range diff.ReplaceKeys {
				replaces = append(replaces, string(key))
			}
			switch {
			case test.replace == "" && len(replaces) > 0:
				t.Errorf("it replaces because of %v", replaces)
			case test.replace != "" && !slices.Contains(replaces, test.replace):
				t.Errorf("it replaces because of %v, want %s", replaces, test.replace)
			case test.replace != "" && !diff.DeleteBeforeReplace:
				t.Error("the name stays, but the old one is not deleted first")
			case test.same && len(changes(diff)) > 0:
				t.Errorf("it changes %v", changes(diff))
			}
		})
	}
}

func TestClusterChecks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason  string
		program props
		want    string // "" when nothing is wrong
	}{
		{"the simple one", simpleCluster(), ""},
		{"no region", with(simpleCluster(), props{"region": nil}), "region: missing required property"},
		{"no version", with(simpleCluster(), props{"version": nil}), "version: missing"},
		{"no pool", with(simpleCluster(), props{"nodePool": nil}), "nodePool: missing"},
		{"a pool without a size", withPool(simpleCluster(), props{"size": nil}), "nodePool.size: missing"},
		{"a pool without a name", withPool(simpleCluster(), props{"name": nil}), "nodePool.name: missing"},
		{"no count and no autoscaling", withPool(simpleCluster(), props{"nodeCount": nil}), "nodePool.nodeCount: must be given"},
		{"autoscaling without an upper bound", withPool(simpleCluster(), props{"autoScale": true, "minNodes": 1}), "nodePool.maxNodes: must be given"},
		{"bounds the wrong way round", withPool(simpleCluster(), props{"autoScale": true, "minNodes": 3, "maxNodes": 2}), "nodePool.minNodes: must not be more"},
		{"autoscaling", withPool(simpleCluster(), props{"nodeCount": nil, "autoScale": true, "minNodes": 1, "maxNodes": 2}), ""},
		{"a tag with a space", with(simpleCluster(), props{"tags": []any{"a b"}}), "tags[0]: is \"a b\""},
		{"a tag of the platform", with(simpleCluster(), props{"tags": []any{"a", "k8s"}}), "tags[1]: is \"k8s\", must not be"},
		{"a tag of the platform in another case", withPool(simpleCluster(), props{"tags": []any{"K8S:x"}}), "nodePool.tags[0]: is \"K8S:x\", must not be"},
		{"a tag of the plugins in another case", withPool(simpleCluster(), props{"tags": []any{"Terraform:x"}}), "nodePool.tags[0]"},
		{"a tag that only begins like one of the platform", with(simpleCluster(), props{"tags": []any{"k8sx", "terraform"}}), ""},
		{"an unknown effect", withPool(simpleCluster(), props{"taints": []any{props{"key": "a", "value": "b", "effect": "noschedule"}}}), "nodePool.taints[0].effect"},
		{"a taint twice", withPool(simpleCluster(), props{"taints": []any{
			props{"key": "a", "value": "b", "effect": "NoExecute"}, props{"key": "a", "value": "c", "effect": "NoExecute"}}}), "two taints"},
		{"a day that is none", with(simpleCluster(), props{"maintenancePolicy": props{"day": "someday"}}), "maintenancePolicy.day"},
		{"a time that is none", with(simpleCluster(), props{"maintenancePolicy": props{"startTime": "4am"}}), "maintenancePolicy.startTime"},
		{"a subnet that is none", with(simpleCluster(), props{"clusterSubnet": "10.0.0.0"}), "clusterSubnet: is"},
		{"a negative expiry", with(simpleCluster(), props{"kubeconfigExpireSeconds": -1}), "kubeconfigExpireSeconds"},
		{"a threshold over 1", with(simpleCluster(), props{"clusterAutoscalerConfigurations": []any{props{"scaleDownUtilizationThreshold": 50.0}}}), "from 0 to 1"},
		{"two configurations of one autoscaler", with(simpleCluster(), props{"clusterAutoscalerConfigurations": []any{props{}, props{}}}), "may have one"},
		{"a property that does not exist", with(simpleCluster(), props{"auto_upgrade": true}), `did you mean "autoUpgrade"`},
		{"an output", with(simpleCluster(), props{"endpoint": "x"}), "is an output"},
		{"an unknown value is not looked at", with(simpleCluster(), props{"clusterSubnet": resource.Computed{Element: resource.NewProperty("")}}), ""},
	}
	w := newWorld(t)
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			_, failures := w.thing(t, clusterToken, "cluster").check(test.program)
			if test.want == "" {
				if len(failures) > 0 {
					t.Errorf("it fails: %+v", failures)
				}
				return
			}
			for _, failure := range failures {
				if strings.Contains(failure.Reason, test.want) {
					return
				}
			}
			t.Errorf("failures %+v, want one with %q", failures, test.want)
		})
	}
}

func TestClusterCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	program := with(simpleCluster(), props{"kubeconfigExpireSeconds": 3600})
	cluster.mustUp("create", program)

	if !cluster.state["kubeConfigs"].IsSecret() {
		t.Error("kubeConfigs is not a secret")
	}
	raw, _ := cluster.get("kubeConfigs[0].rawConfig").(string)
	parsed, err := clientcmd.RESTConfigFromKubeConfig([]byte(raw))
	if err != nil {
		t.Fatalf("client-go does not read the kubeconfig: %v", err)
	}
	if parsed.BearerToken != cluster.get("kubeConfigs[0].token") || parsed.Host != cluster.get("endpoint") {
		t.Errorf("the kubeconfig is of host %s", parsed.Host)
	}
	if !strings.Contains(raw, "current-context: do-nyc1-prod\n") {
		t.Errorf("the context is not named do-nyc1-prod")
	}
	expires, err := time.Parse(time.RFC3339, cluster.get("kubeConfigs[0].expiresAt").(string))
	if err != nil || time.Until(expires) > time.Hour || time.Until(expires) < 50*time.Minute {
		t.Errorf("they expire at %v (%v), want in an hour", expires, err)
	}

	// A token for every refresh would be a token too many.
	token := cluster.get("kubeConfigs[0].token")
	cluster.mustRefresh()
	cluster.mustUp("update", withPool(program, props{"nodeCount": 3}))
	if got := cluster.get("kubeConfigs[0].token"); got != token {
		t.Error("another token was minted though the first is good")
	}
	if n := w.count(http.MethodGet, "/credentials"); n != 1 {
		t.Errorf("credentials were fetched %d times, want once", n)
	}

	cluster.mustUp("update", withPool(with(program, props{"kubeconfigExpireSeconds": 7200}), props{"nodeCount": 3}))
	renewed := cluster.get("kubeConfigs[0].token")
	if renewed == token {
		t.Error("another expiry was asked for, but the credentials are the same")
	}

	setExpiry(cluster, time.Now().Add(5*time.Minute))
	cluster.mustRefresh()
	if cluster.get("kubeConfigs[0].token") == renewed {
		t.Error("credentials that are about to expire were kept")
	}
}

// setExpiry rewrites when the recorded credentials expire.
func setExpiry(cluster *thing, at time.Time) {
	kubeConfig := plainState(cluster.state)["kubeConfigs"].ArrayValue()[0].ObjectValue()
	kubeConfig["expiresAt"] = resource.NewProperty(at.UTC().Format(time.RFC3339))
	cluster.state["kubeConfigs"] = resource.MakeSecret(resource.NewProperty([]resource.PropertyValue{resource.NewProperty(kubeConfig)}))
}

func TestClusterRegistryIntegration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	on := with(simpleCluster(), props{"registryIntegration": true})

	_, err := cluster.up(on)
	wantErr(t, err, "registry")
	if cluster.id == "" || !cluster.unready {
		t.Fatal("the cluster exists, but the state does not know it")
	}
	if err := w.cloud.SetRegistry("images"); err != nil {
		t.Fatal(err)
	}
	cluster.mustUp("update", on)
	if !w.onlyCluster(t).RegistryEnabled {
		t.Error("the registry is not integrated")
	}
	cluster.mustUp("update", simpleCluster())
	if w.onlyCluster(t).RegistryEnabled {
		t.Error("the registry is still integrated")
	}
	// Drift is seen.
	cluster.mustUp("update", on)
	cluster.state["registryIntegration"] = resource.NewProperty(false)
	cluster.mustRefresh()
	if cluster.get("registryIntegration") != true {
		t.Error("the integration is not read back")
	}
}

func TestClusterTakesItsResourcesAlong(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprint(all), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			cluster := w.thing(t, clusterToken, "cluster")
			cluster.mustUp("create", with(simpleCluster(), props{"destroyAllAssociatedResources": all}))
			if _, err := w.cloud.AddLoadBalancer(string(cluster.id), "lb"); err != nil {
				t.Fatal(err)
			}
			if err := cluster.destroy(); err != nil {
				t.Fatal(err)
			}
			if gone := len(w.cloud.LoadBalancers()) == 0; gone != all {
				t.Errorf("the load balancer is gone: %v, want %v", gone, all)
			}
		})
	}
}

// An interrupted run has asked for the deletion already, and the cloud does not take it twice.
func TestClusterThatIsBeingDeletedIsWaitedFor(t *testing.T) {
	t.Parallel()
	for state, wanted := range map[string]bool{stateDeleting: true, stateRunning: false} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			cluster := w.thing(t, clusterToken, "cluster")
			cluster.mustUp("create", simpleCluster())
			var looks atomic.Int32
			w.fault(func(out http.ResponseWriter, r *http.Request, _ http.Handler) {
				switch {
				case r.Method == http.MethodDelete:
					answerError(out, http.StatusUnprocessableEntity, "unprocessable_entity")
				case looks.Add(1) < 4:
					out.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprintf(out, `{"kubernetes_cluster":{"id":%q,"status":{"state":%q}}}`, cluster.id, state)
				default:
					answerError(out, http.StatusNotFound, "not_found")
				}
			})
			switch err := cluster.destroy(); {
			case wanted && (err != nil || looks.Load() != 4):
				t.Errorf("after %d looks: %v", looks.Load(), err)
			case !wanted:
				wantErr(t, err, "422")
			}
		})
	}
}

func TestOnlyNotFoundMeansGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.mustUp("create", simpleCluster())
	pool := w.thing(t, poolToken, "pool")
	pool.mustUp("create", simplePool(string(cluster.id)))
	vpc := w.thing(t, vpcToken, "vpc")
	vpc.mustUp("create", props{"name": "n", "region": "nyc1"})

	tests := []struct {
		reason string
		answer func(http.ResponseWriter)
		want   string
	}{
		{"overloaded", func(w http.ResponseWriter) { answerError(w, 503, "service_unavailable") }, "503"},
		{"out of order", func(w http.ResponseWriter) { answerError(w, 500, "server_error") }, "giving up after 3 attempt(s)"},
		{"a wrong token", func(w http.ResponseWriter) { answerError(w, 401, "unauthorized") }, "DIGITALOCEAN_TOKEN"},
		{"a token that may not", func(w http.ResponseWriter) { answerError(w, 403, "forbidden") }, "scope"},
		{"too many requests", func(w http.ResponseWriter) { answerError(w, 429, "too_many_requests") }, "rate limit"},
		{"a proxy that knows nothing", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("<h1>no such page</h1>"))
		}, "apiEndpoint"},
		{"nonsense", func(w http.ResponseWriter) { _, _ = w.Write([]byte("{")) }, "EOF"},
		{"an empty object", func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) }, "holds no"},
		{"a dropped connection", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "EOF"},
	}
	for _, test := range tests {
		w.fault(func(out http.ResponseWriter, _ *http.Request, _ http.Handler) { test.answer(out) })
		for _, one := range []*thing{cluster, pool, vpc} {
			before := one.state
			there, err := one.refresh()
			if !there || err == nil {
				t.Errorf("%s: %s: there %v, error %v", test.reason, one.typ, there, err)
				continue
			}
			wantErr(t, err, test.want)
			if !resource.NewProperty(before).DeepEquals(resource.NewProperty(one.state)) {
				t.Errorf("%s: %s: the state changed", test.reason, one.typ)
			}
		}
	}
	w.fault(nil)
	for _, one := range []*thing{cluster, pool, vpc} {
		one.mustRefresh()
	}
	if err := w.cloud.DeletePool(string(cluster.id), string(pool.id)); err != nil {
		t.Fatal(err)
	}
	if there, err := pool.refresh(); there || err != nil {
		t.Errorf("a pool that was deleted: there %v, error %v", there, err)
	}
	if err := w.cloud.DeleteCluster(string(cluster.id)); err != nil {
		t.Fatal(err)
	}
	if there, err := cluster.refresh(); there || err != nil {
		t.Errorf("a cluster that was deleted: there %v, error %v", there, err)
	}
}

// A cluster that was read is there, whatever is said about its credentials.
func TestMissingCredentialsDoNotMeanGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.mustUp("create", simpleCluster())
	delete(cluster.state, "kubeConfigs")
	w.refuse(http.MethodGet, "/credentials", http.StatusNotFound, "not_found")
	there, err := cluster.refresh()
	if !there || err == nil {
		t.Fatalf("there %t, error %v", there, err)
	}
	wantErr(t, err, "credentials")
	w.fault(nil)
	cluster.mustRefresh()
}

func TestClusterDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	program := simpleCluster()
	cluster.mustUp("create", program)
	id := string(cluster.id)

	// Someone scaled: the declaration is the truth.
	if err := w.cloud.ScalePool(id, w.onlyCluster(t).NodePools[0].ID, 5); err != nil {
		t.Fatal(err)
	}
	cluster.mustRefresh()
	if cluster.get("nodePool.nodeCount") != 5.0 {
		t.Errorf("the state says %v nodes", cluster.get("nodePool.nodeCount"))
	}
	cluster.mustUp("update", program)
	if n := w.onlyCluster(t).NodePools[0].Count; n != 2 {
		t.Errorf("%d nodes, want 2", n)
	}

	// Someone upgraded: the cluster cannot go back, and is not replaced.
	if err := w.cloud.UpgradeCluster(id, "1.31.14-do.0"); err != nil {
		t.Fatal(err)
	}
	cluster.mustRefresh()
	if cluster.get("version") != "1.31.14-do.0" {
		t.Errorf("the state says version %v", cluster.get("version"))
	}
	_, err := cluster.up(program)
	wantErr(t, err, "set version to 1.31.14-do.0")
	cluster.mustUp("same", with(program, props{"version": "1.31.14-do.0"}))

	// The platform upgrades, because it was asked to: nothing to do, and other changes go through.
	auto := with(program, props{"autoUpgrade": true})
	cluster.mustUp("update", auto)
	cluster.mustUp("same", auto)
	cluster.mustUp("update", withPool(auto, props{"nodeCount": 3}))
	if got := w.onlyCluster(t); got.Version != "1.31.14-do.0" || got.NodePools[0].Count != 3 {
		t.Errorf("version %s, %d nodes", got.Version, got.NodePools[0].Count)
	}
	if w.count(http.MethodPost, "/upgrade") != 0 {
		t.Error("an upgrade was asked for")
	}
}

func TestClusterDefaultPoolIsFoundWhereverItStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.mustUp("create", simpleCluster())
	extra := w.thing(t, poolToken, "extra")
	extra.mustUp("create", simplePool(string(cluster.id)))
	def := w.onlyCluster(t).Pool("default").ID

	// The default pool is deleted by hand. It is made again, the cluster is not.
	if err := w.cloud.DeletePool(string(cluster.id), def); err != nil {
		t.Fatal(err)
	}
	cluster.mustRefresh()
	cluster.mustUp("update", simpleCluster())
	live := w.onlyCluster(t)
	if live.ID != string(cluster.id) || live.Pool("default") == nil || live.Pool("default").Count != 2 {
		t.Fatalf("the default pool was not made again: %+v", live.NodePools)
	}
	if live.NodePools[0].Name != "extra" {
		t.Fatalf("the test wants the default pool to stand second, pools are %+v", live.NodePools)
	}
	if got := cluster.get("nodePool.id"); got != live.Pool("default").ID || got == def {
		t.Errorf("the state knows pool %v", got)
	}
	cluster.mustUp("same", simpleCluster())
	cluster.mustRefresh()
	cluster.mustUp("same", simpleCluster())
	cluster.mustUp("update", withPool(simpleCluster(), props{"nodeCount": 3}))
	if live := w.onlyCluster(t); live.Pool("default").Count != 3 || live.Pool("extra").Count != 1 {
		t.Errorf("the wrong pool was scaled: %+v", live.NodePools)
	}
}

// An account has a tag once, in the case that it was first written in, whatever case later requests write it in.
func TestTagsHaveNoCase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := newRecorder()
		next.ServeHTTP(answer, r)
		answer.replay(out, strings.NewReplacer(`"team"`, `"TEAM"`, `"k8s"`, `"K8S"`, `"k8s:`, `"K8S:`, `"terraform:`, `"Terraform:`))
	})
	settled := func(o *thing, action string, program props) {
		t.Helper()
		o.mustUp(action, program)
		o.mustUp("same", program)
		o.mustRefresh()
		o.mustUp("same", program)
	}
	tagged := func(tags ...any) props {
		return withPool(with(simpleCluster(), props{"tags": tags}), props{"tags": tags})
	}
	cluster := w.thing(t, clusterToken, "cluster")
	settled(cluster, "create", tagged("team"))
	settled(cluster, "same", tagged("Team"))
	settled(cluster, "update", tagged("Team", "b"))
	settled(cluster, "update", tagged("b"))
	pool := w.thing(t, poolToken, "pool")
	pooled := func(tags ...any) props { return with(simplePool(string(cluster.id)), props{"tags": tags}) }
	settled(pool, "create", pooled("team"))
	settled(pool, "same", pooled("Team"))
	settled(pool, "update", pooled("Team", "b"))
	settled(pool, "update", pooled())
	if live := w.onlyCluster(t); live.ID != string(cluster.id) || !hasTag(live.NodePools[0].Tags, defaultPoolTag) {
		t.Errorf("the cluster is %s with %v, want %s", live.ID, live.NodePools[0].Tags, cluster.id)
	}

	// A state of a plugin that took such tags for the user's settles with what the program says.
	cluster.state["tags"] = resource.NewPropertyValue([]any{"b", "K8S:old"})
	settled(cluster, "update", tagged("b"))
}

func TestClusterImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.thing(t, clusterToken, "cluster")
	program := withPool(with(simpleCluster(), props{"tags": []any{"a"}}), props{"labels": props{"x": "y"}})
	made.mustUp("create", program)
	extra := w.thing(t, poolToken, "extra")
	extra.mustUp("create", simplePool(string(made.id)))

	imported := w.thing(t, clusterToken, "imported")
	if err := imported.adopt(string(made.id)); err != nil {
		t.Fatal(err)
	}
	imported.mustUp("same", program)
	// What the import says that the program should be is a program too.
	if _, failures := imported.check(plainState(imported.inputs).Mappable()); len(failures) > 0 {
		t.Errorf("the imported inputs do not pass: %+v", failures)
	}
	if imported.get("nodePool.name") != "default" {
		t.Errorf("the default pool is %v", imported.get("nodePool.name"))
	}

	pool := w.thing(t, poolToken, "imported")
	if err := pool.adopt(string(extra.id)); err != nil {
		t.Fatal(err)
	}
	pool.mustUp("same", simplePool(string(made.id)))
	wantErr(t, w.thing(t, poolToken, "default").adopt(w.onlyCluster(t).Pool("default").ID), "default pool of cluster prod", "import the cluster")
	wantErr(t, w.thing(t, poolToken, "none").adopt("no-such-pool"), "no cluster of this account has a node pool")
	wantErr(t, w.thing(t, clusterToken, "none").adopt("no-such-cluster"), "does not exist")
}

func TestClusterImportNeedsToKnowTheDefaultPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.thing(t, clusterToken, "cluster")
	made.mustUp("create", simpleCluster())
	strip := func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		answer := newRecorder()
		next.ServeHTTP(answer, r)
		answer.replay(out, strings.NewReplacer(`"`+defaultPoolTag+`",`, "", `"`+defaultPoolTag+`"`, ""))
	}

	w.fault(strip)
	alone := w.thing(t, clusterToken, "alone")
	if err := alone.adopt(string(made.id)); err != nil {
		t.Fatalf("a cluster with one pool: %v", err)
	}
	alone.mustUp("same", simpleCluster())

	w.fault(nil)
	w.thing(t, poolToken, "extra").mustUp("create", simplePool(string(made.id)))
	w.fault(strip)
	wantErr(t, w.thing(t, clusterToken, "many").adopt(string(made.id)), "2 node pools", defaultPoolTag)
}

func TestClusterCreationThatFailsIsNotForgotten(t *testing.T) {
	t.Parallel()
	w := newWorldAt(t, 0.01) // a cluster takes 1.2 s
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.timeout = 0.3
	_, err := cluster.up(simpleCluster())
	wantErr(t, err, "timed out after 300ms", "provisioning")
	if cluster.id == "" || !cluster.unready {
		t.Fatal("the cluster exists, but the state does not know it")
	}
	if cluster.get("status") != "provisioning" || cluster.get("name") != "prod" {
		t.Errorf("the state is %v", cluster.state)
	}

	// A refresh does not make it ready either.
	if there, err := cluster.refresh(); !there || err == nil || !cluster.unready {
		t.Errorf("refreshed while it is provisioned: there %v, error %v", there, err)
	}
	cluster.timeout = patience
	cluster.mustUp("update", simpleCluster())
	if cluster.get("status") != "running" || cluster.get("kubeConfigs[0].token") == nil {
		t.Errorf("the state is %v", plainState(cluster.state)["status"])
	}
	if n := w.count(http.MethodPost, "/v2/kubernetes/clusters"); n != 1 {
		t.Errorf("%d clusters were asked for", n)
	}
	cluster.mustUp("same", simpleCluster())
}

func TestClusterInErrorSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorldAt(t, 0.02)
	w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(out, r)
		if r.Method == http.MethodPost {
			for _, c := range w.cloud.Clusters() {
				_ = w.cloud.SetClusterStatus(c.ID, "error", "no capacity in nyc1")
			}
		}
	})
	cluster := w.thing(t, clusterToken, "cluster")
	_, err := cluster.up(simpleCluster())
	wantErr(t, err, "state error: no capacity in nyc1", "destroy --target")
	if cluster.id == "" || !cluster.unready {
		t.Fatal("the cluster exists, but the state does not know it")
	}
	if err := cluster.destroy(); err != nil {
		t.Errorf("it cannot be destroyed: %v", err)
	}
}

func TestClusterCreationIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorldAt(t, 1)
	cluster := w.thing(t, clusterToken, "cluster")
	go func() {
		for w.count(http.MethodGet, "/v2/kubernetes/clusters/") == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		_ = w.provider.SignalCancellation(context.Background())
	}()
	start := time.Now()
	_, err := cluster.up(simpleCluster())
	wantErr(t, err, "cancelled")
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if cluster.id == "" || !cluster.unready || cluster.get("status") != "provisioning" {
		t.Error("the cluster exists, but the state does not know it")
	}
}

func TestLostAnswersMakeNoSecondCluster(t *testing.T) {
	t.Parallel()
	lost := func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(newRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	broken := func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(newRecorder(), r)
		answerError(out, 502, "bad_gateway")
	}
	refused := func(out http.ResponseWriter, _ *http.Request, _ http.Handler) {
		answerError(out, 503, "service_unavailable")
	}
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"the connection is dropped after the work": lost, "a gateway fails after the work": broken, "the API is down for a moment": refused,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			once := func() func(http.ResponseWriter, *http.Request, http.Handler) {
				var done atomic.Bool
				return func(out http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method == http.MethodPost && done.CompareAndSwap(false, true) {
						fault(out, r, next)
						return
					}
					next.ServeHTTP(out, r)
				}
			}
			vpc := w.thing(t, vpcToken, "vpc")
			w.fault(once())
			vpc.mustUp("create", props{"name": "mine", "region": "nyc1"})
			cluster := w.thing(t, clusterToken, "cluster")
			w.fault(once())
			cluster.mustUp("create", simpleCluster())
			pool := w.thing(t, poolToken, "pool")
			w.fault(once())
			pool.mustUp("create", simplePool(string(cluster.id)))
			w.fault(once())
			cluster.mustUp("update", with(simpleCluster(), props{"version": "1.32.2-do.1"}))
			w.fault(nil)

			live := w.onlyCluster(t)
			if live.ID != string(cluster.id) || len(live.NodePools) != 2 || live.Pool("extra").ID != string(pool.id) {
				t.Errorf("the cloud has %+v", live)
			}
			if live.Version != "1.32.2-do.1" {
				t.Errorf("version is %s", live.Version)
			}
			mine := 0
			for _, one := range w.cloud.VPCs() {
				if one.Name == "mine" {
					mine++
				}
			}
			if mine != 1 {
				t.Errorf("%d VPCs, want 1", mine)
			}
		})
	}
}

func TestAnotherOnesClusterIsNotAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs := w.thing(t, clusterToken, "theirs")
	theirs.mustUp("create", simpleCluster())
	w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(out, r)
	})
	ours := w.thing(t, clusterToken, "ours")
	if _, err := ours.upWithin(soon(t, 3*time.Second), simpleCluster()); err == nil || ours.id != "" {
		t.Errorf("it took over cluster %s (%v)", ours.id, err)
	}
	w.fault(nil)
	_, err := ours.up(simpleCluster())
	wantErr(t, err, "already exists")
}

func TestUpdateGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.mustUp("create", simpleCluster())
	wanted := withPool(with(simpleCluster(), props{"tags": []any{"new"}, "version": "1.31.14-do.0"}), props{"nodeCount": 4})

	w.refuse(http.MethodPost, "/upgrade", http.StatusUnprocessableEntity, "unprocessable_entity")
	_, err := cluster.up(wanted)
	wantErr(t, err, "upgrade from 1.31.1-do.4 to 1.31.14-do.0", "refused by the test")
	if cluster.get("nodePool.nodeCount") != 4.0 || cluster.get("version") != "1.31.1-do.4" || !cmp.Equal(cluster.get("tags"), []any{"new"}) {
		t.Errorf("the state does not tell what was applied: %v", plainState(cluster.state))
	}
	w.fault(nil)
	w.cloud.ForgetRequests()
	cluster.mustUp("update", wanted)
	if diff := cmp.Diff([]string{"POST /v2/kubernetes/clusters/" + string(cluster.id) + "/upgrade"}, w.sent()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestUpdateTakesPartOfTheRoad(t *testing.T) {
	t.Parallel()
	w := newWorldAt(t, 0.01)
	cluster := w.thing(t, clusterToken, "cluster")
	cluster.mustUp("create", simpleCluster())
	cluster.timeout = 0.3
	wanted := withPool(simpleCluster(), props{"nodeCount": 4})
	_, err := cluster.up(wanted)
	wantErr(t, err, "timed out", "2 of 4 nodes run")
	if !cluster.unready {
		t.Error("the state does not know that it is not ready")
	}
	cluster.timeout = patience
	cluster.mustUp("update", wanted)
	if got := cluster.get("nodePool.nodes[3].status"); got != "running" {
		t.Errorf("the last node is %v", got)
	}
}

func TestCancelledWorldStaysUsable(t *testing.T) {
	t.Parallel()
	// An engine that goes away while it creates leaves the object; the next one reads and goes on.
	w := newWorldAt(t, 0.01)
	cluster := w.thing(t, clusterToken, "cluster")
	inputs, _ := cluster.check(simpleCluster())
	_ = cluster.create(soon(t, 300*time.Millisecond), inputs)
	live := w.onlyCluster(t)
	again := w.thing(t, clusterToken, "again")
	time.Sleep(1500 * time.Millisecond)
	if err := again.adopt(live.ID); err != nil {
		t.Fatal(err)
	}
	again.mustUp("same", simpleCluster())
}
