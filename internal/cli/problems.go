package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/manifest"
)

// writeProblems tells what is wrong with manifests: the place, the line of the file with a mark below the place, and a hint.
func writeProblems(out io.Writer, paint func(color, string) string, command *cobra.Command, problems []manifest.Problem) {
	files := map[string]bool{}
	for _, problem := range problems {
		files[problem.File] = true
		_, _ = fmt.Fprintf(out, "%s %s\n", paint(red, "error:"), printable(problem.String()))
		if problem.Excerpt != "" {
			line := ""
			if problem.Line > 0 {
				line = fmt.Sprint(problem.Line)
			}
			shown, mark := excerpt(problem.Excerpt, problem.Column)
			_, _ = fmt.Fprintf(out, "%6s | %s\n", line, shown)
			if mark >= 0 {
				_, _ = fmt.Fprintf(out, "       | %s%s\n", strings.Repeat(" ", mark), paint(red, "^"))
			}
		}
		if hint := problemHint(command, problem); hint != "" {
			_, _ = fmt.Fprintf(out, "hint: %s\n", printable(hint))
		}
	}
	if len(problems) > 1 {
		_, _ = fmt.Fprintf(out, "%d problems in %s\n", len(problems), counted(len(files), "file"))
	}
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// problemHint is the hint of a problem, or which command tells more about its field.
func problemHint(command *cobra.Command, problem manifest.Problem) string {
	if problem.Hint != "" || problem.Kind == "" || problem.FieldPath == "" || problem.RuleID == manifest.RuleReference || command == nil {
		return problem.Hint
	}
	explain, _, err := command.Root().Find([]string{"explain"})
	if err != nil || explain.Name() != "explain" {
		return ""
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(problem.FieldPath, "target."), "[")
	return fmt.Sprintf("%s %s.%s", explain.CommandPath(), problem.Kind, path)
}

const (
	// excerptWidth is how wide a line of a file is shown; of a longer one, the part around the problem.
	excerptWidth = 120
	// tabWidth is how wide a tab is shown at most.
	tabWidth = 4
)

// excerpt is what is shown of a line, and how many columns of a terminal are before the character at a column, which counts characters
// (code points) from 1; -1 for no column.
func excerpt(line string, column int) (shown string, mark int) {
	type cell struct {
		text  string
		width int
	}
	var cells []cell
	at, runes, width := -1, 0, 0
	for state := -1; line != ""; {
		var cluster string
		var w int
		cluster, line, w, state = uniseg.FirstGraphemeClusterInString(line, state)
		if column > 0 && at < 0 && runes+len([]rune(cluster)) >= column {
			at = len(cells)
		}
		runes += len([]rune(cluster))
		switch text := printable(cluster); {
		case cluster == "\t":
			w = tabWidth - width%tabWidth
			cluster = strings.Repeat(" ", w)
		case text != cluster:
			cluster, w = text, len([]rune(text))
		}
		cells = append(cells, cell{cluster, w})
		width += w
	}
	if column > 0 && at < 0 {
		at = len(cells) // behind the last character
	}
	first, last := 0, len(cells)
	if width > excerptWidth {
		// Some of what is before the place, and the most of what follows.
		for before := 0; first < at; first++ {
			before = 0
			for _, c := range cells[first:at] {
				before += c.width
			}
			if before <= excerptWidth/3 {
				break
			}
		}
		used := 0
		for last = first; last < len(cells) && used+cells[last].width <= excerptWidth; last++ {
			used += cells[last].width
		}
	}
	var text strings.Builder
	column = 0
	if first > 0 {
		text.WriteString("…")
		column = 1
	}
	mark = -1
	for i := first; i < last; i++ {
		if i == at {
			mark = column
		}
		text.WriteString(cells[i].text)
		column += cells[i].width
	}
	if at == last {
		mark = column
	}
	if last < len(cells) {
		text.WriteString("…")
	}
	return text.String(), mark
}

// printable is a text without what would move the cursor, or turn the order of what is around it: a file that somebody else wrote must
// not write on the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return unicode.ReplacementChar
		case r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u200e' || r == '\u200f' || r == '\ufeff':
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
