package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// operation is what a command did, for the words of its result.
type operation string

const (
	planned   operation = "plan"
	applied   operation = "apply"
	refreshed operation = "refresh"
	drifted   operation = "drift"
	imported  operation = "import"
	destroyed operation = "destroy"
)

// color is a terminal's code for one.
type color string

const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
)

// painter colors words where somebody looks who likes it (https://no-color.org).
func painter(terminal bool, getenv func(string) string) func(color, string) string {
	if !terminal || getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return func(_ color, text string) string { return text }
	}
	return func(c color, text string) string { return "\x1b[" + string(c) + "m" + text + "\x1b[0m" }
}

// resultView is what a command has to tell.
type resultView struct {
	operation   operation
	set         *provision.Set
	results     []*provision.Result
	err         error
	outputs     bool
	showSecrets bool
	diff        bool // see bindDiff
}

func (v resultView) changed() bool {
	for _, result := range v.results {
		if result.Changed() {
			return true
		}
	}
	return false
}

// member is the manifest of a result.
func (v resultView) member(stack stackidentity.Identity) *manifest.Manifest {
	for _, member := range v.set.Members() {
		if member.Identity == stack {
			return member.Manifest
		}
	}
	return nil
}

// renderResults writes the results of a command, of those manifests that were begun where it failed, and returns its error.
func renderResults(streams Streams, output outputFlags, view resultView) error {
	streams.settle()
	view.diff = streams.settings != nil && streams.settings.diff
	if output.format == outputJSON {
		if err := writeResult(streams, view.document(streams)); err != nil {
			return err
		}
		if view.err != nil {
			return &toldError{cause: view.err}
		}
		return nil
	}
	if len(view.results) > 0 {
		writeText(streams.Out, painter(streams.OutTerminal, streams.Getenv), view)
	}
	return view.err
}

// signs mark changes, as tools of this kind do.
var signs = map[provision.Op]string{
	provision.OpCreate: "+", provision.OpUpdate: "~", provision.OpReplace: "+-", provision.OpDelete: "-", provision.OpImport: "=",
	provision.OpRead: ">",
}

var signColors = map[provision.Op]color{
	provision.OpCreate: green, provision.OpImport: green, provision.OpUpdate: yellow, provision.OpReplace: red, provision.OpDelete: red,
}

func writeText(out io.Writer, paint func(color, string) string, view resultView) {
	for _, result := range view.results {
		_, _ = fmt.Fprintf(out, "%s\n", view.member(result.Stack))
		if writeStatus(out, paint, view, result) {
			continue
		}
		switch {
		case result.Missing:
			_, _ = fmt.Fprintln(out, "  there is no stack of it: nothing to do")
		case !result.Changed():
			_, _ = fmt.Fprintln(out, "  no changes")
		}
		for i, change := range result.Resources {
			sign := signs[change.Op]
			_, _ = fmt.Fprintf(out, "  %s %s %s\n", paint(signColors[change.Op], fmt.Sprintf("%-2s", sign)), change.Resource, string(change.Op))
			if view.diff {
				writeDiff(out, paint, result.Diff(i))
				continue
			}
			for _, property := range change.Properties {
				_, _ = fmt.Fprintf(out, "       %s\n", propertyText(property))
			}
		}
		for _, associated := range result.Associated {
			_, _ = fmt.Fprintf(out, "  %s %s %s\n", paint(red, "! "), associated, outcomeText(associated, view.operation))
		}
		// What did not change has outputs that are known; `planton outputs` shows them.
		if view.outputs && result.Changed() {
			writeOutputs(out, "  ", given(result.Outputs), view.showSecrets)
		}
	}
	if text := view.statusSummary(); text != "" {
		_, _ = fmt.Fprintln(out, text)
	}
	_, _ = fmt.Fprintln(out, view.summary())
}

