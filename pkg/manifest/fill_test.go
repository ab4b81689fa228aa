package manifest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// TestFill: whatever stands in a document, the filler takes it as the decoder does, or not at all; and what Marshal writes it takes,
// unless a number stands for the value of an enum.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := kind.NewTarget()
				fill(t, m.ProtoReflect())
				text, err := Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				root, problem := split(text)[0].root()
				if problem != nil {
					t.Fatal(problem)
				}
				changes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return change(t, root) }), 0, 3).Draw(t, "changes")
				if taken := sameFill(t, kind, root); !taken && len(changes) == 0 && !hasNumbers(m) {
					t.Fatalf("the filler does not take\n%s", text)
				}
			})
		})
	}
}

// fataler is of *testing.T and *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sameFill compares what filler and decoder make of a document, and tells whether the filler took it.
func sameFill(t fataler, kind kinds.Kind, root *yaml.Node) bool {
	t.Helper()
	filled, decoded := kind.NewTarget(), kind.NewTarget()
	f, d := filler{}, decoder{}
	if root.Kind != yaml.MappingNode || !f.fill(root, filled) {
		return false
	}
	if problems := d.decode(root, decoded); len(problems) > 0 {
		t.Fatalf("the filler took what the decoder did not: %v\n%s", problems, written(root))
	}
	if !proto.Equal(decoded, filled) {
		t.Fatalf("-decoder +filler:\n%s\n%s", cmp.Diff(decoded, filled, protocmp.Transform()), written(root))
	}
	top := 0
	for path, at := range d.positions {
		if path == "" || strings.ContainsAny(path, ".[") {
			continue
		}
		top++
		if !slices.ContainsFunc(f.top, func(p fieldPlace) bool { return string(p.name) == path && p.at == at }) {
			t.Fatalf("the filler has %s at another place than %v: %v\n%s", path, at, f.top, written(root))
		}
	}
	if top != len(f.top) {
		t.Fatalf("the filler has %d places, the decoder %d\n%s", len(f.top), top, written(root))
	}
	return true
}

func written(root *yaml.Node) string {
	text, err := yaml.Marshal(root)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// hasNumbers tells whether an enum in a message has a value that has no name.
func hasNumbers(m proto.Message) bool {
	found := false
	_ = protorange.Range(m.ProtoReflect(), func(values protopath.Values) error {
		last := values.Index(-1)
		number, ok := last.Value.Interface().(protoreflect.EnumNumber)
		for i := len(values.Path) - 1; ok && i >= 0; i-- {
			if step := values.Path[i]; step.Kind() == protopath.FieldAccessStep {
				found = found || step.FieldDescriptor().Enum().Values().ByNumber(number) == nil
				break
			}
		}
		return nil
	})
	return found
}

// change changes one node of a document, and says how.
func change(t *rapid.T, root *yaml.Node) string {
	var all []*yaml.Node
	var collect func(*yaml.Node)
	collect = func(node *yaml.Node) {
		all = append(all, node)
		for _, child := range node.Content {
			collect(child)
		}
	}
	collect(root)
	node := rapid.SampledFrom(all).Draw(t, "node")
	how := rapid.SampledFrom([]string{"value", "tag", "twice", "list", "mapping", "empty", "alias", "null", "swap", "short"}).Draw(t, "how")
	switch how {
	case "value":
		value := rapid.OneOf(rapid.SampledFrom([]string{
			"+5", "-5", "-0", "007", "0x10", "0o17", "0b1", "1_000", "4k", "4 KiB", "1e3", "5.0", "5.5", ".inf", "99999999999", "4294967295",
			"18446744073709551616", "true", "True", "yes", "null", "~", "", "<<", "2026-11-21", "lon1", "metadata", "api_version", "apiVersion",
			"status", "value", "valueFrom", "value_from", "1", "[x]",
		}), anyText).Draw(t, "value")
		*node = yaml.Node{Kind: yaml.ScalarNode, Value: value, Line: node.Line, Column: node.Column}
		if rapid.Bool().Draw(t, "quoted") {
			node.Style = yaml.DoubleQuotedStyle
		}
		node.Tag = node.ShortTag()
	case "tag":
		node.Tag = rapid.SampledFrom([]string{"", "!", "!!str", "!!int", "!!bool", "!!null", "!!map", "!!seq", "!!binary", "!!merge", "!own"}).Draw(t, "tag")
	case "twice":
		if len(node.Content) >= 2 {
			node.Content = append(node.Content, node.Content[0], node.Content[1])
		}
	case "list":
		inner := *node
		*node = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{&inner}, Line: inner.Line, Column: inner.Column}
	case "mapping":
		inner := *node
		*node = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "value"}, &inner}}
	case "empty":
		node.Content = nil
	case "alias":
		to := *node
		*node = yaml.Node{Kind: yaml.AliasNode, Value: "a", Alias: &to}
	case "null":
		*node = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null", Line: node.Line, Column: node.Column}
	case "swap":
		if n := len(node.Content); n >= 2 {
			node.Content[0], node.Content[n-1] = node.Content[n-1], node.Content[0]
		}
	case "short":
		if n := len(node.Content); n >= 1 {
			node.Content = node.Content[:n-1]
		}
	}
	return how
}

