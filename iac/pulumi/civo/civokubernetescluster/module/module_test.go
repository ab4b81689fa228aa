package module

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	clusterType   = "civo:index/kubernetesCluster:KubernetesCluster"
	nodePoolType  = "civo:index/kubernetesNodePool:KubernetesNodePool"
	firewallType  = "civo:index/firewall:Firewall"
	providerType  = "pulumi:providers:civo"
	testNetwork   = "6f3c1d1e-8f0b-4f6e-9d5a-0d4c6f0a9b11"
	testFirewall  = "11111111-8f0b-4f6e-9d5a-0d4c6f0a9b11"
	testToken     = "kubernetes-t0ken"
	testAuthority = "Y2VydGlmaWNhdGU="
)

const testKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster:
    certificate-authority-data: ` + testAuthority + `
    server: https://203.0.113.7:6443
contexts:
- name: prod
  context: {cluster: prod, user: prod}
current-context: prod
users:
- name: prod
  user: {token: ` + testToken + `}
`

// full returns a stack input with every field of the spec set.
func full() *civokubernetesclusterv1.CivoKubernetesClusterStackInput {
	return &civokubernetesclusterv1.CivoKubernetesClusterStackInput{
		Target: &civokubernetesclusterv1.CivoKubernetesCluster{
			ApiVersion: "civo.project-planton.org/v1",
			Kind:       "CivoKubernetesCluster",
			Metadata:   &shared.CloudResourceMetadata{Name: "prod", Org: "acme"},
			Spec: &civokubernetesclusterv1.CivoKubernetesClusterSpec{
				ClusterName:         "prod-k8s",
				Region:              civo.CivoRegion_fra1,
				KubernetesVersion:   "1.29.0+k3s1",
				Network:             literal(testNetwork),
				HighlyAvailable:     true,
				AutoUpgrade:         true,
				DisableSurgeUpgrade: true,
				Tags:                []string{"team:web", "env:prod"},
				DefaultNodePool: &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{
					Size: "g4s.kube.small", NodeCount: 2, Name: "system",
				},
				Firewall:     literal(testFirewall),
				Cni:          civokubernetesclusterv1.CivoKubernetesClusterCni_cilium,
				ClusterType:  civokubernetesclusterv1.CivoKubernetesClusterType_k3s,
				Applications: []string{"cert-manager", "-Traefik-v2-nodeport"},
				AdditionalNodePools: []*civokubernetesclusterv1.CivoKubernetesClusterNodePool{
					{Name: "web", Size: "g4s.kube.medium", NodeCount: 4},
					{
						Name: "batch", Size: "g4s.kube.large", NodeCount: 3, AutoScale: true, MinNodes: 1, MaxNodes: 9,
						Labels: map[string]string{"workload": "batch"},
						Taints: []*civokubernetesnodepoolv1.CivoKubernetesNodePoolTaint{
							{Key: "dedicated", Value: "batch", Effect: "NoExecute"},
						},
						PublicIp: true,
					},
				},
			},
		},
	}
}

func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

// active makes clusters come back as Civo's API answers for a running one.
func active() moduletest.Option {
	return moduletest.WithState(clusterType, func(registered moduletest.Resource) map[string]any {
		state := map[string]any{
			"id": "cluster-1", "apiEndpoint": "https://203.0.113.7:6443", "createdAt": "2026-11-20 10:00:00 +0000 UTC",
			"status": "ACTIVE", "masterIp": "203.0.113.7", "dnsEntry": "cluster-1.k8s.civo.com",
			"pools": map[string]any{
				"label": registered.Input("pools.label"), "size": registered.Input("pools.size"),
				"nodeCount": registered.Input("pools.nodeCount"), "instanceNames": []any{"node-a", "node-b"},
			},
		}
		if registered.Input("writeKubeconfig") == true {
			state["kubeconfig"] = testKubeconfig
		}
		return state
	})
}

func run(
	t testing.TB, stackInput *civokubernetesclusterv1.CivoKubernetesClusterStackInput, opts ...moduletest.Option,
) *moduletest.Result {
	t.Helper()
	return moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, stackInput) }, append(opts, active())...)
}

func TestEveryFieldOfTheSpec(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	cluster := func(name string, want any) moduletest.Expectation {
		return moduletest.Expectation{Type: clusterType, Name: "cluster", Input: name, Want: want}
	}
	pool := func(name string, want any) moduletest.Expectation {
		return moduletest.Expectation{Type: nodePoolType, Name: "node_pool-batch", Input: name, Want: want}
	}
	taints := []any{map[string]any{"key": "dedicated", "value": "batch", "effect": "NoExecute"}}
	moduletest.AssertFields(t, result, full().Target.Spec, map[string]moduletest.Expectation{
		"cluster_name":                            cluster("name", "prod-k8s"),
		"region":                                  cluster("region", "FRA1"),
		"kubernetes_version":                      cluster("kubernetesVersion", "1.29.0-k3s1"),
		"network":                                 cluster("networkId", testNetwork),
		"highly_available":                        {Warning: "spec.highly_available has no effect"},
		"auto_upgrade":                            {Warning: "spec.auto_upgrade has no effect"},
		"disable_surge_upgrade":                   {Warning: "spec.disable_surge_upgrade has no effect"},
		"tags":                                    cluster("tags", "env:prod team:web"),
		"default_node_pool.size":                  cluster("pools.size", "g4s.kube.small"),
		"default_node_pool.node_count":            cluster("pools.nodeCount", 2.0),
		"default_node_pool.name":                  cluster("pools.label", "system"),
		"firewall":                                cluster("firewallId", testFirewall),
		"cni":                                     cluster("cni", "cilium"),
		"cluster_type":                            cluster("clusterType", "k3s"),
		"applications":                            cluster("applications", "cert-manager,-Traefik-v2-nodeport"),
		"additional_node_pools[].name":            pool("label", "batch"),
		"additional_node_pools[].size":            pool("size", "g4s.kube.large"),
		"additional_node_pools[].node_count":      pool("nodeCount", 3.0),
		"additional_node_pools[].auto_scale":      {Type: nodePoolType, Name: "node_pool-batch", IgnoreChanges: "nodeCount", Warning: "this module installs none"},
		"additional_node_pools[].min_nodes":       {Warning: "--nodes=1:9:batch"},
		"additional_node_pools[].max_nodes":       {Warning: "--nodes=1:9:batch"},
		"additional_node_pools[].labels":          pool("labels", map[string]any{"planton-resource": "true", "planton-resource-name": "prod", "planton-resource-kind": "CivoKubernetesCluster", "planton-organization": "acme", "workload": "batch"}),
		"additional_node_pools[].taints[].key":    pool("taints", taints),
		"additional_node_pools[].taints[].value":  pool("taints", taints),
		"additional_node_pools[].taints[].effect": pool("taints", taints),
		"additional_node_pools[].public_ip":       pool("publicIpNodePool", true),
	})
	if got := result.Resource(t, providerType, "civo").Input("region"); got != "FRA1" {
		t.Errorf("region of the provider = %v, want that of the cluster", got)
	}
}

func TestOnlyRequiredFields(t *testing.T) {
	t.Parallel()
	input := full()
	spec := input.Target.Spec
	input.Target.Spec = &civokubernetesclusterv1.CivoKubernetesClusterSpec{
		ClusterName: "dev", Region: spec.Region, KubernetesVersion: "v1.28.7-k3s1", Network: spec.Network,
		DefaultNodePool: &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{Size: "g4s.kube.medium", NodeCount: 1},
	}
	result := run(t, input)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	cluster := result.Resource(t, clusterType, "cluster")
	for _, name := range []string{"tags", "cni", "clusterType", "applications", "numTargetNodes", "targetNodesSize"} {
		if _, given := cluster.Inputs[resource.PropertyKey(name)]; given {
			t.Errorf("input %s is sent that the manifest does not give", name)
		}
	}
	if got := cluster.Input("pools"); !cmp.Equal(got, map[string]any{"label": "default", "size": "g4s.kube.medium", "nodeCount": 1.0}) {
		t.Errorf("pools = %v, want label, size and nodeCount only: others give a difference on every run", got)
	}
	if got := cluster.Input("kubernetesVersion"); got != "1.28.7-k3s1" {
		t.Errorf("kubernetesVersion = %v", got)
	}
	if got := cluster.Input("writeKubeconfig"); got != true {
		t.Errorf("writeKubeconfig = %v: the plugin would hand out no kubeconfig", got)
	}
	if warnings := result.Warnings(); len(warnings) > 0 {
		t.Errorf("warnings without a cause: %q", warnings)
	}
}

func TestOwnFirewall(t *testing.T) {
	t.Parallel()
	input := full()
	input.Target.Spec.Firewall = nil
	result := run(t, input)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	firewall := result.Resource(t, firewallType, "firewall")
	var open []string
	for _, rule := range firewall.Input("ingressRules").([]any) {
		fields := rule.(map[string]any)
		open = append(open, fmt.Sprint(fields["protocol"], " ", fields["portRange"], " ", fields["cidrs"], " ", fields["action"]))
	}
	want := []string{"tcp 6443 [0.0.0.0/0] allow", "tcp 80 [0.0.0.0/0] allow", "tcp 443 [0.0.0.0/0] allow"}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("what the firewall lets in (-want +got):\n%s", diff)
	}
	if got := len(firewall.Input("egressRules").([]any)); got != 3 {
		t.Errorf("%d egress rules, want tcp, udp and icmp: nodes pull images", got)
	}
	if got := firewall.Input("createDefaultRules"); got != false {
		t.Errorf("createDefaultRules = %v: Civo would open every port", got)
	}
	if got := firewall.Input("networkId"); got != testNetwork {
		t.Errorf("networkId of the firewall = %v, want the cluster's", got)
	}
	if got := firewall.Input("name"); got != "prod-k8s-6f3c1d1e" {
		t.Errorf("name of the firewall = %v", got)
	}
	if firewall.DeleteBeforeReplace {
		t.Error("the old firewall is in use by the old cluster, so it cannot go first")
	}
	cluster := result.Resource(t, clusterType, "cluster")
	if got := cluster.Input("firewallId"); got != firewall.ID {
		t.Errorf("firewallId of the cluster = %v, want %s", got, firewall.ID)
	}
	if !slices.ContainsFunc(cluster.Dependencies, func(urn string) bool { return strings.HasSuffix(urn, "::firewall") }) {
		t.Errorf("the cluster waits for %q, want the firewall among them", cluster.Dependencies)
	}
}

func TestFirewallNameFits(t *testing.T) {
	t.Parallel()
	for clusterName, want := range map[string]string{
		"dev":                    "dev-6f3c1d1e",
		strings.Repeat("a", 63):  strings.Repeat("a", 54) + "-6f3c1d1e",
		strings.Repeat("a-", 31): strings.Repeat("a-", 26) + "a-6f3c1d1e",
	} {
		input := full()
		input.Target.Spec.Firewall = nil
		input.Target.Spec.ClusterName = strings.TrimSuffix(clusterName, "-")
		result := run(t, input)
		got := result.Resource(t, firewallType, "firewall").Input("name")
		if got != want || len(want) > 63 {
			t.Errorf("firewall of cluster %s is named %v, want %s", clusterName, got, want)
		}
	}
}

func TestPools(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	cluster := result.Resource(t, clusterType, "cluster")
	for _, name := range []string{"node_pool-web", "node_pool-batch"} {
		pool := result.Resource(t, nodePoolType, name)
		if got := pool.Input("clusterId"); got != cluster.ID {
			t.Errorf("clusterId of %s = %v, want %s", name, got, cluster.ID)
		}
		if !slices.ContainsFunc(pool.Dependencies, func(urn string) bool { return strings.HasSuffix(urn, "::cluster") }) {
			t.Errorf("%s waits for %q, want the cluster among them", name, pool.Dependencies)
		}
		if got := strings.Join(pool.ReplaceOnChanges, " "); got != "clusterId label size publicIpNodePool" || !pool.DeleteBeforeReplace {
			t.Errorf("%s is replaced on changes of %q, delete first %t", name, got, pool.DeleteBeforeReplace)
		}
		if !slices.Equal(pool.BeforeUpdate, []string{name + "-guard"}) {
			t.Errorf("hooks before an update of %s: %q", name, pool.BeforeUpdate)
		}
	}
	web := result.Resource(t, nodePoolType, "node_pool-web")
	if _, given := web.Inputs["taints"]; given {
		t.Error("taints are sent that the manifest does not give")
	}
	if len(web.IgnoreChanges) > 0 {
		t.Errorf("a pool of a fixed size ignores changes of %q", web.IgnoreChanges)
	}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	cluster := run(t, full()).Resource(t, clusterType, "cluster")
	if got := strings.Join(cluster.ReplaceOnChanges, " "); got != "networkId region pools.size pools.label" {
		t.Errorf("replaced on changes of %q", got)
	}
	if !cluster.DeleteBeforeReplace {
		t.Error("names are unique: the old cluster must go first")
	}
}

func TestKubernetesVersion(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"1.29.0+k3s1": "1.29.0-k3s1", "1.29.0-k3s1": "1.29.0-k3s1", "v1.29.0-k3s1": "1.29.0-k3s1",
		"v1.29.0+k3s1": "1.29.0-k3s1", "talos-v1.5.0": "talos-v1.5.0",
	} {
		if got := kubernetesVersion(given); got != want {
			t.Errorf("kubernetesVersion(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	moduletest.AssertOutputs(t, result, &civokubernetesclusterv1.CivoKubernetesClusterStackOutputs{})
	moduletest.AssertConstants(t, &civokubernetesclusterv1.CivoKubernetesClusterStackOutputs{},
		OpClusterId, OpKubeconfig, OpApiServerEndpoint, OpCreatedAtRfc3339, OpClusterCaCertificate, OpKubernetesVersion,
		OpStatus, OpNetworkId, OpFirewallId, OpDefaultNodePoolId, OpDefaultNodeNames, OpMasterIp, OpDnsEntry, OpRegion,
		OpClusterName, OpAdditionalNodePoolIds, OpAutoscalerNodesFlags)
	got, secrets := map[string]any{}, []string{}
	for name, output := range result.Outputs {
		got[name] = output.Value
		if output.Secret {
			secrets = append(secrets, name)
		}
	}
	want := map[string]any{
		OpClusterId: "cluster-1", OpKubeconfig: base64.StdEncoding.EncodeToString([]byte(testKubeconfig)),
		OpApiServerEndpoint: "https://203.0.113.7:6443", OpCreatedAtRfc3339: "2026-11-20T10:00:00Z",
		OpClusterCaCertificate: testAuthority, OpKubernetesVersion: "1.29.0-k3s1", OpStatus: "ACTIVE",
		OpNetworkId: testNetwork, OpFirewallId: testFirewall, OpDefaultNodePoolId: "system",
		OpDefaultNodeNames: []string{"node-a", "node-b"}, OpMasterIp: "203.0.113.7", OpDnsEntry: "cluster-1.k8s.civo.com",
		OpRegion: "FRA1", OpClusterName: "prod-k8s",
		OpAdditionalNodePoolIds: []string{"node_pool-web-id", "node_pool-batch-id"},
		OpAutoscalerNodesFlags:  []string{"--nodes=1:9:batch"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if !slices.Equal(secrets, []string{OpKubeconfig}) {
		t.Errorf("secret outputs: %q, want the kubeconfig alone", secrets)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	from := func(name string) *foreignkeyv1.StringValueOrRef {
		return &foreignkeyv1.StringValueOrRef{
			LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: &foreignkeyv1.ValueFromRef{Name: name}},
		}
	}
	input := full()
	input.Target.Spec.Network, input.Target.Spec.Firewall = from("main"), from("edge")
	network := moduletest.WithStack("organization/civovpc/acme._.main", map[string]any{"network_id": testNetwork})
	firewall := moduletest.WithStack("organization/civofirewall/acme._.edge", map[string]any{"firewall_id": testFirewall})

	result := run(t, input, network, firewall)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	cluster := result.Resource(t, clusterType, "cluster")
	if cluster.Input("networkId") != testNetwork || cluster.Input("firewallId") != testFirewall {
		t.Errorf("networkId %v, firewallId %v", cluster.Input("networkId"), cluster.Input("firewallId"))
	}

	result = run(t, input, network)
	if result.Err == nil || !strings.Contains(result.Err.Error(), "organization/civofirewall/acme._.edge") {
		t.Errorf("error %v, want one that names the missing stack", result.Err)
	}
	for _, registered := range result.Resources {
		if registered.Custom {
			t.Errorf("%s was registered although a reference cannot be resolved", registered.Name)
		}
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	edit := func(change func(*civokubernetesclusterv1.CivoKubernetesClusterSpec)) *civokubernetesclusterv1.CivoKubernetesClusterStackInput {
		input := full()
		change(input.Target.Spec)
		return input
	}
	tests := map[string]struct {
		reason string
		input  *civokubernetesclusterv1.CivoKubernetesClusterStackInput
		ruleID string
	}{
		"empty": {reason: "a target is required", input: &civokubernetesclusterv1.CivoKubernetesClusterStackInput{}, ruleID: "required"},
		"pools of one name": {
			reason: "a pool's name is its id",
			input: edit(func(spec *civokubernetesclusterv1.CivoKubernetesClusterSpec) {
				spec.AdditionalNodePools[0].Name = "system"
			}),
			ruleID: "node_pools.unique_name",
		},
		"talos and cilium": {
			reason: "Civo does not offer the two together",
			input: edit(func(spec *civokubernetesclusterv1.CivoKubernetesClusterSpec) {
				spec.ClusterType, spec.KubernetesVersion = civokubernetesclusterv1.CivoKubernetesClusterType_talos, "talos-v1.5.0"
			}),
			ruleID: "cni.talos",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, tt.input)
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Fatalf("%s: error %v, resources %v; want a *validation.Error and nothing registered",
					tt.reason, result.Err, result.Names())
			}
			if got := broken.Violations[0].RuleID; got != tt.ruleID {
				t.Errorf("%s: rule %s, want %s", tt.reason, got, tt.ruleID)
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
	spec := full().Target.Spec
	spec.Network, spec.Firewall = nil, nil
	before := proto.CloneOf(spec)
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		cluster, err := New(ctx, "prod", &Args{
			Spec: spec, NetworkId: pulumi.String(testNetwork), FirewallId: pulumi.String(testFirewall),
		})
		if err != nil {
			return err
		}
		if _, err := New(ctx, "dev", &Args{Spec: spec, NetworkId: pulumi.String(testNetwork)}); err != nil {
			return err
		}
		ctx.Export("id", cluster.ClusterId)
		ctx.Export("name", cluster.ClusterName)
		ctx.Export("kubeconfig", cluster.Kubeconfig)
		ctx.Export("kubeconfig_b64", cluster.KubeconfigB64)
		ctx.Export("endpoint", cluster.ApiServerEndpoint)
		ctx.Export("ca", cluster.ClusterCaCertificate)
		ctx.Export("version", cluster.KubernetesVersion)
		ctx.Export("network", cluster.NetworkId)
		ctx.Export("firewall", cluster.FirewallId)
		ctx.Export("pool", cluster.DefaultNodePoolId)
		ctx.Export("nodes", cluster.DefaultNodeNames)
		ctx.Export("pools", cluster.AdditionalNodePoolIds)
		ctx.Export("region", cluster.Region)
		return nil
	}, active())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	got, secrets := map[string]any{}, []string{}
	for name, output := range result.Outputs {
		got[name] = output.Value
		if output.Secret {
			secrets = append(secrets, name)
		}
	}
	want := map[string]any{
		"id": "cluster-1", "name": "prod-k8s", "kubeconfig": testKubeconfig,
		"kubeconfig_b64": base64.StdEncoding.EncodeToString([]byte(testKubeconfig)), "endpoint": "https://203.0.113.7:6443",
		"ca": testAuthority, "version": "1.29.0-k3s1", "network": testNetwork, "firewall": testFirewall, "pool": "system",
		"nodes": []string{"node-a", "node-b"}, "pools": []string{"prod-node_pool-web-id", "prod-node_pool-batch-id"},
		"region": "FRA1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	slices.Sort(secrets)
	if !slices.Equal(secrets, []string{"kubeconfig", "kubeconfig_b64"}) {
		t.Errorf("secret outputs: %q", secrets)
	}
	if got := result.Resource(t, clusterType, "dev-cluster").Input("firewallId"); got != "dev-firewall-id" {
		t.Errorf("firewallId of the cluster without one = %v, want that of the firewall made for it", got)
	}
	if !proto.Equal(before, spec) {
		t.Error("the spec of the caller was changed")
	}
}

func TestComponentRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]*Args{"nil": nil, "no spec": {NetworkId: pulumi.String(testNetwork)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				_, err := New(ctx, "prod", args)
				return err
			})
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want a *validation.Error and nothing registered", result.Err, result.Names())
			}
		})
	}
}
