package civo

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/civo/civogo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	corev1 "k8s.io/api/core/v1"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

func nodePoolResource() *nativeprovider.Resource {
	return &nativeprovider.Resource{
		Description: "A node pool beside a cluster's default one. Its label is its id.",
		Properties: append(poolFields("KubernetesNodePoolTaint"),
			nativeprovider.Property{
				Name: "clusterId", Required: true, Replaces: true, Check: checkUUID, Description: "The cluster.",
			},
			nativeprovider.Property{
				Name: "label", Computed: true, Replaces: true, Check: checkLabel,
				Description: "Name and id of the pool, unique in the cluster; made up when absent.",
			},
			nativeprovider.Property{
				Name: "publicIpNodePool", Type: nativeprovider.Bool, Computed: true, Replaces: true,
				Description: "Whether nodes have public addresses.",
			},
			nativeprovider.Property{
				Name: "instanceNames", Type: nativeprovider.List, Elem: &nativeprovider.Property{}, Output: true,
				ChangesWith: []string{"nodeCount"}, Description: "Names of the nodes.",
			},
		),
		Timeouts: nativeprovider.Timeouts{Create: 30 * time.Minute, Update: 30 * time.Minute, Delete: 30 * time.Minute},
		Diff: func(diff *nativeprovider.Diff) error {
			// The official plugin leaves the label of an imported pool empty. It is the id.
			if label := nativeprovider.GetString(diff.New, "label"); label != "" && label == diff.ID {
				diff.Drop("label")
			}
			return nil
		},
		Parent:   "clusterId",
		Identity: []string{"size"},
		// The label is taken until the old pool is gone; without one the old pool's place in the quota may be.
		DeleteBeforeReplace: func(_, _ resource.PropertyMap) bool { return true },
		Create:              createPool,
		Read:                readPool,
		Update:              updatePool,
		Delete:              deletePool,
	}
}

func poolPath(clusterID, id string) string {
	return clusterPath(clusterID) + "/pools/" + url.PathEscape(id)
}

func (r regional) pool(ctx context.Context, clusterID, id string) (*civogo.KubernetesPool, error) {
	pool := &civogo.KubernetesPool{}
	if err := r.call(ctx, http.MethodGet, poolPath(clusterID, id), nil, pool); err != nil {
		return nil, err
	}
	if pool.ID == "" {
		return nil, holdsNothing(poolPath(clusterID, id), "pool")
	}
	return pool, nil
}

// addPool adds a pool to a cluster. own is the operation of a resource that is the pool, nil when the pool is a part of the cluster's.
func (r regional) addPool(
	ctx context.Context, op, own *nativeprovider.Operation, clusterID, label string, pool resource.PropertyMap,
) error {
	config := civogo.KubernetesClusterPoolConfig{
		Region:           r.code,
		ID:               label,
		Count:            nativeprovider.GetInt(pool, "nodeCount"),
		Size:             nativeprovider.GetString(pool, "size"),
		Labels:           nativeprovider.GetStringMap(pool, "labels"),
		Taints:           taintsOf(pool),
		PublicIPNodePool: nativeprovider.GetBool(pool, "publicIpNodePool"),
	}
	making := r.making("node pool", label,
		func(ctx context.Context, label string) ([]nativeprovider.Found, error) {
			present, err := r.pool(ctx, clusterID, label)
			if nativeprovider.IsNotFound(err) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return []nativeprovider.Found{{ID: present.ID, State: resource.PropertyMap{"size": text(present.Size)}}}, nil
		},
		func(ctx context.Context) (string, error) {
			return label, whenFree(ctx, op, "the cluster to take node pool "+label, func(ctx context.Context) error {
				return r.call(ctx, http.MethodPost, clusterPath(clusterID)+"/pools", config, nil)
			})
		})
	making.Parent, making.ImportID = clusterID, func(label string) string { return clusterID + ":" + label }
	_, err := own.MakeOnce(ctx, making)
	return err
}

// applyPool makes a pool of a cluster, as that was read last, what the inputs say: count, labels and taints. It asks only for what differs,
// and the count only when the program's count differs: other pools are not touched. A pool that is gone is made again. changed tells
// whether anything was asked for.
func (r regional) applyPool(
	ctx context.Context, op *nativeprovider.Operation, cluster *civogo.KubernetesCluster, id string, inputs resource.PropertyMap,
) (changed bool, err error) {
	present := poolByID(cluster, id)
	if present == nil {
		// Only the pool itself tells for certain that it is gone.
		present, err = r.pool(ctx, cluster.ID, id)
	}
	if nativeprovider.IsNotFound(err) {
		return true, r.addPool(ctx, op, nil, cluster.ID, id, inputs)
	}
	if err != nil {
		return false, err
	}
	// What the cluster is meant to have counts: a scaling that is under way need not be asked for again.
	count := present.Count
	for _, required := range cluster.RequiredPools {
		if required.ID == id {
			count = required.Count
		}
	}
	state := poolState(cluster, present)
	wantedLabels, wantedTaints := nativeprovider.GetStringMap(inputs, "labels"), taintsOf(inputs)
	wantedCount := nativeprovider.GetInt(inputs, "nodeCount")
	sameCount := wantedCount == 0 || wantedCount == count
	if sameCount && maps.Equal(wantedLabels, nativeprovider.GetStringMap(state, "labels")) && sameTaints(wantedTaints, taintsOf(state)) {
		return false, nil
	}
	// A request of its own: civogo's type cannot say "no labels". Labels and taints are always whole, for the API may read their absence as
	// their removal.
	request := map[string]any{"region": r.code, "labels": wantedLabels, "taints": wantedTaints}
	if !sameCount {
		request["count"] = wantedCount
	}
	return true, whenFree(ctx, op, "the cluster to take the change of node pool "+id, func(ctx context.Context) error {
		return r.call(ctx, http.MethodPut, poolPath(cluster.ID, id), request, nil)
	})
}

