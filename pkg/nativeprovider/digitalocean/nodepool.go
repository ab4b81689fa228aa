package digitalocean

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// poolTimeout bounds the operations of a node pool. Nodes are drained before they go.
const poolTimeout = 30 * time.Minute

func poolResource() *nativeprovider.Resource {
	return &nativeprovider.Resource{
		Description: "A node pool of a Kubernetes cluster, beside the cluster's default one.",
		Properties: append(poolProperties(""), nativeprovider.Property{
			Name: "clusterId", Type: nativeprovider.String, Required: true, Replaces: true, Check: notEmpty,
			Description: "Id of the cluster. A change replaces the pool."}),
		Timeouts: nativeprovider.Timeouts{Create: poolTimeout, Update: poolTimeout, Delete: poolTimeout},
		Meta:     poolMeta,
		Parent:   "clusterId",
		Identity: []string{"size"},
		Check: func(inputs resource.PropertyMap) []plugin.CheckFailure {
			return checkPool("", inputs)
		},
		Diff: func(diff *nativeprovider.Diff) error {
			dropPoolNoise(diff, "", diff.New)
			return nil
		},
		// A pool in another cluster may have the same name, but the two cannot be told apart from a cluster that is not
		// known yet; the old pool goes first in every case where the name stays.
		DeleteBeforeReplace: keepsName,
		Create:              createNodePool,
		Read:                readNodePool,
		Update:              updateNodePool,
		Delete:              deleteNodePool,
	}
}

func createNodePool(ctx context.Context, op *nativeprovider.Operation, inputs resource.PropertyMap) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	clusterID := nativeprovider.GetString(inputs, "clusterId")
	what := fmt.Sprintf("create digitalocean node pool %s in cluster %s", nativeprovider.GetString(inputs, "name"), clusterID)
	id, err := c.createPool(ctx, op, clusterID, poolSpecOf(inputs))
	if err != nil {
		return "", nil, errors.Wrap(err, what)
	}
	pool, err := c.waitForPool(ctx, op, clusterID, id)
	return id, nodePoolState(pool, inputs), errors.Wrap(err, what)
}

// nodePoolState is what a pool looks like in the state; nil when there is none.
func nodePoolState(pool *godo.KubernetesNodePool, recorded resource.PropertyMap) resource.PropertyMap {
	if pool == nil {
		return nil
	}
	state := poolState(pool, recorded)
	state["clusterId"] = resource.NewProperty(nativeprovider.GetString(recorded, "clusterId"))
	return state
}

func readNodePool(ctx context.Context, op *nativeprovider.Operation, id string, recorded resource.PropertyMap) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	clusterID := nativeprovider.GetString(recorded, "clusterId")
	if clusterID == "" {
		if clusterID, err = c.clusterOfPool(ctx, id); err != nil {
			return "", nil, errors.Wrapf(err, "import digitalocean node pool %s", id)
		}
		recorded = resource.PropertyMap{"clusterId": resource.NewProperty(clusterID)}
	}
	pool, err := c.getPool(ctx, clusterID, id)
	if err != nil {
		return "", nil, errors.Wrapf(err, "read digitalocean node pool %s of cluster %s", id, clusterID)
	}
	return pool.ID, nodePoolState(pool, recorded), nil
}

// clusterOfPool looks through all clusters for the one that a pool is in.
func (c *client) clusterOfPool(ctx context.Context, id string) (string, error) {
	var owner *liveCluster
	var found *godo.KubernetesNodePool
	err := c.eachCluster(ctx, func(cluster *liveCluster) bool {
		for _, pool := range cluster.NodePools {
			if pool != nil && pool.ID == id {
				owner, found = cluster, pool
			}
		}
		return owner == nil
	})
	switch {
	case err != nil:
		return "", err
	case owner == nil:
		return "", errors.Errorf("no cluster of this account has a node pool %s", id)
	case hasTag(found.Tags, defaultPoolTag):
		return "", errors.Errorf("it is the default pool of cluster %s (%s); import the cluster instead", owner.Name, owner.ID)
	}
	return owner.ID, nil
}

