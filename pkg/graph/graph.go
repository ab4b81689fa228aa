// Package graph draws which resources refer to which others: as a tree for a terminal, as Mermaid and DOT for other programs, and as SVG,
// laid out here.
//
// Start with Of, which makes a Graph of manifests. An arrow leads from a resource to the one it refers to, and what nothing is needed for
// stands on top: networks above clusters above pools.
package graph

import (
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// Graph is resources and their references.
type Graph struct {
	// Nodes are the resources, each after all that it refers to.
	Nodes []Node
	// Edges are the references, those of one resource together, in the order of its fields.
	Edges []Edge
}

// Node is a resource.
type Node struct {
	// Key identifies the resource.
	Key foreignkey.Key
	// Outside tells that the resource is only referred to, and not among the manifests.
	Outside bool
	// Source is where its manifest stands, "file:line"; empty when it is outside.
	Source string
}

// Edge is a reference.
type Edge struct {
	// From and To are the indices of the resource that refers and of the one that is referred to.
	From, To int
	// Field is where the reference stands, such as "spec.network".
	Field string
	// Output is the output that is taken, such as "network_id"; empty for one of metadata.relationships, which takes none.
	Output string
}

// Of returns the graph of manifests. The error is a *foreignkey.CycleError when they refer to one another in a circle.
func Of(manifests []*manifest.Manifest) (*Graph, error) {
	targets := make([]proto.Message, len(manifests))
	for i, m := range manifests {
		targets[i] = m.Target
	}
	ordered, err := foreignkey.Order(targets)
	if err != nil {
		return nil, err
	}
	within := map[foreignkey.Key]bool{}
	for _, target := range targets {
		within[foreignkey.KeyOf(target)] = true
	}
	g := &Graph{}
	index := map[foreignkey.Key]int{}
	add := func(node Node) int {
		at, ok := index[node.Key]
		if !ok {
			at = len(g.Nodes)
			index[node.Key] = at
			g.Nodes = append(g.Nodes, node)
		}
		return at
	}
	for _, i := range ordered.Order {
		links, err := foreignkey.Links(targets[i])
		if err != nil {
			return nil, err
		}
		// What is outside comes before the first one that refers to it; what is within came already.
		for _, link := range links {
			add(Node{Key: link.To, Outside: !within[link.To]})
		}
		from := add(Node{Key: foreignkey.KeyOf(targets[i]), Source: manifests[i].Source.String()})
		for _, link := range links {
			g.Edges = append(g.Edges, Edge{From: from, To: index[link.To], Field: link.FieldPath, Output: link.OutputKey})
		}
	}
	return g, nil
}

// name is a node in one line.
func (n Node) name() string {
	if n.Outside {
		return n.Key.String() + " (not among the manifests)"
	}
	return n.Key.String()
}

// path is the node without its kind: "acme/dev/main".
func (n Node) path() string {
	return n.Key.String()[len(n.Key.Kind)+1:]
}

// parents are for each node the one that it stands beneath in a tree: the one that it refers to first, -1 where it refers to none.
func (g *Graph) parents() []int {
	parents := make([]int, len(g.Nodes))
	for i := range parents {
		parents[i] = -1
	}
	for _, edge := range g.Edges {
		if parents[edge.From] < 0 {
			parents[edge.From] = edge.To
		}
	}
	return parents
}

// Document is the graph in JSON.
type Document struct {
	// Resources are the nodes.
	Resources []Resource `json:"resources"`
	// References are the edges.
	References []Reference `json:"references"`
}

// Resource is a node in JSON.
type Resource struct {
	// ID is what references call it: kind, org, env and name, joined by slashes.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Org  string `json:"org,omitempty"`
	Env  string `json:"env,omitempty"`
	Name string `json:"name"`
	// Declared tells whether it is among the manifests.
	Declared bool   `json:"declared"`
	Source   string `json:"source,omitempty"`
}

// Reference is an edge in JSON.
type Reference struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Field  string `json:"field"`
	Output string `json:"output,omitempty"`
}

// Document returns the graph as JSON has it.
func (g *Graph) Document() Document {
	document := Document{Resources: []Resource{}, References: []Reference{}}
	id := func(n Node) string { return n.Key.Kind + "/" + n.path() }
	for _, n := range g.Nodes {
		document.Resources = append(document.Resources, Resource{
			ID: id(n), Kind: n.Key.Kind, Org: n.Key.Org, Env: n.Key.Env, Name: n.Key.Name, Declared: !n.Outside, Source: n.Source,
		})
	}
	for _, e := range g.Edges {
		document.References = append(document.References, Reference{
			From: id(g.Nodes[e.From]), To: id(g.Nodes[e.To]), Field: e.Field, Output: e.Output,
		})
	}
	return document
}
