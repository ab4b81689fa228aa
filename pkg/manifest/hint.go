package manifest

import (
	"fmt"
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
)

// addHints gives hints to the problems of a message: what is allowed in the field, what was likely meant, or an example.
func addHints(problems []Problem, message proto.Message) {
	for i := range problems {
		if p := &problems[i]; p.Hint == "" {
			p.Hint = hintOf(p, message.ProtoReflect())
		}
	}
}

func hintOf(p *Problem, message protoreflect.Message) string {
	switch p.RuleID {
	case RuleUnknownField:
		return unknownFieldHint(p.FieldPath, message.Descriptor())
	case RuleDuplicateField:
		return "leave one of them out"
	}
	at := find(message, p.FieldPath)
	if at.field == nil {
		return ""
	}
	if p.RuleID == RuleType {
		if isReference(at.field) && !at.inner {
			return referenceHint(at.field)
		}
		return ""
	}
	if p.RuleID == "required" {
		return exampleHint(at.field)
	}
	if !at.value.IsValid() || at.field.Kind() != protoreflect.StringKind {
		return ""
	}
	return valueHint(p.RuleID, at.value.String())
}

// unknownFieldHint tells where a field of that name is, or which fields there are.
func unknownFieldHint(path string, root protoreflect.MessageDescriptor) string {
	parent := descend(root, parentPath(path))
	name := strings.TrimPrefix(strings.TrimPrefix(path, parentPath(path)), ".")
	if parent == nil {
		return ""
	}
	if elsewhere := placeOf(root, name, "", 0); elsewhere != "" && fieldOf(&yaml.Node{Kind: yaml.ScalarNode, Value: name}, parent) == nil {
		return name + " belongs in " + elsewhere
	}
	names := make([]string, parent.Fields().Len())
	for i := range names {
		names[i] = parent.Fields().Get(i).JSONName()
	}
	return "the fields are " + strings.Join(names, ", ")
}

// placeOf is the path of the message, in camelCase, that has a field of a name; the one nearest to the root, and none in status.
func placeOf(message protoreflect.MessageDescriptor, name, path string, depth int) string {
	fields := message.Fields()
	if path != "" && (fields.ByJSONName(name) != nil || fields.ByTextName(name) != nil) {
		return path
	}
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Message() == nil || field.IsMap() || isReference(field) || depth > 3 || field.Name() == "status" || field.Name() == "provider_config" {
			continue
		}
		if found := placeOf(field.Message(), name, joinPath(path, field.JSONName()), depth+1); found != "" {
			return found
		}
	}
	return ""
}

// descend is the message that a path leads to, nil when it leads to none.
func descend(message protoreflect.MessageDescriptor, path string) protoreflect.MessageDescriptor {
	for _, name := range pathNames(path) {
		field := message.Fields().ByName(protoreflect.Name(name))
		if field == nil || field.Message() == nil || field.IsMap() {
			return nil
		}
		message = field.Message()
	}
	return message
}

// pathNames are the names of the fields of a path, without indices and keys. One may be empty: a document may call a field anything.
func pathNames(path string) []string {
	var names []string
	for path != "" {
		parent := parentPath(path)
		if last := strings.TrimPrefix(path[len(parent):], "."); !strings.HasPrefix(last, "[") {
			names = append([]string{last}, names...)
		}
		path = parent
	}
	return names
}

// found is where a path leads in a message: the last field, and its value where it has one.
type found struct {
	field protoreflect.FieldDescriptor
	value protoreflect.Value
	inner bool // it is an element of the field
}

func find(message protoreflect.Message, path string) found {
	var parts []string
	for path != "" {
		parent := parentPath(path)
		parts = append([]string{strings.TrimPrefix(path[len(parent):], ".")}, parts...)
		path = parent
	}
	at := found{}
	current := protoreflect.ValueOfMessage(message)
	for _, part := range parts {
		if strings.HasPrefix(part, "[") {
			if at.field == nil {
				return found{}
			}
			at.inner = true
			current = elementOf(current, part, at.field)
			at.value = current
			continue
		}
		var descriptor protoreflect.MessageDescriptor
		if at.field == nil {
			descriptor = message.Descriptor()
		} else if descriptor = at.field.Message(); descriptor == nil || at.field.IsMap() {
			return found{}
		}
		field := descriptor.Fields().ByName(protoreflect.Name(part))
		if field == nil {
			return found{}
		}
		at = found{field: field}
		if m, ok := current.Interface().(protoreflect.Message); ok && m.Has(field) {
			at.value = m.Get(field)
		}
		current = at.value
	}
	return at
}

