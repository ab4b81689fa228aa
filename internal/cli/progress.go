package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// progress tells what happens: to stderr, as a live tree on a terminal and as a line an event elsewhere, and with -o json to stdout too.
type progress struct {
	mu      sync.Mutex
	viewers []viewer
	running map[subject]running
	settled bool // nothing is drawn until the next event, see settle
	stop    chan struct{}
	stopped sync.WaitGroup
}

// viewer shows what happens to somebody. It is called from one goroutine at a time.
type viewer interface {
	take(event provision.Event)
	// still is called for what nothing was heard of for a while.
	still(r running, now time.Time)
	// beat is called ten times a second.
	beat(now time.Time)
	// settle writes what was not written yet, and leaves nothing behind that is drawn anew.
	settle()
}

// subject is what an event is about: a stack, or one of its resources.
type subject struct {
	stack    stackidentity.Identity
	resource string
}

func (s subject) compare(other subject) int {
	return cmp.Or(strings.Compare(s.stack.String(), other.stack.String()), strings.Compare(s.resource, other.resource))
}

func subjectOf(event provision.Event) subject { return subject{event.Stack, event.Resource} }

// running is a stack or a resource that something is being done to.
type running struct {
	event  provision.Event // that it began
	told   time.Time       // when it was heard of last
	status string          // what it waits for
}

// heartbeat is after how long something is named again that nothing was heard of: some plugins say nothing for minutes.
const heartbeat = 30 * time.Second

func newProgress(streams Streams, manifests []*manifest.Manifest) *progress {
	cast := castOf(manifests)
	if streams.settings != nil {
		streams.settings.cast = cast
	}
	p := &progress{running: map[subject]running{}, stop: make(chan struct{})}
	if streams.settings != nil {
		streams.settings.progress = p
	}
	switch area, live := streams.Err.(*screen); {
	case streams.events() && streams.OutTerminal:
		// The events are on the same terminal, and say it all.
	case live && streams.tells(levelInfo):
		p.viewers = append(p.viewers, newTree(area, streams, cast))
	default:
		p.viewers = append(p.viewers, newLines(streams, cast))
	}
	if streams.events() && streams.tells(levelWarn) {
		p.viewers = append(p.viewers, newEventWriter(streams, cast))
	}
	p.stopped.Go(func() { p.beat(time.NewTicker(100 * time.Millisecond)) })
	return p
}

// close ends what is shown.
func (p *progress) close() {
	close(p.stop)
	p.stopped.Wait()
	p.settle()
}

// settle makes room for something else, such as results and questions: what ended is written, and nothing is drawn until the next event.
func (p *progress) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = true
	for _, viewer := range p.viewers {
		viewer.settle()
	}
}

// settle ends or interrupts what is shown of the command's progress, before something else is written: stdout may be the same terminal.
func (s Streams) settle() {
	if s.settings != nil && s.settings.progress != nil {
		s.settings.progress.settle()
	}
}

func (p *progress) beat(ticker *time.Ticker) {
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticker.C:
			p.tellRunning(now)
		}
	}
}

// tellRunning names what nothing was heard of for a while: a resource, or a stack where none of its resources is being worked on.
func (p *progress) tellRunning(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return
	}
	busy := map[stackidentity.Identity]bool{}
	for subject := range p.running {
		busy[subject.stack] = busy[subject.stack] || subject.resource != ""
	}
	for _, subject := range slices.SortedFunc(maps.Keys(p.running), subject.compare) {
		r := p.running[subject]
		if now.Sub(r.told) < heartbeat || subject.resource == "" && busy[subject.stack] {
			continue
		}
		for _, viewer := range p.viewers {
			viewer.still(r, now)
		}
		r.told = now
		p.running[subject] = r
	}
	for _, viewer := range p.viewers {
		viewer.beat(now)
	}
}

// take shows an event.
func (p *progress) take(event provision.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = false
	event.Message = oneLine(event.Message)
	key := subjectOf(event)
	switch event.Kind {
	case provision.EventStackStarted, provision.EventResourceStarted:
		p.running[key] = running{event: event, told: event.Time}
	case provision.EventResourceStatus:
		if r, ok := p.running[key]; ok && r.status != event.Message {
			r.told, r.status = event.Time, event.Message
			p.running[key] = r
		}
	case provision.EventStackDone, provision.EventStackFailed, provision.EventResourceDone, provision.EventResourceFailed:
		delete(p.running, key)
		if r, ok := p.running[subject{stack: event.Stack}]; ok {
			r.told = event.Time
			p.running[subject{stack: event.Stack}] = r
		}
	}
	for _, viewer := range p.viewers {
		viewer.take(event)
	}
}

// oneLine is a text without line ends and other characters that do something to a terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
}

// cast are the manifests of a command by their stacks.
type cast struct {
	roles   []*role // in the order in which they are provisioned
	byStack map[stackidentity.Identity]*role
}

// role is one manifest.
type role struct {
	manifest *manifest.Manifest
	stack    stackidentity.Identity
	needs    []need // what it refers to
	neededBy []need // what refers to it
}

// need is that one manifest comes after another one.
type need struct {
	role *role
	why  string // the field that refers to it
}

