package service_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// The tests of this file are the faults that an earlier service of this kind had, in the order in which they were found in it. Those that
// are missing here are HTTP's: they are tested where HTTP is.

func TestFault01LostUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	var group sync.WaitGroup
	generations := make([]int32, 50)
	for i := range generations {
		group.Go(func() {
			updated, err := b.put(alice, pool.GetId(), fmt.Sprintf(`{"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4"}}, "nodeCount": %d}`, 100+i))
			if err != nil {
				t.Error(err)
				return
			}
			generations[i] = updated.GetGeneration()
		})
	}
	group.Wait()
	slices.Sort(generations)
	for i, generation := range generations {
		if generation != int32(i)+2 {
			t.Fatalf("50 updates made the generations %v: each must have one of its own", generations)
		}
	}
}

func TestFault02NoValidation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp").GetId()
	tests := []struct {
		name, pool, spec, field, details string
	}{
		{"no name", "", gcpSpec, "name", "nodepool name is required"},
		{"odd name", "UPPER / space", gcpSpec, "name", ""},
		{"long name", strings.Repeat("a", 300), gcpSpec, "name", ""},
		{"negative count", "a", `{"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4"}}, "nodeCount": -7}`, "spec.nodeCount", ""},
		{"unknown platform", "a", `{"platform": {"type": "banana"}, "nodeCount": 1}`, "spec.platform.type", ""},
		{"no machine type", "a", `{"platform": {"type": "gcp", "gcp": {}}, "nodeCount": 1}`, "spec.platform.gcp.machineType", "nodepool spec.platform.gcp.machineType is required"},
		{"bounds", "a", `{"platform": {"type": "gcp", "gcp": {"machineType": "a"}}, "nodeCount": 9, "autoscaling": {"enabled": true, "minNodes": 1, "maxNodes": 3}}`, "spec", ""},
		{"utilization", "a", `{"platform": {"type": "gcp", "gcp": {"machineType": "a"}}, "nodeCount": 1, "autoscaling": {"targetCPUUtilization": 101}}`, "spec.autoscaling.targetCPUUtilization", ""},
		{"label", "a", `{"platform": {"type": "gcp", "gcp": {"machineType": "a"}}, "nodeCount": 1, "labels": {"a b": "c"}}`, `spec.labels["a b"]`, ""},
		{"taint", "a", `{"platform": {"type": "gcp", "gcp": {"machineType": "a"}}, "nodeCount": 1, "taints": [{"key": "a", "effect": "Sometimes"}]}`, "spec.taints[0].effect", ""},
		{"other platform than the cluster's", "a", `{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge"}}, "nodeCount": 1}`, "spec.platform.type", ""},
	}
	for _, test := range tests {
		_, err := b.create(alice, cluster, test.pool, test.spec)
		refused(t, test.name, err, "VALIDATION_ERROR")
		if !slices.Contains(fields(err), test.field) {
			t.Errorf("%s: the fields are %v, want %s", test.name, fields(err), test.field)
		}
		if test.details != "" && details(err) != test.details {
			t.Errorf("%s: the details are %q, want %q", test.name, details(err), test.details)
		}
		if status.Convert(err).Message() != "Validation failed" {
			t.Errorf("%s: the message is %q", test.name, status.Convert(err).Message())
		}
	}
}

func TestFault03InternalErrorsShown(t *testing.T) {
	t.Parallel()
	var recorder *recorder
	b := newBench(t, recorded(&recorder))
	recorder.failure = errors.New(`pq: relation "nodepools" does not exist, user=secret`)
	_, written := b.CreateCluster(b.as(alice), &nodepoolsv1.CreateClusterRequest{Cluster: &nodepoolsv1.Cluster{Name: "a", Spec: parse(t, &nodepoolsv1.ClusterSpec{}, `{"platform": {"type": "gcp"}}`)}})
	_, read := b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: "123e4567-e89b-12d3-a456-426614174000"})
	_, listed := b.ListClusters(b.as(alice), &nodepoolsv1.ListClustersRequest{})
	for _, err := range []error{written, read, listed} {
		refused(t, "a database that fails", err, "UNAVAILABLE")
		if text := fmt.Sprintf("%+v %s", err, details(err)); strings.Contains(text, "relation") || strings.Contains(text, "secret") {
			t.Errorf("the client reads %q", text)
		}
	}
}

