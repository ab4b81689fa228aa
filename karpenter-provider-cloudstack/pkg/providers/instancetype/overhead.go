package instancetype

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// Signals of the kubelet that reserve something that pods request.
const (
	signalMemory = "memory.available"
	signalNodeFS = "nodefs.available"
)

// defaultEviction are the thresholds of the kubelet, less those that reserve nothing.
var defaultEviction = map[string]string{signalMemory: "100Mi", signalNodeFS: "10%"}

// reservations are what a kubelet keeps from pods.
type reservations struct {
	maxPods      int64
	kube, system corev1.ResourceList
	eviction     map[corev1.ResourceName]threshold
}

// threshold is an amount, or a share of the capacity.
type threshold struct {
	quantity resource.Quantity
	share    float64
}

func (t threshold) of(capacity resource.Quantity) resource.Quantity {
	if t.share > 0 {
		return *resource.NewQuantity(int64(math.Ceil(t.share*float64(capacity.Value()))), capacity.Format)
	}
	return t.quantity
}

// reservationsOf reads the configuration of the kubelet. The error is a *selector.Error that names the field.
func reservationsOf(kubelet *csv1.KubeletConfiguration) (reservations, error) {
	if kubelet == nil {
		kubelet = &csv1.KubeletConfiguration{}
	}
	r := reservations{maxPods: int64(lo.FromPtrOr(kubelet.MaxPods, csv1.DefaultMaxPods)), eviction: map[corev1.ResourceName]threshold{}}
	var err error
	if r.kube, err = resourcesOf("spec.kubelet.kubeReserved", kubelet.KubeReserved); err != nil {
		return reservations{}, err
	}
	if r.system, err = resourcesOf("spec.kubelet.systemReserved", kubelet.SystemReserved); err != nil {
		return reservations{}, err
	}
	signals := lo.Assign(defaultEviction, kubelet.EvictionHard)
	for _, signal := range slices.Sorted(maps.Keys(signals)) {
		amount, err := thresholdOf(signals[signal])
		if err != nil {
			return reservations{}, selector.Errorf(selector.ReasonInvalid, "spec.kubelet.evictionHard[%s]: %s", signal, err)
		}
		switch signal {
		case signalMemory:
			r.eviction[corev1.ResourceMemory] = amount
		case signalNodeFS:
			r.eviction[corev1.ResourceEphemeralStorage] = amount
		}
	}
	return r, nil
}

// resourcesOf reads amounts, less those of what pods do not request.
func resourcesOf(field string, amounts map[string]string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		quantity, err := resource.ParseQuantity(amounts[name])
		if err != nil || quantity.Sign() < 0 {
			return nil, selector.Errorf(selector.ReasonInvalid, "%s[%s]: %q is no amount, such as 100m or 1Gi", field, name, amounts[name])
		}
		switch resourceName := corev1.ResourceName(name); resourceName {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			list[resourceName] = quantity
		}
	}
	return list, nil
}

func thresholdOf(text string) (threshold, error) {
	if number, isShare := strings.CutSuffix(text, "%"); isShare {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return threshold{}, errors.Errorf("%q is no share from 0%% to 100%%", text)
		}
		return threshold{share: percent / 100}, nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return threshold{}, errors.Errorf("%q is no amount, such as 100Mi or 5%%", text)
	}
	return threshold{quantity: quantity}, nil
}

// overhead is what a node keeps of its capacity. All of it together is never more than the capacity: eviction gives way first, the
// kubelet last.
func (r reservations) overhead(capacity corev1.ResourceList) *cloudprovider.InstanceTypeOverhead {
	overhead := &cloudprovider.InstanceTypeOverhead{
		KubeReserved:      lo.Assign(kubeReserved(capacity), r.kube),
		SystemReserved:    maps.Clone(r.system),
		EvictionThreshold: corev1.ResourceList{},
	}
	for name, amount := range r.eviction {
		if has, ok := capacity[name]; ok {
			overhead.EvictionThreshold[name] = amount.of(has)
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		left := capacity[name].DeepCopy()
		for _, list := range []corev1.ResourceList{overhead.KubeReserved, overhead.SystemReserved, overhead.EvictionThreshold} {
			kept, ok := list[name]
			if !ok {
				continue
			}
			if kept.Cmp(left) > 0 {
				kept = left.DeepCopy()
				list[name] = kept
			}
			left.Sub(kept)
		}
	}
	return overhead
}

// step is a part of an amount, and the share of it that is kept.
type step struct{ upTo, share float64 }

// What GKE keeps for Kubernetes. https://cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes
var (
	cpuSteps    = []step{{1, 0.06}, {2, 0.01}, {4, 0.005}, {math.Inf(1), 0.0025}}
	memorySteps = []step{{4, 0.25}, {8, 0.20}, {16, 0.10}, {128, 0.06}, {math.Inf(1), 0.02}}
)

// leastMemory is what GKE keeps on machines with less than 1 GiB.
const leastMemory = 255 * mib

// kubeReserved is what GKE keeps on a machine of that capacity.
func kubeReserved(capacity corev1.ResourceList) corev1.ResourceList {
	memory := leastMemory
	if bytes := capacity.Memory().Value(); bytes >= gib {
		memory = int64(math.Ceil(kept(memorySteps, float64(bytes)/float64(gib)) * float64(gib/mib)))
		memory *= mib
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(math.Ceil(kept(cpuSteps, capacity.Cpu().AsApproximateFloat64())*1000-1e-9)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}

func kept(steps []step, amount float64) float64 {
	var sum, from float64
	for _, step := range steps {
		if amount <= from {
			break
		}
		sum += (min(amount, step.upTo) - from) * step.share
		from = step.upTo
	}
	return sum
}
