package module

import (
	"github.com/pkg/errors"
	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// componentType is the type token of the component. It is part of the URNs of its children: a changed one replaces them.
const componentType = "planton:civo:CivoFirewall"

// Args are the arguments of New.
type Args struct {
	// Metadata names the resource and tells to whom it belongs; nil stands for the name of the component alone.
	Metadata *shared.CloudResourceMetadata
	// Spec is what is wanted. It is validated as in a manifest.
	Spec *civofirewallv1.CivoFirewallSpec
	// NetworkId is the id of the network, in place of spec.network_id.
	NetworkId pulumi.StringInput
	// ProviderConfig tells how to reach Civo; nil leaves that to the environment of the plugin.
	ProviderConfig *civo.CivoProviderConfig
	// Provider is used instead of one made from ProviderConfig. It must work in the region of the spec.
	Provider *civoprovider.Provider
}

// Component is a firewall with its outputs.
type Component struct {
	pulumi.ResourceState

	// FirewallId is the id (UUID) of the firewall.
	FirewallId pulumi.StringOutput
	// FirewallName is the name of the firewall.
	FirewallName pulumi.StringOutput
	// NetworkId is the id of the network that the firewall belongs to.
	NetworkId pulumi.StringOutput
	// Region is the code of the region, such as "FRA1".
	Region pulumi.StringOutput
}

// New provisions a firewall as a component of a larger program. The arguments are validated before anything is
// registered; broken rules are a *validation.Error.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Component, error) {
	stackInput := args.stackInput(name)
	if err := validation.Validate(stackInput); err != nil {
		return nil, errors.Wrapf(err, "validate the arguments of civo firewall %q", name)
	}
	component := &Component{}
	if err := ctx.RegisterComponentResource(componentType, name, component, opts...); err != nil {
		return nil, errors.Wrapf(err, "register civo firewall %q", name)
	}
	locals, err := initializeLocals(ctx, stackInput,
		reference.Prefix(name+"-"), reference.ResourceOptions(pulumi.Parent(component)))
	if err != nil {
		return nil, errors.Wrapf(err, "initialize the locals of civo firewall %q", name)
	}
	locals.ResourcePrefix = name + "-"
	if args.NetworkId != nil {
		locals.NetworkId = args.NetworkId
	}

	civoProvider := args.Provider
	if civoProvider == nil {
		civoProvider, err = pulumicivoprovider.Get(ctx, args.ProviderConfig, pulumicivoprovider.Region(locals.Region),
			pulumicivoprovider.Name(locals.ResourcePrefix+"civo"), pulumicivoprovider.ResourceOptions(pulumi.Parent(component)))
		if err != nil {
			return nil, errors.Wrapf(err, "set up the provider of civo firewall %q", name)
		}
	}

	createdFirewall, err := firewall(ctx, locals, civoProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "create the firewall of civo firewall %q", name)
	}

	component.FirewallId = createdFirewall.ID().ToStringOutput()
	component.FirewallName = createdFirewall.Name
	component.NetworkId = createdFirewall.NetworkId
	component.Region = pulumi.String(locals.Region).ToStringOutput()
	return component, errors.Wrapf(ctx.RegisterResourceOutputs(component, outputs(locals, createdFirewall)),
		"register the outputs of civo firewall %q", name)
}

// stackInput is the stack input of a program with this resource alone, so that both ways in are validated alike.
func (a *Args) stackInput(name string) *civofirewallv1.CivoFirewallStackInput {
	if a == nil {
		a = &Args{}
	}
	target := &civofirewallv1.CivoFirewall{Metadata: a.Metadata, Spec: proto.CloneOf(a.Spec)}
	if kind, ok := kinds.Of(target); ok {
		target.ApiVersion, target.Kind = kind.APIVersion, kind.Name
	}
	if target.Metadata == nil {
		target.Metadata = &shared.CloudResourceMetadata{Name: name}
	}
	if a.NetworkId != nil && target.Spec != nil {
		target.Spec.NetworkId = reference.Given()
	}
	return &civofirewallv1.CivoFirewallStackInput{Target: target, ProviderConfig: a.ProviderConfig}
}
