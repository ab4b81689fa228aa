package digitalocean

import (
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// Timeouts of operations whose caller names none. An upgrade replaces node after node.
const (
	clusterCreateTimeout = 30 * time.Minute
	clusterUpdateTimeout = 90 * time.Minute
	clusterDeleteTimeout = 30 * time.Minute
)

// clusterMeta and poolMeta are what the Terraform bridge keeps beside a state: without the schema version the official
// plugin would take a state for an old one and migrate it.
const (
	clusterMeta = `{"e2bfb730-ecaa-11e6-8f88-34363bc7c4c0":{"create":1800000000000},"schema_version":"3"}`
	poolMeta    = `{"e2bfb730-ecaa-11e6-8f88-34363bc7c4c0":{"create":1800000000000,"delete":1800000000000},"schema_version":"1"}`
)

func clusterResource() *nativeprovider.Resource {
	return &nativeprovider.Resource{
		Description: "A managed Kubernetes cluster with its default node pool.",
		Properties:  clusterProperties(),
		Timeouts:    nativeprovider.Timeouts{Create: clusterCreateTimeout, Update: clusterUpdateTimeout, Delete: clusterDeleteTimeout},
		Meta:        clusterMeta,
		Check:       checkCluster,
		Diff:        diffCluster,
		Identity: []string{"region", "version", "vpcUuid", "clusterSubnet", "serviceSubnet", "ha", "tags", "nodePool.name",
			"nodePool.size"},
		DeleteBeforeReplace: keepsName,
		Create:              createCluster,
		Read:                readCluster,
		Update:              updateCluster,
		Delete:              deleteCluster,
	}
}

func clusterProperties() []nativeprovider.Property {
	pool := poolProperties("nodePool.")
	for i := range pool {
		switch pool[i].Name {
		case "name":
			pool[i].Autoname, pool[i].Required = 0, true
		case "size":
			pool[i].Description = "Slug of the size of each node. A change replaces the whole cluster."
		}
	}
	pool = append(pool, nativeprovider.Property{
		Name: "id", Type: nativeprovider.String, Output: true, Description: "Id of the default pool."})

	return []nativeprovider.Property{
		{Name: "name", Type: nativeprovider.String, Autoname: 255, Check: notEmpty,
			Description: "Name, unique in the account. It can be changed."},
		{Name: "region", Type: nativeprovider.String, Required: true, Replaces: true, Check: notEmpty, Equal: sameText,
			Description: "Slug of the region, for example nyc1. A change replaces the cluster."},
		{Name: "version", Type: nativeprovider.String, Required: true, Check: notEmpty,
			Description: "Slug of the Kubernetes version, for example 1.31.1-do.4. A newer one is an upgrade in place; an older one is an error."},
		{Name: "nodePool", Type: nativeprovider.Object, Required: true, Fields: pool, ObjectName: "KubernetesClusterNodePool",
			Description: "The default node pool. It lives and dies with the cluster."},
		{Name: "vpcUuid", Type: nativeprovider.String, Computed: true, Replaces: true,
			Description: "Id of the VPC; the region's default one without it. A change replaces the cluster."},
		{Name: "clusterSubnet", Type: nativeprovider.String, Computed: true, Replaces: true, Check: isCIDR,
			Description: "Range of the addresses of pods in CIDR notation. A change replaces the cluster."},
		{Name: "serviceSubnet", Type: nativeprovider.String, Computed: true, Replaces: true, Check: isCIDR,
			Description: "Range of the addresses of services in CIDR notation. A change replaces the cluster."},
		{Name: "ha", Type: nativeprovider.Bool, Default: false,
			Description: "Whether the control plane is highly available. It cannot be turned off again."},
		{Name: "autoUpgrade", Type: nativeprovider.Bool,
			Description: "Whether the platform installs new patch releases in the maintenance window. Then a version that is older than the cluster's, of the same minor release, is no change."},
		{Name: "surgeUpgrade", Type: nativeprovider.Bool, Default: true,
			Description: "Whether an upgrade adds nodes before it takes old ones away."},
		{Name: "registryIntegration", Type: nativeprovider.Bool, Default: false,
			Description: "Whether the cluster may pull from the account's container registry, which must exist."},
		tagsProperty("Tags of the cluster."),
		{Name: "maintenancePolicy", Type: nativeprovider.Object, Computed: true, ObjectName: "KubernetesClusterMaintenancePolicy",
			Description: "When the platform may upgrade; chosen by the platform without it.",
			Fields: []nativeprovider.Property{
				{Name: "day", Type: nativeprovider.String, Computed: true, Check: isDay, Equal: sameText,
					Description: "Day of the week, or any."},
				{Name: "startTime", Type: nativeprovider.String, Computed: true, Check: isClockTime,
					Description: "Beginning of the window in UTC, HH:MM."},
				{Name: "duration", Type: nativeprovider.String, Output: true, Description: "Length of the window."},
			}},
		{Name: "controlPlaneFirewall", Type: nativeprovider.Object, Computed: true, ObjectName: "KubernetesClusterControlPlaneFirewall",
			Description: "Who may reach the control plane.",
			Fields: []nativeprovider.Property{
				{Name: "enabled", Type: nativeprovider.Bool, Required: true, Description: "Whether the firewall is on."},
				{Name: "allowedAddresses", Type: nativeprovider.List, Required: true,
					Elem:        &nativeprovider.Property{Type: nativeprovider.String},
					Description: "Addresses and ranges that are let in."},
			}},
		{Name: "clusterAutoscalerConfigurations", Type: nativeprovider.List, Check: atMostOne,
			Description: "How the cluster autoscaler behaves; one at most.",
			Elem: &nativeprovider.Property{Type: nativeprovider.Object, ObjectName: "KubernetesClusterClusterAutoscalerConfiguration",
				Fields: []nativeprovider.Property{
					{Name: "scaleDownUtilizationThreshold", Type: nativeprovider.Number, Check: isFraction,
						Description: "Use of a node, 0 to 1, below which it may be taken away."},
					{Name: "scaleDownUnneededTime", Type: nativeprovider.String,
						Description: "How long a node must be unneeded before it is taken away, for example 1m30s."},
					{Name: "expanders", Type: nativeprovider.List, Elem: &nativeprovider.Property{Type: nativeprovider.String},
						Description: "Expanders of the autoscaler, in order of preference."},
				}}},
		componentProperty("routingAgent", "RoutingAgent", "The routing agent."),
		componentProperty("amdGpuDevicePlugin", "AmdGpuDevicePlugin", "The device plugin for AMD GPUs."),
		componentProperty("amdGpuDeviceMetricsExporterPlugin", "AmdGpuDeviceMetricsExporterPlugin", "The metrics exporter for AMD GPUs."),
		componentProperty("nvidiaGpuDevicePlugin", "NvidiaGpuDevicePlugin", "The device plugin for NVIDIA GPUs."),
		componentProperty("rdmaSharedDevicePlugin", "RdmaSharedDevicePlugin", "The plugin for shared RDMA devices."),
		{Name: "destroyAllAssociatedResources", Type: nativeprovider.Bool, Default: false,
			Description: "Whether load balancers, volumes and snapshots made through Kubernetes are destroyed with the cluster."},
		{Name: "kubeconfigExpireSeconds", Type: nativeprovider.Int, Check: atLeast(0),
			Description: "How long the credentials are valid, in seconds; seven days when 0 or not given."},

		{Name: "clusterUrn", Type: nativeprovider.String, Output: true, Description: "DigitalOcean's URN: do:kubernetes:<id>."},
		{Name: "endpoint", Type: nativeprovider.String, Output: true, Description: "URL of the Kubernetes API."},
		{Name: "ipv4Address", Type: nativeprovider.String, Output: true, ChangesWith: []string{"ha"},
			Description: "Address of the control plane; empty when it is highly available."},
		{Name: "status", Type: nativeprovider.String, Output: true, Description: "State of the cluster, for example running."},
		{Name: "createdAt", Type: nativeprovider.String, Output: true, Description: "When it was created, as Go writes a time."},
		{Name: "updatedAt", Type: nativeprovider.String, Output: true, Description: "When it was last changed, as Go writes a time.",
			ChangesWith: []string{"name", "version", "nodePool", "ha", "autoUpgrade", "surgeUpgrade", "registryIntegration", "tags",
				"maintenancePolicy", "controlPlaneFirewall", "clusterAutoscalerConfigurations", "routingAgent", "amdGpuDevicePlugin",
				"amdGpuDeviceMetricsExporterPlugin", "nvidiaGpuDevicePlugin", "rdmaSharedDevicePlugin"}},
		{Name: "kubeConfigs", Type: nativeprovider.List, Output: true, Secret: true, ChangesWith: []string{"kubeconfigExpireSeconds"},
			Description: "Credentials of the cluster: one element.",
			Elem: &nativeprovider.Property{Type: nativeprovider.Object, ObjectName: "KubernetesClusterKubeConfig",
				Fields: kubeConfigProperties()}},
	}
}

func kubeConfigProperties() []nativeprovider.Property {
	return []nativeprovider.Property{
		{Name: "rawConfig", Type: nativeprovider.String, Output: true, Description: "A kubeconfig in YAML."},
		{Name: "host", Type: nativeprovider.String, Output: true, Description: "URL of the Kubernetes API."},
		{Name: "clusterCaCertificate", Type: nativeprovider.String, Output: true, Description: "Certificate of the cluster's authority, base64."},
		{Name: "token", Type: nativeprovider.String, Output: true, Description: "Bearer token."},
		{Name: "clientCertificate", Type: nativeprovider.String, Output: true, Description: "Client certificate, when the platform gives one."},
		{Name: "clientKey", Type: nativeprovider.String, Output: true, Description: "Key of the client certificate."},
		{Name: "expiresAt", Type: nativeprovider.String, Output: true, Description: "When the credentials expire, RFC 3339."},
	}
}

func componentProperty(name, object, description string) nativeprovider.Property {
	return nativeprovider.Property{
		Name: name, Type: nativeprovider.Object, Computed: true, ObjectName: "KubernetesCluster" + object, Description: description,
		Fields: []nativeprovider.Property{
			{Name: "enabled", Type: nativeprovider.Bool, Required: true, Description: "Whether it is installed."},
		},
	}
}

func tagsProperty(description string) nativeprovider.Property {
	return nativeprovider.Property{
		Name: "tags", Type: nativeprovider.Set, Equal: sameTagValues, Description: description,
		Elem: &nativeprovider.Property{Type: nativeprovider.String, Check: isTag, Equal: sameText},
	}
}

func atMostOne(value any) error {
	if list, _ := value.([]any); len(list) > 1 {
		return errors.Errorf("has %d elements, may have one", len(list))
	}
	return nil
}

func isFraction(value any) error {
	if f, ok := value.(float64); ok && (f < 0 || f > 1) {
		return errors.Errorf("is %v, must be from 0 to 1", f)
	}
	return nil
}

func checkCluster(inputs resource.PropertyMap) []plugin.CheckFailure {
	if inputs["nodePool"].IsComputed() {
		return nil
	}
	return checkPool("nodePool.", nativeprovider.GetObject(inputs, "nodePool"))
}

// diffCluster drops what is no change, and refuses what the platform cannot do.
func diffCluster(diff *nativeprovider.Diff) error {
	dropPoolNoise(diff, "nodePool.", nativeprovider.GetObject(diff.New, "nodePool"))

	// A cluster that is replaced is made anew, in whatever version and with whatever control plane.
	if diff.Replaces() {
		return nil
	}
	if diff.Changed("ha") && diff.Known("ha") && nativeprovider.GetBool(diff.Old, "ha") && !nativeprovider.GetBool(diff.New, "ha") {
		return errors.Errorf("ha: cluster %s has a highly available control plane, which digitalocean cannot turn off; set ha to true, "+
			"or destroy the cluster on purpose (pulumi destroy --target) and run again", diff.ID)
	}
	if !diff.Changed("version") || !diff.Known("version") {
		return nil
	}
	return diffVersion(diff)
}

// diffVersion decides what another version means. A cluster can only be upgraded; the official plugin replaces it when
// a lower version is wanted, which is how an older manifest destroys a cluster that was upgraded meanwhile.
func diffVersion(diff *nativeprovider.Diff) error {
	live := nativeprovider.GetString(diff.Old, "version")
	wanted := nativeprovider.GetString(diff.New, "version")
	if isVersionPrefix(wanted, live) {
		diff.Drop("version") // "1.31" is what a cluster of 1.31.1-do.4 has
		return nil
	}
	order, ok := versionOrder(wanted, live)
	if !ok || order >= 0 {
		return nil
	}
	if nativeprovider.GetBool(diff.New, "autoUpgrade") && sameMinor(wanted, live) {
		diff.Drop("version") // the platform went ahead, as it was asked to
		return nil
	}
	return errors.Errorf("version: cluster %s runs %s, and digitalocean cannot go back to %s; set version to %s or newer "+
		"(or add it to ignoreChanges), or destroy the cluster on purpose (pulumi destroy --target) and run again", diff.ID, live, wanted, live)
}

// clusterState is what a live cluster looks like in the state. recorded is the state or the inputs of before: it says
// what the platform does not know.
func clusterState(live *liveCluster, recorded resource.PropertyMap, c credentials) resource.PropertyMap {
	state := resource.PropertyMap{
		"name":                resource.NewProperty(live.Name),
		"region":              resource.NewProperty(live.RegionSlug),
		"version":             resource.NewProperty(live.VersionSlug),
		"vpcUuid":             resource.NewProperty(live.VPCUUID),
		"clusterSubnet":       resource.NewProperty(live.ClusterSubnet),
		"serviceSubnet":       resource.NewProperty(live.ServiceSubnet),
		"ha":                  resource.NewProperty(live.HA),
		"autoUpgrade":         resource.NewProperty(live.AutoUpgrade),
		"surgeUpgrade":        resource.NewProperty(live.SurgeUpgrade),
		"registryIntegration": resource.NewProperty(live.RegistryEnabled),
		"tags":                nativeprovider.Strings(userTags(live.Tags)),
		"clusterUrn":          resource.NewProperty(live.URN()),
		"endpoint":            resource.NewProperty(live.Endpoint),
		"ipv4Address":         resource.NewProperty(live.IPv4),
		"status":              resource.NewProperty(live.Status.State),
		"createdAt":           resource.NewProperty(timeText(live.CreatedAt)),
		"updatedAt":           resource.NewProperty(timeText(live.UpdatedAt)),

		"nodePool":                          defaultPoolState(live, nativeprovider.GetObject(recorded, "nodePool")),
		"maintenancePolicy":                 maintenanceState(live.MaintenancePolicy),
		"controlPlaneFirewall":              firewallState(live.ControlPlaneFirewall),
		"clusterAutoscalerConfigurations":   autoscalerState(live.ClusterAutoscalerConfiguration),
		"routingAgent":                      resource.NewNullProperty(),
		"amdGpuDevicePlugin":                resource.NewNullProperty(),
		"amdGpuDeviceMetricsExporterPlugin": resource.NewNullProperty(),
		"nvidiaGpuDevicePlugin":             resource.NewNullProperty(),
		"rdmaSharedDevicePlugin":            resource.NewNullProperty(),
	}
	if p := live.RoutingAgent; p != nil {
		state["routingAgent"] = componentState(p.Enabled)
	}
	if p := live.AmdGpuDevicePlugin; p != nil {
		state["amdGpuDevicePlugin"] = componentState(p.Enabled)
	}
	if p := live.AmdGpuDeviceMetricsExporterPlugin; p != nil {
		state["amdGpuDeviceMetricsExporterPlugin"] = componentState(p.Enabled)
	}
	if p := live.NvidiaGpuDevicePlugin; p != nil {
		state["nvidiaGpuDevicePlugin"] = componentState(p.Enabled)
	}
	if p := live.RdmaSharedDevicePlugin; p != nil {
		state["rdmaSharedDevicePlugin"] = componentState(p.Enabled)
	}
	if kubeConfigs := kubeConfigsState(c); !kubeConfigs.IsNull() {
		state["kubeConfigs"] = kubeConfigs
	}
	return state
}

// defaultPoolState is the default pool in a cluster's state. A pool that was deleted behind the plugin's back is
// recorded as one without nodes: then the next update makes it again. Leaving it out would look like another size, which
// replaces the cluster.
func defaultPoolState(live *liveCluster, recorded resource.PropertyMap) resource.PropertyValue {
	pool := defaultPool(live.NodePools, recorded)
	if pool == nil {
		return resource.NewProperty(resource.PropertyMap{
			"id":              resource.NewProperty(""),
			"name":            resource.NewProperty(nativeprovider.GetString(recorded, "name")),
			"size":            resource.NewProperty(nativeprovider.GetString(recorded, "size")),
			"autoScale":       resource.NewProperty(false),
			"nodeCount":       nativeprovider.Whole(0),
			"actualNodeCount": nativeprovider.Whole(0),
			"nodes":           nativeprovider.Objects(nil),
		})
	}
	state := poolState(pool, recorded)
	state["id"] = resource.NewProperty(pool.ID)
	return resource.NewProperty(state)
}

func componentState(enabled *bool) resource.PropertyValue {
	if enabled == nil {
		return resource.NewNullProperty()
	}
	return resource.NewProperty(resource.PropertyMap{"enabled": resource.NewProperty(*enabled)})
}

func maintenanceState(policy *godo.KubernetesMaintenancePolicy) resource.PropertyValue {
	if policy == nil {
		return resource.NewNullProperty()
	}
	return resource.NewProperty(resource.PropertyMap{
		"day":       resource.NewProperty(policy.Day.String()),
		"startTime": resource.NewProperty(policy.StartTime),
		"duration":  resource.NewProperty(policy.Duration),
	})
}

func firewallState(f *godo.KubernetesControlPlaneFirewall) resource.PropertyValue {
	if f == nil || f.Enabled == nil {
		return resource.NewNullProperty()
	}
	return resource.NewProperty(resource.PropertyMap{
		"enabled":          resource.NewProperty(*f.Enabled),
		"allowedAddresses": nativeprovider.Strings(f.AllowedAddresses),
	})
}

// autoscalerState is the configuration of the autoscaler as a list. One in which nothing is set is none.
func autoscalerState(a *godo.KubernetesClusterAutoscalerConfiguration) resource.PropertyValue {
	if a == nil {
		return nativeprovider.Objects(nil)
	}
	state := resource.PropertyMap{}
	if a.ScaleDownUtilizationThreshold != nil && *a.ScaleDownUtilizationThreshold != 0 {
		state["scaleDownUtilizationThreshold"] = resource.NewProperty(*a.ScaleDownUtilizationThreshold)
	}
	if a.ScaleDownUnneededTime != nil && *a.ScaleDownUnneededTime != "" {
		state["scaleDownUnneededTime"] = resource.NewProperty(*a.ScaleDownUnneededTime)
	}
	if len(a.Expanders) > 0 {
		state["expanders"] = nativeprovider.Strings(a.Expanders)
	}
	if len(state) == 0 {
		return nativeprovider.Objects(nil)
	}
	return nativeprovider.Objects([]resource.PropertyMap{state})
}

// kubeConfigsState is null without credentials.
func kubeConfigsState(c credentials) resource.PropertyValue {
	if c == (credentials{}) {
		return resource.NewNullProperty()
	}
	return nativeprovider.Objects([]resource.PropertyMap{{
		"rawConfig":            resource.NewProperty(c.RawConfig),
		"host":                 resource.NewProperty(c.Host),
		"clusterCaCertificate": resource.NewProperty(c.ClusterCACertificate),
		"token":                resource.NewProperty(c.Token),
		"clientCertificate":    resource.NewProperty(c.ClientCertificate),
		"clientKey":            resource.NewProperty(c.ClientKey),
		"expiresAt":            resource.NewProperty(c.ExpiresAt),
	}})
}

// recordedCredentials are the credentials in a state; empty when there are none.
func recordedCredentials(state resource.PropertyMap) credentials {
	list := nativeprovider.GetObjects(state, "kubeConfigs")
	if len(list) == 0 {
		return credentials{}
	}
	return credentials{
		RawConfig:            nativeprovider.GetString(list[0], "rawConfig"),
		Host:                 nativeprovider.GetString(list[0], "host"),
		ClusterCACertificate: nativeprovider.GetString(list[0], "clusterCaCertificate"),
		Token:                nativeprovider.GetString(list[0], "token"),
		ClientCertificate:    nativeprovider.GetString(list[0], "clientCertificate"),
		ClientKey:            nativeprovider.GetString(list[0], "clientKey"),
		ExpiresAt:            nativeprovider.GetString(list[0], "expiresAt"),
	}
}
