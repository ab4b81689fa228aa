package module

import (
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
)

// Locals are the values that the resources are made from.
type Locals struct {
	// CivoVpc is the manifest.
	CivoVpc *civovpcv1.CivoVpc
	// Region is the code that Civo's API knows the region by, such as "FRA1".
	Region string
	// ResourcePrefix stands before the names of resources; empty but in components.
	ResourcePrefix string
}

func initializeLocals(_ *pulumi.Context, stackInput *civovpcv1.CivoVpcStackInput) *Locals {
	return &Locals{
		CivoVpc: stackInput.Target,
		Region:  strings.ToUpper(stackInput.Target.Spec.Region),
	}
}
