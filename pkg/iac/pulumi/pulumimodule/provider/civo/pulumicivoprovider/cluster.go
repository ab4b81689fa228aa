package pulumicivoprovider

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"
	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/plugin"
)

// FindCluster returns the id of the Kubernetes cluster of exactly that name in the region, whatever its case; empty when
// there is none. The lookup of the official plugin is content with a cluster whose name has the wanted one in it (civogo,
// FindKubernetesCluster); such a cluster is none here.
func FindCluster(ctx *pulumi.Context, provider *civoprovider.Provider, name, region string) (id string, err error) {
	// civo.LookupKubernetesCluster does not take an answer that holds a secret, and the kubeconfig in this one is.
	var found civoprovider.LookupKubernetesClusterResult
	_, err = ctx.InvokePackageRaw("civo:index/getKubernetesCluster:getKubernetesCluster", &civoprovider.LookupKubernetesClusterArgs{
		Name:   pulumi.StringRef(name),
		Region: pulumi.StringRef(region),
	}, &found, "", pulumi.Provider(provider))
	if err != nil {
		// Of several names that have the wanted one in them, none is the wanted one itself: that one would have been taken.
		for _, none := range []string{"zero matches", "multiple matches"} {
			if strings.Contains(err.Error(), none) {
				return "", nil
			}
		}
		return "", err
	}
	if found.Name != nil && !strings.EqualFold(*found.Name, name) {
		return "", nil
	}
	if found.Id == nil {
		return "", nil
	}
	return *found.Id, nil
}

// GuardCluster returns the option that keeps the official plugin (2.4.8) from creating a cluster a second time. It takes
// every read that fails for a cluster that is gone (terraform-provider-civo, resourceKubernetesClusterRead): a refresh
// during an outage drops the cluster from the state, and the next up would create another one. The name of the resource
// must be unique in the program.
func GuardCluster(
	ctx *pulumi.Context, resourceName string, provider *civoprovider.Provider, clusterName, region string,
) (pulumi.ResourceOption, error) {
	hook, err := plugin.RefuseSecond(ctx, resourceName+"-guard", Package, provider,
		func() (string, error) {
			id, err := FindCluster(ctx, provider, clusterName, region)
			if err != nil {
				return "", errors.Wrapf(err, "look for a civo kubernetes cluster named %q in region %s", clusterName, region)
			}
			if id == "" {
				return "", nil
			}
			return fmt.Sprintf("a civo kubernetes cluster named %q with the id %s", clusterName, id), nil
		},
		"The official Civo plugin takes a read that fails, as in an outage, for a cluster that is gone, and a refresh then drops it. "+
			"To go on with that cluster: `pulumi import civo:index/kubernetesCluster:KubernetesCluster "+resourceName+" <id>`, then "+
			"each of its node pools: `pulumi import civo:index/kubernetesNodePool:KubernetesNodePool <resource> <id>:<pool>`. "+
			"Or give the new cluster another name. The native plugin does not forget clusters")
	if err != nil {
		return nil, err
	}
	return pulumi.ResourceHooks(&pulumi.ResourceHookBinding{BeforeCreate: []*pulumi.ResourceHook{hook}}), nil
}
