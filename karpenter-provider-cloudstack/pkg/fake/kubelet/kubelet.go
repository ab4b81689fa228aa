// Package kubelet plays what machines of an emulated CloudStack would do if they were real: each that runs joins the cluster as a node, as
// its user data says, and the cloud controller manager initialises it and deletes it when the machine is gone. kwok, a process of its own,
// may keep the nodes alive and run their pods.
package kubelet

import (
	"cmp"
	"context"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
)

// AnnotationKwok and its value have kwok manage a node: run it with --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake.
const (
	AnnotationKwok      = "kwok.x-k8s.io/node"
	AnnotationKwokValue = "fake"
)

// ProviderIDPrefix is what CloudStack's cloud controller manager has before the id of a machine.
const ProviderIDPrefix = "external-cloudstack://"

// leaseSeconds is how long a lease of a node lasts.
const leaseSeconds = 40

// Options configure a Kubelet. The zero value is good.
type Options struct {
	// JoinDelay is how long after its machine runs a node joins. Default: no time.
	JoinDelay func(fake.VM) time.Duration
	// CloudControllerDelay has nodes join in two steps, as with --cloud-provider=external. First the kubelet registers its node with the taint
	// node.cloudprovider.kubernetes.io/uninitialized, and with what its user data says only. That long after, the cloud controller manager
	// sets the provider id where there is none, and the labels of zone, region and instance type, and takes the taint away. Nil: nodes join
	// with all of that at once.
	CloudControllerDelay func(fake.VM) time.Duration
	// Kwok leaves leases to kwok, and has nodes annotated for it. kwok does not touch a node whose lease another holds.
	Kwok bool
	// ProviderID is the provider id of a machine whose user data does not tell it. Default: as the cloud controller manager has it.
	ProviderID func(fake.VM) string
	// MemoryLoss is the share of the memory of the offering that the guest does not see. Default: 0.05; less than 0 for none.
	MemoryLoss float64
	// Version is that of the kubelet. Default: v1.35.4.
	Version string
	// Workers is how many nodes are worked on at a time. Default: 8.
	Workers int
	// LeasePeriod is how often leases are renewed. Default: 10 s.
	LeasePeriod time.Duration
	// Silence is how long after its machine is gone a node that is being deleted already turns not ready. Whoever deletes it has most often
	// ended by then. Default: 2 s.
	Silence time.Duration
}

// Kubelet plays the kubelets of all machines, and the cloud controller manager.
type Kubelet struct {
	kube       client.Client
	cloudStack *fake.CloudStack
	options    Options
	queue      workqueue.TypedRateLimitingInterface[string]

	mu       sync.Mutex
	machines map[string]*machine
	holds    map[int]func(fake.VM) bool
	holdID   int
}

// machine is one that was seen to run. Its fields are guarded by the mutex of the Kubelet.
type machine struct {
	vm      fake.VM
	due     time.Time
	gone    time.Time
	joined  bool
	stopped bool
	// initialize is when the cloud controller manager looks at the node; zero when it has, or never does.
	initialize time.Time
}

// New makes a Kubelet. Start has it play.
func New(kube client.Client, cloudStack *fake.CloudStack, options Options) *Kubelet {
	if options.JoinDelay == nil {
		options.JoinDelay = func(fake.VM) time.Duration { return 0 }
	}
	if options.ProviderID == nil {
		options.ProviderID = func(vm fake.VM) string { return ProviderIDPrefix + vm.ID }
	}
	switch {
	case options.MemoryLoss == 0:
		options.MemoryLoss = 0.05
	case options.MemoryLoss < 0:
		options.MemoryLoss = 0
	}
	if options.Version == "" {
		options.Version = "v1.35.4"
	}
	if options.Workers == 0 {
		options.Workers = 8
	}
	if options.LeasePeriod == 0 {
		options.LeasePeriod = 10 * time.Second
	}
	if options.Silence == 0 {
		options.Silence = 2 * time.Second
	}
	return &Kubelet{
		kube: kube, cloudStack: cloudStack, options: options, machines: map[string]*machine{}, holds: map[int]func(fake.VM) bool{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 5*time.Second)),
	}
}

// Start plays until the context ends, and returns then. Machines that run already join too. A Kubelet is started once.
func (k *Kubelet) Start(ctx context.Context) error {
	stops := []func(){
		k.cloudStack.OnRunning(k.see), k.cloudStack.OnStopped(k.see), k.cloudStack.OnGone(k.see),
	}
	for _, vm := range k.cloudStack.VMs() {
		k.see(vm)
	}
	var working sync.WaitGroup
	for range k.options.Workers {
		working.Go(func() {
			for k.work(ctx) {
			}
		})
	}
	if !k.options.Kwok {
		working.Go(func() { k.renewLeases(ctx) })
	}
	<-ctx.Done()
	for _, stop := range stops {
		stop()
	}
	k.queue.ShutDown()
	working.Wait()
	return nil
}

