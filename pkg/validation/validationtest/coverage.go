package validationtest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// uncovered returns the rules of a message, and of the messages inside it, that none of the expected violations is of.
func uncovered(md protoreflect.MessageDescriptor, expected []Violation) []Violation {
	covered := map[Violation]bool{}
	for _, v := range expected {
		covered[Violation{Field: brackets.ReplaceAllString(v.Field, "[]"), Rule: v.Rule}] = true
	}
	var missing []Violation
	for _, rule := range Rules(md) {
		if !covered[rule] {
			missing = append(missing, rule)
		}
	}
	return missing
}

// brackets matches the index or the quoted key of a path's step.
var brackets = regexp.MustCompile(`\["[^"]*"\]|\[[0-9]+\]`)

// Rules returns the rules of a message and of the messages inside it as their descriptors carry them, with [] for every
// index and key, ordered by path and id. A rule that another one of the same field shadows (required, and greater than 0)
// is left out: it can never be broken alone.
func Rules(md protoreflect.MessageDescriptor) []Violation {
	rules := messageRules("", md)
	// protoreflect ranges over extensions in no order.
	slices.SortFunc(rules, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(rules)
}

func messageRules(path string, md protoreflect.MessageDescriptor) []Violation {
	var rules []Violation
	if own := must(protovalidate.ResolveMessageRules(md)); own != nil {
		for _, rule := range own.GetCel() {
			rules = append(rules, Violation{Field: path, Rule: rule.GetId()})
		}
	}
	for i := range md.Oneofs().Len() {
		oneof := md.Oneofs().Get(i)
		if own := must(protovalidate.ResolveOneofRules(oneof)); own.GetRequired() {
			rules = append(rules, Violation{Field: join(path, string(oneof.Name())), Rule: "required"})
		}
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		at := join(path, string(fd.Name()))
		if own := must(protovalidate.ResolveFieldRules(fd)); own != nil {
			rules = append(rules, fieldRules(at, own.ProtoReflect())...)
		}
		if fd.Kind() == protoreflect.MessageKind && !fd.IsMap() {
			if fd.IsList() {
				at += "[]"
			}
			rules = append(rules, messageRules(at, fd.Message())...)
		}
	}
	return rules
}

// fieldRules returns the rules in a buf.validate.FieldRules message.
func fieldRules(path string, own protoreflect.Message) []Violation {
	var rules []Violation
	fields := own.Descriptor().Fields()
	required := own.Get(fields.ByName("required")).Bool()
	if required {
		rules = append(rules, Violation{Field: path, Rule: "required"})
	}
	rules = append(rules, celRules(path, own)...)
	own.Range(func(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if fd.ContainingOneof() == nil {
			return true // required, cel and the like: not the rules of a type
		}
		rules = append(rules, typeRules(path, string(fd.Name()), required, value.Message())...)
		return true
	})
	return rules
}

// typeRules returns the rules in a message such as buf.validate.StringRules: the standard ones by their name, the
// predefined ones (extensions) by the ids of their CEL expressions.
func typeRules(path, typeName string, required bool, own protoreflect.Message) []Violation {
	var rules []Violation
	var lower, upper string
	own.Range(func(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case fd.IsExtension():
			predefined := must(protovalidate.ResolvePredefinedRules(fd))
			for _, rule := range predefined.GetCel() {
				rules = append(rules, Violation{Field: path, Rule: rule.GetId()})
			}
		case fd.Name() == "example":
			// Nothing breaks an example: it is documentation.
		case fd.Name() == "items" || fd.Name() == "keys" || fd.Name() == "values":
			rules = append(rules, fieldRules(path+"[]", value.Message())...)
		case fd.Name() == "gt" || fd.Name() == "gte":
			if required && fd.Name() == "gt" && value.Interface() == any(uint32(0)) {
				return true // shadowed: 0 is absent
			}
			lower = string(fd.Name())
		case fd.Name() == "lt" || fd.Name() == "lte":
			upper = string(fd.Name())
		default:
			rules = append(rules, Violation{Field: path, Rule: typeName + "." + string(fd.Name())})
		}
		return true
	})
	switch {
	case lower != "" && upper != "":
		rules = append(rules, Violation{Field: path, Rule: typeName + "." + lower + "_" + upper})
	case lower+upper != "":
		rules = append(rules, Violation{Field: path, Rule: typeName + "." + lower + upper})
	}
	return rules
}

// celRules returns the rules in the `cel` field of a rules message.
func celRules(path string, own protoreflect.Message) []Violation {
	var rules []Violation
	list := own.Get(own.Descriptor().Fields().ByName("cel")).List()
	for i := range list.Len() {
		rule := list.Get(i).Message()
		id := rule.Get(rule.Descriptor().Fields().ByName("id")).String()
		rules = append(rules, Violation{Field: path, Rule: id})
	}
	return rules
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// must returns the rules that a descriptor carries. They are compiled in: that they cannot be read is a mistake of the build.
func must[T proto.Message](rules T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("read the rules of a descriptor: %v", err))
	}
	return rules
}
