package civo

import (
	"path/filepath"
	"testing"

	"github.com/civo/civogo"
	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// What Kubernetes made is listed with its cluster, in its region alone, and stays when the cluster is deleted; a volume keeps the network.
func TestWhatKubernetesMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "civo.json")
	b := newBench(t, emulator.Options{StateFile: path})
	client := b.client("FRA1")
	cluster, other := b.cluster(client, "prod"), b.cluster(client, "dev")
	if volumes, balancers := must(client.ListVolumes())(t), must(client.ListLoadBalancers())(t); len(volumes)+len(balancers) != 0 {
		t.Fatalf("a new cluster has %v and %v", volumes, balancers)
	}
	volume := must(b.cloud.AddVolume(cluster.ID, "pvc-1"))(t)
	others := must(b.cloud.AddVolume(other.ID, "pvc-2"))(t)
	balancer := must(b.cloud.AddLoadBalancer(cluster.ID, "ingress"))(t)

	wantVolume := civogo.Volume{
		ID: volume, Name: "pvc-1", ClusterID: cluster.ID, NetworkID: cluster.NetworkID, Status: "available", SizeGigabytes: 10, CreatedAt: b.time(),
	}
	if diff := cmp.Diff([]civogo.Volume{wantVolume}, must(client.ListVolumesForCluster("prod"))(t)); diff != "" {
		t.Errorf("volumes of the cluster (-want +got):\n%s", diff)
	}
	if all := must(client.ListVolumes())(t); len(all) != 2 || all[1].ID != others {
		t.Errorf("volumes: %+v", all)
	}
	if elsewhere := must(b.client("LON1").ListVolumes())(t); len(elsewhere) != 0 {
		t.Errorf("volumes of another region: %+v", elsewhere)
	}
	if elsewhere := must(b.client("LON1").ListLoadBalancers())(t); len(elsewhere) != 0 {
		t.Errorf("load balancers of another region: %+v", elsewhere)
	}
	balancers := must(client.ListLoadBalancers())(t)
	if len(balancers) != 1 || balancers[0].ID != balancer || balancers[0].Name != "ingress" || balancers[0].ClusterID != cluster.ID ||
		balancers[0].NetworkID != cluster.NetworkID || balancers[0].State != "available" {
		t.Errorf("load balancers: %+v", balancers)
	}

	must(client.DeleteKubernetesCluster(cluster.ID))(t)
	again := newBench(t, emulator.Options{StateFile: path})
	if diff := cmp.Diff(b.cloud.Volumes(), again.cloud.Volumes()); diff != "" || len(again.cloud.Volumes()) != 2 {
		t.Errorf("volumes after a restart (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(b.cloud.LoadBalancers(), again.cloud.LoadBalancers()); diff != "" || len(again.cloud.LoadBalancers()) != 1 {
		t.Errorf("load balancers after a restart (-before +after):\n%s", diff)
	}
	if dangling := must(client.ListDanglingVolumes())(t); len(dangling) != 1 || dangling[0].ID != volume {
		t.Errorf("volumes without a cluster: %+v", dangling)
	}
	_, err := client.DeleteNetwork(cluster.NetworkID)
	wantError(t, err, civogo.DatabaseNetworkInUseByVolumes)
	if err := b.cloud.DeleteVolume(volume); err != nil {
		t.Fatal(err)
	}
	must(client.DeleteNetwork(cluster.NetworkID))(t)
	if err := b.cloud.DeleteLoadBalancer(balancer); err != nil || len(b.cloud.LoadBalancers()) != 0 || len(b.cloud.Volumes()) != 1 {
		t.Errorf("error %v, left: %+v and %+v", err, b.cloud.LoadBalancers(), b.cloud.Volumes())
	}
	for what, err := range map[string]error{
		"volume of a cluster that is gone":        second(b.cloud.AddVolume(cluster.ID, "x")),
		"load balancer of a cluster that is gone": second(b.cloud.AddLoadBalancer(cluster.ID, "x")),
		"deleted volume":                          b.cloud.DeleteVolume(volume),
		"deleted load balancer":                   b.cloud.DeleteLoadBalancer(balancer),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }
