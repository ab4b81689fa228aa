package module

import (
	"github.com/pkg/errors"
	digitaloceanprovider "github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// componentType is the type token of the component. It is part of the URNs of its children: a changed one replaces them.
const componentType = "planton:digitalocean:DigitalOceanKubernetesNodePool"

// Args are the arguments of New.
type Args struct {
	// Metadata names the resource and tells to whom it belongs; nil stands for the name of the component alone.
	Metadata *shared.CloudResourceMetadata
	// Spec is what is wanted. It is validated as in a manifest.
	Spec *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec
	// ClusterId is the id of the pool's cluster. It stands in for spec.cluster; nil leaves that to the spec.
	ClusterId pulumi.StringInput
	// ProviderConfig tells how to reach DigitalOcean; nil leaves that to the environment of the plugin.
	ProviderConfig *digitalocean.DigitalOceanProviderConfig
	// Provider is used instead of one made from ProviderConfig.
	Provider *digitaloceanprovider.Provider
}

// Component is a node pool with its outputs.
type Component struct {
	pulumi.ResourceState
	Outputs
}

// New provisions a node pool as a component of a larger program. The arguments are validated before anything is registered;
// broken rules are a *validation.Error.
//
// Where DigitalOcean's autoscaler sizes the pool and the official plugin provisions, update with `pulumi up --refresh`: that
// plugin sends the node count of the state along with every other change of a pool.
func New(ctx *pulumi.Context, name string, args *Args, opts ...pulumi.ResourceOption) (*Component, error) {
	if args == nil {
		args = &Args{}
	}
	stackInput := args.stackInput(name)
	if err := validation.Validate(stackInput); err != nil {
		return nil, errors.Wrapf(err, "validate the arguments of digitalocean kubernetes node pool %q", name)
	}
	component := &Component{}
	if err := ctx.RegisterComponentResource(componentType, name, component, opts...); err != nil {
		return nil, errors.Wrapf(err, "register digitalocean kubernetes node pool %q", name)
	}
	locals, err := initializeLocals(ctx, stackInput,
		reference.Prefix(name+"-"), reference.ResourceOptions(pulumi.Parent(component)))
	if err != nil {
		return nil, errors.Wrapf(err, "initialize the locals of digitalocean kubernetes node pool %q", name)
	}
	locals.ResourcePrefix = name + "-"
	if args.ClusterId != nil {
		locals.ClusterId, locals.ClusterName = args.ClusterId, ""
	}

	digitalOceanProvider := args.Provider
	if digitalOceanProvider == nil {
		digitalOceanProvider, err = pulumidigitaloceanprovider.Get(ctx, args.ProviderConfig,
			pulumidigitaloceanprovider.Name(locals.ResourcePrefix+"digitalocean"),
			pulumidigitaloceanprovider.ResourceOptions(pulumi.Parent(component)))
		if err != nil {
			return nil, errors.Wrapf(err, "set up the provider of digitalocean kubernetes node pool %q", name)
		}
	}

	if err := findCluster(ctx, locals, digitalOceanProvider); err != nil {
		return nil, errors.Wrapf(err, "digitalocean kubernetes node pool %q", name)
	}

	createdNodePool, err := nodePool(ctx, locals, digitalOceanProvider, pulumi.Parent(component))
	if err != nil {
		return nil, errors.Wrapf(err, "create digitalocean kubernetes node pool %q", name)
	}

	component.Outputs = newOutputs(createdNodePool)
	return component, errors.Wrapf(ctx.RegisterResourceOutputs(component, component.exports()),
		"register the outputs of digitalocean kubernetes node pool %q", name)
}

// stackInput is the stack input of a program with this resource alone, so that both ways in are validated alike.
func (a *Args) stackInput(name string) *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackInput {
	target := &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{Metadata: a.Metadata, Spec: proto.CloneOf(a.Spec)}
	if kind, ok := kinds.Of(target); ok {
		target.ApiVersion, target.Kind = kind.APIVersion, kind.Name
	}
	if target.Metadata == nil {
		target.Metadata = &shared.CloudResourceMetadata{Name: name}
	}
	if a.ClusterId != nil && target.Spec != nil {
		target.Spec.Cluster = reference.Given()
	}
	return &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackInput{Target: target, ProviderConfig: a.ProviderConfig}
}
