package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/schema"
	"github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

// compiled reads a schema of schemas/.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(schemas, name+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertVocabs()
	if err := compiler.AddResource(name, document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// judges are the schemas of all kinds, and the one for all.
func judges(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := map[string]*jsonschema.Schema{"all": compiled(t, "all")}
	for _, kind := range kinds.All() {
		name := strings.ToLower(kind.Name)
		all[name] = compiled(t, name)
	}
	return all
}

// coreNumber is how YAML 1.2, and so editors, write numbers; go-yaml knows more ways.
var (
	coreInteger = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreNumber  = regexp.MustCompile(`^[-+]?([.][0-9]+|[0-9]+([.][0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// seen is a YAML document as a schema sees it.
func seen(t *testing.T, text []byte) any {
	t.Helper()
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		t.Fatal(err)
	}
	return value(t, node.Content[0])
}

func value(t *testing.T, node *yaml.Node) any {
	t.Helper()
	switch node.Kind {
	case yaml.AliasNode:
		return value(t, node.Alias)
	case yaml.MappingNode:
		mapping := map[string]any{}
		for i := 0; i < len(node.Content); i += 2 {
			inner := value(t, node.Content[i+1])
			if node.Content[i].Tag == "!!merge" {
				for key, merged := range inner.(map[string]any) {
					mapping[key] = merged
				}
				continue
			}
			mapping[node.Content[i].Value] = inner
		}
		return mapping
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range node.Content {
			list = append(list, value(t, item))
		}
		return list
	}
	switch tag := node.ShortTag(); {
	case tag == "!!null":
		return nil
	case tag == "!!bool":
		return strings.EqualFold(node.Value, "true")
	case tag == "!!int" && coreInteger.MatchString(node.Value), tag == "!!float" && coreNumber.MatchString(node.Value):
		return json.Number(node.Value)
	default:
		return node.Value
	}
}

// loaderTells are rules of fields that a manifest cannot break in so many words: the loader tells them in words of its own, as these.
var loaderTells = map[string]string{
	"api_version string.const": "api_version", // the kind is known by then, and its version
	"kind string.const":        "",            // what is not a kind has no message whose rule it could break
}

// rulePlace names a rule of a field by the message that the field stands in: two fields of one message are one place.
func rulePlace(md protoreflect.MessageDescriptor, path, rule string) string {
	names := strings.Split(anyIndex.ReplaceAllString(path, ""), ".")
	for _, name := range names[:len(names)-1] {
		field := md.Fields().ByName(protoreflect.Name(name))
		if field == nil || field.Message() == nil {
			break // of an unknown field: no rule's place
		}
		md = field.Message()
	}
	return string(md.FullName()) + "." + names[len(names)-1] + " " + rule
}

// anyIndex matches an index or a key of a path.
var anyIndex = regexp.MustCompile(`\[[^\]]*\]`)

// rulesOf are the rules that a manifest breaks, as the loader tells.
func rulesOf(file string, text []byte) (rules []string, err error) {
	_, err = manifest.Parse(file, text)
	var invalid *manifest.Error
	if errors.As(err, &invalid) {
		for _, problem := range invalid.Problems {
			rules = append(rules, problem.RuleID)
		}
		slices.Sort(rules)
		return slices.Compact(rules), err
	}
	return nil, err
}

// header is what a file of the corpus says of itself: "# reason: ..." and for an invalid one "# breaks: RULE, RULE". What a schema
// cannot see has "# beyond: LIMIT" too.
func header(text []byte, name string) string {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "# "+name+": "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// TestCorpus: the loader and the schemas judge every file of testdata/corpus alike, and as the file says of itself, but for what is
// Beyond the schemas. Every rule of every field of every kind is broken by a file; a field of a message that several kinds share, such as
// the metadata, by that of one of them.
func TestCorpus(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/corpus/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	judges := judges(t)
	broken, shown := map[string]bool{}, map[string]bool{}
	valid := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		reason, breaks, limit := header(text, "reason"), header(text, "breaks"), header(text, "beyond")
		if reason == "" {
			t.Errorf("%s has no reason", name)
		}
		rules, loaderErr := rulesOf(file, text)
		if got := strings.Join(rules, ", "); got != breaks {
			t.Errorf("%s: %s: to the loader it breaks %q, want %q", name, reason, got, breaks)
		}
		kind, _, _ := strings.Cut(name, "-")
		var invalid *manifest.Error
		if of, known := kinds.ByName(kind); known && errors.As(loaderErr, &invalid) {
			for _, problem := range invalid.Problems {
				broken[rulePlace(of.NewTarget().ProtoReflect().Descriptor(), problem.FieldPath, problem.RuleID)] = true
			}
		}
		if breaks == "" {
			valid[kind]++
		}
		shown[limit] = true
		if limit != "" && breaks == "" {
			t.Errorf("%s: what is beyond the schemas is wrong in the first place", name)
		}
		for _, judge := range []string{kind, "all"} {
			err := judges[judge].Validate(seen(t, text))
			switch wrong := breaks != "" && limit == ""; {
			case wrong && err == nil:
				t.Errorf("%s: %s: the schema %s takes it", name, reason, judge)
			case limit != "" && err != nil:
				t.Errorf("%s: it is said to be beyond the schemas (%s), but %s sees it: %v", name, limit, judge, err)
			case breaks == "" && err != nil:
				t.Errorf("%s: %s: the schema %s refuses it: %v", name, reason, judge, err)
			}
		}
	}
	delete(shown, "")
	for _, limit := range schema.Beyond() {
		if !shown[limit.Name] {
			t.Errorf("no file shows that %q is beyond the schemas", limit.Name)
		}
		delete(shown, limit.Name)
	}
	for limit := range shown {
		t.Errorf("%q is beyond the schemas to a file, but not to Beyond", limit)
	}
	for _, kind := range kinds.All() {
		name := strings.ToLower(kind.Name)
		if valid[name] == 0 {
			t.Errorf("there is no valid %s", kind)
		}
		target := kind.NewTarget().ProtoReflect().Descriptor()
		for _, rule := range validationtest.Rules(target) {
			id := rule.Rule
			if told, own := loaderTells[rule.Field+" "+rule.Rule]; own {
				id = told
			}
			if id != "" && !broken[rulePlace(target, rule.Field, id)] {
				t.Errorf("no file of a %s breaks the rule %s of %s", kind, rule.Rule, rule.Field)
			}
		}
	}
	if len(files) < 250 {
		t.Errorf("%d files were found", len(files))
	}
}

// TestEditorsPage: docs/editors.md names what is beyond the schemas.
func TestEditorsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/editors.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range schema.Beyond() {
		if !strings.Contains(strings.ReplaceAll(string(page), "`", ""), "| "+limit.Name+" | "+limit.Reason+" |") {
			t.Errorf("docs/editors.md does not say %q: %s", limit.Name, limit.Reason)
		}
	}
}
