package digitalocean

import (
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// A pointer in a request tells a key that was left out (nil, as it is for null) from one that was given, also as an empty
// list. An update leaves alone what was left out, and empties what was given empty.

type clusterRequest struct {
	Name          string        `json:"name"`
	Region        string        `json:"region"`
	Version       string        `json:"version"`
	Tags          []string      `json:"tags"`
	VPCUUID       string        `json:"vpc_uuid"`
	ClusterSubnet string        `json:"cluster_subnet"`
	ServiceSubnet string        `json:"service_subnet"`
	HA            bool          `json:"ha"`
	NodePools     []poolRequest `json:"node_pools"`
	AutoUpgrade   bool          `json:"auto_upgrade"`
	SurgeUpgrade  bool          `json:"surge_upgrade"`
	clusterSettings
}

type clusterUpdate struct {
	Name         *string   `json:"name"`
	Tags         *[]string `json:"tags"`
	HA           *bool     `json:"ha"`
	AutoUpgrade  *bool     `json:"auto_upgrade"`
	SurgeUpgrade *bool     `json:"surge_upgrade"`
	clusterSettings
}

// clusterSettings are what creating and updating have in common.
type clusterSettings struct {
	MaintenancePolicy                 *MaintenancePolicy `json:"maintenance_policy"`
	ControlPlaneFirewall              *firewallSetting   `json:"control_plane_firewall"`
	ClusterAutoscalerConfiguration    *autoscalerSetting `json:"cluster_autoscaler_configuration"`
	RoutingAgent                      *pluginSetting     `json:"routing_agent"`
	AmdGpuDevicePlugin                *pluginSetting     `json:"amd_gpu_device_plugin"`
	AmdGpuDeviceMetricsExporterPlugin *pluginSetting     `json:"amd_gpu_device_metrics_exporter_plugin"`
	NvidiaGpuDevicePlugin             *pluginSetting     `json:"nvidia_gpu_device_plugin"`
	RdmaSharedDevicePlugin            *pluginSetting     `json:"rdma_shared_dev_plugin"`
}

type firewallSetting struct {
	Enabled          *bool     `json:"enabled"`
	AllowedAddresses *[]string `json:"allowed_addresses"`
}

type autoscalerSetting struct {
	ScaleDownUtilizationThreshold *float64  `json:"scale_down_utilization_threshold"`
	ScaleDownUnneededTime         *string   `json:"scale_down_unneeded_time"`
	Expanders                     *[]string `json:"expanders"`
}

// pluginSetting may say nothing, as {"enabled": null}: that is what the Terraform provider sends for what is not configured.
type pluginSetting struct {
	Enabled *bool `json:"enabled"`
}

func (p *pluginSetting) apply(to *bool) {
	if p != nil && p.Enabled != nil {
		*to = *p.Enabled
	}
}

var expanders = []string{"random", "priority", "least_waste"}

// apply changes what the settings name.
func (s clusterSettings) apply(c *clusterRecord) error {
	if s.MaintenancePolicy != nil {
		policy, err := s.MaintenancePolicy.check()
		if err != nil {
			return err
		}
		c.Maintenance = policy
	}
	if firewall := s.ControlPlaneFirewall; firewall != nil {
		if firewall.Enabled != nil {
			c.ControlPlaneFirewall.Enabled = *firewall.Enabled
		}
		if firewall.AllowedAddresses != nil {
			for _, address := range *firewall.AllowedAddresses {
				if err := checkAddress("control_plane_firewall.allowed_addresses", address); err != nil {
					return err
				}
			}
			c.ControlPlaneFirewall.AllowedAddresses = *firewall.AllowedAddresses
		}
	}
	if err := s.ClusterAutoscalerConfiguration.apply(c); err != nil {
		return err
	}
	s.RoutingAgent.apply(&c.Plugins.RoutingAgent)
	s.AmdGpuDevicePlugin.apply(&c.Plugins.AMDGPU)
	s.AmdGpuDeviceMetricsExporterPlugin.apply(&c.Plugins.AMDGPUMetrics)
	s.NvidiaGpuDevicePlugin.apply(&c.Plugins.NvidiaGPU)
	s.RdmaSharedDevicePlugin.apply(&c.Plugins.RDMASharedDevices)
	return nil
}

// apply changes the fields that are given. A zero value takes a field back to the platform's default, which is not shown:
// that is how the Terraform provider removes it.
func (a *autoscalerSetting) apply(c *clusterRecord) error {
	if a == nil {
		return nil
	}
	configuration := c.Autoscaler.clone()
	if configuration == nil {
		configuration = &AutoscalerConfiguration{}
	}
	if threshold := a.ScaleDownUtilizationThreshold; threshold != nil {
		if *threshold < 0 || *threshold > 1 {
			return invalid("validation error: scale_down_utilization_threshold must be between 0 and 1")
		}
		configuration.ScaleDownUtilizationThreshold = threshold
		if *threshold == 0 {
			configuration.ScaleDownUtilizationThreshold = nil
		}
	}
	if unneeded := a.ScaleDownUnneededTime; unneeded != nil {
		configuration.ScaleDownUnneededTime = unneeded
		if *unneeded == "" {
			configuration.ScaleDownUnneededTime = nil
		} else if duration, err := time.ParseDuration(*unneeded); err != nil || duration < 0 {
			return invalid("validation error: scale_down_unneeded_time %q is not a duration", *unneeded)
		}
	}
	if a.Expanders != nil {
		for _, expander := range *a.Expanders {
			if !slices.Contains(expanders, expander) {
				return invalid("validation error: expander %q is not supported", expander)
			}
		}
		configuration.Expanders = slices.Clone(*a.Expanders)
	}
	c.Autoscaler = configuration
	if configuration.ScaleDownUtilizationThreshold == nil && configuration.ScaleDownUnneededTime == nil && len(configuration.Expanders) == 0 {
		c.Autoscaler = nil
	}
	return nil
}

func (c *Cloud) createCluster(r *http.Request) (reply, error) {
	request, err := read[clusterRequest](r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, now time.Time) (Cluster, error) {
		cluster, err := c.newCluster(s, request, now)
		if err != nil {
			return Cluster{}, err
		}
		s.Clusters = append(s.Clusters, cluster)
		return cluster.object(now), nil
	})
	return respond(http.StatusCreated, "kubernetes_cluster", object), err
}

