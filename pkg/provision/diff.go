package provision

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
)

// PropertyDiff is one single value of a resource before and after a change, whether it differs or not.
type PropertyDiff struct {
	// Path is where the value stands, such as "pools.nodeCount" or "tags[0]".
	Path string
	// Kind is "add", "update", "delete" or "same".
	Kind string
	// Replaces tells that it is this property that makes the resource be replaced.
	Replaces bool
	// Old and New are the values. A secret is "[secret]"; nil stands for what is not there, or is not known before an up.
	Old, New any
}

// sides are the properties of a resource before and after a change: those that were asked for, and of a refresh those that were there.
type sides struct{ before, after map[string]any }

// sidesOf are the sides of a step that ended, of which begun is the beginning.
func sidesOf(ended, begun apitype.StepEventMetadata) sides {
	step, of := begun, func(state *apitype.StepEventStateMetadata) map[string]any { return state.Inputs }
	if begun.Op == apitype.OpRefresh {
		step, of = ended, func(state *apitype.StepEventStateMetadata) map[string]any { return state.Outputs }
	}
	var found sides
	if step.Old != nil {
		found.before = of(step.Old)
	}
	// A deletion tells what it deletes as the new state, too.
	if step.New != nil && opOf(step.Op) != OpDelete {
		found.after = of(step.New)
	}
	return found
}

// Diff are all properties of one of the Resources, deep, in the order of their paths: for a new resource its own, for a deleted one those
// that it had, else both. A secret that differs is an update of "[secret]".
func (r *Result) Diff(resource int) []PropertyDiff {
	if resource >= len(r.sides) {
		return nil
	}
	c := r.Resources[resource]
	before, after := map[string]any{}, map[string]any{}
	flatten(r.sides[resource].before, "", before)
	flatten(r.sides[resource].after, "", after)
	paths := make([]string, 0, len(before)+len(after))
	for path := range before {
		paths = append(paths, path)
	}
	for path := range after {
		if _, both := before[path]; !both {
			paths = append(paths, path)
		}
	}
	sort.Strings(paths)
	diffs := make([]PropertyDiff, 0, len(paths))
	for _, path := range paths {
		diff := PropertyDiff{Path: path, Kind: "same", Old: before[path], New: after[path]}
		_, had := before[path]
		_, has := after[path]
		changed, replaces := c.changes(path)
		switch {
		case !had:
			diff.Kind = "add"
		case !has:
			diff.Kind = "delete"
		case changed && diff.Old == secretMark, diff.New == nil, !reflect.DeepEqual(diff.Old, diff.New):
			diff.Kind = "update"
		}
		diff.Replaces = replaces && diff.Kind != "same"
		diffs = append(diffs, diff)
	}
	return diffs
}

// changes tells whether a property is one of those that change, or stands in one, and whether it replaces the resource.
func (c Change) changes(path string) (changed, replaces bool) {
	for _, property := range c.Properties {
		rest, ok := strings.CutPrefix(path, property.Path)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			changed, replaces = true, replaces || property.Replaces
		}
	}
	return changed, replaces
}

// flatten collects the single values in a value by their paths. An empty list or object is one.
func flatten(value any, path string, into map[string]any) {
	switch value := value.(type) {
	case map[string]any:
		if _, marked := value[signatureKey]; marked {
			break
		}
		for name, inner := range value {
			if strings.HasPrefix(name, "__") {
				continue // the Terraform bridge's own
			}
			at := name
			if path != "" {
				at = path + "." + name
			}
			flatten(inner, at, into)
		}
		if len(value) > 0 || path == "" {
			return
		}
	case []any:
		for i, inner := range value {
			flatten(inner, fmt.Sprintf("%s[%d]", path, i), into)
		}
		if len(value) > 0 {
			return
		}
	}
	output := outputOf(value)
	switch {
	case output.Secret:
		into[path] = secretMark
	default:
		into[path] = output.Value
	}
}
