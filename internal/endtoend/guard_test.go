package endtoend

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
	civoplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
)

// officialLike is a Civo plugin that, as the official one, does not know the function by which ours can be told.
type officialLike struct{ plugin.Provider }

func (officialLike) Invoke(context.Context, plugin.InvokeRequest) (plugin.InvokeResponse, error) {
	return plugin.InvokeResponse{}, errors.New("unknown function")
}

func (officialLike) Attach(string) error { return nil }

// With the official Civo plugin, a change that it is known to crash on is refused in the preview, and says how to go on.
func TestOfficialCivoPluginIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cancel := make(chan bool)
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterResourceProviderServer(server, plugin.NewProviderServer(officialLike{civoplugin.New("2.4.8")}))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(cancel) })
	w.env["PULUMI_DEBUG_PROVIDERS"] = fmt.Sprintf("civo:%d", handle.Port)

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

var _ plugin.Provider = (*nativeprovider.Provider)(nil)