// newCluster is the cluster that was asked for, not yet one of the account.
func (c *Cloud) newCluster(s *state, request clusterRequest, now time.Time) (*clusterRecord, error) {
	if err := checkName("cluster", request.Name); err != nil {
		return nil, err
	}
	if err := s.checkClusterName(request.Name, ""); err != nil {
		return nil, err
	}
	place, ok := regionNamed(request.Region)
	if !ok {
		return nil, invalid("validation error: invalid region %q", request.Region)
	}
	version, ok := resolveVersion(s.Versions, request.Version)
	if !ok {
		return nil, invalid("validation error: invalid version slug")
	}
	vpc, err := s.clusterVPC(request.VPCUUID, place.Slug)
	if err != nil {
		return nil, err
	}
	tags, err := userTags(request.Tags)
	if err != nil {
		return nil, err
	}

	cluster := &clusterRecord{
		ID:            emulator.NewID(),
		Name:          request.Name,
		Region:        place.Slug,
		Version:       version,
		ClusterSubnet: "10.244.0.0/16",
		ServiceSubnet: "10.245.0.0/16",
		VPCUUID:       vpc.ID,
		IPv4:          s.nextAddress(),
		Tags:          tags,
		HA:            request.HA,
		AutoUpgrade:   request.AutoUpgrade,
		SurgeUpgrade:  request.SurgeUpgrade,
		Maintenance:   MaintenancePolicy{StartTime: "00:00", Duration: "4h0m0s", Day: "any"},
		CreatedAt:     now.Truncate(time.Second),
		UpdatedAt:     now.Truncate(time.Second),
		ReadyAt:       c.ends(s, now, clusterCreation),
	}
	if err := s.setSubnets(cluster, vpc, request.ClusterSubnet, request.ServiceSubnet); err != nil {
		return nil, err
	}
	if len(request.NodePools) == 0 {
		return nil, invalid("validation error: a cluster needs at least one node pool")
	}
	for _, poolRequest := range request.NodePools {
		// The nodes of a new cluster are up when the cluster is.
		if _, err := c.addPool(s, cluster, poolRequest, now, cluster.ReadyAt); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(cluster.Pools, func(p *poolRecord) bool { return p.Count > 0 }) {
		return nil, invalid("validation error: a cluster needs at least one node")
	}
	if err := request.apply(cluster); err != nil {
		return nil, err
	}
	authority, err := emulator.NewAuthority(cluster.Name)
	if err != nil {
		return nil, err
	}
	cluster.Certificate = authority.Certificate
	return cluster, nil
}

// checkClusterName refuses the name of another cluster.
func (s *state) checkClusterName(name, ownID string) error {
	for _, other := range s.Clusters {
		if other.Name == name && other.ID != ownID {
			return invalid("a cluster with the name %q already exists", name)
		}
	}
	return nil
}

// clusterVPC is the VPC with that id, or the region's default one when no id was given.
func (s *state) clusterVPC(id, region string) (*VPC, error) {
	if id == "" {
		return s.defaultVPC(region), nil
	}
	vpc, err := s.vpc(id)
	if err != nil {
		return nil, err
	}
	if vpc.Region != region {
		return nil, invalid("validation error: the VPC %s is in %s, the cluster in %s", vpc.ID, vpc.Region, region)
	}
	return vpc, nil
}

// setSubnets gives a cluster the ranges that were asked for. They may meet neither the VPC's range, nor those that other
// clusters of the VPC were given.
func (s *state) setSubnets(cluster *clusterRecord, vpc *VPC, clusterSubnet, serviceSubnet string) error {
	if clusterSubnet == "" && serviceSubnet == "" {
		return nil
	}
	if clusterSubnet == "" {
		clusterSubnet = cluster.ClusterSubnet
	}
	if serviceSubnet == "" {
		serviceSubnet = cluster.ServiceSubnet
	}
	pods, err := parsePrivate("cluster_subnet", clusterSubnet)
	if err != nil {
		return err
	}
	services, err := parsePrivate("service_subnet", serviceSubnet)
	if err != nil {
		return err
	}
	if pods.Overlaps(services) {
		return invalid("validation error: cluster_subnet %s overlaps service_subnet %s", pods, services)
	}
	taken := map[string]string{vpc.IPRange: "the VPC's range"}
	for _, other := range s.Clusters {
		if other.VPCUUID == vpc.ID && other.OwnSubnets {
			taken[other.ClusterSubnet] = "the cluster_subnet of " + other.Name
			taken[other.ServiceSubnet] = "the service_subnet of " + other.Name
		}
	}
	for _, own := range []netip.Prefix{pods, services} {
		for text, owner := range taken {
			if network, err := netip.ParsePrefix(text); err == nil && network.Overlaps(own) {
				return invalid("validation error: the subnet %s overlaps %s, %s", own, owner, network)
			}
		}
	}
	cluster.ClusterSubnet, cluster.ServiceSubnet, cluster.OwnSubnets = pods.String(), services.String(), true
	return nil
}

func (c *Cloud) listClusters(r *http.Request) (reply, error) {
	return listed(r, "kubernetes_clusters", seen(c, clusters)), nil
}

func (c *Cloud) getCluster(r *http.Request) (reply, error) {
	object, err := find(c, func(s *state, now time.Time) (Cluster, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return Cluster{}, err
		}
		return cluster.object(now), nil
	})
	return respond(http.StatusOK, "kubernetes_cluster", object), err
}

