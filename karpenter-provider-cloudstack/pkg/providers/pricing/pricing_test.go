package pricing

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

func TestPrice(t *testing.T) {
	quantity := func(text string) *resource.Quantity {
		q := resource.MustParse(text)
		return &q
	}
	size := Size{CPU: 4, MemoryMiB: 8192, GPU: 1, Offering: "Medium Instance", InstanceType: "MediumInstance"}
	tests := []struct {
		name    string
		pricing *csv1.Pricing
		want    float64
		why     string
	}{
		{"no pricing", nil, 4*0.02 + 8*0.005 + 0.5, "the standard prices"},
		{"a price of CPUs", &csv1.Pricing{CPUHour: quantity("1")}, 4 + 8*0.005 + 0.5, "the others keep their standard"},
		{"all prices", &csv1.Pricing{CPUHour: quantity("100m"), MemoryGiBHour: quantity("0.01"), GPUHour: quantity("2")}, 0.4 + 0.08 + 2, ""},
		{"nothing costs", &csv1.Pricing{CPUHour: quantity("0"), MemoryGiBHour: quantity("0"), GPUHour: quantity("0")}, 0, "0 is a price"},
		{"by the offering", &csv1.Pricing{Offerings: map[string]resource.Quantity{"Medium Instance": resource.MustParse("7")}}, 7, "the price of the whole machine"},
		{"by the instance type", &csv1.Pricing{Offerings: map[string]resource.Quantity{
			"Medium Instance": resource.MustParse("7"), "MediumInstance": resource.MustParse("3"),
		}}, 3, "sizes of one offering have prices of their own"},
		{"another offering", &csv1.Pricing{Offerings: map[string]resource.Quantity{"x": resource.MustParse("7")}}, 4*0.02 + 8*0.005 + 0.5, ""},
		{"less than nothing", &csv1.Pricing{Offerings: map[string]resource.Quantity{"Medium Instance": resource.MustParse("-1")}}, 0, "core orders by price, and has no use for debts"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			nodeClass := &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{Pricing: test.pricing}}
			if got := Price(nodeClass, size); math.Abs(got-test.want) > 1e-9 {
				t.Errorf("got %v, want %v: %s", got, test.want, test.why)
			}
		})
	}
}
