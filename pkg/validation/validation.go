// Package validation applies the buf.validate rules of the protos to messages. It is the only package that knows which
// library does so.
package validation

import (
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
)

// Violation is one broken rule.
type Violation struct {
	// FieldPath is where the value stands in the message, such as "spec.default_node_pool.node_count". Empty for a rule of
	// the message itself.
	FieldPath string `json:"fieldPath"`
	// RuleID names the rule, such as "required", "uint32.gt" or "autoscale.order".
	RuleID string `json:"ruleId"`
	// Message says what is allowed.
	Message string `json:"message"`
}

// String returns the violation as one line.
func (v Violation) String() string {
	if v.FieldPath == "" {
		return fmt.Sprintf("%s [%s]", v.Message, v.RuleID)
	}
	return fmt.Sprintf("%s: %s [%s]", v.FieldPath, v.Message, v.RuleID)
}

// Error is the error of a message that breaks rules.
type Error struct {
	// Message is the short name of the message's type, such as "CivoKubernetesCluster".
	Message string
	// Violations are the broken rules, in the order of the fields. There is at least one.
	Violations []Violation
}

// Error lists every broken rule, one a line.
func (e *Error) Error() string {
	if len(e.Violations) == 1 {
		return fmt.Sprintf("invalid %s: %s", e.Message, e.Violations[0])
	}
	lines := make([]string, 0, len(e.Violations)+1)
	lines = append(lines, fmt.Sprintf("invalid %s: %d rules are broken:", e.Message, len(e.Violations)))
	for _, v := range e.Violations {
		lines = append(lines, "  "+v.String())
	}
	return strings.Join(lines, "\n")
}

// Validate checks a message against the rules of its proto. The error is an *Error when rules are broken; any other error
// means that the rules themselves could not be read or evaluated.
func Validate(message proto.Message) error {
	if message == nil || !message.ProtoReflect().IsValid() {
		return errors.New("validate: the message is nil")
	}
	err := protovalidate.Validate(message)
	if err == nil {
		return nil
	}
	var broken *protovalidate.ValidationError
	if !errors.As(err, &broken) {
		return errors.Wrapf(err, "evaluate the rules of %s", message.ProtoReflect().Descriptor().FullName())
	}
	result := &Error{Message: string(message.ProtoReflect().Descriptor().Name())}
	for _, violation := range broken.Violations {
		result.Violations = append(result.Violations, Violation{
			FieldPath: protovalidate.FieldPathString(violation.Proto.GetField()),
			RuleID:    violation.Proto.GetRuleId(),
			Message:   violation.Proto.GetMessage(),
		})
	}
	return result
}
