package module

import (
	"strings"

	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/unsupported"
)

// cluster creates the cluster with its default pool.
func cluster(
	ctx *pulumi.Context, locals *Locals, civoProvider *civo.Provider, opts ...pulumi.ResourceOption,
) (*civo.KubernetesCluster, error) {
	spec := locals.CivoKubernetesCluster.Spec
	if err := warnOfUnsupportedFields(ctx, locals); err != nil {
		return nil, err
	}

	args := &civo.KubernetesClusterArgs{
		Name:              pulumi.String(spec.ClusterName),
		Region:            pulumi.String(locals.Region),
		KubernetesVersion: pulumi.String(locals.KubernetesVersion),
		NetworkId:         locals.NetworkId.ToStringOutput(),
		FirewallId:        locals.FirewallId,
		// No labels, taints or public address here: Civo ignores them on the default pool, and the official plugin would
		// plan a change on every run because it never reads them back.
		Pools: civo.KubernetesClusterPoolsArgs{
			Label:     pulumi.String(locals.DefaultNodePoolName),
			Size:      pulumi.String(spec.DefaultNodePool.Size),
			NodeCount: pulumi.Int(int(spec.DefaultNodePool.NodeCount)),
		},
		// Without it the plugin hands out no kubeconfig.
		WriteKubeconfig: pulumi.Bool(true),
	}
	if locals.Tags != "" {
		args.Tags = pulumi.String(locals.Tags)
	}
	if spec.Cni != civokubernetesclusterv1.CivoKubernetesClusterCni_cni_unspecified {
		args.Cni = pulumi.String(spec.Cni.String())
	}
	if spec.ClusterType != civokubernetesclusterv1.CivoKubernetesClusterType_cluster_type_unspecified {
		args.ClusterType = pulumi.String(spec.ClusterType.String())
	}
	if len(spec.Applications) > 0 {
		args.Applications = pulumi.String(strings.Join(spec.Applications, ","))
	}

	resourceName := locals.ResourcePrefix + "cluster"
	guard, err := pulumicivoprovider.GuardCluster(ctx, resourceName, civoProvider, spec.ClusterName, locals.Region)
	if err != nil {
		return nil, err
	}
	return civo.NewKubernetesCluster(ctx, resourceName, args, append(opts,
		pulumi.Provider(civoProvider),
		guard,
		// What Civo cannot change in place replaces the cluster. The official plugin would fail half-way, or read the
		// cluster in another region.
		pulumi.ReplaceOnChanges([]string{"networkId", "region", "pools.size", "pools.label"}),
		// Names are unique, so the old cluster must be gone before the new one comes.
		pulumi.DeleteBeforeReplace(true),
	)...)
}

// warnOfUnsupportedFields names the fields of the spec that Civo has no way to honour.
func warnOfUnsupportedFields(ctx *pulumi.Context, locals *Locals) error {
	spec := locals.CivoKubernetesCluster.Spec
	if spec.HighlyAvailable {
		if err := unsupported.Warn(ctx, "spec.highly_available",
			"Civo offers no highly available control plane to choose"); err != nil {
			return err
		}
	}
	if spec.AutoUpgrade {
		if err := unsupported.Warn(ctx, "spec.auto_upgrade",
			"Civo does not upgrade clusters by itself; change spec.kubernetes_version to upgrade"); err != nil {
			return err
		}
	}
	if spec.DisableSurgeUpgrade {
		if err := unsupported.Warn(ctx, "spec.disable_surge_upgrade", "Civo has no surge upgrades"); err != nil {
			return err
		}
	}
	return nil
}
