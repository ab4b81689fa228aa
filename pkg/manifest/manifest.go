// Package manifest reads the YAML that people write into the messages of the kinds, and tells them everything that is wrong
// with it at once: each problem with file, line, column, the path of the field, the id of the rule that it breaks, and a hint. Input
// says where manifests come from, and what is set in them.
//
// A file holds one manifest or several, separated by "---". Keys may be written in camelCase or snake_case. Anchors, aliases
// and merge keys work. A null value is an absent one. JSON is YAML. Documents without content are passed over.
package manifest

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Manifest is one resource that someone declared.
type Manifest struct {
	// Kind is the kind of the resource.
	Kind kinds.Kind
	// Target is the message of the kind. It keeps all rules of the protos. Its status is absent, whatever the YAML says.
	Target proto.Message
	// Source is where the manifest stands.
	Source Source

	// positions are those of all fields. Where they are nil so far, top are those of the fields of the document itself.
	positions positions
	locate    sync.Once
	top       []fieldPlace
	document  document
	settings  []Setting
}

// Source is where a manifest stands.
type Source struct {
	// File is the path as it was given, "-" for the standard input.
	File string
	// Document counts the documents of the file from 1, those without content included.
	Document int
	// Line is where the document's content starts, counted from 1.
	Line int
	// Generated tells that the document stands in what was made from the file, such as by kustomize, and not in it.
	Generated bool
}

// String returns "file:line".
func (s Source) String() string {
	return s.File + ":" + strconv.Itoa(s.Line)
}

// Name is the metadata.name of the resource.
func (m *Manifest) Name() string {
	return kinds.Metadata(m.Target).GetName()
}

// String names the resource as a person would: "CivoVpc main".
func (m *Manifest) String() string {
	return m.Kind.Name + " " + m.Name()
}

// Problem returns a problem with a field of the manifest, at the place where the field stands, or the closest one that
// stands there. It is for what only shows when manifests are looked at together, such as a reference to nothing.
func (m *Manifest) Problem(fieldPath, ruleID, message string) Problem {
	at := m.place(fieldPath)
	problem := Problem{
		File: m.Source.File, Generated: m.Source.Generated, Document: m.Source.Document, Line: at.line, Column: at.column,
		Kind: m.Kind.Name, FieldPath: fieldPath, RuleID: ruleID, Message: message, Excerpt: m.document.excerpt(at.line),
	}
	problem.place(m.settings)
	return problem
}

// place is where a field stands, or the closest one around it.
func (m *Manifest) place(fieldPath string) position {
	for _, field := range m.top {
		if string(field.name) == fieldPath {
			return field.at
		}
	}
	// Few manifests are asked for more. Those are read once more.
	m.locate.Do(func() {
		if m.positions != nil {
			return
		}
		if root, _ := m.document.root(); root != nil {
			d := &decoder{}
			d.decode(root, m.Kind.NewTarget())
			m.positions = d.positions
		}
	})
	return m.positions.closest(fieldPath)
}

// Parse reads the manifests of one file, whose name is used in problems. The error is an *Error.
func Parse(file string, data []byte) ([]*Manifest, error) {
	var manifests []*Manifest
	c := newCollector(nil, func(m *Manifest) { manifests = append(manifests, m) })
	err := c.collect("", func(f *feeder) error {
		_, err := f.feed(file, bytes.NewReader(data))
		return err
	})
	if c.documents == 0 {
		return nil, &Error{Problems: []Problem{emptyProblem(file)}}
	}
	if err != nil {
		return nil, err
	}
	return manifests, nil
}

// Marshal returns a message as YAML that Parse reads back into an equal one.
func Marshal(message proto.Message) ([]byte, error) {
	return marshal(message, protojson.MarshalOptions{})
}

// MarshalSnakeCase is Marshal with the names of fields as the protos have them, which other callers write stack inputs with.
func MarshalSnakeCase(message proto.Message) ([]byte, error) {
	return marshal(message, protojson.MarshalOptions{UseProtoNames: true})
}

func marshal(message proto.Message, options protojson.MarshalOptions) ([]byte, error) {
	data, err := options.Marshal(message)
	if err != nil {
		return nil, errors.Wrap(err, "marshal to yaml")
	}
	// JSON is YAML, but for a few characters that it takes as they are.
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(onlyInJSON.Replace(string(data))), &document); err != nil {
		return nil, errors.Wrap(err, "marshal to yaml")
	}
	restyle(&document)
	var written bytes.Buffer
	encoder := yaml.NewEncoder(&written)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, errors.Wrap(err, "marshal to yaml")
	}
	return written.Bytes(), errors.Wrap(encoder.Close(), "marshal to yaml")
}

// onlyInJSON writes characters that JSON takes as they are inside of a text, and YAML does not, as escapes.
var onlyInJSON = strings.NewReplacer(
	"\ufeff", `\ufeff`, "\x7f", `\u007f`, "\ufffe", `\ufffe`, "\uffff", `\uffff`, "\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`,
)

// restyle turns JSON into the YAML that people write: blocks, and quotes only where a text could be taken for something else.
func restyle(node *yaml.Node) {
	node.Style = 0
	if node.Kind == yaml.ScalarNode && node.Tag == "!!str" && (node.Value == "<<" || strings.ContainsFunc(node.Value, isSpecial)) {
		node.Style = yaml.DoubleQuotedStyle
		if isBlock(node.Value) {
			node.Style = yaml.LiteralStyle
		}
	}
	if len(node.Content) == 0 && node.Kind != yaml.ScalarNode {
		node.Style = yaml.FlowStyle // {} and []
	}
	for _, child := range node.Content {
		restyle(child)
	}
}

// isSpecial tells of a character whether a text with it is best quoted.
func isSpecial(r rune) bool {
	return r < ' ' || r > '~' && !unicode.IsGraphic(r) || r == '\u00a0' || r == '\ufeff'
}

// isBlock tells whether a text reads best, and the same, as a block of lines: a certificate, say.
func isBlock(text string) bool {
	body, ended := strings.CutSuffix(text, "\n")
	return ended && body != "" && !unicode.IsSpace(rune(body[0])) && !strings.HasSuffix(body, "\n") && strings.Contains(body, "\n") &&
		!strings.ContainsFunc(body, func(r rune) bool { return r != '\n' && isSpecial(r) })
}
