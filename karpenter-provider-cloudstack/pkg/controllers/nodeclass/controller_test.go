package nodeclass

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// world is a data centre as the providers see it; each error is that of one of them.
type world struct {
	zones, networks, groups, templates, offerings, bootstrap error
	names                                                    []string
	asked                                                    int
}

type (
	zones     struct{ *world }
	networks  struct{ *world }
	templates struct{ *world }
	offerings struct{ *world }
	boot      struct{ *world }
)

func (w zones) Resolve(context.Context, *csv1.CloudStackNodeClass) ([]csv1.ZoneStatus, error) {
	w.asked++
	return lo.Ternary(w.zones == nil, []csv1.ZoneStatus{{ID: "z1", Name: "zone-01"}}, nil), w.zones
}

func (w networks) Resolve(_ context.Context, _ *csv1.CloudStackNodeClass, z []csv1.ZoneStatus) (first, additional []csv1.NetworkStatus, err error) {
	if w.networks != nil {
		return nil, nil, w.networks
	}
	return lo.Map(z, func(z csv1.ZoneStatus, _ int) csv1.NetworkStatus { return csv1.NetworkStatus{ID: "n1", ZoneID: z.ID} }), nil, nil
}

func (w networks) ResolveSecurityGroups(context.Context, *csv1.CloudStackNodeClass, []csv1.ZoneStatus) ([]csv1.SecurityGroupStatus, error) {
	return nil, w.groups
}

func (w templates) Resolve(context.Context, *csv1.CloudStackNodeClass, []csv1.ZoneStatus) ([]csv1.TemplateStatus, error) {
	return []csv1.TemplateStatus{{ID: "t1", ZoneID: "z1", Architecture: "amd64"}}, w.templates
}

func (w offerings) Offerings(_ context.Context, n *csv1.CloudStackNodeClass) ([]*cloudstack.ServiceOffering, error) {
	if len(n.Status.Zones) == 0 {
		return nil, errors.New("the status has no zones yet")
	}
	return lo.Map(w.names, func(name string, _ int) *cloudstack.ServiceOffering { return &cloudstack.ServiceOffering{Name: name} }), w.offerings
}

func (w boot) Check(context.Context, *csv1.CloudStackNodeClass) error { return w.bootstrap }

// recorder keeps events.
type recorder struct{ events []events.Event }

func (r *recorder) Publish(e ...events.Event) { r.events = append(r.events, e...) }

func (r *recorder) calls(reason string) int {
	return lo.CountBy(r.events, func(e events.Event) bool { return e.Reason == reason })
}

// rig is a controller with all around it.
type rig struct {
	*testing.T
	*world
	client   client.Client
	clock    *clocktesting.FakePassiveClock
	recorder *recorder
	wake     chan struct{}
	c        *Controller
	writes   int
}

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

// indexed has the indexes that core gives the cache of the manager's client: the API server finds no NodeClaims by their class.
func indexed(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			nodeClaims, ok := list.(*karpv1.NodeClaimList)
			selector := (&client.ListOptions{}).ApplyOptions(options).FieldSelector
			if !ok || selector == nil {
				return c.List(ctx, list, options...)
			}
			err := c.List(ctx, list)
			nodeClaims.Items = lo.Filter(nodeClaims.Items, func(n karpv1.NodeClaim, _ int) bool {
				ref := n.Spec.NodeClassRef
				return selector.Matches(fields.Set{"spec.nodeClassRef.group": ref.Group, "spec.nodeClassRef.kind": ref.Kind, "spec.nodeClassRef.name": ref.Name})
			})
			return err
		},
	})
}

func newRig(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	r := &rig{T: t, world: &world{names: []string{"small", "large"}}, clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)), recorder: &recorder{}, wake: make(chan struct{})}
	server := suite.Client(t)
	suite.Create(t, server, objects...)
	r.client = interceptor.NewClient(indexed(server), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			r.writes++
			return c.Patch(ctx, o, p, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			r.writes++
			return c.SubResource(name).Patch(ctx, o, p, options...)
		},
	})
	r.c = NewController(r.clock, r.client, r.recorder, Providers{zones{r.world}, networks{r.world}, templates{r.world}, offerings{r.world}, boot{r.world}}, r.wake)
	return r
}

