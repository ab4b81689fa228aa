package reference

import (
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

const id = "6f3c1d1e-8f0b-4f6e-9d5a-0d4c6f0a9b11"

func cluster(network *foreignkeyv1.StringValueOrRef) *civokubernetesclusterv1.CivoKubernetesCluster {
	return &civokubernetesclusterv1.CivoKubernetesCluster{
		ApiVersion: "civo.project-planton.org/v1", Kind: "CivoKubernetesCluster",
		Metadata: &shared.CloudResourceMetadata{Name: "main", Org: "acme", Env: "dev"},
		Spec:     &civokubernetesclusterv1.CivoKubernetesClusterSpec{Network: network},
	}
}

func from(ref *foreignkeyv1.ValueFromRef) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: ref}}
}

func literal(value string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: value}}
}

// resolve exports the value of spec.network as "value".
func resolve(t *testing.T, target proto.Message, opts ...moduletest.Option) *moduletest.Result {
	t.Helper()
	return moduletest.Run(t, func(ctx *pulumi.Context) error {
		value, err := String(ctx, target, "spec.network")
		if err != nil {
			return err
		}
		ctx.Export("value", value)
		return nil
	}, opts...)
}

func TestString(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		network *foreignkeyv1.StringValueOrRef
		opts    []moduletest.Option
		want    moduletest.Output
		wantErr []string
	}{
		"literal": {
			reason:  "a literal is the value itself, and no stack is read",
			network: literal("n-1"),
			want:    moduletest.Output{Value: "n-1", Known: true},
		},
		"defaults": {
			reason:  "kind and output are the field's, org and env the manifest's",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net"}),
			opts:    []moduletest.Option{moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{"network_id": id})},
			want:    moduletest.Output{Value: id, Known: true},
		},
		"all given": {
			reason: "what the reference says counts",
			network: from(&foreignkeyv1.ValueFromRef{
				Kind: cloudresourcekind.CloudResourceKind_CivoFirewall, Env: "prod", Name: "fw", FieldPath: "status.outputs.network_id",
			}),
			opts: []moduletest.Option{moduletest.WithStack("organization/civofirewall/acme.prod.fw", map[string]any{"network_id": id})},
			want: moduletest.Output{Value: id, Known: true},
		},
		"beside a secret": {
			reason:  "an output in clear stays so, whatever else the stack has",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net"}),
			opts: []moduletest.Option{moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{
				"network_id": id, "other": resource.MakeSecret(resource.NewProperty("s3cret")),
			})},
			want: moduletest.Output{Value: id, Known: true},
		},
		"secret": {
			reason:  "a secret stays one",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net"}),
			opts: []moduletest.Option{moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{
				"network_id": resource.MakeSecret(resource.NewProperty(id)),
			})},
			want: moduletest.Output{Value: id, Known: true, Secret: true},
		},
		"neither": {
			reason: "an empty field cannot be resolved", network: &foreignkeyv1.StringValueOrRef{}, wantErr: []string{"spec.network"},
		},
		"no such stack": {
			reason:  "both ends, field, output and stack are named, what to deploy first, and how to name a stack otherwise",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net"}),
			wantErr: []string{
				`CivoKubernetesCluster "main"`, "spec.network", "network_id", `CivoVpc "net"`, "organization/civovpc/acme.dev.net",
				"cannot be read", `deploy CivoVpc "net" first`, "pulumi.project-planton.org/stack.fqdn.civovpc.net", "in turn",
			},
		},
		"no such output": {
			reason:  "both ends, field, output and stack are named, and what to deploy first",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net"}),
			opts:    []moduletest.Option{moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{})},
			wantErr: []string{
				`CivoKubernetesCluster "main"`, "spec.network", "network_id", `CivoVpc "net"`, "organization/civovpc/acme.dev.net",
				"no such output", `deploy CivoVpc "net" first`, "in turn",
			},
		},
		"empty output": {
			reason:  "an empty id is none",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net"}),
			opts:    []moduletest.Option{moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{"network_id": ""})},
			wantErr: []string{"no such output"},
		},
		"list": {
			reason:  "a list is no value of the field",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net"}),
			opts:    []moduletest.Option{moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{"network_id": []any{id}})},
			wantErr: []string{"not a string"},
		},
		"no such output of the kind": {
			reason:  "a reference that can never be right is told before anything is read",
			network: from(&foreignkeyv1.ValueFromRef{Name: "net", FieldPath: "status.outputs.nonsense"}),
			wantErr: []string{"nonsense"},
		},
	}
	for name, tt := range tests {
		for _, preview := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				opts := tt.opts
				if preview {
					opts = append([]moduletest.Option{moduletest.Preview()}, opts...)
				}
				result := resolve(t, cluster(tt.network), opts...)
				if len(tt.wantErr) == 0 {
					if result.RunErr != nil {
						t.Fatalf("%s: %v", tt.reason, result.RunErr)
					}
					if got := result.Outputs["value"]; got != tt.want {
						t.Errorf("%s: %+v, want %+v", tt.reason, got, tt.want)
					}
					return
				}
				if result.Err == nil {
					t.Fatalf("%s: no error", tt.reason)
				}
				for _, part := range tt.wantErr {
					if !strings.Contains(result.Err.Error(), part) {
						t.Errorf("%s: error %q lacks %s", tt.reason, result.Err, part)
					}
				}
				// A failed read would end the deployment in the engine's words.
				if len(result.Resources) > 0 {
					t.Errorf("%s: registered %v", tt.reason, result.Names())
				}
			})
		}
	}
}

