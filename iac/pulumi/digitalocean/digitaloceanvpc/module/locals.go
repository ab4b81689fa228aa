package module

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
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
