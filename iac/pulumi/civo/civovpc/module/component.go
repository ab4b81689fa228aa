package module

import (
	"github.com/pkg/errors"
	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// componentType is the type token of the component. It is part of the URNs of its children: a changed one replaces them.
const componentType = "planton:civo:CivoVpc"

// Args are the arguments of New.
type Args struct {
	// Metadata names the resource and tells to whom it belongs; nil stands for the name of the component alone.
	Metadata *shared.CloudResourceMetadata
	// Spec is what is wanted. It is validated as in a manifest.
	Spec *civovpcv1.CivoVpcSpec
	// ProviderConfig tells how to reach Civo; nil leaves that to the environment of the plugin.
	ProviderConfig *civo.CivoProviderConfig
	// Provider is used instead of one made from ProviderConfig. It must work in the region of the spec.
	Provider *civoprovider.Provider
}

// Component is a network with its outputs.
type Component struct {
	pulumi.ResourceState

	// NetworkId is the id (UUID) of the network.
	NetworkId pulumi.StringOutput
	// CidrBlock is the network's IPv4 range.
	CidrBlock pulumi.StringOutput
	// NetworkName is the label of the network.
	NetworkName pulumi.StringOutput
	// Region is the code of the region, such as "FRA1".
	Region pulumi.StringOutput
}

// New provisions a network as a component of a larger program. The arguments are validated before anything is registered;
// broken rules are a *validation.Error.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Component, error) {
	stackInput := args.stackInput(name)
	if err := validation.Validate(stackInput); err != nil {
		return nil, errors.Wrapf(err, "validate the arguments of civo vpc %q", name)
	}
	component := &Component{}
	if err := ctx.RegisterComponentResource(componentType, name, component, opts...); err != nil {
		return nil, errors.Wrapf(err, "register civo vpc %q", name)
	}
	locals := initializeLocals(ctx, stackInput)
	locals.ResourcePrefix = name + "-"

	civoProvider := args.Provider
	if civoProvider == nil {
		var err error
		civoProvider, err = pulumicivoprovider.Get(ctx, args.ProviderConfig, pulumicivoprovider.Region(locals.Region),
			pulumicivoprovider.Name(locals.ResourcePrefix+"civo"), pulumicivoprovider.ResourceOptions(pulumi.Parent(component)))
		if err != nil {
			return nil, errors.Wrapf(err, "set up the provider of civo vpc %q", name)
		}
	}

	createdNetwork, err := network(ctx, locals, civoProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "create the network of civo vpc %q", name)
	}

	component.NetworkId = createdNetwork.ID().ToStringOutput()
	component.CidrBlock = createdNetwork.CidrV4
	component.NetworkName = createdNetwork.Label
	component.Region = pulumi.String(locals.Region).ToStringOutput()
	return component, errors.Wrapf(ctx.RegisterResourceOutputs(component, outputs(locals, createdNetwork)),
		"register the outputs of civo vpc %q", name)
}

// stackInput is the stack input of a program with this resource alone, so that both ways in are validated alike.
func (a *Args) stackInput(name string) *civovpcv1.CivoVpcStackInput {
	if a == nil {
		a = &Args{}
	}
	target := &civovpcv1.CivoVpc{Metadata: a.Metadata, Spec: a.Spec}
	if kind, ok := kinds.Of(target); ok {
		target.ApiVersion, target.Kind = kind.APIVersion, kind.Name
	}
	if target.Metadata == nil {
		target.Metadata = &shared.CloudResourceMetadata{Name: name}
	}
	return &civovpcv1.CivoVpcStackInput{Target: target, ProviderConfig: a.ProviderConfig}
}
