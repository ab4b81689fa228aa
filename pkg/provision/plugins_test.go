package provision

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/errors"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// countedPlugin counts how often it was started, and remembers what ends each.
type countedPlugin struct {
	mu      sync.Mutex
	started []context.Context
	failure error
}

func (p *countedPlugin) Serve(ctx context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return 0, p.failure
	}
	p.started = append(p.started, ctx)
	return 1000 + len(p.started), nil
}

// Only stacks share a plugin that give it the same settings; nobody but the owner of all ends it, once.
func TestSharedPlugins(t *testing.T) {
	t.Parallel()
	const token, other = "a-token", "another-token"
	stack := func(kind, region, token string) Stack {
		text := fmt.Sprintf("kind: %s\nmetadata: {name: main}\n", kind)
		if strings.HasPrefix(kind, "Civo") {
			text += fmt.Sprintf("apiVersion: civo.project-planton.org/v1\nspec: {networkName: main, region: %s}\n", region)
		} else {
			text += fmt.Sprintf("apiVersion: digital-ocean.project-planton.org/v1\nspec: {description: main, region: %s}\n", region)
		}
		manifests, err := manifest.Parse("test.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		input, err := NewStackInput(manifests[0].Target, ProviderConfigs{
			Civo: &civov1.CivoProviderConfig{ApiToken: token}, DigitalOcean: &digitaloceanv1.DigitalOceanProviderConfig{ApiToken: token},
		})
		if err != nil {
			t.Fatal(err)
		}
		return Stack{StackInput: input}
	}
	civo, digitalOcean := &countedPlugin{}, &countedPlugin{}
	e := &Engine{
		options: Options{State: &State{}, Plugins: Native, Native: map[string]NativePlugin{"civo": civo, "digitalocean": digitalOcean}},
		secrets: &redactor{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	plugins := &sharedPlugins{}
	for i, tc := range []struct {
		reason string
		stack  Stack
		want   string
	}{
		{"the first", stack("CivoVpc", "lon1", token), "civo:1001"},
		{"the same settings", stack("CivoVpc", "lon1", token), "civo:1001"},
		{"another region", stack("CivoVpc", "fra1", token), "civo:1002"},
		{"another account", stack("CivoVpc", "lon1", other), "civo:1003"},
		{"another cloud", stack("DigitalOceanVpc", "nyc1", token), "digitalocean:1001"},
		{"the first again", stack("CivoVpc", "lon1", token), "civo:1001"},
	} {
		served, err := plugins.serve(ctx, e, tc.stack)
		if err != nil {
			t.Fatalf("%d: %s: %v", i, tc.reason, err)
		}
		if served.debugProviders != tc.want {
			t.Errorf("%d: %s: got %s, want %s", i, tc.reason, served.debugProviders, tc.want)
		}
		served.stop() // of an operation that has ended
	}
	if len(civo.started) != 3 || len(digitalOcean.started) != 1 {
		t.Fatalf("%d and %d plugins were started, want 3 and 1", len(civo.started), len(digitalOcean.started))
	}
	all := append(civo.started, digitalOcean.started...)
	cancel() // the plugins outlive a canceled operation
	for i, serving := range all {
		if serving.Err() != nil {
			t.Errorf("plugin %d has ended before all operations had", i)
		}
	}
	plugins.stop()
	for i, serving := range all {
		if serving.Err() == nil {
			t.Errorf("plugin %d goes on", i)
		}
	}

	// Several stacks at once start one.
	many, one := &countedPlugin{}, &sharedPlugins{}
	e.options.Native["civo"] = many
	var group sync.WaitGroup
	for range 20 {
		same := stack("CivoVpc", "lon1", token)
		group.Go(func() {
			if _, err := one.serve(context.Background(), e, same); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if one.stop(); len(many.started) != 1 {
		t.Errorf("%d plugins were started for stacks of the same settings", len(many.started))
	}

	// Without sharing, each has its own, and ends it.
	var none *sharedPlugins
	served, err := none.serve(context.Background(), e, stack("CivoVpc", "lon1", token))
	if err != nil || served.debugProviders != "civo:1002" {
		t.Fatalf("got %v, %v", served, err)
	}
	if served.stop(); many.started[1].Err() == nil {
		t.Error("the plugin of one stack goes on")
	}

	// One that cannot be started is tried again for the next stack.
	failing, again := &countedPlugin{failure: errors.New("no port is free")}, &sharedPlugins{}
	e.options.Native["civo"] = failing
	if _, err := again.serve(context.Background(), e, stack("CivoVpc", "lon1", token)); err == nil || !strings.Contains(err.Error(), "no port is free") {
		t.Errorf("got %v", err)
	}
	failing.failure = nil
	if served, err := again.serve(context.Background(), e, stack("CivoVpc", "lon1", token)); err != nil || served.debugProviders != "civo:1001" {
		t.Errorf("got %v, %v", served, err)
	}
	again.stop()
}
