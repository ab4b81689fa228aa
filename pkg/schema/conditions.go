package schema

import (
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Conditions on the fields of a message, whichever of its two names a field goes by.

// names are the keys that mean a field.
func names(fd protoreflect.FieldDescriptor) []string {
	if camel, snake := fd.JSONName(), string(fd.Name()); camel != snake {
		return []string{camel, snake}
	}
	return []string{fd.JSONName()}
}

// given: the field is there.
func given(fd protoreflect.FieldDescriptor) object {
	keys := names(fd)
	if len(keys) == 1 {
		return object{{"required", keys}}
	}
	return object{{"anyOf", []any{object{{"required", keys[:1]}}, object{{"required", keys[1:]}}}}}
}

// where: the field meets a condition if it is there.
func where(fd protoreflect.FieldDescriptor, condition object) object {
	keys := names(fd)
	if len(keys) == 1 {
		return object{{"properties", object{{keys[0], condition}}}}
	}
	return object{{"patternProperties", object{{"^(" + keys[0] + "|" + keys[1] + ")$", condition}}}}
}

// has: the field is there and meets a condition.
func has(fd protoreflect.FieldDescriptor, condition object) object {
	return append(where(fd, condition), given(fd)...)
}

// Conditions on values.
var (
	notNull  = object{{"not", object{{"type", "null"}}}}
	notEmpty = object{{"not", object{{"enum", []any{"", nil}}}}}
	isTrue   = object{{"const", true}}
	isZero   = object{{"enum", []any{0, "0", nil}}}
	anyItem  = object{{"type", "array"}, {"minItems", 1}}
)

// isValue: the enum has a value, by its name or number.
func isValue(enum protoreflect.EnumDescriptor, name protoreflect.Name) object {
	number := enum.Values().ByName(name).Number()
	return object{{"enum", []any{name, number, strconv.Itoa(int(number))}}}
}

func not(condition object) object { return object{{"not", condition}} }

func anyOf(conditions ...any) object { return object{{"anyOf", conditions}} }

func allOf(conditions ...any) object { return object{{"allOf", conditions}} }

func ifThen(condition, then object) object { return object{{"if", condition}, {"then", then}} }

// oneOf: exactly one field of a oneof is there. All oneofs of the protos are required.
func oneOf(oneof protoreflect.OneofDescriptor) object {
	var alternatives []any
	for i := range oneof.Fields().Len() {
		alternatives = append(alternatives, append(object{{"type", "object"}}, has(oneof.Fields().Get(i), notNull)...))
	}
	return object{{"oneOf", append(alternatives, object{{"type", "null"}})}}
}
