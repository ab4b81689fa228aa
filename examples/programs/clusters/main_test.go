package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

// The types whose resources the test follows.
const (
	civoCluster         = "civo:index/kubernetesCluster:KubernetesCluster"
	civoFirewall        = "civo:index/firewall:Firewall"
	civoNetwork         = "civo:index/network:Network"
	civoPool            = "civo:index/kubernetesNodePool:KubernetesNodePool"
	digitaloceanCluster = "digitalocean:index/kubernetesCluster:KubernetesCluster"
	digitaloceanPool    = "digitalocean:index/kubernetesNodePool:KubernetesNodePool"
	digitaloceanVpc     = "digitalocean:index/vpc:Vpc"
)

const kubeconfig = "clusters: [{name: a, cluster: {server: 'https://203.0.113.7:6443'}}]"

// TestClusters runs the program under mocks: everything is made once, and each takes the id of the one before it.
func TestClusters(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, clusters,
		moduletest.WithState(civoCluster, func(moduletest.Resource) map[string]any {
			return map[string]any{"apiEndpoint": "https://203.0.113.7:6443", "kubeconfig": kubeconfig}
		}),
		moduletest.WithState(digitaloceanCluster, func(moduletest.Resource) map[string]any {
			return map[string]any{
				"endpoint":    "https://a.k8s.ondigitalocean.com",
				"kubeConfigs": []any{map[string]any{"rawConfig": kubeconfig, "host": "https://a.k8s.ondigitalocean.com"}},
			}
		}),
		moduletest.WithFunction("digitalocean:index/getKubernetesCluster:getKubernetesCluster",
			func(args map[string]any) (map[string]any, error) {
				return nil, errors.Errorf("Unable to find cluster with name: %v", args["name"])
			}),
		moduletest.WithFunction("digitalocean:index/getKubernetesVersions:getKubernetesVersions",
			func(map[string]any) (map[string]any, error) {
				return map[string]any{"latestVersion": "1.33.1-do.3", "validVersions": []any{"1.33.1-do.3"}}, nil
			}),
	)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}

	byType := map[string][]moduletest.Resource{}
	for _, resource := range result.Resources {
		byType[resource.Type] = append(byType[resource.Type], resource)
	}
	counts := map[string]int{}
	for _, typeToken := range []string{
		civoNetwork, civoFirewall, civoCluster, civoPool, digitaloceanVpc, digitaloceanCluster, digitaloceanPool,
	} {
		counts[typeToken] = len(byType[typeToken])
	}
	if diff := cmp.Diff(map[string]int{
		civoNetwork: 1, civoFirewall: 1, civoCluster: 1, civoPool: 2, digitaloceanVpc: 1, digitaloceanCluster: 1, digitaloceanPool: 2,
	}, counts); diff != "" {
		t.Fatalf("resources by type (-want +got):\n%s", diff)
	}

	passedOn := func(to moduletest.Resource, input, from string) {
		t.Helper()
		if got := to.Input(input); got != byType[from][0].ID {
			t.Errorf("%s of %s = %v, want the id of the %s", input, to.Name, got, from)
		}
	}
	passedOn(byType[civoFirewall][0], "networkId", civoNetwork)
	passedOn(byType[civoCluster][0], "networkId", civoNetwork)
	passedOn(byType[civoCluster][0], "firewallId", civoFirewall)
	passedOn(byType[digitaloceanCluster][0], "vpcUuid", digitaloceanVpc)
	for i := range 2 {
		passedOn(byType[civoPool][i], "clusterId", civoCluster)
		passedOn(byType[digitaloceanPool][i], "clusterId", digitaloceanCluster)
	}

	var secrets []string
	for name, output := range result.Outputs {
		if output.Secret {
			secrets = append(secrets, name)
		}
	}
	slices.Sort(secrets)
	if got := strings.Join(secrets, " "); got != "civo-kubeconfig digitalocean-kubeconfig" {
		t.Errorf("secret outputs: %s", got)
	}
	if got := result.Outputs["civo-endpoint"].Value; got != "https://203.0.113.7:6443" {
		t.Errorf("civo-endpoint = %v", got)
	}
}
