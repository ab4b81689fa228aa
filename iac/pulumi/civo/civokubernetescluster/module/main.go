// Package module provisions a Kubernetes cluster of Civo from a CivoKubernetesCluster manifest.
//
// Resources is the entry of a program with one cluster; New is a component for programs that make several things.
package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Resources provisions the cluster with its pools, and a firewall when the manifest names none, and exports the fields of
// CivoKubernetesClusterStackOutputs. The stack input is validated as a whole before anything is registered; broken rules
// are a *validation.Error.
func Resources(ctx *pulumi.Context, stackInput *civokubernetesclusterv1.CivoKubernetesClusterStackInput) error {
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

	created, err := resources(ctx, locals, civoProvider)
	if err != nil {
		return err
	}

	for name, value := range outputs(locals, created) {
		ctx.Export(name, value)
	}
	return nil
}

// created are the resources that were made.
type created struct {
	cluster   *civo.KubernetesCluster
	nodePools []*civo.KubernetesNodePool
}

// resources creates the firewall, the cluster and the additional pools. Each waits for the one before it, because it takes
// that one's id.
func resources(
	ctx *pulumi.Context, locals *Locals, civoProvider *civo.Provider, opts ...pulumi.ResourceOption,
) (*created, error) {
	if locals.FirewallId == nil {
		createdFirewall, err := firewall(ctx, locals, civoProvider, opts...)
		if err != nil {
			return nil, errors.Wrap(err, "create civo firewall")
		}
		locals.FirewallId = createdFirewall.ID().ToStringOutput()
	}

	createdCluster, err := cluster(ctx, locals, civoProvider, opts...)
	if err != nil {
		return nil, errors.Wrap(err, "create civo kubernetes cluster")
	}

	createdNodePools, err := nodePools(ctx, locals, createdCluster, civoProvider, opts...)
	if err != nil {
		return nil, err
	}
	return &created{cluster: createdCluster, nodePools: createdNodePools}, nil
}
