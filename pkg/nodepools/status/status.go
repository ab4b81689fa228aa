// Package status makes the status of a cluster or node pool from what controllers report about it. It is pure: the same input
// has the same result, and the time is an input too.
package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// The phases of an object; see Status in status.proto.
const (
	Pending     = "Pending"
	Progressing = "Progressing"
	Ready       = "Ready"
	Failed      = "Failed"
	Deleting    = "Deleting"
)

// Whether what was made works now.
const (
	Healthy   = "healthy"
	Unhealthy = "unhealthy"
	Unknown   = "unknown"
)

// The types of conditions that have a meaning here. A controller may report others; they are shown as they are.
const (
	ConditionReady       = "Ready"
	ConditionAvailable   = "Available"
	ConditionProgressing = "Progressing"
	ConditionDeleting    = "Deleting"
	// ConditionDeleted in a report says that nothing is left of the object.
	ConditionDeleted = "Deleted"
	// ConditionDeletionStalled says that a deletion takes longer than it should.
	ConditionDeletionStalled = "DeletionStalled"
)

// Input is all that a status depends on.
type Input struct {
	// Generation is the object's present generation.
	Generation int32
	// NewGeneration says that the generation begins with this evaluation.
	NewGeneration bool
	// Reports are the last ones of every controller, in the order of their names.
	Reports []*nodepoolsv1.ControllerStatus
	// Required are the controllers that must all be ready. Where there are none, those that have reported are.
	Required []string
	// Previous is the status before; nil for a new object.
	Previous *nodepoolsv1.Status
	// Now is the time of the evaluation.
	Now time.Time
	// ProgressDeadline is how long a generation may take before it is Failed; 0 is for ever.
	ProgressDeadline time.Duration
	// DeletionRequestedAt is when the deletion was asked for; zero when it was not.
	DeletionRequestedAt time.Time
	// DeletionDeadline is how long a deletion may take before it is called stalled; 0 is for ever.
	DeletionDeadline time.Duration
	// Finalizers are the controllers that a deletion still waits for.
	Finalizers []string
	// WaitsForPools says that a deleted cluster still has node pools.
	WaitsForPools bool
	// DesiredNodes is how many nodes the spec wants; nil when it does not say.
	DesiredNodes *int32
}

// Aggregate returns the status of an object. Next is when time alone may change it; zero is never.
func Aggregate(in Input) (result *nodepoolsv1.Status, next time.Time) {
	previous := in.Previous
	if previous == nil {
		previous = &nodepoolsv1.Status{}
	}
	required := RequiredOf(in.Required, in.Reports)
	reports := reportsOf(in.Reports, required)

	result = &nodepoolsv1.Status{ObservedGeneration: max(previous.GetObservedGeneration(), observed(required, reports))}
	if result.ObservedGeneration > in.Generation {
		result.ObservedGeneration = in.Generation
	}
	result.Nodes = nodes(reports, in.DesiredNodes)

	if !in.DeletionRequestedAt.IsZero() {
		next = deleting(in, result)
	} else {
		next = phase(in, previous, required, reports, result)
	}
	result.Health = health(in, previous, reports, result.Phase)
	result.Conditions = conditions(in, previous, reports, result)
	result.LastTransitionTime = timestamppb.New(in.Now)
	if previous.GetPhase() == result.GetPhase() && previous.GetLastTransitionTime() != nil {
		result.LastTransitionTime = proto.CloneOf(previous.GetLastTransitionTime())
	}
	return result, next
}

// RequiredOf returns the controllers that must all be ready: the registered ones, or those that have reported where none is
// registered.
func RequiredOf(registered []string, reports []*nodepoolsv1.ControllerStatus) []string {
	if len(registered) > 0 {
		required := slices.Clone(registered)
		slices.Sort(required)
		return slices.Compact(required)
	}
	required := make([]string, 0, len(reports))
	for _, report := range reports {
		required = append(required, report.GetControllerName())
	}
	return required
}

// Observed says whether every required controller has reported about a generation.
func Observed(generation int32, required []string, reports []*nodepoolsv1.ControllerStatus) bool {
	return len(required) > 0 && observed(required, reports) >= generation
}

