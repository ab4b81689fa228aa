package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// JSONSchema is the JSON Schema (2020-12) of a kind's manifests, indented. It takes what the loader of manifests takes: keys in
// camelCase and in snake_case, null for what is absent, texts without quotes that look like numbers, and so on. What it cannot say
// stands in Beyond.
func JSONSchema(kind kinds.Kind) ([]byte, error) {
	g := &generator{}
	root, err := g.manifest(kind)
	if err != nil {
		return nil, err
	}
	return indent(object{{"$schema", dialect}, {"title", kind.Name}, {"$ref", root}, {"type", "object"}, {"$defs", g.definitions}})
}

// AllJSONSchema is one JSON Schema for the manifests of all kinds: the kind that a manifest names chooses what else it can have.
func AllJSONSchema() ([]byte, error) {
	g := &generator{}
	var names, versions, choices []any
	for _, kind := range kinds.All() {
		root, err := g.manifest(kind)
		if err != nil {
			return nil, err
		}
		names = append(names, kind.Name)
		if !slices.Contains(versions, any(kind.APIVersion)) {
			versions = append(versions, kind.APIVersion)
		}
		choices = append(choices, object{
			{"if", object{{"required", []string{"kind"}}, {"properties", object{{"kind", object{{"const", kind.Name}}}}}}},
			{"then", object{{"$ref", root}}},
		})
	}
	return indent(object{
		{"$schema", dialect},
		{"title", "Manifests of planton"},
		{"type", "object"},
		{"required", []string{"kind"}},
		{"properties", object{
			{"apiVersion", object{{"description", "The version of the schema."}, {"enum", versions}}},
			{"kind", object{{"description", "The kind of the resource."}, {"enum", names}}},
		}},
		{"allOf", choices},
		{"$defs", g.definitions},
	})
}

func indent(schema object) ([]byte, error) {
	compact, err := marshal(schema)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, errors.Wrap(err, "indent a schema")
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// generator makes schemas, and the definitions that they share.
type generator struct {
	definitions object
}

func (g *generator) manifest(kind kinds.Kind) (string, error) {
	return g.define(kind.NewTarget().ProtoReflect().Descriptor())
}

// define makes the definition of a message, unless there is one, and returns a reference to it.
func (g *generator) define(message protoreflect.MessageDescriptor) (string, error) {
	name := string(message.Name())
	if g.definitions.get(name) == nil {
		g.definitions.set(name, object{}) // keeps its place among those that it defines in turn
		definition, err := g.message(message)
		if err != nil {
			return "", err
		}
		g.definitions.set(name, definition)
	}
	return "#/$defs/" + name, nil
}

// message is the schema of a message. It allows null, too: whoever does not says so beside the reference.
func (g *generator) message(message protoreflect.MessageDescriptor) (object, error) {
	description, err := commentOf(message)
	if err != nil {
		return nil, err
	}
	var properties, aliases, exclusive object
	var required []string
	var all []any
	for i := range message.Fields().Len() {
		fd := message.Fields().Get(i)
		field, needed, err := g.field(fd)
		if err != nil {
			return nil, errors.Wrapf(err, "make the schema of %s", fd.FullName())
		}
		camel, snake := fd.JSONName(), string(fd.Name())
		properties.set(camel, field)
		if snake != camel {
			// As a pattern the other name is taken, and does not stand among what an editor offers.
			aliases.set("^"+snake+"$", object{{"$ref", "#/$defs/" + string(message.Name()) + "/properties/" + camel}})
			exclusive.set(snake, object{{"properties", object{{camel, false}}}})
		}
		switch {
		case needed && snake == camel:
			required = append(required, camel)
		case needed:
			all = append(all, given(fd))
		}
	}
	for i := range message.Oneofs().Len() {
		all = append(all, oneOf(message.Oneofs().Get(i)))
	}
	rules, err := messageRules(message)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if r.expression == "" {
			continue // a oneof
		}
		translated, err := translateMessage(r, message)
		if err != nil {
			return nil, errors.Wrapf(err, "make the schema of %s", message.FullName())
		}
		if translated != nil {
			all = append(all, translated)
		}
	}

	schema := object{{"description", description}, {"type", []string{"object", "null"}}}
	if required != nil {
		schema.set("required", required)
	}
	schema.set("properties", properties)
	if aliases != nil {
		schema.set("patternProperties", aliases)
		schema.set("dependentSchemas", exclusive)
	}
	schema.set("additionalProperties", false)
	if all != nil {
		schema.set("allOf", all)
	}
	return schema, nil
}

