// Package foreignkey finds the references of manifests to one another, and the order that they put the manifests in.
package foreignkey

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// outputsPrefix is what the field path of a reference starts with: only outputs can be referred to.
const outputsPrefix = "status.outputs."

// Reference is a field of a manifest whose value comes from another resource.
type Reference struct {
	// FieldPath is where the reference stands, such as "spec.cluster".
	FieldPath string
	// Kind is the kind of the other resource.
	Kind kinds.Kind
	// Env is the environment of the other resource; empty when it is that of the manifest.
	Env string
	// Name is the name (metadata.name) of the other resource.
	Name string
	// OutputKey is the output that the value is, such as "cluster_id".
	OutputKey string
	// Ref is the field itself, so that its value can be put in its place.
	Ref *foreignkeyv1.StringValueOrRef
}

// String returns the reference as a person would write it.
func (r Reference) String() string {
	name := r.Name
	if r.Env != "" {
		name = r.Env + "/" + name
	}
	return fmt.Sprintf("%s: %s %s, output %s", r.FieldPath, r.Kind.Name, name, r.OutputKey)
}

// Of returns the references of a manifest, in the order of its fields. Fields with a literal value are not among them. It fails
// when a reference names no kind and its field has no default one, when it points at something that is no output of the kind, and when
// it points at a resource of another cloud.
func Of(target proto.Message) ([]Reference, error) {
	var found []Reference
	kind := kindOf(target)
	err := walk(target.ProtoReflect(), "", func(path string, defaults *defaults, value *foreignkeyv1.StringValueOrRef) error {
		if value.GetValueFrom() == nil {
			return nil
		}
		reference, err := parse(path, defaults, value)
		if err != nil {
			return err
		}
		if kind != nil && kind.Provider != reference.Kind.Provider {
			return errors.Errorf("%s.value_from.kind: a %s cannot take this from a %s, which lives on another cloud",
				path, kind.Name, reference.Kind.Name)
		}
		found = append(found, reference)
		return nil
	})
	return found, err
}

// FillDefaults writes the kind, the environment and the output into the references of a manifest that leave them out.
func FillDefaults(target proto.Message) error {
	references, err := Of(target)
	if err != nil {
		return err
	}
	for _, reference := range references {
		from := reference.Ref.GetValueFrom()
		from.Kind = reference.Kind.Number
		from.FieldPath = outputsPrefix + reference.OutputKey
		if from.GetEnv() == "" {
			from.Env = kinds.Metadata(target).GetEnv()
		}
	}
	return nil
}

func parse(path string, defaults *defaults, value *foreignkeyv1.StringValueOrRef) (Reference, error) {
	from := value.GetValueFrom()
	number := from.GetKind()
	if number == 0 {
		number = defaults.kind
	}
	kind, ok := kinds.ByNumber(number)
	if !ok {
		return Reference{}, errors.Errorf("%s.value_from: kind is missing and the field has no default one", path)
	}
	fieldPath := from.GetFieldPath()
	if fieldPath == "" {
		// The default of one kind says nothing of another.
		if kind.Number == defaults.kind {
			fieldPath = defaults.fieldPath
		}
		if fieldPath == "" {
			return Reference{}, errors.Errorf("%s.value_from.field_path: it is missing, and nothing follows from the kind %s here: "+
				"name one of its outputs, such as %s%s, or another kind", path, kind.Name, outputsPrefix, kind.OutputFields()[0])
		}
	}
	key, ok := strings.CutPrefix(fieldPath, outputsPrefix)
	if !ok {
		return Reference{}, errors.Errorf("%s.value_from.field_path: %q does not name an output (%s...)", path, fieldPath, outputsPrefix)
	}
	known := outputsOf(kind)
	if !slices.Contains(known, key) {
		return Reference{}, errors.Errorf("%s.value_from.field_path: %s has no output %q; it has %s",
			path, kind.Name, key, strings.Join(known, ", "))
	}
	return Reference{FieldPath: path, Kind: kind, Env: from.GetEnv(), Name: from.GetName(), OutputKey: key, Ref: value}, nil
}

// Default is what a field of a kind takes when its reference says no more than a name.
type Default struct {
	// Field is the path of the field in the message of the kind, such as "spec.network".
	Field string
	// Kind is the kind of the resource that it refers to, and OutputKey the output of that.
	Kind      kinds.Kind
	OutputKey string
}

// Defaults returns what the fields of a kind take by default, in the order of the fields.
func Defaults(kind kinds.Kind) []Default {
	var found []Default
	var look func(message protoreflect.MessageDescriptor, prefix string, above []protoreflect.FullName)
	look = func(message protoreflect.MessageDescriptor, prefix string, above []protoreflect.FullName) {
		if slices.Contains(above, message.FullName()) {
			return
		}
		fields := message.Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if field.Message() == nil {
				continue
			}
			path := prefix + string(field.Name())
			if referred, ok := kinds.ByNumber(defaultsOf(field).kind); ok {
				output := strings.TrimPrefix(defaultsOf(field).fieldPath, outputsPrefix)
				found = append(found, Default{Field: path, Kind: referred, OutputKey: output})
				continue
			}
			look(field.Message(), path+".", append(above, message.FullName()))
		}
	}
	look(kind.NewTarget().ProtoReflect().Descriptor(), "", nil)
	return found
}

type visitor func(path string, defaults *defaults, value *foreignkeyv1.StringValueOrRef) error

// walk visits every StringValueOrRef that is set, in the order of the fields.
func walk(message protoreflect.Message, prefix string, visit visitor) error {
	ways := planOf(message.Descriptor()).ways
	for i := range ways {
		way := &ways[i]
		field := way.field
		if !message.Has(field) {
			continue
		}
		path := prefix + way.name
		var err error
		switch {
		case field.IsMap():
			err = way.walkMap(message.Get(field).Map(), path, visit)
		case field.IsList():
			list := message.Get(field).List()
			for j := 0; j < list.Len() && err == nil; j++ {
				err = way.walk(list.Get(j).Message(), fmt.Sprintf("%s[%d]", path, j), visit)
			}
		default:
			err = way.walk(message.Get(field).Message(), path, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *way) walkMap(values protoreflect.Map, path string, visit visitor) error {
	keys := make([]string, 0, values.Len())
	byKey := map[string]protoreflect.Message{}
	values.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		keys = append(keys, key.String())
		byKey[key.String()] = value.Message()
		return true
	})
	sort.Strings(keys)
	for _, key := range keys {
		if err := w.walk(byKey[key], fmt.Sprintf("%s[%q]", path, key), visit); err != nil {
			return err
		}
	}
	return nil
}

func (w *way) walk(message protoreflect.Message, path string, visit visitor) error {
	if value, ok := message.Interface().(*foreignkeyv1.StringValueOrRef); ok {
		return visit(path, &w.defaults, value)
	}
	return walk(message, path+".", visit)
}