// see takes note of a machine.
func (k *Kubelet) see(vm fake.VM) {
	k.mu.Lock()
	m := k.machines[vm.ID]
	switch {
	case m == nil && vm.State != fake.StateRunning:
		k.mu.Unlock()
		return // it never ran, and has no node
	case m == nil:
		m = &machine{vm: vm, due: time.Now().Add(k.options.JoinDelay(vm))}
		k.machines[vm.ID] = m
	}
	due := m.due
	k.mu.Unlock()
	if delay := time.Until(due); vm.State == fake.StateRunning && delay > 0 {
		k.queue.AddAfter(vm.ID, delay)
		return
	}
	k.queue.Add(vm.ID)
}

// Hold keeps machines that fit from joining, until what it returns is called. Nodes that have joined stay.
func (k *Kubelet) Hold(fits func(fake.VM) bool) (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holdID++
	id := k.holdID
	k.holds[id] = fits
	return func() {
		k.mu.Lock()
		delete(k.holds, id)
		waiting := slices.Collect(maps.Keys(k.machines))
		k.mu.Unlock()
		for _, id := range waiting {
			k.queue.Add(id)
		}
	}
}

func (k *Kubelet) held(vm fake.VM) bool {
	k.mu.Lock()
	holds := slices.Collect(maps.Values(k.holds))
	k.mu.Unlock()
	return slices.ContainsFunc(holds, func(fits func(fake.VM) bool) bool { return fits(vm) })
}

func (k *Kubelet) work(ctx context.Context) bool {
	id, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(id)
	if err := k.reconcile(ctx, id); err != nil {
		if ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("the node of a machine is tried again", "machine", id, "error", err.Error())
			k.queue.AddRateLimited(id)
		}
		return true
	}
	k.queue.Forget(id)
	return true
}

func (k *Kubelet) reconcile(ctx context.Context, id string) error {
	k.mu.Lock()
	m := k.machines[id]
	k.mu.Unlock()
	if m == nil {
		return nil
	}
	vm, there := k.cloudStack.Machine(id)
	switch {
	case !there || vm.State == fake.StateDestroyed || vm.State == fake.StateExpunging || vm.State == fake.StateError:
		return k.gone(ctx, m)
	case vm.State == fake.StateStopped:
		k.mu.Lock()
		joined, stopped := m.joined, m.stopped
		k.mu.Unlock()
		if !joined || stopped {
			return nil
		}
		if err := k.SetReady(ctx, vm.Name, corev1.ConditionUnknown); client.IgnoreNotFound(err) != nil {
			return err
		}
		k.locked(func() { m.stopped = true })
		return nil
	case vm.State != fake.StateRunning:
		return nil
	}
	return k.running(ctx, m, vm)
}

// gone has the node of a machine that is gone deleted, and forgets the machine then.
func (k *Kubelet) gone(ctx context.Context, m *machine) error {
	k.mu.Lock()
	if m.gone.IsZero() {
		m.gone = time.Now()
	}
	silent := time.Until(m.gone.Add(k.options.Silence))
	k.mu.Unlock()
	again, err := k.remove(ctx, m.vm, silent <= 0)
	switch {
	case err != nil:
		return err
	case again:
		k.queue.AddAfter(m.vm.ID, silent)
		return nil
	}
	k.locked(func() { delete(k.machines, m.vm.ID) })
	return nil
}

