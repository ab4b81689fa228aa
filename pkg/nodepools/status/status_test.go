package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/status"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// report makes a report from conditions such as "Ready=True"; "!Fatal" is a last error of that type.
func report(name string, generation int32, conditions ...string) *nodepoolsv1.ControllerStatus {
	result := &nodepoolsv1.ControllerStatus{ControllerName: name, ObservedGeneration: generation}
	for _, condition := range conditions {
		if kind, ok := strings.CutPrefix(condition, "!"); ok {
			result.LastError = &nodepoolsv1.ControllerError{ErrorType: kind, Message: "it went wrong"}
			continue
		}
		kind, value, _ := strings.Cut(condition, "=")
		result.Conditions = append(result.Conditions, &nodepoolsv1.Condition{Type: kind, Status: value})
	}
	return result
}

func TestPhase(t *testing.T) {
	t.Parallel()
	reports := func(list ...*nodepoolsv1.ControllerStatus) []*nodepoolsv1.ControllerStatus { return list }
	late := timestamppb.New(start.Add(-time.Second))
	tests := []struct {
		name     string
		reports  []*nodepoolsv1.ControllerStatus
		required []string
		previous *nodepoolsv1.Status
		phase    string
		reason   string
		health   string
		observed int32
		why      string
	}{
		{name: "nobody", phase: "Pending", reason: "NoControllers", health: "unknown", why: "no controller is there to fail"},
		{name: "registered", required: []string{"a"}, phase: "Pending", reason: "WaitingForControllers", health: "unknown", why: "it has not begun"},
		{name: "old generation only", required: []string{"a"}, reports: reports(report("a", 1, "Ready=True")), phase: "Pending", reason: "WaitingForControllers", health: "healthy", observed: 1,
			why: "what was made for the old spec works, but nobody has looked at the new one"},
		{name: "ready", required: []string{"a"}, reports: reports(report("a", 2, "Ready=True")), phase: "Ready", reason: "AllControllersReady", health: "healthy", observed: 2},
		{name: "available", required: []string{"a"}, reports: reports(report("a", 2, "Available=True")), phase: "Ready", reason: "AllControllersReady", health: "healthy", observed: 2, why: "Available alone counts too"},
		{name: "ready but not available", required: []string{"a"}, reports: reports(report("a", 2, "Ready=True", "Available=False")), phase: "Progressing", reason: "ControllersProgressing", health: "unhealthy", observed: 2, why: "both must be True where both are given"},
		{name: "neither", required: []string{"a"}, reports: reports(report("a", 2, "Networked=True")), phase: "Progressing", reason: "ControllersProgressing", health: "unknown", observed: 2, why: "nobody said that it is ready"},
		{name: "unknown", required: []string{"a"}, reports: reports(report("a", 2, "Ready=Unknown")), phase: "Progressing", reason: "ControllersProgressing", health: "unknown", observed: 2},
		{name: "one of two", required: []string{"a", "b"}, reports: reports(report("a", 2, "Ready=True")), phase: "Progressing", reason: "PartiallyReady", health: "healthy", why: "b has not reported"},
		{name: "second at old generation", required: []string{"a", "b"}, reports: reports(report("a", 2, "Ready=True"), report("b", 1, "Ready=True")), phase: "Progressing", reason: "PartiallyReady", health: "healthy", observed: 1},
		{name: "both", required: []string{"a", "b"}, reports: reports(report("a", 2, "Ready=True"), report("b", 2, "Ready=True")), phase: "Ready", reason: "AllControllersReady", health: "healthy", observed: 2},
		{name: "stranger", required: []string{"a"}, reports: reports(report("stranger", 2, "Ready=True")), phase: "Pending", reason: "WaitingForControllers", health: "unknown", why: "a controller that is not required decides nothing"},
		{name: "not registered", reports: reports(report("a", 2, "Ready=True")), phase: "Ready", reason: "AllControllersReady", health: "healthy", observed: 2, why: "where none is registered, those count that report"},
		{name: "transient", required: []string{"a"}, reports: reports(report("a", 2, "Ready=False", "!Transient")), phase: "Progressing", reason: "ControllersProgressing", health: "unknown", observed: 2},
		{name: "quota", required: []string{"a"}, reports: reports(report("a", 2, "Ready=False", "!Quota")), phase: "Progressing", reason: "ControllersProgressing", health: "unknown", observed: 2},
		{name: "fatal", required: []string{"a"}, reports: reports(report("a", 2, "Ready=False", "!Fatal")), phase: "Failed", reason: "ControllerError", health: "unhealthy", observed: 2, why: "it cannot go on"},
		{name: "configuration", required: []string{"a", "b"}, reports: reports(report("b", 2, "!Configuration")), phase: "Failed", reason: "ControllerError", health: "unhealthy", why: "at once, whoever else is to come"},
		{name: "fatal of the old generation", required: []string{"a"}, reports: reports(report("a", 1, "Ready=False", "!Fatal")), phase: "Pending", reason: "WaitingForControllers", health: "unknown", observed: 1, why: "a new spec is a new chance"},
		{name: "late", required: []string{"a"}, reports: reports(report("a", 2, "Ready=False")), previous: &nodepoolsv1.Status{Phase: "Progressing", ProgressDeadline: late}, phase: "Failed", reason: "ProgressDeadlineExceeded", health: "unhealthy", observed: 2},
		{name: "late but ready", required: []string{"a"}, reports: reports(report("a", 2, "Ready=True")), previous: &nodepoolsv1.Status{Phase: "Failed", ProgressDeadline: late}, phase: "Ready", reason: "AllControllersReady", health: "healthy", observed: 2, why: "success ends a failure"},
		{name: "silent", required: []string{"a"}, previous: &nodepoolsv1.Status{Phase: "Pending", ProgressDeadline: late}, phase: "Failed", reason: "ControllersSilent", health: "unhealthy"},
		{name: "first report after silence", required: []string{"a"}, reports: reports(report("a", 2, "Ready=False")), previous: &nodepoolsv1.Status{Phase: "Failed", Reason: "ControllersSilent", ProgressDeadline: late}, phase: "Progressing", reason: "ControllersProgressing", health: "unknown", observed: 2, why: "its time begins with its first report"},
		{name: "no longer ready", required: []string{"a"}, reports: reports(report("a", 2, "Ready=False")), previous: &nodepoolsv1.Status{Phase: "Ready", ObservedGeneration: 2}, phase: "Progressing", reason: "ControllersProgressing", health: "unhealthy", observed: 2, why: "it worked before, and does not now"},
		{name: "gone by itself", required: []string{"a"}, reports: reports(report("a", 2, "Ready=True", "Deleted=True")), phase: "Progressing", reason: "ControllersProgressing", health: "unhealthy", observed: 2, why: "what is gone is not ready"},
		{name: "observed never falls", required: []string{"a", "b"}, reports: reports(report("a", 2, "Ready=True")), previous: &nodepoolsv1.Status{Phase: "Ready", ObservedGeneration: 2}, phase: "Progressing", reason: "PartiallyReady", health: "healthy", observed: 2, why: "b was registered later"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, _ := status.Aggregate(status.Input{
				Generation: 2, Reports: test.reports, Required: test.required, Previous: test.previous, Now: start, ProgressDeadline: time.Minute,
			})
			if got.GetPhase() != test.phase || got.GetReason() != test.reason || got.GetHealth() != test.health || got.GetObservedGeneration() != test.observed {
				t.Errorf("got %s/%s, %s, observed %d; want %s/%s, %s, observed %d: %s", got.GetPhase(), got.GetReason(), got.GetHealth(), got.GetObservedGeneration(),
					test.phase, test.reason, test.health, test.observed, test.why)
			}
			if ready := status.Find(got.GetConditions(), "Ready").GetStatus(); (ready == "True") != (test.phase == "Ready") {
				t.Errorf("the phase is %s, and the condition Ready is %s", test.phase, ready)
			}
		})
	}
}

