package module

import (
	"github.com/pkg/errors"
	digitaloceanprovider "github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// componentType is the type token of the component. It is part of the URNs of its children: a changed one replaces them.
const componentType = "planton:digitalocean:DigitalOceanKubernetesCluster"

// Args are the arguments of New.
type Args struct {
	// Metadata names the resource and tells to whom it belongs; nil stands for the name of the component alone.
	Metadata *shared.CloudResourceMetadata
	// Spec is what is wanted. It is validated as in a manifest.
	Spec *digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec
	// VpcId is the id of the cluster's VPC. It stands in for spec.vpc; nil leaves that to the spec.
	VpcId pulumi.StringInput
	// ProviderConfig tells how to reach DigitalOcean; nil leaves that to the environment of the plugin.
	ProviderConfig *digitalocean.DigitalOceanProviderConfig
	// Provider is used instead of one made from ProviderConfig.
	Provider *digitaloceanprovider.Provider
}

// Component is a cluster with its outputs.
type Component struct {
	pulumi.ResourceState
	Outputs
}

// New provisions a cluster as a component of a larger program. The arguments are validated before anything is registered;
// broken rules are a *validation.Error.
//
// Where DigitalOcean's autoscaler sizes a pool and the official plugin provisions, update with `pulumi up --refresh`: that
// plugin sends the node count of the state along with every other change of a pool.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Component, error) {
	if args == nil {
		args = &Args{}
	}
	stackInput := args.stackInput(name)
	if err := validation.Validate(stackInput); err != nil {
		return nil, errors.Wrapf(err, "validate the arguments of digitalocean kubernetes cluster %q", name)
	}
	component := &Component{}
	if err := ctx.RegisterComponentResource(componentType, name, component, opts...); err != nil {
		return nil, errors.Wrapf(err, "register digitalocean kubernetes cluster %q", name)
	}
	locals, err := initializeLocals(ctx, stackInput,
		reference.Prefix(name+"-"), reference.ResourceOptions(pulumi.Parent(component)))
	if err != nil {
		return nil, errors.Wrapf(err, "initialize the locals of digitalocean kubernetes cluster %q", name)
	}
	locals.ResourcePrefix = name + "-"
	if args.VpcId != nil {
		locals.VpcId = args.VpcId.ToStringOutput().ToStringPtrOutput()
	}

	digitalOceanProvider := args.Provider
	if digitalOceanProvider == nil {
		digitalOceanProvider, err = pulumidigitaloceanprovider.Get(ctx, args.ProviderConfig,
			pulumidigitaloceanprovider.Name(locals.ResourcePrefix+"digitalocean"),
			pulumidigitaloceanprovider.ResourceOptions(pulumi.Parent(component)))
		if err != nil {
			return nil, errors.Wrapf(err, "set up the provider of digitalocean kubernetes cluster %q", name)
		}
	}

	if err := planVersion(ctx, locals, digitalOceanProvider); err != nil {
		return nil, errors.Wrapf(err, "plan the kubernetes version of digitalocean kubernetes cluster %q", name)
	}

	createdCluster, err := cluster(ctx, locals, digitalOceanProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "create digitalocean kubernetes cluster %q", name)
	}

	createdNodePools, err := nodePools(ctx, locals, createdCluster, digitalOceanProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "create the node pools of digitalocean kubernetes cluster %q", name)
	}

	component.Outputs = newOutputs(createdCluster, createdNodePools)
	return component, errors.Wrapf(ctx.RegisterResourceOutputs(component, component.exports()),
		"register the outputs of digitalocean kubernetes cluster %q", name)
}

// stackInput is the stack input of a program with this resource alone, so that both ways in are validated alike.
func (a *Args) stackInput(name string) *digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackInput {
	target := &digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster{Metadata: a.Metadata, Spec: proto.CloneOf(a.Spec)}
	if kind, ok := kinds.Of(target); ok {
		target.ApiVersion, target.Kind = kind.APIVersion, kind.Name
	}
	if target.Metadata == nil {
		target.Metadata = &shared.CloudResourceMetadata{Name: name}
	}
	if a.VpcId != nil && target.Spec != nil {
		target.Spec.Vpc = reference.Given()
	}
	return &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackInput{Target: target, ProviderConfig: a.ProviderConfig}
}
