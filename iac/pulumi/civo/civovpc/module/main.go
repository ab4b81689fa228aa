// Package module provisions a private network of Civo from a CivoVpc manifest.
//
// Resources is the entry of a program with one network; New is a component for programs that make several things.
package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Resources provisions the network and exports the fields of CivoVpcStackOutputs. The stack input is validated as a whole
// before anything is registered; broken rules are a *validation.Error.
func Resources(ctx *pulumi.Context, stackInput *civovpcv1.CivoVpcStackInput) error {
	if err := validation.Validate(stackInput); err != nil {
		return errors.Wrap(err, "validate stack input")
	}
	locals := initializeLocals(ctx, stackInput)

	civoProvider, err := pulumicivoprovider.Get(ctx, stackInput.ProviderConfig, pulumicivoprovider.Region(locals.Region))
	if err != nil {
		return errors.Wrap(err, "set up civo provider")
	}

	createdNetwork, err := network(ctx, locals, civoProvider)
	if err != nil {
		return errors.Wrap(err, "create civo network")
	}

	for name, value := range outputs(locals, createdNetwork) {
		ctx.Export(name, value)
	}
	return nil
}
