package civo

import (
	"slices"
	"testing"
	"time"

	"github.com/civo/civogo"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// The Terraform provider of Civo, which the official Pulumi plugin is made from, makes its calls in an order and waits for
// things in a way of its own; each step below is one of its operations, with its delays between calls. Times are on the
// emulator's clock.
func TestTheOfficialPluginsLifeCycle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		scale  float64
	}{
		{"as slow as the real cloud", 1},
		{"a hundredth of the time", 0.01},
		{"no time at all", 0},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			p := &officialPlugin{bench: newBench(t, emulator.Options{TimeScale: test.scale})}
			p.client = p.bench.client("LON1")
			p.run()
		})
	}
}

type officialPlugin struct {
	*bench
	client *civogo.Client
}

func (p *officialPlugin) run() {
	t := p.t
	must(p.client.ListRegions())(t) // configure

	// The network gets a firewall that the plugin itself forgets about, then the declared one is made and searched for.
	network := must(p.client.CreateNetwork(civogo.NetworkConfig{Label: "prod", Region: "LON1"}))(t)
	must(p.client.NewFirewall(&civogo.FirewallConfig{Name: "prod-default", Region: "LON1", NetworkID: network.ID}))(t)
	p.advance(3 * time.Second)
	must(p.client.NewFirewall(&civogo.FirewallConfig{
		Name: "prod", Region: "LON1", NetworkID: network.ID, CreateRules: ptr(false),
		Rules: []civogo.FirewallRule{{Protocol: "tcp", Ports: "6443", Cidr: []string{"0.0.0.0/0"}, Direction: "ingress", Action: "allow"}},
	}))(t)
	firewall := must(p.client.FindFirewall("prod"))(t)
	if firewall.NetworkID != network.ID {
		t.Fatalf("the search for %q found %+v", "prod", firewall)
	}

	must(p.client.ListAvailableKubernetesVersions())(t) // plan
	cluster := must(p.client.NewKubernetesClusters(&civogo.KubernetesClusterConfig{
		Name: "prod", NetworkID: network.ID, InstanceFirewall: firewall.ID, KubernetesVersion: "1.29.0-k3s1", Tags: "a b",
		Pools: []civogo.KubernetesClusterPoolConfig{{ID: "default", Count: 2, Size: "g4s.kube.medium"}},
	}))(t)
	p.waitFor(3*time.Second, "ACTIVE", []string{"BUILDING", "AVAILABLE", "UPGRADING", "SCALING"}, cluster.ID)

	must(p.client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{ID: "workers", Count: 2, Size: "g4s.kube.large"}))(t)
	p.waitForPool(cluster.ID, "workers", 2)
	p.importPool(cluster.ID, "workers")

	// Scaling the default pool sends all pools, with the counts that the list gave.
	p.scaleDefaultPool("prod", 3)
	p.waitForPool(cluster.ID, "default", 3)
	p.waitForPool(cluster.ID, "workers", 2)
	p.scaleDefaultPool("prod", 1)
	p.waitForPool(cluster.ID, "default", 1)
	p.waitForPool(cluster.ID, "workers", 2)

	must(p.client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{KubernetesVersion: "1.30.5-k3s1", Tags: "a"}))(t)
	p.advance(10 * time.Second)
	if got := must(p.client.GetKubernetesCluster(cluster.ID))(t); got.KubernetesVersion != "1.30.5-k3s1" || got.Pools[0].ID != "default" || got.Pools[0].Count != 1 {
		t.Fatalf("the read after the update: %s %+v", got.KubernetesVersion, got.Pools)
	}
	p.waitFor(3*time.Second, "ACTIVE", []string{"UPGRADING"}, cluster.ID)

	must(p.client.GetKubernetesCluster(cluster.ID))(t)
	must(p.client.DeleteKubernetesClusterPool(cluster.ID, "workers"))(t)
	p.poll(time.Second, func() bool {
		_, err := p.client.GetKubernetesClusterPool(cluster.ID, "workers")
		if err != nil && !errors.Is(err, civogo.DatabaseClusterPoolNotFoundError) {
			t.Fatalf("an error that the plugin does not wait through: %v", err)
		}
		return err != nil
	})

	must(p.client.DeleteKubernetesCluster(cluster.ID))(t)
	p.poll(5*time.Second, func() bool {
		got, err := p.client.GetKubernetesCluster(cluster.ID)
		if errors.Is(err, civogo.DatabaseKubernetesClusterNotFoundError) {
			return true
		}
		if err != nil || got.Status != "DELETING" {
			t.Fatalf("an answer that the plugin does not wait through: %v, %+v", err, got)
		}
		return false
	})

	must(p.client.FindFirewall(firewall.ID))(t)
	must(p.client.DeleteFirewall(firewall.ID))(t)
	// Each poll of the network asks for the deletion again before it looks.
	must(p.client.FindNetwork(network.ID))(t)
	p.poll(3*time.Second, func() bool {
		must(p.client.DeleteNetwork(network.ID))(t)
		_, err := p.client.GetNetwork(network.ID)
		return errors.Is(err, civogo.DatabaseNetworkNotFoundError)
	})

	// Nothing is left, so that the same can be created again.
	if networks, firewalls := must(p.client.ListNetworks())(t), must(p.client.ListFirewalls())(t); len(networks) != 1 || len(firewalls) != 1 {
		t.Errorf("left: %+v %+v", networks, firewalls)
	}
}

