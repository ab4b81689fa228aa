package module

import (
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/kubeconfig"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/timestamp"
)

// The names of the stack outputs, which are the fields of DigitalOceanKubernetesClusterStackOutputs.
const (
	OpClusterId                  = "cluster_id"
	OpKubeconfig                 = "kubeconfig"
	OpApiServerEndpoint          = "api_server_endpoint"
	OpKubeconfigB64              = "kubeconfig_b64"
	OpClusterCaCertificate       = "cluster_ca_certificate"
	OpToken                      = "token"
	OpKubeconfigExpiresAtRfc3339 = "kubeconfig_expires_at_rfc3339"
	OpUrn                        = "urn"
	OpKubernetesVersion          = "kubernetes_version"
	OpStatus                     = "status"
	OpIpv4Address                = "ipv4_address"
	OpVpcId                      = "vpc_id"
	OpDefaultNodePoolId          = "default_node_pool_id"
	OpDefaultNodeNames           = "default_node_names"
	OpDefaultNodeIds             = "default_node_ids"
	OpAdditionalNodePoolIds      = "additional_node_pool_ids"
	OpCreatedAtRfc3339           = "created_at_rfc3339"
	OpRegion                     = "region"
	OpClusterName                = "cluster_name"
	OpClusterSubnet              = "cluster_subnet"
	OpServiceSubnet              = "service_subnet"
)

// Outputs are what is known of a provisioned cluster: the fields of DigitalOceanKubernetesClusterStackOutputs.
type Outputs struct {
	// ClusterId is the id (UUID) of the cluster.
	ClusterId pulumi.StringOutput
	// Kubeconfig is the kubeconfig as YAML. A secret. Its token expires at KubeconfigExpiresAtRfc3339.
	Kubeconfig pulumi.StringOutput
	// ApiServerEndpoint is the URL of the Kubernetes API.
	ApiServerEndpoint pulumi.StringOutput
	// KubeconfigB64 is the kubeconfig, base64-encoded. A secret.
	KubeconfigB64 pulumi.StringOutput
	// ClusterCaCertificate is the certificate authority of the Kubernetes API, base64-encoded PEM.
	ClusterCaCertificate pulumi.StringOutput
	// Token is the bearer token of the kubeconfig. A secret.
	Token pulumi.StringOutput
	// KubeconfigExpiresAtRfc3339 is when the kubeconfig's token expires (RFC 3339).
	KubeconfigExpiresAtRfc3339 pulumi.StringOutput
	// Urn is the cluster's uniform resource name at DigitalOcean, such as do:kubernetes:<id>.
	Urn pulumi.StringOutput
	// KubernetesVersion is the slug of the version that the cluster runs, such as 1.31.1-do.4.
	KubernetesVersion pulumi.StringOutput
	// Status is the cluster's status as DigitalOcean names it, such as running.
	Status pulumi.StringOutput
	// Ipv4Address is the IPv4 address of the control plane; empty when it is highly available.
	Ipv4Address pulumi.StringOutput
	// VpcId is the id of the cluster's VPC.
	VpcId pulumi.StringOutput
	// DefaultNodePoolId is the id of the default node pool.
	DefaultNodePoolId pulumi.StringOutput
	// DefaultNodeNames are the names of the default pool's nodes.
	DefaultNodeNames pulumi.StringArrayOutput
	// DefaultNodeIds are the ids of the default pool's nodes.
	DefaultNodeIds pulumi.StringArrayOutput
	// AdditionalNodePoolIds are the ids of the additional node pools, in the order of the spec.
	AdditionalNodePoolIds pulumi.StringArrayOutput
	// CreatedAtRfc3339 is when the cluster was created (RFC 3339).
	CreatedAtRfc3339 pulumi.StringOutput
	// Region is the slug of the region, such as nyc3.
	Region pulumi.StringOutput
	// ClusterName is the name of the cluster.
	ClusterName pulumi.StringOutput
	// ClusterSubnet is the range that pods get their addresses from, in CIDR notation.
	ClusterSubnet pulumi.StringOutput
	// ServiceSubnet is the range that services get their addresses from, in CIDR notation.
	ServiceSubnet pulumi.StringOutput
}

