package instancetype

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"
	"k8s.io/apimachinery/pkg/util/validation"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

func between(least, most int64) *csv1.Range { return &csv1.Range{Min: &least, Max: &most} }

func catalog() []*cloudstack.ServiceOffering {
	return []*cloudstack.ServiceOffering{
		fixed(1, "small", 1, 2048),
		with(fixed(2, "medium", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Hosttags = "ssd, class=general" }),
		with(fixed(3, "large", 8, 16384), func(o *cloudstack.ServiceOffering) {
			o.Hosttags = "ssd,nvme"
			o.Serviceofferingdetails = map[string]string{"class": "compute"}
		}),
		with(fixed(4, "gpu.large", 8, 32768), func(o *cloudstack.ServiceOffering) { o.Gpucount, o.Gpucardname = 2, "Tesla T4" }),
		with(fixed(5, "retired", 2, 4096), func(o *cloudstack.ServiceOffering) { o.State = "Inactive" }),
		with(fixed(6, "zone3", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Zoneid = "z3" }),
		with(fixed(7, "zones", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Zoneid = "z3, z2" }),
		with(fixed(8, "router", 1, 512), func(o *cloudstack.ServiceOffering) { o.Issystem = true }),
		with(fixed(9, "custom", 0, 0), func(o *cloudstack.ServiceOffering) { o.Iscustomized, o.Cpuspeed = true, 0 }),
		with(fixed(10, "bounded", 0, 0), func(o *cloudstack.ServiceOffering) {
			o.Iscustomized = true
			o.Serviceofferingdetails = map[string]string{"mincpunumber": "2", "maxcpunumber": "4", "minmemory": "4096", "maxmemory": "8192"}
		}),
		with(fixed(11, "nosize", 0, 4096), func(*cloudstack.ServiceOffering) {}),
		with(fixed(12, "broken", 0, 0), func(o *cloudstack.ServiceOffering) {
			o.Iscustomized = true
			o.Serviceofferingdetails = map[string]string{"mincpunumber": "two"}
		}),
	}
}

