package civo

import (
	"net/http"
	"slices"
	"time"
)

// AssociatedResource is something that Kubernetes made for a cluster: a load balancer or a volume. It is put there by
// [Cloud.AddLoadBalancer] and [Cloud.AddVolume], because nothing runs in an emulated cluster, and it outlives the cluster:
// https://www.civo.com/docs/networking/load-balancers/delete-load-balancer
type AssociatedResource struct {
	ID     string `json:"id"`
	Region string `json:"region"`
	Name   string `json:"name"`
	// ClusterID is the cluster that it was made for, which may be gone.
	ClusterID string    `json:"cluster_id"`
	NetworkID string    `json:"network_id"`
	CreatedAt time.Time `json:"created_at"`
}

// volumeDocument is a volume as the API answers it.
type volumeDocument struct {
	ID            string    `json:"id"`
	Name          string    `json:"name"`
	InstanceID    string    `json:"instance_id"`
	ClusterID     string    `json:"cluster_id"`
	NetworkID     string    `json:"network_id"`
	MountPoint    string    `json:"mountpoint"`
	Status        string    `json:"status"`
	VolumeType    string    `json:"volume_type"`
	SizeGigabytes int       `json:"size_gb"`
	Bootable      bool      `json:"bootable"`
	CreatedAt     time.Time `json:"created_at"`
}

// volumeDocument is the volume in no pod's use.
func (a *AssociatedResource) volumeDocument() volumeDocument {
	return volumeDocument{
		ID: a.ID, Name: a.Name, ClusterID: a.ClusterID, NetworkID: a.NetworkID, Status: "available", SizeGigabytes: 10,
		CreatedAt: a.CreatedAt,
	}
}

// loadBalancerDocument is a load balancer as the API answers it.
type loadBalancerDocument struct {
	ID                    string     `json:"id"`
	Name                  string     `json:"name"`
	ServiceName           string     `json:"service_name"`
	NetworkID             string     `json:"network_id"`
	Algorithm             string     `json:"algorithm"`
	Backends              []struct{} `json:"backends"`
	ExternalTrafficPolicy string     `json:"external_traffic_policy"`
	PublicIP              string     `json:"public_ip"`
	PrivateIP             string     `json:"private_ip"`
	FirewallID            string     `json:"firewall_id"`
	ClusterID             string     `json:"cluster_id"`
	State                 string     `json:"state"`
}

func (a *AssociatedResource) loadBalancerDocument() loadBalancerDocument {
	return loadBalancerDocument{
		ID: a.ID, Name: a.Name, ServiceName: a.Name, NetworkID: a.NetworkID, ClusterID: a.ClusterID, Algorithm: "round_robin",
		Backends: []struct{}{}, ExternalTrafficPolicy: "Cluster", PublicIP: "198.19.255.254", PrivateIP: "192.168.1.2", State: "available",
	}
}

func (c *Cloud) listVolumes(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		return documents(a.Volumes, region, (*AssociatedResource).volumeDocument), nil
	})
}

func (c *Cloud) listLoadBalancers(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		return documents(a.LoadBalancers, region, (*AssociatedResource).loadBalancerDocument), nil
	})
}

// documents are those of one region: all of them, for neither list has pages.
func documents[D any](all []*AssociatedResource, region string, document func(*AssociatedResource) D) []D {
	found := []D{}
	for _, resource := range all {
		if resource.Region == region {
			found = append(found, document(resource))
		}
	}
	return found
}

// hasVolumes tells whether a volume is in the network, which the API does not delete then.
func (a *account) hasVolumes(networkID string) bool {
	return slices.ContainsFunc(a.Volumes, func(volume *AssociatedResource) bool { return volume.NetworkID == networkID })
}

func removeAssociated(all *[]*AssociatedResource, id string) bool {
	before := len(*all)
	*all = slices.DeleteFunc(*all, func(resource *AssociatedResource) bool { return resource.ID == id })
	return len(*all) < before
}
