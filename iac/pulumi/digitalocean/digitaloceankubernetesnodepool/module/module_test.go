package module

import (
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
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/program"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	nodePoolType = "digitalocean:index/kubernetesNodePool:KubernetesNodePool"
	providerType = "pulumi:providers:digitalocean"
	lookupToken  = "digitalocean:index/getKubernetesCluster:getKubernetesCluster"

	testClusterID = "1684a952-2fc6-4892-a183-6a8035fc63cf"
	clusterFQDN   = "organization/digitaloceankubernetescluster/acme.prod.main"
)

type (
	stackInput = digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackInput
	spec       = digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec
)

func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

func referenceTo(name string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{
		ValueFrom: &foreignkeyv1.ValueFromRef{Name: name},
	}}
}

// full returns a stack input with every field of the spec set.
func full() *stackInput {
	return &stackInput{
		Target: &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{
			ApiVersion: "digital-ocean.project-planton.org/v1",
			Kind:       "DigitalOceanKubernetesNodePool",
			Metadata:   &shared.CloudResourceMetadata{Name: "batch", Org: "acme", Env: "prod", Id: "doknp-1"},
			Spec: &spec{
				NodePoolName: "batch",
				Cluster:      literal(testClusterID),
				Size:         "s-4vcpu-8gb",
				NodeCount:    2,
				AutoScale:    true,
				MinNodes:     0,
				MaxNodes:     10,
				Labels:       map[string]string{"workload": "batch", "planton-environment": "mine"},
				Taints: []*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint{
					{Key: "dedicated", Value: "batch", Effect: "NoSchedule"},
					{Key: "spot", Effect: "PreferNoSchedule"},
				},
				Tags: []string{"team:data"},
			},
		},
		ProviderConfig: &digitalocean.DigitalOceanProviderConfig{ApiToken: "t0ken", ApiEndpoint: "http://127.0.0.1:1"},
	}
}

// small returns a stack input with only the required fields of the spec set.
func small() *stackInput {
	input := full()
	input.Target.Spec = &spec{NodePoolName: "web", Cluster: literal(testClusterID), Size: "c-4", NodeCount: 3}
	return input
}

func run(t testing.TB, input *stackInput, opts ...moduletest.Option) *moduletest.Result {
	t.Helper()
	return moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, input) }, opts...)
}

