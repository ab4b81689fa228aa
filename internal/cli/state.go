package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// stateOptions are those of the commands of `planton state`.
type stateOptions struct {
	cloud  cloudFlags
	stacks stackFlags
	output outputFlags
}

func newState(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "List, export and import the state of a stack",
		Long: "List, export and import the state of a stack: what planton knows of a resource. None of these commands asks the cloud or\n" +
			"changes anything there.",
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStateList(streams), newStateExport(streams), newStateImport(streams))
	return cmd
}

func newStateList(streams Streams) *cobra.Command {
	options := &stateOptions{}
	cmd := &cobra.Command{
		Use:     "list KIND/NAME",
		Aliases: []string{"ls"},
		Short:   "List the resources in the state of a stack",
		Example: "  planton state list civokubernetesclusters/prod\n" +
			"  planton state list civokubernetesclusters/prod -o json | jq -r '.resources[].id'",
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.onOne(cmd.Context(), streams, cmd, args, func(engine *provision.Engine, stack chosenStack) error {
				return options.list(cmd.Context(), streams, engine, stack)
			})
		},
	}
	options.cloud.bindCloud(cmd)
	options.stacks.bind(cmd)
	options.output.bind(cmd, outputText, outputWide, outputJSON)
	return cmd
}

func newStateExport(streams Streams) *cobra.Command {
	options := &stateOptions{}
	cmd := &cobra.Command{
		Use:   "export KIND/NAME",
		Short: "Write the state of a stack to stdout, with its secrets encrypted",
		Long: "Write the state of a stack to stdout, as JSON. Its secrets stay encrypted: whoever imports it needs the passphrase, or the\n" +
			"secrets provider, of this backend.",
		Example: "  planton state export civokubernetesclusters/prod >prod.state.json",
		Args:    arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.onOne(cmd.Context(), streams, cmd, args, func(engine *provision.Engine, stack chosenStack) error {
				text, err := engine.ExportState(cmd.Context(), stack.Identity)
				if err != nil {
					return err
				}
				_, err = streams.Out.Write(text)
				return errors.Wrap(err, "write the state")
			})
		},
	}
	options.cloud.bindCloud(cmd)
	options.stacks.bind(cmd)
	return cmd
}

func newStateImport(streams Streams) *cobra.Command {
	options := &stateOptions{}
	cmd := &cobra.Command{
		Use:   "import KIND/NAME FILE",
		Short: "Make a file the state of a stack, and keep the state from before",
		Long: "Make a file the state of a stack: one that planton state export wrote, or one of the backups that the engine keeps in\n" +
			".pulumi/backups of a backend in files. FILE is - for stdin. The file is checked first, and one of another stack is refused. The\n" +
			"state from before is kept in a file, whose name is told. A stack that does not exist is made.\n\n" +
			"The cloud is not asked: look with planton drift -f FILE what differs from it, and have planton refresh -f FILE read it.",
		Example: "  planton state import civokubernetesclusters/prod prod.state.json\n" +
			"  planton state import --stack organization/civovpc/main main.state.json",
		Args: arguments(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var file string
			file, args = args[len(args)-1], args[:len(args)-1]
			return options.onOne(cmd.Context(), streams, cmd, args, func(engine *provision.Engine, stack chosenStack) error {
				return importState(cmd.Context(), streams, engine, stack, file)
			})
		},
	}
	options.cloud.bindCloud(cmd)
	options.stacks.bind(cmd)
	return cmd
}

// onOne does something with the one stack that flags and arguments name.
func (o *stateOptions) onOne(
	ctx context.Context, streams Streams, cmd *cobra.Command, args []string, do func(*provision.Engine, chosenStack) error,
) error {
	if err := o.cloud.check(streams, cmd); err != nil {
		return err
	}
	if len(o.output.forms) > 0 {
		if err := o.output.check(); err != nil {
			return err
		}
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
	if len(stacks) != 1 {
		return usageError(fmt.Sprintf("the manifests have %d stacks; give the one that is meant", len(stacks)))
	}
	return do(engine, stacks[0])
}

func (o *stateOptions) list(ctx context.Context, streams Streams, engine *provision.Engine, stack chosenStack) error {
	if !stack.exists {
		return noSuchStack(stack.Identity, "list the state of")
	}
	resources, err := engine.StateResources(ctx, stack.Identity)
	if err != nil {
		return err
	}
	if o.output.format == outputJSON {
		return writeJSON(streams, map[string]any{"stack": stack.String(), "resources": resources})
	}
	table := tabwriter.NewWriter(streams.Out, 0, 0, 2, ' ', 0)
	head := "RESOURCE\tTYPE\tID\tNOTE"
	if o.output.format == outputWide {
		head += "\tURN"
	}
	_, _ = fmt.Fprintln(table, head)
	for _, r := range resources {
		note := r.Pending
		if r.Replaced {
			note = "replaced, to be deleted"
		}
		line := r.Resource + "\t" + r.Type + "\t" + orDash(r.ID) + "\t" + orDash(note)
		if o.output.format == outputWide {
			line += "\t" + r.URN
		}
		_, _ = fmt.Fprintln(table, line)
	}
	return errors.Wrap(table.Flush(), "write the list")
}

func importState(ctx context.Context, streams Streams, engine *provision.Engine, stack chosenStack, file string) error {
	var text []byte
	var err error
	if file == manifest.Stdin {
		text, err = io.ReadAll(streams.In)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return usageError("read the state: " + err.Error())
	}
	imported, err := engine.ImportState(ctx, stack.Identity, text)
	if err != nil {
		return errors.Wrap(err, file)
	}
	_, _ = fmt.Fprintf(streams.Err, "%s: %s\n", stack.Identity, imported)
	return nil
}
