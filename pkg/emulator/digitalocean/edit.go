package digitalocean

import (
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// What tests look at. All of these return copies.

// Requests are the latest requests, oldest first, with nothing secret in them.
func (c *Cloud) Requests() []emulator.Request { return c.log.Requests() }

// Count tells how many of Requests have the method, any for "", and a path that the pattern of [emulator.MatchPath] stands for.
func (c *Cloud) Count(method, pattern string) int { return c.log.Count(method, pattern) }

// ForgetRequests empties the list of requests, for tests that look at those of one step.
func (c *Cloud) ForgetRequests() { c.log.Reset() }

// Clusters are the clusters with their pools and nodes as a client would see them now, oldest first.
func (c *Cloud) Clusters() []Cluster { return view(c, clusters) }

func clusters(s *state, now time.Time) []Cluster {
	objects := make([]Cluster, 0, len(s.Clusters))
	for _, cluster := range s.Clusters {
		objects = append(objects, cluster.object(now))
	}
	return objects
}

// VPCs are the VPCs, the default ones of the regions included, oldest first.
func (c *Cloud) VPCs() []VPC { return view(c, vpcs) }

func vpcs(s *state, _ time.Time) []VPC {
	objects := make([]VPC, 0, len(s.VPCs))
	for _, vpc := range s.VPCs {
		objects = append(objects, *vpc)
	}
	return objects
}

// Firewalls are the cloud firewalls, oldest first.
func (c *Cloud) Firewalls() []Firewall { return view(c, firewalls) }

func firewalls(s *state, now time.Time) []Firewall {
	objects := make([]Firewall, 0, len(s.Firewalls))
	for _, firewall := range s.Firewalls {
		objects = append(objects, firewall.object(now))
	}
	return objects
}

// Registry is the account's container registry, nil when there is none.
func (c *Cloud) Registry() *Registry {
	return view(c, func(s *state, _ time.Time) *Registry {
		if s.Registry == nil {
			return nil
		}
		registry := *s.Registry
		return &registry
	})
}

// LoadBalancers are those that Kubernetes made in the account, also for clusters that are gone.
func (c *Cloud) LoadBalancers() []AssociatedResource {
	return view(c, func(s *state, _ time.Time) []AssociatedResource { return copies(s.LoadBalancers) })
}

// Volumes are the volumes: see [Cloud.LoadBalancers].
func (c *Cloud) Volumes() []AssociatedResource {
	return view(c, func(s *state, _ time.Time) []AssociatedResource { return copies(s.Volumes) })
}

// VolumeSnapshots are the snapshots of volumes: see [Cloud.LoadBalancers].
func (c *Cloud) VolumeSnapshots() []AssociatedResource {
	return view(c, func(s *state, _ time.Time) []AssociatedResource { return copies(s.Snapshots) })
}

func copies(all []*AssociatedResource) []AssociatedResource {
	values := make([]AssociatedResource, 0, len(all))
	for _, resource := range all {
		values = append(values, *resource)
	}
	return values
}

// Versions are the slugs on offer, newest first.
func (c *Cloud) Versions() []string {
	return view(c, func(s *state, _ time.Time) []string {
		versions := slices.Clone(s.Versions)
		slices.SortFunc(versions, func(a, b string) int { return compareSlugs(b, a) })
		return versions
	})
}

// What tests change behind the back of a client. Each fails, and changes nothing, when what it names isn't there.

// DeleteCluster deletes a cluster as a person at the control panel would. What Kubernetes made for it stays.
func (c *Cloud) DeleteCluster(id string) error {
	_, err := change(c, func(s *state, now time.Time) (any, error) { return nil, c.removeCluster(s, id, now) })
	return err
}

// DeletePool deletes a pool with its nodes at once.
func (c *Cloud) DeletePool(clusterID, poolID string) error {
	_, err := change(c, func(s *state, now time.Time) (any, error) { return nil, c.removePool(s, clusterID, poolID, now, 0) })
	return err
}

// DeleteVPC deletes a VPC that is neither a default nor has members.
func (c *Cloud) DeleteVPC(id string) error {
	_, err := change(c, func(s *state, now time.Time) (any, error) { return nil, s.removeVPC(id, now) })
	return err
}

// ScalePool gives a pool n nodes, as the cluster's autoscaler or a person would. The bounds of an automatically scaled pool
// hold.
func (c *Cloud) ScalePool(clusterID, poolID string, n int) error {
	_, err := change(c, func(s *state, now time.Time) (any, error) {
		cluster, pool, err := s.livePool(clusterID, poolID, now)
		if err != nil {
			return nil, err
		}
		return nil, c.editPool(s, cluster, pool, poolUpdate{Count: &n}, now)
	})
	return err
}

// UpgradeCluster takes a cluster to a version on offer, as automatic upgrades do. It may also be an older one, to see how
// clients take that.
func (c *Cloud) UpgradeCluster(id, version string) error {
	_, err := change(c, func(s *state, now time.Time) (any, error) {
		cluster, err := s.cluster(id)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(s.Versions, version) {
			return nil, errors.Errorf("version %q is not on offer", version)
		}
		c.upgrade(s, cluster, version, now)
		return nil, nil
	})
	return err
}

// SetClusterStatus makes a cluster show a status (provisioning, running, degraded, error, deleted, upgrading), whatever it is
// doing, until it is called again. The status "" ends that.
func (c *Cloud) SetClusterStatus(id, status, message string) error {
	_, err := change(c, func(s *state, _ time.Time) (any, error) {
		cluster, err := s.cluster(id)
		if err != nil {
			return nil, err
		}
		cluster.ForcedStatus = nil
		if status != "" {
			cluster.ForcedStatus = &Status{State: status, Message: message}
		}
		return nil, nil
	})
	return err
}

// AddVersion puts a version on offer, such as 1.31.1-do.5.
func (c *Cloud) AddVersion(slug string) error {
	if _, ok := parseSlug(slug); !ok {
		return errors.Errorf("version %q is not of the form 1.31.1-do.5", slug)
	}
	_, err := change(c, func(s *state, _ time.Time) (any, error) {
		if !slices.Contains(s.Versions, slug) {
			s.Versions = append(s.Versions, slug)
		}
		return nil, nil
	})
	return err
}

// RemoveVersion takes a version off the offer. Clusters that have it keep it.
func (c *Cloud) RemoveVersion(slug string) error {
	_, err := change(c, func(s *state, _ time.Time) (any, error) {
		i := slices.Index(s.Versions, slug)
		if i < 0 {
			return nil, errors.Errorf("version %q is not on offer", slug)
		}
		s.Versions = slices.Delete(s.Versions, i, i+1)
		return nil, nil
	})
	return err
}

// AddLoadBalancer makes a load balancer as Kubernetes does for a Service of a cluster, and returns its id.
func (c *Cloud) AddLoadBalancer(clusterID, name string) (string, error) {
	return c.associate(clusterID, name, func(s *state, cluster *clusterRecord, resource *AssociatedResource) {
		resource.VPCUUID = cluster.VPCUUID
		s.LoadBalancers = append(s.LoadBalancers, resource)
	})
}

// AddVolume makes a volume as Kubernetes does for a claim in a cluster, and returns its id.
func (c *Cloud) AddVolume(clusterID, name string) (string, error) {
	return c.associate(clusterID, name, func(s *state, _ *clusterRecord, resource *AssociatedResource) {
		s.Volumes = append(s.Volumes, resource)
	})
}

// AddVolumeSnapshot makes a snapshot of a volume as Kubernetes does in a cluster, and returns its id.
func (c *Cloud) AddVolumeSnapshot(clusterID, name string) (string, error) {
	return c.associate(clusterID, name, func(s *state, _ *clusterRecord, resource *AssociatedResource) {
		s.Snapshots = append(s.Snapshots, resource)
	})
}

func (c *Cloud) associate(clusterID, name string, add func(*state, *clusterRecord, *AssociatedResource)) (string, error) {
	return change(c, func(s *state, now time.Time) (string, error) {
		cluster, err := s.cluster(clusterID)
		if err != nil {
			return "", err
		}
		resource := &AssociatedResource{
			ID: emulator.NewID(), Name: name, ClusterID: cluster.ID, Region: cluster.Region, CreatedAt: now.Truncate(time.Second),
		}
		add(s, cluster, resource)
		return resource.ID, nil
	})
}

// SetRegistry gives the account a container registry of that name, in the place of the one it has, or none for "".
func (c *Cloud) SetRegistry(name string) error {
	_, err := change(c, func(s *state, now time.Time) (any, error) {
		s.Registry = nil
		if name != "" {
			s.Registry = &Registry{Name: name, Region: "nyc3", CreatedAt: now.Truncate(time.Second)}
		}
		return nil, nil
	})
	return err
}

// SetVPCGracePeriod says how long clusters that are deleted from now on stay members of their VPCs, in real time: for tests
// of that with a cloud that is otherwise fast.
func (c *Cloud) SetVPCGracePeriod(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vpcGrace, c.vpcGraceOn = d, true
}
