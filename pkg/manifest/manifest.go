// Package manifest reads the YAML that people write into the messages of the kinds, and tells them everything that is wrong
// with it at once: each problem with file, line, column, the path of the field and the id of the rule that it breaks.
//
// A file holds one manifest or several, separated by "---". Keys may be written in camelCase or snake_case. Anchors, aliases
// and merge keys work. A null value is an absent one. JSON is YAML. Documents without content are passed over.
package manifest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Stdin is the path that means the standard input.
const Stdin = "-"

// Manifest is one resource that someone declared.
type Manifest struct {
	// Kind is the kind of the resource.
	Kind kinds.Kind
	// Target is the message of the kind. It keeps all rules of the protos. Its status is absent, whatever the YAML says.
	Target proto.Message
	// Source is where the manifest stands.
	Source Source

	positions positions
	lines     []string // of the file up to the end of the document
}

// Source is where a manifest stands.
type Source struct {
	// File is the path as it was given, "-" for the standard input.
	File string
	// Document counts the documents of the file from 1, those without content included.
	Document int
	// Line is where the document's content starts, counted from 1.
	Line int
}

// String returns "file:line".
func (s Source) String() string {
	return fmt.Sprintf("%s:%d", s.File, s.Line)
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
	at := m.positions.closest(fieldPath)
	return Problem{
		File: m.Source.File, Document: m.Source.Document, Line: at.line, Column: at.column,
		FieldPath: fieldPath, RuleID: ruleID, Message: message, Excerpt: excerpt(m.lines, at.line),
	}
}

// Load reads the manifests of several files, and of the .yaml, .yml and .json files of folders (not of the folders in them),
// in the order given; "-" is stdin. The error is an *Error when what was read is wrong: then it holds the problems of all files.
func Load(paths []string, stdin io.Reader) ([]*Manifest, error) {
	var loaded []*Manifest
	var problems []Problem
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := readFile(file, stdin)
			if err != nil {
				return nil, err
			}
			found, foundProblems := parse(file, data)
			// A file that someone names is meant to declare something; one that lies in a folder need not.
			if len(found)+len(foundProblems) == 0 && file == path {
				foundProblems = append(foundProblems, emptyProblem(file))
			}
			loaded = append(loaded, found...)
			problems = append(problems, foundProblems...)
		}
	}
	if len(loaded)+len(problems) == 0 {
		problems = append(problems, emptyProblem(strings.Join(paths, ", ")))
	}
	return finish(loaded, problems)
}

// Parse reads the manifests of one file, whose name is used in problems. The error is an *Error.
func Parse(file string, data []byte) ([]*Manifest, error) {
	found, problems := parse(file, data)
	if len(found)+len(problems) == 0 {
		problems = append(problems, emptyProblem(file))
	}
	return finish(found, problems)
}

// Marshal returns a message as YAML that Parse reads back into an equal one.
func Marshal(message proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(message)
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

// finish looks for resources that are declared twice, and puts the problems together.
func finish(manifests []*Manifest, problems []Problem) ([]*Manifest, error) {
	problems = append(problems, duplicates(manifests)...)
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	return manifests, nil
}

// duplicates finds manifests of a resource that another one declares already. Two of them would change one stack in turns.
func duplicates(manifests []*Manifest) []Problem {
	type key struct{ kind, org, env, name string }
	first := map[key]*Manifest{}
	var problems []Problem
	for _, m := range manifests {
		metadata := kinds.Metadata(m.Target)
		k := key{m.Kind.Name, metadata.GetOrg(), metadata.GetEnv(), metadata.GetName()}
		earlier, ok := first[k]
		if !ok {
			first[k] = m
			continue
		}
		problems = append(problems, m.Problem("metadata.name", RuleDuplicateResource,
			fmt.Sprintf("%s is declared already at %s; names are unique for a kind, organization and environment", m, earlier.Source)))
	}
	return problems
}

func emptyProblem(file string) Problem {
	return Problem{File: file, RuleID: RuleNoDocument, Message: "there is no manifest in it"}
}

// filesOf are the files that a path stands for.
func filesOf(path string) ([]string, error) {
	if path == Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Wrap(err, "read manifests")
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, errors.Wrap(err, "read the folder of manifests")
	}
	var files []string
	for _, entry := range entries {
		extension := strings.ToLower(filepath.Ext(entry.Name()))
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	sort.Strings(files)
	return files, nil
}

func readFile(file string, stdin io.Reader) ([]byte, error) {
	if file != Stdin {
		data, err := os.ReadFile(file)
		return data, errors.Wrap(err, "read manifests")
	}
	if stdin == nil {
		return nil, errors.New("read manifests from the standard input: there is none")
	}
	data, err := io.ReadAll(stdin)
	return data, errors.Wrap(err, "read manifests from the standard input")
}
