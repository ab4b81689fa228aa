package manifest

import (
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"buf.build/go/protoyaml"
	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/validation"
)

// maxNodes is how many values a document may have once its aliases are put in place. A manifest has some dozens; an alias of
// aliases of aliases can stand for more than any memory holds.
const maxNodes = 100_000

var errEOF = io.EOF

// position is where something stands in a file; both count from 1.
type position struct{ line, column int }

// positions tell where the value of each field path stands: keys of mappings for fields, the values themselves in lists.
type positions map[string]position

// closest is where a field stands, or the closest message around it that stands there.
func (p positions) closest(path string) position {
	for {
		if at, ok := p[path]; ok {
			return at
		}
		if path == "" {
			return position{}
		}
		path = parentPath(path)
	}
}

// parentPath takes the last field, index or key off a path.
func parentPath(path string) string {
	if strings.HasSuffix(path, `"]`) {
		if i := strings.LastIndex(path, `["`); i >= 0 {
			return path[:i]
		}
	}
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}

// decoder fills a message from a document. protoyaml does the work; before it, the decoder looks through the document's nodes, and
// mends or refuses what protoyaml would take in silence (null for a string would be the text "null", the first of two equal keys
// would be lost) or tell less well.
type decoder struct {
	positions positions
	problems  []Problem
	nodes     int
	settings  *settings
	root      *yaml.Node // what protoyaml is to read
	places    []position // of the nodes that it reads, by their numbers
}

// check fills the message from a document that is a mapping, and returns what is wrong with it, from top to bottom: also the rules of
// the proto that it breaks.
func (d *decoder) check(root *yaml.Node, into proto.Message) []Problem {
	problems := d.decode(root, into)
	problems = append(problems, ruleProblems(into, d.positions, problems)...)
	sortProblems(problems)
	addHints(problems, into)
	return problems
}

// decode fills the message from a document that is a mapping.
func (d *decoder) decode(root *yaml.Node, into proto.Message) []Problem {
	d.positions = positions{"": {root.Line, root.Column}}
	expanded, err := d.expand(root, map[*yaml.Node]bool{})
	if err != nil {
		d.problem(root, "", RuleSyntax, err.Error())
		return d.problems
	}
	d.applySettings(expanded)
	d.prepareMessage(expanded, into.ProtoReflect().Descriptor(), "")
	d.root = expanded
	// The document is parsed already, so protoyaml is given an empty one, and its root in the hook.
	err = protoyaml.UnmarshalOptions{CustomUnmarshaler: d, AllowPartial: true}.Unmarshal([]byte("{}"), into)
	problems := d.problems
	for _, one := range splitErrors(err) {
		problems = append(problems, d.typeProblem(one))
	}
	return problems
}

// Unmarshal is protoyaml's hook. The first message that it is called for is the document.
func (d *decoder) Unmarshal(node *yaml.Node, _ proto.Message) (bool, error) {
	if d.root != nil {
		*node, d.root = *d.root, nil
		d.number(node)
	}
	return false, nil
}

// number remembers the places of nodes, and gives each a place that protoyaml can name in an error: it would look for the line in the
// text that it was given, where there is none.
func (d *decoder) number(node *yaml.Node) {
	d.places = append(d.places, position{node.Line, node.Column})
	node.Line, node.Column = 1, len(d.places)
	for _, child := range node.Content {
		d.number(child)
	}
}

func (d *decoder) problem(node *yaml.Node, path, rule, message string) {
	d.problems = append(d.problems, Problem{Line: node.Line, Column: node.Column, FieldPath: path, RuleID: rule, Message: message})
}

// expand copies a node with what its aliases and merge keys stand for in their places. It copies deeply, because what an anchor
// marks stands in several places then, and what the decoder takes out in one must not go missing in the others.
func (d *decoder) expand(node *yaml.Node, open map[*yaml.Node]bool) (*yaml.Node, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if d.nodes++; d.nodes > maxNodes {
		return nil, errors.Errorf("the aliases stand for more than %d values", maxNodes)
	}
	if open[node] {
		return nil, errors.New("an alias stands inside of what it stands for")
	}
	open[node] = true
	defer delete(open, node)

	expanded := *node
	expanded.Content = nil
	for i, child := range node.Content {
		child, err := d.expand(child, open)
		if err != nil {
			return nil, err
		}
		if i%2 == 1 && node.Kind == yaml.MappingNode && isMerge(node.Content[i-1]) {
			expanded.Content = expanded.Content[:len(expanded.Content)-1] // the key, "<<"
			merged, err := mergedContent(child, node)
			if err != nil {
				return nil, err
			}
			expanded.Content = append(expanded.Content, merged...)
			continue
		}
		expanded.Content = append(expanded.Content, child)
	}
	return &expanded, nil
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && (key.Tag == "" || key.Tag == "!!merge")
}

