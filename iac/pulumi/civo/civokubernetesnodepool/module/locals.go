package module

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/autoscale"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
)

// Locals are the values that the resources are made from.
type Locals struct {
	// CivoKubernetesNodePool is the manifest.
	CivoKubernetesNodePool *civokubernetesnodepoolv1.CivoKubernetesNodePool
	// CivoLabels are the labels of the nodes: those that tell the manifest, and over them the user's.
	CivoLabels map[string]string
	// Bounds are the sizes that the pool may have.
	Bounds autoscale.Bounds
	// Region is the code that Civo's API knows the region by, such as "FRA1".
	Region string
	// Cluster is the id of the cluster, or its name when the manifest gives a name.
	Cluster pulumi.StringInput
	// ClusterName is the name of the cluster when the manifest gives a name; the id is then looked up.
	ClusterName string
	// ResourcePrefix stands before the names of resources; empty but in components.
	ResourcePrefix string
}

func initializeLocals(
	ctx *pulumi.Context, stackInput *civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput, opts ...reference.Option,
) (*Locals, error) {
	target := stackInput.Target
	region, err := pulumicivoprovider.ResolveRegion(target.Spec.Region, stackInput.ProviderConfig)
	if err != nil {
		return nil, err
	}
	cluster, err := reference.String(ctx, target, "spec.cluster", opts...)
	if err != nil {
		return nil, err
	}
	locals := &Locals{
		CivoKubernetesNodePool: target,
		CivoLabels:             labels.Merge(labels.ForResource(target.Kind, target.Metadata), target.Spec.Labels),
		Bounds:                 autoscale.Of(target.Spec),
		Region:                 region,
		Cluster:                cluster,
	}
	if literal := target.Spec.Cluster.GetValue(); literal != "" && !isID(literal) {
		locals.ClusterName = literal
	}
	return locals, nil
}