func TestFault04GenerationOfSameSpec(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	same := must[*nodepoolsv1.NodePool](t, "the same spec")(b.put(alice, pool.GetId(), gcpSpec))
	if !proto.Equal(same, pool) {
		t.Errorf("the same spec again makes %v of %v", same, pool)
	}
	if got := b.eventTypes(pool.GetId()); len(got) != 1 {
		t.Errorf("the same spec again is told: %v", got)
	}
	written := `{"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4", "diskSize": 100, "zones": ["us-central1-b", "us-central1-a"]}}, "nodeCount": 3, "autoscaling": {}, "upgradeSettings": {}}`
	if got := must[*nodepoolsv1.NodePool](t, "another order")(b.put(alice, pool.GetId(), written)); got.GetGeneration() != 1 {
		t.Errorf("the same in another order has the generation %d", got.GetGeneration())
	}
	if got := must[*nodepoolsv1.NodePool](t, "another count")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 4}}`)); got.GetGeneration() != 2 {
		t.Errorf("another count has the generation %d", got.GetGeneration())
	}
}

func TestFault05ReadyOfOldGeneration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "gcp-nodepool-controller", 1, "Ready=True"))
	b.phase(pool.GetId(), "Ready")
	changed := must[*nodepoolsv1.NodePool](t, "change")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 4}}`))
	if current := changed.GetStatus(); current.GetPhase() != "Pending" || current.GetObservedGeneration() != 1 || current.GetHealth() != "healthy" {
		t.Errorf("a changed pool is %v", current)
	}
	b.phase(pool.GetId(), "Pending")
}

func TestFault06ForgedStatus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	for _, who := range []auth.Identity{alice, root, watcher} {
		_, err := b.UpdateNodePoolStatus(b.as(who), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: reportOf("gcp-nodepool-controller", 1, "Ready=True")})
		refused(t, "a report of a "+string(who.Role), err, "FORBIDDEN")
	}
	_, err := b.report(pool.GetId(), "a", 999999, "Ready=True")
	refused(t, "a generation of the future", err, "CONFLICT")
	_, err = b.report(pool.GetId(), "a", 1, "Ready=Maybe")
	refused(t, "a status that is none", err, "VALIDATION_ERROR")
	if got := fields(err); !slices.Contains(got, "conditions[0].status") {
		t.Errorf("the fields are %v", got)
	}
	if _, err := b.patch(pool.GetId(), `{"spec": {"nodeCount": 4}}`); err != nil {
		t.Fatal(err)
	}
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "a", 2, "Ready=True"))
	before := b.get(pool.GetId())
	_, err = b.report(pool.GetId(), "a", 1, "Ready=False")
	refused(t, "a report that is too late", err, "CONFLICT")
	if after := b.get(pool.GetId()); !proto.Equal(before, after) {
		t.Errorf("a report that was refused made %v of %v", after, before)
	}
	narrow := auth.Identity{Name: "robot", Role: auth.ControllerRole, Platforms: []string{"aws"}, Controllers: []string{"b"}}
	_, err = b.UpdateNodePoolStatus(b.as(narrow), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: reportOf("a", 2, "Ready=True")})
	refused(t, "a report under another's name", err, "FORBIDDEN")
	_, err = b.UpdateNodePoolStatus(b.as(narrow), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: reportOf("b", 2, "Ready=True")})
	refused(t, "a report about another platform", err, "NOT_FOUND")
}

