package module

import (
	"fmt"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/autoscale"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
)

// nodePoolNamePrefix stands before a pool's name in the name of its resource, "node_pool-workers". The name of the
// resource is the pool's own and not its place in the list, so that pools can be listed in any order.
const nodePoolNamePrefix = "node_pool-"

// nodePools creates the additional pools, in the order of the spec.
func nodePools(
	ctx *pulumi.Context, locals *Locals, createdCluster *civo.KubernetesCluster, civoProvider *civo.Provider,
	opts ...pulumi.ResourceOption,
) ([]*civo.KubernetesNodePool, error) {
	var pools []*civo.KubernetesNodePool
	for i, pool := range locals.CivoKubernetesCluster.Spec.AdditionalNodePools {
		createdPool, err := nodePool(ctx, locals, pool, createdCluster, civoProvider, opts...)
		if err != nil {
			return nil, errors.Wrapf(err, "create civo kubernetes node pool %q (spec.additional_node_pools[%d])", pool.Name, i)
		}
		pools = append(pools, createdPool)
	}
	return pools, nil
}

// nodePool creates one additional pool.
func nodePool(
	ctx *pulumi.Context, locals *Locals, pool *civokubernetesclusterv1.CivoKubernetesClusterNodePool,
	createdCluster *civo.KubernetesCluster, civoProvider *civo.Provider, opts ...pulumi.ResourceOption,
) (*civo.KubernetesNodePool, error) {
	bounds := autoscale.Of(pool)
	resourceName := locals.ResourcePrefix + nodePoolNamePrefix + pool.Name

	args := &civo.KubernetesNodePoolArgs{
		ClusterId:        createdCluster.ID().ToStringOutput(),
		Label:            pulumi.String(pool.Name),
		Size:             pulumi.String(pool.Size),
		NodeCount:        pulumi.Int(bounds.FirstCount()),
		Labels:           pulumi.ToStringMap(labels.Merge(locals.CivoLabels, pool.Labels)),
		PublicIpNodePool: pulumi.Bool(pool.PublicIp),
	}
	var taints civo.KubernetesNodePoolTaintArray
	for _, taint := range pool.Taints {
		taints = append(taints, civo.KubernetesNodePoolTaintArgs{
			Key:    pulumi.String(taint.Key),
			Value:  pulumi.String(taint.Value),
			Effect: pulumi.String(taint.Effect),
		})
	}
	if len(taints) > 0 {
		args.Taints = taints
	}

	guard, err := pulumicivoprovider.GuardNodePool(ctx, resourceName+"-guard", civoProvider)
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		pulumi.Provider(civoProvider),
		// What Civo cannot change in place replaces the pool. Its label is its id, so the old pool must be gone before the
		// new one comes.
		pulumi.ReplaceOnChanges([]string{"clusterId", "label", "size", "publicIpNodePool"}),
		pulumi.DeleteBeforeReplace(true),
		guard,
	)
	if bounds.AutoScale {
		// From the first up on, the number of nodes is the autoscaler's.
		opts = append(opts, pulumi.IgnoreChanges([]string{"nodeCount"}))
		if err := ctx.Log.Warn(fmt.Sprintf("node pool %q is set up for a cluster autoscaler, but this module installs none: "+
			"until one (1.28 or later) runs in the cluster with --cloud-provider=civo %s, the pool keeps its size of %d",
			pool.Name, bounds.NodesFlag(pool.Name), bounds.FirstCount()), nil); err != nil {
			return nil, err
		}
	}

	return civo.NewKubernetesNodePool(ctx, resourceName, args, opts...)
}
