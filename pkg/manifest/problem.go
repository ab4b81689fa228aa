package manifest

import (
	"fmt"
	"strings"
)

// Ids of the rules that this package checks. Those of the protos come beside them, such as "required" or "dns_label".
const (
	// RuleSyntax is broken by text that is no YAML.
	RuleSyntax = "yaml.syntax"
	// RuleNoDocument is broken by a file in which nothing is declared.
	RuleNoDocument = "document.none"
	// RuleDocument is broken by a document that is a list or a single value.
	RuleDocument = "document.mapping"
	// RuleKind is broken by a missing or unknown kind.
	RuleKind = "kind"
	// RuleAPIVersion is broken by a missing apiVersion, or one that is not the kind's.
	RuleAPIVersion = "api_version"
	// RuleUnknownField is broken by a key that the message does not have.
	RuleUnknownField = "field.unknown"
	// RuleDuplicateField is broken by a key that stands there twice.
	RuleDuplicateField = "field.duplicate"
	// RuleOneOf is broken by a second field of those of which only one can be given.
	RuleOneOf = "field.oneof"
	// RuleType is broken by a value of the wrong type.
	RuleType = "field.type"
	// RuleDuplicateResource is broken by two manifests of one resource.
	RuleDuplicateResource = "resource.duplicate"
	// RuleStack is broken by labels that name no stack, or the stack of another manifest.
	RuleStack = "stack"
	// RuleReference is broken by a reference that points at nothing.
	RuleReference = "reference"
	// RuleSetting is broken by a setting for a manifest that is not there.
	RuleSetting = "set"
	// RuleRegion: no region is given, and none can be told.
	RuleRegion = "region"
)

// Problem is one thing that is wrong.
type Problem struct {
	// File is the path as it was given, "-" for the standard input. For a problem with a Setting it is the flag and the setting, and
	// Column counts in the setting.
	File string `json:"file"`
	// Generated tells that Document, Line and Column count in what was made from the file, such as by kustomize.
	Generated bool `json:"generated,omitempty"`
	// Document counts the documents of the file from 1; 0 when the problem is the file's.
	Document int `json:"document,omitempty"`
	// Line and Column count from 1; 0 when they are not known.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Kind is the kind of the manifest, where it is known.
	Kind string `json:"kind,omitempty"`
	// FieldPath is where the value belongs in the message, such as "spec.default_node_pool.node_count". Empty for the document.
	FieldPath string `json:"fieldPath,omitempty"`
	// RuleID names the rule that is broken.
	RuleID string `json:"ruleId"`
	// Message says what is wrong, and what would be right.
	Message string `json:"message"`
	// Hint says how to go on where the message does not: the words that are allowed, the one that was meant, or an example.
	Hint string `json:"hint,omitempty"`
	// Excerpt is the line of the file, or the setting; empty where it might hold a secret.
	Excerpt string `json:"-"`
}

// String returns the problem as one line: "file:line:column: field: message [rule]".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Generated {
		b.WriteString(" (built)")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	b.WriteString(": ")
	if p.FieldPath != "" {
		b.WriteString(p.FieldPath + ": ")
	}
	fmt.Fprintf(&b, "%s [%s]", p.Message, p.RuleID)
	return b.String()
}

// Error is the error of manifests that are wrong.
type Error struct {
	// Problems is everything that is wrong, file by file from top to bottom. There is at least one.
	Problems []Problem
}

// Error lists every problem, one a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, problem := range e.Problems {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}
