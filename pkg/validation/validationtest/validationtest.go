// Package validationtest tests the rules that a manifest's protos carry, with tables of manifests that break them.
//
// A table is made of cases. A case takes a valid manifest, changes it, and names exactly the violations that
// pkg/validation must then report. Paths are written as violations write them (spec.taints[0].key,
// spec.labels["team"]), and the same path names what a case sets and what it expects.
//
// Run also walks the descriptors of the manifest and fails when a rule is not expected to be broken by any case, so that a new
// rule cannot be left without a test.
package validationtest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"buf.build/go/protovalidate"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/validation"
)

// Violation is a broken rule: the path of the field that breaks it, and the rule's id.
type Violation struct {
	// Field is the path of the field from the root of the message, such as spec.default_node_pool.node_count; that of the
	// enclosing message for a rule about several fields, and empty for a rule of the root.
	Field string
	// Rule is the id of the rule, such as required, dns_label or autoscale.order.
	Rule string
}

// Case is a change to a valid message, and the violations that it makes.
type Case[M proto.Message] struct {
	// Name names the subtest.
	Name string
	// Reason says why the outcome is right.
	Reason string
	// Mutate changes the valid message.
	Mutate func(M)
	// Want holds all violations that are expected, in any order; none when the message stays valid.
	Want []Violation
}

// Run tests each case in a subtest. It fails also when the message that valid returns is not valid, and when a rule of the
// message or of a message inside it, as their descriptors carry them, is expected to be broken by no case.
func Run[M proto.Message](t *testing.T, valid func() M, groups ...[]Case[M]) {
	t.Helper()
	if err := validation.Validate(valid()); err != nil {
		t.Fatalf("the message that cases start from is not valid: %v", err)
	}

	cases := slices.Concat(groups...)
	names := map[string]bool{}
	for _, c := range cases {
		if names[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		names[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.run(t, valid())
		})
	}

	t.Run("every rule is broken by a case", func(t *testing.T) {
		t.Parallel()
		var expected []Violation
		for _, c := range cases {
			expected = append(expected, c.Want...)
		}
		for _, rule := range uncovered(valid().ProtoReflect().Descriptor(), expected) {
			t.Errorf("no case expects the rule %q of %q to be broken", rule.Rule, rule.Field)
		}
	})
}

// run changes a valid message as the case says and compares the violations, also with what a memo says that knows the valid one.
func (c Case[M]) run(t *testing.T, m M) {
	t.Helper()
	sorted := func(vs []Violation) []Violation {
		vs = slices.Clone(vs)
		slices.SortFunc(vs, func(a, b Violation) int {
			return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Rule, b.Rule))
		})
		return vs
	}
	memo := validation.NewMemo()
	if !memo.Valid(m) {
		t.Error("a memo takes the message that cases start from for invalid")
	}
	c.Mutate(m)
	if diff := gocmp.Diff(sorted(c.Want), sorted(Of(t, m))); diff != "" {
		t.Errorf("%s\nviolations (-want +got):\n%s", c.Reason, diff)
	}
	if got, want := memo.Valid(m), len(c.Want) == 0; got != want {
		t.Errorf("%s\na memo of the message that cases start from says %t, want %t", c.Reason, got, want)
	}
}

// Of returns the violations that pkg/validation reports of a message. It fails the test when the message's rules cannot be
// evaluated, and when a violation has no message for a person to read.
func Of(t testing.TB, m proto.Message) []Violation {
	t.Helper()
	err := validation.Validate(m)
	if err == nil {
		return nil
	}
	var invalid *validation.Error
	if !errors.As(err, &invalid) {
		t.Fatalf("the rules could not be evaluated: %v", err)
	}
	if len(invalid.Violations) == 0 {
		t.Fatalf("a validation error without a violation: %v", err)
	}
	var found []Violation
	for _, v := range invalid.Violations {
		if v.Message == "" {
			t.Errorf("the violation of %q at %q has no message", v.RuleID, v.FieldPath)
		}
		found = append(found, Violation{Field: v.FieldPath, Rule: v.RuleID})
	}
	return found
}

// Keeps tells whether a message keeps the rules of one of its own fields, whatever else is wrong with it. It looks at no other field,
// so that a fuzz target can ask it often.
func Keeps(t testing.TB, m proto.Message, field protoreflect.Name) bool {
	t.Helper()
	fd := m.ProtoReflect().Descriptor().Fields().ByName(field)
	if fd == nil {
		t.Fatalf("%s has no field %s", m.ProtoReflect().Descriptor().FullName(), field)
	}
	err := protovalidate.Validate(m, protovalidate.WithFilter(protovalidate.FilterFunc(
		func(_ protoreflect.Message, d protoreflect.Descriptor) bool { return d == fd })))
	var broken *protovalidate.ValidationError
	if err != nil && !errors.As(err, &broken) {
		t.Fatalf("the rules could not be evaluated: %v", err)
	}
	return err == nil
}

// Accepts makes a case for each value: with it at path the message stays valid. A nil value clears the field.
func Accepts[M proto.Message](path, reason string, values ...any) []Case[M] {
	return casesOf[M](path, "accepts", reason, values, nil)
}

// Rejects makes a case for each value: with it at path the message has exactly one violation, of the rule, at that path. A nil
// value clears the field.
func Rejects[M proto.Message](path, rule, reason string, values ...any) []Case[M] {
	return casesOf[M](path, "rejects as "+rule, reason, values, []Violation{{Field: path, Rule: rule}})
}

func casesOf[M proto.Message](path, verb, reason string, values []any, want []Violation) []Case[M] {
	var cases []Case[M]
	for _, value := range values {
		cases = append(cases, Case[M]{
			Name:   fmt.Sprintf("%s %s %s", path, verb, short(value)),
			Reason: reason,
			Mutate: Set[M](path, value),
			Want:   want,
		})
	}
	return cases
}

// short renders a value for a subtest's name: in full when it is short, else its beginning and its length.
func short(value any) string {
	const limit = 48
	if value == nil {
		return "nothing"
	}
	text := fmt.Sprintf("%v", value)
	if s, ok := value.(string); ok {
		text = fmt.Sprintf("%q", s)
	}
	if len(text) > limit {
		return fmt.Sprintf("%s… (%d)", text[:limit], len(text))
	}
	return text
}
