package digitalocean

import (
	"net/http"
	"slices"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// maxNodes is the most nodes that a cluster can have:
// https://docs.digitalocean.com/products/kubernetes/details/limits/
const maxNodes = 512

type poolRequest struct {
	Name      string            `json:"name"`
	Size      string            `json:"size"`
	Count     *int              `json:"count"`
	Tags      []string          `json:"tags"`
	Labels    map[string]string `json:"labels"`
	Taints    []Taint           `json:"taints"`
	AutoScale bool              `json:"auto_scale"`
	MinNodes  int               `json:"min_nodes"`
	MaxNodes  int               `json:"max_nodes"`
}

type poolUpdate struct {
	Name      *string            `json:"name"`
	Count     *int               `json:"count"`
	Tags      *[]string          `json:"tags"`
	Labels    *map[string]string `json:"labels"`
	Taints    *[]Taint           `json:"taints"`
	AutoScale *bool              `json:"auto_scale"`
	MinNodes  *int               `json:"min_nodes"`
	MaxNodes  *int               `json:"max_nodes"`
}

// addPool adds the pool that was asked for to a cluster, its nodes running from runningAt on.
func (c *Cloud) addPool(s *state, cluster *clusterRecord, request poolRequest, now, runningAt time.Time) (*poolRecord, error) {
	if err := cluster.checkPoolName(request.Name, ""); err != nil {
		return nil, err
	}
	if !slices.Contains(nodeSizes, request.Size) {
		return nil, invalid("validation error: invalid droplet size")
	}
	pool := &poolRecord{ID: emulator.NewID(), Name: request.Name, Size: request.Size, Taints: request.Taints}
	var err error
	if pool.Tags, err = userTags(request.Tags); err != nil {
		return nil, err
	}
	if err := pool.setLabels(request.Labels); err != nil {
		return nil, err
	}
	if err := checkTaints(request.Taints); err != nil {
		return nil, err
	}
	cluster.Pools = append(cluster.Pools, pool)
	if err := cluster.setScale(pool, scale{auto: request.AutoScale, min: request.MinNodes, max: request.MaxNodes, count: request.Count, created: true}); err != nil {
		return nil, err
	}
	s.addNodes(pool, pool.Count, now, runningAt)
	if isNvidiaGPU(pool.Size) {
		cluster.Plugins.NvidiaGPU = true
	}
	if isAMDGPU(pool.Size) {
		cluster.Plugins.AMDGPU = true
	}
	return pool, nil
}

// checkPoolName refuses a name that is not well formed, or is that of another pool of the cluster.
func (c *clusterRecord) checkPoolName(name, ownID string) error {
	if err := checkName("node pool", name); err != nil {
		return err
	}
	for _, other := range c.Pools {
		if other.Name == name && other.ID != ownID {
			return invalid("validation error: a node pool with the name %q already exists in the cluster", name)
		}
	}
	return nil
}

func (p *poolRecord) setLabels(labels map[string]string) error {
	if err := checkLabels(labels); err != nil {
		return err
	}
	p.Labels = labels
	if len(labels) == 0 {
		p.Labels = nil
	}
	return nil
}

// scale is how many nodes a pool has, as far as a request says it.
type scale struct {
	auto     bool
	min, max int
	count    *int
	created  bool // a new pool, which has no count yet
}

// setScale decides the number of nodes that a pool shall have, and its bounds.
func (c *clusterRecord) setScale(pool *poolRecord, wanted scale) error {
	count := pool.Count
	if wanted.count != nil {
		count = *wanted.count
	}
	if wanted.auto {
		switch {
		case wanted.min < 0:
			return invalid("validation error: min_nodes must be greater than or equal to 0")
		case wanted.max < 1:
			return invalid("validation error: max_nodes must be greater than or equal to 1")
		case wanted.min > wanted.max:
			return invalid("validation error: min_nodes must be less than or equal to max_nodes")
		case wanted.count != nil && (count < wanted.min || count > wanted.max):
			return invalid("validation error: count must be between min_nodes and max_nodes")
		case wanted.count == nil && wanted.created:
			// A new pool that leaves its first size to the platform.
			count = max(wanted.min, 1)
		default:
			// The autoscaler brings a pool within its bounds.
			count = min(max(count, wanted.min), wanted.max)
		}
	} else {
		// Bounds of a pool that is not scaled automatically read back as 0, whatever was sent.
		wanted.min, wanted.max = 0, 0
		if count < 1 {
			return invalid("validation error: count must be greater than or equal to 1")
		}
	}
	total := count
	for _, other := range c.livePools() {
		if other != pool {
			total += other.Count
		}
	}
	if count > maxNodes || total > maxNodes {
		return invalid("a cluster can have %d nodes at most", maxNodes)
	}
	if total == 0 {
		return invalid("validation error: a cluster needs at least one node")
	}
	pool.Count, pool.AutoScale, pool.MinNodes, pool.MaxNodes = count, wanted.auto, wanted.min, wanted.max
	return nil
}

// resize adds or removes nodes until as many stay as the pool's count says. The newest ones go first.
func (c *Cloud) resize(s *state, pool *poolRecord, now time.Time) {
	staying := pool.staying()
	for len(staying) > pool.Count {
		staying[len(staying)-1].leave(now, c.ends(s, now, nodeRemoval))
		staying = staying[:len(staying)-1]
	}
	s.addNodes(pool, pool.Count-len(staying), now, c.ends(s, now, nodeCreation))
}

func (c *Cloud) createNodePool(r *http.Request) (reply, error) {
	request, err := read[poolRequest](r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, now time.Time) (NodePool, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return NodePool{}, err
		}
		// Nodes can't join a cluster that is not up.
		start := now
		if cluster.ReadyAt.After(start) {
			start = cluster.ReadyAt
		}
		pool, err := c.addPool(s, cluster, request, now, c.ends(s, start, nodeCreation))
		if err != nil {
			return NodePool{}, err
		}
		cluster.touch(now)
		return pool.object(cluster.ID, now), nil
	})
	return respond(http.StatusCreated, "node_pool", object), err
}