func TestWithResolver(t *testing.T) {
	t.Parallel()
	var asked []foreignkey.Reference
	run := func(resolver Resolver, network *foreignkeyv1.StringValueOrRef) *moduletest.Result {
		return moduletest.Run(t, func(ctx *pulumi.Context) error {
			value, err := String(WithResolver(ctx, resolver), cluster(network), "spec.network")
			if err != nil {
				return err
			}
			ctx.Export("value", value)
			return nil
		}, moduletest.Preview(), moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{"network_id": id}))
	}
	network := from(&foreignkeyv1.ValueFromRef{Name: "net"})

	result := run(func(r foreignkey.Reference) (pulumi.StringOutput, bool, error) {
		asked = append(asked, r)
		return pulumi.UnsafeUnknownOutput(nil).ApplyT(func(any) string { return "" }).(pulumi.StringOutput), true, nil
	}, network)
	if got := result.Outputs["value"]; got.Known || result.RunErr != nil {
		t.Errorf("value %+v, error %v; want the resolver's unknown one", got, result.RunErr)
	}
	if len(asked) != 1 || asked[0].FieldPath != "spec.network" || asked[0].Name != "net" || asked[0].OutputKey != "network_id" {
		t.Errorf("the resolver was asked for %+v", asked)
	}

	notMine := func(foreignkey.Reference) (pulumi.StringOutput, bool, error) {
		return pulumi.StringOutput{}, false, nil
	}
	if got := run(notMine, network).Outputs["value"].Value; got != id {
		t.Errorf("value %v, want the stack's where the resolver has no answer", got)
	}
	if got := run(notMine, literal("n-1")).Outputs["value"].Value; got != "n-1" {
		t.Errorf("value %v, want the literal", got)
	}

	boom := errors.New("boom")
	failed := run(func(foreignkey.Reference) (pulumi.StringOutput, bool, error) {
		return pulumi.StringOutput{}, false, boom
	}, network)
	if !errors.Is(failed.Err, boom) || !strings.Contains(failed.Err.Error(), "spec.network") {
		t.Errorf("error %v, want the resolver's, with the field", failed.Err)
	}
}

func TestFieldPath(t *testing.T) {
	t.Parallel()
	for path, part := range map[string]string{
		"spec.nonsense": "no such field", "spec.tags": "no such field", "spec.cluster_name": "no such field",
		"spec.default_node_pool": "takes no reference", "spec.network": "neither",
	} {
		result := moduletest.Run(t, func(ctx *pulumi.Context) error {
			_, err := String(ctx, cluster(nil), path)
			return err
		})
		if result.Err == nil || !strings.Contains(result.Err.Error(), part) || !strings.Contains(result.Err.Error(), path) {
			t.Errorf("%s: error %v, want one with %q", path, result.Err, part)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		var parent pulumi.ResourceState
		if err := ctx.RegisterComponentResource("test:index:Component", "one", &parent); err != nil {
			return err
		}
		_, err := String(ctx, cluster(from(&foreignkeyv1.ValueFromRef{Name: "net"})), "spec.network",
			Prefix("one-"), ResourceOptions(pulumi.Parent(&parent)))
		return err
	}, moduletest.WithStack("organization/civovpc/acme.dev.net", map[string]any{"network_id": id}))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	read := result.Resource(t, "pulumi:pulumi:StackReference", "one-spec.network")
	if !strings.HasSuffix(read.Parent, "::one") {
		t.Errorf("parent %q, want the component", read.Parent)
	}
}

