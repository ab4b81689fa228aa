package module

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	nodePoolType  = "civo:index/kubernetesNodePool:KubernetesNodePool"
	providerType  = "pulumi:providers:civo"
	lookupCluster = "civo:index/getKubernetesCluster:getKubernetesCluster"
	testClusterID = "2b8e4a52-35a1-4c0e-8a36-5b5f3e8d7c90"
)

// full returns a stack input with every field of the spec set.
func full() *civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput {
	return &civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput{
		Target: &civokubernetesnodepoolv1.CivoKubernetesNodePool{
			ApiVersion: "civo.project-planton.org/v1",
			Kind:       "CivoKubernetesNodePool",
			Metadata:   &shared.CloudResourceMetadata{Name: "Batch jobs", Org: "acme", Env: "dev", Id: "ciknp-1"},
			Spec: &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{
				NodePoolName: "batch",
				Cluster:      literal(testClusterID),
				Size:         "g4s.kube.large",
				NodeCount:    3,
				AutoScale:    true,
				MinNodes:     2,
				MaxNodes:     10,
				Tags:         []string{"team:data"},
				Labels:       map[string]string{"workload": "batch", "planton-environment": "mine"},
				Taints: []*civokubernetesnodepoolv1.CivoKubernetesNodePoolTaint{
					{Key: "dedicated", Value: "batch", Effect: "NoSchedule"},
				},
				PublicIp: true,
				Region:   civo.CivoRegion_fra1,
			},
		},
	}
}

func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

func run(
	t testing.TB, stackInput *civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput, opts ...moduletest.Option,
) *moduletest.Result {
	t.Helper()
	return moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, stackInput) }, opts...)
}

func TestEveryFieldOfTheSpec(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	input := func(name string, want any) moduletest.Expectation {
		return moduletest.Expectation{Type: nodePoolType, Name: "node_pool", Input: name, Want: want}
	}
	taints := []any{map[string]any{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}}
	moduletest.AssertFields(t, result, full().Target.Spec, map[string]moduletest.Expectation{
		"node_pool_name": input("label", "batch"),
		"cluster":        input("clusterId", testClusterID),
		"size":           input("size", "g4s.kube.large"),
		"node_count":     input("nodeCount", 3.0),
		"auto_scale":     {Type: nodePoolType, Name: "node_pool", IgnoreChanges: "nodeCount", Warning: "this module installs none"},
		"min_nodes":      {Warning: "--nodes=2:10:batch"},
		"max_nodes":      {Warning: "--nodes=2:10:batch"},
		"tags":           {Warning: "spec.tags has no effect"},
		"labels": input("labels", map[string]any{
			"planton-resource": "true", "planton-resource-name": "Batch-jobs", "planton-resource-kind": "CivoKubernetesNodePool",
			"planton-resource-id": "ciknp-1", "planton-organization": "acme", "planton-environment": "mine", "workload": "batch",
		}),
		"taints[].key":    input("taints", taints),
		"taints[].value":  input("taints", taints),
		"taints[].effect": input("taints", taints),
		"public_ip":       input("publicIpNodePool", true),
		"region":          {Type: providerType, Name: "civo", Input: "region", Want: "FRA1"},
	})
}

func TestFixedSize(t *testing.T) {
	t.Parallel()
	input := full()
	spec := input.Target.Spec
	spec.AutoScale, spec.MinNodes, spec.MaxNodes, spec.Tags, spec.Taints, spec.PublicIp = false, 0, 0, nil, nil, false
	result := run(t, input)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	pool := result.Resource(t, nodePoolType, "node_pool")
	if len(pool.IgnoreChanges) > 0 {
		t.Errorf("ignores changes of %q: the pool could not be scaled", pool.IgnoreChanges)
	}
	if _, given := pool.Inputs["taints"]; given {
		t.Error("taints are sent that the manifest does not give")
	}
	if got := pool.Input("publicIpNodePool"); got != false {
		t.Errorf("publicIpNodePool = %v, want false: an absent one would not take public addresses away", got)
	}
	if warnings := result.Warnings(); len(warnings) > 0 {
		t.Errorf("warnings without a cause: %q", warnings)
	}
	if got := result.Outputs[OpAutoscalerNodesFlag].Value; got != "" {
		t.Errorf("%s = %v for a pool that does not scale", OpAutoscalerNodesFlag, got)
	}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	pool := run(t, full()).Resource(t, nodePoolType, "node_pool")
	if got := strings.Join(pool.ReplaceOnChanges, " "); got != "clusterId label size publicIpNodePool" {
		t.Errorf("replaced on changes of %q", got)
	}
	if !pool.DeleteBeforeReplace {
		t.Error("the label is the id: the old pool must go first")
	}
	if !slices.Equal(pool.BeforeUpdate, []string{"node_pool-guard"}) {
		t.Errorf("hooks before an update: %q", pool.BeforeUpdate)
	}
}

