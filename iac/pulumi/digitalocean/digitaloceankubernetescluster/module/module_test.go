package module

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/program"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	clusterType   = "digitalocean:index/kubernetesCluster:KubernetesCluster"
	nodePoolType  = "digitalocean:index/kubernetesNodePool:KubernetesNodePool"
	providerType  = "pulumi:providers:digitalocean"
	lookupToken   = "digitalocean:index/getKubernetesCluster:getKubernetesCluster"
	versionsToken = "digitalocean:index/getKubernetesVersions:getKubernetesVersions"

	vpcID   = "5a4981aa-9653-4bd1-bef5-d6bff52042e4"
	vpcFQDN = "organization/digitaloceanvpc/acme.prod.main"
)

type (
	stackInput = digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackInput
	spec       = digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec
)

// full returns a stack input with every field of the spec set.
func full() *stackInput {
	return &stackInput{
		Target: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster{
			ApiVersion: "digital-ocean.project-planton.org/v1",
			Kind:       "DigitalOceanKubernetesCluster",
			Metadata:   &shared.CloudResourceMetadata{Name: "main", Org: "acme", Env: "prod", Id: "dokc-1"},
			Spec: &spec{
				ClusterName:                    "prod-main",
				Region:                         digitalocean.DigitalOceanRegion_nyc1,
				KubernetesVersion:              "1.31.1-do.4",
				Vpc:                            &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: vpcID}},
				HighlyAvailable:                true,
				AutoUpgrade:                    true,
				DisableSurgeUpgrade:            true,
				MaintenanceWindow:              "sunday=02:00",
				RegistryIntegration:            true,
				ControlPlaneFirewallAllowedIps: []string{"203.0.113.0/24", "198.51.100.7"},
				Tags:                           []string{"team:platform", "prod"},
				DefaultNodePool: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{
					Size: "s-2vcpu-4gb", NodeCount: 3, AutoScale: true, MinNodes: 2, MaxNodes: 5, Name: "system",
					Labels: map[string]string{"tier": "system", "planton-environment": "mine"},
					Taints: []*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint{
						{Key: "critical", Value: "true", Effect: "PreferNoSchedule"},
					},
					Tags: []string{"pool:system"},
				},
				ClusterSubnet: "10.100.0.0/16",
				ServiceSubnet: "10.101.0.0/16",
				AdditionalNodePools: []*digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{{
					Name: "batch", Size: "c-4", NodeCount: 1, AutoScale: true, MinNodes: 0, MaxNodes: 4,
					Labels: map[string]string{"workload": "batch"},
					Taints: []*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint{
						{Key: "dedicated", Value: "batch", Effect: "NoSchedule"},
					},
					Tags: []string{"pool:batch"},
				}},
				AutoscalerConfiguration: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterAutoscalerConfiguration{
					ScaleDownUtilizationThreshold: 0.5, ScaleDownUnneededTime: "2m", Expanders: []string{"priority", "random"},
				},
				DestroyAllAssociatedResources: true,
				KubeconfigExpireSeconds:       3600,
			},
		},
		ProviderConfig: &digitalocean.DigitalOceanProviderConfig{ApiToken: "t0ken", ApiEndpoint: "http://127.0.0.1:1"},
	}
}

// small returns a stack input with only the required fields of the spec set.
func small() *stackInput {
	input := full()
	input.Target.Spec = &spec{
		ClusterName:       "prod-main",
		Region:            digitalocean.DigitalOceanRegion_fra1,
		KubernetesVersion: "1.31.1-do.4",
		DefaultNodePool:   &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{Size: "s-2vcpu-4gb", NodeCount: 3},
	}
	return input
}

// noCluster makes the lookup find nothing, in the words of the plugin.
func noCluster() moduletest.Option {
	return moduletest.WithFunction(lookupToken, func(args map[string]any) (map[string]any, error) {
		return nil, errors.Errorf("invocation of %s returned an error: Unable to find cluster with name: %v", lookupToken, args["name"])
	})
}

// liveClusterIs makes the lookup find a cluster.
func liveClusterIs(properties map[string]any) moduletest.Option {
	answer := map[string]any{
		"id": "c-1", "version": "1.31.1-do.4", "ha": false,
		// Credentials stand in the answer, as in that of the plugin, and are nobody's business here.
		"kubeConfigs": resource.MakeSecret(resource.NewProperty("never read")),
	}
	maps.Copy(answer, properties)
	return moduletest.WithFunction(lookupToken, func(map[string]any) (map[string]any, error) { return answer, nil })
}

