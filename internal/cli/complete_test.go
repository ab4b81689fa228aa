package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/schema"
)

// plain is a word that no shell reads anything into, within and outside of quotes: it has no blank, no quote, and nothing that PowerShell,
// where the word is compared with -like, takes for a wildcard.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./=+-]+$`)

// TestCompletionsAreWords: whatever is offered for kinds, field paths and values is a word that needs no quotes in any shell, with a
// description in one line. The scripts of bash, zsh, fish and PowerShell part a word from its description at the tab, and lines at their end.
func TestCompletionsAreWords(t *testing.T) {
	t.Parallel()
	seen, set := map[string]bool{}, map[string]bool{}
	offers := 0
	check := func(asked string, offered []string) {
		for _, offer := range offered {
			offers++
			word, description, _ := strings.Cut(offer, "\t")
			if !plain.MatchString(word) {
				t.Errorf("%s: %q needs quotes", asked, word)
			}
			// PowerShell drops each line that equals the last one, which is the directive, and so begins with a colon.
			if strings.ContainsAny(description, "\t\n\r\x1b") || strings.HasPrefix(word, ":") || description != strings.TrimSpace(description) {
				t.Errorf("%s: %q has the description %q", asked, word, description)
			}
			if seen[asked+word] {
				t.Errorf("%s: %q is offered twice", asked, word)
			}
			seen[asked+word] = true
		}
	}
	c := &completer{streams: Streams{Getenv: func(string) string { return "" }}}
	none := &cobra.Command{}
	for _, kind := range kinds.All() {
		for _, name := range []string{kind.Name, strings.ToLower(kind.Name)} {
			offered, _ := completeKinds(name)
			check("KIND "+name, offered)
		}
		check("OUTPUT "+kind.Name, kind.OutputFields())
		var walk func(field *schema.Field)
		walk = func(field *schema.Field) {
			begun := strings.TrimPrefix(field.Path+".", ".")
			offered, _ := completeFieldPath(kind.Name + "." + begun)
			if len(offered) != len(field.Fields) {
				t.Errorf("explain %s.%s: %d fields are offered of %d", kind.Name, begun, len(offered), len(field.Fields))
			}
			check("explain "+kind.Name+"."+begun, offered)
			for _, inner := range field.Fields {
				// Words of one meaning alone: a blank follows where the path is at its end, and nowhere else.
				offered, directive := completeFieldPath(kind.Name + "." + inner.Path)
				if len(offered) == 1 && (len(inner.Fields) > 0) != (directive&cobra.ShellCompDirectiveNoSpace != 0) {
					t.Errorf("explain %s.%s: the directive is %d", kind.Name, inner.Path, directive)
				}
				walk(inner)
			}
			asked, answered := field.Path+"=", len(field.Values) > 0 || field.Type == "boolean"
			if len(field.Fields) > 0 {
				asked, answered = begun, true
			}
			if set[asked] { // of another kind: all kinds are asked at once
				return
			}
			set[asked] = true
			offered, _ = c.set(none, nil, asked)
			if answered && len(offered) == 0 {
				t.Errorf("--set %s: nothing is offered", asked)
			}
			check("--set "+asked, offered)
		}
		manifest, err := schema.Manifest(kind)
		if err != nil {
			t.Fatal(err)
		}
		walk(manifest)
	}
	if offers < 500 {
		t.Errorf("%d words were offered", offers)
	}
}
