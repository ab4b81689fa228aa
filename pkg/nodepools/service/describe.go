package service

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDifferences is how many changed fields an event tells in words.
const maxDifferences = 5

// describeUpdate is what people read of an update.
func describeUpdate(o *object, nameBefore string, specBefore, spec proto.Message) string {
	var parts []string
	if name := o.resource().GetName(); name != nameBefore {
		parts = append(parts, "renamed to "+name)
	}
	changed := differences(specBefore.ProtoReflect(), spec.ProtoReflect(), "spec")
	if len(changed) > maxDifferences {
		changed = append(changed[:maxDifferences], fmt.Sprintf("and %d more fields", len(changed)-maxDifferences))
	}
	if len(changed) > 0 {
		parts = append(parts, "changed: "+strings.Join(changed, ", "))
	}
	return noun(o.Kind) + " " + nameBefore + " " + strings.Join(parts, " and ")
}

// differences are the fields in which two messages of one type differ, in the order of their numbers, each with its values where they
// are short. Of secrets, only the path is told.
func differences(before, after protoreflect.Message, path string) []string {
	var result []string
	fields := before.Descriptor().Fields()
	numbers := make([]protoreflect.FieldDescriptor, fields.Len())
	for i := range numbers {
		numbers[i] = fields.Get(i)
	}
	slices.SortFunc(numbers, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number()) - int(b.Number()) })
	for _, field := range numbers {
		at := path + "." + field.JSONName()
		had, has := before.Has(field), after.Has(field)
		if !had && !has || had == has && before.Get(field).Equal(after.Get(field)) {
			continue
		}
		switch {
		case isSecret(field):
			result = append(result, at)
		case field.IsList() || field.IsMap():
			result = append(result, at)
		case field.Message() != nil && had && has:
			result = append(result, differences(before.Get(field).Message(), after.Get(field).Message(), at)...)
		case field.Message() != nil:
			result = append(result, at+map[bool]string{true: " added", false: " removed"}[has])
		default:
			result = append(result, fmt.Sprintf("%s from %s to %s", at, shown(before, field), shown(after, field)))
		}
	}
	return result
}

// shown is the value of a field of one value in words.
func shown(message protoreflect.Message, field protoreflect.FieldDescriptor) string {
	if !message.Has(field) && field.HasPresence() {
		return "none"
	}
	text := fmt.Sprint(message.Get(field).Interface())
	if len(text) > 64 {
		return "a long text"
	}
	return text
}
