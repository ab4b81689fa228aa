package garbagecollection

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	corecloudprovider "sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudprovider"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

const (
	cluster    = "production"
	clusterUID = "7f3c1f0e-0000-4000-8000-000000000001"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// cloud is CloudStack as the controller sees it.
type cloud struct {
	mu        sync.Mutex
	instances []*instance.Instance
	volumes   []*cloudstack.Volume
	listErr   error
	volumeErr error
	deleteErr map[string]error
	deleted   []string
	// lists and volumeLists count those of machines and of disks.
	lists, volumeLists int
	cleanups           int
	cleanupErr         error
}

func (c *cloud) List(context.Context) ([]*instance.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return c.instances, c.listErr
}

func (c *cloud) Delete(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted = append(c.deleted, id)
	return c.deleteErr[id]
}

func (c *cloud) ListVolumesByTag(_ context.Context, scope cloudstack.Scope, key, value string) ([]*cloudstack.Volume, error) {
	c.volumeLists++
	return lo.Filter(c.volumes, func(v *cloudstack.Volume, _ int) bool {
		return cloudstack.TagsOf(v.Tags)[key] == value && (v.Projectid != "") == (scope.ProjectID != "")
	}), c.volumeErr
}

func (c *cloud) DeleteVolume(ctx context.Context, id string) error { return c.Delete(ctx, id) }

func (c *cloud) Cleanup(context.Context) error {
	c.cleanups++
	return c.cleanupErr
}

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []events.Event
}

func (r *recorder) Publish(e ...events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e...)
}

func (r *recorder) calls(reason string) int {
	return lo.CountBy(r.events, func(e events.Event) bool { return e.Reason == reason })
}

type rig struct {
	*testing.T
	*cloud
	clock    *clocktesting.FakePassiveClock
	recorder *recorder
	// cache is what the controller's client has, server what the API server has. Here, both are the API server, so long as no test changes that.
	cache, server client.WithWatch
	options       Options
	c             *Controller
}

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	server := suite.Client(t)
	suite.Create(t, server, objects...)
	r := &rig{
		T: t, cloud: &cloud{deleteErr: map[string]error{}}, clock: clocktesting.NewFakePassiveClock(now), recorder: &recorder{}, cache: server, server: server,
		options: Options{ClusterName: cluster, ClusterUID: clusterUID, Grace: 5 * time.Minute, MaxDeletions: 10},
	}
	r.make()
	return r
}

func (r *rig) make() {
	r.c = NewController(r.clock, r.cache, r.server, r.recorder, r.cloud, r.cloud, r.cloud, r.options)
}

// run runs a cycle, and returns what was deleted in it.
func (r *rig) run() []string {
	r.Helper()
	r.deleted = nil
	if _, err := r.c.Reconcile(context.Background()); err != nil {
		r.Fatal(err)
	}
	slices.Sort(r.deleted)
	return r.deleted
}

func (r *rig) expect(what string, want ...string) {
	r.Helper()
	if got := r.run(); !slices.Equal(got, want) {
		r.Errorf("%s: deleted %v, not %v", what, got, want)
	}
}

func id(n int) string { return fmt.Sprintf("0b5c4b6e-1111-4222-8333-%012d", n) }

// machine is one of this cluster, an hour old, with tags, that no NodeClaim is for.
func machine(n int, change ...func(*instance.Instance)) *instance.Instance {
	i := &instance.Instance{
		ID: id(n), Name: fmt.Sprintf("general-%d-00000000", n), State: cloudstack.StateRunning, Created: now.Add(-time.Hour),
		Tags: map[string]string{csv1.TagManagedBy: cluster, csv1.TagClusterUID: clusterUID, csv1.TagNodeClaim: fmt.Sprintf("general-%d", n), csv1.TagNodeClass: "default"},
	}
	for _, c := range change {
		c(i)
	}
	return i
}

