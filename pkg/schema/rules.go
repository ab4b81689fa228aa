package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// rule is one rule of a proto.
type rule struct {
	id      string
	message string
	// subject is what of the field the rule is about.
	subject subject
	// expression is the CEL of the rule; empty for the rules that buf.validate has itself.
	expression string
	// value is what a rule of buf.validate is set to.
	value protoreflect.Value
}

// subject is what of a field a rule is about.
type subject string

const (
	theValue  subject = ""
	eachItem  subject = "each item"
	eachKey   subject = "each key"
	eachValue subject = "each value"
)

// ruleSet is the rules of a field.
type ruleSet struct {
	all      []rule
	examples []string
}

// find returns the rule with an id about a subject.
func (s ruleSet) find(about subject, id string) (rule, bool) {
	for _, r := range s.all {
		if r.subject == about && r.id == id {
			return r, true
		}
	}
	return rule{}, false
}

// about returns the rules about a subject.
func (s ruleSet) about(about subject) []rule {
	var found []rule
	for _, r := range s.all {
		if r.subject == about {
			found = append(found, r)
		}
	}
	return found
}

const (
	ruleRequired = "required"
	ruleConst    = "string.const"
)

// required tells that the field must be there: by a rule of its own, or because of a value that it must have.
func (s ruleSet) required() bool {
	_, required := s.find(theValue, ruleRequired)
	_, fixed := s.find(theValue, ruleConst)
	_, filled := s.find(theValue, "repeated.min_items")
	return required || fixed || filled
}

// inWords are rules as people read them. What a field's type and Required tell already is left out.
func inWords(rules []rule) []Rule {
	var words []Rule
	for _, r := range rules {
		if r.id == ruleRequired || r.id == "enum.defined_only" {
			continue
		}
		message := r.message
		if r.subject != theValue {
			message = string(r.subject) + " " + message
		}
		words = append(words, Rule{ID: r.id, Message: message})
	}
	return words
}

// messageRules are the rules of a message itself, and those of its oneofs.
func messageRules(message protoreflect.MessageDescriptor) ([]rule, error) {
	var rules []rule
	own, _ := proto.GetExtension(message.Options(), validate.E_Message).(*validate.MessageRules)
	if own != nil {
		rules = append(rules, celRules(own.GetCel(), theValue)...)
		left := proto.CloneOf(own)
		left.Cel = nil
		if proto.Size(left) > 0 {
			return nil, errors.Errorf("there are no words for the rules %v", left)
		}
	}
	for i := range message.Oneofs().Len() {
		oneof := message.Oneofs().Get(i)
		if own, _ := proto.GetExtension(oneof.Options(), validate.E_Oneof).(*validate.OneofRules); own.GetRequired() {
			names := make([]string, oneof.Fields().Len())
			for j := range names {
				names[j] = oneof.Fields().Get(j).JSONName()
			}
			rules = append(rules, rule{id: "field.oneof", message: "exactly one of " + strings.Join(names, " and ") + " is given"})
		}
	}
	return rules, nil
}

func fieldRules(fd protoreflect.FieldDescriptor) (ruleSet, error) {
	var set ruleSet
	own, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
	return set, set.add(own, theValue)
}

func celRules(expressions []*validate.Rule, about subject) []rule {
	rules := make([]rule, len(expressions))
	for i, e := range expressions {
		rules[i] = rule{id: e.GetId(), message: e.GetMessage(), subject: about, expression: e.GetExpression()}
	}
	return rules
}

// add takes the rules of a field, or of the items, keys or values in it.
func (s *ruleSet) add(own *validate.FieldRules, about subject) error {
	if own == nil {
		return nil
	}
	if own.GetRequired() {
		s.all = append(s.all, rule{id: ruleRequired, message: "must be given", subject: about})
	}
	s.all = append(s.all, celRules(own.GetCel(), about)...)
	var err error
	own.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case fd.Name() == "required" || fd.Name() == "cel":
		case fd.ContainingOneof() != nil:
			err = s.addType(string(fd.Name()), value.Message(), about)
		default:
			err = errors.Errorf("there are no words for the rule %s", fd.Name())
		}
		return err == nil
	})
	return err
}

// addType takes the rules of a type, such as StringRules.
func (s *ruleSet) addType(typeName string, own protoreflect.Message, about subject) error {
	fields := own.Descriptor().Fields()
	// In the order of the descriptor, so that everything that is made from the rules stays as it is.
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !own.Has(fd) {
			continue
		}
		value := own.Get(fd)
		switch fd.Name() {
		case "example":
			for j := range value.List().Len() {
				s.examples = append(s.examples, value.List().Get(j).String())
			}
			continue
		case "items", "keys", "values":
			inner, _ := value.Message().Interface().(*validate.FieldRules)
			if err := s.add(inner, map[protoreflect.Name]subject{"items": eachItem, "keys": eachKey, "values": eachValue}[fd.Name()]); err != nil {
				return err
			}
			continue
		}
		id := typeName + "." + string(fd.Name())
		message, err := standardWords(id, value)
		if err != nil {
			return err
		}
		if message != "" {
			s.all = append(s.all, rule{id: id, message: message, subject: about, value: value})
		}
	}
	return s.addPredefined(own, about)
}

// addPredefined takes the rules that are extensions of a type's rules, in the order of their numbers.
func (s *ruleSet) addPredefined(own protoreflect.Message, about subject) error {
	byNumber := map[protoreflect.FieldNumber][]rule{}
	var numbers []protoreflect.FieldNumber
	var err error
	own.Range(func(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if !fd.IsExtension() {
			return true
		}
		predefined, _ := proto.GetExtension(fd.Options(), validate.E_Predefined).(*validate.PredefinedRules)
		if fd.Kind() != protoreflect.BoolKind || !value.Bool() || predefined == nil {
			err = errors.Errorf("there are no words for the rule %s", fd.FullName())
			return false
		}
		numbers = append(numbers, fd.Number())
		byNumber[fd.Number()] = celRules(predefined.GetCel(), about)
		return true
	})
	slices.Sort(numbers)
	for _, number := range numbers {
		s.all = append(s.all, byNumber[number]...)
	}
	return err
}

// standardWords puts a rule that buf.validate has itself into words; they are empty where there is nothing to say.
func standardWords(id string, value protoreflect.Value) (string, error) {
	switch id {
	case ruleConst:
		return "must be " + value.String(), nil
	case "string.min_len":
		return "must have at least " + count(value, "character"), nil
	case "string.max_len":
		return "must have at most " + count(value, "character"), nil
	case "uint32.gt":
		return "must be greater than " + value.String(), nil
	case "double.gte":
		return "must be at least " + value.String(), nil
	case "double.lte":
		return "must be at most " + value.String(), nil
	case "repeated.min_items":
		return "must have at least " + count(value, "item"), nil
	case "repeated.unique":
		if !value.Bool() {
			return "", nil
		}
		return "must have each item once", nil
	case "enum.defined_only":
		return "must be one of the values", nil
	default:
		return "", errors.Errorf("there are no words for the rule %s", id)
	}
}

func count(value protoreflect.Value, noun string) string {
	if value.Uint() != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%s %s", strconv.FormatUint(value.Uint(), 10), noun)
}
