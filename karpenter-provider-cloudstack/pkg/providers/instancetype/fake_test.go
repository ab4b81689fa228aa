package instancetype

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

var errDown = errors.New("down")

// fakeAPI has service offerings and disk offerings.
type fakeAPI struct {
	offerings []*cloudstack.ServiceOffering
	disks     []*cloudstack.DiskOffering
	err       error
	calls     int
	diskCalls int
}

func (a *fakeAPI) ListServiceOfferings(context.Context, cloudstack.Scope) ([]*cloudstack.ServiceOffering, error) {
	a.calls++
	return a.offerings, a.err
}

func (a *fakeAPI) ListDiskOfferings(context.Context, cloudstack.Scope) ([]*cloudstack.DiskOffering, error) {
	a.diskCalls++
	return a.disks, a.err
}

// fakeTemplates has templates by id, in all zones.
type fakeTemplates struct {
	sizes map[string]int64
	err   error
}

func (t *fakeTemplates) GetByID(_ context.Context, _ cloudstack.Scope, _, id string) (*cloudstack.Template, error) {
	if t.err != nil {
		return nil, t.err
	}
	if bytes, ok := t.sizes[id]; ok {
		return &cloudstack.Template{Id: id, Size: bytes}, nil
	}
	return nil, selector.Errorf(selector.ReasonNotFound, "no template %s", id)
}

// world is a provider with all that it asks.
type world struct {
	*DefaultProvider
	clock       *clocktesting.FakeClock
	api         *fakeAPI
	templates   *fakeTemplates
	unavailable *Unavailable
}

func newWorld(options Options, offerings ...*cloudstack.ServiceOffering) *world {
	w := &world{
		clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), api: &fakeAPI{offerings: offerings},
		templates: &fakeTemplates{sizes: map[string]int64{"t-amd": 10 * gib, "t-arm": 8 * gib}},
	}
	w.api.disks = []*cloudstack.DiskOffering{
		{Id: "d-20", Name: "disk-20", Disksize: 20, State: "Active"}, {Id: "d-own", Name: "custom", Iscustomized: true, State: "Active"},
		{Id: "d-far", Name: "far", Disksize: 20, Zoneid: "z1"}, {Id: "d-old", Name: "old", Disksize: 20, State: "Inactive"},
		{Id: "d-t1", Name: "twice", Disksize: 20}, {Id: "d-t2", Name: "twice", Disksize: 30}, {Id: "d-odd", Name: "d-20", Disksize: 99},
	}
	w.unavailable = NewUnavailable(w.clock)
	w.DefaultProvider = NewProvider(w.api, w.templates, w.unavailable, w.clock, options)
	return w
}

func id(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

func fixed(n int, name string, cpu, memoryMiB int) *cloudstack.ServiceOffering {
	return &cloudstack.ServiceOffering{
		Id: id(n), Name: name, Cpunumber: cpu, Cpuspeed: 2000, Memory: memoryMiB, State: "Active",
		Created: fmt.Sprintf("2026-01-%02dT00:00:00+0000", 1+n%28),
	}
}

func with(offering *cloudstack.ServiceOffering, change func(*cloudstack.ServiceOffering)) *cloudstack.ServiceOffering {
	change(offering)
	return offering
}

// class is a CloudStackNodeClass with two zones, which have a network and a template each, and that selects all offerings.
func class(change ...func(*csv1.CloudStackNodeClass)) *csv1.CloudStackNodeClass {
	nodeClass := &csv1.CloudStackNodeClass{
		Spec: csv1.CloudStackNodeClassSpec{
			ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{NameRegex: "(?s).*"}},
			NetworkSelectorTerms:         []csv1.NetworkSelectorTerm{{Name: "net"}},
		},
		Status: csv1.CloudStackNodeClassStatus{
			Zones:     []csv1.ZoneStatus{{ID: "z1", Name: "zone-1"}, {ID: "z2", Name: "zone-2"}},
			Networks:  []csv1.NetworkStatus{{ID: "n1", Name: "net", ZoneID: "z1"}, {ID: "n2", Name: "net", ZoneID: "z2"}},
			Templates: []csv1.TemplateStatus{{ID: "t-amd", ZoneID: "z1", Architecture: "amd64"}, {ID: "t-amd", ZoneID: "z2", Architecture: "amd64"}},
		},
	}
	nodeClass.Name, nodeClass.UID = "default", types.UID("uid")
	for _, one := range change {
		one(nodeClass)
	}
	return nodeClass
}

func list(t *testing.T, p Provider, nodeClass *csv1.CloudStackNodeClass) []*cloudprovider.InstanceType {
	t.Helper()
	got, err := p.List(t.Context(), nodeClass)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// only is the one instance type that there is.
func only(t *testing.T, p Provider, nodeClass *csv1.CloudStackNodeClass) *cloudprovider.InstanceType {
	t.Helper()
	got := list(t, p, nodeClass)
	if len(got) != 1 {
		t.Fatalf("got %v, want one", names(got))
	}
	return got[0]
}

func names(instanceTypes []*cloudprovider.InstanceType) []string {
	return lo.Map(instanceTypes, func(it *cloudprovider.InstanceType, _ int) string { return it.Name })
}

// offeringsOf are the offerings in text: zone, capacity type, and whether it is available.
func offeringsOf(it *cloudprovider.InstanceType) []string {
	return lo.Map(it.Offerings, func(o *cloudprovider.Offering, _ int) string {
		return fmt.Sprintf("%s %s %t", o.Requirements.Get(corev1.LabelTopologyZone).Any(), o.Requirements.Get(karpv1.CapacityTypeLabelKey).Any(), o.Available)
	})
}
