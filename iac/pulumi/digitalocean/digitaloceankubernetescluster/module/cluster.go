package module

import (
	"strings"

	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/autoscale"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
)

// defaultNodePoolName is the name of the default node pool when the manifest gives none.
const defaultNodePoolName = "default"

// cluster creates the cluster with its default node pool.
func cluster(
	ctx *pulumi.Context, locals *Locals, digitalOceanProvider *digitalocean.Provider, opts ...pulumi.ResourceOption,
) (*digitalocean.KubernetesCluster, error) {
	spec := locals.DigitalOceanKubernetesCluster.Spec

	args := &digitalocean.KubernetesClusterArgs{
		Name:                            pulumi.String(spec.ClusterName),
		Region:                          pulumi.String(spec.Region.String()),
		Version:                         pulumi.String(locals.Version.version),
		VpcUuid:                         locals.VpcId,
		Ha:                              pulumi.Bool(spec.HighlyAvailable),
		AutoUpgrade:                     pulumi.Bool(spec.AutoUpgrade),
		SurgeUpgrade:                    pulumi.Bool(!spec.DisableSurgeUpgrade),
		ControlPlaneFirewall:            controlPlaneFirewall(locals),
		ClusterAutoscalerConfigurations: autoscalerConfigurations(locals),
		RegistryIntegration:             pulumi.Bool(spec.RegistryIntegration),
		DestroyAllAssociatedResources:   pulumi.Bool(spec.DestroyAllAssociatedResources),
		Tags:                            pulumi.ToStringArray(spec.Tags),
		NodePool:                        defaultNodePool(locals),
	}
	if spec.ClusterSubnet != "" {
		args.ClusterSubnet = pulumi.String(spec.ClusterSubnet)
	}
	if spec.ServiceSubnet != "" {
		args.ServiceSubnet = pulumi.String(spec.ServiceSubnet)
	}
	if day, startTime, ok := strings.Cut(spec.MaintenanceWindow, "="); ok {
		args.MaintenancePolicy = &digitalocean.KubernetesClusterMaintenancePolicyArgs{
			Day:       pulumi.String(day),
			StartTime: pulumi.String(startTime),
		}
	}
	if spec.KubeconfigExpireSeconds > 0 {
		args.KubeconfigExpireSeconds = pulumi.Int(int(spec.KubeconfigExpireSeconds))
	}

	resourceName := locals.ResourcePrefix + "cluster"
	guard, err := pulumidigitaloceanprovider.GuardCluster(ctx, resourceName, digitalOceanProvider, spec.ClusterName,
		func() (string, error) {
			live, err := lookUpCluster(ctx, spec.ClusterName, digitalOceanProvider)
			if err != nil || live == nil {
				return "", err
			}
			return live.Id, nil
		})
	if err != nil {
		return nil, err
	}
	return digitalocean.NewKubernetesCluster(ctx, resourceName, args, append(opts,
		pulumi.Provider(digitalOceanProvider),
		guard,
		// Names are unique in an account, so the old cluster must be gone before the new one comes.
		pulumi.DeleteBeforeReplace(true),
		pulumi.IgnoreChanges(ignoredChanges(locals)),
	)...)
}

// defaultNodePool is the pool that the cluster is created with.
func defaultNodePool(locals *Locals) *digitalocean.KubernetesClusterNodePoolArgs {
	pool := locals.DigitalOceanKubernetesCluster.Spec.DefaultNodePool

	args := &digitalocean.KubernetesClusterNodePoolArgs{
		Name:      pulumi.String(defaultNodePoolName),
		Size:      pulumi.String(pool.Size),
		NodeCount: pulumi.Int(autoscale.Of(pool).FirstCount()),
		AutoScale: pulumi.Bool(pool.AutoScale),
		Labels:    pulumi.ToStringMap(labels.Merge(locals.DigitalOceanLabels, pool.Labels)),
		Tags:      pulumi.ToStringArray(pool.Tags),
	}
	if pool.Name != "" {
		args.Name = pulumi.String(pool.Name)
	}
	if pool.AutoScale {
		args.MinNodes = pulumi.Int(int(pool.MinNodes))
		args.MaxNodes = pulumi.Int(int(pool.MaxNodes))
	}
	var taints digitalocean.KubernetesClusterNodePoolTaintArray
	for _, taint := range pool.Taints {
		taints = append(taints, &digitalocean.KubernetesClusterNodePoolTaintArgs{
			Key:    pulumi.String(taint.Key),
			Value:  pulumi.String(taint.Value),
			Effect: pulumi.String(taint.Effect),
		})
	}
	if len(taints) > 0 {
		args.Taints = taints
	}
	return args
}

// controlPlaneFirewall says who may reach the control plane. Left out, the plugin leaves the firewall as it is; so one that
// stands is turned off explicitly once the manifest names no addresses any more.
func controlPlaneFirewall(locals *Locals) digitalocean.KubernetesClusterControlPlaneFirewallPtrInput {
	allowed := locals.DigitalOceanKubernetesCluster.Spec.ControlPlaneFirewallAllowedIps
	if len(allowed) == 0 && !locals.Live.hasFirewall() {
		return nil
	}
	return &digitalocean.KubernetesClusterControlPlaneFirewallArgs{
		Enabled:          pulumi.Bool(len(allowed) > 0),
		AllowedAddresses: pulumi.ToStringArray(allowed),
	}
}

// autoscalerConfigurations says how the cluster's autoscaler decides. The plugin takes one or none.
func autoscalerConfigurations(locals *Locals) digitalocean.KubernetesClusterClusterAutoscalerConfigurationArrayInput {
	autoscaler := locals.DigitalOceanKubernetesCluster.Spec.AutoscalerConfiguration
	if autoscaler == nil {
		return nil
	}
	args := digitalocean.KubernetesClusterClusterAutoscalerConfigurationArgs{}
	if autoscaler.ScaleDownUtilizationThreshold > 0 {
		args.ScaleDownUtilizationThreshold = pulumi.Float64(autoscaler.ScaleDownUtilizationThreshold)
	}
	if autoscaler.ScaleDownUnneededTime != "" {
		args.ScaleDownUnneededTime = pulumi.String(autoscaler.ScaleDownUnneededTime)
	}
	if len(autoscaler.Expanders) > 0 {
		args.Expanders = pulumi.ToStringArray(autoscaler.Expanders)
	}
	return digitalocean.KubernetesClusterClusterAutoscalerConfigurationArray{args}
}

// ignoredChanges are the properties that the engine keeps as the last up left them, or as the last refresh found them.
func ignoredChanges(locals *Locals) []string {
	var ignored []string
	if locals.Version.unchanged {
		// The cluster runs the planned version. The state may not know, when DigitalOcean or a colleague upgraded it, and
		// that difference must not become an upgrade to where the cluster is already, which DigitalOcean refuses.
		ignored = append(ignored, "version")
	}
	if locals.DigitalOceanKubernetesCluster.Spec.DefaultNodePool.AutoScale {
		// The count is the first size; from then on it is the autoscaler's. The official plugin sends the count of the state
		// along with every other change of a pool, so the state has to be fresh then: the program's Pulumi.yaml refreshes
		// before each operation. The native plugin leaves an unchanged count out.
		ignored = append(ignored, "nodePool.nodeCount")
	}
	return ignored
}
