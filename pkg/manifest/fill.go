package manifest

import (
	"math"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/validation"
)

// filler fills a message from a document in which nothing is out of the ordinary, many times as fast as a decoder. It writes what stands
// in the document in the form that messages have on the wire, which is what the library reads fastest. It knows no problems and no places:
// whatever it meets that a decoder would report, expand or look at twice, it gives up on, and the decoder reads the document from its
// beginning. What it does take, it takes as the decoder does; TestFill and FuzzParse hold the two together.
type filler struct {
	nodes int
	wire  []byte
	top   []fieldPlace // the fields of the document itself
	memo  *validation.Memo
}

// fieldPlace is where the key of a field stands.
type fieldPlace struct {
	name protoreflect.Name
	at   position
}

// read fills an empty message, and tells whether that went well and the message keeps all rules. When it returns false, the message is of
// no use.
func (f *filler) read(root *yaml.Node, into proto.Message) bool {
	return f.fill(root, into) && f.memo.Valid(into)
}

func (f *filler) fill(root *yaml.Node, into proto.Message) bool {
	f.nodes, f.wire, f.top = 0, f.wire[:0], make([]fieldPlace, 0, len(root.Content)/2)
	return f.message(root, planOf(into.ProtoReflect().Descriptor()), true) && f.nodes <= maxNodes &&
		proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(f.wire, into) == nil
}

// take counts a node, as the decoder does, and tells whether it is of a kind.
func (f *filler) take(node *yaml.Node, kind yaml.Kind) bool {
	f.nodes++
	return node.Kind == kind && f.nodes <= maxNodes
}

func (f *filler) message(node *yaml.Node, plan *messagePlan, isTop bool) bool {
	// A mapping that is tagged as null counts as absent.
	if plan.fields == nil || !f.take(node, yaml.MappingNode) || node.Tag != "!!map" {
		return false
	}
	var seen, chosen uint64 // the fields that were given, and the oneofs
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if !f.take(key, yaml.ScalarNode) {
			return false
		}
		field := plan.fields[key.Value]
		if field == nil || seen&field.bit != 0 {
			return false
		}
		seen |= field.bit
		if isTop {
			f.top = append(f.top, fieldPlace{field.name, position{key.Line, key.Column}})
		}
		if isNull(value) {
			f.nodes++
			continue
		}
		if chosen&field.oneof != 0 || !f.field(value, field) {
			return false
		}
		chosen |= field.oneof
	}
	return true
}

func (f *filler) field(value *yaml.Node, field *fieldPlan) bool {
	switch {
	case field.isMap:
		return f.entries(value, field)
	case field.isList:
		return f.list(value, field)
	default:
		return f.value(value, field, field.number)
	}
}

func (f *filler) list(node *yaml.Node, field *fieldPlan) bool {
	if !f.take(node, yaml.SequenceNode) {
		return false
	}
	for _, value := range node.Content {
		if isNull(value) || !f.value(value, field, field.number) {
			return false
		}
	}
	return true
}

// entries reads a map whose keys are texts. On the wire it is a list of messages with a key and a value.
func (f *filler) entries(node *yaml.Node, field *fieldPlan) bool {
	if !f.take(node, yaml.MappingNode) {
		return false
	}
	seen := make(map[string]bool, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if !f.take(key, yaml.ScalarNode) || isMerge(key) || seen[key.Value] || isNull(value) {
			return false
		}
		seen[key.Value] = true
		start := f.begin(field.number)
		f.wire = protowire.AppendTag(f.wire, 1, protowire.BytesType)
		f.wire = protowire.AppendString(f.wire, key.Value)
		if !f.value(value, field, 2) {
			return false
		}
		f.end(start)
	}
	return true
}

// begin writes the head of a message inside of another one, and returns where its length is to stand.
func (f *filler) begin(number protowire.Number) int {
	f.wire = append(protowire.AppendTag(f.wire, number, protowire.BytesType), 0)
	return len(f.wire)
}

// end writes the length of the message that began there. There is room for one byte.
func (f *filler) end(start int) {
	length := uint64(len(f.wire) - start)
	if more := protowire.SizeVarint(length) - 1; more > 0 {
		f.wire = append(f.wire, make([]byte, more)...)
		copy(f.wire[start+more:], f.wire[start:])
	}
	protowire.AppendVarint(f.wire[:start-1], length)
}

