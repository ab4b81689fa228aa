package civo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

var wireTypes = []tokens.Type{NetworkType, FirewallType, ClusterType, NodePoolType}

// goneCodes are the codes that say of an object that it is gone. Firewalls are looked for in a list.
var goneCodes = map[tokens.Type][]string{
	NetworkType:  {"database_network_not_found"},
	ClusterType:  {"database_kubernetes_cluster_not_found"},
	NodePoolType: {"database_kubernetes_cluster_not_found", "database_cluster_pool_not_found"},
}

// answering is a cloud that answers every request with the same text.
type answering struct {
	status int
	body   []byte
}

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// answered is the plugin in front of a cloud that answers so, configured.
func answered(t *testing.T, status int, body []byte) *nativeprovider.Provider {
	t.Helper()
	provider := newProvider("1.2.3", func(c *client) { c.http = &http.Client{Transport: answering{status, body}} })
	t.Cleanup(func() { _ = provider.Close() })
	if _, err := provider.Configure(context.Background(), plugin.ConfigureRequest{Inputs: properties(map[string]any{
		"token": testToken, "apiEndpoint": "http://127.0.0.1:1", "region": "LON1",
	})}); err != nil {
		t.Fatal(err)
	}
	return provider
}

const (
	wireNetwork  = `{"label":"net","cidrV4":"10.0.0.0/16","nameserversV4s":["8.8.8.8"]}`
	wireFirewall = `{"name":"fw","createDefaultRules":false,"ingressRules":[{"action":"allow","cidrs":["0.0.0.0/0"],"portRange":"80-80"}]}`
	wireCluster  = `{"name":"c","firewallId":"04da6b54-80e4-46f7-96ec-b56ff0331ba9","tags":"a b","kubernetesVersion":"v1.29.0+k3s1",` +
		`"pools":{"nodeCount":2,"size":"g4s.kube.small","labels":{"a":"b"},"taints":[{"key":"k","value":"","effect":"NoExecute"}]}}`
	wirePool = `{"clusterId":{"4dabf18193072939515e22adb298388d":"1b47061263138c4ac30d75fd1eb44270","value":"04da6b54-80e4-46f7-96ec-b56ff0331ba9"},` +
		`"nodeCount":1,"size":"04da6b54-80e4-46f7-96ec-b56ff0331ba9"}`
	answerNetwork  = `{"id":"n","label":"net","cidr":"10.0.0.0/16","status":"Active","nameservers_v4":["8.8.8.8"],"default":true}`
	answerFirewall = `[{"id":"id","name":"fw","network_id":"n","rules":[{"id":"r","protocol":"tcp","ports":"80","cidr":["0.0.0.0/0"],"direction":"ingress","action":"allow"}]}]`
	answerCluster  = `{"id":"id","name":"c","status":"ACTIVE","ready":true,"kubernetes_version":"1.29.0-k3s1","created_at":"2026-03-01T12:00:00Z","tags":["a"],` +
		`"firewall_id":"04da6b54-80e4-46f7-96ec-b56ff0331ba9","network_id":"04da6b54-80e4-46f7-96ec-b56ff0331ba9",` +
		`"pools":[{"id":"p","count":1,"size":"s","labels":{"a":"b"},"taints":[{"key":"k","value":"","effect":"NoExecute"}]}],"required_pools":[{"id":"p"}]}`
)

// FuzzWire: what the engine sends is checked the same twice and differs from itself in nothing; and what a cloud answers is an object as it
// is, a definite not-found, or an error, never a guess.
func FuzzWire(f *testing.F) {
	for i, inputs := range []string{wireNetwork, wireFirewall, wireCluster, wirePool} {
		f.Add(byte(i), uint16(0), []byte(inputs))
	}
	f.Add(byte(0), uint16(0), []byte(`{"":"net"}`))
	f.Add(byte(2), uint16(0), []byte(`{"pools":"04da6b54-80e4-46f7-96ec-b56ff0331ba9","nodes":1,"__defaults":[]}`))
	for i, answer := range []string{answerNetwork, answerFirewall, answerCluster, answerCluster} {
		f.Add(byte(i), uint16(200), []byte(answer))
		f.Add(byte(i), uint16(404), []byte(`{"code":"database_kubernetes_cluster_not_found","reason":"gone"}`))
		f.Add(byte(i), uint16(404), []byte(`{"code":"database_network_not_found","reason":"gone"}`))
		f.Add(byte(i), uint16(404), []byte(`{"code":"database_firewall_not_found","reason":"gone"}`))
		f.Add(byte(i), uint16(500), []byte(`{"code":1,"reason":{},"details":[]}`))
		f.Add(byte(i), uint16(404), []byte("<html>"))
		f.Add(byte(i), uint16(200), []byte(`{"code":"database_network_not_found"}`))
	}
	f.Fuzz(func(t *testing.T, which byte, status uint16, data []byte) {
		typ := wireTypes[int(which)%len(wireTypes)]
		if status == 0 {
			checked(t, typ, data)
			return
		}
		read(t, typ, 200+int(status-200)%400, data)
	})
}

