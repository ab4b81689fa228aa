package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

type driftOptions struct {
	manifests manifestFlags
	cloud     cloudFlags
	output    outputFlags
}

func newDrift(streams Streams) *cobra.Command {
	options := &driftOptions{}
	cmd := &cobra.Command{
		Use:   "drift -f FILE",
		Short: "Tell how the cloud differs from what was applied, and change nothing",
		Long: "Tell how the cloud differs from what was applied: what somebody has changed or deleted there. Nothing is changed, neither in\n" +
			"the cloud nor in the state. The exit code fits a job that runs every night: 0 where nothing differs, " +
			fmt.Sprint(ExitChanged) + " where something does,\nand another one where it could not be found out. What was never applied does not differ.",
		Example: "  planton drift -f examples/civo\n" +
			"  planton drift -f . -o json",
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.manifests.bind(cmd)
	options.manifests.bindStack(cmd)
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	bindDiff(cmd, streams)
	return cmd
}

func (o *driftOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
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
	results, err := set.PreviewRefresh(ctx)
	view := resultView{operation: drifted, set: set, results: results, err: err}
	if err := renderResults(streams, o.output, view); err != nil {
		return err
	}
	if view.changed() {
		return &changedError{}
	}
	return nil
}
