package status

import (
	"math"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// nodes counts the nodes that controllers tell of in the metadata of their reports. The newest report that tells of nodes counts:
// controllers of one object look at the same nodes, so a sum would count them twice.
func nodes(reports []*nodepoolsv1.ControllerStatus, desired *int32) *nodepoolsv1.NodeCounts {
	var newest *nodepoolsv1.ControllerStatus
	for _, report := range reports {
		_, active := count(report, "active_nodes")
		_, ready := count(report, "ready_nodes")
		if !active && !ready {
			continue
		}
		if newest == nil || report.GetUpdatedAt().AsTime().After(newest.GetUpdatedAt().AsTime()) {
			newest = report
		}
	}
	if newest == nil {
		return nil
	}
	result := &nodepoolsv1.NodeCounts{}
	active, hasActive := count(newest, "active_nodes")
	ready, hasReady := count(newest, "ready_nodes")
	switch {
	case !hasActive:
		active = ready
	case !hasReady && IsReady(newest):
		ready = active
	}
	result.Current, result.Ready = active, ready
	if wanted, ok := count(newest, "desired_nodes"); ok {
		result.Desired = wanted
	} else if desired != nil {
		result.Desired = *desired
	}
	return result
}

// count reads a number of nodes; anything else than a whole number that is not negative does not count.
func count(report *nodepoolsv1.ControllerStatus, key string) (int32, bool) {
	value, ok := report.GetMetadata().GetFields()[key]
	if !ok {
		return 0, false
	}
	number := value.GetNumberValue()
	if number < 0 || number > math.MaxInt32 || number != math.Trunc(number) || value.GetKind() == nil {
		return 0, false
	}
	if _, isNumber := value.AsInterface().(float64); !isNumber {
		return 0, false
	}
	return int32(number), true
}