// locked makes a change with the mutex held.
func (k *Kubelet) locked(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// running has the node of a machine that runs join, or be ready again.
func (k *Kubelet) running(ctx context.Context, m *machine, vm fake.VM) error {
	k.mu.Lock()
	joined, stopped, delay, initialize := m.joined, m.stopped, time.Until(m.due), m.initialize
	k.mu.Unlock()
	switch {
	case joined && !initialize.IsZero():
		if delay := time.Until(initialize); delay > 0 {
			k.queue.AddAfter(vm.ID, delay)
			return nil
		}
		if err := k.initialize(ctx, vm); client.IgnoreNotFound(err) != nil {
			return err
		}
		k.locked(func() { m.initialize = time.Time{} })
		return k.running(ctx, m, vm)
	case joined && stopped:
		if err := k.SetReady(ctx, vm.Name, corev1.ConditionTrue); client.IgnoreNotFound(err) != nil {
			return err
		}
		k.locked(func() { m.stopped = false })
		return nil
	case joined || k.held(vm):
		return nil
	case delay > 0:
		k.queue.AddAfter(vm.ID, delay)
		return nil
	}
	if err := k.join(ctx, vm); err != nil {
		return err
	}
	if k.options.CloudControllerDelay == nil {
		k.locked(func() { m.joined = true })
		return nil
	}
	initialize = time.Now().Add(k.options.CloudControllerDelay(vm))
	k.locked(func() { m.joined, m.initialize = true, initialize })
	k.queue.Add(vm.ID)
	return nil
}

func (k *Kubelet) join(ctx context.Context, vm fake.VM) error {
	node, err := k.node(vm)
	if err != nil {
		return err
	}
	if err := k.kube.Create(ctx, node); err != nil {
		if !apierrors.IsAlreadyExists(err) {
			return errors.Wrap(err, "create the node")
		}
		if err := k.kube.Get(ctx, types.NamespacedName{Name: vm.Name}, node); err != nil {
			return errors.Wrap(err, "read the node")
		}
		if !k.isOf(node, vm) {
			return errors.Errorf("the node %s is of another machine", vm.Name)
		}
	}
	if !k.options.Kwok {
		if err := k.lease(ctx, node); err != nil {
			return err
		}
	}
	// The API server adds this taint to new nodes, and the node lifecycle controller, which may not be there, would take it away.
	return k.setNotReadyTaint(ctx, node, false)
}

var notAlphanumeric = regexp.MustCompile(`[^a-zA-Z0-9]`)

// isOf tells whether a node is that of a machine, and not of one of the same name.
func (k *Kubelet) isOf(node *corev1.Node, vm fake.VM) bool {
	if node.Spec.ProviderID == "" {
		return node.Status.NodeInfo.SystemUUID == vm.ID
	}
	told, err := ParseUserData(vm.UserData)
	return err == nil && node.Spec.ProviderID == cmp.Or(told.providerID(vm.ID), k.options.ProviderID(vm))
}

// uninitialized is the taint of nodes that the cloud controller manager has not looked at.
var uninitialized = corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}

// initialize does with a node what the cloud controller manager does.
func (k *Kubelet) initialize(ctx context.Context, vm fake.VM) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node := &corev1.Node{}
		if err := k.kube.Get(ctx, types.NamespacedName{Name: vm.Name}, node); err != nil {
			return err
		}
		if !k.isOf(node, vm) {
			return nil
		}
		before := node.DeepCopy()
		k.ofCloud(node, vm)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(one corev1.Taint) bool { return one.MatchTaint(&uninitialized) })
		return k.kube.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return errors.Wrap(err, "initialize the node")
}

// ofCloud sets what the cloud knows of a node.
func (k *Kubelet) ofCloud(node *corev1.Node, vm fake.VM) {
	node.Spec.ProviderID = cmp.Or(node.Spec.ProviderID, k.options.ProviderID(vm))
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, map[string]string{
		corev1.LabelTopologyZone: vm.ZoneName, corev1.LabelTopologyRegion: vm.ZoneName,
		corev1.LabelInstanceTypeStable: notAlphanumeric.ReplaceAllString(vm.OfferingName, ""),
	})
}

