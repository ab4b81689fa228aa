package provision

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// world is a small cloud with a plugin and modules of its own: an engine for tests that need no more of a cloud than that.
type world struct {
	*Engine
	directory string
	options   Options

	mu      sync.Mutex
	things  map[string]resource.PropertyMap
	next    int
	fails   map[string]error // by label: what creating or updating a thing says
	tokens  []string         // what requests were made with
	blocked chan struct{}    // when set, the next request waits until it is canceled; closed when it waits
	events  []Event
}

const testToken = "token-of-the-test-cloud"

// newWorld makes a world, or skips the test where there is no Pulumi CLI.
func newWorld(t *testing.T) *world {
	t.Helper()
	cli, err := pulumicli.Find(t.Context(), pulumicli.Options{Progress: os.Stderr})
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	w := &world{directory: t.TempDir(), things: map[string]resource.PropertyMap{}, fails: map[string]error{}}
	state, err := OpenLocalState(filepath.Join(w.directory, "state"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	w.options = Options{
		CLI: cli, State: state, Modules: testModules, Native: map[string]NativePlugin{kinds.Civo: w.plugin()},
		OnEvent: func(event Event) { w.events = append(w.events, event) },
	}
	if w.Engine, err = New(w.options); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) plugin() *nativeprovider.Provider {
	type token string
	table := []nativeprovider.Property{
		{Name: "label", Type: nativeprovider.String, Required: true},
		{Name: "region", Type: nativeprovider.String, Replaces: true},
		{Name: "within", Type: nativeprovider.String},
		{Name: "password", Type: nativeprovider.String, Output: true, Secret: true},
	}
	check := func(ctx context.Context, op *nativeprovider.Operation, label string) error {
		w.mu.Lock()
		w.tokens = append(w.tokens, string(op.Client.(token)))
		err, blocked := w.fails[label], w.blocked
		w.mu.Unlock()
		if blocked != nil {
			close(blocked)
			<-ctx.Done()
			return nativeprovider.ContextError(ctx)
		}
		return err
	}
	thing := &nativeprovider.Resource{
		Properties: table,
		Create: func(ctx context.Context, op *nativeprovider.Operation, in resource.PropertyMap) (string, resource.PropertyMap, error) {
			label := in["label"].StringValue()
			op.Status("waiting for " + label)
			if err := check(ctx, op, label); err != nil {
				return "", nil, err
			}
			state := in.Copy()
			state["password"] = resource.NewStringProperty("password-of-" + label)
			id, err := op.MakeOnce(ctx, nativeprovider.Making{
				Kind: "thing", Name: label,
				Find: func(_ context.Context, label string) ([]nativeprovider.Found, error) {
					return w.find(label, in["region"]), nil
				},
				Post: func(context.Context) (string, error) {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.next++
					id := fmt.Sprintf("%s-%d", label, w.next)
					w.things[id] = state
					return id, nil
				},
				Refused: func(error) bool { return true }, Taken: func(error) bool { return false },
			})
			return id, state, err
		},
		Read: func(ctx context.Context, op *nativeprovider.Operation, id string, _ resource.PropertyMap) (string, resource.PropertyMap, error) {
			if err := check(ctx, op, "read"); err != nil {
				return "", nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			state, ok := w.things[id]
			if !ok {
				return "", nil, nativeprovider.NotFound(errors.New("gone"))
			}
			return id, state, nil
		},
		Update: func(ctx context.Context, op *nativeprovider.Operation, id string, _, in resource.PropertyMap) (resource.PropertyMap, error) {
			if err := check(ctx, op, in["label"].StringValue()); err != nil {
				return nil, err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			state := in.Copy()
			state["password"] = w.things[id]["password"]
			w.things[id] = state
			return state, nil
		},
		Delete: func(ctx context.Context, op *nativeprovider.Operation, id string, _ resource.PropertyMap) error {
			if err := check(ctx, op, "delete"); err != nil {
				return err
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.things, id)
			return nil
		},
	}
	return nativeprovider.New(nativeprovider.Spec{
		Name: "civo", Version: "2.4.8",
		Config: []nativeprovider.Property{{Name: "token", Type: nativeprovider.String, Secret: true}},
		Configure: func(_ context.Context, config resource.PropertyMap) (any, error) {
			return token(config["token"].StringValue()), nil
		},
		Resources: map[tokens.Type]*nativeprovider.Resource{"civo:index/thing:Thing": thing},
	})
}

// find finds the things of a region by their label.
func (w *world) find(label string, region resource.PropertyValue) (found []nativeprovider.Found) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, state := range w.things {
		if state["label"].StringValue() == label && state["region"].DeepEquals(region) {
			found = append(found, nativeprovider.Found{ID: id, State: state})
		}
	}
	return found
}

// labels are the labels of all things, in no order.
func (w *world) labels() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	labels := map[string]bool{}
	for _, thing := range w.things {
		labels[thing["label"].StringValue()] = true
	}
	return labels
}

type thing struct {
	pulumi.CustomResourceState
	Password pulumi.StringOutput `pulumi:"password"`
}

type provider struct{ pulumi.ProviderResourceState }

// testModules are modules of two kinds: a network, and a cluster that refers to it.
func testModules(kind kinds.Kind) (Module, bool) {
	return func(ctx *pulumi.Context, stackInput proto.Message) error {
		var cloud provider
		config, _ := stackInput.(interface {
			GetProviderConfig() *civov1.CivoProviderConfig
		})
		err := ctx.RegisterResource("pulumi:providers:civo", "civo", pulumi.Map{
			"token": pulumi.ToSecret(pulumi.String(config.GetProviderConfig().GetApiToken())),
		}, &cloud, pulumi.Version("2.4.8"))
		if err != nil {
			return err
		}
		inputs, name, id := pulumi.Map{}, "network", "network_id"
		switch target := kinds.Target(stackInput).(type) {
		case *civovpcv1.CivoVpc:
			if strings.Contains(target.GetMetadata().GetName(), "broken") {
				return errors.New("the module is broken, and knows " + config.GetProviderConfig().GetApiToken())
			}
			inputs["label"] = pulumi.String(target.GetSpec().GetNetworkName())
			inputs["region"] = pulumi.String(target.GetSpec().GetRegion())
		case *civokubernetesclusterv1.CivoKubernetesCluster:
			name, id = "cluster", "cluster_id"
			within, err := reference.String(ctx, target, "spec.network")
			if err != nil {
				return err
			}
			inputs["label"] = pulumi.String(target.GetSpec().GetClusterName())
			inputs["within"] = within
		}
		var made thing
		if err := ctx.RegisterResource("civo:index/thing:Thing", name, inputs, &made, pulumi.Provider(&cloud)); err != nil {
			return err
		}
		ctx.Export(id, made.ID())
		ctx.Export("kubeconfig_b64", pulumi.ToSecret(made.Password))
		return nil
	}, true
}

func vpc(t *testing.T, name, label, region string) *manifest.Manifest {
	t.Helper()
	return parse(t, fmt.Sprintf(`apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: %s}
spec: {networkName: %s, region: %s}
`, name, label, region))[0]
}

func cluster(t *testing.T, name, label, network string) *manifest.Manifest {
	t.Helper()
	return parse(t, fmt.Sprintf(`apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata: {name: %s}
spec:
  clusterName: %s
  region: fra1
  kubernetesVersion: 1.29.0+k3s1
  network: %s
  defaultNodePool: {size: g4s.kube.small, nodeCount: 1}
`, name, label, network))[0]
}

func parse(t *testing.T, text string) []*manifest.Manifest {
	t.Helper()
	manifests, err := manifest.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

func configs(token string) ProviderConfigs {
	return ProviderConfigs{Civo: &civov1.CivoProviderConfig{ApiToken: token}}
}
