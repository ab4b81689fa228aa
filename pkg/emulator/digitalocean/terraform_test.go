package digitalocean

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// TestTerraformProviderLife sends what version 2.75 of the Terraform provider (under version 4.57 of Pulumi's) sends in the
// life of a VPC, a cluster and a pool, waits as it waits, and checks what it relies on: requests with what godo leaves out or
// adds (null settings, "count" left out, Key/Value/Effect), the default pool found by its tag and first in the list, pointers
// that it follows without looking.
func TestTerraformProviderLife(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startSlow(t)
	kubernetes := f.client.Kubernetes

	// The provider looks every 10 seconds, and never before the first 10.
	tick := func(reason string, done func() bool) {
		t.Helper()
		for range 60 {
			f.time.advance(10 * time.Second)
			if done() {
				return
			}
		}
		t.Fatalf("%s: it still waits after 10 minutes", reason)
	}
	waitPool := func(clusterID, poolID string) {
		t.Helper()
		tick("pool", func() bool {
			pool := must[*godo.KubernetesNodePool](t)(kubernetes.GetNodePool(ctx, clusterID, poolID))
			running := len(pool.Nodes) == pool.Count
			for _, node := range pool.Nodes {
				running = running && node.Status.State == "running"
			}
			return running
		})
	}
	readCluster := func(id string) *godo.KubernetesCluster {
		t.Helper()
		cluster := must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, id))
		if cluster.Status == nil || cluster.MaintenancePolicy == nil {
			t.Fatal("the provider would crash: no status or no maintenance policy")
		}
		if !slices.Contains(cluster.NodePools[0].Tags, "terraform:default-node-pool") {
			t.Fatalf("the first pool is not the default one: %v", cluster.NodePools[0].Tags)
		}
		credentials := must[*godo.KubernetesClusterCredentials](t)(
			kubernetes.GetCredentials(ctx, id, &godo.KubernetesClusterCredentialsGetRequest{ExpirySeconds: godo.PtrTo(0)}))
		if credentials.ExpiresAt.Before(f.time.Now().Add(7*24*time.Hour - time.Minute)) {
			t.Errorf("credentials expire at %s", credentials.ExpiresAt)
		}
		return cluster
	}

	vpc := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "net", RegionSlug: "fra1", IPRange: "10.30.0.0/16"}))
	must[*godo.VPC](t)(f.client.VPCs.Get(ctx, vpc.ID))
	must[*godo.VPC](t)(f.client.VPCs.Update(ctx, vpc.ID, &godo.VPCUpdateRequest{Name: "net", Description: "described", Default: godo.PtrTo(false)}))

	cluster := must[*godo.KubernetesCluster](t)(kubernetes.Create(ctx, &godo.KubernetesClusterCreateRequest{
		Name: "prod", RegionSlug: "fra1", VersionSlug: "1.31.1-do.4", VPCUUID: vpc.ID, SurgeUpgrade: true, Tags: []string{},
		NodePools: []*godo.KubernetesNodePoolCreateRequest{{
			Name: "default", Size: "s-2vcpu-4gb", Count: 2, Tags: []string{"terraform:default-node-pool"}, Labels: map[string]string{}, Taints: []godo.Taint{},
		}},
	}))
	tick("cluster", func() bool {
		return must[*godo.KubernetesCluster](t)(kubernetes.Get(ctx, cluster.ID)).Status.State == "running"
	})
	readCluster(cluster.ID)

	// Without a count, as a pool is asked for that is scaled automatically.
	pool := must[*godo.KubernetesNodePool](t)(kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{
		Name: "extra", Size: "c-2", AutoScale: true, MinNodes: 1, MaxNodes: 4, Labels: map[string]string{"a": "b"}, Tags: []string{},
		Taints: []godo.Taint{{Key: "dedicated", Value: "x", Effect: "NoSchedule"}},
	}))
	waitPool(cluster.ID, pool.ID)
	if err := f.ScalePool(cluster.ID, pool.ID, 3); err != nil {
		t.Fatal(err)
	}
	waitPool(cluster.ID, pool.ID)

	// An update of the pool that does not name a count leaves the autoscaler's alone; its labels go only when others come.
	put := must[*godo.KubernetesNodePool](t)(kubernetes.UpdateNodePool(ctx, cluster.ID, pool.ID, &godo.KubernetesNodePoolUpdateRequest{
		Name: "extra", Labels: map[string]string{}, Taints: &[]godo.Taint{}, AutoScale: godo.PtrTo(true), MinNodes: godo.PtrTo(1), MaxNodes: godo.PtrTo(5),
	}))
	if put.ID != pool.ID || put.Count != 3 || put.MaxNodes != 5 || put.Labels["a"] != "b" || len(put.Taints) != 0 {
		t.Errorf("updated pool: %+v", put)
	}
	waitPool(cluster.ID, pool.ID)

	// An update of the cluster carries settings that say nothing.
	updated := must[*godo.KubernetesCluster](t)(kubernetes.Update(ctx, cluster.ID, &godo.KubernetesClusterUpdateRequest{
		Name: "prod", Tags: []string{"web"}, AutoUpgrade: godo.PtrTo(false), SurgeUpgrade: true, HA: godo.PtrTo(false),
		MaintenancePolicy:    &godo.KubernetesMaintenancePolicy{StartTime: "04:00", Day: godo.KubernetesMaintenanceDayMonday},
		ControlPlaneFirewall: &godo.KubernetesControlPlaneFirewall{}, RoutingAgent: &godo.KubernetesRoutingAgent{},
		AmdGpuDevicePlugin: &godo.KubernetesAmdGpuDevicePlugin{}, AmdGpuDeviceMetricsExporterPlugin: &godo.KubernetesAmdGpuDeviceMetricsExporterPlugin{},
		NvidiaGpuDevicePlugin: &godo.KubernetesNvidiaGpuDevicePlugin{}, RdmaSharedDevicePlugin: &godo.KubernetesRdmaSharedDevicePlugin{},
		ClusterAutoscalerConfiguration: &godo.KubernetesClusterAutoscalerConfiguration{},
	}))
	if updated.Tags[0] != "web" || *updated.RoutingAgent.Enabled || updated.ClusterAutoscalerConfiguration != nil {
		t.Errorf("updated cluster: %+v", updated)
	}
	scaled := must[*godo.KubernetesNodePool](t)(kubernetes.UpdateNodePool(ctx, cluster.ID, cluster.NodePools[0].ID, &godo.KubernetesNodePoolUpdateRequest{
		Name: "default", Count: godo.PtrTo(3), Tags: []string{"terraform:default-node-pool"}, Labels: map[string]string{}, Taints: &[]godo.Taint{},
		AutoScale: godo.PtrTo(false), MinNodes: godo.PtrTo(0), MaxNodes: godo.PtrTo(0),
	}))
	waitPool(cluster.ID, scaled.ID)

	// The upgrade is not waited for; what is read right after it must be the new version, or the next plan would replace it.
	mustDo(t)(kubernetes.Upgrade(ctx, cluster.ID, &godo.KubernetesClusterUpgradeRequest{VersionSlug: "1.32.10-do.0"}))
	if got := readCluster(cluster.ID); got.VersionSlug != "1.32.10-do.0" || got.Status.State != godo.KubernetesClusterStatusUpgrading {
		t.Errorf("after the upgrade: %s, %s", got.VersionSlug, got.Status.State)
	}

	// The import of a pool scans all clusters.
	found := false
	for _, listed := range must[[]*godo.KubernetesCluster](t)(kubernetes.List(ctx, &godo.ListOptions{})) {
		found = found || slices.ContainsFunc(listed.NodePools, func(p *godo.KubernetesNodePool) bool { return p.ID == pool.ID })
	}
	if !found {
		t.Error("an import would not find the pool")
	}

	mustDo(t)(kubernetes.DeleteNodePool(ctx, cluster.ID, pool.ID))
	tick("deletion of the pool", func() bool {
		_, response, err := kubernetes.GetNodePool(ctx, cluster.ID, pool.ID)
		if err != nil && response.StatusCode != http.StatusNotFound {
			t.Fatal(err)
		}
		return err != nil
	})

	mustDo(t)(kubernetes.Delete(ctx, cluster.ID))
	tick("deletion of the VPC", func() bool {
		_, err := f.client.VPCs.Delete(ctx, vpc.ID)
		var refused *godo.ErrorResponse
		if errors.As(err, &refused) && refused.Response.StatusCode == http.StatusConflict {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	if clusters := f.Clusters(); len(clusters) != 0 || len(f.VPCs()) != len(regions) {
		t.Errorf("left over: %+v", clusters)
	}
}

// TestTerraformProviderImport checks the one write of an import: the only pool of a cluster is tagged as the default one.
func TestTerraformProviderImport(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startWith(t, emulator.Options{Token: testToken})
	request := simpleCluster("found")
	request.NodePools[0].Tags = nil
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, request))
	pool := cluster.NodePools[0]
	tagged := must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.UpdateNodePool(ctx, cluster.ID, pool.ID,
		&godo.KubernetesNodePoolUpdateRequest{Tags: append(pool.Tags, "terraform:default-node-pool")}))
	if tagged.Name != "default" || tagged.Count != 2 || tagged.Tags[0] != "terraform:default-node-pool" || len(tagged.Tags) != 4 {
		t.Errorf("tagged = %+v", tagged)
	}
}
