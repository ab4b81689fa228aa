package manifest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

// SettingFlag is what a setting is called where it stands in the place of a file.
const SettingFlag = "--set"

// Setting gives a field of manifests another value than their files do. It is applied before the manifests are checked.
//
// As a text it is PATH=VALUE, or KIND/NAME:PATH=VALUE for one manifest alone. A path is made of names of fields in camelCase or
// snake_case, of indices in brackets (`spec.tags[0]`; the index after the last one appends), and of keys of maps, either after a dot,
// with a backslash before each dot in them, or in brackets and quotes: `metadata.labels["example.com/team"]`.
//
// The type of the field tells how the value is read. A text is taken as it is. Numbers and booleans are written as in YAML, enums by the
// names of their values. A list is `{a,b}`, with a backslash before a comma or a backslash in an element, or YAML or JSON; maps and
// messages are YAML or JSON. A value that may be a reference is a text, or YAML or JSON with value or valueFrom.
type Setting struct {
	text    string
	kind    kinds.Kind
	name    string // of the one manifest that is meant; empty for all
	path    []step
	value   string
	valueAt int // the column of the value, from 1
}

// step is a part of a path: a field or a key of a map by its name, or an index.
type step struct {
	name    string
	index   int
	isIndex bool
	quoted  bool // in brackets and quotes, and so the key of a map
	column  int
}

// selector is how a setting begins that is for one manifest.
var selector = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*)/([^\[\]":=]+):`)

// ParseSetting reads a setting.
func ParseSetting(text string) (Setting, error) {
	s := Setting{text: text}
	if !utf8.ValidString(text) {
		return s, errors.New("it is not UTF-8")
	}
	at := 0
	if match := selector.FindStringSubmatch(text); match != nil {
		kind, ok := kinds.ByName(match[1])
		if !ok {
			return s, errors.Errorf("there is no kind %q; the kinds are %s", match[1], kindNames())
		}
		s.kind, s.name, at = kind, match[2], len(match[0])
	}
	for {
		one, next, err := parseStep(text, at, len(s.path) == 0)
		if err != nil {
			return s, err
		}
		s.path, at = append(s.path, one), next
		if at < len(text) && text[at] == '=' {
			s.value, s.valueAt = text[at+1:], columnAt(text, at+1)
			return s, nil
		}
	}
}

// String returns the setting as it was given.
func (s Setting) String() string { return s.text }

func columnAt(text string, offset int) int { return utf8.RuneCountInString(text[:offset]) + 1 }

// parseStep reads one part of a path, and returns where the next one starts: at a dot, a bracket or the equals sign.
func parseStep(text string, at int, first bool) (step, int, error) {
	none := func(format string, args ...any) (step, int, error) {
		return step{}, 0, errors.Errorf("%s at column %d; a setting is PATH=VALUE, such as spec.region=fra1",
			fmt.Sprintf(format, args...), columnAt(text, min(at, len(text))))
	}
	if at == len(text) {
		return none("there is no = and no value")
	}
	one := step{column: columnAt(text, at)}
	if text[at] == '[' {
		rest := text[at+1:]
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil || !strings.HasPrefix(rest[len(quoted):], "]") {
				return none(`a key in brackets has no end "]`)
			}
			if one.name, err = strconv.Unquote(quoted); err != nil {
				return none("the key %s cannot be read", quoted)
			}
			one.quoted = true
			return one, at + 1 + len(quoted) + 1, nil
		}
		digits, _, ok := strings.Cut(rest, "]")
		index, err := strconv.Atoi(digits)
		if !ok || err != nil || index < 0 || index > maxNodes || digits[0] == '+' {
			return none("in brackets stands an index or a key in double quotes, not %q", digits)
		}
		one.index, one.isIndex = index, true
		return one, at + 1 + len(digits) + 1, nil
	}
	if !first {
		if text[at] != '.' {
			return none("a dot, a bracket or = is expected")
		}
		at++
		one.column++
	}
	var name strings.Builder
	i := at
	for ; i < len(text) && !strings.ContainsRune(".[=", rune(text[i])); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		name.WriteByte(text[i])
	}
	if one.name = name.String(); one.name == "" {
		return none("the name of a field is expected")
	}
	return one, i, nil
}

// settingLines are the lines of nodes that settings made, so that a problem with one names the setting: behind those of any file.
const settingLines = 1 << 30

// isFor tells whether a manifest is meant, whose document's root is given.
func (s Setting) isFor(kind kinds.Kind, root *yaml.Node) bool {
	if s.name == "" {
		return true
	}
	metadata := lookup(root, "metadata")
	if kind.Name != s.kind.Name || metadata == nil || metadata.Kind != yaml.MappingNode {
		return false
	}
	name := lookup(metadata, "name")
	return name != nil && name.Value == s.name
}