func newOutputs(created *digitalocean.KubernetesCluster, createdNodePools []*digitalocean.KubernetesNodePool) Outputs {
	rawConfig := credential(created, func(c digitalocean.KubernetesClusterKubeConfig) *string { return c.RawConfig })
	return Outputs{
		ClusterId:                  created.ID().ToStringOutput(),
		Kubeconfig:                 rawConfig,
		ApiServerEndpoint:          created.Endpoint,
		KubeconfigB64:              kubeconfig.Base64(rawConfig),
		ClusterCaCertificate:       public(credential(created, func(c digitalocean.KubernetesClusterKubeConfig) *string { return c.ClusterCaCertificate })),
		Token:                      credential(created, func(c digitalocean.KubernetesClusterKubeConfig) *string { return c.Token }),
		KubeconfigExpiresAtRfc3339: public(timestamp.Output(credential(created, func(c digitalocean.KubernetesClusterKubeConfig) *string { return c.ExpiresAt }))),
		Urn:                        created.ClusterUrn,
		KubernetesVersion:          created.Version,
		Status:                     created.Status,
		Ipv4Address:                created.Ipv4Address,
		VpcId:                      created.VpcUuid,
		DefaultNodePoolId:          defaultNodePoolID(created),
		DefaultNodeNames:           defaultNodes(created, func(n digitalocean.KubernetesClusterNodePoolNode) *string { return n.Name }),
		DefaultNodeIds:             defaultNodes(created, func(n digitalocean.KubernetesClusterNodePoolNode) *string { return n.Id }),
		AdditionalNodePoolIds:      ids(createdNodePools),
		CreatedAtRfc3339:           timestamp.Output(created.CreatedAt),
		Region:                     created.Region,
		ClusterName:                created.Name,
		ClusterSubnet:              created.ClusterSubnet,
		ServiceSubnet:              created.ServiceSubnet,
	}
}

func (o Outputs) exports() pulumi.Map {
	return pulumi.Map{
		OpClusterId:                  o.ClusterId,
		OpKubeconfig:                 o.Kubeconfig,
		OpApiServerEndpoint:          o.ApiServerEndpoint,
		OpKubeconfigB64:              o.KubeconfigB64,
		OpClusterCaCertificate:       o.ClusterCaCertificate,
		OpToken:                      o.Token,
		OpKubeconfigExpiresAtRfc3339: o.KubeconfigExpiresAtRfc3339,
		OpUrn:                        o.Urn,
		OpKubernetesVersion:          o.KubernetesVersion,
		OpStatus:                     o.Status,
		OpIpv4Address:                o.Ipv4Address,
		OpVpcId:                      o.VpcId,
		OpDefaultNodePoolId:          o.DefaultNodePoolId,
		OpDefaultNodeNames:           o.DefaultNodeNames,
		OpDefaultNodeIds:             o.DefaultNodeIds,
		OpAdditionalNodePoolIds:      o.AdditionalNodePoolIds,
		OpCreatedAtRfc3339:           o.CreatedAtRfc3339,
		OpRegion:                     o.Region,
		OpClusterName:                o.ClusterName,
		OpClusterSubnet:              o.ClusterSubnet,
		OpServiceSubnet:              o.ServiceSubnet,
	}
}

// credential is a part of the credentials that DigitalOcean issued, as a secret; empty when it issued none.
func credential(
	created *digitalocean.KubernetesCluster, part func(digitalocean.KubernetesClusterKubeConfig) *string,
) pulumi.StringOutput {
	text := created.KubeConfigs.ApplyT(func(configs []digitalocean.KubernetesClusterKubeConfig) string {
		if len(configs) == 0 {
			return ""
		}
		return valueOf(part(configs[0]))
	})
	return pulumi.ToSecret(text).(pulumi.StringOutput)
}

// public says that what came with the credentials is none itself.
func public(output pulumi.StringOutput) pulumi.StringOutput {
	return pulumi.Unsecret(output).(pulumi.StringOutput)
}

func defaultNodePoolID(created *digitalocean.KubernetesCluster) pulumi.StringOutput {
	return created.NodePool.ApplyT(func(pool digitalocean.KubernetesClusterNodePool) string {
		return valueOf(pool.Id)
	}).(pulumi.StringOutput)
}

// defaultNodes is a part of each node of the default pool.
func defaultNodes(
	created *digitalocean.KubernetesCluster, part func(digitalocean.KubernetesClusterNodePoolNode) *string,
) pulumi.StringArrayOutput {
	return created.NodePool.ApplyT(func(pool digitalocean.KubernetesClusterNodePool) []string {
		parts := make([]string, 0, len(pool.Nodes))
		for _, node := range pool.Nodes {
			parts = append(parts, valueOf(part(node)))
		}
		return parts
	}).(pulumi.StringArrayOutput)
}

func ids(createdNodePools []*digitalocean.KubernetesNodePool) pulumi.StringArrayOutput {
	ids := make(pulumi.StringArray, 0, len(createdNodePools))
	for _, pool := range createdNodePools {
		ids = append(ids, pool.ID().ToStringOutput())
	}
	return ids.ToStringArrayOutput()
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
