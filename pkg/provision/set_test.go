package provision

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

const byReference = "{valueFrom: {name: main}}"

// TestSet provisions a network and a cluster that refers to it, in every order of events.
func TestSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	network, member := vpc(t, "main", "net", "fra1"), cluster(t, "main", "prod", byReference)
	set := func(manifests ...*manifest.Manifest) *Set {
		t.Helper()
		s, err := w.NewSet(manifests, configs(testToken))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	// The reference points outside of the set, at nothing.
	_, err := set(member).Up(t.Context())
	var problems *manifest.Error
	if !errors.As(err, &problems) || len(problems.Problems) != 1 {
		t.Fatalf("a reference to nothing: got error %v", err)
	}
	got := problems.Problems[0]
	if got.FieldPath != "spec.network" || got.RuleID != manifest.RuleReference || got.Line != 8 || !strings.Contains(got.Message, "planton apply -f") {
		t.Errorf("a reference to nothing: got problem %s", got)
	}
	if len(w.things) != 0 {
		t.Errorf("a reference to nothing made something: %v", w.things)
	}

	// The whole set, in the wrong order, before anything exists.
	results, err := set(member, network).Preview(t.Context())
	if err != nil || len(results) != 2 || len(w.things) != 0 {
		t.Fatalf("preview: %d results, error %v, things %v", len(results), err, w.things)
	}
	if results[0].Stack.Project != "civovpc" {
		t.Errorf("the network does not come first: %v", results[0].Stack)
	}
	if output := results[1].Outputs["cluster_id"]; output.Known {
		t.Errorf("the preview knows %v", output)
	}

	results, err = set(member, network).Up(t.Context())
	if err != nil || len(results) != 2 {
		t.Fatalf("up: %d results, error %v", len(results), err)
	}
	if got := w.things["prod-2"]["within"]; got != resource.NewStringProperty("net-1") {
		t.Errorf("the cluster got %v for its network, want net-1", got)
	}

	// The network's output is read from its stack: the same value, so nothing changes.
	results, err = set(member).Up(t.Context())
	if err != nil || results[0].Changed() {
		t.Errorf("up of the cluster alone: error %v, changes %v", err, results)
	}

	// A failure: what needs it is not begun, what came before stays.
	w.mu.Lock()
	w.fails["broken-update"] = errors.New("no, says the cloud")
	w.mu.Unlock()
	results, err = set(cluster(t, "main", "prod-2", byReference), vpc(t, "main", "broken-update", "fra1")).Up(t.Context())
	if KindOf(err) != Failed || len(results) != 2 || !strings.Contains(err.Error(), "no, says the cloud") {
		t.Fatalf("a failure: %d results, error %v", len(results), err)
	}
	if results[0].Status != StatusFailed || results[1].Status != StatusSkipped || !slices.Equal(results[1].Because, []stackidentity.Identity{results[0].Stack}) {
		t.Errorf("a failure: got %+v, %+v", results[0], results[1])
	}

	// The network's stack is gone already; the cluster can still be destroyed.
	if _, err := set(network).Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err = set(member, network).Destroy(t.Context())
	if err != nil || len(results) != 2 || !results[1].Missing || results[0].Changes[OpDelete] != 1 {
		t.Errorf("destroy: error %v, results %+v", err, results)
	}
	if len(w.things) != 0 {
		t.Errorf("after the destroy: %v", w.things)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	if _, err := Order(parse(t, `apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: a, relationships: [{kind: CivoVpc, name: b}]}
spec: {networkName: a, region: fra1}
---
apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: b, relationships: [{kind: CivoVpc, name: a}]}
spec: {networkName: b, region: fra1}
`)); !errors.As(err, new(*foreignkey.CycleError)) {
		t.Errorf("a circle: got error %v", err)
	}

	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"SharedStack": {
			reason: "two resources in one stack would delete each other",
			text: `apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: a, labels: {pulumi.project-planton.org/stack.fqdn: o/p/s}}
spec: {networkName: a, region: fra1}
---
apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: b, labels: {pulumi.project-planton.org/stack.fqdn: o/p/s}}
spec: {networkName: b, region: fra1}
`,
			want: "test.yaml:8:1: metadata: its stack o/p/s is that of CivoVpc a at test.yaml:1 already [stack]",
		},
		"BadLabel": {
			reason: "a label that names no stack",
			text: `apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: a, labels: {pulumi.project-planton.org/stack.fqdn: nonsense}}
spec: {networkName: a, region: fra1}
`,
			want: "test.yaml:3:21: metadata.labels: ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Order(parse(t, tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got error %v, want one with %q", tc.reason, err, tc.want)
			}
		})
	}
}

