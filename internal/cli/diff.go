package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/provision"
)

// bindDiff adds the flag that shows all properties of what changes.
func bindDiff(cmd *cobra.Command, streams Streams) {
	cmd.Flags().BoolVar(&streams.settings.diff, "diff", false,
		"show all properties of what changes, old and new, and not only those that differ; secrets are [secret]")
}

// diffDocument is a property in JSON.
type diffDocument struct {
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Replaces bool   `json:"replaces,omitempty"`
	Old      *any   `json:"old,omitempty"`
	New      *any   `json:"new,omitempty"`
}

// changeDocument is a change in JSON, with all properties where they are wanted.
type changeDocument struct {
	provision.Change
	Diff []diffDocument `json:"diff,omitempty"`
}

// changeDocuments are the changes of a result in JSON.
func changeDocuments(result *provision.Result, diff bool) []changeDocument {
	documents := make([]changeDocument, len(result.Resources))
	for i, change := range result.Resources {
		documents[i].Change = change
		if !diff {
			continue
		}
		for _, property := range result.Diff(i) {
			document := diffDocument{Path: property.Path, Kind: property.Kind, Replaces: property.Replaces}
			if property.Kind != "add" {
				document.Old = &property.Old
			}
			if property.Kind != "delete" {
				document.New = &property.New
			}
			documents[i].Diff = append(documents[i].Diff, document)
		}
	}
	return documents
}

// diffSigns mark properties, as those of resources do.
var diffSigns = map[string]struct {
	sign  string
	color color
}{"add": {"+", green}, "update": {"~", yellow}, "delete": {"-", red}, "same": {" ", ""}}

// writeDiff writes all properties of a change, one a line.
func writeDiff(out io.Writer, paint func(color, string) string, diff []provision.PropertyDiff) {
	value := func(v any) string {
		if v == nil {
			return "(known after apply)"
		}
		encoded, err := json.Marshal(v)
		if err != nil {
			return "(...)"
		}
		return string(encoded)
	}
	for _, property := range diff {
		mark := diffSigns[property.Kind]
		text := property.Path + ": "
		switch property.Kind {
		case "delete", "same":
			text += value(property.Old)
		case "add":
			text += value(property.New)
		default:
			text += value(property.Old) + " -> " + value(property.New)
		}
		if property.Replaces {
			text += " (replaces)"
		}
		sign := mark.sign
		if mark.color != "" {
			sign = paint(mark.color, sign)
		}
		_, _ = fmt.Fprintf(out, "     %s %s\n", sign, text)
	}
}
