package modules

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
	"github.com/plantonhq/project-planton/pkg/validation"
)

func TestEveryKindHasAModule(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		module, ok := ByKind(kind)
		if !ok {
			t.Errorf("kind %s has no module", kind)
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			// The module of the kind takes the kind's message, and validates it.
			result := moduletest.Run(t, func(ctx *pulumi.Context) error { return module(ctx, kind.NewStackInput()) })
			var broken *validation.Error
			if !errors.As(result.Err, &broken) {
				t.Errorf("error %v, want a *validation.Error of an empty stack input", result.Err)
			}
		})
	}
	if len(registry) != len(kinds.All()) {
		t.Errorf("%d modules for %d kinds", len(registry), len(kinds.All()))
	}
}

func TestAnotherKind(t *testing.T) {
	t.Parallel()
	kind, _ := kinds.ByName("CivoFirewall")
	module, _ := ByKind(kind)
	for name, input := range map[string]proto.Message{
		"of another kind": &civovpcv1.CivoVpcStackInput{}, "of no kind": &shared.CloudResourceMetadata{}, "nil": nil,
	} {
		result := moduletest.Run(t, func(ctx *pulumi.Context) error { return module(ctx, input) })
		if result.Err == nil {
			t.Errorf("the module of a firewall takes a message %s", name)
		}
	}
	result := moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, &shared.CloudResourceMetadata{}) })
	if result.Err == nil || !strings.Contains(result.Err.Error(), "no kind") {
		t.Errorf("error %v, want one that says that this is no stack input", result.Err)
	}
}

// TestPrograms holds the folder of each program against its kind: its project is the one that references look for, and its
// stack input runs.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join("..", kind.Provider, strings.ToLower(kind.Name))

			text, err := os.ReadFile(filepath.Join(folder, "Pulumi.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var project struct {
				Name    string `yaml:"name"`
				Runtime string `yaml:"runtime"`
			}
			if err := yaml.Unmarshal(text, &project); err != nil {
				t.Fatal(err)
			}
			identity, err := stackidentity.For(kind, &shared.CloudResourceMetadata{Name: "any"})
			if err != nil {
				t.Fatal(err)
			}
			if project.Name != identity.Project || project.Runtime != "go" {
				t.Errorf("Pulumi.yaml says %+v; references look for the project %s", project, identity.Project)
			}

			for _, name := range []string{"main.go", "README.md"} {
				if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
					t.Error(err)
				}
			}

			text, err = os.ReadFile(filepath.Join(folder, "stack-input.json"))
			if err != nil {
				t.Fatal(err)
			}
			stackInput := kind.NewStackInput()
			if err := manifest.Decode("stack-input.json", text, stackInput); err != nil {
				t.Fatal(err)
			}
			result := moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, stackInput) },
				noDigitalOceanCluster(), digitalOceanVersions())
			if result.RunErr != nil {
				t.Fatalf("the stack input does not run: %v", result.RunErr)
			}
			var outputs []string
			for name := range result.Outputs {
				outputs = append(outputs, name)
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(kind.OutputFields())), slices.Sorted(slices.Values(outputs))); diff != "" {
				t.Errorf("outputs (-fields +outputs):\n%s", diff)
			}
		})
	}
}

// TestExamples runs the modules on the manifests of the examples, in the order that their references put them in.
func TestExamples(t *testing.T) {
	t.Parallel()
	examples := filepath.Join("..", "..", "..", "examples")
	for _, folder := range []string{"civo", "civo/by-id", "digitalocean"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			manifests, err := manifest.Load([]string{filepath.Join(examples, folder)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var targets []proto.Message
			for _, m := range manifests {
				targets = append(targets, m.Target)
			}
			graph, err := foreignkey.Order(targets)
			if err != nil {
				t.Fatal(err)
			}
			known := map[foreignkey.Key]bool{}
			for _, i := range graph.Order {
				target := targets[i]
				stackInput := manifests[i].Kind.NewStackInput()
				field := stackInput.ProtoReflect().Descriptor().Fields().ByName("target")
				stackInput.ProtoReflect().Set(field, protoreflect.ValueOfMessage(target.ProtoReflect()))
				result := moduletest.Run(t, func(ctx *pulumi.Context) error {
					return Resources(reference.WithResolver(ctx, func(r foreignkey.Reference) (pulumi.StringOutput, bool, error) {
						if !known[r.KeyOf(target)] {
							t.Errorf("%s refers to %s, which is not there", manifests[i], r)
						}
						return pulumi.String(uuid.NewString()).ToStringOutput(), true, nil
					}), stackInput)
				}, noDigitalOceanCluster(), digitalOceanVersions())
				if result.RunErr != nil {
					t.Errorf("%s: %v", manifests[i], result.RunErr)
				}
				known[foreignkey.KeyOf(target)] = true
			}
		})
	}
}

// noDigitalOceanCluster and digitalOceanVersions answer what the module of DigitalOcean's clusters asks: whether there is the
// cluster already, and which versions are offered.
func noDigitalOceanCluster() moduletest.Option {
	return moduletest.WithFunction("digitalocean:index/getKubernetesCluster:getKubernetesCluster",
		func(args map[string]any) (map[string]any, error) {
			return nil, errors.Errorf("Unable to find cluster with name: %v", args["name"])
		})
}

func digitalOceanVersions() moduletest.Option {
	return moduletest.WithFunction("digitalocean:index/getKubernetesVersions:getKubernetesVersions",
		func(map[string]any) (map[string]any, error) {
			return map[string]any{"validVersions": []any{"1.33.1-do.3"}}, nil
		})
}
