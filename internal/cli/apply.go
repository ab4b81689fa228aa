package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type applyOptions struct {
	manifests   manifestFlags
	cloud       cloudFlags
	output      outputFlags
	set         setFlags
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
	options.manifests.bindStack(cmd)
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	options.set.bind(cmd, "what it needs")
	bindDiff(cmd, streams)
	options.confirm.bind(cmd)
	cmd.Flags().BoolVar(&options.showSecrets, "show-secrets", false, "show the values of secret outputs")
	return cmd
}

func (o *applyOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
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
	view := resultView{
		operation: applied, set: set, results: results, err: err, outputs: true, showSecrets: o.showSecrets,
	}
	return o.set.exit(renderResults(streams, o.output, view), view)
}
