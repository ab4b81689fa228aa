package civo

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

const (
	uuidA = "11111111-1111-4111-8111-111111111111"
	uuidB = "22222222-2222-4222-8222-222222222222"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	unknown := resource.MakeComputed(resource.NewStringProperty(""))

	network := map[string]any{"label": "net", "cidrV4": "10.0.0.0/16", "region": "LON1"}
	firewall := map[string]any{
		"name": "fw", "networkId": uuidA, "region": "LON1", "createDefaultRules": false, "ingressRules": []any{rule("80")},
	}
	cluster := map[string]any{
		"name": "c", "networkId": uuidA, "firewallId": uuidB, "region": "LON1", "kubernetesVersion": "1.29.8-k3s1", "cni": "flannel",
		"clusterType": "k3s", "applications": "", "writeKubeconfig": true, "status": "ACTIVE",
		"pools": map[string]any{"label": "default", "nodeCount": 2, "size": "s", "instanceNames": []any{"a", "b"}},
	}
	pool := map[string]any{"clusterId": uuidA, "label": "p", "nodeCount": 2, "size": "s", "labels": map[string]any{"a": "1"}}

	tests := []struct {
		name, reason string
		typ          tokens.Type
		state        map[string]any
		change       map[string]any
		changed      []string
		replaces     []string
		deleteFirst  bool
		err          string
	}{
		{name: "network label", reason: "renamed in place", typ: NetworkType, state: network,
			change: map[string]any{"label": "x"}, changed: []string{"label"}},
		{name: "network range", reason: "Civo cannot change it; the label is taken", typ: NetworkType, state: network,
			change: map[string]any{"cidrV4": "10.1.0.0/16"}, changed: []string{"cidrV4"}, replaces: []string{"cidrV4"}, deleteFirst: true},
		{name: "network range and label", reason: "a new label can be made beside the old one", typ: NetworkType, state: network,
			change: map[string]any{"cidrV4": "10.1.0.0/16", "label": "y"}, changed: []string{"cidrV4", "label"}, replaces: []string{"cidrV4"}},
		{name: "network region", reason: "another place", typ: NetworkType, state: network,
			change: map[string]any{"region": "NYC1"}, changed: []string{"region"}, replaces: []string{"region"}, deleteFirst: true},
		{name: "network region case", reason: "codes mean the same in either case", typ: NetworkType, state: network,
			change: map[string]any{"region": "lon1"}},
		{name: "network range host bits", reason: "the same range", typ: NetworkType, state: network,
			change: map[string]any{"cidrV4": "10.0.3.4/16"}},
		{name: "network range left to the cloud", reason: "what is there is right", typ: NetworkType, state: network,
			change: map[string]any{"cidrV4": nil}},

		{name: "firewall network", reason: "immutable", typ: FirewallType, state: firewall,
			change: map[string]any{"networkId": uuidB}, changed: []string{"networkId"}, replaces: []string{"networkId"}, deleteFirst: true},
		{name: "firewall unknown network", reason: "a network that is replaced", typ: FirewallType, state: firewall,
			change: map[string]any{"networkId": unknown}, changed: []string{"networkId"}, replaces: []string{"networkId"}, deleteFirst: true},
		{name: "firewall rules", reason: "in place", typ: FirewallType, state: firewall,
			change: map[string]any{"ingressRules": []any{rule("81")}}, changed: []string{"ingressRules"}},

		{name: "cluster same", reason: "nothing changes", typ: ClusterType, state: cluster},
		{name: "cluster count", reason: "in place", typ: ClusterType, state: cluster,
			change: map[string]any{"pools.nodeCount": 3}, changed: []string{"pools.nodeCount"}},
		{name: "cluster network", reason: "immutable", typ: ClusterType, state: cluster,
			change: map[string]any{"networkId": uuidB}, changed: []string{"networkId"}, replaces: []string{"networkId"}, deleteFirst: true},
		{name: "cluster region", reason: "immutable", typ: ClusterType, state: cluster,
			change: map[string]any{"region": "NYC1"}, changed: []string{"region"}, replaces: []string{"region"}, deleteFirst: true},
		{name: "cluster size", reason: "immutable", typ: ClusterType, state: cluster,
			change: map[string]any{"pools.size": "l"}, changed: []string{"pools.size"}, replaces: []string{"pools.size"}, deleteFirst: true},
		{name: "cluster pool label", reason: "it is the pool's id", typ: ClusterType, state: cluster,
			change: map[string]any{"pools.label": "x"}, changed: []string{"pools.label"}, replaces: []string{"pools.label"}, deleteFirst: true},
		{name: "cluster firewall", reason: "in place", typ: ClusterType, state: cluster,
			change: map[string]any{"firewallId": uuidA}, changed: []string{"firewallId"}},
		{name: "cluster cni", reason: "refused by name", typ: ClusterType, state: cluster,
			change: map[string]any{"cni": "cilium"}, err: "cni: cannot be changed"},
		{name: "cluster type", reason: "refused by name", typ: ClusterType, state: cluster,
			change: map[string]any{"clusterType": "talos"}, err: "clusterType: cannot be changed"},
		{name: "cluster applications", reason: "refused by name", typ: ClusterType, state: cluster,
			change: map[string]any{"applications": "metrics-server"}, err: "applications: cannot be changed"},
		{name: "cluster public addresses", reason: "refused by name", typ: ClusterType, state: cluster,
			change: map[string]any{"pools.publicIpNodePool": true}, err: "pools.publicIpNodePool: cannot be changed"},
		{name: "cluster cni with a replacement", reason: "the new cluster can have it", typ: ClusterType, state: cluster,
			change:  map[string]any{"cni": "cilium", "pools.size": "l"},
			changed: []string{"cni", "pools.size"}, replaces: []string{"pools.size"}, deleteFirst: true},
		{name: "cluster upgrade", reason: "in place", typ: ClusterType, state: cluster,
			change: map[string]any{"kubernetesVersion": "1.30.5-k3s1"}, changed: []string{"kubernetesVersion"}},
		{name: "cluster version written otherwise", reason: "the same version", typ: ClusterType, state: cluster,
			change: map[string]any{"kubernetesVersion": "v1.29.8+k3s1"}},
		{name: "cluster downgrade", reason: "refused with both versions", typ: ClusterType, state: cluster,
			change: map[string]any{"kubernetesVersion": "1.29.0-k3s1"}, err: "1.29.0-k3s1 is lower than the cluster's 1.29.8-k3s1"},
		{name: "cluster deprecated", reason: "numTargetNodes has no effect", typ: ClusterType, state: cluster,
			change: map[string]any{"numTargetNodes": 7, "targetNodesSize": "l"}},

		{name: "pool count", reason: "in place", typ: NodePoolType, state: pool,
			change: map[string]any{"nodeCount": 5}, changed: []string{"nodeCount"}},
		{name: "pool labels removed", reason: "in place", typ: NodePoolType, state: pool,
			change: map[string]any{"labels": nil}, changed: []string{"labels.a"}},
		{name: "pool size", reason: "immutable, and the label is taken", typ: NodePoolType, state: pool,
			change: map[string]any{"size": "l"}, changed: []string{"size"}, replaces: []string{"size"}, deleteFirst: true},
		{name: "pool cluster", reason: "immutable", typ: NodePoolType, state: pool,
			change: map[string]any{"clusterId": uuidB}, changed: []string{"clusterId"}, replaces: []string{"clusterId"}, deleteFirst: true},
		{name: "pool label", reason: "it is the id", typ: NodePoolType, state: pool,
			change: map[string]any{"label": "q"}, changed: []string{"label"}, replaces: []string{"label"}, deleteFirst: true},
		{name: "pool public addresses", reason: "immutable", typ: NodePoolType, state: pool,
			change: map[string]any{"publicIpNodePool": true}, changed: []string{"publicIpNodePool"},
			replaces: []string{"publicIpNodePool"}, deleteFirst: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := &object{b: b, typ: test.typ, name: "x", id: "id", state: resource.NewPropertyMapFromMap(test.state)}
			program := map[string]any{}
			for _, property := range newProvider("0.0.0", func(*client) {}).Spec().Resources[test.typ].Properties {
				if value, ok := test.state[property.Name]; ok && !property.Output && value != "" {
					program[property.Name] = value
				}
			}
			if p, ok := program["pools"].(map[string]any); ok {
				p = maps.Clone(p)
				delete(p, "instanceNames")
				program["pools"] = p
			}
			for path, value := range test.change {
				target, key := program, path
				if name, ok := strings.CutPrefix(path, "pools."); ok {
					target, key = program["pools"].(map[string]any), name
				}
				if value == nil {
					delete(target, key)
				} else {
					target[key] = value
				}
			}
			plan, err := o.diff(program)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "destroy the cluster") {
					t.Fatalf("%s: error %v, want %q and the way out", test.reason, err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(plan.Diffs)
			slices.Sort(plan.Replaces)
			if diff := cmp.Diff(test.changed, plan.Diffs); diff != "" {
				t.Errorf("%s: changed (-want +got):\n%s", test.reason, diff)
			}
			if diff := cmp.Diff(test.replaces, plan.Replaces); diff != "" {
				t.Errorf("%s: replaces (-want +got):\n%s", test.reason, diff)
			}
			if plan.DeleteBeforeReplace != test.deleteFirst {
				t.Errorf("%s: deleteBeforeReplace %t", test.reason, plan.DeleteBeforeReplace)
			}
			if want := len(test.changed) > 0; (plan.Changes == pulumirpc.DiffResponse_DIFF_SOME) != want {
				t.Errorf("%s: changes %s", test.reason, plan.Changes)
			}
		})
	}
	if requests := b.cloud.Requests(); len(requests) != 0 {
		t.Errorf("a plan called the cloud: %v", requests)
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	tests := []struct {
		name, reason string
		typ          tokens.Type
		program      map[string]any
		want         []string
	}{
		{"missing", "required properties", NodePoolType, map[string]any{}, []string{"clusterId", "nodeCount", "size"}},
		{"unknown", "a misspelt property", NetworkType, map[string]any{"label": "x", "cidr_v4": "10.0.0.0/8"}, []string{"cidr_v4"}},
		{"output", "an output cannot be set", NetworkType, map[string]any{"label": "x", "default": true}, []string{"default"}},
		{"type", "a number where text belongs", NetworkType, map[string]any{"label": 3}, []string{"label"}},
		{"count", "no empty pools", NodePoolType, map[string]any{"clusterId": uuidA, "nodeCount": 0, "size": "s"}, []string{"nodeCount"}},
		{"fraction", "half a node", NodePoolType, map[string]any{"clusterId": uuidA, "nodeCount": 1.5, "size": "s"}, []string{"nodeCount"}},
		{"id", "a name where an id belongs", NodePoolType, map[string]any{"clusterId": "prod", "nodeCount": 1, "size": "s"}, []string{"clusterId"}},
		{"nested", "a path into the pool", ClusterType, map[string]any{"firewallId": uuidA, "pools": map[string]any{"nodeCount": "2"}},
			[]string{"pools.nodeCount", "pools.size"}},
		{"taint", "effects are three", NodePoolType, map[string]any{
			"clusterId": uuidA, "nodeCount": 1, "size": "s",
			"taints": []any{map[string]any{"key": "k", "value": "v", "effect": "Never"}},
		}, []string{"taints[0].effect"}},
		{"rules with default rules", "Civo makes them or the program", FirewallType, map[string]any{"ingressRules": []any{rule("80")}},
			[]string{"createDefaultRules"}},
		{"no rules", "a firewall that says nothing", FirewallType, map[string]any{"createDefaultRules": false}, []string{"ingressRules"}},
		{"ports", "tcp needs ports", FirewallType, map[string]any{
			"createDefaultRules": false, "egressRules": []any{map[string]any{"action": "allow", "cidrs": []any{"0.0.0.0/0"}}},
		}, []string{"egressRules[0]"}},
		{"talos and cilium", "not together", ClusterType, map[string]any{
			"firewallId": uuidA, "clusterType": "talos", "cni": "cilium", "pools": map[string]any{"nodeCount": 1, "size": "s"},
		}, []string{"cni"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, failures := b.object(test.typ, "x").check(test.program)
			var got []string
			for _, failure := range failures {
				got = append(got, failure.Property)
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%v", test.reason, diff, failures)
			}
		})
	}
}

func TestAutomaticNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	firewall := b.object(FirewallType, strings.Repeat("long-", 20))
	inputs, failures := firewall.check(map[string]any{"networkId": uuidA})
	name := nativeprovider.GetString(inputs, "name")
	if len(failures) > 0 || len(name) > 63 || !strings.HasPrefix(name, "long-") {
		t.Fatalf("name %q, failures %v", name, failures)
	}
	firewall.inputs = inputs
	again, _ := firewall.check(map[string]any{"networkId": uuidA})
	if nativeprovider.GetString(again, "name") != name {
		t.Error("the automatic name changed")
	}
}