func sameTaints(a, b []corev1.Taint) bool {
	sorted := func(taints []corev1.Taint) []string {
		texts := make([]string, len(taints))
		for i, taint := range taints {
			texts[i] = taint.Key + "=" + taint.Value + ":" + string(taint.Effect)
		}
		slices.Sort(texts)
		return texts
	}
	return slices.Equal(sorted(a), sorted(b))
}

// waitForPool waits until a pool has all its nodes. It returns the last state that it saw, also with an error.
func (r regional) waitForPool(
	ctx context.Context, op *nativeprovider.Operation, clusterID, id string,
) (resource.PropertyMap, error) {
	var state resource.PropertyMap
	err := nativeprovider.PollUntil(ctx, nativeprovider.Poll{
		What: "node pool " + id + " to have all its nodes", First: 250 * time.Millisecond, Operation: op,
	}, func(ctx context.Context) (bool, string, error) {
		cluster, err := r.cluster(ctx, clusterID)
		if err != nil {
			return false, "", err
		}
		if err := clusterFailed(cluster); err != nil {
			return false, "", err
		}
		pool := poolByID(cluster, id)
		if pool == nil {
			return false, "the pool is not listed yet", nil
		}
		state = poolState(cluster, pool)
		state["clusterId"] = text(clusterID)
		return settled(cluster, id), cluster.Status, nil
	})
	return state, err
}

func createPool(
	ctx context.Context, op *nativeprovider.Operation, inputs resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	clusterID := nativeprovider.GetString(inputs, "clusterId")
	label := nativeprovider.GetString(inputs, "label")
	if label == "" {
		label = firstOf(op.PendingName(), newUUID())
	}
	r, _, err := c.locateCluster(ctx, "", clusterID)
	if err != nil {
		return "", nil, errors.Wrapf(err, "create civo kubernetes node pool %s", label)
	}
	if err := r.addPool(ctx, op, op, clusterID, label, inputs); err != nil {
		return "", nil, errors.Wrapf(err, "create civo kubernetes node pool %s", label)
	}
	state, err := r.waitForPool(ctx, op, clusterID, label)
	if state == nil {
		state = labelled(inputs, label).ObjectValue()
	}
	return label, state, errors.Wrapf(err, "create civo kubernetes node pool %s", label)
}

func readPool(
	ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	clusterID := nativeprovider.GetString(state, "clusterId")
	if clusterID == "" {
		var ok bool
		clusterID, id, ok = strings.Cut(id, ":")
		if !ok || clusterID == "" || id == "" {
			return "", nil, errors.New("a civo kubernetes node pool is imported by clusterId:poolId")
		}
	}
	r, cluster, err := c.locateCluster(ctx, "", clusterID)
	if err != nil {
		return "", nil, errors.Wrapf(err, "read civo kubernetes node pool %s", id)
	}
	pool, err := r.pool(ctx, clusterID, id)
	if err != nil {
		return "", nil, errors.Wrapf(err, "read civo kubernetes node pool %s", id)
	}
	present := poolState(cluster, pool)
	present["clusterId"] = text(clusterID)
	return id, present, nil
}

func updatePool(
	ctx context.Context, op *nativeprovider.Operation, id string, state, inputs resource.PropertyMap,
) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	clusterID := nativeprovider.GetString(state, "clusterId")
	r, cluster, err := c.locateCluster(ctx, "", clusterID)
	if err != nil {
		return nil, errors.Wrapf(err, "update civo kubernetes node pool %s", id)
	}
	if _, err := r.applyPool(ctx, op, cluster, id, inputs); err != nil {
		return nil, errors.Wrapf(err, "update civo kubernetes node pool %s", id)
	}
	updated, err := r.waitForPool(ctx, op, clusterID, id)
	return updated, errors.Wrapf(err, "update civo kubernetes node pool %s", id)
}

func deletePool(ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap) error {
	c, err := clientOf(op)
	if err != nil {
		return err
	}
	clusterID := nativeprovider.GetString(state, "clusterId")
	r, _, err := c.locateCluster(ctx, "", clusterID)
	if nativeprovider.IsNotFound(err) {
		return nil // gone with its cluster
	}
	if err != nil {
		return errors.Wrapf(err, "delete civo kubernetes node pool %s", id)
	}
	err = r.remove(ctx, op, "node pool "+id, poolPath(clusterID, id), func(ctx context.Context) error {
		_, err := r.pool(ctx, clusterID, id)
		return err
	})
	return errors.Wrapf(err, "delete civo kubernetes node pool %s", id)
}
