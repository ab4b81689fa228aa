package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type describeOptions struct {
	cloud  cloudFlags
	output outputFlags
	choice deployedFlags
}

func newDescribe(streams Streams) *cobra.Command {
	options := &describeOptions{}
	cmd := &cobra.Command{
		Use:   "describe KIND/NAME",
		Short: "Tell what is deployed of a resource",
		Long: "Tell what the state of a resource's stack says of it: status, age, drift, what it uses and is used by, and its outputs. " +
			"No cloud is asked. The values of secrets are not shown; planton outputs can.",
		Example: "  planton describe civokubernetesclusters/main --env prod",
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.run(cmd.Context(), streams, cmd, args[0])
		},
	}
	options.cloud.bindCloud(cmd)
	options.output.bind(cmd, outputText, outputJSON, outputYAML)
	options.choice.bind(cmd)
	return cmd
}

func (o *describeOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command, resource string) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	kind, name, err := parseResource(resource)
	if err != nil {
		return err
	}
	o.cloud.plugins = string(provision.Automatic)
	all, err := readDeployed(ctx, streams, o.cloud)
	if err != nil {
		return err
	}
	var found []int
	var stacks []string
	for i, d := range all {
		if o.choice.fits(d, kind, name) {
			found = append(found, i)
			stacks = append(stacks, d.Identity.Stack)
		}
	}
	switch {
	case len(found) == 0:
		return notDeployed(kind, name)
	case len(found) > 1:
		return usageError(fmt.Sprintf("there are several: %s (org.env.name); choose with --org and --env", strings.Join(stacks, ", ")))
	}
	document := documentOf(all, provision.Uses(all), found[0])
	switch o.output.format {
	case outputJSON:
		return writeJSON(streams, document)
	case outputYAML:
		return writeYAML(streams, document)
	}
	writeDescription(streams, document, all[found[0]], time.Now())
	return nil
}

// writeDescription writes a line a fact, and then the outputs.
func writeDescription(streams Streams, document deployedDocument, d provision.Deployed, now time.Time) {
	line := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(streams.Out, "%-9s%s\n", name+":", value)
		}
	}
	line("Kind", document.Kind)
	line("Name", document.Name)
	line("Org", document.Org)
	line("Env", document.Env)
	line("Stack", document.Stack)
	line("Status", document.Status)
	line("Age", age(d.Created, now))
	drift := d.Drift.String()
	if d.Drift.Known {
		drift += " at the refresh " + age(d.Drift.Time, now) + " ago"
	}
	line("Drift", drift)
	line("Uses", strings.Join(document.Uses, ", "))
	line("Used by", strings.Join(document.UsedBy, ", "))
	_, _ = fmt.Fprintln(streams.Out, "Outputs:")
	writeOutputs(streams.Out, "  ", given(d.Outputs), false)
}
