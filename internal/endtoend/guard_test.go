package endtoend

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
	civoplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	digitaloceanplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
)

// officialLike is a plugin that does what the official one is known to do where the modules guard against it: see
// testdata/official-plugins.yaml for the sources. The rest it does as the native one does.
type officialLike struct {
	plugin.Provider
	// outage makes every read fail; a cluster of Civo is then taken for gone.
	outage atomic.Bool
	// leavesOut changes the inputs of an update to what the official plugin would send.
	leavesOut func(old, newInputs resource.PropertyMap) resource.PropertyMap
}

// Invoke does not know the function by which ours can be told, and speaks of a missing cluster in civogo's words.
func (p *officialLike) Invoke(ctx context.Context, request plugin.InvokeRequest) (plugin.InvokeResponse, error) {
	if strings.HasSuffix(string(request.Tok), ":getPlugin") {
		return plugin.InvokeResponse{}, errors.New("unknown function")
	}
	response, err := p.Provider.Invoke(ctx, request)
	if err != nil && strings.Contains(err.Error(), "has no kubernetes cluster of the name") {
		return response, errors.New("ZeroMatchesError: unable to find it, zero matches")
	}
	return response, err
}

func (p *officialLike) Read(ctx context.Context, request plugin.ReadRequest) (plugin.ReadResponse, error) {
	if p.outage.Load() {
		return plugin.ReadResponse{}, nil
	}
	return p.Provider.Read(ctx, request)
}

func (p *officialLike) Update(ctx context.Context, request plugin.UpdateRequest) (plugin.UpdateResponse, error) {
	if p.leavesOut != nil {
		request.NewInputs = p.leavesOut(request.OldOutputs, request.NewInputs)
	}
	return p.Provider.Update(ctx, request)
}

func (*officialLike) Attach(string) error { return nil }

// SignalCancellation does nothing: one instance answers all runs, and the engine cancels the plugins of a run that failed.
func (*officialLike) SignalCancellation(context.Context) error { return nil }

// serve makes the engine take the plugin for the cloud of that name.
func (p *officialLike) serve(w *world, cloud string) {
	w.t.Helper()
	cancel := make(chan bool)
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterResourceProviderServer(server, plugin.NewProviderServer(p))
			return nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { close(cancel) })
	w.env["PULUMI_DEBUG_PROVIDERS"] = fmt.Sprintf("%s:%d", cloud, handle.Port)
}

// With the official Civo plugin, a change that it is known to crash on is refused in the preview, and says how to go on.
func TestOfficialCivoPluginIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	(&officialLike{Provider: civoplugin.New("2.4.8")}).serve(w, "civo")

	network := w.civoNetwork("net")
	cluster := w.civoCluster("main", network, w.civoFirewall("fw", network))
	text := strings.Replace(civoPoolManifest, "CLUSTER", cluster, 1)
	s := w.stack(text)
	s.up()
	s.expectSettled()
	s.target = parse(t, strings.Replace(text, "nodeCount: 3", "nodeCount: 5", 1))
	for name, run := range map[string]func() (string, error){
		"preview": func() (string, error) { _, log, err := s.tryPreview(); return log, err },
		"up":      func() (string, error) { _, log, err := s.tryUp(); return log, err },
	} {
		log, err := run()
		if err == nil {
			t.Fatalf("%s was not refused\n%s", name, log)
		}
		for _, part := range []string{"node_count", "native"} {
			if !strings.Contains(log+err.Error(), part) {
				t.Errorf("%s: the refusal does not say %q:\n%s", name, part, log)
			}
		}
	}
	if pool, _ := w.clusterNamed("main").Pool("app"); pool.Count != 3 {
		t.Errorf("the pool has %d nodes, want 3 still", pool.Count)
	}
}

// The official Civo plugin drops a cluster from the state when a refresh falls into an outage. The next up makes no second
// one, and says how to go on; which works.
func TestOfficialCivoPluginMakesNoSecondCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	like := &officialLike{Provider: civoplugin.New("2.4.8")}
	like.serve(w, "civo")

	network := w.civoNetwork("net")
	manifest := strings.Replace(civoClusterManifest, "NETWORK", network, 1)
	manifest = manifest[:strings.Index(manifest, "  additionalNodePools")] + "  firewall:\n    value: " + w.civoFirewall("fw", network) + "\n"
	s := w.stack(manifest)
	s.up()
	id := w.clusterNamed("prod-k8s").ID

	like.outage.Store(true)
	if diff := cmp.Diff(changes{"delete": 1}, s.refresh()); diff != "" {
		t.Fatalf("the plugin of this test does not drop the cluster: -want +got:\n%s", diff)
	}
	like.outage.Store(false)
	_, log, err := s.tryUp()
	if err == nil {
		t.Fatalf("a second cluster was not refused\n%s", log)
	}
	for _, part := range []string{id, "refused", "pulumi import civo:index/kubernetesCluster:KubernetesCluster cluster <id>"} {
		if !strings.Contains(log, part) {
			t.Errorf("the refusal does not say %q:\n%s", part, log)
		}
	}
	if clusters := w.civo.Count("POST", "/v2/kubernetes/clusters"); clusters != 1 {
		t.Errorf("%d clusters were asked for, want 1", clusters)
	}

	s.importResource("civo:index/kubernetesCluster:KubernetesCluster", "cluster", id, "civo")
	s.up()
	s.expectSettled()
	if again := w.clusterNamed("prod-k8s"); again.ID != id {
		t.Errorf("the cluster is %s, want %s still", again.ID, id)
	}
}

// What the official DigitalOcean plugin leaves out of its requests is told in the preview and in every up, not only once.
func TestOfficialDigitalOceanPluginLeavesOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	(&officialLike{
		Provider: digitaloceanplugin.New("4.57.0"),
		leavesOut: func(old, newInputs resource.PropertyMap) resource.PropertyMap {
			sent := newInputs.Copy()
			if tags := sent["tags"]; !tags.IsArray() || len(tags.ArrayValue()) == 0 {
				sent["tags"] = old["tags"]
			}
			return sent
		},
	}).serve(w, "digitalocean")
	cluster := w.doksCluster("main")
	text := strings.Replace(digitaloceanPoolManifest, "CLUSTER", cluster, 1)
	s := w.stack(text)
	s.up()
	s.target = parse(t, strings.Replace(text, "  tags: [app]\n", "", 1))
	const warning = "spec.tags: the removal of the node pool's last tag is not applied"
	for _, run := range []string{"first", "second"} {
		if _, log, err := s.tryPreview(); err != nil || !strings.Contains(log, warning) {
			t.Errorf("%s preview: no warning (%v):\n%s", run, err, log)
		}
		if _, log, err := s.tryUp(); err != nil || !strings.Contains(log, warning) {
			t.Errorf("%s up: no warning (%v):\n%s", run, err, log)
		}
	}
	if tags := userTags(w.doksNamed("main").Pool("app").Tags); tags != "app" {
		t.Fatalf("the plugin of this test does not leave the tag: %q", tags)
	}
}

var _ plugin.Provider = (*nativeprovider.Provider)(nil)
