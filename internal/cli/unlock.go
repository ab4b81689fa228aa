package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type unlockOptions struct {
	cloud  cloudFlags
	stacks stackFlags
	force  bool
}

func newUnlock(streams Streams) *cobra.Command {
	options := &unlockOptions{}
	cmd := &cobra.Command{
		Use:     "unlock KIND/NAME",
		Aliases: []string{"cancel"},
		Short:   "Remove the lock of a process that has ended from a stack",
		Long: "Remove the lock of a process that has ended from a stack. A process that is killed leaves its lock. planton removes one of\n" +
			"this machine by itself when it next works on the stack; this command does nothing else.\n\n" +
			"The lock of a process that runs, and one of another machine, of which nobody can tell from here, stay, unless --force is given:\n" +
			"two that work on one stack at once lose what the other one writes. To end a planton that runs, press Ctrl-C there.",
		Example: "  planton unlock civokubernetesclusters/prod\n" +
			"  planton unlock -f examples/civo\n" +
			"  planton unlock --stack organization/civovpc/acme.prod.main --force",
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return options.run(cmd.Context(), streams, cmd, args) },
	}
	options.bind(cmd)
	return cmd
}

func (o *unlockOptions) bind(cmd *cobra.Command) {
	o.cloud.bindCloud(cmd)
	o.stacks.bind(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "remove locks of processes that run, or of other machines, too")
	// The lock of a process that has ended is nobody's; scripts pass the flag to all commands alike.
	cmd.Flags().BoolP("yes", "y", false, "accepted, and not needed: unlock asks nothing")
}

func (o *unlockOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command, args []string) error {
	if err := o.cloud.check(streams, cmd); err != nil {
		return err
	}
	engine, done, err := backendEngine(ctx, streams, o.cloud)
	if err != nil {
		return err
	}
	defer done()
	stacks, err := o.stacks.choose(ctx, streams, engine, firstArgument(args))
	if err != nil {
		return err
	}
	for _, stack := range stacks {
		if err := unlock(ctx, streams, engine, stack, o.force); err != nil {
			return err
		}
	}
	return nil
}

func firstArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func unlock(ctx context.Context, streams Streams, engine *provision.Engine, stack chosenStack, force bool) error {
	if !stack.exists {
		return noSuchStack(stack.Identity, "unlock")
	}
	locks, err := engine.Unlock(ctx, stack.Identity, force)
	if err != nil {
		return err
	}
	for _, lock := range locks {
		_, _ = fmt.Fprintf(streams.Err, "%s: removed the lock of %s\n", stack.Identity, lock)
	}
	if _, known, _ := engine.Locks(stack.Identity); known && len(locks) == 0 {
		_, _ = fmt.Fprintf(streams.Err, "%s: is not locked\n", stack.Identity)
	} else if !known {
		_, _ = fmt.Fprintf(streams.Err, "%s: removed its locks\n", stack.Identity)
	}
	return nil
}
