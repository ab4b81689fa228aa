package validation

import (
	"regexp"
	"slices"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// mostForms is how many forms of a type are remembered. A type that has had more is likely to have another one each time.
	mostForms = 256
	// longestForm is how long a form is at most that is remembered, in bytes.
	longestForm = 2 << 10
)

// Memo tells of messages, one after the other, whether they keep the rules of their protos. Of many manifests most say the same but for
// their names, so it remembers what was good, and does not look at it again.
//
// What is remembered of a message, and of each one in it, is its form: all of it but its free fields. These are texts that no rule of the
// message itself reads; what the rules of a free field say depends on nothing else, and they are applied each time. What is remembered is
// bounded. A memo is not safe for concurrent use.
type Memo struct {
	types   map[protoreflect.MessageDescriptor]*forms
	options []protovalidate.ValidationOption
	// known is the message whose form was good before, and free are the free fields of it.
	known protoreflect.Message
	free  []protoreflect.FieldNumber
	// fresh are the forms that were not met before, of the message that is being looked at.
	fresh      []freshForm
	wire, form []byte
}

// forms are those of the messages of a type that are good.
type forms struct {
	free []protoreflect.FieldNumber
	good map[string]struct{} // nil when there are too many
}

type freshForm struct {
	of   *forms
	form string
}

// NewMemo makes a memo that remembers nothing so far.
func NewMemo() *Memo {
	m := &Memo{types: map[protoreflect.MessageDescriptor]*forms{}}
	m.options = []protovalidate.ValidationOption{protovalidate.WithFilter(protovalidate.FilterFunc(m.applies)), protovalidate.WithFailFast()}
	return m
}

// Valid tells whether Validate gives no error for a message.
func (m *Memo) Valid(message proto.Message) bool {
	if message == nil || !message.ProtoReflect().IsValid() {
		return false
	}
	m.known, m.fresh = nil, m.fresh[:0]
	if protovalidate.Validate(message, m.options...) != nil {
		return false
	}
	for _, fresh := range m.fresh {
		fresh.of.remember(fresh.form)
	}
	return true
}

func (f *forms) remember(form string) {
	switch {
	case f.good == nil:
	case len(f.good) == mostForms:
		f.good = nil
	default:
		f.good[form] = struct{}{}
	}
}

// applies tells whether rules have to be applied: those of a message itself, of one of its fields with all that is in it, or of a oneof. Of
// each message the library asks first for itself.
func (m *Memo) applies(message protoreflect.Message, of protoreflect.Descriptor) bool {
	if message == m.known {
		field, ok := of.(protoreflect.FieldDescriptor)
		return ok && slices.Contains(m.free, field.Number())
	}
	itself, ok := of.(protoreflect.MessageDescriptor)
	if !ok {
		return true
	}
	forms := m.types[itself]
	if forms == nil {
		forms = newForms(itself)
		m.types[itself] = forms
	}
	if forms.good == nil || !m.write(message, forms.free) {
		return true
	}
	if _, good := forms.good[string(m.form)]; good {
		m.known, m.free = message, forms.free
		return false
	}
	if len(m.form) <= longestForm {
		m.fresh = append(m.fresh, freshForm{forms, string(m.form)})
	}
	return true
}

// write writes the form of a message.
func (m *Memo) write(message protoreflect.Message, free []protoreflect.FieldNumber) bool {
	var err error
	m.wire, err = proto.MarshalOptions{AllowPartial: true, Deterministic: true}.MarshalAppend(m.wire[:0], message.Interface())
	m.form = m.form[:0]
	for wire := m.wire; len(wire) > 0; {
		number, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			return false
		}
		if !slices.Contains(free, number) {
			m.form = append(m.form, wire[:n]...)
		}
		wire = wire[n:]
	}
	return err == nil
}

// this finds where an expression reads the message, and which field it reads; none when it is not one alone.
var this = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bthis\b(?:\.([A-Za-z_]\w*))?`) })

func newForms(message protoreflect.MessageDescriptor) *forms {
	rules, err := protovalidate.ResolveMessageRules(message)
	if err != nil {
		return &forms{}
	}
	expressions := slices.Clone(rules.GetCelExpression())
	for _, rule := range rules.GetCel() {
		expressions = append(expressions, rule.GetExpression())
	}
	var read []string
	for _, expression := range expressions {
		for _, found := range this().FindAllStringSubmatch(expression, -1) {
			read = append(read, found[1])
		}
	}
	for _, oneof := range rules.GetOneof() {
		read = append(read, oneof.GetFields()...)
	}
	made := &forms{good: map[string]struct{}{}}
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		isText := field.Kind() == protoreflect.StringKind && !field.IsList() && !field.HasPresence()
		if isText && !slices.Contains(read, string(field.Name())) && !slices.Contains(read, "") {
			made.free = append(made.free, field.Number())
		}
	}
	return made
}
