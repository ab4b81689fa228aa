//go:build linux

package soak

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
)

// The comparison finds nothing wrong after an apply that nothing disturbed, and everything that is done to its result.
func TestProblems(t *testing.T) {
	t.Parallel()
	cli, err := pulumicli.Find(t.Context(), pulumicli.Options{Progress: os.Stderr})
	if err != nil {
		t.Skipf("the test needs the Pulumi CLI, and %v", err)
	}
	c := chance{rand.New(rand.NewPCG(2, 2))}
	schedule := Schedule{Way: WayProgram}
	schedule.First = append(
		civoManifests(c, parts{firewall: true, cluster: true, pools: 2}), digitalOceanManifests(c, parts{cluster: true, pools: 1})...)
	schedule.Last = schedule.First
	r, outcome, err := play(t, schedule, t.TempDir(), cli.Path)
	if err != nil || len(outcome.Problems) > 0 {
		t.Fatalf("an undisturbed apply: %v\n%s\n%s", err, strings.Join(outcome.Problems, "\n"), r.log.String())
	}

	for name, test := range map[string]struct {
		spoil func(c *Clouds, s *States)
		want  string
	}{
		"a doubled network": {
			func(c *Clouds, _ *States) {
				double := civoNetworkOf(c)
				double.ID = "double"
				c.CivoNetworks = append(c.CivoNetworks, double)
			}, "the cloud has 2 of " + civoNetwork,
		},
		"a doubled cluster": {
			func(c *Clouds, _ *States) {
				double := c.Clusters[0]
				double.ID = "double"
				c.Clusters = append(c.Clusters, double)
			}, "the cloud has 2 of " + doCluster,
		},
		"a network that nobody declared": {
			func(c *Clouds, _ *States) {
				c.VPCs = append(c.VPCs, digitalocean.VPC{ID: "orphan", Name: "orphan"})
			}, "orphan (id orphan), which nobody declared",
		},
		"a firewall that nobody declared": {
			func(c *Clouds, _ *States) {
				c.CivoFirewalls = append(c.CivoFirewalls, civo.Firewall{ID: "orphan", Name: "orphan", NetworkID: civoNetworkOf(c).ID})
			}, "orphan (id orphan), which nobody declared",
		},
		"a second default firewall of a network": {
			func(c *Clouds, _ *States) {
				network := civoNetworkOf(c).ID
				c.CivoFirewalls = append(c.CivoFirewalls, civo.Firewall{ID: "its own", Name: "soak-net-default", NetworkID: network},
					civo.Firewall{ID: "orphan", Name: "other-default", NetworkID: network})
			}, "other-default (id orphan), which nobody declared",
		},
		"a pool that nobody declared": {
			func(c *Clouds, _ *States) {
				c.Clusters[0].NodePools = append(c.Clusters[0].NodePools, digitalocean.NodePool{ID: "orphan", Name: "orphan"})
			}, "soak-cluster/orphan (id orphan), which nobody declared",
		},
		"a load balancer that is left": {
			func(c *Clouds, _ *States) { c.Other = append(c.Other, "digitalocean load balancer lb") },
			"nobody declared the digitalocean load balancer lb",
		},
		"a missing network": {
			func(c *Clouds, _ *States) {
				c.VPCs = slices.DeleteFunc(c.VPCs, func(vpc digitalocean.VPC) bool { return !vpc.Default })
			}, "the cloud has 0 of " + doVPC,
		},
		"a missing pool": {
			func(c *Clouds, _ *States) { c.CivoClusters[0].Pools = c.CivoClusters[0].Pools[:1] },
			"the cloud has 0 of " + civoPool,
		},
		"another pool of a cluster as its first": {
			func(c *Clouds, _ *States) { slices.Reverse(c.CivoClusters[0].Pools) },
			"is a cluster's first pool: true, want false",
		},
		"no pool that is a cluster's first": {
			func(c *Clouds, _ *States) { slices.Reverse(c.Clusters[0].NodePools) },
			"is a cluster's first pool: false, want true",
		},
		"a pool of another size": {
			func(c *Clouds, _ *States) { c.Clusters[0].NodePools[0].Count++ },
			`has count "`,
		},
		"a node too many": {
			func(c *Clouds, _ *States) {
				pool := *c.CivoClusters[0].Pools[0]
				pool.Instances = append(pool.Instances, &civo.Instance{ID: "extra"})
				c.CivoClusters[0].Pools[0] = &pool
			}, `has nodes "`,
		},
		"another version": {
			func(c *Clouds, _ *States) { c.CivoClusters[0].Version = "1.27.1-k3s1" },
			`has version "1.27.1-k3s1"`,
		},
		"a rule too few": {
			func(c *Clouds, _ *States) {
				for i := range c.CivoFirewalls {
					c.CivoFirewalls[i].Rules = nil
				}
			}, `has rules ""`,
		},
		"a cluster that is not ready": {
			func(c *Clouds, _ *States) { c.Clusters[0].Status.State = "provisioning" },
			`has status "provisioning", want "running"`,
		},
		"an id that the state does not know": {
			func(_ *Clouds, s *States) { s.Resources[0].ID = "other" },
			"the states have 0",
		},
		"an object that the state has lost": {
			func(_ *Clouds, s *States) { s.Resources = s.Resources[1:] },
			"the states have 0",
		},
		"a resource twice in the state": {
			func(_ *Clouds, s *States) { s.Resources = append(s.Resources, s.Resources[0]) },
			"the states have 2",
		},
		"a resource that is still to be deleted": {
			func(_ *Clouds, s *States) { s.Resources[0].Delete = true },
			"the state still has to delete",
		},
		"a resource that was not finished": {
			func(_ *Clouds, s *States) { s.Resources[0].InitErrors = []string{"timed out"} },
			"was not finished",
		},
		"a lock": {
			func(_ *Clouds, s *States) { s.Locks = []string{"locks/a.json"} },
			"a lock is left: locks/a.json",
		},
		"a pending operation": {
			func(_ *Clouds, s *States) { s.Pending = []string{"creating urn"} },
			"an operation is pending: creating urn",
		},
	} {
		t.Run(name, func(t *testing.T) {
			clouds, states := copyOf(outcome.Clouds), States{Resources: slices.Clone(outcome.States.Resources)}
			test.spoil(&clouds, &states)
			problems := strings.Join(Problems(schedule.Last, clouds, states), "\n")
			if !strings.Contains(problems, test.want) {
				t.Errorf("want a problem with %q, got:\n%s", test.want, problems)
			}
		})
	}
	if problems := Problems(schedule.Last, outcome.Clouds, outcome.States); len(problems) > 0 {
		t.Errorf("a test has spoilt what the others look at: %q", problems)
	}
}

