package provision

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Result is what an operation did to a stack, or would do to it.
type Result struct {
	// Stack is the stack.
	Stack stackidentity.Identity
	// Status is what became of the operation; only an operation on a set tells it.
	Status Status
	// Err is why the operation failed or was canceled; only an operation on a set tells it here.
	Err error
	// Because are the stacks whose operations failed, when this one was skipped for it.
	Because []stackidentity.Identity
	// Resources are the resources that change, in the order in which they do. Those that stay the same are not among them.
	Resources []Change
	// Changes count the resources by what is done to them, those that stay the same under OpSame. Replaced ones count once.
	Changes map[Op]int
	// Outputs are the outputs of the stack after the operation; nil when the operation does not tell them.
	Outputs Outputs
	// Diagnostics are the messages of the module, the plugin and the engine, each once.
	Diagnostics []Diagnostic
	// Associated are objects in the cloud that no manifest declares: of a destroy, what Kubernetes made for a cluster, and what keeps a
	// network from being deleted.
	Associated []Associated
	// Missing tells that there is no such stack: there was nothing to do.
	Missing bool
	// Duration is how long the operation took.
	Duration time.Duration

	sides []sides // of the resources
}

// Changed tells whether any resource changes.
func (r *Result) Changed() bool {
	for op, count := range r.Changes {
		if op != OpSame && op != OpRead && count > 0 {
			return true
		}
	}
	return false
}

// Change is what is done to one resource.
type Change struct {
	// Resource is the name of the resource in its module, such as "cluster".
	Resource string `json:"resource"`
	// Type is its type token, such as "civo:index/kubernetesCluster:KubernetesCluster".
	Type string `json:"type"`
	// Op is what is done.
	Op Op `json:"op"`
	// Properties are the properties that differ, in the order of their names. Empty for new and for deleted resources.
	Properties []PropertyChange `json:"properties,omitempty"`
}

// PropertyChange is a property that differs.
type PropertyChange struct {
	// Path is where the property stands, such as "pools.nodeCount".
	Path string `json:"path"`
	// Kind is "add", "update" or "delete".
	Kind string `json:"kind"`
	// Replaces tells that it is this property that makes the resource be replaced.
	Replaces bool `json:"replaces,omitempty"`
	// Old and New are the values where they are single ones and no secrets; nil where they are not known.
	Old any `json:"old,omitempty"`
	New any `json:"new,omitempty"`
}

// changeOf is the change of a step that ended, of which begun is the beginning.
func changeOf(ended, begun apitype.StepEventMetadata) Change {
	change := Change{Resource: nameOf(ended.URN), Type: ended.Type, Op: opOf(ended.Op)}
	switch {
	case begun.Op == apitype.OpRefresh:
		// A refresh ends as what it found: an update when the cloud differs from the state. It also says so when nothing differs
		// that anybody could see.
		if change.Op == OpUpdate && ended.Old != nil && ended.New != nil {
			change.Properties = differences(ended.Old.Outputs, ended.New.Outputs, "")
		}
		if change.Op == OpRefresh || change.Op == OpUpdate && len(change.Properties) == 0 {
			change.Op = OpSame
		}
	case change.Op == OpUpdate || change.Op == OpReplace:
		change.Properties = plannedChanges(begun)
	}
	return change
}

// plannedChanges are the properties because of which a resource is updated or replaced.
func plannedChanges(step apitype.StepEventMetadata) []PropertyChange {
	if step.Old == nil || step.New == nil {
		return nil
	}
	replaces := func(path string) bool {
		for _, key := range step.Keys {
			if path == key || strings.HasPrefix(path, key+".") || strings.HasPrefix(path, key+"[") {
				return true
			}
		}
		return false
	}
	var changes []PropertyChange
	// A plugin tells the paths that differ, or only the names of the properties; then the inputs tell the paths.
	for path, diff := range step.DetailedDiff {
		property := PropertyChange{Path: path, Kind: "update", Replaces: replaces(path)}
		switch diff.Kind {
		case apitype.DiffAdd, apitype.DiffAddReplace:
			property.Kind = "add"
		case apitype.DiffDelete, apitype.DiffDeleteReplace:
			property.Kind = "delete"
		}
		switch diff.Kind {
		case apitype.DiffAddReplace, apitype.DiffDeleteReplace, apitype.DiffUpdateReplace:
			property.Replaces = true
		}
		if property.Kind != "add" {
			property.Old = scalarAt(step.Old.Inputs, path)
		}
		if property.Kind != "delete" {
			property.New = scalarAt(step.New.Inputs, path)
		}
		changes = append(changes, property)
	}
	if len(step.DetailedDiff) == 0 {
		for _, name := range step.Diffs {
			found := differences(only(step.Old.Inputs, name), only(step.New.Inputs, name), "")
			if len(found) == 0 {
				// It is a secret, or it is what the cloud has that differs and not what was asked for.
				found = []PropertyChange{{Path: name, Kind: "update"}}
			}
			for _, property := range found {
				property.Replaces = replaces(property.Path)
				changes = append(changes, property)
			}
		}
	}
	sort.Slice(changes, func(i, j int) bool { return changes[i].Path < changes[j].Path })
	return changes
}

// only is the one property of a name.
func only(values map[string]any, name string) map[string]any {
	if value, ok := values[name]; ok {
		return map[string]any{name: value}
	}
	return nil
}

// differences are the single values, deep in properties, that differ. Secrets look all the same.
func differences(old, new map[string]any, prefix string) []PropertyChange {
	names := map[string]bool{}
	for name := range old {
		names[name] = true
	}
	for name := range new {
		names[name] = true
	}
	var changes []PropertyChange
	for name := range names {
		if strings.HasPrefix(name, "__") {
			continue // the Terraform bridge's own
		}
		path := name
		if prefix != "" {
			path = prefix + "." + name
		}
		before, had := old[name]
		after, has := new[name]
		changes = append(changes, difference(before, after, had, has, path)...)
	}
	sort.Slice(changes, func(i, j int) bool { return changes[i].Path < changes[j].Path })
	return changes
}

func difference(before, after any, had, has bool, path string) []PropertyChange {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	beforeMap, beforeIsMap := before.(map[string]any)
	afterMap, afterIsMap := after.(map[string]any)
	if beforeIsMap && afterIsMap {
		return differences(beforeMap, afterMap, path)
	}
	beforeList, beforeIsList := before.([]any)
	afterList, afterIsList := after.([]any)
	if beforeIsList && afterIsList {
		var changes []PropertyChange
		for i := range max(len(beforeList), len(afterList)) {
			at := func(list []any) (any, bool) {
				if i < len(list) {
					return list[i], true
				}
				return nil, false
			}
			b, bOK := at(beforeList)
			a, aOK := at(afterList)
			changes = append(changes, difference(b, a, bOK, aOK, fmt.Sprintf("%s[%d]", path, i))...)
		}
		return changes
	}
	change := PropertyChange{Path: path, Kind: "update", Old: scalarAt(map[string]any{"v": before}, "v"),
		New: scalarAt(map[string]any{"v": after}, "v")}
	switch {
	case !had:
		change.Kind = "add"
	case !has:
		change.Kind = "delete"
	}
	return []PropertyChange{change}
}
