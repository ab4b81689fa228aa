package civo

import (
	"maps"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// Networks are the account's networks in the order of creation, the default network of each region among them.
func (c *Cloud) Networks() []Network {
	var networks []Network
	c.store.View(func(a *account) {
		for _, network := range a.Networks {
			networks = append(networks, network.clone())
		}
	})
	return networks
}

// Firewalls are the account's firewalls in the order of creation, those of the default networks among them.
func (c *Cloud) Firewalls() []Firewall {
	var firewalls []Firewall
	c.store.View(func(a *account) {
		for _, firewall := range a.Firewalls {
			firewalls = append(firewalls, firewall.clone())
		}
	})
	return firewalls
}

// Clusters are the account's clusters in the order of creation, those on their way out among them, with the pools and nodes
// that the API shows.
func (c *Cloud) Clusters() []Cluster {
	var clusters []Cluster
	now := c.clock.Now()
	c.store.View(func(a *account) {
		for _, cluster := range a.clusters("", now) {
			clusters = append(clusters, cluster.clone(now))
		}
	})
	return clusters
}

// Volumes are those that Kubernetes made in the account, also for clusters that are gone.
func (c *Cloud) Volumes() []AssociatedResource {
	return c.associated(func(a *account) []*AssociatedResource { return a.Volumes })
}

// LoadBalancers are the load balancers: see [Cloud.Volumes].
func (c *Cloud) LoadBalancers() []AssociatedResource {
	return c.associated(func(a *account) []*AssociatedResource { return a.LoadBalancers })
}

func (c *Cloud) associated(of func(*account) []*AssociatedResource) []AssociatedResource {
	var all []AssociatedResource
	c.store.View(func(a *account) {
		for _, resource := range of(a) {
			all = append(all, *resource)
		}
	})
	return all
}

// Cluster finds a cluster by its id or its name, in any region.
func (c *Cloud) Cluster(idOrName string) (Cluster, bool) {
	for _, cluster := range c.Clusters() {
		if cluster.ID == idOrName || cluster.Name == idOrName {
			return cluster, true
		}
	}
	return Cluster{}, false
}

// Pool finds a pool of the cluster by its id.
func (k Cluster) Pool(id string) (Pool, bool) {
	for _, pool := range k.Pools {
		if pool.ID == id {
			return *pool, true
		}
	}
	return Pool{}, false
}

func (k *Cluster) clone(now time.Time) Cluster {
	copied := *k
	copied.Status = k.status(now)
	copied.Tags = slices.Clone(k.Tags)
	copied.Applications = slices.Clone(k.Applications)
	copied.Pools = nil
	for _, pool := range k.Pools {
		if passed(pool.GoneAt, now) {
			continue
		}
		pool, listed := *pool, pool.listed(now)
		pool.Labels = maps.Clone(pool.Labels)
		pool.Taints = slices.Clone(pool.Taints)
		pool.Instances = nil
		for _, instance := range listed {
			instance := *instance
			instance.Status = instance.status(now)
			pool.Instances = append(pool.Instances, &instance)
		}
		copied.Pools = append(copied.Pools, &pool)
	}
	return copied
}

// The methods below change the account as someone would who uses Civo's dashboard, some time ago: there is no status in
// between. They are for tests of drift, and refuse no change that the API would refuse, except of what does not exist.

// SetQuota bounds what the account may hold from now on.
func (c *Cloud) SetQuota(quota Quota) error {
	return c.edit(func(a *account, _ schedule) error {
		a.Quota = quota
		return nil
	})
}

// AddVersion adds a version of Kubernetes to what is offered, such as 1.33.1-k3s1; kind is stable, development or legacy.
func (c *Cloud) AddVersion(label, kind string) error {
	return c.edit(func(a *account, _ schedule) error {
		a.Versions = append(a.Versions, newVersion(label, kind))
		return nil
	})
}

// DeleteNetwork deletes a network and its firewalls.
func (c *Cloud) DeleteNetwork(id string) error {
	return c.edit(func(a *account, _ schedule) error {
		for _, network := range a.Networks {
			if network.ID == id {
				a.removeNetwork(id)
				return nil
			}
		}
		return errNetworkNotFound(id)
	})
}

// RenameNetwork changes the label of a network.
func (c *Cloud) RenameNetwork(id, label string) error {
	return c.edit(func(a *account, _ schedule) error {
		for _, network := range a.Networks {
			if network.ID == id {
				network.rename(label)
				return nil
			}
		}
		return errNetworkNotFound(id)
	})
}

// DeleteFirewall deletes a firewall.
func (c *Cloud) DeleteFirewall(id string) error {
	return c.edit(func(a *account, _ schedule) error {
		firewall, err := a.anyFirewall(id)
		if err != nil {
			return err
		}
		a.Firewalls = slices.DeleteFunc(a.Firewalls, func(f *Firewall) bool { return f == firewall })
		return nil
	})
}

// AddRule adds a rule to a firewall; its ID and FirewallID are set, and the rest is taken as it is.
func (c *Cloud) AddRule(firewallID string, rule Rule) error {
	return c.edit(func(a *account, _ schedule) error {
		firewall, err := a.anyFirewall(firewallID)
		if err != nil {
			return err
		}
		rule.ID = newID()
		firewall.add(rule)
		return nil
	})
}

// DeleteRule deletes a rule of a firewall.
func (c *Cloud) DeleteRule(firewallID, ruleID string) error {
	return c.edit(func(a *account, _ schedule) error {
		firewall, err := a.anyFirewall(firewallID)
		if err != nil {
			return err
		}
		if !firewall.removeRule(ruleID) {
			return errRuleNotFound(ruleID)
		}
		return nil
	})
}

// DeleteCluster deletes a cluster at once.
func (c *Cloud) DeleteCluster(id string) error {
	return c.editCluster(id, func(a *account, cluster *Cluster, _ schedule) error {
		a.Clusters = slices.DeleteFunc(a.Clusters, func(k *Cluster) bool { return k == cluster })
		return nil
	})
}

// RenameCluster changes the name of a cluster.
func (c *Cloud) RenameCluster(id, name string) error {
	return c.editCluster(id, func(_ *account, cluster *Cluster, _ schedule) error {
		cluster.Name = name
		return nil
	})
}

// SetClusterTags replaces the tags of a cluster.
func (c *Cloud) SetClusterTags(id string, tags ...string) error {
	return c.editCluster(id, func(_ *account, cluster *Cluster, _ schedule) error {
		cluster.Tags = slices.Clone(tags)
		return nil
	})
}

// UpgradeCluster sets the version of Kubernetes of a cluster, to any text.
func (c *Cloud) UpgradeCluster(id, version string) error {
	return c.editCluster(id, func(_ *account, cluster *Cluster, _ schedule) error {
		cluster.Version = version
		return nil
	})
}

// ScalePool gives a pool count nodes. What Cluster Autoscaler does looks like this afterwards.
func (c *Cloud) ScalePool(clusterID, poolID string, count int) error {
	return c.editPool(clusterID, poolID, func(a *account, cluster *Cluster, pool *Pool, when schedule) error {
		if count < 0 || count > maxPoolNodes {
			return errors.Errorf("scale pool %q: want 0 to %d nodes, not %d", poolID, maxPoolNodes, count)
		}
		a.scale(cluster, pool, count, when)
		return nil
	})
}

// SetPoolLabels replaces the labels of a pool.
func (c *Cloud) SetPoolLabels(clusterID, poolID string, labels map[string]string) error {
	return c.editPool(clusterID, poolID, func(_ *account, _ *Cluster, pool *Pool, _ schedule) error {
		pool.Labels = maps.Clone(labels)
		return nil
	})
}

// SetPoolTaints replaces the taints of a pool.
func (c *Cloud) SetPoolTaints(clusterID, poolID string, taints ...Taint) error {
	return c.editPool(clusterID, poolID, func(_ *account, _ *Cluster, pool *Pool, _ schedule) error {
		pool.Taints = slices.Clone(taints)
		return nil
	})
}

// DeletePool deletes a pool at once. The last one of a cluster stays: no Civo cluster is without, and clients rely on it.
func (c *Cloud) DeletePool(clusterID, poolID string) error {
	return c.editPool(clusterID, poolID, func(_ *account, cluster *Cluster, pool *Pool, _ schedule) error {
		if len(cluster.Pools) == 1 {
			return errPoolInsufficient("The last node pool of a cluster cannot be deleted")
		}
		cluster.Pools = slices.DeleteFunc(cluster.Pools, func(p *Pool) bool { return p == pool })
		return nil
	})
}

// AddVolume makes a volume as Kubernetes does for a claim in a cluster, and returns its id.
func (c *Cloud) AddVolume(clusterID, name string) (string, error) {
	return c.associate(clusterID, name, func(a *account) *[]*AssociatedResource { return &a.Volumes })
}

// AddLoadBalancer makes a load balancer as Kubernetes does for a Service of a cluster, and returns its id.
func (c *Cloud) AddLoadBalancer(clusterID, name string) (string, error) {
	return c.associate(clusterID, name, func(a *account) *[]*AssociatedResource { return &a.LoadBalancers })
}

func (c *Cloud) associate(clusterID, name string, to func(*account) *[]*AssociatedResource) (string, error) {
	id := newID()
	err := c.editCluster(clusterID, func(a *account, cluster *Cluster, when schedule) error {
		all := to(a)
		*all = append(*all, &AssociatedResource{
			ID: id, Region: cluster.Region, Name: name, ClusterID: cluster.ID, NetworkID: cluster.NetworkID, CreatedAt: when.now,
		})
		return nil
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// DeleteVolume deletes a volume.
func (c *Cloud) DeleteVolume(id string) error {
	return c.edit(func(a *account, _ schedule) error {
		if !removeAssociated(&a.Volumes, id) {
			return errVolumeNotFound(id)
		}
		return nil
	})
}

// DeleteLoadBalancer deletes a load balancer.
func (c *Cloud) DeleteLoadBalancer(id string) error {
	return c.edit(func(a *account, _ schedule) error {
		if !removeAssociated(&a.LoadBalancers, id) {
			return errLoadBalancerNotFound(id)
		}
		return nil
	})
}

func (c *Cloud) edit(change func(a *account, when schedule) error) error {
	now := c.clock.Now()
	err := c.store.Update(func(a *account) error {
		a.forget(now)
		return change(a, schedule{now: now, listedAt: now, activeAt: now, goneAt: now})
	})
	return errors.Wrap(err, "edit the emulated civo account")
}

func (c *Cloud) editCluster(id string, change func(a *account, cluster *Cluster, when schedule) error) error {
	return c.edit(func(a *account, when schedule) error {
		for _, cluster := range a.clusters("", when.now) {
			if cluster.ID == id {
				return change(a, cluster, when)
			}
		}
		return errClusterNotFound(id)
	})
}

func (c *Cloud) editPool(clusterID, poolID string, change func(a *account, cluster *Cluster, pool *Pool, when schedule) error) error {
	return c.editCluster(clusterID, func(a *account, cluster *Cluster, when schedule) error {
		pool, err := cluster.pool(poolID, when.now, true)
		if err != nil {
			return err
		}
		return change(a, cluster, pool, when)
	})
}

func (a *account) anyFirewall(id string) (*Firewall, error) {
	for _, firewall := range a.Firewalls {
		if firewall.ID == id {
			return firewall, nil
		}
	}
	return nil, errFirewallNotFound(id)
}