func TestFault07NeverFailed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp").GetId()
	slow, broken := b.pool(alice, cluster, "slow"), b.pool(alice, cluster, "broken")
	for range 6 {
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(slow.GetId(), "a", 1, "Ready=False"))
		b.phase(slow.GetId(), "Progressing")
		b.pass(5 * time.Minute)
	}
	told := len(b.eventTypes(slow.GetId()))
	// Nobody reports, and nobody reads: time alone does it.
	if err := b.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.phase(slow.GetId(), "Failed")
	if got := b.eventTypes(slow.GetId()); len(got) != told+1 || got[told] != "nodepool.status" {
		t.Errorf("nobody is told: %v", got)
	}
	fatal := reportOf("a", 1, "Ready=False")
	fatal.LastError = &nodepoolsv1.ControllerError{ErrorType: "Configuration", Message: "no such machine type"}
	if err := b.Report(t.Context(), store.Key{Kind: store.NodePool, ID: broken.GetId()}, fatal); err != nil {
		t.Fatal(err)
	}
	b.phase(broken.GetId(), "Failed")
	if message := b.get(broken.GetId()).GetStatus().GetMessage(); !strings.Contains(message, "no such machine type") {
		t.Errorf("the message is %q", message)
	}
}

func TestFault08ReadyTooEarly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("network", "gcp", "aws")
	b.register("machines", "gcp")
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "network", 1, "Ready=True"))
	b.phase(pool.GetId(), "Progressing")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "machines", 1, "Ready=True"))
	b.phase(pool.GetId(), "Ready")
	b.register("monitoring", "gcp")
	b.phase(pool.GetId(), "Progressing")
	if _, err := b.DeleteController(b.as(root), &nodepoolsv1.DeleteControllerRequest{Name: "monitoring"}); err != nil {
		t.Fatal(err)
	}
	b.phase(pool.GetId(), "Ready")
}

func TestFault09ReadsThatWrite(t *testing.T) {
	t.Parallel()
	var recorder *recorder
	b := newBench(t, recorded(&recorder))
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "a", 1, "Ready=True"))
	before, writes := b.get(pool.GetId()), recorder.writes
	b.pass(time.Hour)
	must[*nodepoolsv1.ListNodePoolsResponse](t, "list")(b.ListNodePools(b.as(alice), &nodepoolsv1.ListNodePoolsRequest{}))
	must[*nodepoolsv1.NodePoolStatus](t, "status")(b.GetNodePoolStatus(b.as(alice), &nodepoolsv1.GetNodePoolStatusRequest{Id: pool.GetId()}))
	if after := b.get(pool.GetId()); !proto.Equal(before, after) || recorder.writes != writes {
		t.Errorf("reading wrote %d times, and made %v of %v", recorder.writes-writes, after, before)
	}
	reported := must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "a", 1, "Ready=True"))
	if after := b.get(pool.GetId()); !proto.Equal(before, after) {
		t.Errorf("the same report again made %v of %v", after, before)
	}
	kept := reported.GetControllerStatus()[0]
	if at := kept.GetConditions()[0].GetLastTransitionTime().AsTime(); !at.Before(kept.GetUpdatedAt().AsTime()) {
		t.Errorf("an unchanged condition changed at %s", at)
	}
}

func TestFault10DeletionThatForgetsMachines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("machines", "gcp")
	cluster := b.cluster(alice, "production", "gcp")
	one, two := b.pool(alice, cluster.GetId(), "one"), b.pool(alice, cluster.GetId(), "two")
	_, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId()})
	refused(t, "delete a cluster that has pools", err, "CONFLICT")
	if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Cascade: true}); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []*nodepoolsv1.NodePool{one, two} {
		b.phase(pool.GetId(), "Deleting")
		if got := b.get(pool.GetId()).GetFinalizers(); !slices.Equal(got, []string{"machines"}) {
			t.Fatalf("the finalizers are %v", got)
		}
	}
	listed := must[*nodepoolsv1.ListNodePoolsResponse](t, "list what is to be done")(b.ListNodePools(b.as(controller), &nodepoolsv1.ListNodePoolsRequest{NeedsReconcile: true}))
	if listed.GetTotal() != 2 {
		t.Fatalf("the controller finds %d pools to delete", listed.GetTotal())
	}
	b.pass(31 * time.Minute)
	if err := b.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reason := b.get(one.GetId()).GetStatus().GetReason(); reason != "DeletionStalled" {
		t.Errorf("after half an hour the reason is %s", reason)
	}
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(one.GetId(), "machines", 1, "Deleted=True"))
	current := must[*nodepoolsv1.Cluster](t, "get cluster")(b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: cluster.GetId()}))
	if current.GetStatus().GetPhase() != "Deleting" {
		t.Fatalf("with a pool left, the cluster is %v", current.GetStatus())
	}
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(two.GetId(), "machines", 1, "Deleted=True"))
	_, err = b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: cluster.GetId()})
	refused(t, "get a cluster whose last pool is gone", err, "NOT_FOUND")
}

