package civo

import (
	"net/http"
	"regexp"
	"slices"
	"sync"
)

// maxPoolNodes is more than any account's quota allows, and keeps a slip of the keyboard from filling the memory.
const maxPoolNodes = 1000

type poolRequest struct {
	Region string `json:"region"`
	ID     string `json:"id"`
	Count  *int   `json:"count"`
	Size   string `json:"size"`
	// Labels and Taints are left as they are by null, and cleared by an empty list.
	Labels   map[string]string `json:"labels"`
	Taints   []Taint           `json:"taints"`
	PublicIP bool              `json:"public_ip_node_pool"`
}

var poolID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`) })

// addPool makes a pool with its nodes.
func (a *account) addPool(cluster *Cluster, request poolRequest, when schedule) (*Pool, error) {
	id := request.ID
	if id == "" {
		id = newID()
	}
	if !poolID().MatchString(id) {
		return nil, errClusterInvalid("The node pool id %q is not valid: want 1 to 63 letters, digits, dots, dashes and underscores", id)
	}
	if _, err := cluster.pool(id, when.now, false); err == nil {
		return nil, errPoolDuplicate(id)
	}
	if request.Count == nil {
		return nil, errClusterInvalid("The node pool %q needs a count", id)
	}
	if _, err := nodeSize(request.Size); err != nil {
		return nil, err
	}
	pool := &Pool{ID: id, Size: request.Size, PublicIP: request.PublicIP}
	cluster.Pools = append(cluster.Pools, pool)
	return pool, a.changePool(cluster, pool, request, when)
}

// changePool applies what can change in a pool. Its size and its public addresses cannot: a request that names others is
// answered as if it had not, by the real cloud too.
func (a *account) changePool(cluster *Cluster, pool *Pool, request poolRequest, when schedule) error {
	if request.Labels != nil {
		pool.Labels = request.Labels
	}
	if request.Taints != nil {
		for _, taint := range request.Taints {
			if taint.Key == "" || !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, taint.Effect) {
				return errClusterInvalid("The taint %s=%s:%s is not valid: want a key, and NoSchedule, PreferNoSchedule or NoExecute",
					taint.Key, taint.Value, taint.Effect)
			}
		}
		pool.Taints = request.Taints
	}
	if request.Count != nil {
		switch count := *request.Count; {
		case count < 1:
			return errClusterInvalid("The node pool %q cannot have %d nodes: want at least 1", pool.ID, count)
		case count > maxPoolNodes:
			return errQuota("nodes of a pool", maxPoolNodes, count)
		default:
			a.scale(cluster, pool, count, when)
		}
	}
	return nil
}

func (p *Pool) delete(when schedule) {
	p.GoneAt = when.goneAt
	p.Count = 0
	for _, instance := range p.staying() {
		instance.GoneAt = when.goneAt
	}
}

func (c *Cloud) listPools(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		now := c.clock.Now()
		cluster, err := a.cluster(region, r.PathValue("id"), now)
		if err != nil {
			return nil, err
		}
		return cluster.document(now).Pools, nil
	})
}

func (c *Cloud) getPool(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		now := c.clock.Now()
		cluster, err := a.cluster(region, r.PathValue("id"), now)
		if err != nil {
			return nil, err
		}
		pool, err := cluster.pool(r.PathValue("pool"), now, false)
		if err != nil {
			return nil, err
		}
		return cluster.poolDocument(pool, now), nil
	})
}

func (c *Cloud) createPool(r *http.Request) (any, error) {
	body, err := decode[poolRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		when := c.schedule(r)
		cluster, err := a.changeable(region, r.PathValue("id"), when)
		if err != nil {
			return nil, err
		}
		pool, err := a.addPool(cluster, body, when)
		if err != nil {
			return nil, err
		}
		return success{ID: pool.ID, Result: "success"}, nil
	})
}

func (c *Cloud) updatePool(r *http.Request) (any, error) {
	body, err := decode[poolRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		when := c.schedule(r)
		cluster, err := a.changeable(region, r.PathValue("id"), when)
		if err != nil {
			return nil, err
		}
		pool, err := cluster.pool(r.PathValue("pool"), when.now, true)
		if err != nil {
			return nil, err
		}
		if err := a.changePool(cluster, pool, body, when); err != nil {
			return nil, err
		}
		return cluster.poolDocument(pool, when.now), nil
	})
}

func (c *Cloud) deletePool(r *http.Request) (any, error) {
	return c.update(r, "", func(a *account, region string) (any, error) {
		when := c.schedule(r)
		cluster, err := a.changeable(region, r.PathValue("id"), when)
		if err != nil {
			return nil, err
		}
		pool, err := cluster.pool(r.PathValue("pool"), when.now, true)
		if err != nil {
			return nil, err
		}
		if len(cluster.requiredPools()) == 1 {
			return nil, errPoolInsufficient("The last node pool of a cluster cannot be deleted")
		}
		pool.delete(when)
		return done(), nil
	})
}

// deletePoolInstance takes one node away for good: the pool is a node smaller afterwards. Cluster Autoscaler scales down so.
func (c *Cloud) deletePoolInstance(r *http.Request) (any, error) {
	return c.update(r, "", func(a *account, region string) (any, error) {
		when := c.schedule(r)
		cluster, err := a.changeable(region, r.PathValue("id"), when)
		if err != nil {
			return nil, err
		}
		pool, err := cluster.pool(r.PathValue("pool"), when.now, true)
		if err != nil {
			return nil, err
		}
		for _, instance := range pool.staying() {
			if instance.ID != r.PathValue("member") {
				continue
			}
			if pool.Count == 1 {
				return nil, errPoolInsufficient("The last node of a node pool cannot be deleted")
			}
			pool.Count--
			instance.GoneAt = when.goneAt
			return done(), nil
		}
		return nil, errPoolInstanceNotFound(r.PathValue("member"))
	})
}

// changeable finds a cluster that is not being deleted.
func (a *account) changeable(region, id string, when schedule) (*Cluster, error) {
	cluster, err := a.cluster(region, id, when.now)
	if err != nil {
		return nil, err
	}
	if status := cluster.status(when.now); status == statusDeleting {
		return nil, errAlreadyRescaling(status)
	}
	return cluster, nil
}
