package fault

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// ParseError says where a plan's text is wrong.
type ParseError struct {
	// File is what the text was called.
	File string
	// Line and Column count from 1; both are 0 when the text is not YAML, and Message says where.
	Line, Column int
	Message      string
}

// Error is FILE:LINE:COLUMN: MESSAGE.
func (e *ParseError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Read reads a plan from a file.
func Read(path string) (Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Plan{}, errors.Wrap(err, "read the fault plan")
	}
	return Parse(path, text)
}

// Parse reads a plan from YAML, of which JSON is a part:
//
//	seed: 7
//	faults:
//	  - kind: rate_limit
//	    route: POST /v2/kubernetes/clusters
//	    after: 1
//	    count: 2
//	    retry_after: 3s
//
// The fields are those of [Plan] and [Fault]. Unknown fields, repeated ones, values of other types, a value that makes no sense, and
// a second document are errors, all of type *[ParseError]. file is what errors call the text.
func Parse(file string, text []byte) (Plan, error) {
	p := parser{file: file}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var node yaml.Node
	switch err := decoder.Decode(&node); {
	case errors.Is(err, io.EOF):
		return Plan{}, &ParseError{File: file, Message: "there is no plan in it"}
	case err != nil:
		return Plan{}, &ParseError{File: file, Message: err.Error()}
	}
	var next yaml.Node
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return Plan{}, &ParseError{File: file, Message: err.Error()}
	default:
		return Plan{}, p.fail(&next, "a second document; a plan is one")
	}
	if node.Kind != yaml.DocumentNode || len(node.Content) != 1 {
		return Plan{}, &ParseError{File: file, Message: "there is no plan in it"}
	}
	return p.plan(node.Content[0])
}

type parser struct{ file string }

func (p parser) fail(node *yaml.Node, format string, args ...any) error {
	return &ParseError{File: p.file, Line: node.Line, Column: node.Column, Message: fmt.Sprintf(format, args...)}
}

// fields calls the function of each field that a mapping has.
func (p parser) fields(node *yaml.Node, what string, known map[string]func(value *yaml.Node) error) (map[string]*yaml.Node, error) {
	if node.Kind != yaml.MappingNode {
		return nil, p.fail(node, "want %s, a mapping", what)
	}
	found := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		read, ok := known[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || !ok:
			return nil, p.fail(key, "%s has no field %q", what, key.Value)
		case found[key.Value] != nil:
			return nil, p.fail(key, "the field %s is given twice", key.Value)
		}
		found[key.Value] = value
		if err := read(value); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (p parser) plan(node *yaml.Node) (Plan, error) {
	var plan Plan
	_, err := p.fields(node, "a plan", map[string]func(*yaml.Node) error{
		"seed": func(value *yaml.Node) (err error) {
			plan.Seed, err = strconv.ParseUint(value.Value, 10, 64)
			if value.Kind != yaml.ScalarNode || value.Tag != "!!int" || err != nil {
				return p.fail(value, "seed: want a whole number from 0 to 18446744073709551615")
			}
			return nil
		},
		"faults": func(value *yaml.Node) error {
			if value.Kind != yaml.SequenceNode {
				return p.fail(value, "faults: want a list")
			}
			for _, item := range value.Content {
				fault, err := p.fault(item)
				if err != nil {
					return err
				}
				plan.Faults = append(plan.Faults, fault)
			}
			return nil
		},
	})
	if err != nil {
		return Plan{}, err
	}
	return plan, nil
}

func (p parser) fault(node *yaml.Node) (Fault, error) {
	var f Fault
	var kind string
	found, err := p.fields(node, "a fault", map[string]func(*yaml.Node) error{
		"kind":        p.text("kind", &kind),
		"cloud":       p.text("cloud", &f.Cloud),
		"route":       p.text("route", &f.Route),
		"after":       p.whole("after", 0, &f.After),
		"count":       p.whole("count", 1, &f.Count),
		"probability": p.fraction("probability", &f.Probability),
		"duration":    p.duration("duration", &f.Duration),
		"status":      p.whole("status", 100, &f.Status),
		"retry_after": p.duration("retry_after", &f.RetryAfter),
	})
	if err != nil {
		return Fault{}, err
	}
	f.Kind = Kind(kind)
	if err := f.validate(); err != nil {
		at := node
		var field *fieldError
		if errors.As(err, &field) && found[field.field] != nil {
			at = found[field.field]
		}
		return Fault{}, p.fail(at, "%s", err)
	}
	return f, nil
}

func (p parser) text(name string, into *string) func(*yaml.Node) error {
	return func(value *yaml.Node) error {
		if value.Kind != yaml.ScalarNode || value.Tag != "!!str" || value.Value == "" {
			return p.fail(value, "%s: want a text", name)
		}
		*into = value.Value
		return nil
	}
}

func (p parser) whole(name string, least int, into *int) func(*yaml.Node) error {
	return func(value *yaml.Node) error {
		number, err := strconv.ParseInt(value.Value, 10, 32)
		if value.Kind != yaml.ScalarNode || value.Tag != "!!int" || err != nil || int(number) < least {
			return p.fail(value, "%s: want a whole number, %d at least", name, least)
		}
		*into = int(number)
		return nil
	}
}

func (p parser) fraction(name string, into *float64) func(*yaml.Node) error {
	return func(value *yaml.Node) error {
		number, err := strconv.ParseFloat(value.Value, 64)
		isNumber := value.Kind == yaml.ScalarNode && (value.Tag == "!!float" || value.Tag == "!!int")
		// Written so that what is not a number fails too.
		if !isNumber || err != nil || !(number > 0 && number <= 1) {
			return p.fail(value, "%s: want a number above 0, 1 at most", name)
		}
		*into = number
		return nil
	}
}

func (p parser) duration(name string, into *time.Duration) func(*yaml.Node) error {
	return func(value *yaml.Node) error {
		d, err := time.ParseDuration(value.Value)
		if value.Kind != yaml.ScalarNode || value.Tag != "!!str" || err != nil || d <= 0 {
			return p.fail(value, "%s: want a duration above 0, such as 1.5s or 2m", name)
		}
		*into = d
		return nil
	}
}