// TestFillGivesUp: what the decoder reports, expands or looks at twice is left to it.
func TestFillGivesUp(t *testing.T) {
	t.Parallel()
	kind, _ := kinds.ByName("CivoKubernetesCluster")
	for _, tc := range []struct {
		reason, text string
		want         bool
	}{
		{"nothing is wrong", "spec: {cluster_name: a, autoUpgrade: true, region: lon1, network: {valueFrom: {name: b}}, defaultNodePool: {nodeCount: 1}}", true},
		{"a message whose length takes two bytes", "metadata: {labels: {a: b}, name: " + strings.Repeat("a", 200) + ", org: c}", true},
		{"a message whose length takes three bytes", "metadata: {labels: {a: " + strings.Repeat("b", 1<<14) + "}, org: c}", true},
		{"an empty message", "spec: {}", true},
		{"an empty text of a oneof", "spec: {network: {value: \"\"}}", true},
		{"an empty list and an empty map", "metadata: {labels: {}, tags: []}", true},
		{"both names of a field", "spec: {clusterName: a, cluster_name: b}", false},
		{"a field twice, once null", "spec: {clusterName: null, clusterName: b}", false},
		{"two of a oneof", "spec: {network: {value: a, valueFrom: {name: b}}}", false},
		{"a null among two of a oneof", "spec: {network: {value: null, valueFrom: {name: b}}}", true},
		{"an unknown field", "spec: {clusterNam: a}", false},
		{"null in a list", "spec: {tags: [null]}", false},
		{"null in a map", "metadata: {labels: {a: null}}", false},
		{"a key twice in a map", "metadata: {labels: {a: b, a: c}}", false},
		{"a merge key in a map", "metadata: {labels: {<<: b}}", false},
		{"a text that looks like a merge key", "metadata: {labels: {\"<<\": b}}", true},
		{"an alias", "metadata: {name: &a b, org: *a}", false},
		{"an anchor alone", "metadata: {name: &a b}", true},
		{"a mapping that is tagged as null", "spec: !!null {region: lon1}", false},
		{"a boolean in quotes", "spec: {autoUpgrade: \"true\"}", false},
		{"a boolean in capitals", "spec: {autoUpgrade: True}", false},
		{"a number with a sign", "spec: {defaultNodePool: {nodeCount: +1}}", false},
		{"a number in another base", "spec: {defaultNodePool: {nodeCount: 0x10}}", false},
		{"a number that is too large", "spec: {defaultNodePool: {nodeCount: 4294967296}}", false},
		{"a number for an enum", "spec: {region: 1}", false},
		{"an enum's value that is not there", "spec: {region: moon}", false},
		{"a list for a text", "spec: {clusterName: [a]}", false},
		{"a text for a list", "spec: {tags: a}", false},
		{"a mapping for a list", "spec: {tags: {a: b}}", false},
		{"a list for a mapping", "spec: [a]", false},
		{"a mapping for a key", "spec: {{a: b}: c}", false},
	} {
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(tc.text), &root); err != nil {
			t.Fatal(err)
		}
		if got := sameFill(t, kind, root.Content[0]); got != tc.want {
			t.Errorf("%s: the filler takes it: %t", tc.reason, got)
		}
	}
}

