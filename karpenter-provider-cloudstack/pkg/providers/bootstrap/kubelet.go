package bootstrap

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// Labels are the labels of a node.
type Labels map[string]string

// String has them as --node-labels of the kubelet takes them: key=value, comma separated, in the order of their keys.
func (l Labels) String() string { return strings.Join(pairs(l), ",") }

// Taints are the taints of a node.
type Taints []corev1.Taint

// String has them as --register-with-taints of the kubelet takes them: key=value:effect, comma separated.
func (t Taints) String() string { return strings.Join(t.list(), ",") }

func (t Taints) list() []string {
	return lo.Map(t, func(taint corev1.Taint, _ int) string {
		if taint.Value == "" {
			return taint.Key + ":" + string(taint.Effect)
		}
		return taint.Key + "=" + taint.Value + ":" + string(taint.Effect)
	})
}

// Arguments are settings of the kubelet by the names of its flags, without hyphens before them.
type Arguments map[string]string

// plain is what means nothing but itself to a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]*$`)

// String has them as flags for a shell, in the order of their names. Those that a shell would not take as they are have quotes.
func (a Arguments) String() string {
	return strings.Join(lo.Map(pairs(a), func(pair string, _ int) string {
		return "--" + lo.TernaryF(plain.MatchString(pair), func() string { return pair }, func() string { return shellQuote(pair) })
	}), " ")
}

// pairs are key=value, in the order of the keys.
func pairs[M ~map[string]string](m M) []string {
	return lo.Map(slices.Sorted(maps.Keys(m)), func(key string, _ int) string { return key + "=" + m[key] })
}

// kubeletLabels are the labels below kubernetes.io that a kubelet may set itself, and kubeletDomains the domains below which it may. With
// any other the kubelet does not start.
// https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go
var (
	kubeletLabels = sets.New(
		corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	)
	kubeletDomains = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}
	// coreLabels are set by Karpenter when it knows the node; kubernetes.io/hostname by the kubelet.
	coreLabels = sets.New(karpv1.NodeRegisteredLabelKey, karpv1.NodeInitializedLabelKey, corev1.LabelHostname)
)

// settable tells whether a kubelet may set a label. Karpenter sets the others when the node registers.
func settable(key string) bool {
	if coreLabels.Has(key) {
		return false
	}
	domain, _, hasDomain := strings.Cut(key, "/")
	below := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	if !hasDomain || !below("kubernetes.io") && !below("k8s.io") {
		return true
	}
	return kubeletLabels.Has(key) || slices.ContainsFunc(kubeletDomains, below)
}

// kubeletArguments are the settings of the kubelet, without those of the machine. What it keeps for itself is what the instance type has
// as overhead, so that the node has room for what the scheduler has promised.
func kubeletArguments(kubelet *csv1.KubeletConfiguration, instanceType *cloudprovider.InstanceType) (Arguments, error) {
	if kubelet == nil {
		kubelet = &csv1.KubeletConfiguration{}
	}
	var overhead cloudprovider.InstanceTypeOverhead
	maxPods := int64(lo.FromPtrOr(kubelet.MaxPods, csv1.DefaultMaxPods))
	if instanceType != nil {
		overhead = lo.FromPtr(instanceType.Overhead)
		if pods, known := instanceType.Capacity[corev1.ResourcePods]; known && pods.Value() > 0 {
			maxPods = pods.Value()
		}
	}
	arguments := Arguments{"max-pods": strconv.FormatInt(maxPods, 10)}
	for name, from := range map[string]struct {
		field    string
		spec     map[string]string
		overhead corev1.ResourceList
	}{
		"kube-reserved":   {"kubelet.kubeReserved", kubelet.KubeReserved, overhead.KubeReserved},
		"system-reserved": {"kubelet.systemReserved", kubelet.SystemReserved, overhead.SystemReserved},
	} {
		kept := map[string]string{}
		for key, text := range from.spec {
			quantity, err := resource.ParseQuantity(text)
			if err != nil || quantity.Sign() < 0 || !plain.MatchString(key) {
				return nil, failure("KubeletInvalid", "%s: %q is no amount of %s: write one such as 100m, 512Mi or 1Gi", from.field, text, key)
			}
			kept[key] = quantity.String()
		}
		for key, quantity := range from.overhead {
			if quantity.Sign() > 0 {
				kept[string(key)] = quantity.String()
			}
		}
		if len(kept) > 0 {
			arguments[name] = strings.Join(pairs(kept), ",")
		}
	}
	if len(kubelet.EvictionHard) > 0 {
		var signals []string
		all := lo.Assign(defaultEviction, kubelet.EvictionHard)
		for _, signal := range slices.Sorted(maps.Keys(all)) {
			text := all[signal]
			if !isThreshold(text) || !plain.MatchString(signal) {
				return nil, failure("KubeletInvalid",
					"kubelet.evictionHard: %q is no threshold of %s: write an amount such as 100Mi, or a percentage such as 5%%", text, signal)
			}
			signals = append(signals, fmt.Sprintf("%s<%s", signal, text))
		}
		arguments["eviction-hard"] = strings.Join(signals, ",")
	}
	if len(kubelet.ClusterDNS) > 0 {
		for _, address := range kubelet.ClusterDNS {
			if parsed, err := netip.ParseAddr(address); err != nil || parsed.Zone() != "" {
				return nil, failure("KubeletInvalid", "kubelet.clusterDNS: %q is no IP address", address)
			}
		}
		arguments["cluster-dns"] = strings.Join(kubelet.ClusterDNS, ",")
	}
	return arguments, nil
}

// defaultEviction are the thresholds of a kubelet that is told none. One that is told some has no others, and would let its disk run full;
// Karpenter reckons with all of them.
// https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds
var defaultEviction = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

func isThreshold(text string) bool {
	if number, isPercentage := strings.CutSuffix(text, "%"); isPercentage {
		percent, err := strconv.ParseFloat(number, 64)
		return err == nil && percent >= 0 && percent <= 100
	}
	quantity, err := resource.ParseQuantity(text)
	return err == nil && quantity.Sign() >= 0
}
