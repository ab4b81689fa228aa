package nativeprovider

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
)

// checker applies a table to values. It keeps secret wrappers and computed values where they are.
type checker struct {
	failures []plugin.CheckFailure
	// lenient turns text into numbers and booleans: configuration arrives as text.
	lenient bool
	// defaults records which values were not given, the way the Terraform bridge does, so that either plugin can go on with the other's state.
	defaults bool
}

func (c *checker) fail(path resource.PropertyPath, format string, args ...any) {
	name := pathText(path)
	c.failures = append(c.failures, plugin.CheckFailure{
		Property: resource.PropertyKey(name),
		Reason:   fmt.Sprintf("%s: %s", name, fmt.Sprintf(format, args...)),
	})
}

// pathText is a path as it is shown, and parsed by the engine. PropertyPath.String leaves a key out that is empty.
func pathText(path resource.PropertyPath) string {
	var text strings.Builder
	for i, key := range path {
		segment := resource.PropertyPath{key}.String()
		switch {
		case segment == "":
			segment = `[""]`
		case i > 0 && segment[0] != '[':
			segment = "." + segment
		}
		text.WriteString(segment)
	}
	return text.String()
}

func join(path resource.PropertyPath, key any) resource.PropertyPath {
	return append(slices.Clone(path), key)
}

// object checks the properties of one object and returns them completed with defaults. given names the top level values that were made up
// for an earlier check of the same object (autonames), by property name.
func (c *checker) object(
	path resource.PropertyPath, table []Property, values resource.PropertyMap, autoname func(p *Property) (string, error),
) resource.PropertyMap {
	checked := resource.PropertyMap{}
	for _, key := range sortedKeys(values) {
		if reserved(key) || values[key].IsNull() {
			continue
		}
		property := find(table, string(key))
		switch {
		case property == nil:
			c.fail(join(path, string(key)), "unknown property%s", suggestion(string(key), table))
		case !property.input():
			c.fail(join(path, string(key)), "is an output and cannot be set")
		default:
			checked[key] = c.value(join(path, string(key)), property, values[key])
		}
	}

	var defaulted []string
	for i := range table {
		property := &table[i]
		key := resource.PropertyKey(property.Name)
		if _, given := checked[key]; given || !property.input() {
			continue
		}
		if value := values[key]; !value.IsNull() {
			continue // failed above
		}
		switch {
		case property.Autoname > 0 && autoname != nil:
			name, err := autoname(property)
			if err != nil {
				c.fail(join(path, property.Name), "%s", err.Error())
				continue
			}
			checked[key] = resource.NewStringProperty(name)
			defaulted = append(defaulted, property.Name)
		case property.Default != nil:
			checked[key] = resource.NewPropertyValue(property.Default)
			defaulted = append(defaulted, property.Name)
		case property.Required:
			c.fail(join(path, property.Name), "missing required property")
		}
	}
	if c.defaults {
		sort.Strings(defaulted)
		checked[defaultsKey] = Strings(defaulted)
	}
	return checked
}

func (c *checker) value(path resource.PropertyPath, p *Property, v resource.PropertyValue) resource.PropertyValue {
	switch {
	case v.IsSecret():
		return resource.MakeSecret(c.value(path, p, v.SecretValue().Element))
	case v.IsOutput():
		output := v.OutputValue()
		if !output.Known {
			return unknown()
		}
		checked := c.value(path, p, output.Element)
		if output.Secret {
			checked = resource.MakeSecret(checked)
		}
		return checked
	case v.IsComputed():
		return v
	}

	if c.lenient && v.IsString() {
		v = parse(p.Type, v)
	}
	before := len(c.failures)
	checked := v
	switch p.Type {
	case String:
		if !v.IsString() {
			c.fail(path, "expected a %s, got %s", p.Type, kindOf(v))
		}
	case Int:
		if !v.IsNumber() || v.NumberValue() != math.Trunc(v.NumberValue()) {
			c.fail(path, "expected an %s, got %s", p.Type, kindOf(v))
		}
	case Number:
		if !v.IsNumber() {
			c.fail(path, "expected a %s, got %s", p.Type, kindOf(v))
		}
	case Bool:
		if !v.IsBool() {
			c.fail(path, "expected a %s, got %s", p.Type, kindOf(v))
		}
	case List, Set:
		if !v.IsArray() {
			c.fail(path, "expected a %s, got %s", p.Type, kindOf(v))
			break
		}
		elements := make([]resource.PropertyValue, len(v.ArrayValue()))
		for i, element := range v.ArrayValue() {
			if element.IsNull() {
				c.fail(join(path, i), "must not be null")
				continue
			}
			elements[i] = c.value(join(path, i), p.Elem, element)
		}
		checked = resource.NewArrayProperty(elements)
	case Map:
		if !v.IsObject() {
			c.fail(path, "expected a %s, got %s", p.Type, kindOf(v))
			break
		}
		elements := resource.PropertyMap{}
		for _, key := range sortedKeys(v.ObjectValue()) {
			element := v.ObjectValue()[key]
			if reserved(key) || element.IsNull() {
				continue
			}
			elements[key] = c.value(join(path, string(key)), p.Elem, element)
		}
		checked = resource.NewObjectProperty(elements)
	case Object:
		if !v.IsObject() {
			c.fail(path, "expected an %s, got %s", p.Type, kindOf(v))
			break
		}
		checked = resource.NewObjectProperty(c.object(path, p.Fields, v.ObjectValue(), nil))
	}

	if p.Check != nil && len(c.failures) == before && !checked.ContainsUnknowns() {
		if err := p.Check(native(p, plainValue(checked))); err != nil {
			c.fail(path, "%s", err.Error())
		}
	}
	return checked
}