func (r *rig) nodeClass() *csv1.CloudStackNodeClass {
	r.Helper()
	n := &csv1.CloudStackNodeClass{}
	if err := r.client.Get(context.Background(), client.ObjectKey{Name: "default"}, n); err != nil {
		r.Fatal(err)
	}
	return n
}

func (r *rig) reconcile() (*csv1.CloudStackNodeClass, reconcile.Result) {
	r.Helper()
	result, err := r.c.Reconcile(context.Background(), r.nodeClass())
	if err != nil {
		r.Fatal(err)
	}
	return r.nodeClass(), result
}

func condition(n *csv1.CloudStackNodeClass, name string) status.Condition {
	c, _ := lo.Find(n.Status.Conditions, func(c status.Condition) bool { return c.Type == name })
	return c
}

func newNodeClass() *csv1.CloudStackNodeClass {
	return &csv1.CloudStackNodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: csv1.CloudStackNodeClassSpec{
		Zones:                        []string{"zone-01"},
		ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{Name: "small"}}, TemplateSelectorTerms: []csv1.TemplateSelectorTerm{{Name: "ubuntu"}},
	}}
}

func newNodeClaim(name string, annotations map[string]string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		// The time of creation is that of its conditions, which the API server wants to have one.
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, CreationTimestamp: metav1.Now()},
		Spec: karpv1.NodeClaimSpec{
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: "default"},
		},
	}
}

func TestReady(t *testing.T) {
	r := newRig(t, newNodeClass())
	n, result := r.reconcile()
	for _, c := range []string{
		csv1.ConditionZonesReady, csv1.ConditionNetworksReady, csv1.ConditionTemplatesReady, csv1.ConditionOfferingsReady,
		csv1.ConditionSecurityGroupsReady, csv1.ConditionBootstrapReady, status.ConditionReady,
	} {
		if got := condition(n, c); got.Status != metav1.ConditionTrue || got.ObservedGeneration != 1 || got.Reason == "" {
			t.Errorf("%s: %+v", c, got)
		}
	}
	if !n.StatusConditions().Root().IsTrue() {
		t.Error("core does not take it for ready")
	}
	if n.Status.OfferingCount != 2 || !slices.Equal(n.Status.Offerings, []string{"large", "small"}) || len(n.Status.Zones) != 1 || len(n.Status.Networks) != 1 || len(n.Status.Templates) != 1 {
		t.Errorf("the status has not what was found: %+v", n.Status)
	}
	if !slices.Contains(n.Finalizers, csv1.TerminationFinalizer) || n.Annotations[csv1.AnnotationNodeClassHash] != n.Hash() || n.Annotations[csv1.AnnotationNodeClassHashVersion] != csv1.NodeClassHashVersion {
		t.Errorf("finalizers %v, annotations %v", n.Finalizers, n.Annotations)
	}
	if result.RequeueAfter != period {
		t.Errorf("looked at again after %s", result.RequeueAfter)
	}
	if r.recorder.calls("Ready") != 1 {
		t.Error("nobody is told that it is ready")
	}
}

// TestNothingIsWrittenForNothing: a controller that writes the status on each pass is woken by itself for ever.
func TestNothingIsWrittenForNothing(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"ready": func(*world) {},
		"two faults": func(w *world) {
			w.networks, w.templates = selector.Errorf("NotFound", "a"), selector.Errorf("NotFound", "b")
		},
		"an outage": func(w *world) { w.zones = errors.New("read tcp 127.0.0.1:54321: connection reset") },
		"bad zone":  func(w *world) { w.zones = selector.Errorf("NotFound", "spec.zones[0]: there is no zone x") },
		"half and so": func(w *world) {
			w.bootstrap, w.networks = &bootstrap.Error{Reason: "SecretNotFound", Message: "x"}, errors.New("timeout")
		},
	} {
		r := newRig(t, newNodeClass())
		spoil(r.world)
		first, _ := r.reconcile()
		r.writes = 0
		r.clock.SetTime(r.clock.Now().Add(time.Minute))
		if r.zones != nil && strings.Contains(r.zones.Error(), "54321") {
			r.zones = errors.New("read tcp 127.0.0.1:54399: connection reset")
		}
		second, _ := r.reconcile()
		if r.writes != 0 || first.ResourceVersion != second.ResourceVersion {
			t.Errorf("%s: written %d times:\n%+v\n%+v", name, r.writes, first.Status.Conditions, second.Status.Conditions)
		}
	}
}

func TestTransitionTimeIsThatOfTheChange(t *testing.T) {
	r := newRig(t, newNodeClass())
	first, _ := r.reconcile()
	r.clock.SetTime(r.clock.Now().Add(time.Hour))
	r.templates = selector.Errorf("NotFound", "no template")
	second, _ := r.reconcile()
	for _, c := range []string{csv1.ConditionZonesReady, csv1.ConditionBootstrapReady} {
		if before, after := condition(first, c), condition(second, c); !before.LastTransitionTime.Equal(&after.LastTransitionTime) {
			t.Errorf("%s has not changed, and its time has", c)
		}
	}
	for _, c := range []string{csv1.ConditionTemplatesReady, status.ConditionReady} {
		if got := condition(second, c).LastTransitionTime.Time; !got.Equal(r.clock.Now()) {
			t.Errorf("%s changed at %s, and says %s", c, r.clock.Now(), got)
		}
	}
	// Another fault is no other state: the message changes, the time does not.
	changed := condition(second, csv1.ConditionTemplatesReady).LastTransitionTime
	r.clock.SetTime(r.clock.Now().Add(time.Hour))
	r.templates = selector.Errorf("Ambiguous", "two templates")
	third, _ := r.reconcile()
	if got := condition(third, csv1.ConditionTemplatesReady); !got.LastTransitionTime.Equal(&changed) || got.Message != "two templates" || got.Reason != "Ambiguous" {
		t.Errorf("%+v", got)
	}
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		spoil     func(*world)
		condition string
		status    metav1.ConditionStatus
		reason    string
		ready     metav1.ConditionStatus
		event     string
		soon      bool
	}{
		"unknown zone":         {func(w *world) { w.zones = errors.Wrap(selector.Errorf("NotFound", "there is no zone x"), "zones") }, csv1.ConditionZonesReady, "False", "NotFound", "False", "ZonesNotReady", false},
		"what waits for zones": {func(w *world) { w.zones = selector.Errorf("NotFound", "there is no zone x") }, csv1.ConditionNetworksReady, "Unknown", "ZonesNotReady", "False", "", false},
		"no network":           {func(w *world) { w.networks = selector.Errorf("NotFound", "no network") }, csv1.ConditionNetworksReady, "False", "NotFound", "False", "NetworksNotReady", false},
		"no group":             {func(w *world) { w.groups = selector.Errorf("NotFound", "no group") }, csv1.ConditionSecurityGroupsReady, "False", "NotFound", "False", "SecurityGroupsNotReady", false},
		"template not ready":   {func(w *world) { w.templates = selector.Errorf("NotUsable", "not ready") }, csv1.ConditionTemplatesReady, "False", "NotUsable", "False", "TemplatesNotReady", false},
		"no offering":          {func(w *world) { w.offerings = selector.Errorf("NotFound", "no offering") }, csv1.ConditionOfferingsReady, "False", "NotFound", "False", "OfferingsNotReady", false},
		"missing Secret":       {func(w *world) { w.bootstrap = &bootstrap.Error{Reason: "SecretNotFound", Message: "no Secret"} }, csv1.ConditionBootstrapReady, "False", "SecretNotFound", "False", "BootstrapNotReady", false},
		"API server away": {func(w *world) {
			w.bootstrap = &bootstrap.Error{Reason: "APIServerUnavailable", Message: "x", Transient: true}
		}, csv1.ConditionBootstrapReady, "Unknown", "Unavailable", "Unknown", "BootstrapNotReady", true},
		"CloudStack away":   {func(w *world) { w.templates = errors.New("dial tcp: connection refused") }, csv1.ConditionTemplatesReady, "Unknown", "Unavailable", "Unknown", "TemplatesNotReady", true},
		"CloudStack broken": {func(w *world) { w.offerings = &cloudstack.Error{Command: "listServiceOfferings", Code: 530, Text: "x"} }, csv1.ConditionOfferingsReady, "Unknown", "Unavailable", "Unknown", "OfferingsNotReady", true},
		"wrong credentials": {func(w *world) {
			w.zones = errors.Wrap(&cloudstack.Error{Command: "listZones", Code: 401, Text: "unable to verify user credentials"}, "zones")
		}, csv1.ConditionZonesReady, "False", "Unauthorized", "False", "ZonesNotReady", true},
		"refused": {func(w *world) {
			w.networks = &cloudstack.Error{Command: "listNetworks", Code: 431, Text: "Invalid parameter projectid"}
		}, csv1.ConditionNetworksReady, "False", "Rejected", "False", "NetworksNotReady", false},
		"two at once: one fault, one unknown": {func(w *world) { w.networks, w.templates = errors.New("x"), selector.Errorf("NotFound", "y") }, csv1.ConditionNetworksReady, "Unknown", "Unavailable", "False", "NetworksNotReady", true},
	} {
		r := newRig(t, newNodeClass())
		test.spoil(r.world)
		n, result := r.reconcile()
		got := condition(n, test.condition)
		if got.Status != test.status || got.Reason != test.reason || got.Message == "" {
			t.Errorf("%s: %+v", name, got)
		}
		ready := condition(n, status.ConditionReady)
		if ready.Status != test.ready || ready.Message == "" {
			t.Errorf("%s: Ready is %s (%s): %s", name, ready.Status, ready.Reason, ready.Message)
		}
		if n.StatusConditions().Root().Status != test.ready {
			t.Errorf("%s: core takes it for %s", name, n.StatusConditions().Root().Status)
		}
		if test.event != "" && r.recorder.calls(test.event) != 1 {
			t.Errorf("%s: nobody is told: %v", name, r.recorder.events)
		}
		for _, e := range r.recorder.events {
			if e.Type != corev1.EventTypeWarning || e.Message == "" {
				t.Errorf("%s: event %+v", name, e)
			}
		}
		if (result.RequeueAfter == soon) != test.soon {
			t.Errorf("%s: looked at again after %s", name, result.RequeueAfter)
		}
	}
}

