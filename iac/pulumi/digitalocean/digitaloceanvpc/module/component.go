package module

import (
	"github.com/pkg/errors"
	digitaloceanprovider "github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// componentType is the type token of the component. It is part of the URNs of its children: a changed one replaces them.
const componentType = "planton:digitalocean:DigitalOceanVpc"

// Args are the arguments of New.
type Args struct {
	// Metadata names the resource, the VPC at DigitalOcean too, and tells to whom it belongs; nil stands for the name of the
	// component alone.
	Metadata *shared.CloudResourceMetadata
	// Spec is what is wanted. It is validated as in a manifest.
	Spec *digitaloceanvpcv1.DigitalOceanVpcSpec
	// ProviderConfig tells how to reach DigitalOcean; nil leaves that to the environment of the plugin.
	ProviderConfig *digitalocean.DigitalOceanProviderConfig
	// Provider is used instead of one made from ProviderConfig.
	Provider *digitaloceanprovider.Provider
}

// Component is a VPC with its outputs.
type Component struct {
	pulumi.ResourceState
	Outputs
}

// New provisions a VPC as a component of a larger program. The arguments are validated before anything is registered;
// broken rules are a *validation.Error.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Component, error) {
	if args == nil {
		args = &Args{}
	}
	stackInput := args.stackInput(name)
	if err := validation.Validate(stackInput); err != nil {
		return nil, errors.Wrapf(err, "validate the arguments of digitalocean vpc %q", name)
	}
	component := &Component{}
	if err := ctx.RegisterComponentResource(componentType, name, component, opts...); err != nil {
		return nil, errors.Wrapf(err, "register digitalocean vpc %q", name)
	}
	locals := initializeLocals(ctx, stackInput)
	locals.ResourcePrefix = name + "-"

	digitalOceanProvider := args.Provider
	if digitalOceanProvider == nil {
		var err error
		digitalOceanProvider, err = pulumidigitaloceanprovider.Get(ctx, args.ProviderConfig,
			pulumidigitaloceanprovider.Name(locals.ResourcePrefix+"digitalocean"),
			pulumidigitaloceanprovider.ResourceOptions(pulumi.Parent(component)))
		if err != nil {
			return nil, errors.Wrapf(err, "set up the provider of digitalocean vpc %q", name)
		}
	}

	createdVpc, err := vpc(ctx, locals, digitalOceanProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "create digitalocean vpc %q", name)
	}

	component.Outputs = newOutputs(createdVpc)
	return component, errors.Wrapf(ctx.RegisterResourceOutputs(component, component.exports()),
		"register the outputs of digitalocean vpc %q", name)
}

// stackInput is the stack input of a program with this resource alone, so that both ways in are validated alike.
func (a *Args) stackInput(name string) *digitaloceanvpcv1.DigitalOceanVpcStackInput {
	target := &digitaloceanvpcv1.DigitalOceanVpc{Metadata: a.Metadata, Spec: a.Spec}
	if kind, ok := kinds.Of(target); ok {
		target.ApiVersion, target.Kind = kind.APIVersion, kind.Name
	}
	if target.Metadata == nil {
		target.Metadata = &shared.CloudResourceMetadata{Name: name}
	}
	return &digitaloceanvpcv1.DigitalOceanVpcStackInput{Target: target, ProviderConfig: a.ProviderConfig}
}
