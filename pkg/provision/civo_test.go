package provision

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// emulatedCivo is an engine with the modules and the native plugin of Civo, on the emulated cloud.
type emulatedCivo struct {
	*Engine
	options Options
	cloud   *civo.Cloud
	faults  *fault.Injector
	configs ProviderConfigs
}

func newEmulatedCivo(t *testing.T, intercept func(http.ResponseWriter, *http.Request, http.Handler), plan fault.Plan) *emulatedCivo {
	t.Helper()
	cli, err := pulumicli.Find(t.Context(), pulumicli.Options{})
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	c := &emulatedCivo{}
	if c.cloud, c.faults, err = fault.New(civo.New, emulator.Options{Token: "token", Intercept: intercept}, plan); err != nil {
		t.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", c.cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	c.configs = ProviderConfigs{Civo: &civov1.CivoProviderConfig{ApiToken: "token", ApiEndpoint: server.URL()}}
	state, err := OpenLocalState(filepath.Join(t.TempDir(), "state"), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	c.options = Options{
		CLI: cli, State: state, Plugins: Native, Native: map[string]NativePlugin{kinds.Civo: nativecivo.New("2.4.8")},
		Modules: func(kinds.Kind) (Module, bool) {
			return func(ctx *pulumi.Context, stackInput proto.Message) error { return modules.Resources(ctx, stackInput) }, true
		},
	}
	if c.Engine, err = New(c.options); err != nil {
		t.Fatal(err)
	}
	return c
}

// stack is the stack of one manifest.
func (c *emulatedCivo) stack(t *testing.T, m *manifest.Manifest) Stack {
	t.Helper()
	set, err := c.NewSet([]*manifest.Manifest{m}, c.configs)
	if err != nil {
		t.Fatal(err)
	}
	stack, err := set.stack(t.Context(), set.Members()[0])
	if err != nil {
		t.Fatal(err)
	}
	return stack
}

// impatient gives the plugin less time: the modules leave it to the plugin.
func impatient(name string) pulumi.ResourceTransformation {
	return func(args *pulumi.ResourceTransformationArgs) *pulumi.ResourceTransformationResult {
		if args.Name != name {
			return nil
		}
		return &pulumi.ResourceTransformationResult{
			Props: args.Props, Opts: append(args.Opts, pulumi.Timeouts(&pulumi.CustomTimeouts{Create: "3s", Update: "3s"})),
		}
	}
}

// TestTimeout has a cluster that never becomes ready: the update fails when its time is over, the cluster is recorded, and the next
// update goes on with it.
func TestTimeout(t *testing.T) {
	t.Parallel()
	c := newEmulatedCivo(t, nil, fault.Plan{Faults: []fault.Fault{
		{Kind: fault.Stuck, Route: "POST /v2/kubernetes/clusters", Count: 1},
	}})
	var network string
	for _, n := range c.cloud.Networks() {
		if n.Region == "FRA1" {
			network = n.ID
		}
	}
	stack := c.stack(t, cluster(t, "main", "acme", "{value: "+network+"}"))
	up := func() (*Result, error) { return c.up(t.Context(), stack, impatient("cluster")) }
	for _, attempt := range []string{"create", "go on"} {
		_, err := up()
		var failure *Error
		if !errors.As(err, &failure) || !strings.Contains(failure.Message, "timed out after 3s") {
			t.Fatalf("%s: got error %v, want one that says that the time is over", attempt, err)
		}
		backend, err := url.Parse(c.options.State.BackendURL)
		if err != nil {
			t.Fatal(err)
		}
		state, err := os.ReadFile(filepath.Join(backend.Path, ".pulumi", "stacks", "civokubernetescluster", "main.json"))
		for _, part := range []string{`"id":"` + c.cloud.Clusters()[0].ID + `"`, "timed out after 3s"} {
			if err != nil || !strings.Contains(string(state), part) {
				t.Errorf("%s: the state does not have %s: error %v", attempt, part, err)
			}
		}
	}
	if err := c.faults.Lift(); err != nil {
		t.Fatal(err)
	}
	result, err := up()
	if err != nil {
		t.Fatal(err)
	}
	if result.Changes[OpCreate]+result.Changes[OpReplace] != 0 {
		t.Errorf("the next update did not go on with the cluster: %v", result.Changes)
	}
	if output := result.Outputs["status"]; output.Value != "ACTIVE" {
		t.Errorf("the cluster is %v", output.Value)
	}
	if got := c.cloud.Count("POST", "/v2/kubernetes/clusters"); got != 1 || len(c.cloud.Clusters()) != 1 {
		t.Errorf("%d clusters were asked for, and there are %d", got, len(c.cloud.Clusters()))
	}
	result, err = up()
	if err != nil || result.Changed() {
		t.Errorf("once more: error %v, changes %v", err, result.Changes)
	}
}

// TestDestroyOfWhatIsNotRecorded destroys networks that a run made and could not write down.
func TestDestroyOfWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	var strike atomic.Pointer[func(w http.ResponseWriter, r *http.Request, next http.Handler)]
	c := newEmulatedCivo(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if struck := strike.Load(); struck != nil {
			(*struck)(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}, fault.Plan{})
	made := func() (labels []string) {
		for _, network := range c.cloud.Networks() {
			if !network.Default {
				labels = append(labels, network.Label)
			}
		}
		return labels
	}
	isCreate := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Path == "/v2/networks" }

	// The engine is killed when the cloud has answered.
	cli, _ := c.options.CLI.(*pulumicli.CLI)
	mortal, kill := *cli, make(chan struct{})
	mortal.Kill = kill
	options := c.options
	options.CLI = &mortal
	dying, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	killer := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if isCreate(r) {
			close(kill)
		}
	}
	stack := c.stack(t, vpc(t, "main", "acme-net", "fra1"))
	strike.Store(&killer)
	_, err = dying.Up(t.Context(), stack)
	if strike.Store(nil); err == nil || len(made()) != 1 {
		t.Fatalf("error %v, networks %v; want one of a run that was killed", err, made())
	}
	if result, err := c.Destroy(t.Context(), stack); err != nil || len(made()) != 0 {
		t.Errorf("destroy after a kill: error %v, result %+v, networks %v; want none", err, result, made())
	}

	// The answer is lost, and the cloud does not answer again in time: the engine knows of nothing.
	var lost atomic.Bool
	loser := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if isCreate(r) && lost.CompareAndSwap(false, true) {
			next.ServeHTTP(discard{}, r)
		}
		if lost.Load() {
			emulator.DropConnection(r)
			return
		}
		next.ServeHTTP(w, r)
	}
	strike.Store(&loser)
	_, err = c.up(t.Context(), stack, impatient("network"))
	if strike.Store(nil); err == nil || len(made()) != 1 {
		t.Fatalf("error %v, networks %v; want one of which the answer was lost", err, made())
	}
	if result, err := c.Destroy(t.Context(), stack); err != nil || len(made()) != 0 {
		t.Errorf("destroy after a lost answer: error %v, result %+v, networks %v; want none", err, result, made())
	}
	if got := c.cloud.Count("POST", "/v2/networks"); got != 2 {
		t.Errorf("%d networks were asked for, want 2: a destroy makes none", got)
	}
}

// discard is where an answer goes that is lost.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