// claim is a NodeClaim. When it is created, it gets another UID.
func claim(n int, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	nodeClaim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("general-%d", n), UID: "of-an-older-one"},
		Spec: karpv1.NodeClaimSpec{
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: "default"},
		},
	}
	for _, c := range change {
		c(nodeClaim)
	}
	return nodeClaim
}

func launched(n int) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Status.ProviderID = cloudprovider.ProviderID("", id(n)) }
}

func node(n int, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("general-%d-00000000", n), Labels: map[string]string{karpv1.NodeRegisteredLabelKey: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: cloudprovider.ProviderID("", id(n))},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

// TestWhatIsGarbage has a NodeClaim of its own machine besides, so that the cluster looks alive.
func TestWhatIsGarbage(t *testing.T) {
	for name, test := range map[string]struct {
		machine *instance.Instance
		objects []client.Object
		// suffix goes after the name that a machine of the NodeClaim, the first object, has; without it, the machine keeps its own.
		suffix  *string
		garbage bool
	}{
		"no NodeClaim":                             {machine: machine(1), garbage: true},
		"no NodeClaim, and stopped":                {machine: machine(1, func(i *instance.Instance) { i.State = cloudstack.StateStopped }), garbage: true},
		"no NodeClaim, and younger than the grace": {machine: machine(1, func(i *instance.Instance) { i.Created = now.Add(-4 * time.Minute) })},
		"no NodeClaim, and made in the future":     {machine: machine(1, func(i *instance.Instance) { i.Created = now.Add(time.Hour) })},
		"no NodeClaim, no tags":                    {machine: machine(1, func(i *instance.Instance) { i.Tags = nil }), garbage: true},
		"on its way out":                           {machine: machine(1, func(i *instance.Instance) { i.Deleting = true })},
		"kept by provider id":                      {machine: machine(1), objects: []client.Object{claim(1, launched(1))}},
		"kept by a provider id of another format": {machine: machine(1), objects: []client.Object{claim(1, func(c *karpv1.NodeClaim) {
			c.Status.ProviderID = "cloudstack:///" + id(1)
		})}},
		"kept by a NodeClaim that is being deleted": {machine: machine(1), objects: []client.Object{claim(1, launched(1), func(c *karpv1.NodeClaim) {
			c.Finalizers, c.DeletionTimestamp = []string{"karpenter.sh/termination"}, &metav1.Time{Time: now}
		})}},
		"in the making, by tag": {machine: machine(1), objects: []client.Object{claim(1)}},
		"in the making, by name": {
			machine: machine(1, func(i *instance.Instance) { i.Tags = nil }), objects: []client.Object{claim(1)}, suffix: lo.ToPtr(""),
		},
		"in the making, by the name of a second attempt": {
			machine: machine(1, func(i *instance.Instance) { i.Tags = nil }), objects: []client.Object{claim(1)}, suffix: lo.ToPtr("-2"),
		},
		"of an older NodeClaim of that name, without tags": {
			machine: machine(1, func(i *instance.Instance) { i.Tags, i.Name = nil, instance.NodeName(claim(1)) }),
			objects: []client.Object{claim(1)}, garbage: true,
		},
		"a second machine of a NodeClaim that has one": {machine: machine(1), objects: []client.Object{claim(1, launched(2))}, garbage: true},
		"a provider id that cannot be read keeps what has its name": {machine: machine(1), objects: []client.Object{claim(1, func(c *karpv1.NodeClaim) {
			c.Status.ProviderID = "kwok://x"
		})}},
		"a NodeClaim of another provider keeps nothing": {machine: machine(1), objects: []client.Object{claim(1, func(c *karpv1.NodeClaim) {
			c.Spec.NodeClassRef.Group = "karpenter.k8s.aws"
		})}, garbage: true},
		"failed, while its NodeClaim goes on":       {machine: machine(1, func(i *instance.Instance) { i.State = cloudstack.StateError }), objects: []client.Object{claim(1)}, garbage: true},
		"failed just now":                           {machine: machine(1, func(i *instance.Instance) { i.State, i.Created = cloudstack.StateError, now.Add(-time.Minute) }), objects: []client.Object{claim(1)}},
		"failed, and of a NodeClaim by provider id": {machine: machine(1, func(i *instance.Instance) { i.State = cloudstack.StateError }), objects: []client.Object{claim(1, launched(1))}},
		"of a cluster of another name":              {machine: machine(1, func(i *instance.Instance) { i.Tags[csv1.TagManagedBy] = "staging" })},
		"of another cluster of that name":           {machine: machine(1, func(i *instance.Instance) { i.Tags[csv1.TagClusterUID] = "another" })},
		"its node is dead":                          {machine: machine(1), objects: []client.Object{node(1, corev1.ConditionUnknown)}, garbage: true},
		"its node lives":                            {machine: machine(1), objects: []client.Object{node(1, corev1.ConditionTrue)}, garbage: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, append(test.objects, claim(99, launched(99)))...)
			if test.suffix != nil {
				test.machine.Name = instance.NodeName(test.objects[0].(*karpv1.NodeClaim)) + *test.suffix
			}
			r.instances = []*instance.Instance{test.machine, machine(99)}
			r.expect("the cycle", lo.Ternary(test.garbage, []string{test.machine.ID}, nil)...)
			if garbage := r.recorder.calls("GarbageCollected"); (garbage == 1) != test.garbage {
				t.Errorf("%d events", garbage)
			}
		})
	}
}