// What the official plugin wrote (recorded) must be taken over without a change: the same program plans nothing.
func TestStateOfTheOfficialPlugin(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/official-state.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct {
		URN     string         `json:"urn"`
		ID      string         `json:"id"`
		Type    tokens.Type    `json:"type"`
		Inputs  map[string]any `json:"inputs"`
		Outputs map[string]any `json:"outputs"`
	}
	if err := json.Unmarshal(content, &recorded); err != nil {
		t.Fatal(err)
	}
	if len(recorded) != 2 {
		t.Fatalf("%d resources", len(recorded))
	}
	b := newBench(t, benchOptions{})
	for _, r := range recorded {
		o := b.object(r.Type, "x")
		o.id, o.inputs, o.state = r.ID, resource.NewPropertyMapFromMap(r.Inputs), resource.NewPropertyMapFromMap(r.Outputs)
		var strip func(m map[string]any) map[string]any
		strip = func(m map[string]any) map[string]any {
			program := map[string]any{}
			for key, value := range m {
				if nested, ok := value.(map[string]any); ok {
					value = strip(nested)
				}
				if key != "__defaults" && key != "writeKubeconfig" {
					program[key] = value
				}
			}
			return program
		}
		program := strip(r.Inputs)
		checked, failures := o.check(program)
		if len(failures) > 0 {
			t.Errorf("%s: %v", r.URN, failures)
		}
		if diff := cmp.Diff(o.inputs.Mappable(), checked.Mappable()); diff != "" {
			t.Errorf("%s: the inputs are not what the official plugin makes of them (-official +native):\n%s", r.URN, diff)
		}
		plan, err := o.diffInputs(checked)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Changes != pulumirpc.DiffResponse_DIFF_NONE {
			t.Errorf("%s: plans %v", r.URN, plan)
		}
	}
}

