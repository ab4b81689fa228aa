package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type applyOptions struct {
	manifests   manifestFlags
	cloud       cloudFlags
	output      outputFlags
	confirm     confirmFlags
	showSecrets bool
}

func newApply(streams Streams) *cobra.Command {
	options := &applyOptions{}
	cmd := &cobra.Command{
		Use:     "apply -f FILE",
		Aliases: []string{"up"},
		Short:   "Provision what manifests declare",
		Long: "Provision what manifests declare: create what is missing, change what differs. Manifests are taken in the order of their\n" +
			"references. Shows what will be done and asks first, unless --yes is given.",
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.manifests.bind(cmd)
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	options.confirm.bind(cmd)
	cmd.Flags().BoolVar(&options.showSecrets, "show-secrets", false, "show the values of secret outputs")
	return cmd
}

func (o *applyOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	manifests, err := o.manifests.load(streams, &o.cloud)
	if err != nil {
		return err
	}
	if err := o.confirm.check(streams, cmd, o.manifests); err != nil {
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
	if !o.confirm.yes {
		results, err := set.Preview(ctx)
		if err != nil {
			return err
		}
		if err := o.confirm.ask(ctx, streams, "Apply this?", planned, set, results); err != nil {
			return err
		}
	}
	results, err := set.Up(ctx)
	if o.showSecrets && err == nil {
		err = s.readSecrets(ctx, results)
	}
	return renderResults(streams, o.output, resultView{
		operation: applied, set: set, results: results, err: err, outputs: true, showSecrets: o.showSecrets,
	})
}