func TestFault11NameTakenForEver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "production-workers")
	_, err := b.create(alice, cluster.GetId(), "production-workers", gcpSpec)
	refused(t, "a name that is taken", err, "CONFLICT")
	if got, want := status.Convert(err).Message(), "NodePool with name 'production-workers' already exists in cluster"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err != nil {
		t.Fatal(err)
	}
	b.pool(alice, cluster.GetId(), "production-workers")
	b.pool(alice, b.cluster(alice, "other", "gcp").GetId(), "production-workers")
}

func TestFault12EventsWithoutWrites(t *testing.T) {
	t.Parallel()
	var recorder *recorder
	b := newBench(t, recorded(&recorder), func(options *service.Options) { options.Provisioned = map[string]string{"gcp": "gcp-controller"} })
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	recorder.take()
	recorder.failEvent = true
	if _, err := b.patch(pool.GetId(), `{"spec": {"nodeCount": 9}}`); err == nil {
		t.Fatal("the write was done without its event")
	}
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err == nil {
		t.Fatal("the deletion was done without its event")
	}
	recorder.failEvent = false
	if after := b.get(pool.GetId()); !proto.Equal(after, pool) || len(recorder.take()) != 0 || len(b.eventTypes(pool.GetId())) != 1 {
		t.Errorf("a write that failed left %v", after)
	}
	if _, err := b.patch(pool.GetId(), `{"spec": {"nodeCount": 9}}`); err != nil {
		t.Fatal(err)
	}
	if got := recorder.take(); len(got) != 1 || got[0].ID != pool.GetId() || len(b.eventTypes(pool.GetId())) != 2 {
		t.Errorf("a write has the jobs %v and the events %v", got, b.eventTypes(pool.GetId()))
	}
}

func TestFault13Starvation(t *testing.T) {
	t.Parallel()
	var recorder *recorder
	b := newBench(t, recorded(&recorder), func(options *service.Options) { options.Provisioned = map[string]string{"gcp": "gcp-controller"} })
	cluster := b.cluster(alice, "production", "gcp")
	for i := range 120 {
		b.pool(alice, cluster.GetId(), fmt.Sprintf("pool-%d", i))
	}
	recorder.take()
	if err := b.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, key := range recorder.take() {
		found[key.ID]++
	}
	if len(found) != 121 {
		t.Errorf("a sweep found %d of 121 objects", len(found))
	}
	for id, times := range found {
		if times != 1 {
			t.Errorf("%s was enqueued %d times", id, times)
		}
	}
	if err := b.Tick(t.Context()); err != nil || len(recorder.take()) != 0 {
		t.Errorf("the next sweep does not wait for its time (%v)", err)
	}
}

func TestFault14ControllersThatSeeNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	narrow := auth.Identity{Name: "robot", Role: auth.ControllerRole, Platforms: []string{"gcp"}}
	other := auth.Identity{Name: "robot", Role: auth.ControllerRole, Platforms: []string{"aws"}}
	for want, who := range map[int32]auth.Identity{1: narrow, 0: other} {
		for _, platform := range []string{"", "gcp"} {
			list := must[*nodepoolsv1.ListNodePoolsResponse](t, "list")(b.ListNodePools(b.as(who), &nodepoolsv1.ListNodePoolsRequest{Platform: platform}))
			if list.GetTotal() != want || len(list.GetNodepools()) != int(want) {
				t.Errorf("a controller of %v lists %d pools of platform %q, want %d", who.Platforms, list.GetTotal(), platform, want)
			}
		}
	}
	must[*nodepoolsv1.NodePoolStatus](t, "status")(b.GetNodePoolStatus(b.as(narrow), &nodepoolsv1.GetNodePoolStatusRequest{Id: pool.GetId()}))
	_, err := b.GetNodePoolStatus(b.as(other), &nodepoolsv1.GetNodePoolStatusRequest{Id: pool.GetId()})
	refused(t, "status for a controller of another platform", err, "NOT_FOUND")
	_, err = b.put(narrow, pool.GetId(), gcpSpec)
	refused(t, "a spec from a controller", err, "FORBIDDEN")
}

