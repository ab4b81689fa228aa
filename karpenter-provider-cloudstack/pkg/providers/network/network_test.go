package network

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	clocktesting "k8s.io/utils/clock/testing"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// api has the networks of each zone, and security groups.
type api struct {
	networks map[string][]*cloudstack.Network
	groups   []*cloudstack.SecurityGroup
	err      error
	calls    int
	scopes   []cloudstack.Scope
}

func (a *api) ListNetworks(_ context.Context, scope cloudstack.Scope, zoneID string) ([]*cloudstack.Network, error) {
	a.calls++
	a.scopes = append(a.scopes, scope)
	return a.networks[zoneID], a.err
}

func (a *api) ListSecurityGroups(_ context.Context, scope cloudstack.Scope) ([]*cloudstack.SecurityGroup, error) {
	a.calls++
	a.scopes = append(a.scopes, scope)
	return a.groups, a.err
}

func newAPI() *api {
	tags := func(key, value string) []sdk.Tags { return []sdk.Tags{{Key: key, Value: value}} }
	return &api{
		networks: map[string][]*cloudstack.Network{
			"z1": {
				{Id: "n3", Name: "k8s-c", Type: "Shared", State: "Setup", Tags: tags("role", "nodes")},
				{Id: "n1", Name: "k8s-a", Type: "Isolated", State: "Implemented", Tags: tags("role", "nodes"), Traffictype: "Guest"},
				{Id: "n2", Name: "k8s-b", Type: "Isolated", State: "Allocated", Vpcid: "v1"},
				{Id: "n4", Name: "k8s-a", Type: "L2", State: "Setup"},
				{Id: "n5", Name: "dying", Type: "Isolated", State: "Destroy"},
				{Id: "n6", Name: "public", Traffictype: "Public"},
				{Id: "n7", Name: "system", Issystem: true},
			},
			"z2": {{Id: "m1", Name: "k8s-a", Type: "Isolated", State: "Implemented"}},
			"z3": {},
		},
		groups: []*cloudstack.SecurityGroup{
			{Id: "g2", Name: "web", Tags: tags("role", "nodes")}, {Id: "g1", Name: "default"}, {Id: "g3", Name: "db"},
		},
	}
}

func provider(a API) *DefaultProvider {
	return NewProvider(a, clocktesting.NewFakeClock(time.Unix(1e9, 0)))
}

var (
	zone1 = csv1.ZoneStatus{ID: "z1", Name: "zone-1"}
	zone2 = csv1.ZoneStatus{ID: "z2", Name: "zone-2"}
	zone3 = csv1.ZoneStatus{ID: "z3", Name: "zone-3"}
	zoneS = csv1.ZoneStatus{ID: "z3", Name: "zone-s", SecurityGroupsEnabled: true}
)

