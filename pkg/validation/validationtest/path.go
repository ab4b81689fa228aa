package validationtest

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Set returns a mutation that sets fields of a message: pairs of a path and a value. Messages on the way are made, an index one
// past the end of a list appends to it, a nil value clears the field, and numbers may be given as int, whatever the
// field's type. It panics, naming the path, when there is no such field or the value does not fit: a mistake in the test.
func Set[M proto.Message](pathsAndValues ...any) func(M) {
	return func(m M) {
		for i := 0; i < len(pathsAndValues); i += 2 {
			set(m.ProtoReflect(), pathsAndValues[i].(string), pathsAndValues[i+1])
		}
	}
}

// step is one step of a path: a field, and what is in the brackets behind it.
type step struct {
	name  string
	index string // the text between the brackets; "" when there are none
}

// parse takes a path such as spec.labels["a.b/c"] apart. Dots inside quotes do not separate.
func parse(path string) []step {
	var steps []step
	for rest := path; rest != ""; {
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			return append(steps, step{name: rest})
		}
		s := step{name: rest[:end]}
		rest = rest[end:]
		if rest[0] == '[' {
			closing := strings.Index(rest, "]")
			if strings.HasPrefix(rest, `["`) {
				closing = strings.Index(rest, `"]`) + 1
			}
			s.index = rest[1:closing]
			rest = rest[closing+1:]
		}
		rest = strings.TrimPrefix(rest, ".")
		steps = append(steps, s)
	}
	return steps
}

func set(m protoreflect.Message, path string, value any) {
	steps := parse(path)
	for i, s := range steps {
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(s.name))
		if fd == nil {
			panic(fmt.Sprintf("%s: %s has no field %q", path, m.Descriptor().FullName(), s.name))
		}
		last := i == len(steps)-1
		switch {
		case last && s.index == "":
			if value == nil {
				m.Clear(fd)
				return
			}
			m.Set(fd, toValue(path, m, fd, value))
		case last && fd.IsMap():
			key, err := strconv.Unquote(s.index)
			if err != nil {
				panic(fmt.Sprintf("%s: the key is not quoted: %v", path, err))
			}
			m.Mutable(fd).Map().Set(protoreflect.ValueOfString(key).MapKey(), scalar(path, fd.MapValue(), value))
		case last:
			list, at := element(path, m, fd, s.index)
			list.Set(at, scalar(path, fd, value))
		case fd.IsList():
			list, at := element(path, m, fd, s.index)
			m = list.Get(at).Message()
		default:
			m = m.Mutable(fd).Message()
		}
	}
}

// element returns a list and an index in it, having appended an element when the index is one past the end.
func element(path string, m protoreflect.Message, fd protoreflect.FieldDescriptor, index string) (protoreflect.List, int) {
	at, err := strconv.Atoi(index)
	list := m.Mutable(fd).List()
	if err != nil || at > list.Len() {
		panic(fmt.Sprintf("%s: index %q, in a list of %d", path, index, list.Len()))
	}
	if at == list.Len() {
		list.Append(list.NewElement())
	}
	return list, at
}

// toValue makes a value for a whole field: a scalar, a message, or a list of strings.
func toValue(path string, m protoreflect.Message, fd protoreflect.FieldDescriptor, value any) protoreflect.Value {
	if texts, ok := value.([]string); ok && fd.IsList() {
		list := m.NewField(fd)
		for _, text := range texts {
			list.List().Append(protoreflect.ValueOfString(text))
		}
		return list
	}
	if fd.IsList() || fd.IsMap() {
		panic(fmt.Sprintf("%s: %T for a list or a map", path, value))
	}
	return scalar(path, fd, value)
}

func scalar(path string, fd protoreflect.FieldDescriptor, value any) protoreflect.Value {
	switch v := value.(type) {
	case int:
		switch fd.Kind() {
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(uint32(v))
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(v))
		}
	case uint32:
		if fd.Kind() == protoreflect.Uint32Kind {
			return protoreflect.ValueOfUint32(v)
		}
	case proto.Message:
		if fd.Kind() == protoreflect.MessageKind {
			return protoreflect.ValueOfMessage(v.ProtoReflect())
		}
	case string, bool, float64:
		return protoreflect.ValueOf(v)
	case protoreflect.Enum:
		return protoreflect.ValueOfEnum(v.Number())
	}
	panic(fmt.Sprintf("%s: %T does not fit a field of kind %s", path, value, fd.Kind()))
}
