package manifest

import (
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// filler fills a message from a document in which nothing is out of the ordinary, several times as fast as a decoder. It knows no
// problems and no places: whatever it meets that a decoder would report, expand or look at twice, it gives up on, and the decoder reads
// the document from its beginning. What it does take, it takes as the decoder does; TestFill and FuzzParse hold the two together.
type filler struct {
	nodes int
	top   []fieldPlace // the fields of the document itself
}

// fieldPlace is where the key of a field stands.
type fieldPlace struct {
	name protoreflect.Name
	at   position
}

// fill reads a document into an empty message. When it returns false, the message is of no use.
func (f *filler) fill(root *yaml.Node, into protoreflect.Message) bool {
	f.top = make([]fieldPlace, 0, len(root.Content)/2)
	return f.message(root, into, true) && f.nodes <= maxNodes
}

// take counts a node, as the decoder does, and tells whether it is of a kind.
func (f *filler) take(node *yaml.Node, kind yaml.Kind) bool {
	f.nodes++
	return node.Kind == kind && f.nodes <= maxNodes
}

func (f *filler) message(node *yaml.Node, into protoreflect.Message, isTop bool) bool {
	plan := planOf(into.Descriptor())
	// A mapping that is tagged as null counts as absent.
	if plan == nil || !f.take(node, yaml.MappingNode) || node.Tag != "!!map" {
		return false
	}
	var seen, chosen uint64 // the fields that were given, and the oneofs
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if !f.take(key, yaml.ScalarNode) {
			return false
		}
		field := plan[key.Value]
		if field == nil || seen&field.bit != 0 {
			return false
		}
		seen |= field.bit
		if isTop {
			f.top = append(f.top, fieldPlace{field.descriptor.Name(), position{key.Line, key.Column}})
		}
		if isNull(value) {
			f.nodes++
			continue
		}
		if chosen&field.oneof != 0 || !f.field(value, field, into) {
			return false
		}
		chosen |= field.oneof
	}
	return true
}

func (f *filler) field(value *yaml.Node, field *fieldPlan, into protoreflect.Message) bool {
	switch {
	case field.isMap:
		return f.entries(value, field, into.Mutable(field.descriptor).Map())
	case field.isList:
		return f.list(value, field, into.Mutable(field.descriptor).List())
	case field.isMessage:
		return f.message(value, into.Mutable(field.descriptor).Message(), false)
	}
	read, ok := f.scalar(value, field)
	if ok {
		into.Set(field.descriptor, read)
	}
	return ok
}

func (f *filler) list(node *yaml.Node, field *fieldPlan, into protoreflect.List) bool {
	if !f.take(node, yaml.SequenceNode) {
		return false
	}
	for _, value := range node.Content {
		element, ok := f.element(value, field, into.NewElement)
		if !ok {
			return false
		}
		into.Append(element)
	}
	return true
}

// entries reads a map whose keys are texts.
func (f *filler) entries(node *yaml.Node, field *fieldPlan, into protoreflect.Map) bool {
	if !f.take(node, yaml.MappingNode) {
		return false
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if !f.take(key, yaml.ScalarNode) || isMerge(key) {
			return false
		}
		name := protoreflect.ValueOfString(key.Value).MapKey()
		element, ok := f.element(node.Content[i+1], field, into.NewValue)
		if !ok || into.Has(name) {
			return false
		}
		into.Set(name, element)
	}
	return true
}

// element reads a value inside of a list or map.
func (f *filler) element(node *yaml.Node, field *fieldPlan, empty func() protoreflect.Value) (protoreflect.Value, bool) {
	if isNull(node) {
		return protoreflect.Value{}, false
	}
	if field.isMessage {
		message := empty()
		return message, f.message(node, message.Message(), false)
	}
	return f.scalar(node, field)
}

// scalar reads a single value that is not null.
func (f *filler) scalar(node *yaml.Node, field *fieldPlan) (read protoreflect.Value, ok bool) {
	if !f.take(node, yaml.ScalarNode) {
		return read, false
	}
	switch field.kind {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(node.Value), true
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(node.Value == "true"), node.Tag == "!!bool" && (node.Value == "true" || node.Value == "false")
	case protoreflect.EnumKind:
		value := field.enum.ByName(protoreflect.Name(node.Value))
		if value == nil {
			return read, false
		}
		return protoreflect.ValueOfEnum(value.Number()), true
	case protoreflect.Int32Kind:
		value, err := strconv.ParseInt(node.Value, 10, 32)
		return protoreflect.ValueOfInt32(int32(value)), err == nil && node.Value[0] != '+'
	case protoreflect.Int64Kind:
		value, err := strconv.ParseInt(node.Value, 10, 64)
		return protoreflect.ValueOfInt64(value), err == nil && node.Value[0] != '+'
	case protoreflect.Uint32Kind:
		value, err := strconv.ParseUint(node.Value, 10, 32)
		return protoreflect.ValueOfUint32(uint32(value)), err == nil
	case protoreflect.Uint64Kind:
		value, err := strconv.ParseUint(node.Value, 10, 64)
		return protoreflect.ValueOfUint64(value), err == nil
	case protoreflect.DoubleKind:
		value, err := strconv.ParseFloat(node.Value, 64)
		return protoreflect.ValueOfFloat64(value), err == nil
	default:
		return read, false
	}
}

// fieldPlan is what the filler needs to know of a field.
type fieldPlan struct {
	descriptor    protoreflect.FieldDescriptor
	isMap, isList bool
	// isMessage, kind and enum are the type of the value, that of the elements in a list or map. The kind is 0 where the filler does
	// not read it.
	isMessage bool
	kind      protoreflect.Kind
	enum      protoreflect.EnumValueDescriptors
	// bit is the field's in the message, and oneof that of its oneof; 0 where it is in none.
	bit, oneof uint64
}

// messagePlan are the fields of a message by the keys that mean them, see fieldOf. It is nil for messages that the filler does not read.
type messagePlan map[string]*fieldPlan

// plans are the plans of the messages that were met, by their descriptors.
var plans sync.Map

func planOf(message protoreflect.MessageDescriptor) messagePlan {
	plan, ok := plans.Load(message)
	if !ok {
		plan, _ = plans.LoadOrStore(message, newPlan(message))
	}
	return plan.(messagePlan)
}

func newPlan(message protoreflect.MessageDescriptor) messagePlan {
	fields := message.Fields()
	// Well-known types have forms of their own in YAML.
	if strings.HasPrefix(string(message.FullName()), "google.protobuf.") || fields.Len() > 64 {
		return nil
	}
	plan := make(messagePlan, 2*fields.Len())
	all := make([]*fieldPlan, fields.Len())
	for i := range all {
		all[i] = newFieldPlan(fields.Get(i))
		plan[fields.Get(i).TextName()] = all[i]
	}
	for i, one := range all {
		plan[fields.Get(i).JSONName()] = one
	}
	return plan
}

func newFieldPlan(field protoreflect.FieldDescriptor) *fieldPlan {
	plan := &fieldPlan{descriptor: field, isMap: field.IsMap(), isList: field.IsList(), bit: 1 << field.Index()}
	if oneof := field.ContainingOneof(); oneof != nil {
		plan.oneof = 1 << oneof.Index()
	}
	value := field
	if plan.isMap {
		if field.MapKey().Kind() != protoreflect.StringKind {
			return plan
		}
		value = field.MapValue()
	}
	plan.kind, plan.isMessage = value.Kind(), value.Kind() == protoreflect.MessageKind
	if plan.kind == protoreflect.EnumKind {
		plan.enum = value.Enum().Values()
	}
	return plan
}
