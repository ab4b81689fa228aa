// Package module provisions a node pool of a DigitalOcean Kubernetes cluster from a DigitalOceanKubernetesNodePool manifest.
//
// Resources is the entry of a program with one pool; New is a component for programs that make several things.
package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Resources provisions the pool and exports the fields of DigitalOceanKubernetesNodePoolStackOutputs. The stack input is
// validated as a whole before anything is registered; broken rules are a *validation.Error.
func Resources(
	ctx *pulumi.Context, stackInput *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackInput,
) error {
	if err := validation.Validate(stackInput); err != nil {
		return errors.Wrap(err, "validate stack input")
	}
	locals, err := initializeLocals(ctx, stackInput)
	if err != nil {
		return errors.Wrap(err, "initialize locals")
	}

	digitalOceanProvider, err := pulumidigitaloceanprovider.Get(ctx, stackInput.ProviderConfig)
	if err != nil {
		return errors.Wrap(err, "set up digitalocean provider")
	}

	if err := findCluster(ctx, locals, digitalOceanProvider); err != nil {
		return err
	}

	createdNodePool, err := nodePool(ctx, locals, digitalOceanProvider)
	if err != nil {
		return errors.Wrap(err, "create digitalocean kubernetes node pool")
	}

	for name, value := range newOutputs(createdNodePool).exports() {
		ctx.Export(name, value)
	}
	return nil
}