// value reads a single value or a message, which is not null.
func (f *filler) value(node *yaml.Node, field *fieldPlan, number protowire.Number) bool {
	if field.message != nil {
		start := f.begin(number)
		if !f.message(node, planOf(field.message), false) {
			return false
		}
		f.end(start)
		return true
	}
	if !f.take(node, yaml.ScalarNode) {
		return false
	}
	switch field.kind {
	case protoreflect.StringKind:
		f.wire = protowire.AppendTag(f.wire, number, protowire.BytesType)
		f.wire = protowire.AppendString(f.wire, node.Value)
		return true
	case protoreflect.DoubleKind:
		read, err := strconv.ParseFloat(node.Value, 64)
		f.wire = protowire.AppendTag(f.wire, number, protowire.Fixed64Type)
		f.wire = protowire.AppendFixed64(f.wire, math.Float64bits(read))
		return err == nil
	default:
		read, ok := wholeOf(node, field)
		f.wire = protowire.AppendTag(f.wire, number, protowire.VarintType)
		f.wire = protowire.AppendVarint(f.wire, read)
		return ok
	}
}

// wholeOf is a value that is a whole number on the wire.
func wholeOf(node *yaml.Node, field *fieldPlan) (uint64, bool) {
	switch field.kind {
	case protoreflect.BoolKind:
		return protowire.EncodeBool(node.Value == "true"), node.Tag == "!!bool" && (node.Value == "true" || node.Value == "false")
	case protoreflect.EnumKind:
		value := field.enum.ByName(protoreflect.Name(node.Value))
		if value == nil {
			return 0, false
		}
		return uint64(value.Number()), true
	case protoreflect.Int32Kind:
		value, err := strconv.ParseInt(node.Value, 10, 32)
		return uint64(value), err == nil && node.Value[0] != '+'
	case protoreflect.Int64Kind:
		value, err := strconv.ParseInt(node.Value, 10, 64)
		return uint64(value), err == nil && node.Value[0] != '+'
	case protoreflect.Uint32Kind:
		value, err := strconv.ParseUint(node.Value, 10, 32)
		return value, err == nil
	case protoreflect.Uint64Kind:
		value, err := strconv.ParseUint(node.Value, 10, 64)
		return value, err == nil
	default:
		return 0, false
	}
}

// fieldPlan is what the filler needs to know of a field.
type fieldPlan struct {
	name          protoreflect.Name
	number        protowire.Number
	isMap, isList bool
	// message, kind and enum are the type of the value, that of the elements in a list or map. The kind is 0 where the filler does
	// not read it.
	message protoreflect.MessageDescriptor
	kind    protoreflect.Kind
	enum    protoreflect.EnumValueDescriptors
	// bit is the field's in the message, and oneof that of its oneof; 0 where it is in none.
	bit, oneof uint64
}

// messagePlan are the fields of a message by the keys that mean them, see fieldOf. They are nil for messages that the filler does not read.
type messagePlan struct{ fields map[string]*fieldPlan }

// plans are the plans of the messages that were met, by their descriptors.
var plans sync.Map

func planOf(message protoreflect.MessageDescriptor) *messagePlan {
	plan, ok := plans.Load(message)
	if !ok {
		plan, _ = plans.LoadOrStore(message, newPlan(message))
	}
	return plan.(*messagePlan)
}

func newPlan(message protoreflect.MessageDescriptor) *messagePlan {
	fields := message.Fields()
	// Well-known types have forms of their own in YAML.
	if strings.HasPrefix(string(message.FullName()), "google.protobuf.") || fields.Len() > 64 {
		return &messagePlan{}
	}
	plan := &messagePlan{fields: make(map[string]*fieldPlan, 2*fields.Len())}
	all := make([]*fieldPlan, fields.Len())
	for i := range all {
		all[i] = newFieldPlan(fields.Get(i))
		plan.fields[fields.Get(i).TextName()] = all[i]
	}
	for i, one := range all {
		plan.fields[fields.Get(i).JSONName()] = one
	}
	return plan
}

func newFieldPlan(field protoreflect.FieldDescriptor) *fieldPlan {
	plan := &fieldPlan{name: field.Name(), number: field.Number(), isMap: field.IsMap(), isList: field.IsList(), bit: 1 << field.Index()}
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
	plan.kind = value.Kind()
	switch plan.kind {
	case protoreflect.MessageKind:
		plan.message = value.Message()
	case protoreflect.EnumKind:
		plan.enum = value.Enum().Values()
	}
	return plan
}
