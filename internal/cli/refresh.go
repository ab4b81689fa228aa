package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type refreshOptions struct {
	manifests manifestFlags
	cloud     cloudFlags
	output    outputFlags
	set       setFlags
	created   []string
}

func newRefresh(streams Streams) *cobra.Command {
	options := &refreshOptions{}
	cmd := &cobra.Command{
		Use:   "refresh -f FILE",
		Short: "Read the cloud into the state, and tell what differed",
		Long: "Read the cloud into the state, and tell what differed. Nothing in the cloud is changed; the next apply makes it what the\n" +
			"manifests say.",
		Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return options.run(cmd.Context(), streams, cmd) },
	}
	options.manifests.bind(cmd)
	options.manifests.bindStack(cmd)
	options.cloud.bind(cmd)
	options.output.bindEvents(cmd)
	options.set.bind(cmd, "what it needs")
	bindDiff(cmd, streams)
	// Refresh changes nothing in the cloud and asks nothing; scripts pass the flag to all commands alike.
	cmd.Flags().BoolP("yes", "y", false, "accepted, and not needed: a refresh asks nothing")
	cmd.Flags().StringArrayVar(&options.created, "created", nil,
		"RESOURCE=ID of an object that the last run was creating when it was killed, RESOURCE= where there is none; see "+
			"docs/reliability.md")
	return cmd
}

// createdIDs reads what --created says.
func (o *refreshOptions) createdIDs(manifests int) (map[string]string, error) {
	if len(o.created) > 0 && manifests != 1 {
		return nil, usageError("--created is about the resources of one manifest; give that one alone with -f")
	}
	ids := map[string]string{}
	for _, text := range o.created {
		name, id, ok := strings.Cut(text, "=")
		if _, twice := ids[name]; !ok || name == "" || twice {
			return nil, usageError("--created " + text + " is not RESOURCE=ID, once for each resource")
		}
		ids[name] = id
	}
	return ids, nil
}

func (o *refreshOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command) error {
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
	created, err := o.createdIDs(len(chosen))
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
	set.Created(created)
	results, err := set.Refresh(ctx)
	view := resultView{operation: refreshed, set: set, results: results, err: err}
	return o.set.exit(renderResults(streams, o.output, view), view)
}
