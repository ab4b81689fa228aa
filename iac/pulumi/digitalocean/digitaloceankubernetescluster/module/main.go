// Package module provisions a Kubernetes cluster of DigitalOcean from a DigitalOceanKubernetesCluster manifest: the cluster
// with its default node pool, and any additional ones.
//
// Resources is the entry of a program with one cluster; New is a component for programs that make several things.
package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Resources provisions the cluster and exports the fields of DigitalOceanKubernetesClusterStackOutputs. The stack input is
// validated as a whole before anything is registered; broken rules are a *validation.Error.
func Resources(
	ctx *pulumi.Context, stackInput *digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackInput,
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

	if err := planVersion(ctx, locals, digitalOceanProvider); err != nil {
		return errors.Wrap(err, "plan kubernetes version")
	}

	createdCluster, err := cluster(ctx, locals, digitalOceanProvider)
	if err != nil {
		return errors.Wrap(err, "create digitalocean kubernetes cluster")
	}

	createdNodePools, err := nodePools(ctx, locals, createdCluster, digitalOceanProvider)
	if err != nil {
		return errors.Wrap(err, "create digitalocean kubernetes node pools")
	}

	for name, value := range newOutputs(createdCluster, createdNodePools).exports() {
		ctx.Export(name, value)
	}
	return nil
}