func civoNetworkOf(c *Clouds) civo.Network {
	return c.CivoNetworks[slices.IndexFunc(c.CivoNetworks, func(n civo.Network) bool { return !n.Default })]
}

// copyOf is deep enough for what the tests change.
func copyOf(c Clouds) Clouds {
	c.CivoNetworks, c.CivoFirewalls = slices.Clone(c.CivoNetworks), slices.Clone(c.CivoFirewalls)
	c.CivoClusters, c.Clusters, c.VPCs = slices.Clone(c.CivoClusters), slices.Clone(c.Clusters), slices.Clone(c.VPCs)
	c.CivoClusters[0].Pools = slices.Clone(c.CivoClusters[0].Pools)
	c.Clusters[0].NodePools = slices.Clone(c.Clusters[0].NodePools)
	return c
}

// What the engine leaves behind when it is killed is found where it leaves it.
func TestReadStates(t *testing.T) {
	t.Parallel()
	backend := t.TempDir()
	write := func(path, text string) {
		file := filepath.Join(backend, ".pulumi", path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if states, err := ReadStates(backend); err != nil || len(states.Locks)+len(states.Resources)+len(states.Pending) > 0 {
		t.Errorf("an empty backend: %+v, %v", states, err)
	}
	write("locks/organization/soak/seed/1.json", "{}")
	write("stacks/soak/seed.json.bak", "no JSON")
	write("stacks/soak/seed.json", `{"version": 3, "checkpoint": {"latest": {
		"resources": [
			{"urn": "urn:a", "type": "pulumi:providers:civo", "id": "p"},
			{"urn": "urn:b", "type": "`+civoNetwork+`", "id": "n", "delete": true, "initErrors": ["slow"]}
		],
		"pending_operations": [{"resource": {"urn": "urn:c"}, "type": "creating"}]
	}}}`)
	states, err := ReadStates(backend)
	if err != nil {
		t.Fatal(err)
	}
	if len(states.Resources) != 1 || states.Resources[0].ID != "n" || !states.Resources[0].Delete || len(states.Resources[0].InitErrors) != 1 {
		t.Errorf("resources: %+v", states.Resources)
	}
	if got := list(states.Locks); got != "locks/organization/soak/seed/1.json" {
		t.Errorf("locks: %s", got)
	}
	if got := list(states.Pending); got != "creating urn:c" {
		t.Errorf("pending: %s", got)
	}
	write("stacks/soak/seed.json", `{"version": 3`)
	if _, err := ReadStates(backend); err == nil {
		t.Error("half a state is read")
	}
}

func TestLeaks(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "log"), []byte("Authorization: bearer "+civoToken), 0o600); err != nil {
		t.Fatal(err)
	}
	leaks, err := Leaks(directory, []string{civoToken, digitalOceanToken})
	if err != nil || len(leaks) != 1 || !strings.HasPrefix(leaks[0], "log has a secret") || strings.Contains(leaks[0], civoToken) {
		t.Errorf("%q, %v", leaks, err)
	}
}

// What a process started dies with it, also in a process group of its own, as the Pulumi CLI stands in.
func TestKillReachesTheWholeSession(t *testing.T) {
	t.Parallel()
	started, err := start(exec.Command("bash", "-c", "set -m; sleep 300 & bash -c 'sleep 300; true' & wait"))
	if err != nil {
		t.Fatal(err)
	}
	leader := started.cmd.Process.Pid
	const all = 4
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		running, err := session(leader)
		if err != nil {
			t.Fatal(err)
		}
		if len(running) == all {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d processes run, want %d", len(running), all)
		}
	}
	if err := started.kill(); err != nil {
		t.Fatal(err)
	}
	if running, err := session(leader); err != nil || len(running) > 0 {
		t.Errorf("still running: %v, %v", running, err)
	}
	if err := started.cmd.Wait(); err == nil {
		t.Error("the process ended well")
	}
}
