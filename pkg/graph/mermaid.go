package graph

import (
	"fmt"
	"strings"
)

// Mermaid writes the graph as a Mermaid flowchart, which GitHub and GitLab show.
// https://mermaid.js.org/syntax/flowchart.html
func (g *Graph) Mermaid() string {
	var text strings.Builder
	text.WriteString("flowchart BT\n")
	var outside []string
	for i, node := range g.Nodes {
		id := fmt.Sprintf("n%d", i)
		fmt.Fprintf(&text, "    %s[\"%s<br/>%s\"]\n", id, mermaidText(node.Key.Kind), mermaidText(node.path()))
		if node.Outside {
			outside = append(outside, id)
		}
	}
	for _, edge := range g.Edges {
		fmt.Fprintf(&text, "    n%d -->|\"%s\"| n%d\n", edge.From, mermaidText(edge.Field), edge.To)
	}
	if len(outside) > 0 {
		fmt.Fprintf(&text, "    classDef outside stroke-dasharray: 4 3\n    class %s outside\n", strings.Join(outside, ","))
	}
	return text.String()
}

// mermaidText escapes a text for the inside of quotes: what means anything there is written by its number.
func mermaidText(text string) string {
	var escaped strings.Builder
	for _, r := range clean(text) {
		if strings.ContainsRune("\"#&<>`\\;*_~", r) {
			fmt.Fprintf(&escaped, "#%d;", r)
			continue
		}
		escaped.WriteRune(r)
	}
	return escaped.String()
}
