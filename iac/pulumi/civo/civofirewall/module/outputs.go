package module

import (
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// The names of the stack outputs, which are the fields of CivoFirewallStackOutputs.
const (
	OpFirewallId       = "firewall_id"
	OpCreatedAtRfc3339 = "created_at_rfc3339"
	OpFirewallName     = "firewall_name"
	OpNetworkId        = "network_id"
	OpRegion           = "region"
)

func outputs(locals *Locals, createdFirewall *civo.Firewall) pulumi.Map {
	return pulumi.Map{
		OpFirewallId: createdFirewall.ID().ToStringOutput(),
		// Civo's API does not tell when a firewall was created.
		OpCreatedAtRfc3339: pulumi.String(""),
		OpFirewallName:     createdFirewall.Name,
		OpNetworkId:        createdFirewall.NetworkId,
		OpRegion:           pulumi.String(locals.Region),
	}
}
