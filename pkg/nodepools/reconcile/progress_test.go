package reconcile

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// TestWhatIsTold: of all that the engine says, the last word of each second about what changes.
func TestWhatIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, err := clusterManifests(civoCluster(t))
		if err != nil {
			t.Fatal(err)
		}
		p, stack := NewProgress(), clusterStack(t)
		other := stack
		other.Stack = "another"
		var told []string
		stop := p.follow(all, func(message string) { told = append(told, message) })
		stopOther := p.follow(nil, func(string) { t.Error("who follows nothing was told something") })
		say := func(events ...provision.Event) {
			for _, event := range events {
				event.Resource = "cluster"
				if event.Stack == (stackidentity.Identity{}) {
					event.Stack = stack
				}
				p.Take(event)
			}
			time.Sleep(2 * pause)
		}
		status := func(message string) provision.Event {
			return provision.Event{Kind: provision.EventResourceStatus, Message: message}
		}
		say(provision.Event{Kind: provision.EventResourceStarted, Op: provision.OpCreate})
		p.Take(provision.Event{Kind: provision.EventResourceStatus, Stack: stack, Resource: "cluster", Message: "first"})
		synctest.Wait()
		say(status("second"), status("third"), status("last"))
		for _, op := range []provision.Op{provision.OpSame, provision.OpRead, provision.OpRefresh} {
			say(provision.Event{Kind: provision.EventResourceStarted, Op: op}, provision.Event{Kind: provision.EventResourceDone, Op: op})
		}
		planned := status("planned")
		planned.Planning = true
		foreign := status("of another stack")
		foreign.Stack = other
		say(planned, foreign, provision.Event{Kind: provision.EventStackDone})
		say(provision.Event{Kind: provision.EventResourceDone, Op: provision.OpCreate})
		say(provision.Event{Kind: provision.EventResourceFailed, Op: provision.OpUpdate})
		stop()
		stopOther()
		say(status("late"))
		want := []string{"cluster: create has begun", "cluster: first", "cluster: last", "cluster: create is done", "cluster: update failed"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("what was told (-want +got):\n%s", diff)
		}
		if len(p.followers) != 0 {
			t.Errorf("after the end %d follow", len(p.followers))
		}
	})
}

// TestBeat: a machine counts as alive as long as one of its processes says so, and not for long after.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		lock := provision.Lock{Holder: provision.Elsewhere, Host: host} // as another machine sees it
		ctx, cancel := context.WithCancel(t.Context())
		beating := make(chan error)
		r := w.reconciler("one")
		go func() { beating <- r.Beat(ctx) }()
		for range 100 {
			time.Sleep(time.Minute)
			if _, expires, err := w.Lease(ctx, store.Key{Kind: store.Worker, ID: host}); err != nil || time.Until(expires) < 10*time.Second {
				t.Fatalf("a machine that lives has a lease until %s, %v", expires, err)
			}
			if dead, _, err := r.dead(ctx, lock); dead || err != nil {
				t.Fatalf("it counts as dead: %t, %v", dead, err)
			}
		}
		cancel()
		if err := <-beating; err != nil {
			t.Error(err)
		}
		time.Sleep(61 * time.Second)
		if dead, _, err := r.dead(t.Context(), lock); !dead || err != nil {
			t.Errorf("a minute later it counts as dead: %t, %v", dead, err)
		}
	})
}

// TestStacks: the service's stacks are told from those of people, and those of an object from those of every other one.
func TestStacks(t *testing.T) {
	all, err := clusterManifests(civoCluster(t))
	if err != nil {
		t.Fatal(err)
	}
	pools, err := poolManifests(civoCluster(t), civoPool(t), "cloud-cluster")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range append(all, pools...) {
		identity, err := stackidentity.For(m.Kind, metadataOf(m))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, identity.Project+"/"+identity.Stack)
	}
	want := []string{ // with all of the ids: a part and a hash could be those of another object
		"civovpc/nodepools._.550e8400e29b41d4a716446655440000", "civokubernetescluster/nodepools._.550e8400e29b41d4a716446655440000",
		"civokubernetesnodepool/nodepools._.123e4567e89b12d3a456426614174000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the stacks (-want +got):\n%s", diff)
	}
}
