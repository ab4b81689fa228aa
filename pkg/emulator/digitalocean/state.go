package digitalocean

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// cloudName marks a state file as this package's.
const cloudName = "digitalocean"

// state is the whole account, as it is kept in the state file. Records hold what was asked for and the instants at which it
// becomes true; what a client sees is computed from them and the time.
type state struct {
	Cloud         string                `json:"cloud"`
	Versions      []string              `json:"versions"`
	VPCs          []*VPC                `json:"vpcs"`
	Clusters      []*clusterRecord      `json:"clusters"`
	FormerMembers []*formerMember       `json:"former_members"`
	Firewalls     []*firewallRecord     `json:"firewalls"`
	Registry      *Registry             `json:"registry"`
	LoadBalancers []*AssociatedResource `json:"load_balancers"`
	Volumes       []*AssociatedResource `json:"volumes"`
	Snapshots     []*AssociatedResource `json:"snapshots"`
	LastDroplet   int                   `json:"last_droplet"`
	LastAddress   int                   `json:"last_address"`
	// Unseen says until when the objects of these ids are missing from reads.
	Unseen map[string]time.Time `json:"unseen,omitempty"`

	// effects are those of the change that is being made.
	effects emulator.Effects
}

// clusterRecord is a cluster as it was asked for.
type clusterRecord struct {
	ID                   string                   `json:"id"`
	Name                 string                   `json:"name"`
	Region               string                   `json:"region"`
	Version              string                   `json:"version"`
	ClusterSubnet        string                   `json:"cluster_subnet"`
	ServiceSubnet        string                   `json:"service_subnet"`
	OwnSubnets           bool                     `json:"own_subnets"` // given by the user, so they may not overlap others
	VPCUUID              string                   `json:"vpc_uuid"`
	IPv4                 string                   `json:"ipv4"`
	Tags                 []string                 `json:"tags"` // the user's alone
	HA                   bool                     `json:"ha"`
	AutoUpgrade          bool                     `json:"auto_upgrade"`
	SurgeUpgrade         bool                     `json:"surge_upgrade"`
	RegistryEnabled      bool                     `json:"registry_enabled"`
	Maintenance          MaintenancePolicy        `json:"maintenance"`
	ControlPlaneFirewall ControlPlaneFirewall     `json:"control_plane_firewall"`
	Autoscaler           *AutoscalerConfiguration `json:"autoscaler"`
	Plugins              plugins                  `json:"plugins"`
	Certificate          []byte                   `json:"certificate"` // of the cluster's authority, PEM
	CreatedAt            time.Time                `json:"created_at"`
	UpdatedAt            time.Time                `json:"updated_at"`
	ReadyAt              time.Time                `json:"ready_at"`    // provisioned until then
	UpgradedAt           time.Time                `json:"upgraded_at"` // upgraded until then
	ForcedStatus         *Status                  `json:"forced_status"`
	Pools                []*poolRecord            `json:"pools"`
	// DeletedAt and MemberUntil are set when the deletion got stuck: when the cluster is gone, and when its VPC is free.
	DeletedAt   time.Time `json:"deleted_at,omitzero"`
	MemberUntil time.Time `json:"member_until,omitzero"`
}

// plugins says which components run in a cluster.
type plugins struct {
	RoutingAgent      bool `json:"routing_agent"`
	AMDGPU            bool `json:"amd_gpu"`
	AMDGPUMetrics     bool `json:"amd_gpu_metrics"`
	NvidiaGPU         bool `json:"nvidia_gpu"`
	RDMASharedDevices bool `json:"rdma_shared_devices"`
}

// poolRecord is a pool as it was asked for.
type poolRecord struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Size      string            `json:"size"`
	Count     int               `json:"count"`
	Tags      []string          `json:"tags"` // the user's alone
	Labels    map[string]string `json:"labels"`
	Taints    []Taint           `json:"taints"`
	AutoScale bool              `json:"auto_scale"`
	MinNodes  int               `json:"min_nodes"`
	MaxNodes  int               `json:"max_nodes"`
	Nodes     []*nodeRecord     `json:"nodes"`
	DeletedAt *time.Time        `json:"deleted_at"` // when it will be gone, nil when it was not deleted
}

