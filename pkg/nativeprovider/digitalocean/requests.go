package digitalocean

import (
	"strconv"

	"github.com/digitalocean/godo"
)

// godo leaves empty values out of its update requests, so that a last tag or label cannot be removed, nor surge
// upgrades be turned off. The requests below say exactly what is wanted: a field without omitempty is always sent, a
// pointer or an omitempty field only when it has a meaning.

// clusterCreation is the body of POST /v2/kubernetes/clusters.
type clusterCreation struct {
	Name              string             `json:"name"`
	Region            string             `json:"region"`
	Version           string             `json:"version"`
	Tags              []string           `json:"tags"`
	VPCUUID           string             `json:"vpc_uuid,omitempty"`
	ClusterSubnet     string             `json:"cluster_subnet,omitempty"`
	ServiceSubnet     string             `json:"service_subnet,omitempty"`
	HA                bool               `json:"ha"`
	NodePools         []poolRequest      `json:"node_pools"`
	MaintenancePolicy *maintenancePolicy `json:"maintenance_policy,omitempty"`
	AutoUpgrade       bool               `json:"auto_upgrade"`
	SurgeUpgrade      bool               `json:"surge_upgrade"`
	clusterComponents
}

// clusterUpdate is the body of PUT /v2/kubernetes/clusters/{id}.
type clusterUpdate struct {
	Name              string             `json:"name"`
	Tags              []string           `json:"tags"`
	MaintenancePolicy *maintenancePolicy `json:"maintenance_policy,omitempty"`
	AutoUpgrade       bool               `json:"auto_upgrade"`
	SurgeUpgrade      bool               `json:"surge_upgrade"`
	HA                *bool              `json:"ha,omitempty"` // only ever true: it cannot be taken back
	clusterComponents
}

// clusterComponents are the parts of a cluster that the platform decides on unless they are given.
type clusterComponents struct {
	ControlPlaneFirewall              *firewall                                      `json:"control_plane_firewall,omitempty"`
	ClusterAutoscalerConfiguration    *godo.KubernetesClusterAutoscalerConfiguration `json:"cluster_autoscaler_configuration,omitempty"`
	RoutingAgent                      *component                                     `json:"routing_agent,omitempty"`
	AmdGpuDevicePlugin                *component                                     `json:"amd_gpu_device_plugin,omitempty"`
	AmdGpuDeviceMetricsExporterPlugin *component                                     `json:"amd_gpu_device_metrics_exporter_plugin,omitempty"`
	NvidiaGpuDevicePlugin             *component                                     `json:"nvidia_gpu_device_plugin,omitempty"`
	RdmaSharedDevicePlugin            *component                                     `json:"rdma_shared_dev_plugin,omitempty"`
}

// maintenancePolicy is when the platform may upgrade a cluster.
type maintenancePolicy struct {
	Day       string `json:"day"`
	StartTime string `json:"start_time,omitempty"`
}

// firewall says who may reach the control plane. An empty list with enabled true lets no one in.
type firewall struct {
	Enabled          bool     `json:"enabled"`
	AllowedAddresses []string `json:"allowed_addresses"`
}

// component turns one optional component of a cluster on or off.
type component struct {
	Enabled bool `json:"enabled"`
}

// poolRequest is the body that creates a node pool, or one pool of a cluster that is created.
type poolRequest struct {
	Name      string            `json:"name"`
	Size      string            `json:"size,omitempty"` // only when the pool is created
	Count     *int              `json:"count,omitempty"`
	Tags      []string          `json:"tags"`
	Labels    map[string]string `json:"labels"`
	Taints    []taint           `json:"taints"`
	AutoScale bool              `json:"auto_scale"`
	MinNodes  *int              `json:"min_nodes,omitempty"`
	MaxNodes  *int              `json:"max_nodes,omitempty"`
}

// taint is a taint in a request. godo.Taint would be sent with capital keys.
type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// clusterUpgrade is the body of POST /v2/kubernetes/clusters/{id}/upgrade.
type clusterUpgrade struct {
	Version string `json:"version"`
}

// registryClusters is the body of POST and DELETE /v2/kubernetes/registry.
type registryClusters struct {
	ClusterUUIDs []string `json:"cluster_uuids"`
}

// vpcCreation is the body of POST /v2/vpcs.
type vpcCreation struct {
	Name        string `json:"name"`
	Region      string `json:"region"`
	Description string `json:"description,omitempty"`
	IPRange     string `json:"ip_range,omitempty"`
}

// vpcUpdate is the body of PUT /v2/vpcs/{id}, which replaces all three.
type vpcUpdate struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Default     bool   `json:"default"`
}

func itoa(n int) string { return strconv.Itoa(n) }
