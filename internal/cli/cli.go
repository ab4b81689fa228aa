// Package cli holds the commands of planton.
//
// Each command has a file: an options struct that its flags fill, and a run function. What they share stands beside them: session
// (state, cloud, plugins, engine), progress (what happens, to stderr), render (results, to stdout) and exit (codes).
//
// The rules of the terminal: stdout is data, stderr is progress, questions and errors. Nothing is written over but the tree of what is being
// done (tree, on a screen), which only a terminal gets. Colors are only used on a terminal, and not where NO_COLOR is set. Whoever asks a
// question tells how to answer it in a script.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/plantonhq/project-planton/internal/quietterminal"
)

func init() { quietterminal.Restore() }

// Streams are what a command reads and writes, and the environment that it looks at.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// InTerminal tells that somebody sits there who can be asked; OutTerminal and ErrTerminal that somebody looks.
	InTerminal, OutTerminal, ErrTerminal bool
	// Getenv reads the environment.
	Getenv func(string) string
	// Kill, when it is closed, ends what runs at once; nil when there is no such need.
	Kill <-chan struct{}

	settings *settings // what the flags of all commands chose
}

// Main runs planton with the process's own arguments and streams, and returns its exit code. Ctrl-C once lets what was begun end;
// twice ends at once.
func Main() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	streams := Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:      os.Getenv,
	}
	if streams.ErrTerminal {
		if screen := newScreen(os.Stderr, os.Getenv); screen != nil {
			streams.Err = screen
		}
	}
	streams.Kill = endBy(signals, streams.Err, cancel)
	return Run(ctx, streams, os.Args[1:])
}

// endBy cancels at the first signal, and closes kill at the second.
func endBy(signals <-chan os.Signal, out io.Writer, cancel context.CancelFunc) (kill <-chan struct{}) {
	atOnce := make(chan struct{})
	go func() {
		<-signals
		_, _ = io.WriteString(out, "Canceling: what was begun is being finished. Once more to end at once.\n")
		cancel()
		<-signals
		close(atOnce)
	}()
	return atOnce
}

// Run runs planton with some arguments, and returns its exit code.
func Run(ctx context.Context, streams Streams, args []string) int {
	streams.settings = &settings{args: args}
	root := newRoot(streams)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if code := ExitCode(err); code == ExitOK || code == ExitChanged {
		return code
	}
	if ctx.Err() != nil {
		err = &canceledError{err}
	}
	report(streams, command, err)
	return ExitCode(err)
}

// Command is the tree of commands, for what documents it.
func Command() *cobra.Command {
	root := newRoot(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }})
	root.DisableAutoGenTag = true
	return root
}

func newRoot(streams Streams) *cobra.Command {
	if streams.settings == nil {
		streams.settings = &settings{}
	}
	root := &cobra.Command{
		Use:   "planton",
		Short: "Provision Kubernetes clusters and node pools from manifests",
		Long: "planton provisions what manifests declare, on Civo and DigitalOcean, through Pulumi.\n\n" +
			"Start with: planton apply -f FILE --cloud emulated",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          arguments(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := streams.settings.check(cmd); err != nil {
				return err
			}
			cmd.SetContext(streams.withRequestLog(cmd.Context()))
			return nil
		},
	}
	streams.settings.bind(root)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err.Error()) })
	root.AddCommand(
		newValidate(streams), newPreview(streams), newApply(streams), newRefresh(streams), newDestroy(streams),
		newOutputs(streams), newKubeconfig(streams), newGet(streams), newDescribe(streams), newGraph(streams),
		newDoctor(streams), newVersion(streams),
	)
	root.AddCommand(newDrift(streams), newImport(streams), newInit(streams), newPulumi(streams))
	root.AddCommand(newLoadManifest(streams), newStackInput(streams))
	root.AddCommand(newStacks(streams), newState(streams), newUnlock(streams))
	root.AddCommand(newNodePools(streams))
	root.AddCommand(newKinds(streams), newExplain(streams), newSchema(streams), newGenerate(streams))
	addCompletion(root, streams)
	return root
}

// arguments makes wrong arguments errors of usage.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(err.Error())
		}
		return nil
	}
}
