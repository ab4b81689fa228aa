package nativeprovider

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
)

// Diff is what separates an object's recorded state from what a program wants. Resource.Diff may refine it.
type Diff struct {
	// ID of the object.
	ID string
	// Old is the recorded state, plain.
	Old resource.PropertyMap
	// New are the wanted inputs, plain; a value may be computed at preview.
	New resource.PropertyMap

	changes map[string]plugin.PropertyDiff
	refusal error
}

// Changed tells whether the property at path, or anything in it, changes. A change to a value that is not known yet counts.
func (d *Diff) Changed(path string) bool {
	for changed := range d.changes {
		if within(changed, path) {
			return true
		}
	}
	return false
}

// Known tells whether the wanted value of the top level property is known.
func (d *Diff) Known(name string) bool {
	return !d.New[resource.PropertyKey(name)].ContainsUnknowns()
}

// Replace makes the changes at path a replacement.
func (d *Diff) Replace(path string) {
	for changed, change := range d.changes {
		if within(changed, path) {
			d.changes[changed] = change.ToReplace()
		}
	}
}

// Drop forgets the changes at path: they mean nothing to the cloud.
func (d *Diff) Drop(path string) {
	for changed := range d.changes {
		if within(changed, path) {
			delete(d.changes, changed)
		}
	}
}

// Remove plans the removal of a recorded value that the program does not give. It is for an input that is only sometimes left to the cloud.
func (d *Diff) Remove(name string) {
	key := resource.PropertyKey(name)
	if d.New[key].IsNull() && !isEmpty(d.Old[key]) {
		d.changes[resource.PropertyPath{name}.String()] = plugin.PropertyDiff{Kind: plugin.DiffDelete}
	}
}

// Replaces tells whether any change replaces the object.
func (d *Diff) Replaces() bool {
	for _, change := range d.changes {
		if change.Kind.IsReplace() {
			return true
		}
	}
	return false
}

