package provision

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Checker tells whether manifests fit together, as Order does, while they come one after the other. It keeps no more of them than what
// they are called and where they stand.
type Checker struct {
	builder  *foreignkey.Builder
	seen     []seen
	words    words                    // kinds and files
	stacks   map[stackHash]int32      // among seen
	outside  map[int]manifest.Problem // what seen has no room for: places that are not in the file
	problems []manifest.Problem
	err      error
}

// stackHash is a short word for a stack.
type stackHash [16]byte

// seen is what is kept of a manifest. It is short, as there may be many.
type seen struct {
	name, excerpt              string
	kind, file, line, document int32    // the first two are among the words
	at                         [2]int32 // the line and column of the metadata
	generated                  bool
}

// words are texts that many manifests have, each kept once.
type words struct {
	places map[string]int32
	texts  []string
}

func (w *words) place(text string) int32 {
	place, ok := w.places[text]
	if !ok {
		place = int32(len(w.texts))
		w.places[text] = place
		w.texts = append(w.texts, text)
	}
	return place
}

// NewChecker makes a checker that has seen no manifest.
func NewChecker() *Checker {
	return &Checker{
		builder: foreignkey.NewBuilder(), words: words{places: map[string]int32{}}, stacks: map[stackHash]int32{},
		outside: map[int]manifest.Problem{},
	}
}

// Add takes the next manifest.
func (c *Checker) Add(m *manifest.Manifest) { c.add(m) }

func (c *Checker) add(m *manifest.Manifest) (stackidentity.Identity, []foreignkey.Reference) {
	identity, err := stackidentity.For(m.Kind, kinds.Metadata(m.Target))
	sum := sha256.Sum256([]byte(identity.String()))
	hash := stackHash(sum[:16])
	if err != nil {
		c.problems = append(c.problems, m.Problem("metadata.labels", manifest.RuleStack, err.Error()))
	} else if i, ok := c.stacks[hash]; ok {
		other := c.seen[i]
		c.problems = append(c.problems, m.Problem("metadata", manifest.RuleStack, fmt.Sprintf("its stack %s is that of %s %s at %s already",
			identity, c.words.texts[other.kind], other.name, manifest.Source{File: c.words.texts[other.file], Line: int(other.line)})))
	}
	c.stacks[hash] = int32(len(c.seen))
	references, err := foreignkey.Of(m.Target)
	if err != nil {
		path, message, _ := strings.Cut(err.Error(), ": ")
		c.problems = append(c.problems, m.Problem(path, manifest.RuleReference, message))
	}
	key := foreignkey.KeyOf(m.Target)
	links, err := foreignkey.LinksOf(m.Target, references)
	if err == nil {
		err = c.builder.Add(key, links)
	} else {
		err = errors.Wrap(err, key.String())
	}
	if c.err == nil {
		c.err = err
	}
	c.remember(m, len(links) > 0)
	return identity, references
}

// remember keeps what problems with other manifests may have to say of one. Only what refers to others can stand in a circle.
func (c *Checker) remember(m *manifest.Manifest, refers bool) {
	kept := seen{
		kind: c.words.place(m.Kind.Name), name: m.Name(), file: c.words.place(m.Source.File), line: int32(m.Source.Line),
		document: int32(m.Source.Document), generated: m.Source.Generated,
	}
	if refers {
		problem := m.Problem("metadata", manifest.RuleReference, "")
		if problem.File != m.Source.File {
			c.outside[len(c.seen)] = problem
		}
		kept.excerpt = strings.Clone(problem.Excerpt) // it is a part of the document
		kept.at = [2]int32{int32(problem.Line), int32(problem.Column)}
	}
	c.seen = append(c.seen, kept)
}

// graph is the order of the manifests.
func (c *Checker) graph() (foreignkey.Graph, error) {
	if len(c.problems) > 0 {
		return foreignkey.Graph{}, &manifest.Error{Problems: c.problems}
	}
	if c.err != nil {
		return foreignkey.Graph{}, c.err
	}
	return c.builder.Graph()
}

// Err tells whether all manifests that were added fit together. It is a *manifest.Error when they do not.
func (c *Checker) Err() error {
	_, err := c.graph()
	var cycle *foreignkey.CycleError
	if !errors.As(err, &cycle) {
		return err
	}
	// The builder has the manifests in the same order: it has taken all of them.
	place, _ := c.builder.Place(cycle.Cycle[0])
	problem, outside := c.outside[place]
	if !outside {
		kept := c.seen[place]
		problem = manifest.Problem{
			File: c.words.texts[kept.file], Generated: kept.generated, Document: int(kept.document), Line: int(kept.at[0]), Column: int(kept.at[1]),
			Kind: c.words.texts[kept.kind], FieldPath: "metadata", RuleID: manifest.RuleReference, Excerpt: kept.excerpt,
		}
	}
	problem.Message = cycle.Error()
	problem.Hint = "take one of the references or metadata.relationships out"
	return &manifest.Error{Problems: []manifest.Problem{problem}}
}
