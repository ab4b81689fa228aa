package pulumidigitaloceanprovider

import (
	"slices"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

type object = map[string]any

// What the official plugin leaves out of a request is told, with the field and a way on.
func TestUpdatesLeftOut(t *testing.T) {
	t.Parallel()
	tag := []any{"a"}
	for name, tt := range map[string]struct {
		reason   string
		warning  func(old, newInputs resource.PropertyMap) []string
		old, new object
		want     []string
	}{
		"cluster tag":        {reason: "an empty list is not sent", warning: ClusterUpdatesLeftOut, old: object{"tags": tag}, new: object{"tags": []any{}}, want: []string{"spec.tags"}},
		"cluster tag change": {reason: "another list is sent", warning: ClusterUpdatesLeftOut, old: object{"tags": tag}, new: object{"tags": []any{"b"}}},
		"surge off":          {reason: "false is not sent", warning: ClusterUpdatesLeftOut, old: object{"surgeUpgrade": true}, new: object{"surgeUpgrade": false}, want: []string{"spec.disable_surge_upgrade"}},
		"surge on":           {reason: "true is sent", warning: ClusterUpdatesLeftOut, old: object{"surgeUpgrade": false}, new: object{"surgeUpgrade": true}},
		"default pool label": {reason: "an empty map is not sent", warning: ClusterUpdatesLeftOut, old: object{"nodePool": object{"labels": object{"a": "b"}}}, new: object{"nodePool": object{}}, want: []string{"spec.default_node_pool.labels"}},
		"default pool tag":   {reason: "the plugin's own tag is always sent along", warning: ClusterUpdatesLeftOut, old: object{"nodePool": object{"tags": tag}}, new: object{"nodePool": object{}}},
		"pool tag and label": {reason: "both are told", warning: NodePoolUpdatesLeftOut, old: object{"tags": tag, "labels": object{"a": "b"}}, new: object{}, want: []string{"spec.tags", "spec.labels"}},
		"pool label change":  {reason: "another map is sent", warning: NodePoolUpdatesLeftOut, old: object{"labels": object{"a": "b"}}, new: object{"labels": object{"a": "c"}}},
		"description":        {reason: "an empty text is not sent", warning: VpcUpdatesLeftOut, old: object{"description": "a"}, new: object{}, want: []string{"spec.description"}},
		"description change": {reason: "another text is sent", warning: VpcUpdatesLeftOut, old: object{"description": "a"}, new: object{"description": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.warning(resource.NewPropertyMapFromMap(tt.old), resource.NewPropertyMapFromMap(tt.new))
			if len(got) != len(tt.want) {
				t.Fatalf("%s: %q, want %q", tt.reason, got, tt.want)
			}
			for i, field := range tt.want {
				if !strings.HasPrefix(got[i], field+": ") || !strings.Contains(got[i], "--plugins native") {
					t.Errorf("%s: %q does not begin with %s, or tells no way on", tt.reason, got[i], field)
				}
			}
		})
	}
}

func TestGuards(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		cluster, err := GuardCluster(ctx, "cluster", nil, "prod", func() (string, error) { return "", nil })
		if err != nil {
			return err
		}
		pool, err := GuardNodePool(ctx, "pool", nil)
		if err != nil {
			return err
		}
		vpc, err := GuardVpc(ctx, "vpc", nil)
		if err != nil {
			return err
		}
		for name, guard := range map[string]pulumi.ResourceOption{"cluster": cluster, "pool": pool, "vpc": vpc} {
			var component pulumi.ResourceState
			if err := ctx.RegisterComponentResource("test:index:Component", name, &component, guard); err != nil {
				return err
			}
		}
		return nil
	})
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	for _, registered := range result.Resources {
		if want := []string{registered.Name + "-left-out"}; !slices.Equal(registered.BeforeUpdate, want) {
			t.Errorf("%s: hooks before an update: %q", registered.Name, registered.BeforeUpdate)
		}
		if (registered.Name == "cluster") != slices.Equal(registered.BeforeCreate, []string{"cluster-guard"}) {
			t.Errorf("%s: hooks before a creation: %q", registered.Name, registered.BeforeCreate)
		}
	}
}
