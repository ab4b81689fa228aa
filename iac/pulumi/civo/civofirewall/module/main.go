// Package module provisions a firewall of Civo from a CivoFirewall manifest.
//
// Resources is the entry of a program with one firewall; New is a component for programs that make several things.
package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Resources provisions the firewall and exports the fields of CivoFirewallStackOutputs. The stack input is validated as a
// whole before anything is registered; broken rules are a *validation.Error.
func Resources(ctx *pulumi.Context, stackInput *civofirewallv1.CivoFirewallStackInput) error {
	if err := validation.Validate(stackInput); err != nil {
		return errors.Wrap(err, "validate stack input")
	}
	locals, err := initializeLocals(ctx, stackInput)
	if err != nil {
		return errors.Wrap(err, "initialize locals")
	}

	civoProvider, err := pulumicivoprovider.Get(ctx, stackInput.ProviderConfig, pulumicivoprovider.Region(locals.Region))
	if err != nil {
		return errors.Wrap(err, "set up civo provider")
	}

	createdFirewall, err := firewall(ctx, locals, civoProvider)
	if err != nil {
		return errors.Wrap(err, "create civo firewall")
	}

	for name, value := range outputs(locals, createdFirewall) {
		ctx.Export(name, value)
	}
	return nil
}