// offers makes DigitalOcean offer versions.
func offers(slugs ...any) moduletest.Option {
	return moduletest.WithFunction(versionsToken, func(map[string]any) (map[string]any, error) {
		return map[string]any{"id": "versions", "latestVersion": slugs[0], "validVersions": slugs}, nil
	})
}

// provisioned makes the cluster come back as the plugin returns it.
func provisioned() []moduletest.Option {
	return []moduletest.Option{
		moduletest.WithState(clusterType, func(r moduletest.Resource) map[string]any {
			pool, _ := r.Input("nodePool").(map[string]any)
			pool["id"] = "pool-1"
			pool["nodes"] = []any{
				map[string]any{"id": "node-id-1", "name": "system-a", "dropletId": "1", "status": "running"},
				map[string]any{"id": "node-id-2", "name": "system-b", "dropletId": "2", "status": "running"},
			}
			return map[string]any{
				"id": "c-1", "clusterUrn": "do:kubernetes:c-1", "createdAt": "2026-11-20 00:00:00 +0000 UTC",
				"endpoint": "https://c-1.k8s.ondigitalocean.com", "status": "running", "ipv4Address": "203.0.113.9",
				"vpcUuid": vpcID, "clusterSubnet": "10.100.0.0/16", "serviceSubnet": "10.101.0.0/16", "nodePool": pool,
				"kubeConfigs": []any{map[string]any{
					"rawConfig": "apiVersion: v1\n", "clusterCaCertificate": "Y2E=", "token": "kube-token",
					"expiresAt": "2026-11-27T00:00:00Z", "host": "https://c-1.k8s.ondigitalocean.com",
				}},
			}
		}),
		moduletest.WithState(nodePoolType, func(r moduletest.Resource) map[string]any {
			return map[string]any{"id": "id-of-" + r.Name}
		}),
	}
}

// run runs the module, for which there is no cluster yet unless the options say so.
func run(t testing.TB, input *stackInput, opts ...moduletest.Option) *moduletest.Result {
	t.Helper()
	return moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, input) },
		append([]moduletest.Option{noCluster()}, opts...)...)
}

