package service_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// TestGuideReport checks the report of the guide, as it is printed there.
func TestGuideReport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 5}}`))
	report := parse(t, &nodepoolsv1.ControllerStatus{}, `{
		"controller_name": "gcp-nodepool-controller",
		"observed_generation": 2,
		"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-10-17T10:30:00Z", "reason": "NodesReady", "message": "All nodes are ready and healthy"}],
		"metadata": {"platform": "gcp", "region": "us-central1", "active_nodes": 5, "desired_nodes": 5, "node_ages": "2h30m,1h45m,1h15m,45m,30m"}
	}`)
	got := must[*nodepoolsv1.NodePoolStatus](t, "report")(b.UpdateNodePoolStatus(b.as(controller), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: report}))
	current := got.GetStatus()
	if current.GetPhase() != "Ready" || current.GetHealth() != "healthy" || current.GetObservedGeneration() != 2 || current.GetMessage() != "All nodes are ready and healthy" {
		t.Errorf("the status is %v", current)
	}
	if nodes := current.GetNodes(); nodes.GetCurrent() != 5 || nodes.GetDesired() != 5 || nodes.GetReady() != 5 {
		t.Errorf("the nodes are %v", nodes)
	}
	kept := got.GetControllerStatus()[0]
	if at := kept.GetConditions()[0].GetLastTransitionTime().AsTime().Format(time.RFC3339); at != "2025-10-17T10:30:00Z" {
		t.Errorf("the last transition was at %s", at)
	}
	read := must[*nodepoolsv1.NodePoolStatus](t, "status")(b.GetNodePoolStatus(b.as(alice), &nodepoolsv1.GetNodePoolStatusRequest{Id: pool.GetId()}))
	if read.String() != got.String() && (read.GetNodepoolId() != pool.GetId() || read.GetControllerStatus()[0].GetMetadata().GetFields()["node_ages"].GetStringValue() == "") {
		t.Errorf("the status read is %v", read)
	}
}

func TestReportLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	deep := structpb.NewBoolValue(true)
	for range 9 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	many := reportOf("a", 1)
	for i := range 33 {
		many.Conditions = append(many.Conditions, &nodepoolsv1.Condition{Type: "C" + strings.Repeat("c", i), Status: "True"})
	}
	tests := []struct {
		name   string
		report *nodepoolsv1.ControllerStatus
	}{
		{"nothing", nil},
		{"no name", reportOf("", 1, "Ready=True")},
		{"odd name", reportOf("Name with spaces", 1, "Ready=True")},
		{"no generation", reportOf("a", 0, "Ready=True")},
		{"negative generation", reportOf("a", -1, "Ready=True")},
		{"a condition twice", reportOf("a", 1, "Ready=True", "Ready=False")},
		{"too many conditions", many},
		{"long message", &nodepoolsv1.ControllerStatus{ControllerName: "a", ObservedGeneration: 1, Conditions: []*nodepoolsv1.Condition{{Type: "Ready", Status: "True", Message: strings.Repeat("a", 4097)}}}},
		{"odd error", &nodepoolsv1.ControllerStatus{ControllerName: "a", ObservedGeneration: 1, LastError: &nodepoolsv1.ControllerError{ErrorType: "Bad"}}},
		{"much metadata", &nodepoolsv1.ControllerStatus{ControllerName: "a", ObservedGeneration: 1, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue(strings.Repeat("a", 17<<10))}}}},
		{"deep metadata", &nodepoolsv1.ControllerStatus{ControllerName: "a", ObservedGeneration: 1, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": deep}}}},
	}
	for _, test := range tests {
		_, err := b.UpdateNodePoolStatus(b.as(controller), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: test.report})
		refused(t, test.name, err, "VALIDATION_ERROR")
	}
	// What a controller writes is shown as it is, and what no database keeps does no harm.
	odd := reportOf("a", 1, "Ready=False")
	odd.Conditions[0].Message, odd.Conditions[0].LastTransitionTime = "zero \x00, <b>&", timestamppb.New(b.now().Add(time.Hour))
	got := must[*nodepoolsv1.NodePoolStatus](t, "odd text")(b.UpdateNodePoolStatus(b.as(controller), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: odd}))
	if condition := got.GetControllerStatus()[0].GetConditions()[0]; condition.GetMessage() != "zero \x00, <b>&" || condition.GetLastTransitionTime().AsTime().After(b.now()) {
		t.Errorf("the condition is %v", condition)
	}
}

// TestDeletedBeforeDeletion checks that a controller that finds nothing of a pool does not delete the pool.
func TestDeletedBeforeDeletion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "a", 1, "Ready=True", "Deleted=True"))
	b.phase(pool.GetId(), "Progressing")
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err != nil {
		t.Fatal(err)
	}
	b.phase(pool.GetId(), "Deleting")
	_, err := b.report(pool.GetId(), "a", 1, "Deleted=False")
	refused(t, "report", err, "")
	b.phase(pool.GetId(), "Deleting")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "a", 1, "Deleted=True"))
	_, err = b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
	refused(t, "get", err, "NOT_FOUND")
}

// TestLastSeen checks that reports are signs of life of a registered controller.
func TestLastSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("machines", "gcp")
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	b.pass(time.Minute)
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "machines", 1, "Ready=True"))
	list := must[*nodepoolsv1.ListControllersResponse](t, "list")(b.ListControllers(b.as(alice), &nodepoolsv1.ListControllersRequest{}))
	if got := list.GetControllers(); len(got) != 1 || !got[0].GetLastSeen().AsTime().Equal(b.now()) {
		t.Errorf("the controllers are %v", got)
	}
}
