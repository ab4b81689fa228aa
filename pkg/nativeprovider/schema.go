package nativeprovider

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
)

// The parts of Pulumi's package schema that the tables can say
// (https://github.com/pulumi/pulumi/blob/master/pkg/codegen/schema/pulumi.json).
type (
	packageSchema struct {
		Name        string                    `json:"name"`
		Version     string                    `json:"version,omitempty"`
		Description string                    `json:"description,omitempty"`
		Config      configSchema              `json:"config"`
		Types       map[string]*objectSchema  `json:"types,omitempty"`
		Provider    resourceSchema            `json:"provider"`
		Resources   map[string]resourceSchema `json:"resources"`
		Functions   map[string]functionSchema `json:"functions"`
	}
	configSchema struct {
		Variables map[string]propertySchema `json:"variables,omitempty"`
	}
	objectSchema struct {
		Type       string                    `json:"type"`
		Properties map[string]propertySchema `json:"properties,omitempty"`
		Required   []string                  `json:"required,omitempty"`
	}
	resourceSchema struct {
		Description     string                    `json:"description,omitempty"`
		Properties      map[string]propertySchema `json:"properties,omitempty"`
		Required        []string                  `json:"required,omitempty"`
		InputProperties map[string]propertySchema `json:"inputProperties,omitempty"`
		RequiredInputs  []string                  `json:"requiredInputs,omitempty"`
		StateInputs     *objectSchema             `json:"stateInputs,omitempty"`
	}
	functionSchema struct {
		Description string        `json:"description,omitempty"`
		Inputs      *objectSchema `json:"inputs,omitempty"`
		Outputs     *objectSchema `json:"outputs,omitempty"`
	}
	propertySchema struct {
		Type                 string          `json:"type,omitempty"`
		Ref                  string          `json:"$ref,omitempty"`
		Items                *propertySchema `json:"items,omitempty"`
		AdditionalProperties *propertySchema `json:"additionalProperties,omitempty"`
		Description          string          `json:"description,omitempty"`
		Default              any             `json:"default,omitempty"`
		Secret               bool            `json:"secret,omitempty"`
		DeprecationMessage   string          `json:"deprecationMessage,omitempty"`
		WillReplaceOnChanges bool            `json:"willReplaceOnChanges,omitempty"`
	}
)

// GetSchema implements plugin.Provider: the package schema that the tables make.
func (p *Provider) GetSchema(context.Context, plugin.GetSchemaRequest) (plugin.GetSchemaResponse, error) {
	s := packageSchema{
		Name: p.spec.Name, Version: p.version.String(), Description: p.spec.Description,
		Types: map[string]*objectSchema{}, Resources: map[string]resourceSchema{}, Functions: map[string]functionSchema{},
	}
	w := &schemaWriter{pkg: p.spec.Name, types: s.Types}
	s.Config.Variables, _ = w.properties("Config", p.spec.Config, anyProperty)
	s.Provider.InputProperties, s.Provider.RequiredInputs = w.properties("Provider", p.spec.Config, inputProperty)
	for token, declared := range p.spec.Resources {
		s.Resources[string(token)] = w.resource(string(token.Name()), declared)
	}
	for token, declared := range p.spec.Functions {
		name := string(token.Name())
		f := functionSchema{Description: declared.Description, Outputs: w.objectOf(name, declared.Outputs)}
		if len(declared.Inputs) > 0 {
			f.Inputs = w.objectOf(name, declared.Inputs)
		}
		s.Functions[string(token)] = f
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return plugin.GetSchemaResponse{}, errors.Wrap(err, "encode the package schema")
	}
	return plugin.GetSchemaResponse{Schema: encoded}, nil
}

func anyProperty(*Property) bool     { return true }
func inputProperty(p *Property) bool { return p.input() }

type schemaWriter struct {
	pkg   string
	types map[string]*objectSchema
}

func (w *schemaWriter) resource(name string, r *Resource) resourceSchema {
	s := resourceSchema{Description: r.Description}
	s.Properties, _ = w.properties(name, r.Properties, anyProperty)
	for i := range r.Properties {
		if property := &r.Properties[i]; property.Required || property.Output || property.Computed || property.Autoname > 0 {
			s.Required = append(s.Required, property.Name)
		}
	}
	s.InputProperties, s.RequiredInputs = w.properties(name, r.Properties, inputProperty)
	s.StateInputs = &objectSchema{Type: "object", Properties: s.Properties}
	return s
}

func (w *schemaWriter) objectOf(name string, table []Property) *objectSchema {
	s := &objectSchema{Type: "object"}
	s.Properties, s.Required = w.properties(name, table, anyProperty)
	return s
}

func (w *schemaWriter) properties(
	parent string, table []Property, include func(*Property) bool,
) (map[string]propertySchema, []string) {
	properties := map[string]propertySchema{}
	var required []string
	for i := range table {
		property := &table[i]
		if !include(property) {
			continue
		}
		properties[property.Name] = w.property(parent, property)
		if property.Required {
			required = append(required, property.Name)
		}
	}
	return properties, required
}

func (w *schemaWriter) property(parent string, p *Property) propertySchema {
	s := w.typeOf(parent+title(p.Name), p)
	s.Description, s.Secret, s.Default = p.Description, p.Secret, p.Default
	s.DeprecationMessage, s.WillReplaceOnChanges = p.Deprecated, p.Replaces
	return s
}

func (w *schemaWriter) typeOf(name string, p *Property) propertySchema {
	switch p.Type {
	case List, Set:
		items := w.typeOf(strings.TrimSuffix(name, "s"), p.Elem)
		return propertySchema{Type: "array", Items: &items}
	case Map:
		values := w.typeOf(name, p.Elem)
		return propertySchema{Type: "object", AdditionalProperties: &values}
	case Object:
		if p.ObjectName != "" {
			name = p.ObjectName
		}
		token := w.pkg + ":index/" + name + ":" + name
		if _, done := w.types[token]; !done {
			w.types[token] = &objectSchema{Type: "object"} // before its fields: a type may hold itself
			*w.types[token] = *w.objectOf(name, p.Fields)
		}
		return propertySchema{Ref: "#/types/" + token}
	default:
		return propertySchema{Type: p.Type.String()}
	}
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
