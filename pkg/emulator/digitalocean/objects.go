package digitalocean

import "time"

// The objects of the account, in the shape in which the API answers them. Tests get the same values from the methods of
// [Cloud].

// Cluster is a Kubernetes cluster. All its fields are in every answer.
type Cluster struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Region is a slug, such as nyc3.
	Region string `json:"region"`
	// Version is a full slug, such as 1.31.1-do.4, also when the cluster was asked for as 1.31.
	Version       string `json:"version"`
	ClusterSubnet string `json:"cluster_subnet"`
	ServiceSubnet string `json:"service_subnet"`
	VPCUUID       string `json:"vpc_uuid"`
	// IPv4 is empty while the cluster is provisioned, and for one with a highly available control plane.
	IPv4 string `json:"ipv4"`
	// Endpoint is the URL of the Kubernetes API, empty while the cluster is provisioned.
	Endpoint string `json:"endpoint"`
	// Tags are the user's, then k8s and k8s:<id>.
	Tags                              []string                 `json:"tags"`
	HA                                bool                     `json:"ha"`
	NodePools                         []NodePool               `json:"node_pools"`
	MaintenancePolicy                 MaintenancePolicy        `json:"maintenance_policy"`
	AutoUpgrade                       bool                     `json:"auto_upgrade"`
	SurgeUpgrade                      bool                     `json:"surge_upgrade"`
	RegistryEnabled                   bool                     `json:"registry_enabled"`
	ControlPlaneFirewall              ControlPlaneFirewall     `json:"control_plane_firewall"`
	ClusterAutoscalerConfiguration    *AutoscalerConfiguration `json:"cluster_autoscaler_configuration"`
	RoutingAgent                      Plugin                   `json:"routing_agent"`
	AmdGpuDevicePlugin                Plugin                   `json:"amd_gpu_device_plugin"`
	AmdGpuDeviceMetricsExporterPlugin Plugin                   `json:"amd_gpu_device_metrics_exporter_plugin"`
	NvidiaGpuDevicePlugin             Plugin                   `json:"nvidia_gpu_device_plugin"`
	RdmaSharedDevicePlugin            Plugin                   `json:"rdma_shared_dev_plugin"`
	Status                            Status                   `json:"status"`
	CreatedAt                         time.Time                `json:"created_at"`
	UpdatedAt                         time.Time                `json:"updated_at"`
}

// Pool is the cluster's pool of that name, nil when there is none.
func (c Cluster) Pool(name string) *NodePool {
	for i := range c.NodePools {
		if c.NodePools[i].Name == name {
			return &c.NodePools[i]
		}
	}
	return nil
}

// Status is the state of a cluster (provisioning, running, degraded, error, deleted, upgrading) or of a node (provisioning,
// running, draining, deleting).
type Status struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// NodePool is a pool of a cluster.
type NodePool struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Size is the slug of the nodes' size, such as s-2vcpu-4gb.
	Size string `json:"size"`
	// Count is how many nodes there shall be; there may be fewer or more while nodes come and go.
	Count int `json:"count"`
	// Tags are the user's, then k8s, k8s:<cluster id> and k8s:worker.
	Tags []string `json:"tags"`
	// Labels are nil when there are none.
	Labels    map[string]string `json:"labels"`
	Taints    []Taint           `json:"taints"`
	AutoScale bool              `json:"auto_scale"`
	// MinNodes and MaxNodes are 0 when AutoScale is off.
	MinNodes int    `json:"min_nodes"`
	MaxNodes int    `json:"max_nodes"`
	Nodes    []Node `json:"nodes"`
}

// Taint is a taint of all nodes of a pool. Requests may write its fields in any case: godo writes Key, Value and Effect.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Effect string `json:"effect"`
}

// Node is a node of a pool.
type Node struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Status    Status    `json:"status"`
	DropletID string    `json:"droplet_id"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// MaintenancePolicy is when maintenance may begin.
type MaintenancePolicy struct {
	// StartTime is HH:MM in UTC.
	StartTime string `json:"start_time"`
	// Duration is 4h0m0s, whatever the request said.
	Duration string `json:"duration"`
	// Day is any or a weekday, in lower case.
	Day string `json:"day"`
}

// ControlPlaneFirewall says from where the control plane can be reached: from anywhere when it is not enabled.
type ControlPlaneFirewall struct {
	Enabled          bool     `json:"enabled"`
	AllowedAddresses []string `json:"allowed_addresses"`
}

// AutoscalerConfiguration is how the cluster's autoscaler decides. What was not configured is nil.
type AutoscalerConfiguration struct {
	ScaleDownUtilizationThreshold *float64 `json:"scale_down_utilization_threshold"`
	ScaleDownUnneededTime         *string  `json:"scale_down_unneeded_time"`
	Expanders                     []string `json:"expanders"`
}

// Plugin is a component that DigitalOcean runs in a cluster.
type Plugin struct {
	Enabled bool `json:"enabled"`
}

// VPC is a private network of one region.
type VPC struct {
	ID          string `json:"id"`
	URN         string `json:"urn"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Region      string `json:"region"`
	// IPRange is in CIDR notation.
	IPRange string `json:"ip_range"`
	// Default tells whether clusters of the region that name no VPC go here.
	Default   bool      `json:"default"`
	CreatedAt time.Time `json:"created_at"`
}

// Firewall is a cloud firewall of Droplets, which the nodes of clusters are.
type Firewall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Status is waiting, then succeeded.
	Status         string           `json:"status"`
	InboundRules   []InboundRule    `json:"inbound_rules"`
	OutboundRules  []OutboundRule   `json:"outbound_rules"`
	DropletIDs     []int            `json:"droplet_ids"`
	Tags           []string         `json:"tags"`
	PendingChanges []map[string]any `json:"pending_changes"`
	CreatedAt      time.Time        `json:"created_at"`
}

// InboundRule lets traffic in. Ports is "0" for all of them, and empty for icmp.
type InboundRule struct {
	Protocol string `json:"protocol"`
	Ports    string `json:"ports,omitempty"`
	Sources  *Peers `json:"sources"`
}

// OutboundRule lets traffic out. Ports is "0" for all of them, and empty for icmp.
type OutboundRule struct {
	Protocol     string `json:"protocol"`
	Ports        string `json:"ports,omitempty"`
	Destinations *Peers `json:"destinations"`
}

// Peers is who may be on the other side of a firewall rule.
type Peers struct {
	Addresses        []string `json:"addresses,omitempty"`
	Tags             []string `json:"tags,omitempty"`
	DropletIDs       []int    `json:"droplet_ids,omitempty"`
	LoadBalancerUIDs []string `json:"load_balancer_uids,omitempty"`
	KubernetesIDs    []string `json:"kubernetes_ids,omitempty"`
}

// Registry is the account's container registry.
type Registry struct {
	Name              string    `json:"name"`
	Region            string    `json:"region"`
	StorageUsageBytes uint64    `json:"storage_usage_bytes"`
	CreatedAt         time.Time `json:"created_at"`
}

// AssociatedResource is something that Kubernetes made for a cluster: a load balancer, a volume or a snapshot of one. It
// outlives the cluster unless it is destroyed with it.
type AssociatedResource struct {
	ID   string
	Name string
	// ClusterID is the cluster that it was made for, which may be gone.
	ClusterID string
	Region    string
	// VPCUUID is set for a load balancer, which is a member of the VPC as long as it lives.
	VPCUUID   string
	CreatedAt time.Time
}
