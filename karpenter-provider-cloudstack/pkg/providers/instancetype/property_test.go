package instancetype

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/samber/lo"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// anyName is a name that collides often, has odd characters, is long or is empty.
func anyName(random *rand.Rand) string {
	letters := []string{"a", "b", "A", "1", "-", " ", ".", "日", "_", "/"}
	name := ""
	for range random.IntN(4) {
		name += letters[random.IntN(len(letters))]
	}
	if random.IntN(10) == 0 {
		name += strings.Repeat("long ", 20)
	}
	return name
}

func anyOffering(random *rand.Rand, n int) *cloudstack.ServiceOffering {
	o := fixed(random.IntN(1<<30), anyName(random), random.IntN(130), random.IntN(1<<20))
	o.Id = fmt.Sprintf("%08x-0000-4000-8000-%012x", random.IntN(3), n) // most begin alike
	o.Cpuspeed = random.IntN(2) * 2000
	o.Iscustomized = random.IntN(3) == 0
	o.Rootdisksize = int64(random.IntN(3) * 20)
	o.Gpucount = random.IntN(2)
	if random.IntN(3) == 0 {
		o.Cpunumber = 0
	}
	if random.IntN(3) == 0 {
		o.Memory = 0
	}
	if random.IntN(2) == 0 {
		o.Zoneid = fmt.Sprintf("z%d,z%d", random.IntN(6), random.IntN(6))
	}
	if random.IntN(2) == 0 {
		o.Serviceofferingdetails = map[string]string{"mincpunumber": fmt.Sprint(random.IntN(4)), "maxmemory": fmt.Sprint(random.IntN(1 << 17))}
	}
	return o
}

func anyClass(random *rand.Rand) *csv1.CloudStackNodeClass {
	amount := func(suffix string, most int) map[string]string {
		return map[string]string{"cpu": fmt.Sprint(random.IntN(8)), "memory": fmt.Sprintf("%d%s", random.IntN(most), suffix)}
	}
	return class(func(c *csv1.CloudStackNodeClass) {
		c.Status.Zones, c.Status.Networks, c.Status.Templates = nil, nil, nil
		for z := range 1 + random.IntN(5) {
			zone := fmt.Sprintf("z%d", z)
			c.Status.Zones = append(c.Status.Zones, csv1.ZoneStatus{ID: zone, Name: "zone-" + zone})
			c.Status.Networks = append(c.Status.Networks, csv1.NetworkStatus{ID: "n" + zone, ZoneID: zone})
			if random.IntN(4) > 0 {
				c.Status.Templates = append(c.Status.Templates, csv1.TemplateStatus{ID: "t-amd", ZoneID: zone, Architecture: "amd64"})
			}
			if random.IntN(4) == 0 {
				c.Status.Templates = append(c.Status.Templates, csv1.TemplateStatus{ID: "t-arm", ZoneID: zone, Architecture: "arm64"})
			}
		}
		if random.IntN(2) == 0 {
			c.Spec.CustomOffering = &csv1.CustomOffering{CPUs: []int32{1, 2, 1024}, MemoryMiBPerCPU: []int32{128, 4096, 1048576}}
		}
		if random.IntN(2) == 0 {
			c.Spec.Kubelet = &csv1.KubeletConfiguration{
				KubeReserved: amount("Mi", 4096), SystemReserved: amount("Gi", 8),
				EvictionHard: map[string]string{"memory.available": fmt.Sprintf("%d%%", random.IntN(101)), "nodefs.available": fmt.Sprintf("%dGi", random.IntN(100))},
			}
		}
		for _, capacityType := range []string{"spot", "reserved"} {
			c.Spec.CapacityTypeRules = append(c.Spec.CapacityTypeRules, csv1.CapacityTypeRule{
				Selector: csv1.ServiceOfferingSelectorTerm{CPU: between(int64(random.IntN(8)), int64(random.IntN(16)))}, CapacityType: capacityType,
			})
		}
	})
}

// Whatever the offerings and the CloudStackNodeClass are, core can work with what comes of them.
func TestWhatHoldsForAll(t *testing.T) {
	made := 0
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 1))
		offerings := make([]*cloudstack.ServiceOffering, 1+random.IntN(30))
		for i := range offerings {
			offerings[i] = anyOffering(random, i)
		}
		w, nodeClass := newWorld(Options{MemoryOverheadPercent: float64(random.IntN(100))}, offerings...), anyClass(random)
		got, err := w.List(t.Context(), nodeClass)
		if _, none := selector.As(err); none {
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		made += len(got)
		if all := lo.Uniq(names(got)); len(all) != len(got) {
			t.Errorf("seed %d: names are not unique: %v", seed, lo.FindDuplicates(names(got)))
		}
		if !slices.IsSorted(names(got)) {
			t.Errorf("seed %d: not sorted", seed)
		}
		for _, it := range got {
			for _, problem := range broken(it, nodeClass) {
				t.Errorf("seed %d: %s: %s", seed, it.Name, problem)
			}
			if launch, err := w.Offering(t.Context(), nodeClass, it.Name); err != nil || launch.OfferingID == "" {
				t.Errorf("seed %d: %s: got %v, %v to deploy", seed, it.Name, launch, err)
			}
		}
	}
	if made < 1000 {
		t.Errorf("%d instance types were made: the test shows little", made)
	}
}

// broken are the rules that an instance type breaks.
func broken(it *cloudprovider.InstanceType, nodeClass *csv1.CloudStackNodeClass) []string {
	var problems []string
	for name, quantity := range it.Allocatable() {
		if quantity.Sign() < 0 {
			problems = append(problems, fmt.Sprintf("%s of %s can be allocated", quantity.String(), name))
		}
	}
	for label, requirement := range it.Requirements {
		for _, value := range requirement.Values() {
			if len(validation.IsValidLabelValue(value)) > 0 || value == "" {
				problems = append(problems, fmt.Sprintf("%s has the value %q, which no label can have", label, value))
			}
		}
	}
	if len(it.Offerings) == 0 {
		problems = append(problems, "no offering")
	}
	zones := map[string]bool{}
	for _, offering := range it.Offerings {
		zone := offering.Zone()
		if !slices.ContainsFunc(nodeClass.Status.Zones, func(status csv1.ZoneStatus) bool { return status.Name == zone }) {
			problems = append(problems, "an offering in zone "+zone)
		}
		if zones[zone] {
			problems = append(problems, "two offerings in zone "+zone)
		}
		zones[zone] = true
		if offering.Price < 0 {
			problems = append(problems, fmt.Sprintf("the price %v", offering.Price))
		}
		if it.Requirements.Intersects(offering.Requirements) != nil {
			problems = append(problems, "an offering that the instance type excludes")
		}
	}
	return problems
}
