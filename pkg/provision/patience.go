package provision

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/filelock"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Two operations that change one stack must not run at once. Those of this machine that share a state directory keep each other out by
// a lock file, which ends with its process and costs nothing to wait for; all others by the lock of the backend.

// patience is how long an operation waits for its stack: for both locks together.
type patience struct {
	engine *Engine
	stack  Stack
	until  time.Time // zero as long as nothing was waited for
	told   bool
}

// left is how long may still be waited; the time begins with the first call.
func (p *patience) left() time.Duration {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.stack.LockTimeout)
	}
	return time.Until(p.until)
}

// tell tells once what is waited for.
func (p *patience) tell(reason string) {
	if p.told {
		return
	}
	p.told = true
	p.engine.emit(Event{
		Kind: EventInfo, Time: time.Now(), Stack: p.stack.Identity,
		Message: fmt.Sprintf("%s: waiting up to %s for that to end", reason, p.stack.LockTimeout),
	})
}

// hold takes the lock of this machine. The error is an *Error of kind Conflict when another process has it for longer than may be waited.
func (p *patience) hold(ctx context.Context, operation string) (release func(), err error) {
	path := p.engine.options.State.lockFile(p.stack.Identity)
	if path == "" {
		return func() {}, nil
	}
	lock, err := filelock.Try(path)
	if errors.Is(err, filelock.ErrLocked) {
		reason := "another process works on the stack"
		if pid := filelock.Holder(path); pid != 0 {
			reason = fmt.Sprintf("process %d works on the stack", pid)
		}
		failure := &Error{Kind: Conflict, Stack: p.stack.Identity, Operation: operation, Message: reason, cause: err}
		if p.left() <= 0 {
			return nil, failure
		}
		p.tell(reason)
		waiting, cancel := context.WithDeadline(ctx, p.until)
		defer cancel()
		if lock, err = filelock.Acquire(waiting, path, nil); err != nil && waiting.Err() != nil {
			if ctx.Err() != nil {
				return nil, p.engine.failure(ctx, operation, p.stack.Identity, err, nil, nil)
			}
			failure.Message += fmt.Sprintf(", and still did after %s", p.stack.LockTimeout)
			return nil, failure
		}
	}
	if err != nil {
		return nil, onDisk(err, "lock the stack on this machine")
	}
	return func() { _ = lock.Unlock() }, nil
}

// The pauses between attempts while somebody else has the lock of the backend: an attempt starts the engine.
const (
	shortestPause = 500 * time.Millisecond
	longestPause  = 5 * time.Second
)

// again waits a while after an operation found the backend's lock taken. It tells whether to try once more.
func (p *patience) again(ctx context.Context, err error, attempt int) bool {
	if KindOf(err) != Conflict || p.left() <= 0 {
		return false
	}
	var failure *Error
	if errors.As(err, &failure) {
		p.tell(failure.Message)
	}
	pause := time.NewTimer(min(shortestPause<<min(attempt, 4), longestPause, p.left()))
	defer pause.Stop()
	look := time.NewTicker(shortestPause / 2)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-pause.C:
			return true
		case <-look.C:
			if locks, known, err := p.engine.Locks(p.stack.Identity); err == nil && known && len(locks) == 0 {
				return true
			}
		}
	}
}

// lockFile is the file that is locked as long as a process of this machine works on a stack; "" where no state directory is known.
func (s *State) lockFile(identity stackidentity.Identity) string {
	if s.marks == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(s.marks), "locks", url.PathEscape(identity.String()))
}
