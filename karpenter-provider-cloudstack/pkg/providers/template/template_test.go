package template

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

// api has the templates of each zone.
type api struct {
	templates map[string][]*cloudstack.Template
	err       error
	calls     int
}

func (a *api) ListTemplates(_ context.Context, _ cloudstack.Scope, zoneID string) ([]*cloudstack.Template, error) {
	a.calls++
	return a.templates[zoneID], a.err
}

func newAPI() *api {
	day := func(n string) string { return "2026-01-" + n + "T10:00:00+0000" }
	tags := []sdk.Tags{{Key: "channel", Value: "stable"}}
	return &api{templates: map[string][]*cloudstack.Template{
		"z1": {
			{Id: "old", Name: "k8s-1.34", Isready: true, Created: day("01"), Arch: "x86_64", Tags: tags},
			{Id: "new", Name: "k8s-1.35", Isready: true, Created: day("05"), Arch: "x86_64", Tags: tags},
			{Id: "coming", Name: "k8s-1.36", Isready: false, Created: day("09"), Arch: "x86_64", Tags: tags},
			{Id: "arm", Name: "k8s-1.35-arm", Isready: true, Created: day("02"), Arch: "aarch64"},
			{Id: "untold", Name: "plain", Isready: true, Created: "2026-01-01T12:00:00+0500"},
			{Id: "strange", Name: "mainframe", Isready: true, Created: day("03"), Arch: "s390x"},
			{Id: "twin-b", Name: "twin", Isready: true, Created: day("04")},
			{Id: "twin-a", Name: "twin", Isready: true, Created: day("04")},
			{Id: "elsewhere", Name: "elsewhere", Isready: true, Zoneid: "z2"},
			{Id: "new", Name: "k8s-1.35", Isready: true, Created: day("05"), Arch: "x86_64", Zoneid: "z2"},
		},
		"z2": {{Id: "old", Name: "k8s-1.34", Isready: true, Created: day("01"), Zoneid: "z2"}},
	}}
}

func provider(a API) *DefaultProvider {
	return NewProvider(a, clocktesting.NewFakeClock(time.Unix(1e9, 0)))
}

var (
	zone1 = csv1.ZoneStatus{ID: "z1", Name: "zone-1"}
	zone2 = csv1.ZoneStatus{ID: "z2", Name: "zone-2"}
)

