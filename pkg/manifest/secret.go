package manifest

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// quotedAnchor matches what the YAML parser quotes of a text: the name of an anchor, which is a secret's value where somebody forgot
// the quotes around one that begins with * or &.
var quotedAnchor = regexp.MustCompile(`anchor '.*'`)

// shortKey matches a key of a map that may be shown: no token is that short.
var shortKey = regexp.MustCompile(`^"[a-z0-9][a-z0-9._-]{0,30}"$`)

// kindMessage matches the messages of the decoder that tell the kind of a node, and not its text.
var kindMessage = regexp.MustCompile(` is expected, not a (mapping|list|single value)$`)

// withoutSecrets takes the text of a file out of problems in it where it might be a secret: in the messages that a secret can stand in
// (their protos mark fields as debug_redact), and everywhere where the text is no YAML. Somebody may have taken a value for a key, or
// put it into the wrong field.
func withoutSecrets(problems []Problem, root protoreflect.MessageDescriptor) []Problem {
	if !leadsToSecrets(root, map[protoreflect.FullName]bool{}) {
		return problems
	}
	for i := range problems {
		problem := &problems[i]
		if problem.RuleID == RuleSyntax {
			problem.Message = quotedAnchor.ReplaceAllString(problem.Message, "anchor")
			problem.FieldPath = ""
		} else if path, last, inSecret := locate(root, problem.FieldPath); inSecret {
			problem.FieldPath, problem.Hint = path, ""
			switch problem.RuleID {
			case RuleUnknownField:
				// A key that is nearly a field's name is no secret; the message tells which.
				if names := fieldNames(last.message); nearest(last.key, names) != "" {
					problem.FieldPath = joinPath(path, last.key)
				} else {
					problem.Message = "there is no such field; the fields are " + strings.Join(names, ", ")
				}
			case RuleType:
				if kindMessage.MatchString(problem.Message) {
					break
				}
				problem.Message = "it has no value, or one of another type"
				if last.field != nil {
					problem.Message = typeName(last.field) + " is expected"
				}
			case RuleDuplicateField:
				_, line, _ := strings.Cut(problem.Message, " is given already")
				problem.Message = "it is given already" + line
			}
		}
		problem.Excerpt = ""
	}
	return problems
}

// place is where the known part of a path ends.
type place struct {
	message protoreflect.MessageDescriptor // the innermost message
	field   protoreflect.FieldDescriptor   // the last field; nil when the path leads to a message, or to what is none
	key     string                         // the first part that is no field
}

// pathPart matches a part of a path: a field, and the keys or indexes in it.
var pathPart = regexp.MustCompile(`^([^.\["]*)((?:\["(?:[^"\\]|\\.)*"\]|\[\d+\])*)\.?`)

// locate follows a path, and tells whether it leads into a message that has secrets, or one that leads to such. What it returns as the
// path has only names of fields and short keys in it.
func locate(root protoreflect.MessageDescriptor, fieldPath string) (path string, at place, inSecret bool) {
	at.message = root
	inSecret = leadsToSecrets(root, map[protoreflect.FullName]bool{})
	for rest := fieldPath; rest != "" && at.message != nil; {
		match := pathPart.FindStringSubmatch(rest)
		field := at.message.Fields().ByName(protoreflect.Name(match[1]))
		if field == nil {
			at.field, at.key = nil, rest
			return path, at, inSecret
		}
		keys := match[2]
		if inner := strings.Trim(keys, "[]"); field.IsMap() && keys != "" && !shortKey.MatchString(inner) {
			keys = `["…"]`
		}
		path = joinPath(path, match[1]) + keys
		at.field = field
		element := field.Message()
		if field.IsMap() {
			element = field.MapValue().Message()
		}
		if element != nil {
			at.message = element
			inSecret = leadsToSecrets(element, map[protoreflect.FullName]bool{})
			at.field = nil
		}
		if rest = rest[len(match[0]):]; match[0] == "" {
			break
		}
	}
	return path, at, inSecret
}

// leadsToSecrets tells whether a field of a message, or of one inside of it, is marked as a secret.
func leadsToSecrets(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[message.FullName()] {
		return false
	}
	seen[message.FullName()] = true
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if options, ok := field.Options().(*descriptorpb.FieldOptions); ok && options.GetDebugRedact() {
			return true
		}
		if inner := field.Message(); inner != nil && leadsToSecrets(inner, seen) {
			return true
		}
	}
	return false
}

// fieldNames are the names that a message's fields have in YAML.
func fieldNames(message protoreflect.MessageDescriptor) []string {
	names := make([]string, message.Fields().Len())
	for i := range names {
		names[i] = message.Fields().Get(i).JSONName()
	}
	return names
}
