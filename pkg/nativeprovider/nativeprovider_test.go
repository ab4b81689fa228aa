package nativeprovider

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"pgregory.net/rapid"
)

const thingType = tokens.Type("fake:index/thing:Thing")

// thing is a resource with a property of every sort.
func thing() *Resource {
	return &Resource{
		Meta: `{"schema_version":"2"}`,
		Properties: []Property{
			{Name: "name", Autoname: 20},
			{Name: "size", Required: true, Replaces: true},
			{Name: "count", Type: Int, Default: 1},
			{Name: "ratio", Type: Number},
			{Name: "on", Type: Bool},
			{Name: "zone", Computed: true},
			{Name: "password", Secret: true},
			{Name: "labels", Type: Map, Elem: &Property{}},
			{Name: "tags", Type: Set, Elem: &Property{}},
			{Name: "steps", Type: List, Elem: &Property{}},
			{Name: "rules", Type: Set, Elem: &Property{Type: Object, Fields: []Property{
				{Name: "port", Type: Int, Required: true},
				{Name: "id", Computed: true},
				{Name: "protocol", Default: "tcp"},
			}}},
			{Name: "pool", Type: Object, Fields: []Property{
				{Name: "nodes", Type: Int},
				{Name: "flavour", Replaces: true},
				{Name: "names", Type: List, Elem: &Property{}, Output: true, ChangesWith: []string{"pool.nodes"}},
			}},
			{Name: "address", Output: true},
			{Name: "key", Output: true, Secret: true},
		},
		Create: func(context.Context, *Operation, resource.PropertyMap) (string, resource.PropertyMap, error) {
			return "id-1", resource.PropertyMap{"address": resource.NewStringProperty("1.2.3.4")}, nil
		},
		Read: func(_ context.Context, _ *Operation, id string, state resource.PropertyMap) (string, resource.PropertyMap, error) {
			return id, state, nil
		},
		Update: func(_ context.Context, _ *Operation, _ string, state, _ resource.PropertyMap) (resource.PropertyMap, error) {
			return resource.PropertyMap{"address": state["address"]}, nil
		},
		Delete: func(context.Context, *Operation, string, resource.PropertyMap) error { return nil },
	}
}

func fake(adjust func(*Resource)) *Provider {
	r := thing()
	if adjust != nil {
		adjust(r)
	}
	return New(Spec{
		Name: "fake", Version: "1.0.0",
		Config: []Property{{Name: "token", Secret: true}, {Name: "retries", Type: Int}},
		Configure: func(_ context.Context, config resource.PropertyMap) (any, error) {
			if GetString(config, "token") == "" {
				return nil, errors.New("no token")
			}
			return GetString(config, "token"), nil
		},
		Resources: map[tokens.Type]*Resource{thingType: r},
	})
}

// configured is a fake provider that is ready for operations.
func configured(t *testing.T, adjust func(*Resource)) *Provider {
	t.Helper()
	p := fake(adjust)
	if _, err := p.Configure(context.Background(), plugin.ConfigureRequest{Inputs: props(map[string]any{"token": "t"})}); err != nil {
		t.Fatal(err)
	}
	return p
}

func props(m map[string]any) resource.PropertyMap { return resource.NewPropertyMapFromMap(m) }

func urn(name string) resource.URN { return resource.NewURN("s", "p", "", thingType, name) }

