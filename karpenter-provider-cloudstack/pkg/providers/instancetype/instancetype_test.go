package instancetype

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

func TestRequirements(t *testing.T) {
	labels := func(it *cloudprovider.InstanceType) map[string]string {
		return lo.MapValues(it.Requirements, func(r *scheduling.Requirement, _ string) string {
			return strings.Join(append([]string{string(r.Operator())}, slices.Sorted(slices.Values(r.Values()))...), " ")
		})
	}
	plain := map[string]string{
		corev1.LabelInstanceTypeStable: "In small", corev1.LabelArchStable: "In amd64", corev1.LabelOSStable: "In linux",
		corev1.LabelTopologyZone: "In zone-1 zone-2", corev1.LabelTopologyRegion: "DoesNotExist", corev1.LabelWindowsBuild: "DoesNotExist",
		karpv1.CapacityTypeLabelKey: "In on-demand",
		csv1.LabelInstanceCPU:       "In 1", csv1.LabelInstanceCPUSpeed: "In 2000", csv1.LabelInstanceMemory: "In 2048",
		csv1.LabelInstanceGPUCount: "DoesNotExist", csv1.LabelInstanceGPUName: "DoesNotExist",
		csv1.LabelServiceOfferingID: "In " + id(1), LabelReservationID: "DoesNotExist",
	}
	tests := []struct {
		name     string
		options  Options
		offering *cloudstack.ServiceOffering
		class    func(*csv1.CloudStackNodeClass)
		differ   map[string]string
	}{
		{"plain", Options{}, fixed(1, "small", 1, 2048), nil, nil},
		{"a region", Options{Region: "west"}, fixed(1, "small", 1, 2048), nil, map[string]string{corev1.LabelTopologyRegion: "In west"}},
		{"a clock that is not told", Options{}, with(fixed(1, "small", 1, 2048), func(o *cloudstack.ServiceOffering) { o.Cpuspeed = 0 }), nil,
			map[string]string{csv1.LabelInstanceCPUSpeed: "DoesNotExist"}},
		{"GPUs", Options{}, with(fixed(1, "small", 1, 2048), func(o *cloudstack.ServiceOffering) { o.Gpucount, o.Gpucardname = 2, "NVIDIA A100 (80GB)" }), nil,
			map[string]string{csv1.LabelInstanceGPUCount: "In 2", csv1.LabelInstanceGPUName: "In NVIDIA-A100-80GB"}},
		{"a zone of its own", Options{}, with(fixed(1, "small", 1, 2048), func(o *cloudstack.ServiceOffering) { o.Zoneid = "z2" }), nil,
			map[string]string{corev1.LabelTopologyZone: "In zone-2"}},
		{"two architectures", Options{}, fixed(1, "small", 1, 2048), func(c *csv1.CloudStackNodeClass) {
			c.Status.Templates = append(c.Status.Templates, csv1.TemplateStatus{ID: "t-arm", ZoneID: "z1", Architecture: "arm64"})
		}, map[string]string{corev1.LabelArchStable: "In amd64 arm64"}},
		{"no template", Options{}, fixed(1, "small", 1, 2048), func(c *csv1.CloudStackNodeClass) { c.Status.Templates = nil },
			map[string]string{corev1.LabelArchStable: "DoesNotExist"}},
		{"spot", Options{}, fixed(1, "small", 1, 2048), func(c *csv1.CloudStackNodeClass) {
			c.Spec.CapacityTypeRules = []csv1.CapacityTypeRule{{Selector: csv1.ServiceOfferingSelectorTerm{Name: "small"}, CapacityType: "spot"}}
		}, map[string]string{karpv1.CapacityTypeLabelKey: "In spot"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nodeClass := class()
			if test.class != nil {
				test.class(nodeClass)
			}
			got := labels(only(t, newWorld(test.options, test.offering), nodeClass))
			if diff := cmp.Diff(lo.Assign(plain, test.differ), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Core takes what is not defined for what is allowed.
func TestEveryWellKnownLabelIsDefined(t *testing.T) {
	it := only(t, newWorld(Options{}, fixed(1, "small", 1, 2048)), class())
	for label := range karpv1.WellKnownLabels {
		if it.Requirements.Has(label) == (label == karpv1.NodePoolLabelKey) {
			t.Errorf("%s: defined is %t", label, it.Requirements.Has(label))
		}
	}
}

func TestCoreSchedules(t *testing.T) {
	in := func(label string, values ...string) *scheduling.Requirement {
		return scheduling.NewRequirement(label, corev1.NodeSelectorOpIn, values...)
	}
	w := newWorld(Options{},
		fixed(1, "small", 1, 2048),
		with(fixed(2, "gpu", 8, 16384), func(o *cloudstack.ServiceOffering) { o.Gpucount, o.Gpucardname = 1, "Tesla T4" }),
		with(fixed(3, "cheap", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Hosttags = "cheap" }),
		with(fixed(4, "own", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Hosttags, o.Zoneid = "own", "z2" }),
	)
	nodeClass := class(func(c *csv1.CloudStackNodeClass) {
		c.Status.Templates = append(c.Status.Templates, csv1.TemplateStatus{ID: "t-arm", ZoneID: "z2", Architecture: "arm64"})
		c.Spec.CapacityTypeRules = []csv1.CapacityTypeRule{
			{Selector: csv1.ServiceOfferingSelectorTerm{HostTags: []string{"cheap"}}, CapacityType: "spot"},
			{Selector: csv1.ServiceOfferingSelectorTerm{HostTags: []string{"own"}}, CapacityType: "reserved"},
		}
	})
	tests := []struct {
		name         string
		requirements []*scheduling.Requirement
		want         []string
	}{
		{"a NodePool", []*scheduling.Requirement{in(karpv1.NodePoolLabelKey, "default")}, []string{"cheap", "gpu", "own", "small"}},
		{"a zone", []*scheduling.Requirement{in(corev1.LabelTopologyZone, "zone-1")}, []string{"cheap", "gpu", "small"}},
		{"an architecture", []*scheduling.Requirement{in(corev1.LabelArchStable, "arm64")}, []string{"cheap", "gpu", "own", "small"}},
		{"an architecture that the zone has no template of", []*scheduling.Requirement{in(corev1.LabelArchStable, "arm64"), in(corev1.LabelTopologyZone, "zone-1")}, nil},
		{"the architecture that it has", []*scheduling.Requirement{in(corev1.LabelArchStable, "amd64"), in(corev1.LabelTopologyZone, "zone-1")}, []string{"cheap", "gpu", "small"}},
		{"another system", []*scheduling.Requirement{in(corev1.LabelOSStable, "windows")}, nil},
		{"an instance type", []*scheduling.Requirement{in(corev1.LabelInstanceTypeStable, "gpu")}, []string{"gpu"}},
		{"spot", []*scheduling.Requirement{in(karpv1.CapacityTypeLabelKey, "spot")}, []string{"cheap"}},
		{"reserved", []*scheduling.Requirement{in(karpv1.CapacityTypeLabelKey, "reserved")}, []string{"own"}},
		{"a region that no one knows", []*scheduling.Requirement{in(corev1.LabelTopologyRegion, "west")}, nil},
		{"more than two CPUs", []*scheduling.Requirement{scheduling.NewRequirement(csv1.LabelInstanceCPU, corev1.NodeSelectorOpGt, "2")}, []string{"gpu"}},
		{"less than 4 GiB", []*scheduling.Requirement{scheduling.NewRequirement(csv1.LabelInstanceMemory, corev1.NodeSelectorOpLt, "4096")}, []string{"small"}},
		{"a GPU", []*scheduling.Requirement{in(csv1.LabelInstanceGPUName, "Tesla-T4")}, []string{"gpu"}},
		{"no GPU", []*scheduling.Requirement{scheduling.NewRequirement(csv1.LabelInstanceGPUName, corev1.NodeSelectorOpDoesNotExist)}, []string{"cheap", "own", "small"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			requirements := scheduling.NewRequirements(test.requirements...)
			// What core's scheduler looks at: requirements of the type, and an offering that is available.
			fitting := lo.Filter(list(t, w, nodeClass), func(it *cloudprovider.InstanceType, _ int) bool {
				return it.Requirements.Intersects(requirements) == nil && it.Offerings.Available().HasCompatible(requirements)
			})
			if got := names(fitting); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestAvailability(t *testing.T) {
	network := func(id, zone string) csv1.NetworkStatus { return csv1.NetworkStatus{ID: id, Name: id, ZoneID: zone} }
	tests := []struct {
		name  string
		class func(*csv1.CloudStackNodeClass)
		mark  func(*testing.T, *Unavailable)
		want  []string
	}{
		{"all", nil, nil, []string{"zone-1 on-demand true", "zone-2 on-demand true"}},
		{"no room for it in a zone", nil, func(t *testing.T, u *Unavailable) { u.Mark(t.Context(), "full", "small", "zone-1", "on-demand") },
			[]string{"zone-1 on-demand false", "zone-2 on-demand true"}},
		{"no room for another", nil, func(t *testing.T, u *Unavailable) { u.Mark(t.Context(), "full", "large", "zone-1", "on-demand") },
			[]string{"zone-1 on-demand true", "zone-2 on-demand true"}},
		{"no room for it as spot", nil, func(t *testing.T, u *Unavailable) { u.Mark(t.Context(), "full", "small", "zone-1", "spot") },
			[]string{"zone-1 on-demand true", "zone-2 on-demand true"}},
		{"no room in a zone", nil, func(t *testing.T, u *Unavailable) { u.MarkZone(t.Context(), "full", "zone-2") },
			[]string{"zone-1 on-demand true", "zone-2 on-demand false"}},
		{"no room anywhere", nil, func(t *testing.T, u *Unavailable) {
			u.MarkZone(t.Context(), "full", "zone-1")
			u.MarkZone(t.Context(), "full", "zone-2")
		}, []string{"zone-1 on-demand false", "zone-2 on-demand false"}},
		{"no address in the one network", nil, func(t *testing.T, u *Unavailable) { u.MarkNetwork(t.Context(), "full", "n1") },
			[]string{"zone-1 on-demand false", "zone-2 on-demand true"}},
		{"no address in one of two networks", func(c *csv1.CloudStackNodeClass) { c.Status.Networks = append(c.Status.Networks, network("n3", "z1")) },
			func(t *testing.T, u *Unavailable) { u.MarkNetwork(t.Context(), "full", "n1") },
			[]string{"zone-1 on-demand true", "zone-2 on-demand true"}},
		{"no address in an additional network", func(c *csv1.CloudStackNodeClass) {
			c.Spec.AdditionalNetworkSelectorTerms = []csv1.NetworkSelectorTerm{{Name: "x"}}
			c.Status.AdditionalNetworks = []csv1.NetworkStatus{network("x1", "z1"), network("x2", "z2")}
		}, func(t *testing.T, u *Unavailable) { u.MarkNetwork(t.Context(), "full", "x2") },
			[]string{"zone-1 on-demand true", "zone-2 on-demand false"}},
		{"a zone without an additional network", func(c *csv1.CloudStackNodeClass) {
			c.Spec.AdditionalNetworkSelectorTerms = []csv1.NetworkSelectorTerm{{Name: "x"}}
			c.Status.AdditionalNetworks = []csv1.NetworkStatus{network("x1", "z1")}
		}, nil, []string{"zone-1 on-demand true", "zone-2 on-demand false"}},
		{"a zone without a network", func(c *csv1.CloudStackNodeClass) { c.Status.Networks = c.Status.Networks[:1] }, nil,
			[]string{"zone-1 on-demand true", "zone-2 on-demand false"}},
		{"a zone that needs none", func(c *csv1.CloudStackNodeClass) {
			c.Spec.NetworkSelectorTerms, c.Status.Networks = nil, nil
			c.Status.Zones[1].SecurityGroupsEnabled = true
		}, nil, []string{"zone-1 on-demand false", "zone-2 on-demand true"}},
		{"a zone without a template", func(c *csv1.CloudStackNodeClass) { c.Status.Templates = c.Status.Templates[:1] }, nil,
			[]string{"zone-1 on-demand true", "zone-2 on-demand false"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, nodeClass := newWorld(Options{}, fixed(1, "small", 1, 2048)), class()
			if test.class != nil {
				test.class(nodeClass)
			}
			if test.mark != nil {
				list(t, w, nodeClass) // what is remembered must not be served
				test.mark(t, w.unavailable)
			}
			if diff := cmp.Diff(test.want, offeringsOf(only(t, w, nodeClass))); diff != "" {
				t.Error(diff)
			}
			w.clock.Step(unavailableFor)
			if test.mark != nil && slices.ContainsFunc(offeringsOf(only(t, w, nodeClass)), func(o string) bool { return strings.HasSuffix(o, "false") }) {
				t.Errorf("not available after %s", unavailableFor)
			}
		})
	}
}

// Core takes a node whose instance type has no offering any more for drifted.
func TestNothingDriftsWhenNothingIsAvailable(t *testing.T) {
	w, nodeClass := newWorld(Options{}, fixed(1, "small", 1, 2048)), class()
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: "small", corev1.LabelTopologyZone: "zone-1", karpv1.CapacityTypeLabelKey: "on-demand",
		corev1.LabelArchStable: "amd64", karpv1.NodePoolLabelKey: "default",
	}
	w.unavailable.MarkZone(t.Context(), "full", "zone-1")
	nodeClass.Status.Templates, nodeClass.Status.Networks = nil, nil
	if it := only(t, w, nodeClass); !it.Offerings.HasCompatible(scheduling.NewLabelRequirements(labels)) {
		t.Error("the offering of the node is gone")
	}
	nodeClass.Status.Zones = nil
	if _, err := w.List(t.Context(), nodeClass); !cloudprovider.IsNodeClassNotReadyError(err) {
		t.Errorf("got %v: without zones it is not known what there is", err)
	}
}

func TestReserved(t *testing.T) {
	w := newWorld(Options{}, fixed(1, "own", 1, 2048), fixed(2, "other", 1, 2048))
	nodeClass := class(func(c *csv1.CloudStackNodeClass) {
		c.Spec.CapacityTypeRules = []csv1.CapacityTypeRule{{Selector: csv1.ServiceOfferingSelectorTerm{Name: "own"}, CapacityType: "reserved"}}
	})
	w.unavailable.Mark(t.Context(), "full", "own", "zone-1", "reserved")
	own, err := w.Get(t.Context(), nodeClass, "own")
	if err != nil {
		t.Fatal(err)
	}
	if got := []int{own.Offerings[0].ReservationCapacity, own.Offerings[1].ReservationCapacity}; !slices.Equal(got, []int{0, reservedCapacity}) {
		t.Errorf("got room for %v", got)
	}
	first, second := own.Offerings[0].ReservationID(), own.Offerings[1].ReservationID()
	if first == second || !own.Requirements.Get(LabelReservationID).Has(first) || !own.Requirements.Get(LabelReservationID).Has(second) {
		t.Errorf("got %s and %s: core counts the room of each id once, so that a full zone would close the other", first, second)
	}
	other, err := w.Get(t.Context(), nodeClass, "other")
	if err != nil || other.Offerings[0].Requirements.Get(LabelReservationID).Operator() != corev1.NodeSelectorOpDoesNotExist {
		t.Errorf("%v: an offering that is not reserved has a reservation", err)
	}
}

func TestCapacity(t *testing.T) {
	const amd, arm = 10 * gib, 8 * gib
	disk := func(bytes int64) map[corev1.ResourceName]int64 {
		return map[corev1.ResourceName]int64{corev1.ResourceEphemeralStorage: bytes}
	}
	rooted := with(fixed(1, "small", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Rootdisksize = 50 })
	tests := []struct {
		name     string
		options  Options
		offering *cloudstack.ServiceOffering
		class    func(*csv1.CloudStackNodeClass)
		differ   map[corev1.ResourceName]int64
	}{
		{"plain", Options{}, fixed(1, "small", 2, 4096), nil, nil},
		{"an overhead", Options{MemoryOverheadPercent: 7.5}, fixed(1, "small", 2, 4096), nil, map[corev1.ResourceName]int64{corev1.ResourceMemory: 3788 * mib}},
		{"pods", Options{}, fixed(1, "small", 2, 4096), func(c *csv1.CloudStackNodeClass) {
			c.Spec.Kubelet = &csv1.KubeletConfiguration{MaxPods: lo.ToPtr[int32](20)}
		},
			map[corev1.ResourceName]int64{corev1.ResourcePods: 20}},
		{"the disk of the offering", Options{}, rooted, nil, disk(50 * gib)},
		{"the disk of the user", Options{}, fixed(1, "small", 2, 4096), func(c *csv1.CloudStackNodeClass) {
			c.Spec.RootDisk = &csv1.RootDisk{SizeGiB: lo.ToPtr[int64](20)}
		}, disk(20 * gib)},
		{"the disk of the offering, whatever the user says", Options{}, rooted, func(c *csv1.CloudStackNodeClass) {
			c.Spec.RootDisk = &csv1.RootDisk{SizeGiB: lo.ToPtr[int64](20)}
		}, disk(50 * gib)},
		{"a disk offering by its id", Options{}, rooted, func(c *csv1.CloudStackNodeClass) { c.Spec.RootDisk = &csv1.RootDisk{DiskOfferingID: "d-20"} }, disk(20 * gib)},
		{"a disk offering by its name", Options{}, rooted, func(c *csv1.CloudStackNodeClass) { c.Spec.RootDisk = &csv1.RootDisk{DiskOfferingID: "disk-20"} }, disk(20 * gib)},
		{"a disk offering without a size", Options{}, rooted, func(c *csv1.CloudStackNodeClass) {
			c.Spec.RootDisk = &csv1.RootDisk{DiskOfferingID: "custom", SizeGiB: lo.ToPtr[int64](70)}
		}, disk(70 * gib)},
		{"data disks are not for pods", Options{}, fixed(1, "small", 2, 4096), func(c *csv1.CloudStackNodeClass) {
			c.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: "disk-20"}}
		}, nil},
		{"the smallest template", Options{}, fixed(1, "small", 2, 4096), func(c *csv1.CloudStackNodeClass) {
			c.Status.Templates = append(c.Status.Templates, csv1.TemplateStatus{ID: "t-arm", ZoneID: "z2", Architecture: "arm64"})
		}, disk(arm)},
		{"a template that is gone", Options{}, fixed(1, "small", 2, 4096), func(c *csv1.CloudStackNodeClass) { c.Status.Templates[0].ID = "gone" }, nil},
		{"one NVIDIA GPU", Options{}, with(fixed(1, "small", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Gpucount, o.Gpucardname = 1, "Tesla T4" }), nil,
			map[corev1.ResourceName]int64{csv1.ResourceNVIDIAGPU: 1}},
		{"GPUs that no one knows", Options{}, with(fixed(1, "small", 2, 4096), func(o *cloudstack.ServiceOffering) { o.Gpucount, o.Gpucardname = 1, "Voodoo 2" }), nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nodeClass := class()
			if test.class != nil {
				test.class(nodeClass)
			}
			want := map[corev1.ResourceName]int64{
				corev1.ResourceCPU: 2, corev1.ResourceMemory: 4096 * mib, corev1.ResourcePods: 110, corev1.ResourceEphemeralStorage: amd,
			}
			maps.Copy(want, test.differ)
			it := only(t, newWorld(test.options, test.offering), nodeClass)
			got := lo.MapValues(it.Capacity, func(q resource.Quantity, _ corev1.ResourceName) int64 { return q.Value() })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTemplatesThatCannotBeAskedFor(t *testing.T) {
	w, nodeClass := newWorld(Options{}, fixed(1, "small", 2, 4096)), class()
	w.templates.err = errDown
	if _, err := w.List(t.Context(), nodeClass); err == nil {
		t.Error("the size of the disk is made up")
	}
	nodeClass.Spec.RootDisk = &csv1.RootDisk{SizeGiB: lo.ToPtr[int64](20)}
	if _, err := w.List(t.Context(), nodeClass); err != nil {
		t.Errorf("%v: the size of the template makes no difference here", err)
	}
}

func TestGPUs(t *testing.T) {
	tests := []struct {
		offering cloudstack.ServiceOffering
		count    int
		resource corev1.ResourceName
	}{
		{cloudstack.ServiceOffering{}, 0, ""},
		{cloudstack.ServiceOffering{Gpucount: 4, Gpucardname: "NVIDIA Corporation GA100 [A100 PCIe 40GB]"}, 4, csv1.ResourceNVIDIAGPU},
		{cloudstack.ServiceOffering{Gpucount: 1, Gpucardname: "A100-SXM4-80GB"}, 1, csv1.ResourceNVIDIAGPU},
		{cloudstack.ServiceOffering{Gpucount: 1, Gpucardname: "L40S"}, 1, csv1.ResourceNVIDIAGPU},
		{cloudstack.ServiceOffering{Gpucount: 1, Gpucardname: "GRID K2"}, 1, csv1.ResourceNVIDIAGPU},
		{cloudstack.ServiceOffering{Gpucount: 8, Gpucardname: "AMD Instinct MI300X"}, 8, csv1.ResourceAMDGPU},
		{cloudstack.ServiceOffering{Gpucount: 8, Gpucardname: "MI210"}, 8, csv1.ResourceAMDGPU},
		{cloudstack.ServiceOffering{Gpucount: 1, Gpucardname: "Radeon Pro V620"}, 1, csv1.ResourceAMDGPU},
		{cloudstack.ServiceOffering{Gpucount: 1, Gpucardname: "Intel(R) Data Center GPU Flex 170"}, 1, csv1.ResourceIntelGPU},
		{cloudstack.ServiceOffering{Gpucount: 1, Gpucardname: "Max 1550"}, 1, csv1.ResourceIntelGPU},
		{cloudstack.ServiceOffering{Gpucount: 1, Gpucardname: "Corporation 42"}, 1, ""},
		{cloudstack.ServiceOffering{Gpucardname: "Tesla T4"}, 1, csv1.ResourceNVIDIAGPU},
		{cloudstack.ServiceOffering{Vgpuprofilename: "nvidia-233"}, 1, csv1.ResourceNVIDIAGPU},
		{cloudstack.ServiceOffering{Serviceofferingdetails: map[string]string{
			"pciDevice": "Group of NVIDIA Corporation GK107GL [GRID K1] GPUs", "vgpuType": "passthrough",
		}}, 1, csv1.ResourceNVIDIAGPU},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s %s", test.offering.Gpucardname, test.offering.Vgpuprofilename), func(t *testing.T) {
			if got := gpusOf(&test.offering); got.count != test.count || got.resource() != test.resource {
				t.Errorf("got %d of %q, want %d of %q", got.count, got.resource(), test.count, test.resource)
			}
		})
	}
}

func TestObservedMemory(t *testing.T) {
	w, nodeClass := newWorld(Options{MemoryOverheadPercent: 5}, fixed(1, "small", 2, 4000), fixed(2, "large", 2, 8000)), class()
	memory := func(name string) int64 {
		t.Helper()
		it, err := w.Get(t.Context(), nodeClass, name)
		if err != nil {
			t.Fatal(err)
		}
		return it.Capacity.Memory().Value() / mib
	}
	observe := func(template string, memoryMiB, seenMiB int64) bool {
		return w.ObserveMemory(Machine{OfferingID: id(1), TemplateID: template, MemoryMiB: int(memoryMiB)}, *resource.NewQuantity(seenMiB*mib, resource.BinarySI))
	}
	steps := []struct {
		what           string
		template       string
		nominal, seen  int64
		lower          bool
		smallHasMemory int64
	}{
		{"more than expected", "t-amd", 4000, 3900, true, 3800},
		{"less than expected", "t-amd", 4000, 3700, true, 3700},
		{"more than another node", "t-amd", 4000, 3750, false, 3700},
		{"a template that is not in use", "t-old", 4000, 3000, true, 3700},
		{"another size of the offering", "t-amd", 3000, 2000, true, 3700},
		{"too little to be true", "t-amd", 4000, 1999, false, 3700},
		{"more than the offering has", "t-amd", 4000, 5000, false, 3700},
	}
	for _, step := range steps {
		if got := observe(step.template, step.nominal, step.seen); got != step.lower {
			t.Errorf("%s: got %t", step.what, got)
		}
		if got := memory("small"); got != step.smallHasMemory {
			t.Errorf("%s: machines have %d MiB, want %d", step.what, got, step.smallHasMemory)
		}
	}
	if got := memory("large"); got != 7600 {
		t.Errorf("machines of another offering have %d MiB", got)
	}
}

func TestPrice(t *testing.T) {
	w := newWorld(Options{}, with(fixed(1, "any", 0, 0), func(o *cloudstack.ServiceOffering) { o.Iscustomized = true }))
	nodeClass := class(func(c *csv1.CloudStackNodeClass) {
		c.Spec.CustomOffering = &csv1.CustomOffering{CPUs: []int32{1, 2}, MemoryMiBPerCPU: []int32{1024}}
		c.Spec.Pricing = &csv1.Pricing{
			CPUHour: lo.ToPtr(resource.MustParse("1")), MemoryGiBHour: lo.ToPtr(resource.MustParse("0")),
			Offerings: map[string]resource.Quantity{"any-2c-2048m": resource.MustParse("9")},
		}
	})
	got := lo.Map(list(t, w, nodeClass), func(it *cloudprovider.InstanceType, _ int) float64 { return it.Offerings[0].Price })
	if !slices.Equal(got, []float64{1, 9}) {
		t.Errorf("got %v", got)
	}
	nodeClass.Spec.Pricing.Offerings["any-2c-2048m"] = resource.MustParse("8")
	if got := list(t, w, nodeClass)[1].Offerings[1].Price; got != 8 {
		t.Errorf("got %v after the price has changed", got)
	}
}

// What core does to instance types, and what is done to them on the way to it.
func TestResultsAreTheCallers(t *testing.T) {
	w, nodeClass := newWorld(Options{}, fixed(1, "small", 2, 4096), fixed(2, "large", 4, 8192)), class()
	list := func() []*cloudprovider.InstanceType {
		t.Helper()
		got, err := w.List(t.Context(), nodeClass)
		if err != nil || len(got) != 2 {
			t.Fatalf("got %v, %v", names(got), err)
		}
		return got
	}
	print := func(types []*cloudprovider.InstanceType) (text []string) {
		for _, it := range types {
			text = append(text, it.Name, it.Requirements.String(), fmt.Sprint(it.Capacity), fmt.Sprint(it.Overhead.Total()), fmt.Sprint(it.Allocatable()))
			for _, offering := range it.Offerings {
				text = append(text, offering.Requirements.String(), fmt.Sprint(offering.Price, offering.Available, offering.ReservationCapacity))
			}
		}
		return text
	}
	fresh := print(list())
	for _, one := range []struct {
		reason string
		do     func([]*cloudprovider.InstanceType)
	}{
		{"a zone without hosts for the affinity group", func(types []*cloudprovider.InstanceType) { types[0].Offerings[0].Available = false }},
		{"a price of a NodeOverlay", func(types []*cloudprovider.InstanceType) { types[0].Offerings[0].ApplyPriceOverlay("+10%") }},
		{"a capacity of a NodeOverlay", func(types []*cloudprovider.InstanceType) {
			types[0].ApplyCapacityOverlay(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("99")})
		}},
		{"fewer offerings", func(types []*cloudprovider.InstanceType) {
			types[0].Offerings = append(types[0].Offerings[:0], types[0].Offerings[1])
		}},
		{"another order", func(types []*cloudprovider.InstanceType) { slices.Reverse(types) }},
		{"the dearest first", func(types []*cloudprovider.InstanceType) {
			types[1].Offerings[0].Price = -1
			cloudprovider.InstanceTypes(types).OrderByPrice(scheduling.NewRequirements())
		}},
	} {
		spoilt := list()
		if one.do(spoilt); slices.Equal(print(spoilt), fresh) {
			t.Errorf("%s: nothing was changed", one.reason)
		}
		if again := print(list()); !slices.Equal(again, fresh) {
			t.Errorf("%s: what a caller did to its copy is served to others\n%s", one.reason, cmp.Diff(fresh, again))
		}
	}
}

func TestRemembersUntilSomethingDiffers(t *testing.T) {
	w, nodeClass := newWorld(Options{}, fixed(1, "small", 2, 4096)), class()
	current := func() *catalogue {
		t.Helper()
		c, err := w.catalogue(t.Context(), nodeClass)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := current()
	same := []struct {
		name string
		do   func()
	}{
		{"nothing", func() {}},
		{"user data", func() { nodeClass.Spec.UserData = lo.ToPtr("x") }},
		{"tags", func() { nodeClass.Spec.Tags = map[string]string{"a": "b"} }},
		{"conditions", func() { nodeClass.StatusConditions().SetTrue(csv1.ConditionZonesReady) }},
		{"the same offerings, listed again", func() {
			w.api.offerings = []*cloudstack.ServiceOffering{fixed(1, "small", 2, 4096)}
			w.clock.Step(ttl)
		}},
		{"an outage", func() {
			w.api.err = errDown
			w.clock.Step(24 * time.Hour)
		}},
	}
	for _, one := range same {
		if one.do(); current() != first {
			t.Errorf("%s: made anew", one.name)
		}
	}
	w.api.err = nil
	w.clock.Step(time.Hour)
	first = current()
	different := []struct {
		name string
		do   func()
	}{
		{"selectors", func() { nodeClass.Spec.ServiceOfferingSelectorTerms[0].Name = "small" }},
		{"pricing", func() { nodeClass.Spec.Pricing = &csv1.Pricing{CPUHour: lo.ToPtr(resource.MustParse("1"))} }},
		{"the kubelet", func() { nodeClass.Spec.Kubelet = &csv1.KubeletConfiguration{MaxPods: lo.ToPtr[int32](1)} }},
		{"zones", func() { nodeClass.Status.Zones[0].Name = "x" }},
		{"templates", func() { nodeClass.Status.Templates[0].Architecture = "arm64" }},
		{"networks", func() { nodeClass.Status.Networks[0].ZoneID = "x" }},
		{"the size of a template", func() { w.templates.sizes["t-amd"] = gib }},
		{"what is full", func() { w.unavailable.MarkZone(t.Context(), "full", "zone-2") }},
		{"what is no longer full", func() { w.clock.Step(unavailableFor) }},
		{"what nodes have", func() { w.ObserveMemory(Machine{MemoryMiB: 10}, *resource.NewQuantity(8*mib, resource.BinarySI)) }},
		{"offerings", func() {
			w.api.offerings = append([]*cloudstack.ServiceOffering{fixed(2, "small", 1, 2048)}, w.api.offerings...)
			w.clock.Step(ttl)
		}},
	}
	for _, one := range different {
		one.do()
		next := current()
		if next == first {
			t.Errorf("%s: served from before", one.name)
		}
		first = next
	}
}

func TestForgetsWhatNobodyAsksFor(t *testing.T) {
	w := newWorld(Options{}, fixed(1, "small", 2, 4096))
	for i := range 50 {
		list(t, w, class(func(c *csv1.CloudStackNodeClass) { c.UID, c.Name = "", fmt.Sprint(i) }))
	}
	w.clock.Step(2 * forgetAfter)
	list(t, w, class())
	if len(w.types) != 1 {
		t.Errorf("%d are remembered", len(w.types))
	}
}

func TestFailure(t *testing.T) {
	w, nodeClass := newWorld(Options{}, fixed(1, "small", 2, 4096)), class()
	w.api.err = errDown
	for _, err := range []error{
		lo.T2(w.List(t.Context(), nodeClass)).B, lo.T2(w.Get(t.Context(), nodeClass, "small")).B,
		lo.T2(w.Offering(t.Context(), nodeClass, "small")).B, lo.T2(w.Offerings(t.Context(), nodeClass)).B,
	} {
		if _, missing := selector.As(err); err == nil || missing {
			t.Errorf("got %v: a request that fails does not mean that there is nothing", err)
		}
	}
	w.api.err = nil
	if _, err := w.Get(t.Context(), nodeClass, "large"); !selector.IsNotFound(err) {
		t.Errorf("got %v for a name that is none", err)
	}
}

func TestUnavailable(t *testing.T) {
	w := newWorld(Options{})
	u := w.unavailable
	sequence := u.Sequence()
	changed := func() bool {
		before := sequence
		sequence = u.Sequence()
		return before != sequence
	}
	u.Mark(t.Context(), "full", "a", "z", "spot")
	if !changed() || !u.IsUnavailable("a", "z", "spot") || u.IsUnavailable("a", "z", "on-demand") || u.IsUnavailable("a", "y", "spot") || u.IsNetworkUnavailable("") {
		t.Error("the one that was marked, and no other")
	}
	w.clock.Step(unavailableFor - time.Second)
	u.Mark(t.Context(), "full", "a", "z", "spot")
	u.MarkNetwork(t.Context(), "full", "n")
	if !changed() {
		t.Error("a network was marked, and the number is that from before")
	}
	w.clock.Step(time.Second)
	if changed() || !u.IsUnavailable("a", "z", "spot") {
		t.Error("marked again, it has its time from then on")
	}
	w.clock.Step(unavailableFor - time.Second)
	if !changed() || u.IsUnavailable("a", "z", "spot") || u.IsNetworkUnavailable("n") {
		t.Error("available again, and the number is that from before")
	}
	if changed() || len(u.until) != 0 {
		t.Error("nothing has happened")
	}
}

// For the race detector above all.
func TestManyAtOnce(t *testing.T) {
	w, nodeClass := newWorld(Options{}, fixed(1, "small", 2, 4096), fixed(2, "large", 8, 16384)), class()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				got, err := w.List(t.Context(), nodeClass)
				if err != nil || len(got) != 2 || len(got[0].Offerings.Available()) != 2 || !got[1].Offerings[1].Available {
					t.Errorf("got %v, %v", names(got), err)
				}
				got[0].Offerings[0].Price = float64(i)
				w.unavailable.Mark(t.Context(), "full", "small", "zone-1", "on-demand")
				w.ObserveMemory(Machine{OfferingID: id(1), TemplateID: "t-amd", MemoryMiB: 4096}, *resource.NewQuantity((4000-int64(i))*mib, resource.BinarySI))
			}
		})
	}
	all.Wait()
	if it, err := w.Get(t.Context(), nodeClass, "small"); err != nil || it.Offerings[0].Available || it.Capacity.Memory().Value() != 3993*mib {
		t.Errorf("got %v, %v: what was marked and observed has to count", it, err)
	}
}
