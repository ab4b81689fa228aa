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
	metadata := kinds.Metadata(target)
	name := ""
	if kind := kindOf(target); kind != nil {
		name = kind.Name
	}
	return Key{Kind: name, Org: metadata.GetOrg(), Env: metadata.GetEnv(), Name: metadata.GetName()}
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
	b := NewBuilder()
	for _, target := range targets {
		if err := b.declare(KeyOf(target)); err != nil {
			return Graph{}, err
		}
	}
	for _, target := range targets {
		links, err := Links(target)
		if err != nil {
			return Graph{}, errors.Wrap(err, KeyOf(target).String())
		}
		b.link(links)
	}
	return b.Graph()
}

// Builder makes a Graph of manifests that come one after the other. It keeps no more of them than what they are called, and that short:
// it may be many.
type Builder struct {
	words    map[string]int32 // of kinds, organizations and environments, which are few: the place among texts
	texts    []string
	numbers  map[shortKey]int32 // of all keys that are declared or referred to: the place among keys
	keys     []shortKey
	declared []int32 // by number: the place of the manifest, or undeclared
	order    []int32 // by place: the number
	needs    []int32 // the numbers of what the manifests refer to, one manifest after the other
	ends     []int32 // by place: where its needs end
}

// shortKey is a Key with places among texts instead of the words that many have.
type shortKey struct {
	kind, org, env int32
	name           string
}

// undeclared is the place of a key that is referred to, and not declared so far.
const undeclared = -1

// NewBuilder makes a builder of a graph without manifests.
func NewBuilder() *Builder {
	return &Builder{words: map[string]int32{}, numbers: map[shortKey]int32{}}
}

// Add takes a manifest with what it points at, see Links. It fails when there is one of the same resource already.
func (b *Builder) Add(key Key, links []Link) error {
	if err := b.declare(key); err != nil {
		return err
	}
	b.link(links)
	return nil
}

func (b *Builder) word(text string) int32 {
	word, ok := b.words[text]
	if !ok {
		word = int32(len(b.texts))
		b.words[text] = word
		b.texts = append(b.texts, text)
	}
	return word
}

func (b *Builder) short(key Key) shortKey {
	return shortKey{b.word(key.Kind), b.word(key.Org), b.word(key.Env), key.Name}
}

func (b *Builder) long(key shortKey) Key {
	return Key{Kind: b.texts[key.kind], Org: b.texts[key.org], Env: b.texts[key.env], Name: key.name}
}

func (b *Builder) number(key Key) int32 {
	short := b.short(key)
	number, ok := b.numbers[short]
	if !ok {
		number = int32(len(b.keys))
		b.numbers[short] = number
		b.keys, b.declared = append(b.keys, short), append(b.declared, undeclared)
	}
	return number
}

func (b *Builder) declare(key Key) error {
	number := b.number(key)
	if first := b.declared[number]; first != undeclared {
		return errors.Errorf("%s is declared twice (manifests %d and %d)", key, first+1, len(b.order)+1)
	}
	b.declared[number] = int32(len(b.order))
	b.order = append(b.order, number)
	return nil
}

// link takes what the next manifest points at.
func (b *Builder) link(links []Link) {
	for _, link := range links {
		b.needs = append(b.needs, b.number(link.To))
	}
	b.ends = append(b.ends, int32(len(b.needs)))
}

// Place tells which of the manifests that were added is of a resource, counted from 0.
func (b *Builder) Place(key Key) (int, bool) {
	number, ok := b.numbers[b.short(key)]
	if !ok || b.declared[number] == undeclared {
		return 0, false
	}
	return int(b.declared[number]), true
}

// Graph puts the manifests that were added in order. It fails with a *CycleError when there is none.
func (b *Builder) Graph() (Graph, error) {
	graph := Graph{Needs: make([][]int, len(b.order))}
	for place := range b.order {
		for _, number := range b.needsOf(place) {
			if needed := b.declared[number]; needed != undeclared {
				graph.Needs[place] = append(graph.Needs[place], int(needed))
			}
		}
	}
	return graph, graph.sort(func(place int) Key { return b.long(b.keys[b.order[place]]) })
}

func (b *Builder) needsOf(place int) []int32 {
	start := int32(0)
	if place > 0 {
		start = b.ends[place-1]
	}
	return b.needs[start:b.ends[place]]
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
	return LinksOf(target, references)
}

// LinksOf is Links for a manifest whose references are known, see Of.
func LinksOf(target proto.Message, references []Reference) ([]Link, error) {
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

func (g *Graph) sort(key func(place int) Key) error {
	const (
		unseen = iota
		open
		done
	)
	state := make([]int8, len(g.Needs))
	var path []int
	var visit func(int) error
	visit = func(i int) error {
		switch state[i] {
		case done:
			return nil
		case open:
			var cycle []Key
			for at := len(path) - 1; ; at-- {
				cycle = append([]Key{key(path[at])}, cycle...)
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
	for i := range g.Needs {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}
