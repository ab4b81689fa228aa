package instancetype

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/pricing"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// LabelReservationID tells the places of reserved machines apart: one offering in one zone.
const LabelReservationID = csv1.Group + "/reservation-id"

// reservedCapacity is how many reserved machines core may plan for at once. CloudStack does not tell how many hosts are set aside: the
// first machine that finds no room ends it, see Unavailable.
const reservedCapacity = 1000

// Core asks for reserved offerings by labels that the provider names.
func init() {
	cloudprovider.ReservationIDLabel = LabelReservationID
	cloudprovider.ReservedCapacityLabels.Insert(LabelReservationID)
	karpv1.WellKnownLabels.Insert(LabelReservationID)
}

// builder makes instance types of sizes.
type builder struct {
	options       Options
	nodeClass     *csv1.CloudStackNodeClass
	rules         []rule
	kubelet       reservations
	unavailable   *Unavailable
	observed      map[Machine]int64
	disks         disks
	templateBytes int64

	zones         []zonePlan
	architectures []string
	undefined     []string
	reserves      bool // whether a rule makes offerings reserved
}

// zonePlan is what a zone has for machines.
type zonePlan struct {
	csv1.ZoneStatus
	architectures []string
	usable        bool
}

// plan looks at what all sizes share.
func (b *builder) plan() {
	all := map[string]bool{}
	for _, zone := range b.nodeClass.Status.Zones {
		plan := zonePlan{ZoneStatus: zone}
		for _, template := range b.nodeClass.Status.Templates {
			all[template.Architecture] = true
			if template.ZoneID == zone.ID {
				plan.architectures = append(plan.architectures, template.Architecture)
			}
		}
		slices.Sort(plan.architectures)
		plan.architectures = slices.Compact(plan.architectures)
		plan.usable = len(plan.architectures) > 0 && b.hasNetwork(zone)
		b.zones = append(b.zones, plan)
	}
	b.reserves = slices.ContainsFunc(b.rules, func(r rule) bool { return r.capacityType == karpv1.CapacityTypeReserved })
	b.architectures = lo.Keys(all)
	slices.Sort(b.architectures)
	for label := range karpv1.WellKnownLabels {
		// The NodePool is no property of an instance type: core requires it of all nodes of a pool.
		if label != karpv1.NodePoolLabelKey {
			b.undefined = append(b.undefined, label)
		}
	}
}

// hasNetwork tells whether machines of a zone can have all of their networks.
func (b *builder) hasNetwork(zone csv1.ZoneStatus) bool {
	inZone := func(networks []csv1.NetworkStatus) []csv1.NetworkStatus {
		return lo.Filter(networks, func(n csv1.NetworkStatus, _ int) bool { return n.ZoneID == zone.ID })
	}
	additional := inZone(b.nodeClass.Status.AdditionalNetworks)
	if len(additional) < len(b.nodeClass.Spec.AdditionalNetworkSelectorTerms) ||
		slices.ContainsFunc(additional, func(n csv1.NetworkStatus) bool { return b.unavailable.IsNetworkUnavailable(n.ID) }) {
		return false
	}
	if len(b.nodeClass.Spec.NetworkSelectorTerms) == 0 {
		return zone.SecurityGroupsEnabled
	}
	return slices.ContainsFunc(inZone(b.nodeClass.Status.Networks), func(n csv1.NetworkStatus) bool { return !b.unavailable.IsNetworkUnavailable(n.ID) })
}

