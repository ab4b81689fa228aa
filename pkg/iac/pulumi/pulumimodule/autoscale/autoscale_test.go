package autoscale

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		least := rapid.Uint32Range(0, 50).Draw(r, "min")
		bounds := Bounds{
			AutoScale: rapid.Bool().Draw(r, "auto_scale"),
			NodeCount: rapid.Uint32Range(0, 100).Draw(r, "count"),
			MinNodes:  least,
			MaxNodes:  rapid.Uint32Range(least, 100).Draw(r, "max"),
		}
		first, flag := bounds.FirstCount(), bounds.NodesFlag("workers")
		if !bounds.AutoScale {
			if first != int(bounds.NodeCount) || flag != "" {
				r.Fatalf("a fixed pool of %d starts with %d and has the flag %q", bounds.NodeCount, first, flag)
			}
			return
		}
		if first < int(bounds.MinNodes) || first > int(bounds.MaxNodes) {
			r.Fatalf("starts with %d, outside %d to %d", first, bounds.MinNodes, bounds.MaxNodes)
		}
		if bounds.MinNodes <= bounds.NodeCount && bounds.NodeCount <= bounds.MaxNodes && first != int(bounds.NodeCount) {
			r.Fatalf("starts with %d, not with the %d that is within the bounds", first, bounds.NodeCount)
		}
		var low, high uint32
		if _, err := fmt.Sscanf(flag, "--nodes=%d:%d:workers", &low, &high); err != nil || low != bounds.MinNodes || high != bounds.MaxNodes {
			r.Fatalf("flag %q (%v), want %d to %d", flag, err, bounds.MinNodes, bounds.MaxNodes)
		}
	})
}
