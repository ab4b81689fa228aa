package module

import (
	"github.com/pkg/errors"
	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/kubeconfig"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// componentType is the type token of the component. It is part of the URNs of its children: a changed one replaces them.
const componentType = "planton:civo:CivoKubernetesCluster"

// Args are the arguments of New.
type Args struct {
	// Metadata names the resource and tells to whom it belongs; nil stands for the name of the component alone.
	Metadata *shared.CloudResourceMetadata
	// Spec is what is wanted. It is validated as in a manifest.
	Spec *civokubernetesclusterv1.CivoKubernetesClusterSpec
	// NetworkId is the id of the network, in place of spec.network.
	NetworkId pulumi.StringInput
	// FirewallId is the id of the firewall, in place of spec.firewall. When both are absent, a firewall is made.
	FirewallId pulumi.StringInput
	// ProviderConfig tells how to reach Civo; nil leaves that to the environment of the plugin.
	ProviderConfig *civo.CivoProviderConfig
	// Provider is used instead of one made from ProviderConfig. It must work in the region of the spec.
	Provider *civoprovider.Provider
}

// Component is a cluster with its outputs.
type Component struct {
	pulumi.ResourceState

	// ClusterId is the id (UUID) of the cluster, which node pools take.
	ClusterId pulumi.StringOutput
	// ClusterName is the name of the cluster.
	ClusterName pulumi.StringOutput
	// Kubeconfig is the kubeconfig as YAML. A secret.
	Kubeconfig pulumi.StringOutput
	// KubeconfigB64 is the kubeconfig, base64-encoded. A secret.
	KubeconfigB64 pulumi.StringOutput
	// ApiServerEndpoint is the URL of the Kubernetes API.
	ApiServerEndpoint pulumi.StringOutput
	// ClusterCaCertificate is the base64-encoded PEM of the certificate authority.
	ClusterCaCertificate pulumi.StringOutput
	// KubernetesVersion is the version that the cluster runs, such as "1.29.0-k3s1".
	KubernetesVersion pulumi.StringOutput
	// NetworkId is the id of the cluster's network.
	NetworkId pulumi.StringOutput
	// FirewallId is the id of the firewall in front of the cluster.
	FirewallId pulumi.StringOutput
	// DefaultNodePoolId is the id of the default pool, which on Civo is its name.
	DefaultNodePoolId pulumi.StringOutput
	// DefaultNodeNames are the host names of the default pool's nodes.
	DefaultNodeNames pulumi.StringArrayOutput
	// AdditionalNodePoolIds are the ids of the additional pools, in the order of the spec.
	AdditionalNodePoolIds pulumi.StringArrayOutput
	// Region is the code of the region, such as "FRA1".
	Region pulumi.StringOutput
}

// New provisions a cluster as a component of a larger program. The arguments are validated before anything is registered;
// broken rules are a *validation.Error.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Component, error) {
	stackInput := args.stackInput(name)
	if err := validation.Validate(stackInput); err != nil {
		return nil, errors.Wrapf(err, "validate the arguments of civo kubernetes cluster %q", name)
	}
	component := &Component{}
	if err := ctx.RegisterComponentResource(componentType, name, component, opts...); err != nil {
		return nil, errors.Wrapf(err, "register civo kubernetes cluster %q", name)
	}
	locals, err := initializeLocals(ctx, stackInput,
		reference.Prefix(name+"-"), reference.ResourceOptions(pulumi.Parent(component)))
	if err != nil {
		return nil, errors.Wrapf(err, "initialize the locals of civo kubernetes cluster %q", name)
	}
	locals.ResourcePrefix = name + "-"
	if args.NetworkId != nil {
		locals.NetworkId = args.NetworkId
	}
	if args.FirewallId != nil {
		locals.FirewallId = args.FirewallId
	}

	civoProvider := args.Provider
	if civoProvider == nil {
		civoProvider, err = pulumicivoprovider.Get(ctx, args.ProviderConfig, pulumicivoprovider.Region(locals.Region),
			pulumicivoprovider.Name(locals.ResourcePrefix+"civo"), pulumicivoprovider.ResourceOptions(pulumi.Parent(component)))
		if err != nil {
			return nil, errors.Wrapf(err, "set up the provider of civo kubernetes cluster %q", name)
		}
	}

	created, err := resources(ctx, locals, civoProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "civo kubernetes cluster %q", name)
	}

	registered := outputs(locals, created)
	component.ClusterId = created.cluster.ID().ToStringOutput()
	component.ClusterName = created.cluster.Name
	component.Kubeconfig = created.cluster.Kubeconfig
	component.KubeconfigB64 = kubeconfig.Base64(created.cluster.Kubeconfig)
	component.ApiServerEndpoint = created.cluster.ApiEndpoint
	component.ClusterCaCertificate = kubeconfig.CertificateAuthority(created.cluster.Kubeconfig)
	component.KubernetesVersion = created.cluster.KubernetesVersion
	component.NetworkId = created.cluster.NetworkId
	component.FirewallId = created.cluster.FirewallId
	component.DefaultNodePoolId = created.cluster.Pools.Label().Elem()
	component.DefaultNodeNames = created.cluster.Pools.InstanceNames()
	component.AdditionalNodePoolIds = registered[OpAdditionalNodePoolIds].(pulumi.StringArray).ToStringArrayOutput()
	component.Region = pulumi.String(locals.Region).ToStringOutput()
	return component, errors.Wrapf(ctx.RegisterResourceOutputs(component, registered),
		"register the outputs of civo kubernetes cluster %q", name)
}

// stackInput is the stack input of a program with this resource alone, so that both ways in are validated alike.
func (a *Args) stackInput(name string) *civokubernetesclusterv1.CivoKubernetesClusterStackInput {
	if a == nil {
		a = &Args{}
	}
	target := &civokubernetesclusterv1.CivoKubernetesCluster{Metadata: a.Metadata, Spec: proto.CloneOf(a.Spec)}
	if kind, ok := kinds.Of(target); ok {
		target.ApiVersion, target.Kind = kind.APIVersion, kind.Name
	}
	if target.Metadata == nil {
		target.Metadata = &shared.CloudResourceMetadata{Name: name}
	}
	if a.NetworkId != nil && target.Spec != nil {
		target.Spec.Network = reference.Given()
	}
	if a.FirewallId != nil && target.Spec != nil {
		target.Spec.Firewall = reference.Given()
	}
	return &civokubernetesclusterv1.CivoKubernetesClusterStackInput{Target: target, ProviderConfig: a.ProviderConfig}
}
