package module

import (
	"github.com/pulumi/pulumi-digitalocean/sdk/v4/go/digitalocean"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/timestamp"
)

// The names of the stack outputs, which are the fields of DigitalOceanVpcStackOutputs.
const (
	OpVpcId            = "vpc_id"
	OpUrn              = "urn"
	OpCreatedAtRfc3339 = "created_at_rfc3339"
	OpIpRangeCidr      = "ip_range_cidr"
	OpRegion           = "region"
	OpVpcName          = "vpc_name"
)

// Outputs are what is known of a provisioned VPC: the fields of DigitalOceanVpcStackOutputs.
type Outputs struct {
	// VpcId is the id (UUID) of the VPC.
	VpcId pulumi.StringOutput
	// Urn is the VPC's uniform resource name at DigitalOcean, such as do:vpc:<id>.
	Urn pulumi.StringOutput
	// CreatedAtRfc3339 is when the VPC was created (RFC 3339).
	CreatedAtRfc3339 pulumi.StringOutput
	// IpRangeCidr is the VPC's IPv4 range in CIDR notation.
	IpRangeCidr pulumi.StringOutput
	// Region is the slug of the region, such as nyc3.
	Region pulumi.StringOutput
	// VpcName is the name of the VPC.
	VpcName pulumi.StringOutput
}

func newOutputs(createdVpc *digitalocean.Vpc) Outputs {
	return Outputs{
		VpcId:            createdVpc.ID().ToStringOutput(),
		Urn:              createdVpc.VpcUrn,
		CreatedAtRfc3339: timestamp.Output(createdVpc.CreatedAt),
		IpRangeCidr:      createdVpc.IpRange,
		Region:           createdVpc.Region,
		VpcName:          createdVpc.Name,
	}
}

func (o Outputs) exports() pulumi.Map {
	return pulumi.Map{
		OpVpcId:            o.VpcId,
		OpUrn:              o.Urn,
		OpCreatedAtRfc3339: o.CreatedAtRfc3339,
		OpIpRangeCidr:      o.IpRangeCidr,
		OpRegion:           o.Region,
		OpVpcName:          o.VpcName,
	}
}