func TestFault15TotalsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	_, err := b.ListNodePools(b.as(bob), &nodepoolsv1.ListNodePoolsRequest{ClusterId: cluster.GetId()})
	refused(t, "list the pools of another's cluster", err, "NOT_FOUND")
	list := must[*nodepoolsv1.ListNodePoolsResponse](t, "list")(b.ListNodePools(b.as(bob), &nodepoolsv1.ListNodePoolsRequest{}))
	if list.GetTotal() != 0 || len(list.GetNodepools()) != 0 {
		t.Errorf("bob lists %v", list)
	}
	documents, _, err := b.RawNodePools(b.as(bob), &nodepoolsv1.ListNodePoolsRequest{})
	if err != nil || documents == nil {
		t.Errorf("an empty list is nil (%v)", err)
	}
	for what, try := range map[string]func() error{
		"get": func() error {
			_, err := b.GetNodePool(b.as(bob), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
			return err
		},
		"raw": func() error { _, _, err := b.RawNodePool(b.as(bob), pool.GetId()); return err },
		"status": func() error {
			_, err := b.GetNodePoolStatus(b.as(bob), &nodepoolsv1.GetNodePoolStatusRequest{Id: pool.GetId()})
			return err
		},
		"update": func() error { _, err := b.put(bob, pool.GetId(), gcpSpec); return err },
		"delete": func() error {
			_, err := b.DeleteNodePool(b.as(bob), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()})
			return err
		},
		"create": func() error { _, err := b.create(bob, cluster.GetId(), "mine", gcpSpec); return err },
		"cluster": func() error {
			_, err := b.GetCluster(b.as(bob), &nodepoolsv1.GetClusterRequest{Id: cluster.GetId()})
			return err
		},
		"uncluster": func() error {
			_, err := b.DeleteCluster(b.as(bob), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Cascade: true})
			return err
		},
		"by version": func() error {
			_, err := b.DeleteNodePool(b.as(bob, service.Request{IfMatch: `"1"`}), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()})
			return err
		},
	} {
		refused(t, what+" what is another's", try(), "NOT_FOUND")
	}
	events := must[*nodepoolsv1.ListEventsResponse](t, "list events")(b.ListEvents(b.as(bob), &nodepoolsv1.ListEventsRequest{ObjectId: pool.GetId()}))
	if len(events.GetEvents()) != 0 {
		t.Errorf("bob reads %v", events)
	}
}