func (c *Cloud) updateCluster(r *http.Request) (reply, error) {
	request, err := read[clusterUpdate](r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, now time.Time) (Cluster, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return Cluster{}, err
		}
		if request.Name != nil {
			if err := checkName("cluster", *request.Name); err != nil {
				return Cluster{}, err
			}
			if err := s.checkClusterName(*request.Name, cluster.ID); err != nil {
				return Cluster{}, err
			}
			cluster.Name = *request.Name
		}
		if request.Tags != nil {
			if cluster.Tags, err = userTags(*request.Tags); err != nil {
				return Cluster{}, err
			}
		}
		if request.HA != nil {
			if cluster.HA && !*request.HA {
				return Cluster{}, invalid("validation error: high availability cannot be disabled")
			}
			cluster.HA = *request.HA
		}
		if request.AutoUpgrade != nil {
			cluster.AutoUpgrade = *request.AutoUpgrade
		}
		if request.SurgeUpgrade != nil {
			cluster.SurgeUpgrade = *request.SurgeUpgrade
		}
		if err := request.apply(cluster); err != nil {
			return Cluster{}, err
		}
		cluster.touch(now)
		return cluster.object(now), nil
	})
	return respond(http.StatusAccepted, "kubernetes_cluster", object), err
}

func (c *Cloud) deleteCluster(r *http.Request) (reply, error) {
	_, err := changeFor(c, r, func(s *state, now time.Time) (any, error) {
		return nil, c.removeCluster(s, r.PathValue("cluster"), now)
	})
	return reply{status: http.StatusNoContent}, err
}

