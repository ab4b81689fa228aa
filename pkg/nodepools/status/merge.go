package status

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// Merge returns a controller's report as it is kept. A condition whose status is that of the last report keeps the time of its last
// transition. A changed one has the time that the report gives, but none in the future and none before its last transition;
// without a time, it changed now.
func Merge(last, report *nodepoolsv1.ControllerStatus, now time.Time) *nodepoolsv1.ControllerStatus {
	result := proto.CloneOf(report)
	result.UpdatedAt = timestamppb.New(now)
	for _, condition := range result.GetConditions() {
		before := Find(last.GetConditions(), condition.GetType())
		given := condition.GetLastTransitionTime()
		switch {
		case before.GetLastTransitionTime() != nil && before.GetStatus() == condition.GetStatus():
			condition.LastTransitionTime = proto.CloneOf(before.GetLastTransitionTime())
		case given == nil || given.CheckValid() != nil || given.AsTime().After(now):
			condition.LastTransitionTime = timestamppb.New(now)
		case before.GetLastTransitionTime() != nil && given.AsTime().Before(before.GetLastTransitionTime().AsTime()):
			condition.LastTransitionTime = timestamppb.New(now)
		}
	}
	if failure := result.GetLastError(); failure != nil && (failure.GetTimestamp() == nil || failure.GetTimestamp().AsTime().After(now)) {
		failure.Timestamp = timestamppb.New(now)
	}
	return result
}