// TestDeadline checks that time alone makes a pool Failed, and that reports do not put that off.
func TestDeadline(t *testing.T) {
	t.Parallel()
	in := status.Input{Generation: 1, NewGeneration: true, Required: []string{"a"}, Now: start, ProgressDeadline: 10 * time.Minute}
	current, next := status.Aggregate(in)
	if want := start.Add(10 * time.Minute); !next.Equal(want) || current.GetPhase() != "Pending" {
		t.Fatalf("a new pool is %s, and looked at again at %s, want %s", current.GetPhase(), next, want)
	}
	in.NewGeneration = false
	in.Reports = []*nodepoolsv1.ControllerStatus{report("a", 1, "Ready=False")}
	first := start.Add(5 * time.Minute)
	for minute := range 10 {
		in.Previous, in.Now = current, first.Add(time.Duration(minute)*time.Minute)
		if current, next = status.Aggregate(in); current.GetPhase() != "Progressing" || !next.Equal(first.Add(10*time.Minute)) {
			t.Fatalf("after %d minutes it is %s until %s", minute, current.GetPhase(), next)
		}
	}
	in.Previous, in.Now = current, first.Add(10*time.Minute)
	if current, next = status.Aggregate(in); current.GetPhase() != "Failed" || !next.IsZero() {
		t.Fatalf("at the deadline it is %s, next %s", current.GetPhase(), next)
	}
	in.Previous, in.Now = current, first.Add(11*time.Minute)
	if current, _ = status.Aggregate(in); current.GetPhase() != "Failed" {
		t.Fatalf("a further report makes it %s", current.GetPhase())
	}
	in.Previous, in.NewGeneration, in.Generation = current, true, 2
	if current, _ = status.Aggregate(in); current.GetPhase() != "Pending" {
		t.Fatalf("a new generation makes it %s", current.GetPhase())
	}
}