func TestResolve(t *testing.T) {
	type terms = []csv1.NetworkSelectorTerm
	tests := []struct {
		name              string
		first, additional terms
		zones             []csv1.ZoneStatus
		want, wantMore    []string
		says              string
	}{
		{"an id", terms{{ID: "n2"}}, nil, []csv1.ZoneStatus{zone1}, []string{"n2"}, nil, ""},
		{"a name, of several, in each zone", terms{{Name: "k8s-a"}}, nil, []csv1.ZoneStatus{zone1, zone2}, []string{"n1", "n4", "m1"}, nil, ""},
		{"tags", terms{{Tags: map[string]string{"role": "*"}}}, nil, []csv1.ZoneStatus{zone1}, []string{"n1", "n3"}, nil, ""},
		{"a type", terms{{Type: "Isolated"}}, nil, []csv1.ZoneStatus{zone1}, []string{"n1", "n2"}, nil, ""},
		{"a VPC", terms{{VPCID: "v1"}}, nil, []csv1.ZoneStatus{zone1}, []string{"n2"}, nil, ""},
		{"all fields of a term", terms{{Name: "k8s-a", Type: "L2"}}, nil, []csv1.ZoneStatus{zone1}, []string{"n4"}, nil, ""},
		{"any of the terms", terms{{Name: "k8s-c"}, {Name: "k8s-b"}}, nil, []csv1.ZoneStatus{zone1}, []string{"n2", "n3"}, nil, ""},
		{"an empty term", terms{{}}, nil, []csv1.ZoneStatus{zone1}, nil, nil, "selects no network"},
		{"what is being deleted", terms{{Name: "dying"}}, nil, []csv1.ZoneStatus{zone1}, nil, nil, `spec.networkSelectorTerms selects no network of zone "zone-1"; the zone has "k8s-a", "k8s-b", "k8s-c"`},
		{"what is not for machines", terms{{Name: "public"}, {Name: "system"}}, nil, []csv1.ZoneStatus{zone1}, nil, nil, "selects no network"},
		{"a zone of two without", terms{{Name: "k8s-c"}}, nil, []csv1.ZoneStatus{zone1, zone2}, nil, nil, `zone "zone-2"; the zone has "k8s-a"`},
		{"all zones without", terms{{Name: "x"}}, nil, []csv1.ZoneStatus{zone2, zone3}, nil, nil, `zone "zone-2"; the zone has "k8s-a"; spec.networkSelectorTerms selects no network of zone "zone-3"; the zone has none`},
		{"no terms", nil, nil, []csv1.ZoneStatus{zone1}, nil, nil, `zone "zone-1" has no security groups, so that its machines need a network: set spec.networkSelectorTerms`},
		{"no terms where there are security groups", nil, nil, []csv1.ZoneStatus{zoneS}, nil, nil, ""},
		{"additional ones, in the order of the terms", terms{{ID: "n1"}}, terms{{Name: "k8s-c"}, {Name: "k8s-b"}}, []csv1.ZoneStatus{zone1}, []string{"n1"}, []string{"n3", "n2"}, ""},
		{"an additional one is none of the first", terms{{Type: "Isolated"}}, terms{{ID: "n1"}}, []csv1.ZoneStatus{zone1}, []string{"n2"}, []string{"n1"}, ""},
		{"one for two uses", terms{{ID: "n1"}}, terms{{ID: "n1"}}, []csv1.ZoneStatus{zone1}, nil, nil, "beside the additional ones"},
		{"two additional terms that fit one", terms{{ID: "n1"}}, terms{{ID: "n2"}, {ID: "n2"}}, []csv1.ZoneStatus{zone1}, nil, nil, "spec.additionalNetworkSelectorTerms[1] selects no further network"},
		{"an additional term for each of two networks", terms{{ID: "n2"}}, terms{{Name: "k8s-a"}, {Name: "k8s-a"}}, []csv1.ZoneStatus{zone1}, []string{"n2"}, []string{"n1", "n4"}, ""},
	}
	ids := func(networks []csv1.NetworkStatus) []string {
		return lo.Map(networks, func(n csv1.NetworkStatus, _ int) string { return n.ID })
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{
				NetworkSelectorTerms: test.first, AdditionalNetworkSelectorTerms: test.additional,
			}}
			first, additional, err := provider(newAPI()).Resolve(t.Context(), nodeClass, test.zones)
			if test.says != "" {
				if !selector.IsNotFound(err) || !strings.Contains(err.Error(), test.says) || first != nil || additional != nil {
					t.Errorf("got %v, want an error that says: %s", err, test.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(ids(first)) != len(test.want) || len(test.want) > 0 && cmp.Diff(test.want, ids(first)) != "" {
				t.Errorf("first: got %v, want %v", ids(first), test.want)
			}
			if len(ids(additional)) != len(test.wantMore) || len(test.wantMore) > 0 && cmp.Diff(test.wantMore, ids(additional)) != "" {
				t.Errorf("additional: got %v, want %v", ids(additional), test.wantMore)
			}
		})
	}
}

func TestStatusNamesTheZone(t *testing.T) {
	nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{
		NetworkSelectorTerms: []csv1.NetworkSelectorTerm{{ID: "m1"}}, Account: "a", DomainID: "d",
	}}
	a := newAPI()
	first, _, err := provider(a).Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone2})
	if diff := cmp.Diff([]csv1.NetworkStatus{{ID: "m1", Name: "k8s-a", ZoneID: "z2"}}, first); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if a.scopes[0] != (cloudstack.Scope{Account: "a", DomainID: "d"}) {
		t.Errorf("asked for networks of %v", a.scopes[0])
	}
}

