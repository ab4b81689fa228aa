package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type destroyOptions struct {
	manifests manifestFlags
	cloud     cloudFlags
	output    outputFlags
	set       setFlags
	confirm   confirmFlags
}

func newDestroy(streams Streams) *cobra.Command {
	options := &destroyOptions{}
	cmd := &cobra.Command{
		Use:     "destroy -f FILE",
		Aliases: []string{"delete"},
		Short:   "Delete what manifests declare",
		Long: "Delete what manifests declare, in the reverse order of their references. Shows what will be deleted and asks first, unless\n" +
			"--yes is given. A manifest that was never applied is passed over.",
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.manifests.bind(cmd)
	options.manifests.bindStack(cmd)
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	options.set.bind(cmd, "what depends on it")
	options.confirm.bind(cmd)
	bindDiff(cmd, streams)
	return cmd
}

func (o *destroyOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd), o.set.check(&o.cloud)); err != nil {
		return err
	}
	manifests, err := o.manifests.load(streams, &o.cloud)
	if err != nil {
		return err
	}
	chosen, err := o.set.choose(manifests, provision.Dependent)
	if err != nil {
		return err
	}
	if err := o.confirm.check(streams, cmd, o.manifests); err != nil {
		return err
	}
	s, err := openSession(ctx, streams, o.cloud, chosen)
	if err != nil {
		return err
	}
	defer s.close()
	set, err := o.set.newSet(s, manifests, chosen)
	if err != nil {
		return err
	}
	if !o.confirm.yes {
		results, err := set.PreviewDestroy(ctx)
		if err != nil {
			return err
		}
		if err := o.confirm.ask(ctx, streams, "Destroy this?", planned, set, results); err != nil {
			return err
		}
	}
	results, err := set.Destroy(ctx)
	view := resultView{operation: destroyed, set: set, results: results, err: err}
	return o.set.exit(renderResults(streams, o.output, view), view)
}
