package kubelet

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
)

const script = "#!/bin/sh\nkubelet --node-labels=karpenter.sh/nodepool=pool --register-with-taints=karpenter.sh/unregistered:NoExecute --max-pods=50 " +
	"--kube-reserved=cpu=60m,memory=512Mi\n"

// world is an API server without anything behind it, a CloudStack and the kubelets of its machines. On a real API server, all of the end-to-end
// tests have these kubelets; here they are tried alone, and renew leases each millisecond.
type world struct {
	*testing.T

	ctx   context.Context // of the test
	kube  client.Client
	cloud *fake.CloudStack
	*Kubelet
}

// begin starts the kubelets. Nodes get the taint that the API server adds.
func begin(t *testing.T, options Options, functions ...interceptor.Funcs) *world {
	t.Helper()
	funcs := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		if node, is := object.(*corev1.Node); is {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
		return c.Create(ctx, object, options...)
	}}
	for _, one := range functions {
		funcs.Patch = one.Patch
		if one.Create != nil {
			funcs.Create = one.Create
		}
	}
	w := &world{
		T: t, cloud: fake.Default(fake.Options{}),
		kube: ctrlfake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&corev1.Node{}).WithInterceptorFuncs(funcs).Build(),
	}
	w.start(options)
	return w
}

func (w *world) start(options Options) {
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	w.ctx = ctx
	w.Kubelet = New(w.kube, w.cloud, options)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Start(ctx) // it has no errors
	}()
	w.Cleanup(func() { cancel(); <-done })
}

func (w *world) machine(name string, change ...func(*fake.VM)) fake.VM {
	vm := fake.VM{
		Name: name, ZoneID: fake.IDOf("zone", fake.ZoneA), OfferingID: fake.IDOf("offering", fake.OfferingMedium),
		TemplateID: fake.IDOf("template", fake.TemplateAMD64), RootDiskGiB: 20, UserData: encode(script), Address: "10.1.2.3",
	}
	for _, one := range change {
		one(&vm)
	}
	return w.cloud.AddVM(vm)
}

// node waits for a node that fits.
func (w *world) node(name string, fits func(*corev1.Node) bool) *corev1.Node {
	w.Helper()
	node := &corev1.Node{}
	require.Eventually(w, func() bool {
		return w.kube.Get(w.ctx, types.NamespacedName{Name: name}, node) == nil && fits(node)
	}, 20*time.Second, 2*time.Millisecond, "the node %s", name)
	return node
}

func (w *world) gone(object client.Object) {
	w.Helper()
	require.Eventually(w, func() bool {
		return apierrors.IsNotFound(w.kube.Get(w.ctx, client.ObjectKeyFromObject(object), object))
	}, 20*time.Second, 2*time.Millisecond, "%s is gone", object.GetName())
}

func has(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) bool {
	return func(node *corev1.Node) bool {
		for _, condition := range node.Status.Conditions {
			if condition.Type == kind {
				return condition.Status == status
			}
		}
		return false
	}
}

func tainted(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return true
		}
	}
	return false
}

func joined(node *corev1.Node) bool {
	return has(corev1.NodeReady, corev1.ConditionTrue)(node) && !tainted(node)
}

func leaseOf(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
}

func TestAMachineJoins(t *testing.T) {
	w := begin(t, Options{})
	vm := w.machine("node-1")
	node := w.node("node-1", joined)
	require.Equal(t, "external-cloudstack://"+vm.ID, node.Spec.ProviderID)
	for key, value := range map[string]string{
		"karpenter.sh/nodepool": "pool", corev1.LabelTopologyZone: fake.ZoneA, corev1.LabelInstanceTypeStable: "m1medium",
		corev1.LabelHostname: "node-1", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	} {
		require.Equal(t, value, node.Labels[key], key)
	}
	require.Equal(t, []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}, node.Spec.Taints)
	require.NotContains(t, node.Annotations, AnnotationKwok)
	require.Equal(t, corev1.NodeRunning, node.Status.Phase, "kwok looks at it")
	text := func(list corev1.ResourceList, name corev1.ResourceName) string {
		quantity := list[name]
		return quantity.String()
	}
	require.Equal(t, "2", text(node.Status.Capacity, corev1.ResourceCPU))
	require.Equal(t, "1940m", text(node.Status.Allocatable, corev1.ResourceCPU))
	require.Equal(t, "50", text(node.Status.Allocatable, corev1.ResourcePods))
	require.Equal(t, int64(4096*95/100)*mib, node.Status.Capacity.Memory().Value()/mib*mib)
	require.Equal(t, node.Status.Capacity.Memory().Value()-612*mib, node.Status.Allocatable.Memory().Value(), "512Mi are kept, and 100Mi for eviction")
	require.Equal(t, "20Gi", text(node.Status.Capacity, corev1.ResourceEphemeralStorage))
	require.Equal(t, "18Gi", text(node.Status.Allocatable, corev1.ResourceEphemeralStorage))
	lease := leaseOf("node-1")
	require.NoError(t, w.kube.Get(w.ctx, client.ObjectKeyFromObject(lease), lease))
	require.Equal(t, "node-1", *lease.Spec.HolderIdentity)

	w.machine("node-2", func(vm *fake.VM) {
		vm.TemplateID, vm.OfferingID = fake.IDOf("template", fake.TemplateARM64), fake.IDOf("offering", fake.OfferingHighMemory)
		vm.GPUs, vm.GPUCard = 2, "AMD Radeon Pro V620"
		vm.UserData = encode("#!/bin/sh\nkubelet --provider-id=cloudstack:///$ID\n")
	})
	node = w.node("node-2", joined)
	require.Equal(t, "arm64", node.Labels[corev1.LabelArchStable])
	require.Equal(t, "HighMemory", node.Labels[corev1.LabelInstanceTypeStable])
	require.Equal(t, "2", text(node.Status.Allocatable, "amd.com/gpu"))
	require.Equal(t, "110", text(node.Status.Allocatable, corev1.ResourcePods))
	require.Regexp(t, "^cloudstack:///[0-9a-f-]{36}$", node.Spec.ProviderID)
}