// node is the node of a machine as its kubelet registers it, and, where the cloud controller manager takes no time, as that leaves it.
func (k *Kubelet) node(vm fake.VM) (*corev1.Node, error) {
	told, err := ParseUserData(vm.UserData)
	if err != nil {
		return nil, err
	}
	arch := "amd64"
	if vm.Arch == "aarch64" {
		arch = "arm64"
	}
	labels := map[string]string{
		corev1.LabelHostname: vm.Name, corev1.LabelArchStable: arch, corev1.LabelOSStable: "linux",
		"beta.kubernetes.io/arch": arch, "beta.kubernetes.io/os": "linux",
	}
	maps.Copy(labels, told.Labels)
	annotations := map[string]string{}
	if k.options.Kwok {
		annotations[AnnotationKwok] = AnnotationKwokValue
	}
	capacity, allocatable := k.resources(vm, told)
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	addresses := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: vm.Name}}
	if vm.Address != "" {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: vm.Address})
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: vm.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: told.providerID(vm.ID), Taints: told.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable, Addresses: addresses,
			Phase: corev1.NodeRunning, // kwok looks at it
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: vm.ID, SystemUUID: vm.ID, BootID: vm.ID, OperatingSystem: "linux", Architecture: arch, KubeletVersion: k.options.Version,
				OSImage: vm.TemplateName, KernelVersion: "6.8.0", ContainerRuntimeVersion: "containerd://2.1.0",
			},
		},
	}
	if k.options.CloudControllerDelay == nil {
		k.ofCloud(node, vm)
		return node, nil
	}
	node.Spec.Taints = append(node.Spec.Taints, uninitialized)
	return node, nil
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// resources are what a node has, and what of it pods get.
func (k *Kubelet) resources(vm fake.VM, told Registration) (capacity, allocatable corev1.ResourceList) {
	pods := told.MaxPods
	if pods == 0 {
		pods = 110
	}
	memory := int64(float64(int64(vm.MemoryMiB)*mib) * (1 - k.options.MemoryLoss))
	capacity = corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(vm.CPU), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(vm.RootDiskGiB*gib, resource.BinarySI),
	}
	if vm.GPUs > 0 {
		capacity[gpuResource(vm.GPUCard)] = *resource.NewQuantity(int64(vm.GPUs), resource.DecimalSI)
	}
	allocatable = capacity.DeepCopy()
	take := func(name corev1.ResourceName, amount resource.Quantity) {
		left, there := allocatable[name]
		if !there {
			return
		}
		left.Sub(amount)
		if left.Sign() < 0 {
			left = resource.MustParse("0")
		}
		allocatable[name] = left
	}
	for _, kept := range []corev1.ResourceList{told.KubeReserved, told.SystemReserved} {
		for name, amount := range kept {
			take(name, amount)
		}
	}
	thresholds := told.EvictionHard
	if len(thresholds) == 0 { // one that is told takes the place of all of them
		thresholds = map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
	}
	for signal, name := range map[string]corev1.ResourceName{
		"memory.available": corev1.ResourceMemory, "nodefs.available": corev1.ResourceEphemeralStorage,
	} {
		has := capacity[name]
		take(name, threshold(thresholds[signal], has))
	}
	return capacity, allocatable
}

// threshold is an amount, or a share of what there is. What cannot be read is nothing.
func threshold(text string, of resource.Quantity) resource.Quantity {
	if number, isShare := strings.CutSuffix(text, "%"); isShare {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return resource.Quantity{}
		}
		return *resource.NewQuantity(int64(math.Ceil(float64(of.Value())*percent/100)), of.Format)
	}
	amount, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return amount
}

// gpuResource is what the device plugin of the maker of a card offers it as.
func gpuResource(card string) corev1.ResourceName {
	switch card = strings.ToLower(card); {
	case strings.Contains(card, "amd"), strings.Contains(card, "radeon"), strings.Contains(card, "instinct"):
		return "amd.com/gpu"
	case strings.Contains(card, "intel"):
		return "gpu.intel.com/i915"
	}
	return "nvidia.com/gpu"
}

// remove deletes the node of a machine that is gone, as the cloud controller manager does once the node is no longer ready. A node that is
// being deleted is left to whoever does so; it turns not ready as well, but not at once, and then again is true.
func (k *Kubelet) remove(ctx context.Context, vm fake.VM, silent bool) (again bool, err error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: vm.Name, Namespace: corev1.NamespaceNodeLease}}
	node := &corev1.Node{}
	err = k.kube.Get(ctx, types.NamespacedName{Name: vm.Name}, node)
	switch deleting := !node.DeletionTimestamp.IsZero(); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, errors.Wrap(err, "read the node")
	case !k.isOf(node, vm):
		return false, nil // a new machine has the name, or it never joined
	case deleting && !silent:
		return true, nil
	default:
		// Nobody posts its status any more.
		if err := k.SetReady(ctx, vm.Name, corev1.ConditionUnknown); client.IgnoreNotFound(err) != nil {
			return false, err
		}
		if deleting {
			break
		}
		if err := k.kube.Delete(ctx, node, client.Preconditions{UID: &node.UID}); client.IgnoreNotFound(err) != nil {
			return false, errors.Wrap(err, "delete the node")
		}
	}
	return false, errors.Wrap(client.IgnoreNotFound(k.kube.Delete(ctx, lease)), "delete the lease of the node")
}

// SetReady makes a node ready (True), not ready (False), or one that nothing is heard of (Unknown), and kwok leave a node alone that is
// not to be ready. The taint that keeps pods off goes with it.
func (k *Kubelet) SetReady(ctx context.Context, nodeName string, status corev1.ConditionStatus) error {
	reason, message := "KubeletReady", "kubelet is posting ready status"
	switch status {
	case corev1.ConditionFalse:
		reason, message = "KubeletNotReady", "container runtime network not ready"
	case corev1.ConditionUnknown:
		reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
	case corev1.ConditionTrue:
	}
	return k.SetCondition(ctx, nodeName, corev1.NodeCondition{Type: corev1.NodeReady, Status: status, Reason: reason, Message: message})
}

