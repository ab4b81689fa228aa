package instancetype

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

const (
	stateInactive = "Inactive"
	// defaultCPUSpeedMHz is the clock of CPUs of offerings without one.
	defaultCPUSpeedMHz = 1000
)

// Bounds of a constrained offering. https://github.com/apache/cloudstack/blob/main/api/src/main/java/org/apache/cloudstack/api/ApiConstants.java
const (
	detailMinCPU    = "mincpunumber"
	detailMaxCPU    = "maxcpunumber"
	detailMinMemory = "minmemory"
	detailMaxMemory = "maxmemory"
)

// size is an offering in one size, what becomes an instance type.
type size struct {
	name                        string
	offering                    *cloudstack.ServiceOffering
	cpu, cpuSpeedMHz, memoryMiB int
	gpus                        gpus
	launch                      Launch
}

// problem tells why an offering cannot be used by anyone; empty when it can.
func problem(offering *cloudstack.ServiceOffering, custom *csv1.CustomOffering) string {
	switch {
	case strings.EqualFold(offering.State, stateInactive):
		return "is inactive"
	case offering.Issystem:
		return "is for system machines"
	case !offering.Iscustomized && (offering.Cpunumber <= 0 || offering.Memory <= 0):
		return "has no size, and is not customized"
	case offering.Iscustomized && custom == nil && (offering.Cpunumber <= 0 || offering.Memory <= 0):
		return "has no size of its own: set spec.customOffering"
	}
	if _, err := boundsOf(offering); err != nil {
		return err.Error()
	}
	return ""
}

// sizesOf are the sizes of an offering: one, or those of the grid that are within its bounds.
func sizesOf(offering *cloudstack.ServiceOffering, name string, custom *csv1.CustomOffering) []size {
	if problem(offering, custom) != "" {
		return nil
	}
	zones := zonesOf(offering)
	launch := Launch{OfferingID: offering.Id, OfferingName: offering.Name, ZoneIDs: zones}
	base := size{
		name: name, offering: offering, gpus: gpusOf(offering), launch: launch,
		cpu: offering.Cpunumber, cpuSpeedMHz: offering.Cpuspeed, memoryMiB: offering.Memory,
	}
	if !offering.Iscustomized {
		return []size{base}
	}
	if offering.Cpuspeed <= 0 {
		base.cpuSpeedMHz = defaultCPUSpeedMHz
		if custom != nil && custom.CPUSpeedMHz != nil {
			base.cpuSpeedMHz = int(*custom.CPUSpeedMHz)
		}
		base.launch.CPUSpeedMHz = base.cpuSpeedMHz
	}
	if offering.Cpunumber > 0 && offering.Memory > 0 {
		return []size{base}
	}
	bounds, _ := boundsOf(offering) // problem has looked
	var sizes []size
	for _, cpu := range lo.Ternary(offering.Cpunumber > 0, []int32{int32(offering.Cpunumber)}, custom.CPUs) { // a number of CPUs
		for _, perCPU := range custom.MemoryMiBPerCPU {
			one := base
			one.cpu, one.memoryMiB = int(cpu), cmp.Or(max(offering.Memory, 0), int(cpu)*int(perCPU))
			if !within(one.cpu, bounds.cpu) || !within(one.memoryMiB, bounds.memory) {
				continue
			}
			if offering.Cpunumber <= 0 {
				one.launch.CPU = one.cpu
			}
			if offering.Memory <= 0 {
				one.launch.MemoryMiB = one.memoryMiB
			}
			one.name = selector.Shorten(name, sizeSuffix(one.cpu, one.memoryMiB))
			sizes = append(sizes, one)
		}
	}
	slices.SortFunc(sizes, func(a, b size) int { return cmp.Or(a.cpu-b.cpu, a.memoryMiB-b.memoryMiB) })
	return lo.UniqBy(sizes, func(one size) string { return one.name })
}

// zonesOf are the ids of the zones that an offering is restricted to; nil where it is not.
func zonesOf(offering *cloudstack.ServiceOffering) []string { return split(offering.Zoneid) }

// hostTagsOf are the host tags of an offering.
func hostTagsOf(offering *cloudstack.ServiceOffering) []string { return split(offering.Hosttags) }

func split(list string) []string {
	var parts []string
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// bounds are those of a constrained offering.
type bounds struct{ cpu, memory csv1.Range }

func boundsOf(offering *cloudstack.ServiceOffering) (bounds, error) {
	var b bounds
	for _, bound := range []struct {
		detail string
		into   **int64
	}{{detailMinCPU, &b.cpu.Min}, {detailMaxCPU, &b.cpu.Max}, {detailMinMemory, &b.memory.Min}, {detailMaxMemory, &b.memory.Max}} {
		text, set := offering.Serviceofferingdetails[bound.detail]
		if !set || !offering.Iscustomized {
			continue
		}
		value, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return bounds{}, selector.Errorf(selector.ReasonInvalid, "has the detail %s=%q, which is no number", bound.detail, text)
		}
		*bound.into = &value
	}
	return b, nil
}

func within(value int, r csv1.Range) bool {
	return (r.Min == nil || int64(value) >= *r.Min) && (r.Max == nil || int64(value) <= *r.Max)
}

// term is a term with its pattern compiled.
type term struct {
	csv1.ServiceOfferingSelectorTerm
	pattern *regexp.Regexp
}

func compile(field string, one csv1.ServiceOfferingSelectorTerm) (term, error) {
	t := term{ServiceOfferingSelectorTerm: one}
	var err error
	if one.NameRegex != "" {
		t.pattern, err = selector.Pattern(field+".nameRegex", one.NameRegex)
	}
	return t, err
}

