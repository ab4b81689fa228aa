package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
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

// TestAuditOfReports: a controller that reports the same all the time fills no audit log; what it makes of a pool is there.
func TestAuditOfReports(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("machines", "gcp")
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	report := func(condition, message string) {
		t.Helper()
		report := reportOf("machines", 1, condition)
		report.Conditions[0].Message = message
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.UpdateNodePoolStatus(b.as(controller), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: report}))
	}
	for i := range 100 {
		report("Ready=False", fmt.Sprintf("%d of 2 nodes are ready", i/50))
	}
	report("Ready=True", "All nodes are ready")
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err != nil {
		t.Fatal(err)
	}
	report("Deleted=True", "No nodes are left")
	log := must[*nodepoolsv1.ListAuditResponse](t, "audit")(b.ListAudit(b.as(root), &nodepoolsv1.ListAuditRequest{ObjectId: pool.GetId(), Limit: proto.Int32(100)}))
	var actions []string
	for _, entry := range log.GetEntries() {
		actions = append(actions, entry.GetActor()+" "+entry.GetAction())
	}
	slices.Reverse(actions)
	// None is ready, one is, all are, none is left.
	want := []string{"alice@example.com create", "machines status", "machines status", "machines status", "alice@example.com delete", "machines delete"}
	if !slices.Equal(actions, want) {
		t.Errorf("the audit log has %q, want %q", actions, want)
	}
}

// TestSecretsOfControllers: user data is shown to nobody, controllers included: what a controller gives to machines, it has of its own.
func TestSecretsOfControllers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "aws")
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.create(alice, cluster.GetId(), "workers",
		`{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge", "userData": "hunter2"}}, "nodeCount": 1}`))
	own := auth.Identity{Name: "robot", Role: auth.ControllerRole, Platforms: []string{"aws"}}
	for _, who := range []auth.Identity{own, root} {
		got := must[*nodepoolsv1.NodePool](t, "get")(b.GetNodePool(b.as(who), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()}))
		listed := must[*nodepoolsv1.ListNodePoolsResponse](t, "list")(b.ListNodePools(b.as(who), &nodepoolsv1.ListNodePoolsRequest{}))
		for _, one := range []*nodepoolsv1.NodePool{got, listed.GetNodepools()[0]} {
			if data := one.GetSpec().GetPlatform().GetAws().GetUserData(); data != service.Redacted {
				t.Errorf("%s reads the user data %q", who.Name, data)
			}
		}
		document, _, err := b.RawNodePool(b.as(who), pool.GetId())
		if err != nil || strings.Contains(string(document), "hunter2") {
			t.Errorf("%s reads %s (%v)", who.Name, document, err)
		}
	}
}

// TestDeletionWithoutControllers: what no controller registered for, nor reported about, is gone at once: there is nobody to wait for. One
// report is enough to be waited for.
func TestDeletionWithoutControllers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	for reported, reason := range map[bool]string{false: "NOT_FOUND", true: ""} {
		pool := b.pool(alice, cluster.GetId(), "workers")
		if reported {
			must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "machines", 1, "Ready=False"))
		}
		if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err != nil {
			t.Fatal(err)
		}
		_, err := b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
		refused(t, fmt.Sprintf("get a deleted pool (reported about: %t)", reported), err, reason)
		if got := b.eventTypes(pool.GetId()); reported == slices.Contains(got, "nodepool.deleted") {
			t.Errorf("the events are %v (reported about: %t)", got, reported)
		}
		if reported {
			must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "machines", 1, "Deleted=True"))
		}
	}
}
