package main

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceankubernetescluster "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetescluster/module"
	digitaloceankubernetesnodepool "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetesnodepool/module"
	digitaloceanvpc "github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceanvpc/module"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
)

// onDigitalOcean makes a VPC, a cluster and two pools. The cluster's firewall is part of the cluster here.
func onDigitalOcean(ctx *pulumi.Context) error {
	// One provider for all. Without a config it takes the token from the environment: DIGITALOCEAN_TOKEN.
	provider, err := pulumidigitaloceanprovider.Get(ctx, nil)
	if err != nil {
		return err
	}

	// DigitalOcean's VPCs carry the name of their metadata, which is that of the component when there is none.
	vpc, err := digitaloceanvpc.New(ctx, "clusters-example", &digitaloceanvpc.Args{
		Provider: provider,
		Spec: &digitaloceanvpcv1.DigitalOceanVpcSpec{
			Region:      digitalocean.DigitalOceanRegion_fra1,
			Description: "network of the example",
		},
	})
	if err != nil {
		return err
	}

	cluster, err := digitaloceankubernetescluster.New(ctx, "digitalocean-cluster", &digitaloceankubernetescluster.Args{
		Provider: provider,
		VpcId:    vpc.VpcId,
		Spec: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec{
			ClusterName:                    "clusters-example",
			Region:                         digitalocean.DigitalOceanRegion_fra1,
			KubernetesVersion:              "1.33",
			ControlPlaneFirewallAllowedIps: []string{"203.0.113.0/24"},
			DefaultNodePool: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{
				Size: "s-2vcpu-4gb", NodeCount: 1,
			},
		},
	})
	if err != nil {
		return err
	}

	for name, spec := range map[string]*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec{
		"digitalocean-web": {
			NodePoolName: "web", Size: "s-4vcpu-8gb", NodeCount: 2,
			Labels: map[string]string{"workload": "web"},
		},
		"digitalocean-batch": {
			NodePoolName: "batch", Size: "c-4", NodeCount: 1, AutoScale: true, MinNodes: 1, MaxNodes: 5,
			Labels: map[string]string{"workload": "batch"},
			Taints: []*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint{
				{Key: "dedicated", Value: "batch", Effect: "NoSchedule"},
			},
		},
	} {
		pool, err := digitaloceankubernetesnodepool.New(ctx, name, &digitaloceankubernetesnodepool.Args{
			Provider: provider, ClusterId: cluster.ClusterId, Spec: spec,
		})
		if err != nil {
			return err
		}
		ctx.Export(name+"-nodes", pool.NodeNames)
	}

	ctx.Export("digitalocean-endpoint", cluster.ApiServerEndpoint)
	ctx.Export("digitalocean-kubeconfig", cluster.Kubeconfig)
	return nil
}
