// Package module provisions a private network of DigitalOcean from a DigitalOceanVpc manifest.
//
// Resources is the entry of a program with one VPC; New is a component for programs that make several things.
package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Resources provisions the VPC and exports the fields of DigitalOceanVpcStackOutputs. The stack input is validated as a
// whole before anything is registered; broken rules are a *validation.Error.
func Resources(ctx *pulumi.Context, stackInput *digitaloceanvpcv1.DigitalOceanVpcStackInput) error {
	if err := validation.Validate(stackInput); err != nil {
		return errors.Wrap(err, "validate stack input")
	}
	locals := initializeLocals(ctx, stackInput)

	digitalOceanProvider, err := pulumidigitaloceanprovider.Get(ctx, stackInput.ProviderConfig)
	if err != nil {
		return errors.Wrap(err, "set up digitalocean provider")
	}

	createdVpc, err := vpc(ctx, locals, digitalOceanProvider)
	if err != nil {
		return errors.Wrap(err, "create digitalocean vpc")
	}

	for name, value := range newOutputs(createdVpc).exports() {
		ctx.Export(name, value)
	}
	return nil
}
