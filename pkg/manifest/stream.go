package manifest

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parser parses documents one after the other. Those in which nothing is out of the ordinary share a YAML parser, whose making costs a
// good part of what a short document does. Where that one fails, the document is parsed alone, which tells what is wrong with it.
type parser struct {
	documents []document // that are still to be parsed
	ordinary  []bool     // which of them are
	shared    *yaml.Decoder
	joined    []byte // what shared reads
	line      int    // where the next document begins in it, counted from 0
}

// reset begins with other documents.
func (p *parser) reset(documents []document) {
	p.documents, p.ordinary, p.shared = documents, make([]bool, 0, len(documents)), nil
	for _, doc := range documents {
		p.ordinary = append(p.ordinary, doc.isOrdinary())
	}
}

// next parses the next document, as root does.
func (p *parser) next() (*yaml.Node, *Problem) {
	doc, isOrdinary := p.documents[0], p.ordinary[0]
	if isOrdinary && p.shared == nil {
		p.join()
	}
	p.documents, p.ordinary = p.documents[1:], p.ordinary[1:]
	if !isOrdinary {
		return doc.root()
	}
	root := p.parse()
	if root == nil {
		p.shared = nil
		return doc.root()
	}
	behind := doc.before - p.line - 1
	move(root, func(line, column int) (int, int) { return line + behind, column })
	p.line += 1 + strings.Count(doc.text, "\n")
	return root, nil
}

// parse returns nil where the parser fails.
func (p *parser) parse() (root *yaml.Node) {
	defer func() {
		// Comments of one document must not make the parser panic in the next one.
		if recover() != nil {
			root = nil
		}
	}()
	var node yaml.Node
	if err := p.shared.Decode(&node); err != nil || len(node.Content) != 1 {
		return nil
	}
	return node.Content[0]
}

// join makes a stream of all ordinary documents from the next one on.
func (p *parser) join() {
	p.joined = p.joined[:0]
	for i, doc := range p.documents {
		if p.ordinary[i] {
			p.joined = append(append(p.joined, "---\n"...), doc.text...)
		}
	}
	p.shared, p.line = yaml.NewDecoder(bytes.NewReader(p.joined)), 0
}

// longest is how long an ordinary document is at most, in bytes.
const longest = 64 << 10

// isOrdinary tells of a document that it means the same among others: no anchor would be known in the next one, no directive ends
// the one before, no text ends with the file, and no character is a line break in YAML only or a mark of the encoding.
func (d document) isOrdinary() bool {
	if len(d.text) > longest || !strings.HasSuffix(d.text, "\n") {
		return false
	}
	for i := range len(d.text) {
		if c := d.text[i]; c == '&' || c == '%' || c >= 0x80 {
			return false
		}
	}
	return true
}
