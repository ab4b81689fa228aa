package manifest

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// document is one YAML document of a file.
type document struct {
	number int // from 1
	before int // the lines of the file before the first of text
	text   string
}

// line is where the text of the document begins, counted from 1.
func (d document) line() int {
	return d.before + len(d.text) - len(strings.TrimLeft(d.text, "\n")) + 1
}

// placed is the text after as many empty lines as the file has before it: so lines count as they do in the file. It is as long as the
// file for the last document: to be dropped once it is parsed, or many documents would take memory by the square of their number.
func (d document) placed() string { return strings.Repeat("\n", d.before) + d.text }

// split parts a file into its documents, and into the lines that problems are shown with. In YAML a line that starts with "---" or
// "..." and white space is a marker wherever it stands, also inside of a block of text, so no parser is needed to find them; and a
// document that is broken does not hide the next one.
func split(data []byte) (documents []document, lines []string) {
	// The byte order mark is the file's, not the first key's.
	text := strings.TrimPrefix(string(data), "\uFEFF")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)

	var current strings.Builder
	before := 0
	lines = strings.Split(text, "\n")
	for i, line := range lines {
		if isMarker(line, "---") || isMarker(line, "...") {
			documents = append(documents, document{number: len(documents) + 1, before: before, text: current.String()})
			current.Reset()
			before = i
			if line[0] == '-' {
				// What stands on the line of the marker belongs to the document, at its column.
				line = "   " + line[3:]
			} else {
				line = ""
			}
		}
		current.WriteString(line)
		// A line break more at the end would be one more in a block of text that keeps them (|+).
		if i < len(lines)-1 {
			current.WriteString("\n")
		}
	}
	return append(documents, document{number: len(documents) + 1, before: before, text: current.String()}), lines
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// parse reads the manifests of a file, and finds what is wrong with it.
func parse(file string, data []byte) ([]*Manifest, []Problem) {
	var manifests []*Manifest
	var problems []Problem
	number := 0
	documents, lines := split(data)
	for _, doc := range documents {
		// A marker before any content starts the first document, it does not end one before it.
		if number == 0 && isBlank(doc.text) {
			continue
		}
		number++
		doc.number = number
		m, found := parseDocument(file, doc, lines)
		if m != nil {
			manifests = append(manifests, m)
		}
		for i := range found {
			found[i].Excerpt = excerpt(lines, found[i].Line)
		}
		problems = append(problems, found...)
	}
	return manifests, problems
}