func TestFault17SecretsShown(t *testing.T) {
	t.Parallel()
	const secret = "#!/bin/bash\nexport TOKEN=hunter2"
	var recorder *recorder
	b := newBench(t, recorded(&recorder))
	cluster := b.cluster(alice, "production", "aws")
	request := &nodepoolsv1.CreateNodePoolRequest{Nodepool: &nodepoolsv1.NodePool{Name: "workers", ClusterId: cluster.GetId(), Spec: spec(t, `{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge"}}, "nodeCount": 1}`)}}
	request.Nodepool.Spec.Platform.Aws.UserData = proto.String(secret)
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.CreateNodePool(b.as(alice), request))
	request.Nodepool.Name = "keyed"
	must[*nodepoolsv1.NodePool](t, "create with a key")(b.CreateNodePool(b.as(alice, service.Request{IdempotencyKey: "1"}), request))
	if got := pool.GetSpec().GetPlatform().GetAws().GetUserData(); got != "(redacted)" {
		t.Errorf("the answer shows %q", got)
	}
	key := store.Key{Kind: store.NodePool, ID: pool.GetId()}
	record := must[store.Record](t, "read the record")(b.store.Get(t.Context(), key))
	events := must[[]store.Event](t, "read events")(b.store.Events(t.Context(), store.EventQuery{Limit: 100}))
	audit := must[[]store.AuditEntry](t, "read the audit log")(b.store.Audit(t.Context(), store.AuditQuery{Limit: 100}))
	var saved store.Idempotent
	if err := b.store.Write(t.Context(), func(tx store.Tx) (err error) { saved, err = tx.Idempotent(alice.Name, "1"); return err }); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%s %s %+v %+v %s", record.Message, record.Document, events, audit, saved.Answer); strings.Contains(text, "hunter2") {
		t.Error("the database holds the secret in clear")
	}
	sealed := must[*nodepoolsv1.NodePool](t, "decode")(decoded(record))
	// The same again, and "(redacted)", are no change; what is sealed stays as it was.
	for _, again := range []string{secret, "(redacted)"} {
		same := spec(t, `{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge"}}, "nodeCount": 1}`)
		same.Platform.Aws.UserData = proto.String(again)
		got := must[*nodepoolsv1.NodePool](t, "update")(b.UpdateNodePool(b.as(alice), &nodepoolsv1.UpdateNodePoolRequest{Id: pool.GetId(), Nodepool: &nodepoolsv1.NodePool{Spec: same}}))
		if got.GetGeneration() != 1 {
			t.Errorf("user data %q again has the generation %d", again, got.GetGeneration())
		}
	}
	patched := must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 2}}`))
	record = must[store.Record](t, "read the record")(b.store.Get(t.Context(), key))
	if kept := must[*nodepoolsv1.NodePool](t, "decode")(decoded(record)); kept.GetSpec().GetPlatform().GetAws().GetUserData() != sealed.GetSpec().GetPlatform().GetAws().GetUserData() || patched.GetGeneration() != 2 {
		t.Error("a patch of something else changed the user data")
	}
	if got := must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"spec": {"platform": {"aws": {"userData": "other"}}}}`)); got.GetGeneration() != 3 {
		t.Errorf("other user data has the generation %d", got.GetGeneration())
	}
	request.Nodepool.Name, request.Nodepool.Spec.Platform.Aws.UserData = "redacted", proto.String("(redacted)")
	_, err := b.CreateNodePool(b.as(alice), request)
	refused(t, "redacted user data in a creation", err, "VALIDATION_ERROR")

	keyless := newBench(t, func(options *service.Options) { options.Key = nil })
	request.Nodepool.ClusterId, request.Nodepool.Spec.Platform.Aws.UserData = keyless.cluster(alice, "production", "aws").GetId(), proto.String(secret)
	_, err = keyless.CreateNodePool(keyless.as(alice), request)
	refused(t, "user data without a key", err, "VALIDATION_ERROR")
	if got := fields(err); !slices.Equal(got, []string{"spec.platform.aws.userData"}) || !strings.Contains(details(err), "no key") {
		t.Errorf("user data without a key: %v, %s", got, details(err))
	}
}

func decoded(record store.Record) (*nodepoolsv1.NodePool, error) {
	pool := &nodepoolsv1.NodePool{}
	return pool, proto.Unmarshal(record.Message, pool)
}

