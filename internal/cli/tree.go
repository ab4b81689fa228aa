package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// tree shows manifests and their resources on a terminal, in place: what is being done with the time that it takes, what waits and for
// what, and how far it all is. What has ended is written above, where it stays.
type tree struct {
	screen   *screen
	streams  Streams
	paint    func(color, string) string
	marks    marks
	cast     cast
	phase    provision.Op // the operation on the set
	since    time.Time
	branches map[stackidentity.Identity]*branch
	order    []*branch
	ended    []string // lines that were not written yet
}

// marks are what stands before a line.
type marks struct{ done, failed, running, waiting, warning string }

var (
	unicodeMarks = marks{done: "✓", failed: "✗", running: "●", waiting: "○", warning: "!"}
	asciiMarks   = marks{done: "+", failed: "x", running: "*", waiting: ".", warning: "!"}
)

// state is how far something is.
type state int

const (
	waiting state = iota
	active
	ended
	failed
	skipped
)

// branch is a manifest.
type branch struct {
	name      string
	role      *role // nil when it is none of the command's
	state     state
	op        provision.Op
	since     time.Time
	status    string
	leaves    []*leaf
	resources map[string]*leaf
}

// leaf is a resource.
type leaf struct {
	name    string
	state   state
	op      provision.Op
	since   time.Time
	elapsed time.Duration
	status  string
}

func newTree(screen *screen, streams Streams, cast cast) *tree {
	t := &tree{
		screen: screen, streams: streams, paint: painter(true, streams.Getenv), marks: asciiMarks, cast: cast,
		branches: map[stackidentity.Identity]*branch{},
	}
	if isUTF8(streams.Getenv) {
		t.marks = unicodeMarks
	}
	return t
}

// isUTF8 tells whether the terminal shows more than ASCII, as the locale says.
func isUTF8(getenv func(string) string) bool {
	for _, variable := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(variable)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return false
}

// begin makes all manifests wait for an operation.
func (t *tree) begin(event provision.Event) {
	t.phase, t.since = event.Op, event.Time
	t.order, t.branches = nil, map[stackidentity.Identity]*branch{}
	for _, role := range t.cast.roles {
		t.add(role.stack, role)
	}
}

func (t *tree) add(stack stackidentity.Identity, role *role) *branch {
	b := &branch{name: t.cast.name(stack), role: role, resources: map[string]*leaf{}}
	t.branches[stack] = b
	t.order = append(t.order, b)
	return b
}

func (t *tree) branch(event provision.Event) *branch {
	if b, ok := t.branches[event.Stack]; ok {
		return b
	}
	return t.add(event.Stack, t.cast.role(event.Stack))
}

func (b *branch) leaf(event provision.Event) *leaf {
	l, ok := b.resources[event.Resource]
	if !ok {
		l = &leaf{name: event.Resource, since: event.Time}
		b.resources[event.Resource] = l
		b.leaves = append(b.leaves, l)
	}
	return l
}

func (t *tree) still(running, time.Time) {} // the time that runs says it

func (t *tree) take(event provision.Event) {
	// An apply may look at a stack first; that is no operation on the set.
	looks := t.phase == "update" && event.Op == "preview"
	if ofStack := event.Resource == "" && event.Op != ""; ofStack && event.Op != t.phase && !looks {
		t.begin(event)
	}
	b := t.branch(event)
	switch event.Kind {
	case provision.EventStackStarted:
		b.state, b.op, b.since, b.status = active, event.Op, event.Time, ""
		b.leaves, b.resources = nil, map[string]*leaf{}
	case provision.EventStackDone:
		if event.Op == t.phase {
			b.state = ended
			t.end(b, t.paint(green, t.marks.done), b.outcome(), event.Elapsed)
		}
	case provision.EventStackFailed:
		b.state = failed
		t.end(b, t.paint(red, t.marks.failed), "failed", event.Elapsed)
	case provision.EventStackSkipped:
		b.state = skipped
		t.end(b, t.marks.waiting, "skipped because of "+strings.Join(t.cast.names(event.Because), ", "), 0)
	case provision.EventResourceStarted:
		l := b.leaf(event)
		l.state, l.op, l.since, l.status = active, event.Op, event.Time, ""
	case provision.EventResourceStatus:
		if event.Resource == "" {
			b.status = event.Message
		} else if l, ok := b.resources[event.Resource]; ok {
			l.status = event.Message
		}
	case provision.EventResourceDone:
		l := b.leaf(event)
		l.state, l.op, l.elapsed = ended, event.Op, event.Elapsed
	case provision.EventResourceFailed:
		l := b.leaf(event)
		l.state, l.op, l.elapsed = failed, event.Op, event.Elapsed
	case provision.EventWarning:
		t.ended = append(t.ended, fmt.Sprintf("%s %s: %s", t.paint(yellow, t.marks.warning), t.subject(event), event.Message))
	case provision.EventInfo:
		t.ended = append(t.ended, fmt.Sprintf("  %s: %s", t.subject(event), event.Message))
	}
}

func (t *tree) subject(event provision.Event) string {
	if event.Resource == "" {
		return t.cast.name(event.Stack)
	}
	return t.cast.name(event.Stack) + ": " + event.Resource
}

