package module

import (
	"github.com/pkg/errors"
	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// componentType is the type token of the component. It is part of the URNs of its children: a changed one replaces them.
const componentType = "planton:civo:CivoKubernetesNodePool"

// Args are the arguments of New.
type Args struct {
	// Metadata names the resource and tells to whom it belongs; nil stands for the name of the component alone.
	Metadata *shared.CloudResourceMetadata
	// Spec is what is wanted. It is validated as in a manifest.
	Spec *civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec
	// ClusterId is the id of the cluster, in place of spec.cluster.
	ClusterId pulumi.StringInput
	// ProviderConfig tells how to reach Civo; nil leaves that to the environment of the plugin.
	ProviderConfig *civo.CivoProviderConfig
	// Provider is used instead of one made from ProviderConfig. It must work in the region of the cluster: a pool has no
	// region of its own.
	Provider *civoprovider.Provider
}

// Component is a node pool with its outputs.
type Component struct {
	pulumi.ResourceState

	// NodePoolId is the id of the pool, which on Civo is its name.
	NodePoolId pulumi.StringOutput
	// NodeNames are the host names of the pool's nodes.
	NodeNames pulumi.StringArrayOutput
	// ClusterId is the id of the cluster that the pool belongs to.
	ClusterId pulumi.StringOutput
	// Region is the code of the region, such as "FRA1".
	Region pulumi.StringOutput
	// AutoscalerNodesFlag is what a cluster autoscaler is to be started with, "--nodes=min:max:pool"; empty when the pool
	// does not scale.
	AutoscalerNodesFlag pulumi.StringOutput
}

// New provisions a node pool as a component of a larger program. The arguments are validated before anything is
// registered; broken rules are a *validation.Error.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Component, error) {
	stackInput := args.stackInput(name)
	if err := validation.Validate(stackInput); err != nil {
		return nil, errors.Wrapf(err, "validate the arguments of civo kubernetes node pool %q", name)
	}
	component := &Component{}
	if err := ctx.RegisterComponentResource(componentType, name, component, opts...); err != nil {
		return nil, errors.Wrapf(err, "register civo kubernetes node pool %q", name)
	}
	locals, err := initializeLocals(ctx, stackInput,
		reference.Prefix(name+"-"), reference.ResourceOptions(pulumi.Parent(component)))
	if err != nil {
		return nil, errors.Wrapf(err, "initialize the locals of civo kubernetes node pool %q", name)
	}
	locals.ResourcePrefix = name + "-"
	if args.ClusterId != nil {
		locals.Cluster = args.ClusterId
	}

	civoProvider := args.Provider
	if civoProvider == nil {
		civoProvider, err = pulumicivoprovider.Get(ctx, args.ProviderConfig, pulumicivoprovider.Region(locals.Region),
			pulumicivoprovider.Name(locals.ResourcePrefix+"civo"), pulumicivoprovider.ResourceOptions(pulumi.Parent(component)))
		if err != nil {
			return nil, errors.Wrapf(err, "set up the provider of civo kubernetes node pool %q", name)
		}
	}

	createdNodePool, err := nodePool(ctx, locals, civoProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "create the node pool of civo kubernetes node pool %q", name)
	}

	registered := outputs(locals, createdNodePool)
	component.NodePoolId = createdNodePool.ID().ToStringOutput()
	component.NodeNames = createdNodePool.InstanceNames
	component.ClusterId = createdNodePool.ClusterId
	component.Region = pulumi.String(locals.Region).ToStringOutput()
	component.AutoscalerNodesFlag = registered[OpAutoscalerNodesFlag].(pulumi.String).ToStringOutput()
	return component, errors.Wrapf(ctx.RegisterResourceOutputs(component, registered),
		"register the outputs of civo kubernetes node pool %q", name)
}

// stackInput is the stack input of a program with this resource alone, so that both ways in are validated alike.
func (a *Args) stackInput(name string) *civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput {
	if a == nil {
		a = &Args{}
	}
	target := &civokubernetesnodepoolv1.CivoKubernetesNodePool{Metadata: a.Metadata, Spec: proto.CloneOf(a.Spec)}
	if kind, ok := kinds.Of(target); ok {
		target.ApiVersion, target.Kind = kind.APIVersion, kind.Name
	}
	if target.Metadata == nil {
		target.Metadata = &shared.CloudResourceMetadata{Name: name}
	}
	if a.ClusterId != nil && target.Spec != nil {
		target.Spec.Cluster = reference.Given()
	}
	return &civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput{Target: target, ProviderConfig: a.ProviderConfig}
}
