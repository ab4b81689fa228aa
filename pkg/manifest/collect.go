package manifest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// window is how many documents are held at once: enough for all cores to have something to do while one of them is slow, few enough to be
// nothing in memory.
const window = 128

// task is a document that is to be read, or a problem where there is none.
type task struct {
	source Source
	doc    document
	read
	done chan struct{} // closed when read is there
}

// feeder hands documents on to be read.
type feeder struct {
	add       func(*task)
	generated bool
}

// feed takes the documents of a file. It returns false when there is none.
func (f *feeder) feed(file string, in io.Reader) (some bool, err error) {
	number := 0
	for scanner := newScanner(in); ; {
		doc, ok, err := scanner.scan()
		if err != nil || !ok {
			return some, err
		}
		// A marker before any content starts the first document, it does not end one before it.
		if number == 0 && isBlank(doc.text) {
			continue
		}
		number++
		some = some || !isNullText(doc.text)
		doc.number = number
		f.add(&task{source: Source{File: file, Document: number, Generated: f.generated}, doc: doc})
	}
}

// fail adds a problem of a file behind those of the documents before it.
func (f *feeder) fail(problem Problem) {
	f.add(&task{source: Source{File: problem.File}, read: read{problems: []Problem{problem}}})
}

// collector has documents read side by side, and takes what comes of them in the order of the documents.
type collector struct {
	settings []Setting
	visit    func(*Manifest)

	documents, manifests int // so many were there
	problems             []Problem
	duplicates           []Problem
	declared             map[resourceHash]Source
	fitting              *fitting
}

func newCollector(settings []Setting, visit func(*Manifest)) *collector {
	return &collector{settings: settings, visit: visit, declared: map[resourceHash]Source{}, fitting: newFitting(settings)}
}

// collect takes all that is fed. That nothing is declared is a problem of what none names; of nothing where that is empty.
func (c *collector) collect(none string, feed func(*feeder) error) error {
	inOrder, unread := make(chan *task, window), make(chan *task, window)
	var failure error // of feed; it is there when inOrder is closed
	go func() {
		defer close(inOrder)
		defer close(unread)
		failure = feed(&feeder{add: func(t *task) {
			t.done = make(chan struct{})
			inOrder <- t
			unread <- t
		}})
	}()
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for t := range unread {
				if t.problems == nil {
					t.read = parseDocument(t.source, t.doc, c.settings)
				}
				close(t.done)
			}
		}()
	}
	for t := range inOrder {
		<-t.done
		c.take(t)
	}
	if failure != nil {
		return failure // what is wrong beside it may be half the truth
	}
	problems := append(c.problems, c.duplicates...)
	if none != "" && c.manifests == 0 && len(problems) == 0 {
		problems = append(problems, emptyProblem(none))
	}
	if problems = append(problems, c.fitting.problems()...); len(problems) > 0 {
		return &Error{Problems: problems}
	}
	return nil
}

// take takes what has come of a document.
func (c *collector) take(t *task) {
	c.documents++
	for _, problem := range t.problems {
		problem.File, problem.Document, problem.Generated = t.source.File, t.source.Document, t.source.Generated
		problem.Excerpt = t.doc.excerpt(problem.Line)
		problem.place(c.settings)
		c.problems = append(c.problems, problem)
	}
	if t.settings != nil {
		c.fitting.add(t.settings)
	} else if len(t.problems) > 0 && t.source.Document > 0 {
		c.fitting.unknown = true
	}
	if t.manifest != nil {
		c.manifests++
		c.lookForDuplicate(t.manifest)
		c.visit(t.manifest)
	}
}

// resourceHash is a short word for the kind, organization, environment and name of a resource.
type resourceHash [16]byte

// lookForDuplicate finds a manifest of a resource that another one declares already. Two of them would change one stack in turns.
func (c *collector) lookForDuplicate(m *Manifest) {
	metadata := kinds.Metadata(m.Target)
	sum := sha256.Sum256([]byte(strings.Join([]string{m.Kind.Name, metadata.GetOrg(), metadata.GetEnv(), metadata.GetName()}, "\x00")))
	hash := resourceHash(sum[:16])
	if earlier, ok := c.declared[hash]; ok {
		c.duplicates = append(c.duplicates, m.Problem("metadata.name", RuleDuplicateResource,
			fmt.Sprintf("%s is declared already at %s; names are unique for a kind, organization and environment", m, earlier)))
		return
	}
	c.declared[hash] = m.Source
}
