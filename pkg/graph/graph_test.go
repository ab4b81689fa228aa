package graph

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

var update = flag.Bool("update", false, "write the golden files")

func of(t *testing.T, text string) (*Graph, error) {
	t.Helper()
	manifests, err := manifest.Parse("set.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return Of(manifests)
}

// TestForms compares every form of a graph with its golden file; -update writes them.
func TestForms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/set.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g, err := of(t, string(text))
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.MarshalIndent(g.Document(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"tree.txt": g.Tree(), "graph.mmd": g.Mermaid(), "graph.dot": g.DOT(), "graph.svg": g.SVG(), "graph.json": string(document) + "\n",
	} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestCycle(t *testing.T) {
	t.Parallel()
	_, err := of(t, `
apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: a, relationships: [{kind: CivoVpc, name: b}]}
spec: {networkName: a, region: fra1}
---
apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: b, relationships: [{kind: CivoVpc, name: a}]}
spec: {networkName: b, region: fra1}
`)
	var cycle *foreignkey.CycleError
	if !errors.As(err, &cycle) || !strings.Contains(err.Error(), "CivoVpc a -> CivoVpc b -> CivoVpc a") {
		t.Errorf("got %v, want a *foreignkey.CycleError that names the circle", err)
	}
}

// odd are names that would mean something to the languages, were they not escaped.
var odd = rapid.OneOf(
	rapid.SampledFrom([]string{
		`"`, `\`, `\"`, `a"];b [label="`, "<script>", "</title>", "&amp;", "]]>", "#quot;", "`", "a\nb", "\x1b[31m", "\x00", "|", "{}", `\N`, "-->", "n0", ";", "é", "节点", "",
	}),
	rapid.String(),
)

func oddGraph(t *rapid.T) *Graph {
	g := &Graph{}
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		g.Nodes = append(g.Nodes, Node{
			Key:     foreignkey.Key{Kind: "CivoVpc", Env: odd.Draw(t, "env"), Name: fmt.Sprint(odd.Draw(t, "name"), i)},
			Outside: rapid.Bool().Draw(t, "outside"),
		})
		for to := range i {
			if rapid.IntRange(0, 2).Draw(t, "refers") == 0 {
				g.Edges = append(g.Edges, Edge{From: i, To: to, Field: odd.Draw(t, "field")})
			}
		}
	}
	return g
}

// TestSVGIsXML: whatever the names are, every node is drawn once with its name, nothing else is, and no two nodes of a row overlap.
func TestSVGIsXML(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := oddGraph(t)
		svg := g.SVG()
		decoder := xml.NewDecoder(strings.NewReader(svg))
		elements := map[string]int{}
		var texts []string
		inText := false
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, svg)
			}
			switch token := token.(type) {
			case xml.StartElement:
				elements[token.Name.Local]++
				if inText = token.Name.Local == "text"; inText {
					texts = append(texts, "")
				}
			case xml.EndElement:
				inText = false
			case xml.CharData:
				if inText {
					texts[len(texts)-1] += string(token)
				}
			}
		}
		want := map[string]int{"svg": 1, "defs": 1, "marker": 1, "rect": 1 + len(g.Nodes), "path": 1 + len(g.Edges)}
		want["g"], want["text"], want["title"] = len(g.Nodes), 2*len(g.Nodes), len(g.Nodes)+len(g.Edges)
		for name := range elements {
			if elements[name] != want[name] {
				t.Fatalf("%d elements %s, want %d\n%s", elements[name], name, want[name], svg)
			}
		}
		for i, node := range g.Nodes {
			if got := texts[2*i+1]; got != strings.ToValidUTF8(clean(node.path()), "\ufffd") && !strings.ContainsRune(got, '\ufffd') {
				t.Fatalf("the name %q is drawn as %q", node.path(), got)
			}
		}
		d := g.layOut()
		for _, edge := range g.Edges {
			if d.boxes[edge.From].y <= d.boxes[edge.To].y {
				t.Fatalf("node %d does not stand below node %d, which it refers to", edge.From, edge.To)
			}
		}
		for _, row := range d.rows {
			for n := 1; n < len(row); n++ {
				left, right := d.boxes[row[n-1]], d.boxes[row[n]]
				if left.x+left.width/2 > right.x-right.width/2+0.001 {
					t.Fatalf("nodes %d and %d overlap\n%s", left.node, right.node, svg)
				}
			}
		}
	})
}

// statement is one of the statements that DOT writes, with a quoted label as the grammar of Graphviz has it: only \" is an escape there.
var statement = regexp.MustCompile(`^  (?:(n\d+)|(n\d+) -> (n\d+)) \[label="((?:[^"\\]|\\"|\\[^"])*)"(, style=dashed)?\];$`)

// TestDOTIsRead: whatever the names are, a reader of DOT finds every node and edge, and the label reads as the name.
func TestDOTIsRead(t *testing.T) {
	t.Parallel()
	label := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
	rapid.Check(t, func(t *rapid.T) {
		g := oddGraph(t)
		lines := strings.Split(strings.TrimSuffix(g.DOT(), "\n"), "\n")
		lines = lines[3 : len(lines)-1]
		if len(lines) != len(g.Nodes)+len(g.Edges) {
			t.Fatalf("%d statements, want %d", len(lines), len(g.Nodes)+len(g.Edges))
		}
		for i, line := range lines {
			found := statement.FindStringSubmatch(line)
			if found == nil {
				t.Fatalf("no statement: %s", line)
			}
			got := label.Replace(found[4])
			want := ""
			if i < len(g.Nodes) {
				want = g.Nodes[i].Key.Kind + "\n" + clean(g.Nodes[i].path())
			} else {
				want = clean(g.Edges[i-len(g.Nodes)].Field)
			}
			if got != want {
				t.Fatalf("the label of %s reads %q, want %q", line, got, want)
			}
		}
	})
}

// TestMermaidIsNotLeft: whatever the names are, each stays within its quotes, on its line.
func TestMermaidIsNotLeft(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile("^    (n\\d+\\[\"[^\"<>`\\\\]*<br/>[^\"<>`\\\\]*\"\\]|n\\d+ -->\\|\"[^\"<>`\\\\]*\"\\| n\\d+|classDef outside [a-z0-9: -]+|class [n0-9,]+ outside)$")
	rapid.Check(t, func(t *rapid.T) {
		g := oddGraph(t)
		text := strings.TrimSuffix(g.Mermaid(), "\n")
		for i, got := range strings.Split(text, "\n") {
			if i > 0 && !line.MatchString(got) {
				t.Fatalf("line %d: %q", i, got)
			}
		}
	})
}

// TestTreeHoldsEveryNodeOnce: a line a node, in a tree.
func TestTreeHoldsEveryNodeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := oddGraph(t)
		if got := strings.Count(g.Tree(), "\n"); got != len(g.Nodes) {
			t.Fatalf("%d lines, want %d", got, len(g.Nodes))
		}
		seen := map[int]bool{}
		for _, line := range Lines(g.parents()) {
			seen[line.Index] = true
		}
		if len(seen) != len(g.Nodes) {
			t.Fatalf("%d nodes, want %d", len(seen), len(g.Nodes))
		}
	})
}
