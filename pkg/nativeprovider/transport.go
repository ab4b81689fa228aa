package nativeprovider

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
)

// RetryTransport repeats requests that a cloud could not take just now, without ever doing something twice that must be done once.
//
//   - GET, HEAD, OPTIONS, PUT and DELETE are repeated after a connection error, 429 and 5xx (not 501).
//   - Other methods (POST creates) are repeated only when they were certainly not carried out: the connection could not be made, or the
//     answer was 429. What to do after any other failure is the caller's matter: look whether the object is there.
//
// Pauses double with jitter. A Retry-After header is honoured when it fits into the budget and the request's time: else the last answer
// (or error) is handed on at once, for it says more than a wait that cannot end well. A wait ends at once with the request's context.
type RetryTransport struct {
	// Base carries out the requests; it is given a copy of each.
	Base http.RoundTripper
	// Attempts is how often a request is tried at most. Below 1 is 1.
	Attempts int
	// First is the first pause, Longest the longest one that Retry-After does not ask for; 0 for no bound.
	First, Longest time.Duration
	// Budget is the time after the first attempt in which the last one must begin.
	Budget time.Duration
	// AttemptsHeader is the header of a failed answer that gets the number of attempts; "" for none.
	AttemptsHeader string

	ahead atomic.Int64 // see Now
}

// Now is the time by the clock of the cloud, as far as its answers have told it: this machine's own clock may be wrong.
func (t *RetryTransport) Now() time.Time { return time.Now().Add(time.Duration(t.ahead.Load())) }

// hear learns from an answer what time it is.
func (t *RetryTransport) hear(answer *http.Response) {
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		t.ahead.Store(int64(time.Until(at)))
	}
}

// responseTimeout is how long a cloud may take to begin an answer. Without it a half-open connection would hold an operation until its
// whole timeout is gone.
const responseTimeout = time.Minute

// NewTransport is an HTTP transport for an API: pooled connections, the environment's proxy, and time limits on everything but the body.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: responseTimeout,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
	}
}

// RoundTrip implements http.RoundTripper.
func (t *RetryTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	start, sent := time.Now(), request
	for attempt := 1; ; attempt++ {
		response, err := t.Base.RoundTrip(sent.Clone(context.WithValue(ctx, attemptKey{}, attempt)))
		if response != nil {
			tellClock(ctx, response)
			t.hear(response)
		}
		if ctx.Err() != nil || attempt >= t.Attempts || !repeatable(request.Method, response, err) {
			return t.last(response, err, attempt)
		}
		wait := t.wait(response, attempt)
		if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= wait || wait > t.Budget-time.Since(start) {
			return t.last(response, err, attempt)
		}
		if sent = again(request); sent == nil {
			return t.last(response, err, attempt)
		}
		cause := causeOf(response, err)
		if response != nil {
			// Drained, so that the connection can be used again.
			_, _ = io.CopyN(io.Discard, response.Body, 1<<20)
			_ = response.Body.Close()
		}
		if err := Sleep(ctx, wait); err != nil {
			return nil, &RetryEnded{Reason: err, Last: cause}
		}
	}
}

// RetryEnded is the error of a request whose context ended while it waited to be repeated.
type RetryEnded struct {
	// Reason is why the context ended.
	Reason error
	// Last is what came of the last attempt.
	Last string
}

// Error implements error.
func (e *RetryEnded) Error() string {
	return e.Reason.Error() + " (the last answer was " + e.Last + ")"
}

// Unwrap is the reason.
func (e *RetryEnded) Unwrap() error { return e.Reason }

// RequestError is the error of a request that failed because its context ended, in words for a user. nil while the context goes on.
func RequestError(ctx context.Context, err error) error {
	var ended *RetryEnded
	if ctx.Err() != nil && errors.As(err, &ended) {
		return ended
	}
	return ContextError(ctx)
}

// again is the request with its body from the start, nil when that cannot be had.
func again(request *http.Request) *http.Request {
	next := request.Clone(request.Context())
	if request.Body == nil || request.Body == http.NoBody {
		return next
	}
	if request.GetBody == nil {
		return nil
	}
	body, err := request.GetBody()
	if err != nil {
		return nil
	}
	next.Body = body
	return next
}

// last hands on what came of the last attempt.
func (t *RetryTransport) last(response *http.Response, err error, attempts int) (*http.Response, error) {
	if attempts == 1 {
		return response, err
	}
	if response != nil && response.StatusCode >= http.StatusBadRequest && t.AttemptsHeader != "" {
		response.Header.Set(t.AttemptsHeader, strconv.Itoa(attempts))
	}
	return response, errors.Wrapf(err, "after %d attempts", attempts)
}

// causeOf names what failed, with the cloud's id of the request.
func causeOf(response *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if id := RequestID(response.Header); id != "" {
		text += ", request id " + id
	}
	return text
}

// RequestID is the cloud's id of a request, by which its support finds it; "" when the answer has none.
func RequestID(header http.Header) string {
	id := header.Get("X-Request-Id")
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}

// repeatable tells whether sending the request once more cannot do more than sending it once.
func repeatable(method string, response *http.Response, err error) bool {
	if err != nil {
		return idempotent(method) && !errors.Is(err, context.Canceled) || NeverSent(err)
	}
	switch code := response.StatusCode; code {
	case http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	default:
		return code >= http.StatusInternalServerError && idempotent(method)
	}
}

func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	default:
		return false
	}
}

// NeverSent tells whether a request failed before its first byte left, because no connection could be opened.
func NeverSent(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}

// wait is the pause after an attempt: what Retry-After asks for, else the doubled one.
func (t *RetryTransport) wait(response *http.Response, attempt int) time.Duration {
	pause := t.First
	for range min(attempt-1, 62) {
		if pause > math.MaxInt64/4 || t.Longest > 0 && pause >= t.Longest {
			break
		}
		pause *= 2
	}
	pause = jitter(pause)
	if t.Longest > 0 {
		pause = min(pause, t.Longest)
	}
	if response != nil {
		if asked, ok := retryAfter(response.Header.Get("Retry-After"), t.Now()); ok {
			return max(asked, pause)
		}
	}
	return pause
}

// retryAfter reads a Retry-After header: seconds, or a date of HTTP (RFC 9110, 10.2.3).
func retryAfter(header string, now time.Time) (time.Duration, bool) {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.Atoi(header); err == nil {
		// Bounded, for a number of seconds can be more than a duration holds.
		return time.Duration(min(max(seconds, 0), 1<<30)) * time.Second, true
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(date.Sub(now), 0), true
	}
	return 0, false
}
