package module

import (
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/unsupported"
)

// network creates the private network.
func network(
	ctx *pulumi.Context, locals *Locals, civoProvider *civo.Provider, opts ...pulumi.ResourceOption,
) (*civo.Network, error) {
	spec := locals.CivoVpc.Spec
	if err := warnOfUnsupportedFields(ctx, locals); err != nil {
		return nil, err
	}

	args := &civo.NetworkArgs{
		Label:  pulumi.String(spec.NetworkName),
		Region: pulumi.String(locals.Region),
	}
	// Without a range, Civo chooses one.
	if spec.IpRangeCidr != "" {
		args.CidrV4 = pulumi.String(spec.IpRangeCidr)
	}

	return civo.NewNetwork(ctx, locals.ResourcePrefix+"network", args, append(opts,
		pulumi.Provider(civoProvider),
		// A network keeps its range and its region for life.
		pulumi.ReplaceOnChanges([]string{"cidrV4", "region"}),
		// Labels are unique in a region, so the old network must be gone before the new one comes.
		pulumi.DeleteBeforeReplace(true),
	)...)
}

// warnOfUnsupportedFields names the fields of the spec that Civo has no way to honour.
func warnOfUnsupportedFields(ctx *pulumi.Context, locals *Locals) error {
	spec := locals.CivoVpc.Spec
	if spec.CivoCredentialId != "" {
		if err := unsupported.Warn(ctx, "spec.civo_credential_id",
			"the credentials are those of the stack input's provider_config, or of the environment"); err != nil {
			return err
		}
	}
	if spec.IsDefaultForRegion {
		if err := unsupported.Warn(ctx, "spec.is_default_for_region",
			"Civo chooses the default network of a region itself"); err != nil {
			return err
		}
	}
	if spec.Description != "" {
		if err := unsupported.Warn(ctx, "spec.description", "Civo's networks have no description"); err != nil {
			return err
		}
	}
	return nil
}
