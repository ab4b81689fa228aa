package foreignkey

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// plan is what is to be known of a type of messages to find the references in one. It is found out once.
type plan struct {
	kind *kinds.Kind // whose manifests or stack inputs they are; nil for others
	ways []way
}

// way is a field that is a reference, or whose messages may have some in them.
type way struct {
	field    protoreflect.FieldDescriptor
	name     string
	defaults defaults
}

// defaults are what a reference in a field means that does not say it.
type defaults struct {
	kind      cloudresourcekind.CloudResourceKind
	fieldPath string
}

// plans are those of the types that were met, by their descriptors.
var plans sync.Map

func planOf(message protoreflect.MessageDescriptor) *plan {
	found, ok := plans.Load(message)
	if !ok {
		found, _ = plans.LoadOrStore(message, newPlan(message))
	}
	return found.(*plan)
}

func newPlan(message protoreflect.MessageDescriptor) *plan {
	p := &plan{}
	for _, kind := range kinds.All() {
		for _, of := range []proto.Message{kind.NewTarget(), kind.NewStackInput()} {
			if of.ProtoReflect().Descriptor().FullName() == message.FullName() {
				p.kind = &kind
			}
		}
	}
	for i := range message.Fields().Len() {
		if field := message.Fields().Get(i); leads(field, nil) {
			p.ways = append(p.ways, way{field: field, name: string(field.Name()), defaults: defaultsOf(field)})
		}
	}
	return p
}

// reference is the message that a reference is.
var reference = (&foreignkeyv1.StringValueOrRef{}).ProtoReflect().Descriptor().FullName()

// leads tells whether a reference may stand in a field.
func leads(field protoreflect.FieldDescriptor, above []protoreflect.FullName) bool {
	message := field.Message()
	switch {
	case message == nil || slices.Contains(above, message.FullName()):
		return false
	case field.IsMap():
		return leads(field.MapValue(), above)
	case message.FullName() == reference:
		return true
	}
	for i := range message.Fields().Len() {
		if leads(message.Fields().Get(i), append(above, message.FullName())) {
			return true
		}
	}
	return false
}

func defaultsOf(field protoreflect.FieldDescriptor) defaults {
	kind, _ := proto.GetExtension(field.Options(), foreignkeyv1.E_DefaultKind).(cloudresourcekind.CloudResourceKind)
	fieldPath, _ := proto.GetExtension(field.Options(), foreignkeyv1.E_DefaultKindFieldPath).(string)
	return defaults{kind: kind, fieldPath: fieldPath}
}

// kindOf is the kind of a manifest or of a stack input; nil for other messages.
func kindOf(message proto.Message) *kinds.Kind {
	if message == nil {
		return nil
	}
	return planOf(message.ProtoReflect().Descriptor()).kind
}

// outputs are the names of the outputs of kinds, by the names of these.
var outputs sync.Map

func outputsOf(kind kinds.Kind) []string {
	found, ok := outputs.Load(kind.Name)
	if !ok {
		found, _ = outputs.LoadOrStore(kind.Name, kind.OutputFields())
	}
	return found.([]string)
}