// stacks is the state of a backend whose organizations have names, as Pulumi Cloud's do.
type stacks map[string]string

func (s stacks) outputs(name string) (resource.PropertyMap, error) {
	id, ok := s[name]
	if !ok {
		return nil, errors.Errorf("unknown stack %q", name)
	}
	return resource.NewPropertyMapFromMap(map[string]any{"name": name, "outputs": map[string]any{"network_id": id}}), nil
}

func (s stacks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	outputs, err := s.outputs(args.ID)
	return args.ID, outputs, err
}

func (s stacks) Call(args pulumi.MockCallArgs) (resource.PropertyMap, error) {
	return s.outputs(args.Args["name"].StringValue())
}

func TestStackOfTheReference(t *testing.T) {
	t.Parallel()
	const label = "pulumi.project-planton.org/stack.fqdn.civovpc.net"
	tests := map[string]struct {
		reason string
		labels map[string]string
		// running is the stack that the program runs in.
		organization, project, stack string
		want                         string
		wantErr                      []string
	}{
		"pulumi cloud": {
			reason:       "what is referred to stands in the organization in which the program runs",
			organization: "acme-inc", project: "civokubernetescluster", stack: "acme.dev.main",
			want: "acme-inc/civovpc/acme.dev.net",
		},
		"own labels": {
			reason:       "labels that name the stack of the manifest itself say nothing of what it refers to",
			labels:       map[string]string{"pulumi.project-planton.org/stack.fqdn": "acme-inc/clusters/main"},
			organization: "acme-inc", project: "clusters", stack: "main",
			want: "acme-inc/civovpc/acme.dev.net",
		},
		"label": {
			reason:       "a label names the stack, in another organization too",
			labels:       map[string]string{label: "net-inc/networks/shared"},
			organization: "acme-inc", project: "civokubernetescluster", stack: "acme.dev.main",
			want: "net-inc/networks/shared",
		},
		"label without an organization of its own": {
			reason:       "a label that is written for every backend means the organization in which the program runs",
			labels:       map[string]string{label: "organization/networks/shared"},
			organization: "acme-inc", project: "civokubernetescluster", stack: "acme.dev.main",
			want: "acme-inc/networks/shared",
		},
		"malformed label": {
			reason:       "a malformed label is named, with the field",
			labels:       map[string]string{label: "networks/shared"},
			organization: "acme-inc", project: "civokubernetescluster", stack: "acme.dev.main",
			wantErr: []string{label, "spec.network", "networks/shared"},
		},
		"itself": {
			reason:       "a stack cannot wait for itself",
			organization: "acme-inc", project: "civovpc", stack: "acme.dev.net",
			wantErr: []string{`CivoKubernetesCluster "main"`, "spec.network", "acme-inc/civovpc/acme.dev.net", "itself"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := cluster(from(&foreignkeyv1.ValueFromRef{Name: "net"}))
			target.Metadata.Labels = tt.labels
			mocks := stacks{"acme-inc/civovpc/acme.dev.net": id, "net-inc/networks/shared": id, "acme-inc/networks/shared": id}
			for name := range mocks {
				mocks[name] = "id of " + name
			}
			got := make(chan string, 1)
			err := pulumi.RunErr(func(ctx *pulumi.Context) error {
				value, err := String(ctx, target, "spec.network")
				if err != nil {
					return err
				}
				value.ApplyT(func(text string) string { got <- text; return text })
				return nil
			}, pulumi.WithMocksWithOrganization(tt.organization, tt.project, tt.stack, mocks))
			if len(tt.wantErr) == 0 {
				if err != nil {
					t.Fatalf("%s: %v", tt.reason, err)
				}
				if text := <-got; text != "id of "+tt.want {
					t.Errorf("%s: %s, want the id of %s", tt.reason, text, tt.want)
				}
				return
			}
			for _, part := range tt.wantErr {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: error %v lacks %s", tt.reason, err, part)
				}
			}
		})
	}
}
