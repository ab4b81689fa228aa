package service

import (
	"context"
	"slices"
	"strconv"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/types/known/emptypb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/status"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// DeleteNodePool asks for the deletion of a pool. The pool stays until its controllers say that nothing is left of it; asking again
// is no error meanwhile.
func (s *Service) DeleteNodePool(ctx context.Context, request *nodepoolsv1.DeleteNodePoolRequest) (*emptypb.Empty, error) {
	who, err := deleter(ctx, request.GetForce())
	if err != nil {
		return nil, err
	}
	id, err := canonicalID("id", request.GetId())
	if err != nil {
		return nil, err
	}
	return answer(ctx, s, call{who.Name, "DeleteNodePool", request, request.GetDryRun()}, newEmpty, func(c *change) (*emptypb.Empty, store.Key, error) {
		key := store.Key{Kind: store.NodePool, ID: id}
		pool, err := c.loadPool(who, key, request.GetClusterId())
		if err != nil {
			return nil, key, err
		}
		if err := checkPreconditions(c.request, pool.record, request.GetResourceVersion()); err != nil {
			return nil, key, err
		}
		if request.GetForce() {
			return newEmpty(), key, c.forget(pool, "force-delete")
		}
		return newEmpty(), key, c.delete(pool)
	})
}

// DeleteCluster asks for the deletion of a cluster that has no pools, or of all its pools and then of the cluster.
func (s *Service) DeleteCluster(ctx context.Context, request *nodepoolsv1.DeleteClusterRequest) (*emptypb.Empty, error) {
	who, err := deleter(ctx, request.GetForce())
	if err != nil {
		return nil, err
	}
	id, err := canonicalID("id", request.GetId())
	if err != nil {
		return nil, err
	}
	return answer(ctx, s, call{who.Name, "DeleteCluster", request, request.GetDryRun()}, newEmpty, func(c *change) (*emptypb.Empty, store.Key, error) {
		key := store.Key{Kind: store.Cluster, ID: id}
		cluster, err := c.loadFor(who, key)
		if err != nil {
			return nil, key, err
		}
		if err := checkPreconditions(c.request, cluster.record, request.GetResourceVersion()); err != nil {
			return nil, key, err
		}
		records, err := c.tx.Pools(id)
		if err != nil {
			return nil, key, err
		}
		if len(records) > 0 && !request.GetForce() && !request.GetCascade() && !cluster.deleting() {
			return nil, key, fail(ReasonConflict, "Cluster has "+strconv.Itoa(len(records))+" node pools", "delete them first, or delete the cluster with cascade=true")
		}
		if request.GetForce() {
			return newEmpty(), key, c.forgetCluster(cluster, records)
		}
		// The cluster first: a pool that goes at once then takes the cluster with it, when it is the last one.
		if err := c.delete(cluster); err != nil {
			return nil, key, err
		}
		for _, record := range records {
			pool, err := decode(record)
			if err == nil {
				err = c.delete(pool)
			}
			if err != nil {
				return nil, key, err
			}
		}
		return newEmpty(), key, nil
	})
}

func deleter(ctx context.Context, force bool) (auth.Identity, error) {
	if force {
		if who, err := administrator(ctx, "force a deletion"); err != nil {
			return who, err
		}
	}
	return writer(ctx)
}

// delete begins the deletion of an object, and ends it at once when no controller has to do anything.
func (c *change) delete(o *object) error {
	if o.deleting() {
		return nil
	}
	before, phase := o.record.Document, o.resource().GetStatus().GetPhase()
	required, err := c.requiredOf(o)
	if err != nil {
		return err
	}
	reports, err := c.reportsOf(o.Key)
	if err != nil {
		return err
	}
	o.setDeletionRequestedAt(c.at)
	o.setFinalizers(slices.Clone(status.RequiredOf(required, reports)))
	pools := 0
	if o.cluster != nil {
		records, err := c.tx.Pools(o.ID)
		if err != nil {
			return err
		}
		pools = len(records)
	}
	if o.removable(pools) {
		return c.forget(o, "delete")
	}
	if _, err := c.evaluateWith(o, false, reports); err != nil {
		return err
	}
	if err := c.put(o, o.record.Owner); err != nil {
		return err
	}
	if err := c.event(o, "deleting", describeStatus(o, phase)); err != nil {
		return err
	}
	if err := c.audit(o, "delete", before, o.record.Document); err != nil {
		return err
	}
	if pools > 0 {
		// It is enqueued when its last pool goes.
		return nil
	}
	return c.enqueue(o)
}

// forget removes an object, whatever is left of it elsewhere. A deleted cluster whose last pool goes is next.
func (c *change) forget(o *object, action string) error {
	if err := c.tx.Remove(o.Key); err != nil {
		return err
	}
	if err := c.event(o, "deleted", noun(o.Kind)+" "+o.resource().GetName()+" deleted"); err != nil {
		return err
	}
	if err := c.audit(o, action, o.record.Document, nil); err != nil {
		return err
	}
	if o.pool == nil {
		return nil
	}
	record, err := c.tx.Get(store.Key{Kind: store.Cluster, ID: o.clusterID()})
	if errors.Is(err, store.ErrNotFound) || err == nil && !record.Deleting {
		return nil
	}
	if err != nil {
		return err
	}
	pools, err := c.tx.Pools(o.clusterID())
	if err != nil || len(pools) > 0 {
		return err
	}
	cluster, err := decode(record)
	if err != nil {
		return err
	}
	if cluster.removable(0) {
		return c.forget(cluster, "delete")
	}
	if err := c.refresh(cluster); err != nil {
		return err
	}
	return c.enqueue(cluster)
}

// forgetCluster removes a cluster and its pools.
func (c *change) forgetCluster(cluster *object, records []store.Record) error {
	for _, record := range records {
		pool, err := decode(record)
		if err != nil {
			return err
		}
		if err := c.tx.Remove(pool.Key); err != nil {
			return err
		}
		if err := c.event(pool, "deleted", "node pool "+pool.resource().GetName()+" deleted"); err != nil {
			return err
		}
		if err := c.audit(pool, "force-delete", record.Document, nil); err != nil {
			return err
		}
	}
	return c.forget(cluster, "force-delete")
}

func newEmpty() *emptypb.Empty { return &emptypb.Empty{} }
