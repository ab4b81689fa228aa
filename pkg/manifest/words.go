package manifest

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// kindName is what a node is called in messages.
func kindName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	default:
		return "single value"
	}
}

// typeName is what the type of a field is called in messages.
func typeName(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a text"
	case protoreflect.EnumKind:
		return "one of " + strings.Join(enumNames(field.Enum()), ", ")
	default:
		return "a number"
	}
}

// lineName is where a node stands, in messages.
func lineName(node *yaml.Node) string {
	if node.Line >= settingLines {
		return SettingFlag
	}
	return fmt.Sprintf("line %d", node.Line)
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// lookup finds the value of a key.
func lookup(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			if value := mapping.Content[i+1]; value.Kind == yaml.AliasNode {
				return value.Alias
			}
			return mapping.Content[i+1]
		}
	}
	return nil
}

func kindNames() string {
	all := kinds.All()
	names := make([]string, len(all))
	for i, kind := range all {
		names[i] = kind.Name
	}
	return strings.Join(names, ", ")
}

// unknownKind is the message for a kind that does not exist.
func unknownKind(node *yaml.Node) string {
	if node.Kind != yaml.ScalarNode {
		return "one of " + kindNames() + " is expected, not a " + kindName(node)
	}
	all := kinds.All()
	names := make([]string, len(all))
	for i, kind := range all {
		names[i] = kind.Name
	}
	message := fmt.Sprintf("there is no kind %q", node.Value)
	if near := nearest(node.Value, names); near != "" {
		return message + fmt.Sprintf("; did you mean %s?", near)
	}
	return message + "; it is one of " + kindNames()
}

// unknownField is the message for a key that a message does not have.
func unknownField(key *yaml.Node, message protoreflect.MessageDescriptor) string {
	if key.Kind != yaml.ScalarNode {
		return "a key is a text, not a " + kindName(key)
	}
	fields := message.Fields()
	var names, both []string
	for i := range fields.Len() {
		names = append(names, fields.Get(i).JSONName())
		both = append(both, fields.Get(i).JSONName(), string(fields.Get(i).Name()))
	}
	text := fmt.Sprintf("there is no field %q", key.Value)
	if near := nearest(key.Value, both); near != "" {
		return text + fmt.Sprintf("; did you mean %s?", near)
	}
	return text + "; the fields are " + strings.Join(names, ", ")
}

// unknownEnumValue is the message for a value that an enum does not have.
func unknownEnumValue(value string, enum protoreflect.EnumDescriptor) string {
	names := enumNames(enum)
	text := fmt.Sprintf("there is no %q", value)
	if near := nearest(value, names); near != "" {
		text += fmt.Sprintf("; did you mean %s?", near)
	}
	return text + "; the values are " + strings.Join(names, ", ")
}

// enumNames are the values of an enum without the one that stands for none.
func enumNames(enum protoreflect.EnumDescriptor) []string {
	var names []string
	for i := range enum.Values().Len() {
		if value := enum.Values().Get(i); value.Number() != 0 {
			names = append(names, string(value.Name()))
		}
	}
	return names
}

// oneofNames are the fields of which only one can be given.
func oneofNames(oneof protoreflect.OneofDescriptor) []string {
	names := make([]string, oneof.Fields().Len())
	for i := range names {
		names[i] = oneof.Fields().Get(i).JSONName()
	}
	return names
}

// nearest is the candidate that a misspelt word most likely means, "" when none is near: at most a third of it differs, letter
// case aside.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", len(word)/3+1
	for _, candidate := range candidates {
		if distance := editDistance(strings.ToLower(word), strings.ToLower(candidate)); distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

// editDistance is how many letters must be added, removed or changed to make one word of the other (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
