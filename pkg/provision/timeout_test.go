package provision

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	nativecivo "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
)

// TestTimeout has a cluster that never becomes ready: the update fails when its time is over, the cluster is recorded, and the next
// update goes on with it.
func TestTimeout(t *testing.T) {
	t.Parallel()
	cli, err := pulumicli.Find(t.Context(), pulumicli.Options{})
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	cloud, faults, err := fault.New(civo.New, emulator.Options{Token: "token"}, fault.Plan{Faults: []fault.Fault{
		{Kind: fault.Stuck, Route: "POST /v2/kubernetes/clusters", Count: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	state, err := OpenLocalState(filepath.Join(t.TempDir(), "state"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	var network string
	for _, n := range cloud.Networks() {
		if n.Region == "FRA1" {
			network = n.ID
		}
	}
	engine, err := New(Options{
		CLI: cli, State: state, Plugins: Native, Native: map[string]NativePlugin{kinds.Civo: nativecivo.New("2.4.8")},
		Modules: func(kinds.Kind) (Module, bool) {
			return func(ctx *pulumi.Context, stackInput proto.Message) error { return modules.Resources(ctx, stackInput) }, true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := engine.NewSet([]*manifest.Manifest{cluster(t, "main", "acme", "{value: "+network+"}")}, ProviderConfigs{
		Civo: &civov1.CivoProviderConfig{ApiToken: "token", ApiEndpoint: server.URL()},
	})
	if err != nil {
		t.Fatal(err)
	}
	// The modules leave timeouts to the plugin; this one is shorter.
	impatient := func(args *pulumi.ResourceTransformationArgs) *pulumi.ResourceTransformationResult {
		if args.Name != "cluster" {
			return nil
		}
		return &pulumi.ResourceTransformationResult{
			Props: args.Props, Opts: append(args.Opts, pulumi.Timeouts(&pulumi.CustomTimeouts{Create: "3s", Update: "3s"})),
		}
	}
	up := func(ctx context.Context) (*Result, error) {
		stack, err := set.stack(ctx, set.Members()[0])
		if err != nil {
			t.Fatal(err)
		}
		return engine.up(ctx, stack, impatient)
	}

	for _, attempt := range []string{"create", "go on"} {
		_, err = up(t.Context())
		var failure *Error
		if !errors.As(err, &failure) || !strings.Contains(failure.Message, "timed out after 3s") {
			t.Fatalf("%s: got error %v, want one that says that the time is over", attempt, err)
		}
	}
	if err := faults.Lift(); err != nil {
		t.Fatal(err)
	}
	result, err := up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.Changes[OpCreate]+result.Changes[OpReplace] != 0 {
		t.Errorf("the next update did not go on with the cluster: %v", result.Changes)
	}
	if output := result.Outputs["status"]; output.Value != "ACTIVE" {
		t.Errorf("the cluster is %v", output.Value)
	}
	if got := cloud.Count("POST", "/v2/kubernetes/clusters"); got != 1 || len(cloud.Clusters()) != 1 {
		t.Errorf("%d clusters were asked for, and there are %d", got, len(cloud.Clusters()))
	}
	result, err = up(t.Context())
	if err != nil || result.Changed() {
		t.Errorf("once more: error %v, changes %v", err, result.Changes)
	}
}
