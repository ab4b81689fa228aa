package digitalocean

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/google/go-cmp/cmp"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// whole is everything that can be seen of an account.
type whole struct {
	Clusters                          []Cluster
	VPCs                              []VPC
	Firewalls                         []Firewall
	Registry                          *Registry
	LoadBalancers, Volumes, Snapshots []AssociatedResource
	Versions                          []string
}

func everything(c *Cloud) whole {
	return whole{c.Clusters(), c.VPCs(), c.Firewalls(), c.Registry(), c.LoadBalancers(), c.Volumes(), c.VolumeSnapshots(), c.Versions()}
}

func TestRestartFromTheStateFile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	options := emulator.Options{Token: testToken, TimeScale: 1, StateFile: filepath.Join(t.TempDir(), "deep", "state.json")}
	f := startWith(t, options)

	vpc := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "net", RegionSlug: "fra1"}))
	request := simpleCluster("kept")
	request.VPCUUID = vpc.ID
	request.ClusterAutoscalerConfiguration = &godo.KubernetesClusterAutoscalerConfiguration{ScaleDownUnneededTime: godo.PtrTo("2m")}
	kept := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, request))
	gone := simpleCluster("gone")
	gone.VPCUUID = vpc.ID
	mustDo(t)(f.client.Kubernetes.Delete(ctx, must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, gone)).ID))
	must[*godo.Firewall](t)(f.client.Firewalls.Create(ctx, &godo.FirewallRequest{
		Name: "web", InboundRules: []godo.InboundRule{{Protocol: "icmp", Sources: &godo.Sources{Tags: []string{"a"}}}},
	}))
	for _, err := range []error{f.SetRegistry("mine"), f.AddVersion("1.35.0-do.0"), f.ScalePool(kept.ID, kept.NodePools[0].ID, 1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, add := range []func(string, string) (string, error){f.AddLoadBalancer, f.AddVolume, f.AddVolumeSnapshot} {
		if _, err := add(kept.ID, "thing"); err != nil {
			t.Fatal(err)
		}
	}

	info, err := os.Stat(options.StateFile)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the state file's mode is %v", info.Mode())
	}

	// Through the life of what is under way, a cloud that was stopped is where one is that ran on.
	for _, wait := range []time.Duration{0, time.Second, nodeRemoval, clusterCreation, vpcMembership, nodeCreation, time.Hour} {
		f.time.advance(wait)
		again, err := newCloud(options, f.time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(everything(f.Cloud), everything(again)); diff != "" {
			t.Fatalf("%s later (-running +restarted):\n%s", wait, diff)
		}
		left := view(f.Cloud, func(s *state, now time.Time) int { return len(s.members(vpc.ID, now)) })
		leftAgain := view(again, func(s *state, now time.Time) int { return len(s.members(vpc.ID, now)) })
		if left != leftAgain || left < 2 {
			t.Fatalf("%s later the VPC has %d members, %d after the restart", wait, left, leftAgain)
		}
	}

	// The restarted cloud is the same to clients, the cluster's authority included.
	before := must[*godo.KubernetesClusterCredentials](t)(f.client.Kubernetes.GetCredentials(ctx, kept.ID, &godo.KubernetesClusterCredentialsGetRequest{}))
	again := startWith(t, options)
	again.time.advance(f.time.Now().Sub(again.time.Now()))
	after := must[*godo.KubernetesClusterCredentials](t)(again.client.Kubernetes.GetCredentials(ctx, kept.ID, &godo.KubernetesClusterCredentialsGetRequest{}))
	if string(before.CertificateAuthorityData) != string(after.CertificateAuthorityData) {
		t.Error("the cluster has another certificate authority after a restart")
	}
	mustDo(t)(again.client.Kubernetes.Delete(ctx, kept.ID))
}

func TestAChangeThatCannotBeKeptIsNotMade(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	folder := filepath.Join(t.TempDir(), "state")
	f := startWith(t, emulator.Options{Token: testToken, StateFile: filepath.Join(folder, "state.json")})
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	before := everything(f.Cloud)
	_, _, err := f.client.Kubernetes.Create(ctx, simpleCluster("lost"))
	wantError(t, err, 500, "server_error")
	if diff := cmp.Diff(before, everything(f.Cloud)); diff != "" {
		t.Errorf("a change was made that was not kept:\n%s", diff)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startWith(t, emulator.Options{Token: testToken, StateFile: filepath.Join(t.TempDir(), "state.json")})
	shared := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("shared")))

	const workers, rounds = 8, 5
	var group sync.WaitGroup
	for worker := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := range rounds {
				name := fmt.Sprintf("w%d-r%d", worker, round)
				vpc, _, err := f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: name, RegionSlug: "fra1"})
				if err != nil {
					t.Error(err)
					return
				}
				request := simpleCluster(name)
				request.VPCUUID = vpc.ID
				cluster, _, err := f.client.Kubernetes.Create(ctx, request)
				if err != nil {
					t.Error(err)
					return
				}
				if _, _, err := f.client.Kubernetes.CreateNodePool(ctx, shared.ID, &godo.KubernetesNodePoolCreateRequest{Name: name, Size: "c-2", Count: 1}); err != nil {
					t.Error(err)
				}
				f.Clusters()
				f.VPCs()
				f.Requests()
				if _, _, err := f.client.Kubernetes.List(ctx, nil); err != nil {
					t.Error(err)
				}
				if _, err := f.client.Kubernetes.Delete(ctx, cluster.ID); err != nil {
					t.Error(err)
				}
				if _, err := f.client.VPCs.Delete(ctx, vpc.ID); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	clusters := f.Clusters()
	if len(clusters) != 1 || len(clusters[0].NodePools) != 1+workers*rounds || len(f.VPCs()) != len(regions) {
		t.Errorf("%d clusters, %d VPCs are left", len(clusters), len(f.VPCs()))
	}
	droplets := map[string]bool{}
	for _, pool := range clusters[0].NodePools {
		for _, node := range pool.Nodes {
			if droplets[node.DropletID] {
				t.Errorf("two nodes are Droplet %s", node.DropletID)
			}
			droplets[node.DropletID] = true
		}
	}
}

func TestTimeScale(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startWith(t, emulator.Options{Token: testToken, TimeScale: 0.01})
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("fast")))
	if cluster.Status.State != "provisioning" {
		t.Errorf("a cluster that takes %s is %s at once", clusterCreation/100, cluster.Status.State)
	}
	f.time.advance(clusterCreation / 100)
	if got := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Get(ctx, cluster.ID)); got.Status.State != "running" {
		t.Errorf("after %s it is %s", clusterCreation/100, got.Status.State)
	}
}