// TestOutageTakesNothingAway: a NodeClass that was ready stays so while CloudStack does not answer, and keeps what was found.
func TestOutageTakesNothingAway(t *testing.T) {
	r := newRig(t, newNodeClass())
	before, _ := r.reconcile()
	r.zones, r.networks, r.templates, r.offerings = errors.New("x"), errors.New("x"), errors.New("x"), errors.New("x")
	r.writes = 0
	after, result := r.reconcile()
	if !after.StatusConditions().Root().IsTrue() || r.writes != 0 || len(after.Status.Zones) != len(before.Status.Zones) {
		t.Errorf("%+v", after.Status)
	}
	if result.RequeueAfter != soon {
		t.Errorf("looked at again after %s", result.RequeueAfter)
	}
	// A specification that has changed since has never been looked at: it is not known whether it is ready.
	after.Spec.SSHKeyPairs = []string{"other"}
	if err := r.client.Update(context.Background(), after); err != nil {
		t.Fatal(err)
	}
	changed, _ := r.reconcile()
	if got := condition(changed, status.ConditionReady); got.Status != metav1.ConditionUnknown || got.ObservedGeneration != 2 {
		t.Errorf("%+v", got)
	}
	if len(changed.Status.Zones) != 1 {
		t.Error("what was found before is gone, and machines would be taken for drifted")
	}
	// And it comes back.
	*r.world = world{names: []string{"small"}}
	if back, _ := r.reconcile(); !back.StatusConditions().Root().IsTrue() || back.Status.OfferingCount != 1 {
		t.Errorf("%+v", back.Status)
	}
}

