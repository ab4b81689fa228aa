package moduletest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// stringValueOrRef is a leaf of a spec: a value, however it is come by.
const stringValueOrRef = "org.project_planton.shared.foreignkey.v1.StringValueOrRef"

// SpecFields returns the paths of all the fields of a message that hold values: "cluster_name",
// "default_node_pool.size", "additional_node_pools[].taints[].key". References, maps and lists of scalars are one field
// each.
func SpecFields(message proto.Message) []string {
	paths := fieldsOf(message.ProtoReflect().Descriptor(), "")
	slices.Sort(paths)
	return paths
}

func fieldsOf(message protoreflect.MessageDescriptor, prefix string) []string {
	var paths []string
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		path := prefix + string(field.Name())
		switch {
		case field.Message() == nil, field.IsMap(), field.Message().FullName() == stringValueOrRef:
			paths = append(paths, path)
		case field.IsList():
			paths = append(paths, fieldsOf(field.Message(), path+"[].")...)
		default:
			paths = append(paths, fieldsOf(field.Message(), path+".")...)
		}
	}
	return paths
}

// AssertEverySpecFieldIsCovered fails the test when the keys of the table are not exactly the fields of the spec, as
// SpecFields names them. The table says for each field how it is tested.
func AssertEverySpecFieldIsCovered[V any](t testing.TB, spec proto.Message, table map[string]V) {
	t.Helper()
	covered := make([]string, 0, len(table))
	for path := range table {
		covered = append(covered, path)
	}
	slices.Sort(covered)
	if diff := cmp.Diff(SpecFields(spec), covered); diff != "" {
		t.Errorf("the table must have one entry for each field of %s (-fields +table):\n%s",
			spec.ProtoReflect().Descriptor().Name(), diff)
	}
}

// AssertOutputs fails the test when the outputs of the stack are not exactly the fields of the StackOutputs message, or
// when one is not of its field's shape: a list for a repeated field, else a string.
func AssertOutputs(t testing.TB, result *Result, stackOutputs proto.Message) {
	t.Helper()
	fields := stackOutputs.ProtoReflect().Descriptor().Fields()
	var want, got []string
	for i := range fields.Len() {
		want = append(want, string(fields.Get(i).Name()))
	}
	for name := range result.Outputs {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stack outputs differ from the fields of %s (-fields +outputs):\n%s",
			stackOutputs.ProtoReflect().Descriptor().Name(), diff)
	}
	for i := range fields.Len() {
		field := fields.Get(i)
		output, ok := result.Outputs[string(field.Name())]
		if !ok || !output.Known {
			continue
		}
		if !hasShapeOf(field, output.Value) {
			t.Errorf("output %s is a %T, the field is a %s (list: %t)", field.Name(), output.Value, field.Kind(), field.IsList())
		}
	}
}

// hasShapeOf tells whether the value of an output fits the field.
func hasShapeOf(field protoreflect.FieldDescriptor, value any) bool {
	if field.IsList() {
		switch value.(type) {
		case []string, []any:
			return true
		}
		return false
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		_, ok := value.(string)
		return ok
	case protoreflect.BoolKind:
		_, ok := value.(bool)
		return ok
	case protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Int64Kind, protoreflect.Uint64Kind:
		switch value.(type) {
		case int, float64:
			return true
		}
	}
	return false
}

// AssertConstants fails the test when the constants of a module, the names of its outputs, are not exactly the fields of
// the StackOutputs message.
func AssertConstants(t testing.TB, stackOutputs proto.Message, constants ...string) {
	t.Helper()
	fields := stackOutputs.ProtoReflect().Descriptor().Fields()
	var want []string
	for i := range fields.Len() {
		want = append(want, string(fields.Get(i).Name()))
	}
	got := slices.Clone(constants)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("constants differ from the fields of %s (-fields +constants):\n%s",
			stackOutputs.ProtoReflect().Descriptor().Name(), diff)
	}
}