// within tells whether the property path changed is path or lies in it.
func within(changed, path string) bool {
	rest, ok := strings.CutPrefix(changed, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Compare compares a recorded state with wanted inputs by the table. Both may be as the engine sends them.
func (r *Resource) Compare(id string, state, inputs resource.PropertyMap) *Diff {
	diff := &Diff{ID: id, Old: plainMap(state), New: plainMap(inputs), changes: map[string]plugin.PropertyDiff{}}
	diff.object(nil, r.Properties, diff.Old, diff.New, false)
	if r.Diff != nil {
		diff.refusal = r.Diff(diff)
	}
	return diff
}

func (d *Diff) record(path resource.PropertyPath, kind plugin.DiffKind, replaces bool) {
	if replaces {
		kind = kind.AsReplace()
	}
	d.changes[pathText(path)] = plugin.PropertyDiff{Kind: kind}
}

func (d *Diff) object(path resource.PropertyPath, table []Property, old, new resource.PropertyMap, replaces bool) {
	for i := range table {
		property := &table[i]
		if property.input() {
			key := resource.PropertyKey(property.Name)
			d.value(join(path, property.Name), property, old[key], new[key], replaces || property.Replaces)
		}
	}
}

func (d *Diff) value(path resource.PropertyPath, p *Property, old, new resource.PropertyValue, replaces bool) {
	kind := plugin.DiffUpdate
	if old.IsNull() {
		kind = plugin.DiffAdd
	}
	switch {
	case new.IsComputed():
		d.record(path, kind, replaces)
		return
	case new.IsNull() && p.Computed:
		return // whatever the cloud chose is right
	case isEmpty(old) && isEmpty(new):
		return
	case old.IsNull() && p.Default != nil && p.Same(resource.NewPropertyValue(p.Default), new):
		return // a state of before the property was known, or of an import
	case isEmpty(new) && p.Type != Object && p.Type != Map:
		d.record(path, plugin.DiffDelete, replaces)
		return
	}

	switch p.Type {
	case Object:
		d.object(path, p.Fields, objectOf(old), objectOf(new), replaces)
	case Map:
		before, after := objectOf(old), objectOf(new)
		for _, key := range sortedKeys(before) {
			if _, kept := after[key]; !kept {
				d.record(join(path, string(key)), plugin.DiffDelete, replaces)
			}
		}
		for _, key := range sortedKeys(after) {
			wanted := after[key]
			present, ok := before[key]
			switch {
			case !ok:
				d.record(join(path, string(key)), plugin.DiffAdd, replaces)
			case wanted.ContainsUnknowns() || !p.Elem.Same(present, wanted):
				d.record(join(path, string(key)), plugin.DiffUpdate, replaces)
			}
		}
	default:
		if new.ContainsUnknowns() || !p.Same(old, new) {
			d.record(path, kind, replaces)
		}
	}
}

func objectOf(v resource.PropertyValue) resource.PropertyMap {
	if v.IsObject() {
		return v.ObjectValue()
	}
	return resource.PropertyMap{}
}

// Same tells whether the recorded value old is what new wants: null, absent and empty are one, sets have no order, outputs and what is left
// to the cloud are not compared. Both values must be plain and known.
func (p *Property) Same(old, new resource.PropertyValue) bool {
	if isEmpty(old) && isEmpty(new) {
		return true
	}
	if p.Equal != nil && !old.IsNull() && !new.IsNull() {
		return p.Equal(native(p, old), native(p, new))
	}
	switch p.Type {
	case List, Set:
		if !old.IsArray() || !new.IsArray() || len(old.ArrayValue()) != len(new.ArrayValue()) {
			return false
		}
		if p.Type == List {
			return slices.EqualFunc(old.ArrayValue(), new.ArrayValue(), p.Elem.Same)
		}
		left := slices.Clone(old.ArrayValue())
		for _, wanted := range new.ArrayValue() {
			i := slices.IndexFunc(left, func(present resource.PropertyValue) bool { return p.Elem.Same(present, wanted) })
			if i < 0 {
				return false
			}
			left = slices.Delete(left, i, i+1)
		}
		return true
	case Object:
		before, after := objectOf(old), objectOf(new)
		for i := range p.Fields {
			field := &p.Fields[i]
			key := resource.PropertyKey(field.Name)
			if !field.input() || field.Computed && after[key].IsNull() {
				continue
			}
			if !field.Same(before[key], after[key]) {
				return false
			}
		}
		return true
	case Map:
		return maps.EqualFunc(objectOf(old), objectOf(new), p.Elem.Same)
	default:
		return old.V == new.V
	}
}

// ignoreChanges gives the inputs the recorded values at the paths of the option of that name, so that what the cloud has stays.
func ignoreChanges(state, inputs resource.PropertyMap, paths []string) (resource.PropertyMap, error) {
	if len(paths) == 0 {
		return inputs, nil
	}
	inputs, state = deepCopy(inputs), plainMap(state)
	for _, text := range paths {
		path, err := resource.ParsePropertyPath(text)
		if err != nil {
			return nil, errors.Wrapf(err, "parse ignoreChanges path %q", text)
		}
		path.Reset(state, inputs)
	}
	return inputs, nil
}

// deepCopy copies objects and lists, which Reset changes in place.
func deepCopy(m resource.PropertyMap) resource.PropertyMap {
	var value func(v resource.PropertyValue) resource.PropertyValue
	value = func(v resource.PropertyValue) resource.PropertyValue {
		switch {
		case v.IsObject():
			return resource.NewObjectProperty(deepCopy(v.ObjectValue()))
		case v.IsArray():
			elements := make([]resource.PropertyValue, len(v.ArrayValue()))
			for i, element := range v.ArrayValue() {
				elements[i] = value(element)
			}
			return resource.NewArrayProperty(elements)
		case v.IsSecret():
			return resource.MakeSecret(value(v.SecretValue().Element))
		default:
			return v
		}
	}
	copied := make(resource.PropertyMap, len(m))
	for key, v := range m {
		copied[key] = value(v)
	}
	return copied
}

// Diff implements plugin.Provider.
func (p *Provider) Diff(_ context.Context, request plugin.DiffRequest) (plugin.DiffResult, error) {
	declared, err := p.resource(request.Type)
	if err != nil {
		return plugin.DiffResult{}, err
	}
	inputs, err := ignoreChanges(request.OldOutputs, request.NewInputs, request.IgnoreChanges)
	if err != nil {
		return plugin.DiffResult{}, err
	}
	// A refused change counts as an update here, which Update then refuses, in the preview too. An error at this place would also fail a
	// refresh, which compares what it read with the inputs of before.
	diff := declared.Compare(string(request.ID), request.OldOutputs, inputs)
	result := plugin.DiffResult{Changes: plugin.DiffNone}
	// What stays in the journal is only found again: a plan does not fail for it.
	_ = p.recorded(declared, request.URN, request.ID, request.OldOutputs)
	if len(diff.changes) == 0 {
		return result, nil
	}
	result.Changes = plugin.DiffSome
	result.DetailedDiff = diff.changes
	for _, path := range slices.Sorted(maps.Keys(diff.changes)) {
		result.ChangedKeys = append(result.ChangedKeys, resource.PropertyKey(path))
		if diff.changes[path].Kind.IsReplace() {
			result.ReplaceKeys = append(result.ReplaceKeys, resource.PropertyKey(path))
		}
	}
	if diff.Replaces() && declared.DeleteBeforeReplace != nil {
		result.DeleteBeforeReplace = declared.DeleteBeforeReplace(diff.Old, diff.New)
	}
	return result, nil
}