// parse reads text as a number or boolean where the table wants one; text that is neither stays and fails the type check.
func parse(t Type, v resource.PropertyValue) resource.PropertyValue {
	switch t {
	case Int, Number:
		if n, err := strconv.ParseFloat(v.StringValue(), 64); err == nil {
			return resource.NewNumberProperty(n)
		}
	case Bool:
		if b, err := strconv.ParseBool(v.StringValue()); err == nil {
			return resource.NewBoolProperty(b)
		}
	}
	return v
}

// kindOf names the kind of a value and never the value: it may be a secret.
func kindOf(v resource.PropertyValue) string {
	switch {
	case v.IsString():
		return "a string"
	case v.IsNumber():
		return "a number"
	case v.IsBool():
		return "a boolean"
	case v.IsArray():
		return "a list"
	case v.IsObject():
		return "an object"
	default:
		return "a " + v.TypeString()
	}
}

// suggestion points at the property that was likely meant.
func suggestion(name string, table []Property) string {
	squash := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	for i := range table {
		if squash(table[i].Name) == squash(name) {
			return fmt.Sprintf(" (did you mean %q?)", table[i].Name)
		}
	}
	return ""
}

func sortedKeys(m resource.PropertyMap) []resource.PropertyKey {
	keys := make([]resource.PropertyKey, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// resource finds the declaration of a type.
func (p *Provider) resource(typ fmt.Stringer) (*Resource, error) {
	for token, declared := range p.spec.Resources {
		if string(token) == typ.String() {
			return declared, nil
		}
	}
	return nil, errors.Errorf(
		"the native %s plugin has no resource %s; use the official plugin for it", p.spec.Name, typ)
}

// Check implements plugin.Provider.
func (p *Provider) Check(_ context.Context, request plugin.CheckRequest) (plugin.CheckResponse, error) {
	declared, err := p.resource(request.Type)
	if err != nil {
		return plugin.CheckResponse{}, err
	}
	c := &checker{defaults: true}
	inputs := c.object(nil, declared.Properties, request.News, func(property *Property) (string, error) {
		return autoname(property, request, p.pendingName(request.URN))
	})
	if declared.Check != nil && len(c.failures) == 0 {
		c.failures = append(c.failures, declared.Check(plainMap(inputs))...)
	}
	if len(c.failures) > 0 {
		return plugin.CheckResponse{Failures: c.failures}, nil
	}
	return plugin.CheckResponse{Properties: inputs}, nil
}

// autoname is the name that an object gets whose program gives none: the one that it has, or that an earlier create has asked for, or the
// resource's name and a random suffix.
func autoname(p *Property, request plugin.CheckRequest, pending string) (string, error) {
	if old := plainValue(request.Olds[resource.PropertyKey(p.Name)]); old.IsString() && old.StringValue() != "" {
		return old.StringValue(), nil
	}
	if pending != "" {
		return pending, nil
	}
	if options := request.Autonaming; options != nil {
		switch options.Mode {
		case plugin.AutonamingModeDisabled:
			return "", errors.New("missing required property (automatic naming is off)")
		case plugin.AutonamingModeEnforce, plugin.AutonamingModePropose:
			if name := options.ProposedName; name != "" {
				if len(name) <= p.Autoname {
					return name, nil
				}
				if options.Mode == plugin.AutonamingModeEnforce {
					return "", errors.Errorf("the automatic name %q is longer than %d characters", name, p.Autoname)
				}
			}
		}
	}
	const random = 7
	prefix := request.URN.Name()
	if longest := p.Autoname - random - 1; len(prefix) > longest {
		prefix = strings.TrimRight(prefix[:longest], "-")
	}
	name, err := resource.NewUniqueName(request.RandomSeed, prefix+"-", random, p.Autoname, nil)
	return name, errors.Wrap(err, "make an automatic name")
}
