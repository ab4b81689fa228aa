package cli

import (
	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/manifest"
)

const (
	outputSARIF  = "sarif"
	outputGitHub = "github"
)

type validateOptions struct {
	manifests manifestFlags
	output    outputFlags
}

func newValidate(streams Streams) *cobra.Command {
	options := &validateOptions{}
	cmd := &cobra.Command{
		Use:     "validate -f FILE",
		Aliases: []string{"validate-manifest"},
		Short:   "Check manifests, without a cloud and without Pulumi",
		Long: "Check manifests, without a cloud and without Pulumi. Every problem is told at once, with its place, the rule and a hint.\n" +
			"The exit code is 1 when there is one.",
		Example: "  planton validate -f 'environments/**/*.yaml'\n" +
			"  planton validate --kustomize-dir app --overlay prod --set spec.region=fra1\n" +
			"  planton validate -f manifests -o github          # annotations in a GitHub workflow\n" +
			"  planton validate -f manifests -o sarif >planton.sarif",
		Args: arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return options.run(streams) },
	}
	options.manifests.bind(cmd)
	options.output.bind(cmd, outputText, outputJSON, outputSARIF, outputGitHub)
	return cmd
}

// run checks all rules of the protos, the references' kinds and outputs, and that the manifests can be put in order.
func (o *validateOptions) run(streams Streams) error {
	if err := o.output.check(); err != nil {
		return err
	}
	// Nothing is said of the good ones when one is not.
	var lines held
	described := []manifestDocument{}
	err := o.manifests.each(streams, nil, func(m *manifest.Manifest) {
		switch o.output.format {
		case outputText:
			_, _ = lines.Write([]byte(m.Source.String() + ": " + m.String() + " is valid\n"))
		case outputJSON:
			described = append(described, describe(m))
		}
	})
	var invalid *manifest.Error
	if err != nil && !errors.As(err, &invalid) {
		return err
	}
	var problems []manifest.Problem
	if invalid != nil {
		problems = invalid.Problems
		err = &foundError{cause: err}
	}
	switch o.output.format {
	case outputJSON:
		document := map[string]any{"valid": err == nil}
		if err != nil {
			document["error"] = errorDocument(streams, err)
		} else {
			document["manifests"] = described
		}
		if writeErr := writeJSON(streams, document); writeErr != nil {
			return writeErr
		}
	case outputSARIF:
		if writeErr := writeJSON(streams, sarifOf(readBuild().Version, problems)); writeErr != nil {
			return writeErr
		}
	case outputGitHub:
		writeWorkflowCommands(streams.Out, problems)
	default:
		if err == nil {
			return lines.writeTo(streams.Out)
		}
	}
	if err != nil {
		return &toldError{cause: err}
	}
	return nil
}
