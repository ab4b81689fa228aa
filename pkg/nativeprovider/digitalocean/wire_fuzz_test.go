package digitalocean

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

var wireTypes = []tokens.Type{vpcToken, clusterToken, poolToken}

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
	spec := New("4.57.0").Spec()
	spec.Configure = func(_ context.Context, m resource.PropertyMap) (any, error) {
		c, err := configOf(m)
		if err != nil {
			return nil, err
		}
		return newClient(c, "4.57.0", answering{status, body})
	}
	provider := nativeprovider.New(spec)
	t.Cleanup(func() { _ = provider.Close() })
	if err := configure(t, provider, props{"token": testToken, "apiEndpoint": "http://127.0.0.1:1", "httpRetryMax": 0}); err != nil {
		t.Fatal(err)
	}
	return provider
}

const (
	wireVPC     = `{"name":"net","region":"nyc1","ipRange":"10.10.0.0/20","description":"d"}`
	wireCluster = `{"name":"c","region":"NYC1","version":"1.31.1-do.4","tags":["b","a"],"maintenancePolicy":{"day":"any","startTime":"00:00"},` +
		`"controlPlaneFirewall":{"enabled":true,"allowedAddresses":["203.0.113.7"]},"clusterAutoscalerConfigurations":[{"expanders":["random"]}],` +
		`"nodePool":{"name":"default","size":"s-2vcpu-4gb","nodeCount":2,"autoScale":true,"minNodes":1,"maxNodes":3,"labels":{"a":"b"},` +
		`"taints":[{"key":"k","value":"","effect":"NoExecute"}]}}`
	wirePool = `{"clusterId":{"4dabf18193072939515e22adb298388d":"1b47061263138c4ac30d75fd1eb44270","value":"c"},"name":"p","nodeCount":1,` +
		`"size":"04da6b54-80e4-46f7-96ec-b56ff0331ba9"}`
	answerVPC     = `{"vpc":{"id":"id","urn":"do:vpc:id","name":"net","region":"nyc1","ip_range":"10.10.0.0/20","created_at":"2026-03-01T12:00:00Z"}}`
	answerCluster = `{"kubernetes_cluster":{"id":"id","name":"c","region":"nyc1","version":"1.31.1-do.4","tags":["k8s","a"],"status":{"state":"running"},` +
		`"maintenance_policy":{"day":"any","start_time":"00:00"},"created_at":"2026-03-01T12:00:00Z",` +
		`"node_pools":[{"id":"p","name":"default","size":"s","count":1,"tags":["terraform:default-node-pool"],"nodes":[{"status":{"state":"running"}}]}]}}`
	answerPool = `{"node_pool":{"id":"id","name":"p","size":"s","count":1,"tags":["k8s:worker"],"labels":{"a":"b"},` +
		`"taints":[{"key":"k","value":"","effect":"NoExecute"}],"nodes":[{"id":"n","name":"n-1","status":{"state":"running"}}]}}`
)

// FuzzWire: what the engine sends is checked the same twice and differs from itself in nothing; and what a cloud answers is an object as it
// is, a definite not-found, or an error, never a guess.
func FuzzWire(f *testing.F) {
	for i, inputs := range []string{wireVPC, wireCluster, wirePool} {
		f.Add(byte(i), uint16(0), []byte(inputs))
	}
	f.Add(byte(0), uint16(0), []byte(`{"":"net"}`))
	f.Add(byte(1), uint16(0), []byte(`{"nodePool":"04da6b54-80e4-46f7-96ec-b56ff0331ba9","nodes":1,"__defaults":[]}`))
	for i, answer := range []string{answerVPC, answerCluster, answerPool} {
		f.Add(byte(i), uint16(200), []byte(answer))
		f.Add(byte(i), uint16(404), []byte(`{"id":"not_found","message":"gone","request_id":"r"}`))
		f.Add(byte(i), uint16(500), []byte(`{"id":1,"message":{}}`))
		f.Add(byte(i), uint16(404), []byte("<html>"))
		f.Add(byte(i), uint16(200), []byte(`{"id":"not_found","message":"gone"}`))
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
	inputs, err := plugin.UnmarshalProperties(&sent, plugin.MarshalOptions{KeepUnknowns: true, KeepSecrets: true, KeepResources: true})
	if err != nil {
		return // the engine would not have sent it
	}
	provider := New("4.57.0")
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
	state := propertyMap(props{"region": "nyc1", "clusterId": "c"})
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
		if status != http.StatusNotFound {
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