func TestResolve(t *testing.T) {
	type terms = []csv1.TemplateSelectorTerm
	tests := []struct {
		name   string
		terms  terms
		zones  []csv1.ZoneStatus
		want   []string // zone, architecture and id
		reason string
		says   string
	}{
		{"the newest of each architecture", terms{{NameRegex: `k8s-1\.3.*`}}, []csv1.ZoneStatus{zone1}, []string{"z1 amd64 new", "z1 arm64 arm"}, "", ""},
		{"each zone has its own newest", terms{{NameRegex: `k8s-1\.3\d`}}, []csv1.ZoneStatus{zone1, zone2}, []string{"z1 amd64 new", "z2 amd64 old"}, "", ""},
		{"an id", terms{{ID: "old"}}, []csv1.ZoneStatus{zone1}, []string{"z1 amd64 old"}, "", ""},
		{"tags", terms{{Tags: map[string]string{"channel": "*"}}}, []csv1.ZoneStatus{zone1}, []string{"z1 amd64 new"}, "", ""},
		{"all fields of a term", terms{{Tags: map[string]string{"channel": "stable"}, Name: "k8s-1.34"}}, []csv1.ZoneStatus{zone1}, []string{"z1 amd64 old"}, "", ""},
		{"an architecture", terms{{NameRegex: "k8s.*", Architecture: "arm64"}}, []csv1.ZoneStatus{zone1}, []string{"z1 arm64 arm"}, "", ""},
		{"an architecture that is not told", terms{{Name: "plain", Architecture: "amd64"}}, []csv1.ZoneStatus{zone1}, []string{"z1 amd64 untold"}, "", ""},
		{"two of one age: always the same", terms{{Name: "twin"}}, []csv1.ZoneStatus{zone1}, []string{"z1 amd64 twin-b"}, "", ""},
		{"times are compared, not texts", terms{{Name: "plain"}, {Name: "k8s-1.34"}}, []csv1.ZoneStatus{zone1}, []string{"z1 amd64 old"}, "", ""},
		{"a part of a name", terms{{NameRegex: "k8s"}}, []csv1.ZoneStatus{zone1}, nil, selector.ReasonNotFound, `spec.templateSelectorTerms selects no template of zone "zone-1"; the zone has "k8s-1.34"`},
		{"a zone of two without", terms{{ID: "new"}}, []csv1.ZoneStatus{zone1, zone2}, nil, selector.ReasonNotFound, `zone "zone-2"; the zone has "k8s-1.34"`},
		{"not ready", terms{{ID: "coming"}}, []csv1.ZoneStatus{zone1}, nil, selector.ReasonNotUsable, `selects "k8s-1.36" in zone "zone-1", not ready yet`},
		{"another architecture", terms{{ID: "strange"}}, []csv1.ZoneStatus{zone1}, nil, selector.ReasonNotUsable, `"mainframe (s390x)" in zone "zone-1": the architecture has to be amd64 or arm64`},
		{"of another zone", terms{{ID: "elsewhere"}}, []csv1.ZoneStatus{zone1}, nil, selector.ReasonNotFound, "selects no template"},
		{"an empty term", terms{{}}, []csv1.ZoneStatus{zone1}, nil, selector.ReasonNotFound, "selects no template"},
		{"no regular expression", terms{{Name: "x"}, {NameRegex: "("}}, []csv1.ZoneStatus{zone1}, nil, selector.ReasonInvalid, "spec.templateSelectorTerms[1].nameRegex: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{TemplateSelectorTerms: test.terms}}
			got, err := provider(newAPI()).Resolve(t.Context(), nodeClass, test.zones)
			if test.says != "" {
				if e, ok := selector.As(err); !ok || e.Reason != test.reason || !strings.Contains(e.Message, test.says) || got != nil {
					t.Errorf("got %v, want %s: %s", err, test.reason, test.says)
				}
				return
			}
			have := lo.Map(got, func(s csv1.TemplateStatus, _ int) string { return s.ZoneID + " " + s.Architecture + " " + s.ID })
			if diff := cmp.Diff(test.want, have); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestGet(t *testing.T) {
	p := provider(newAPI())
	if got, err := p.GetByID(t.Context(), cloudstack.Scope{}, "z1", "coming"); err != nil || got.Name != "k8s-1.36" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := p.GetByName(t.Context(), cloudstack.Scope{}, "z1", "k8s-1.35"); err != nil || got.Id != "new" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := p.GetByName(t.Context(), cloudstack.Scope{}, "z1", "k8s-1.36"); !selector.IsNotFound(err) {
		t.Errorf("got %v: it is not ready", err)
	}
	got, err := p.GetByTags(t.Context(), cloudstack.Scope{}, "z1", map[string]string{"channel": "stable"})
	if err != nil || len(got) != 2 || got[0].Id != "new" {
		t.Errorf("got %v, %v, want those that are ready, the newest first", got, err)
	}
	if got, err := p.GetByTags(t.Context(), cloudstack.Scope{}, "z1", nil); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v: no tags select nothing", got, err)
	}
}

func TestFailure(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	a := newAPI()
	a.err = errors.New("down")
	p := NewProvider(a, clk)
	nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{TemplateSelectorTerms: []csv1.TemplateSelectorTerm{{ID: "new"}}}}
	_, err := p.Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone1})
	if _, missing := selector.As(err); err == nil || missing {
		t.Errorf("got %v: a request that fails does not mean that there is no template", err)
	}
	a.err = nil
	if _, err := p.Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone1}); err != nil {
		t.Error(err)
	}
	a.err = errors.New("down")
	clk.Step(time.Hour)
	if got, err := p.Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone1}); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v: an outage must not take templates away", got, err)
	}
}

func TestNewTemplateIsSeen(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	a := newAPI()
	p := NewProvider(a, clk)
	nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{TemplateSelectorTerms: []csv1.TemplateSelectorTerm{{NameRegex: "k8s.*", Architecture: "amd64"}}}}
	id := func() string {
		t.Helper()
		got, err := p.Resolve(t.Context(), nodeClass, []csv1.ZoneStatus{zone1})
		if err != nil {
			t.Fatal(err)
		}
		return got[0].ID
	}
	if got := id(); got != "new" {
		t.Fatalf("got %s", got)
	}
	a.templates["z1"] = append(a.templates["z1"], &cloudstack.Template{Id: "newest", Name: "k8s-1.37", Isready: true, Created: "2026-02-01T10:00:00+0000"})
	if got := id(); got != "new" || a.calls != 1 {
		t.Errorf("got %s after %d requests, want the old one from the cache", got, a.calls)
	}
	clk.Step(ttl)
	if got := id(); got != "newest" {
		t.Errorf("got %s, want the new one after %s", got, ttl)
	}
}
