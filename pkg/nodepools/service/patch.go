package service

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// PatchNodePool changes some of a pool, by a merge patch (RFC 7396) of its JSON.
func (s *Service) PatchNodePool(ctx context.Context, request *nodepoolsv1.PatchNodePoolRequest) (*nodepoolsv1.NodePool, error) {
	if request.GetPatch() == nil {
		return nil, violates("", "required", "a patch is required")
	}
	return s.updateNodePool(ctx, request.GetId(), request.GetClusterId(), call{"", "PatchNodePool", request, request.GetDryRun()}, nil, func(current *nodepoolsv1.NodePool) (*nodepoolsv1.NodePool, error) {
		return patched(&nodepoolsv1.NodePool{Id: current.GetId(), Name: current.GetName(), ClusterId: current.GetClusterId(), Spec: current.GetSpec()}, request.GetPatch())
	})
}

// PatchCluster changes some of a cluster, by a merge patch (RFC 7396) of its JSON.
func (s *Service) PatchCluster(ctx context.Context, request *nodepoolsv1.PatchClusterRequest) (*nodepoolsv1.Cluster, error) {
	if request.GetPatch() == nil {
		return nil, violates("", "required", "a patch is required")
	}
	return s.updateCluster(ctx, request.GetId(), call{"", "PatchCluster", request, request.GetDryRun()}, nil, func(current *nodepoolsv1.Cluster) (*nodepoolsv1.Cluster, error) {
		return patched(&nodepoolsv1.Cluster{Id: current.GetId(), Name: current.GetName(), Spec: current.GetSpec()}, request.GetPatch())
	})
}

// writable are the fields that a patch can change, or must agree with. What the service makes is not looked at, as in an update.
var writable = []string{"id", "name", "cluster_id", "spec", "resource_version"}

// patched returns what a merge patch makes of an object.
func patched[M proto.Message](current M, patch *structpb.Struct) (M, error) {
	var none M
	changes, violations := canonical(current.ProtoReflect().Descriptor(), patch.AsMap(), "")
	if err := invalid(violations); err != nil {
		return none, err
	}
	maps.DeleteFunc(changes, func(key string, _ any) bool { return !slices.Contains(writable, key) })
	text, err := protojson.Marshal(current)
	if err != nil {
		return none, errors.Wrap(err, "write the object as JSON")
	}
	var target map[string]any
	if err := json.Unmarshal(text, &target); err != nil {
		return none, errors.Wrap(err, "read the object's JSON")
	}
	text, err = json.Marshal(mergePatch(target, changes))
	if err != nil {
		return none, errors.Wrap(err, "write the patched object as JSON")
	}
	result := current.ProtoReflect().New().Interface().(M)
	if err := protojson.Unmarshal(text, result); err != nil {
		return none, violates("", "json", "the patched object cannot be read: "+protojsonProblem(err))
	}
	return result, nil
}

// mergePatch is the algorithm of RFC 7396, section 2.
func mergePatch(target any, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result, ok := target.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for key, value := range changes {
		if value == nil {
			delete(result, key)
		} else {
			result[key] = mergePatch(result[key], value)
		}
	}
	return result
}

// canonical returns a patch with its fields named as the JSON of an object names them, and the fields that there are not.
func canonical(message protoreflect.MessageDescriptor, patch map[string]any, path string) (map[string]any, []validation.Violation) {
	result := make(map[string]any, len(patch))
	var violations []validation.Violation
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		field := message.Fields().ByJSONName(key)
		if field == nil {
			field = message.Fields().ByTextName(key)
		}
		at := key
		if path != "" {
			at = path + "." + key
		}
		if field == nil {
			violations = append(violations, validation.Violation{FieldPath: at, RuleID: "unknown_field", Message: "there is no such field"})
			continue
		}
		if _, twice := result[field.JSONName()]; twice {
			violations = append(violations, validation.Violation{FieldPath: at, RuleID: "duplicate_field", Message: "is given twice, under two names"})
			continue
		}
		value, more := canonicalValue(field, patch[key], at)
		result[field.JSONName()] = value
		violations = append(violations, more...)
	}
	return result, violations
}

func canonicalValue(field protoreflect.FieldDescriptor, value any, path string) (any, []validation.Violation) {
	message := field.Message()
	if message == nil || field.IsMap() || message.ParentFile().Package() != ownPackage {
		return value, nil
	}
	switch value := value.(type) {
	case map[string]any:
		if field.IsList() {
			return value, nil
		}
		return canonical(message, value, path)
	case []any:
		var violations []validation.Violation
		result := make([]any, len(value))
		for i, element := range value {
			result[i] = element
			if object, ok := element.(map[string]any); ok {
				changes, more := canonical(message, object, path+"["+strconv.Itoa(i)+"]")
				result[i] = changes
				violations = append(violations, more...)
			}
		}
		return result, violations
	default:
		return value, nil
	}
}

// ownPackage is the package of the messages whose fields a patch names. Others, such as Timestamp, have a JSON of their own.
var ownPackage = (&nodepoolsv1.NodePool{}).ProtoReflect().Descriptor().ParentFile().Package()
