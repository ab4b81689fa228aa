package instancetype

import (
	"cmp"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

// Details of offerings with GPUs before CloudStack 4.21, which had one GPU at most.
const (
	detailPCIDevice = "pciDevice"
	detailVGPUType  = "vgpuType"
)

// vendors tell by what GPUs are requested, by words in the name of the card. The first that fits counts: "AMD Radeon Pro V620" has a word
// that looks like one of NVIDIA's.
var vendors = []struct {
	words    *regexp.Regexp
	resource corev1.ResourceName
}{
	{regexp.MustCompile(`(?i)\b(nvidia|tesla|geforce|quadro)`), csv1.ResourceNVIDIAGPU},
	{regexp.MustCompile(`(?i)\b(amd|ati|radeon|instinct|firepro)\b|\bmi[0-9]{2,3}[ax]?\b`), csv1.ResourceAMDGPU},
	{regexp.MustCompile(`(?i)\b(intel|arc|iris|(flex|max) [0-9]+)\b`), csv1.ResourceIntelGPU},
	{regexp.MustCompile(`(?i)\b(grid|rtx|gtx|titan|[abghlkmptv][0-9]{1,4}[sgcqx]?)\b`), csv1.ResourceNVIDIAGPU},
}

// gpus are the GPUs of an offering.
type gpus struct {
	count int
	name  string
}

func gpusOf(offering *cloudstack.ServiceOffering) gpus {
	name := cmp.Or(offering.Gpucardname, offering.Serviceofferingdetails[detailPCIDevice])
	switch {
	case offering.Gpucount > 0:
		return gpus{offering.Gpucount, cmp.Or(name, offering.Vgpuprofilename)}
	case name != "" || offering.Vgpuprofilename != "" || offering.Serviceofferingdetails[detailVGPUType] != "":
		return gpus{1, cmp.Or(name, offering.Vgpuprofilename, offering.Serviceofferingdetails[detailVGPUType])}
	default:
		return gpus{}
	}
}

// resource is what the GPUs are requested by; empty where the name of the card does not tell.
func (g gpus) resource() corev1.ResourceName {
	for _, vendor := range vendors {
		if vendor.words.MatchString(g.name) {
			return vendor.resource
		}
	}
	return ""
}
