package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// screen is a terminal with an area at its bottom that is drawn anew in place. What is written to it goes above the area.
//
// The cursor is never hidden, and no mode of the terminal is changed: whatever ends the process, there is nothing to restore. Lines are cut
// to the terminal's width, so that none takes two rows; where the terminal was made narrower since, the rows that it made of them are
// counted.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	size  func() (width, height int)
	shown []string
	open  bool // the last thing written was no whole line, such as a question
}

// newScreen is the screen of a terminal; nil where one cannot be drawn on.
func newScreen(terminal *os.File, getenv func(string) string) *screen {
	// What a job of a CI writes is kept and read later, also where it has a terminal.
	if ci := getenv("CI"); ci != "" && ci != "false" {
		return nil
	}
	// The console of Windows has to be told first that there are such things as control sequences.
	if dumb := getenv("TERM") == "dumb" || getenv("TERM") == ""; dumb || runtime.GOOS == "windows" {
		return nil
	}
	return &screen{out: terminal, size: func() (width, height int) {
		width, height, err := term.GetSize(int(terminal.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}}
}

// Write writes text above the area.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(text) == 0 {
		return 0, nil
	}
	var out bytes.Buffer
	s.erase(&out)
	out.Write(text)
	if s.open = text[len(text)-1] != '\n'; s.open {
		s.shown = nil
	}
	s.put(&out, s.shown)
	_, err := s.out.Write(out.Bytes())
	return len(text), err
}

// draw replaces the area, and writes lines above it that stay. While a question is open there is no area.
func (s *screen) draw(above, lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, _ := s.size()
	cut := make([]string, len(lines))
	for i, line := range lines {
		// The last column stays empty: some terminals begin a new row as soon as it is filled.
		cut[i] = ansi.Truncate(line, max(width-1, 1), "~")
	}
	if s.open {
		cut = nil
	}
	if len(above) == 0 && strings.Join(cut, "\n") == strings.Join(s.shown, "\n") {
		return
	}
	var out bytes.Buffer
	s.erase(&out)
	for _, line := range above {
		out.WriteString(line + "\n")
	}
	s.put(&out, cut)
	_, _ = s.out.Write(out.Bytes())
}

// erase clears the area; the cursor is where it began.
func (s *screen) erase(out *bytes.Buffer) {
	width, _ := s.size()
	rows := 0
	for _, line := range s.shown {
		rows += max(1, (ansi.StringWidth(line)+width-1)/max(width, 1))
	}
	if rows > 0 {
		fmt.Fprintf(out, "\r\x1b[%dA\x1b[J", rows)
	}
}

func (s *screen) put(out *bytes.Buffer, lines []string) {
	for _, line := range lines {
		out.WriteString(line + "\n")
	}
	s.shown = lines
}
