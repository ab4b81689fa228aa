// Command civokubernetescluster is the Pulumi program of its kind: see README.md beside it.
package main

import (
	"github.com/plantonhq/project-planton/iac/pulumi/civo/civokubernetescluster/module"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/program"
)

func main() { program.Run(module.Resources) }