// problem is one with the setting, at a column of its text.
func (s Setting) problem(column int, fieldPath, rule, message string) *Problem {
	return &Problem{
		File: SettingFlag + " " + s.text, Column: column, FieldPath: fieldPath, RuleID: rule, Message: message, Excerpt: s.text,
	}
}

// place puts a problem into the setting that it is with, if it is with one.
func (p *Problem) place(settings []Setting) {
	if i := p.Line - settingLines; i >= 0 && i < len(settings) {
		s := settings[i]
		p.File, p.Generated, p.Document, p.Line, p.Excerpt = SettingFlag+" "+s.text, false, 0, 0, s.text
	}
}

// settingTarget is what a path, or the beginning of one, leads to.
type settingTarget struct {
	message   protoreflect.MessageDescriptor // nil but for messages
	field     protoreflect.FieldDescriptor   // of a single value, or of a list or a map
	isElement bool                           // of the list or the map, one element is meant
	path      string
}

func (t settingTarget) isList() bool { return t.field != nil && t.field.IsList() && !t.isElement }
func (t settingTarget) isMap() bool  { return t.field != nil && t.field.IsMap() && !t.isElement }

// element is an element of a list or a map.
func (t settingTarget) element(path string) settingTarget {
	value := t.field
	if t.field.IsMap() {
		value = t.field.MapValue()
	}
	return settingTarget{message: value.Message(), field: value, isElement: true, path: t.path + path}
}

// resolve follows the path through the schema of a kind: what each of its steps leads to.
func (s Setting) resolve(message protoreflect.MessageDescriptor) ([]settingTarget, *Problem) {
	at := settingTarget{message: message}
	targets := make([]settingTarget, 0, len(s.path))
	for i, one := range s.path {
		switch {
		case at.isMap() && one.isIndex:
			return nil, s.problem(one.column, at.path, RuleType, "it is a map: a key is expected, not an index")
		case at.isMap():
			at = at.element("[" + strconv.Quote(one.name) + "]")
		case at.isList() && !one.isIndex:
			return nil, s.problem(one.column, at.path, RuleType, "it is a list: an index in brackets is expected, such as [0]")
		case at.isList():
			at = at.element(fmt.Sprintf("[%d]", one.index))
		case at.message == nil:
			return nil, s.problem(one.column, at.path, RuleType, "it is "+typeName(at.field)+", and has no fields")
		case one.isIndex || one.quoted:
			return nil, s.problem(one.column, at.path, RuleType, "the name of a field is expected, not an index or a key")
		default:
			key := &yaml.Node{Kind: yaml.ScalarNode, Value: one.name}
			field := fieldOf(key, at.message)
			if field == nil {
				return nil, s.problem(one.column, joinPath(at.path, one.name), RuleUnknownField, unknownField(key, at.message))
			}
			if i == 0 && (field.Name() == "kind" || field.Name() == "status") {
				return nil, s.problem(one.column, string(field.Name()), RuleUnknownField, "it cannot be set")
			}
			at = settingTarget{field: field, path: joinPath(at.path, string(field.Name()))}
			if !field.IsList() && !field.IsMap() {
				at.message = field.Message()
			}
		}
		targets = append(targets, at)
	}
	return targets, nil
}

// settingOf is a setting that is being applied to a document.
type settingOf struct {
	Setting
	number  int // among the settings, from 0
	targets []settingTarget
	decoder *decoder
}

// newNode makes a node that stands at a column of the setting.
func (s settingOf) newNode(kind yaml.Kind, value string, column int) *yaml.Node {
	return &yaml.Node{Kind: kind, Value: value, Line: settingLines + s.number, Column: column}
}

// apply changes the document of a manifest.
func (s settingOf) apply(root *yaml.Node) *Problem {
	_, problem := s.put(root, 0)
	return problem
}