func TestTheCloudControllerManagerComesLater(t *testing.T) {
	seen := make(chan struct{})
	looked := sync.OnceFunc(func() { close(seen) })
	defer looked()
	w := begin(t, Options{CloudControllerDelay: func(vm fake.VM) time.Duration {
		if vm.Name == "never" {
			return time.Hour
		}
		<-seen // the node is looked at first
		return time.Millisecond
	}})
	uninitialized := func(node *corev1.Node) bool {
		for _, taint := range node.Spec.Taints {
			if taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" && taint.Effect == corev1.TaintEffectNoSchedule {
				return true
			}
		}
		return false
	}
	told := func(vm *fake.VM) {
		vm.UserData = encode("#!/bin/sh\nkubelet --provider-id=external-cloudstack://$ID --max-pods=50\n")
	}
	vm, with := w.machine("node"), w.machine("with-id", told)
	w.machine("never", func(vm *fake.VM) { vm.UserData = "" })
	node := w.node("node", joined)
	require.True(t, uninitialized(node))
	require.Empty(t, node.Spec.ProviderID, "its kubelet does not know it")
	require.Equal(t, "external-cloudstack://"+with.ID, w.node("with-id", joined).Spec.ProviderID, "its kubelet knows it")
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable} {
		require.NotContains(t, node.Labels, label)
	}
	require.Equal(t, "pool", node.Labels["karpenter.sh/nodepool"])
	looked()
	for _, vm := range []fake.VM{vm, with} {
		node = w.node(vm.Name, func(node *corev1.Node) bool { return !uninitialized(node) })
		require.Equal(t, "external-cloudstack://"+vm.ID, node.Spec.ProviderID)
		require.Equal(t, fake.ZoneA, node.Labels[corev1.LabelTopologyZone])
		require.Equal(t, "m1medium", node.Labels[corev1.LabelInstanceTypeStable])
	}
	// A machine that goes before the cloud controller manager has seen its node leaves none.
	never := w.node("never", joined)
	require.True(t, uninitialized(never))
	w.cloud.RemoveVM(never.Status.NodeInfo.SystemUUID)
	w.gone(never)
}

func TestMachinesThatAreHeldBack(t *testing.T) {
	w := begin(t, Options{JoinDelay: func(vm fake.VM) time.Duration {
		if vm.Name == "late" {
			return 50 * time.Millisecond
		}
		return 0
	}})
	release := w.Hold(func(vm fake.VM) bool { return vm.Name == "held" })
	began := time.Now()
	w.machine("held")
	w.machine("late")
	w.node("late", joined)
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
	require.Error(t, w.kube.Get(w.ctx, types.NamespacedName{Name: "held"}, &corev1.Node{}), "it is held back")
	release()
	w.node("held", joined)
}