// outcomeText says what becomes of an object that no manifest declares.
func outcomeText(associated provision.Associated, operation operation) string {
	outcome, choice := associated.Outcome, associated.Choice
	switch {
	case outcome == provision.Destroyed && operation == planned:
		return "was made by Kubernetes and will be destroyed too (" + choice + ")"
	case outcome == provision.Destroyed:
		return "was made by Kubernetes and was destroyed too (" + choice + ")"
	case outcome == provision.Kept && operation == planned && choice != "":
		return "was made by Kubernetes and will be kept; to destroy it too, apply " + choice + ": true first"
	case outcome == provision.Kept && operation == planned:
		return "was made by Kubernetes and will be kept; to be rid of it too, delete its Service or claim in the cluster first"
	case outcome == provision.Kept:
		return "was made by Kubernetes and was kept: delete it in the cloud when nobody needs it"
	default:
		return "stands in the network, which is not deleted before it is gone"
	}
}

// propertyText is the change of a property as one line.
func propertyText(property provision.PropertyChange) string {
	value := func(v any) string {
		if v == nil {
			return "(...)"
		}
		encoded, err := json.Marshal(v)
		if err != nil {
			return "(...)"
		}
		return string(encoded)
	}
	text := property.Path
	switch {
	case property.Old == nil && property.New == nil:
		text += ": " + property.Kind
	case property.Kind == "add":
		text += ": " + value(property.New) + " (new)"
	case property.Kind == "delete":
		text += ": " + value(property.Old) + " (removed)"
	default:
		text += ": " + value(property.Old) + " -> " + value(property.New)
	}
	if property.Replaces {
		text += " (replaces)"
	}
	return text
}

// summary counts the changes of all results.
func (v resultView) summary() string {
	counts := map[provision.Op]int{}
	for _, result := range v.results {
		for op, count := range result.Changes {
			counts[op] += count
		}
	}
	words := map[operation][4]string{
		planned:   {"to create", "to update", "to replace", "to delete"},
		applied:   {"created", "updated", "replaced", "deleted"},
		refreshed: {"found", "changed in the cloud", "replaced", "gone from the cloud"},
		drifted:   {"found", "changed in the cloud", "replaced", "gone from the cloud"},
		imported:  {"to create", "to update", "to replace", "to delete"},
		destroyed: {"created", "updated", "replaced", "deleted"},
	}[v.operation]
	var parts []string
	for i, op := range []provision.Op{provision.OpCreate, provision.OpUpdate, provision.OpReplace, provision.OpDelete} {
		if counts[op] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[op], words[i]))
		}
	}
	if counts[provision.OpSame] > 0 {
		parts = append(parts, fmt.Sprintf("%d unchanged", counts[provision.OpSame]))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing to do")
	}
	text := "Resources: " + strings.Join(parts, ", ")
	return text
}

// longest is how many characters of a value the result of an apply shows; `planton outputs` shows all.
const longest = 80

// given are outputs without those that are empty, and with the rest of long ones left out: a certificate hides what matters.
func given(outputs provision.Outputs) provision.Outputs {
	short := provision.Outputs{}
	for name, output := range outputs {
		switch value := output.Value.(type) {
		case string:
			if value == "" && output.Known {
				continue
			}
			if len(value) > longest && !output.Secret {
				output.Value = value[:longest] + "..."
			}
		case []any:
			if len(value) == 0 {
				continue
			}
		}
		short[name] = output
	}
	return short
}

// writeOutputs writes outputs, one a line, their values in one column.
func writeOutputs(out io.Writer, indent string, outputs provision.Outputs, showSecrets bool) {
	width := 0
	for name := range outputs {
		width = max(width, len(name))
	}
	for _, name := range outputs.Names() {
		_, _ = fmt.Fprintf(out, "%s%-*s  %s\n", indent, width, name, outputLine(outputs[name], showSecrets))
	}
}

// outputLine is an output as one line.
func outputLine(output provision.Output, showSecrets bool) string {
	switch {
	case output.Secret && !showSecrets:
		return "[secret]"
	case !output.Known:
		return "(known after apply)"
	}
	switch value := output.Value.(type) {
	case string:
		if strings.ContainsRune(value, '\n') {
			encoded, _ := json.Marshal(value)
			return string(encoded)
		}
		return value
	case []any:
		texts := make([]string, len(value))
		for i, element := range value {
			texts[i] = fmt.Sprint(element)
		}
		return strings.Join(texts, ", ")
	default:
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		return string(encoded)
	}
}

