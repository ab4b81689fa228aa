package manifest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	// marker is the line that text begins with, as the file has it: text has spaces in the place of the marker. It is empty at the
	// beginning of a file. end is the marker behind text, empty at the end of the file.
	marker, end string
}

// excerpt is a line of the file, as problems are shown with it; empty when it is none of the document's.
func (d document) excerpt(line int) string {
	i := line - d.before - 1
	if i == 0 && d.marker != "" {
		return d.marker
	}
	found, rest, more, at := "", d.text, true, 0
	for ; at <= i && more; at++ {
		found, rest, more = strings.Cut(rest, "\n")
	}
	switch {
	case i < 0 || at <= i:
		return ""
	case !more && d.end != "":
		return d.end
	default:
		return found
	}
}

// line is where the text of the document begins, counted from 1.
func (d document) line() int {
	return d.before + len(d.text) - len(strings.TrimLeft(d.text, "\n")) + 1
}

// yamlLineBreaks end lines in YAML only.
const yamlLineBreaks = "\u0085\u2028\u2029"

// charactersBefore counts the characters before a line that YAML counts, from 1; all of them, where the text has no such line.
func charactersBefore(text string, line int) int {
	characters := []rune(text)
	yamlLine := 1
	for i, r := range characters {
		if yamlLine == line {
			return i
		}
		isReturn := r == '\r' && (i+1 == len(characters) || characters[i+1] != '\n')
		if r == '\n' || isReturn || strings.ContainsRune(yamlLineBreaks, r) {
			yamlLine++
		}
	}
	return len(characters)
}

// inEditor turns a place in lines that YAML counts into one in lines that end with a line feed alone. Columns count from 1, or are 0.
func inEditor(text string, line, column int) (int, int) {
	before := string([]rune(text)[:charactersBefore(text, line)])
	inLine := before[strings.LastIndex(before, "\n")+1:]
	if column != 0 {
		column += utf8.RuneCountInString(inLine)
	}
	return 1 + strings.Count(before, "\n"), column
}

// root parses the document. Lines and columns of the nodes are those of the file. The node is nil when there is nothing in it.
func (d document) root() (*yaml.Node, *Problem) {
	root, problem := parseYAML(d.text)
	// The parser ends lines at these characters too, and editors do not.
	more := strings.ContainsAny(d.text, yamlLineBreaks)
	place := func(line, column int) (int, int) {
		if more {
			line, column = inEditor(d.text, line, column)
		}
		return d.before + line, column
	}
	if problem != nil {
		problem.Line, _ = place(problem.Line, 0)
	}
	if root != nil {
		move(root, place)
	}
	return root, problem
}

// move gives nodes other places.
func move(node *yaml.Node, to func(line, column int) (int, int)) {
	node.Line, node.Column = to(node.Line, node.Column)
	for _, child := range node.Content {
		move(child, to)
	}
}

// scanner parts a file into its documents, one after the other. In YAML a line that starts with "---" or "..." and white space is a marker
// wherever it stands, also inside of a block of text, so no parser is needed to find them; and a document that is broken does not hide
// the next one.
type scanner struct {
	in      *bufio.Reader
	begun   bool
	parts   [][]byte // what is left of a line that has line breaks of its own
	partEnd bool     // whether the last of the parts has a line break behind it
	current []byte   // of the document that is being read
	next    document // the same without its text
	lines   int      // that were read
	ended   bool
}

func newScanner(in io.Reader) *scanner {
	return &scanner{in: bufio.NewReader(in), next: document{number: 1}}
}

// scan reads a document. It returns false behind the last one; each file has one.
func (s *scanner) scan() (document, bool, error) {
	for !s.ended {
		line, more, err := s.line()
		if err != nil {
			return document{}, false, err
		}
		s.ended = !more
		var whole document
		marked := isMarker(line, "---") || isMarker(line, "...")
		if marked {
			marker := string(line)
			whole = s.take(marker)
			s.next = document{number: whole.number + 1, before: s.lines, marker: marker}
			if line[0] == '-' {
				// What stands on the line of the marker belongs to the document, at its column.
				s.current = append(s.current, "   "...)
				line = line[3:]
			} else {
				line = nil
			}
		}
		s.lines++
		s.current = append(s.current, line...)
		// A line break more at the end would be one more in a block of text that keeps them (|+).
		if more {
			s.current = append(s.current, '\n')
		}
		if marked {
			return whole, true, nil
		}
	}
	if s.next.number == 0 {
		return document{}, false, nil
	}
	last := s.take("")
	s.next = document{}
	return last, true, nil
}