func TestSelection(t *testing.T) {
	type terms = []csv1.ServiceOfferingSelectorTerm
	grid := &csv1.CustomOffering{CPUs: []int32{1, 2, 4}, MemoryMiBPerCPU: []int32{2048, 4096}}
	all := []string{"gpularge", "large", "medium", "small", "zones"}
	tests := []struct {
		name   string
		terms  terms
		custom *csv1.CustomOffering
		want   []string
		reason string
		says   string
	}{
		{"all that can be used in the zones", terms{{NameRegex: ".*"}}, nil, all, "", ""},
		{"an id", terms{{ID: id(2)}}, nil, []string{"medium"}, "", ""},
		{"a name", terms{{Name: "gpu.large"}}, nil, []string{"gpularge"}, "", ""},
		{"the whole name is matched", terms{{NameRegex: "large"}}, nil, []string{"large"}, "", ""},
		{"a pattern", terms{{NameRegex: ".*large"}}, nil, []string{"gpularge", "large"}, "", ""},
		{"host tags, all of them", terms{{HostTags: []string{"nvme", "ssd"}}}, nil, []string{"large"}, "", ""},
		{"a host tag, of several", terms{{HostTags: []string{"ssd"}}}, nil, []string{"large", "medium"}, "", ""},
		{"a tag that is a host tag", terms{{Tags: map[string]string{"class": "general"}}}, nil, []string{"medium"}, "", ""},
		{"a tag that is a detail", terms{{Tags: map[string]string{"class": "compute"}}}, nil, []string{"large"}, "", ""},
		{"a tag of any value", terms{{Tags: map[string]string{"class": "*"}}}, nil, []string{"large", "medium"}, "", ""},
		{"two tags", terms{{Tags: map[string]string{"class": "*", "other": "*"}}}, nil, nil, selector.ReasonNotFound, `spec.serviceOfferingSelectorTerms selects none of 12 service offerings; there is "bounded"`},
		{"a host tag is no tag", terms{{Tags: map[string]string{"ssd": "*"}}}, nil, nil, selector.ReasonNotFound, "selects none"},
		{"bounds of CPUs, included", terms{{CPU: between(2, 8)}}, nil, []string{"gpularge", "large", "medium", "zones"}, "", ""},
		{"bounds of memory, included", terms{{MemoryMiB: between(2048, 4096)}}, nil, []string{"medium", "small", "zones"}, "", ""},
		{"a bound on one side", terms{{CPU: &csv1.Range{Min: lo.ToPtr[int64](3)}}}, nil, []string{"gpularge", "large"}, "", ""},
		{"with GPUs", terms{{GPU: lo.ToPtr(true)}}, nil, []string{"gpularge"}, "", ""},
		{"without GPUs", terms{{GPU: lo.ToPtr(false), CPU: between(8, 8)}}, nil, []string{"large"}, "", ""},
		{"all fields of a term", terms{{HostTags: []string{"ssd"}, CPU: between(1, 2)}}, nil, []string{"medium"}, "", ""},
		{"any of the terms", terms{{Name: "small"}, {Name: "large"}}, nil, []string{"large", "small"}, "", ""},
		{"an offering that two terms fit", terms{{Name: "small"}, {ID: id(1)}}, nil, []string{"small"}, "", ""},
		{"an empty term", terms{{}}, nil, nil, selector.ReasonNotFound, "selects none"},
		{"inactive", terms{{Name: "retired"}}, nil, nil, selector.ReasonNotUsable, `selects "retired", which is inactive`},
		{"for the system", terms{{Name: "router"}}, nil, nil, selector.ReasonNotUsable, "is for system machines"},
		{"of another zone", terms{{Name: "zone3"}}, nil, nil, selector.ReasonNotFound, `selects "zone3", which the zones of spec.zones do not have`},
		{"no size", terms{{Name: "custom", CPU: between(1, 2)}}, nil, nil, selector.ReasonNotUsable, `"custom", which has no size of its own: set spec.customOffering`},
		{"no size, and not customized", terms{{Name: "nosize"}}, grid, nil, selector.ReasonNotUsable, "has no size"},
		{"the grid", terms{{Name: "custom"}}, grid, []string{
			"custom-1c-2048m", "custom-1c-4096m", "custom-2c-4096m", "custom-2c-8192m", "custom-4c-16384m", "custom-4c-8192m",
		}, "", ""},
		{"the grid within bounds", terms{{Name: "bounded"}}, grid, []string{"bounded-2c-4096m", "bounded-2c-8192m", "bounded-4c-8192m"}, "", ""},
		{"bounds of the term are for sizes", terms{{Name: "custom", CPU: between(2, 2), MemoryMiB: between(0, 5000)}}, grid, []string{"custom-2c-4096m"}, "", ""},
		{"no size within the bounds", terms{{Name: "bounded"}}, &csv1.CustomOffering{CPUs: []int32{16}, MemoryMiBPerCPU: []int32{1024}}, nil,
			selector.ReasonNotUsable, `"bounded", which has bounds that no size of spec.customOffering is within`},
		{"bounds that are no numbers", terms{{Name: "broken"}}, grid, nil, selector.ReasonNotUsable, `mincpunumber="two", which is no number`},
		{"no regular expression", terms{{NameRegex: "*"}}, nil, nil, selector.ReasonInvalid, "spec.serviceOfferingSelectorTerms[0].nameRegex: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(Options{}, catalog()...)
			nodeClass := class(func(c *csv1.CloudStackNodeClass) {
				c.Spec.ServiceOfferingSelectorTerms, c.Spec.CustomOffering = test.terms, test.custom
			})
			got, err := w.List(t.Context(), nodeClass)
			_, inOfferings := w.Offerings(t.Context(), nodeClass)
			if test.reason != "" {
				for _, err := range []error{err, inOfferings} {
					if e, ok := selector.As(err); !ok || e.Reason != test.reason || !strings.Contains(e.Message, test.says) {
						t.Errorf("got %v, want %s: %s", err, test.reason, test.says)
					}
				}
				return
			}
			if diff := cmp.Diff(test.want, names(got)); err != nil || inOfferings != nil || diff != "" {
				t.Errorf("%v, %v %s", err, inOfferings, diff)
			}
		})
	}
}

func TestOfferings(t *testing.T) {
	w := newWorld(Options{}, catalog()...)
	nodeClass := class(func(c *csv1.CloudStackNodeClass) {
		c.Spec.ServiceOfferingSelectorTerms = []csv1.ServiceOfferingSelectorTerm{{Name: "custom"}, {Name: "small"}, {Name: "zone3"}}
		c.Spec.CustomOffering = &csv1.CustomOffering{CPUs: []int32{1, 2}, MemoryMiBPerCPU: []int32{2048, 4096}}
	})
	got := func() []string {
		t.Helper()
		offerings, err := w.Offerings(t.Context(), nodeClass)
		if err != nil {
			t.Fatal(err)
		}
		return lo.Map(offerings, func(o *cloudstack.ServiceOffering, _ int) string { return o.Name })
	}
	if diff := cmp.Diff([]string{"custom", "small"}, got()); diff != "" {
		t.Errorf("each offering once, those of the zones only: %s", diff)
	}
	nodeClass.Status.Zones = nil
	if diff := cmp.Diff([]string{"custom", "small", "zone3"}, got()); diff != "" {
		t.Errorf("before the zones are known, no zone is left out: %s", diff)
	}
}

