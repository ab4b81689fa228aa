package module

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/unsupported"
)

// nodePool creates the pool. Its region is the provider's: the resource has none of its own.
func nodePool(
	ctx *pulumi.Context, locals *Locals, civoProvider *civo.Provider, opts ...pulumi.ResourceOption,
) (*civo.KubernetesNodePool, error) {
	spec := locals.CivoKubernetesNodePool.Spec
	if len(spec.Tags) > 0 {
		if err := unsupported.Warn(ctx, "spec.tags", "Civo's node pools have no tags; tag the cluster, or label the nodes"); err != nil {
			return nil, err
		}
	}

	clusterID, err := findCluster(ctx, locals, civoProvider)
	if err != nil {
		return nil, err
	}

	args := &civo.KubernetesNodePoolArgs{
		ClusterId:        clusterID.ToStringOutput(),
		Label:            pulumi.String(spec.NodePoolName),
		Size:             pulumi.String(spec.Size),
		NodeCount:        pulumi.Int(locals.Bounds.FirstCount()),
		Labels:           pulumi.ToStringMap(locals.CivoLabels),
		PublicIpNodePool: pulumi.Bool(spec.PublicIp),
	}
	var taints civo.KubernetesNodePoolTaintArray
	for _, taint := range spec.Taints {
		taints = append(taints, civo.KubernetesNodePoolTaintArgs{
			Key:    pulumi.String(taint.Key),
			Value:  pulumi.String(taint.Value),
			Effect: pulumi.String(taint.Effect),
		})
	}
	if len(taints) > 0 {
		args.Taints = taints
	}

	resourceName := locals.ResourcePrefix + "node_pool"
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
	if locals.Bounds.AutoScale {
		// From the first up on, the number of nodes is the autoscaler's.
		opts = append(opts, pulumi.IgnoreChanges([]string{"nodeCount"}))
		if err := ctx.Log.Warn(fmt.Sprintf("node pool %q is set up for a cluster autoscaler, but this module installs none: "+
			"until one (1.28 or later) runs in the cluster with --cloud-provider=civo %s, the pool keeps its size of %d",
			spec.NodePoolName, locals.Bounds.NodesFlag(spec.NodePoolName), locals.Bounds.FirstCount()), nil); err != nil {
			return nil, err
		}
	}

	return civo.NewKubernetesNodePool(ctx, resourceName, args, opts...)
}

// findCluster returns the id of the cluster, which it looks up when the manifest gives a name.
func findCluster(ctx *pulumi.Context, locals *Locals, civoProvider *civo.Provider) (pulumi.StringInput, error) {
	if locals.ClusterName == "" {
		return locals.Cluster, nil
	}
	id, err := pulumicivoprovider.FindCluster(ctx, civoProvider, locals.ClusterName, locals.Region)
	if err != nil {
		return nil, errors.Wrapf(err, "look up the cluster named %q of spec.cluster in region %s", locals.ClusterName, locals.Region)
	}
	if id == "" {
		return nil, errors.Errorf("look up the cluster named %q of spec.cluster in region %s: there is none of exactly that name",
			locals.ClusterName, locals.Region)
	}
	return pulumi.String(id), nil
}

// isID tells the id of a cluster from its name: Civo's ids are UUIDs.
func isID(text string) bool {
	return uuid.Validate(text) == nil
}