// checked lets the plugin check inputs as they come over the wire, and compare them with themselves.
func checked(t *testing.T, typ tokens.Type, data []byte) {
	var sent structpb.Struct
	if protojson.Unmarshal(data, &sent) != nil {
		return
	}
	inputs, err := plugin.UnmarshalProperties(&sent, marshalOptions)
	if err != nil {
		return // the engine would not have sent it
	}
	provider := newProvider("1.2.3", func(*client) {})
	urn := resource.NewURN("dev", "test", "", typ, "name")
	check := func(olds, news resource.PropertyMap) plugin.CheckResponse {
		response, err := provider.Check(context.Background(), plugin.CheckRequest{
			URN: urn, Name: "name", Type: typ, Olds: olds, News: news, AllowUnknowns: true, RandomSeed: []byte("0123456789abcdef0123456789abcdef"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	first := check(nil, inputs)
	for _, failure := range first.Failures {
		if failure.Property == "" || !strings.HasPrefix(failure.Reason, string(failure.Property)+":") {
			t.Errorf("the failure %+v does not name its property", failure)
		}
	}
	if len(first.Failures) > 0 {
		return
	}
	second := check(first.Properties, first.Properties)
	if len(second.Failures) > 0 || !same(first.Properties, second.Properties) {
		t.Fatalf("checked: %v\nchecked again: %v, %v", first.Properties, second.Properties, second.Failures)
	}
	if first.Properties.ContainsUnknowns() {
		return
	}
	diff, err := provider.Diff(context.Background(), plugin.DiffRequest{
		URN: urn, Name: "name", Type: typ, ID: "id", OldInputs: first.Properties, OldOutputs: first.Properties, NewInputs: first.Properties,
	})
	if err != nil || diff.Changes != plugin.DiffNone {
		t.Fatalf("inputs differ from themselves: %v, %v\n%v", diff.ChangedKeys, err, first.Properties)
	}
}

// same compares without what the bridge keeps: which inputs were given changes once they all are.
func same(a, b resource.PropertyMap) bool {
	var plain func(v resource.PropertyValue) resource.PropertyValue
	plain = func(v resource.PropertyValue) resource.PropertyValue {
		switch {
		case v.IsSecret():
			return plain(v.SecretValue().Element)
		case v.IsArray():
			elements := []resource.PropertyValue{}
			for _, element := range v.ArrayValue() {
				elements = append(elements, plain(element))
			}
			return resource.NewArrayProperty(elements)
		case v.IsObject():
			fields := resource.PropertyMap{}
			for key, value := range v.ObjectValue() {
				if !strings.HasPrefix(string(key), "__") {
					fields[key] = plain(value)
				}
			}
			return resource.NewObjectProperty(fields)
		default:
			return v
		}
	}
	return plain(resource.NewObjectProperty(a)).DeepEquals(plain(resource.NewObjectProperty(b)))
}

// read lets the plugin read an object that has no inputs yet from a cloud that answers so: they are made of what is read.
func read(t *testing.T, typ tokens.Type, status int, body []byte) {
	provider := answered(t, status, body)
	state := properties(map[string]any{"region": "LON1", "clusterId": "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "writeKubeconfig": true})
	request := plugin.ReadRequest{
		URN: resource.NewURN("dev", "test", "", typ, "name"), Name: "name", Type: typ, ID: "id", State: state,
	}
	first, err := provider.Read(context.Background(), request)
	if err != nil {
		if strings.Contains(err.Error(), testToken) {
			t.Errorf("the error tells the token: %v", err)
		}
		return
	}
	if first.Outputs == nil {
		// A complete list of firewalls without the one that is looked for is as definite as the API gets there.
		inList := typ == FirewallType && status < http.StatusMultipleChoices
		var fields map[string]any
		_ = json.Unmarshal(body, &fields)
		code, _ := fields["code"].(string)
		if !inList && (status < http.StatusMultipleChoices || !slices.Contains(goneCodes[typ], code)) {
			t.Fatalf("%s is taken for gone after %d %s", typ, status, body)
		}
		return
	}
	if status >= http.StatusMultipleChoices {
		t.Fatalf("%s is there after %d %s", typ, status, body)
	}
	request.Inputs, request.State = first.Inputs, first.Outputs
	second, err := provider.Read(context.Background(), request)
	if err != nil || !same(first.Outputs, second.Outputs) || !same(first.Inputs, second.Inputs) {
		t.Fatalf("read: %v\nread again: %v, %v", first.Outputs, second.Outputs, err)
	}
	diff, err := provider.Diff(context.Background(), plugin.DiffRequest{
		URN: request.URN, Name: "name", Type: typ, ID: first.ID, OldInputs: first.Inputs, OldOutputs: first.Outputs, NewInputs: first.Inputs,
	})
	if err != nil || diff.Changes != plugin.DiffNone {
		t.Fatalf("what an import has read differs from itself in %v (%v)\n%v\n%v", diff.ChangedKeys, err, first.Inputs, first.Outputs)
	}
}
