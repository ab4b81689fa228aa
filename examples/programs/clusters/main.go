// Command clusters is a Pulumi program that imports the modules of this library as components: on each cloud it makes a
// network, a cluster in it and two node pools, and passes the outputs of one on to the next. See README.md beside it.
package main

import "github.com/pulumi/pulumi/sdk/v3/go/pulumi"

func main() { pulumi.Run(clusters) }

// clusters is the program.
func clusters(ctx *pulumi.Context) error {
	if err := onCivo(ctx); err != nil {
		return err
	}
	return onDigitalOcean(ctx)
}
