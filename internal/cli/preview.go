package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type previewOptions struct {
	manifests manifestFlags
	cloud     cloudFlags
	output    outputFlags
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
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	return cmd
}

func (o *previewOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	manifests, err := o.manifests.load(streams, &o.cloud)
	if err != nil {
		return err
	}
	s, err := openSession(ctx, streams, o.cloud, manifests)
	if err != nil {
		return err
	}
	defer s.close()
	set, err := s.engine.NewSet(manifests, s.configs)
	if err != nil {
		return err
	}
	results, err := set.Preview(ctx)
	return renderResults(streams, o.output, resultView{operation: planned, set: set, results: results, err: err})
}