// TestCacheThatStandsStill: NodeClaims that only the API server knows keep their machines.
func TestCacheThatStandsStill(t *testing.T) {
	r := newRig(t)
	r.instances = []*instance.Instance{machine(1), machine(2)}
	suite.Create(t, r.server, claim(1, launched(1)))
	r.cache = interceptor.NewClient(r.cache, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			if _, ok := l.(*karpv1.NodeClaimList); ok {
				return nil
			}
			return c.List(ctx, l, o...)
		},
	})
	r.make()
	r.expect("NodeClaim 1 is in the API server", id(2))
}

// TestFailuresDeleteNothing: what cannot be listed is not gone.
func TestFailuresDeleteNothing(t *testing.T) {
	no := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("no answer")
	}}
	for name, fail := range map[string]func(*rig){
		"CloudStack":     func(r *rig) { r.listErr = errors.New("no answer") },
		"the cache":      func(r *rig) { r.cache = interceptor.NewClient(r.cache, no) },
		"the API server": func(r *rig) { r.server = interceptor.NewClient(r.server, no) },
	} {
		r := newRig(t)
		r.instances = []*instance.Instance{machine(1)}
		fail(r)
		r.make()
		if _, err := r.c.Reconcile(context.Background()); err == nil || len(r.deleted) != 0 {
			t.Errorf("%s: deleted %v (%v)", name, r.deleted, err)
		}
	}
}

// TestListsMachinesFirst: a machine that is made between the two lists must not be in the first without its NodeClaim in the second.
func TestListsMachinesFirst(t *testing.T) {
	r := newRig(t)
	var order []string
	watch := func(c client.WithWatch, name string) client.WithWatch {
		return interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
			if _, ok := l.(*karpv1.NodeClaimList); ok {
				order = append(order, name)
			}
			return c.List(ctx, l, o...)
		}})
	}
	r.cache, r.server = watch(r.cache, "cache"), watch(r.server, "server")
	r.make()
	r.instances = []*instance.Instance{machine(1)}
	r.c.instances = lister{r.cloud, func() { order = append(order, "machines") }}
	r.expect("the cycle", id(1))
	if want := []string{"machines", "cache", "server"}; !slices.Equal(order[:3], want) {
		t.Errorf("listed in the order %v", order)
	}
}

type lister struct {
	*cloud
	then func()
}

