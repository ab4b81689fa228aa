package manifest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// window is how many documents are held at once: enough for all cores to have something to do while one of them is slow, few enough to be
// nothing in memory.
const window = 128

// task is a document that is to be read, or a problem where there is none.
type task struct {
	source Source
	doc    document
	read
}

// batch is documents that are read one after the other.
type batch struct {
	tasks []task
	done  chan struct{} // closed when they are read
}

// most is how many documents a batch has at most, so that a window has some batches for each of so many cores.
func most(cores int) int { return min(max(window/4/cores, 1), 16) }

// read reads the documents.
func (b *batch) read(p *parser, f *filler, settings []Setting) {
	documents := make([]document, 0, len(b.tasks))
	for _, t := range b.tasks {
		if t.problems == nil {
			documents = append(documents, t.doc)
		}
	}
	p.reset(documents)
	for i := range b.tasks {
		if t := &b.tasks[i]; t.problems == nil {
			root, problem := p.next()
			t.read = readDocument(t.source, t.doc, root, problem, settings, f)
		}
	}
	close(b.done)
}

// feeder hands documents on to be read.
type feeder struct {
	add       func(task)
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
		f.add(task{source: Source{File: file, Document: number, Generated: f.generated}, doc: doc})
	}
}

// fail adds a problem of a file behind those of the documents before it.
func (f *feeder) fail(problem Problem) {
	f.add(task{source: Source{File: problem.File}, read: read{problems: []Problem{problem}}})
}

// collector has documents read side by side, and takes what comes of them in the order of the documents.
type collector struct {
	settings []Setting
	visit    func(*Manifest)

	documents, manifests int // so many were there
	problems             []Problem
	duplicates           []Problem
	declared             map[resourceHash]spot
	files                []string // of the manifests that are declared
	words                []byte   // of the last one
	fitting              *fitting
}

func newCollector(settings []Setting, visit func(*Manifest)) *collector {
	return &collector{settings: settings, visit: visit, declared: map[resourceHash]spot{}, fitting: newFitting(settings)}
}

// collect takes all that is fed. That nothing is declared is a problem of what none names; of nothing where that is empty.
func (c *collector) collect(none string, feed func(*feeder) error) error {
	cores := runtime.GOMAXPROCS(0)
	size := most(cores)
	// Three batches are in the hands of who fills one, of who hands one on, and of who takes what has come of one.
	inOrder, unread := make(chan *batch, window/size-3), make(chan *batch, window/size-3)
	var failure error // of feed; it is there when inOrder is closed
	go func() {
		defer close(inOrder)
		defer close(unread)
		var next *batch
		hand := func() {
			if next != nil {
				inOrder <- next
				unread <- next
				next = nil
			}
		}
		failure = feed(&feeder{add: func(t task) {
			if next == nil {
				next = &batch{tasks: make([]task, 0, size), done: make(chan struct{})}
			}
			if next.tasks = append(next.tasks, t); len(next.tasks) == size {
				hand()
			}
		}})
		hand()
	}()
	for range cores {
		go func() {
			var p parser
			f := filler{memo: validation.NewMemo()}
			for b := range unread {
				b.read(&p, &f, c.settings)
			}
		}()
	}
	for b := range inOrder {
		<-b.done
		for i := range b.tasks {
			c.take(&b.tasks[i])
			b.tasks[i] = task{}
		}
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

// spot is where a manifest stands, as short as it can be kept of many.
type spot struct{ file, line int32 }

// lookForDuplicate finds a manifest of a resource that another one declares already. Two of them would change one stack in turns.
func (c *collector) lookForDuplicate(m *Manifest) {
	metadata := kinds.Metadata(m.Target)
	c.words = c.words[:0]
	for _, word := range []string{m.Kind.Name, metadata.GetOrg(), metadata.GetEnv(), metadata.GetName()} {
		c.words = append(append(c.words, word...), 0)
	}
	sum := sha256.Sum256(c.words)
	hash := resourceHash(sum[:16])
	if earlier, ok := c.declared[hash]; ok {
		at := Source{File: c.files[earlier.file], Line: int(earlier.line)}
		c.duplicates = append(c.duplicates, m.Problem("metadata.name", RuleDuplicateResource,
			fmt.Sprintf("%s is declared already at %s; names are unique for a kind, organization and environment", m, at)))
		return
	}
	last := len(c.files) - 1
	if last < 0 || c.files[last] != m.Source.File {
		c.files = append(c.files, m.Source.File)
		last++
	}
	c.declared[hash] = spot{int32(last), int32(m.Source.Line)}
}