// reportsOf leaves out reports of controllers that are not required.
func reportsOf(reports []*nodepoolsv1.ControllerStatus, required []string) []*nodepoolsv1.ControllerStatus {
	var result []*nodepoolsv1.ControllerStatus
	for _, report := range reports {
		if slices.Contains(required, report.GetControllerName()) {
			result = append(result, report)
		}
	}
	return result
}

// observed is the generation that all required controllers have reported about; 0 while one has not reported at all.
func observed(required []string, reports []*nodepoolsv1.ControllerStatus) int32 {
	if len(required) == 0 || len(reports) < len(required) {
		return 0
	}
	lowest := reports[0].GetObservedGeneration()
	for _, report := range reports {
		lowest = min(lowest, report.GetObservedGeneration())
	}
	return lowest
}

// phase sets the phase of an object that is to be there.
func phase(in Input, previous *nodepoolsv1.Status, required []string, reports []*nodepoolsv1.ControllerStatus, result *nodepoolsv1.Status) time.Time {
	var current, ready []string
	var failed *nodepoolsv1.ControllerStatus
	for _, report := range reports {
		if report.GetObservedGeneration() != in.Generation {
			continue
		}
		current = append(current, report.GetControllerName())
		if IsReady(report) {
			ready = append(ready, report.GetControllerName())
		}
		if failed == nil && ends(report.GetLastError()) {
			failed = report
		}
	}
	switch {
	case failed != nil:
		result.Phase, result.Reason = Failed, "ControllerError"
		if code := failed.GetLastError().GetErrorCode(); code != "" {
			result.Reason = code
		}
		result.Message = failed.GetControllerName() + ": " + orElse(failed.GetLastError().GetMessage(), "the controller cannot go on")
		result.ProgressDeadline = keepDeadline(in, previous)
		return time.Time{}
	case len(required) > 0 && len(ready) == len(required):
		result.Phase, result.Reason, result.Message = Ready, "AllControllersReady", describeReady(reports)
		return time.Time{}
	}

	// A generation has its deadline from its beginning on, or from the first report about it; further reports do not put it off.
	// What was ready and no longer is has a deadline of its own.
	deadline := keepDeadline(in, previous)
	began := len(current) > 0 && (previous.GetPhase() == Pending || previous.GetReason() == reasonSilent)
	if in.ProgressDeadline > 0 && (deadline == nil || began || previous.GetPhase() == Ready) {
		deadline = timestamppb.New(in.Now.Add(in.ProgressDeadline))
	}
	passed := deadline != nil && !in.Now.Before(deadline.AsTime())
	missing := without(required, current)
	waiting := without(current, ready)
	result.ProgressDeadline = deadline
	switch {
	case len(required) == 0:
		result.Phase, result.Reason = Pending, "NoControllers"
		result.Message = "no controller is registered for the platform, and none has reported"
		result.ProgressDeadline = nil
		return time.Time{}
	case len(current) == 0 && passed:
		result.Phase, result.Reason = Failed, reasonSilent
		result.Message = "no report in time about generation " + fmt.Sprint(in.Generation) + " from " + strings.Join(missing, ", ")
		return time.Time{}
	case len(current) == 0:
		result.Phase, result.Reason = Pending, "WaitingForControllers"
		result.Message = "waits for " + strings.Join(missing, ", ")
	case passed:
		result.Phase, result.Reason = Failed, "ProgressDeadlineExceeded"
		result.Message = "not ready in time: " + describe(reports, waiting, missing)
		return time.Time{}
	default:
		result.Phase, result.Reason = Progressing, "ControllersProgressing"
		if len(ready) > 0 {
			result.Reason = "PartiallyReady"
		}
		result.Message = describe(reports, waiting, missing)
	}
	if deadline == nil {
		return time.Time{}
	}
	return deadline.AsTime()
}

// reasonSilent is why an object failed that no controller reported about.
const reasonSilent = "ControllersSilent"