func TestEveryFieldOfTheSpec(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	cluster := func(input string, want any) moduletest.Expectation {
		return moduletest.Expectation{Type: clusterType, Name: "cluster", Input: input, Want: want}
	}
	pool := func(input string, want any) moduletest.Expectation {
		return moduletest.Expectation{Type: nodePoolType, Name: "node_pool-batch", Input: input, Want: want}
	}
	ignoring := func(expect moduletest.Expectation, path string) moduletest.Expectation {
		expect.IgnoreChanges = path
		return expect
	}
	autoscaler := []any{map[string]any{
		"scaleDownUtilizationThreshold": 0.5, "scaleDownUnneededTime": "2m", "expanders": []any{"priority", "random"},
	}}
	systemTaints := []any{map[string]any{"key": "critical", "value": "true", "effect": "PreferNoSchedule"}}
	batchTaints := []any{map[string]any{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}}
	moduletest.AssertFields(t, result, full().Target.Spec, map[string]moduletest.Expectation{
		"cluster_name":          cluster("name", "prod-main"),
		"region":                cluster("region", "nyc1"),
		"kubernetes_version":    cluster("version", "1.31.1-do.4"),
		"vpc":                   cluster("vpcUuid", vpcID),
		"highly_available":      cluster("ha", true),
		"auto_upgrade":          cluster("autoUpgrade", true),
		"disable_surge_upgrade": cluster("surgeUpgrade", false),
		"maintenance_window":    cluster("maintenancePolicy", map[string]any{"day": "sunday", "startTime": "02:00"}),
		"registry_integration":  cluster("registryIntegration", true),
		"control_plane_firewall_allowed_ips": cluster("controlPlaneFirewall", map[string]any{
			"enabled": true, "allowedAddresses": []any{"203.0.113.0/24", "198.51.100.7"},
		}),
		"tags":                                                      cluster("tags", []any{"team:platform", "prod"}),
		"default_node_pool.size":                                    cluster("nodePool.size", "s-2vcpu-4gb"),
		"default_node_pool.node_count":                              ignoring(cluster("nodePool.nodeCount", 3.0), "nodePool.nodeCount"),
		"default_node_pool.auto_scale":                              cluster("nodePool.autoScale", true),
		"default_node_pool.min_nodes":                               cluster("nodePool.minNodes", 2.0),
		"default_node_pool.max_nodes":                               cluster("nodePool.maxNodes", 5.0),
		"default_node_pool.name":                                    cluster("nodePool.name", "system"),
		"default_node_pool.labels":                                  cluster("nodePool.labels.tier", "system"),
		"default_node_pool.taints[].key":                            cluster("nodePool.taints", systemTaints),
		"default_node_pool.taints[].value":                          cluster("nodePool.taints", systemTaints),
		"default_node_pool.taints[].effect":                         cluster("nodePool.taints", systemTaints),
		"default_node_pool.tags":                                    cluster("nodePool.tags", []any{"pool:system"}),
		"cluster_subnet":                                            cluster("clusterSubnet", "10.100.0.0/16"),
		"service_subnet":                                            cluster("serviceSubnet", "10.101.0.0/16"),
		"additional_node_pools[].name":                              pool("name", "batch"),
		"additional_node_pools[].size":                              pool("size", "c-4"),
		"additional_node_pools[].node_count":                        ignoring(pool("nodeCount", 1.0), "nodeCount"),
		"additional_node_pools[].auto_scale":                        pool("autoScale", true),
		"additional_node_pools[].min_nodes":                         pool("minNodes", 0.0),
		"additional_node_pools[].max_nodes":                         pool("maxNodes", 4.0),
		"additional_node_pools[].labels":                            pool("labels.workload", "batch"),
		"additional_node_pools[].taints[].key":                      pool("taints", batchTaints),
		"additional_node_pools[].taints[].value":                    pool("taints", batchTaints),
		"additional_node_pools[].taints[].effect":                   pool("taints", batchTaints),
		"additional_node_pools[].tags":                              pool("tags", []any{"pool:batch"}),
		"autoscaler_configuration.scale_down_utilization_threshold": cluster("clusterAutoscalerConfigurations", autoscaler),
		"autoscaler_configuration.scale_down_unneeded_time":         cluster("clusterAutoscalerConfigurations", autoscaler),
		"autoscaler_configuration.expanders":                        cluster("clusterAutoscalerConfigurations", autoscaler),
		"destroy_all_associated_resources":                          cluster("destroyAllAssociatedResources", true),
		"kubeconfig_expire_seconds":                                 cluster("kubeconfigExpireSeconds", 3600.0),
	})
	if warnings := result.Warnings(); len(warnings) > 0 {
		t.Errorf("DigitalOcean honours every field, but there are warnings: %q", warnings)
	}
}