func TestAMachineIsGone(t *testing.T) {
	w := begin(t, Options{Silence: 50 * time.Millisecond})
	one, two, three, deleted := w.machine("one"), w.machine("two"), w.machine("three"), w.machine("deleted")
	for _, name := range []string{"one", "two", "three", "deleted"} {
		w.node(name, joined)
	}
	finalized := w.node("two", joined)
	finalized.Finalizers = []string{"karpenter.sh/termination"}
	require.NoError(t, w.kube.Update(w.ctx, finalized))
	require.True(t, w.cloud.RemoveVM(one.ID))
	w.gone(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
	w.gone(leaseOf("one"))

	require.True(t, w.cloud.SetState(two.ID, fake.StateDestroyed))
	node := w.node("two", func(node *corev1.Node) bool { return !node.DeletionTimestamp.IsZero() })
	require.True(t, has(corev1.NodeReady, corev1.ConditionUnknown)(node), "nothing is heard of it")
	w.gone(leaseOf("two"))

	// A node that is being deleted, by Karpenter for instance, is given some time before nothing is heard of it.
	node = w.node("deleted", joined)
	node.Finalizers = []string{"karpenter.sh/termination"}
	require.NoError(t, w.kube.Update(w.ctx, node))
	require.NoError(t, w.kube.Delete(w.ctx, node))
	began := time.Now()
	w.cloud.RemoveVM(deleted.ID)
	w.node("deleted", has(corev1.NodeReady, corev1.ConditionUnknown))
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)

	// A node that another machine has the name of stays.
	node = w.node("three", joined)
	node.Spec.ProviderID = "external-cloudstack://11111111-2222-3333-4444-555555555555"
	require.NoError(t, w.kube.Update(w.ctx, node))
	require.True(t, w.cloud.RemoveVM(three.ID))
	w.machine("four")
	w.node("four", joined)
	w.node("three", joined)
}

func TestAMachineStopsAndRunsAgain(t *testing.T) {
	w := begin(t, Options{})
	vm := w.machine("node")
	w.node("node", joined)
	w.cloud.SetState(vm.ID, fake.StateStopped)
	w.node("node", func(node *corev1.Node) bool {
		return has(corev1.NodeReady, corev1.ConditionUnknown)(node) && tainted(node)
	})
	w.cloud.SetState(vm.ID, fake.StateRunning)
	w.node("node", joined)
}

func TestConditions(t *testing.T) {
	var renewals atomic.Int32
	w := begin(t, Options{Kwok: true, LeasePeriod: time.Millisecond}, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, is := object.(*coordinationv1.Lease); is {
				renewals.Add(1)
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	w.machine("node")
	node := w.node("node", joined)
	require.Equal(t, AnnotationKwokValue, node.Annotations[AnnotationKwok])
	require.Error(t, w.kube.Get(w.ctx, client.ObjectKeyFromObject(leaseOf("node")), leaseOf("node")), "kwok holds the leases")
	since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	broken := corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue, Reason: "Hung", LastTransitionTime: since}
	require.NoError(t, w.SetCondition(w.ctx, "node", broken))
	broken.LastTransitionTime, broken.Reason = metav1.Time{}, "HungStill"
	require.NoError(t, w.SetCondition(w.ctx, "node", broken))
	node = w.node("node", has("KernelDeadlock", corev1.ConditionTrue))
	condition := node.Status.Conditions[len(node.Status.Conditions)-1]
	require.Equal(t, "HungStill", condition.Reason)
	require.True(t, condition.LastTransitionTime.Equal(&since), "it has had that status since then")
	require.Contains(t, node.Annotations, AnnotationKwok)

	require.NoError(t, w.SetReady(w.ctx, "node", corev1.ConditionFalse))
	node = w.node("node", has(corev1.NodeReady, corev1.ConditionFalse))
	require.NotContains(t, node.Annotations, AnnotationKwok, "kwok would make it ready again")
	require.True(t, tainted(node))
	require.NoError(t, w.SetReady(w.ctx, "node", corev1.ConditionTrue))
	node = w.node("node", joined)
	require.Contains(t, node.Annotations, AnnotationKwok)
	require.True(t, apierrors.IsNotFound(w.SetReady(w.ctx, "nobody", corev1.ConditionFalse)))
	require.Zero(t, renewals.Load(), "kwok renews the leases")
}

func TestTheAPIServerIsAway(t *testing.T) {
	var failures atomic.Int32
	failures.Store(3)
	w := begin(t, Options{}, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if failures.Add(-1) >= 0 {
				return errors.New("connection refused")
			}
			return c.Create(ctx, object, options...)
		},
	})
	w.machine("node")
	w.node("node", joined)
	require.Negative(t, failures.Load())
}

func TestMachinesThatRanBefore(t *testing.T) {
	w := begin(t, Options{})
	vm := w.machine("before")
	node := w.node("before", joined)
	// Kubelets that are started again know the node.
	w.start(Options{LeasePeriod: time.Millisecond})
	renewed := leaseOf("before")
	require.NoError(t, w.kube.Get(w.ctx, client.ObjectKeyFromObject(renewed), renewed))
	for range 3 { // once for a node that is there already, and then again and again
		last := renewed.Spec.RenewTime.Time
		require.Eventually(t, func() bool {
			return w.kube.Get(w.ctx, client.ObjectKeyFromObject(renewed), renewed) == nil && renewed.Spec.RenewTime.After(last)
		}, 20*time.Second, 2*time.Millisecond, "the lease is renewed")
	}
	require.Equal(t, node.UID, w.node("before", joined).UID)
	w.cloud.RemoveVM(vm.ID)
	w.gone(node)
}