func TestClusterByName(t *testing.T) {
	t.Parallel()
	input := full()
	input.Target.Spec.Cluster = literal("dev-cluster")

	t.Run("found", func(t *testing.T) {
		t.Parallel()
		result := run(t, input, moduletest.WithFunction(lookupCluster, func(args map[string]any) (map[string]any, error) {
			want := map[string]any{"name": "dev-cluster", "region": "FRA1"}
			if diff := cmp.Diff(want, args); diff != "" {
				t.Errorf("arguments of the lookup (-want +got):\n%s", diff)
			}
			return map[string]any{
				"id": testClusterID, "name": "dev-cluster", "kubeconfig": resource.MakeSecret(resource.NewProperty("s3cret")),
			}, nil
		}))
		if result.RunErr != nil {
			t.Fatal(result.RunErr)
		}
		if got := result.Resource(t, nodePoolType, "node_pool").Input("clusterId"); got != testClusterID {
			t.Errorf("clusterId = %v, want the id that was looked up", got)
		}
		if len(result.Calls) != 1 || !strings.Contains(result.Calls[0].Provider, "::civo::") {
			t.Errorf("calls %+v, want one through the explicit provider", result.Calls)
		}
	})
	for name, answer := range map[string]func(map[string]any) (map[string]any, error){
		"not found": func(map[string]any) (map[string]any, error) { return nil, errors.New("zero matches") },
		"another name": func(map[string]any) (map[string]any, error) {
			// The official plugin's answer when there is no dev-cluster, and one other name has that one in it.
			return map[string]any{"id": testClusterID, "name": "dev-cluster-2"}, nil
		},
		"without id": func(map[string]any) (map[string]any, error) { return map[string]any{}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, input, moduletest.WithFunction(lookupCluster, answer))
			if result.Err == nil {
				t.Fatal("no error")
			}
			for _, part := range []string{"spec.cluster", "dev-cluster", "FRA1"} {
				if !strings.Contains(result.Err.Error(), part) {
					t.Errorf("error %q does not name %s", result.Err, part)
				}
			}
			for _, registered := range result.Resources {
				if registered.Type == nodePoolType {
					t.Error("a pool was registered without its cluster")
				}
			}
		})
	}
}