func (c *Cloud) listNodePools(r *http.Request) (reply, error) {
	pools, err := find(c, func(s *state, now time.Time) ([]NodePool, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return nil, err
		}
		return cluster.object(now).NodePools, nil
	})
	if err != nil {
		return reply{}, err
	}
	return listed(r, "node_pools", pools), nil
}

func (c *Cloud) getNodePool(r *http.Request) (reply, error) {
	object, err := find(c, func(s *state, now time.Time) (NodePool, error) {
		cluster, pool, err := s.pool(r.PathValue("cluster"), r.PathValue("pool"), now)
		if err != nil {
			return NodePool{}, err
		}
		return pool.object(cluster.ID, now), nil
	})
	return respond(http.StatusOK, "node_pool", object), err
}

func (s *state) pool(clusterID, poolID string, now time.Time) (*clusterRecord, *poolRecord, error) {
	cluster, err := s.cluster(clusterID)
	if err != nil {
		return nil, nil, err
	}
	pool, err := cluster.pool(poolID, now)
	return cluster, pool, err
}

// livePool is a pool that may be changed: one that is being deleted is as good as gone.
func (s *state) livePool(clusterID, poolID string, now time.Time) (*clusterRecord, *poolRecord, error) {
	cluster, pool, err := s.pool(clusterID, poolID, now)
	if err == nil && pool.DeletedAt != nil {
		err = notFound("node pool not found")
	}
	return cluster, pool, err
}

func (c *Cloud) updateNodePool(r *http.Request) (reply, error) {
	request, err := read[poolUpdate](r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, now time.Time) (NodePool, error) {
		cluster, pool, err := s.livePool(r.PathValue("cluster"), r.PathValue("pool"), now)
		if err != nil {
			return NodePool{}, err
		}
		if err := c.editPool(s, cluster, pool, request, now); err != nil {
			return NodePool{}, err
		}
		return pool.object(cluster.ID, now), nil
	})
	return respond(http.StatusAccepted, "node_pool", object), err
}

