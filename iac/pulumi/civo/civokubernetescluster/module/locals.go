package module

import (
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
)

// defaultNodePoolName is the name of the default pool when the manifest gives none.
const defaultNodePoolName = "default"

// Locals are the values that the resources are made from.
type Locals struct {
	// CivoKubernetesCluster is the manifest.
	CivoKubernetesCluster *civokubernetesclusterv1.CivoKubernetesCluster
	// CivoLabels are the labels of nodes that tell the manifest. The default pool has none: Civo ignores labels on it.
	CivoLabels map[string]string
	// Region is the code that Civo's API knows the region by, such as "FRA1".
	Region string
	// KubernetesVersion is the version as Civo's API writes it, such as "1.29.0-k3s1".
	KubernetesVersion string
	// Tags are the tags, sorted and separated by spaces, as Civo's API takes them.
	Tags string
	// DefaultNodePoolName is the name of the default pool, which is its id.
	DefaultNodePoolName string
	// NetworkId is the id of the cluster's network.
	NetworkId pulumi.StringInput
	// FirewallId is the id of the firewall in front of the cluster; nil until one is made when the manifest names none.
	FirewallId pulumi.StringInput
	// ResourcePrefix stands before the names of resources; empty but in components.
	ResourcePrefix string
}

func initializeLocals(
	ctx *pulumi.Context, stackInput *civokubernetesclusterv1.CivoKubernetesClusterStackInput, opts ...reference.Option,
) (*Locals, error) {
	target := stackInput.Target
	region, err := pulumicivoprovider.ResolveRegion(target.Spec.Region, stackInput.ProviderConfig)
	if err != nil {
		return nil, err
	}
	locals := &Locals{
		CivoKubernetesCluster: target,
		CivoLabels:            labels.ForResource(target.Kind, target.Metadata),
		Region:                region,
		KubernetesVersion:     kubernetesVersion(target.Spec.KubernetesVersion),
		// Civo keeps tags as a set; sorted ones give no difference when the manifest lists them in another order.
		Tags:                strings.Join(slices.Sorted(slices.Values(target.Spec.Tags)), " "),
		DefaultNodePoolName: target.Spec.DefaultNodePool.Name,
	}
	if locals.DefaultNodePoolName == "" {
		locals.DefaultNodePoolName = defaultNodePoolName
	}
	locals.NetworkId, err = reference.String(ctx, target, "spec.network", opts...)
	if err != nil {
		return nil, err
	}
	if target.Spec.Firewall != nil {
		locals.FirewallId, err = reference.String(ctx, target, "spec.firewall", opts...)
		if err != nil {
			return nil, err
		}
	}
	return locals, nil
}

// kubernetesVersion returns a version as Civo's API answers it, so that what is asked for and what is there compare equal:
// k3s releases are named 1.29.0+k3s1 and v1.29.0+k3s1, Civo says 1.29.0-k3s1. Talos versions stay as they are.
func kubernetesVersion(version string) string {
	if strings.HasPrefix(version, "talos-") {
		return version
	}
	return strings.Replace(strings.TrimPrefix(version, "v"), "+", "-", 1)
}
