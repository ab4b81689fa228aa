// Command reference writes the reference of planton's commands from the commands themselves: Markdown into docs/reference, which is
// committed, or manual pages into a folder.
//
// usage: reference markdown DIRECTORY | reference man DIRECTORY
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra/doc"

	"github.com/plantonhq/project-planton/internal/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: reference markdown DIRECTORY | reference man DIRECTORY")
	}
	if err := os.MkdirAll(args[1], 0o755); err != nil {
		return errors.Wrap(err, "make the folder")
	}
	root := cli.Command()
	switch args[0] {
	case "markdown":
		return errors.Wrap(doc.GenMarkdownTree(root, args[1]), "write the reference")
	case "man":
		// A page has the date of no build, so that two of one version are the same.
		date := time.Unix(0, 0).UTC()
		return errors.Wrap(doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "planton", Manual: "planton", Date: &date}, args[1]), "write the manual pages")
	default:
		return errors.Errorf("there is no form %q", args[0])
	}
}
