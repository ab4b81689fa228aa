// Command pulumi-resource-civo is the native Pulumi plugin for Civo. The Pulumi engine starts it; package
// pkg/nativeprovider/civo tells what it does.
package main

import (
	"fmt"
	"os"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
)

func main() {
	if err := nativeprovider.Main(civo.New(civo.SDKVersion)); err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-resource-civo:", err)
		os.Exit(1)
	}
}
