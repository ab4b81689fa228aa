package digitalocean

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

const (
	// longestRetryAfter is the longest Retry-After that is waited for. The API's hourly quota can ask for most of an
	// hour; a person is better served by an error that says so.
	longestRetryAfter = 5 * time.Minute

	// responseTimeout is how long the API may take to begin an answer. Without it a half-open connection would hold
	// an operation until its whole timeout is gone.
	responseTimeout = time.Minute

	// attemptsHeader is where godo looks for the number of attempts that it names in its error.
	attemptsHeader = "X-Godo-Retry-Attempts"
)

// retryTransport adds the token to each request and repeats the requests that may be repeated.
//
// godo can retry by itself, but it repeats a POST after a lost answer too, and that is how an account gets two clusters
// from one declaration. Here a request is repeated only when that cannot do harm: after 429 (the API did nothing), when
// the connection could not even be opened, and otherwise for GET, PUT and DELETE, which say the same thing twice.
type retryTransport struct {
	base    http.RoundTripper
	token   string
	retries int           // how often a request is repeated at most; 0 means never
	waitMin time.Duration // wait before the first repetition; doubles with each one
	waitMax time.Duration // longest wait that is not asked for by Retry-After
}

// newBaseTransport returns a transport that honours the proxy variables of the environment.
func newBaseTransport() http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = responseTimeout
	return base
}

// RoundTrip implements http.RoundTripper.
func (t *retryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	for attempt := 0; ; attempt++ {
		sent := req.Clone(ctx)
		sent.Header.Set("Authorization", "Bearer "+t.token)
		if req.GetBody != nil {
			body, err := req.GetBody()
			if err != nil {
				return nil, errors.Wrap(err, "read the body of the request again")
			}
			sent.Body = body
		}
		resp, err := t.base.RoundTrip(sent)
		if ctx.Err() != nil || attempt >= t.retries || !repeatable(req.Method, resp, err) {
			return withAttempts(resp, attempt+1), err
		}
		wait, ok := t.wait(resp, attempt)
		if deadline, has := ctx.Deadline(); !ok || has && time.Until(deadline) <= wait {
			// The answer at hand says more than "deadline exceeded" would after a wait that cannot end well.
			return withAttempts(resp, attempt+1), err
		}
		if resp != nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
			_ = resp.Body.Close()
		}
		if err := nativeprovider.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// repeatable tells whether sending the request once more cannot do more than sending it once.
func repeatable(method string, resp *http.Response, err error) bool {
	idempotent := method != http.MethodPost && method != http.MethodPatch
	if err != nil {
		return idempotent || neverSent(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	}
	return idempotent && resp.StatusCode >= http.StatusInternalServerError
}

// neverSent tells whether a request failed before its first byte left, because no connection could be opened.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// wait tells how long to wait before the next attempt, and false when the API asks for longer than is reasonable.
func (t *retryTransport) wait(resp *http.Response, attempt int) (time.Duration, bool) {
	if resp != nil {
		if after, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
			return after, after <= longestRetryAfter
		}
	}
	wait := t.waitMin << min(attempt, 16)
	if wait > t.waitMax || wait < t.waitMin {
		wait = t.waitMax
	}
	// A quarter of spread keeps the plugins of many stacks from coming back in step.
	return wait - time.Duration(rand.Int64N(int64(wait)/4+1)), true
}

// retryAfter reads a Retry-After header: seconds, or a date of HTTP (RFC 9110, 10.2.3).
func retryAfter(header string, now time.Time) (time.Duration, bool) {
	if header == "" {
		return 0, false
	}
	if seconds, err := strconv.Atoi(header); err == nil {
		// Bounded, for a number of seconds can be more than a duration holds.
		return time.Duration(min(max(seconds, 0), 1<<30)) * time.Second, true
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(date.Sub(now), 0), true
	}
	return 0, false
}

func withAttempts(resp *http.Response, attempts int) *http.Response {
	if resp != nil && attempts > 1 && resp.StatusCode >= http.StatusBadRequest {
		resp.Header.Set(attemptsHeader, strconv.Itoa(attempts))
	}
	return resp
}
