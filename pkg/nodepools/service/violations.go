package service

import (
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// rules returns the rules of its proto that a message breaks, with paths as they are in its JSON. Noun names the message in texts.
func rules(message proto.Message, noun string) ([]validation.Violation, error) {
	err := validation.Validate(message)
	var broken *validation.Error
	if err == nil || !errors.As(err, &broken) {
		return nil, err
	}
	result := make([]validation.Violation, 0, len(broken.Violations))
	for _, violation := range broken.Violations {
		violation.FieldPath = jsonPath(message.ProtoReflect().Descriptor(), violation.FieldPath)
		if violation.RuleID == "required" {
			violation.Message = strings.TrimSpace(noun+" "+violation.FieldPath) + " is required"
		}
		result = append(result, violation)
	}
	return result, nil
}

// compileRules compiles the rules of what the service checks. The error is that they do not compile.
func compileRules() error {
	for _, message := range []proto.Message{
		&nodepoolsv1.NodePool{}, &nodepoolsv1.Cluster{}, &nodepoolsv1.ControllerStatus{}, &nodepoolsv1.Controller{}, &nodepoolsv1.Webhook{},
		&nodepoolsv1.ListNodePoolsRequest{}, &nodepoolsv1.ListClustersRequest{}, &nodepoolsv1.ListEventsRequest{}, &nodepoolsv1.ListAuditRequest{},
	} {
		// Which rules an empty message breaks is of no interest.
		if _, err := rules(message, ""); err != nil {
			return errors.Wrapf(err, "compile the rules of %s", message.ProtoReflect().Descriptor().Name())
		}
	}
	return nil
}

// check returns the error of a message that breaks rules.
func check(message proto.Message, noun string) error {
	violations, err := rules(message, noun)
	if err != nil {
		return err
	}
	return invalid(violations)
}

// checkQuery returns the error of a request of a list that breaks rules. What no database keeps is in nothing that can be looked for; a query of
// HTTP may hold it.
func checkQuery(request proto.Message) error {
	if err := check(request, "request"); err != nil {
		return err
	}
	var failed error
	request.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() != protoreflect.StringKind {
			return true
		}
		texts := []string{value.String()}
		if field.IsList() {
			texts = texts[:0]
			for i := range value.List().Len() {
				texts = append(texts, value.List().Get(i).String())
			}
		}
		if slices.ContainsFunc(texts, func(text string) bool { return text != plainText(text) }) {
			failed = violates(field.JSONName(), "text", "must be UTF-8 without the character zero")
		}
		return failed == nil
	})
	return failed
}

// invalid returns the error of broken rules; nil when there are none. The first one is the details.
func invalid(violations []validation.Violation) error {
	if len(violations) == 0 {
		return nil
	}
	first := violations[0]
	details := first.Message
	if first.FieldPath != "" && first.RuleID != "required" {
		details = first.FieldPath + ": " + details
	}
	return failWith(ReasonValidation, "Validation failed", details, violations)
}

// violates returns the error of one broken rule.
func violates(field, rule, message string) error {
	return invalid([]validation.Violation{{FieldPath: field, RuleID: rule, Message: message}})
}

// jsonPath turns the path of a field, such as spec.platform.gcp.machine_type, into that of its JSON.
func jsonPath(message protoreflect.MessageDescriptor, path string) string {
	var result strings.Builder
	for path != "" && message != nil {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		field := message.Fields().ByName(protoreflect.Name(path[:end]))
		if field == nil {
			break
		}
		result.WriteString(field.JSONName())
		path = path[end:]
		message = field.Message()
		if field.IsMap() {
			message = field.MapValue().Message()
		}
		if strings.HasPrefix(path, "[") {
			end := subscript(path)
			result.WriteString(path[:end])
			path = path[end:]
		}
		if strings.HasPrefix(path, ".") {
			result.WriteByte('.')
			path = path[1:]
		}
	}
	return result.String() + path
}

// subscript is the length of the subscript that a path begins with: [0], or ["a.b"].
func subscript(path string) int {
	quoted := false
	for i := 1; i < len(path); i++ {
		switch {
		case path[i] == '\\' && quoted:
			i++
		case path[i] == '"':
			quoted = !quoted
		case path[i] == ']' && !quoted:
			return i + 1
		}
	}
	return len(path)
}

// canonicalID returns an id in the one spelling that is kept: lower case.
func canonicalID(field, id string) (string, error) {
	if len(id) != 36 || uuid.Validate(id) != nil {
		return "", violates(field, "string.uuid", "must be a UUID, such as 123e4567-e89b-12d3-a456-426614174000")
	}
	return strings.ToLower(id), nil
}

// protojsonProblem is what protojson says, without its prefix, whose spaces differ from build to build.
func protojsonProblem(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(text, "proto: ")
	return strings.TrimPrefix(text, "syntax error ")
}