// put gives what the path leads to, from its i-th step on, its value inside of a node, and returns the node; nil and null become what
// the step needs.
func (s settingOf) put(node *yaml.Node, i int) (*yaml.Node, *Problem) {
	if i == len(s.path) {
		return s.newValue(s.targets[i-1])
	}
	one, parent := s.path[i], settingTarget{}
	if i > 0 {
		parent = s.targets[i-1]
	}
	kind, name := yaml.MappingNode, "mapping"
	if one.isIndex {
		kind, name = yaml.SequenceNode, "list"
	}
	if node == nil || isNull(node) {
		node = s.newNode(kind, "", one.column)
	}
	if node.Kind != kind {
		return nil, s.problem(one.column, parent.path, RuleType, "the manifest has a "+kindName(node)+" there, not a "+name)
	}
	if one.isIndex {
		return node, s.putElement(node, i)
	}
	// A field has two names, and takes the place of others of its oneof.
	key := one.name
	is := func(name string) bool { return name == key }
	if field := s.targets[i].field; !s.targets[i].isElement {
		key = field.JSONName()
		is = func(name string) bool { return name == key || name == field.TextName() }
		s.removeOthers(node, field)
	}
	for j := 0; j+1 < len(node.Content); j += 2 {
		if is(node.Content[j].Value) {
			value, problem := s.put(node.Content[j+1], i+1)
			if problem == nil {
				node.Content[j+1] = value
				if i == len(s.path)-1 {
					node.Content[j] = s.newKey(key, one.column) // problems with the value are the setting's
				}
			}
			return node, problem
		}
	}
	value, problem := s.put(nil, i+1)
	if problem == nil {
		node.Content = append(node.Content, s.newKey(key, one.column), value)
	}
	return node, problem
}

func (s settingOf) newKey(name string, column int) *yaml.Node {
	key := s.newNode(yaml.ScalarNode, name, column)
	key.Tag = "!!str"
	return key
}

// putElement is put for an element of a list.
func (s settingOf) putElement(list *yaml.Node, i int) *Problem {
	one := s.path[i]
	if one.index > len(list.Content) {
		return s.problem(one.column, s.targets[i].path, RuleType,
			fmt.Sprintf("the list has %d elements: the next one has the index %d", len(list.Content), len(list.Content)))
	}
	var old *yaml.Node
	if one.index < len(list.Content) {
		old = list.Content[one.index]
	}
	value, problem := s.put(old, i+1)
	switch {
	case problem != nil:
		return problem
	case old == nil:
		list.Content = append(list.Content, value)
	default:
		list.Content[one.index] = value
	}
	return nil
}

// removeOthers takes the other fields of a field's oneof away.
func (s settingOf) removeOthers(mapping *yaml.Node, field protoreflect.FieldDescriptor) {
	oneof := field.ContainingOneof()
	if oneof == nil {
		return
	}
	var kept []*yaml.Node
	for j := 0; j+1 < len(mapping.Content); j += 2 {
		other := fieldOf(mapping.Content[j], field.ContainingMessage())
		if other == nil || other == field || other.ContainingOneof() != oneof {
			kept = append(kept, mapping.Content[j], mapping.Content[j+1])
		}
	}
	mapping.Content = kept
}

// newValue reads the value as the type of the field wants it.
func (s settingOf) newValue(target settingTarget) (*yaml.Node, *Problem) {
	trimmed := strings.TrimSpace(s.value)
	wrong := func(expected string) (*yaml.Node, *Problem) {
		return nil, s.problem(s.valueAt, target.path, RuleType, expected+" is expected")
	}
	switch {
	case target.isList():
		if target.field.Message() == nil && strings.HasPrefix(trimmed, "{") && strings.HasSuffix(trimmed, "}") {
			return s.elements(target.field), nil
		}
		return s.parsed(target, yaml.SequenceNode, func() (*yaml.Node, *Problem) {
			return wrong("a list, such as {a,b} or [a, b],")
		})
	case target.isMap():
		return s.parsed(target, yaml.MappingNode, func() (*yaml.Node, *Problem) { return wrong("a map, such as {key: value},") })
	case target.message != nil:
		return s.parsed(target, yaml.MappingNode, func() (*yaml.Node, *Problem) {
			if target.message.FullName() != (&foreignkeyv1.StringValueOrRef{}).ProtoReflect().Descriptor().FullName() {
				return wrong("a mapping of fields, such as {" + target.message.Fields().Get(0).JSONName() + ": ...},")
			}
			literal := s.newNode(yaml.MappingNode, "", s.valueAt)
			value := s.newNode(yaml.ScalarNode, s.value, s.valueAt)
			value.Tag = "!!str"
			literal.Content = []*yaml.Node{s.newKey("value", s.valueAt), value}
			return literal, nil
		})
	default:
		return s.scalar(target.field, s.value, s.valueAt), nil
	}
}

// scalar is a single value: a text as it is, and what is not a text as YAML takes it.
func (s settingOf) scalar(field protoreflect.FieldDescriptor, text string, column int) *yaml.Node {
	node := s.newNode(yaml.ScalarNode, text, column)
	if kind := field.Kind(); kind == protoreflect.StringKind || kind == protoreflect.EnumKind {
		node.Tag = "!!str"
	}
	return node
}

