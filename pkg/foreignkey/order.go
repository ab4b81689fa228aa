package foreignkey

import (
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// Key identifies a resource among manifests.
type Key struct {
	// Kind is the name of the kind, such as "CivoVpc".
	Kind string
	// Org and Env are the organization and the environment; both may be empty.
	Org, Env string
	// Name is metadata.name.
	Name string
}

// String returns the key as a person would write it: "CivoVpc prod/main".
func (k Key) String() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{k.Org, k.Env, k.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return k.Kind + " " + strings.Join(parts, "/")
}

// KeyOf returns the key of a manifest.
func KeyOf(target proto.Message) Key {
	kind, _ := kinds.Of(target)
	metadata := kinds.Metadata(target)
	return Key{Kind: kind.Name, Org: metadata.GetOrg(), Env: metadata.GetEnv(), Name: metadata.GetName()}
}

// KeyOf returns the key of the resource that a reference of the manifest from points at.
func (r Reference) KeyOf(from proto.Message) Key {
	metadata := kinds.Metadata(from)
	env := r.Env
	if env == "" {
		env = metadata.GetEnv()
	}
	return Key{Kind: r.Kind.Name, Org: metadata.GetOrg(), Env: env, Name: r.Name}
}

// CycleError is the error of manifests that refer to one another in a circle.
type CycleError struct {
	// Cycle are the resources of the circle; the first refers to the second, the last to the first.
	Cycle []Key
}

// Error names the circle.
func (e *CycleError) Error() string {
	names := make([]string, 0, len(e.Cycle)+1)
	for _, key := range e.Cycle {
		names = append(names, key.String())
	}
	names = append(names, e.Cycle[0].String())
	return "these resources refer to one another in a circle: " + strings.Join(names, " -> ")
}

// Graph tells which manifests need which others.
type Graph struct {
	// Order are the indices of the manifests, each after all that it needs; otherwise the order of the manifests is kept.
	Order []int
	// Needs holds for each manifest the indices of those that it refers to, in the order of its fields.
	Needs [][]int
}

// Order finds the order in which manifests can be provisioned: what is referred to comes first. References (and
// metadata.relationships) to resources that are not among the manifests do not count. It fails with a *CycleError when there is
// no order, and when two manifests are of the same resource.
func Order(targets []proto.Message) (Graph, error) {
	index := make(map[Key]int, len(targets))
	for i, target := range targets {
		key := KeyOf(target)
		if first, ok := index[key]; ok {
			return Graph{}, errors.Errorf("%s is declared twice (manifests %d and %d)", key, first+1, i+1)
		}
		index[key] = i
	}
	graph := Graph{Needs: make([][]int, len(targets))}
	for i, target := range targets {
		links, err := Links(target)
		if err != nil {
			return Graph{}, errors.Wrap(err, KeyOf(target).String())
		}
		for _, link := range links {
			if j, ok := index[link.To]; ok {
				graph.Needs[i] = append(graph.Needs[i], j)
			}
		}
	}
	return graph, graph.sort(targets)
}

// Link is one reference of a manifest, or one of its metadata.relationships.
type Link struct {
	// FieldPath is where it stands, such as "spec.network" or "metadata.relationships[0]".
	FieldPath string
	// To is the resource that it points at.
	To Key
	// OutputKey is the output that the field takes; empty for a relationship.
	OutputKey string
}

// Links returns what a manifest points at: its references in the order of its fields, then its relationships. It fails as Of does.
func Links(target proto.Message) ([]Link, error) {
	references, err := Of(target)
	if err != nil {
		return nil, err
	}
	links := make([]Link, 0, len(references))
	for _, reference := range references {
		links = append(links, Link{FieldPath: reference.FieldPath, To: reference.KeyOf(target), OutputKey: reference.OutputKey})
	}
	metadata := kinds.Metadata(target)
	for i, relationship := range metadata.GetRelationships() {
		path := fmt.Sprintf("metadata.relationships[%d]", i)
		kind, ok := kinds.ByNumber(relationship.GetKind())
		if !ok {
			return nil, errors.Errorf("%s.kind: unknown kind", path)
		}
		reference := Reference{Kind: kind, Env: relationship.GetEnv(), Name: relationship.GetName()}
		links = append(links, Link{FieldPath: path, To: reference.KeyOf(target)})
	}
	return links, nil
}

func (g *Graph) sort(targets []proto.Message) error {
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(targets))
	var path []int
	var visit func(int) error
	visit = func(i int) error {
		switch state[i] {
		case done:
			return nil
		case open:
			var cycle []Key
			for at := len(path) - 1; ; at-- {
				cycle = append([]Key{KeyOf(targets[path[at]])}, cycle...)
				if path[at] == i {
					return &CycleError{Cycle: cycle}
				}
			}
		}
		state[i] = open
		path = append(path, i)
		for _, j := range g.Needs[i] {
			if err := visit(j); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		state[i] = done
		g.Order = append(g.Order, i)
		return nil
	}
	for i := range targets {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}
