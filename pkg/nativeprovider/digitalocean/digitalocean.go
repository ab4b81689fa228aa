// Package digitalocean is a Pulumi provider for DigitalOcean Kubernetes, written on the cloud's own Go SDK (godo).
//
// Its resources and functions have the tokens, properties and defaults of the official plugin of SDK v4.57.0, so that
// programs do not know the difference and a state can move from one plugin to the other and back:
//
//	digitalocean:index/vpc:Vpc                                   vpc.go
//	digitalocean:index/kubernetesCluster:KubernetesCluster       cluster.go, cluster_operations.go
//	digitalocean:index/kubernetesNodePool:KubernetesNodePool     nodepool.go
//	digitalocean:index/getKubernetesCluster:getKubernetesCluster functions.go
//	digitalocean:index/getKubernetesVersions:getKubernetesVersions
//
// What it does otherwise, and why:
//
//   - A last tag or label that is removed, and surge upgrades that are turned off, are really sent (requests.go).
//   - A lower version never replaces a cluster: it is an error that says the way out (cluster.go). Upgrades and
//     deletions are waited for.
//   - A creation that did not finish keeps its id in the state, and a creation whose answer was lost is looked for
//     before it is repeated (nativeprovider.MakeOnce): no cluster is forgotten, none is made twice.
//   - The count of an autoscaled pool belongs to the autoscaler: it is the first size, and is sent again only when it is
//     changed in the program (pool.go).
//   - Credentials are minted only when those in the state are missing, about to expire or asked for with another expiry
//     (kubeconfig.go).
package digitalocean

import (
	"context"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// Tokens of the resources and functions.
const (
	vpcToken         tokens.Type         = "digitalocean:index/vpc:Vpc"
	clusterToken     tokens.Type         = "digitalocean:index/kubernetesCluster:KubernetesCluster"
	poolToken        tokens.Type         = "digitalocean:index/kubernetesNodePool:KubernetesNodePool"
	getClusterToken  tokens.ModuleMember = "digitalocean:index/getKubernetesCluster:getKubernetesCluster"
	getVersionsToken tokens.ModuleMember = "digitalocean:index/getKubernetesVersions:getKubernetesVersions"
)

// New returns the plugin. The version is a semantic version without "v"; it is what the plugin tells the engine and
// names in its requests.
func New(version string) *nativeprovider.Provider {
	return nativeprovider.New(nativeprovider.Spec{
		Name:        "digitalocean",
		Version:     version,
		Description: "DigitalOcean Kubernetes clusters, node pools and VPCs, on the cloud's own SDK.",
		Config:      configProperties(),
		Configure: func(_ context.Context, m resource.PropertyMap) (any, error) {
			c, err := configOf(m)
			if err != nil {
				return nil, err
			}
			return newClient(c, version, nativeprovider.NewTransport())
		},
		Resources: map[tokens.Type]*nativeprovider.Resource{
			vpcToken:     vpcResource(),
			clusterToken: clusterResource(),
			poolToken:    poolResource(),
		},
		Functions: map[tokens.ModuleMember]*nativeprovider.Function{
			getClusterToken:  getClusterFunction(),
			getVersionsToken: getVersionsFunction(),
		},
	})
}

// clientOf returns the client that Configure made.
func clientOf(op *nativeprovider.Operation) (*client, error) {
	c, ok := op.Client.(*client)
	if !ok {
		return nil, errors.New("the digitalocean plugin is not configured")
	}
	return c, nil
}

// keepsName tells whether a replacement has the name of what it replaces. Names of clusters and VPCs are unique in an
// account, and those of pools in a cluster, so the old one must go first.
func keepsName(old, wanted resource.PropertyMap) bool {
	return nativeprovider.GetString(old, "name") == nativeprovider.GetString(wanted, "name")
}