func TestGet(t *testing.T) {
	p := provider(newAPI())
	if got, err := p.GetByID(t.Context(), cloudstack.Scope{}, "z1", "n2"); err != nil || got.Name != "k8s-b" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := p.GetByID(t.Context(), cloudstack.Scope{}, "z2", "n2"); !selector.IsNotFound(err) {
		t.Errorf("got %v: a network of another zone", err)
	}
	if got, err := p.GetByName(t.Context(), cloudstack.Scope{}, "z2", "k8s-a"); err != nil || got.Id != "m1" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := p.GetByName(t.Context(), cloudstack.Scope{}, "z1", "k8s-a"); err == nil || !strings.Contains(err.Error(), "give the id of one") {
		t.Errorf("got %v, want an error: two have the name", err)
	}
	got, err := p.GetByTags(t.Context(), cloudstack.Scope{}, "z1", map[string]string{"role": "nodes"})
	if err != nil || len(got) != 2 || got[0].Id != "n1" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestResolveSecurityGroups(t *testing.T) {
	type terms = []csv1.SecurityGroupSelectorTerm
	tests := []struct {
		name  string
		terms terms
		zone  csv1.ZoneStatus
		want  []string
		says  string
	}{
		{"none asked for", nil, zone1, nil, ""},
		{"an id and a name", terms{{ID: "g3"}, {Name: "default"}}, zoneS, []string{"g3", "g1"}, ""},
		{"tags", terms{{Tags: map[string]string{"role": "nodes"}}}, zoneS, []string{"g2"}, ""},
		{"all fields", terms{{Name: "default", Tags: map[string]string{"role": "nodes"}}}, zoneS, nil, `spec.securityGroupSelectorTerms selects no security group; there is "db", "default", "web"`},
		{"an empty term", terms{{}}, zoneS, nil, "selects no security group"},
		{"a zone without", terms{{Name: "default"}}, zone1, nil, `no zone of "zone-1" has security groups: remove the terms`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{SecurityGroupSelectorTerms: test.terms}}
			got, err := provider(newAPI()).ResolveSecurityGroups(t.Context(), nodeClass, []csv1.ZoneStatus{test.zone})
			if test.says != "" {
				if _, ok := selector.As(err); !ok || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v, want an error that says: %s", err, test.says)
				}
				return
			}
			ids := lo.Map(got, func(group csv1.SecurityGroupStatus, _ int) string { return group.ID })
			if err != nil || len(ids) != len(test.want) || len(ids) > 0 && cmp.Diff(test.want, ids) != "" {
				t.Errorf("got %v (%v), want %v", ids, err, test.want)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	a := newAPI()
	a.err = errors.New("down")
	nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{
		NetworkSelectorTerms: []csv1.NetworkSelectorTerm{{ID: "n1"}}, SecurityGroupSelectorTerms: []csv1.SecurityGroupSelectorTerm{{ID: "g1"}},
	}}
	p := provider(a)
	_, _, err := p.Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone1})
	if _, missing := selector.As(err); err == nil || missing {
		t.Errorf("got %v: a request that fails does not mean that there is no network", err)
	}
	_, err = p.ResolveSecurityGroups(t.Context(), nodeClass, []csv1.ZoneStatus{zoneS})
	if _, missing := selector.As(err); err == nil || missing {
		t.Errorf("got %v: a request that fails does not mean that there is no security group", err)
	}
}

func TestRemembers(t *testing.T) {
	a := newAPI()
	p := provider(a)
	nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{NetworkSelectorTerms: []csv1.NetworkSelectorTerm{{ID: "n1"}}}}
	for range 5 {
		if _, _, err := p.Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone1}); err != nil {
			t.Fatal(err)
		}
	}
	if a.calls != 1 {
		t.Errorf("%d requests for 5 looks", a.calls)
	}
	nodeClass.Spec.ProjectID = "p"
	if _, _, err := p.Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone1}); err != nil || a.calls != 2 {
		t.Errorf("%d requests (%v): a project has networks of its own", a.calls, err)
	}
}
