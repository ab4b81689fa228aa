package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// progress tells what happens, a line each, to stderr.
type progress struct {
	mu      sync.Mutex
	streams Streams
	paint   func(color, string) string
	names   map[stackidentity.Identity]string
	last    map[string]string // the last status of each resource, which is not told twice
	running map[string]running
	stop    chan struct{}
}

// running is a resource that something is being done to.
type running struct {
	doing string
	since time.Time
	told  time.Time
}

// heartbeat is after how long a resource is named again that nothing was heard of: some plugins say nothing for minutes.
const heartbeat = 30 * time.Second

func newProgress(streams Streams, manifests []*manifest.Manifest) *progress {
	p := &progress{
		streams: streams, paint: painter(streams.ErrTerminal, streams.Getenv),
		names: map[stackidentity.Identity]string{}, last: map[string]string{}, running: map[string]running{},
		stop: make(chan struct{}),
	}
	go p.beat(time.NewTicker(time.Second))
	members, err := provision.Order(manifests)
	if err != nil {
		return p // the command tells the error
	}
	for _, member := range members {
		p.names[member.Identity] = member.Manifest.String()
	}
	return p
}

// close ends the heartbeat.
func (p *progress) close() { close(p.stop) }

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

// tellRunning names the resources that nothing was heard of for a while.
func (p *progress) tellRunning(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for subject, r := range p.running {
		if now.Sub(r.told) >= heartbeat {
			p.line("%s: still %s, %s so far", subject, r.doing, now.Sub(r.since).Round(time.Second))
			r.told = now
			p.running[subject] = r
		}
	}
}

// name is what a stack is called: the manifest's kind and name.
func (p *progress) name(stack stackidentity.Identity) string {
	if name, ok := p.names[stack]; ok {
		return name
	}
	return stack.String()
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

// take prints an event.
func (p *progress) take(event provision.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	subject := p.name(event.Stack)
	if event.Resource != "" {
		subject += ": " + event.Resource
	}
	switch event.Kind {
	case provision.EventStackStarted:
		p.line("%s: %s", subject, word(stackDoing, event.Op))
	case provision.EventResourceStarted:
		p.running[subject] = running{doing: word(doing, event.Op), since: event.Time, told: event.Time}
		if event.Op != provision.OpRefresh {
			p.line("%s: %s", subject, word(doing, event.Op))
		}
	case provision.EventResourceStatus:
		if p.last[subject] != event.Message {
			p.last[subject] = event.Message
			if r, ok := p.running[subject]; ok {
				r.told = event.Time
				p.running[subject] = r
			}
			p.line("%s: %s", subject, event.Message)
		}
	case provision.EventResourceDone:
		delete(p.running, subject)
		if text, ok := done[event.Op]; ok {
			p.line("%s: %s%s", subject, text, after(event.Elapsed))
		}
	case provision.EventResourceFailed:
		delete(p.running, subject)
		p.line("%s: %s%s", subject, p.paint(red, "failed"), after(event.Elapsed))
	case provision.EventWarning:
		p.line("%s %s: %s", p.paint(yellow, "warning:"), subject, event.Message)
	case provision.EventInfo:
		p.line("%s: %s", subject, event.Message)
	}
	// Errors are told once, at the end, by the error of the command.
}

func (p *progress) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.streams.Err, format+"\n", args...)
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
