package service_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
)

var errEnough = errors.New("enough")

// watch reads count events from a revision on.
func (b *bench) watch(who auth.Identity, request *nodepoolsv1.WatchEventsRequest, count int) []*events.Entry {
	b.t.Helper()
	var result []*events.Entry
	err := b.Watch(b.as(who), request, func(entry *events.Entry) error {
		result = append(result, entry)
		if len(result) == count {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		b.t.Fatalf("watch: %v after %d events", err, len(result))
	}
	return result
}

func TestWatch(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, address string) {
		b := newBenchAt(t, address)
		b.cluster(bob, "other", "gcp")
		done := make(chan []*events.Entry)
		begun := make(chan struct{})
		go func() {
			close(begun)
			done <- b.watch(alice, &nodepoolsv1.WatchEventsRequest{Since: "0"}, 6)
		}()
		<-begun
		cluster := b.cluster(alice, "production", "gcp")
		pool := b.pool(alice, cluster.GetId(), "workers")
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "a", 1, "Ready=True"))
		b.cluster(bob, "another", "gcp")
		must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 9}}`))
		if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Cascade: true}); err != nil {
			t.Fatal(err)
		}
		found := <-done
		want := []string{"cluster.created", "nodepool.created", "nodepool.status", "nodepool.updated", "cluster.deleting", "nodepool.deleting"}
		for i, entry := range found {
			if entry.Type != want[i] || entry.Owner != alice.Name {
				t.Errorf("event %d is %s of %s, want %s of alice", i, entry.Type, entry.Owner, want[i])
			}
			if last := i != 4; entry.Last != last {
				t.Errorf("event %d (%s) is the last of its revision: %t", i, entry.Type, entry.Last)
			}
			text, err := entry.JSON()
			if err != nil {
				t.Fatal(err)
			}
			fromJSON := &nodepoolsv1.Event{}
			if err := protojson.Unmarshal(text, fromJSON); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			message := must[*nodepoolsv1.Event](t, "message")(entry.Message())
			if !proto.Equal(message, fromJSON) {
				t.Errorf("the event is %v, and its JSON %s", message, text)
			}
		}
		updated := must[*nodepoolsv1.Event](t, "message")(found[3].Message())
		if updated.GetNodepool().GetGeneration() != 2 || updated.GetNodepool().GetResourceVersion() != updated.GetRevision() || updated.GetActor() != alice.Name {
			t.Errorf("the event is %v", updated)
		}
		// Going on after a revision misses nothing and repeats nothing.
		for i := range found[:4] {
			again := b.watch(alice, &nodepoolsv1.WatchEventsRequest{Since: strconv.FormatInt(found[i].Revision, 10)}, 5-i)
			for j, entry := range again {
				if entry.Revision != found[i+1+j].Revision || entry.Type != found[i+1+j].Type {
					t.Errorf("after event %d, event %d is %s", i, j, entry.Type)
				}
			}
		}
		only := b.watch(root, &nodepoolsv1.WatchEventsRequest{Since: "0", ObjectId: strings.ToUpper(pool.GetId())}, 4)
		if only[3].Type != "nodepool.deleting" {
			t.Errorf("of the pool: %v", only)
		}
		if last := b.watch(root, &nodepoolsv1.WatchEventsRequest{Since: "0", ObjectId: cluster.GetId()}, 2)[1]; last.Type != "cluster.deleting" || !last.Last {
			t.Errorf("what is filtered out of a revision does not end it: %v", last)
		}
		refused(t, "watch from the future", b.Watch(b.as(alice), &nodepoolsv1.WatchEventsRequest{Since: "999999"}, nil), "EXPIRED")
		refused(t, "watch from nowhere", b.Watch(b.as(alice), &nodepoolsv1.WatchEventsRequest{Since: "x"}, nil), "VALIDATION_ERROR")
		refused(t, "watch of no platform", b.Watch(b.as(alice), &nodepoolsv1.WatchEventsRequest{Platform: "banana"}, nil), "VALIDATION_ERROR")
		refused(t, "watch as nobody", b.Watch(t.Context(), &nodepoolsv1.WatchEventsRequest{}, nil), "UNAUTHENTICATED")
		ctx, cancel := context.WithCancel(b.as(auth.Identity{Name: "robot", Role: auth.ControllerRole, Platforms: []string{"aws"}}))
		cancel()
		refused(t, "watch of another platform", b.Watch(ctx, &nodepoolsv1.WatchEventsRequest{Since: "0"}, func(entry *events.Entry) error {
			t.Errorf("a controller of aws is told of %s", entry.Platform)
			return nil
		}), "UNAVAILABLE")
	})
}
