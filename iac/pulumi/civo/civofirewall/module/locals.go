package module

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/provider/civo/pulumicivoprovider"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
)

// Locals are the values that the resources are made from.
type Locals struct {
	// CivoFirewall is the manifest.
	CivoFirewall *civofirewallv1.CivoFirewall
	// Region is the code that Civo's API knows the region by, such as "FRA1".
	Region string
	// NetworkId is the id of the network that the firewall belongs to.
	NetworkId pulumi.StringInput
	// ResourcePrefix stands before the names of resources; empty but in components.
	ResourcePrefix string
}

func initializeLocals(
	ctx *pulumi.Context, stackInput *civofirewallv1.CivoFirewallStackInput, opts ...reference.Option,
) (*Locals, error) {
	target := stackInput.Target
	region, err := pulumicivoprovider.ResolveRegion(target.Spec.Region, stackInput.ProviderConfig)
	if err != nil {
		return nil, err
	}
	networkID, err := reference.String(ctx, target, "spec.network_id", opts...)
	if err != nil {
		return nil, err
	}
	return &Locals{CivoFirewall: target, Region: region, NetworkId: networkID}, nil
}
