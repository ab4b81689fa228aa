package module

import (
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/autoscale"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
)

// nodePools creates the additional node pools, in the order of the spec.
func nodePools(
	ctx *pulumi.Context, locals *Locals, createdCluster *digitalocean.KubernetesCluster,
	digitalOceanProvider *digitalocean.Provider, opts ...pulumi.ResourceOption,
) ([]*digitalocean.KubernetesNodePool, error) {
	var createdNodePools []*digitalocean.KubernetesNodePool
	for _, pool := range locals.DigitalOceanKubernetesCluster.Spec.AdditionalNodePools {
		createdNodePool, err := nodePool(ctx, locals, pool, createdCluster, digitalOceanProvider, opts...)
		if err != nil {
			return nil, errors.Wrapf(err, "node pool %s", pool.Name)
		}
		createdNodePools = append(createdNodePools, createdNodePool)
	}
	return createdNodePools, nil
}

// nodePool creates one additional node pool. Its resource is named by the pool, so that pools can be added, removed and
// reordered without touching the others.
func nodePool(
	ctx *pulumi.Context, locals *Locals, pool *digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool,
	createdCluster *digitalocean.KubernetesCluster, digitalOceanProvider *digitalocean.Provider, opts ...pulumi.ResourceOption,
) (*digitalocean.KubernetesNodePool, error) {
	args := &digitalocean.KubernetesNodePoolArgs{
		ClusterId: createdCluster.ID(),
		Name:      pulumi.String(pool.Name),
		Size:      pulumi.String(pool.Size),
		NodeCount: pulumi.Int(autoscale.Of(pool).FirstCount()),
		AutoScale: pulumi.Bool(pool.AutoScale),
		Labels:    pulumi.ToStringMap(labels.Merge(locals.DigitalOceanLabels, pool.Labels)),
		Tags:      pulumi.ToStringArray(pool.Tags),
	}
	var ignored []string
	if pool.AutoScale {
		args.MinNodes = pulumi.Int(int(pool.MinNodes))
		args.MaxNodes = pulumi.Int(int(pool.MaxNodes))
		// As for the default pool: see ignoredChanges.
		ignored = append(ignored, "nodeCount")
	}
	var taints digitalocean.KubernetesNodePoolTaintArray
	for _, taint := range pool.Taints {
		taints = append(taints, &digitalocean.KubernetesNodePoolTaintArgs{
			Key:    pulumi.String(taint.Key),
			Value:  pulumi.String(taint.Value),
			Effect: pulumi.String(taint.Effect),
		})
	}
	if len(taints) > 0 {
		args.Taints = taints
	}

	resourceName := locals.ResourcePrefix + "node_pool-" + pool.Name
	guard, err := pulumidigitaloceanprovider.GuardNodePool(ctx, resourceName, digitalOceanProvider)
	if err != nil {
		return nil, err
	}
	return digitalocean.NewKubernetesNodePool(ctx, resourceName, args, append(opts,
		pulumi.Provider(digitalOceanProvider),
		guard,
		// Names are unique in a cluster, so the old pool must be gone before the new one comes.
		pulumi.DeleteBeforeReplace(true),
		// A cluster that goes takes its pools along.
		pulumi.DeletedWith(createdCluster),
		pulumi.IgnoreChanges(ignored),
	)...)
}
