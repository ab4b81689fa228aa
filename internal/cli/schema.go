package cli

import (
	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/schema"
)

func newSchema(streams Streams) *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use:   "schema KIND | --all",
		Short: "Print the JSON Schema of a kind, or of all kinds in one, for editors",
		Long: "Print the JSON Schema (2020-12) of a kind's manifests, or with --all one for the manifests of all kinds, in which the kind that a\n" +
			"manifest names chooses the rest. Editors complete and check manifests with it. planton validate checks more: what compares\n" +
			"fields, and references.",
		Example: "  planton schema --all >planton.schema.json\n" +
			"  # then, as the first line of a manifest, for editors with the YAML language server:\n" +
			"  # yaml-language-server: $schema=planton.schema.json",
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error { return printSchema(streams, args, all) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "one schema for the manifests of all kinds")
	return cmd
}

func printSchema(streams Streams, args []string, all bool) error {
	if all == (len(args) == 1) {
		return usageError("either a KIND or --all is given")
	}
	text, err := schema.AllJSONSchema()
	if !all {
		kind, kindErr := parseKind(args[0])
		if kindErr != nil {
			return kindErr
		}
		text, err = schema.JSONSchema(kind)
	}
	if err != nil {
		return err
	}
	_, err = streams.Out.Write(text)
	return errors.Wrap(err, "write the schema")
}
