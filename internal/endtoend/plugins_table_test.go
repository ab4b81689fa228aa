package endtoend

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc/status"

	"github.com/plantonhq/project-planton/pkg/emulator"
	civocloud "github.com/plantonhq/project-planton/pkg/emulator/civo"
	digitaloceancloud "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/kinds"
	civoplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	digitaloceanplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
)

var update = flag.Bool("update", false, "write the table of docs/plugins.md")

// bench is a native plugin, spoken to as the engine speaks to it, and its emulated cloud.
type bench struct {
	*world
	provider string
	plugin   plugin.Provider
	// down answers reads of the cloud with 503; failAfterCreate sets it once something was created.
	down, failAfterCreate atomic.Bool
	// mu guards deletes, the number of requests to delete that were answered.
	mu      sync.Mutex
	deletes int
}

func newBench(t *testing.T, provider string) *bench {
	t.Helper()
	b := &bench{world: &world{t: t}, provider: provider}
	options := emulator.Options{Intercept: b.intercept}
	var config map[string]any
	var err error
	if provider == kinds.Civo {
		options.Token, b.plugin = civoToken, civoplugin.New("2.4.8")
		if b.civo, err = civocloud.New(options); err != nil {
			t.Fatal(err)
		}
		b.civoURL = serve(t, b.civo)
		config = map[string]any{"token": civoToken, "apiEndpoint": b.civoURL, "region": "LON1"}
	} else {
		options.Token, b.plugin = digitaloceanToken, digitaloceanplugin.New("4.57.0")
		if b.digitalocean, err = digitaloceancloud.New(options); err != nil {
			t.Fatal(err)
		}
		b.doURL = serve(t, b.digitalocean)
		config = map[string]any{"token": digitaloceanToken, "apiEndpoint": b.doURL, "httpRetryWaitMin": 0.01, "httpRetryWaitMax": 0.02}
	}
	if _, err := b.plugin.Configure(t.Context(), plugin.ConfigureRequest{Inputs: resource.NewPropertyMapFromMap(config)}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) intercept(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if b.down.Load() && r.Method == http.MethodGet {
		http.Error(w, `{"code":"internal","id":"server_error","reason":"down","message":"down"}`, http.StatusServiceUnavailable)
		return
	}
	next.ServeHTTP(w, r)
	if r.Method == http.MethodPost && b.failAfterCreate.Load() {
		b.down.Store(true)
	}
	if r.Method == http.MethodDelete {
		b.mu.Lock()
		b.deletes++
		b.mu.Unlock()
	}
}

// held is one resource as the engine holds it.
type held struct {
	*bench
	typ           tokens.Type
	id            resource.ID
	inputs, state resource.PropertyMap
	// path is where the cloud's API shows the object, with {id} for its id.
	path string
}

func (h *held) urn() resource.URN { return resource.NewURN("dev", "table", "", h.typ, "one") }

func (h *held) check(program map[string]any) (resource.PropertyMap, error) {
	checked, err := h.plugin.Check(h.t.Context(), plugin.CheckRequest{
		URN: h.urn(), Type: h.typ, Olds: h.inputs, News: resource.NewPropertyMapFromMap(program), RandomSeed: []byte("seed"),
	})
	if err == nil && len(checked.Failures) > 0 {
		err = fmt.Errorf("%v", checked.Failures)
	}
	return checked.Properties, err
}

// create makes the object and tells what came of it.
func (h *held) create(program map[string]any, timeout float64) string {
	h.t.Helper()
	inputs, err := h.check(program)
	if err != nil {
		return "refuses, in the preview"
	}
	made, err := h.plugin.Create(h.t.Context(), plugin.CreateRequest{URN: h.urn(), Type: h.typ, Properties: inputs, Timeout: timeout})
	if err == nil {
		h.id, h.inputs, h.state = made.ID, inputs, made.Properties
		return "creates, and waits"
	}
	for _, detail := range status.Convert(err).Details() {
		// What the engine records as an object whose creation did not finish.
		if kept, ok := detail.(*pulumirpc.ErrorResourceInitFailed); ok && kept.GetId() != "" {
			return "an error; the object is kept in the state"
		}
	}
	return "an error; nothing is recorded: " + err.Error()
}

func (h *held) diff(inputs resource.PropertyMap) plugin.DiffResult {
	h.t.Helper()
	plan, err := h.plugin.Diff(h.t.Context(), plugin.DiffRequest{
		URN: h.urn(), Type: h.typ, ID: h.id, OldInputs: h.inputs, OldOutputs: h.state, NewInputs: inputs,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return plan
}

// shown is the object as the cloud's API shows it; empty when there is none.
func (h *held) shown() string {
	h.t.Helper()
	url, token := h.civoURL, civoToken
	if h.provider == kinds.DigitalOcean {
		url, token = h.doURL, digitaloceanToken
	}
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, url+strings.ReplaceAll(h.path, "{id}", string(h.id)), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	if response.StatusCode == http.StatusNotFound {
		return ""
	}
	return string(text)
}

// change brings the object to another program and tells what came of it.
func (h *held) change(program map[string]any) string {
	h.t.Helper()
	inputs, err := h.check(program)
	if err != nil {
		return "refuses, in the preview"
	}
	plan := h.diff(inputs)
	if plan.Changes == plugin.DiffNone {
		return "plans nothing"
	}
	if plan.Replace() {
		if plan.DeleteBeforeReplace {
			return "replaces, the old one first"
		}
		return "replaces"
	}
	request := plugin.UpdateRequest{
		URN: h.urn(), Type: h.typ, ID: h.id, OldInputs: h.inputs, OldOutputs: h.state, NewInputs: inputs, Preview: true,
	}
	if _, err := h.plugin.Update(h.t.Context(), request); err != nil {
		return "refuses, in the preview"
	}
	before := h.shown()
	request.Preview = false
	changed, err := h.plugin.Update(h.t.Context(), request)
	if err != nil {
		return "fails: " + err.Error()
	}
	h.inputs, h.state = inputs, changed.Properties
	if after := h.shown(); after == before {
		return "reports success, and the cloud has what it had"
	}
	if read := h.read(); read != "the same" {
		return read
	}
	if again := h.diff(inputs); again.Changes != plugin.DiffNone {
		return fmt.Sprintf("plans it again: %v", again.ChangedKeys)
	}
	return "in place"
}

// read refreshes the object and tells what came of it.
func (h *held) read() string {
	h.t.Helper()
	read, err := h.plugin.Read(h.t.Context(), plugin.ReadRequest{URN: h.urn(), Type: h.typ, ID: h.id, Inputs: h.inputs, State: h.state})
	switch {
	case err != nil:
		return "an error; the state stays"
	case read.ID == "":
		return "taken for gone"
	}
	h.state = read.Outputs
	return "the same"
}

// delete removes the object and tells what came of it.
func (h *held) delete(timeout float64) string {
	h.t.Helper()
	_, err := h.plugin.Delete(h.t.Context(), plugin.DeleteRequest{
		URN: h.urn(), Type: h.typ, ID: h.id, Inputs: h.inputs, Outputs: h.state, Timeout: timeout,
	})
	switch there := h.shown() != ""; {
	case err != nil && there:
		return "an error; the state keeps it"
	case err != nil:
		return "an error, though it is gone"
	case there:
		return "reports success before it is gone"
	}
	return "deletes"
}

// program is a copy of base with changes; a nil takes a property away. Dotted names are those of an object in it.
func program(base map[string]any, changes ...any) map[string]any {
	made := map[string]any{}
	for key, value := range base {
		if nested, ok := value.(map[string]any); ok && !strings.HasSuffix(key, "abels") {
			value = program(nested)
		}
		made[key] = value
	}
	for i := 0; i < len(changes); i += 2 {
		target, key := made, changes[i].(string)
		if outer, inner, dotted := strings.Cut(key, "."); dotted {
			target, key = made[outer].(map[string]any), inner
		}
		if changes[i+1] == nil {
			delete(target, key)
		} else {
			target[key] = changes[i+1]
		}
	}
	return made
}

// subject is a kind of resource, and what is tried on it.
type subject struct {
	name     string
	provider string
	typ      tokens.Type
	path     string
	// base makes what must stand around the resource, and returns the program that it is created with and values for Changes.
	base func(b *bench) (program map[string]any, other string)
	// changes are tried each on a resource of its own.
	changes []attempt
	// deletions are tried each on a resource of its own, after prepare.
	deletions []deletion
	// failsHalfWay: a creation that the cloud takes and then cannot be asked about is tried too.
	failsHalfWay bool
}

const halfWayOperation = "create that fails half-way"

// attempt is one change of a program.
type attempt struct {
	operation string
	// before are changes of the base for the creation; to are those that are tried. "OTHER" stands for the base's value.
	before, to []any
}

type deletion struct {
	operation string
	prepare   func(b *bench, h *held)
	timeout   float64
	want      string // what the outcome is called when the deletion needed several requests; empty to not tell
}

// operations are what is tried, in the order of the table.
func (s subject) operations() []string {
	all := []string{"create"}
	if s.failsHalfWay {
		all = append(all, halfWayOperation)
	}
	all = append(all, "read", "refresh during an outage")
	for _, attempt := range s.changes {
		all = append(all, attempt.operation)
	}
	for _, deletion := range s.deletions {
		all = append(all, deletion.operation)
	}
	return all
}

// observe runs the native plugin and returns what it did, by operation.
func (s subject) observe(t *testing.T) map[string]string {
	t.Helper()
	made := func(before []any) (*held, map[string]any, string, string) {
		b := newBench(t, s.provider)
		base, other := s.base(b)
		h := &held{bench: b, typ: s.typ, path: strings.ReplaceAll(s.path, "{cluster}", fmt.Sprint(base["clusterId"]))}
		wanted := program(base, fill(before, other)...)
		outcome := h.create(wanted, 0)
		if !strings.HasPrefix(outcome, "creates") {
			t.Fatalf("%s: %s", s.name, outcome)
		}
		return h, wanted, other, outcome
	}
	seen := map[string]string{}
	h, _, _, outcome := made(nil)
	seen["create"], seen["read"] = outcome, h.read()
	h.down.Store(true)
	seen["refresh during an outage"] = h.read()
	h.down.Store(false)
	if s.failsHalfWay {
		b := newBench(t, s.provider)
		base, _ := s.base(b)
		b.failAfterCreate.Store(true)
		seen[halfWayOperation] = (&held{bench: b, typ: s.typ, path: s.path}).create(base, 2)
	}
	for _, attempt := range s.changes {
		h, wanted, other, _ := made(attempt.before)
		seen[attempt.operation] = h.change(program(wanted, fill(attempt.to, other)...))
	}
	for _, deletion := range s.deletions {
		h, _, _, _ := made(nil)
		if deletion.prepare != nil {
			deletion.prepare(h.bench, h)
		}
		h.deletes = 0
		outcome := h.delete(deletion.timeout)
		if deletion.want != "" && outcome == "deletes" && h.deletes > 1 {
			outcome = deletion.want
		}
		seen[deletion.operation] = outcome
	}
	return seen
}

// fill puts the value of the base where a change says "OTHER".
func fill(changes []any, other string) []any {
	filled := slices.Clone(changes)
	for i, value := range filled {
		if value == "OTHER" {
			filled[i] = other
		}
	}
	return filled
}

type m = map[string]any

var (
	civoRule    = m{"action": "allow", "cidrs": []any{"0.0.0.0/0"}, "portRange": "6443", "protocol": "tcp", "label": "api"}
	civoTaint   = []any{m{"key": "k", "value": "v", "effect": "NoSchedule"}}
	otherTaint  = []any{m{"key": "k", "value": "v", "effect": "NoExecute"}}
	oneLabel    = m{"a": "b"}
	otherLabel  = m{"a": "c"}
	civoCluster = func(b *bench) (m, string) {
		network, other := b.civoNetwork("net"), b.civoNetwork("other")
		return m{
			"name": "prod", "networkId": network, "firewallId": b.civoFirewall("fw", network), "region": "LON1",
			"kubernetesVersion": "1.29.8-k3s1", "writeKubeconfig": true, "tags": "one two",
			"pools": m{"label": "default", "nodeCount": 2, "size": "g4s.kube.medium"},
		}, other
	}
	digitaloceanCluster = func(b *bench) (m, string) {
		var vpc struct{ VPC struct{ ID string } }
		b.call(kinds.DigitalOcean, http.MethodPost, "/v2/vpcs", m{"name": "other", "region": "nyc1"}, &vpc)
		return m{
			"name": "prod", "region": "nyc1", "version": "1.31.1-do.4", "tags": []any{"one"},
			"nodePool": m{"name": "default", "size": "s-2vcpu-4gb", "nodeCount": 2, "tags": []any{"pool"}},
		}, vpc.VPC.ID
	}
)

var subjects = []subject{
	{
		name: "Civo network", provider: kinds.Civo, typ: "civo:index/network:Network", path: "/v2/networks/{id}",
		base: func(*bench) (m, string) { return m{"label": "net", "region": "LON1", "cidrV4": "10.10.0.0/16"}, "" },
		changes: []attempt{
			{operation: "rename", to: []any{"label", "renamed"}},
			{operation: "another range", to: []any{"cidrV4", "10.20.0.0/16"}},
			{operation: "another region", to: []any{"region", "FRA1"}},
		},
		deletions: []deletion{
			{operation: "delete"},
			{operation: "delete with members", timeout: 0.5, prepare: func(b *bench, h *held) {
				b.civoCluster("inside", string(h.id), b.civoFirewall("inside", string(h.id)))
			}},
		},
	},
	{
		name: "Civo firewall", provider: kinds.Civo, typ: "civo:index/firewall:Firewall", path: "/v2/firewalls/{id}",
		base: func(b *bench) (m, string) {
			return m{
				"name": "fw", "networkId": b.civoNetwork("net"), "region": "LON1", "createDefaultRules": false,
				"ingressRules": []any{civoRule},
			}, b.civoNetwork("other")
		},
		changes: []attempt{
			{operation: "rename", to: []any{"name", "renamed"}},
			{operation: "rules change", to: []any{"ingressRules", []any{program(civoRule, "portRange", "443")}}},
			{operation: "network change", to: []any{"networkId", "OTHER"}},
		},
		deletions: []deletion{
			{operation: "delete"},
			{operation: "delete while a cluster uses it", timeout: 0.5, prepare: func(b *bench, h *held) {
				b.civoCluster("behind", h.inputs["networkId"].StringValue(), string(h.id))
			}},
		},
	},
	{
		name: "Civo cluster", provider: kinds.Civo, typ: "civo:index/kubernetesCluster:KubernetesCluster",
		path: "/v2/kubernetes/clusters/{id}", base: civoCluster, failsHalfWay: true,
		changes: []attempt{
			{operation: "scale the default pool", to: []any{"pools.nodeCount", 3}},
			{operation: "labels on the default pool", to: []any{"pools.labels", oneLabel}},
			{operation: "taints on the default pool", to: []any{"pools.taints", civoTaint}},
			{operation: "tags change", to: []any{"tags", "three"}},
			{operation: "remove the last tag", to: []any{"tags", nil}},
			{operation: "rename", to: []any{"name", "renamed"}},
			{operation: "upgrade", to: []any{"kubernetesVersion", "1.30.5-k3s1"}},
			{operation: "lower version", to: []any{"kubernetesVersion", "1.29.0-k3s1"}},
			{operation: "size change", to: []any{"pools.size", "g4s.kube.large"}},
			{operation: "another label of the default pool", to: []any{"pools.label", "first"}},
			{operation: "network change", to: []any{"networkId", "OTHER"}},
			{operation: "region change", to: []any{"region", "FRA1"}},
			{operation: "cni change", to: []any{"cni", "cilium"}},
			{operation: "applications change", to: []any{"applications", "Redis"}},
		},
		deletions: []deletion{{operation: "delete"}},
	},
	{
		name: "Civo node pool", provider: kinds.Civo, typ: "civo:index/kubernetesNodePool:KubernetesNodePool",
		path: "/v2/kubernetes/clusters/{cluster}/pools/{id}",
		base: func(b *bench) (m, string) {
			network := b.civoNetwork("net")
			firewall := b.civoFirewall("fw", network)
			return m{"clusterId": b.civoCluster("main", network, firewall), "label": "app", "size": "g4s.kube.medium", "nodeCount": 2},
				b.civoCluster("other", network, firewall)
		},
		changes: []attempt{
			{operation: "scale", to: []any{"nodeCount", 3}},
			{operation: "labels change", before: []any{"labels", oneLabel}, to: []any{"labels", otherLabel}},
			{operation: "remove the last label", before: []any{"labels", oneLabel}, to: []any{"labels", nil}},
			{operation: "taints change", before: []any{"taints", civoTaint}, to: []any{"taints", otherTaint}},
			{operation: "remove the last taint", before: []any{"taints", civoTaint}, to: []any{"taints", nil}},
			{operation: "rename", to: []any{"label", "web"}},
			{operation: "size change", to: []any{"size", "g4s.kube.large"}},
			{operation: "cluster change", to: []any{"clusterId", "OTHER"}},
			{operation: "public address change", before: []any{"publicIpNodePool", false}, to: []any{"publicIpNodePool", true}},
		},
		deletions: []deletion{{operation: "delete"}},
	},
	{
		name: "DigitalOcean VPC", provider: kinds.DigitalOcean, typ: "digitalocean:index/vpc:Vpc", path: "/v2/vpcs/{id}",
		base: func(*bench) (m, string) {
			return m{"name": "net", "region": "nyc1", "description": "first", "ipRange": "10.10.0.0/16"}, ""
		},
		changes: []attempt{
			{operation: "rename", to: []any{"name", "renamed"}},
			{operation: "description change", to: []any{"description", "second"}},
			{operation: "remove the description", to: []any{"description", nil}},
			{operation: "another range", to: []any{"ipRange", "10.20.0.0/16"}},
		},
		deletions: []deletion{
			{operation: "delete"},
			{operation: "delete with lingering members", want: "asks again until the members are gone", prepare: func(b *bench, h *held) {
				b.digitalocean.SetVPCGracePeriod(300 * time.Millisecond)
				b.call(kinds.DigitalOcean, http.MethodPost, "/v2/kubernetes/clusters", m{
					"name": "inside", "region": "nyc1", "version": "1.31.1-do.4", "vpc_uuid": h.id,
					"node_pools": []m{{"name": "default", "size": "s-2vcpu-4gb", "count": 1}},
				}, nil)
				if err := b.digitalocean.DeleteCluster(b.doksNamed("inside").ID); err != nil {
					b.t.Fatal(err)
				}
			}},
		},
	},
	{
		name: "DigitalOcean cluster", provider: kinds.DigitalOcean, typ: "digitalocean:index/kubernetesCluster:KubernetesCluster",
		path: "/v2/kubernetes/clusters/{id}", base: digitaloceanCluster, failsHalfWay: true,
		changes: []attempt{
			{operation: "scale the default pool", to: []any{"nodePool.nodeCount", 3}},
			{operation: "labels change", before: []any{"nodePool.labels", oneLabel}, to: []any{"nodePool.labels", otherLabel}},
			{operation: "remove the last label", before: []any{"nodePool.labels", oneLabel}, to: []any{"nodePool.labels", nil}},
			{operation: "taints change", before: []any{"nodePool.taints", civoTaint}, to: []any{"nodePool.taints", otherTaint}},
			{operation: "remove the last taint", before: []any{"nodePool.taints", civoTaint}, to: []any{"nodePool.taints", nil}},
			{operation: "tags change", to: []any{"tags", []any{"two"}}},
			{operation: "remove the last tag", to: []any{"tags", nil}},
			{operation: "remove the last tag of the default pool", to: []any{"nodePool.tags", nil}},
			{operation: "surge upgrades off", to: []any{"surgeUpgrade", false}},
			{operation: "high availability off", before: []any{"ha", true}, to: []any{"ha", false}},
			{operation: "maintenance window without a day", to: []any{"maintenancePolicy", m{"startTime": "04:00"}}},
			{operation: "rename", to: []any{"name", "renamed"}},
			{operation: "upgrade", to: []any{"version", "1.31.1-do.5"}},
			{operation: "lower version", before: []any{"version", "1.31.1-do.5"}, to: []any{"version", "1.31.1-do.4"}},
			{operation: "version prefix", to: []any{"version", "1.31"}},
			{operation: "size change", to: []any{"nodePool.size", "s-4vcpu-8gb"}},
			{operation: "network change", to: []any{"vpcUuid", "OTHER"}},
			{operation: "autoscale on", to: []any{"nodePool.autoScale", true, "nodePool.minNodes", 1, "nodePool.maxNodes", 4}},
			{
				operation: "autoscale off", before: []any{"nodePool.autoScale", true, "nodePool.minNodes", 1, "nodePool.maxNodes", 4},
				to: []any{"nodePool.autoScale", false, "nodePool.minNodes", nil, "nodePool.maxNodes", nil},
			},
		},
		deletions: []deletion{{operation: "delete"}},
	},
	{
		name: "DigitalOcean node pool", provider: kinds.DigitalOcean, typ: "digitalocean:index/kubernetesNodePool:KubernetesNodePool",
		path: "/v2/kubernetes/clusters/{cluster}/node_pools/{id}",
		base: func(b *bench) (m, string) {
			return m{"clusterId": b.doksCluster("main"), "name": "app", "size": "s-2vcpu-4gb", "nodeCount": 2, "tags": []any{"one"}},
				b.doksCluster("other")
		},
		changes: []attempt{
			{operation: "scale", to: []any{"nodeCount", 3}},
			{operation: "labels change", before: []any{"labels", oneLabel}, to: []any{"labels", otherLabel}},
			{operation: "remove the last label", before: []any{"labels", oneLabel}, to: []any{"labels", nil}},
			{operation: "taints change", before: []any{"taints", civoTaint}, to: []any{"taints", otherTaint}},
			{operation: "remove the last taint", before: []any{"taints", civoTaint}, to: []any{"taints", nil}},
			{operation: "tags change", to: []any{"tags", []any{"two"}}},
			{operation: "remove the last tag", to: []any{"tags", nil}},
			{operation: "rename", to: []any{"name", "web"}},
			{operation: "size change", to: []any{"size", "s-4vcpu-8gb"}},
			{operation: "cluster change", to: []any{"clusterId", "OTHER"}},
			{operation: "autoscale on", to: []any{"autoScale", true, "minNodes", 1, "maxNodes", 4}},
			{
				operation: "autoscale off", before: []any{"autoScale", true, "minNodes", 1, "maxNodes", 4},
				to: []any{"autoScale", false, "minNodes", nil, "maxNodes", nil},
			},
		},
		deletions: []deletion{{operation: "delete"}},
	},
}

// facts are what is known of the official plugins.
type facts struct {
	// Sources by the letter that a fact names them by.
	Sources map[string]string `yaml:"sources"`
	// Facts by resource and operation.
	Facts map[string]map[string]fact `yaml:"facts"`
}

type fact struct {
	// Official is what the official plugin does.
	Official string `yaml:"official"`
	// Source is the letter of the source.
	Source string `yaml:"source"`
	// Modules is what the modules do about it; empty when there is nothing to do.
	Modules string `yaml:"modules"`
	// Tests are the tests that show what the modules do.
	Tests []string `yaml:"tests"`
}

const (
	tableBegin = "<!-- The table below is written by TestPluginsTable. -->\n"
	tableEnd   = "<!-- The table above is written by TestPluginsTable. -->\n"
)

// The table of docs/plugins.md is what the native plugins do, run here, beside what is known of the official ones.
func TestPluginsTable(t *testing.T) {
	t.Parallel()
	if pluginsUnderTest() == official {
		t.Skip("the table tells what the native plugins do; the engine tests of this package show what the official ones do")
	}
	known := officialFacts(t)
	seen := make([]map[string]string, len(subjects))
	t.Run("observe", func(t *testing.T) {
		for i, subject := range subjects {
			t.Run(subject.name, func(t *testing.T) {
				t.Parallel()
				seen[i] = subject.observe(t)
			})
		}
	})
	if t.Failed() {
		return
	}
	table := render(t, known, seen)

	path := filepath.Join(repository, "docs", "plugins.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begun := strings.Cut(string(page), tableBegin)
	old, tail, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	if old == table {
		return
	}
	if !*update {
		t.Errorf("the table of docs/plugins.md is not what the run gives; go test ./internal/endtoend -run TestPluginsTable -update "+
			"writes it (-page +run):\n%s", cmp.Diff(strings.Split(old, "\n"), strings.Split(table, "\n")))
		return
	}
	if err := os.WriteFile(path, []byte(head+tableBegin+table+tableEnd+tail), 0o600); err != nil {
		t.Fatal(err)
	}
}

func officialFacts(t *testing.T) facts {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "official-plugins.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var known facts
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&known); err != nil {
		t.Fatal(err)
	}
	return known
}

// render writes the table, a part a resource. Each operation that was tried needs a fact with a source, and each fact an operation.
func render(t *testing.T, known facts, seen []map[string]string) string {
	t.Helper()
	var out strings.Builder
	used := map[string]bool{}
	tests := testSources(t)
	for i, subject := range subjects {
		fmt.Fprintf(&out, "\n### %s\n\n| Operation | native | official | | with the official plugin, the modules |\n|---|---|---|---|---|\n", subject.name)
		facts := known.Facts[subject.name]
		for _, operation := range subject.operations() {
			fact, ok := facts[operation]
			if !ok || fact.Official == "" || known.Sources[fact.Source] == "" {
				t.Errorf("%s, %s: there is no fact about the official plugin, or it has no source", subject.name, operation)
			}
			used[fact.Source] = true
			for _, test := range fact.Tests {
				if !strings.Contains(tests, "\nfunc "+test+"(") {
					t.Errorf("%s, %s: there is no test %s", subject.name, operation, test)
				}
			}
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", operation, seen[i][operation], fact.Official, fact.Source, fact.Modules)
			delete(facts, operation)
		}
		for operation := range facts {
			t.Errorf("%s: the fact about %q is about no operation that was tried", subject.name, operation)
		}
		delete(known.Facts, subject.name)
	}
	for name := range known.Facts {
		t.Errorf("there are facts about %q, which is no resource", name)
	}
	out.WriteString("\n### Sources\n\n")
	for _, letter := range slices.Sorted(maps.Keys(known.Sources)) {
		if !used[letter] {
			t.Errorf("no fact has the source %s", letter)
		}
		fmt.Fprintf(&out, "* %s: %s\n", letter, known.Sources[letter])
	}
	out.WriteString("\n")
	return out.String()
}

// testSources is the text of the tests that facts may name.
func testSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range []string{"internal", "pkg", "iac"} {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}
