// Command planton provisions what manifests declare; see package internal/cli.
package main

import (
	"os"

	"github.com/plantonhq/project-planton/internal/cli"
)

func main() {
	os.Exit(cli.Main())
}
