// Package pulumidigitaloceanprovider makes the Pulumi provider of DigitalOcean from the provider config of a stack input.
package pulumidigitaloceanprovider

import (
	"github.com/pkg/errors"
	digitaloceanprovider "github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
)

// Package is the name of the Pulumi package.
const Package = "digitalocean"

// Option changes how Get makes the provider.
type Option func(*options)

type options struct {
	name     string
	resource []pulumi.ResourceOption
}

// Name sets the logical name of the provider in the stack; "digitalocean" without it.
func Name(name string) Option { return func(o *options) { o.name = name } }

// ResourceOptions adds options of the provider resource, such as pulumi.Parent.
func ResourceOptions(opts ...pulumi.ResourceOption) Option {
	return func(o *options) { o.resource = append(o.resource, opts...) }
}

// Get returns the provider of DigitalOcean that the config describes. What the config lacks, or all of it when nil, the
// plugin takes from its environment (DIGITALOCEAN_TOKEN, DIGITALOCEAN_API_URL). The token and the secret key of Spaces are
// secrets in the state, although the schema of the official plugin does not say so.
func Get(
	ctx *pulumi.Context, config *digitalocean.DigitalOceanProviderConfig, opts ...Option,
) (*digitaloceanprovider.Provider, error) {
	o := options{name: Package}
	for _, opt := range opts {
		opt(&o)
	}
	args := &digitaloceanprovider.ProviderArgs{}
	if token := config.GetApiToken(); token != "" {
		args.Token = pulumi.ToSecret(pulumi.StringPtr(token)).(pulumi.StringPtrOutput)
	}
	if endpoint := config.GetApiEndpoint(); endpoint != "" {
		args.ApiEndpoint = pulumi.StringPtr(endpoint)
	}
	if id := config.GetSpacesAccessId(); id != "" {
		args.SpacesAccessId = pulumi.StringPtr(id)
	}
	if key := config.GetSpacesSecretKey(); key != "" {
		args.SpacesSecretKey = pulumi.ToSecret(pulumi.StringPtr(key)).(pulumi.StringPtrOutput)
	}
	secrets := pulumi.AdditionalSecretOutputs([]string{"token", "spacesSecretKey"})
	provider, err := digitaloceanprovider.NewProvider(ctx, o.name, args, append([]pulumi.ResourceOption{secrets}, o.resource...)...)
	if err != nil {
		return nil, errors.Wrap(err, "create digitalocean provider")
	}
	return provider, nil
}
