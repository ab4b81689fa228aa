package module

import (
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/autoscale"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
)

// nodePool creates the node pool.
func nodePool(
	ctx *pulumi.Context, locals *Locals, digitalOceanProvider *digitalocean.Provider, opts ...pulumi.ResourceOption,
) (*digitalocean.KubernetesNodePool, error) {
	spec := locals.DigitalOceanKubernetesNodePool.Spec

	args := &digitalocean.KubernetesNodePoolArgs{
		ClusterId: locals.ClusterId,
		Name:      pulumi.String(spec.NodePoolName),
		Size:      pulumi.String(spec.Size),
		NodeCount: pulumi.Int(autoscale.Of(spec).FirstCount()),
		AutoScale: pulumi.Bool(spec.AutoScale),
		Labels:    pulumi.ToStringMap(labels.Merge(locals.DigitalOceanLabels, spec.Labels)),
		Tags:      pulumi.ToStringArray(spec.Tags),
	}

	var ignoredChanges []string
	if spec.AutoScale {
		args.MinNodes = pulumi.Int(int(spec.MinNodes))
		args.MaxNodes = pulumi.Int(int(spec.MaxNodes))
		// The count is the first size; from then on it is the autoscaler's. The official plugin sends the count of the state
		// along with every other change of a pool, so the state has to be fresh then: the program's Pulumi.yaml refreshes
		// before each operation. The native plugin leaves an unchanged count out.
		ignoredChanges = append(ignoredChanges, "nodeCount")
	}

	var taints digitalocean.KubernetesNodePoolTaintArray
	for _, taint := range spec.Taints {
		taints = append(taints, &digitalocean.KubernetesNodePoolTaintArgs{
			Key:    pulumi.String(taint.Key),
			Value:  pulumi.String(taint.Value),
			Effect: pulumi.String(taint.Effect),
		})
	}
	if len(taints) > 0 {
		args.Taints = taints
	}

	resourceName := locals.ResourcePrefix + "node_pool"
	guard, err := pulumidigitaloceanprovider.GuardNodePool(ctx, resourceName, digitalOceanProvider)
	if err != nil {
		return nil, err
	}
	return digitalocean.NewKubernetesNodePool(ctx, resourceName, args, append(opts,
		pulumi.Provider(digitalOceanProvider),
		guard,
		// Names are unique in a cluster, so the old pool must be gone before the new one comes.
		pulumi.DeleteBeforeReplace(true),
		pulumi.IgnoreChanges(ignoredChanges),
	)...)
}
