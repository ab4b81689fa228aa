// Package module provisions a node pool of a Civo Kubernetes cluster from a CivoKubernetesNodePool manifest.
//
// Resources is the entry of a program with one pool; New is a component for programs that make several things.
package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Resources provisions the pool and exports the fields of CivoKubernetesNodePoolStackOutputs. The stack input is validated
// as a whole before anything is registered; broken rules are a *validation.Error.
func Resources(ctx *pulumi.Context, stackInput *civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput) error {
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

	createdNodePool, err := nodePool(ctx, locals, civoProvider)
	if err != nil {
		return errors.Wrap(err, "create civo kubernetes node pool")
	}

	for name, value := range outputs(locals, createdNodePool) {
		ctx.Export(name, value)
	}
	return nil
}
