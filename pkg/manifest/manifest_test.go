package manifest

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
)

var update = flag.Bool("update", false, "write what the tests get into their golden files")

// TestBad reads each file of testdata/bad, and compares everything that is found wrong with the golden file beside it.
func TestBad(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), data)
			var bad *Error
			if !errors.As(err, &bad) {
				t.Fatalf("got error %v, want an *Error", err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if diff := cmp.Diff(string(want), err.Error()+"\n"); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, problem := range bad.Problems {
				if problem.Line > 0 && problem.Excerpt != strings.Split(string(data), "\n")[problem.Line-1] {
					t.Errorf("the excerpt of %s is %q", problem, problem.Excerpt)
				}
			}
		})
	}
}

// The YAML parser would take some of these texts, and tell no line of the others.
func TestNotUTF8(t *testing.T) {
	t.Parallel()
	inUTF16 := func(order binary.AppendByteOrder, text string) string {
		encoded := []byte{}
		for _, unit := range utf16.Encode([]rune("\uFEFF" + text)) {
			encoded = order.AppendUint16(encoded, unit)
		}
		return string(encoded)
	}
	tests := []struct {
		name, reason, text, want string
	}{
		{"utf-16, little endian", "what a redirection writes in some shells; the parser would take it", inUTF16(binary.LittleEndian, pool), "1"},
		{"utf-16, big endian", "the parser would take it", inUTF16(binary.BigEndian, pool), "1"},
		{"latin-1", "an accent of another encoding", strings.Replace(pool, "g4s.kube.medium", "caf\xe9", 1), "10"},
		{"latin-1 in a comment", "a comment is a part of the text", strings.Replace(pool, "spec:", "# caf\xe9\nspec:", 1), "5"},
		{"half a character", "a file that was cut", pool + "# caf\xc3", "12"},
		{"the second document", "lines count in the file", pool + "---\n" + strings.Replace(pool, "workers", "caf\xe9", 1), "16"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("pool.yaml", []byte(test.text))
			want := "pool.yaml:" + test.want + ": the text is not UTF-8: save the file in that encoding [yaml.syntax]"
			if err == nil || err.Error() != want {
				t.Errorf("%s: got %v, want %s", test.reason, err, want)
			}
		})
	}
	err := Decode("civo.yaml", []byte("api_token: caf\xe9\n"), &civov1.CivoProviderConfig{})
	if want := "civo.yaml:1: the text is not UTF-8: save the file in that encoding [yaml.syntax]"; err == nil || err.Error() != want {
		t.Errorf("a provider config: got %v, want %s", err, want)
	}
}

const pool = `apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesNodePool
metadata:
  name: workers
spec:
  nodePoolName: workers
  cluster:
    valueFrom:
      name: main
  size: g4s.kube.medium
  nodeCount: 3
`

