// The Pulumi program of the kind DigitalOceanKubernetesCluster.
package main

import (
	"github.com/plantonhq/project-planton/iac/pulumi/digitalocean/digitaloceankubernetescluster/module"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/program"
)

func main() { program.Run(module.Resources) }
