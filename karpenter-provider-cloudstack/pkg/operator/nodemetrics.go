package operator

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/controller"
	opmetrics "github.com/awslabs/operatorpkg/metrics"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	metricsnode "sigs.k8s.io/karpenter/pkg/controllers/metrics/node"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/metrics"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// NodeMetrics takes the controller of the metrics of nodes out of those of core, where it is one of them, and has the registry tell the same
// metrics without it. That controller works them all out every five seconds, asked or not, and keeps the labels of a node twice for each of
// some twenty figures: with thousands of nodes, that is most of the memory that core takes. Here they are worked out when they are asked for,
// nothing is kept, and equal labels are one.
func NodeMetrics(registry prometheus.Registerer, cluster *state.Cluster, controllers []controller.Controller) ([]controller.Controller, error) {
	left := lo.Reject(controllers, func(c controller.Controller, _ int) bool {
		_, is := c.(*metricsnode.Controller)
		return is
	})
	if len(left) == len(controllers) {
		return controllers, nil // core was told not to observe the cluster
	}
	m := &nodeMetrics{cluster: cluster}
	var err error
	take := func(gauge opmetrics.GaugeMetric) (desc *prometheus.Desc) {
		core, ok := gauge.(prometheus.Collector)
		if !ok {
			err = errors.Errorf("core's metrics of nodes are %T", gauge)
			return nil
		}
		described := make(chan *prometheus.Desc, 1)
		core.Describe(described)
		registry.Unregister(core)
		return <-described
	}
	m.lifetime, m.utilization = take(metricsnode.Lifetime), take(metricsnode.ClusterUtilization)
	m.figures = []figure{
		{take(metricsnode.Allocatable), func(n *state.StateNode) corev1.ResourceList { return n.Node.Status.Allocatable }},
		{take(metricsnode.SystemOverhead), func(n *state.StateNode) corev1.ResourceList {
			return resources.Subtract(n.Node.Status.Capacity, n.Node.Status.Allocatable)
		}},
		{take(metricsnode.TotalPodRequests), (*state.StateNode).PodRequests},
		{take(metricsnode.TotalPodLimits), (*state.StateNode).PodLimits},
		{take(metricsnode.TotalDaemonRequests), (*state.StateNode).DaemonSetRequests},
		{take(metricsnode.TotalDaemonLimits), (*state.StateNode).DaemonSetLimits},
	}
	if err != nil {
		return nil, err
	}
	return left, errors.Wrap(registry.Register(m), "register the metrics of nodes")
}

// nodeMetrics tells core's metrics of nodes.
type nodeMetrics struct {
	cluster               *state.Cluster
	lifetime, utilization *prometheus.Desc
	figures               []figure
}

// figure is a metric that a node has for each resource.
type figure struct {
	desc *prometheus.Desc
	of   func(*state.StateNode) corev1.ResourceList
}

// Describe implements prometheus.Collector.
func (m *nodeMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.lifetime
	descs <- m.utilization
	for _, f := range m.figures {
		descs <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (m *nodeMetrics) Collect(samples chan<- prometheus.Metric) {
	// Whoever reads may be slow, and the state of the cluster is locked until all nodes have been looked at.
	for _, s := range m.samples() {
		samples <- s
	}
}

func (m *nodeMetrics) samples() []sample {
	var samples []sample
	shared := labels{}
	allocatable, requested := corev1.ResourceList{}, corev1.ResourceList{}
	for n := range m.cluster.Nodes() {
		if n.Node == nil {
			continue
		}
		resources.MergeInto(allocatable, n.Allocatable())
		resources.MergeInto(requested, n.PodRequests())
		// Prometheus wants labels in the order of their names. That of the resource has its place in it.
		of := labelsOf(n)
		of[metrics.ResourceTypeLabel] = ""
		names := lo.Keys(of)
		slices.Sort(names)
		all := lo.Map(names, func(name string, _ int) *dto.LabelPair { return shared.pair(name, of[name]) })
		place := slices.Index(names, metrics.ResourceTypeLabel)
		samples = append(samples, sample{m.lifetime, time.Since(n.Node.CreationTimestamp.Time).Seconds(), slices.Delete(slices.Clone(all), place, place+1)})
		for _, f := range m.figures {
			for name, quantity := range f.of(n) {
				own := slices.Clone(all)
				own[place] = shared.pair(metrics.ResourceTypeLabel, snakeCase(string(name)))
				samples = append(samples, sample{f.desc, amount(name, quantity), own})
			}
		}
	}
	for name, whole := range allocatable {
		if part := requested[name]; whole.Value() != 0 {
			samples = append(samples, sample{
				m.utilization, 100 * amount(name, part) / amount(name, whole),
				[]*dto.LabelPair{shared.pair(metrics.ResourceTypeLabel, snakeCase(string(name)))},
			})
		}
	}
	return samples
}

// labelsOf are the labels that the metrics of a node have: its name, its state, and the labels that Karpenter knows, by the last part of their names.
func labelsOf(n *state.StateNode) map[string]string {
	of := map[string]string{}
	for label := range karpv1.WellKnownLabels {
		if _, name, ok := strings.Cut(label, "/"); ok {
			of[snakeCase(name)] = n.Node.Labels[label]
		}
	}
	of["node_name"], of["phase"], of["managed"] = n.Node.Name, string(n.Node.Status.Phase), strconv.FormatBool(n.Managed())
	return of
}

// amount is a quantity in whole units, CPU in thousandths of one.
func amount(name corev1.ResourceName, quantity resource.Quantity) float64 {
	if name == corev1.ResourceCPU {
		return float64(quantity.MilliValue()) / 1000
	}
	return float64(quantity.Value())
}

func snakeCase(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// labels are the pairs of name and value that there are.
type labels map[[2]string]*dto.LabelPair

func (l labels) pair(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	if l[key] == nil {
		l[key] = &dto.LabelPair{Name: &name, Value: &value}
	}
	return l[key]
}

// sample is a value of a metric.
type sample struct {
	desc   *prometheus.Desc
	value  float64
	labels []*dto.LabelPair
}

// Desc implements prometheus.Metric.
func (s sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s sample) Write(into *dto.Metric) error {
	into.Label, into.Gauge = s.labels, &dto.Gauge{Value: &s.value}
	return nil
}
