package module

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
)

// Locals are the values that the resources are made from.
type Locals struct {
	// DigitalOceanKubernetesNodePool is the manifest.
	DigitalOceanKubernetesNodePool *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool
	// DigitalOceanLabels are the labels that tell which manifest the nodes belong to.
	DigitalOceanLabels map[string]string
	// ClusterId is the id of the pool's cluster.
	ClusterId pulumi.StringInput
	// ClusterName is the name of the pool's cluster when the manifest gives that in place of the id: findCluster puts the id
	// into ClusterId.
	ClusterName string
	// ResourcePrefix stands before the names of resources; empty but in components.
	ResourcePrefix string
}

func initializeLocals(
	ctx *pulumi.Context, stackInput *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackInput,
	refOpts ...reference.Option,
) (*Locals, error) {
	target := stackInput.Target
	locals := &Locals{
		DigitalOceanKubernetesNodePool: target,
		DigitalOceanLabels:             labels.ForResource(target.Kind, target.Metadata),
	}
	if literal := target.Spec.Cluster.GetValue(); literal != "" && !isClusterID(literal) {
		locals.ClusterName = literal
		return locals, nil
	}
	clusterID, err := reference.String(ctx, target, "spec.cluster", refOpts...)
	if err != nil {
		return nil, err
	}
	locals.ClusterId = clusterID
	return locals, nil
}