func updateNodePool(ctx context.Context, op *nativeprovider.Operation, id string, state, inputs resource.PropertyMap) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	clusterID := nativeprovider.GetString(inputs, "clusterId")
	pool, err := c.getPool(ctx, clusterID, id)
	if err != nil {
		return nil, errors.Wrapf(err, "read digitalocean node pool %s of cluster %s before its update", id, clusterID)
	}
	settled, err := c.settlePool(ctx, op, clusterID, pool, state, inputs)
	if err != nil {
		// What was applied must not be forgotten, also after a cancellation.
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		settled, _ = c.getPool(look, clusterID, id)
		return nodePoolState(settled, state), errors.Wrapf(err, "update digitalocean node pool %s of cluster %s", id, clusterID)
	}
	return nodePoolState(settled, inputs), nil
}

// settlePool makes a live pool what the inputs say and waits for its nodes. recorded is the state of before.
func (c *client) settlePool(
	ctx context.Context, op *nativeprovider.Operation, clusterID string, live *godo.KubernetesNodePool,
	recorded, inputs resource.PropertyMap, ownTags ...string,
) (*godo.KubernetesNodePool, error) {
	request, differs := poolUpdateOf(live, recorded, inputs, ownTags...)
	if differs {
		var err error
		if live, err = c.pool(ctx, http.MethodPut, clusterID, live.ID, request); err != nil {
			return nil, err
		}
	}
	resized := request.Count == nil || live.Count == *request.Count
	if resized && poolReady(live) || !differs && request.AutoScale {
		// The nodes of an autoscaled pool come and go; that is nothing to wait for.
		return live, nil
	}
	return c.waitForPool(ctx, op, clusterID, live.ID)
}

// createPool creates a pool and returns its id, without waiting for its nodes. own is the operation of a resource that is the
// pool, nil when the pool is a part of the cluster's.
func (c *client) createPool(
	ctx context.Context, own *nativeprovider.Operation, clusterID string, wanted poolSpec, ownTags ...string,
) (string, error) {
	request := wanted.creation(ownTags...)
	named := func(ctx context.Context, name string) ([]nativeprovider.Found, error) {
		pools, err := c.listPools(ctx, clusterID)
		var found []nativeprovider.Found
		for _, pool := range pools {
			if pool != nil && pool.Name == name {
				found = append(found, nativeprovider.Found{ID: pool.ID, State: poolState(pool, nil)})
			}
		}
		return found, err
	}
	return own.MakeOnce(ctx, making("node pool", request.Name, clusterID, named, func(ctx context.Context) (string, error) {
		var answer struct {
			Pool *godo.KubernetesNodePool `json:"node_pool"`
		}
		if err := c.do(ctx, http.MethodPost, poolsPath(clusterID), request, &answer); err != nil {
			return "", err
		}
		return idOf(answer.Pool, func(pool *godo.KubernetesNodePool) string { return pool.ID })
	}))
}

// waitForPool waits until a pool has all its nodes and they run. With an error it returns the pool as it was last seen.
func (c *client) waitForPool(ctx context.Context, op *nativeprovider.Operation, clusterID, id string) (*godo.KubernetesNodePool, error) {
	var live *godo.KubernetesNodePool
	poll := nativeprovider.Poll{What: "the nodes of pool " + id + " to run", Operation: op}
	err := nativeprovider.PollUntil(ctx, poll, func(ctx context.Context) (bool, string, error) {
		pool, err := c.getPool(ctx, clusterID, id)
		if err != nil {
			return false, "", err
		}
		live = pool
		return poolReady(pool), poolProgress(pool), nil
	})
	return live, err
}

func poolProgress(pool *godo.KubernetesNodePool) string {
	running := 0
	for _, node := range pool.Nodes {
		if node != nil && node.Status != nil && node.Status.State == poolRunning {
			running++
		}
	}
	return fmt.Sprintf("%d of %d nodes run", running, pool.Count)
}

func deleteNodePool(ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap) error {
	c, err := clientOf(op)
	if err != nil {
		return err
	}
	clusterID := nativeprovider.GetString(state, "clusterId")
	path := poolPath(clusterID, id)
	err = c.do(ctx, http.MethodDelete, path, nil, nil)
	if err == nil || nativeprovider.IsNotFound(err) {
		err = c.waitUntilGone(ctx, op, "node pool "+id, path)
	}
	return errors.Wrapf(err, "delete digitalocean node pool %s of cluster %s", id, clusterID)
}