func TestEveryFieldOfTheSpec(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	pool := func(input string, want any) moduletest.Expectation {
		return moduletest.Expectation{Type: nodePoolType, Name: "node_pool", Input: input, Want: want}
	}
	taints := []any{
		map[string]any{"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
		map[string]any{"key": "spot", "value": "", "effect": "PreferNoSchedule"},
	}
	firstSize := pool("nodeCount", 2.0)
	firstSize.IgnoreChanges = "nodeCount"
	moduletest.AssertFields(t, result, full().Target.Spec, map[string]moduletest.Expectation{
		"node_pool_name":  pool("name", "batch"),
		"cluster":         pool("clusterId", testClusterID),
		"size":            pool("size", "s-4vcpu-8gb"),
		"node_count":      firstSize,
		"auto_scale":      pool("autoScale", true),
		"min_nodes":       pool("minNodes", 0.0),
		"max_nodes":       pool("maxNodes", 10.0),
		"labels":          pool("labels.workload", "batch"),
		"taints[].key":    pool("taints", taints),
		"taints[].value":  pool("taints", taints),
		"taints[].effect": pool("taints", taints),
		"tags":            pool("tags", []any{"team:data"}),
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
	pool := result.Resource(t, nodePoolType, "node_pool")
	for _, path := range []string{"minNodes", "maxNodes", "taints"} {
		if got := pool.Input(path); got != nil {
			t.Errorf("%s = %v is sent, which the manifest does not give", path, got)
		}
	}
	if got := pool.Input("nodeCount"); got != 3.0 {
		t.Errorf("nodeCount = %v", got)
	}
	if len(pool.IgnoreChanges) > 0 {
		t.Errorf("changes of %q are ignored: a pool of a fixed size is scaled by its manifest", pool.IgnoreChanges)
	}
	if !pool.DeleteBeforeReplace {
		t.Error("names are unique in a cluster: the old pool must go first")
	}
	if _, given := result.Resource(t, providerType, "digitalocean").Inputs["token"]; given {
		t.Error("a token is set that no one gave; the plugin would not look into its environment")
	}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	provider := result.Resource(t, providerType, "digitalocean")
	if got := provider.Input("apiEndpoint"); got != "http://127.0.0.1:1" {
		t.Errorf("apiEndpoint = %v", got)
	}
	if token := provider.Inputs["token"]; !token.IsSecret() {
		t.Error("the token is not a secret")
	}
	if got := result.Resource(t, nodePoolType, "node_pool").Provider; !strings.Contains(got, "::digitalocean::") {
		t.Errorf("the provider of the pool is %q, want the explicit one", got)
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	result := run(t, full(), moduletest.WithState(nodePoolType, func(moduletest.Resource) map[string]any {
		return map[string]any{
			"id": "pool-1",
			"nodes": []any{
				map[string]any{"id": "node-id-1", "name": "batch-a", "dropletId": "101", "status": "running"},
				map[string]any{"id": "node-id-2", "name": "batch-b", "dropletId": "102", "status": "running"},
			},
		}
	}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	moduletest.AssertOutputs(t, result, &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackOutputs{})
	moduletest.AssertConstants(t, &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackOutputs{},
		OpNodePoolId, OpNodeIds, OpNodeNames, OpDropletIds, OpClusterId)
	for name, want := range map[string]any{
		OpNodePoolId: "pool-1", OpNodeIds: []string{"node-id-1", "node-id-2"}, OpNodeNames: []string{"batch-a", "batch-b"},
		OpDropletIds: []string{"101", "102"}, OpClusterId: testClusterID,
	} {
		if diff := cmp.Diff(want, result.Outputs[name].Value); diff != "" {
			t.Errorf("output %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOutputsOfNodesThatComeUp(t *testing.T) {
	t.Parallel()
	result := run(t, full(), moduletest.WithState(nodePoolType, func(moduletest.Resource) map[string]any {
		return map[string]any{"nodes": []any{map[string]any{"id": "node-id-1"}}}
	}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if diff := cmp.Diff([]string{""}, result.Outputs[OpDropletIds].Value); diff != "" {
		t.Errorf("a node without a Droplet yet (-want +got):\n%s", diff)
	}
}

// TestBounds is the law of sizes: bounds are sent exactly when the autoscaler is on, the given count is the first size, and
// the engine leaves the count alone exactly when the autoscaler owns it.
func TestBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		lowest := rapid.Uint32Range(0, 20).Draw(r, "min")
		count := max(1, lowest+rapid.Uint32Range(0, 20).Draw(r, "count"))
		highest := count + rapid.Uint32Range(0, 20).Draw(r, "max")
		autoScale := rapid.Bool().Draw(r, "autoScale")
		input := small()
		input.Target.Spec.NodeCount, input.Target.Spec.AutoScale = count, autoScale
		want := map[string]any{"nodeCount": float64(count), "autoScale": autoScale, "minNodes": nil, "maxNodes": nil}
		ignored := ""
		if autoScale {
			input.Target.Spec.MinNodes, input.Target.Spec.MaxNodes = lowest, highest
			want["minNodes"], want["maxNodes"] = float64(lowest), float64(highest)
			ignored = "nodeCount"
		}
		result := run(t, input)
		if result.RunErr != nil {
			r.Fatal(result.RunErr)
		}
		pool := result.Resource(t, nodePoolType, "node_pool")
		for path, value := range want {
			if got := pool.Input(path); got != value {
				r.Fatalf("%s = %v, want %v", path, got, value)
			}
		}
		if got := strings.Join(pool.IgnoreChanges, " "); got != ignored {
			r.Fatalf("ignores changes of %q, want %q", got, ignored)
		}
	})
}

// TestLabels is the law of labels: each label of the user stands as given, and each of the metadata unless the user has one
// of its key.
func TestLabels(t *testing.T) {
	t.Parallel()
	base := map[string]any{
		"planton-resource": "true", "planton-resource-name": "batch", "planton-resource-kind": "DigitalOceanKubernetesNodePool",
		"planton-organization": "acme", "planton-environment": "prod", "planton-resource-id": "doknp-1",
	}
	keys := rapid.SampledFrom([]string{"tier", "workload", "planton-environment", "planton-resource-name"})
	rapid.Check(t, func(r *rapid.T) {
		user := rapid.MapOf(keys, rapid.StringMatching(`[a-z]{1,8}`)).Draw(r, "user")
		input := small()
		input.Target.Spec.Labels = user
		result := run(t, input)
		if result.RunErr != nil {
			r.Fatal(result.RunErr)
		}
		want := maps.Clone(base)
		for key, value := range user {
			want[key] = value
		}
		if diff := cmp.Diff(want, result.Resource(t, nodePoolType, "node_pool").Input("labels")); diff != "" {
			r.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func TestLabelsAreValidForKubernetes(t *testing.T) {
	t.Parallel()
	input := small()
	input.Target.Metadata = &shared.CloudResourceMetadata{Name: "My Pool", Org: "Acme, Inc."}
	result := run(t, input)
	want := map[string]any{
		"planton-resource": "true", "planton-resource-name": "My-Pool", "planton-resource-kind": "DigitalOceanKubernetesNodePool",
		"planton-organization": "Acme-Inc",
	}
	if diff := cmp.Diff(want, result.Resource(t, nodePoolType, "node_pool").Input("labels")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClusterReference(t *testing.T) {
	t.Parallel()
	input := small()
	input.Target.Spec.Cluster = referenceTo("main")
	result := run(t, input, moduletest.WithStack(clusterFQDN, map[string]any{"cluster_id": testClusterID}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Resource(t, nodePoolType, "node_pool").Input("clusterId"); got != testClusterID {
		t.Errorf("clusterId = %v, want the output of the other stack", got)
	}
	if len(result.Calls) > 0 {
		t.Errorf("an id needs no lookup: %v", result.Calls)
	}
}

func TestClusterReferenceThatAPreviewCannotKnow(t *testing.T) {
	t.Parallel()
	input := small()
	input.Target.Spec.Cluster = referenceTo("main")
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		return Resources(reference.WithResolver(ctx, func(ref foreignkey.Reference) (pulumi.StringOutput, bool, error) {
			unknown := pulumi.UnsafeUnknownOutput(nil).ApplyT(func(any) string { return "" }).(pulumi.StringOutput)
			return unknown, ref.FieldPath == "spec.cluster" && ref.OutputKey == "cluster_id", nil
		}), input)
	}, moduletest.Preview())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Resource(t, nodePoolType, "node_pool").Input("clusterId"); got != nil {
		t.Errorf("clusterId = %v, want unknown", got)
	}
}

func TestMissingClusterReference(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts []moduletest.Option
		want []string
	}{
		"no stack": {want: []string{"spec.cluster", clusterFQDN}},
		"no output": {
			opts: []moduletest.Option{moduletest.WithStack(clusterFQDN, map[string]any{"urn": "do:kubernetes:1"})},
			want: []string{"spec.cluster", clusterFQDN, "cluster_id"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := small()
			input.Target.Spec.Cluster = referenceTo("main")
			result := run(t, input, tt.opts...)
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

func TestClusterByName(t *testing.T) {
	t.Parallel()
	input := small()
	input.Target.Spec.Cluster = literal("prod-main")
	result := run(t, input, moduletest.WithFunction(lookupToken, func(map[string]any) (map[string]any, error) {
		return map[string]any{
			"id": testClusterID, "kubeConfigs": resource.MakeSecret(resource.NewProperty("never read")),
		}, nil
	}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Resource(t, nodePoolType, "node_pool").Input("clusterId"); got != testClusterID {
		t.Errorf("clusterId = %v, want the id of the cluster that has the name", got)
	}
	if len(result.Calls) != 1 || !strings.Contains(result.Calls[0].Provider, "::digitalocean::") {
		t.Fatalf("calls %v, want one of the explicit provider", result.Calls)
	}
	want := map[string]any{"name": "prod-main", "kubeconfigExpireSeconds": 60.0}
	if diff := cmp.Diff(want, result.Calls[0].Args.Mappable()); diff != "" {
		t.Errorf("the lookup mints a token, which must be short-lived (-want +got):\n%s", diff)
	}
}

func TestClusterByNameFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer map[string]any
		err    error
		want   []string
	}{
		"not there": {err: errors.New("Unable to find cluster with name: prod-main"), want: []string{"spec.cluster", "prod-main", "Unable to find"}},
		"outage":    {err: errors.New("503"), want: []string{"spec.cluster", "prod-main", "503"}},
		"no id":     {answer: map[string]any{}, want: []string{"spec.cluster", "prod-main", "no id"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := small()
			input.Target.Spec.Cluster = literal("prod-main")
			result := run(t, input, moduletest.WithFunction(lookupToken, func(map[string]any) (map[string]any, error) {
				return tt.answer, tt.err
			}))
			if result.Err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(result.Err.Error(), want) {
					t.Errorf("error %q does not say %q", result.Err, want)
				}
			}
			if diff := cmp.Diff([]string{providerType + " digitalocean"}, result.Names()); diff != "" {
				t.Errorf("registered in spite of it (-want +got):\n%s", diff)
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
		"taint": {
			reason: "rules of the spec count",
			input:  with(func(i *stackInput) { i.Target.Spec.Taints[0].Effect = "Never" }), fieldPath: "target.spec.taints[0].effect",
		},
		"cluster": {
			reason: "a pool needs a cluster",
			input:  with(func(i *stackInput) { i.Target.Spec.Cluster = nil }), fieldPath: "target.spec.cluster",
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
	given.Cluster = nil
	before := proto.CloneOf(given)
	byReference := small().Target.Spec
	byReference.Cluster = referenceTo("main")
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		one, err := New(ctx, "one", &Args{
			Metadata: full().Target.Metadata, Spec: given, ClusterId: pulumi.String("cluster-of-the-program"),
			ProviderConfig: full().ProviderConfig,
		})
		if err != nil {
			return err
		}
		if _, err := New(ctx, "two", &Args{Metadata: full().Target.Metadata, Spec: byReference}); err != nil {
			return err
		}
		ctx.Export("one", one.NodePoolId)
		ctx.Export("cluster", one.ClusterId)
		return nil
	}, moduletest.WithStack(clusterFQDN, map[string]any{"cluster_id": testClusterID}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	for name, want := range map[string]string{"one": "one-node_pool-id", "cluster": "cluster-of-the-program"} {
		if got := result.Outputs[name].Value; got != want {
			t.Errorf("output %s = %v, want %q", name, got, want)
		}
	}
	pool := result.Resource(t, nodePoolType, "one-node_pool")
	if !strings.HasSuffix(pool.Parent, "planton:digitalocean:DigitalOceanKubernetesNodePool::one") {
		t.Errorf("parent of the pool = %q, want the component", pool.Parent)
	}
	if !strings.Contains(pool.Provider, "::one-digitalocean::") {
		t.Errorf("provider of the pool = %q, want the component's own", pool.Provider)
	}
	if got := result.Resource(t, nodePoolType, "two-node_pool").Input("clusterId"); got != testClusterID {
		t.Errorf("clusterId = %v, want that of the reference", got)
	}
	if !proto.Equal(before, given) {
		t.Error("the spec of the caller was changed")
	}
}

func TestComponentRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]*Args{
		"nil":        nil,
		"no spec":    {ClusterId: pulumi.String("c-1")},
		"no cluster": {Spec: &spec{NodePoolName: "web", Size: "c-4", NodeCount: 3}},
		"rule":       {Spec: &spec{NodePoolName: "web"}, ClusterId: pulumi.String("c-1")},
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
	result := moduletest.Run(t, program.Func(Resources), moduletest.WithRootDirectory(".."))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if len(result.Outputs) == 0 {
		t.Error("the program exports nothing")
	}
}
