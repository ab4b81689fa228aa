package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/rivo/uniseg"

	"github.com/plantonhq/project-planton/pkg/manifest"
)

// The mark stands below the character that the column counts, whatever is before it, on a terminal.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	for name, tc := range map[string]struct {
		reason string
		line   string
		column int
		shown  string
		mark   int
	}{
		"Plain":     {"characters of one column", "abc: x", 6, "abc: x", 5},
		"None":      {"no column", "abc", 0, "abc", -1},
		"Behind":    {"behind the end of the line", "abc", 9, "abc", 3},
		"Tab":       {"tabs lead to the next stop", "a\t\tx", 4, "a       x", 8},
		"EastAsian": {"two columns each", "名前: x", 5, "名前: x", 6},
		"Emoji":     {"several code points that are one character", "👩‍👩‍👧: x", 8, "👩‍👩‍👧: x", 4},
		"Combining": {"an accent has no width", "e\u0301: x", 5, "e\u0301: x", 3},
		"Inside":    {"of a character of several code points", "e\u0301: x", 2, "e\u0301: x", 0},
		"Control":   {"what would move the cursor is not written", "a\x1b[31m: x", 9, "a\ufffd[31m: x", 8},
		"Turned":    {"nor what would turn the order", "a\u202eb: x", 6, "a\ufffdb: x", 5},
		"Return":    {"nor a carriage return", "a\rb", 3, "a\ufffdb", 2},
		"LongLeft":  {"the beginning of a long line", long, 3, long[:120] + "…", 2},
		"LongRight": {"the part around the place", long + "X" + long, 301, "…" + long[:40] + "X" + long[:79] + "…", 41},
		"LongEnd":   {"the end", long + "X", 301, "…" + long[:40] + "X", 41},
	} {
		shown, mark := excerpt(tc.line, tc.column)
		if shown != tc.shown || mark != tc.mark {
			t.Errorf("%s: %s: got %q, %d, want %q, %d", name, tc.reason, shown, mark, tc.shown, tc.mark)
		}
		if mark > uniseg.StringWidth(shown) {
			t.Errorf("%s: the mark is behind the line", name)
		}
	}
}

// The parser's columns are those of the mark, after a byte order mark and with line ends of any kind.
func TestMarksOfFiles(t *testing.T) {
	t.Parallel()
	text := "\ufeffapiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata: {name: main}\nspec: {description: \"名前\", regio: fra1, networkName: a, region: fra1}\n"
	for _, end := range []string{"\n", "\r\n", "\r"} {
		_, err := manifest.Parse("wide.yaml", []byte(strings.ReplaceAll(text, "\n", end)))
		var out bytes.Buffer
		reportProblem(Streams{Out: &out, Err: &out, Getenv: func(string) string { return "" }}, err)
		lines := strings.Split(out.String(), "\n")
		if len(lines) < 3 || uniseg.StringWidth(lines[1][:strings.Index(lines[1], "regio:")]) != strings.Index(lines[2], "^") {
			t.Errorf("with %q the mark is not below the field:\n%s", end, out.String())
		}
	}
}

// Colors are for terminals, and for those who like them.
func TestProblemColors(t *testing.T) {
	t.Parallel()
	_, err := manifest.Parse("a.yaml", []byte("kind: CivoVpn\n"))
	for _, tc := range []struct {
		terminal bool
		noColor  string
		want     bool
	}{{true, "", true}, {true, "1", false}, {false, "", false}} {
		var out bytes.Buffer
		reportProblem(Streams{Out: &out, Err: &out, ErrTerminal: tc.terminal, Getenv: func(name string) string {
			return map[string]string{"NO_COLOR": tc.noColor}[name]
		}}, err)
		if got := strings.Contains(out.String(), "\x1b[31m"); got != tc.want {
			t.Errorf("%+v: colors %v", tc, got)
		}
	}
}

// annotated are problems of all sorts of places.
var annotated = []manifest.Problem{
	{File: "a b/c:d.yaml", Document: 1, Line: 3, Column: 7, FieldPath: "spec.region", RuleID: "field.type", Message: "50% wrong,\r\nsee: there", Hint: "such as fra1"},
	{File: "/abs/é.yaml", Line: 2, RuleID: "yaml.syntax", Message: "no YAML"},
	{File: "-", Line: 1, Column: 1, FieldPath: "kind", RuleID: "kind", Message: "it is missing"},
	{File: "--set spec.x=1", Column: 6, FieldPath: "spec.x", RuleID: "field.type", Message: "wrong"},
	{File: "k/kustomization.yaml", Generated: true, Line: 9, Column: 2, RuleID: "kind", Message: "wrong"},
	{File: "empty.yaml", RuleID: "document.none", Message: "there is no manifest in it"},
}

func TestWorkflowCommands(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeWorkflowCommands(&out, annotated)
	want := `::error file=a b/c%3Ad.yaml,line=3,col=7,title=field.type::spec.region: 50%25 wrong,%0D%0Asee: there%0Ahint: such as fra1
::error file=/abs/é.yaml,line=2,title=yaml.syntax::no YAML
::error title=kind::-:1:1: kind: it is missing
::error title=field.type::--set spec.x=1: spec.x: wrong
::error file=k/kustomization.yaml,title=kind::k/kustomization.yaml (built):9:2: wrong
::error file=empty.yaml,title=document.none::there is no manifest in it
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// What is written keeps the schema of the standard, and says where the problems are.
func TestSARIF(t *testing.T) {
	t.Parallel()
	for name, problems := range map[string][]manifest.Problem{"Problems": annotated, "None": nil} {
		text, err := json.Marshal(sarifOf("1.2.3", problems))
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields() // the library passes over them
		if err := decoder.Decode(&sarif.Report{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read, err := sarif.FromBytes(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// The standard's defaults, which the library does not fill in.
		read.Runs[0].Language, read.Runs[0].Tool.Driver.Language = "en-US", "en-US"
		read.Runs[0].NewlineSequences = []string{"\r\n", "\n"}
		if err := read.Validate(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		if name == "None" {
			continue
		}
		for _, want := range []string{
			`"uri":"a%20b/c:d.yaml"`, `"uri":"file:///abs/%C3%A9.yaml"`, `"region":{"startLine":3,"startColumn":7}`, `"columnKind":"unicodeCodePoints"`,
		} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("there is no %s in %s", want, text)
			}
		}
		for _, result := range read.Runs[0].Results {
			if read.Runs[0].Tool.Driver.Rules[result.RuleIndex].ID == nil || *read.Runs[0].Tool.Driver.Rules[result.RuleIndex].ID != *result.RuleID {
				t.Errorf("the rule of %v is another one", *result.RuleID)
			}
		}
	}
}

// reportProblem tells people of an error.
func reportProblem(streams Streams, err error) { writeError(streams, nil, err) }
