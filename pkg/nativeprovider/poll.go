package nativeprovider

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pkg/errors"
)

// Poll says how often to look.
type Poll struct {
	// What is waited for, for the progress display and errors: "cluster prod to become ACTIVE".
	What string
	// First is the pause after the first look; 100 ms when 0. Each further pause is half as long again.
	First time.Duration
	// Max is the longest pause; 10 s when 0.
	Max time.Duration
	// Operation shows the progress, if given.
	Operation *Operation
}

// PollUntil calls look until it reports done or an error. It looks at once, then backs off with jitter, so that many waits do not fall into
// step. progress is a word on the present state ("BUILDING"). An error that IsTransient does not end the wait. The wait ends at once with
// ctx; the error then names what was waited for, the last progress and the reason (ErrCancelled, *TimeoutError).
func PollUntil(ctx context.Context, poll Poll, look func(ctx context.Context) (done bool, progress string, err error)) error {
	pause, longest := poll.First, poll.Max
	if pause <= 0 {
		pause = 100 * time.Millisecond
	}
	if longest <= 0 {
		longest = 10 * time.Second
	}
	var last, shown string
	for {
		if err := ContextError(ctx); err != nil {
			return waitError(err, poll.What, last)
		}
		done, progress, err := look(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return waitError(ContextError(ctx), poll.What, last)
		case err != nil && IsTransient(err):
			progress = err.Error()
		case err != nil:
			return err
		case done:
			return nil
		}
		if progress != "" {
			last = progress
		}
		if line := "waiting for " + poll.What + ": " + last; line != shown {
			poll.Operation.Status(line)
			shown = line
		}
		if err := Sleep(ctx, jitter(pause)); err != nil {
			return waitError(err, poll.What, last)
		}
		pause = min(pause*3/2, longest)
	}
}

func waitError(err error, what, last string) error {
	if last != "" {
		return errors.Wrapf(err, "wait for %s (last seen: %s)", what, last)
	}
	return errors.Wrapf(err, "wait for %s", what)
}

// Sleep pauses for d or until ctx ends, and then returns why it ended.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ContextError(ctx)
	case <-timer.C:
		return nil
	}
}

// jitter is between 3/4 and 5/4 of d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d*3/4 + rand.N(d/2+1)
}
