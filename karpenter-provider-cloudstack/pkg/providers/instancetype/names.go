package instancetype

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

var notAlphanumeric = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// namesOf are the names of the instance types of offerings, by the id of the offering. The cloud controller manager labels nodes with the
// name of the offering less all that is not alphanumeric. Of several that have one name then, the oldest keeps it, and the others get the
// beginning of their id: a new offering renames none that nodes may be of already. For the same reason all offerings are looked at, also
// those that no selector chooses.
func namesOf(offerings []*cloudstack.ServiceOffering) map[string]string {
	oldestFirst := slices.SortedFunc(slices.Values(offerings), func(a, b *cloudstack.ServiceOffering) int {
		atA, _ := cloudstack.Created(a.Created)
		atB, _ := cloudstack.Created(b.Created)
		return cmp.Or(atA.Compare(atB), strings.Compare(a.Id, b.Id))
	})
	names, taken := make(map[string]string, len(offerings)), make(map[string]bool, len(offerings))
	for _, offering := range oldestFirst {
		base := notAlphanumeric.ReplaceAllString(offering.Name, "")
		id := notAlphanumeric.ReplaceAllString(offering.Id, "")
		name := selector.Shorten(base, "")
		switch {
		case base == "":
			name = selector.Shorten(id, "")
		case taken[name]:
			name = selector.Shorten(base, "-"+id[:min(8, len(id))])
		}
		if taken[name] {
			name = selector.Shorten(base, "-"+id)
		}
		names[offering.Id], taken[name] = name, true
	}
	return names
}

// sizeSuffix tells the sizes of one offering apart.
func sizeSuffix(cpu, memoryMiB int) string { return fmt.Sprintf("-%dc-%dm", cpu, memoryMiB) }
