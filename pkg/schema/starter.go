package schema

import (
	"slices"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// StarterOptions shape a starter manifest.
type StarterOptions struct {
	// Name is the metadata.name, and the name in the spec where it fits there; an example when empty.
	Name string
	// Full fills in every field, the optional ones and those that the platform cannot honour included. Otherwise optional fields are
	// commented out, as #key: value.
	Full bool
}

// besides are the fields that no rule of their own requires, by the id of the rule that wants one of several: the starter has these.
var besides = map[string]protoreflect.Name{
	"firewall.rules":                    "inbound_rules",
	"firewall_rule.port_range_required": "port_range",
}

// Starter is a manifest of a kind to begin with: it is valid, and has the comment of each field. Taking the # off #key: value makes
// the value count.
func Starter(kind kinds.Kind, options StarterOptions) (string, error) {
	manifest, err := Manifest(kind)
	if err != nil {
		return "", err
	}
	w := &starter{options: options}
	for _, field := range manifest.Fields {
		switch field.Name {
		case "apiVersion":
			w.line(0, "apiVersion: "+kind.APIVersion)
		case "kind":
			w.line(0, "kind: "+kind.Name)
		case "metadata", "spec":
			w.line(0, field.Name+":")
			if err := w.fields(field, 1); err != nil {
				return "", err
			}
		}
	}
	return w.text.String(), nil
}

// starter writes a starter manifest.
type starter struct {
	options StarterOptions
	text    strings.Builder
	out     int // the depth of what is commented out, plus 1; 0 when nothing is
}

// line writes a line at a depth; a # stands where what is commented out begins.
func (w *starter) line(depth int, text string) {
	indent := strings.Repeat("  ", depth)
	if w.out > 0 {
		at := 2 * (w.out - 1)
		indent = indent[:at] + "#" + indent[at:]
	}
	w.text.WriteString(indent + text + "\n")
}

// prose writes a comment.
func (w *starter) prose(depth int, text string) {
	for _, line := range Wrap(text, 100-2*depth) {
		w.line(depth, "# "+line)
	}
}

func (w *starter) fields(parent *Field, depth int) error {
	wanted, err := messageRules(parent.message)
	if err != nil {
		return err
	}
	for _, field := range parent.Fields {
		needed := field.Required || slices.ContainsFunc(wanted, func(r rule) bool {
			return besides[r.id] == field.descriptor.Name()
		})
		if field.warns && !w.options.Full {
			continue
		}
		comment := field.Description
		if field.Values != nil {
			names := make([]string, len(field.Values))
			for i, value := range field.Values {
				names[i] = value.Name
			}
			comment += " One of " + strings.Join(names, ", ") + "."
		}
		w.prose(depth, comment)
		outermost := !needed && !w.options.Full && w.out == 0
		if outermost {
			w.out = depth + 1
		}
		if err := w.field(field, depth); err != nil {
			return err
		}
		if outermost {
			w.out = 0
		}
	}
	return nil
}

func (w *starter) field(field *Field, depth int) error {
	switch {
	case field.Type == "reference":
		w.line(depth, field.Name+":")
		w.prose(depth+1, "An output of a "+field.Reference.Kind+", by its metadata.name. What was made elsewhere is told by its id instead: value: ID.")
		w.line(depth+1, "valueFrom:")
		w.line(depth+2, "name: "+scalar(named(field, "valueFrom", "name").Examples[0]))
	case field.Type == "object":
		w.line(depth, field.Name+":")
		return w.fields(field, depth+1)
	case field.Type == "[]object":
		w.line(depth, field.Name+":")
		return w.item(field, depth+1)
	case strings.HasPrefix(field.Type, "map["):
		w.line(depth, field.Name+":")
		key, value := "key", "value"
		if len(field.Examples) == 2 {
			key, value = field.Examples[0], field.Examples[1]
		}
		w.line(depth+1, scalar(key)+": "+scalar(value))
	default:
		value, err := w.value(field)
		if err != nil {
			return err
		}
		if strings.HasPrefix(field.Type, "[]") {
			value = "[" + value + "]"
		}
		w.line(depth, field.Name+": "+value)
	}
	return nil
}

// item writes the one item of a list of objects: its fields, the first key of which has the dash.
func (w *starter) item(list *Field, depth int) error {
	inner := &starter{options: w.options}
	inner.options.Full = true // one cannot comment out the line that has the dash
	if err := inner.fields(list, 0); err != nil {
		return err
	}
	dashed := false
	for _, line := range strings.Split(strings.TrimSuffix(inner.text.String(), "\n"), "\n") {
		switch {
		case dashed:
			line = "  " + line
		case strings.HasPrefix(line, "#"):
		default:
			line, dashed = "- "+line, true
		}
		w.line(depth, line)
	}
	return nil
}

// named finds a field inside of another by the names on the way.
func named(field *Field, names ...string) *Field {
	for _, name := range names {
		field = field.Fields[slices.IndexFunc(field.Fields, func(f *Field) bool { return f.Name == name })]
	}
	return field
}

func (w *starter) value(field *Field) (string, error) {
	fd := field.descriptor
	if w.options.Name != "" && fd.Kind() == protoreflect.StringKind && !fd.IsList() {
		switch parent, last, _ := strings.Cut(field.Path, "."); {
		case field.Path == "metadata.name":
			return scalar(w.options.Name), nil
		case parent == "spec" && field.Required && (last == "name" || strings.HasSuffix(last, "Name")):
			rules, err := fieldRules(fd)
			if err != nil {
				return "", err
			}
			checks, err := textChecks(rules.about(theValue))
			if err != nil {
				return "", err
			}
			if takesAny(checks, w.options.Name) {
				return scalar(w.options.Name), nil
			}
		}
	}
	switch {
	case len(field.Examples) > 0 && field.Values != nil:
		name, _ := exampleValue(fd, field.Examples[0]).(string)
		return name, nil
	case field.Values != nil:
		return field.Values[0].Name, nil
	case len(field.Examples) > 0 && strings.HasSuffix(field.Type, "string"):
		return scalar(field.Examples[0]), nil
	case len(field.Examples) > 0:
		return field.Examples[0], nil
	case field.Type == "boolean":
		return "true", nil
	case strings.HasSuffix(field.Type, "string"):
		return "...", nil
	default:
		return "", errors.Errorf("the field %s has no example", fd.FullName())
	}
}

// scalar is a text as YAML has it, in quotes where it would be something else without.
func scalar(text string) string {
	encoded, err := yaml.Marshal(text)
	if err != nil {
		return `""` // no text fails to be written
	}
	return strings.TrimSuffix(string(encoded), "\n")
}

// Wrap breaks a text into lines of at most some characters, at spaces; its paragraphs stay apart by an empty line.
func Wrap(text string, width int) []string {
	var lines []string
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			lines = append(lines, "")
		}
		line := ""
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = word
			case len(line)+1+len(word) > width:
				lines = append(lines, line)
				line = word
			default:
				line += " " + word
			}
		}
		lines = append(lines, line)
	}
	return lines
}
