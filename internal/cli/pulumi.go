package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

// The words of the CLI that manifests were first written for: `planton pulumi up -f FILE` is `planton apply -f FILE`, and so on.

func newPulumi(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pulumi",
		Short: "The commands by the names that they had before",
		Long: "The commands by the names that they had before: init, preview, up (update), refresh, destroy (delete) and cancel are\n" +
			"planton init, preview, apply, refresh, destroy and unlock. There is no command of the Pulumi CLI among them.",
		Example: "  planton pulumi up -f examples/civo --yes",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	add := func(name string, aliases []string, command *cobra.Command) {
		instead := command.Name()
		command.Use = name + command.Use[len(instead):]
		command.Aliases = aliases
		command.Example = "  planton pulumi " + name + " -f FILE"
		oldFlags(command)
		cmd.AddCommand(command)
	}
	add("init", nil, newInit(streams))
	add("preview", []string{"plan"}, newPreview(streams))
	add("up", []string{"update"}, newApply(streams))
	add("refresh", nil, newRefresh(streams))
	add("destroy", []string{"delete"}, newDestroy(streams))
	add("cancel", nil, newUnlock(streams))
	return cmd
}

// oldFlags answers flags that commands of those names had and that mean nothing here.
func oldFlags(cmd *cobra.Command) {
	answers := map[string]string{
		"module-dir": "the modules are inside of planton; for one of your own write a Pulumi program that imports it, and give it the stack " +
			"input that planton stack-input prints",
		"input-dir": "give the manifests with -f, which takes a folder too",
	}
	for name, answer := range answers {
		if cmd.Flags().Lookup(name) != nil {
			continue
		}
		cmd.Flags().Var(&noFlag{name: name, answer: answer}, name, "no longer taken: "+answer)
		_ = cmd.Flags().MarkHidden(name)
	}
}

// noFlag is a flag that says what to do instead of it.
type noFlag struct{ name, answer string }

// String implements pflag.Value.
func (*noFlag) String() string { return "" }

// Type implements pflag.Value.
func (*noFlag) Type() string { return "string" }

// Set implements pflag.Value: it never takes a value.
func (f *noFlag) Set(string) error {
	return fmt.Errorf("--%s is no longer taken: %s", f.name, f.answer)
}

type initOptions struct {
	cloud     cloudFlags
	manifests manifestFlags
}

func newInit(streams Streams) *cobra.Command {
	options := &initOptions{}
	cmd := &cobra.Command{
		Use:   "init -f FILE",
		Short: "Make the stacks of manifests, with nothing in them",
		Long: "Make the stacks of manifests, with nothing in them. Nobody has to: apply makes the stack of a manifest that has none. A stack\n" +
			"that exists stays as it is.",
		Example: "  planton init -f examples/civo",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.cloud.bindCloud(cmd)
	options.manifests.bind(cmd)
	options.manifests.bindStack(cmd)
	// A stack without anything in it costs nothing; scripts pass the flag to all commands alike.
	cmd.Flags().BoolP("yes", "y", false, "accepted, and not needed: init asks nothing")
	return cmd
}

func (o *initOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := o.cloud.check(streams, cmd); err != nil {
		return err
	}
	engine, done, err := backendEngine(ctx, streams, o.cloud)
	if err != nil {
		return err
	}
	defer done()
	stacks, err := (&stackFlags{manifests: o.manifests}).ofManifests(ctx, streams, engine)
	if err != nil {
		return err
	}
	for _, stack := range stacks {
		made, err := engine.Init(ctx, stack.Identity)
		if err != nil {
			return err
		}
		said := "exists already"
		if made {
			said = "made"
		}
		_, _ = fmt.Fprintf(streams.Err, "%s: %s\n", stack.Identity, said)
	}
	return nil
}
