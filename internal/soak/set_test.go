//go:build linux

package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// familyText is a network and what stands in it.
const familyText = `---
apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: net-N}
spec: {networkName: soak-net-N, region: fra1}
---
apiVersion: civo.project-planton.org/v1
kind: CivoFirewall
metadata: {name: fw-N}
spec:
  name: soak-fw-N
  region: fra1
  networkId: {valueFrom: {name: net-N}}
  inboundRules: [{protocol: icmp, cidrs: [0.0.0.0/0]}]
---
apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata: {name: cluster-N}
spec:
  clusterName: soak-cluster-N
  region: fra1
  kubernetesVersion: 1.30.5-k3s1
  network: {valueFrom: {name: net-N}}
  firewall: {valueFrom: {name: fw-N}}
  defaultNodePool: {size: g4s.kube.small, nodeCount: 1}
---
apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesNodePool
metadata: {name: pool-N}
spec:
  nodePoolName: soak-pool-N
  cluster: {valueFrom: {name: cluster-N}}
  size: g4s.kube.small
  nodeCount: 1
`

// families are n networks with what stands in them: four manifests each.
func families(t *testing.T, n int) Manifests {
	t.Helper()
	var text strings.Builder
	for i := range n {
		text.WriteString(strings.ReplaceAll(familyText, "-N", fmt.Sprintf("-%d", i)))
	}
	loaded, err := manifest.Parse("set.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var manifests Manifests
	for _, m := range loaded {
		manifests = append(manifests, m.Target)
	}
	return manifests
}

// TestKilledSet kills an apply of twenty manifests, several of which are worked on at once, and applies them again: the cloud holds
// exactly the manifests, and nothing is locked. The moment follows from the seed, which -start changes.
func TestKilledSet(t *testing.T) {
	t.Parallel()
	cli, err := pulumicli.Find(t.Context(), pulumicli.Options{Progress: os.Stderr})
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	c := chance{rand.New(rand.NewPCG(*first, 0x736574))}
	manifests := families(t, 5)
	kill := Kill{At: AtWrite, N: c.between(2, len(manifests)-2), Answered: c.in(0.5)}
	schedule := Schedule{
		Seed: *first, Way: WayCLI, First: manifests, Last: manifests, Brief: true, Disturbed: []Step{{Command: Apply, Kill: &kill}},
	}
	r, outcome, err := play(t, schedule, t.TempDir(), cli.Path)
	if err != nil {
		t.Errorf("the runner failed: %v", err)
	}
	for _, problem := range outcome.Problems {
		t.Error(problem)
	}
	if outcome.Kills != 1 {
		t.Errorf("%d kills", outcome.Kills)
	}
	if t.Failed() {
		t.Logf("the kill: %+v\nthe requests that change something:\n%s\nthe processes wrote:\n%s", kill, r.writes(), r.log.String())
	}
}
