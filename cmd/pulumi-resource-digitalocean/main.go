// Command pulumi-resource-digitalocean is the native Pulumi plugin for DigitalOcean Kubernetes. Pulumi starts it; installed
// as $PULUMI_HOME/plugins/resource-digitalocean-v4.57.0/pulumi-resource-digitalocean it takes the place of the official one.
package main

import (
	"fmt"
	"os"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
)

func main() {
	if err := nativeprovider.Main(digitalocean.New(digitalocean.SDKVersion)); err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-resource-digitalocean:", err)
		os.Exit(1)
	}
}
