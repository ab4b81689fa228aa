// Command nodepools-server serves the NodePools API and does its work; see package internal/nodepoolsserver.
package main

import (
	"os"

	"github.com/plantonhq/project-planton/internal/nodepoolsserver"
)

func main() { os.Exit(nodepoolsserver.Main()) }
