package digitalocean

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

func TestClusterLife(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	kubernetes := f.client.Kubernetes

	created := must[*godo.KubernetesCluster](t)(kubernetes.Create(ctx, &godo.KubernetesClusterCreateRequest{
		Name: "prod", RegionSlug: "fra1", VersionSlug: "1.31.1-do.4", Tags: []string{"web", "production"},
		ClusterSubnet: "10.200.0.0/16", ServiceSubnet: "10.201.0.0/19", AutoUpgrade: true, SurgeUpgrade: true,
		MaintenancePolicy:    &godo.KubernetesMaintenancePolicy{StartTime: "02:00", Day: godo.KubernetesMaintenanceDaySunday},
		ControlPlaneFirewall: &godo.KubernetesControlPlaneFirewall{Enabled: godo.PtrTo(true), AllowedAddresses: []string{"198.51.100.7", "198.51.100.0/24"}},
		ClusterAutoscalerConfiguration: &godo.KubernetesClusterAutoscalerConfiguration{
			ScaleDownUtilizationThreshold: godo.PtrTo(0.5), ScaleDownUnneededTime: godo.PtrTo("2m"), Expanders: []string{"priority", "random"},
		},
		RoutingAgent: &godo.KubernetesRoutingAgent{Enabled: godo.PtrTo(true)},
		NodePools: []*godo.KubernetesNodePoolCreateRequest{
			{
				Name: "default", Size: "s-2vcpu-4gb", Count: 2, Tags: []string{"workers", "terraform:default-node-pool"},
				Labels: map[string]string{"tier": "front", "example.com/a": ""},
				Taints: []godo.Taint{{Key: "dedicated", Value: "web", Effect: "NoSchedule"}},
			},
			{Name: "second", Size: "c-2", AutoScale: true, MinNodes: 1, MaxNodes: 3, Count: 2},
		},
	}))

	pools := created.NodePools
	want := &godo.KubernetesCluster{
		ID: created.ID, Name: "prod", RegionSlug: "fra1", VersionSlug: "1.31.1-do.4",
		ClusterSubnet: "10.200.0.0/16", ServiceSubnet: "10.201.0.0/19", VPCUUID: defaultOf(t, f, "fra1").ID,
		IPv4: "203.0.113.1", Endpoint: "https://" + created.ID + ".k8s.ondigitalocean.com",
		Tags: []string{"web", "production", "k8s", "k8s:" + created.ID}, AutoUpgrade: true, SurgeUpgrade: true,
		MaintenancePolicy:    &godo.KubernetesMaintenancePolicy{StartTime: "02:00", Duration: "4h0m0s", Day: godo.KubernetesMaintenanceDaySunday},
		ControlPlaneFirewall: &godo.KubernetesControlPlaneFirewall{Enabled: godo.PtrTo(true), AllowedAddresses: []string{"198.51.100.7", "198.51.100.0/24"}},
		ClusterAutoscalerConfiguration: &godo.KubernetesClusterAutoscalerConfiguration{
			ScaleDownUtilizationThreshold: godo.PtrTo(0.5), ScaleDownUnneededTime: godo.PtrTo("2m"), Expanders: []string{"priority", "random"},
		},
		RoutingAgent:                      &godo.KubernetesRoutingAgent{Enabled: godo.PtrTo(true)},
		AmdGpuDevicePlugin:                &godo.KubernetesAmdGpuDevicePlugin{Enabled: godo.PtrTo(false)},
		AmdGpuDeviceMetricsExporterPlugin: &godo.KubernetesAmdGpuDeviceMetricsExporterPlugin{Enabled: godo.PtrTo(false)},
		NvidiaGpuDevicePlugin:             &godo.KubernetesNvidiaGpuDevicePlugin{Enabled: godo.PtrTo(false)},
		RdmaSharedDevicePlugin:            &godo.KubernetesRdmaSharedDevicePlugin{Enabled: godo.PtrTo(false)},
		Status:                            &godo.KubernetesClusterStatus{State: godo.KubernetesClusterStatusRunning},
		CreatedAt:                         f.time.Now(), UpdatedAt: f.time.Now(),
		NodePools: []*godo.KubernetesNodePool{
			{
				ID: pools[0].ID, Name: "default", Size: "s-2vcpu-4gb", Count: 2,
				Tags:   []string{"workers", "terraform:default-node-pool", "k8s", "k8s:" + created.ID, "k8s:worker"},
				Labels: map[string]string{"tier": "front", "example.com/a": ""},
				Taints: []godo.Taint{{Key: "dedicated", Value: "web", Effect: "NoSchedule"}},
				Nodes:  pools[0].Nodes,
			},
			{
				ID: pools[1].ID, Name: "second", Size: "c-2", Count: 2, AutoScale: true, MinNodes: 1, MaxNodes: 3,
				Tags: []string{"k8s", "k8s:" + created.ID, "k8s:worker"}, Taints: []godo.Taint{}, Nodes: pools[1].Nodes,
			},
		},
	}
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("created cluster (-want +got):\n%s", diff)
	}
	droplets := map[string]bool{}
	for _, pool := range pools {
		if len(pool.Nodes) != pool.Count {
			t.Errorf("pool %s has %d nodes, want %d", pool.Name, len(pool.Nodes), pool.Count)
		}
		for _, node := range pool.Nodes {
			if node.Status.State != "running" || !strings.HasPrefix(node.Name, pool.Name+"-") || node.ID == "" || droplets[node.DropletID] {
				t.Errorf("node %+v of pool %s", node, pool.Name)
			}
			droplets[node.DropletID] = true
		}
	}

	read := must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, created.ID))
	if diff := cmp.Diff(created, read); diff != "" {
		t.Errorf("read back (-created +read):\n%s", diff)
	}
	list := must[[]*godo.KubernetesCluster](t)(kubernetes.List(ctx, nil))
	if diff := cmp.Diff([]*godo.KubernetesCluster{created}, list); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}

	mustDo(t)(kubernetes.Delete(ctx, created.ID))
	_, _, err := kubernetes.Get(ctx, created.ID)
	wantError(t, err, 404, "not_found")
	_, err = kubernetes.Delete(ctx, created.ID)
	wantError(t, err, 404, "not_found")
	if list := must[[]*godo.KubernetesCluster](t)(kubernetes.List(ctx, nil)); len(list) != 0 {
		t.Errorf("%d clusters are left", len(list))
	}
}

