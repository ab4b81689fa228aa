// Command findpulumi prints the path of the Pulumi CLI that planton and the tests use, and builds it first where there is none.
// `make` calls it before the tests, so that no test waits for a build.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
)

func main() {
	cli, err := pulumicli.Find(context.Background(), pulumicli.Options{Progress: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "findpulumi:", err)
		os.Exit(1)
	}
	fmt.Println(cli.Path)
}
