package module

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/autoscale"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/kubeconfig"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/timestamp"
)

// The names of the stack outputs, which are the fields of CivoKubernetesClusterStackOutputs.
const (
	OpClusterId             = "cluster_id"
	OpKubeconfig            = "kubeconfig_b64"
	OpApiServerEndpoint     = "api_server_endpoint"
	OpCreatedAtRfc3339      = "created_at_rfc3339"
	OpClusterCaCertificate  = "cluster_ca_certificate"
	OpKubernetesVersion     = "kubernetes_version"
	OpStatus                = "status"
	OpNetworkId             = "network_id"
	OpFirewallId            = "firewall_id"
	OpDefaultNodePoolId     = "default_node_pool_id"
	OpDefaultNodeNames      = "default_node_names"
	OpMasterIp              = "master_ip"
	OpDnsEntry              = "dns_entry"
	OpRegion                = "region"
	OpClusterName           = "cluster_name"
	OpAdditionalNodePoolIds = "additional_node_pool_ids"
	OpAutoscalerNodesFlags  = "autoscaler_nodes_flags"
)

func outputs(locals *Locals, created *created) pulumi.Map {
	nodePoolIDs := pulumi.StringArray{}
	for _, pool := range created.nodePools {
		nodePoolIDs = append(nodePoolIDs, pool.ID().ToStringOutput())
	}
	autoscalerNodesFlags := pulumi.StringArray{}
	for _, pool := range locals.CivoKubernetesCluster.Spec.AdditionalNodePools {
		if flag := autoscale.Of(pool).NodesFlag(pool.Name); flag != "" {
			autoscalerNodesFlags = append(autoscalerNodesFlags, pulumi.String(flag))
		}
	}

	cluster := created.cluster
	return pulumi.Map{
		OpClusterId:            cluster.ID().ToStringOutput(),
		OpKubeconfig:           kubeconfig.Base64(cluster.Kubeconfig),
		OpApiServerEndpoint:    cluster.ApiEndpoint,
		OpCreatedAtRfc3339:     timestamp.Output(cluster.CreatedAt),
		OpClusterCaCertificate: kubeconfig.CertificateAuthority(cluster.Kubeconfig),
		OpKubernetesVersion:    cluster.KubernetesVersion,
		OpStatus:               cluster.Status,
		OpNetworkId:            cluster.NetworkId,
		OpFirewallId:           cluster.FirewallId,
		// On Civo, the label of a pool is its id.
		OpDefaultNodePoolId:     cluster.Pools.Label().Elem(),
		OpDefaultNodeNames:      cluster.Pools.InstanceNames(),
		OpMasterIp:              cluster.MasterIp,
		OpDnsEntry:              cluster.DnsEntry,
		OpRegion:                pulumi.String(locals.Region),
		OpClusterName:           cluster.Name,
		OpAdditionalNodePoolIds: nodePoolIDs,
		OpAutoscalerNodesFlags:  autoscalerNodesFlags,
	}
}