// editPool changes what the request names.
func (c *Cloud) editPool(s *state, cluster *clusterRecord, pool *poolRecord, request poolUpdate, now time.Time) error {
	if request.Name != nil {
		if err := cluster.checkPoolName(*request.Name, pool.ID); err != nil {
			return err
		}
		pool.Name = *request.Name
	}
	if request.Tags != nil {
		tags, err := userTags(*request.Tags)
		if err != nil {
			return err
		}
		pool.Tags = tags
	}
	if request.Labels != nil {
		if err := pool.setLabels(*request.Labels); err != nil {
			return err
		}
	}
	if request.Taints != nil {
		if err := checkTaints(*request.Taints); err != nil {
			return err
		}
		pool.Taints = *request.Taints
	}
	wanted := scale{auto: pool.AutoScale, min: pool.MinNodes, max: pool.MaxNodes, count: request.Count}
	if request.AutoScale != nil {
		wanted.auto = *request.AutoScale
	}
	if request.MinNodes != nil {
		wanted.min = *request.MinNodes
	}
	if request.MaxNodes != nil {
		wanted.max = *request.MaxNodes
	}
	if err := cluster.setScale(pool, wanted); err != nil {
		return err
	}
	c.resize(s, pool, now)
	cluster.touch(now)
	return nil
}

func (c *Cloud) deleteNodePool(r *http.Request) (reply, error) {
	_, err := changeFor(c, r, func(s *state, now time.Time) (any, error) {
		return nil, c.removePool(s, r.PathValue("cluster"), r.PathValue("pool"), now, nodeRemoval)
	})
	return reply{status: http.StatusNoContent}, err
}

// removePool deletes a pool. It is there until its nodes are gone.
func (c *Cloud) removePool(s *state, clusterID, poolID string, now time.Time, takes time.Duration) error {
	cluster, pool, err := s.pool(clusterID, poolID, now)
	if err != nil {
		return err
	}
	if pool.DeletedAt != nil {
		return nil // asked for twice
	}
	if live := cluster.livePools(); len(live) == 1 {
		return invalid("the last node pool of a cluster cannot be deleted")
	}
	gone := c.ends(s, now, takes)
	pool.DeletedAt = &gone
	for _, node := range pool.staying() {
		node.leave(now, gone)
	}
	cluster.touch(now)
	return nil
}

func (c *Cloud) recycleNodes(r *http.Request) (reply, error) {
	request, err := read[struct {
		Nodes []string `json:"nodes"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	_, err = changeFor(c, r, func(s *state, now time.Time) (any, error) {
		cluster, pool, err := s.livePool(r.PathValue("cluster"), r.PathValue("pool"), now)
		if err != nil {
			return nil, err
		}
		for _, id := range request.Nodes {
			node, err := pool.stayingNode(id)
			if err != nil {
				return nil, err
			}
			node.leave(now, c.ends(s, now, nodeRemoval))
		}
		c.resize(s, pool, now)
		cluster.touch(now)
		return nil, nil
	})
	return reply{status: http.StatusAccepted}, err
}

func (c *Cloud) deleteNode(r *http.Request) (reply, error) {
	_, err := changeFor(c, r, func(s *state, now time.Time) (any, error) {
		cluster, pool, err := s.livePool(r.PathValue("cluster"), r.PathValue("pool"), now)
		if err != nil {
			return nil, err
		}
		node, err := pool.stayingNode(r.PathValue("node"))
		if err != nil {
			return nil, err
		}
		if !flag(r, "replace") {
			fewer := pool.Count - 1
			if err := cluster.setScale(pool, scale{auto: pool.AutoScale, min: pool.MinNodes, max: pool.MaxNodes, count: &fewer}); err != nil {
				return nil, err
			}
		}
		takes := nodeRemoval
		if flag(r, "skip_drain") {
			takes /= 2
		}
		node.leave(now, c.ends(s, now, takes))
		c.resize(s, pool, now)
		cluster.touch(now)
		return nil, nil
	})
	return reply{status: http.StatusAccepted}, err
}

// stayingNode is the pool's node of that id, unless it is already on its way out.
func (p *poolRecord) stayingNode(id string) (*nodeRecord, error) {
	for _, node := range p.staying() {
		if node.ID == id {
			return node, nil
		}
	}
	return nil, notFound("node not found")
}
