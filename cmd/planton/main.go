// Command planton provisions what manifests declare; see package internal/cli.
package main

import (
	"os"

	"github.com/plantonhq/project-planton/internal/cli"
	_ "github.com/plantonhq/project-planton/internal/heap" // commands that are short collect nothing
)

func main() {
	os.Exit(cli.Main())
}