// elements reads {a,b}. A backslash takes the meaning from a comma and from a backslash.
func (s settingOf) elements(field protoreflect.FieldDescriptor) *yaml.Node {
	list := s.newNode(yaml.SequenceNode, "", s.valueAt)
	start := strings.Index(s.value, "{") + 1
	body := s.value[start:strings.LastIndex(s.value, "}")]
	if strings.TrimSpace(body) == "" {
		return list
	}
	var element strings.Builder
	at := 0
	add := func(end int) {
		column := s.valueAt + utf8.RuneCountInString(s.value[:start+at])
		list.Content = append(list.Content, s.scalar(field, element.String(), column))
		element.Reset()
		at = end + 1
	}
	for i := 0; i < len(body); i++ {
		switch {
		case body[i] == '\\' && i+1 < len(body):
			i++
			element.WriteByte(body[i])
		case body[i] == ',':
			add(i)
		default:
			element.WriteByte(body[i])
		}
	}
	add(len(body))
	return list
}

// parsed reads the value as YAML, when it is what is expected, or null.
func (s settingOf) parsed(target settingTarget, kind yaml.Kind, otherwise func() (*yaml.Node, *Problem)) (*yaml.Node, *Problem) {
	bracket := map[yaml.Kind]string{yaml.MappingNode: "{", yaml.SequenceNode: "["}[kind]
	isFlow := strings.HasPrefix(strings.TrimSpace(s.value), bracket)
	root, broken := parseYAML(s.value)
	switch {
	case broken != nil && isFlow:
		return nil, s.problem(s.valueAt, target.path, RuleSyntax, broken.Message)
	case broken != nil || root == nil || root.Kind != kind && (!isNull(root) || s.value != "null"):
		return otherwise()
	}
	move(root, func(line, column int) (int, int) {
		return settingLines + s.number, s.valueAt + charactersBefore(s.value, line) + column - 1
	})
	expanded, err := s.decoder.expand(root, map[*yaml.Node]bool{})
	if err != nil {
		return nil, s.problem(s.valueAt, target.path, RuleSyntax, err.Error())
	}
	return expanded, nil
}

// settings are those that apply to a document, and what became of them.
type settings struct {
	all []Setting
	// under is the key under which the manifest stands, empty where it is the whole document.
	under string
	kind  kinds.Kind
	// fits tells of each setting whether the manifest is one that it applies to, misfits why it is not.
	fits    []bool
	misfits []*Problem
}

// newSettings is for a document with a manifest of a kind.
func newSettings(all []Setting, kind kinds.Kind, under string) *settings {
	return &settings{all: all, under: under, kind: kind, fits: make([]bool, len(all)), misfits: make([]*Problem, len(all))}
}

// applySettings changes the document as the settings say.
func (d *decoder) applySettings(root *yaml.Node) {
	s := d.settings
	if s == nil || len(s.all) == 0 {
		return
	}
	if s.under != "" {
		root = lookup(root, s.under)
	}
	message := s.kind.NewTarget().ProtoReflect().Descriptor()
	// Whom a setting is for is told by what the file says, not by settings before it.
	for i, one := range s.all {
		s.fits[i] = one.isFor(s.kind, root)
	}
	for i, one := range s.all {
		if !s.fits[i] {
			continue
		}
		targets, misfit := one.resolve(message)
		if misfit != nil {
			s.fits[i], s.misfits[i] = false, misfit
			continue
		}
		problem := settingOf{Setting: one, number: i, targets: targets, decoder: d}.apply(root)
		if problem != nil {
			problem.Line = settingLines + i
			if s.under != "" {
				problem.FieldPath = joinPath(s.under, problem.FieldPath)
			}
			d.problems = append(d.problems, *problem)
		}
	}
}

// fitting is what became of settings in all documents.
type fitting struct {
	all     []Setting
	fits    []bool
	misfits []*Problem // the first of each setting
	unknown bool       // a document is of no kind that is known, so nobody can tell which settings it would take
}

func newFitting(all []Setting) *fitting {
	return &fitting{all: all, fits: make([]bool, len(all)), misfits: make([]*Problem, len(all))}
}

// add takes what became of the settings in one document.
func (f *fitting) add(document *settings) {
	for i := range f.all {
		f.fits[i] = f.fits[i] || document.fits[i]
		if misfit := document.misfits[i]; misfit != nil && f.misfits[i] == nil {
			misfit.Message = document.kind.Name + ": " + misfit.Message
			f.misfits[i] = misfit
		}
	}
}

// problems are those of settings that fit no manifest.
func (f *fitting) problems() []Problem {
	var problems []Problem
	for i, one := range f.all {
		switch {
		case f.fits[i] || f.unknown:
		case f.misfits[i] != nil:
			problems = append(problems, *f.misfits[i])
		case one.name != "":
			problems = append(problems, *one.problem(1, "", RuleSetting, "there is no "+one.kind.Name+" "+one.name+" among the manifests"))
		}
	}
	return problems
}
