package reconcile

import (
	"sync"
	"time"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Progress hands the events of the engine on to those who work on the stacks that they are about.
type Progress struct {
	mu        sync.Mutex
	followers map[stackidentity.Identity]*follower
}

// NewProgress makes a Progress that nobody listens to yet.
func NewProgress() *Progress {
	return &Progress{followers: map[stackidentity.Identity]*follower{}}
}

// Take is told what happens: the OnEvent of the engine. It never waits.
func (p *Progress) Take(event provision.Event) {
	if event.Planning {
		return
	}
	if text := sentence(event); text != "" {
		p.tell(event.Stack, text)
	}
}

// say tells those who work on the stacks of manifests. It never waits.
func (p *Progress) say(all []*manifest.Manifest, text string) {
	for _, identity := range identities(all) {
		p.tell(identity, text)
	}
}

func (p *Progress) tell(stack stackidentity.Identity, text string) {
	p.mu.Lock()
	f := p.followers[stack]
	p.mu.Unlock()
	if f != nil {
		f.say(text)
	}
}

// identities are the stacks of manifests.
func identities(all []*manifest.Manifest) (stacks []stackidentity.Identity) {
	for _, m := range all {
		if identity, err := stackidentity.For(m.Kind, metadataOf(m)); err == nil {
			stacks = append(stacks, identity)
		}
	}
	return stacks
}

// sentence says what an event tells; empty when there is nothing worth telling.
func sentence(event provision.Event) string {
	resource := event.Resource
	switch event.Kind {
	case provision.EventResourceStarted:
		if event.Op == provision.OpSame || event.Op == provision.OpRead || event.Op == provision.OpRefresh {
			return ""
		}
		return resource + ": " + string(event.Op) + " has begun"
	case provision.EventResourceStatus:
		return resource + ": " + event.Message
	case provision.EventResourceDone:
		if event.Op == provision.OpSame || event.Op == provision.OpRead || event.Op == provision.OpRefresh {
			return ""
		}
		return resource + ": " + string(event.Op) + " is done"
	case provision.EventResourceFailed:
		return resource + ": " + string(event.Op) + " failed"
	default:
		return ""
	}
}

// pause is the least time between two reports of progress.
const pause = time.Second

// follow calls tell with what happens to the stacks of manifests, the last word of each second, until stop is called, which waits for
// the last call.
func (p *Progress) follow(all []*manifest.Manifest, tell func(message string)) (stop func()) {
	f := &follower{words: make(chan string, 1)}
	stacks := identities(all)
	p.mu.Lock()
	for _, identity := range stacks {
		p.followers[identity] = f
	}
	p.mu.Unlock()
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case text := <-f.words:
				tell(text)
			}
			select {
			case <-ended:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		p.mu.Lock()
		for _, identity := range stacks {
			delete(p.followers, identity)
		}
		p.mu.Unlock()
		close(ended)
		<-done
	}
}

// follower holds the last word that was not told yet.
type follower struct {
	mu    sync.Mutex
	words chan string
}

func (f *follower) say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.words:
	default:
	}
	f.words <- text
}
