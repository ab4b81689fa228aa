package manifest

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"weak"

	"github.com/pkg/errors"
	"pgregory.net/rapid"
)

// Memory grows with the file, not with the square of its documents.
func TestManyDocuments(t *testing.T) {
	t.Parallel()
	const documents = 2000
	var text strings.Builder
	for i := range documents {
		fmt.Fprintf(&text, `apiVersion: civo.project-planton.org/v1
kind: CivoVpc
metadata: {name: net-%d}
spec: {networkName: net, region: lon1}
---
`, i)
	}
	manifests, err := Parse("many.yaml", []byte(text.String()))
	if err != nil || len(manifests) != documents {
		t.Fatalf("%d manifests, %v", len(manifests), err)
	}
	if last := manifests[documents-1].Source; last.Line != 5*(documents-1)+1 {
		t.Errorf("the last document is at line %d", last.Line)
	}
	kept := 0
	for _, m := range manifests {
		kept += len(m.document.text)
	}
	if kept > text.Len() {
		t.Errorf("the manifests of a file of %d bytes keep %d bytes of it", text.Len(), kept)
	}
}

// manyDocuments is a stream of documents of some KiB, and counts those that were read from it.
type manyDocuments struct {
	documents, read int
	text            string
}

func (m *manyDocuments) Read(p []byte) (int, error) {
	if m.text == "" {
		if m.read == m.documents {
			return 0, io.EOF
		}
		m.text = fmt.Sprintf("apiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata: {name: net-%d}\n"+
			"spec: {networkName: net, region: lon1}\n#%s\n---\n", m.read, strings.Repeat("x", 8000))
		m.read++
	}
	n := copy(p, m.text)
	m.text = m.text[n:]
	return n, nil
}

// Of more documents than fit into the window, each is handed on in its turn; no more are read than there is room for, and what was handed
// on is let go.
func TestEach(t *testing.T) {
	t.Parallel()
	in := &manyDocuments{documents: 10 * window}
	visited, ahead, held := 0, 0, 0
	var seen []weak.Pointer[Manifest]
	err := Input{Paths: []string{Stdin}, Stdin: in}.Each(func(m *Manifest) {
		if want := fmt.Sprintf("net-%d", visited); m.Name() != want {
			t.Fatalf("got %s, want %s", m.Name(), want)
		}
		visited++
		ahead = max(ahead, in.read-visited)
		seen = append(seen, weak.Make(m))
		if visited%window == 0 {
			runtime.GC()
			alive := 0
			for _, pointer := range seen {
				if pointer.Value() != nil {
					alive++
				}
			}
			held = max(held, alive)
		}
	})
	if err != nil || visited != in.documents {
		t.Fatalf("%d of %d manifests, %v", visited, in.documents, err)
	}
	// One more in the hands of who reads, of who takes, and in the buffer of the file.
	if ahead > window+4 {
		t.Errorf("%d documents were read ahead, more than %d", ahead, window)
	}
	if held > 2 {
		t.Errorf("%d manifests are kept that were handed on", held)
	}
}

// Problems stand in the order of the documents, whoever reads them first: those in long documents take longer than those in short ones.
func TestOrderOfProblems(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	const documents = 5 * window
	for i := range documents {
		fmt.Fprintf(&text, "---\nkind: Nothing%d\n", i)
		if i%7 == 0 {
			for j := range 500 {
				fmt.Fprintf(&text, "key%d: [1, 2, 3]\n", j)
			}
		}
	}
	_, err := Parse("many.yaml", []byte(text.String()))
	var invalid *Error
	if !errors.As(err, &invalid) || len(invalid.Problems) != documents {
		t.Fatalf("got %v", err)
	}
	for i, problem := range invalid.Problems {
		if problem.Document != i+1 || problem.Excerpt != fmt.Sprintf("kind: Nothing%d", i) {
			t.Fatalf("problem %d is that of document %d, with the line %q", i+1, problem.Document, problem.Excerpt)
		}
	}
}

// The scanner finds what one sees who has the whole text before him, however the text comes.
func TestScanner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"a", " ", "\n", "\r", "\r\n", "---", "...", "\ufeff", "\xff", "\t", "\n---\n", strings.Repeat("long", 1500),
		})).Draw(t, "text"), "")
		var in io.Reader = strings.NewReader(text)
		if rapid.Bool().Draw(t, "one by one") {
			in = iotest.OneByteReader(in)
		}
		whole := strings.TrimPrefix(text, "\ufeff")
		whole = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(whole)
		lines := strings.Split(whole, "\n")

		scanner := newScanner(in)
		var joined strings.Builder
		for number := 1; ; number++ {
			doc, ok, err := scanner.scan()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if doc.number != number || doc.before != strings.Count(joined.String(), "\n") {
				t.Fatalf("document %d: got the number %d, behind %d lines", number, doc.number, doc.before)
			}
			own := strings.Count(doc.text, "\n")
			for i := doc.before; i <= doc.before+own; i++ {
				if doc.excerpt(i+1) != lines[i] {
					t.Fatalf("line %d is %q, want %q", i+1, doc.excerpt(i+1), lines[i])
				}
			}
			for i, line := range strings.Split(doc.text, "\n")[:own] {
				if i > 0 && line != lines[doc.before+i] || isMarker([]byte(line), "---") || isMarker([]byte(line), "...") {
					t.Fatalf("document %d has the line %q", number, line)
				}
			}
			joined.WriteString(doc.text)
		}
		if strings.Count(joined.String(), "\n") != len(lines)-1 {
			t.Fatalf("%d lines of %d were read", strings.Count(joined.String(), "\n")+1, len(lines))
		}
	})
}