func TestClusterDefaults(t *testing.T) {
	t.Parallel()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(context.Background(), simpleCluster("plain")))
	if cluster.MaintenancePolicy == nil || cluster.MaintenancePolicy.Day != godo.KubernetesMaintenanceDayAny || cluster.MaintenancePolicy.Duration != "4h0m0s" {
		t.Errorf("maintenance policy = %+v", cluster.MaintenancePolicy)
	}
	if cluster.ClusterSubnet != "10.244.0.0/16" || cluster.ServiceSubnet != "10.245.0.0/16" {
		t.Errorf("subnets = %s, %s", cluster.ClusterSubnet, cluster.ServiceSubnet)
	}
	if cluster.ClusterAutoscalerConfiguration != nil {
		t.Errorf("autoscaler configuration = %+v, want none: the Terraform provider would plan to remove it", cluster.ClusterAutoscalerConfiguration)
	}
	if cluster.HA || cluster.AutoUpgrade || cluster.SurgeUpgrade || cluster.RegistryEnabled || *cluster.ControlPlaneFirewall.Enabled {
		t.Errorf("something is on that was not asked for: %+v", cluster)
	}
}

func TestClusterUpdate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	request := simpleCluster("prod")
	request.Tags = []string{"one", "two"}
	request.SurgeUpgrade = true
	request.ControlPlaneFirewall = &godo.KubernetesControlPlaneFirewall{Enabled: godo.PtrTo(true), AllowedAddresses: []string{"198.51.100.7"}}
	request.ClusterAutoscalerConfiguration = &godo.KubernetesClusterAutoscalerConfiguration{
		ScaleDownUtilizationThreshold: godo.PtrTo(0.5), ScaleDownUnneededTime: godo.PtrTo("2m"), Expanders: []string{"random"},
	}
	before := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, request))

	put := func(t *testing.T, body map[string]any) *godo.KubernetesCluster {
		t.Helper()
		f.time.advance(time.Minute)
		return putCluster(t, f, before.ID, body)
	}

	t.Run("nothing given changes nothing", func(t *testing.T) {
		after := put(t, map[string]any{})
		after.UpdatedAt = before.UpdatedAt
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("null and settings that say nothing change nothing", func(t *testing.T) {
		after := put(t, map[string]any{
			"tags": nil, "maintenance_policy": nil, "auto_upgrade": nil, "surge_upgrade": nil, "ha": nil,
			"control_plane_firewall":           map[string]any{"enabled": nil, "allowed_addresses": nil},
			"routing_agent":                    map[string]any{"enabled": nil},
			"cluster_autoscaler_configuration": map[string]any{"scale_down_utilization_threshold": nil, "scale_down_unneeded_time": nil, "expanders": nil},
		})
		after.UpdatedAt = before.UpdatedAt
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("what godo sends for everything on", func(t *testing.T) {
		f.time.advance(time.Minute)
		after := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Update(ctx, before.ID, &godo.KubernetesClusterUpdateRequest{
			Name: "renamed", Tags: []string{"three"}, AutoUpgrade: godo.PtrTo(true), SurgeUpgrade: true, HA: godo.PtrTo(true),
			MaintenancePolicy: &godo.KubernetesMaintenancePolicy{StartTime: "23:59", Day: godo.KubernetesMaintenanceDayFriday},
			RoutingAgent:      &godo.KubernetesRoutingAgent{Enabled: godo.PtrTo(true)}, AmdGpuDevicePlugin: &godo.KubernetesAmdGpuDevicePlugin{Enabled: godo.PtrTo(true)},
			AmdGpuDeviceMetricsExporterPlugin: &godo.KubernetesAmdGpuDeviceMetricsExporterPlugin{Enabled: godo.PtrTo(true)},
			NvidiaGpuDevicePlugin:             &godo.KubernetesNvidiaGpuDevicePlugin{Enabled: godo.PtrTo(true)},
			RdmaSharedDevicePlugin:            &godo.KubernetesRdmaSharedDevicePlugin{Enabled: godo.PtrTo(true)},
		}))
		if after.Name != "renamed" || !after.HA || after.IPv4 != "" || !after.AutoUpgrade || !after.SurgeUpgrade ||
			after.MaintenancePolicy.StartTime != "23:59" || after.MaintenancePolicy.Day != godo.KubernetesMaintenanceDayFriday ||
			!*after.RoutingAgent.Enabled || !*after.AmdGpuDevicePlugin.Enabled || !*after.AmdGpuDeviceMetricsExporterPlugin.Enabled ||
			!*after.NvidiaGpuDevicePlugin.Enabled || !*after.RdmaSharedDevicePlugin.Enabled {
			t.Errorf("after = %+v", after)
		}
		if diff := cmp.Diff([]string{"three", "k8s", "k8s:" + before.ID}, after.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		if !after.UpdatedAt.Equal(f.time.Now()) {
			t.Errorf("updated at %s, want %s", after.UpdatedAt, f.time.Now())
		}
	})
	t.Run("given empty is emptied, false is turned off", func(t *testing.T) {
		after := put(t, map[string]any{
			"tags": []string{}, "surge_upgrade": false, "auto_upgrade": false,
			"control_plane_firewall":           map[string]any{"enabled": false, "allowed_addresses": []string{}},
			"cluster_autoscaler_configuration": map[string]any{"scale_down_utilization_threshold": 0, "scale_down_unneeded_time": "", "expanders": []string{}},
			"routing_agent":                    map[string]any{"enabled": false},
		})
		if diff := cmp.Diff([]string{"k8s", "k8s:" + before.ID}, after.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
		if after.SurgeUpgrade || after.AutoUpgrade || *after.ControlPlaneFirewall.Enabled || len(after.ControlPlaneFirewall.AllowedAddresses) != 0 ||
			after.ClusterAutoscalerConfiguration != nil || *after.RoutingAgent.Enabled {
			t.Errorf("after = %+v", after)
		}
	})
	t.Run("one field of the autoscaler's configuration goes", func(t *testing.T) {
		put(t, map[string]any{"cluster_autoscaler_configuration": map[string]any{"scale_down_utilization_threshold": 0.25, "scale_down_unneeded_time": "1m"}})
		after := put(t, map[string]any{"cluster_autoscaler_configuration": map[string]any{"scale_down_unneeded_time": ""}})
		if got := after.ClusterAutoscalerConfiguration; got == nil || *got.ScaleDownUtilizationThreshold != 0.25 || got.ScaleDownUnneededTime != nil {
			t.Errorf("configuration = %+v", got)
		}
	})
	t.Run("high availability is for good", func(t *testing.T) {
		_, _, err := f.client.Kubernetes.Update(ctx, before.ID, &godo.KubernetesClusterUpdateRequest{HA: godo.PtrTo(false)})
		wantError(t, err, 422, "unprocessable_entity")
	})
	t.Run("tags that a client read may be sent back", func(t *testing.T) {
		after := put(t, map[string]any{"tags": []string{"k8s", "k8s:" + before.ID, "mine", "MINE"}})
		if diff := cmp.Diff([]string{"mine", "k8s", "k8s:" + before.ID}, after.Tags); diff != "" {
			t.Errorf("tags (-want +got):\n%s", diff)
		}
	})
	t.Run("a cluster that is not there", func(t *testing.T) {
		_, _, err := f.client.Kubernetes.Update(ctx, emulator.NewID(), &godo.KubernetesClusterUpdateRequest{Name: "x"})
		wantError(t, err, 404, "not_found")
	})
}

// putCluster updates a cluster with a body that godo's request type can't say, which leaves out empty lists and false.
func putCluster(t *testing.T, f *fixture, id string, body map[string]any) *godo.KubernetesCluster {
	t.Helper()
	var answer struct {
		Cluster *godo.KubernetesCluster `json:"kubernetes_cluster"`
	}
	request, err := f.client.NewRequest(context.Background(), "PUT", "/v2/kubernetes/clusters/"+id, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := f.client.Do(context.Background(), request, &answer)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusAccepted {
		t.Errorf("status = %d, want 202", response.StatusCode)
	}
	return answer.Cluster
}

func TestClusterRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	net := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "net", RegionSlug: "fra1", IPRange: "10.20.0.0/16"}))
	first := simpleCluster("taken")
	first.VPCUUID, first.ClusterSubnet, first.ServiceSubnet = net.ID, "10.60.0.0/16", "10.61.0.0/16"
	taken := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, first))

	type request = godo.KubernetesClusterCreateRequest
	pool := func(edit func(*godo.KubernetesNodePoolCreateRequest)) func(*request) {
		return func(r *request) { edit(r.NodePools[0]) }
	}
	for _, tc := range []struct {
		reason string
		edit   func(*request)
	}{
		{"a name is needed", func(r *request) { r.Name = "" }},
		{"a name has no upper case", func(r *request) { r.Name = "Prod" }},
		{"a name has no underscore", func(r *request) { r.Name = "a_b" }},
		{"a name does not end in a dash", func(r *request) { r.Name = "a-" }},
		{"a name has 255 characters at most", func(r *request) { r.Name = strings.Repeat("a", 256) }},
		{"names are unique", func(r *request) { r.Name = "taken" }},
		{"the region must exist", func(r *request) { r.RegionSlug = "mars1" }},
		{"a region is needed", func(r *request) { r.RegionSlug = "" }},
		{"the version must be on offer", func(r *request) { r.VersionSlug = "1.31.2-do.0" }},
		{"a version is needed", func(r *request) { r.VersionSlug = "" }},
		{"a version is no number", func(r *request) { r.VersionSlug = "1" }},
		{"a version without the revision is none", func(r *request) { r.VersionSlug = "1.31.1" }},
		{"the VPC must be in the region", func(r *request) { r.VPCUUID = defaultOf(t, f, "nyc3").ID }},
		{"tags have no spaces", func(r *request) { r.Tags = []string{"a b"} }},
		{"a subnet is in CIDR notation", func(r *request) { r.ClusterSubnet = "10.60" }},
		{"a subnet is private", func(r *request) { r.ServiceSubnet = "8.8.0.0/16" }},
		{"the subnets don't overlap", func(r *request) { r.ClusterSubnet, r.ServiceSubnet = "10.60.0.0/16", "10.60.0.0/20" }},
		{"a subnet does not overlap the VPC", func(r *request) { r.VPCUUID, r.ClusterSubnet = net.ID, "10.20.0.0/20" }},
		{"a subnet does not overlap one of another cluster of the VPC", func(r *request) { r.VPCUUID, r.ClusterSubnet = net.ID, "10.61.0.0/20" }},
		{"a cluster has a pool", func(r *request) { r.NodePools = nil }},
		{"a cluster has a node", func(r *request) {
			r.NodePools[0].Count, r.NodePools[0].AutoScale, r.NodePools[0].MaxNodes = 0, false, 0
		}},
		{"pools have different names", func(r *request) { r.NodePools = append(r.NodePools, r.NodePools[0]) }},
		{"a pool has a name", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Name = "" })},
		{"a pool's name is well formed", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Name = "Pool_1" })},
		{"the size must exist", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Size = "s-1vcpu-512mb" })},
		{"a size is needed", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Size = "" })},
		{"a count is not negative", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Count = -1 })},
		{"a cluster has 512 nodes at most", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Count = 513 })},
		{"min is at most max", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.AutoScale, p.MinNodes, p.MaxNodes = true, 3, 2 })},
		{"max is needed", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.AutoScale, p.MinNodes = true, 1 })},
		{"min is not negative", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.AutoScale, p.MinNodes, p.MaxNodes = true, -1, 2 })},
		{"the count is within the bounds", pool(func(p *godo.KubernetesNodePoolCreateRequest) {
			p.AutoScale, p.MinNodes, p.MaxNodes, p.Count = true, 1, 2, 3
		})},
		{"label keys are well formed", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Labels = map[string]string{"a b": "c"} })},
		{"label prefixes are well formed", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Labels = map[string]string{"Example.com/a": "c"} })},
		{"a label is no prefix alone", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Labels = map[string]string{"example.com/": "c"} })},
		{"label values are well formed", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Labels = map[string]string{"a": "b c"} })},
		{"label values have 63 characters at most", pool(func(p *godo.KubernetesNodePoolCreateRequest) {
			p.Labels = map[string]string{"a": strings.Repeat("b", 64)}
		})},
		{"labels of the platform are its own", pool(func(p *godo.KubernetesNodePoolCreateRequest) {
			p.Labels = map[string]string{"doks.digitalocean.com/node-pool": "x"}
		})},
		{"a taint has a key", pool(func(p *godo.KubernetesNodePoolCreateRequest) { p.Taints = []godo.Taint{{Effect: "NoSchedule"}} })},
		{"a taint's effect is one of three", pool(func(p *godo.KubernetesNodePoolCreateRequest) {
			p.Taints = []godo.Taint{{Key: "a", Effect: "noschedule"}}
		})},
		{"a taint's value is well formed", pool(func(p *godo.KubernetesNodePoolCreateRequest) {
			p.Taints = []godo.Taint{{Key: "a", Value: "b c", Effect: "NoSchedule"}}
		})},
		{"taints differ in key or effect", pool(func(p *godo.KubernetesNodePoolCreateRequest) {
			p.Taints = []godo.Taint{{Key: "a", Value: "1", Effect: "NoSchedule"}, {Key: "a", Value: "2", Effect: "NoSchedule"}}
		})},
		{"maintenance starts at a time of day", func(r *request) { r.MaintenancePolicy = &godo.KubernetesMaintenancePolicy{StartTime: "sunday=02:00"} }},
		{"maintenance starts before midnight", func(r *request) { r.MaintenancePolicy = &godo.KubernetesMaintenancePolicy{StartTime: "24:00"} }},
		{"the firewall takes addresses", func(r *request) {
			r.ControlPlaneFirewall = &godo.KubernetesControlPlaneFirewall{Enabled: godo.PtrTo(true), AllowedAddresses: []string{"everyone"}}
		}},
		{"a threshold is a share", func(r *request) {
			r.ClusterAutoscalerConfiguration = &godo.KubernetesClusterAutoscalerConfiguration{ScaleDownUtilizationThreshold: godo.PtrTo(1.5)}
		}},
		{"an unneeded time is a duration", func(r *request) {
			r.ClusterAutoscalerConfiguration = &godo.KubernetesClusterAutoscalerConfiguration{ScaleDownUnneededTime: godo.PtrTo("soon")}
		}},
		{"expanders are those that are known", func(r *request) {
			r.ClusterAutoscalerConfiguration = &godo.KubernetesClusterAutoscalerConfiguration{Expanders: []string{"price"}}
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			request := simpleCluster("new")
			tc.edit(request)
			_, _, err := f.client.Kubernetes.Create(ctx, request)
			wantError(t, err, 422, "unprocessable_entity")
		})
	}
	t.Run("the VPC must exist", func(t *testing.T) {
		request := simpleCluster("new")
		request.VPCUUID = "do:vpc:" + net.ID
		_, _, err := f.client.Kubernetes.Create(ctx, request)
		wantError(t, err, 404, "not_found")
	})
	if clusters := f.Clusters(); len(clusters) != 1 || clusters[0].ID != taken.ID {
		t.Errorf("after refusals there are %+v", clusters)
	}

	other := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("other")))
	for _, tc := range []struct {
		reason string
		update godo.KubernetesClusterUpdateRequest
	}{
		{"names are unique", godo.KubernetesClusterUpdateRequest{Name: "taken"}},
		{"names are well formed", godo.KubernetesClusterUpdateRequest{Name: "Other"}},
		{"tags are well formed", godo.KubernetesClusterUpdateRequest{Name: "other", Tags: []string{"a,b"}}},
		{"maintenance starts at a time of day", godo.KubernetesClusterUpdateRequest{Name: "other", MaintenancePolicy: &godo.KubernetesMaintenancePolicy{StartTime: "2"}}},
	} {
		t.Run("update: "+tc.reason, func(t *testing.T) {
			_, _, err := f.client.Kubernetes.Update(ctx, other.ID, &tc.update)
			wantError(t, err, 422, "unprocessable_entity")
			if after := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Get(ctx, other.ID)); !cmp.Equal(after, other) {
				t.Errorf("a refused update changed something:\n%s", cmp.Diff(other, after))
			}
		})
	}
}

func TestMalformedBodiesAreBadRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(context.Background(), simpleCluster("c")))
	for _, call := range [][2]string{
		{"POST", "/v2/kubernetes/clusters"},
		{"PUT", "/v2/kubernetes/clusters/" + cluster.ID},
		{"POST", "/v2/kubernetes/clusters/" + cluster.ID + "/upgrade"},
		{"POST", "/v2/kubernetes/clusters/" + cluster.ID + "/node_pools"},
		{"PUT", "/v2/kubernetes/clusters/" + cluster.ID + "/node_pools/" + cluster.NodePools[0].ID},
		{"POST", "/v2/kubernetes/clusters/" + cluster.ID + "/node_pools/" + cluster.NodePools[0].ID + "/recycle"},
		{"DELETE", "/v2/kubernetes/clusters/" + cluster.ID + "/destroy_with_associated_resources/selective"},
		{"POST", "/v2/kubernetes/registry"},
		{"POST", "/v2/registry"},
		{"POST", "/v2/vpcs"},
		{"PUT", "/v2/vpcs/" + cluster.VPCUUID},
		{"POST", "/v2/firewalls"},
		{"PUT", "/v2/firewalls/x"},
	} {
		request, err := f.client.NewRequest(context.Background(), call[0], call[1], "not an object")
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.client.Do(context.Background(), request, nil)
		t.Log(call, err)
		wantError(t, err, 400, "bad_request")
	}
}