// field is the schema of a field, and whether the field must be there.
func (g *generator) field(fd protoreflect.FieldDescriptor) (schema object, needed bool, err error) {
	rules, err := fieldRules(fd)
	if err != nil {
		return nil, false, err
	}
	comment, err := commentOf(fd)
	if err != nil {
		return nil, false, err
	}
	needed = rules.required()
	describe := func(value object) object {
		described := object{{"description", comment}}
		if word := defaultOf(fd, comment); word != "" && elementType(fd) == "enum" && fd.Enum().Values().ByName(protoreflect.Name(word)) != nil {
			described.set("default", word)
		} else if word == "false" && !needed {
			described.set("default", false)
		}
		if reference := isReference(fd); reference {
			described.set("description", comment+referenceWords(fd))
		}
		if examples := examplesOf(fd, rules); examples != nil {
			described.set("examples", examples)
		}
		return append(described, value...)
	}
	switch {
	case fd.IsMap():
		keys, err := stringSchema(rules.about(eachKey), false)
		if err != nil {
			return nil, false, err
		}
		values, err := g.element(fd.MapValue(), rules.about(eachValue), false)
		if err != nil {
			return nil, false, err
		}
		// Keys are texts always.
		keys.set("type", "string")
		schema := object{{"type", orNull("object", !needed)}, {"propertyNames", keys}, {"additionalProperties", values}}
		return describe(schema), needed, nil
	case fd.IsList():
		items, err := g.element(fd, rules.about(eachItem), false)
		if err != nil {
			return nil, false, err
		}
		schema := object{{"type", orNull("array", !needed)}, {"items", items}}
		for _, r := range rules.about(theValue) {
			switch r.id {
			case ruleRequired:
				schema.set("minItems", 1)
			case "repeated.min_items":
				schema.set("minItems", r.value.Uint())
				needed = true
			case "repeated.unique":
				schema.set("uniqueItems", true)
			case "taints.unique":
				// Of two taints of one key and effect, only two that are the same in all are seen.
				schema.set("uniqueItems", true)
				if !isBeyond(r.id) {
					return nil, false, untranslated(r)
				}
			default:
				return nil, false, untranslated(r)
			}
		}
		if needed {
			schema.set("type", "array")
		}
		return describe(schema), needed, nil
	default:
		if fd.Kind() == protoreflect.StringKind && !fd.HasPresence() && !needed {
			checks, err := textChecks(rules.about(theValue))
			if err != nil {
				return nil, false, err
			}
			needed = !takesAny(checks, "") // an absent text is an empty one
		}
		value, err := g.element(fd, rules.about(theValue), !needed)
		return describe(value), needed, err
	}
}

func referenceWords(fd protoreflect.FieldDescriptor) string {
	field, err := describe(fd, "")
	if err != nil || field.Reference == nil {
		return ""
	}
	return fmt.Sprintf(" A value, or valueFrom a %s (%s, unless fieldPath says otherwise).", field.Reference.Kind, field.Reference.FieldPath)
}

// examplesOf are the examples of a field as values of its type.
func examplesOf(fd protoreflect.FieldDescriptor, rules ruleSet) []any {
	var examples []any
	for _, text := range rules.examples {
		value := exampleValue(fd, text)
		switch {
		case fd.IsMap():
			return []any{object{{rules.examples[0], rules.examples[1]}}}
		case fd.IsList():
			value = []any{value}
		}
		examples = append(examples, value)
	}
	return examples
}

func exampleValue(fd protoreflect.FieldDescriptor, text string) any {
	switch elementType(fd) {
	case "enum":
		number, _ := strconv.Atoi(text)
		return string(fd.Enum().Values().ByNumber(protoreflect.EnumNumber(number)).Name())
	case "integer", "number", "boolean":
		return json.RawMessage(text)
	default:
		return text
	}
}

// element is the schema of one value: of a field, or in a list or map.
func (g *generator) element(fd protoreflect.FieldDescriptor, rules []rule, optional bool) (object, error) {
	switch elementType(fd) {
	case "boolean":
		return object{{"type", orNull("boolean", optional)}}, noRules(rules)
	case "string":
		return stringSchema(rules, optional)
	case "integer":
		return integerSchema(rules, optional)
	case "number":
		return numberSchema(rules, optional)
	case "enum":
		return enumSchema(fd.Enum(), rules, optional)
	default:
		reference, err := g.define(fd.Message())
		if err != nil {
			return nil, err
		}
		schema := object{{"$ref", reference}}
		if !optional {
			schema.set("type", "object")
		}
		return schema, noRules(rules)
	}
}

// noRules fails when there is a rule that nothing is made of.
func noRules(rules []rule) error {
	for _, r := range rules {
		if r.id != ruleRequired {
			return untranslated(r)
		}
	}
	return nil
}

func untranslated(r rule) error {
	return errors.Errorf("the rule %s (%s) has no translation to JSON Schema: give it one in pkg/schema/translate.go, or name it in beyond.go",
		r.id, r.expression)
}

func orNull(name string, optional bool) any {
	if optional {
		return []string{name, "null"}
	}
	return name
}

// What is not a text in YAML is read as one where a text is expected: kubernetesVersion: 1.31. Whether any such value keeps the
// rules of a field is told by these.
var (
	wholeTexts   = []string{"0", "1", "7", "10", "80", "443", "8080"}
	decimalTexts = []string{"0.5", "1.31", "1.5"}
	booleanTexts = []string{"true", "false"}
)

