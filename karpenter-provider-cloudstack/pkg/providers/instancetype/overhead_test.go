package instancetype

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

func capacityOf(cpu, memory, disk string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourceEphemeralStorage: resource.MustParse(disk),
	}
}

func TestKubeReserved(t *testing.T) {
	tests := []struct{ name, cpu, memory, wantCPU, wantMemory string }{
		{"less than 1 GiB", "1", "512Mi", "60m", "255Mi"},
		{"1 GiB", "1", "1Gi", "60m", "256Mi"},
		{"2 CPUs, 4 GiB", "2", "4Gi", "70m", "1Gi"},
		{"4 CPUs, 8 GiB", "4", "8Gi", "80m", "1844Mi"},
		{"8 CPUs, 16 GiB", "8", "16Gi", "90m", "2663Mi"},
		{"16 CPUs, 128 GiB", "16", "128Gi", "110m", "9544Mi"},
		{"96 CPUs, 256 GiB", "96", "256Gi", "310m", "12166Mi"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := kubeReserved(capacityOf(test.cpu, test.memory, "1Gi"))
			if got.Cpu().Cmp(resource.MustParse(test.wantCPU)) != 0 || got.Memory().Cmp(resource.MustParse(test.wantMemory)) != 0 {
				t.Errorf("got %s and %s, want %s and %s", got.Cpu(), got.Memory(), test.wantCPU, test.wantMemory)
			}
		})
	}
}

func TestOverhead(t *testing.T) {
	type amounts = map[string]string
	tests := []struct {
		name              string
		kubelet           *csv1.KubeletConfiguration
		capacity          corev1.ResourceList
		cpu, memory, disk string // what is left for pods
	}{
		{"standard", nil, capacityOf("2", "4Gi", "100Gi"), "1930m", "2972Mi", "90Gi"},
		{"kept for the kubelet", &csv1.KubeletConfiguration{KubeReserved: amounts{"cpu": "500m", "memory": "1000Mi", "ephemeral-storage": "1Gi", "pid": "1000"}},
			capacityOf("2", "4Gi", "100Gi"), "1500m", "2996Mi", "89Gi"},
		{"what is not said keeps its standard", &csv1.KubeletConfiguration{KubeReserved: amounts{"cpu": "500m"}}, capacityOf("2", "4Gi", "100Gi"), "1500m", "2972Mi", "90Gi"},
		{"kept for the system", &csv1.KubeletConfiguration{SystemReserved: amounts{"cpu": "100m", "memory": "72Mi"}}, capacityOf("2", "4Gi", "100Gi"), "1830m", "2900Mi", "90Gi"},
		{"eviction by amount", &csv1.KubeletConfiguration{EvictionHard: amounts{"memory.available": "200Mi", "nodefs.available": "5Gi"}},
			capacityOf("2", "4Gi", "100Gi"), "1930m", "2872Mi", "95Gi"},
		{"eviction by share", &csv1.KubeletConfiguration{EvictionHard: amounts{"memory.available": "25%", "nodefs.available": "2.5%"}},
			capacityOf("2", "4Gi", "100Gi"), "1930m", "2Gi", "99840Mi"},
		{"no eviction", &csv1.KubeletConfiguration{EvictionHard: amounts{"memory.available": "0%", "nodefs.available": "0"}}, capacityOf("2", "4Gi", "100Gi"), "1930m", "3Gi", "100Gi"},
		{"signals of other things", &csv1.KubeletConfiguration{EvictionHard: amounts{"imagefs.available": "50%", "pid.available": "10%"}},
			capacityOf("2", "4Gi", "100Gi"), "1930m", "2972Mi", "90Gi"},
		{"more than there is", &csv1.KubeletConfiguration{
			KubeReserved: amounts{"cpu": "4"}, SystemReserved: amounts{"memory": "100Gi"}, EvictionHard: amounts{"nodefs.available": "200Gi"},
		}, capacityOf("2", "4Gi", "100Gi"), "0", "0", "0"},
		{"a machine that is too small", nil, capacityOf("1", "256Mi", "0"), "940m", "0", "0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := reservationsOf(test.kubelet)
			if err != nil {
				t.Fatal(err)
			}
			left := test.capacity.DeepCopy()
			for name, kept := range r.overhead(test.capacity).Total() {
				quantity := left[name]
				quantity.Sub(kept)
				left[name] = quantity
			}
			for name, want := range map[corev1.ResourceName]string{
				corev1.ResourceCPU: test.cpu, corev1.ResourceMemory: test.memory, corev1.ResourceEphemeralStorage: test.disk,
			} {
				if got := left[name]; got.Cmp(resource.MustParse(want)) != 0 {
					t.Errorf("%s: %s is left, want %s", name, got.String(), want)
				}
			}
		})
	}
}

func TestKubeletThatCannotBeRead(t *testing.T) {
	type amounts = map[string]string
	tests := []struct {
		name    string
		kubelet csv1.KubeletConfiguration
		says    string
	}{
		{"no amount", csv1.KubeletConfiguration{KubeReserved: amounts{"memory": "12x"}}, `spec.kubelet.kubeReserved[memory]: "12x" is no amount, such as 100m or 1Gi`},
		{"less than nothing", csv1.KubeletConfiguration{SystemReserved: amounts{"cpu": "-1"}}, `spec.kubelet.systemReserved[cpu]: "-1" is no amount`},
		{"no share", csv1.KubeletConfiguration{EvictionHard: amounts{"memory.available": "x%"}}, `spec.kubelet.evictionHard[memory.available]: "x%" is no share from 0% to 100%`},
		{"more than all", csv1.KubeletConfiguration{EvictionHard: amounts{"nodefs.available": "101%"}}, "is no share"},
		{"not a number", csv1.KubeletConfiguration{EvictionHard: amounts{"nodefs.available": "NaN%"}}, "is no share"},
		{"a signal that reserves nothing", csv1.KubeletConfiguration{EvictionHard: amounts{"pid.available": "many"}}, `"many" is no amount, such as 100Mi or 5%`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(Options{}, fixed(1, "small", 2, 4096))
			nodeClass := class(func(c *csv1.CloudStackNodeClass) { c.Spec.Kubelet = &test.kubelet })
			_, inList := w.List(t.Context(), nodeClass)
			_, inOfferings := w.Offerings(t.Context(), nodeClass)
			for _, err := range []error{inList, inOfferings} {
				if e, ok := selector.As(err); !ok || e.Reason != selector.ReasonInvalid || !strings.Contains(e.Message, test.says) {
					t.Errorf("got %v, want: %s", err, test.says)
				}
			}
		})
	}
}