// nodeRecord is a node and the instants at which its states begin.
type nodeRecord struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	DropletID string    `json:"droplet_id"`
	CreatedAt time.Time `json:"created_at"`
	RunningAt time.Time `json:"running_at"`
	// A node that is going away drains from DrainedFrom on, is deleted from DeletedFrom on, and gone at GoneAt.
	Leaving     bool      `json:"leaving"`
	DrainedFrom time.Time `json:"drained_from"`
	DeletedFrom time.Time `json:"deleted_from"`
	GoneAt      time.Time `json:"gone_at"`
}

// formerMember is a deleted cluster that its VPC still counts as a member.
type formerMember struct {
	VPCUUID   string    `json:"vpc_uuid"`
	URN       string    `json:"urn"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
	Until     time.Time `json:"until"`
}

// firewallRecord is a cloud firewall and the instant from which on it is in force.
type firewallRecord struct {
	Firewall
	AppliedAt time.Time `json:"applied_at"`
}

// newState is a fresh account.
func newState(now time.Time) *state {
	s := &state{Cloud: cloudName, Versions: slices.Clone(initialVersions), LastDroplet: 412_000_000}
	s.addMissingDefaults(now)
	return s
}

// addMissingDefaults gives each region a default VPC that has none: all of them in a fresh account, and those that this
// package learned of after a state file was made.
func (s *state) addMissingDefaults(now time.Time) {
	for i, r := range regions {
		if s.defaultVPC(r.Slug) != nil {
			continue
		}
		// One /20 a region out of one /16, so that the ranges that people choose rarely meet them.
		ipRange := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 136, byte(i * 16), 0}), 20)
		for s.overlapping(ipRange) != nil {
			ipRange = nextRange(ipRange)
		}
		id := emulator.NewID()
		s.VPCs = append(s.VPCs, &VPC{
			ID: id, URN: "do:vpc:" + id, Name: "default-" + r.Slug, Region: r.Slug,
			IPRange: ipRange.String(), Default: true, CreatedAt: now.Truncate(time.Second),
		})
	}
}

func reached(now, at time.Time) bool { return !now.Before(at) }

// settle forgets what is gone by now.
func (s *state) settle(now time.Time) {
	s.removeDeleted(now)
	maps.DeleteFunc(s.Unseen, func(_ string, until time.Time) bool { return reached(now, until) })
	s.FormerMembers = slices.DeleteFunc(s.FormerMembers, func(m *formerMember) bool { return reached(now, m.Until) })
	for _, cluster := range s.Clusters {
		cluster.Pools = slices.DeleteFunc(cluster.Pools, func(p *poolRecord) bool { return p.gone(now) })
		for _, pool := range cluster.Pools {
			pool.Nodes = slices.DeleteFunc(pool.Nodes, func(n *nodeRecord) bool { return n.gone(now) })
		}
	}
}

func (s *state) cluster(id string) (*clusterRecord, error) {
	for _, cluster := range s.Clusters {
		if cluster.ID == id {
			return cluster, nil
		}
	}
	return nil, notFound("cluster not found")
}

func (s *state) vpc(id string) (*VPC, error) {
	for _, vpc := range s.VPCs {
		if vpc.ID == id {
			return vpc, nil
		}
	}
	return nil, notFound("The VPC you were accessing could not be found.")
}

// defaultVPC is where clusters of a region go that name no VPC. Each region always has one.
func (s *state) defaultVPC(region string) *VPC {
	for _, vpc := range s.VPCs {
		if vpc.Region == region && vpc.Default {
			return vpc
		}
	}
	return nil
}

func (s *state) nextDroplet() string {
	s.LastDroplet++
	return strconv.Itoa(s.LastDroplet)
}

// nextAddress is an address for a control plane, out of the network that RFC 5737 sets aside for documentation.
func (s *state) nextAddress() string {
	s.LastAddress++
	return fmt.Sprintf("203.0.113.%d", (s.LastAddress-1)%254+1)
}

// addNodes adds nodes to a pool, that run from runningAt on.
func (s *state) addNodes(pool *poolRecord, n int, now, runningAt time.Time) {
	for range n {
		pool.Nodes = append(pool.Nodes, &nodeRecord{
			ID:        emulator.NewID(),
			Name:      pool.Name + "-" + nodeSuffix(),
			DropletID: s.nextDroplet(),
			CreatedAt: now.Truncate(time.Second),
			RunningAt: runningAt,
		})
	}
}

// nodeSuffix is the end of a node's name. Its letters are those of Kubernetes' generated names, which spell no words.
func nodeSuffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[rand.IntN(len(letters))]
	}
	return string(suffix)
}

// pool is the cluster's pool, also while it is being deleted.
func (c *clusterRecord) pool(id string, now time.Time) (*poolRecord, error) {
	for _, pool := range c.Pools {
		if pool.ID == id && !pool.gone(now) {
			return pool, nil
		}
	}
	return nil, notFound("node pool not found")
}

// livePools are the pools that were not deleted.
func (c *clusterRecord) livePools() []*poolRecord {
	var live []*poolRecord
	for _, pool := range c.Pools {
		if pool.DeletedAt == nil {
			live = append(live, pool)
		}
	}
	return live
}

// status is what the cluster is doing.
func (c *clusterRecord) status(now time.Time) Status {
	switch {
	case c.ForcedStatus != nil:
		return *c.ForcedStatus
	case !c.DeletedAt.IsZero():
		return Status{State: "deleted", Message: "the cluster is being deleted"}
	case !reached(now, c.ReadyAt):
		return Status{State: "provisioning", Message: "provisioning"}
	case !reached(now, c.UpgradedAt):
		return Status{State: "upgrading"}
	default:
		return Status{State: "running"}
	}
}

// object is the cluster as a client sees it now.
func (c *clusterRecord) object(now time.Time) Cluster {
	object := Cluster{
		ID:                             c.ID,
		Name:                           c.Name,
		Region:                         c.Region,
		Version:                        c.Version,
		ClusterSubnet:                  c.ClusterSubnet,
		ServiceSubnet:                  c.ServiceSubnet,
		VPCUUID:                        c.VPCUUID,
		Tags:                           append(slices.Clone(c.Tags), "k8s", "k8s:"+c.ID),
		HA:                             c.HA,
		NodePools:                      []NodePool{},
		MaintenancePolicy:              c.Maintenance,
		AutoUpgrade:                    c.AutoUpgrade,
		SurgeUpgrade:                   c.SurgeUpgrade,
		RegistryEnabled:                c.RegistryEnabled,
		ControlPlaneFirewall:           c.ControlPlaneFirewall,
		ClusterAutoscalerConfiguration: c.Autoscaler.clone(),
		RoutingAgent:                   Plugin{c.Plugins.RoutingAgent},
		AmdGpuDevicePlugin:             Plugin{c.Plugins.AMDGPU},
		AmdGpuDeviceMetricsExporterPlugin: Plugin{
			c.Plugins.AMDGPUMetrics,
		},
		NvidiaGpuDevicePlugin:  Plugin{c.Plugins.NvidiaGPU},
		RdmaSharedDevicePlugin: Plugin{c.Plugins.RDMASharedDevices},
		Status:                 c.status(now),
		CreatedAt:              c.CreatedAt,
		UpdatedAt:              c.UpdatedAt,
	}
	object.ControlPlaneFirewall.AllowedAddresses = cloneOrEmpty(c.ControlPlaneFirewall.AllowedAddresses)
	if reached(now, c.ReadyAt) {
		object.Endpoint = c.endpoint()
		if !c.HA {
			object.IPv4 = c.IPv4
		}
	}
	for _, pool := range c.Pools {
		if !pool.gone(now) {
			object.NodePools = append(object.NodePools, pool.object(c.ID, now))
		}
	}
	return object
}

func (c *clusterRecord) endpoint() string { return "https://" + c.ID + ".k8s.ondigitalocean.com" }

func (c *clusterRecord) urn() string { return "do:kubernetes:" + c.ID }

// touch notes that the cluster was changed.
func (c *clusterRecord) touch(now time.Time) { c.UpdatedAt = now.Truncate(time.Second) }

func (p *poolRecord) gone(now time.Time) bool {
	return p.DeletedAt != nil && reached(now, *p.DeletedAt)
}

// object is the pool as a client sees it now.
func (p *poolRecord) object(clusterID string, now time.Time) NodePool {
	object := NodePool{
		ID:        p.ID,
		Name:      p.Name,
		Size:      p.Size,
		Count:     p.Count,
		Tags:      append(slices.Clone(p.Tags), "k8s", "k8s:"+clusterID, "k8s:worker"),
		Labels:    maps.Clone(p.Labels),
		Taints:    cloneOrEmpty(p.Taints),
		AutoScale: p.AutoScale,
		MinNodes:  p.MinNodes,
		MaxNodes:  p.MaxNodes,
		Nodes:     []Node{},
	}
	for _, node := range p.Nodes {
		if !node.gone(now) {
			object.Nodes = append(object.Nodes, node.object(now))
		}
	}
	return object
}

// staying are the nodes that are not on their way out, oldest first.
func (p *poolRecord) staying() []*nodeRecord {
	var staying []*nodeRecord
	for _, node := range p.Nodes {
		if !node.Leaving {
			staying = append(staying, node)
		}
	}
	return staying
}

func (n *nodeRecord) gone(now time.Time) bool { return n.Leaving && reached(now, n.GoneAt) }

// leave lets the node drain from start on, and be gone at goneAt.
func (n *nodeRecord) leave(start, goneAt time.Time) {
	n.Leaving = true
	n.DrainedFrom = start
	n.DeletedFrom = start.Add(goneAt.Sub(start) / 2)
	n.GoneAt = goneAt
}

// object is the node as a client sees it now.
func (n *nodeRecord) object(now time.Time) Node {
	object := Node{ID: n.ID, Name: n.Name, DropletID: n.DropletID, CreatedAt: n.CreatedAt, UpdatedAt: n.CreatedAt}
	switch {
	case n.Leaving && reached(now, n.DeletedFrom):
		object.Status.State = "deleting"
		object.UpdatedAt = n.DeletedFrom.Truncate(time.Second)
	case n.Leaving && reached(now, n.DrainedFrom):
		object.Status.State = "draining"
		object.UpdatedAt = n.DrainedFrom.Truncate(time.Second)
	case reached(now, n.RunningAt):
		object.Status.State = "running"
		object.UpdatedAt = n.RunningAt.Truncate(time.Second)
	default:
		object.Status.State = "provisioning"
	}
	return object
}

// object is the firewall as a client sees it now.
func (f *firewallRecord) object(now time.Time) Firewall {
	object := f.Firewall
	object.Status = "waiting"
	if reached(now, f.AppliedAt) {
		object.Status = "succeeded"
	}
	object.InboundRules = cloneOrEmpty(f.InboundRules)
	for i := range object.InboundRules {
		object.InboundRules[i].Sources = object.InboundRules[i].Sources.clone()
	}
	object.OutboundRules = cloneOrEmpty(f.OutboundRules)
	for i := range object.OutboundRules {
		object.OutboundRules[i].Destinations = object.OutboundRules[i].Destinations.clone()
	}
	object.DropletIDs = cloneOrEmpty(f.DropletIDs)
	object.Tags = cloneOrEmpty(f.Tags)
	object.PendingChanges = []map[string]any{}
	return object
}

func (p *Peers) clone() *Peers {
	return &Peers{
		Addresses: slices.Clone(p.Addresses), Tags: slices.Clone(p.Tags), DropletIDs: slices.Clone(p.DropletIDs),
		LoadBalancerUIDs: slices.Clone(p.LoadBalancerUIDs), KubernetesIDs: slices.Clone(p.KubernetesIDs),
	}
}

func (a *AutoscalerConfiguration) clone() *AutoscalerConfiguration {
	if a == nil {
		return nil
	}
	clone := AutoscalerConfiguration{Expanders: slices.Clone(a.Expanders)}
	if a.ScaleDownUtilizationThreshold != nil {
		threshold := *a.ScaleDownUtilizationThreshold
		clone.ScaleDownUtilizationThreshold = &threshold
	}
	if a.ScaleDownUnneededTime != nil {
		unneeded := *a.ScaleDownUnneededTime
		clone.ScaleDownUnneededTime = &unneeded
	}
	return &clone
}

// cloneOrEmpty copies a list, so that no caller holds a part of the state, and makes it [] in JSON when it is empty.
func cloneOrEmpty[T any](list []T) []T {
	return append(make([]T, 0, len(list)), list...)
}