// TestFillIsCounted: the filler gives up where the decoder says that there are too many values.
func TestFillIsCounted(t *testing.T) {
	t.Parallel()
	kind, _ := kinds.ByName("CivoKubernetesCluster")
	for _, tc := range []struct {
		reason   string
		elements int
		want     bool
	}{
		{"root, spec, tags and their keys are five nodes", maxNodes - 5, true},
		{"one more", maxNodes - 4, false},
	} {
		var root yaml.Node
		text := "spec: {tags: [" + strings.Repeat("a,", tc.elements) + "]}"
		if err := yaml.Unmarshal([]byte(text), &root); err != nil {
			t.Fatal(err)
		}
		if got := (&filler{}).fill(root.Content[0], kind.NewTarget()); got != tc.want {
			t.Errorf("%s: the filler takes it: %t", tc.reason, got)
		}
		if _, err := (&decoder{}).expand(root.Content[0], map[*yaml.Node]bool{}); (err == nil) != tc.want {
			t.Errorf("%s: the decoder: %v", tc.reason, err)
		}
	}
}

// TestFillTakesExamples: what people write is read the quick way.
func TestFillTakesExamples(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir("../../examples", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(data), "Kustomization") || strings.Contains(string(data), "&") {
			return nil
		}
		for _, doc := range split(data) {
			root, problem := doc.root()
			if problem != nil || root == nil || lookup(root, "kind") == nil {
				continue
			}
			kind, ok := kinds.ByName(lookup(root, "kind").Value)
			if !ok {
				continue
			}
			found++
			if !sameFill(t, kind, root) {
				t.Errorf("%s: the filler does not take document %d", path, doc.number)
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d manifests were found: %v", found, err)
	}
}

// TestPlaces: a manifest knows where its fields stand, whichever way it was read.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for reason, text := range map[string]string{
		"read the quick way": pool,
		"with an anchor":     "# &a\n" + strings.Replace(pool, "metadata:", "metadata: &a", 1),
	} {
		manifests, err := Parse("pool.yaml", []byte("---\n"+text+"\n---\n"+strings.Replace(text, "name:", "name: other-", 1)))
		if err != nil || len(manifests) != 2 {
			t.Fatalf("%s: %v", reason, err)
		}
		for _, m := range manifests {
			samePlaces(t, m)
			if got := m.place("spec.nothing.there"); got != m.place("spec") || got.line < 3 {
				t.Errorf("%s: what is not there stands at %v", reason, got)
			}
		}
	}
}

// samePlaces compares the places of a manifest with those of the decoder.
func samePlaces(t fataler, m *Manifest) {
	t.Helper()
	root, problem := m.document.root()
	if problem != nil {
		t.Fatalf("%v", problem)
	}
	d := decoder{}
	d.decode(root, m.Kind.NewTarget())
	for path, at := range d.positions {
		if got := m.place(path); got != at {
			t.Fatalf("%s stands at %v, not at %v:\n%s", path, at, got, m.document.text)
		}
	}
}

// sameReading holds the quick ways to the slow ones.
func sameReading(t fataler, data []byte) {
	t.Helper()
	documents := split(data)
	sameNodes(t, documents)
	for _, doc := range documents {
		root, _ := doc.root()
		if root == nil || lookup(root, "kind") == nil {
			continue
		}
		if kind, ok := kinds.ByName(lookup(root, "kind").Value); ok {
			sameFill(t, kind, root)
		}
	}
}

// pieces are parts of documents, good and bad ones, and such as mean something to documents behind them.
var pieces = []string{
	"kind: CivoVpc\n", "a: b\n", "a: {b: c}\n", "- a\n", "{a: b}\n", "[a, b]\n", "a\n", "a:\n", "  b: c\n", "    - c\n", "# comment\n", "  # comment\n", "\n",
	"\"a", "'a", "a: |\n", "a: |+\n", "a: >-\n", "  text\n", "a: &anchor b\n", "b: *anchor\n", "<<: *anchor\n", "%YAML 1.1\n", "%TAG ! tag:x,2026:\n", "!x a: b\n",
	"\tb: c\n", "@\n", "{a: b\n", "]\n", "? a\n", ": b\n", "!!null\n", "a: b # comment\n", "a: \u00e9\n", "\ufeffa: b\n", "a: \u2028\n", "\x01", "a: b",
	"--- a: b\n", "--- |\n", "---\n", "---\n", "---\n", "...\n", "--- # comment\n",
}