func (l lister) List(ctx context.Context) ([]*instance.Instance, error) {
	l.then()
	return l.cloud.List(ctx)
}

func TestIdentity(t *testing.T) {
	for _, options := range []Options{{ClusterName: cluster}, {ClusterUID: clusterUID}} {
		r := newRig(t)
		r.options = options
		r.make()
		r.instances = []*instance.Instance{machine(1, func(i *instance.Instance) { i.Tags = nil })}
		r.expect("without an identity")
	}
}

// TestLostNodeClaims: an etcd that was restored, or a CRD that was deleted, leaves living nodes without NodeClaims. Nothing goes then.
func TestLostNodeClaims(t *testing.T) {
	ready := func(n int) client.Object { return node(n, corev1.ConditionTrue) }
	foreign := func(c *karpv1.NodeClaim) { c.Spec.NodeClassRef.Group = "karpenter.k8s.aws" }
	late := func(n int) client.Object {
		joined := node(n, corev1.ConditionTrue)
		joined.Labels = nil
		return joined
	}
	for name, test := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"all lost":                       {objects: []client.Object{ready(1), ready(2), ready(3)}},
		"one lives, the others are dead": {objects: []client.Object{ready(1), node(2, corev1.ConditionUnknown)}},
		"most lost":                      {objects: []client.Object{ready(1), ready(2), ready(3), claim(3, launched(3))}},
		"one lost of many":               {objects: []client.Object{ready(1), ready(2), ready(3), claim(2, launched(2)), claim(3, launched(3))}, want: []string{id(1)}},
		"NodeClaims without machines are no proof": {objects: []client.Object{ready(1), ready(2), ready(3), claim(11), claim(12), claim(13), claim(14)}},
		"NodeClaims of another provider are no proof": {objects: []client.Object{
			ready(1), ready(2), ready(3), claim(11, launched(11), foreign), claim(12, launched(12), foreign), claim(13, launched(13), foreign),
		}},
		"none lives": {objects: []client.Object{node(1, corev1.ConditionFalse)}, want: []string{id(1), id(2), id(3)}},
		"they joined when their NodeClaims had been given up": {objects: []client.Object{late(1), late(2), late(3)}, want: []string{id(1), id(2), id(3)}},
		"none was ever a node":                                {want: []string{id(1), id(2), id(3)}},
		"they have no NodeClaim":                              {objects: []client.Object{claim(1, launched(1)), claim(2, launched(2)), ready(1), ready(2)}, want: []string{id(3)}},
	} {
		r := newRig(t, test.objects...)
		r.instances = []*instance.Instance{machine(1), machine(2), machine(3)}
		before := testutil.ToFloat64(refused.WithLabelValues("living_nodes"))
		r.expect(name, test.want...)
		was := testutil.ToFloat64(refused.WithLabelValues("living_nodes")) - before
		if (was == 1) != (test.want == nil) || (r.recorder.calls("GarbageCollectionRefused") == 1) != (test.want == nil) {
			t.Errorf("%s: refused %v times, events %v", name, was, r.recorder.events)
		}
	}
}

func TestNodesGoWithTheirMachines(t *testing.T) {
	unnamed := node(2, corev1.ConditionUnknown)
	unnamed.Spec.ProviderID = ""
	r := newRig(t, node(1, corev1.ConditionUnknown), unnamed, node(3, corev1.ConditionTrue), claim(3, launched(3)))
	r.instances = []*instance.Instance{machine(1), machine(2), machine(3)}
	r.deleteErr[id(1)] = corecloudprovider.NewNodeClaimNotFoundError(errors.New("gone"))
	r.expect("the cycle", id(1), id(2))
	for n, want := range map[int]bool{1: false, 2: false, 3: true} {
		err := r.cache.Get(context.Background(), client.ObjectKeyFromObject(node(n, "")), &corev1.Node{})
		if apierrors.IsNotFound(err) == want {
			t.Errorf("node %d: %v", n, err)
		}
	}
}

