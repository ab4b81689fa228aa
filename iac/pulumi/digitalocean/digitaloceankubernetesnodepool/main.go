// The Pulumi program of the kind DigitalOceanKubernetesNodePool.
package main

import (
	"github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetesnodepool/module"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/program"
)

func main() { program.Run(module.Resources) }
