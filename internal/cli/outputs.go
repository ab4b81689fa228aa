package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

type outputsOptions struct {
	cloud       cloudFlags
	output      outputFlags
	resource    resourceFlags
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
			"  planton outputs civokubernetesclusters/prod kubeconfig_b64 --show-secrets | base64 -d >prod.kubeconfig\n" +
			"  eval \"$(planton outputs civokubernetesclusters/prod -o env)\" && echo \"$API_SERVER_ENDPOINT\"",
		Args: arguments(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error { return options.run(cmd.Context(), streams, cmd, args) },
	}
	options.cloud.bindCloud(cmd)
	options.output.bind(cmd, outputText, outputJSON, outputYAML, outputEnv)
	options.resource.bind(cmd)
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
	read := engine.PublicOutputs
	if o.showSecrets {
		read = engine.Outputs
	}
	found, err := o.resource.find(ctx, engine, kind, name, read)
	if err != nil {
		return err
	}
	outputs := found.outputs
	if len(args) == 2 {
		return o.writeOne(streams, outputs, args[1])
	}
	switch o.output.format {
	case outputJSON:
		return writeJSON(streams, outputsDocument(outputs, o.showSecrets))
	case outputYAML:
		return writeYAML(streams, outputsDocument(outputs, o.showSecrets))
	case outputEnv:
		return writeEnvironment(streams.Out, streams.Err, outputs, o.showSecrets)
	}
	writeOutputs(streams.Out, "", outputs, o.showSecrets)
	return nil
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
	switch o.output.format {
	case outputJSON:
		return writeJSON(streams, output.Value)
	case outputYAML:
		return writeYAML(streams, output.Value)
	case outputEnv:
		return writeEnvironment(streams.Out, streams.Err, provision.Outputs{name: output}, o.showSecrets)
	}
	text, err := plainText(output.Value)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(streams.Out, text)
	return nil
}
