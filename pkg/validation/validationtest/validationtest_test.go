package validationtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
)

// The walk finds each sort of rule, at the path at which its violation is reported.
func TestRulesFindsEverySortOfRule(t *testing.T) {
	t.Parallel()
	found := map[Violation]bool{}
	for _, rule := range Rules((&digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster{}).ProtoReflect().Descriptor()) {
		if found[rule] {
			t.Errorf("%v is listed twice", rule)
		}
		found[rule] = true
	}
	for _, tc := range []struct {
		reason string
		want   Violation
	}{
		{"a standard rule of a string", Violation{"api_version", "string.const"}},
		{"required, of a message", Violation{"spec", "required"}},
		{"a rule of a message", Violation{"spec", "node_pools.unique_name"}},
		{"a rule of a message in a list", Violation{"spec.additional_node_pools[]", "autoscale.order"}},
		{"a predefined rule", Violation{"spec.cluster_name", "digitalocean_name"}},
		{"a rule of an enum", Violation{"spec.region", "enum.defined_only"}},
		{"a CEL rule of a field", Violation{"spec.maintenance_window", "maintenance_window"}},
		{"a rule of a list", Violation{"spec.tags", "repeated.unique"}},
		{"a predefined rule of a list's items", Violation{"spec.tags[]", "digitalocean_tag"}},
		{"a CEL rule of a list's items", Violation{"spec.autoscaler_configuration.expanders[]", "autoscaler.expander"}},
		{"a rule of a map's keys", Violation{"spec.default_node_pool.labels[]", "kubernetes_key"}},
		{"a rule of a map's values", Violation{"spec.default_node_pool.labels[]", "kubernetes_value"}},
		{"two bounds, reported as one", Violation{"spec.autoscaler_configuration.scale_down_utilization_threshold", "double.gte_lte"}},
		{"a required oneof", Violation{"spec.vpc.literal_or_ref", "required"}},
		{"a field of a oneof", Violation{"spec.vpc.value", "string.min_len"}},
		{"a message of another package, in a list", Violation{"spec.additional_node_pools[].taints[].effect", "taint_effect"}},
	} {
		if !found[tc.want] {
			t.Errorf("%s: %v is not found", tc.reason, tc.want)
		}
	}
	if shadowed := (Violation{"spec.default_node_pool.node_count", "uint32.gt"}); found[shadowed] {
		t.Errorf("%v is listed, though required is always broken first", shadowed)
	}
}

func TestUncovered(t *testing.T) {
	t.Parallel()
	md := (&civokubernetesclusterv1.CivoKubernetesClusterNodePool{}).ProtoReflect().Descriptor()
	all := Rules(md)
	if diff := cmp.Diff(all, uncovered(md, nil)); diff != "" {
		t.Errorf("without a case nothing is covered (-want +got):\n%s", diff)
	}
	expected := []Violation{{`labels["a.b/c"]`, "kubernetes_key"}, {"taints[12].effect", "required"}, {"", "autoscale.order"}}
	var covered []Violation
	left := map[Violation]bool{}
	for _, rule := range uncovered(md, expected) {
		left[rule] = true
	}
	for _, rule := range all {
		if !left[rule] {
			covered = append(covered, rule)
		}
	}
	want := []Violation{{"", "autoscale.order"}, {"labels[]", "kubernetes_key"}, {"taints[].effect", "required"}}
	if diff := cmp.Diff(want, covered, cmp.Transformer("set", func(vs []Violation) map[Violation]bool {
		set := map[Violation]bool{}
		for _, v := range vs {
			set[v] = true
		}
		return set
	})); diff != "" {
		t.Errorf("covered (-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got := parse(`spec.pools[10].labels["a.b/c[0]"]`)
	want := []step{{"spec", ""}, {"pools", "10"}, {"labels", `"a.b/c[0]"`}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSetPanicsWhenTheTestIsWrong(t *testing.T) {
	t.Parallel()
	for reason, pair := range map[string][]any{
		"no such field":             {"spec.nothing", "x"},
		"a value of another type":   {"spec.cluster_name", 1},
		"an index beyond the end":   {"spec.tags[1]", "x"},
		"a key without quotes":      {"spec.additional_node_pools[0].labels[a]", "x"},
		"a text for a whole list":   {"spec.tags", "x"},
		"a message of another type": {"spec.region", &civokubernetesclusterv1.CivoKubernetesCluster{}},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Errorf("Set(%v) did not panic", pair)
				}
			}()
			Set[*civokubernetesclusterv1.CivoKubernetesCluster](pair...)(&civokubernetesclusterv1.CivoKubernetesCluster{})
		})
	}
}
