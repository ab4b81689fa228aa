// Package schema tells what can stand in a manifest: the fields of each kind with their comments, rules, defaults and examples
// (Find), JSON Schemas for editors (JSONSchema), and starter manifests (Starter).
//
// All of it is read from the protos. Types, rules and examples stand in the descriptors that are linked into the program; comments do
// not, so protos.binpb has them: an image of the protos that `make generate` builds with buf. It is parsed when the first comment is
// asked for, and not before.
package schema

import (
	"slices"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Field is one field that manifests can have, or a whole manifest.
type Field struct {
	// Path leads to the field from the manifest's top, in camelCase, such as "spec.additionalNodePools.name". Empty for a manifest.
	Path string `json:"path"`
	// Name is the key, in camelCase; the kind for a manifest.
	Name string `json:"name"`
	// Alias is the key in snake_case, which means the same; empty where it is no other word.
	Alias string `json:"alias,omitempty"`
	// Type is "string", "integer", "number", "boolean", "enum", "reference", "object", or one of these after "[]" or "map[string]".
	Type string `json:"type"`
	// Required tells that a manifest is invalid without the field; of a field in an object, that the object is.
	Required bool `json:"required"`
	// Default is what holds when the field is absent, in words; empty where that is nothing in particular.
	Default string `json:"default,omitempty"`
	// Examples are values that keep the rules. For a map they are keys and values in turn.
	Examples []string `json:"examples,omitempty"`
	// Description is the comment of the proto.
	Description string `json:"description,omitempty"`
	// Values are those of an enum.
	Values []Value `json:"values,omitempty"`
	// Reference is what a reference means when it names no kind and no output; nil for other fields.
	Reference *Reference `json:"reference,omitempty"`
	// Rules are what is checked, in words.
	Rules []Rule `json:"rules,omitempty"`
	// Fields are those of an object, or of the objects in a list.
	Fields []*Field `json:"fields,omitempty"`

	descriptor protoreflect.FieldDescriptor // nil for a manifest
	message    protoreflect.MessageDescriptor
	warns      bool
}

// Value is one value of an enum.
type Value struct {
	// Name is the value as manifests write it.
	Name string `json:"name"`
	// Description is the comment of the proto.
	Description string `json:"description,omitempty"`
	number      protoreflect.EnumNumber
}

// Reference is what a reference means by default.
type Reference struct {
	// Kind is the kind of the other resource.
	Kind string `json:"kind"`
	// FieldPath is its output, such as "status.outputs.network_id".
	FieldPath string `json:"fieldPath"`
}

// Rule is something that is checked.
type Rule struct {
	// ID names the rule, as problems do.
	ID string `json:"id"`
	// Message says what is allowed.
	Message string `json:"message"`
}

// Manifest describes the manifests of a kind.
func Manifest(kind kinds.Kind) (*Field, error) {
	message := kind.NewTarget().ProtoReflect().Descriptor()
	description, err := commentOf(message)
	if err != nil {
		return nil, err
	}
	rules, err := messageRules(message)
	if err != nil {
		return nil, err
	}
	manifest := &Field{
		Name: kind.Name, Type: "object", Description: description, Rules: inWords(rules), message: message,
	}
	manifest.Fields, err = fieldsOf(message, "")
	return manifest, err
}

// Find describes a field of a kind's manifests by its path, in camelCase or snake_case, in any letter case, and with or without
// indices: "spec.defaultNodePool.size". The empty path is the manifest. The error is an *UnknownFieldError when there is none.
func Find(kind kinds.Kind, path string) (*Field, error) {
	field, err := Manifest(kind)
	if err != nil || path == "" {
		return field, err
	}
	for _, step := range strings.Split(path, ".") {
		step, _, _ = strings.Cut(step, "[")
		i := slices.IndexFunc(field.Fields, func(f *Field) bool {
			return strings.EqualFold(f.Name, step) || step != "" && strings.EqualFold(f.Alias, step)
		})
		if i < 0 {
			return nil, &UnknownFieldError{Kind: kind, Parent: field, Name: step}
		}
		field = field.Fields[i]
	}
	return field, nil
}

// UnknownFieldError is the error of a path that leads nowhere.
type UnknownFieldError struct {
	// Kind is the kind that was asked about.
	Kind kinds.Kind
	// Parent is the last field of the path that there is.
	Parent *Field
	// Name is the one that there is not.
	Name string
}

// Error names the fields that there are.
func (e *UnknownFieldError) Error() string {
	place := e.Kind.Name
	if e.Parent.Path != "" {
		place += "." + e.Parent.Path
	}
	if len(e.Parent.Fields) == 0 {
		return place + " has no fields: it is " + article(e.Parent.Type)
	}
	names := make([]string, len(e.Parent.Fields))
	for i, field := range e.Parent.Fields {
		names[i] = field.Name
	}
	return place + " has no field \"" + e.Name + "\"; the fields are " + strings.Join(names, ", ")
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// Walk visits a field and all fields in it, in the order of the protos.
func (f *Field) Walk(visit func(*Field)) {
	visit(f)
	for _, inner := range f.Fields {
		inner.Walk(visit)
	}
}

func fieldsOf(message protoreflect.MessageDescriptor, path string) ([]*Field, error) {
	var fields []*Field
	for i := range message.Fields().Len() {
		field, err := describe(message.Fields().Get(i), path)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

func describe(fd protoreflect.FieldDescriptor, parent string) (*Field, error) {
	description, err := commentOf(fd)
	if err != nil {
		return nil, err
	}
	rules, err := fieldRules(fd)
	if err != nil {
		return nil, errors.Wrapf(err, "read the rules of %s", fd.FullName())
	}
	field := &Field{
		Path:        joinPath(parent, fd.JSONName()),
		Name:        fd.JSONName(),
		Type:        typeOf(fd),
		Required:    rules.required(),
		Default:     defaultOf(fd, description),
		Examples:    rules.examples,
		Description: description,
		Rules:       inWords(rules.all),
		descriptor:  fd,
		// The protos say so of fields that the platform cannot honour.
		warns: strings.Contains(description, "a value here gives a warning"),
	}
	if name := string(fd.Name()); name != field.Name {
		field.Alias = name
	}
	if fd.IsMap() {
		return field, nil
	}
	if fd.Kind() == protoreflect.EnumKind {
		field.Values, err = valuesOf(fd.Enum())
		return field, err
	}
	field.message = fd.Message()
	if field.message == nil {
		return field, nil
	}
	inner, err := messageRules(field.message)
	if err != nil {
		return nil, errors.Wrapf(err, "read the rules of %s", field.message.FullName())
	}
	field.Rules = append(field.Rules, inWords(inner)...)
	if isReference(fd) {
		kind, _ := proto.GetExtension(fd.Options(), foreignkeyv1.E_DefaultKind).(cloudresourcekind.CloudResourceKind)
		path, _ := proto.GetExtension(fd.Options(), foreignkeyv1.E_DefaultKindFieldPath).(string)
		field.Reference = &Reference{Kind: kind.String(), FieldPath: path}
	}
	field.Fields, err = fieldsOf(field.message, field.Path)
	return field, err
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// isReference tells a field whose value may be an output of another resource.
func isReference(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == (&foreignkeyv1.StringValueOrRef{}).ProtoReflect().Descriptor().FullName()
}

func typeOf(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "map[string]" + elementType(fd.MapValue())
	case fd.IsList():
		return "[]" + elementType(fd)
	default:
		return elementType(fd)
	}
}

func elementType(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "boolean"
	case protoreflect.EnumKind:
		return "enum"
	case protoreflect.StringKind, protoreflect.BytesKind:
		return "string"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "number"
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if isReference(fd) {
			return "reference"
		}
		return "object"
	default:
		return "integer"
	}
}

// valuesOf are the values of an enum but for the one that stands for none.
func valuesOf(enum protoreflect.EnumDescriptor) ([]Value, error) {
	var values []Value
	for i := range enum.Values().Len() {
		value := enum.Values().Get(i)
		if value.Number() == 0 {
			continue
		}
		description, err := commentOf(value)
		if err != nil {
			return nil, err
		}
		values = append(values, Value{Name: string(value.Name()), Description: description, number: value.Number()})
	}
	return values, nil
}

// defaultOf is what holds when a field is absent. The comments of the protos tell it as "; tcp when absent."
func defaultOf(fd protoreflect.FieldDescriptor, comment string) string {
	if before, _, found := strings.Cut(comment, " when absent"); found {
		before = before[max(strings.LastIndex(before, ". ")+1, strings.LastIndex(before, ";")+1, strings.LastIndex(before, ", ")+1):]
		return strings.Trim(before, " ,\"")
	}
	if fd.Kind() == protoreflect.BoolKind && !fd.IsList() {
		return "false"
	}
	return ""
}
