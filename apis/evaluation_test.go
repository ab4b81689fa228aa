package apis_test

import (
	"testing"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/validation"
)

// Whatever stands in a manifest, its rules can be evaluated: the answer is a list of broken rules, never an error of a rule itself,
// such as a text that is taken for a number, or an index beyond the end of a list.
func TestRulesCanAlwaysBeEvaluated(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := proto.Clone(kind.stackInput)
				fill(t, m.ProtoReflect())
				var invalid *validation.Error
				if err := validation.Validate(m); err != nil && !errors.As(err, &invalid) {
					t.Fatalf("%v\n%s", err, prototext.Format(m))
				}
			})
		})
	}
}

// anyText generates texts of the forms that rules take apart, whole and broken, and texts of no form at all.
var anyText = rapid.OneOf(
	rapid.SampledFrom([]string{"", " ", "/", "-", ":", ".", "=", "\x00", "prod", "default"}),
	rapid.StringMatching(`[0-9]{0,20}(-[0-9]{0,20}){0,2}`),
	rapid.StringMatching(`[0-9]{1,3}(\.[0-9]{1,3}){0,4}(/[0-9]{0,20}){0,2}`),
	rapid.StringMatching(`[0-9a-f:]{0,20}(/[0-9]{0,4})?`),
	rapid.StringMatching(`(v|talos-v)?[0-9]{1,3}(\.[0-9]{1,3}){0,3}([+-](k3s|do)\.?[0-9]{0,2})?`),
	rapid.StringMatching(`(any|sunday)?=?[0-9]{0,2}:?[0-9]{0,2}`),
	rapid.StringMatching(`(https?:/{0,3})?[a-z@.:\[\]]{0,10}(/[a-z?#%]{0,5})?`),
	rapid.String(),
)

// fill sets fields of a message, or leaves them, at random.
func fill(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Name() == "status" || !rapid.Bool().Draw(t, "set "+string(fd.Name())) {
			continue
		}
		switch {
		case fd.IsMap():
			for range rapid.IntRange(0, 2).Draw(t, "entries") {
				key := protoreflect.ValueOfString(anyText.Draw(t, "key")).MapKey()
				m.Mutable(fd).Map().Set(key, protoreflect.ValueOfString(anyText.Draw(t, "value")))
			}
		case fd.IsList():
			for range rapid.IntRange(0, 3).Draw(t, "elements") {
				if fd.Message() != nil {
					fill(t, m.Mutable(fd).List().AppendMutable().Message())
				} else {
					m.Mutable(fd).List().Append(value(t, fd))
				}
			}
		case fd.Message() != nil:
			fill(t, m.Mutable(fd).Message())
		default:
			m.Set(fd, value(t, fd))
		}
	}
}

func value(t *rapid.T, fd protoreflect.FieldDescriptor) protoreflect.Value {
	name := string(fd.Name())
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(anyText.Draw(t, name))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, name))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32()).Draw(t, name))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, name))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.OneOf(rapid.Int32Range(0, 8), rapid.Int32()).Draw(t, name)))
	default:
		t.Fatalf("%s: no values are generated for a field of kind %s", fd.FullName(), fd.Kind())
		panic("unreachable")
	}
}