// isBlank tells whether a document has only white space and comments.
func isBlank(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

// parseDocument reads one document of a file with the lines. The manifest is nil when the document has no content or a problem.
func parseDocument(file string, doc document, lines []string) (*Manifest, []Problem) {
	at := func(node *yaml.Node, path, rule, message string) []Problem {
		return []Problem{{
			File: file, Document: doc.number, Line: node.Line, Column: node.Column, FieldPath: path, RuleID: rule, Message: message,
		}}
	}
	text := doc.placed()
	root, problem := parseYAML(text)
	if problem != nil {
		problem.File, problem.Document = file, doc.number
		return nil, []Problem{*problem}
	}
	if root == nil || isNull(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, at(root, "", RuleDocument, "a manifest is a mapping with the keys apiVersion, kind, metadata and spec, not a "+kindName(root))
	}

	kindNode := lookup(root, "kind")
	if kindNode == nil {
		return nil, at(root, "kind", RuleKind, "it is missing; the kinds are "+kindNames())
	}
	kind, ok := kinds.ByName(kindNode.Value)
	if kindNode.Kind != yaml.ScalarNode || !ok || kind.Name != kindNode.Value {
		return nil, at(kindNode, "kind", RuleKind, unknownKind(kindNode))
	}

	target := kind.NewTarget()
	d := &decoder{}
	problems := d.decode(text, target)
	problems = append(problems, ruleProblems(target, d.positions, problems)...)
	for i := range problems {
		problems[i].File, problems[i].Document = file, doc.number
		if problems[i].FieldPath == "api_version" {
			problems[i].RuleID = RuleAPIVersion
			problems[i].Message = "the apiVersion of " + kind.Name + " is " + kind.APIVersion
		}
	}
	if len(problems) > 0 {
		sortProblems(problems)
		return nil, problems
	}
	if status := target.ProtoReflect().Descriptor().Fields().ByName("status"); status != nil {
		target.ProtoReflect().Clear(status)
	}
	return &Manifest{
		Kind: kind, Target: target, Source: Source{File: file, Document: doc.number, Line: root.Line}, positions: d.positions,
		lines: lines,
	}, nil
}

// LoadStackInput reads a stack input as programs and other callers have it: a manifest under target, and a provider config under
// provider_config, whose kinds are told by the manifest's. The error is an *Error when what was read is wrong.
func LoadStackInput(path string, stdin io.Reader) (*Manifest, proto.Message, error) {
	data, err := readFile(path, stdin)
	if err != nil {
		return nil, nil, err
	}
	fail := func(at position, fieldPath, rule, message string) (*Manifest, proto.Message, error) {
		return nil, nil, &Error{Problems: []Problem{{
			File: path, Line: at.line, Column: at.column, FieldPath: fieldPath, RuleID: rule, Message: message,
		}}}
	}
	documents, _ := split(data)
	documents = slices.DeleteFunc(documents, func(d document) bool { return isBlank(d.text) })
	if len(documents) == 0 {
		return nil, nil, &Error{Problems: []Problem{emptyProblem(path)}}
	}
	if len(documents) > 1 {
		return fail(position{documents[1].line(), 1}, "", RuleDocument, fmt.Sprintf("a stack input is one document, not %d", len(documents)))
	}
	root, problem := parseYAML(documents[0].placed())
	if problem != nil {
		return fail(position{problem.Line, 0}, "", problem.RuleID, quotedAnchor.ReplaceAllString(problem.Message, "anchor"))
	}
	if root == nil || root.Kind != yaml.MappingNode {
		return fail(position{1, 1}, "", RuleDocument, "a stack input is a mapping with the keys target and provider_config")
	}
	target := lookup(root, "target")
	if target == nil || target.Kind != yaml.MappingNode {
		return fail(position{root.Line, root.Column}, "target", RuleKind, "it is missing; a manifest stands under it")
	}
	kindNode := lookup(target, "kind")
	if kindNode == nil {
		return fail(position{target.Line, target.Column}, "target.kind", RuleKind, "it is missing; the kinds are "+kindNames())
	}
	kind, ok := kinds.ByName(kindNode.Value)
	if !ok || kind.Name != kindNode.Value {
		return fail(position{kindNode.Line, kindNode.Column}, "target.kind", RuleKind, unknownKind(kindNode))
	}

	input := kind.NewStackInput()
	d := &decoder{}
	problems := d.decode(documents[0].placed(), input)
	problems = append(problems, ruleProblems(input, d.positions, problems)...)
	if len(problems) > 0 {
		problems = withoutSecrets(problems, input.ProtoReflect().Descriptor())
		for i := range problems {
			problems[i].File = path
		}
		sortProblems(problems)
		return nil, nil, &Error{Problems: problems}
	}
	// The manifest's own paths do not start with "target.".
	own := positions{"": {target.Line, target.Column}}
	for fieldPath, at := range d.positions {
		if inner, ok := strings.CutPrefix(fieldPath, "target."); ok {
			own[inner] = at
		}
	}
	m := &Manifest{
		Kind: kind, Target: kinds.Target(input), Source: Source{File: path, Document: 1, Line: target.Line}, positions: own,
	}
	var config proto.Message
	reflected := input.ProtoReflect()
	if field := reflected.Descriptor().Fields().ByName("provider_config"); field != nil && reflected.Has(field) {
		config = reflected.Get(field).Message().Interface()
	}
	return m, config, nil
}

// Decode reads a single YAML document, such as a provider config, into a message, and checks the rules of its proto. The error
// is an *Error. Its problems carry no text of the file where that may be a secret: see withoutSecrets.
func Decode(file string, data []byte, into proto.Message) error {
	var problems []Problem
	var content *document
	documents, _ := split(data)
	for _, doc := range documents {
		if isBlank(doc.text) {
			continue
		}
		if content != nil {
			return &Error{Problems: []Problem{{File: file, Document: doc.number, Line: doc.line(), RuleID: RuleDocument, Message: "one document is expected, not several"}}}
		}
		content = &doc
	}
	if content == nil {
		return &Error{Problems: []Problem{{File: file, RuleID: RuleNoDocument, Message: "there is nothing in it"}}}
	}
	root, problem := parseYAML(content.text)
	switch {
	case problem != nil:
		problems = append(problems, *problem)
	case root != nil && root.Kind != yaml.MappingNode:
		problems = append(problems, Problem{Line: root.Line, Column: root.Column, RuleID: RuleDocument,
			Message: "a mapping is expected, not a " + kindName(root)})
	default:
		d := &decoder{}
		problems = d.decode(content.text, into)
		problems = append(problems, ruleProblems(into, d.positions, problems)...)
	}
	if len(problems) == 0 {
		return nil
	}
	problems = withoutSecrets(problems, into.ProtoReflect().Descriptor())
	for i := range problems {
		problems[i].File = file
	}
	sortProblems(problems)
	return &Error{Problems: problems}
}

// yamlLine finds the line in an error of the YAML parser, which has no other way to tell it.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// sentenceError matches the errors of the YAML parser proper, other than those of its scanner.
var sentenceError = regexp.MustCompile(`did not find expected (key|node content|'-' indicator|',' or|<)`)

// parseYAML parses a document. The node is nil when there is nothing in it.
func parseYAML(text string) (*yaml.Node, *Problem) {
	if !utf8Text(text) {
		return nil, &Problem{Line: lineOf(text, notUTF8), RuleID: RuleSyntax, Message: "the text is not UTF-8: save the file in that encoding"}
	}
	var node yaml.Node
	err := yaml.NewDecoder(bytes.NewReader([]byte(text))).Decode(&node)
	if err != nil {
		if errors.Is(err, errEOF) {
			return nil, nil
		}
		problem := &Problem{RuleID: RuleSyntax, Message: "this is no YAML: " + yamlLine.ReplaceAllString(err.Error(), "")}
		if match := yamlLine.FindStringSubmatch(err.Error()); match != nil && match[1] != "" {
			problem.Line, _ = strconv.Atoi(match[1])
			// The parser counts lines from 1 where it cannot make out a word, from 0 where it cannot make out a sentence.
			if sentenceError.MatchString(err.Error()) {
				problem.Line++
			}
		} else {
			// It tells no line when it cannot make out a word in the first one, and for a character that YAML does not allow.
			problem.Line = lineOf(text, isControl)
		}
		return nil, problem
	}
	if len(node.Content) != 1 {
		return nil, nil
	}
	return node.Content[0], nil
}

// lineOf is the line, counted from 1, of the first character that is as asked for; the first line when there is none.
func lineOf(text string, is func(r rune, size int) bool) int {
	line := 1
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case is(r, size):
			return line
		case r == '\n':
			line++
		}
		rest = rest[size:]
	}
	return 1
}

// notUTF8 tells a byte that is no character.
func notUTF8(r rune, size int) bool { return r == utf8.RuneError && size == 1 }

// isControl tells the control characters, which YAML does not allow but for those that are white space.
func isControl(r rune, _ int) bool {
	return r != '\n' && r != '\t' && r != '\r' && r != '\u0085' && unicode.IsControl(r)
}

// excerpt is a line of a document, counted from 1.
func excerpt(lines []string, line int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	return lines[line-1]
}
