package graph

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Measures of the drawing, in pixels. Letters of a monospaced font are 0.6 as wide as they are high.
const (
	fontSize    = 12.0
	letterWidth = 0.6 * fontSize
	padding     = 12.0
	nodeHeight  = 46.0
	columnGap   = 28.0
	rowGap      = 64.0
	margin      = 16.0
	sweeps      = 8
)

// box is a node of the drawing, or a place that an edge which crosses several rows runs through.
type box struct {
	node      int // -1 for a place of an edge
	row       int
	x, y      float64 // of its center
	width     float64
	up, down  []int // boxes in the rows above and below that it is joined with
	neighbors float64
}

// drawing is a graph laid out in rows, what nothing is needed for on top (Sugiyama's method: rows by the longest way, the order within
// a row by the mean of the neighbors).
type drawing struct {
	boxes []box
	rows  [][]int
	paths [][]int // for each edge the boxes that it runs through, from the resource that refers up to the other
}

// SVG draws the graph. It needs no other program, and no font but a monospaced one.
func (g *Graph) SVG() string {
	d := g.layOut()
	width, height := 2*margin, 2*margin
	for _, b := range d.boxes {
		width = max(width, b.x+b.width/2+margin)
		height = max(height, b.y+nodeHeight/2+margin)
	}
	var text strings.Builder
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" `+
		`font-family="monospace" font-size="%.0f">`+"\n", width, height, width, height, fontSize)
	text.WriteString(`<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">` +
		`<path d="M0 0L10 5L0 10z" fill="#667"/></marker></defs>` + "\n")
	fmt.Fprintf(&text, `<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n", width, height)
	for i, edge := range g.Edges {
		fmt.Fprintf(&text, `<path d="%s" fill="none" stroke="#667" marker-end="url(#arrow)"><title>%s</title></path>`+"\n",
			d.curve(d.paths[i]), xmlText(fmt.Sprintf("%s refers to %s: %s", g.Nodes[edge.From].Key, g.Nodes[edge.To].Key, edge.Field)))
	}
	for _, b := range d.boxes {
		if b.node < 0 {
			continue
		}
		node, dashes := g.Nodes[b.node], ""
		if node.Outside {
			dashes = ` stroke-dasharray="4 3"`
		}
		fmt.Fprintf(&text, `<g><title>%s</title><rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="6" fill="#f6f8fa" stroke="#667"%s/>`,
			xmlText(node.name()), b.x-b.width/2, b.y-nodeHeight/2, b.width, nodeHeight, dashes)
		fmt.Fprintf(&text, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#556">%s</text>`, b.x, b.y-5, xmlText(node.Key.Kind))
		fmt.Fprintf(&text, `<text x="%.1f" y="%.1f" text-anchor="middle" font-weight="bold">%s</text></g>`+"\n", b.x, b.y+13, xmlText(node.path()))
	}
	text.WriteString("</svg>\n")
	return text.String()
}

// layOut gives every node its place.
func (g *Graph) layOut() *drawing {
	d := &drawing{}
	row := make([]int, len(g.Nodes))
	for _, edge := range g.Edges { // each node stands after all that it refers to, so its own edges come after theirs
		row[edge.From] = max(row[edge.From], row[edge.To]+1)
	}
	for i, node := range g.Nodes {
		letters := max(utf8.RuneCountInString(node.Key.Kind), utf8.RuneCountInString(node.path()))
		d.add(box{node: i, row: row[i], width: float64(letters)*letterWidth + 2*padding})
	}
	for _, edge := range g.Edges {
		path := []int{edge.From}
		for at := row[edge.From] - 1; at > row[edge.To]; at-- {
			path = append(path, d.add(box{node: -1, row: at}))
		}
		path = append(path, edge.To)
		for i := 1; i < len(path); i++ {
			d.boxes[path[i-1]].up = append(d.boxes[path[i-1]].up, path[i])
			d.boxes[path[i]].down = append(d.boxes[path[i]].down, path[i-1])
		}
		d.paths = append(d.paths, path)
	}
	d.place()
	for range sweeps {
		d.sweep(false)
		d.sweep(true)
	}
	d.shift()
	return d
}

func (d *drawing) add(b box) int {
	for len(d.rows) <= b.row {
		d.rows = append(d.rows, nil)
	}
	b.y = margin + nodeHeight/2 + float64(b.row)*(nodeHeight+rowGap)
	d.boxes = append(d.boxes, b)
	d.rows[b.row] = append(d.rows[b.row], len(d.boxes)-1)
	return len(d.boxes) - 1
}

// place puts the boxes of each row side by side.
func (d *drawing) place() {
	for _, row := range d.rows {
		x := 0.0
		for _, i := range row {
			d.boxes[i].x = x + d.boxes[i].width/2
			x += d.boxes[i].width + columnGap
		}
	}
}

// sweep moves the boxes of each row to the mean of their neighbors: those above from top to bottom, or those below from bottom to top.
func (d *drawing) sweep(fromBelow bool) {
	for n := range d.rows {
		row := d.rows[n]
		if fromBelow {
			row = d.rows[len(d.rows)-1-n]
		}
		for _, i := range row {
			b := &d.boxes[i]
			near := b.up
			if fromBelow {
				near = b.down
			}
			b.neighbors = b.x
			if len(near) > 0 {
				b.neighbors = 0
				for _, j := range near {
					b.neighbors += d.boxes[j].x / float64(len(near))
				}
			}
		}
		slices.SortStableFunc(row, func(i, j int) int {
			switch a, b := d.boxes[i].neighbors, d.boxes[j].neighbors; {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		})
		d.spread(row)
	}
}

// spread gives the boxes of a row the places that they want, as far as they do not touch, and moves the row so that what some are moved
// to the right others are moved to the left.
func (d *drawing) spread(row []int) {
	edge, moved := math.Inf(-1), 0.0
	for _, i := range row {
		b := &d.boxes[i]
		b.x = max(b.neighbors, edge+b.width/2)
		edge = b.x + b.width/2 + columnGap
		moved += (b.x - b.neighbors) / float64(len(row))
	}
	for _, i := range row {
		d.boxes[i].x -= moved
	}
}

// shift moves everything to the margin.
func (d *drawing) shift() {
	left := math.Inf(1)
	for _, b := range d.boxes {
		left = min(left, b.x-b.width/2)
	}
	for i := range d.boxes {
		d.boxes[i].x += margin - left
	}
}

// curve is the line of an edge, from the top of one box to the bottom of the last.
func (d *drawing) curve(path []int) string {
	var text strings.Builder
	for i := 1; i < len(path); i++ {
		from, to := d.boxes[path[i-1]], d.boxes[path[i]]
		y, end := from.y-nodeHeight/2, to.y+nodeHeight/2
		if i == 1 {
			fmt.Fprintf(&text, "M%.1f %.1f", from.x, y)
		} else {
			fmt.Fprintf(&text, "L%.1f %.1f", from.x, y)
		}
		middle := (y + end) / 2
		fmt.Fprintf(&text, "C%.1f %.1f %.1f %.1f %.1f %.1f", from.x, middle, to.x, middle, to.x, end)
	}
	return text.String()
}

// xmlText escapes a text for XML, which also takes no control characters.
func xmlText(text string) string {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(clean(text))) // a strings.Builder takes everything
	return escaped.String()
}
