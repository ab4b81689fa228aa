package nativeprovider

import (
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// Keys of the Terraform bridge that stand among the properties. One more, __pulumi_raw_state_delta, translates a state back to Terraform's
// own form: it describes the exact shape of the state beside it, so a state that this package writes goes without, and the bridge takes the
// way that it took before that key existed.
const (
	defaultsKey = "__defaults"
	metaKey     = "__meta"
)

// reserved tells whether key belongs to the engine or the bridge.
func reserved(key resource.PropertyKey) bool { return strings.HasPrefix(string(key), "__") }

// plainValue is v without secret and output wrappers and without keys of the bridge, all the way down. Values that are not known become
// Computed.
func plainValue(v resource.PropertyValue) resource.PropertyValue {
	switch {
	case v.IsSecret():
		return plainValue(v.SecretValue().Element)
	case v.IsOutput():
		if !v.OutputValue().Known {
			return unknown()
		}
		return plainValue(v.OutputValue().Element)
	case v.IsComputed():
		return unknown()
	case v.IsArray():
		elements := make([]resource.PropertyValue, len(v.ArrayValue()))
		for i, element := range v.ArrayValue() {
			elements[i] = plainValue(element)
		}
		return resource.NewArrayProperty(elements)
	case v.IsObject():
		return resource.NewObjectProperty(plainMap(v.ObjectValue()))
	default:
		return v
	}
}

// plainMap is plainValue of each value; null values and keys of the bridge are left out.
func plainMap(m resource.PropertyMap) resource.PropertyMap {
	plain := make(resource.PropertyMap, len(m))
	for key, value := range m {
		if reserved(key) {
			continue
		}
		if value = plainValue(value); !value.IsNull() {
			plain[key] = value
		}
	}
	return plain
}

func unknown() resource.PropertyValue {
	return resource.MakeComputed(resource.NewStringProperty(""))
}

func containsUnknowns(m resource.PropertyMap) bool {
	return resource.NewObjectProperty(m).ContainsUnknowns()
}

// isEmpty tells whether a cloud sees no difference between v and a value that was not given: null, "", 0, false, an empty list or map.
func isEmpty(v resource.PropertyValue) bool {
	switch {
	case v.IsNull():
		return true
	case v.IsString():
		return v.StringValue() == ""
	case v.IsNumber():
		return v.NumberValue() == 0
	case v.IsBool():
		return !v.BoolValue()
	case v.IsArray():
		return len(v.ArrayValue()) == 0
	case v.IsObject():
		for key, value := range v.ObjectValue() {
			if !reserved(key) && !isEmpty(value) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// native is a plain value as Go: string, int (for Int), float64, bool, []any, map[string]any.
func native(p *Property, v resource.PropertyValue) any {
	if p != nil && p.Type == Int && v.IsNumber() {
		return int(v.NumberValue())
	}
	return v.Mappable()
}

// GetString is the string at key, "" when there is none.
func GetString(m resource.PropertyMap, key resource.PropertyKey) string {
	if v := m[key]; v.IsString() {
		return v.StringValue()
	}
	return ""
}

// GetInt is the number at key, 0 when there is none.
func GetInt(m resource.PropertyMap, key resource.PropertyKey) int {
	if v := m[key]; v.IsNumber() {
		return int(v.NumberValue())
	}
	return 0
}

// GetFloat is the number at key, 0 when there is none.
func GetFloat(m resource.PropertyMap, key resource.PropertyKey) float64 {
	if v := m[key]; v.IsNumber() {
		return v.NumberValue()
	}
	return 0
}

// GetBool is the boolean at key, false when there is none.
func GetBool(m resource.PropertyMap, key resource.PropertyKey) bool {
	if v := m[key]; v.IsBool() {
		return v.BoolValue()
	}
	return false
}

// Has tells whether key has a value that is not null. A computed value counts.
func Has(m resource.PropertyMap, key resource.PropertyKey) bool {
	v, ok := m[key]
	return ok && !v.IsNull()
}

// GetObject is the object at key, empty (never nil) when there is none.
func GetObject(m resource.PropertyMap, key resource.PropertyKey) resource.PropertyMap {
	if v := m[key]; v.IsObject() {
		return v.ObjectValue()
	}
	return resource.PropertyMap{}
}

// GetObjects are the objects of the list at key.
func GetObjects(m resource.PropertyMap, key resource.PropertyKey) []resource.PropertyMap {
	v := m[key]
	if !v.IsArray() {
		return nil
	}
	objects := make([]resource.PropertyMap, 0, len(v.ArrayValue()))
	for _, element := range v.ArrayValue() {
		if element.IsObject() {
			objects = append(objects, element.ObjectValue())
		}
	}
	return objects
}

// GetStrings are the strings of the list at key.
func GetStrings(m resource.PropertyMap, key resource.PropertyKey) []string {
	v := m[key]
	if !v.IsArray() {
		return nil
	}
	texts := make([]string, 0, len(v.ArrayValue()))
	for _, element := range v.ArrayValue() {
		if element.IsString() {
			texts = append(texts, element.StringValue())
		}
	}
	return texts
}

// GetStringMap is the map of strings at key, empty (never nil) when there is none.
func GetStringMap(m resource.PropertyMap, key resource.PropertyKey) map[string]string {
	texts := map[string]string{}
	for name, value := range GetObject(m, key) {
		if value.IsString() {
			texts[string(name)] = value.StringValue()
		}
	}
	return texts
}

// Strings is a list property of texts; an empty list for nil.
func Strings(texts []string) resource.PropertyValue {
	values := make([]resource.PropertyValue, len(texts))
	for i, text := range texts {
		values[i] = resource.NewStringProperty(text)
	}
	return resource.NewArrayProperty(values)
}

// StringMap is a map property of texts; an empty map for nil.
func StringMap(texts map[string]string) resource.PropertyValue {
	values := make(resource.PropertyMap, len(texts))
	for key, text := range texts {
		values[resource.PropertyKey(key)] = resource.NewStringProperty(text)
	}
	return resource.NewObjectProperty(values)
}

// Objects is a list property of objects; an empty list for nil.
func Objects(objects []resource.PropertyMap) resource.PropertyValue {
	values := make([]resource.PropertyValue, len(objects))
	for i, object := range objects {
		values[i] = resource.NewObjectProperty(object)
	}
	return resource.NewArrayProperty(values)
}

// Whole is a number property of a whole number.
func Whole(n int) resource.PropertyValue { return resource.NewNumberProperty(float64(n)) }