func TestWithoutOptionalFields(t *testing.T) {
	t.Parallel()
	input := small()
	input.ProviderConfig = nil
	result := run(t, input)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	cluster := result.Resource(t, clusterType, "cluster")
	for _, path := range []string{
		"vpcUuid", "clusterSubnet", "serviceSubnet", "maintenancePolicy", "controlPlaneFirewall",
		"clusterAutoscalerConfigurations", "kubeconfigExpireSeconds",
		"nodePool.minNodes", "nodePool.maxNodes", "nodePool.taints",
	} {
		if got := cluster.Input(path); got != nil {
			t.Errorf("%s = %v is sent, which the manifest does not give", path, got)
		}
	}
	for path, want := range map[string]any{
		"ha": false, "autoUpgrade": false, "surgeUpgrade": true, "registryIntegration": false,
		"destroyAllAssociatedResources": false, "nodePool.name": "default", "nodePool.nodeCount": 3.0, "nodePool.autoScale": false,
	} {
		if diff := cmp.Diff(want, cluster.Input(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if len(cluster.IgnoreChanges) > 0 {
		t.Errorf("changes of %q are ignored: a fixed pool's count and a version can be changed", cluster.IgnoreChanges)
	}
	if !cluster.DeleteBeforeReplace {
		t.Error("names are unique: the old cluster must go first")
	}
	if _, given := result.Resource(t, providerType, "digitalocean").Inputs["token"]; given {
		t.Error("a token is set that no one gave; the plugin would not look into its environment")
	}
	if diff := cmp.Diff([]string{providerType + " digitalocean", clusterType + " cluster"}, result.Names()); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	input := full()
	input.Target.Spec.KubernetesVersion = "1.31"
	result := run(t, input, offers("1.31.1-do.4"))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if token := result.Resource(t, providerType, "digitalocean").Inputs["token"]; !token.IsSecret() {
		t.Error("the token is not a secret")
	}
	for _, name := range []string{"cluster", "node_pool-batch"} {
		typeToken := clusterType
		if name != "cluster" {
			typeToken = nodePoolType
		}
		if got := result.Resource(t, typeToken, name).Provider; !strings.Contains(got, "::digitalocean::") {
			t.Errorf("the provider of %s is %q, want the explicit one", name, got)
		}
	}
	if len(result.Calls) != 2 {
		t.Fatalf("%d lookups, want the cluster and the versions", len(result.Calls))
	}
	for _, call := range result.Calls {
		if !strings.Contains(call.Provider, "::digitalocean::") {
			t.Errorf("%s is asked of %q, want the explicit provider", call.Token, call.Provider)
		}
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	result := run(t, full(), provisioned()...)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	moduletest.AssertOutputs(t, result, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackOutputs{})
	moduletest.AssertConstants(t, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackOutputs{},
		OpClusterId, OpKubeconfig, OpApiServerEndpoint, OpKubeconfigB64, OpClusterCaCertificate, OpToken,
		OpKubeconfigExpiresAtRfc3339, OpUrn, OpKubernetesVersion, OpStatus, OpIpv4Address, OpVpcId, OpDefaultNodePoolId,
		OpDefaultNodeNames, OpDefaultNodeIds, OpAdditionalNodePoolIds, OpCreatedAtRfc3339, OpRegion, OpClusterName,
		OpClusterSubnet, OpServiceSubnet)
	want := map[string]any{
		OpClusterId: "c-1", OpKubeconfig: "apiVersion: v1\n", OpApiServerEndpoint: "https://c-1.k8s.ondigitalocean.com",
		OpKubeconfigB64: base64.StdEncoding.EncodeToString([]byte("apiVersion: v1\n")), OpClusterCaCertificate: "Y2E=",
		OpToken: "kube-token", OpKubeconfigExpiresAtRfc3339: "2026-11-27T00:00:00Z", OpUrn: "do:kubernetes:c-1",
		OpKubernetesVersion: "1.31.1-do.4", OpStatus: "running", OpIpv4Address: "203.0.113.9", OpVpcId: vpcID,
		OpDefaultNodePoolId: "pool-1", OpDefaultNodeNames: []string{"system-a", "system-b"},
		OpDefaultNodeIds: []string{"node-id-1", "node-id-2"}, OpAdditionalNodePoolIds: []string{"id-of-node_pool-batch"},
		OpCreatedAtRfc3339: "2026-11-20T00:00:00Z", OpRegion: "nyc1", OpClusterName: "prod-main",
		OpClusterSubnet: "10.100.0.0/16", OpServiceSubnet: "10.101.0.0/16",
	}
	secret := map[string]bool{OpKubeconfig: true, OpKubeconfigB64: true, OpToken: true}
	for name, value := range want {
		got := result.Outputs[name]
		if diff := cmp.Diff(value, got.Value); diff != "" {
			t.Errorf("output %s (-want +got):\n%s", name, diff)
		}
		if got.Secret != secret[name] {
			t.Errorf("output %s: secret = %t, want %t", name, got.Secret, secret[name])
		}
	}
}

func TestOutputsWithoutCredentials(t *testing.T) {
	t.Parallel()
	// While a control plane comes up, DigitalOcean issues no credentials.
	result := run(t, small())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	for _, name := range []string{OpKubeconfig, OpKubeconfigB64, OpToken} {
		if got := result.Outputs[name]; got.Value != "" || !got.Secret {
			t.Errorf("output %s = %v (secret: %t), want an empty secret", name, got.Value, got.Secret)
		}
	}
}

func TestAdditionalNodePools(t *testing.T) {
	t.Parallel()
	input := small()
	for _, name := range []string{"web", "batch"} {
		input.Target.Spec.AdditionalNodePools = append(input.Target.Spec.AdditionalNodePools,
			&digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{Name: name, Size: "c-4", NodeCount: 2})
	}
	result := run(t, input, provisioned()...)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	for _, name := range []string{"web", "batch"} {
		pool := result.Resource(t, nodePoolType, "node_pool-"+name)
		if got := pool.Input("clusterId"); got != "c-1" {
			t.Errorf("cluster of pool %s = %v, want the id of the created one", name, got)
		}
		for _, path := range []string{"minNodes", "maxNodes", "taints"} {
			if got := pool.Input(path); got != nil {
				t.Errorf("%s of pool %s = %v, which the manifest does not give", path, name, got)
			}
		}
		if len(pool.IgnoreChanges) > 0 || !pool.DeleteBeforeReplace {
			t.Errorf("pool %s ignores %q and deletes before it replaces: %t; want none, and true",
				name, pool.IgnoreChanges, pool.DeleteBeforeReplace)
		}
	}
	if diff := cmp.Diff([]string{"id-of-node_pool-web", "id-of-node_pool-batch"}, result.Outputs[OpAdditionalNodePoolIds].Value); diff != "" {
		t.Errorf("ids, in the order of the spec (-want +got):\n%s", diff)
	}
}

// TestBounds is the law of sizes: bounds are sent exactly when the autoscaler is on, the given count is the first size, and
// the engine leaves the count alone exactly when the autoscaler owns it.
func TestBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		lowest := rapid.Uint32Range(1, 20).Draw(r, "min")
		count := lowest + rapid.Uint32Range(0, 20).Draw(r, "count")
		highest := count + rapid.Uint32Range(0, 20).Draw(r, "max")
		autoScale := rapid.Bool().Draw(r, "autoScale")
		pool := &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{
			Size: "s-1vcpu-2gb", NodeCount: count, AutoScale: autoScale,
		}
		if autoScale {
			pool.MinNodes, pool.MaxNodes = lowest, highest
		}
		input := small()
		input.Target.Spec.DefaultNodePool = pool
		if err := validation.Validate(input); err != nil {
			r.Fatal(err)
		}
		locals := &Locals{DigitalOceanKubernetesCluster: input.Target}
		args := defaultNodePool(locals)
		if args.NodeCount != pulumi.IntPtrInput(pulumi.Int(int(count))) {
			r.Fatalf("first size = %v, want %d", args.NodeCount, count)
		}
		wantIgnored := []string(nil)
		wantMin, wantMax := pulumi.IntPtrInput(nil), pulumi.IntPtrInput(nil)
		if autoScale {
			wantIgnored = []string{"nodePool.nodeCount"}
			wantMin, wantMax = pulumi.Int(int(lowest)), pulumi.Int(int(highest))
		}
		if args.MinNodes != wantMin || args.MaxNodes != wantMax {
			r.Fatalf("bounds %v..%v, want %v..%v", args.MinNodes, args.MaxNodes, wantMin, wantMax)
		}
		if diff := cmp.Diff(wantIgnored, ignoredChanges(locals)); diff != "" {
			r.Fatalf("ignored (-want +got):\n%s", diff)
		}
	})
}

// TestLabels is the law of labels: each label of the user stands as given, and each of the metadata unless the user has one
// of its key.
func TestLabels(t *testing.T) {
	t.Parallel()
	base := map[string]string{
		"planton-resource": "true", "planton-resource-name": "main", "planton-resource-kind": "DigitalOceanKubernetesCluster",
		"planton-organization": "acme", "planton-environment": "prod", "planton-resource-id": "dokc-1",
	}
	keys := rapid.SampledFrom([]string{"tier", "workload", "planton-environment", "planton-resource-name"})
	rapid.Check(t, func(r *rapid.T) {
		user := rapid.MapOf(keys, rapid.StringMatching(`[a-z]{1,8}`)).Draw(r, "user")
		input := small()
		input.Target.Spec.DefaultNodePool.Labels = user
		input.Target.Spec.AdditionalNodePools = []*digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{
			{Name: "extra", Size: "c-4", NodeCount: 1, Labels: user},
		}
		result := run(t, input)
		if result.RunErr != nil {
			r.Fatal(result.RunErr)
		}
		want := map[string]any{}
		for key, value := range base {
			want[key] = value
		}
		for key, value := range user {
			want[key] = value
		}
		if diff := cmp.Diff(want, result.Resource(t, clusterType, "cluster").Input("nodePool.labels")); diff != "" {
			r.Fatalf("default pool (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, result.Resource(t, nodePoolType, "node_pool-extra").Input("labels")); diff != "" {
			r.Fatalf("additional pool (-want +got):\n%s", diff)
		}
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason      string
		wanted      string
		autoUpgrade bool
		opts        []moduletest.Option
		want        string
		ignored     bool
		info, warn  string
		wantErr     string
	}{
		"new cluster": {
			reason: "a full slug is taken as it is", wanted: "1.31.1-do.4", want: "1.31.1-do.4",
		},
		"new cluster, prefix": {
			reason: "a prefix is resolved among what DigitalOcean offers", wanted: "1.31",
			opts: []moduletest.Option{offers("1.32.2-do.0", "1.31.9-do.3", "1.31.9-do.2")}, want: "1.31.9-do.3",
		},
		"upgraded by DigitalOcean": {
			reason: "auto_upgrade got ahead of the manifest", wanted: "1.31.1-do.4", autoUpgrade: true,
			opts: []moduletest.Option{liveClusterIs(map[string]any{"version": "1.31.9-do.3"})},
			want: "1.31.9-do.3", ignored: true, info: "runs 1.31.9-do.3 already",
		},
		"upgraded by hand, prefix": {
			reason: "without auto_upgrade, the manifest is out of date", wanted: "1.31",
			opts: []moduletest.Option{offers("1.31.9-do.3"), liveClusterIs(map[string]any{"version": "1.32.2-do.0"})},
			want: "1.32.2-do.0", ignored: true, warn: "runs 1.32.2-do.0 already",
		},
		"up to date": {
			reason: "an upgrade to where the cluster is must not be planned, whatever the state says", wanted: "1.31",
			opts: []moduletest.Option{offers("1.31.9-do.3"), liveClusterIs(map[string]any{"version": "1.31.9-do.3"})},
			want: "1.31.9-do.3", ignored: true,
		},
		"upgrade": {
			reason: "a newer version is an upgrade in place", wanted: "1.32.2-do.0",
			opts: []moduletest.Option{liveClusterIs(nil)}, want: "1.32.2-do.0",
		},
		"downgrade": {
			reason: "a lower version would replace the cluster", wanted: "1.30.1-do.0",
			opts: []moduletest.Option{liveClusterIs(nil)}, wantErr: "spec.kubernetes_version: the cluster runs 1.31.1-do.4",
		},
		"lookup fails": {
			reason: "an error is not the absence of a cluster", wanted: "1.31.1-do.4",
			opts: []moduletest.Option{moduletest.WithFunction(lookupToken, func(map[string]any) (map[string]any, error) {
				return nil, errors.New("Error listing Kubernetes clusters: 503")
			})},
			wantErr: "look up digitalocean kubernetes cluster prod-main",
		},
		"versions fail": {
			reason: "a prefix cannot be resolved", wanted: "1.31",
			opts: []moduletest.Option{moduletest.WithFunction(versionsToken, func(map[string]any) (map[string]any, error) {
				return nil, errors.New("Error retrieving Kubernetes options: 503")
			})},
			wantErr: "list the kubernetes versions of digitalocean",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := small()
			input.Target.Spec.KubernetesVersion, input.Target.Spec.AutoUpgrade = tt.wanted, tt.autoUpgrade
			result := run(t, input, append(tt.opts, moduletest.Preview())...)
			if tt.wantErr != "" {
				if result.Err == nil || !strings.Contains(result.Err.Error(), tt.wantErr) {
					t.Fatalf("%s: error %v, want one with %q", tt.reason, result.Err, tt.wantErr)
				}
				if diff := cmp.Diff([]string{providerType + " digitalocean"}, result.Names()); diff != "" {
					t.Errorf("%s: registered in spite of it (-want +got):\n%s", tt.reason, diff)
				}
				return
			}
			if result.RunErr != nil {
				t.Fatalf("%s: %v", tt.reason, result.RunErr)
			}
			cluster := result.Resource(t, clusterType, "cluster")
			if got := cluster.Input("version"); got != tt.want {
				t.Errorf("%s: version %v, want %s", tt.reason, got, tt.want)
			}
			if ignored := len(cluster.IgnoreChanges) == 1 && cluster.IgnoreChanges[0] == "version"; ignored != tt.ignored {
				t.Errorf("%s: ignores changes of %q, want of the version: %t", tt.reason, cluster.IgnoreChanges, tt.ignored)
			}
			for severity, part := range map[string]string{"info": tt.info, "warning": tt.warn} {
				found := part == ""
				for _, message := range result.Log {
					found = found || message.Severity == severity && strings.Contains(message.Text, part)
					if part == "" && message.Severity == severity {
						t.Errorf("%s: %s without a cause: %s", tt.reason, severity, message.Text)
					}
				}
				if !found {
					t.Errorf("%s: no %s with %q in %v", tt.reason, severity, part, result.Log)
				}
			}
		})
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	result := run(t, small())
	if len(result.Calls) != 1 {
		t.Fatalf("calls %v, want one lookup of the cluster and, for a full slug, none of the versions", result.Calls)
	}
	want := resource.PropertyMap{
		"name": resource.NewProperty("prod-main"), "kubeconfigExpireSeconds": resource.NewProperty(60.0),
	}
	if diff := cmp.Diff(want.Mappable(), result.Calls[0].Args.Mappable()); diff != "" {
		t.Errorf("the lookup mints a token, which must be short-lived (-want +got):\n%s", diff)
	}
}

func TestHighAvailabilityIsForGood(t *testing.T) {
	t.Parallel()
	live := liveClusterIs(map[string]any{"ha": true})
	result := run(t, small(), live, moduletest.Preview())
	if result.Err == nil || !strings.Contains(result.Err.Error(), "spec.highly_available") {
		t.Errorf("error %v, want a refusal that names spec.highly_available", result.Err)
	}
	input := small()
	input.Target.Spec.HighlyAvailable = true
	if result := run(t, input, live); result.RunErr != nil {
		t.Errorf("the way out does not work: %v", result.RunErr)
	}
}

func TestFirewallIsTurnedOff(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason string
		live   []any
		want   any
	}{
		"on":      {reason: "a firewall that the manifest no longer has goes", live: []any{map[string]any{"enabled": true, "allowedAddresses": []any{"203.0.113.0/24"}}}, want: map[string]any{"enabled": false, "allowedAddresses": []any{}}},
		"off":     {reason: "there is nothing to turn off", live: []any{map[string]any{"enabled": false, "allowedAddresses": []any{}}}},
		"unknown": {reason: "DigitalOcean tells of none", live: []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, small(), liveClusterIs(map[string]any{"controlPlaneFirewalls": tt.live}))
			if result.RunErr != nil {
				t.Fatal(result.RunErr)
			}
			got := result.Resource(t, clusterType, "cluster").Input("controlPlaneFirewall")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestMaintenanceWindow(t *testing.T) {
	t.Parallel()
	input := small()
	input.Target.Spec.MaintenanceWindow = "any=00:00"
	result := run(t, input)
	want := map[string]any{"day": "any", "startTime": "00:00"}
	if diff := cmp.Diff(want, result.Resource(t, clusterType, "cluster").Input("maintenancePolicy")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// referring returns a stack input whose VPC is a reference.
func referring() *stackInput {
	input := small()
	input.Target.Spec.Vpc = &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{
		ValueFrom: &foreignkeyv1.ValueFromRef{Name: "main"},
	}}
	return input
}

func TestVpcReference(t *testing.T) {
	t.Parallel()
	result := run(t, referring(), moduletest.WithStack(vpcFQDN, map[string]any{"vpc_id": vpcID}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Resource(t, clusterType, "cluster").Input("vpcUuid"); got != vpcID {
		t.Errorf("vpcUuid = %v, want the output of the other stack", got)
	}
}

func TestMissingVpcReference(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts []moduletest.Option
		want []string
	}{
		"no stack":  {want: []string{"spec.vpc", vpcFQDN}},
		"no output": {opts: []moduletest.Option{moduletest.WithStack(vpcFQDN, map[string]any{"urn": "do:vpc:1"})}, want: []string{"spec.vpc", vpcFQDN, "vpc_id"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, referring(), tt.opts...)
			if result.Err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(result.Err.Error(), want) {
					t.Errorf("error %q does not name %s", result.Err, want)
				}
			}
			for _, name := range result.Names() {
				if !strings.HasPrefix(name, "pulumi:pulumi:StackReference") {
					t.Errorf("registered in spite of it: %s", name)
				}
			}
		})
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	with := func(change func(*stackInput)) *stackInput {
		input := full()
		change(input)
		return input
	}
	tests := map[string]struct {
		reason    string
		input     *stackInput
		fieldPath string
	}{
		"no target": {
			reason: "the whole stack input is validated", input: &stackInput{}, fieldPath: "target",
		},
		"api version": {
			reason: "rules outside the spec count too",
			input:  with(func(i *stackInput) { i.Target.ApiVersion = "v1" }), fieldPath: "target.api_version",
		},
		"endpoint": {
			reason: "the provider config is validated too",
			input:  with(func(i *stackInput) { i.ProviderConfig.ApiEndpoint = "nowhere" }), fieldPath: "provider_config.api_endpoint",
		},
		"version": {
			reason: "rules of the spec count",
			input:  with(func(i *stackInput) { i.Target.Spec.KubernetesVersion = "latest" }), fieldPath: "target.spec.kubernetes_version",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, tt.input)
			var broken *validation.Error
			if !errors.As(result.Err, &broken) {
				t.Fatalf("%s: error %v, want a *validation.Error", tt.reason, result.Err)
			}
			if got := broken.Violations[0].FieldPath; got != tt.fieldPath {
				t.Errorf("%s: field %q, want %q", tt.reason, got, tt.fieldPath)
			}
			if len(result.Resources)+len(result.Calls) > 0 {
				t.Errorf("registered or asked before validation: %v %v", result.Names(), result.Calls)
			}
		})
	}
	t.Run("nil", func(t *testing.T) {
		t.Parallel()
		if result := run(t, nil); result.Err == nil || len(result.Resources) > 0 {
			t.Errorf("error %v, resources %v; want a clear error and nothing registered", result.Err, result.Names())
		}
	})
}

func TestComponent(t *testing.T) {
	t.Parallel()
	given := full().Target.Spec
	before := proto.CloneOf(given)
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		one, err := New(ctx, "one", &Args{
			Metadata: full().Target.Metadata, Spec: given, VpcId: pulumi.String("vpc-of-the-program"), ProviderConfig: full().ProviderConfig,
		})
		if err != nil {
			return err
		}
		two, err := New(ctx, "two", &Args{Metadata: referring().Target.Metadata, Spec: referring().Target.Spec})
		if err != nil {
			return err
		}
		ctx.Export("one", one.ClusterId)
		ctx.Export("kubeconfig", one.Kubeconfig)
		ctx.Export("two", two.ClusterName)
		return nil
	}, append(provisioned(), noCluster(), moduletest.WithStack(vpcFQDN, map[string]any{"vpc_id": vpcID}))...)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Outputs["one"].Value; got != "c-1" {
		t.Errorf("cluster id = %v", got)
	}
	if !result.Outputs["kubeconfig"].Secret {
		t.Error("the kubeconfig is not a secret")
	}
	cluster := result.Resource(t, clusterType, "one-cluster")
	if !strings.HasSuffix(cluster.Parent, "planton:digitalocean:DigitalOceanKubernetesCluster::one") {
		t.Errorf("parent of the cluster = %q, want the component", cluster.Parent)
	}
	if got := cluster.Input("vpcUuid"); got != "vpc-of-the-program" {
		t.Errorf("vpcUuid = %v, want that of the argument", got)
	}
	if got := cluster.Provider; !strings.Contains(got, "::one-digitalocean::") {
		t.Errorf("provider of the cluster = %q, want the component's own", got)
	}
	if got := result.Resource(t, nodePoolType, "one-node_pool-batch").Parent; !strings.HasSuffix(got, "::one") {
		t.Errorf("parent of the pool = %q, want the component", got)
	}
	if got := result.Resource(t, clusterType, "two-cluster").Input("vpcUuid"); got != vpcID {
		t.Errorf("vpcUuid = %v, want that of the reference", got)
	}
	if !proto.Equal(before, given) {
		t.Error("the spec of the caller was changed")
	}
}

func TestComponentRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]*Args{
		"nil":         nil,
		"no spec":     {VpcId: pulumi.String("vpc-1")},
		"rule":        {Spec: &spec{ClusterName: "Not A Name"}},
		"only a name": {Metadata: &shared.CloudResourceMetadata{Name: "main"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				_, err := New(ctx, "one", args)
				return err
			})
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want a *validation.Error and nothing registered", result.Err, result.Names())
			}
		})
	}
}

func TestStackInputBesideTheProgram(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, program.Func(Resources), moduletest.WithRootDirectory(".."), noCluster(), offers("1.33.6-do.0"))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if len(result.Outputs) == 0 {
		t.Error("the program exports nothing")
	}
}
