package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// TestRoundTrips: every message that people write, whatever stands in its fields, survives YAML, JSON and the wire.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		for _, empty := range []proto.Message{kind.NewTarget(), kind.NewStackInput()} {
			t.Run(string(empty.ProtoReflect().Descriptor().Name()), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) {
					m := proto.Clone(empty)
					fill(t, m.ProtoReflect())
					same := func(way string, again proto.Message) {
						if diff := cmp.Diff(m, again, protocmp.Transform()); diff != "" {
							t.Fatalf("%s changed it: -was +is:\n%s", way, diff)
						}
					}

					wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					again := proto.Clone(empty)
					if err := proto.Unmarshal(wire, again); err != nil {
						t.Fatal(err)
					}
					same("the wire", again)

					json, err := protojson.Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					again = proto.Clone(empty)
					if err := protojson.Unmarshal(json, again); err != nil {
						t.Fatalf("%v\n%s", err, json)
					}
					same("JSON", again)

					// JSON is YAML but for a few characters, so what reads manifests reads it too.
					json = []byte(onlyInJSON.Replace(string(json)))
					yaml, err := Marshal(m)
					if err != nil {
						t.Fatal(err)
					}
					for way, text := range map[string][]byte{"YAML": yaml, "JSON read as YAML": json} {
						documents := split(text)
						if len(documents) != 1 {
							t.Fatalf("%s: written as %d documents:\n%s", way, len(documents), text)
						}
						again = proto.Clone(empty)
						root, problem := documents[0].root()
						if problem != nil {
							t.Fatalf("%s: %v", way, problem)
						}
						if problems := (&decoder{}).decode(root, again); len(problems) > 0 {
							t.Fatalf("%s: %v\n%s\n%s", way, problems, text, prototext.Format(m))
						}
						same(way, again)
					}
				})
			})
		}
	}
}

// anyText generates texts, those among them that YAML could take for something else. The control characters from U+0080 on and the
// line breaks that only YAML knows are left out: the emitter writes some of them so that the parser folds them into a space.
var anyText = rapid.Map(rapid.OneOf(
	rapid.SampledFrom([]string{
		"", " ", "~", "null", "true", "no", "1", "0x1f", "1e3", ".inf", "2026-11-21", "<<", "=", "*a", "&a", "!x", "- a", "a: b", "a #b", "---", "...",
		"\n---\n", "\n...\nb", "a\n", "\n\na\n\n", " a\n  b", "\t", "\ta", "a\r\nb", "\r", "\ufeff", "\ufeffa", "\x00", "\x7f",
		"\u00a0", "'", `"`, `\n`, "%YAML 1.2", "@", "`", "|", ">", "?", "[", "{", "\U0001f600", "\ufffd", "\uffff",
	}),
	rapid.StringMatching(`[a-z0-9 .:#'"\\-]{0,20}`),
	rapid.String(),
), func(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '\u0080' && r < '\u00a0' || r == '\u2028' || r == '\u2029' {
			return -1
		}
		return r
	}, text)
})

// fill sets fields of a message, or leaves them, at random.
func fill(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !rapid.Bool().Draw(t, "set "+string(field.Name())) {
			continue
		}
		switch {
		case field.IsMap():
			for range rapid.IntRange(0, 3).Draw(t, "entries") {
				key := protoreflect.ValueOfString(anyText.Draw(t, "key")).MapKey()
				m.Mutable(field).Map().Set(key, scalar(t, field.MapValue()))
			}
		case field.IsList():
			for range rapid.IntRange(0, 3).Draw(t, "elements") {
				if field.Message() != nil {
					fill(t, m.Mutable(field).List().AppendMutable().Message())
				} else {
					m.Mutable(field).List().Append(scalar(t, field))
				}
			}
		case field.Message() != nil:
			fill(t, m.Mutable(field).Message())
		default:
			m.Set(field, scalar(t, field))
		}
	}
}

// scalar generates a value of a field that is no message.
func scalar(t *rapid.T, field protoreflect.FieldDescriptor) protoreflect.Value {
	name := string(field.Name())
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(anyText.Draw(t, name))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, name))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, name))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, name))
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		named := rapid.Map(rapid.IntRange(0, values.Len()-1), func(i int) int32 { return int32(values.Get(i).Number()) })
		// A number that this version has no name for may come from a later one.
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.OneOf(named, rapid.Int32Range(0, 9999)).Draw(t, name)))
	default:
		t.Fatalf("%s: no values are generated for a field of kind %s", field.FullName(), field.Kind())
		panic("unreachable")
	}
}