// elementOf is an element of a list, or of a map with texts for keys.
func elementOf(value protoreflect.Value, part string, field protoreflect.FieldDescriptor) protoreflect.Value {
	switch container := value.Interface().(type) {
	case protoreflect.List:
		var index int
		if n, err := fmt.Sscanf(part, "[%d]", &index); n == 1 && err == nil && index >= 0 && index < container.Len() {
			return container.Get(index)
		}
	case protoreflect.Map:
		var key string
		if n, err := fmt.Sscanf(part, "[%q]", &key); n == 1 && err == nil && field.MapKey().Kind() == protoreflect.StringKind {
			return container.Get(protoreflect.ValueOfString(key).MapKey())
		}
	}
	return protoreflect.Value{}
}

// isReference tells of a field whether its value can be taken from another resource.
func isReference(field protoreflect.FieldDescriptor) bool {
	return field.Message() != nil && field.Message().FullName() == (&foreignkeyv1.StringValueOrRef{}).ProtoReflect().Descriptor().FullName()
}

func referenceHint(field protoreflect.FieldDescriptor) string {
	return fmt.Sprintf("write %s: {value: ...} for a value, or %s: {valueFrom: {name: ...}} for that of another manifest",
		field.JSONName(), field.JSONName())
}

// exampleHint shows how a field that is missing is written.
func exampleHint(field protoreflect.FieldDescriptor) string {
	switch {
	case field.IsList():
		return "add " + field.JSONName() + ": [...]"
	case isReference(field):
		return referenceHint(field)
	case field.Message() != nil && !field.IsMap():
		names := make([]string, field.Message().Fields().Len())
		for i := range names {
			names[i] = field.Message().Fields().Get(i).JSONName()
		}
		return "add " + field.JSONName() + ": with " + strings.Join(names, ", ")
	case field.Kind() == protoreflect.EnumKind:
		return "add " + field.JSONName() + ": with one of " + strings.Join(enumNames(field.Enum()), ", ")
	default:
		return "add " + field.JSONName() + ": with " + typeName(field)
	}
}

// valueHint makes a value that keeps the rule out of one that breaks it.
func valueHint(rule, value string) string {
	switch rule {
	case "dns_label", "digitalocean_name":
		if label := asLabel(value); label != "" && label != value {
			return "such as " + label
		}
	case "ipv4_network", "ip_network", "ip_or_network":
		if prefix, err := netip.ParsePrefix(value); err == nil && prefix.Masked() != prefix {
			return "such as " + prefix.Masked().String()
		}
		if address, err := netip.ParseAddr(value); err == nil {
			return fmt.Sprintf("such as %s/%d", address, address.BitLen())
		}
	case "taint_effect":
		if near := nearest(value, []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}); near != "" {
			return "did you mean " + near + "?"
		}
	}
	return ""
}

// asLabel is a text as a DNS label.
func asLabel(text string) string {
	var label strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			label.WriteRune(r)
		case label.Len() > 0 && !strings.HasSuffix(label.String(), "-"):
			label.WriteByte('-')
		}
	}
	return strings.Trim(label.String()[:min(label.Len(), 63)], "-")
}

// syntaxHint is what most likely makes a text no YAML, told by what the parser said, and by the line that it said it of.
func syntaxHint(message, line string) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case strings.Contains(indent, "\t") || strings.Contains(message, "found character that cannot start any token") && strings.Contains(line, "\t"):
		return "YAML is indented with spaces, not with tabs"
	case strings.Contains(message, "mapping values are not allowed"):
		return "a text with a colon and a space in it stands in quotes, and a key as far to the right as its neighbors"
	case strings.Contains(message, "did not find expected ',' or"):
		return "a bracket that was opened before is not closed"
	case strings.Contains(message, "did not find expected key"):
		return "a key stands as far to the right as its neighbors"
	case strings.Contains(message, "found unexpected end of stream"):
		return "a quote that was opened before is not closed"
	case strings.Contains(message, "cannot start any token"):
		return "a text that starts with @, ` or % stands in quotes"
	default:
		return ""
	}
}

// foreignHint is for documents that are made for other programs.
func foreignHint(root *yaml.Node) string {
	apiVersion := lookup(root, "apiVersion")
	switch {
	case apiVersion != nil && strings.HasPrefix(apiVersion.Value, "kustomize.config.k8s.io/"):
		return "a kustomization is built with --kustomize-dir"
	case lookup(root, "target") != nil:
		return "this looks like a stack input: give it with -i"
	case apiVersion == nil && lookup(root, "resources") != nil:
		return "a kustomization is built with --kustomize-dir"
	default:
		return ""
	}
}
