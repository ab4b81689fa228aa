package manifest

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/pkg/errors"
)

// Stdin is the path that means the standard input.
const Stdin = "-"

// Input is where manifests come from, and what is changed in them.
type Input struct {
	// Paths are files, folders (their .yaml, .yml and .json files, not the folders in them), globs and "-" for the standard input, in
	// this order. In a glob, ** stands for any folders; of what it matches, the .yaml, .yml and .json files count, in the order of
	// their names.
	Paths []string
	// Stdin is the standard input; nil where there is none.
	Stdin io.Reader
	// Texts are what something else made. They come after the paths.
	Texts []Text
	// Settings are applied to every manifest that has their fields, in this order.
	Settings []Setting
}

// Text is YAML that was made from a file, such as by kustomize.
type Text struct {
	// File names it in problems.
	File string
	Data []byte
}

// Load reads the manifests of several files, folders, globs and of the standard input: see Input.
func Load(paths []string, stdin io.Reader) ([]*Manifest, error) {
	return Input{Paths: paths, Stdin: stdin}.Load()
}

// Load reads the manifests, with all cores. The error is an *Error when what was read is wrong: then it holds the problems of all files.
// It is another one when a file cannot be read, and when a glob matches nothing.
func (in Input) Load() ([]*Manifest, error) {
	b := &batch{settings: in.Settings}
	for _, path := range in.Paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			data, err := readFile(file, in.Stdin)
			if err != nil {
				return nil, err
			}
			// A file that someone names is meant to declare something; one that lies in a folder need not.
			if !b.add(file, data) && file == path {
				b.fail(emptyProblem(file))
			}
		}
	}
	for _, text := range in.Texts {
		b.generated = true
		if !b.add(text.File, text.Data) {
			b.fail(emptyProblem(text.File))
		}
	}
	b.flush()
	if len(b.manifests)+len(b.problems) == 0 {
		b.problems = append(b.problems, emptyProblem(strings.Join(in.Paths, ", ")))
	}
	return b.finish()
}

// batchSize is how many documents are read together: enough for all cores to have something to do, few enough to be nothing beside what
// is kept.
const batchSize = 256

// batch reads documents side by side, and keeps what comes of them in the order of the documents.
type batch struct {
	settings  []Setting
	generated bool

	pending   []task
	manifests []*Manifest
	problems  []Problem
	applied   []*settings
	unknown   bool // a document is of no kind that is known, so nobody can tell which settings it would take
}

// task is a document that is to be read.
type task struct {
	source Source
	doc    document
	lines  []string
	read
}

// add takes the documents of a file. It returns false when there is none.
func (b *batch) add(file string, data []byte) bool {
	documents, lines := split(data)
	number, some := 0, false
	for _, doc := range documents {
		// A marker before any content starts the first document, it does not end one before it.
		if number == 0 && isBlank(doc.text) {
			continue
		}
		number++
		some = some || !isNullText(doc.text)
		doc.number = number
		source := Source{File: file, Document: number, Generated: b.generated}
		b.pending = append(b.pending, task{source: source, doc: doc, lines: lines})
		if len(b.pending) == batchSize {
			b.flush()
		}
	}
	return some
}

// fail adds a problem behind those of the documents before it.
func (b *batch) fail(problem Problem) {
	b.flush()
	b.problems = append(b.problems, problem)
}

// flush reads the documents that were added.
func (b *batch) flush() {
	workers := min(runtime.GOMAXPROCS(0), len(b.pending))
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(b.pending); i = int(next.Add(1)) - 1 {
			t := &b.pending[i]
			t.read = parseDocument(t.source, t.doc, t.lines, b.settings)
		}
	}
	var group sync.WaitGroup
	for range workers - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
	for _, t := range b.pending {
		if t.manifest != nil {
			b.manifests = append(b.manifests, t.manifest)
		}
		for _, problem := range t.problems {
			problem.File, problem.Document, problem.Generated = t.source.File, t.source.Document, t.source.Generated
			problem.Excerpt = excerpt(t.lines, problem.Line)
			problem.place(b.settings)
			b.problems = append(b.problems, problem)
		}
		if t.settings != nil {
			b.applied = append(b.applied, t.settings)
		} else if len(t.problems) > 0 {
			b.unknown = true
		}
	}
	b.pending = b.pending[:0]
}

// finish looks for what only shows when all is read: resources that are declared twice, and settings that fit none.
func (b *batch) finish() ([]*Manifest, error) {
	b.flush()
	problems := append(b.problems, duplicates(b.manifests)...)
	if !b.unknown {
		problems = append(problems, unfitting(b.settings, b.applied)...)
	}
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	return b.manifests, nil
}

func emptyProblem(file string) Problem {
	return Problem{File: file, RuleID: RuleNoDocument, Message: "there is no manifest in it"}
}

// extensions are those of files with manifests.
var extensions = []string{".yaml", ".yml", ".json"}

func isManifestFile(name string) bool {
	return slices.Contains(extensions, strings.ToLower(filepath.Ext(name)))
}

// filesOf are the files that a path stands for.
func filesOf(path string) ([]string, error) {
	if path == Stdin {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && strings.ContainsAny(path, "*?[{"):
		return matchesOf(path)
	case err != nil:
		return nil, errors.Wrap(err, "read manifests")
	case !info.IsDir():
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, errors.Wrap(err, "read the folder of manifests")
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && isManifestFile(entry.Name()) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// matchesOf are the files that a glob matches.
func matchesOf(pattern string) ([]string, error) {
	found, err := doublestar.FilepathGlob(pattern, doublestar.WithFilesOnly(), doublestar.WithFailOnIOErrors())
	if err != nil {
		return nil, errors.Wrapf(err, "read manifests: the glob %s", pattern)
	}
	files := slices.DeleteFunc(slices.Clone(found), func(file string) bool { return !isManifestFile(file) })
	switch {
	case len(found) == 0:
		return nil, errors.Errorf("read manifests: the glob %s matches no file", pattern)
	case len(files) == 0:
		return nil, errors.Errorf("read manifests: the glob %s matches no file that ends in %s", pattern, strings.Join(extensions, ", "))
	}
	slices.Sort(files)
	return files, nil
}

func readFile(file string, stdin io.Reader) ([]byte, error) {
	if file != Stdin {
		data, err := os.ReadFile(file)
		return data, errors.Wrap(err, "read manifests")
	}
	if stdin == nil {
		return nil, errors.New("read manifests from the standard input: there is none")
	}
	data, err := io.ReadAll(stdin)
	return data, errors.Wrap(err, "read manifests from the standard input")
}