func TestClusterStates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startSlow(t)
	kubernetes := f.client.Kubernetes
	state := func(id string) string {
		t.Helper()
		return string(must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, id)).Status.State)
	}

	cluster := must[*godo.KubernetesCluster](t)(kubernetes.Create(ctx, simpleCluster("slow")))
	if cluster.Status.State != "provisioning" || cluster.Endpoint != "" || cluster.IPv4 != "" || cluster.NodePools[0].Nodes[0].Status.State != "provisioning" {
		t.Errorf("just created: %+v", cluster)
	}
	_, _, err := kubernetes.GetCredentials(ctx, cluster.ID, &godo.KubernetesClusterCredentialsGetRequest{})
	wantError(t, err, 412, "precondition_failed")
	_, _, err = kubernetes.GetKubeConfig(ctx, cluster.ID)
	wantError(t, err, 412, "precondition_failed")
	_, err = kubernetes.Upgrade(ctx, cluster.ID, &godo.KubernetesClusterUpgradeRequest{VersionSlug: "1.31.14-do.0"})
	wantError(t, err, 422, "unprocessable_entity")

	f.time.advance(clusterCreation - time.Second)
	if got := state(cluster.ID); got != "provisioning" {
		t.Errorf("a second before it is up it is %s", got)
	}
	f.time.advance(time.Second)
	cluster = must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, cluster.ID))
	if cluster.Status.State != "running" || cluster.Endpoint == "" || cluster.IPv4 == "" || cluster.NodePools[0].Nodes[1].Status.State != "running" {
		t.Errorf("up: %+v", cluster)
	}

	mustDo(t)(kubernetes.Upgrade(ctx, cluster.ID, &godo.KubernetesClusterUpgradeRequest{VersionSlug: "1.31.14-do.0"}))
	upgrading := must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, cluster.ID))
	if upgrading.Status.State != "upgrading" || upgrading.VersionSlug != "1.31.14-do.0" {
		t.Errorf("upgrading: %s, %s", upgrading.Status.State, upgrading.VersionSlug)
	}
	_, err = kubernetes.Upgrade(ctx, cluster.ID, &godo.KubernetesClusterUpgradeRequest{VersionSlug: "1.32.2-do.1"})
	wantError(t, err, 422, "unprocessable_entity")
	f.time.advance(clusterUpgrade)
	upgraded := must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, cluster.ID))
	if upgraded.Status.State != "running" || len(upgraded.NodePools[0].Nodes) != 2 || upgraded.NodePools[0].Nodes[0].Status.State != "running" {
		t.Errorf("upgraded: %+v", upgraded)
	}
	if upgraded.NodePools[0].Nodes[0].ID == cluster.NodePools[0].Nodes[0].ID {
		t.Error("an upgrade kept a node, want new ones")
	}

	for _, forced := range []string{"degraded", "error", "invalid"} {
		if err := f.SetClusterStatus(cluster.ID, forced, "because"); err != nil {
			t.Fatal(err)
		}
		if got := must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, cluster.ID)).Status; string(got.State) != forced || got.Message != "because" {
			t.Errorf("status = %+v, want %s", got, forced)
		}
	}
	if err := f.SetClusterStatus(cluster.ID, "", ""); err != nil {
		t.Fatal(err)
	}
	if got := state(cluster.ID); got != "running" {
		t.Errorf("status = %s, want running again", got)
	}
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("old")))

	var slugs []string
	for _, v := range must[[]*godo.KubernetesVersion](t)(f.client.Kubernetes.GetUpgrades(ctx, cluster.ID)) {
		slugs = append(slugs, v.Slug)
	}
	if diff := cmp.Diff([]string{"1.32.10-do.0", "1.32.2-do.1", "1.31.14-do.0", "1.31.1-do.5"}, slugs); diff != "" {
		t.Errorf("upgrades (-want +got):\n%s", diff)
	}
	for _, tc := range []struct{ reason, version string }{
		{"not to the same version", "1.31.1-do.4"},
		{"not to a lower revision", "1.31.1-do.0"},
		{"not to a lower minor version", "1.30.14-do.0"},
		{"not over a minor version", "1.33.6-do.0"},
		{"not to a version that is not on offer", "1.31.99-do.0"},
		{"not to a part of a slug", "1.32"},
		{"not to nothing", ""},
	} {
		_, err := f.client.Kubernetes.Upgrade(ctx, cluster.ID, &godo.KubernetesClusterUpgradeRequest{VersionSlug: tc.version})
		t.Log(tc.reason, err)
		wantError(t, err, 422, "unprocessable_entity")
	}
	mustDo(t)(f.client.Kubernetes.Upgrade(ctx, cluster.ID, &godo.KubernetesClusterUpgradeRequest{VersionSlug: "1.32.10-do.0"}))
	after := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Get(ctx, cluster.ID))
	if after.VersionSlug != "1.32.10-do.0" || after.Status.State != "running" {
		t.Errorf("after the upgrade: %s, %s", after.VersionSlug, after.Status.State)
	}
	_, err := f.client.Kubernetes.Upgrade(ctx, emulator.NewID(), &godo.KubernetesClusterUpgradeRequest{VersionSlug: "1.32.10-do.0"})
	wantError(t, err, 404, "not_found")
	_, _, err = f.client.Kubernetes.GetUpgrades(ctx, emulator.NewID())
	wantError(t, err, 404, "not_found")
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	tokens := map[string]bool{}
	for _, tc := range []struct {
		reason  string
		seconds *int
		life    time.Duration
	}{
		{"a week when not asked for", nil, 7 * 24 * time.Hour},
		{"a week for 0", godo.PtrTo(0), 7 * 24 * time.Hour},
		{"as long as asked for", godo.PtrTo(3600), time.Hour},
	} {
		credentials := must[*godo.KubernetesClusterCredentials](t)(
			f.client.Kubernetes.GetCredentials(ctx, cluster.ID, &godo.KubernetesClusterCredentialsGetRequest{ExpirySeconds: tc.seconds}))
		if want := f.time.Now().Add(tc.life); !credentials.ExpiresAt.Equal(want) {
			t.Errorf("%s: expires at %s, want %s", tc.reason, credentials.ExpiresAt, want)
		}
		if credentials.Server != cluster.Endpoint || !strings.Contains(string(credentials.CertificateAuthorityData), "BEGIN CERTIFICATE") ||
			credentials.ClientKeyData != nil || credentials.ClientCertificateData != nil {
			t.Errorf("%s: credentials of %s with %d bytes of authority", tc.reason, credentials.Server, len(credentials.CertificateAuthorityData))
		}
		if len(credentials.Token) < 32 || tokens[credentials.Token] {
			t.Errorf("%s: the token is short or not new", tc.reason)
		}
		tokens[credentials.Token] = true
	}
	_, _, err := f.client.Kubernetes.GetCredentials(ctx, emulator.NewID(), &godo.KubernetesClusterCredentialsGetRequest{})
	wantError(t, err, 404, "not_found")
	_, _, err = f.client.Kubernetes.GetCredentials(ctx, cluster.ID, &godo.KubernetesClusterCredentialsGetRequest{ExpirySeconds: godo.PtrTo(-1)})
	wantError(t, err, 422, "unprocessable_entity")
	_, _, err = f.client.Kubernetes.GetKubeConfigWithExpiry(ctx, cluster.ID, 1<<40)
	wantError(t, err, 422, "unprocessable_entity")
}

func TestKubeconfigIsReadByClientGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	kubeconfig := must[*godo.KubernetesClusterConfig](t)(f.client.Kubernetes.GetKubeConfig(ctx, cluster.ID))

	raw, err := clientcmd.Load(kubeconfig.KubeconfigYAML)
	if err != nil {
		t.Fatal(err)
	}
	if raw.CurrentContext != "do-fra1-prod" || raw.Contexts["do-fra1-prod"].Cluster != "do-fra1-prod" || raw.Contexts["do-fra1-prod"].AuthInfo != "do-fra1-prod-admin" {
		t.Errorf("contexts = %+v", raw.Contexts)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.KubeconfigYAML)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != cluster.Endpoint || config.BearerToken == "" {
		t.Errorf("host = %s", config.Host)
	}
	// Reads the certificate authority.
	if _, err := rest.TLSConfigFor(config); err != nil {
		t.Error(err)
	}
	_, _, err = f.client.Kubernetes.GetKubeConfig(ctx, emulator.NewID())
	wantError(t, err, 404, "not_found")
}

func TestGPUSizesEnableTheirPlugin(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("gpu")))
	must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "nvidia", Size: "gpu-h100x1-80gb", Count: 1}))
	must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "amd", Size: "gpu-mi300x1-192gb", Count: 1}))
	after := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Get(ctx, cluster.ID))
	if !*after.NvidiaGpuDevicePlugin.Enabled || !*after.AmdGpuDevicePlugin.Enabled {
		t.Errorf("plugins = %v, %v", *after.NvidiaGpuDevicePlugin.Enabled, *after.AmdGpuDevicePlugin.Enabled)
	}
}

