package service

import (
	"context"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// CreateNodePool creates a pool in a cluster that exists. The pool belongs to the owner of the cluster.
func (s *Service) CreateNodePool(ctx context.Context, request *nodepoolsv1.CreateNodePoolRequest) (*nodepoolsv1.NodePool, error) {
	who, err := writer(ctx)
	if err != nil {
		return nil, err
	}
	given := request.GetNodepool()
	// What the service makes is not taken from a client.
	wanted := &nodepoolsv1.NodePool{Id: given.GetId(), Name: given.GetName(), ClusterId: given.GetClusterId(), Spec: given.GetSpec()}
	if wanted.ClusterId == "" {
		wanted.ClusterId = request.GetClusterId()
	}
	if err := check(wanted, "nodepool"); err != nil {
		return nil, s.outcome(ctx, err)
	}
	if request.GetClusterId() != "" && !sameID(request.GetClusterId(), wanted.ClusterId) {
		return nil, violates("cluster_id", "cluster_id.path", "must be that of the path")
	}
	wanted.Id, wanted.ClusterId = newID(wanted.Id), lower(wanted.ClusterId)
	if err := checkCreation(requestOf(ctx), store.NodePool); err != nil {
		return nil, err
	}
	var cluster *nodepoolsv1.Cluster
	result, err := answer(ctx, s, call{who.Name, "CreateNodePool", request, request.GetDryRun()}, newNodePool, func(c *change) (*nodepoolsv1.NodePool, store.Key, error) {
		pool := &object{Key: store.Key{Kind: store.NodePool, ID: wanted.Id}, pool: proto.CloneOf(wanted)}
		parent, err := c.recordFor(who, store.Key{Kind: store.Cluster, ID: wanted.ClusterId})
		if err != nil {
			return nil, pool.Key, err
		}
		if parent.Deleting {
			return nil, pool.Key, conflict("Cluster is being deleted")
		}
		if pool.platform() != parent.Platform {
			return nil, pool.Key, violates("spec.platform.type", "node_pool.cluster_platform", "must be the platform of the cluster: "+parent.Platform)
		}
		// Only what this service provisions itself is checked against the cluster, and previewed in it.
		cluster = nil
		if c.options.Provisioned[pool.platform()] != "" {
			loaded, err := decode(parent)
			if err != nil {
				return nil, pool.Key, err
			}
			cluster = loaded.cluster
		}
		if err := c.create(pool, parent.Owner, cluster); err != nil {
			return nil, pool.Key, err
		}
		return answerOf(c, pool, pool.pool), pool.Key, nil
	})
	if err == nil && request.GetDryRun() {
		s.preview(ctx, redacted(cluster), result)
	}
	return result, err
}

// CreateCluster creates a cluster, which belongs to who creates it.
func (s *Service) CreateCluster(ctx context.Context, request *nodepoolsv1.CreateClusterRequest) (*nodepoolsv1.Cluster, error) {
	who, err := writer(ctx)
	if err != nil {
		return nil, err
	}
	given := request.GetCluster()
	wanted := &nodepoolsv1.Cluster{Id: given.GetId(), Name: given.GetName(), Spec: given.GetSpec()}
	if err := check(wanted, "cluster"); err != nil {
		return nil, s.outcome(ctx, err)
	}
	wanted.Id = newID(wanted.Id)
	if err := checkCreation(requestOf(ctx), store.Cluster); err != nil {
		return nil, err
	}
	result, err := answer(ctx, s, call{who.Name, "CreateCluster", request, request.GetDryRun()}, newCluster, func(c *change) (*nodepoolsv1.Cluster, store.Key, error) {
		cluster := &object{Key: store.Key{Kind: store.Cluster, ID: wanted.Id}, cluster: proto.CloneOf(wanted)}
		if err := c.create(cluster, who.Name, cluster.cluster); err != nil {
			return nil, cluster.Key, err
		}
		return answerOf(c, cluster, cluster.cluster), cluster.Key, nil
	})
	if err == nil && request.GetDryRun() {
		s.preview(ctx, result, nil)
	}
	return result, err
}

// create writes a new object, its event, its audit entry and its job.
func (c *change) create(o *object, owner string, cluster *nodepoolsv1.Cluster) error {
	if c.options.Provisioned[o.platform()] != "" && c.options.Check != nil {
		if err := invalid(c.options.Check(c.ctx, cluster, o.pool)); err != nil {
			return err
		}
	}
	violations, err := c.sealNew(o.ID, o.resource(), nil)
	if err != nil {
		return err
	}
	if err := invalid(violations); err != nil {
		return err
	}
	now := timestamppb.New(c.at)
	if o.pool != nil {
		o.pool.Generation, o.pool.CreatedAt, o.pool.UpdatedAt, o.pool.CreatedBy = 1, now, now, c.actor
	} else {
		o.cluster.Generation, o.cluster.CreatedAt, o.cluster.UpdatedAt, o.cluster.CreatedBy = 1, now, now, c.actor
	}
	if _, err := c.evaluateWith(o, true, nil); err != nil {
		return err
	}
	switch err := c.put(o, owner); {
	case errors.Is(err, store.ErrNameTaken) && o.pool != nil:
		return exists(c.request, "NodePool with name '"+o.pool.GetName()+"' already exists in cluster")
	case errors.Is(err, store.ErrNameTaken):
		return exists(c.request, "Cluster with name '"+o.cluster.GetName()+"' already exists")
	case errors.Is(err, store.ErrIDTaken):
		return exists(c.request, title(o.Kind)+" with id '"+o.ID+"' already exists, or existed")
	case err != nil:
		return err
	}
	if err := c.checkQuota(o, true, 0); err != nil {
		return err
	}
	if err := c.event(o, "created", noun(o.Kind)+" "+o.resource().GetName()+" created"); err != nil {
		return err
	}
	if err := c.audit(o, "create", nil, o.record.Document); err != nil {
		return err
	}
	return c.enqueue(o)
}

// loadFor reads an object that an identity sees.
func (c *change) loadFor(who auth.Identity, key store.Key) (*object, error) {
	record, err := c.recordFor(who, key)
	if err != nil {
		return nil, err
	}
	return decode(record)
}

// recordFor reads the record of an object that an identity sees.
func (c *change) recordFor(who auth.Identity, key store.Key) (store.Record, error) {
	record, err := c.record(key)
	if err == nil && !sees(who, record) {
		return store.Record{}, notFound(key.Kind)
	}
	return record, err
}

func newNodePool() *nodepoolsv1.NodePool { return &nodepoolsv1.NodePool{} }
func newCluster() *nodepoolsv1.Cluster   { return &nodepoolsv1.Cluster{} }

func newID(given string) string {
	if given != "" {
		return lower(given)
	}
	return uuid.NewString()
}
