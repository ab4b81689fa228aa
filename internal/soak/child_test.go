//go:build linux

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optdestroy"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	"github.com/pulumi/pulumi/sdk/v3/go/common/workspace"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/internal/cli"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/manifest"
	civoplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	digitaloceanplugin "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
	"github.com/plantonhq/project-planton/pkg/provision"
)

const (
	// wayEnvironment makes the test binary the process under test, in the Way that it holds.
	wayEnvironment = "PLANTON_SOAK_WAY"
	// directoryEnvironment is where the program keeps its stack's settings and its state.
	directoryEnvironment = "PLANTON_SOAK_DIRECTORY"

	// settled is what a process is told beside the commands of a schedule: to look whether nothing is left to do.
	settled Command = "settled"
)

// TestMain lets the test binary be the process under test, so that there is a real process to kill.
func TestMain(m *testing.M) {
	way := Way(os.Getenv(wayEnvironment))
	if way == "" {
		os.Exit(m.Run())
	}
	command, manifests := Command(os.Args[1]), os.Args[2]
	// Planton finds its environment clean.
	_ = os.Unsetenv(wayEnvironment)
	if way == WayCLI {
		os.Exit(planton(command, manifests))
	}
	if err := pulumiProgram(context.Background(), command, manifests); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// planton is the command of the name.
func planton(command Command, manifests string) int {
	if command != settled {
		return runPlanton(os.Stdout, string(command), "-f", manifests, "--yes", "--plugins", "native")
	}
	for _, look := range [][]string{{"preview"}, {"refresh"}} {
		var output bytes.Buffer
		code := runPlanton(&output, append(look, "-f", manifests, "-o", "json", "--plugins", "native")...)
		fmt.Println(output.String())
		if code != cli.ExitOK {
			return code
		}
		var result struct{ Changed *bool }
		events := bytes.Split(bytes.TrimSpace(output.Bytes()), []byte("\n"))
		if err := json.Unmarshal(events[len(events)-1], &result); err != nil || result.Changed == nil {
			fmt.Fprintf(os.Stderr, "the result of planton %s cannot be read: %v\n", look[0], err)
			return 1
		}
		if *result.Changed {
			fmt.Fprintf(os.Stderr, "planton %s found changes\n", look[0])
			return 1
		}
	}
	return cli.ExitOK
}

func runPlanton(out io.Writer, args ...string) int {
	return cli.Run(context.Background(), cli.Streams{
		In: bytes.NewReader(nil), Out: out, Err: os.Stderr, Getenv: os.Getenv,
	}, args)
}

// pulumiProgram runs one Pulumi program with all manifests through the Automation API, as its user would: what a killed process
// left locked is unlocked first.
func pulumiProgram(ctx context.Context, command Command, folder string) error {
	loaded, err := manifest.Load([]string{folder}, nil)
	if err != nil {
		return err
	}
	manifests := make([]proto.Message, len(loaded))
	for i, one := range loaded {
		manifests[i] = one.Target
	}
	stack, err := openStack(ctx, manifests)
	if err != nil {
		return err
	}
	switch command {
	case Apply:
		_, err = stack.Up(ctx, optup.ProgressStreams(os.Stdout), optup.ErrorProgressStreams(os.Stderr), optup.SuppressOutputs())
		return err
	case Destroy:
		_, err = stack.Destroy(ctx, optdestroy.ProgressStreams(os.Stdout), optdestroy.ErrorProgressStreams(os.Stderr),
			optdestroy.RunProgram(true))
		return err
	case settled:
		if _, err := stack.Preview(ctx, optpreview.ExpectNoChanges(), optpreview.Diff(),
			optpreview.ProgressStreams(os.Stdout), optpreview.ErrorProgressStreams(os.Stderr)); err != nil {
			return err
		}
		_, err = stack.Refresh(ctx, optrefresh.ExpectNoChanges(), optrefresh.RunProgram(true), optrefresh.Diff(),
			optrefresh.ProgressStreams(os.Stdout), optrefresh.ErrorProgressStreams(os.Stderr))
		return err
	default:
		return errors.Errorf("there is no command %q", command)
	}
}

func openStack(ctx context.Context, manifests []proto.Message) (auto.Stack, error) {
	const project, name = "soak", "organization/soak/seed"
	directory := os.Getenv(directoryEnvironment)
	creates := journal.Open(filepath.Join(directory, "creates"))
	civoPort, err := civoplugin.New("2.4.8").ServeJournaled(ctx, creates)
	if err != nil {
		return auto.Stack{}, err
	}
	digitalOceanPort, err := digitaloceanplugin.New("4.57.0").ServeJournaled(ctx, creates)
	if err != nil {
		return auto.Stack{}, err
	}
	command := &fewerRuns{CLI: &pulumicli.CLI{Path: os.Getenv(pulumicli.Environment)}}
	options := []auto.LocalWorkspaceOption{
		auto.WorkDir(directory),
		auto.Project(workspace.Project{Name: tokens.PackageName(project), Runtime: workspace.NewProjectRuntimeInfo("go", nil)}),
		auto.Program(newProgram(manifests)),
		auto.Pulumi(command),
		auto.EnvVars(map[string]string{
			"PULUMI_DEBUG_PROVIDERS": fmt.Sprintf("civo:%d,digitalocean:%d", civoPort, digitalOceanPort),
		}),
	}
	if provider := os.Getenv(provision.EnvironmentSecretsProvider); provider != "" {
		options = append(options, auto.SecretsProvider(provider))
	}
	space, err := auto.NewLocalWorkspace(ctx, options...)
	if err != nil {
		return auto.Stack{}, err
	}
	backend := filepath.Join(directory, "backend")
	if _, err := os.Stat(filepath.Join(backend, ".pulumi", "stacks", project, "seed.json")); os.IsNotExist(err) {
		return auto.NewStack(ctx, name, space)
	}
	command.isSelected = true
	stack, err := auto.SelectStack(ctx, name, space)
	if err != nil {
		return stack, err
	}
	return stack, goOn(ctx, stack, backend)
}

// goOn does by hand what planton does by itself after a run that was killed: `pulumi cancel` unlocks the stack, and `pulumi refresh
// --clear-pending-creates` takes creations that never ended out of the state, for the native plugins find what they made.
func goOn(ctx context.Context, stack auto.Stack, backend string) error {
	states, err := ReadStates(backend)
	if err != nil {
		return err
	}
	if len(states.Locks) > 0 {
		if err := stack.Cancel(ctx); err != nil {
			return err
		}
	}
	for _, operation := range states.Pending {
		if strings.HasPrefix(operation, "creating ") {
			_, err := stack.Refresh(ctx, optrefresh.ClearPendingCreates(), optrefresh.RunProgram(true),
				optrefresh.ProgressStreams(os.Stdout), optrefresh.ErrorProgressStreams(os.Stderr))
			return err
		}
	}
	return nil
}

// fewerRuns answers the questions of the Automation API whose answers are known, or that nobody looks at: each would start the Pulumi
// CLI once more.
type fewerRuns struct {
	*pulumicli.CLI
	isSelected bool
}

// Run implements auto.PulumiCommand.
func (c *fewerRuns) Run(
	ctx context.Context, workdir string, stdin io.Reader, stdout, stderr []io.Writer, environment []string, args ...string,
) (string, string, int, error) {
	switch {
	case len(args) > 1 && slices.Equal(args[:2], []string{"stack", "history"}):
		return "[]", "", 0, nil
	case len(args) > 1 && slices.Equal(args[:2], []string{"stack", "output"}):
		return "{}", "", 0, nil
	case c.isSelected && len(args) > 1 && slices.Equal(args[:2], []string{"stack", "select"}):
		return "", "", 0, nil
	}
	return c.CLI.Run(ctx, workdir, stdin, stdout, stderr, environment, args...)
}

// Version implements auto.PulumiCommand.
func (c *fewerRuns) Version() semver.Version { return semver.MustParse(pulumicli.MinimumVersion) }
