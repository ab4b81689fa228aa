package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

func newKinds(streams Streams) *cobra.Command {
	output := &outputFlags{}
	cmd := &cobra.Command{
		Use:   "kinds",
		Short: "List the kinds of resources that manifests can declare",
		Long: "List the kinds of resources that manifests can declare. Where a command takes KIND, the kind may be written in any case,\n" +
			"in the plural, or by its short name.",
		Example: "  planton kinds\n  planton explain cikc",
		Args:    arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if err := output.check(); err != nil {
				return err
			}
			return listKinds(streams, output.format)
		},
	}
	output.bind(cmd)
	return cmd
}

// kindDocument is a kind as JSON.
type kindDocument struct {
	Kind       string `json:"kind"`
	Plural     string `json:"plural"`
	ShortName  string `json:"shortName"`
	APIVersion string `json:"apiVersion"`
	Provider   string `json:"provider"`
}

func listKinds(streams Streams, format string) error {
	var documents []kindDocument
	for _, kind := range kinds.All() {
		documents = append(documents, kindDocument{
			Kind: kind.Name, Plural: kind.Plural(), ShortName: kind.IDPrefix, APIVersion: kind.APIVersion, Provider: kind.Provider,
		})
	}
	if format == outputJSON {
		return writeJSON(streams, map[string]any{"kinds": documents})
	}
	table := tabwriter.NewWriter(streams.Out, 0, 0, 2, ' ', 0)
	write := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) }
	write("KIND", "PLURAL", "SHORT", "APIVERSION", "PROVIDER")
	for _, d := range documents {
		write(d.Kind, d.Plural, d.ShortName, d.APIVersion, d.Provider)
	}
	return errors.Wrap(table.Flush(), "write the table")
}
