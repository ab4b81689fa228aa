package graph

import (
	"strings"
)

// Line is a line of a tree.
type Line struct {
	// Index is the node that stands in the line.
	Index int
	// Prefix is what is drawn before it: "│   └── ".
	Prefix string
}

// Lines draws a tree: parents are the index of the node that each node stands beneath, -1 for none. Nodes of one parent keep their order.
func Lines(parents []int) []Line {
	children := map[int][]int{}
	for i, parent := range parents {
		children[parent] = append(children[parent], i)
	}
	lines := make([]Line, 0, len(parents))
	var draw func(parent int, indent string)
	draw = func(parent int, indent string) {
		for n, i := range children[parent] {
			branch, below := "├── ", "│   "
			if n == len(children[parent])-1 {
				branch, below = "└── ", "    "
			}
			if parent < 0 {
				branch, below = "", ""
			}
			lines = append(lines, Line{Index: i, Prefix: indent + branch})
			draw(i, indent+below)
		}
	}
	draw(-1, "")
	return lines
}

// Tree draws the graph for a terminal. A resource stands once, beneath the one that it refers to first; the others are named beside it.
func (g *Graph) Tree() string {
	parents := g.parents()
	also := make([][]string, len(g.Nodes))
	for _, edge := range g.Edges {
		name := clean(g.Nodes[edge.To].Key.String())
		named := false
		for _, other := range also[edge.From] {
			named = named || other == name
		}
		if edge.To != parents[edge.From] && !named {
			also[edge.From] = append(also[edge.From], name)
		}
	}
	var tree strings.Builder
	for _, line := range Lines(parents) {
		tree.WriteString(line.Prefix + clean(g.Nodes[line.Index].name()))
		if others := also[line.Index]; len(others) > 0 {
			tree.WriteString(" (refers to " + strings.Join(others, ", ") + " too)")
		}
		tree.WriteString("\n")
	}
	return tree.String()
}

// clean keeps control characters from a terminal, and a name in one line.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\ufffd'
		}
		return r
	}, text)
}