// deleting sets the phase of an object that is being taken away.
func deleting(in Input, result *nodepoolsv1.Status) time.Time {
	result.Phase, result.Reason = Deleting, "Deleting"
	waits := slices.Clone(in.Finalizers)
	if in.WaitsForPools {
		waits = append(waits, "its node pools")
	}
	result.Message = "waits for " + strings.Join(waits, ", ")
	if len(waits) == 0 {
		result.Message = "nothing is left of it"
	}
	for _, report := range in.Reports {
		if slices.Contains(in.Finalizers, report.GetControllerName()) && report.GetLastError().GetMessage() != "" {
			result.Message += "; " + report.GetControllerName() + ": " + report.GetLastError().GetMessage()
		}
	}
	if in.DeletionDeadline <= 0 {
		return time.Time{}
	}
	stalled := in.DeletionRequestedAt.Add(in.DeletionDeadline)
	if in.Now.Before(stalled) {
		return stalled
	}
	result.Reason = ConditionDeletionStalled
	return time.Time{}
}

// IsReady says whether a controller says that the object is as it should be. Ready and Available both count; where both are given,
// both must be True.
func IsReady(report *nodepoolsv1.ControllerStatus) bool {
	ready, available := Find(report.GetConditions(), ConditionReady), Find(report.GetConditions(), ConditionAvailable)
	if ready == nil && available == nil || IsDeleted(report) {
		return false
	}
	return (ready == nil || ready.GetStatus() == True) && (available == nil || available.GetStatus() == True)
}

// IsDeleted says whether a controller says that nothing is left of the object.
func IsDeleted(report *nodepoolsv1.ControllerStatus) bool {
	return Find(report.GetConditions(), ConditionDeleted).GetStatus() == True
}

// ends says whether a controller cannot go on by itself after an error.
func ends(failure *nodepoolsv1.ControllerError) bool {
	return failure.GetErrorType() == "Fatal" || failure.GetErrorType() == "Configuration"
}

// keepDeadline is the deadline before, within the same generation.
func keepDeadline(in Input, previous *nodepoolsv1.Status) *timestamppb.Timestamp {
	if in.NewGeneration || previous.GetProgressDeadline() == nil {
		return nil
	}
	return proto.CloneOf(previous.GetProgressDeadline())
}

// health says whether what was made works now.
func health(in Input, previous *nodepoolsv1.Status, reports []*nodepoolsv1.ControllerStatus, phase string) string {
	if phase == Failed {
		return Unhealthy
	}
	if len(reports) == 0 || phase == Deleting {
		return Unknown
	}
	wasReady := !in.NewGeneration && (previous.GetPhase() == Ready || previous.GetHealth() == Unhealthy)
	result := Healthy
	for _, report := range reports {
		available := Find(report.GetConditions(), ConditionAvailable)
		switch {
		case IsDeleted(report) || available.GetStatus() == False:
			return Unhealthy
		case available == nil && Find(report.GetConditions(), ConditionReady).GetStatus() == False && wasReady:
			// Not ready while it is made is no sickness; no longer ready is one.
			return Unhealthy
		case available.GetStatus() == True, available == nil && IsReady(report):
		default:
			result = Unknown
		}
	}
	return result
}

// describeReady is what people read of an object that is ready.
func describeReady(reports []*nodepoolsv1.ControllerStatus) string {
	for _, report := range reports {
		for _, kind := range []string{ConditionReady, ConditionAvailable} {
			if message := Find(report.GetConditions(), kind).GetMessage(); message != "" {
				return message
			}
		}
	}
	return "all controllers are ready"
}

// describe is what people read of an object that is not ready yet.
func describe(reports []*nodepoolsv1.ControllerStatus, waiting, missing []string) string {
	var parts []string
	for _, report := range reports {
		if !slices.Contains(waiting, report.GetControllerName()) {
			continue
		}
		parts = append(parts, report.GetControllerName()+": "+progressOf(report))
	}
	if len(missing) > 0 {
		parts = append(parts, "waits for "+strings.Join(missing, ", "))
	}
	return strings.Join(parts, "; ")
}

// progressOf is the most telling message of a report.
func progressOf(report *nodepoolsv1.ControllerStatus) string {
	if message := report.GetLastError().GetMessage(); message != "" {
		return message
	}
	for _, kind := range []string{ConditionProgressing, ConditionReady, ConditionAvailable} {
		if message := Find(report.GetConditions(), kind).GetMessage(); message != "" {
			return message
		}
	}
	return "at work"
}

func without(all, some []string) []string {
	var result []string
	for _, one := range all {
		if !slices.Contains(some, one) {
			result = append(result, one)
		}
	}
	return result
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}
