package nativeprovider

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
)

// ErrNotFound is in the chain of an error that says for certain that an object does not exist. Nothing else means "gone".
var ErrNotFound = errors.New("not found")

// ErrCancelled is the reason of a wait that ended because the engine asked to stop.
var ErrCancelled = errors.New("cancelled")

// TimeoutError is the reason of an operation that took longer than its timeout.
type TimeoutError struct {
	// After is the timeout.
	After time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timed out after %s (the customTimeouts option of the resource allows more)", e.After)
}

type kindError struct {
	kind error
	err  error
}

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.err, e.kind} }

// NotFound marks err as a definite not-found. nil stays nil.
func NotFound(err error) error {
	if err == nil {
		return nil
	}
	return &kindError{kind: ErrNotFound, err: err}
}

// IsNotFound tells whether err says for certain that the object does not exist.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }

var errTransient = errors.New("transient")

// Transient marks err as one that may go away by itself (an overloaded or unreachable API). A poll goes on after it.
func Transient(err error) error {
	if err == nil {
		return nil
	}
	return &kindError{kind: errTransient, err: err}
}

// IsTransient tells whether err was marked with Transient.
func IsTransient(err error) bool { return errors.Is(err, errTransient) }

// ContextError is why ctx ended, in words for a user: ErrCancelled, a *TimeoutError, or the context's own error.
func ContextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