func TestNodeStaysWhereTheMachineDoes(t *testing.T) {
	r := newRig(t, node(1, corev1.ConditionUnknown))
	r.instances = []*instance.Instance{machine(1), machine(2)}
	r.deleteErr[id(1)] = errors.New("refused")
	before := testutil.ToFloat64(collected.WithLabelValues(kindInstance, resultFailed))
	if _, err := r.c.Reconcile(context.Background()); err == nil || len(r.deleted) != 2 {
		t.Errorf("deleted %v (%v): one that fails must not stop the other", r.deleted, err)
	}
	if err := r.cache.Get(context.Background(), client.ObjectKeyFromObject(node(1, "")), &corev1.Node{}); err != nil {
		t.Error(err)
	}
	if testutil.ToFloat64(collected.WithLabelValues(kindInstance, resultFailed)) != before+1 {
		t.Error("the metric does not count the failure")
	}
}

func TestNoMoreThanAFew(t *testing.T) {
	r := newRig(t)
	r.options.MaxDeletions = 3
	r.make()
	for n := range 8 {
		r.instances = append(r.instances, machine(n, func(i *instance.Instance) { i.Created = now.Add(-time.Duration(n+10) * time.Minute) }))
	}
	r.expect("the oldest first", id(5), id(6), id(7))
	r.instances = r.instances[:5]
	r.expect("the next", id(2), id(3), id(4))
}

// TestShareOfDisks: what machines leave of the limit is for disks.
func TestShareOfDisks(t *testing.T) {
	r := newRig(t)
	r.options.MaxDeletions = 3
	r.make()
	r.volumes = []*cloudstack.Volume{disk(11), disk(12), disk(13)}
	r.expect("disks, seen for the first time")
	r.clock.SetTime(now.Add(11 * time.Minute))
	r.instances = []*instance.Instance{machine(1), machine(2)}
	r.expect("two machines and a disk", id(1), id(2), "disk-11")
	r.clock.SetTime(now.Add(22 * time.Minute))
	r.instances, r.volumes = nil, r.volumes[1:]
	r.expect("the other disks", "disk-12", "disk-13")
}

// TestDefaults: ten in a cycle, of the same age in the order of their ids, and a cycle every two minutes.
func TestDefaults(t *testing.T) {
	r := newRig(t)
	r.options.MaxDeletions = 0
	r.make()
	for n := range 12 {
		r.instances = append(r.instances, machine(11-n))
	}
	r.expect("ten of twelve", id(0), id(1), id(2), id(3), id(4), id(5), id(6), id(7), id(8), id(9))
	for name, options := range map[string]Options{
		"a cycle": {ClusterName: cluster, ClusterUID: clusterUID}, "one that deletes nothing": {ClusterName: cluster},
	} {
		for _, period := range []time.Duration{0, time.Hour} {
			r.options, r.instances = options, nil
			r.options.Period = period
			r.make()
			result, err := r.c.Reconcile(context.Background())
			if want := lo.CoalesceOrEmpty(period, 2*time.Minute); err != nil || result.RequeueAfter != want {
				t.Errorf("%s: the next is in %s, not %s (%v)", name, result.RequeueAfter, want, err)
			}
		}
	}
}

// TestOutage: while CloudStack cannot be reached, cycles are not further apart than usual.
func TestOutage(t *testing.T) {
	r := newRig(t)
	r.options.Period = 10 * time.Millisecond
	r.make()
	r.listErr = errors.New("no answer")
	suite.Manage(t, r.c)
	// Otherwise, each wait would be twice the last.
	asked := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.lists
	}
	for began := time.Now(); asked() < 20; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d cycles", asked())
		}
	}
}

