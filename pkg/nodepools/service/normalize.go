package service

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// samePoolSpec says whether two specs want the same. Only what their owner set is compared, never a default: a default that changes
// must not look like a change of every pool.
func samePoolSpec(a, b *nodepoolsv1.NodePoolSpec) bool {
	return proto.Equal(normalPoolSpec(a), normalPoolSpec(b))
}

// sameClusterSpec says whether two specs want the same.
func sameClusterSpec(a, b *nodepoolsv1.ClusterSpec) bool { return proto.Equal(a, b) }

// normalPoolSpec returns a spec with what means the same written the same way: an empty message is none, and sets are in order.
func normalPoolSpec(spec *nodepoolsv1.NodePoolSpec) *nodepoolsv1.NodePoolSpec {
	result := proto.CloneOf(spec)
	if proto.Equal(result.GetAutoscaling(), &nodepoolsv1.Autoscaling{}) {
		result.Autoscaling = nil
	}
	if proto.Equal(result.GetUpgradeSettings(), &nodepoolsv1.UpgradeSettings{}) {
		result.UpgradeSettings = nil
	}
	sortTaints(result.GetTaints())
	platform := result.GetPlatform()
	sortTaints(platform.GetGcp().GetTaints())
	slices.Sort(platform.GetGcp().GetZones())
	slices.Sort(platform.GetAws().GetAvailabilityZones())
	slices.Sort(platform.GetAzure().GetAvailabilityZones())
	slices.Sort(platform.GetDigitalocean().GetTags())
	return result
}

func sortTaints(taints []*nodepoolsv1.Taint) {
	slices.SortStableFunc(taints, func(a, b *nodepoolsv1.Taint) int {
		return strings.Compare(a.GetKey()+"\x00"+a.GetEffect(), b.GetKey()+"\x00"+b.GetEffect())
	})
}
