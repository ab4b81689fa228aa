package foreignkey_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

func ref(from *foreignkeyv1.ValueFromRef) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: from}}
}

func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

func cluster(name string, network, firewall *foreignkeyv1.StringValueOrRef) *civokubernetesclusterv1.CivoKubernetesCluster {
	return &civokubernetesclusterv1.CivoKubernetesCluster{
		Metadata: &shared.CloudResourceMetadata{Name: name, Org: "acme", Env: "prod"},
		Spec:     &civokubernetesclusterv1.CivoKubernetesClusterSpec{Network: network, Firewall: firewall},
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		target  proto.Message
		want    []string
		wantErr string
	}{
		"literal": {
			reason: "A literal value is no reference, and an absent field is none either.",
			target: cluster("a", literal("b1d2"), nil),
		},
		"defaults": {
			reason: "Kind and field path come from the options of the field.",
			target: cluster("a", ref(&foreignkeyv1.ValueFromRef{Name: "net"}), ref(&foreignkeyv1.ValueFromRef{Name: "fw", Env: "test"})),
			want: []string{
				"spec.network: CivoVpc net, output network_id",
				"spec.firewall: CivoFirewall test/fw, output firewall_id",
			},
		},
		"given": {
			reason: "A kind and a field path that are given win.",
			target: cluster("a", ref(&foreignkeyv1.ValueFromRef{
				Name: "other", Kind: cloudresourcekind.CloudResourceKind_CivoKubernetesCluster, FieldPath: "status.outputs.network_id",
			}), nil),
			want: []string{"spec.network: CivoKubernetesCluster other, output network_id"},
		},
		"other kind without a path": {
			reason: "The default path belongs to the default kind.",
			target: cluster("a", ref(&foreignkeyv1.ValueFromRef{
				Name: "other", Kind: cloudresourcekind.CloudResourceKind_CivoKubernetesCluster,
			}), nil),
			wantErr: "spec.network.value_from.field_path: it is missing, and nothing follows from the kind CivoKubernetesCluster here",
		},
		"no such output": {
			reason:  "An output that the kind does not have is an error that lists those it has.",
			target:  cluster("a", ref(&foreignkeyv1.ValueFromRef{Name: "net", FieldPath: "status.outputs.vpc_id"}), nil),
			wantErr: "network_id, cidr_block",
		},
		"another cloud": {
			reason: "What lives on another cloud has nothing that this one could use.",
			target: cluster("a", ref(&foreignkeyv1.ValueFromRef{
				Name: "net", Kind: cloudresourcekind.CloudResourceKind_DigitalOceanVpc, FieldPath: "status.outputs.vpc_id",
			}), nil),
			wantErr: "lives on another cloud",
		},
		"not an output": {
			reason:  "Only outputs can be referred to.",
			target:  cluster("a", ref(&foreignkeyv1.ValueFromRef{Name: "net", FieldPath: "metadata.name"}), nil),
			wantErr: "spec.network.value_from.field_path",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			references, err := foreignkey.Of(tc.target)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s\nerror %v, want one with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, reference := range references {
				got = append(got, reference.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	network := &civovpcv1.CivoVpc{Metadata: &shared.CloudResourceMetadata{Name: "net", Org: "acme", Env: "prod"}}
	firewall := &civofirewallv1.CivoFirewall{
		Metadata: &shared.CloudResourceMetadata{Name: "fw", Org: "acme", Env: "prod"},
		Spec:     &civofirewallv1.CivoFirewallSpec{NetworkId: ref(&foreignkeyv1.ValueFromRef{Name: "net"})},
	}
	pool := &civokubernetesnodepoolv1.CivoKubernetesNodePool{
		Metadata: &shared.CloudResourceMetadata{Name: "pool", Org: "acme", Env: "prod"},
		Spec:     &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{Cluster: ref(&foreignkeyv1.ValueFromRef{Name: "main"})},
	}
	main := cluster("main", ref(&foreignkeyv1.ValueFromRef{Name: "net"}), ref(&foreignkeyv1.ValueFromRef{Name: "fw"}))
	graph, err := foreignkey.Order([]proto.Message{pool, main, firewall, network})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{3, 2, 1, 0}, graph.Order); diff != "" {
		t.Errorf("order, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([][]int{{1}, {3, 2}, {3}, nil}, graph.Needs); diff != "" {
		t.Errorf("needs, -want +got:\n%s", diff)
	}

	network.Metadata.Relationships = []*shared.CloudResourceRelationship{
		{Kind: cloudresourcekind.CloudResourceKind_CivoKubernetesNodePool, Name: "pool"},
	}
	_, err = foreignkey.Order([]proto.Message{pool, main, firewall, network})
	var cycle *foreignkey.CycleError
	if !errors.As(err, &cycle) {
		t.Fatalf("a circle gave %v", err)
	}
	want := "CivoKubernetesNodePool acme/prod/pool -> CivoKubernetesCluster acme/prod/main -> CivoVpc acme/prod/net -> CivoKubernetesNodePool acme/prod/pool"
	if !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not name the circle: %v", err)
	}

	if _, err := foreignkey.Order([]proto.Message{main, main}); err == nil || !strings.Contains(err.Error(), "declared twice") {
		t.Errorf("two manifests of one resource gave %v", err)
	}
}

// Whatever the manifests refer to, what is needed comes first, and a set whose references point backwards always has an order.
func TestOrderLaw(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(t *rapid.T) {
		targets := make([]proto.Message, len(names))
		for i, name := range names {
			c := cluster(name, literal("x"), nil)
			for _, j := range rapid.SliceOfDistinct(rapid.IntRange(0, len(names)-1), func(i int) int { return i }).Draw(t, "needs "+name) {
				if j < i {
					c.Metadata.Relationships = append(c.Metadata.Relationships, &shared.CloudResourceRelationship{
						Kind: cloudresourcekind.CloudResourceKind_CivoKubernetesCluster, Name: names[j],
					})
				}
			}
			targets[i] = c
		}
		shuffled := rapid.Permutation(targets).Draw(t, "shuffled")
		graph, err := foreignkey.Order(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		position := make([]int, len(shuffled))
		for at, i := range graph.Order {
			position[i] = at
		}
		for i, needs := range graph.Needs {
			for _, j := range needs {
				if position[j] >= position[i] {
					t.Fatalf("manifest %d needs %d, which comes later: %v", i, j, graph.Order)
				}
			}
		}
	})
}

// TestDefaults: what is deployed is joined by these, so each field must name an output that both kinds have.
func TestDefaults(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for _, kind := range kinds.All() {
		for _, d := range foreignkey.Defaults(kind) {
			got[kind.Name] = append(got[kind.Name], d.Field+" "+d.Kind.Name+" "+d.OutputKey)
			if !slices.Contains(d.Kind.OutputFields(), d.OutputKey) || !slices.Contains(kind.OutputFields(), d.OutputKey) {
				t.Errorf("%s: %s takes %s of %s, which not both have", kind, d.Field, d.OutputKey, d.Kind)
			}
		}
	}
	want := map[string][]string{
		"CivoFirewall":                   {"spec.network_id CivoVpc network_id"},
		"CivoKubernetesCluster":          {"spec.network CivoVpc network_id", "spec.firewall CivoFirewall firewall_id"},
		"CivoKubernetesNodePool":         {"spec.cluster CivoKubernetesCluster cluster_id"},
		"DigitalOceanKubernetesCluster":  {"spec.vpc DigitalOceanVpc vpc_id"},
		"DigitalOceanKubernetesNodePool": {"spec.cluster DigitalOceanKubernetesCluster cluster_id"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
