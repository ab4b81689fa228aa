// Package civo is the native Pulumi provider for Civo: networks, firewalls, Kubernetes clusters and node pools under the type tokens and
// property names of the official plugin (pulumi-civo 2.4.8), so that the SDK does not know the difference and either plugin can go on with
// the other's state.
//
// It is right where the official plugin is not: node pools scale in place, removed labels and taints are removed, only a definite not-found
// means gone, and what Civo cannot change is planned as a replacement or refused in the preview. client.go tells why it does not go through
// civogo's own HTTP client.
//
// What it decides by itself: an object is never taken over because it happens to have the wanted name, and pools are scaled through the
// pool endpoint, so that no update of a cluster touches the count of a pool that an autoscaler has moved.
package civo

import (
	"context"
	"regexp"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// The type tokens of the resources.
const (
	NetworkType  = tokens.Type("civo:index/network:Network")
	FirewallType = tokens.Type("civo:index/firewall:Firewall")
	ClusterType  = tokens.Type("civo:index/kubernetesCluster:KubernetesCluster")
	NodePoolType = tokens.Type("civo:index/kubernetesNodePool:KubernetesNodePool")
)

// The tokens of the functions; nativeprovider.PluginFunction("civo") is one more.
const (
	GetClusterFunction = tokens.ModuleMember("civo:index/getKubernetesCluster:getKubernetesCluster")
	GetNetworkFunction = tokens.ModuleMember("civo:index/getNetwork:getNetwork")
)

// New makes the plugin. version is the plugin's own, semver without "v".
func New(version string) *nativeprovider.Provider {
	return newProvider(version, func(*client) {})
}

// newProvider makes the plugin with a client that adjust may change.
func newProvider(version string, adjust func(*client)) *nativeprovider.Provider {
	return nativeprovider.New(nativeprovider.Spec{
		Name:        "civo",
		Version:     version,
		Description: "Native provider for Civo networks, firewalls, Kubernetes clusters and node pools.",
		Config: []nativeprovider.Property{
			{Name: "token", Secret: true, Description: "The API token. CIVO_TOKEN when absent, then the credentials file."},
			{Name: "apiEndpoint", Description: "Base URL of the API. CIVO_API_URL when absent, then https://api.civo.com."},
			{Name: "region", Description: "Region of resources that name none. CIVO_REGION when absent."},
			{Name: "credentialsFile", Description: "The civo command line's file of tokens. CIVO_CREDENTIAL_FILE when absent, then ~/.civo.json."},
		},
		Configure: func(_ context.Context, config resource.PropertyMap) (any, error) {
			c, err := newClient(version, config)
			if err != nil {
				return nil, err
			}
			adjust(c)
			return c, nil
		},
		Resources: map[tokens.Type]*nativeprovider.Resource{
			NetworkType:  networkResource(),
			FirewallType: firewallResource(),
			ClusterType:  clusterResource(),
			NodePoolType: nodePoolResource(),
		},
		Functions: map[tokens.ModuleMember]*nativeprovider.Function{
			GetClusterFunction: getClusterFunction(),
			GetNetworkFunction: getNetworkFunction(),
		},
	})
}

// clientOf is the client of an operation.
func clientOf(op *nativeprovider.Operation) (*client, error) {
	c, ok := op.Client.(*client)
	if !ok {
		return nil, errors.New("the provider is not configured")
	}
	return c, nil
}

// region is the property that network, firewall and cluster share. Codes are upper case; people write them either way.
func regionProperty() nativeprovider.Property {
	return nativeprovider.Property{
		Name: "region", Computed: true, Replaces: true, Equal: equalFold,
		Description: "Region code, for example LON1. The provider's region when absent.",
	}
}

func equalFold(old, new any) bool {
	a, aOK := old.(string)
	b, bOK := new.(string)
	return aOK && bOK && strings.EqualFold(a, b)
}

// keeps tells whether a name that must be unique stays what it is, so that the new object cannot be made beside the old one.
func keeps(key resource.PropertyKey) func(old, new resource.PropertyMap) bool {
	return func(old, new resource.PropertyMap) bool {
		return !nativeprovider.Has(new, key) || new[key].DeepEquals(old[key])
	}
}

var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// checkUUID catches the common mistake of a name where an id belongs.
func checkUUID(value any) error {
	if id, ok := value.(string); ok && !uuidPattern.MatchString(id) {
		return errors.Errorf("%q is not an id (a UUID); a name does not do", id)
	}
	return nil
}

// checkName refuses what Civo refuses as a name.
func checkName(value any) error {
	name, _ := value.(string)
	switch {
	case name == "":
		return errors.New("must not be empty")
	case len(name) > maxName:
		return errors.Errorf("must be at most %d characters long", maxName)
	case strings.ContainsAny(name, " \t\r\n"):
		return errors.New("must not contain white space")
	}
	return nil
}

const maxName = 63

func oneOf(allowed ...string) func(value any) error {
	return func(value any) error {
		for _, one := range allowed {
			if value == one {
				return nil
			}
		}
		return errors.Errorf("must be one of %s", strings.Join(allowed, ", "))
	}
}

func text(s string) resource.PropertyValue { return resource.NewStringProperty(s) }
