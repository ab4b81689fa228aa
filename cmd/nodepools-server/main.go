// Command nodepools-server serves the NodePools API and does its work; see package internal/nodepoolsserver.
package main

import (
	"os"

	_ "github.com/plantonhq/project-planton/internal/heap" // what requests leave behind is collected less often
	"github.com/plantonhq/project-planton/internal/nodepoolsserver"
)

func main() { os.Exit(nodepoolsserver.Main()) }
