package service

import (
	"context"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// UpdateNodePool replaces the spec of a pool, and its name where one is given.
func (s *Service) UpdateNodePool(ctx context.Context, request *nodepoolsv1.UpdateNodePoolRequest) (*nodepoolsv1.NodePool, error) {
	given := request.GetNodepool()
	if err := checkBody(given != nil, given.GetSpec() != nil, "nodepool"); err != nil {
		return nil, err
	}
	// Checked here, and not in the transaction, where all other writes wait for it.
	valid := func() error {
		return check(&nodepoolsv1.NodePool{Name: orElse(given.GetName(), "unchanged"), ClusterId: anyID, Spec: given.GetSpec()}, "nodepool")
	}
	return s.updateNodePool(ctx, request.GetId(), request.GetClusterId(), call{"", "UpdateNodePool", request, request.GetDryRun()}, valid, func(current *nodepoolsv1.NodePool) (*nodepoolsv1.NodePool, error) {
		wanted := proto.CloneOf(given)
		if wanted.Name == "" {
			wanted.Name = current.GetName()
		}
		if wanted.ClusterId == "" {
			wanted.ClusterId = current.GetClusterId()
		}
		return wanted, nil
	})
}

// UpdateCluster replaces the spec of a cluster, and its name where one is given.
func (s *Service) UpdateCluster(ctx context.Context, request *nodepoolsv1.UpdateClusterRequest) (*nodepoolsv1.Cluster, error) {
	given := request.GetCluster()
	if err := checkBody(given != nil, given.GetSpec() != nil, "cluster"); err != nil {
		return nil, err
	}
	valid := func() error {
		return check(&nodepoolsv1.Cluster{Name: orElse(given.GetName(), "unchanged"), Spec: given.GetSpec()}, "cluster")
	}
	return s.updateCluster(ctx, request.GetId(), call{"", "UpdateCluster", request, request.GetDryRun()}, valid, func(current *nodepoolsv1.Cluster) (*nodepoolsv1.Cluster, error) {
		wanted := proto.CloneOf(given)
		if wanted.Name == "" {
			wanted.Name = current.GetName()
		}
		return wanted, nil
	})
}

func checkBody(body, spec bool, noun string) error {
	switch {
	case !body:
		return violates("", "required", noun+" is required")
	case !spec:
		return violates("spec", "required", noun+" spec is required")
	}
	return nil
}

// anyID stands for the id of a cluster that is there already.
const anyID = "00000000-0000-4000-8000-000000000000"

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// updateNodePool writes what wish makes of a pool. The pool that wish gets has its secrets redacted. What it returns is checked against
// the rules, unless valid is not nil: then valid has done so.
func (s *Service) updateNodePool(ctx context.Context, id, clusterID string, call call, valid func() error, wish func(*nodepoolsv1.NodePool) (*nodepoolsv1.NodePool, error)) (*nodepoolsv1.NodePool, error) {
	who, err := writer(ctx)
	if err != nil {
		return nil, err
	}
	call.actor = who.Name
	if id, err = canonicalID("id", id); err != nil {
		return nil, err
	}
	if valid != nil {
		if err := valid(); err != nil {
			return nil, s.outcome(ctx, err)
		}
	}
	var cluster *object
	result, err := answer(ctx, s, call, newNodePool, func(c *change) (*nodepoolsv1.NodePool, store.Key, error) {
		key := store.Key{Kind: store.NodePool, ID: id}
		pool, err := c.loadPool(who, key, clusterID)
		if err != nil {
			return nil, key, err
		}
		wanted, err := wish(redacted(pool.pool))
		if err != nil {
			return nil, key, err
		}
		if err := checkPreconditions(c.request, pool.record, wanted.GetResourceVersion()); err != nil {
			return nil, key, err
		}
		violations := immutableOf(pool.pool, wanted)
		next := proto.CloneOf(pool.pool)
		next.Name, next.Spec = wanted.GetName(), proto.CloneOf(wanted.GetSpec())
		if valid == nil {
			broken, err := rules(&nodepoolsv1.NodePool{Id: next.Id, Name: next.Name, ClusterId: next.ClusterId, Spec: next.Spec}, "nodepool")
			if err != nil {
				return nil, key, err
			}
			violations = append(broken, violations...)
		}
		if err := invalid(violations); err != nil {
			return nil, key, err
		}
		if pool.deleting() {
			return nil, key, conflict("NodePool is being deleted")
		}
		// Only what this service provisions itself is checked against the cluster.
		cluster = &object{}
		if c.options.Provisioned[pool.platform()] != "" {
			if cluster, err = c.load(store.Key{Kind: store.Cluster, ID: pool.clusterID()}); err != nil {
				return nil, key, errors.Wrap(err, "read the cluster of a pool")
			}
		}
		if err := c.update(pool, &object{Key: key, pool: next}, cluster.cluster); err != nil {
			return nil, key, err
		}
		return answerOf(c, pool, pool.pool), key, nil
	})
	if err == nil && call.dryRun {
		s.preview(ctx, redacted(cluster.cluster), result)
	}
	return result, err
}

// updateCluster writes what wish makes of a cluster, as updateNodePool does.
func (s *Service) updateCluster(ctx context.Context, id string, call call, valid func() error, wish func(*nodepoolsv1.Cluster) (*nodepoolsv1.Cluster, error)) (*nodepoolsv1.Cluster, error) {
	who, err := writer(ctx)
	if err != nil {
		return nil, err
	}
	call.actor = who.Name
	if id, err = canonicalID("id", id); err != nil {
		return nil, err
	}
	if valid != nil {
		if err := valid(); err != nil {
			return nil, s.outcome(ctx, err)
		}
	}
	result, err := answer(ctx, s, call, newCluster, func(c *change) (*nodepoolsv1.Cluster, store.Key, error) {
		key := store.Key{Kind: store.Cluster, ID: id}
		cluster, err := c.loadFor(who, key)
		if err != nil {
			return nil, key, err
		}
		wanted, err := wish(redacted(cluster.cluster))
		if err != nil {
			return nil, key, err
		}
		if err := checkPreconditions(c.request, cluster.record, wanted.GetResourceVersion()); err != nil {
			return nil, key, err
		}
		violations := immutableOfCluster(cluster.cluster, wanted)
		next := proto.CloneOf(cluster.cluster)
		next.Name, next.Spec = wanted.GetName(), proto.CloneOf(wanted.GetSpec())
		if valid == nil {
			broken, err := rules(&nodepoolsv1.Cluster{Id: next.Id, Name: next.Name, Spec: next.Spec}, "cluster")
			if err != nil {
				return nil, key, err
			}
			violations = append(broken, violations...)
		}
		if err := invalid(violations); err != nil {
			return nil, key, err
		}
		if cluster.deleting() {
			return nil, key, conflict("Cluster is being deleted")
		}
		if err := c.update(cluster, &object{Key: key, cluster: next}, next); err != nil {
			return nil, key, err
		}
		return answerOf(c, cluster, cluster.cluster), key, nil
	})
	if err == nil && call.dryRun {
		s.preview(ctx, result, nil)
	}
	return result, err
}

// update makes an object what it is to be. The generation rises only when the spec wants something else than before; a request that
// changes nothing writes nothing.
func (c *change) update(o, next *object, cluster *nodepoolsv1.Cluster) error {
	violations, err := c.sealNew(o.ID, next.resource(), o.resource())
	if err != nil {
		return err
	}
	if c.options.Provisioned[o.platform()] != "" && c.options.Check != nil {
		violations = append(violations, c.options.Check(c.ctx, cluster, next.pool)...)
	}
	if c.options.FixedName != nil && c.options.FixedName(o.Kind, o.platform()) {
		fixed := &immutable{}
		fixed.text("name", o.resource().GetName(), next.resource().GetName(), "create another "+noun(o.Kind))
		violations = append(violations, fixed.violations...)
	}
	if err := invalid(violations); err != nil {
		return err
	}
	if proto.Equal(o.resource(), next.resource()) {
		return nil
	}
	before, nodesBefore, nameBefore, owner := o.record.Document, o.nodes(), o.resource().GetName(), o.record.Owner
	now, specBefore := timestamppb.New(c.at), o.spec()
	var changed bool
	if o.pool != nil {
		changed = !samePoolSpec(o.pool.GetSpec(), next.pool.GetSpec())
		o.pool = next.pool
		o.pool.UpdatedAt = now
		if changed {
			o.pool.Generation++
		}
	} else {
		changed = !sameClusterSpec(o.cluster.GetSpec(), next.cluster.GetSpec())
		o.cluster = next.cluster
		o.cluster.UpdatedAt = now
		if changed {
			o.cluster.Generation++
		}
	}
	if changed {
		if _, err := c.evaluate(o, true); err != nil {
			return err
		}
	}
	switch err := c.put(o, owner); {
	case errors.Is(err, store.ErrNameTaken) && o.pool != nil:
		return conflict("NodePool with name '%s' already exists in cluster", o.pool.GetName())
	case errors.Is(err, store.ErrNameTaken):
		return conflict("Cluster with name '%s' already exists", o.cluster.GetName())
	case err != nil:
		return err
	}
	if err := c.checkQuota(o, false, nodesBefore); err != nil {
		return err
	}
	if err := c.event(o, "updated", describeUpdate(o, nameBefore, specBefore, o.spec())); err != nil {
		return err
	}
	if err := c.audit(o, "update", before, o.record.Document); err != nil {
		return err
	}
	return c.enqueue(o)
}

// loadPool reads a pool that an identity sees, in the cluster that the path names.
func (c *change) loadPool(who auth.Identity, key store.Key, clusterID string) (*object, error) {
	pool, err := c.loadFor(who, key)
	if err == nil && clusterID != "" && !sameID(clusterID, pool.clusterID()) {
		return nil, notFound(store.NodePool)
	}
	return pool, err
}

func lower(id string) string        { return strings.ToLower(id) }
func sameID(one, other string) bool { return strings.EqualFold(one, other) }
