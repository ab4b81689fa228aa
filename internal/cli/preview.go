package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type previewOptions struct {
	manifests manifestFlags
	cloud     cloudFlags
	output    outputFlags
	set       setFlags
}

func newPreview(streams Streams) *cobra.Command {
	options := &previewOptions{}
	cmd := &cobra.Command{
		Use:     "preview -f FILE",
		Aliases: []string{"plan", "diff"},
		Short:   "Tell what apply would do, without doing it",
		Args:    arguments(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.manifests.bind(cmd)
	options.manifests.bindStack(cmd)
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	options.set.bind(cmd, "what it needs")
	bindDiff(cmd, streams)
	return cmd
}

func (o *previewOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd), o.set.check(&o.cloud)); err != nil {
		return err
	}
	manifests, err := o.manifests.load(streams, &o.cloud)
	if err != nil {
		return err
	}
	chosen, err := o.set.choose(manifests, provision.Needed)
	if err != nil {
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
	results, err := set.Preview(ctx)
	view := resultView{operation: planned, set: set, results: results, err: err}
	return o.set.exit(renderResults(streams, o.output, view), view)
}