func TestHashOfAnotherVersion(t *testing.T) {
	n := newNodeClass()
	n.Annotations = map[string]string{csv1.AnnotationNodeClassHash: "old", csv1.AnnotationNodeClassHashVersion: "v0"}
	drifted := newNodeClaim("drifted", map[string]string{csv1.AnnotationNodeClassHash: "other", csv1.AnnotationNodeClassHashVersion: "v0"})
	drifted.StatusConditions().SetTrue(karpv1.ConditionTypeDrifted)
	foreign := newNodeClaim("foreign", map[string]string{csv1.AnnotationNodeClassHash: "old", csv1.AnnotationNodeClassHashVersion: "v0"})
	foreign.Spec.NodeClassRef.Name = "another"
	r := newRig(t, n, newNodeClaim("a", map[string]string{csv1.AnnotationNodeClassHash: "old", csv1.AnnotationNodeClassHashVersion: "v0", "mine": "1"}),
		newNodeClaim("new", map[string]string{csv1.AnnotationNodeClassHash: "kept", csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion}), drifted, foreign)
	after, _ := r.reconcile()
	hash := after.Hash()
	for name, want := range map[string]map[string]string{
		"a":       {csv1.AnnotationNodeClassHash: hash, csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion, "mine": "1"},
		"new":     {csv1.AnnotationNodeClassHash: "kept", csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion},
		"drifted": {csv1.AnnotationNodeClassHash: "other", csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion},
		"foreign": {csv1.AnnotationNodeClassHash: "old", csv1.AnnotationNodeClassHashVersion: "v0"},
	} {
		got := &karpv1.NodeClaim{}
		if err := r.client.Get(context.Background(), client.ObjectKey{Name: name}, got); err != nil {
			t.Fatal(err)
		}
		for key, value := range want {
			if got.Annotations[key] != value {
				t.Errorf("NodeClaim %s: %s is %q, not %q", name, key, got.Annotations[key], value)
			}
		}
	}
	// One that was made by an older controller since is not looked at: the version of the NodeClass says that all have been.
	late := newNodeClaim("late", map[string]string{csv1.AnnotationNodeClassHash: "old", csv1.AnnotationNodeClassHashVersion: "v0"})
	if err := r.client.Create(context.Background(), late); err != nil {
		t.Fatal(err)
	}
	// A change of the specification in the same version changes no NodeClaim: that is what drift is seen by.
	after.Spec.SSHKeyPairs = []string{"other"}
	if err := r.client.Update(context.Background(), after); err != nil {
		t.Fatal(err)
	}
	changed, _ := r.reconcile()
	a := &karpv1.NodeClaim{}
	if err := r.client.Get(context.Background(), client.ObjectKey{Name: "a"}, a); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Get(context.Background(), client.ObjectKeyFromObject(late), late); err != nil || late.Annotations[csv1.AnnotationNodeClassHash] != "old" {
		t.Errorf("%v, %v", late.Annotations, err)
	}
	if changed.Annotations[csv1.AnnotationNodeClassHash] == hash || a.Annotations[csv1.AnnotationNodeClassHash] != hash {
		t.Errorf("NodeClass %v, NodeClaim %v", changed.Annotations, a.Annotations)
	}
}