// textChecks are the checks of a text with rules.
func textChecks(rules []rule) ([]check, error) {
	var checks []check
	for _, r := range rules {
		switch r.id {
		case ruleRequired:
			checks = append(checks, minLength(1))
		case "string.min_len":
			checks = append(checks, minLength(r.value.Uint()))
		case "string.max_len":
			checks = append(checks, maxLength(r.value.Uint()))
		default:
			translated, err := translateText(r)
			if err != nil {
				return nil, err
			}
			checks = append(checks, translated...)
		}
	}
	return checks, nil
}

// takesAny tells whether one of some texts passes all checks.
func takesAny(checks []check, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return !slices.ContainsFunc(checks, func(c check) bool { return !c.takes(text) })
	})
}

// stringSchema is the schema of a text with rules.
func stringSchema(rules []rule, optional bool) (object, error) {
	if i := slices.IndexFunc(rules, func(r rule) bool { return r.id == ruleConst }); i >= 0 {
		return object{{"const", rules[i].value.String()}}, nil
	}
	checks, err := textChecks(rules)
	if err != nil {
		return nil, err
	}
	var schema object
	types := []string{"string"}
	negative := takesAny(checks, "-1", "-10", "-0.5")
	switch {
	case takesAny(checks, decimalTexts...):
		types = append(types, "number")
	case takesAny(checks, wholeTexts...):
		types = append(types, "integer")
	}
	if takesAny(checks, booleanTexts...) {
		types = append(types, "boolean")
	}
	if optional {
		types = append(types, "null")
	}
	schema.set("type", types)
	if len(types) == 1 {
		schema.set("type", "string")
	}
	if (slices.Contains(types, "integer") || slices.Contains(types, "number")) && !negative {
		schema.set("minimum", 0)
	}
	// What two rules say in the same words stands apart.
	var apart []any
	for _, c := range checks {
		c := c.orNull(optional)
		if slices.ContainsFunc(c.schema, func(m member) bool { return schema.get(m.key) != nil && m.key != "minimum" }) {
			apart = append(apart, c.schema)
			continue
		}
		for _, m := range c.schema {
			schema.set(m.key, m.value)
		}
	}
	if apart != nil {
		schema.set("allOf", apart)
	}
	return schema, nil
}

// A number in quotes is a number, too.
const (
	wholeText    = "^[0-9]+$"
	positiveText = "^0*[1-9][0-9]*$"
	decimalText  = `^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$`
)

func integerSchema(rules []rule, optional bool) (object, error) {
	minimum, text := uint64(0), wholeText
	for _, r := range rules {
		switch r.id {
		case ruleRequired:
			minimum = max(minimum, 1)
		case "uint32.gt":
			minimum = max(minimum, r.value.Uint()+1)
		default:
			return nil, untranslated(r)
		}
	}
	if minimum > 0 {
		text = positiveText
	}
	types := []string{"integer", "string"}
	if optional {
		types = append(types, "null")
	}
	return object{{"type", types}, {"minimum", minimum}, {"maximum", uint64(1<<32 - 1)}, {"pattern", text}}, nil
}

func numberSchema(rules []rule, optional bool) (object, error) {
	types := []string{"number", "string"}
	if optional {
		types = append(types, "null")
	}
	schema := object{{"type", types}}
	for _, r := range rules {
		switch r.id {
		case "double.gte":
			schema.set("minimum", r.value.Float())
		case "double.lte":
			schema.set("maximum", r.value.Float())
		default:
			return nil, untranslated(r)
		}
	}
	schema.set("pattern", decimalText)
	return schema, nil
}

// enumSchema takes the names of an enum, and their numbers.
func enumSchema(enum protoreflect.EnumDescriptor, rules []rule, optional bool) (object, error) {
	values, err := valuesOf(enum)
	if err != nil {
		return nil, err
	}
	defined := false
	for _, r := range rules {
		switch r.id {
		case ruleRequired:
		case "enum.defined_only":
			defined = true
		default:
			return nil, untranslated(r)
		}
	}
	if !defined {
		return nil, errors.Errorf("the enum %s takes numbers that it does not have: give its field the rule defined_only", enum.FullName())
	}
	names := make([]any, len(values))
	described := make([]string, len(values))
	numbers := make([]string, len(values))
	var ranges []any
	for i, value := range values {
		names[i], numbers[i], described[i] = value.Name, strconv.Itoa(int(value.number)), value.Description
		ranges = append(ranges, object{{"const", value.number}})
	}
	named := object{{"enum", names}}
	if slices.ContainsFunc(described, func(text string) bool { return text != "" }) {
		named.set("enumDescriptions", described) // how editors show them; no part of the standard
	}
	if optional {
		ranges = append(ranges, object{{"const", 0}})
		numbers = append(numbers, "0")
	}
	alternatives := []any{
		named,
		object{{"type", "integer"}, {"anyOf", ranges}},
		object{{"type", "string"}, {"pattern", "^(" + strings.Join(numbers, "|") + ")$"}},
	}
	if optional {
		zero := regexp.QuoteMeta(string(enum.Values().ByNumber(0).Name()))
		alternatives = append(alternatives, object{{"type", "string"}, {"pattern", "^" + zero + "$"}}, object{{"type", "null"}})
	}
	return object{{"anyOf", alternatives}}, nil
}
