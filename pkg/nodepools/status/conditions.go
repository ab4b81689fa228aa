package status

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// The statuses of a condition.
const (
	True          = "True"
	False         = "False"
	UnknownStatus = "Unknown"
)

// Find returns the condition of a type, or nil.
func Find(conditions []*nodepoolsv1.Condition, kind string) *nodepoolsv1.Condition {
	for _, condition := range conditions {
		if condition.GetType() == kind {
			return condition
		}
	}
	return nil
}

// conditions are those of the whole object: the ones that are made here, then what else controllers report about the present
// generation.
func conditions(in Input, previous *nodepoolsv1.Status, reports []*nodepoolsv1.ControllerStatus, result *nodepoolsv1.Status) []*nodepoolsv1.Condition {
	made := []*nodepoolsv1.Condition{
		{Type: ConditionReady, Status: boolean(result.Phase == Ready), Reason: result.Reason, Message: result.Message},
		{Type: ConditionAvailable, Status: map[string]string{Healthy: True, Unhealthy: False, Unknown: UnknownStatus}[result.Health], Reason: availableReason[result.Health]},
	}
	if result.Phase == Pending {
		made[0].Status = UnknownStatus
	}
	if result.Phase == Deleting {
		stalled := result.Reason == ConditionDeletionStalled
		made = append(made,
			&nodepoolsv1.Condition{Type: ConditionDeleting, Status: True, Reason: "DeletionRequested", Message: result.Message},
			&nodepoolsv1.Condition{Type: ConditionDeletionStalled, Status: boolean(stalled), Reason: stalledReason[stalled], Message: stalledMessage(stalled, result)})
	} else {
		made = append(made, &nodepoolsv1.Condition{
			Type: ConditionProgressing, Status: boolean(result.Phase == Progressing), Reason: result.Reason, Message: progressMessage(result),
		})
	}
	made = append(made, reported(in.Generation, reports)...)
	for _, condition := range made {
		condition.LastTransitionTime = timestamppb.New(in.Now)
		if before := Find(previous.GetConditions(), condition.GetType()); before.GetStatus() == condition.GetStatus() && before.GetLastTransitionTime() != nil {
			condition.LastTransitionTime = proto.CloneOf(before.GetLastTransitionTime())
		}
	}
	return made
}

var (
	availableReason = map[string]string{Healthy: "Available", Unhealthy: "NotAvailable", Unknown: "NotReported"}
	stalledReason   = map[bool]string{true: "DeletionDeadlineExceeded", false: "InTime"}
)

func stalledMessage(stalled bool, result *nodepoolsv1.Status) string {
	if !stalled {
		return ""
	}
	return "the deletion takes longer than it should: " + result.Message
}

func progressMessage(result *nodepoolsv1.Status) string {
	if result.Phase == Progressing {
		return result.Message
	}
	return ""
}

// made here, never taken from a report as they are.
var aggregated = []string{ConditionReady, ConditionAvailable, ConditionProgressing, ConditionDeleting, ConditionDeleted, ConditionDeletionStalled}

// reported are the other conditions that controllers report, in the order of their types. Where several controllers report the
// same type, the one that says True is shown: such conditions tell of something out of the ordinary.
func reported(generation int32, reports []*nodepoolsv1.ControllerStatus) []*nodepoolsv1.Condition {
	rank := map[string]int{True: 2, UnknownStatus: 1, False: 0}
	byType := map[string]*nodepoolsv1.Condition{}
	for _, report := range reports {
		if report.GetObservedGeneration() != generation {
			continue
		}
		for _, condition := range report.GetConditions() {
			if slices.Contains(aggregated, condition.GetType()) {
				continue
			}
			if before, ok := byType[condition.GetType()]; !ok || rank[condition.GetStatus()] > rank[before.GetStatus()] {
				byType[condition.GetType()] = proto.CloneOf(condition)
			}
		}
	}
	result := make([]*nodepoolsv1.Condition, 0, len(byType))
	for _, condition := range byType {
		result = append(result, condition)
	}
	slices.SortFunc(result, func(a, b *nodepoolsv1.Condition) int { return strings.Compare(a.GetType(), b.GetType()) })
	return result
}

func boolean(value bool) string {
	if value {
		return True
	}
	return False
}
