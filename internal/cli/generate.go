package cli

import (
	"io"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/schema"
)

func newGenerate(streams Streams) *cobra.Command {
	options := schema.StarterOptions{}
	cmd := &cobra.Command{
		Use:   "generate KIND",
		Short: "Write a commented starter manifest of a kind",
		Long: "Write a starter manifest of a kind to stdout. It is valid, and says of each field what it means. Optional fields are commented out\n" +
			"as #key: value; take the # off to use them.",
		Example: "  planton generate civovpc --name main >vpc.yaml\n" +
			"  planton generate civokubernetescluster --full",
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error { return generate(streams, args[0], options) },
	}
	cmd.Flags().StringVar(&options.Name, "name", "", "metadata.name, and the name in the spec where it fits")
	cmd.Flags().BoolVar(&options.Full, "full", false, "fill in every field, also those that the platform cannot honour")
	return cmd
}

func generate(streams Streams, kindName string, options schema.StarterOptions) error {
	kind, err := parseKind(kindName)
	if err != nil {
		return err
	}
	text, err := schema.Starter(kind, options)
	if err != nil {
		return err
	}
	// Only the name is the caller's, so only that can be wrong.
	if _, err := manifest.Parse("", []byte(text)); err != nil {
		var invalid *manifest.Error
		if errors.As(err, &invalid) {
			return usageError("--name " + options.Name + ": " + invalid.Problems[0].Message)
		}
		return err
	}
	_, err = io.WriteString(streams.Out, text)
	return errors.Wrap(err, "write the manifest")
}