func TestDiff(t *testing.T) {
	t.Parallel()
	unknown := resource.MakeComputed(resource.NewStringProperty(""))
	secret := func(v any) resource.PropertyValue { return resource.MakeSecret(resource.NewPropertyValue(v)) }
	state := map[string]any{
		"id": "x", "__meta": "{}", "name": "n", "size": "s", "count": 2, "zone": "z", "address": "a", "on": false, "ratio": 0.0,
		"labels": map[string]any{"a": "1", "dots.in/key": "2"}, "tags": []any{"x", "y"}, "steps": []any{"1", "2"},
		"rules": []any{
			map[string]any{"port": 80, "id": "r1", "protocol": "tcp"}, map[string]any{"port": 443, "id": "r2", "protocol": "tcp"},
		},
		"pool": map[string]any{"nodes": 3, "flavour": "f", "names": []any{"a"}}, "password": secret("p"),
	}
	tests := []struct {
		name, reason  string
		change        map[string]any
		ignore        []string
		want, replace []string
	}{
		{name: "nothing", reason: "the same inputs plan nothing"},
		{name: "text", reason: "a plain change", change: map[string]any{"name": "m"}, want: []string{"name"}},
		{name: "replace", reason: "the table says so", change: map[string]any{"size": "l"}, want: []string{"size"}, replace: []string{"size"}},
		{name: "computed away", reason: "left to the cloud", change: map[string]any{"zone": nil}},
		{name: "computed changed", reason: "given by the program", change: map[string]any{"zone": "y"}, want: []string{"zone"}},
		{name: "zero for none", reason: "the cloud sees no difference", change: map[string]any{"on": nil, "ratio": nil}},
		{name: "set order", reason: "sets have none", change: map[string]any{"tags": []any{"y", "x"}}},
		{name: "set element", reason: "another element", change: map[string]any{"tags": []any{"y", "z"}}, want: []string{"tags"}},
		{name: "set doubles", reason: "a multiset", change: map[string]any{"tags": []any{"x", "x"}}, want: []string{"tags"}},
		{name: "list order", reason: "lists have one", change: map[string]any{"steps": []any{"2", "1"}}, want: []string{"steps"}},
		{name: "set away", reason: "removed", change: map[string]any{"tags": nil}, want: []string{"tags"}},
		{name: "set empty", reason: "removed, said with an empty list", change: map[string]any{"tags": []any{}}, want: []string{"tags"}},
		{name: "map key", reason: "path of a key with dots", change: map[string]any{"labels": map[string]any{"a": "1", "dots.in/key": "3"}},
			want: []string{`labels["dots.in/key"]`}},
		{name: "map key without a name", reason: "a path that the engine can parse", change: map[string]any{
			"labels": map[string]any{"a": "1", "dots.in/key": "2", "": "3"}}, want: []string{`labels[""]`}},
		{name: "map away", reason: "each key", change: map[string]any{"labels": nil}, want: []string{"labels.a", `labels["dots.in/key"]`}},
		{name: "rules", reason: "ids of the cloud do not count", change: map[string]any{"rules": []any{
			map[string]any{"port": 443, "protocol": "tcp"}, map[string]any{"port": 80, "protocol": "tcp"},
		}}},
		{name: "rules changed", reason: "an element differs", change: map[string]any{"rules": []any{
			map[string]any{"port": 443, "protocol": "udp"}, map[string]any{"port": 80, "protocol": "tcp"},
		}}, want: []string{"rules"}},
		{name: "nested", reason: "path into an object", change: map[string]any{"pool": map[string]any{"nodes": 4, "flavour": "f"}},
			want: []string{"pool.nodes"}},
		{name: "nested replace", reason: "a field replaces", change: map[string]any{"pool": map[string]any{"nodes": 3, "flavour": "g"}},
			want: []string{"pool.flavour"}, replace: []string{"pool.flavour"}},
		{name: "ignored", reason: "the cloud's value stays", change: map[string]any{"pool": map[string]any{"nodes": 4, "flavour": "f"}},
			ignore: []string{"pool.nodes"}},
		{name: "ignored key", reason: "one label", change: map[string]any{"labels": map[string]any{"a": "2", "dots.in/key": "3"}},
			ignore: []string{`labels["dots.in/key"]`}, want: []string{"labels.a"}},
		{name: "unknown", reason: "may change", change: map[string]any{"name": unknown}, want: []string{"name"}},
		{name: "unknown replaces", reason: "may change", change: map[string]any{"size": unknown}, want: []string{"size"}, replace: []string{"size"}},
		{name: "unknown element", reason: "may change", change: map[string]any{"tags": []any{"x", unknown}}, want: []string{"tags"}},
		{name: "secret", reason: "the value counts, not the wrapper", change: map[string]any{"password": "p", "name": secret("n")}},
		{name: "secret changed", reason: "the value counts", change: map[string]any{"password": secret("q")}, want: []string{"password"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inputs := map[string]any{
				"name": "n", "size": "s", "count": 2, "zone": "z", "on": false, "password": secret("p"), "tags": []any{"x", "y"},
				"labels": map[string]any{"a": "1", "dots.in/key": "2"}, "steps": []any{"1", "2"},
				"rules": []any{map[string]any{"port": 80, "protocol": "tcp"}, map[string]any{"port": 443, "protocol": "tcp"}},
				"pool":  map[string]any{"nodes": 3, "flavour": "f"},
			}
			for key, value := range test.change {
				inputs[key] = value
				if value == nil {
					delete(inputs, key)
				}
			}
			result, err := fake(nil).Diff(context.Background(), plugin.DiffRequest{
				URN: urn("x"), Type: thingType, ID: "x", OldOutputs: props(state), NewInputs: props(inputs), IgnoreChanges: test.ignore,
			})
			if err != nil {
				t.Fatal(err)
			}
			keys := func(k []resource.PropertyKey) []string {
				var texts []string
				for _, key := range k {
					texts = append(texts, string(key))
				}
				slices.Sort(texts)
				return texts
			}
			if diff := cmp.Diff(test.want, keys(result.ChangedKeys)); diff != "" {
				t.Errorf("%s: changed (-want +got):\n%s", test.reason, diff)
			}
			if diff := cmp.Diff(test.replace, keys(result.ReplaceKeys)); diff != "" {
				t.Errorf("%s: replaces (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

// Whatever passes the check and is recorded as it is must plan nothing afterwards.
func TestWhatIsAppliedPlansNothing(t *testing.T) {
	t.Parallel()
	p := configured(t, nil)
	text := rapid.StringMatching(`[a-z]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		program := map[string]any{"size": "s"}
		optional := map[string]*rapid.Generator[any]{
			"name":   rapid.StringMatching(`[a-z]{1,5}`).AsAny(),
			"count":  rapid.Map(rapid.IntRange(0, 3), func(n int) any { return float64(n) }),
			"on":     rapid.Bool().AsAny(),
			"zone":   text.AsAny(),
			"labels": rapid.Map(rapid.MapOf(rapid.StringMatching(`[a-z./]{1,4}`), text), func(m map[string]string) any { return StringMap(m) }),
			"tags":   rapid.Map(rapid.SliceOf(text), func(s []string) any { return Strings(s) }),
			"steps":  rapid.Map(rapid.SliceOf(text), func(s []string) any { return Strings(s) }),
		}
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range optional {
				if !yield(name) {
					return
				}
			}
		}) {
			if rapid.Bool().Draw(t, "give "+name) {
				program[name] = optional[name].Draw(t, name)
			}
		}
		ctx := context.Background()
		checked, err := p.Check(ctx, plugin.CheckRequest{URN: urn("x"), Type: thingType, News: props(program), RandomSeed: []byte("s")})
		if err != nil || len(checked.Failures) > 0 {
			t.Fatalf("check: %v %v", err, checked.Failures)
		}
		created, err := p.Create(ctx, plugin.CreateRequest{URN: urn("x"), Type: thingType, Properties: checked.Properties})
		if err != nil {
			t.Fatal(err)
		}
		diff, err := p.Diff(ctx, plugin.DiffRequest{
			URN: urn("x"), Type: thingType, ID: created.ID, OldInputs: checked.Properties, OldOutputs: created.Properties, NewInputs: checked.Properties,
		})
		if err != nil || diff.Changes != plugin.DiffNone {
			t.Fatalf("plans %v, %v", diff, err)
		}
	})
}

func TestCheckRecordsDefaultsAsTheBridgeDoes(t *testing.T) {
	t.Parallel()
	p := fake(nil)
	checked, err := p.Check(context.Background(), plugin.CheckRequest{
		URN: urn("x"), Type: thingType, RandomSeed: []byte("s"),
		News: props(map[string]any{"size": "s", "name": "n", "rules": []any{map[string]any{"port": 1}}, "pool": map[string]any{}}),
	})
	if err != nil || len(checked.Failures) > 0 {
		t.Fatal(err, checked.Failures)
	}
	want := map[string]any{
		"__defaults": []any{"count"}, "size": "s", "name": "n", "count": 1.0,
		"rules": []any{map[string]any{"__defaults": []any{"protocol"}, "port": 1.0, "protocol": "tcp"}},
		"pool":  map[string]any{"__defaults": []any{}},
	}
	if diff := cmp.Diff(want, checked.Properties.Mappable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckKeepsSecretsAndUnknowns(t *testing.T) {
	t.Parallel()
	unknown := resource.MakeComputed(resource.NewStringProperty(""))
	checked, err := fake(nil).Check(context.Background(), plugin.CheckRequest{
		URN: urn("x"), Type: thingType,
		News: resource.PropertyMap{
			"name": resource.MakeSecret(resource.NewStringProperty("n")), "size": unknown,
			"tags": resource.NewArrayProperty([]resource.PropertyValue{unknown}),
		},
	})
	if err != nil || len(checked.Failures) > 0 {
		t.Fatal(err, checked.Failures)
	}
	if !checked.Properties["name"].IsSecret() || !checked.Properties["size"].IsComputed() || !checked.Properties["tags"].ContainsUnknowns() {
		t.Errorf("checked %v", checked.Properties)
	}
	failed, err := fake(nil).Check(context.Background(), plugin.CheckRequest{
		URN: urn("x"), Type: thingType,
		News: resource.PropertyMap{"size": resource.NewStringProperty("s"), "count": resource.MakeSecret(resource.NewStringProperty("hunter2"))},
	})
	if err != nil || len(failed.Failures) != 1 || strings.Contains(failed.Failures[0].Reason, "hunter2") {
		t.Errorf("a failure must not quote a secret: %v, %v", failed.Failures, err)
	}
}

// The engine takes a failure without a property for one of the whole resource, and shows the reason alone.
func TestCheckSaysWhichPropertyIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason string
		news   map[string]any
		want   string
		says   string
	}{
		{"a property that there is not", map[string]any{"siez": "s"}, "siez", "siez: unknown property"},
		{"a property without a name", map[string]any{"": "s"}, `[""]`, `[""]: unknown property`},
		{"a field without a name", map[string]any{"pool": map[string]any{"": 1}}, `pool[""]`, `pool[""]: unknown property`},
		{"an element of a map without a name", map[string]any{"labels": map[string]any{"": 1}}, `labels[""]`, `labels[""]: expected a string`},
		{"a field of an element", map[string]any{"rules": []any{map[string]any{"port": 1, "x y": 1}}}, `rules[0]["x y"]`, `["x y"]: unknown property`},
		{"a field of an element that is missing", map[string]any{"rules": []any{map[string]any{}}}, "rules[0].port", "missing required"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			test.news["size"] = "s"
			checked, err := fake(nil).Check(context.Background(), plugin.CheckRequest{URN: urn("x"), Type: thingType, News: props(test.news)})
			if err != nil || len(checked.Failures) != 1 {
				t.Fatalf("got %v, %v, want one failure", checked.Failures, err)
			}
			failure := checked.Failures[0]
			if string(failure.Property) != test.want || !strings.Contains(failure.Reason, test.says) {
				t.Errorf("got %q: %q, want %q: %q", failure.Property, failure.Reason, test.want, test.says)
			}
			if path, err := resource.ParsePropertyPathStrict(string(failure.Property)); err != nil || pathText(path) != test.want {
				t.Errorf("the path %q is read as %v, %v", failure.Property, path, err)
			}
		})
	}
}

func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	p := configured(t, func(r *Resource) {
		r.Create = func(context.Context, *Operation, resource.PropertyMap) (string, resource.PropertyMap, error) {
			return "id-1", props(map[string]any{"key": "k", "address": "a"}), nil
		}
	})
	inputs := props(map[string]any{"size": "s", "password": "p"})
	inputs["name"] = resource.MakeSecret(resource.NewStringProperty("n"))
	created, err := p.Create(context.Background(), plugin.CreateRequest{URN: urn("x"), Type: thingType, Properties: inputs})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []resource.PropertyKey{"key", "password", "name"} {
		if !created.Properties[key].IsSecret() {
			t.Errorf("%s is not secret", key)
		}
	}
	if created.Properties["__meta"].StringValue() != `{"schema_version":"2"}` || created.Properties["address"].IsSecret() {
		t.Errorf("state %v", created.Properties)
	}
	read, err := p.Read(context.Background(), plugin.ReadRequest{
		URN: urn("x"), Type: thingType, ID: "id-1", Inputs: inputs, State: created.Properties,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []resource.PropertyKey{"key", "password", "name"} {
		if !read.Outputs[key].IsSecret() {
			t.Errorf("%s is not secret after a refresh", key)
		}
	}
	if !read.Inputs["name"].IsSecret() {
		t.Error("the input is not secret after a refresh")
	}
}

func TestReadTellsGoneFromFailed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, reason string
		err          error
		gone         bool
	}{
		{"not found", "definite", NotFound(errors.New("404")), true},
		{"wrapped", "definite, with context", errors.Wrap(NotFound(errors.New("404")), "read"), true},
		{"other", "anything else is an error", errors.New("not found, perhaps"), false},
		{"transient", "overload", Transient(errors.New("503")), false},
	}
	for _, test := range tests {
		p := configured(t, func(r *Resource) {
			r.Read = func(context.Context, *Operation, string, resource.PropertyMap) (string, resource.PropertyMap, error) {
				return "", nil, test.err
			}
		})
		read, err := p.Read(context.Background(), plugin.ReadRequest{URN: urn("x"), Type: thingType, ID: "i"})
		if gone := err == nil && read.ID == "" && read.Outputs == nil; gone != test.gone {
			t.Errorf("%s (%s): %v, %v", test.name, test.reason, read, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := fake(nil)
	checked, err := p.CheckConfig(ctx, plugin.CheckConfigRequest{News: props(map[string]any{
		"token": "t", "retries": "3", "version": "1.0.0", "__internal": map[string]any{},
	})})
	if err != nil || len(checked.Failures) > 0 {
		t.Fatal(err, checked.Failures)
	}
	if !checked.Properties["token"].IsSecret() || checked.Properties["retries"].NumberValue() != 3 || !Has(checked.Properties, "version") {
		t.Errorf("checked %v", checked.Properties)
	}
	if failed, _ := p.CheckConfig(ctx, plugin.CheckConfigRequest{News: props(map[string]any{"tokn": "t"})}); len(failed.Failures) != 1 {
		t.Errorf("an unknown key: %v", failed)
	}

	diff, err := p.DiffConfig(ctx, plugin.DiffConfigRequest{
		OldInputs: props(map[string]any{"token": "a", "version": "1"}), NewInputs: props(map[string]any{"token": "b", "retries": 1, "version": "2"}),
	})
	if err != nil || diff.Changes != plugin.DiffSome || diff.Replace() || diff.DeleteBeforeReplace || len(diff.DetailedDiff) != 2 {
		t.Errorf("a changed configuration: %v, %v", diff, err)
	}
	same, err := p.DiffConfig(ctx, plugin.DiffConfigRequest{
		OldInputs: props(map[string]any{"token": "a", "version": "1"}),
		NewInputs: resource.PropertyMap{"token": resource.MakeSecret(resource.NewStringProperty("a"))},
	})
	if err != nil || same.Changes != plugin.DiffNone {
		t.Errorf("the same configuration: %v, %v", same, err)
	}
	if _, err := p.Create(ctx, plugin.CreateRequest{URN: urn("x"), Type: thingType}); err == nil {
		t.Error("an operation without a configuration must fail")
	}
}

func TestPollUntil(t *testing.T) {
	t.Parallel()
	looks := 0
	err := PollUntil(context.Background(), Poll{What: "x", First: time.Millisecond}, func(context.Context) (bool, string, error) {
		looks++
		if looks == 2 {
			return false, "", Transient(errors.New("503"))
		}
		return looks == 4, "BUILDING", nil
	})
	if err != nil || looks != 4 {
		t.Errorf("%d looks, %v", looks, err)
	}
	failure := errors.New("broken")
	if err := PollUntil(context.Background(), Poll{}, func(context.Context) (bool, string, error) { return false, "", failure }); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}

	p := configured(t, nil)
	ctx, _, done := p.operation(context.Background(), "", 0.05, 0)
	defer done()
	err = PollUntil(ctx, Poll{What: "cluster c", First: time.Millisecond}, func(context.Context) (bool, string, error) { return false, "SCALING", nil })
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || timeout.After != 50*time.Millisecond || !strings.Contains(err.Error(), "cluster c (last seen: SCALING)") {
		t.Errorf("error %v", err)
	}

	ctx, _, done = p.operation(context.Background(), "", 0, 0)
	defer done()
	time.AfterFunc(10*time.Millisecond, func() { _ = p.SignalCancellation(context.Background()) })
	start := time.Now()
	err = PollUntil(ctx, Poll{What: "x", First: time.Hour, Max: time.Hour}, func(context.Context) (bool, string, error) { return false, "", nil })
	if !errors.Is(err, ErrCancelled) || time.Since(start) > 10*time.Second {
		t.Errorf("error %v after %s", err, time.Since(start))
	}
}

// engine records the log lines that a plugin writes.
type engine struct {
	pulumirpc.UnimplementedEngineServer
	mu    sync.Mutex
	lines []*pulumirpc.LogRequest
}

func (e *engine) Log(_ context.Context, r *pulumirpc.LogRequest) (*emptypb.Empty, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, r)
	return &emptypb.Empty{}, nil
}

func dial(t *testing.T, port int) pulumirpc.ResourceProviderClient {
	t.Helper()
	connection, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return pulumirpc.NewResourceProviderClient(connection)
}

func TestServe(t *testing.T) {
	t.Parallel()
	p := fake(func(r *Resource) {
		r.Create = func(_ context.Context, op *Operation, inputs resource.PropertyMap) (string, resource.PropertyMap, error) {
			op.Status("working")
			return "id", resource.PropertyMap{"address": resource.NewStringProperty(op.Client.(string))}, nil
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	port, err := p.Serve(ctx)
	if err != nil {
		t.Fatal(err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &engine{}
	server := grpc.NewServer()
	pulumirpc.RegisterEngineServer(server, log)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	configure := func(c pulumirpc.ResourceProviderClient, token string) {
		t.Helper()
		args, err := plugin.MarshalProperties(props(map[string]any{"token": token}), plugin.MarshalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Configure(ctx, &pulumirpc.ConfigureRequest{Args: args, AcceptSecrets: true}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(c pulumirpc.ResourceProviderClient) (string, error) {
		t.Helper()
		inputs, err := plugin.MarshalProperties(props(map[string]any{"size": "s"}), plugin.MarshalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Create(ctx, &pulumirpc.CreateRequest{Urn: string(urn("x")), Properties: inputs})
		if err != nil {
			return "", err
		}
		return response.Properties.Fields["address"].GetStringValue(), nil
	}

	// Two providers of one program, each with its own account.
	one, two := dial(t, port), dial(t, port)
	if _, err := one.Attach(ctx, &pulumirpc.PluginAttach{Address: listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	configure(one, "first")
	if got, err := create(dial(t, port)); err != nil || got != "first" {
		t.Errorf("a connection that comes back unconfigured: %q, %v", got, err)
	}
	configure(two, "second")
	for client, want := range map[pulumirpc.ResourceProviderClient]string{one: "first", two: "second"} {
		if got, err := create(client); err != nil || got != want {
			t.Errorf("made with %q, want %q: %v", got, want, err)
		}
	}
	if _, err := create(dial(t, port)); err == nil {
		t.Error("with two configurations, a connection without one cannot know which is meant")
	}
	log.mu.Lock()
	if len(log.lines) == 0 || log.lines[0].Message != "working" || !log.lines[0].Ephemeral {
		t.Errorf("log %v", log.lines)
	}
	log.mu.Unlock()

	schema, err := one.GetSchema(ctx, &pulumirpc.GetSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var decoded packageSchema
	if err := json.Unmarshal([]byte(schema.Schema), &decoded); err != nil {
		t.Fatal(err)
	}
	declared := decoded.Resources[string(thingType)]
	if diff := cmp.Diff([]string{"size"}, declared.RequiredInputs); diff != "" {
		t.Errorf("required inputs (-want +got):\n%s", diff)
	}
	if _, output := declared.InputProperties["address"]; output || !declared.Properties["key"].Secret {
		t.Errorf("schema %+v", declared)
	}
	if info, err := one.GetPluginInfo(ctx, &emptypb.Empty{}); err != nil || info.Version != "1.0.0" {
		t.Errorf("plugin info %v, %v", info, err)
	}

	cancel()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		connection, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		if err != nil {
			break
		}
		_ = connection.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server goes on after its context ended")
		}
	}
}