// manifestDocument is a manifest in JSON.
type manifestDocument struct {
	Kind   string `json:"kind"`
	Org    string `json:"org,omitempty"`
	Env    string `json:"env,omitempty"`
	Name   string `json:"name"`
	Source string `json:"source"`
}

func describe(m *manifest.Manifest) manifestDocument {
	metadata := kinds.Metadata(m.Target)
	return manifestDocument{
		Kind: m.Kind.Name, Org: metadata.GetOrg(), Env: metadata.GetEnv(), Name: metadata.GetName(), Source: m.Source.String(),
	}
}

// resultDocument is the result of one manifest in JSON.
type resultDocument struct {
	manifestDocument
	Stack       string                 `json:"stack"`
	Status      provision.Status       `json:"status"`
	Because     []string               `json:"skippedBecauseOf,omitempty"`
	Error       map[string]any         `json:"error,omitempty"`
	Missing     bool                   `json:"missing,omitempty"`
	Changed     bool                   `json:"changed"`
	Changes     map[provision.Op]int   `json:"changes"`
	Resources   []changeDocument       `json:"resources"`
	Associated  []provision.Associated `json:"associatedResources,omitempty"`
	Outputs     map[string]any         `json:"outputs,omitempty"`
	Diagnostics []provision.Diagnostic `json:"diagnostics,omitempty"`
	Seconds     float64                `json:"seconds"`
}

// document is the result of a command in JSON. docs/cli.md describes it; fields are added and never renamed.
func (v resultView) document(streams Streams) map[string]any {
	documents := make([]resultDocument, 0, len(v.results))
	for _, result := range v.results {
		document := resultDocument{
			Stack: result.Stack.String(), Status: result.Status, Because: v.because(result), Missing: result.Missing, Changed: result.Changed(), Changes: result.Changes,
			Resources: changeDocuments(result, v.diff), Associated: result.Associated, Diagnostics: result.Diagnostics, Seconds: result.Duration.Seconds(),
		}
		if result.Err != nil {
			document.Error = errorDocument(streams, result.Err)
		}
		if m := v.member(result.Stack); m != nil {
			document.manifestDocument = describe(m)
		}
		if v.operation != destroyed {
			document.Outputs = outputsDocument(result.Outputs, v.showSecrets)
		}
		documents = append(documents, document)
	}
	document := map[string]any{"operation": v.operation, "changed": v.changed(), "statuses": v.statusCounts(), "manifests": documents}
	if v.err != nil {
		document["error"] = errorDocument(streams, v.err)
	}
	return document
}

// outputsDocument are outputs in JSON: bare values, "[secret]" for those that are not shown, null for those not known yet.
func outputsDocument(outputs provision.Outputs, showSecrets bool) map[string]any {
	document := map[string]any{}
	for name, output := range outputs {
		switch {
		case output.Secret && !showSecrets:
			document[name] = "[secret]"
		case !output.Known:
			document[name] = nil
		default:
			document[name] = output.Value
		}
	}
	return document
}

func writeJSON(streams Streams, document any) error {
	encoder := json.NewEncoder(streams.Out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return errors.Wrap(encoder.Encode(document), "write json")
}

// writeYAML writes what writeJSON would, as YAML.
func writeYAML(streams Streams, document any) error {
	encoder := yaml.NewEncoder(streams.Out)
	encoder.SetIndent(2)
	return errors.Wrap(encoder.Encode(document), "write yaml")
}

// readSecrets puts the values of secrets into results, which the engine's events do not tell.
func (s *session) readSecrets(ctx context.Context, results []*provision.Result) error {
	for _, result := range results {
		outputs, err := s.engine.Outputs(ctx, result.Stack)
		if err != nil {
			return err
		}
		result.Outputs = outputs
	}
	return nil
}
