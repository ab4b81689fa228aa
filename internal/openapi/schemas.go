package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// object is a JSON object. Its members are written in alphabetical order, so that the document is the same each time.
type object map[string]any

type generator struct {
	comments map[protoreflect.FullName]string
	schemas  object
}

// serverMade are the fields of objects that an answer always has, whatever the rules of what clients send.
var serverMade = map[protoreflect.Name][]string{
	"NodePool":       {"id", "name", "cluster_id", "generation", "resource_version", "spec", "created_at", "updated_at", "created_by"},
	"Cluster":        {"id", "name", "generation", "resource_version", "spec", "created_at", "updated_at", "created_by"},
	"NodePoolStatus": {"nodepool_id", "controller_status"},
	"ClusterStatus":  {"cluster_id", "controller_status"},
	"Event":          {"revision", "type", "time"},
	"AuditEntry":     {"revision", "time", "actor", "action"},
	"Webhook":        {"id", "url"},
}

// reference makes the schema of a message, unless there is one, and returns a reference to it.
func (g *generator) reference(message protoreflect.MessageDescriptor) (object, error) {
	switch message.FullName() {
	case "google.protobuf.Timestamp":
		return object{"type": "string", "format": "date-time"}, nil
	case "google.protobuf.Struct":
		return object{"type": "object"}, nil
	}
	name := string(message.Name())
	result := object{"$ref": "#/components/schemas/" + name}
	if g.schemas[name] != nil {
		return result, nil
	}
	g.schemas[name] = object{} // ends a circle
	schema, err := g.message(message)
	if err != nil {
		return nil, err
	}
	if required, ok := serverMade[message.Name()]; ok {
		schema["required"] = required
		showRedacted(message, schema)
	}
	if strings.HasPrefix(name, "List") {
		schema["required"] = alwaysListed(message)
	}
	g.schemas[name] = schema
	return result, nil
}

// showRedacted has the secrets of an object that is answered be what stands in their place, whatever the rules of what clients send.
func showRedacted(message protoreflect.MessageDescriptor, schema object) {
	properties, _ := schema["properties"].(object)
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		options, ok := field.Options().(*descriptorpb.FieldOptions)
		if given, there := properties[field.JSONName()].(object); ok && there && options.GetDebugRedact() {
			properties[field.JSONName()] = object{"type": "string", "enum": []string{"(redacted)"}, "description": given["description"]}
		}
	}
}

// alwaysListed are the lists and numbers that a list answer always has.
func alwaysListed(message protoreflect.MessageDescriptor) []string {
	var names []string
	for i := range message.Fields().Len() {
		if field := message.Fields().Get(i); field.IsList() || field.Kind() == protoreflect.Int32Kind {
			names = append(names, field.JSONName())
		}
	}
	return names
}

// input is the schema of an object as a client sends it: what the service makes is taken and not looked at.
func (g *generator) input(message protoreflect.MessageDescriptor) (object, error) {
	name := string(message.Name())
	if serverMade[message.Name()] == nil {
		return g.reference(message)
	}
	schema, err := g.message(message)
	if err != nil {
		return nil, err
	}
	// A path may name the cluster, and an update need not.
	if required, ok := schema["required"].([]string); ok {
		schema["required"] = slices.DeleteFunc(required, func(field string) bool { return field == "cluster_id" })
	}
	g.schemas[name+"Input"] = schema
	return object{"$ref": "#/components/schemas/" + name + "Input"}, nil
}

func (g *generator) message(message protoreflect.MessageDescriptor) (object, error) {
	description := g.comments[message.FullName()]
	if own, _ := proto.GetExtension(message.Options(), validate.E_Message).(*validate.MessageRules); own != nil {
		for _, rule := range own.GetCel() {
			description += " " + capital(rule.GetMessage()) + "."
		}
	}
	properties := object{}
	var required []string
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		schema, err := g.field(field)
		if err != nil {
			return nil, errors.Wrap(err, string(field.FullName()))
		}
		properties[field.JSONName()] = schema
		if rulesOf(field).GetRequired() {
			required = append(required, field.JSONName())
		}
	}
	result := object{"type": "object", "description": strings.TrimSpace(description), "properties": properties, "additionalProperties": false}
	if required != nil {
		result["required"] = required
	}
	return result, nil
}

