package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

type outputsOptions struct {
	cloud       cloudFlags
	output      outputFlags
	org, env    string
	stack       string
	showSecrets bool
}

func newOutputs(streams Streams) *cobra.Command {
	options := &outputsOptions{}
	cmd := &cobra.Command{
		Use:   "outputs KIND/NAME [OUTPUT]",
		Short: "Show the outputs of a resource",
		Long: "Show the outputs of a resource that was applied, or one of them alone. KIND may be written in any case, and in the plural.\n" +
			"--org and --env choose among resources of one name.",
		Example: "  planton outputs civokubernetesclusters/prod\n" +
			"  planton outputs civokubernetesclusters/prod kubeconfig_b64 --show-secrets | base64 -d >prod.kubeconfig",
		Args: arguments(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error { return options.run(cmd.Context(), streams, cmd, args) },
	}
	options.cloud.bindCloud(cmd)
	options.output.bind(cmd)
	cmd.Flags().StringVar(&options.org, "org", "", "metadata.org of the resource")
	cmd.Flags().StringVar(&options.env, "env", "", "metadata.env of the resource")
	cmd.Flags().StringVar(&options.stack, "stack", "", "organization/project/stack, for a resource whose labels name its stack")
	cmd.Flags().BoolVar(&options.showSecrets, "show-secrets", false, "show the values of secret outputs")
	return cmd
}

func (o *outputsOptions) run(ctx context.Context, streams Streams, cmd *cobra.Command, args []string) error {
	if err := firstError(o.output.check(), o.cloud.check(streams, cmd)); err != nil {
		return err
	}
	kind, name, err := parseResource(args[0])
	if err != nil {
		return err
	}
	o.cloud.plugins = string(provision.Automatic)
	progress := newProgress(streams, nil)
	defer progress.close()
	engine, err := openEngine(ctx, streams, o.cloud, progress)
	if err != nil {
		return err
	}
	outputs, err := o.find(ctx, engine, kind, name)
	if err != nil {
		return err
	}
	if len(args) == 2 {
		return o.writeOne(streams, outputs, args[1])
	}
	if o.output.format == outputJSON {
		return writeJSON(streams, outputsDocument(outputs, o.showSecrets))
	}
	writeOutputs(streams.Out, "", outputs, o.showSecrets)
	return nil
}

// parseResource reads KIND/NAME.
func parseResource(text string) (kinds.Kind, string, error) {
	kindName, name, ok := strings.Cut(text, "/")
	kind, known := kinds.ByName(kindName)
	switch {
	case !ok || name == "":
		return kind, "", usageError(fmt.Sprintf("%q is not KIND/NAME, such as civokubernetesclusters/prod", text))
	case !known:
		var names []string
		for _, kind := range kinds.All() {
			names = append(names, kind.Name)
		}
		return kind, "", usageError(fmt.Sprintf("there is no kind %q; it is one of %s", kindName, strings.Join(names, ", ")))
	}
	return kind, name, nil
}

// find reads the outputs of the resource's stack. Where neither org nor env is given, a resource of that name is found in any.
func (o *outputsOptions) find(
	ctx context.Context, engine *provision.Engine, kind kinds.Kind, name string,
) (provision.Outputs, error) {
	identity, err := stackidentity.For(kind, &shared.CloudResourceMetadata{Name: name, Org: o.org, Env: o.env})
	if err != nil {
		return nil, usageError(err.Error())
	}
	if o.stack != "" {
		parts := strings.Split(o.stack, "/")
		if len(parts) != 3 {
			return nil, usageError("--stack " + o.stack + " is not organization/project/stack")
		}
		identity = stackidentity.Identity{Organization: parts[0], Project: parts[1], Stack: parts[2]}
	}
	outputs, err := engine.Outputs(ctx, identity)
	if provision.KindOf(err) != provision.NotFound {
		return outputs, err
	}
	if o.org != "" || o.env != "" || o.stack != "" {
		return nil, errors.Wrapf(err, "there is no %s %s: apply its manifest first", kind, name)
	}
	stacks, listErr := engine.Stacks(ctx, identity.Project)
	if listErr != nil {
		return nil, listErr
	}
	var found []string
	for _, stack := range stacks {
		if strings.HasSuffix(stack, "."+identity.Stack) {
			found = append(found, stack)
		}
	}
	switch len(found) {
	case 0:
		return nil, errors.Wrapf(err, "there is no %s %s: apply its manifest first", kind, name)
	case 1:
		identity.Stack = found[0]
		return engine.Outputs(ctx, identity)
	default:
		return nil, usageError(fmt.Sprintf("there are several: %s (org.env.name); choose with --org and --env", strings.Join(found, ", ")))
	}
}

// writeOne writes the bare value of one output, fit for a script.
func (o *outputsOptions) writeOne(streams Streams, outputs provision.Outputs, name string) error {
	output, ok := outputs[name]
	if !ok {
		return usageError(fmt.Sprintf("there is no output %q; the outputs are %s", name, strings.Join(outputs.Names(), ", ")))
	}
	if output.Secret && !o.showSecrets {
		return usageError(name + " is a secret; pass --show-secrets to see it")
	}
	if o.output.format == outputJSON {
		return writeJSON(streams, output.Value)
	}
	if text, ok := output.Value.(string); ok {
		_, _ = fmt.Fprintln(streams.Out, text)
		return nil
	}
	encoded, err := json.Marshal(output.Value)
	if err != nil {
		return errors.Wrap(err, "write the output")
	}
	_, _ = fmt.Fprintln(streams.Out, string(encoded))
	return nil
}