func TestNewOfferingIsSeenSoonWhenNoneFits(t *testing.T) {
	w := newWorld(Options{}, fixed(1, "small", 1, 2048))
	nodeClass := class(func(c *csv1.CloudStackNodeClass) {
		c.Spec.ServiceOfferingSelectorTerms = []csv1.ServiceOfferingSelectorTerm{{Name: "large"}}
	})
	if _, err := w.Offerings(t.Context(), nodeClass); !selector.IsNotFound(err) || w.api.calls != 1 {
		t.Fatalf("got %v after %d requests", err, w.api.calls)
	}
	w.api.offerings = append(w.api.offerings, fixed(2, "large", 8, 2048))
	w.clock.Step(ttl / 4)
	if got, err := w.Offerings(t.Context(), nodeClass); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestLaunch(t *testing.T) {
	grid := &csv1.CustomOffering{CPUs: []int32{2}, MemoryMiBPerCPU: []int32{2048}, CPUSpeedMHz: lo.ToPtr[int32](2500)}
	tests := []struct {
		name, instanceType string
		offering           *cloudstack.ServiceOffering
		want               Launch
	}{
		{"a size of its own", "small", fixed(1, "small", 1, 2048), Launch{OfferingID: id(1), OfferingName: "small"}},
		{"zones of its own", "zones", with(fixed(1, "zones", 1, 2048), func(o *cloudstack.ServiceOffering) { o.Zoneid = "z3,z2" }),
			Launch{OfferingID: id(1), OfferingName: "zones", ZoneIDs: []string{"z3", "z2"}}},
		{"nothing of its own", "any-2c-4096m", with(fixed(1, "any", 0, 0), func(o *cloudstack.ServiceOffering) { o.Iscustomized, o.Cpuspeed = true, 0 }),
			Launch{OfferingID: id(1), OfferingName: "any", CPU: 2, CPUSpeedMHz: 2500, MemoryMiB: 4096}},
		{"a clock of its own", "any-2c-4096m", with(fixed(1, "any", 0, 0), func(o *cloudstack.ServiceOffering) { o.Iscustomized = true }),
			Launch{OfferingID: id(1), OfferingName: "any", CPU: 2, MemoryMiB: 4096}},
		{"a number of CPUs of its own", "any-3c-6144m", with(fixed(1, "any", 3, 0), func(o *cloudstack.ServiceOffering) { o.Iscustomized = true }),
			Launch{OfferingID: id(1), OfferingName: "any", MemoryMiB: 6144}},
		{"memory of its own", "any-2c-999m", with(fixed(1, "any", 0, 999), func(o *cloudstack.ServiceOffering) { o.Iscustomized = true }),
			Launch{OfferingID: id(1), OfferingName: "any", CPU: 2}},
		{"customized, with a size of its own", "any", with(fixed(1, "any", 3, 999), func(o *cloudstack.ServiceOffering) { o.Iscustomized, o.Cpuspeed = true, 0 }),
			Launch{OfferingID: id(1), OfferingName: "any", CPUSpeedMHz: 2500}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(Options{}, test.offering)
			nodeClass := class(func(c *csv1.CloudStackNodeClass) { c.Spec.CustomOffering = grid })
			got, err := w.Offering(t.Context(), nodeClass, test.instanceType)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			if _, err := w.Offering(t.Context(), nodeClass, "other"); !selector.IsNotFound(err) {
				t.Errorf("got %v for a name that is none", err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("Long Name ", 10)
	aged := func(n int, name, created string) *cloudstack.ServiceOffering {
		return with(fixed(n, name, 1, 1024), func(o *cloudstack.ServiceOffering) { o.Created = created })
	}
	tests := []struct {
		name      string
		offerings []*cloudstack.ServiceOffering
		want      map[string]string // by id
	}{
		{"as the cloud controller manager has them", []*cloudstack.ServiceOffering{fixed(1, "m1.large", 1, 1), fixed(2, "Medium Instance", 1, 1), fixed(3, "medium instance", 1, 1)},
			map[string]string{id(1): "m1large", id(2): "MediumInstance", id(3): "mediuminstance"}},
		{"the oldest of one name keeps it", []*cloudstack.ServiceOffering{
			aged(7, "a-b", "2026-01-02T00:00:00+0000"), aged(9, "a.b", "2026-01-01T00:00:00+0000"), aged(8, "ab", "2026-01-03T00:00:00+0000"),
		}, map[string]string{id(9): "ab", id(7): "ab-00000007", id(8): "ab-00000008"}},
		{"the id decides between those of one age", []*cloudstack.ServiceOffering{
			aged(2, "ab", "2026-01-01T00:00:00+0000"), aged(1, "ab", "2026-01-01T00:00:00+0000"),
		}, map[string]string{id(1): "ab", id(2): "ab-00000002"}},
		{"ids that begin alike", []*cloudstack.ServiceOffering{
			{Id: "aaaaaaaa-1", Name: "x"}, {Id: "aaaaaaaa-2", Name: "x"}, {Id: "aaaaaaaa-3", Name: "x"},
		}, map[string]string{"aaaaaaaa-1": "x", "aaaaaaaa-2": "x-aaaaaaaa", "aaaaaaaa-3": "x-aaaaaaaa3"}},
		{"nothing left of the name", []*cloudstack.ServiceOffering{fixed(1, "日本", 1, 1)}, map[string]string{id(1): "00000001000040008000000000000000"}},
		{"too long", []*cloudstack.ServiceOffering{fixed(1, long, 1, 1)}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := namesOf(test.offerings)
			for _, name := range got {
				if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
					t.Errorf("%q is no value of a label: %v", name, problems)
				}
			}
			if diff := cmp.Diff(test.want, got); test.want != nil && diff != "" {
				t.Error(diff)
			}
			// The order in which CloudStack lists does not matter.
			for i, j := 0, len(test.offerings)-1; i < j; i, j = i+1, j-1 {
				test.offerings[i], test.offerings[j] = test.offerings[j], test.offerings[i]
			}
			if diff := cmp.Diff(got, namesOf(test.offerings)); diff != "" {
				t.Errorf("another order: %s", diff)
			}
		})
	}
}

func TestNamesDoNotDependOnSelectors(t *testing.T) {
	w := newWorld(Options{}, fixed(1, "a.b", 1, 1024), fixed(2, "a-b", 2, 1024))
	nodeClass := class(func(c *csv1.CloudStackNodeClass) {
		c.Spec.ServiceOfferingSelectorTerms = []csv1.ServiceOfferingSelectorTerm{{Name: "a-b"}}
	})
	if got := only(t, w, nodeClass); got.Name != "ab-00000002" {
		t.Errorf("got %s: a selector that changes would rename what nodes are of", got.Name)
	}
}

func TestCapacityTypes(t *testing.T) {
	rule := func(term csv1.ServiceOfferingSelectorTerm, capacityType string) csv1.CapacityTypeRule {
		return csv1.CapacityTypeRule{Selector: term, CapacityType: capacityType}
	}
	tests := []struct {
		name  string
		rules []csv1.CapacityTypeRule
		want  string
		says  string
	}{
		{"no rule", nil, "on-demand", ""},
		{"a rule that fits", []csv1.CapacityTypeRule{rule(csv1.ServiceOfferingSelectorTerm{HostTags: []string{"cheap"}}, "spot")}, "spot", ""},
		{"a rule that does not", []csv1.CapacityTypeRule{rule(csv1.ServiceOfferingSelectorTerm{HostTags: []string{"x"}}, "spot")}, "on-demand", ""},
		{"the first that fits", []csv1.CapacityTypeRule{
			rule(csv1.ServiceOfferingSelectorTerm{HostTags: []string{"x"}}, "spot"), rule(csv1.ServiceOfferingSelectorTerm{Name: "small"}, "reserved"),
			rule(csv1.ServiceOfferingSelectorTerm{Name: "small"}, "spot"),
		}, "reserved", ""},
		{"no regular expression", []csv1.CapacityTypeRule{rule(csv1.ServiceOfferingSelectorTerm{NameRegex: "("}, "spot")}, "", "spec.capacityTypeRules[0].selector.nameRegex: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(Options{}, with(fixed(1, "small", 1, 2048), func(o *cloudstack.ServiceOffering) { o.Hosttags = "cheap" }))
			nodeClass := class(func(c *csv1.CloudStackNodeClass) { c.Spec.CapacityTypeRules = test.rules })
			if test.says != "" {
				_, inList := w.List(t.Context(), nodeClass)
				_, inOfferings := w.Offerings(t.Context(), nodeClass)
				for _, err := range []error{inList, inOfferings} {
					if _, ok := selector.As(err); !ok || !strings.Contains(err.Error(), test.says) {
						t.Errorf("got %v, want: %s", err, test.says)
					}
				}
				return
			}
			want := []string{"zone-1 " + test.want + " true", "zone-2 " + test.want + " true"}
			if diff := cmp.Diff(want, offeringsOf(only(t, w, nodeClass))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
