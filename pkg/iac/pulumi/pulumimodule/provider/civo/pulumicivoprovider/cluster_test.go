package pulumicivoprovider

import (
	"slices"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

func TestFindCluster(t *testing.T) {
	t.Parallel()
	found := func(name string) func(map[string]any) (map[string]any, error) {
		return func(map[string]any) (map[string]any, error) {
			return map[string]any{"id": "one", "name": name, "kubeconfig": resource.MakeSecret(resource.NewProperty("s3cret"))}, nil
		}
	}
	failed := func(text string) func(map[string]any) (map[string]any, error) {
		return func(map[string]any) (map[string]any, error) { return nil, errors.New(text) }
	}
	for name, tt := range map[string]struct {
		reason string
		answer func(map[string]any) (map[string]any, error)
		want   string
		fails  bool
	}{
		"found":            {reason: "there is one", answer: found("prod"), want: "one"},
		"case":             {reason: "Civo does not tell Prod from prod", answer: found("Prod"), want: "one"},
		"another name":     {reason: "the official plugin takes prod-2 for prod when there is no prod", answer: found("prod-2")},
		"zero matches":     {reason: "there is none", answer: failed("ZeroMatchesError: unable to find prod, zero matches")},
		"multiple matches": {reason: "prod-1 and prod-2 are not prod", answer: failed("unable to find prod because there were multiple matches")},
		"outage":           {reason: "an API that cannot be asked proves nothing", answer: failed("503 Service Unavailable"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				provider, err := Get(ctx, nil)
				if err != nil {
					return err
				}
				id, err := FindCluster(ctx, provider, "prod", "LON1")
				if id != tt.want || (err != nil) != tt.fails {
					t.Errorf("%s: %q, %v; want %q", tt.reason, id, err, tt.want)
				}
				return nil
			}, moduletest.WithFunction("civo:index/getKubernetesCluster:getKubernetesCluster", tt.answer))
			if result.RunErr != nil {
				t.Fatal(result.RunErr)
			}
		})
	}
}

func TestGuardCluster(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		guard, err := GuardCluster(ctx, "cluster", nil, "prod", "LON1")
		if err != nil {
			return err
		}
		var component pulumi.ResourceState
		return ctx.RegisterComponentResource("test:index:Component", "one", &component, guard)
	})
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Resources[0].BeforeCreate; !slices.Equal(got, []string{"cluster-guard"}) {
		t.Errorf("hooks before a creation: %q", got)
	}
}