func compileAll(terms []csv1.ServiceOfferingSelectorTerm) ([]term, error) {
	compiled := make([]term, len(terms))
	for i, one := range terms {
		var err error
		if compiled[i], err = compile(fmt.Sprintf("spec.serviceOfferingSelectorTerms[%d]", i), one); err != nil {
			return nil, err
		}
	}
	return compiled, nil
}

// rule is a capacity type rule with its pattern compiled.
type rule struct {
	term
	capacityType string
}

func compileRules(rules []csv1.CapacityTypeRule) ([]rule, error) {
	compiled := make([]rule, len(rules))
	for i, one := range rules {
		t, err := compile(fmt.Sprintf("spec.capacityTypeRules[%d].selector", i), one.Selector)
		if err != nil {
			return nil, err
		}
		compiled[i] = rule{term: t, capacityType: one.CapacityType}
	}
	return compiled, nil
}

// capacityTypeOf is the capacity type of the first rule that fits.
func capacityTypeOf(rules []rule, one size) string {
	for _, rule := range rules {
		if rule.fits(one) {
			return rule.capacityType
		}
	}
	return karpv1.CapacityTypeOnDemand
}

// fits tells whether a size fits all fields of a term.
func (t term) fits(one size) bool {
	o := one.offering
	empty := t.ID == "" && t.Name == "" && t.NameRegex == "" && len(t.Tags) == 0 && len(t.HostTags) == 0 && t.CPU == nil && t.MemoryMiB == nil && t.GPU == nil
	return !empty &&
		(t.ID == "" || t.ID == o.Id) &&
		(t.Name == "" || t.Name == o.Name) &&
		(t.pattern == nil || t.pattern.MatchString(o.Name)) &&
		(t.CPU == nil || within(one.cpu, *t.CPU)) &&
		(t.MemoryMiB == nil || within(one.memoryMiB, *t.MemoryMiB)) &&
		(t.GPU == nil || *t.GPU == (one.gpus.count > 0)) &&
		(len(t.HostTags) == 0 || lo.Every(hostTagsOf(o), t.HostTags)) &&
		(len(t.Tags) == 0 || hasTags(o, t.Tags))
}

// hasTags tells whether an offering is marked with all tags: with a detail of that key and value, or with a host tag key=value.
func hasTags(offering *cloudstack.ServiceOffering, want map[string]string) bool {
	hostTags := hostTagsOf(offering)
	for key, value := range want {
		detail, ok := offering.Serviceofferingdetails[key]
		if ok && (value == selector.Any || value == detail) {
			continue
		}
		if !slices.ContainsFunc(hostTags, func(tag string) bool {
			tagKey, tagValue, ok := strings.Cut(tag, "=")
			return ok && tagKey == key && (value == selector.Any || value == tagValue)
		}) {
			return false
		}
	}
	return true
}

// selectSizes are the sizes that any term fits, of offerings of any of the zones. No zones: of all zones. It is a *selector.Error that there
// is none.
func selectSizes(nodeClass *csv1.CloudStackNodeClass, offerings []*cloudstack.ServiceOffering) ([]size, error) {
	terms, err := compileAll(nodeClass.Spec.ServiceOfferingSelectorTerms)
	if err != nil {
		return nil, err
	}
	zones := lo.Map(nodeClass.Status.Zones, func(zone csv1.ZoneStatus, _ int) string { return zone.ID })
	names := namesOf(offerings)
	var selected []size
	var elsewhere []string
	for _, offering := range offerings {
		for _, one := range sizesOf(offering, names[offering.Id], nodeClass.Spec.CustomOffering) {
			if !slices.ContainsFunc(terms, func(t term) bool { return t.fits(one) }) {
				continue
			}
			if len(zones) > 0 && len(one.launch.ZoneIDs) > 0 && !lo.Some(one.launch.ZoneIDs, zones) {
				elsewhere = append(elsewhere, offering.Name)
				continue
			}
			selected = append(selected, one)
		}
	}
	if len(selected) == 0 {
		return nil, none(nodeClass, offerings, terms, elsewhere)
	}
	slices.SortFunc(selected, func(a, b size) int { return strings.Compare(a.name, b.name) })
	return selected, nil
}

// none tells that nothing is selected, and what is nearest to it.
func none(nodeClass *csv1.CloudStackNodeClass, offerings []*cloudstack.ServiceOffering, terms []term, elsewhere []string) error {
	const field = "spec.serviceOfferingSelectorTerms"
	if len(elsewhere) > 0 {
		return selector.Errorf(selector.ReasonNotFound, "%s selects %s, which the zones of spec.zones do not have", field, selector.Names(elsewhere))
	}
	names := make([]string, len(offerings))
	for i, offering := range offerings {
		names[i] = offering.Name
		why := problem(offering, nodeClass.Spec.CustomOffering)
		if why == "" && len(sizesOf(offering, offering.Name, nodeClass.Spec.CustomOffering)) == 0 {
			why = "has bounds that no size of spec.customOffering is within"
		}
		// What names an offering and cannot use it is told about, before what there is besides.
		if why != "" && slices.ContainsFunc(terms, func(t term) bool {
			byName := t.ServiceOfferingSelectorTerm
			byName.CPU, byName.MemoryMiB = nil, nil
			return term{byName, t.pattern}.fits(size{offering: offering, gpus: gpusOf(offering)})
		}) {
			return selector.Errorf(selector.ReasonNotUsable, "%s selects %q, which %s", field, offering.Name, why)
		}
	}
	return selector.Errorf(selector.ReasonNotFound, "%s selects none of %d service offerings; there is %s", field, len(offerings), selector.Names(names))
}