func TestClusterByReference(t *testing.T) {
	t.Parallel()
	input := full()
	input.Target.Spec.Cluster = &foreignkeyv1.StringValueOrRef{
		LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: &foreignkeyv1.ValueFromRef{Name: "main", Env: "prod"}},
	}
	result := run(t, input, moduletest.WithStack("organization/civokubernetescluster/acme.prod.main",
		map[string]any{"cluster_id": testClusterID, "kubeconfig_b64": resource.MakeSecret(resource.NewProperty("s3cret"))}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	pool := result.Resource(t, nodePoolType, "node_pool")
	if got := pool.Input("clusterId"); got != testClusterID || pool.Inputs["clusterId"].IsSecret() {
		t.Errorf("clusterId = %v (secret %t), want the output of the stack in clear", got, pool.Inputs["clusterId"].IsSecret())
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	result := run(t, full(), moduletest.WithState(nodePoolType, func(moduletest.Resource) map[string]any {
		return map[string]any{"id": "batch", "instanceNames": []any{"node-a", "node-b", "node-c"}}
	}))
	moduletest.AssertOutputs(t, result, &civokubernetesnodepoolv1.CivoKubernetesNodePoolStackOutputs{})
	moduletest.AssertConstants(t, &civokubernetesnodepoolv1.CivoKubernetesNodePoolStackOutputs{},
		OpNodePoolId, OpNodeIds, OpNodeNames, OpClusterId, OpRegion, OpAutoscalerNodesFlag)
	got := map[string]any{}
	for name, output := range result.Outputs {
		got[name] = output.Value
	}
	want := map[string]any{
		OpNodePoolId: "batch", OpNodeIds: []string{}, OpNodeNames: []string{"node-a", "node-b", "node-c"},
		OpClusterId: testClusterID, OpRegion: "FRA1", OpAutoscalerNodesFlag: "--nodes=2:10:batch",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

// TestAutoscaleLaw holds for all bounds: exactly the pools with auto_scale leave their node count to the autoscaler, start
// with the count of the manifest, and say how the autoscaler is to be started.
func TestAutoscaleLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		input := full()
		spec := input.Target.Spec
		spec.Tags = nil
		spec.AutoScale = rapid.Bool().Draw(r, "auto_scale")
		spec.NodeCount = rapid.Uint32Range(1, 100).Draw(r, "node_count")
		spec.MinNodes, spec.MaxNodes = 0, 0
		if spec.AutoScale {
			spec.MinNodes = rapid.Uint32Range(1, spec.NodeCount).Draw(r, "min_nodes")
			spec.MaxNodes = rapid.Uint32Range(spec.NodeCount, 200).Draw(r, "max_nodes")
		}
		result := run(t, input)
		if result.RunErr != nil {
			r.Fatal(result.RunErr)
		}
		pool := result.Resource(t, nodePoolType, "node_pool")
		if got := pool.Input("nodeCount"); got != float64(spec.NodeCount) {
			r.Errorf("nodeCount = %v, want %d", got, spec.NodeCount)
		}
		if got := slices.Contains(pool.IgnoreChanges, "nodeCount"); got != spec.AutoScale {
			r.Errorf("ignores changes of the node count: %t, auto_scale: %t", got, spec.AutoScale)
		}
		if got := len(result.Warnings()) == 1; got != spec.AutoScale {
			r.Errorf("warnings %q, auto_scale: %t", result.Warnings(), spec.AutoScale)
		}
		want := ""
		if spec.AutoScale {
			want = fmt.Sprintf("--nodes=%d:%d:batch", spec.MinNodes, spec.MaxNodes)
		}
		if got := result.Outputs[OpAutoscalerNodesFlag].Value; got != want {
			r.Errorf("%s = %v, want %q", OpAutoscalerNodesFlag, got, want)
		}
	})
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	boundsWithoutAutoScale := full()
	boundsWithoutAutoScale.Target.Spec.AutoScale = false
	minAboveCount := full()
	minAboveCount.Target.Spec.MinNodes = 4
	for name, input := range map[string]*civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput{
		"empty": {}, "bounds without auto_scale": boundsWithoutAutoScale, "min above count": minAboveCount,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, input)
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want a *validation.Error and nothing registered", result.Err, result.Names())
			}
		})
	}
	t.Run("nil", func(t *testing.T) {
		t.Parallel()
		if result := run(t, nil); result.Err == nil || len(result.Resources) > 0 {
			t.Errorf("error %v, resources %v; want a clear error and nothing registered", result.Err, result.Names())
		}
	})
	t.Run("no region", func(t *testing.T) {
		t.Parallel()
		input := full()
		input.Target.Spec.Region = civo.CivoRegion_civo_region_unspecified
		result := run(t, input)
		if result.Err == nil || !strings.Contains(result.Err.Error(), "spec.region") || len(result.Resources) > 0 {
			t.Errorf("error %v, resources %v; want one that names spec.region", result.Err, result.Names())
		}
	})
}

func TestComponent(t *testing.T) {
	t.Parallel()
	spec := full().Target.Spec
	spec.Cluster = nil
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		for _, name := range []string{"one", "two"} {
			pool, err := New(ctx, name, &Args{Spec: spec, ClusterId: pulumi.String("cluster-1")})
			if err != nil {
				return err
			}
			ctx.Export(name, pool.NodePoolId)
			ctx.Export("cluster", pool.ClusterId)
			ctx.Export("flag", pool.AutoscalerNodesFlag)
			ctx.Export("region", pool.Region)
			ctx.Export("names", pool.NodeNames)
		}
		return nil
	}, moduletest.WithState(nodePoolType, func(moduletest.Resource) map[string]any {
		return map[string]any{"instanceNames": []any{"node-a"}}
	}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	for _, name := range []string{"one-node_pool", "two-node_pool"} {
		pool := result.Resource(t, nodePoolType, name)
		if got := pool.Input("clusterId"); got != "cluster-1" {
			t.Errorf("clusterId of %s = %v, want the one given to the component", name, got)
		}
		if !slices.Equal(pool.BeforeUpdate, []string{name + "-guard"}) {
			t.Errorf("hooks of %s: %q; the names must differ in one program", name, pool.BeforeUpdate)
		}
	}
	got := map[string]any{}
	for name, output := range result.Outputs {
		got[name] = output.Value
	}
	want := map[string]any{
		"one": "one-node_pool-id", "two": "two-node_pool-id", "cluster": "cluster-1", "flag": "--nodes=2:10:batch",
		"region": "FRA1", "names": []string{"node-a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if spec.Cluster != nil {
		t.Error("the spec of the caller was changed")
	}
}

func TestComponentRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]*Args{"nil": nil, "no spec": {ClusterId: pulumi.String(uuid.NewString())}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				_, err := New(ctx, "pool", args)
				return err
			})
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want a *validation.Error and nothing registered", result.Err, result.Names())
			}
		})
	}
}
