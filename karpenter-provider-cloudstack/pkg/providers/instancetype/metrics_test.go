package instancetype

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

// Prices and availability are told of each offering, by the names that other providers of Karpenter have for them.
func TestMetricsOfOfferings(t *testing.T) {
	const price, available = "karpenter_cloudprovider_instance_type_offering_price_estimate", "karpenter_cloudprovider_instance_type_offering_available"
	shown.mu.Lock()
	clear(shown.catalogues)
	shown.mu.Unlock()
	w := newWorld(Options{}, fixed(1, "small", 2, 4096))
	priced := func(name, amount string) *csv1.CloudStackNodeClass {
		return class(func(c *csv1.CloudStackNodeClass) {
			c.Name, c.UID = name, ""
			c.Spec.Pricing = &csv1.Pricing{Offerings: map[string]resource.Quantity{"small": resource.MustParse(amount)}}
		})
	}
	one, two := priced("one", "0.5"), priced("two", "2")
	two.Status.Zones = append(two.Status.Zones[:1:1], csv1.ZoneStatus{ID: "z9", Name: "zone-1"}) // of one name
	expect := func(reason string, lines ...string) {
		t.Helper()
		text := "# HELP " + price + " What an hour of a machine costs, in the unit of spec.pricing, by instance type, capacity type, zone and CloudStackNodeClass.\n" +
			"# TYPE " + price + " gauge\n# HELP " + available + " Whether machines can be started (1), or there was no room three minutes ago or less, or no template or " +
			"network (0), by instance type, capacity type, zone and CloudStackNodeClass.\n# TYPE " + available + " gauge\n"
		for _, line := range lines {
			name, rest, _ := strings.Cut(line, " ")
			text += map[string]string{"price": price, "available": available}[name] + rest + "\n"
		}
		if len(lines) == 0 {
			text = ""
		}
		if err := testutil.GatherAndCompare(metrics.Registry, strings.NewReader(text), price, available); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
	expect("nobody has asked")
	list(t, w, one)
	list(t, w, two)
	prices := []string{
		`price {capacity_type="on-demand",instance_type="small",nodeclass="one",zone="zone-1"} 0.5`,
		`price {capacity_type="on-demand",instance_type="small",nodeclass="one",zone="zone-2"} 0.5`,
		`price {capacity_type="on-demand",instance_type="small",nodeclass="two",zone="zone-1"} 2`,
	}
	rooms := func(first string) []string {
		return append(prices[:3:3], `available {capacity_type="on-demand",instance_type="small",nodeclass="one",zone="zone-1"} `+first,
			`available {capacity_type="on-demand",instance_type="small",nodeclass="one",zone="zone-2"} 1`,
			`available {capacity_type="on-demand",instance_type="small",nodeclass="two",zone="zone-1"} 1`)
	}
	expect("all have room", rooms("1")...)
	w.unavailable.Mark(t.Context(), "test", "small", "zone-1", "on-demand")
	list(t, w, one)
	expect("one has no room", rooms("0")...)
	w.clock.Step(unavailableFor)
	list(t, w, one)
	expect("it has room again", rooms("1")...)
	w.clock.Step(shownFor + time.Second)
	expect("nobody asks any more")
}