func capital(text string) string {
	if text == "" || strings.HasPrefix(text, "nodeCount") || strings.HasPrefix(text, "maxSurge") || strings.HasPrefix(text, "minNodes") {
		return text // the name of a field
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func rulesOf(field protoreflect.FieldDescriptor) *validate.FieldRules {
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	return rules
}

func (g *generator) field(field protoreflect.FieldDescriptor) (object, error) {
	rules, words := rulesOf(field), g.comments[field.FullName()]
	for _, rule := range rules.GetCel() {
		words += " " + capital(rule.GetMessage()) + "."
	}
	var schema object
	var err error
	switch {
	case field.IsMap():
		var keys, values object
		own := rules.GetMap()
		if keys, err = g.value(field.MapKey(), own.GetKeys(), &words); err != nil {
			return nil, err
		}
		if values, err = g.value(field.MapValue(), own.GetValues(), &words); err != nil {
			return nil, err
		}
		schema = object{"type": "object", "additionalProperties": values, "propertyNames": keys}
		if own.HasMaxPairs() {
			schema["maxProperties"] = own.GetMaxPairs()
		}
	case field.IsList():
		own := rules.GetRepeated()
		var items object
		if items, err = g.value(field, own.GetItems(), &words); err != nil {
			return nil, err
		}
		schema = object{"type": "array", "items": items}
		if own.HasMinItems() {
			schema["minItems"] = own.GetMinItems()
		}
		if own.HasMaxItems() {
			schema["maxItems"] = own.GetMaxItems()
		}
		if own.GetUnique() {
			schema["uniqueItems"] = true
		}
	default:
		if schema, err = g.value(field, rules, &words); err != nil {
			return nil, err
		}
		if ref := schema["$ref"]; ref != nil && words != "" {
			// In OpenAPI 3.1 words may stand beside a reference.
			return object{"$ref": ref, "description": words}, nil
		}
	}
	if words != "" {
		schema["description"] = strings.TrimSpace(words)
	}
	return schema, nil
}

// value is the schema of one value: of a field, or in a list or map. Rules that it cannot say are added to the words.
func (g *generator) value(field protoreflect.FieldDescriptor, rules *validate.FieldRules, words *string) (object, error) {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return g.reference(field.Message())
	case protoreflect.BoolKind:
		return object{"type": "boolean"}, nil
	case protoreflect.Int32Kind:
		own := rules.GetInt32()
		schema := object{"type": "integer", "format": "int32"}
		if own.HasGte() {
			schema["minimum"] = own.GetGte()
		}
		if own.HasLte() {
			schema["maximum"] = own.GetLte()
		}
		if len(own.GetExample()) > 0 {
			schema["examples"] = own.GetExample()
		}
		return schema, nil
	case protoreflect.StringKind:
		return text(rules.GetString(), rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE, words), nil
	}
	return nil, errors.Errorf("there is no schema for the kind %s", field.Kind())
}

// The forms of most rules of shared/rules that are about texts.
var (
	matchesForm = regexp.MustCompile(`^(?:!rule \|\| )?(this == '' \|\| )?this\.matches\('([^'\\]*)'\)$`)
	oneOfForm   = regexp.MustCompile(`^(?:!rule \|\| )?this in \[('[^\]]*')\]$`)
)

func text(own *validate.StringRules, orEmpty bool, words *string) object {
	schema := object{"type": "string"}
	if own == nil {
		return schema
	}
	if own.HasMinLen() {
		schema["minLength"] = own.GetMinLen()
	}
	if own.HasMaxLen() {
		schema["maxLength"] = own.GetMaxLen()
	}
	if own.HasMaxBytes() {
		schema["maxLength"] = own.GetMaxBytes() // a byte is at most one character
	}
	if own.HasPattern() {
		schema["pattern"] = own.GetPattern()
	}
	if len(own.GetIn()) > 0 {
		schema["enum"] = own.GetIn()
	}
	if own.GetUuid() && !orEmpty {
		schema["format"] = "uuid"
	}
	if own.GetUri() {
		schema["format"] = "uri"
	}
	if len(own.GetExample()) > 0 {
		schema["examples"] = own.GetExample()
	}
	// The predefined rules of this project, in the order of their numbers.
	var extensions []protoreflect.FieldDescriptor
	own.ProtoReflect().Range(func(rule protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if rule.IsExtension() {
			extensions = append(extensions, rule)
		}
		return true
	})
	slices.SortFunc(extensions, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number() - b.Number()) })
	for _, extension := range extensions {
		predefined, _ := proto.GetExtension(extension.Options(), validate.E_Predefined).(*validate.PredefinedRules)
		for _, rule := range predefined.GetCel() {
			match, oneOf := matchesForm.FindStringSubmatch(rule.GetExpression()), oneOfForm.FindStringSubmatch(rule.GetExpression())
			switch {
			case match != nil && schema["pattern"] == nil:
				schema["pattern"] = match[2]
				if match[1] != "" {
					schema["pattern"] = "^$|" + match[2]
				}
			case oneOf != nil:
				schema["enum"] = strings.Split(strings.Trim(oneOf[1], "'"), "', '")
			case !strings.Contains(*words, rule.GetMessage()):
				*words += " It " + rule.GetMessage() + "."
			}
		}
	}
	return schema
}

// names are the keys of an object in order.
func names(o object) []string { return slices.Sorted(maps.Keys(o)) }