// take ends the document that is being read.
func (s *scanner) take(marker string) document {
	whole := s.next
	whole.text, whole.end = string(s.current), marker
	s.current = s.current[:0]
	return whole
}

// line reads a line without its line break, of whatever kind that is, and tells whether there was one. It is valid until the next call.
func (s *scanner) line() (line []byte, more bool, err error) {
	if len(s.parts) == 0 {
		line, err := s.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			line = slices.Clone(line)
			var rest []byte
			rest, err = s.in.ReadBytes('\n')
			line = append(line, rest...)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		if !s.begun {
			// The byte order mark is the file's, not the first key's.
			line, s.begun = bytes.TrimPrefix(line, []byte("\uFEFF")), true
		}
		line, more = bytes.CutSuffix(line, []byte("\n"))
		if more {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		if !bytes.Contains(line, []byte("\r")) {
			return line, more, nil
		}
		s.parts, s.partEnd = bytes.Split(slices.Clone(line), []byte("\r")), more
	}
	line, s.parts = s.parts[0], s.parts[1:]
	return line, len(s.parts) > 0 || s.partEnd, nil
}

// split parts a text into its documents.
func split(data []byte) []document {
	scanner := newScanner(bytes.NewReader(data))
	var documents []document
	for {
		doc, ok, _ := scanner.scan() // a text can always be read
		if !ok {
			return documents
		}
		documents = append(documents, doc)
	}
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// isBlank tells whether a document has only white space and comments.
func isBlank(text string) bool {
	return !hasLine(text, func(string) bool { return true })
}

// isNullText tells whether a document has nothing in it, or a null that says so.
func isNullText(text string) bool {
	return !hasLine(text, func(line string) bool { return line != "null" && line != "~" })
}

// hasLine tells whether a document has such a line, white space around it and comments aside.
func hasLine(text string, such func(string) bool) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && such(line) {
			return true
		}
	}
	return false
}

// read is a document that is read.
type read struct {
	manifest *Manifest // nil when the document has no content or a problem
	problems []Problem
	settings *settings // nil when the kind is not known
}

// readDocument reads one document of a file, which is parsed already.
func readDocument(source Source, doc document, root *yaml.Node, problem *Problem, all []Setting, f *filler) read {
	fail := func(node *yaml.Node, path, rule, message, hint string) read {
		return read{problems: []Problem{{
			Line: node.Line, Column: node.Column, FieldPath: path, RuleID: rule, Message: message, Hint: hint,
		}}}
	}
	if problem != nil {
		problem.Hint = syntaxHint(problem.Message, doc.excerpt(problem.Line))
		return read{problems: []Problem{*problem}}
	}
	if root == nil || isNull(root) {
		return read{}
	}
	if root.Kind != yaml.MappingNode {
		return fail(root, "", RuleDocument, "a manifest is a mapping with the keys apiVersion, kind, metadata and spec, not a "+kindName(root), "")
	}

	kindNode := lookup(root, "kind")
	if kindNode == nil {
		return fail(root, "kind", RuleKind, "it is missing; the kinds are "+kindNames(), foreignHint(root))
	}
	kind, ok := kindNamed(kindNode.Value)
	if kindNode.Kind != yaml.ScalarNode || !ok {
		hint := foreignHint(root)
		if hint == "" {
			hint = "the kinds are " + kindNames()
		}
		return fail(kindNode, "kind", RuleKind, unknownKind(kindNode), hint)
	}

	source.Line = root.Line
	m := &Manifest{Kind: kind, Target: kind.NewTarget(), Source: source, document: doc, settings: all}
	if len(all) == 0 {
		if f.read(root, m.Target) {
			m.top = f.top
			clearStatus(m.Target)
			return read{manifest: m}
		}
		m.Target = kind.NewTarget()
	}
	d := &decoder{settings: newSettings(all, kind, "")}
	problems := d.check(root, m.Target)
	for i := range problems {
		problems[i].Kind = kind.Name
		if problems[i].FieldPath == "api_version" {
			problems[i].RuleID = RuleAPIVersion
			problems[i].Message = "the apiVersion of " + kind.Name + " is " + kind.APIVersion
			problems[i].Hint = "write apiVersion: " + kind.APIVersion
		}
	}
	if len(problems) > 0 {
		return read{problems: problems, settings: d.settings}
	}
	clearStatus(m.Target)
	m.positions = d.positions
	return read{manifest: m, settings: d.settings}
}

