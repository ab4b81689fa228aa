// Package pulumicivoprovider makes the Pulumi provider of Civo from the provider config of a stack input.
package pulumicivoprovider

import (
	"strings"

	"github.com/pkg/errors"
	civoprovider "github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
)

// Package is the name of the Pulumi package.
const Package = "civo"

// Option changes how Get makes the provider.
type Option func(*options)

type options struct {
	name     string
	region   string
	resource []pulumi.ResourceOption
}

// Region sets the code of the region that the provider works in, such as "FRA1"; case does not matter. Without it the
// config's default region counts. It must be the region of the resources: the official plugin keeps one client with one
// region for all of them.
func Region(code string) Option { return func(o *options) { o.region = code } }

// Name sets the logical name of the provider in the stack; "civo" without it.
func Name(name string) Option { return func(o *options) { o.name = name } }

// ResourceOptions adds options of the provider resource, such as pulumi.Parent.
func ResourceOptions(opts ...pulumi.ResourceOption) Option {
	return func(o *options) { o.resource = append(o.resource, opts...) }
}

// Get returns the provider of Civo that the config describes. What the config lacks, or all of it when nil, the plugin
// takes from its environment (CIVO_TOKEN, CIVO_API_URL). The token is a secret in the state, although the schema of the
// official plugin does not say so.
func Get(ctx *pulumi.Context, config *civo.CivoProviderConfig, opts ...Option) (*civoprovider.Provider, error) {
	o := options{name: Package, region: RegionCode(config.GetDefaultRegion())}
	for _, opt := range opts {
		opt(&o)
	}
	args := &civoprovider.ProviderArgs{}
	if token := config.GetApiToken(); token != "" {
		args.Token = pulumi.ToSecret(pulumi.StringPtr(token)).(pulumi.StringPtrOutput)
	}
	if endpoint := config.GetApiEndpoint(); endpoint != "" {
		args.ApiEndpoint = pulumi.StringPtr(endpoint)
	}
	if o.region != "" {
		args.Region = pulumi.StringPtr(strings.ToUpper(o.region))
	}
	resourceOptions := append([]pulumi.ResourceOption{pulumi.AdditionalSecretOutputs([]string{"token"})}, o.resource...)
	provider, err := civoprovider.NewProvider(ctx, o.name, args, resourceOptions...)
	if err != nil {
		return nil, errors.Wrap(err, "create civo provider")
	}
	return provider, nil
}

// RegionCode returns the code by which Civo's API knows the region, such as "FRA1"; empty for the unspecified region.
func RegionCode(region civo.CivoRegion) string {
	if region == civo.CivoRegion_civo_region_unspecified {
		return ""
	}
	return strings.ToUpper(region.String())
}

// ResolveRegion returns the code of the region a resource stands in: that of the spec, else the default region of the
// config, else an error that names both places.
func ResolveRegion(region civo.CivoRegion, config *civo.CivoProviderConfig) (string, error) {
	if code := RegionCode(region); code != "" {
		return code, nil
	}
	if code := RegionCode(config.GetDefaultRegion()); code != "" {
		return code, nil
	}
	return "", errors.New("no region: set spec.region, or provider_config.default_region")
}
