package instancetype

import (
	"fmt"
	"testing"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

// BenchmarkList makes 400 instance types in 5 zones, which is what core benchmarks its scheduler with.
func BenchmarkList(b *testing.B) {
	offerings := make([]*cloudstack.ServiceOffering, 400)
	for i := range offerings {
		offerings[i] = fixed(i, fmt.Sprintf("offering %d", i), 1+i%64, 1024*(1+i%128))
	}
	nodeClass := class(func(c *csv1.CloudStackNodeClass) {
		c.Status.Zones, c.Status.Networks, c.Status.Templates = nil, nil, nil
		for z := range 5 {
			zone := fmt.Sprintf("z%d", z)
			c.Status.Zones = append(c.Status.Zones, csv1.ZoneStatus{ID: zone, Name: "zone-" + zone})
			c.Status.Networks = append(c.Status.Networks, csv1.NetworkStatus{ID: "n" + zone, ZoneID: zone})
			c.Status.Templates = append(c.Status.Templates, csv1.TemplateStatus{ID: "t-amd", ZoneID: zone, Architecture: "amd64"})
		}
	})
	w := newWorld(Options{MemoryOverheadPercent: 7.5}, offerings...)
	run := func(b *testing.B, before func()) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			before()
			got, err := w.List(b.Context(), nodeClass)
			if err != nil || len(got) != 400 || len(got[0].Offerings) != 5 {
				b.Fatalf("%d instance types, %v", len(got), err)
			}
		}
	}
	b.Run("warm", func(b *testing.B) { run(b, func() {}) })
	b.Run("cold", func(b *testing.B) { run(b, func() { clear(w.types) }) })
}