// TestStackOfAReference: what a manifest refers to and is not in the set has a stack in the same organization of the backend.
func TestStackOfAReference(t *testing.T) {
	t.Parallel()
	const clusterIn = `apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata:
  name: main
  labels: {%s}
spec:
  clusterName: main
  region: fra1
  kubernetesVersion: 1.29.0+k3s1
  network: {valueFrom: {name: net}}
  defaultNodePool: {size: g4s.kube.small, nodeCount: 1}
`
	cases := map[string]struct{ reason, labels, want string }{
		"Rule":     {reason: "the rule", want: "organization/civovpc/net"},
		"Together": {reason: "the organization of what refers to it", labels: `pulumi.project-planton.org/organization: acme`, want: "acme/civovpc/net"},
		"Label": {
			reason: "a label that names a stack names its organization, too",
			labels: `pulumi.project-planton.org/organization: acme, pulumi.project-planton.org/stack.fqdn.civovpc.net: shared/networks/net`,
			want:   "shared/networks/net",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members, err := Order(parse(t, fmt.Sprintf(clusterIn, tc.labels)))
			if err != nil {
				t.Fatal(err)
			}
			references, err := foreignkey.Of(members[0].Manifest.Target)
			if err != nil || len(references) != 1 {
				t.Fatalf("%d references, error %v", len(references), err)
			}
			got, err := (&Set{}).identityOf(members[0], references[0])
			if err != nil || got.String() != tc.want {
				t.Errorf("%s: got %s, error %v; want %s", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestRegionIsInherited(t *testing.T) {
	t.Parallel()
	firewall := func(region string) *manifest.Manifest {
		return parse(t, `apiVersion: civo.project-planton.org/v1
kind: CivoFirewall
metadata: {name: main}
spec:
  name: main
  networkId: {valueFrom: {name: main}}
  inboundRules: [{protocol: icmp, cidrs: [0.0.0.0/0]}]
`+region)[0]
	}
	cases := map[string]struct {
		reason    string
		manifests []*manifest.Manifest
		outputs   Outputs // of the network's stack, where the network is not in the set
		want      civov1.CivoRegion
	}{
		"Own":      {reason: "what is given counts", manifests: []*manifest.Manifest{firewall("  region: lon1\n"), vpc(t, "main", "net", "FRA1")}, want: civov1.CivoRegion_lon1},
		"Manifest": {reason: "that of the network's manifest, in any case of letters", manifests: []*manifest.Manifest{firewall(""), vpc(t, "main", "net", "FRA1")}, want: civov1.CivoRegion_fra1},
		"Stack":    {reason: "that of the network's stack", manifests: []*manifest.Manifest{firewall("")}, outputs: Outputs{"region": {Value: "NYC1", Known: true}}, want: civov1.CivoRegion_nyc1},
		"Unknown":  {reason: "a region that the protos do not know is left to the provider config", manifests: []*manifest.Manifest{firewall(""), vpc(t, "main", "net", "svg1")}},
		"None":     {reason: "a stack that does not tell is left to the provider config", manifests: []*manifest.Manifest{firewall("")}, outputs: Outputs{"network_id": {Value: "x", Known: true}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := (&Engine{}).NewSet(tc.manifests, ProviderConfigs{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.outputs != nil {
				set.know(foreignkey.Key{Kind: "CivoVpc", Name: "main"}, tc.outputs)
			}
			member := set.members[len(set.members)-1]
			target, err := set.withRegion(t.Context(), member)
			if err != nil {
				t.Fatal(err)
			}
			if got := target.(*civofirewallv1.CivoFirewall).GetSpec().GetRegion(); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// A region that nobody tells is a problem of the manifest, found before anything is begun.
func TestRegionIsMissing(t *testing.T) {
	t.Parallel()
	pool := parse(t, `apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesNodePool
metadata: {name: main}
spec:
  nodePoolName: main
  cluster: {value: 2b8e4a52-35a1-4c0e-8a36-5b5f3e8d7c90}
  size: g4s.kube.medium
  nodeCount: 1
`)
	for name, tc := range map[string]struct {
		reason string
		config *civov1.CivoProviderConfig
		want   int
	}{
		"None":    {reason: "no config tells a region", want: 1},
		"Token":   {reason: "a config without a region tells none", config: &civov1.CivoProviderConfig{ApiToken: "x"}, want: 1},
		"Default": {reason: "the config's default region counts", config: &civov1.CivoProviderConfig{DefaultRegion: civov1.CivoRegion_lon1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := (&Engine{}).NewSet(pool, ProviderConfigs{Civo: tc.config})
			if err != nil {
				t.Fatal(err)
			}
			var problems *manifest.Error
			if err := set.checkRegions(t.Context()); err != nil && !errors.As(err, &problems) {
				t.Fatal(err)
			}
			if problems == nil && tc.want > 0 || problems != nil && (len(problems.Problems) != tc.want || problems.Problems[0].FieldPath != "spec.region") {
				t.Errorf("%s: got %v", tc.reason, problems)
			}
		})
	}
}

func TestKindOfText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ErrorKind{
		"GET https://api.civo.com/v2/regions: 401 Unauthorized":                                                Credentials,
		"AuthenticationError: requires_authentication":                                                         Credentials,
		"Unable to authenticate you":                                                                           Credentials,
		"dial tcp 127.0.0.1:1: connect: connection refused":                                                    Unreachable,
		"429 Too Many Requests":                                                                                Unreachable,
		"503 Service Unavailable":                                                                              Unreachable,
		"POST /v2/networks: 403 Forbidden quota_limit_reached: The quota has been reached":                     Failed,
		"the stack is currently locked by 1 lock(s)":                                                           Conflict,
		"database_firewall_duplicate_name":                                                                     Failed,
		"quota_limit_reached: 401k is the limit":                                                               Failed,
		"refused: the official plugin is known to crash on this change":                                        Refused,
		"kubernetesVersion: 1.29.0-k3s1 is lower than the cluster's 1.30.5-k3s1, and a cluster cannot go back": Refused,
		"spec.network refers to output x of y, but its stack z cannot be read":                                 NotFound,
	} {
		if got := kindOfText(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	before := map[string]any{
		"name": "a", "same": "x", "gone": true, "__meta": "1",
		"pools": map[string]any{"nodeCount": 2.0, "labels": []any{"x", "y"}},
	}
	after := map[string]any{
		"name": "b", "same": "x", "new": "n", "__meta": "2",
		"pools":  map[string]any{"nodeCount": 4.0, "labels": []any{"x"}},
		"secret": map[string]any{signatureKey: "1b47061264138c4ac30d75fd1eb44270"},
	}
	want := []PropertyChange{
		{Path: "gone", Kind: "delete", Old: true},
		{Path: "name", Kind: "update", Old: "a", New: "b"},
		{Path: "new", Kind: "add", New: "n"},
		{Path: "pools.labels[1]", Kind: "delete", Old: "y"},
		{Path: "pools.nodeCount", Kind: "update", Old: 2.0, New: 4.0},
		{Path: "secret", Kind: "add"},
	}
	if diff := cmp.Diff(want, differences(before, after, "")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