// Credentials that are put right have all NodeClasses looked at, and not only after a while.
func TestWake(t *testing.T) {
	second := newNodeClass()
	second.Name = "second"
	r := newRig(t, newNodeClass(), second)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fails := true
	r.c.kubeClient = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if fails {
				fails = false
				return errors.New("no answer")
			}
			return c.List(ctx, list, options...)
		},
	})
	if err := r.c.wakeUp(ctx, queue); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first time, the API server does not answer
		select {
		case r.wake <- struct{}{}:
		case <-ctx.Done():
			t.Fatal("nobody listens")
		}
	}
	got := map[string]bool{}
	for range 2 {
		request, _ := queue.Get()
		got[request.Name] = true
	}
	if !got["default"] || !got["second"] {
		t.Errorf("%v", got)
	}
}

func TestFinalizer(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, newNodeClass(), newNodeClaim("a", nil))
	n, _ := r.reconcile()
	if err := r.client.Delete(ctx, n); err != nil {
		t.Fatal(err)
	}
	n, result := r.reconcile()
	if !slices.Contains(n.Finalizers, csv1.TerminationFinalizer) || result.RequeueAfter == 0 || r.recorder.calls("WaitingOnNodeClaimTermination") != 1 {
		t.Errorf("finalizers %v, again after %s", n.Finalizers, result.RequeueAfter)
	}
	if err := r.client.Delete(ctx, newNodeClaim("a", nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.c.Reconcile(ctx, r.nodeClass()); err != nil {
		t.Fatal(err)
	}
	if err := r.client.Get(ctx, client.ObjectKey{Name: "default"}, n); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestFinalizerStaysWhileItIsNotKnown(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, newNodeClass())
	n, _ := r.reconcile()
	if err := r.client.Delete(ctx, n); err != nil {
		t.Fatal(err)
	}
	r.c.kubeClient = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no answer")
		},
	})
	if _, err := r.c.Reconcile(ctx, r.nodeClass()); err == nil || !slices.Contains(r.nodeClass().Finalizers, csv1.TerminationFinalizer) {
		t.Errorf("finalizers %v: %v", r.nodeClass().Finalizers, err)
	}
}

// TestRaces: what another does between the look and the write is no error, and is not written over.
func TestRaces(t *testing.T) {
	for name, other := range map[string]func(context.Context, client.Client, *csv1.CloudStackNodeClass) error{
		"changed by another": func(ctx context.Context, c client.Client, n *csv1.CloudStackNodeClass) error {
			n.Status.OfferingCount = 77
			return c.Status().Update(ctx, n)
		},
		"deleted meanwhile": func(ctx context.Context, c client.Client, n *csv1.CloudStackNodeClass) error {
			n.Finalizers = nil
			if err := c.Update(ctx, n); err != nil {
				return err
			}
			return c.Delete(ctx, n)
		},
	} {
		r := newRig(t, newNodeClass())
		r.c.kubeClient = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
				if err := other(ctx, r.client, r.nodeClass()); err != nil {
					return err
				}
				return c.SubResource(name).Patch(ctx, o, p, options...)
			},
		})
		if _, got := r.c.Reconcile(context.Background(), r.nodeClass()); got != nil {
			t.Errorf("%s: %v", name, got)
		}
		left := &csv1.CloudStackNodeClassList{}
		if err := r.client.List(context.Background(), left); err != nil {
			t.Fatal(err)
		}
		for _, n := range left.Items {
			if n.Status.OfferingCount != 77 {
				t.Errorf("%s: written over: %+v", name, n.Status)
			}
		}
	}
}

func TestLongMessages(t *testing.T) {
	r := newRig(t, newNodeClass())
	r.zones = selector.Errorf("Not Found: 404", "%s", strings.Repeat("ü", 5000))
	n, _ := r.reconcile()
	got := condition(n, csv1.ConditionZonesReady)
	if len(got.Message) > maxMessage || !strings.HasPrefix(got.Message, "ü") || got.Reason != "NotFound404" {
		t.Errorf("%d bytes, reason %q", len(got.Message), got.Reason)
	}
}
