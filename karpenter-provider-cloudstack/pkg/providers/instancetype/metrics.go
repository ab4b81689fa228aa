package instancetype

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// shownFor is how long instance types that nobody asks for are shown. Core asks every few seconds for those of a NodePool.
const shownFor = 10 * time.Minute

// The names are those of other providers of Karpenter. There is a CloudStackNodeClass more to tell apart here: what an offering costs, and
// whether it can be had, depends on it.
var (
	priceDesc = prometheus.NewDesc("karpenter_cloudprovider_instance_type_offering_price_estimate",
		"What an hour of a machine costs, in the unit of spec.pricing, by instance type, capacity type, zone and CloudStackNodeClass.",
		[]string{"instance_type", "capacity_type", "zone", "nodeclass"}, nil)
	availableDesc = prometheus.NewDesc("karpenter_cloudprovider_instance_type_offering_available",
		"Whether machines can be started (1), or there was no room three minutes ago or less, or no template or network (0), by instance type, "+
			"capacity type, zone and CloudStackNodeClass.",
		[]string{"instance_type", "capacity_type", "zone", "nodeclass"}, nil)
)

// shown are the catalogues that metrics are made of.
var shown = &collector{catalogues: map[string]shownCatalogue{}}

func init() { metrics.Registry.MustRegister(shown) }

type shownCatalogue struct {
	*catalogue
	clock clock.PassiveClock
}

// collector makes metrics of the catalogues when it is asked: nothing has to be kept up to date besides.
type collector struct {
	mu         sync.Mutex
	catalogues map[string]shownCatalogue
}

func (c *collector) show(nodeClass string, one *catalogue, clk clock.PassiveClock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catalogues[nodeClass] = shownCatalogue{one, clk}
}

// Describe implements prometheus.Collector.
func (*collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- priceDesc
	descs <- availableDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(into chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for nodeClass, one := range c.catalogues {
		if one.clock.Since(time.Unix(0, one.used.Load())) > shownFor {
			delete(c.catalogues, nodeClass)
			continue
		}
		told := map[[3]string]bool{} // zones may share a name, and metrics no labels
		for _, it := range one.types {
			for _, offering := range it.Offerings {
				labels := [3]string{it.Name, offering.CapacityType(), offering.Zone()}
				if told[labels] {
					continue
				}
				told[labels] = true
				available := 0.0
				if offering.Available {
					available = 1
				}
				values := append(labels[:], nodeClass)
				into <- prometheus.MustNewConstMetric(priceDesc, prometheus.GaugeValue, offering.Price, values...)
				into <- prometheus.MustNewConstMetric(availableDesc, prometheus.GaugeValue, available, values...)
			}
		}
	}
}
