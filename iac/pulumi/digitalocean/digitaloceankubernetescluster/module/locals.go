package module

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
)

// Locals are the values that the resources are made from.
type Locals struct {
	// DigitalOceanKubernetesCluster is the manifest.
	DigitalOceanKubernetesCluster *digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster
	// DigitalOceanLabels are the labels that tell which manifest the nodes belong to.
	DigitalOceanLabels map[string]string
	// VpcId is the id of the cluster's VPC; nil for the default one of the region.
	VpcId pulumi.StringPtrInput
	// Live is the cluster as it stands at DigitalOcean; nil when there is none yet. Known from planVersion on.
	Live *liveCluster
	// Version is what to do about the cluster's version. Known from planVersion on.
	Version versionDecision
	// ResourcePrefix stands before the names of resources; empty but in components.
	ResourcePrefix string
}

func initializeLocals(
	ctx *pulumi.Context, stackInput *digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackInput,
	refOpts ...reference.Option,
) (*Locals, error) {
	target := stackInput.Target
	locals := &Locals{
		DigitalOceanKubernetesCluster: target,
		DigitalOceanLabels:            labels.ForResource(target.Kind, target.Metadata),
	}
	if target.Spec.Vpc != nil {
		vpcID, err := reference.String(ctx, target, "spec.vpc", refOpts...)
		if err != nil {
			return nil, err
		}
		locals.VpcId = vpcID.ToStringPtrOutput()
	}
	return locals, nil
}
