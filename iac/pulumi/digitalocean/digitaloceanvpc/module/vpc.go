package module

import (
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/digitalocean/pulumidigitaloceanprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/unsupported"
)

// deleteTimeout is how long a VPC may take to go. A deleted cluster leaves its VPC only minutes later, and until then
// DigitalOcean answers that the VPC has members. The plugin asks again, but by itself gives up after two minutes.
const deleteTimeout = "15m"

// vpc creates the private network.
func vpc(
	ctx *pulumi.Context, locals *Locals, digitalOceanProvider *digitalocean.Provider, opts ...pulumi.ResourceOption,
) (*digitalocean.Vpc, error) {
	spec := locals.DigitalOceanVpc.Spec
	if spec.IsDefaultForRegion {
		if err := unsupported.Warn(ctx, "spec.is_default_for_region",
			"DigitalOcean chooses the default VPC of a region itself"); err != nil {
			return nil, err
		}
	}

	args := &digitalocean.VpcArgs{
		Name:   pulumi.String(locals.DigitalOceanVpc.Metadata.Name),
		Region: pulumi.String(spec.Region.String()),
	}
	if spec.Description != "" {
		args.Description = pulumi.String(spec.Description)
	}
	// Without a range, DigitalOcean chooses one.
	if spec.IpRangeCidr != "" {
		args.IpRange = pulumi.String(spec.IpRangeCidr)
	}

	resourceName := locals.ResourcePrefix + "vpc"
	guard, err := pulumidigitaloceanprovider.GuardVpc(ctx, resourceName, digitalOceanProvider)
	if err != nil {
		return nil, err
	}
	return digitalocean.NewVpc(ctx, resourceName, args, append(opts,
		pulumi.Provider(digitalOceanProvider),
		guard,
		// Names are unique in an account, so the old VPC must be gone before the new one comes.
		pulumi.DeleteBeforeReplace(true),
		pulumi.Timeouts(&pulumi.CustomTimeouts{Delete: deleteTimeout}),
	)...)
}
