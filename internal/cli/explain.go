package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/schema"
)

// explainWidth is how wide the lines of a description are.
const explainWidth = 100

type explainOptions struct {
	output    outputFlags
	recursive bool
}

func newExplain(streams Streams) *cobra.Command {
	options := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain KIND[.FIELD.PATH]",
		Short: "Explain a kind of manifest, or a field of it: type, rules, default, examples",
		Long: "Explain a kind of manifest, or a field of it: what it means, its type, whether it is required, what is checked, and what holds\n" +
			"when it is absent. A field path has the names of manifests, in camelCase or snake_case, without indices.",
		Example: "  planton explain civokubernetescluster\n" +
			"  planton explain civokubernetescluster.spec.defaultNodePool.size\n" +
			"  planton explain digitaloceanvpc --recursive",
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error { return options.run(streams, args[0]) },
	}
	options.output.bind(cmd)
	cmd.Flags().BoolVar(&options.recursive, "recursive", false, "name all fields, those of fields too, without their descriptions")
	return cmd
}

func (o *explainOptions) run(streams Streams, argument string) error {
	if err := o.output.check(); err != nil {
		return err
	}
	kindName, path, _ := strings.Cut(argument, ".")
	kind, err := parseKind(kindName)
	if err != nil {
		return err
	}
	field, err := schema.Find(kind, path)
	if err != nil {
		var unknown *schema.UnknownFieldError
		if errors.As(err, &unknown) {
			return usageError(err.Error())
		}
		return err
	}
	if o.output.format == outputJSON {
		return writeJSON(streams, map[string]any{"kind": kind.Name, "apiVersion": kind.APIVersion, "field": field})
	}
	o.write(streams.Out, kind, field)
	return nil
}

func (o *explainOptions) write(out io.Writer, kind kinds.Kind, field *schema.Field) {
	heading := func(name, text string) { _, _ = fmt.Fprintf(out, "%-12s %s\n", name+":", text) }
	prose := func(indent, text string) {
		for _, line := range schema.Wrap(text, explainWidth-len(indent)) {
			_, _ = fmt.Fprintln(out, strings.TrimRight(indent+line, " "))
		}
	}
	section := func(name string) { _, _ = fmt.Fprintf(out, "\n%s:\n", name) }

	heading("KIND", kind.Name)
	heading("APIVERSION", kind.APIVersion)
	if field.Path != "" {
		heading("FIELD", field.Path+" "+typeText(field))
	}
	if field.Default != "" {
		heading("DEFAULT", field.Default)
	}
	if len(field.Examples) > 0 {
		heading("EXAMPLE", exampleText(field))
	}
	if field.Reference != nil {
		heading("REFERENCE", field.Reference.Kind+", "+field.Reference.FieldPath)
	}
	if field.Description != "" {
		section("DESCRIPTION")
		prose("  ", field.Description)
	}
	if len(field.Values) > 0 {
		section("VALUES")
		for _, value := range field.Values {
			_, _ = fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-10s %s", value.Name, value.Description), " "))
		}
	}
	if len(field.Rules) > 0 {
		section("RULES")
		for _, rule := range field.Rules {
			prose("  ", rule.Message+" ["+rule.ID+"]")
		}
	}
	if len(field.Fields) > 0 {
		section("FIELDS")
		o.writeFields(out, field.Fields, "  ", prose)
	}
}

func (o *explainOptions) writeFields(out io.Writer, fields []*schema.Field, indent string, prose func(indent, text string)) {
	for i, field := range fields {
		if o.recursive {
			_, _ = fmt.Fprintf(out, "%s%s %s\n", indent, field.Name, typeText(field))
			o.writeFields(out, field.Fields, indent+"  ", prose)
			continue
		}
		if i > 0 {
			_, _ = fmt.Fprintln(out)
		}
		_, _ = fmt.Fprintf(out, "%s%s %s\n", indent, field.Name, typeText(field))
		prose(indent+"  ", field.Description)
	}
}

// typeText is the type of a field, and whether it is required.
func typeText(field *schema.Field) string {
	text := "<" + field.Type + ">"
	if field.Required {
		text += " required"
	}
	return text
}

// exampleText is an example as a manifest would have it.
func exampleText(field *schema.Field) string {
	example := field.Examples[0]
	switch {
	case strings.HasPrefix(field.Type, "map[") && len(field.Examples) == 2:
		return "{" + example + ": " + field.Examples[1] + "}"
	case strings.HasPrefix(field.Type, "[]"):
		return "[" + example + "]"
	default:
		return example
	}
}