// stackDone are the words for operations on a stack that have ended.
var stackDone = map[provision.Op]string{"update": "applied", "refresh": "read", "destroy": "destroyed"}

// outcome is what came of an operation on a stack; "" of one that only looked.
func (b *branch) outcome() string {
	switch {
	case b.op == "update" && len(b.leaves) == 0:
		return "unchanged"
	case b.op == "":
		return "not there"
	default:
		return stackDone[b.op]
	}
}

// end writes what came of a stack above the area. A preview is told by its result.
func (t *tree) end(b *branch, mark, outcome string, elapsed time.Duration) {
	if outcome == "" {
		return
	}
	t.ended = append(t.ended, fmt.Sprintf("%s %s  %s%s", mark, b.name, outcome, after(elapsed)))
	for _, l := range b.leaves {
		if line := t.leafEnded(l); line != "" {
			t.ended = append(t.ended, line)
		}
	}
}

// leafEnded is the line of a resource to which something was done; "" of one that was only looked at.
func (t *tree) leafEnded(l *leaf) string {
	switch {
	case l.state == failed:
		return fmt.Sprintf("    %s %s  failed%s", t.paint(red, t.marks.failed), l.name, after(l.elapsed))
	case l.state == ended && done[l.op] != "":
		return fmt.Sprintf("    %s %s  %s%s", t.paint(green, t.marks.done), l.name, done[l.op], after(l.elapsed))
	}
	return ""
}

func (t *tree) beat(now time.Time) {
	_, height := t.screen.size()
	above := t.ended
	t.ended = nil
	t.screen.draw(above, t.frame(now, height))
}

func (t *tree) settle() {
	t.screen.draw(t.ended, nil)
	t.ended = nil
}

// frame is the area as it is now, in fewer lines than the terminal has: what runs first, then what waits.
func (t *tree) frame(now time.Time, height int) []string {
	var running, pending []string
	counts := map[state]int{}
	for _, b := range t.order {
		counts[b.state]++
		switch b.state {
		case active:
			running = append(running, t.activeLines(b, now)...)
		case waiting:
			pending = append(pending, fmt.Sprintf("%s %s  %s", t.marks.waiting, b.name, t.reason(b)))
		}
	}
	if len(running) == 0 && (len(pending) == 0 || counts[failed] > 0) {
		return nil
	}
	lines := append(running, pending...)
	if room := max(height-3, 1); len(lines) > room {
		hidden := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], fmt.Sprintf("  and %d more lines", hidden))
	}
	if len(t.order) == 1 {
		return lines
	}
	total := fmt.Sprintf("%d of %d %s", counts[ended], len(t.order), "done")
	for _, part := range []struct {
		state state
		words string
	}{{failed, "failed"}, {skipped, "skipped"}, {active, "running"}, {waiting, "waiting"}} {
		if counts[part.state] > 0 {
			total += fmt.Sprintf(", %d %s", counts[part.state], part.words)
		}
	}
	return append(lines, total+", "+clock(now.Sub(t.since)))
}

// activeLines are a manifest that is worked on, and its resources.
func (t *tree) activeLines(b *branch, now time.Time) []string {
	head := fmt.Sprintf("%s %s  %s %s", t.paint(yellow, t.marks.running), b.name, word(stackDoing, b.op), clock(now.Sub(b.since)))
	if b.status != "" {
		head += ": " + b.status
	}
	lines := []string{head}
	for _, l := range b.leaves {
		if l.state == active {
			line := fmt.Sprintf("    %s %s  %s %s", t.paint(yellow, t.marks.running), l.name, word(doing, l.op), clock(now.Sub(l.since)))
			if l.status != "" {
				line += ": " + l.status
			}
			lines = append(lines, line)
		} else if line := t.leafEnded(l); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// reason is what a manifest waits for, and why.
func (t *tree) reason(b *branch) string {
	if b.role == nil {
		return "waits for its turn"
	}
	var open []string
	for _, need := range t.needs(b.role) {
		other := t.branches[need.role.stack]
		if other == nil || other.state == ended {
			continue
		}
		if t.lost(other) {
			return "will not begin: " + other.name + " failed"
		}
		open = append(open, other.name+" ("+need.why+")")
	}
	if len(open) == 0 {
		return "waits for its turn"
	}
	return "waits for " + strings.Join(open, ", ")
}

// needs is what must be done before a manifest's turn: what it refers to, and in a destroy what refers to it.
func (t *tree) needs(role *role) []need {
	switch t.phase {
	case "destroy", "preview the destruction of":
		return role.neededBy
	case "refresh":
		return nil // the cloud can be read in any order
	default:
		return role.needs
	}
}

// lost tells whether a manifest failed, or will not begin because something that it needs has.
func (t *tree) lost(b *branch) bool {
	if b.state == failed {
		return true
	}
	if b.state != waiting || b.role == nil {
		return false
	}
	for _, need := range t.needs(b.role) {
		if other := t.branches[need.role.stack]; other != nil && t.lost(other) {
			return true
		}
	}
	return false
}

// clock is a time that runs, in whole seconds.
func clock(elapsed time.Duration) string {
	return max(elapsed, 0).Truncate(time.Second).String()
}