func TestFault18MassAssignment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	const forged = `{"generation": 7, "resource_version": "99", "created_by": "root@example.com", "created_at": "2001-01-01T00:00:00Z",
		"deletion_requested_at": "2001-01-01T00:00:00Z", "finalizers": ["x"], "status": {"phase": "Ready", "health": "healthy", "conditions": [{"type": "", "status": "Maybe"}]}}`
	given := parse(t, &nodepoolsv1.NodePool{}, forged)
	given.Name, given.ClusterId, given.Spec = "workers", cluster.GetId(), spec(t, gcpSpec)
	check := func(what string, pool *nodepoolsv1.NodePool) {
		t.Helper()
		if pool.GetGeneration() != 1 || pool.GetResourceVersion() == "99" || pool.GetCreatedBy() != alice.Name || pool.GetCreatedAt().AsTime().Year() == 2001 ||
			pool.GetDeletionRequestedAt() != nil || len(pool.GetFinalizers()) != 0 || pool.GetStatus().GetPhase() != "Pending" {
			t.Errorf("%s: %v", what, pool)
		}
	}
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.CreateNodePool(b.as(alice), &nodepoolsv1.CreateNodePoolRequest{Nodepool: given}))
	check("answer of the creation", pool)
	check("created", b.get(pool.GetId()))
	given.ResourceVersion, given.Id = "", ""
	check("answer of the update", must[*nodepoolsv1.NodePool](t, "update")(b.UpdateNodePool(b.as(alice), &nodepoolsv1.UpdateNodePoolRequest{Id: pool.GetId(), Nodepool: given})))
	check("answer of the patch", must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"status": {"phase": "Ready"}, "generation": 9, "created_by": "x", "finalizers": null}`)))
	check("in the end", b.get(pool.GetId()))
}

func TestFault19TwoStatusSystems(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	must[*nodepoolsv1.Controller](t, "register")(b.RegisterController(b.as(controller), &nodepoolsv1.RegisterControllerRequest{
		Name: "machines", Controller: &nodepoolsv1.Controller{Platforms: []string{"gcp"}, Clusters: true},
	}))
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	for _, step := range []struct{ condition, phase string }{{"Ready=False", "Progressing"}, {"Ready=True", "Ready"}, {"Available=False", "Progressing"}, {"Available=True", "Ready"}} {
		forPool := must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "machines", 1, step.condition))
		forCluster := must[*nodepoolsv1.ClusterStatus](t, "report")(b.UpdateClusterStatus(b.as(controller), &nodepoolsv1.UpdateClusterStatusRequest{Id: cluster.GetId(), Report: reportOf("machines", 1, step.condition)}))
		if forPool.GetStatus().GetPhase() != step.phase || forCluster.GetStatus().GetPhase() != step.phase || forPool.GetStatus().GetHealth() != forCluster.GetStatus().GetHealth() {
			t.Errorf("%s makes the pool %s and the cluster %s, want %s", step.condition, forPool.GetStatus().GetPhase(), forCluster.GetStatus().GetPhase(), step.phase)
		}
	}
}

func TestFault20LastOfABurst(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(options *service.Options) { options.Provisioned = map[string]string{"gcp": "gcp-controller"} })
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	for i := range 30 {
		if _, err := b.patch(pool.GetId(), fmt.Sprintf(`{"spec": {"nodeCount": %d}}`, 100+i)); err != nil {
			t.Fatal(err)
		}
	}
	if backlog, _, err := b.store.Backlog(t.Context()); err != nil || backlog > 2 {
		t.Errorf("a burst of 30 changes to a pool, and its cluster, have %d jobs (%v), want one each", backlog, err)
	}
	if got := b.get(pool.GetId()); got.GetSpec().GetNodeCount() != 129 || got.GetGeneration() != 31 {
		t.Errorf("the burst ends with %v", got)
	}
}

func TestFault22QueriesForEachRow(t *testing.T) {
	t.Parallel()
	var recorder *recorder
	b := newBench(t, recorded(&recorder))
	cluster := b.cluster(alice, "production", "gcp")
	for i := range 20 {
		b.pool(alice, cluster.GetId(), fmt.Sprintf("pool-%d", i))
	}
	recorder.reads = 0
	must[*nodepoolsv1.ListNodePoolsResponse](t, "list")(b.ListNodePools(b.as(alice), &nodepoolsv1.ListNodePoolsRequest{}))
	if recorder.reads != 1 {
		t.Errorf("a list of 20 pools is %d reads", recorder.reads)
	}
}

func TestFault24DeletionOfAReadyCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	must[*nodepoolsv1.ClusterStatus](t, "report")(b.UpdateClusterStatus(b.as(controller), &nodepoolsv1.UpdateClusterStatusRequest{Id: cluster.GetId(), Report: reportOf("machines", 1, "Ready=True")}))
	if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId()}); err != nil {
		t.Fatal(err)
	}
	deleting := must[*nodepoolsv1.Cluster](t, "get")(b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: cluster.GetId()}))
	if deleting.GetStatus().GetPhase() != "Deleting" || !slices.Equal(deleting.GetFinalizers(), []string{"machines"}) {
		t.Errorf("the cluster is %v", deleting)
	}
}
