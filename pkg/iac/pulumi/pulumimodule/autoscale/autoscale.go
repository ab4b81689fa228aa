// Package autoscale holds the bounds between which an autoscaler may size a node pool.
package autoscale

import "fmt"

// Bounds are the sizes of a node pool, as every pool's spec gives them.
type Bounds struct {
	// AutoScale tells whether an autoscaler may change the number of nodes.
	AutoScale bool
	// NodeCount is the number of nodes; with AutoScale, the number at first.
	NodeCount uint32
	// MinNodes and MaxNodes are the fewest and the most nodes the autoscaler may leave or make. Zero without AutoScale.
	MinNodes, MaxNodes uint32
}

// Spec is a spec of a node pool.
type Spec interface {
	GetAutoScale() bool
	GetNodeCount() uint32
	GetMinNodes() uint32
	GetMaxNodes() uint32
}

// Of returns the bounds of a node pool's spec.
func Of(spec Spec) Bounds {
	return Bounds{
		AutoScale: spec.GetAutoScale(),
		NodeCount: spec.GetNodeCount(),
		MinNodes:  spec.GetMinNodes(),
		MaxNodes:  spec.GetMaxNodes(),
	}
}

// FirstCount returns how many nodes the pool is created with. With AutoScale it lies within the bounds, which the rules of
// the spec guarantee already; a program that skips them gets the nearest bound, not a pool that the autoscaler must mend.
func (b Bounds) FirstCount() int {
	count := b.NodeCount
	if b.AutoScale {
		count = min(max(count, b.MinNodes), b.MaxNodes)
	}
	return int(count)
}

// NodesFlag returns the argument that a cluster autoscaler (1.28 or later) is started with for the pool, such as
// "--nodes=1:5:workers"; empty without AutoScale.
// https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/civo
func (b Bounds) NodesFlag(pool string) string {
	if !b.AutoScale {
		return ""
	}
	return fmt.Sprintf("--nodes=%d:%d:%s", b.MinNodes, b.MaxNodes, pool)
}