func TestDeleting(t *testing.T) {
	t.Parallel()
	in := status.Input{
		Generation: 3, Reports: []*nodepoolsv1.ControllerStatus{report("a", 3, "Ready=True", "DrainBlocked=True")}, Required: []string{"a", "b"}, Finalizers: []string{"a", "b"},
		DeletionRequestedAt: start, DeletionDeadline: time.Hour, Now: start, WaitsForPools: true,
	}
	got, next := status.Aggregate(in)
	if got.GetPhase() != "Deleting" || !next.Equal(start.Add(time.Hour)) || !strings.Contains(got.GetMessage(), "a, b, its node pools") {
		t.Fatalf("got %s until %s: %s", got.GetPhase(), next, got.GetMessage())
	}
	if status.Find(got.GetConditions(), "Ready").GetStatus() != "False" || status.Find(got.GetConditions(), "DeletionStalled").GetStatus() != "False" || status.Find(got.GetConditions(), "DrainBlocked").GetStatus() != "True" {
		t.Fatalf("the conditions are %v", got.GetConditions())
	}
	in.Previous, in.Now = got, start.Add(time.Hour)
	got, next = status.Aggregate(in)
	stalled := status.Find(got.GetConditions(), "DeletionStalled")
	if got.GetPhase() != "Deleting" || !next.IsZero() || stalled.GetStatus() != "True" || !stalled.GetLastTransitionTime().AsTime().Equal(in.Now) {
		t.Fatalf("after an hour it is %s, next %s, stalled %v", got.GetPhase(), next, stalled)
	}
	if at := status.Find(got.GetConditions(), "Deleting").GetLastTransitionTime().AsTime(); !at.Equal(start) {
		t.Fatalf("Deleting is True since %s, want %s", at, start)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	at := func(offset time.Duration) *timestamppb.Timestamp { return timestamppb.New(start.Add(offset)) }
	last := &nodepoolsv1.ControllerStatus{Conditions: []*nodepoolsv1.Condition{{Type: "Ready", Status: "False", LastTransitionTime: at(-time.Hour)}}}
	tests := []struct {
		name string
		last *nodepoolsv1.ControllerStatus
		give *nodepoolsv1.Condition
		want *timestamppb.Timestamp
	}{
		{"first, with a time", nil, &nodepoolsv1.Condition{Type: "Ready", Status: "True", LastTransitionTime: at(-time.Minute)}, at(-time.Minute)},
		{"first, without a time", nil, &nodepoolsv1.Condition{Type: "Ready", Status: "True"}, at(0)},
		{"first, in the future", nil, &nodepoolsv1.Condition{Type: "Ready", Status: "True", LastTransitionTime: at(time.Minute)}, at(0)},
		{"first, with a time that is none", nil, &nodepoolsv1.Condition{Type: "Ready", Status: "True", LastTransitionTime: &timestamppb.Timestamp{Nanos: -1}}, at(0)},
		{"unchanged keeps its time", last, &nodepoolsv1.Condition{Type: "Ready", Status: "False", Reason: "Other", LastTransitionTime: at(-time.Minute)}, at(-time.Hour)},
		{"changed", last, &nodepoolsv1.Condition{Type: "Ready", Status: "True"}, at(0)},
		{"changed, with a time", last, &nodepoolsv1.Condition{Type: "Ready", Status: "True", LastTransitionTime: at(-time.Minute)}, at(-time.Minute)},
		{"changed before it changed last", last, &nodepoolsv1.Condition{Type: "Ready", Status: "True", LastTransitionTime: at(-2 * time.Hour)}, at(0)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			merged := status.Merge(test.last, &nodepoolsv1.ControllerStatus{Conditions: []*nodepoolsv1.Condition{test.give}}, start)
			if diff := cmp.Diff(test.want, merged.GetConditions()[0].GetLastTransitionTime(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			if !merged.GetUpdatedAt().AsTime().Equal(start) {
				t.Errorf("updated at %s", merged.GetUpdatedAt().AsTime())
			}
		})
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	metadata := func(values map[string]any) *structpb.Struct {
		result, err := structpb.NewStruct(values)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	tests := []struct {
		name     string
		metadata map[string]any
		want     *nodepoolsv1.NodeCounts
	}{
		{"the guide", map[string]any{"active_nodes": 5, "desired_nodes": 6, "platform": "gcp"}, &nodepoolsv1.NodeCounts{Desired: 6, Current: 5, Ready: 5}},
		{"all", map[string]any{"active_nodes": 5, "desired_nodes": 6, "ready_nodes": 4}, &nodepoolsv1.NodeCounts{Desired: 6, Current: 5, Ready: 4}},
		{"the spec's count", map[string]any{"active_nodes": 0}, &nodepoolsv1.NodeCounts{Desired: 3}},
		{"nothing", map[string]any{"platform": "gcp"}, nil},
		{"no numbers", map[string]any{"active_nodes": "5", "ready_nodes": true}, nil},
		{"no counts", map[string]any{"active_nodes": -1, "ready_nodes": 0.5}, nil},
	}
	wanted := int32(3)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			one := report("a", 1, "Ready=True")
			one.Metadata = metadata(test.metadata)
			got, _ := status.Aggregate(status.Input{Generation: 1, Reports: []*nodepoolsv1.ControllerStatus{one}, Now: start, DesiredNodes: &wanted})
			if diff := cmp.Diff(test.want, got.GetNodes(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLaws checks what must hold whatever controllers report, in whatever order, and whatever time passes.
func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		required := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "required")
		generation, now := int32(1), start
		last := map[string]*nodepoolsv1.ControllerStatus{}
		current, _ := status.Aggregate(status.Input{Generation: 1, NewGeneration: true, Required: required, Now: now, ProgressDeadline: time.Minute})
		var deletion time.Time
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			fresh := false
			switch rapid.SampledFrom([]string{"report", "report", "report", "spec", "time", "delete"}).Draw(t, "step") {
			case "report":
				name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
				about := rapid.Int32Range(max(1, last[name].GetObservedGeneration()), generation).Draw(t, "about")
				value := rapid.SampledFrom([]string{"True", "False", "Unknown"})
				given := report(name, about, "Ready="+value.Draw(t, "ready"), "Drifted="+value.Draw(t, "drifted"))
				if rapid.Bool().Draw(t, "failed") {
					given.LastError = &nodepoolsv1.ControllerError{ErrorType: rapid.SampledFrom([]string{"Transient", "Fatal"}).Draw(t, "error")}
				}
				last[name] = status.Merge(last[name], given, now)
			case "spec":
				if deletion.IsZero() {
					generation, fresh = generation+1, true
				}
			case "delete":
				deletion = now
			}
			in := status.Input{
				Generation: generation, NewGeneration: fresh, Required: required, Previous: current, Now: now, ProgressDeadline: time.Minute,
				DeletionRequestedAt: deletion, DeletionDeadline: time.Minute,
			}
			for _, name := range []string{"a", "b", "c"} {
				if last[name] != nil {
					in.Reports = append(in.Reports, last[name])
				}
			}
			next, due := status.Aggregate(in)
			if next.GetObservedGeneration() < current.GetObservedGeneration() || next.GetObservedGeneration() > generation {
				t.Fatalf("observed_generation went from %d to %d at generation %d", current.GetObservedGeneration(), next.GetObservedGeneration(), generation)
			}
			if !due.IsZero() && !due.After(now) {
				t.Fatalf("due at %s, which is not after %s: it would be looked at without end", due, now)
			}
			if next.GetPhase() == "Ready" {
				for _, name := range status.RequiredOf(required, in.Reports) {
					if last[name].GetObservedGeneration() != generation || !status.IsReady(last[name]) {
						t.Fatalf("Ready without %s", name)
					}
				}
			}
			if fresh && next.GetPhase() != "Pending" {
				t.Fatalf("a new generation is %s at once", next.GetPhase())
			}
			for _, condition := range next.GetConditions() {
				before := status.Find(current.GetConditions(), condition.GetType())
				kept := proto.Equal(before.GetLastTransitionTime(), condition.GetLastTransitionTime())
				if before != nil && kept != (before.GetStatus() == condition.GetStatus()) && !before.GetLastTransitionTime().AsTime().Equal(now) {
					t.Fatalf("%s went from %s to %s", condition.GetType(), before, condition)
				}
			}
			in.Previous, in.NewGeneration = next, false
			if again, dueAgain := status.Aggregate(in); !proto.Equal(again, next) || !dueAgain.Equal(due) {
				t.Fatalf("looking again changes the status:\n%s", cmp.Diff(next, again, protocmp.Transform()))
			}
			current = next
		}
	})
}
