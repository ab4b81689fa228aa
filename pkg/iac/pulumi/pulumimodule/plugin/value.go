package plugin

import "github.com/pulumi/pulumi/sdk/v3/go/common/resource"

// Known takes the wrappers of secrets and of known outputs off a value.
func Known(value resource.PropertyValue) resource.PropertyValue {
	for {
		switch {
		case value.IsSecret():
			value = value.SecretValue().Element
		case value.IsOutput() && value.OutputValue().Known:
			value = value.OutputValue().Element
		default:
			return value
		}
	}
}

// Filled tells whether a value is known and has something in it: an element, a property or a letter.
func Filled(value resource.PropertyValue) bool {
	value = Known(value)
	switch {
	case value.IsArray():
		return len(value.ArrayValue()) > 0
	case value.IsObject():
		return len(value.ObjectValue()) > 0
	case value.IsString():
		return value.StringValue() != ""
	}
	return false
}

// Emptied tells whether a value is absent, or known to have nothing in it. One that a preview cannot know may have.
func Emptied(value resource.PropertyValue) bool {
	value = Known(value)
	return !value.IsComputed() && !value.IsOutput() && !Filled(value)
}
