package module

import (
	"regexp"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Locals are the values that the resources are made from.
type Locals struct {
	// DigitalOceanVpc is the manifest.
	DigitalOceanVpc *digitaloceanvpcv1.DigitalOceanVpc
	// ResourcePrefix stands before the names of resources; empty but in components.
	ResourcePrefix string
}

func initializeLocals(_ *pulumi.Context, stackInput *digitaloceanvpcv1.DigitalOceanVpcStackInput) *Locals {
	return &Locals{DigitalOceanVpc: stackInput.Target}
}

// vpcName is what DigitalOcean takes as the name of a VPC.
// https://docs.digitalocean.com/reference/api/digitalocean/#tag/VPCs/operation/vpcs_create
var vpcName = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// validate checks the stack input against its rules, and against one that the proto cannot say: the name of a manifest may
// be freer than that of a VPC, and here it is both.
func validate(stackInput *digitaloceanvpcv1.DigitalOceanVpcStackInput) error {
	if err := validation.Validate(stackInput); err != nil {
		return err
	}
	if name := stackInput.Target.Metadata.Name; !vpcName.MatchString(name) {
		return errors.Errorf("metadata.name: %q is also the name of the VPC, for which DigitalOcean takes letters, digits, "+
			"'.' and '-' only", name)
	}
	return nil
}