// TestDoubtIsForgotten: a machine that had a NodeClaim in between has not been without one for the whole time.
func TestDoubtIsForgotten(t *testing.T) {
	r := newRig(t)
	r.instances = []*instance.Instance{machine(1, func(i *instance.Instance) { i.Created = time.Time{} })}
	r.expect("at first")
	r.clock.SetTime(now.Add(3 * time.Minute))
	found := claim(1, launched(1))
	suite.Create(t, r.server, found)
	r.expect("its NodeClaim is there")
	if err := r.server.Delete(context.Background(), found); err != nil {
		t.Fatal(err)
	}
	r.clock.SetTime(now.Add(6 * time.Minute))
	r.expect("its NodeClaim is gone")
	r.clock.SetTime(now.Add(12 * time.Minute))
	r.expect("it has been gone for longer than the grace", id(1))
	// What CloudStack no longer lists may be on its way back, and is not kept for ever.
	r.instances = nil
	for hours, kept := range []int{1, 0} {
		r.clock.SetTime(now.Add(time.Hour + time.Duration(hours)*24*time.Hour))
		r.expect("no machines")
		if len(r.c.suspects) != kept {
			t.Errorf("%d machines are remembered, not %d", len(r.c.suspects), kept)
		}
	}
}

// TestMetrics: what is found shows before it is deleted, and what becomes of it afterwards.
func TestMetrics(t *testing.T) {
	count := func(kind, result string) float64 { return testutil.ToFloat64(collected.WithLabelValues(kind, result)) }
	for result, change := range map[string]func(*rig){
		resultDeleted: func(*rig) {},
		resultDryRun:  func(r *rig) { r.options.DryRun = true },
		resultFailed: func(r *rig) {
			r.deleteErr[id(1)], r.deleteErr["disk-5"] = errors.New("refused"), errors.New("refused")
		},
	} {
		r := newRig(t)
		change(r)
		r.make()
		r.instances = []*instance.Instance{machine(1), machine(2, func(i *instance.Instance) { i.Created = now.Add(20 * time.Minute) })}
		r.volumes = []*cloudstack.Volume{disk(5)}
		before := map[string]float64{}
		for _, kind := range []string{kindInstance, kindVolume} {
			before[kind] = count(kind, result)
		}
		for _, minutes := range []int{0, 11} {
			r.clock.SetTime(now.Add(time.Duration(minutes) * time.Minute))
			if _, err := r.c.Reconcile(context.Background()); (err != nil) != (result == resultFailed) {
				t.Errorf("%s: %v", result, err)
			}
		}
		if machines, disks := count(kindInstance, result)-before[kindInstance], count(kindVolume, result)-before[kindVolume]; machines != 2 || disks != 1 {
			t.Errorf("%s: %v machines in two cycles, %v disks", result, machines, disks)
		}
		if machines, disks := testutil.ToFloat64(orphans.WithLabelValues(kindInstance)), testutil.ToFloat64(orphans.WithLabelValues(kindVolume)); machines != 2 || disks != 1 {
			t.Errorf("%s: %v machines and %v disks are told to be garbage", result, machines, disks)
		}
	}
}

func TestDryRun(t *testing.T) {
	r := newRig(t, node(1, corev1.ConditionUnknown))
	r.options.DryRun = true
	r.make()
	r.instances = []*instance.Instance{machine(1)}
	r.volumes = []*cloudstack.Volume{disk(5)}
	before := testutil.ToFloat64(collected.WithLabelValues(kindInstance, resultDryRun))
	r.expect("a dry run")
	r.clock.SetTime(now.Add(time.Hour))
	r.expect("a dry run an hour later")
	if r.cleanups != 0 || testutil.ToFloat64(collected.WithLabelValues(kindInstance, resultDryRun)) != before+2 || r.recorder.calls("GarbageCollected") == 0 {
		t.Errorf("%d clean-ups, events %v", r.cleanups, r.recorder.events)
	}
	if err := r.cache.Get(context.Background(), client.ObjectKeyFromObject(node(1, "")), &corev1.Node{}); err != nil {
		t.Error(err)
	}
}