// TestParser: documents that share a parser are parsed as each alone.
func TestParser(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: &anchor b\n---\nb: *anchor\n",
		"a: b\n...\n%TAG ! tag:x,2026:\n---\na: !x b\n",
		"a: b\n---\n%YAML 1.1\n",
		"{a: b}\nmore\n---\na: b\n",
		"a: |+\n  b\n\n\n---\na: |+\n  b\n\n",
		"a: |\n  b",
		"a: b: c\n---\na: b\n---\n@\n---\na: b\n",
		"{a: \"b\u2028c\", d: e}\n---\na: b\n",
		"\ufeff\ufeffa: b\n---\na: b\n",
		"a: \xff\n---\na: b\n",
	} {
		sameNodes(t, slices.Concat(split([]byte(text)), split([]byte("a: b\n")))) // of two files
	}
	rapid.Check(t, func(t *rapid.T) {
		var documents []document
		for range rapid.IntRange(1, 3).Draw(t, "files") {
			text := strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces"), "")
			documents = append(documents, split([]byte(text))...)
		}
		sameNodes(t, documents)
	})
}

// sameNodes compares what is parsed with one parser to what is parsed alone.
func sameNodes(t fataler, documents []document) {
	t.Helper()
	p := parser{}
	p.reset(documents)
	for _, doc := range documents {
		want, wantProblem := doc.root()
		got, gotProblem := p.next()
		if diff := cmp.Diff(wantProblem, gotProblem); diff != "" {
			t.Fatalf("document %d: -alone +shared\n%s", doc.number, diff)
		}
		if want == nil && got != nil && isNull(got) {
			continue // nothing, either way
		}
		if diff := cmp.Diff(flat(want, nil), flat(got, nil)); diff != "" {
			t.Fatalf("document %d: -alone +shared\n%s\n%q", doc.number, diff, doc.text)
		}
	}
}

// flat are the nodes of a document, without comments.
func flat(node *yaml.Node, into []string) []string {
	if node == nil {
		return into
	}
	into = append(into, fmt.Sprint(node.Line, ":", node.Column, " ", node.Kind, node.Style, " ", node.Tag, " ", node.Anchor, " ", node.Alias != nil, " ", node.Value))
	for _, child := range node.Content {
		into = flat(child, into)
	}
	return append(into, "end")
}

// TestParserIsShared: documents of which none is out of the ordinary are parsed with one parser, and the others end it at most.
func TestParserIsShared(t *testing.T) {
	t.Parallel()
	good, bad, anchor := "a: b\n", "a: b: c\n", "a: &a b\n"
	for _, tc := range []struct {
		reason    string
		documents []string
		shared    []bool // after each
	}{
		{"all are good", []string{good, good, good}, []bool{true, true, true}},
		{"one is bad", []string{good, bad, good}, []bool{true, false, true}},
		{"one with an anchor is left out", []string{anchor, good, anchor, good}, []bool{false, true, true, true}},
		{"the last one has no end of a line", []string{good, "a: b"}, []bool{true, true}},
	} {
		documents := split([]byte(strings.Join(tc.documents, "---\n")))
		p := parser{}
		p.reset(documents)
		for i, want := range tc.shared {
			before := p.shared
			p.next()
			if got := p.shared != nil; got != want || i > 0 && tc.shared[i-1] && want && p.shared != before {
				t.Errorf("%s: after document %d: shared %t", tc.reason, i+1, got)
			}
		}
	}
}

// TestBadBehindGood: what is known of good manifests hides nothing of those behind them that are like them.
func TestBadBehindGood(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, old, changed, field, rule string }{
		{"a name, which differs each time", "networkName: net-600", "networkName: NET", "spec.network_name", "dns_label"},
		{"a text that is the same each time", "ipRangeCidr: 10.0.0.0/22}\n# 600", "ipRangeCidr: 10.0.0.1/22}", "spec.ip_range_cidr", "ipv4_network"},
		{"what is missing", "metadata: {name: net-600}", "metadata: {}", "metadata.name", "required"},
	} {
		var text strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&text, "---\napiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata: {name: net-%[1]d}\n"+
				"spec: {networkName: net-%[1]d, region: lon1, ipRangeCidr: 10.0.0.0/22}\n# %[1]d\n", i)
		}
		_, err := Parse("f.yaml", []byte(strings.Replace(text.String(), tc.old, tc.changed, 1)))
		var invalid *Error
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 {
			t.Errorf("%s: got %v, want one problem", tc.reason, err)
			continue
		}
		if got := invalid.Problems[0]; got.FieldPath != tc.field || got.RuleID != tc.rule || got.Document != 601 {
			t.Errorf("%s: got %s [%s] in document %d, want %s [%s] in document 601", tc.reason, got.FieldPath, got.RuleID, got.Document, tc.field, tc.rule)
		}
	}
}