// instanceType makes the instance type of a size.
func (b *builder) instanceType(one size) *cloudprovider.InstanceType {
	capacityType := capacityTypeOf(b.rules, one)
	price := pricing.Price(b.nodeClass, pricing.Size{
		CPU: one.cpu, MemoryMiB: one.memoryMiB, GPU: one.gpus.count, Offering: one.offering.Name, InstanceType: one.name,
	})
	capacity := b.capacity(one)
	it := &cloudprovider.InstanceType{Name: one.name, Capacity: capacity, Overhead: b.kubelet.overhead(capacity)}
	var zones, reservations []string
	for _, zone := range b.zones {
		if len(one.launch.ZoneIDs) > 0 && !slices.Contains(one.launch.ZoneIDs, zone.ID) {
			continue
		}
		zones = append(zones, zone.Name)
		offering := &cloudprovider.Offering{
			Requirements: scheduling.NewRequirements(in(corev1.LabelTopologyZone, zone.Name), in(karpv1.CapacityTypeLabelKey, capacityType)),
			Price:        price,
			Available:    zone.usable && !b.unavailable.IsUnavailable(one.name, zone.Name, capacityType),
		}
		// Zones that have some of the architectures only take pods of those.
		if len(zone.architectures) > 0 && len(zone.architectures) < len(b.architectures) {
			offering.Requirements.Add(in(corev1.LabelArchStable, zone.architectures...))
		}
		if capacityType == karpv1.CapacityTypeReserved {
			id := reservationID(one, zone.ID)
			reservations = append(reservations, id)
			offering.Requirements.Add(in(LabelReservationID, id))
			offering.ReservationCapacity = lo.Ternary(offering.Available, reservedCapacity, 0)
		} else if b.reserves {
			offering.Requirements.Add(absent(LabelReservationID))
		}
		it.Offerings = append(it.Offerings, offering)
	}
	it.Requirements = scheduling.NewRequirements(
		in(corev1.LabelInstanceTypeStable, one.name),
		in(corev1.LabelArchStable, b.architectures...),
		in(corev1.LabelOSStable, string(corev1.Linux)),
		in(corev1.LabelTopologyZone, zones...),
		in(karpv1.CapacityTypeLabelKey, capacityType),
		in(csv1.LabelInstanceCPU, strconv.Itoa(one.cpu)),
		in(csv1.LabelInstanceMemory, strconv.Itoa(one.memoryMiB)),
		in(csv1.LabelServiceOfferingID, one.offering.Id),
	)
	known := func(label, value string) {
		if value != "" {
			it.Requirements.Add(in(label, value))
		}
	}
	known(corev1.LabelTopologyRegion, b.options.Region)
	known(csv1.LabelInstanceCPUSpeed, positive(one.cpuSpeedMHz))
	known(csv1.LabelInstanceGPUCount, positive(one.gpus.count))
	known(csv1.LabelInstanceGPUName, selector.LabelValue(one.gpus.name))
	if len(reservations) > 0 {
		it.Requirements.Add(in(LabelReservationID, reservations...))
	}
	for _, label := range b.undefined {
		if !it.Requirements.Has(label) {
			it.Requirements.Add(absent(label))
		}
	}
	return it
}

func in(label string, values ...string) *scheduling.Requirement {
	return scheduling.NewRequirement(label, corev1.NodeSelectorOpIn, values...)
}

func absent(label string) *scheduling.Requirement {
	return scheduling.NewRequirement(label, corev1.NodeSelectorOpDoesNotExist)
}

func positive(number int) string {
	if number <= 0 {
		return ""
	}
	return strconv.Itoa(number)
}

// reservationID names an offering in a zone.
func reservationID(one size, zoneID string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", []string{one.offering.Id, one.name, zoneID})))
	return hex.EncodeToString(sum[:8])
}

// capacity is what a node of a size has.
func (b *builder) capacity(one size) corev1.ResourceList {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(one.cpu), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(b.memory(one), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(b.kubelet.maxPods, resource.DecimalSI),
	}
	if bytes := b.disk(one); bytes > 0 {
		capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	if name := one.gpus.resource(); name != "" && one.gpus.count > 0 {
		capacity[name] = *resource.NewQuantity(int64(one.gpus.count), resource.DecimalSI)
	}
	return capacity
}

// memory is what a guest sees of the memory of an offering: less a share for the hypervisor and the kernel, and not more than nodes of that
// offering and one of the templates were seen with.
func (b *builder) memory(one size) int64 {
	bytes := int64(math.Floor(float64(one.memoryMiB)*(1-b.options.MemoryOverheadPercent/100))) * mib
	for _, template := range b.nodeClass.Status.Templates {
		if seen, ok := b.observed[Machine{OfferingID: one.offering.Id, TemplateID: template.ID, MemoryMiB: one.memoryMiB}]; ok {
			bytes = min(bytes, seen)
		}
	}
	return bytes
}

// disk is the size of the root disk, 0 where it is not known: that of its offering, which CloudStack holds to whatever else is asked for, that
// of the user, or else that of the template.
func (b *builder) disk(one size) int64 {
	return cmp.Or(b.disks.ownGiB(one.offering)*gib, lo.FromPtr(lo.FromPtr(b.nodeClass.Spec.RootDisk).SizeGiB)*gib, b.templateBytes)
}
