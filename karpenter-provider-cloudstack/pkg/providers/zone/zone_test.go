package zone

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	clocktesting "k8s.io/utils/clock/testing"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// api has zones, and counts how often it is asked.
type api struct {
	zones []*cloudstack.Zone
	err   error
	calls int
}

func (a *api) ListZones(context.Context) ([]*cloudstack.Zone, error) {
	a.calls++
	return a.zones, a.err
}

func zones() []*cloudstack.Zone {
	return []*cloudstack.Zone{
		{Id: "id-1", Name: "zone-1", Allocationstate: "Enabled", Securitygroupsenabled: true},
		{Id: "id-2", Name: "zone-2", Allocationstate: "Enabled"},
		{Id: "id-3", Name: "closed", Allocationstate: "Disabled"},
		{Id: "id-4", Name: "twin", Allocationstate: "Enabled"},
		{Id: "id-5", Name: "twin", Allocationstate: "Enabled"},
		{Id: "id-6", Name: "Zone 6", Allocationstate: "Enabled"},
		{Id: "id-7", Name: "Zone-6", Allocationstate: "Enabled"},
		{Id: "id-8", Name: "日本", Allocationstate: "Enabled"},
	}
}

func TestResolve(t *testing.T) {
	one := csv1.ZoneStatus{ID: "id-1", Name: "zone-1", SecurityGroupsEnabled: true}
	two := csv1.ZoneStatus{ID: "id-2", Name: "zone-2"}
	tests := []struct {
		name   string
		zone   string
		zones  []string
		want   []csv1.ZoneStatus
		reason string
		says   string
	}{
		{"names", "", []string{"zone-2", "zone-1"}, []csv1.ZoneStatus{two, one}, "", "the order is that of the user"},
		{"ids", "", []string{"id-1"}, []csv1.ZoneStatus{one}, "", ""},
		{"the one zone of old", "zone-1", nil, []csv1.ZoneStatus{one}, "", ""},
		{"twice, by name and by id", "", []string{"zone-1", "id-1"}, []csv1.ZoneStatus{one}, "", ""},
		{"unknown", "", []string{"zone-1", "zone-9"}, nil, selector.ReasonNotFound, `spec.zones[1]: there is no zone "zone-9" that these credentials may use; there is "Zone 6"`},
		{"unknown, the field of old", "zone-9", nil, nil, selector.ReasonNotFound, `spec.zone: `},
		{"disabled", "", []string{"closed"}, nil, selector.ReasonNotUsable, `zone "closed" is disabled: enable it, or name another one`},
		{"two of a name", "", []string{"twin"}, nil, selector.ReasonAmbiguous, `2 zones have the name "twin": give the id of one`},
		{"one of two, by id", "", []string{"id-4"}, []csv1.ZoneStatus{{ID: "id-4", Name: "twin"}}, "", ""},
		{"two whose nodes could not be told apart", "", []string{"id-4", "id-5"}, nil, selector.ReasonAmbiguous, "topology.kubernetes.io/zone"},
		{"a name that no label can have", "", []string{"Zone 6"}, []csv1.ZoneStatus{{ID: "id-6", Name: "Zone-6"}}, "", ""},
		{"two that have one label", "", []string{"Zone 6", "Zone-6"}, nil, selector.ReasonAmbiguous, "topology.kubernetes.io/zone"},
		{"a name of which no label is left", "", []string{"日本"}, []csv1.ZoneStatus{{ID: "id-8", Name: "id-8"}}, "", ""},
		{"none", "", nil, nil, selector.ReasonInvalid, "names no zone"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := NewProvider(&api{zones: zones()}, clocktesting.NewFakeClock(time.Unix(1e9, 0)))
			nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{Zone: test.zone, Zones: test.zones}} //nolint:staticcheck // still to be read
			got, err := p.Resolve(t.Context(), nodeClass)
			if test.reason != "" {
				if e, ok := selector.As(err); !ok || e.Reason != test.reason || !strings.Contains(e.Message, test.says) {
					t.Errorf("got %v, want %s: %s", err, test.reason, test.says)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestGetByName(t *testing.T) {
	p := NewProvider(&api{zones: zones()}, clocktesting.NewFakeClock(time.Unix(1e9, 0)))
	for nameOrID, want := range map[string]string{"zone-1": "id-1", "id-2": "id-2", "Zone 6": "id-6"} {
		if got, err := p.GetByName(t.Context(), nameOrID); err != nil || got.Id != want {
			t.Errorf("%s: got %v, %v", nameOrID, got, err)
		}
	}
	if _, err := p.GetByName(t.Context(), "zone-9"); !selector.IsNotFound(err) || !strings.Contains(err.Error(), `"zone-1"`) {
		t.Errorf("got %v, want an error that names the zones there are", err)
	}
}

func TestRemembers(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	a := &api{zones: zones()}
	p := NewProvider(a, clk)
	nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{Zones: []string{"new"}}}

	if _, err := p.Resolve(t.Context(), nodeClass); !selector.IsNotFound(err) || a.calls != 1 {
		t.Fatalf("got %v after %d requests", err, a.calls)
	}
	a.zones = append(a.zones, &cloudstack.Zone{Id: "id-9", Name: "new"})
	clk.Step(time.Minute)
	if got, err := p.Resolve(t.Context(), nodeClass); err != nil || got[0].ID != "id-9" {
		t.Errorf("got %v, %v: what is missing has to be asked for again before an hour is over", got, err)
	}
	for range 5 {
		if _, err := p.List(t.Context()); err != nil || a.calls != 2 {
			t.Errorf("%d requests (%v), want 2 for all looks", a.calls, err)
		}
	}

	a.err, a.zones = errors.New("down"), nil
	clk.Step(2 * time.Hour)
	if got, err := p.Resolve(t.Context(), nodeClass); err != nil || got[0].ID != "id-9" {
		t.Errorf("got %v, %v: an outage must not take zones away", got, err)
	}
}

func TestFailure(t *testing.T) {
	p := NewProvider(&api{err: errors.New("down")}, clocktesting.NewFakeClock(time.Unix(1e9, 0)))
	_, err := p.Resolve(t.Context(), &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{Zones: []string{"zone-1"}}})
	if _, missing := selector.As(err); err == nil || missing {
		t.Errorf("got %v: a request that fails does not mean that there is no zone", err)
	}
}
