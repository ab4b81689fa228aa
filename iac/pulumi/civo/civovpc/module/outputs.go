package module

import (
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// The names of the stack outputs, which are the fields of CivoVpcStackOutputs.
const (
	OpNetworkId        = "network_id"
	OpCidrBlock        = "cidr_block"
	OpCreatedAtRfc3339 = "created_at_rfc3339"
	OpNetworkName      = "network_name"
	OpRegion           = "region"
)

func outputs(locals *Locals, createdNetwork *civo.Network) pulumi.Map {
	return pulumi.Map{
		OpNetworkId: createdNetwork.ID().ToStringOutput(),
		OpCidrBlock: createdNetwork.CidrV4,
		// Civo's API does not tell when a network was created.
		OpCreatedAtRfc3339: pulumi.String(""),
		OpNetworkName:      createdNetwork.Label,
		OpRegion:           pulumi.String(locals.Region),
	}
}
