package digitalocean

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/plantonhq/project-planton/pkg/emulator"
	emulated "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
)

const testToken = "dop_v1_token-of-the-tests"

// props is what a program gives, or what a state holds, in plain Go.
type props = map[string]any

// world is an emulated cloud and the plugin in front of it, reached over gRPC as the engine does.
type world struct {
	cloud    *emulated.Cloud
	url      string
	provider plugin.Provider

	mu        sync.Mutex
	intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// newWorld starts a cloud in which everything takes no time.
func newWorld(t *testing.T) *world { return newWorldAt(t, 0) }

// newWorldAt starts a cloud whose clock runs at the given scale.
func newWorldAt(t *testing.T, timeScale float64) *world {
	t.Helper()
	w := &world{}
	cloud, err := emulated.New(emulator.Options{Token: testToken, TimeScale: timeScale, Intercept: w.serve})
	if err != nil {
		t.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	w.cloud, w.url = cloud, server.URL()
	w.provider = connect(t, props{"token": testToken, "apiEndpoint": server.URL(),
		"httpRetryMax": 2, "httpRetryWaitMin": 0.001, "httpRetryWaitMax": 0.01})
	return w
}

func (w *world) serve(out http.ResponseWriter, r *http.Request, next http.Handler) {
	w.mu.Lock()
	intercept := w.intercept
	w.mu.Unlock()
	if intercept == nil {
		next.ServeHTTP(out, r)
		return
	}
	intercept(out, r, next)
}

// fault lets f answer requests in the cloud's place, until the next call; nil ends it.
func (w *world) fault(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intercept = f
}

// refuse answers every request of that method whose path contains part with a status, as the API words its errors.
func (w *world) refuse(method, part string, code int, id string) {
	w.fault(func(out http.ResponseWriter, r *http.Request, next http.Handler) {
		if (method == "" || r.Method == method) && strings.Contains(r.URL.Path, part) {
			answerError(out, code, id)
			return
		}
		next.ServeHTTP(out, r)
	})
}

func answerError(out http.ResponseWriter, code int, id string) {
	out.Header().Set("Content-Type", "application/json; charset=utf-8")
	out.WriteHeader(code)
	_, _ = fmt.Fprintf(out, `{"id":%q,"message":"refused by the test"}`, id)
}

// sent are the requests that were answered since the last call of forget, "METHOD path", GETs left out.
func (w *world) sent() []string {
	var out []string
	for _, r := range w.cloud.Requests() {
		if r.Method != http.MethodGet {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// body is the body of the last request of that method whose path ends so.
func (w *world) body(t *testing.T, method, suffix string) string {
	t.Helper()
	requests := w.cloud.Requests()
	for _, r := range slices.Backward(requests) {
		if r.Method == method && strings.HasSuffix(r.Path, suffix) {
			return string(r.Body)
		}
	}
	t.Fatalf("no %s of %s was sent", method, suffix)
	return ""
}

func (w *world) count(method, part string) int {
	n := 0
	for _, r := range w.cloud.Requests() {
		if r.Method == method && strings.Contains(r.Path, part) {
			n++
		}
	}
	return n
}

// connect serves the plugin, and returns a client that speaks gRPC with it and has configured it.
func connect(t *testing.T, config props) plugin.Provider {
	t.Helper()
	provider := dial(t)
	if err := configure(t, provider, config); err != nil {
		t.Fatal(err)
	}
	return provider
}

func configure(t *testing.T, provider plugin.Provider, config props) error {
	typ, name, id := tokens.Type("pulumi:providers:digitalocean"), "default", resource.ID("d0d0")
	urn := resource.NewURN("dev", "test", "", typ, name)
	_, err := provider.Configure(t.Context(), plugin.ConfigureRequest{
		URN: &urn, Name: &name, Type: &typ, ID: &id, Inputs: propertyMap(config),
	})
	return err
}

func dial(t *testing.T) plugin.Provider {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	port, err := New("4.57.0").Serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return plugin.NewProviderWithClient(nil, pulumirpc.NewResourceProviderClient(connection), false)
}

// thing is one resource of a stack, as the engine keeps it.
type thing struct {
	*world
	t       *testing.T
	typ     tokens.Type
	urn     resource.URN
	timeout float64 // the custom timeout in seconds: patience, unless the test says otherwise
	ignore  []string

	id       resource.ID
	inputs   resource.PropertyMap
	state    resource.PropertyMap
	unready  bool // the last operation left it unfinished
	replaced bool // the last plan replaced it
	deleted  bool // ... and deleted it first
}

// patience bounds an operation, in seconds: one that waits for what never comes fails instead of hanging, and says what it waits for.
const patience = 60

func (w *world) thing(t *testing.T, typ tokens.Type, name string) *thing {
	return &thing{world: w, t: t, typ: typ, urn: resource.NewURN("dev", "test", "", typ, name), timeout: patience}
}

func propertyMap(p props) resource.PropertyMap { return resource.NewPropertyMapFromMap(p) }

// check validates what a program gives.
func (o *thing) check(program props) (resource.PropertyMap, []plugin.CheckFailure) {
	o.t.Helper()
	checked, err := o.provider.Check(o.t.Context(), plugin.CheckRequest{
		URN: o.urn, Name: o.urn.Name(), Type: o.typ, Olds: o.inputs, News: propertyMap(program), AllowUnknowns: true,
		RandomSeed: []byte("0123456789abcdef0123456789abcdef"),
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return checked.Properties, checked.Failures
}

// plan compares what a program gives with the state, and previews an update, as the engine does.
func (o *thing) plan(program props) (plugin.DiffResult, error) {
	o.t.Helper()
	inputs, failures := o.check(program)
	if len(failures) > 0 {
		o.t.Fatalf("check: %+v", failures)
	}
	diff, err := o.provider.Diff(o.t.Context(), plugin.DiffRequest{
		URN: o.urn, Name: o.urn.Name(), Type: o.typ, ID: o.id, OldInputs: o.inputs, OldOutputs: o.state, NewInputs: inputs,
		AllowUnknowns: true, IgnoreChanges: o.ignore,
	})
	if err == nil && diff.Changes == plugin.DiffSome && len(diff.ReplaceKeys) == 0 {
		_, err = o.provider.Update(o.t.Context(), plugin.UpdateRequest{
			URN: o.urn, Name: o.urn.Name(), Type: o.typ, ID: o.id, OldInputs: o.inputs, OldOutputs: o.state, NewInputs: inputs,
			IgnoreChanges: o.ignore, Preview: true,
		})
	}
	return diff, err
}

// up does what the engine does for a resource of a program, and returns what it did: create, update, same or replace.
func (o *thing) up(program props) (string, error) { return o.upWithin(o.t.Context(), program) }

func (o *thing) upWithin(ctx context.Context, program props) (string, error) {
	o.t.Helper()
	inputs, failures := o.check(program)
	if len(failures) > 0 {
		return "check", fmt.Errorf("%s", failures[0].Reason)
	}
	if o.id == "" {
		return "create", o.create(ctx, inputs)
	}
	diff, err := o.plan(program)
	if err != nil {
		return "diff", err
	}
	if len(diff.ReplaceKeys) > 0 {
		o.replaced, o.deleted = true, diff.DeleteBeforeReplace
		return "replace", nil
	}
	if diff.Changes != plugin.DiffSome && !o.unready {
		return "same", nil
	}
	response, err := o.provider.Update(ctx, plugin.UpdateRequest{
		URN: o.urn, Name: o.urn.Name(), Type: o.typ, ID: o.id, OldInputs: o.inputs, OldOutputs: o.state, NewInputs: inputs,
		Timeout: o.timeout, IgnoreChanges: o.ignore,
	})
	o.unready = response.Status == resource.StatusPartialFailure
	if err == nil || o.unready {
		o.inputs, o.state = inputs, response.Properties
	}
	return "update", err
}

func (o *thing) create(ctx context.Context, inputs resource.PropertyMap) error {
	response, err := o.provider.Create(ctx, plugin.CreateRequest{
		URN: o.urn, Name: o.urn.Name(), Type: o.typ, Properties: inputs, Timeout: o.timeout,
	})
	o.unready = response.Status == resource.StatusPartialFailure
	if err == nil || o.unready {
		o.id, o.inputs, o.state = response.ID, inputs, response.Properties
	}
	return err
}

// mustUp is up that must do what is said.
func (o *thing) mustUp(want string, program props) {
	o.t.Helper()
	did, err := o.up(program)
	if err != nil {
		o.t.Fatalf("%s: %v", did, err)
	}
	if did != want {
		diff, _ := o.plan(program)
		o.t.Fatalf("did %s, want %s; changes %v", did, want, diff.ChangedKeys)
	}
}

// refresh reads the object. It reports whether it is still there.
func (o *thing) refresh() (bool, error) {
	o.t.Helper()
	read, err := o.provider.Read(o.t.Context(), plugin.ReadRequest{
		URN: o.urn, Name: o.urn.Name(), Type: o.typ, ID: o.id, Inputs: o.inputs, State: o.state, Timeout: o.timeout,
	})
	partly := read.Status == resource.StatusPartialFailure
	if err != nil && !partly {
		return true, err
	}
	if read.Outputs == nil {
		return false, nil
	}
	o.id, o.inputs, o.state, o.unready = read.ID, read.Inputs, read.Outputs, partly
	return true, err
}

func (o *thing) mustRefresh() {
	o.t.Helper()
	if there, err := o.refresh(); err != nil || !there {
		o.t.Fatalf("refresh: there %v, error %v", there, err)
	}
}

// adopt reads an object that the engine does not know yet.
func (o *thing) adopt(id string) error {
	o.t.Helper()
	o.id, o.inputs, o.state = resource.ID(id), nil, nil
	there, err := o.refresh()
	if err == nil && !there {
		return fmt.Errorf("object %s does not exist", id)
	}
	return err
}

func (o *thing) destroy() error {
	o.t.Helper()
	_, err := o.provider.Delete(o.t.Context(), plugin.DeleteRequest{
		URN: o.urn, Name: o.urn.Name(), Type: o.typ, ID: o.id, Inputs: o.inputs, Outputs: o.state, Timeout: o.timeout,
	})
	return err
}

// changes are the paths that a plan names, sorted.
func changes(diff plugin.DiffResult) []string {
	var out []string
	for _, key := range diff.ChangedKeys {
		out = append(out, string(key))
	}
	slices.Sort(out)
	return out
}

// get is a value of the state by its path, in plain Go and out of its secret.
func (o *thing) get(path string) any {
	o.t.Helper()
	parsed, err := resource.ParsePropertyPath(path)
	if err != nil {
		o.t.Fatal(err)
	}
	value, _ := parsed.Get(resource.NewProperty(plainState(o.state)))
	return value.Mappable()
}

func plainState(m resource.PropertyMap) resource.PropertyMap {
	var plain func(v resource.PropertyValue) resource.PropertyValue
	plain = func(v resource.PropertyValue) resource.PropertyValue {
		switch {
		case v.IsSecret():
			return plain(v.SecretValue().Element)
		case v.IsArray():
			out := []resource.PropertyValue{}
			for _, item := range v.ArrayValue() {
				out = append(out, plain(item))
			}
			return resource.NewProperty(out)
		case v.IsObject():
			return resource.NewProperty(plainState(v.ObjectValue()))
		}
		return v
	}
	out := resource.PropertyMap{}
	for key, value := range m {
		out[key] = plain(value)
	}
	return out
}

// with is a program with some properties given otherwise; nil takes one away.
func with(program props, changes props) props {
	out := maps.Clone(program)
	for key, value := range changes {
		if value == nil {
			delete(out, key)
			continue
		}
		out[key] = value
	}
	return out
}

// pool is a program's nodePool with some properties given otherwise.
func withPool(program props, changes props) props {
	return with(program, props{"nodePool": with(program["nodePool"].(props), changes)})
}

func simpleCluster() props {
	return props{
		"name": "prod", "region": "nyc1", "version": "1.31.1-do.4",
		"nodePool": props{"name": "default", "size": "s-2vcpu-4gb", "nodeCount": 2},
	}
}

func simplePool(clusterID string) props {
	return props{"clusterId": clusterID, "name": "extra", "size": "s-2vcpu-4gb", "nodeCount": 1}
}

func (w *world) onlyCluster(t *testing.T) emulated.Cluster {
	t.Helper()
	clusters := w.cloud.Clusters()
	if len(clusters) != 1 {
		t.Fatalf("%d clusters, want 1", len(clusters))
	}
	return clusters[0]
}

// soon is a context that ends before a test gets dull.
func soon(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func wantErr(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), testToken) {
		t.Errorf("error %q tells the token", err)
	}
}