// poll calls done every interval, for an hour at most.
func (p *officialPlugin) poll(interval time.Duration, done func() bool) {
	p.t.Helper()
	for waited := time.Duration(0); waited < time.Hour; waited += interval {
		p.advance(interval)
		if done() {
			return
		}
	}
	p.t.Fatal("waited for an hour")
}

func (p *officialPlugin) waitFor(interval time.Duration, target string, pending []string, id string) {
	p.t.Helper()
	p.poll(interval, func() bool {
		status := must(p.client.GetKubernetesCluster(id))(p.t).Status
		if status != target && !slices.Contains(pending, status) {
			p.t.Fatalf("status %s is neither %s nor one of %v", status, target, pending)
		}
		return status == target
	})
}

// waitForPool is the plugin's own idea of a pool that is complete.
func (p *officialPlugin) waitForPool(id, pool string, count int) {
	p.t.Helper()
	p.poll(10*time.Second, func() bool {
		cluster := must(p.client.GetKubernetesCluster(id))(p.t)
		required, running, active := 0, 0, true
		for _, candidate := range cluster.RequiredPools {
			if candidate.ID == pool {
				required = candidate.Count
			}
		}
		for _, candidate := range cluster.Pools {
			if candidate.ID == pool {
				running = candidate.Count
				for _, instance := range candidate.Instances {
					active = active && instance.Status == "ACTIVE"
				}
			}
		}
		if required != count {
			p.t.Fatalf("%d nodes are required of %s, want %d", required, pool, count)
		}
		return running == required && active
	})
	if got := must(p.client.GetKubernetesClusterPool(id, pool))(p.t); got.Count != count || len(got.InstanceNames) != count {
		p.t.Fatalf("pool %s: %+v, want %d nodes", pool, got, count)
	}
}

func (p *officialPlugin) scaleDefaultPool(name string, count int) {
	p.t.Helper()
	cluster := must(p.client.FindKubernetesCluster(name))(p.t)
	config := &civogo.KubernetesClusterConfig{}
	for _, pool := range cluster.Pools {
		if pool.ID == "default" {
			pool.Count = count
		}
		config.Pools = append(config.Pools, civogo.KubernetesClusterPoolConfig{
			ID: pool.ID, Count: pool.Count, Size: pool.Size, Labels: pool.Labels, Taints: pool.Taints,
		})
	}
	must(p.client.UpdateKubernetesCluster(cluster.ID, config))(p.t)
}

// importPool looks for a pool in every region and passes over all errors.
func (p *officialPlugin) importPool(clusterID, id string) {
	p.t.Helper()
	var found []string
	for _, region := range must(p.client.ListRegions())(p.t) {
		if pool, err := p.bench.client(region.Code).GetKubernetesClusterPool(clusterID, id); err == nil && pool.ID == id {
			found = append(found, region.Code)
		}
	}
	if !slices.Equal(found, []string{"LON1"}) {
		p.t.Fatalf("the pool was found in %v, want LON1 alone", found)
	}
}
