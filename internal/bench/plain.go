package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumiworkspace "github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/iac/pulumi/modules"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// plain applies manifests of Civo as a script would: `pulumi stack init` where there is no stack, and `pulumi up --skip-preview`, one stack
// after the other, with the same program and one plugin for all. It is the floor: it looks for nothing that a killed run has left.
func plain(
	ctx context.Context, j job, cli *measuredCLI, state *provision.State, started *processes, set *provision.Set, out io.Writer,
) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	port, err := (&pluginProcess{provider: kinds.Civo, plugin: j.Plugin, processes: started}).serve(serving, state.Creates)
	if err != nil {
		return err
	}
	for _, member := range set.Members() {
		input, err := provision.NewStackInput(member.Manifest.Target, configs(j.CivoURL, j.DigitalOceanURL))
		if err != nil {
			return err
		}
		err = plainUp(ctx, j, cli, state, port, member.Identity, func(ctx *pulumi.Context) error { return modules.Resources(ctx, input) })
		if err != nil {
			return err
		}
	}
	stop()
	return started.tell(out)
}

func plainUp(
	ctx context.Context, j job, cli *measuredCLI, state *provision.State, port int, identity stackidentity.Identity, program pulumi.RunFunc,
) error {
	directory, err := os.MkdirTemp("", "planton-bench-stack-")
	if err != nil {
		return errors.Wrap(err, "create the folder of the stack")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	workspace, err := auto.NewLocalWorkspace(ctx,
		auto.WorkDir(directory), auto.PulumiHome(state.Home), auto.Program(program),
		auto.Project(pulumiworkspace.Project{
			Name: tokens.PackageName(identity.Project), Runtime: pulumiworkspace.NewProjectRuntimeInfo("go", nil),
		}),
		auto.Pulumi(&fewestCommands{cli}),
		auto.EnvVars(map[string]string{
			"PULUMI_BACKEND_URL": state.BackendURL, "PULUMI_CONFIG_PASSPHRASE_FILE": state.PassphraseFile,
			"PULUMI_DEBUG_PROVIDERS":                      fmt.Sprintf("%s:%d", kinds.Civo, port),
			"PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
			"PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER":    "true",
			"PULUMI_IGNORE_AMBIENT_PLUGINS":               "true",
			"PULUMI_SKIP_UPDATE_CHECK":                    "true",
		}),
	)
	if err != nil {
		return errors.Wrap(err, "make the workspace of the stack")
	}
	open := auto.NewStack
	if j.Operation == operationAgain {
		open = auto.SelectStack
	}
	stack, err := open(ctx, identity.String(), workspace)
	if err != nil {
		return errors.Wrap(err, "open the stack")
	}
	_, err = stack.Up(ctx, optup.SuppressProgress())
	return errors.Wrap(err, "run pulumi up")
}

// fewestCommands leaves out what the Automation API asks beside the commands of a script.
type fewestCommands struct{ *measuredCLI }

// Run implements auto.PulumiCommand.
func (c *fewestCommands) Run(
	ctx context.Context, workdir string, stdin io.Reader, stdout, stderr []io.Writer, environment []string, args ...string,
) (string, string, int, error) {
	if len(args) >= 2 {
		switch two := args[:2]; {
		case slices.Equal(two, []string{"stack", "history"}):
			return "[]", "", 0, nil
		case slices.Equal(two, []string{"stack", "output"}):
			return "{}", "", 0, nil
		case slices.Equal(two, []string{"stack", "select"}):
			return "", "", 0, nil
		}
	}
	return c.measuredCLI.Run(ctx, workdir, stdin, stdout, stderr, environment, args...)
}