// TestUnknownAge: where CloudStack does not tell when a machine was made, it is as old as it was looked at.
func TestUnknownAge(t *testing.T) {
	r := newRig(t)
	r.instances = []*instance.Instance{machine(1, func(i *instance.Instance) { i.Created = time.Time{} })}
	r.expect("at first")
	r.clock.SetTime(now.Add(4 * time.Minute))
	r.expect("before the grace is over")
	r.clock.SetTime(now.Add(6 * time.Minute))
	r.expect("after it", id(1))
}

func TestGroups(t *testing.T) {
	r := newRig(t)
	r.expect("nothing")
	if r.cleanups != 1 {
		t.Errorf("%d clean-ups", r.cleanups)
	}
	r.cleanupErr = errors.New("no answer")
	if _, err := r.c.Reconcile(context.Background()); err == nil || !strings.Contains(err.Error(), "affinity groups") {
		t.Errorf("a clean-up that fails: %v", err)
	}
}

// disk is a data disk that was made with machine n, which is gone.
func disk(n int, change ...func(*cloudstack.Volume)) *cloudstack.Volume {
	v := &cloudstack.Volume{
		Id: fmt.Sprintf("disk-%d", n), Name: fmt.Sprintf("DATA-%d", n), Type: "DATADISK", State: "Ready",
		Tags: []sdk.Tags{
			{Key: csv1.TagManagedBy, Value: cluster}, {Key: csv1.TagClusterUID, Value: clusterUID}, {Key: csv1.TagNodeClaim, Value: fmt.Sprintf("general-%d", n)},
		},
	}
	for _, c := range change {
		c(v)
	}
	return v
}

func withTag(key, value string) func(*cloudstack.Volume) {
	return func(v *cloudstack.Volume) {
		v.Tags = append(lo.Reject(v.Tags, func(t sdk.Tags, _ int) bool { return t.Key == key }), sdk.Tags{Key: key, Value: value})
	}
}

func TestDisks(t *testing.T) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.cloudstack.apache.org", VolumeHandle: "disk-1"},
		},
	}}
	for name, test := range map[string]struct {
		disk      *cloudstack.Volume
		objects   []client.Object
		instances []*instance.Instance
		goes      bool
	}{
		"left":                           {disk: disk(1), goes: true},
		"left in a project":              {disk: disk(1, func(v *cloudstack.Volume) { v.Projectid = "p" }), goes: true},
		"never attached":                 {disk: disk(1, func(v *cloudstack.Volume) { v.State = "Allocated" }), goes: true},
		"attached":                       {disk: disk(1, func(v *cloudstack.Volume) { v.Virtualmachineid = id(5) })},
		"of a NodeClaim that is there":   {disk: disk(1), objects: []client.Object{claim(1)}},
		"of a machine that is there":     {disk: disk(1), objects: []client.Object{claim(7, launched(1))}, instances: []*instance.Instance{machine(1)}},
		"of a machine that goes":         {disk: disk(1), instances: []*instance.Instance{machine(1, func(i *instance.Instance) { i.Deleting = true })}, goes: true},
		"a root disk":                    {disk: disk(1, func(v *cloudstack.Volume) { v.Type = "ROOT" })},
		"being deleted":                  {disk: disk(1, func(v *cloudstack.Volume) { v.State = "Expunging" })},
		"of a PersistentVolume":          {disk: disk(1), objects: []client.Object{volume}},
		"named as CSI names disks":       {disk: disk(1, func(v *cloudstack.Volume) { v.Name = "pvc-0d9f" })},
		"without a NodeClaim in its tag": {disk: disk(1, withTag(csv1.TagNodeClaim, ""))},
		"of another cluster":             {disk: disk(1, withTag(csv1.TagClusterUID, "another"))},
		"without tags":                   {disk: disk(1, func(v *cloudstack.Volume) { v.Tags = nil })},
	} {
		r := newRig(t, test.objects...)
		r.instances, r.volumes = test.instances, []*cloudstack.Volume{test.disk}
		r.expect(name + ", seen for the first time")
		r.clock.SetTime(now.Add(11 * time.Minute))
		r.expect(name+", seen again", lo.Ternary(test.goes, []string{"disk-1"}, nil)...)
	}
}