func (c *Cloud) upgradeCluster(r *http.Request) (reply, error) {
	request, err := read[struct {
		Version string `json:"version"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	_, err = changeFor(c, r, func(s *state, now time.Time) (any, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(s.Versions, request.Version) {
			return nil, invalid("validation error: invalid version slug")
		}
		if !canUpgrade(cluster.Version, request.Version) {
			return nil, invalid("validation error: cannot upgrade from %s to %s", cluster.Version, request.Version)
		}
		if state := cluster.status(now).State; state != "running" && state != "degraded" {
			return nil, invalid("the cluster cannot be upgraded while it is %s", state)
		}
		c.upgrade(s, cluster, request.Version, now)
		return nil, nil
	})
	return reply{status: http.StatusAccepted}, err
}

// upgrade takes a cluster to a version. The API tells the new version at once, while the status is still "upgrading": the
// Terraform provider reads it back right after its request and doesn't wait. Each node is replaced by a new one.
func (c *Cloud) upgrade(s *state, cluster *clusterRecord, version string, now time.Time) {
	cluster.Version = version
	cluster.UpgradedAt = c.ends(s, now, clusterUpgrade)
	cluster.touch(now)
	for _, pool := range cluster.livePools() {
		old := pool.staying()
		for _, node := range old {
			node.leave(now, cluster.UpgradedAt)
		}
		s.addNodes(pool, len(old), now, cluster.UpgradedAt)
	}
}

func (c *Cloud) listUpgrades(r *http.Request) (reply, error) {
	versions, err := find(c, func(s *state, _ time.Time) ([]version, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return nil, err
		}
		possible := slices.DeleteFunc(slices.Clone(s.Versions), func(v string) bool { return !canUpgrade(cluster.Version, v) })
		return describeVersions(possible), nil
	})
	return respond(http.StatusOK, "available_upgrade_versions", versions), err
}

// credentials are what a client reaches a cluster with. Each request for them mints a new token.
type credentials struct {
	Server                   string    `json:"server"`
	CertificateAuthorityData []byte    `json:"certificate_authority_data"` // base64 of the PEM in JSON
	ClientCertificateData    []byte    `json:"client_certificate_data"`    // null: tokens have taken the place of certificates
	ClientKeyData            []byte    `json:"client_key_data"`
	Token                    string    `json:"token"`
	ExpiresAt                time.Time `json:"expires_at"`

	cluster, region string
}

// defaultTokenLife is how long a token is good for that was asked for with no expiry, or with 0.
const defaultTokenLife = 7 * 24 * time.Hour

func (c *Cloud) mintCredentials(r *http.Request) (credentials, error) {
	life := defaultTokenLife
	if text := r.URL.Query().Get("expiry_seconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 || seconds > math.MaxInt32 {
			return credentials{}, invalid("validation error: expiry_seconds %q is not a number of seconds", text)
		}
		if seconds > 0 {
			life = time.Duration(seconds) * time.Second
		}
	}
	return find(c, func(s *state, now time.Time) (credentials, error) {
		cluster, err := s.cluster(r.PathValue("cluster"))
		if err != nil {
			return credentials{}, err
		}
		if !reached(now, cluster.ReadyAt) {
			return credentials{}, preconditionFailed("the cluster is still provisioning")
		}
		return credentials{
			Server:                   cluster.endpoint(),
			CertificateAuthorityData: slices.Clone(cluster.Certificate),
			Token:                    emulator.NewToken("dop_v1_", 32),
			// Tokens are good for as long as they say, however fast the emulated cloud is.
			ExpiresAt: now.Add(life).Truncate(time.Second),
			cluster:   cluster.Name,
			region:    cluster.Region,
		}, nil
	})
}

func (c *Cloud) getCredentials(r *http.Request) (reply, error) {
	minted, err := c.mintCredentials(r)
	return reply{status: http.StatusOK, document: minted}, err
}

func (c *Cloud) getKubeconfig(r *http.Request) (reply, error) {
	minted, err := c.mintCredentials(r)
	if err != nil {
		return reply{}, err
	}
	name := "do-" + minted.region + "-" + minted.cluster
	yaml, err := emulator.Kubeconfig{
		Cluster: name, Context: name, User: name + "-admin",
		Server:               minted.Server,
		CertificateAuthority: minted.CertificateAuthorityData,
		Token:                minted.Token,
	}.YAML()
	return reply{status: http.StatusOK, yaml: yaml}, err
}