// SetCondition sets a condition of a node, such as one that a node problem detector would. Times that are zero are now; a condition that
// has its status already keeps the time since when.
func (k *Kubelet) SetCondition(ctx context.Context, nodeName string, condition corev1.NodeCondition) error {
	now := metav1.Now()
	if condition.LastHeartbeatTime.IsZero() {
		condition.LastHeartbeatTime = now
	}
	if condition.Type == corev1.NodeReady {
		if err := k.giveToKwok(ctx, nodeName, condition.Status == corev1.ConditionTrue); err != nil {
			return err
		}
	}
	node := &corev1.Node{}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := k.kube.Get(ctx, types.NamespacedName{Name: nodeName}, node); err != nil {
			return err
		}
		before := node.DeepCopy()
		wanted := condition
		at := slices.IndexFunc(node.Status.Conditions, func(one corev1.NodeCondition) bool { return one.Type == condition.Type })
		if wanted.LastTransitionTime.IsZero() {
			wanted.LastTransitionTime = now
			if at >= 0 && node.Status.Conditions[at].Status == wanted.Status {
				wanted.LastTransitionTime = node.Status.Conditions[at].LastTransitionTime
			}
		}
		if at >= 0 {
			node.Status.Conditions[at] = wanted
		} else {
			node.Status.Conditions = append(node.Status.Conditions, wanted)
		}
		return k.kube.Status().Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return errors.Wrapf(err, "set the condition %s of the node", condition.Type)
	}
	if condition.Type != corev1.NodeReady {
		return nil
	}
	return k.setNotReadyTaint(ctx, node, condition.Status != corev1.ConditionTrue)
}

// giveToKwok has kwok manage a node, or leave it: kwok makes nodes ready that are not.
func (k *Kubelet) giveToKwok(ctx context.Context, nodeName string, manage bool) error {
	if !k.options.Kwok {
		return nil
	}
	value := "null"
	if manage {
		value = strconv.Quote(AnnotationKwokValue)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+AnnotationKwok+`":`+value+`}}}`))
	return errors.Wrap(k.kube.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, patch), "annotate the node")
}

// setNotReadyTaint has a node with or without the taint of nodes that are not ready.
func (k *Kubelet) setNotReadyTaint(ctx context.Context, node *corev1.Node, want bool) error {
	key := types.NamespacedName{Name: node.Name}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	first := true
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !first {
			if err := k.kube.Get(ctx, key, node); err != nil {
				return err
			}
		}
		first = false
		has := slices.ContainsFunc(node.Spec.Taints, func(one corev1.Taint) bool { return one.MatchTaint(&taint) })
		if has == want {
			return nil
		}
		before := node.DeepCopy()
		if want {
			node.Spec.Taints = append(node.Spec.Taints, taint)
		} else {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(one corev1.Taint) bool { return one.MatchTaint(&taint) })
		}
		return k.kube.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return errors.Wrap(client.IgnoreNotFound(err), "set the taint of the node")
}

// lease makes the lease of a node.
func (k *Kubelet) lease(ctx context.Context, node *corev1.Node) error {
	now := metav1.NewMicroTime(time.Now())
	err := k.kube.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(node.Name), LeaseDurationSeconds: ptr.To[int32](leaseSeconds), RenewTime: &now},
	})
	if apierrors.IsAlreadyExists(err) {
		return k.renew(ctx, node.Name)
	}
	return errors.Wrap(err, "create the lease of the node")
}

func (k *Kubelet) renew(ctx context.Context, nodeName string) error {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"renewTime":"`+time.Now().UTC().Format(metav1.RFC3339Micro)+`"}}`))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Namespace: corev1.NamespaceNodeLease}}
	return errors.Wrap(k.kube.Patch(ctx, lease, patch), "renew the lease of the node")
}

// renewLeases renews the leases of the machines that run.
func (k *Kubelet) renewLeases(ctx context.Context) {
	ticker := time.NewTicker(k.options.LeasePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		k.mu.Lock()
		var names []string
		for _, m := range k.machines {
			if m.joined && !m.stopped {
				names = append(names, m.vm.Name)
			}
		}
		k.mu.Unlock()
		for _, name := range names {
			if err := k.renew(ctx, name); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
				log.FromContext(ctx).V(1).Info("a lease was not renewed", "node", name, "error", err.Error())
			}
		}
	}
}
