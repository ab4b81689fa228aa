// Package kinds is the registry of the kinds of resources that a manifest can declare.
//
// Everything in it is read from the protos: the enum CloudResourceKind with its options, and the messages <Kind>,
// <Kind>StackInput and <Kind>StackOutputs. A new kind is linked in by one blank-imported package below.
package kinds

import (
	"fmt"
	"sort"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	_ "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/cloudresourcekind"
)

// Providers of kinds, as Kind.Provider names them.
const (
	// Civo is the provider of the kinds that live on Civo.
	Civo = "civo"
	// DigitalOcean is the provider of the kinds that live on DigitalOcean.
	DigitalOcean = "digitalocean"
)

// Kind is one kind of resource.
type Kind struct {
	// Name is the kind as manifests write it, such as "CivoKubernetesCluster".
	Name string
	// APIVersion is the apiVersion of its manifests, such as "civo.project-planton.org/v1".
	APIVersion string
	// IDPrefix is the prefix of ids of the kind, such as "cikc", and its short name.
	IDPrefix string
	// Number is the kind in the protos.
	Number cloudresourcekind.CloudResourceKind
	// Provider is the cloud the kind lives on: Civo or DigitalOcean.
	Provider string

	target, stackInput protoreflect.MessageType
	outputs            protoreflect.MessageDescriptor
}

// target is what every manifest message offers.
type target interface {
	proto.Message
	GetMetadata() *shared.CloudResourceMetadata
}

var registry = sync.OnceValue(load)

// All returns every kind, in the order of their names.
func All() []Kind {
	return append([]Kind(nil), registry()...)
}

// ByName finds a kind by its name in any letter case, also in the plural ("civokubernetesclusters") and by its short name ("cikc").
func ByName(name string) (Kind, bool) {
	lower := strings.ToLower(name)
	for _, kind := range registry() {
		if lower == strings.ToLower(kind.Name) || lower == kind.Plural() || lower == kind.IDPrefix {
			return kind, true
		}
	}
	return Kind{}, false
}

// ByNumber finds a kind by its number in the protos.
func ByNumber(number cloudresourcekind.CloudResourceKind) (Kind, bool) {
	for _, kind := range registry() {
		if kind.Number == number {
			return kind, true
		}
	}
	return Kind{}, false
}

// Of tells the kind of a manifest or a stack input.
func Of(message proto.Message) (Kind, bool) {
	if message == nil {
		return Kind{}, false
	}
	name := message.ProtoReflect().Descriptor().FullName()
	for _, kind := range registry() {
		if name == kind.target.Descriptor().FullName() || name == kind.stackInput.Descriptor().FullName() {
			return kind, true
		}
	}
	return Kind{}, false
}

// Metadata returns the metadata of a manifest, nil where there is none.
func Metadata(manifest proto.Message) *shared.CloudResourceMetadata {
	if t, ok := manifest.(target); ok {
		return t.GetMetadata()
	}
	return nil
}

// Spec returns the spec of a manifest, nil where there is none.
func Spec(manifest proto.Message) proto.Message {
	return messageField(manifest, "spec")
}

// Target returns the manifest in a stack input, nil where there is none.
func Target(stackInput proto.Message) proto.Message {
	return messageField(stackInput, "target")
}

func messageField(message proto.Message, name protoreflect.Name) proto.Message {
	if message == nil {
		return nil
	}
	reflected := message.ProtoReflect()
	field := reflected.Descriptor().Fields().ByName(name)
	if field == nil || field.Message() == nil || !reflected.Has(field) {
		return nil
	}
	return reflected.Get(field).Message().Interface()
}

// String returns the name of the kind.
func (k Kind) String() string { return k.Name }

// Plural returns the word for several resources of the kind, in lower case, such as "civokubernetesclusters".
func (k Kind) Plural() string { return strings.ToLower(k.Name) + "s" }

// NewTarget returns an empty manifest of the kind.
func (k Kind) NewTarget() proto.Message { return k.target.New().Interface() }

// NewStackInput returns an empty stack input of the kind.
func (k Kind) NewStackInput() proto.Message { return k.stackInput.New().Interface() }

// OutputFields returns the names of the outputs of the kind's stack, in the order of the proto.
func (k Kind) OutputFields() []string {
	fields := k.outputs.Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return names
}

// load reads the registry from the linked-in protos. A kind without its messages is a mistake in the protos, which no caller
// could mend, so it panics; a test loads the registry.
func load() []Kind {
	values := cloudresourcekind.CloudResourceKind(0).Descriptor().Values()
	var all []Kind
	for i := range values.Len() {
		value := values.Get(i)
		if value.Number() == 0 {
			continue
		}
		meta, _ := proto.GetExtension(value.Options(), cloudresourcekind.E_KindMeta).(*cloudresourcekind.KindMeta)
		provider := Civo
		if strings.HasPrefix(meta.GetApiVersion(), "digital-ocean.") {
			provider = DigitalOcean
		}
		name := string(value.Name())
		pkg := fmt.Sprintf("org.project_planton.provider.%s.%s.v1.", provider, strings.ToLower(name))
		all = append(all, Kind{
			Name:       name,
			APIVersion: meta.GetApiVersion(),
			IDPrefix:   meta.GetIdPrefix(),
			Number:     cloudresourcekind.CloudResourceKind(value.Number()),
			Provider:   provider,
			target:     messageType(pkg + name),
			stackInput: messageType(pkg + name + "StackInput"),
			outputs:    messageType(pkg + name + "StackOutputs").Descriptor(),
		})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

func messageType(name string) protoreflect.MessageType {
	found, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		panic(fmt.Sprintf("kinds: %s: %v", name, err))
	}
	return found
}