func castOf(manifests []*manifest.Manifest) cast {
	c := cast{byStack: map[stackidentity.Identity]*role{}}
	members, err := provision.Order(manifests)
	if err != nil {
		return c // the command tells the error
	}
	targets := make([]proto.Message, len(members))
	for i, member := range members {
		targets[i] = member.Manifest.Target
		role := &role{manifest: member.Manifest, stack: member.Identity}
		c.roles = append(c.roles, role)
		c.byStack[member.Identity] = role
	}
	graph, err := foreignkey.Order(targets)
	if err != nil {
		return c
	}
	for i, needs := range graph.Needs {
		fields := map[foreignkey.Key]string{}
		references, _ := foreignkey.Of(targets[i]) // Order has read them already
		for _, reference := range references {
			fields[reference.KeyOf(targets[i])] = reference.FieldPath
		}
		for _, j := range needs {
			why, ok := fields[foreignkey.KeyOf(targets[j])]
			if !ok {
				why = "metadata.relationships"
			}
			c.roles[i].needs = append(c.roles[i].needs, need{c.roles[j], why})
			c.roles[j].neededBy = append(c.roles[j].neededBy, need{c.roles[i], why})
		}
	}
	return c
}

// role is the manifest of a stack; nil when it is none of the command's.
func (c cast) role(stack stackidentity.Identity) *role { return c.byStack[stack] }

// name is what a stack is called: the manifest's kind and name.
func (c cast) name(stack stackidentity.Identity) string {
	if role := c.role(stack); role != nil {
		return role.manifest.String()
	}
	return stack.String()
}

// names are what stacks are called.
func (c cast) names(stacks []stackidentity.Identity) []string {
	var names []string
	for _, stack := range stacks {
		names = append(names, c.name(stack))
	}
	return names
}

// doing and done are the words for operations on a resource.
var doing = map[provision.Op]string{
	"create": "creating", "update": "updating", "delete": "deleting", "replace": "replacing", "import": "importing", "read": "reading",
	"refresh": "reading", "create-replacement": "creating the replacement", "delete-replaced": "deleting the replaced one",
}

var done = map[provision.Op]string{
	"create": "created", "update": "updated", "delete": "deleted", "replace": "replaced", "import": "imported", "read": "read",
	"create-replacement": "created the replacement", "delete-replaced": "deleted the replaced one",
}

// stackDoing are the words for operations on a stack.
var stackDoing = map[provision.Op]string{
	"update": "applying", "preview": "previewing", "refresh": "reading", "destroy": "destroying",
	"preview the destruction of": "previewing the destruction",
}

// lines tell what happens, a line each, to stderr.
type lines struct {
	streams Streams
	paint   func(color, string) string
	cast    cast
	last    map[subject]string // the last status of each resource, which is not told twice
}

func newLines(streams Streams, cast cast) *lines {
	return &lines{streams: streams, paint: painter(streams.ErrTerminal, streams.Getenv), cast: cast, last: map[subject]string{}}
}

func (*lines) beat(time.Time) {}
func (*lines) settle()        {}

func (l *lines) name(event provision.Event) string {
	if event.Resource == "" {
		return l.cast.name(event.Stack)
	}
	return l.cast.name(event.Stack) + ": " + event.Resource
}

func (l *lines) still(r running, now time.Time) {
	words := doing
	if r.event.Resource == "" {
		words = stackDoing
	}
	text := fmt.Sprintf("still %s, %s so far", word(words, r.event.Op), now.Sub(r.event.Time).Round(time.Second))
	if r.status != "" {
		text += ": " + r.status
	}
	l.line(levelInfo, "%s: %s", l.name(r.event), text)
}

func (l *lines) take(event provision.Event) {
	subject := l.name(event)
	switch event.Kind {
	case provision.EventStackStarted:
		l.line(levelInfo, "%s: %s", subject, word(stackDoing, event.Op))
	case provision.EventStackDone:
		l.line(levelDebug, "%s: done with %s%s", subject, word(stackDoing, event.Op), after(event.Elapsed))
	case provision.EventStackFailed:
		l.line(levelInfo, "%s: %s%s", subject, l.paint(red, "failed"), after(event.Elapsed))
	case provision.EventStackSkipped:
		l.line(levelInfo, "%s: %s because of %s", subject, l.paint(yellow, "skipped"), strings.Join(l.cast.names(event.Because), ", "))
	case provision.EventResourceStarted:
		if event.Op != provision.OpRefresh {
			l.line(levelInfo, "%s: %s", subject, word(doing, event.Op))
		}
	case provision.EventResourceStatus:
		if key := subjectOf(event); l.last[key] != event.Message {
			l.last[key] = event.Message
			l.line(levelInfo, "%s: %s", subject, event.Message)
		}
	case provision.EventResourceDone:
		if text, ok := done[event.Op]; ok {
			l.line(levelInfo, "%s: %s%s", subject, text, after(event.Elapsed))
		}
	case provision.EventResourceFailed:
		l.line(levelInfo, "%s: %s%s", subject, l.paint(red, "failed"), after(event.Elapsed))
	case provision.EventWarning:
		l.line(levelWarn, "%s %s: %s", l.paint(yellow, "warning:"), subject, event.Message)
	case provision.EventInfo:
		l.line(levelInfo, "%s: %s", subject, event.Message)
	}
	// Errors are told once, at the end, by the error of the command.
}

func (l *lines) line(level level, format string, args ...any) {
	_, _ = fmt.Fprintf(l.streams.at(level), format+"\n", args...)
}

func word(words map[provision.Op]string, op provision.Op) string {
	if text, ok := words[op]; ok {
		return text
	}
	return string(op)
}

// after tells how long something took, where that is worth a word.
func after(elapsed time.Duration) string {
	if elapsed < 100*time.Millisecond {
		return ""
	}
	return fmt.Sprintf(" in %s", elapsed.Round(100*time.Millisecond))
}