func TestMaintenancePolicy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	for _, tc := range []struct {
		reason     string
		policy     map[string]any
		start, day string
	}{
		{"the duration is the platform's to say", map[string]any{"start_time": "02:30", "day": "sunday", "duration": "1h"}, "02:30", "sunday"},
		{"a day may have capitals", map[string]any{"start_time": "02:30", "day": "Tuesday"}, "02:30", "tuesday"},
		{"any day when none is given", map[string]any{"start_time": "02:30"}, "02:30", "any"},
		{"midnight when no time is given", map[string]any{"day": "monday"}, "00:00", "monday"},
	} {
		got := putCluster(t, f, cluster.ID, map[string]any{"maintenance_policy": tc.policy}).MaintenancePolicy
		if got.StartTime != tc.start || got.Day.String() != tc.day || got.Duration != "4h0m0s" {
			t.Errorf("%s: %+v", tc.reason, got)
		}
	}
	request, err := f.client.NewRequest(ctx, "PUT", "/v2/kubernetes/clusters/"+cluster.ID, map[string]any{"maintenance_policy": map[string]any{"start_time": "02:30", "day": "someday"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.client.Do(ctx, request, nil)
	wantError(t, err, 422, "unprocessable_entity")
}

// TestClusterHasEveryField looks at the JSON itself: godo hides what is missing, other clients don't.
func TestClusterHasEveryField(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	request, err := f.client.NewRequest(ctx, "GET", "/v2/kubernetes/clusters", nil)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Clusters []map[string]any `json:"kubernetes_clusters"`
		Links    map[string]any   `json:"links"`
		Meta     map[string]any   `json:"meta"`
	}
	if _, err := f.client.Do(ctx, request, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Links == nil || answer.Meta["total"] != 1.0 {
		t.Errorf("links = %v, meta = %v", answer.Links, answer.Meta)
	}
	cluster := answer.Clusters[0]
	for _, name := range []string{
		"id", "name", "region", "version", "cluster_subnet", "service_subnet", "vpc_uuid", "ipv4", "endpoint", "tags", "ha", "node_pools",
		"maintenance_policy", "auto_upgrade", "surge_upgrade", "registry_enabled", "control_plane_firewall", "cluster_autoscaler_configuration",
		"routing_agent", "amd_gpu_device_plugin", "amd_gpu_device_metrics_exporter_plugin", "nvidia_gpu_device_plugin", "rdma_shared_dev_plugin",
		"status", "created_at", "updated_at",
	} {
		if value, ok := cluster[name]; !ok || value == nil && name != "cluster_autoscaler_configuration" {
			t.Errorf("%s = %v", name, value)
		}
	}
	if diff := cmp.Diff(map[string]any{"enabled": false, "allowed_addresses": []any{}}, cluster["control_plane_firewall"]); diff != "" {
		t.Errorf("control_plane_firewall (-want +got):\n%s", diff)
	}
	pool := cluster["node_pools"].([]any)[0].(map[string]any)
	delete(pool, "id")
	delete(pool, "tags")
	delete(pool, "nodes")
	if diff := cmp.Diff(map[string]any{
		"name": "default", "size": "s-2vcpu-4gb", "count": 2.0, "labels": nil, "taints": []any{}, "auto_scale": false, "min_nodes": 0.0, "max_nodes": 0.0,
	}, pool); diff != "" {
		t.Errorf("node pool (-want +got):\n%s", diff)
	}
}
