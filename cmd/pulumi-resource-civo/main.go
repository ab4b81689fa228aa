// Command pulumi-resource-civo is the native Pulumi plugin for Civo. The Pulumi engine starts it; package
// pkg/nativeprovider/civo tells what it does.
package main

import (
	"fmt"
	"os"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
)

// version is that of the SDK that the modules are written against. The engine expects it of the plugin, and warns on every run
// of a lower one. A test keeps it in step with go.mod.
const version = "2.4.8"

func main() {
	if err := nativeprovider.Main(civo.New(version)); err != nil {
		fmt.Fprintln(os.Stderr, "pulumi-resource-civo:", err)
		os.Exit(1)
	}
}