// mergedContent is what a merge key adds to a mapping: the keys that the mapping does not have itself.
func mergedContent(value, into *yaml.Node) ([]*yaml.Node, error) {
	sources := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		sources = value.Content
	}
	var content []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(into.Content); i += 2 {
		seen[into.Content[i].Value] = true
	}
	for _, source := range sources {
		if source.Kind != yaml.MappingNode {
			return nil, errors.New("a merge key (<<) takes a mapping")
		}
		for i := 0; i+1 < len(source.Content); i += 2 {
			if key := source.Content[i]; !seen[key.Value] {
				seen[key.Value] = true
				content = append(content, key, source.Content[i+1])
			}
		}
	}
	return content, nil
}

// prepareMessage looks through the mapping of a message: it notes positions, and takes out what it reports itself.
func (d *decoder) prepareMessage(node *yaml.Node, message protoreflect.MessageDescriptor, path string) {
	var content []*yaml.Node
	seen := map[protoreflect.FullName]*yaml.Node{}
	chosen := map[protoreflect.FullName]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field := fieldOf(key, message)
		if field == nil {
			d.problem(key, joinPath(path, key.Value), RuleUnknownField, unknownField(key, message))
			continue
		}
		fieldPath := joinPath(path, string(field.Name()))
		if first, ok := seen[field.FullName()]; ok {
			d.problem(key, fieldPath, RuleDuplicateField, key.Value+" is given already in "+lineName(first))
			continue
		}
		seen[field.FullName()] = key
		d.positions[fieldPath] = position{key.Line, key.Column}
		if isNull(value) {
			continue // a null value is an absent one
		}
		if oneof := field.ContainingOneof(); oneof != nil {
			if first, ok := chosen[oneof.FullName()]; ok {
				d.problem(key, fieldPath, RuleOneOf, fmt.Sprintf("%s is given already in %s; only one of %s can be",
					first.Value, lineName(first), strings.Join(oneofNames(oneof), ", ")))
				continue
			}
			chosen[oneof.FullName()] = key
		}
		if d.prepareField(value, field, fieldPath) {
			content = append(content, key, value)
		}
	}
	node.Content = content
}

// prepareField looks through the value of a field. It returns false when it has reported a problem that protoyaml would report
// again.
func (d *decoder) prepareField(value *yaml.Node, field protoreflect.FieldDescriptor, path string) bool {
	switch {
	case field.IsMap():
		if !d.expect(value, yaml.MappingNode, "a mapping", path) {
			return false
		}
		d.prepareMap(value, field, path)
		return true
	case field.IsList():
		if !d.expect(value, yaml.SequenceNode, "a list", path) {
			return false
		}
		d.prepareList(value, field, path)
		return true
	default:
		return d.prepareElement(value, field, path)
	}
}

// expect reports a value that is not of the kind that it should be.
func (d *decoder) expect(value *yaml.Node, kind yaml.Kind, name, path string) bool {
	if value.Kind != kind {
		d.problem(value, path, RuleType, fmt.Sprintf("%s is expected, not a %s", name, kindName(value)))
		return false
	}
	return true
}

func (d *decoder) prepareMap(node *yaml.Node, field protoreflect.FieldDescriptor, path string) {
	var content []*yaml.Node
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		valuePath := path + "[" + strconv.Quote(key.Value) + "]"
		if first, ok := seen[key.Value]; ok {
			d.problem(key, valuePath, RuleDuplicateField, key.Value+" is given already in "+lineName(first))
			continue
		}
		seen[key.Value] = key
		d.positions[valuePath] = position{key.Line, key.Column}
		if isNull(value) {
			d.problem(key, valuePath, RuleType, `it has no value; write "" for an empty one`)
			continue
		}
		if d.prepareElement(value, field.MapValue(), valuePath) {
			content = append(content, key, value)
		}
	}
	node.Content = content
}

func (d *decoder) prepareList(node *yaml.Node, field protoreflect.FieldDescriptor, path string) {
	var content []*yaml.Node
	for i, value := range node.Content {
		valuePath := fmt.Sprintf("%s[%d]", path, i)
		d.positions[valuePath] = position{value.Line, value.Column}
		if isNull(value) {
			d.problem(value, valuePath, RuleType, "it has no value")
			continue
		}
		if d.prepareElement(value, field, valuePath) {
			content = append(content, value)
		}
	}
	node.Content = content
}

// prepareElement is prepareField for a single value, also one inside of a list or map.
func (d *decoder) prepareElement(value *yaml.Node, field protoreflect.FieldDescriptor, path string) bool {
	if field.Message() != nil {
		if !d.expect(value, yaml.MappingNode, "a mapping", path) {
			return false
		}
		d.prepareMessage(value, field.Message(), path)
		return true
	}
	return d.prepareScalar(value, field, path)
}

