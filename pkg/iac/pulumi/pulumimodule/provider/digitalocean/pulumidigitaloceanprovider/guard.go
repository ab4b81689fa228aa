package pulumidigitaloceanprovider

import (
	"fmt"

	digitaloceanprovider "github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/plugin"
)

// wayOut is what a user can do when the official plugin leaves a change out.
const wayOut = "the official DigitalOcean plugin leaves it out of its request and reports success, and every later run plans it " +
	"again. Make the change in DigitalOcean's control panel or with doctl, or use the native plugin: " +
	"`planton ... --plugins native`, or, for plain pulumi, have it on PATH: " +
	"`go install github.com/plantonhq/project-planton/cmd/pulumi-resource-digitalocean@latest`"

// GuardCluster returns the option that guards a cluster from what the official plugin (4.57.0) does wrong: it warns of
// changes that the plugin does not send (godo leaves empty lists and false out of KubernetesClusterUpdateRequest), and
// refuses to create a cluster that exists already, because the plugin forgets one whose creation ends half-way.
//
// present tells the id of the cluster of that name, empty when there is none. The name of the resource must be unique in
// the program.
func GuardCluster(
	ctx *pulumi.Context, resourceName string, provider *digitaloceanprovider.Provider, clusterName string,
	present func() (id string, err error),
) (pulumi.ResourceOption, error) {
	second, err := plugin.RefuseSecond(ctx, resourceName+"-guard", Package, provider,
		func() (string, error) {
			id, err := present()
			if err != nil || id == "" {
				return "", err
			}
			return fmt.Sprintf("a digitalocean kubernetes cluster named %q with the id %s", clusterName, id), nil
		},
		"The official DigitalOcean plugin forgets a cluster whose creation ends half-way. To go on with that cluster: "+
			"`pulumi import digitalocean:index/kubernetesCluster:KubernetesCluster "+resourceName+" <id>`. "+
			"If it was deleted just now, apply again once it is gone; or give the new cluster another name. "+
			"The native plugin keeps such a cluster in the state")
	if err != nil {
		return nil, err
	}
	left, err := plugin.WarnOfUpdate(ctx, resourceName+"-left-out", Package, provider, ClusterUpdatesLeftOut)
	if err != nil {
		return nil, err
	}
	return pulumi.ResourceHooks(&pulumi.ResourceHookBinding{
		BeforeCreate: []*pulumi.ResourceHook{second}, BeforeUpdate: []*pulumi.ResourceHook{left},
	}), nil
}

// GuardNodePool returns the option that warns of changes of a node pool that the official plugin does not send. The name
// of the resource must be unique in the program.
func GuardNodePool(
	ctx *pulumi.Context, resourceName string, provider *digitaloceanprovider.Provider,
) (pulumi.ResourceOption, error) {
	return warn(ctx, resourceName, provider, NodePoolUpdatesLeftOut)
}

// GuardVpc returns the option that warns of changes of a VPC that the official plugin does not send. The name of the
// resource must be unique in the program.
func GuardVpc(
	ctx *pulumi.Context, resourceName string, provider *digitaloceanprovider.Provider,
) (pulumi.ResourceOption, error) {
	return warn(ctx, resourceName, provider, VpcUpdatesLeftOut)
}

func warn(
	ctx *pulumi.Context, resourceName string, provider *digitaloceanprovider.Provider, warning plugin.Warning,
) (pulumi.ResourceOption, error) {
	left, err := plugin.WarnOfUpdate(ctx, resourceName+"-left-out", Package, provider, warning)
	if err != nil {
		return nil, err
	}
	return pulumi.ResourceHooks(&pulumi.ResourceHookBinding{BeforeUpdate: []*pulumi.ResourceHook{left}}), nil
}

// ClusterUpdatesLeftOut is the plugin.Warning of GuardCluster.
func ClusterUpdatesLeftOut(old, newInputs resource.PropertyMap) []string {
	var texts []string
	if plugin.Filled(old["tags"]) && plugin.Emptied(newInputs["tags"]) {
		texts = append(texts, "spec.tags: the removal of the cluster's last tag is not applied: "+wayOut)
	}
	was, is := plugin.Known(old["surgeUpgrade"]), plugin.Known(newInputs["surgeUpgrade"])
	if was.IsBool() && was.BoolValue() && is.IsBool() && !is.BoolValue() {
		texts = append(texts, "spec.disable_surge_upgrade: surge upgrades are not turned off: "+wayOut)
	}
	oldPool, newPool := plugin.Known(old["nodePool"]), plugin.Known(newInputs["nodePool"])
	if oldPool.IsObject() && newPool.IsObject() && plugin.Filled(oldPool.ObjectValue()["labels"]) && plugin.Emptied(newPool.ObjectValue()["labels"]) {
		texts = append(texts, "spec.default_node_pool.labels: the removal of the pool's last label is not applied: "+wayOut)
	}
	return texts
}

// NodePoolUpdatesLeftOut is the plugin.Warning of GuardNodePool.
func NodePoolUpdatesLeftOut(old, newInputs resource.PropertyMap) []string {
	var texts []string
	if plugin.Filled(old["tags"]) && plugin.Emptied(newInputs["tags"]) {
		texts = append(texts, "spec.tags: the removal of the node pool's last tag is not applied: "+wayOut)
	}
	if plugin.Filled(old["labels"]) && plugin.Emptied(newInputs["labels"]) {
		texts = append(texts, "spec.labels: the removal of the node pool's last label is not applied: "+wayOut)
	}
	return texts
}

// VpcUpdatesLeftOut is the plugin.Warning of GuardVpc.
func VpcUpdatesLeftOut(old, newInputs resource.PropertyMap) []string {
	if plugin.Filled(old["description"]) && plugin.Emptied(newInputs["description"]) {
		return []string{"spec.description: the removal of the description is not applied: " + wayOut}
	}
	return nil
}