func TestFieldsOfTheBridge(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	network := b.object(NetworkType, "net")
	network.must("create", map[string]any{"label": "net"})
	network.state["__meta"] = resource.NewStringProperty(`{"schema_version":"1"}`)
	network.state["__pulumi_raw_state_delta"] = resource.NewObjectProperty(resource.PropertyMap{"obj": resource.NewObjectProperty(nil)})
	network.must("same", map[string]any{"label": "net"})
	network.must("update", map[string]any{"label": "other"})
	if _, has := network.state["__pulumi_raw_state_delta"]; has {
		t.Error("the delta describes a state that is no more")
	}
	if network.state["__meta"].StringValue() != `{"schema_version":"1"}` {
		t.Error("__meta is lost")
	}
}

func TestPreviews(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	ctx := context.Background()
	cluster := b.object(ClusterType, "cluster")
	program := clusterProgram(uuidA, uuidB, nil)
	program["networkId"] = resource.MakeComputed(resource.NewStringProperty(""))
	inputs, _ := cluster.check(program)
	created, err := b.client.Create(ctx, &pulumirpc.CreateRequest{Urn: cluster.urn(), Properties: marshal(t, inputs), Preview: true})
	if err != nil {
		t.Fatal(err)
	}
	planned := unmarshal(t, created.Properties)
	if created.Id != "" || !planned["networkId"].IsComputed() || !planned["masterIp"].IsComputed() || planned["name"].StringValue() != "prod" {
		t.Errorf("planned %v", planned)
	}
	if !planned["kubeconfig"].IsSecret() {
		t.Error("the planned kubeconfig is not secret")
	}

	cluster.id, cluster.inputs = "id", inputs
	cluster.state = resource.NewPropertyMapFromMap(map[string]any{
		"name": "prod", "masterIp": "1.2.3.4", "pools": map[string]any{"nodeCount": 2, "label": "default", "instanceNames": []any{"a", "b"}},
	})
	inputs, _ = cluster.check(clusterProgram(uuidA, uuidB, map[string]any{"pools.nodeCount": 3}))
	updated, err := b.client.Update(ctx, &pulumirpc.UpdateRequest{
		Urn: cluster.urn(), Id: "id", Olds: marshal(t, cluster.state), News: marshal(t, inputs), OldInputs: marshal(t, cluster.inputs), Preview: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	planned = unmarshal(t, updated.Properties)
	pools := planned["pools"].ObjectValue()
	if planned["masterIp"].StringValue() != "1.2.3.4" || pools["nodeCount"].NumberValue() != 3 || !pools["instanceNames"].IsComputed() {
		t.Errorf("planned %v", planned)
	}
	if requests := b.cloud.Requests(); len(requests) != 0 {
		t.Errorf("a preview called the cloud: %v", requests)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	made := b.object(ClusterType, "cluster")
	program := clusterProgram(networkID, firewallID, nil)
	made.must("create", program)
	pool := b.object(NodePoolType, "pool")
	poolProgram := map[string]any{
		"clusterId": made.id, "label": "extra", "nodeCount": 1, "size": "g4s.kube.small", "labels": map[string]any{"a": "1"},
	}
	pool.must("create", poolProgram)

	// The provider's region is another one: what is imported is found where it is.
	if err := b.configure(properties(map[string]any{"token": testToken, "apiEndpoint": b.url, "region": "FRA1"})); err != nil {
		t.Fatal(err)
	}
	imports := []struct {
		typ     tokens.Type
		id      string
		program map[string]any
	}{
		{NetworkType, networkID, map[string]any{"label": "net"}},
		{FirewallType, firewallID, map[string]any{
			"name": "fw", "networkId": networkID, "createDefaultRules": false, "ingressRules": []any{rule("6443")},
		}},
		{ClusterType, made.id, clusterProgram(networkID, firewallID, map[string]any{"writeKubeconfig": true})},
		{NodePoolType, made.id + ":extra", poolProgram},
	}
	for _, i := range imports {
		o := b.object(i.typ, "imported")
		o.id = i.id
		if gone, err := o.refresh(ctx); err != nil || gone {
			t.Fatalf("import %s: gone %t, %v", i.typ, gone, err)
		}
		if region := o.value("region"); i.typ != NodePoolType && region != "LON1" {
			t.Errorf("%s: region %v", i.typ, region)
		}
		// The inputs that an import makes describe the object, and so does the program that made it.
		checked, failures := o.check(o.inputs.Mappable())
		if len(failures) > 0 {
			t.Errorf("%s: the imported inputs do not pass: %v", i.typ, failures)
		}
		if plan, err := o.diffInputs(checked); err != nil || plan.Changes != pulumirpc.DiffResponse_DIFF_NONE {
			t.Errorf("%s: the imported inputs plan %v, %v", i.typ, plan, err)
		}
		o.must("same", i.program)
	}

	o := b.object(NodePoolType, "imported")
	o.id = "extra"
	if _, err := o.refresh(ctx); err == nil || !strings.Contains(err.Error(), "clusterId:poolId") {
		t.Errorf("import of a pool without its cluster: %v", err)
	}
	missing := b.object(ClusterType, "imported")
	missing.id = uuidA
	if gone, err := missing.refresh(ctx); err != nil || !gone {
		t.Errorf("import of what is nowhere: gone %t, %v", gone, err)
	}
}

func TestDriftIsPlannedAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	program := clusterProgram(networkID, firewallID, map[string]any{"tags": "a"})
	cluster.must("create", program)
	if err := b.cloud.ScalePool(cluster.id, "default", 5); err != nil {
		t.Fatal(err)
	}
	if err := b.cloud.SetClusterTags(cluster.id, "b"); err != nil {
		t.Fatal(err)
	}
	if err := b.cloud.UpgradeCluster(cluster.id, "1.30.5-k3s1"); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	if cluster.value("pools.nodeCount") != 5.0 || cluster.value("tags") != "b" || !cluster.state["kubeconfig"].IsSecret() {
		t.Errorf("refreshed state %v", cluster.state)
	}
	if inputs := nativeprovider.GetObject(cluster.inputs, "pools"); nativeprovider.GetInt(inputs, "nodeCount") != 5 {
		t.Errorf("refreshed inputs %v", cluster.inputs)
	}
	if _, err := cluster.diff(program); err == nil || !strings.Contains(err.Error(), "kubernetesVersion") {
		t.Errorf("a version that was raised by hand: %v", err)
	}
	program["kubernetesVersion"] = "1.30.5-k3s1"
	cluster.must("update", program)
	found, _ := b.cloud.Cluster(cluster.id)
	if own, _ := found.Pool("default"); own.Count != 2 || !slices.Equal(found.Tags, []string{"a"}) {
		t.Errorf("pool %+v, tags %v", own, found.Tags)
	}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	b := newBench(t, benchOptions{})
	networkID, firewallID := b.place()
	cluster := b.object(ClusterType, "cluster")
	cluster.must("create", clusterProgram(networkID, firewallID, nil))
	invoke := func(token tokens.ModuleMember, args map[string]any) (resource.PropertyMap, error) {
		response, err := b.client.Invoke(context.Background(), &pulumirpc.InvokeRequest{Tok: string(token), Args: marshal(t, properties(args))})
		if err != nil {
			return nil, err
		}
		if len(response.Failures) > 0 {
			t.Errorf("%s: %v", token, response.Failures)
		}
		return unmarshal(t, response.Return), nil
	}

	for _, args := range []map[string]any{{"id": cluster.id}, {"name": "PROD"}, {"name": "prod", "region": "LON1"}} {
		got, err := invoke(GetClusterFunction, args)
		if err != nil {
			t.Fatal(err)
		}
		if got["id"].StringValue() != cluster.id || !got["kubeconfig"].IsSecret() || len(nativeprovider.GetObjects(got, "pools")) != 1 {
			t.Errorf("%v: %v", args, got)
		}
		compareResult(t, got, reflect.TypeFor[civo.LookupKubernetesClusterResult]())
	}
	for _, args := range []map[string]any{{}, {"name": "nobody"}, {"id": cluster.id, "region": "NYC1"}} {
		if _, err := invoke(GetClusterFunction, args); err == nil {
			t.Errorf("%v: want an error", args)
		}
	}
	for _, args := range []map[string]any{{"id": networkID}, {"label": "net"}} {
		got, err := invoke(GetNetworkFunction, args)
		if err != nil {
			t.Fatal(err)
		}
		if got["id"].StringValue() != networkID || got["region"].StringValue() != "LON1" {
			t.Errorf("%v: %v", args, got)
		}
		compareResult(t, got, reflect.TypeFor[civo.LookupNetworkResult]())
	}
	got, err := invoke(nativeprovider.PluginFunction("civo"), nil)
	if err != nil || got["name"].StringValue() != "native" || got["version"].StringValue() != "1.2.3" {
		t.Errorf("getPlugin: %v, %v", got, err)
	}
	if _, err := invoke("civo:index/getVolume:getVolume", nil); err == nil || !strings.Contains(err.Error(), "official plugin") {
		t.Errorf("a function that the native plugin lacks: %v", err)
	}
}

// compareResult wants each property of the SDK's result, and no other.
func compareResult(t *testing.T, got resource.PropertyMap, typ reflect.Type) {
	t.Helper()
	var want, have []string
	for name := range tags(typ) {
		want = append(want, name)
	}
	for name := range got {
		have = append(have, string(name))
	}
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s (-sdk +native):\n%s", typ, diff)
	}
}

// tags are the property names of an SDK struct and their types.
func tags(typ reflect.Type) map[string]reflect.Type {
	names := map[string]reflect.Type{}
	for i := range typ.NumField() {
		if name := typ.Field(i).Tag.Get("pulumi"); name != "" {
			names[name] = typ.Field(i).Type
		}
	}
	return names
}

// Every property of the official SDK's structs stands in the tables, with its type, and none besides.
func TestTablesAgreeWithTheSDK(t *testing.T) {
	t.Parallel()
	resources := newProvider("0.0.0", func(*client) {}).Spec().Resources
	tests := []struct {
		typ         tokens.Type
		args, state reflect.Type
	}{
		{NetworkType, plainArgs(civo.NetworkArgs{}), reflect.TypeFor[civo.Network]()},
		{FirewallType, plainArgs(civo.FirewallArgs{}), reflect.TypeFor[civo.Firewall]()},
		{ClusterType, plainArgs(civo.KubernetesClusterArgs{}), reflect.TypeFor[civo.KubernetesCluster]()},
		{NodePoolType, plainArgs(civo.KubernetesNodePoolArgs{}), reflect.TypeFor[civo.KubernetesNodePool]()},
	}
	for _, test := range tests {
		table := resources[test.typ].Properties
		compareFields(t, string(test.typ), table, tags(test.args), func(p nativeprovider.Property) bool { return !p.Output })
		for name := range tags(test.state) {
			if !slices.ContainsFunc(table, func(p nativeprovider.Property) bool { return p.Name == name }) {
				t.Errorf("%s: output %s is missing", test.typ, name)
			}
		}
	}
}

// plainArgs is the unexported struct of plain values that an Args type describes, nested objects included.
func plainArgs(args interface{ ElementType() reflect.Type }) reflect.Type {
	typ := args.ElementType()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return typ
}

func compareFields(
	t *testing.T, path string, table []nativeprovider.Property, sdk map[string]reflect.Type, include func(nativeprovider.Property) bool,
) {
	t.Helper()
	for _, property := range table {
		typ, ok := sdk[property.Name]
		switch {
		case !include(property):
		case !ok:
			t.Errorf("%s: the SDK has no %s", path, property.Name)
		default:
			compareType(t, path+"."+property.Name, &property, typ)
		}
	}
	for name := range sdk {
		if !slices.ContainsFunc(table, func(p nativeprovider.Property) bool { return p.Name == name }) {
			t.Errorf("%s: %s is missing", path, name)
		}
	}
}

func compareType(t *testing.T, path string, p *nativeprovider.Property, typ reflect.Type) {
	t.Helper()
	optional := false
	if typ.Kind() == reflect.Pointer {
		typ, optional = typ.Elem(), true
	}
	kinds := map[nativeprovider.Type]reflect.Kind{
		nativeprovider.String: reflect.String, nativeprovider.Int: reflect.Int, nativeprovider.Number: reflect.Float64,
		nativeprovider.Bool: reflect.Bool, nativeprovider.List: reflect.Slice, nativeprovider.Set: reflect.Slice,
		nativeprovider.Map: reflect.Map, nativeprovider.Object: reflect.Struct,
	}
	if kinds[p.Type] != typ.Kind() {
		t.Errorf("%s is a %s here and a %s in the SDK", path, p.Type, typ)
		return
	}
	if p.Name != "" && p.Required && optional {
		t.Errorf("%s is required here and optional in the SDK", path)
	}
	switch typ.Kind() {
	case reflect.Slice, reflect.Map:
		compareType(t, path+"[]", p.Elem, typ.Elem())
	case reflect.Struct:
		compareFields(t, path, p.Fields, tags(typ), func(nativeprovider.Property) bool { return true })
	}
}