// prepareScalar refuses what is not a single value, and enum values that do not exist.
func (d *decoder) prepareScalar(value *yaml.Node, field protoreflect.FieldDescriptor, path string) bool {
	if value.Kind != yaml.ScalarNode {
		d.problem(value, path, RuleType, fmt.Sprintf("%s is expected, not a %s", typeName(field), kindName(value)))
		return false
	}
	if field.Kind() == protoreflect.BoolKind && value.ShortTag() != "!!bool" {
		d.problem(value, path, RuleType, fmt.Sprintf("true or false is expected, not %q", value.Value))
		return false
	}
	if isWhole(field) && value.ShortTag() == "!!str" && !digits.MatchString(value.Value) {
		// protoyaml would take "4k" and "4 KiB" for numbers, too.
		d.problem(value, path, RuleType, "a whole number is expected")
		return false
	}
	if field.Kind() == protoreflect.EnumKind && field.Enum().Values().ByName(protoreflect.Name(value.Value)) == nil {
		if _, err := strconv.Atoi(value.Value); err != nil {
			d.problem(value, path, RuleType, unknownEnumValue(value.Value, field.Enum()))
			return false
		}
	}
	return true
}

// digits matches a whole number in quotes.
var digits = regexp.MustCompile(`^-?[0-9]+$`)

func isWhole(field protoreflect.FieldDescriptor) bool {
	switch field.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return true
	default:
		return false
	}
}

// fieldOf finds the field that a key means: by its camelCase name or its snake_case one.
func fieldOf(key *yaml.Node, message protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if key.Kind != yaml.ScalarNode {
		return nil
	}
	if field := message.Fields().ByJSONName(key.Value); field != nil {
		return field
	}
	return message.Fields().ByTextName(key.Value)
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nodeErrorPrefix is how an error of protoyaml starts: no path, and the number of the node as the column of the only line.
var nodeErrorPrefix = regexp.MustCompile(`^:1:(\d+) `)

// typeProblem is an error of protoyaml as a problem. What is left for it to find are values of the wrong type.
func (d *decoder) typeProblem(err error) Problem {
	match := nodeErrorPrefix.FindStringSubmatch(err.Error())
	if match == nil {
		return Problem{RuleID: RuleType, Message: err.Error()}
	}
	number, _ := strconv.Atoi(match[1])
	at := d.places[number-1]
	message, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), match[0]), "\n")
	if strings.HasPrefix(message, "invalid integer") {
		message = "a whole number is expected"
	}
	return Problem{Line: at.line, Column: at.column, FieldPath: d.pathAt(at.line, at.column), RuleID: RuleType, Message: message}
}

// pathAt is the field whose value stands at a place: the field whose key is the last one before it.
func (d *decoder) pathAt(line, column int) string {
	best, bestAt := "", position{}
	for path, at := range d.positions {
		if at.line > line || (at.line == line && at.column > column) {
			continue
		}
		later := at.line > bestAt.line || (at.line == bestAt.line && at.column > bestAt.column)
		if later || (at == bestAt && len(path) > len(best)) {
			best, bestAt = path, at
		}
	}
	return best
}

// splitErrors takes the errors apart that protoyaml joins.
func splitErrors(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

// ruleProblems are the rules of the protos that a message breaks. Fields that were not read because of a problem say nothing
// about rules, nor do the messages around them.
func ruleProblems(message proto.Message, at positions, unread []Problem) []Problem {
	err := validation.Validate(message)
	if err == nil {
		return nil
	}
	var broken *validation.Error
	if !errors.As(err, &broken) {
		return []Problem{{RuleID: "rules", Message: err.Error()}}
	}
	var problems []Problem
	for _, violation := range broken.Violations {
		if concerns(unread, violation.FieldPath) {
			continue
		}
		place := at.closest(violation.FieldPath)
		problems = append(problems, Problem{
			Line: place.line, Column: place.column,
			FieldPath: violation.FieldPath, RuleID: violation.RuleID, Message: violation.Message,
		})
	}
	return problems
}

// concerns tells whether a problem is in a field, in one around it, or in one inside of it. An unknown field is in none: it takes
// no value away, unless it is a misspelt one, and then the rule that misses the right one helps.
func concerns(problems []Problem, path string) bool {
	for _, problem := range problems {
		if problem.RuleID == RuleUnknownField {
			continue
		}
		if within(problem.FieldPath, path) || within(path, problem.FieldPath) {
			return true
		}
	}
	return false
}

// within tells whether a path is another one or leads into it.
func within(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

func sortProblems(problems []Problem) {
	sort.SliceStable(problems, func(i, j int) bool {
		a, b := problems[i], problems[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
}

func utf8Text(text string) bool {
	return utf8.ValidString(text)
}
