package digitalocean

import (
	"net/http"
	"slices"
	"time"
)

// What Kubernetes makes by itself in the account. It is put there by [Cloud.AddLoadBalancer] and its like, because nothing
// runs in an emulated cluster.

// named is an associated resource as the list of them shows it.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (c *Cloud) listAssociatedResources(r *http.Request) (reply, error) {
	return find(c, func(s *state, _ time.Time) (reply, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return reply{}, err
		}
		of := func(all []*AssociatedResource) []named {
			own := []named{}
			for _, resource := range all {
				if resource.ClusterID == cluster.ID {
					own = append(own, named{resource.ID, resource.Name})
				}
			}
			return own
		}
		return reply{status: http.StatusOK, document: map[string][]named{
			"volumes": of(s.Volumes), "volume_snapshots": of(s.Snapshots), "load_balancers": of(s.LoadBalancers),
		}}, nil
	})
}

func (c *Cloud) destroyWithAllResources(r *http.Request) (reply, error) {
	return c.destroyWith(r, func(resource *AssociatedResource) bool { return resource.ClusterID == r.PathValue("cluster") })
}

func (c *Cloud) destroyWithSomeResources(r *http.Request) (reply, error) {
	request, err := read[struct {
		Volumes         []string `json:"volumes"`
		VolumeSnapshots []string `json:"volume_snapshots"`
		LoadBalancers   []string `json:"load_balancers"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	chosen := slices.Concat(request.Volumes, request.VolumeSnapshots, request.LoadBalancers)
	return c.destroyWith(r, func(resource *AssociatedResource) bool {
		return resource.ClusterID == r.PathValue("cluster") && slices.Contains(chosen, resource.ID)
	})
}

// destroyWith deletes a cluster and the chosen ones of its resources.
func (c *Cloud) destroyWith(r *http.Request, chosen func(*AssociatedResource) bool) (reply, error) {
	_, err := changeFor(c, r, func(s *state, now time.Time) (any, error) {
		if err := c.removeCluster(s, r.PathValue("cluster"), now); err != nil {
			return nil, err
		}
		for _, all := range []*[]*AssociatedResource{&s.Volumes, &s.Snapshots, &s.LoadBalancers} {
			*all = slices.DeleteFunc(*all, chosen)
		}
		return nil, nil
	})
	return reply{status: http.StatusNoContent}, err
}

// removeCluster deletes a cluster. It is gone at once for those who ask for it (godo can't decode a state "deleting"), and a
// member of its VPC for a while longer.
func (c *Cloud) removeCluster(s *state, id string, now time.Time) error {
	cluster, err := s.cluster(id)
	if err != nil {
		return err
	}
	if !cluster.DeletedAt.IsZero() {
		return nil // asked for twice
	}
	cluster.DeletedAt = now.Add(s.effects.Stuck)
	cluster.MemberUntil = latest(c.membershipEnds(cluster.DeletedAt), cluster.DeletedAt.Add(s.effects.Linger))
	s.removeDeleted(now)
	return nil
}

func resourceOf(all []*AssociatedResource, id string) (*AssociatedResource, error) {
	for _, resource := range all {
		if resource.ID == id {
			return resource, nil
		}
	}
	return nil, notFound("The resource you were accessing could not be found.")
}

func remove(all *[]*AssociatedResource, id string) error {
	if _, err := resourceOf(*all, id); err != nil {
		return err
	}
	*all = slices.DeleteFunc(*all, func(resource *AssociatedResource) bool { return resource.ID == id })
	return nil
}

// loadBalancer is a load balancer as the API shows it.
func loadBalancer(resource AssociatedResource) map[string]any {
	place, _ := regionNamed(resource.Region)
	return map[string]any{
		"id": resource.ID, "name": resource.Name, "ip": "203.0.113.254", "status": "active", "size_unit": 1,
		"algorithm": "round_robin", "created_at": resource.CreatedAt, "region": place, "vpc_uuid": resource.VPCUUID,
		"forwarding_rules": []any{}, "droplet_ids": []int{}, "tag": "k8s:" + resource.ClusterID,
	}
}

// volume is a volume as the API shows it.
func volume(resource AssociatedResource) map[string]any {
	place, _ := regionNamed(resource.Region)
	return map[string]any{
		"id": resource.ID, "name": resource.Name, "region": place, "size_gigabytes": 10, "description": "",
		"droplet_ids": []int{}, "created_at": resource.CreatedAt, "filesystem_type": "ext4", "filesystem_label": "",
		"tags": []string{"k8s:" + resource.ClusterID},
	}
}

func shown(all []AssociatedResource, show func(AssociatedResource) map[string]any) []map[string]any {
	objects := make([]map[string]any, 0, len(all))
	for _, resource := range all {
		objects = append(objects, show(resource))
	}
	return objects
}

func (c *Cloud) listLoadBalancers(r *http.Request) (reply, error) {
	return listed(r, "load_balancers", shown(c.LoadBalancers(), loadBalancer)), nil
}

func (c *Cloud) getLoadBalancer(r *http.Request) (reply, error) {
	return find(c, func(s *state, _ time.Time) (reply, error) {
		resource, err := resourceOf(s.LoadBalancers, r.PathValue("load_balancer"))
		if err != nil {
			return reply{}, err
		}
		return respond(http.StatusOK, "load_balancer", loadBalancer(*resource)), nil
	})
}

func (c *Cloud) deleteLoadBalancer(r *http.Request) (reply, error) {
	_, err := change(c, func(s *state, _ time.Time) (any, error) {
		return nil, remove(&s.LoadBalancers, r.PathValue("load_balancer"))
	})
	return reply{status: http.StatusNoContent}, err
}

func (c *Cloud) listVolumes(r *http.Request) (reply, error) {
	return listed(r, "volumes", shown(c.Volumes(), volume)), nil
}

func (c *Cloud) getVolume(r *http.Request) (reply, error) {
	return find(c, func(s *state, _ time.Time) (reply, error) {
		resource, err := resourceOf(s.Volumes, r.PathValue("volume"))
		if err != nil {
			return reply{}, err
		}
		return respond(http.StatusOK, "volume", volume(*resource)), nil
	})
}

func (c *Cloud) deleteVolume(r *http.Request) (reply, error) {
	_, err := change(c, func(s *state, _ time.Time) (any, error) {
		return nil, remove(&s.Volumes, r.PathValue("volume"))
	})
	return reply{status: http.StatusNoContent}, err
}
