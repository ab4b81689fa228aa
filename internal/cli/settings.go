package cli

import (
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// settings are what the flags of all commands choose. All copies of Streams share one.
type settings struct {
	quiet bool
	level string
	// events tells that stdout gets a JSON object an event, and the result as the last of them.
	events bool
	// diff tells that all properties of what changes are shown, see bindDiff.
	diff bool
	// args are the arguments of the command line, for the words that tell how to go on.
	args []string

	command  *cobra.Command // the one that runs; nil before its flags were read
	cast     cast           // the manifests of the command, once they were read
	progress *progress      // what is shown while it runs; nil before that

	writing sync.Mutex // guards stdout while there are events
}

// level is how much is told on stderr; each level tells what those before it tell, too.
type level int

const (
	levelError level = iota // errors, questions, and what a signal asks for
	levelWarn               // warnings
	levelInfo               // what happens
	levelDebug              // how long each step took, and the requests to the clouds
)

// levels are the words for the levels, in their order.
var levels = []string{"error", "warn", "info", "debug"}

// bind adds the flags of all commands.
func (s *settings) bind(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.BoolVarP(&s.quiet, "quiet", "q", false, "tell nothing but errors and results, as --log-level error does")
	flags.StringVar(&s.level, "log-level", levels[levelInfo], "how much is told on stderr: "+strings.Join(levels, ", "))
	_ = root.RegisterFlagCompletionFunc("log-level", cobra.FixedCompletions(levels, cobra.ShellCompDirectiveNoFileComp))
}

// check looks at the flags before any command runs.
func (s *settings) check(cmd *cobra.Command) error {
	if !slices.Contains(levels, s.level) {
		return usageError("--log-level " + s.level + ": the levels are error, warn, info and debug")
	}
	if s.quiet && cmd.Flags().Changed("log-level") && s.level != levels[levelError] {
		return usageError("--quiet and --log-level " + s.level + " say different things; give one of them")
	}
	s.command, s.events = cmd, hasEvents(cmd)
	s.diff = s.diff || cmd.CalledAs() == "diff"
	return nil
}

// hasEvents tells whether a command was asked for JSON that is events.
func hasEvents(cmd *cobra.Command) bool {
	output := cmd.Flags().Lookup("output")
	return cmd.Annotations[annotationEvents] != "" && output != nil && output.Value.String() == outputJSON
}

// annotationEvents marks commands whose -o json is events.
const annotationEvents = "events"

// chosen is how much the flags want to be told.
func (s Streams) chosen() level {
	switch {
	case s.settings == nil || s.settings.level == "":
		return levelInfo
	case s.settings.quiet:
		return levelError
	default:
		return level(slices.Index(levels, s.settings.level))
	}
}

// tells tells whether something of a level is told on stderr.
func (s Streams) tells(l level) bool { return s.chosen() >= l }

// at is stderr for what is told at a level.
func (s Streams) at(l level) io.Writer {
	if s.tells(l) {
		return s.Err
	}
	return io.Discard
}

// events tells whether stdout gets events.
func (s Streams) events() bool { return s.settings != nil && s.settings.events }

// role is the manifest of a stack; nil when it is none of the command's.
func (s Streams) role(stack stackidentity.Identity) *role {
	if s.settings == nil {
		return nil
	}
	return s.settings.cast.role(stack)
}

// again is the command line that was typed, to be typed again.
func (s Streams) again() string {
	if s.settings == nil || len(s.settings.args) == 0 {
		return ""
	}
	words := []string{"planton"}
	for _, arg := range s.settings.args {
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word for a shell where it must be.
func shellWord(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
