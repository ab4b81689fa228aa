package civo

import (
	"context"
	"fmt"
	"net/http"
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
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/plantonhq/project-planton/pkg/emulator"
	emulated "github.com/plantonhq/project-planton/pkg/emulator/civo"
)

const testToken = "civo-test-token"

// bench is an emulated cloud, the plugin on a real gRPC server, and a client that speaks to it as the engine does.
type bench struct {
	t      *testing.T
	cloud  *emulated.Cloud
	url    string
	client pulumirpc.ResourceProviderClient

	mu        sync.Mutex
	intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

type benchOptions struct {
	timeScale float64
	config    resource.PropertyMap
	// unconfigured leaves Configure to the test.
	unconfigured bool
}

func newBench(t *testing.T, options benchOptions) *bench {
	t.Helper()
	b := &bench{t: t}
	cloud, err := emulated.New(emulator.Options{
		Token: testToken, TimeScale: options.timeScale,
		Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			b.mu.Lock()
			intercept := b.intercept
			b.mu.Unlock()
			if intercept == nil {
				next.ServeHTTP(w, r)
				return
			}
			intercept(w, r, next)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	b.cloud, b.url = cloud, server.URL()

	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	provider := newProvider("1.2.3", func(c *client) {
		c.http = &http.Client{Transport: retrying(c.token, 3, time.Millisecond, time.Second)}
	})
	port, err := provider.Serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	b.client = pulumirpc.NewResourceProviderClient(connection)

	if !options.unconfigured {
		config := resource.PropertyMap{
			"token": resource.NewStringProperty(testToken), "apiEndpoint": resource.NewStringProperty(b.url),
			"region": resource.NewStringProperty("LON1"),
		}
		for key, value := range options.config {
			config[key] = value
		}
		if err := b.configure(config); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) setIntercept(intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.intercept = intercept
}

func (b *bench) configure(config resource.PropertyMap) error {
	_, err := b.client.Configure(context.Background(), &pulumirpc.ConfigureRequest{
		Args: marshal(b.t, config), AcceptSecrets: true, AcceptResources: true,
	})
	return err
}

// object is one resource as the engine knows it.
type object struct {
	b      *bench
	typ    tokens.Type
	name   string
	id     string
	inputs resource.PropertyMap
	state  resource.PropertyMap
	// unfinished: the last operation ended in an initialisation error.
	unfinished bool
	// timeout is the custom timeout in seconds: patience, unless the test says otherwise.
	timeout       float64
	ignoreChanges []string
}

// patience bounds an operation, in seconds: one that waits for what never comes fails instead of hanging, and says what it waits for.
const patience = 60

func (b *bench) object(typ tokens.Type, name string) *object {
	return &object{b: b, typ: typ, name: name, timeout: patience}
}

func (o *object) urn() string {
	return string(resource.NewURN("dev", "test", "", o.typ, o.name))
}

func (o *object) check(program map[string]any) (resource.PropertyMap, []*pulumirpc.CheckFailure) {
	o.b.t.Helper()
	response, err := o.b.client.Check(context.Background(), &pulumirpc.CheckRequest{
		Urn: o.urn(), Olds: marshal(o.b.t, o.inputs), News: marshal(o.b.t, properties(program)), RandomSeed: []byte("seed"),
	})
	if err != nil {
		o.b.t.Fatal(err)
	}
	return unmarshal(o.b.t, response.Inputs), response.Failures
}

func (o *object) diffInputs(inputs resource.PropertyMap) (*pulumirpc.DiffResponse, error) {
	return o.b.client.Diff(context.Background(), &pulumirpc.DiffRequest{
		Urn: o.urn(), Id: o.id, OldInputs: marshal(o.b.t, o.inputs), Olds: marshal(o.b.t, o.state), News: marshal(o.b.t, inputs),
		IgnoreChanges: o.ignoreChanges,
	})
}

// diff is what a preview of the program would plan; the error is that of a change that is refused.
func (o *object) diff(program map[string]any) (*pulumirpc.DiffResponse, error) {
	o.b.t.Helper()
	inputs, failures := o.check(program)
	if len(failures) > 0 {
		o.b.t.Fatalf("check failures: %v", failures)
	}
	plan, err := o.diffInputs(inputs)
	if err == nil && plan.Changes == pulumirpc.DiffResponse_DIFF_SOME && len(plan.Replaces) == 0 {
		_, err = o.b.client.Update(context.Background(), &pulumirpc.UpdateRequest{
			Urn: o.urn(), Id: o.id, OldInputs: marshal(o.b.t, o.inputs), Olds: marshal(o.b.t, o.state), News: marshal(o.b.t, inputs),
			IgnoreChanges: o.ignoreChanges, Preview: true,
		})
	}
	return plan, err
}

// up brings the resource to the program, as the engine does: check, diff, then create, update or replace.
func (o *object) up(ctx context.Context, program map[string]any) (action string, err error) {
	o.b.t.Helper()
	inputs, failures := o.check(program)
	if len(failures) > 0 {
		return "", fmt.Errorf("check failures: %v", failures)
	}
	if o.id == "" {
		return "create", o.create(ctx, inputs)
	}
	plan, err := o.diffInputs(inputs)
	if err != nil {
		return "", err
	}
	switch {
	case plan.Changes == pulumirpc.DiffResponse_DIFF_NONE && !o.unfinished:
		return "same", nil
	case len(plan.Replaces) > 0 && plan.DeleteBeforeReplace:
		if err := o.delete(ctx); err != nil {
			return "", err
		}
		return "delete-replace", o.create(ctx, inputs)
	case len(plan.Replaces) > 0:
		old := *o
		if err := o.create(ctx, inputs); err != nil {
			return "", err
		}
		return "create-replace", old.delete(ctx)
	}
	response, err := o.b.client.Update(ctx, &pulumirpc.UpdateRequest{
		Urn: o.urn(), Id: o.id, OldInputs: marshal(o.b.t, o.inputs), Olds: marshal(o.b.t, o.state), News: marshal(o.b.t, inputs),
		Timeout: o.timeout, IgnoreChanges: o.ignoreChanges,
	})
	if err != nil {
		if failed := initFailed(err); failed != nil {
			o.inputs, o.state, o.unfinished = inputs, unmarshal(o.b.t, failed.Properties), true
		}
		return "update", err
	}
	o.inputs, o.state, o.unfinished = inputs, unmarshal(o.b.t, response.Properties), false
	return "update", nil
}

func (o *object) create(ctx context.Context, inputs resource.PropertyMap) error {
	response, err := o.b.client.Create(ctx, &pulumirpc.CreateRequest{
		Urn: o.urn(), Properties: marshal(o.b.t, inputs), Timeout: o.timeout,
	})
	if err != nil {
		if failed := initFailed(err); failed != nil {
			o.id, o.inputs, o.state, o.unfinished = failed.Id, inputs, unmarshal(o.b.t, failed.Properties), true
		}
		return err
	}
	o.id, o.inputs, o.state, o.unfinished = response.Id, inputs, unmarshal(o.b.t, response.Properties), false
	return nil
}

// refresh reads the resource; gone tells that it does not exist any more.
func (o *object) refresh(ctx context.Context) (gone bool, err error) {
	response, err := o.b.client.Read(ctx, &pulumirpc.ReadRequest{
		Urn: o.urn(), Id: o.id, Inputs: marshal(o.b.t, o.inputs), Properties: marshal(o.b.t, o.state), Timeout: o.timeout,
	})
	if failed := initFailed(err); failed != nil {
		// As the engine does it: the refresh succeeds and the resource is unfinished.
		o.id, o.inputs, o.state, o.unfinished = failed.Id, unmarshal(o.b.t, failed.Inputs), unmarshal(o.b.t, failed.Properties), true
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.unfinished = false
	if response.Id == "" {
		return true, nil
	}
	o.id, o.inputs, o.state = response.Id, unmarshal(o.b.t, response.Inputs), unmarshal(o.b.t, response.Properties)
	return false, nil
}

func (o *object) delete(ctx context.Context) error {
	_, err := o.b.client.Delete(ctx, &pulumirpc.DeleteRequest{
		Urn: o.urn(), Id: o.id, Properties: marshal(o.b.t, o.state), OldInputs: marshal(o.b.t, o.inputs), Timeout: o.timeout,
	})
	return err
}

func (b *bench) cancel() {
	if _, err := b.client.Cancel(context.Background(), &emptypb.Empty{}); err != nil {
		b.t.Error(err)
	}
}

// must brings the resource to the program and wants the action.
func (o *object) must(action string, program map[string]any) {
	o.b.t.Helper()
	got, err := o.up(context.Background(), program)
	if err != nil {
		o.b.t.Fatalf("%s of %s: %v", got, o.name, err)
	}
	if got != action {
		plan, _ := o.diff(program)
		o.b.t.Fatalf("%s: planned %q, want %q (then: %v)", o.name, got, action, plan)
	}
}

func (o *object) value(path string) any {
	o.b.t.Helper()
	parsed, err := resource.ParsePropertyPath(path)
	if err != nil {
		o.b.t.Fatal(err)
	}
	value, ok := parsed.Get(resource.NewObjectProperty(o.state))
	if !ok {
		return nil
	}
	if value.IsSecret() {
		value = value.SecretValue().Element
	}
	return value.Mappable()
}

func initFailed(err error) *pulumirpc.ErrorResourceInitFailed {
	for _, detail := range status.Convert(err).Details() {
		if failed, ok := detail.(*pulumirpc.ErrorResourceInitFailed); ok {
			return failed
		}
	}
	return nil
}

var marshalOptions = plugin.MarshalOptions{KeepUnknowns: true, KeepSecrets: true, KeepResources: true}

func properties(m map[string]any) resource.PropertyMap { return resource.NewPropertyMapFromMap(m) }

// place makes a network and a firewall in it, and returns their ids.
func (b *bench) place() (networkID, firewallID string) {
	b.t.Helper()
	network := b.object(NetworkType, "net")
	network.must("create", map[string]any{"label": "net"})
	firewall := b.object(FirewallType, "fw")
	firewall.must("create", map[string]any{
		"name": "fw", "networkId": network.id, "createDefaultRules": false, "ingressRules": []any{rule("6443")},
	})
	return network.id, firewall.id
}

func rule(ports string) map[string]any {
	return map[string]any{"action": "allow", "cidrs": []any{"0.0.0.0/0"}, "portRange": ports, "protocol": "tcp", "label": "port-" + ports}
}

// clusterProgram is a program for a cluster; changes replace or (with nil) remove properties, dotted for those of the pool.
func clusterProgram(networkID, firewallID string, changes map[string]any) map[string]any {
	program := map[string]any{
		"name": "prod", "networkId": networkID, "firewallId": firewallID, "region": "LON1", "kubernetesVersion": "1.29.8-k3s1",
		"writeKubeconfig": true, "pools": map[string]any{"label": "default", "nodeCount": 2, "size": "g4s.kube.medium"},
	}
	for path, value := range changes {
		target, key := program, path
		if pool, ok := strings.CutPrefix(path, "pools."); ok {
			target, key = program["pools"].(map[string]any), pool
		}
		if value == nil {
			delete(target, key)
			continue
		}
		target[key] = value
	}
	return program
}
