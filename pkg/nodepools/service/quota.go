package service

import (
	"fmt"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// Quotas bound what one owner may have. 0 is no bound.
type Quotas struct {
	// Clusters and NodePools count objects, those that are being deleted too: their machines are still there.
	Clusters, NodePools int
	// Nodes counts the most nodes that the specs of all node pools and clusters allow together.
	Nodes int
}

// checkQuota checks, after an object was put, that its owner has no more than they may.
func (c *change) checkQuota(o *object, created bool, nodesBefore int32) error {
	quotas := c.options.Quotas
	limit := quotas.NodePools
	if o.Kind == store.Cluster {
		limit = quotas.Clusters
	}
	if created && limit > 0 {
		have, err := c.tx.CountOwned(o.Kind, o.record.Owner)
		if err != nil {
			return err
		}
		if have > limit {
			return exceeded(fmt.Sprintf("%ss", noun(o.Kind)), limit, have-1, 1)
		}
	}
	more := o.nodes() - nodesBefore
	if quotas.Nodes == 0 || more <= 0 {
		return nil
	}
	have, err := c.tx.NodesOwned(o.record.Owner)
	if err != nil {
		return err
	}
	if have > quotas.Nodes {
		return exceeded("nodes", quotas.Nodes, have-int(more), int(more))
	}
	return nil
}

func exceeded(what string, limit, have, more int) error {
	return fail(ReasonQuotaExceeded, fmt.Sprintf("the quota of %d %s does not allow this", limit, what),
		fmt.Sprintf("there are %d, and this adds %d: delete what is not needed, or ask an administrator for more", have, more))
}
