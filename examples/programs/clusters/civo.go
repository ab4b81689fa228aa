package main

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civofirewall "github.com/plantonhq/project-planton/iac/pulumi/civo/civofirewall/module"
	civokubernetescluster "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetescluster/module"
	civokubernetesnodepool "github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetesnodepool/module"
	civovpc "github.com/plantonhq/project-planton/iac/pulumi/civo/civovpc/module"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
)

// onCivo makes a network, a firewall, a cluster and two pools.
func onCivo(ctx *pulumi.Context) error {
	// One provider for all. Without a config it takes the token from the environment: CIVO_TOKEN.
	provider, err := pulumicivoprovider.Get(ctx, nil, pulumicivoprovider.Region("fra1"))
	if err != nil {
		return err
	}

	network, err := civovpc.New(ctx, "civo-network", &civovpc.Args{
		Provider: provider,
		Spec: &civovpcv1.CivoVpcSpec{
			NetworkName: "clusters-example",
			Region:      "fra1",
		},
	})
	if err != nil {
		return err
	}

	firewall, err := civofirewall.New(ctx, "civo-firewall", &civofirewall.Args{
		Provider:  provider,
		NetworkId: network.NetworkId,
		Spec: &civofirewallv1.CivoFirewallSpec{
			Name:   "clusters-example",
			Region: civo.CivoRegion_fra1,
			InboundRules: []*civofirewallv1.CivoFirewallRule{
				{PortRange: "6443", Cidrs: []string{"203.0.113.0/24"}, Label: "kubernetes api, office only"},
				{PortRange: "443", Cidrs: []string{"0.0.0.0/0"}, Label: "https"},
			},
			OutboundRules: []*civofirewallv1.CivoFirewallRule{
				{PortRange: "1-65535", Cidrs: []string{"0.0.0.0/0"}, Label: "all tcp"},
				{Protocol: "udp", PortRange: "1-65535", Cidrs: []string{"0.0.0.0/0"}, Label: "all udp"},
			},
		},
	})
	if err != nil {
		return err
	}

	cluster, err := civokubernetescluster.New(ctx, "civo-cluster", &civokubernetescluster.Args{
		Provider:   provider,
		NetworkId:  network.NetworkId,
		FirewallId: firewall.FirewallId,
		Spec: &civokubernetesclusterv1.CivoKubernetesClusterSpec{
			ClusterName:       "clusters-example",
			Region:            civo.CivoRegion_fra1,
			KubernetesVersion: "1.29.0+k3s1",
			DefaultNodePool: &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{
				Size: "g4s.kube.small", NodeCount: 1,
			},
		},
	})
	if err != nil {
		return err
	}

	for name, spec := range map[string]*civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{
		"civo-web": {
			NodePoolName: "web", Region: civo.CivoRegion_fra1, Size: "g4s.kube.medium", NodeCount: 2,
			Labels: map[string]string{"workload": "web"},
		},
		"civo-batch": {
			NodePoolName: "batch", Region: civo.CivoRegion_fra1, Size: "g4s.kube.large", NodeCount: 1,
			Labels: map[string]string{"workload": "batch"},
			Taints: []*civokubernetesnodepoolv1.CivoKubernetesNodePoolTaint{
				{Key: "dedicated", Value: "batch", Effect: "NoSchedule"},
			},
		},
	} {
		pool, err := civokubernetesnodepool.New(ctx, name, &civokubernetesnodepool.Args{
			Provider: provider, ClusterId: cluster.ClusterId, Spec: spec,
		})
		if err != nil {
			return err
		}
		ctx.Export(name+"-nodes", pool.NodeNames)
	}

	ctx.Export("civo-endpoint", cluster.ApiServerEndpoint)
	ctx.Export("civo-kubeconfig", cluster.Kubeconfig)
	return nil
}
