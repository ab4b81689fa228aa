package module

import (
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// The names of the stack outputs, which are the fields of CivoKubernetesNodePoolStackOutputs.
const (
	OpNodePoolId          = "node_pool_id"
	OpNodeIds             = "node_ids"
	OpNodeNames           = "node_names"
	OpClusterId           = "cluster_id"
	OpRegion              = "region"
	OpAutoscalerNodesFlag = "autoscaler_nodes_flag"
)

func outputs(locals *Locals, createdNodePool *civo.KubernetesNodePool) pulumi.Map {
	return pulumi.Map{
		OpNodePoolId: createdNodePool.ID().ToStringOutput(),
		// The plugins report the names of nodes only.
		OpNodeIds:             pulumi.StringArray{},
		OpNodeNames:           createdNodePool.InstanceNames,
		OpClusterId:           createdNodePool.ClusterId,
		OpRegion:              pulumi.String(locals.Region),
		OpAutoscalerNodesFlag: pulumi.String(locals.Bounds.NodesFlag(locals.CivoKubernetesNodePool.Spec.NodePoolName)),
	}
}
