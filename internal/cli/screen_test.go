package cli

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// terminal is what a terminal makes of what is written to it: rows of text, and the cursor. It knows the control sequences that a screen
// writes, and fails the test at others.
type terminal struct {
	t             *testing.T
	width, height int
	rows          []string
	row, column   int
}

func (v *terminal) Write(text []byte) (int, error) {
	rest := string(text)
	for rest != "" {
		switch r, size := utf8.DecodeRuneInString(rest); {
		case strings.HasPrefix(rest, "\x1b["):
			end := strings.IndexAny(rest[2:], "AJm")
			if end < 0 {
				v.t.Fatalf("an unknown control sequence: %q", rest)
			}
			v.control(rest[2+end], rest[2:2+end])
			rest = rest[3+end:]
		case r == '\r':
			v.column, rest = 0, rest[1:]
		case r == '\n':
			v.row, v.column, rest = v.row+1, 0, rest[1:]
		case r < ' ':
			v.t.Fatalf("an unknown control character: %q", rest)
		default:
			v.put(r)
			rest = rest[size:]
		}
	}
	return len(text), nil
}

func (v *terminal) control(command byte, argument string) {
	switch command {
	case 'A':
		up, err := strconv.Atoi(argument)
		if err != nil || up > v.row || up >= v.height {
			v.t.Fatalf("%q rows up from row %d of a terminal of %d", argument, v.row, v.height)
		}
		v.row -= up
	case 'J':
		if argument != "" || v.column != 0 {
			v.t.Fatalf("an unknown erasure: %q in column %d", argument, v.column)
		}
		v.rows = v.rows[:min(v.row, len(v.rows))]
	}
}

func (v *terminal) put(r rune) {
	width := ansi.StringWidth(string(r))
	if v.column+width > v.width {
		v.row, v.column = v.row+1, 0
	}
	for len(v.rows) <= v.row {
		v.rows = append(v.rows, "")
	}
	line := v.rows[v.row]
	for ansi.StringWidth(line) < v.column {
		line += " "
	}
	v.rows[v.row] = ansi.Cut(line, 0, v.column) + string(r) + ansi.Cut(line, v.column+width, v.width)
	v.column += width
}

// reflow makes the terminal narrower or wider, as terminals do: each row that is longer becomes several.
func (v *terminal) reflow(width int) {
	var rows []string
	for _, row := range v.rows {
		for ansi.StringWidth(row) > width {
			rows = append(rows, ansi.Cut(row, 0, width))
			row = ansi.Cut(row, width, v.width)
		}
		rows = append(rows, row)
	}
	v.row += len(rows) - len(v.rows)
	v.rows, v.width = rows, width
}

func (v *terminal) text() string { return strings.Join(v.rows, "\n") }

func newTestScreen(t *testing.T, width, height int) (*screen, *terminal) {
	v := &terminal{t: t, width: width, height: height}
	return &screen{out: v, size: func() (int, int) { return v.width, v.height }}, v
}

func TestScreen(t *testing.T) {
	t.Parallel()
	s, v := newTestScreen(t, 20, 10)
	check := func(reason, want string) {
		t.Helper()
		if got := v.text(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", reason, got, want)
		}
	}
	write := func(text string) {
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	s.draw(nil, []string{"one", "two"})
	check("drawn", "one\ntwo")
	s.draw(nil, []string{"three"})
	check("drawn anew, shorter", "three")
	s.draw([]string{"stays"}, []string{"\x1b[31mred\x1b[0m", "a line that is longer than the terminal"})
	check("what stays goes above, and no line takes two rows", "stays\nred\na line that is lon~")
	write("said\n")
	check("what others write goes above, too", "stays\nsaid\nred\na line that is lon~")
	v.reflow(10)
	s.draw(nil, []string{"four"})
	check("the terminal was made narrower: the rows of both lines go", "stays\nsaid\nfour")
	v.width = 20
	s.draw(nil, []string{"日本語日本語日本語日本語"})
	check("letters of two columns", "stays\nsaid\n日本語日本語日本語~")
	write("Sure? ")
	check("a question ends the area", "stays\nsaid\nSure? ")
	s.draw(nil, []string{"five"})
	check("and nothing is drawn while it is open", "stays\nsaid\nSure? ")
	write("y\n")
	s.draw(nil, []string{"six"})
	check("but afterwards", "stays\nsaid\nSure? y\nsix")
	s.draw(nil, nil)
	check("nothing is left behind", "stays\nsaid\nSure? y")
}

func TestNoScreen(t *testing.T) {
	t.Parallel()
	for _, environment := range []map[string]string{{"TERM": "dumb"}, {"TERM": ""}, {"TERM": "xterm", "CI": "true"}} {
		if newScreen(nil, func(name string) string { return environment[name] }) != nil {
			t.Errorf("a screen on a terminal with %v", environment)
		}
	}
	if newScreen(nil, func(name string) string { return map[string]string{"TERM": "xterm", "CI": "false"}[name] }) == nil {
		t.Error("no screen on a terminal of somebody")
	}
}
