package provision

import (
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// ProviderConfigs are how to reach the clouds; nil for the one that is not used.
type ProviderConfigs struct {
	Civo         *civov1.CivoProviderConfig
	DigitalOcean *digitaloceanv1.DigitalOceanProviderConfig
}

// forProvider is the config of a provider, nil when there is none.
func (c ProviderConfigs) forProvider(provider string) proto.Message {
	switch {
	case provider == kinds.Civo && c.Civo != nil:
		return c.Civo
	case provider == kinds.DigitalOcean && c.DigitalOcean != nil:
		return c.DigitalOcean
	default:
		return nil
	}
}

// NewStackInput puts a manifest and the config of its provider together.
func NewStackInput(target proto.Message, configs ProviderConfigs) (proto.Message, error) {
	kind, ok := kinds.Of(target)
	if !ok {
		return nil, errors.Errorf("%s is no manifest", target.ProtoReflect().Descriptor().FullName())
	}
	input := kind.NewStackInput()
	fields := input.ProtoReflect().Descriptor().Fields()
	input.ProtoReflect().Set(fields.ByName("target"), protoreflect.ValueOfMessage(target.ProtoReflect()))
	if config := configs.forProvider(kind.Provider); config != nil {
		input.ProtoReflect().Set(fields.ByName("provider_config"), protoreflect.ValueOfMessage(config.ProtoReflect()))
	}
	return input, nil
}

// secretsIn are the values of all fields of a message that its proto marks as secrets (debug_redact).
func secretsIn(message proto.Message) []string {
	var secrets []string
	var walk func(protoreflect.Message)
	walk = func(m protoreflect.Message) {
		m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			switch {
			case field.IsMap() || field.IsList():
			case field.Message() != nil:
				walk(value.Message())
			case field.Kind() == protoreflect.StringKind && redacted(field):
				secrets = append(secrets, value.String())
			}
			return true
		})
	}
	if message != nil {
		walk(message.ProtoReflect())
	}
	return secrets
}

// redacted tells whether a field's proto marks it as a secret.
func redacted(field protoreflect.FieldDescriptor) bool {
	options, ok := field.Options().(interface{ GetDebugRedact() bool })
	return ok && options.GetDebugRedact()
}
