package module

import (
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// The names of the stack outputs, which are the fields of DigitalOceanKubernetesNodePoolStackOutputs.
const (
	OpNodePoolId = "node_pool_id"
	OpNodeIds    = "node_ids"
	OpNodeNames  = "node_names"
	OpDropletIds = "droplet_ids"
	OpClusterId  = "cluster_id"
)

// Outputs are what is known of a provisioned pool: the fields of DigitalOceanKubernetesNodePoolStackOutputs.
type Outputs struct {
	// NodePoolId is the id (UUID) of the pool.
	NodePoolId pulumi.StringOutput
	// NodeIds are the ids of the pool's nodes.
	NodeIds pulumi.StringArrayOutput
	// NodeNames are the names of the pool's nodes.
	NodeNames pulumi.StringArrayOutput
	// DropletIds are the ids of the Droplets that the nodes run on.
	DropletIds pulumi.StringArrayOutput
	// ClusterId is the id of the cluster that the pool belongs to.
	ClusterId pulumi.StringOutput
}

func newOutputs(created *digitalocean.KubernetesNodePool) Outputs {
	return Outputs{
		NodePoolId: created.ID().ToStringOutput(),
		NodeIds:    nodes(created, func(n digitalocean.KubernetesNodePoolNode) *string { return n.Id }),
		NodeNames:  nodes(created, func(n digitalocean.KubernetesNodePoolNode) *string { return n.Name }),
		DropletIds: nodes(created, func(n digitalocean.KubernetesNodePoolNode) *string { return n.DropletId }),
		ClusterId:  created.ClusterId,
	}
}

func (o Outputs) exports() pulumi.Map {
	return pulumi.Map{
		OpNodePoolId: o.NodePoolId,
		OpNodeIds:    o.NodeIds,
		OpNodeNames:  o.NodeNames,
		OpDropletIds: o.DropletIds,
		OpClusterId:  o.ClusterId,
	}
}

// nodes is a part of each node of the pool; empty where DigitalOcean does not tell it yet.
func nodes(
	created *digitalocean.KubernetesNodePool, part func(digitalocean.KubernetesNodePoolNode) *string,
) pulumi.StringArrayOutput {
	return created.Nodes.ApplyT(func(nodes []digitalocean.KubernetesNodePoolNode) []string {
		parts := make([]string, 0, len(nodes))
		for _, node := range nodes {
			text := ""
			if p := part(node); p != nil {
				text = *p
			}
			parts = append(parts, text)
		}
		return parts
	}).(pulumi.StringArrayOutput)
}
