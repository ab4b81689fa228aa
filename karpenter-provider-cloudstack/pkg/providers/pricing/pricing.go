// Package pricing tells what machines cost. CloudStack knows no prices: they come from the CloudStackNodeClass, or follow from sizes.
package pricing

import (
	"k8s.io/apimachinery/pkg/api/resource"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// Prices of an hour where the CloudStackNodeClass has none, in any currency.
const (
	// DefaultCPUHour is the price of a virtual CPU.
	DefaultCPUHour = 0.02
	// DefaultMemoryGiBHour is the price of a GiB of memory.
	DefaultMemoryGiBHour = 0.005
	// DefaultGPUHour is the price of a GPU.
	DefaultGPUHour = 0.5
)

const mibPerGiB = 1024

// Size is what a machine has.
type Size struct {
	// CPU is the number of virtual CPUs.
	CPU int
	// MemoryMiB is the memory in MiB.
	MemoryMiB int
	// GPU is the number of GPUs.
	GPU int
	// Offering is the name of the service offering.
	Offering string
	// InstanceType is the name of the instance type. It tells the sizes of one offering apart, and goes before the name of the offering.
	InstanceType string
}

// Price is what an hour of a machine costs, never less than 0.
func Price(nodeClass *csv1.CloudStackNodeClass, size Size) float64 {
	pricing := csv1.Pricing{}
	if nodeClass.Spec.Pricing != nil {
		pricing = *nodeClass.Spec.Pricing
	}
	for _, name := range []string{size.InstanceType, size.Offering} {
		if price, ok := pricing.Offerings[name]; ok && name != "" {
			return max(price.AsApproximateFloat64(), 0)
		}
	}
	return float64(size.CPU)*orDefault(pricing.CPUHour, DefaultCPUHour) +
		float64(size.MemoryMiB)/mibPerGiB*orDefault(pricing.MemoryGiBHour, DefaultMemoryGiBHour) +
		float64(size.GPU)*orDefault(pricing.GPUHour, DefaultGPUHour)
}

func orDefault(price *resource.Quantity, standard float64) float64 {
	if price == nil {
		return standard
	}
	return max(price.AsApproximateFloat64(), 0)
}