// kindNamed finds a kind by its name as manifests write it.
func kindNamed(name string) (kinds.Kind, bool) {
	kind, ok := kindsByName()[name]
	return kind, ok
}

var kindsByName = sync.OnceValue(func() map[string]kinds.Kind {
	found := map[string]kinds.Kind{}
	for _, kind := range kinds.All() {
		found[kind.Name] = kind
	}
	return found
})

// clearStatus takes out what only the clouds can tell.
func clearStatus(target proto.Message) {
	if status := target.ProtoReflect().Descriptor().Fields().ByName("status"); status != nil {
		target.ProtoReflect().Clear(status)
	}
}

// LoadStackInput reads a stack input as programs and other callers have it: a manifest under target, and a provider config under
// provider_config, whose kinds are told by the manifest's. The error is an *Error when what was read is wrong.
func LoadStackInput(path string, stdin io.Reader) (*Manifest, proto.Message, error) {
	return Input{Stdin: stdin}.LoadStackInput(path)
}

// LoadStackInput reads a stack input, and applies the settings to its manifest; the paths of the input do not count.
func (in Input) LoadStackInput(path string) (*Manifest, proto.Message, error) {
	data, err := readFile(path, in.Stdin)
	if err != nil {
		return nil, nil, err
	}
	fail := func(at position, fieldPath, rule, message, hint string) (*Manifest, proto.Message, error) {
		return nil, nil, &Error{Problems: []Problem{{
			File: path, Line: at.line, Column: at.column, FieldPath: fieldPath, RuleID: rule, Message: message, Hint: hint,
		}}}
	}
	documents := split(data)
	documents = slices.DeleteFunc(documents, func(d document) bool { return isBlank(d.text) })
	if len(documents) == 0 {
		return nil, nil, &Error{Problems: []Problem{emptyProblem(path)}}
	}
	if len(documents) > 1 {
		return fail(position{documents[1].line(), 1}, "", RuleDocument, fmt.Sprintf("a stack input is one document, not %d", len(documents)), "")
	}
	root, problem := documents[0].root()
	if problem != nil {
		message := quotedAnchor.ReplaceAllString(problem.Message, "anchor")
		return fail(position{problem.Line, 0}, "", problem.RuleID, message, syntaxHint(message, ""))
	}
	if root == nil || root.Kind != yaml.MappingNode {
		return fail(position{1, 1}, "", RuleDocument, "a stack input is a mapping with the keys target and provider_config", "")
	}
	target := lookup(root, "target")
	if target == nil || target.Kind != yaml.MappingNode {
		hint := ""
		if lookup(root, "kind") != nil {
			hint = "this looks like a manifest: give it with -f"
		}
		return fail(position{root.Line, root.Column}, "target", RuleKind, "it is missing; a manifest stands under it", hint)
	}
	kindNode := lookup(target, "kind")
	if kindNode == nil {
		return fail(position{target.Line, target.Column}, "target.kind", RuleKind, "it is missing; the kinds are "+kindNames(), "")
	}
	kind, ok := kindNamed(kindNode.Value)
	if !ok {
		return fail(position{kindNode.Line, kindNode.Column}, "target.kind", RuleKind, unknownKind(kindNode), "the kinds are "+kindNames())
	}

	input := kind.NewStackInput()
	d := &decoder{settings: newSettings(in.Settings, kind, "target")}
	problems := withoutSecrets(d.check(root, input), input.ProtoReflect().Descriptor())
	fitted := newFitting(in.Settings)
	fitted.add(d.settings)
	problems = append(problems, fitted.problems()...)
	if len(problems) > 0 {
		for i := range problems {
			if problems[i].File == "" {
				problems[i].File = path
			}
			problems[i].Kind = kind.Name
			problems[i].place(in.Settings)
		}
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
		settings: in.Settings,
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
	documents := split(data)
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
	root, problem := content.root()
	switch {
	case problem != nil:
		problems = append(problems, *problem)
	case root != nil && root.Kind != yaml.MappingNode:
		problems = append(problems, Problem{Line: root.Line, Column: root.Column, RuleID: RuleDocument,
			Message: "a mapping is expected, not a " + kindName(root)})
	case root == nil:
		problems = ruleProblems(into, nil, nil)
	default:
		problems = (&decoder{}).check(root, into)
	}
	if len(problems) == 0 {
		return nil
	}
	problems = withoutSecrets(problems, into.ProtoReflect().Descriptor())
	for i := range problems {
		problems[i].File = file
	}
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
