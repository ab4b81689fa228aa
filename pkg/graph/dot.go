package graph

import (
	"fmt"
	"strings"
)

// DOT writes the graph in the language of Graphviz.
// https://graphviz.org/doc/info/lang.html
func (g *Graph) DOT() string {
	var text strings.Builder
	text.WriteString("digraph references {\n  rankdir=BT;\n  node [shape=box];\n")
	for i, node := range g.Nodes {
		style := ""
		if node.Outside {
			style = ", style=dashed"
		}
		fmt.Fprintf(&text, "  n%d [label=%s%s];\n", i, dotText(node.Key.Kind+"\n"+clean(node.path())), style)
	}
	for _, edge := range g.Edges {
		fmt.Fprintf(&text, "  n%d -> n%d [label=%s];\n", edge.From, edge.To, dotText(clean(edge.Field)))
	}
	text.WriteString("}\n")
	return text.String()
}

// dotText quotes a label. A backslash begins an escape in labels, so it is doubled.
func dotText(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