// TestDiskThatComesBack: one that was attached in between has not been left for the whole time.
func TestDiskThatComesBack(t *testing.T) {
	r := newRig(t)
	r.options.Grace = 15 * time.Minute
	r.make()
	r.volumes = []*cloudstack.Volume{disk(1)}
	for minutes, attached := range []string{"", id(5), "", ""} {
		r.clock.SetTime(now.Add(time.Duration(minutes) * 11 * time.Minute))
		r.volumes[0].Virtualmachineid = attached
		r.expect(fmt.Sprintf("after %d minutes", minutes*11))
	}
	r.clock.SetTime(now.Add(44 * time.Minute))
	r.expect("left for longer than the grace", "disk-1")
}

func TestDisksThatCannotBeListed(t *testing.T) {
	r := newRig(t)
	r.instances = []*instance.Instance{machine(1)}
	r.volumeErr = errors.New("no answer")
	_, err := r.c.Reconcile(context.Background())
	if err == nil || !strings.Contains(err.Error(), "disks") || !slices.Equal(r.deleted, []string{id(1)}) {
		t.Errorf("deleted %v: %v", r.deleted, err)
	}
}

// TestDisksAreSeldomLookedAt: lists of disks are long, and of what is in them little is ever left.
func TestDisksAreSeldomLookedAt(t *testing.T) {
	r := newRig(t)
	for minutes, lists := range map[int]int{0: 2, 9: 0, 10: 2} {
		r.c.disksAt, r.volumeLists = now.Add(10*time.Minute), 0
		if minutes == 0 {
			r.c.disksAt = time.Time{}
		}
		r.clock.SetTime(now.Add(time.Duration(minutes) * time.Minute))
		r.expect("the cycle")
		if next := r.clock.Now().Add(10 * time.Minute); r.volumeLists != lists || lists > 0 && !r.c.disksAt.Equal(next) {
			t.Errorf("after %d minutes: %d lists, the next at %s", minutes, r.volumeLists, r.c.disksAt)
		}
	}
}

// TestDisksWithoutAGrace: one that is being attached looks left for a moment.
func TestDisksWithoutAGrace(t *testing.T) {
	r := newRig(t)
	r.options.Grace = 0
	r.make()
	r.volumes = []*cloudstack.Volume{disk(1)}
	r.expect("seen for the first time")
}

// TestDisksOfNodeClaimsThatTheCacheLacks: those that only the API server knows keep their disks.
func TestDisksOfNodeClaimsThatTheCacheLacks(t *testing.T) {
	r := newRig(t, claim(1))
	r.cache = interceptor.NewClient(r.cache, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	})
	r.make()
	r.volumes = []*cloudstack.Volume{disk(1), disk(2)}
	r.expect("seen for the first time")
	r.clock.SetTime(now.Add(11 * time.Minute))
	r.expect("seen again", "disk-2")
}

// TestDiskThatIsGone: someone else was quicker.
func TestDiskThatIsGone(t *testing.T) {
	r := newRig(t)
	r.volumes = []*cloudstack.Volume{disk(1)}
	r.deleteErr["disk-1"] = &cloudstack.Error{Code: cloudstack.CodeParameter, Text: "Unable to find volume disk-1"}
	r.expect("seen for the first time")
	r.clock.SetTime(now.Add(11 * time.Minute))
	r.expect("seen again", "disk-1")
	if len(r.c.suspects) != 0 {
		t.Errorf("remembered: %v", r.c.suspects)
	}
}