func TestParse(t *testing.T) {
	t.Parallel()
	first, err := Parse("pool.yaml", []byte(pool))
	if err != nil {
		t.Fatal(err)
	}
	want := first[0].Target

	cases := map[string]struct {
		reason string
		text   string
	}{
		"SnakeCase": {
			reason: "snake_case keys mean what camelCase ones do",
			text: strings.NewReplacer("apiVersion", "api_version", "nodePoolName", "node_pool_name", "valueFrom", "value_from",
				"nodeCount", "node_count").Replace(pool),
		},
		"JSON": {
			reason: "JSON is YAML",
			text: `{"apiVersion":"civo.project-planton.org/v1","kind":"CivoKubernetesNodePool","metadata":{"name":"workers"},
"spec":{"nodePoolName":"workers","cluster":{"valueFrom":{"name":"main"}},"size":"g4s.kube.medium","nodeCount":3}}`,
		},
		"Null": {
			reason: "a null is an absent value, not the text null",
			text:   strings.Replace(pool, "  name: workers\n", "  name: workers\n  org: null\n  env: ~\n  id:\n  labels:\n", 1),
		},
		"Status": {
			reason: "the status of an exported manifest is not read",
			text:   pool + "status:\n  outputs:\n    nodePoolId: x\n",
		},
		"Anchors": {
			reason: "anchors, aliases and merge keys are put in place",
			text: strings.NewReplacer("metadata:\n  name: workers", "metadata: &m\n  name: &n workers",
				"nodePoolName: workers", "nodePoolName: *n",
				"valueFrom:\n      name: main", "valueFrom:\n      <<: *m\n      name: main").Replace(pool),
		},
		"Markers": {reason: "markers and comments around a manifest are no manifests", text: "# hello\n---\n" + pool + "---\n# bye\n...\n"},
		"Windows": {reason: "lines may end as Windows ends them", text: "\uFEFF" + strings.ReplaceAll(pool, "\n", "\r\n")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse("pool.yaml", []byte(tc.text))
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if len(got) != 1 {
				t.Fatalf("%s: got %d manifests, want 1", tc.reason, len(got))
			}
			if diff := cmp.Diff(want, got[0].Target, protocmp.Transform()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseSeveral(t *testing.T) {
	t.Parallel()
	text := "---\n# first\n" + pool + "---\n---\n" + strings.ReplaceAll(pool, "workers", "others")
	got, err := Parse("set.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var sources []Source
	for _, m := range got {
		sources = append(sources, m.Source)
	}
	want := []Source{{File: "set.yaml", Document: 1, Line: 3}, {File: "set.yaml", Document: 3, Line: 16}}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got[1].String() != "CivoKubernetesNodePool others" {
		t.Errorf("got %q", got[1])
	}
	problem := got[1].Problem("spec.cluster.value_from", RuleReference, "there is no such cluster")
	if want := "set.yaml:23:5: spec.cluster.value_from: there is no such cluster [reference]"; problem.String() != want {
		t.Errorf("got %q, want %q", problem, want)
	}
}

func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("kind: CivoVpc\nmetadata:\n  labels:\n    a0: &a0 [x]\n")
	for i := range 30 {
		_, _ = fmt.Fprintf(&bomb, "    a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	_, err := Parse("bomb.yaml", []byte(bomb.String()))
	if err == nil || !strings.Contains(err.Error(), "more than 100000 values") {
		t.Errorf("a bomb: got %v", err)
	}
	_, err = Parse("circle.yaml", []byte("kind: CivoVpc\nmetadata: &m\n  labels: *m\n"))
	if err == nil || !strings.Contains(err.Error(), "an alias stands inside of what it stands for") {
		t.Errorf("a circle: got %v", err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("set/b.yaml", pool)
	write("set/a.yml", strings.ReplaceAll(pool, "workers", "first"))
	write("set/empty.yaml", "# nothing\n")
	write("set/notes.txt", "not a manifest")
	write("set/deeper/c.yaml", "not: read")
	empty := write("empty.yaml", "# nothing\n---\n")
	if err := os.MkdirAll(filepath.Join(folder, "none"), 0o755); err != nil {
		t.Fatal(err)
	}

	cases := map[string]struct {
		reason  string
		paths   []string
		want    []string
		wantErr string
	}{
		"Folder":     {reason: "the files of a folder in the order of their names", paths: []string{filepath.Join(folder, "set")}, want: []string{"first", "workers"}},
		"Stdin":      {reason: "- is the standard input", paths: []string{"-"}, want: []string{"piped"}},
		"Both":       {reason: "in the order given", paths: []string{"-", filepath.Join(folder, "set", "b.yaml")}, want: []string{"piped", "workers"}},
		"EmptyFile":  {reason: "a file that is named declares something", paths: []string{empty}, wantErr: "empty.yaml: there is no manifest in it [document.none]"},
		"EmptyOther": {reason: "a folder without manifests is a mistake", paths: []string{filepath.Join(folder, "none")}, wantErr: "there is no manifest in it [document.none]"},
		"Missing":    {reason: "a file that is not there is named", paths: []string{filepath.Join(folder, "nowhere.yaml")}, wantErr: "nowhere.yaml: no such file"},
		"Duplicate":  {reason: "a resource is declared once", paths: []string{filepath.Join(folder, "set"), filepath.Join(folder, "set", "b.yaml")}, wantErr: "b.yaml:4:3: metadata.name: CivoKubernetesNodePool workers is declared already at"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(tc.paths, strings.NewReader(strings.ReplaceAll(pool, "workers", "piped")))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s: got error %v, want one with %q", tc.reason, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			var names []string
			for _, m := range got {
				names = append(names, m.Name())
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		text    string
		want    *civov1.CivoProviderConfig
		wantErr string
	}{
		"Good":     {reason: "a provider config", text: "apiToken: secret-token\ndefault_region: fra1\n", want: &civov1.CivoProviderConfig{ApiToken: "secret-token", DefaultRegion: civov1.CivoRegion_fra1}},
		"Unknown":  {reason: "a misspelt key", text: "apitoken: secret-token\n", wantErr: `civo.yaml:1:1: apitoken: there is no field "apitoken"; did you mean apiToken? [field.unknown]`},
		"Rule":     {reason: "a broken rule", text: "\napiToken: secret-token\napiEndpoint: api.civo.com\n", wantErr: "civo.yaml:3:1: api_endpoint: must be an http or https URL"},
		"Broken":   {reason: "no YAML", text: "apiToken: 'secret-token\n", wantErr: "civo.yaml:"},
		"List":     {reason: "no mapping", text: "- secret-token\n", wantErr: "a mapping is expected, not a list"},
		"Several":  {reason: "two documents", text: "apiToken: secret-token\n---\napiToken: secret-token\n", wantErr: "one document is expected"},
		"Empty":    {reason: "nothing", text: "# secret-token\n", wantErr: "there is nothing in it"},
		"SomeType": {reason: "a wrong type", text: "apiToken: [secret-token]\n", wantErr: "a text is expected, not a list"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := &civov1.CivoProviderConfig{}
			err := Decode("civo.yaml", []byte(tc.text), got)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("%s: got error %v, want one with %q", tc.reason, err, tc.wantErr)
				}
				if strings.Contains(err.Error(), "secret-token") {
					t.Errorf("%s: the error %q shows the token", tc.reason, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// FuzzParse looks for text that makes the reader panic, hang, or take something that it does not write the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(pool))
	f.Add([]byte("kind: CivoVpc\nspec:\n  network_name: \"a\u2028b\"\n  region: [\n"))
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(pool + "\n---\n" + strings.Replace(pool, "name:", "name: 2", 1) + "\n...\n# the end\n"))
	f.Add([]byte("provider_config: {api_token: t}\ntarget:\n  " + strings.ReplaceAll(strings.TrimSpace(pool), "\n", "\n  ")))
	f.Add([]byte("target:\n  kind: CivoVpc\n---\ntarget: {kind: CivoVpc}\n"))
	f.Add([]byte("target: {kind: CivoVp}"))
	f.Add([]byte("target: [kind]"))
	f.Add([]byte("[target"))
	f.Add([]byte(strings.Join(pieces, "")))
	f.Add([]byte(strings.Join(pieces, "---\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		stackInput(t, data)
		sameReading(t, data)
		manifests, err := Parse("fuzz.yaml", data)
		if err != nil {
			places(t, data, err)
			return
		}
		for _, m := range manifests {
			samePlaces(t, m)
			text, err := Marshal(m.Target)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse("again.yaml", text)
			if err != nil {
				t.Fatalf("what was written cannot be read: %v\n%s", err, text)
			}
			if diff := cmp.Diff(m.Target, again[0].Target, protocmp.Transform()); diff != "" {
				t.Fatalf("it changed on the way: -was +is:\n%s", diff)
			}
		}
	})
}

// stackInput reads the text as a stack input: its problems have places too, and what is read survives being written.
func stackInput(t *testing.T, data []byte) {
	t.Helper()
	m, config, err := LoadStackInput(Stdin, bytes.NewReader(data))
	if err != nil {
		places(t, data, err)
		return
	}
	input := m.Kind.NewStackInput()
	reflected := input.ProtoReflect()
	fields := reflected.Descriptor().Fields()
	reflected.Set(fields.ByName("target"), protoreflect.ValueOfMessage(m.Target.ProtoReflect()))
	if config != nil {
		reflected.Set(fields.ByName("provider_config"), protoreflect.ValueOfMessage(config.ProtoReflect()))
	}
	text, err := Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	again, configAgain, err := LoadStackInput(Stdin, bytes.NewReader(text))
	if err != nil {
		t.Fatalf("the stack input that was written cannot be read: %v\n%s", err, text)
	}
	if diff := cmp.Diff(m.Target, again.Target, protocmp.Transform()); diff != "" {
		t.Fatalf("the manifest changed on the way: -was +is:\n%s", diff)
	}
	if diff := cmp.Diff(config, configAgain, protocmp.Transform()); diff != "" {
		t.Fatalf("the provider config changed on the way: -was +is:\n%s", diff)
	}
}

// places wants every problem to name a line of the text, but for the one that there is nothing in it.
func places(t *testing.T, data []byte, err error) {
	t.Helper()
	var bad *Error
	if !errors.As(err, &bad) || len(bad.Problems) == 0 {
		t.Fatalf("got %T %v, want an *Error with problems", err, err)
	}
	// YAML has more line breaks than \n.
	lines := 1
	for _, lineBreak := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		lines += strings.Count(string(data), lineBreak)
	}
	for _, problem := range bad.Problems {
		switch {
		case problem.RuleID == "" || problem.Message == "" || problem.File == "":
			t.Errorf("the problem %+v says too little", problem)
		case problem.RuleID == RuleNoDocument:
		case problem.Line < 1 || problem.Line > lines+1 || problem.Column < 0:
			t.Errorf("the problem %v has no place in %d lines:\n%s", problem, lines, data)
		}
	}
}

func TestMarshalRoundTrip(t *testing.T) {
	t.Parallel()
	read, err := Parse("pool.yaml", []byte(pool))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Marshal(read[0].Target)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("again.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff(read[0].Target, again[0].Target, protocmp.Transform()); diff != "" {
		t.Errorf("-was +is:\n%s", diff)
	}
	if _, ok := again[0].Target.(*civokubernetesnodepoolv1.CivoKubernetesNodePool); !ok {
		t.Errorf("got a %T", again[0].Target)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"nodeCount", "node_count", "region"}
	for word, want := range map[string]string{
		"nodecount": "nodeCount", "node_cout": "node_count", "Region": "region", "zone": "", "": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestParentPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"spec.labels[\"a.b/c\"]": "spec.labels", "spec.taints[0].key": "spec.taints[0]", "spec.taints[0]": "spec.taints",
		"spec.region": "spec", "spec": "",
	} {
		if got := parentPath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

// TestEveryKind reads the smallest manifest of each kind that names its kind only: the rules must answer, with a place each.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		_, err := Parse("kind.yaml", []byte("kind: "+kind.Name+"\n"))
		var bad *Error
		if !errors.As(err, &bad) {
			t.Fatalf("%s: got error %v", kind.Name, err)
		}
		rules := map[string]string{}
		for _, problem := range bad.Problems {
			rules[problem.FieldPath] = problem.RuleID
			if problem.Line != 1 || problem.Document != 1 {
				t.Errorf("%s: %s stands nowhere", kind.Name, problem)
			}
		}
		want := map[string]string{"api_version": RuleAPIVersion, "metadata": "required", "spec": "required"}
		if diff := cmp.Diff(want, rules); diff != "" {
			t.Errorf("%s: -want +got:\n%s", kind.Name, diff)
		}
	}
}
