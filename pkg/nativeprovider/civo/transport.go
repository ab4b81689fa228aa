package civo

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// retryTransport repeats requests that a cloud could not take just now, without ever doing something twice that must be done once.
//
//   - GET, HEAD, OPTIONS, PUT and DELETE are repeated after a connection error, 429 and 5xx (not 501).
//   - Other methods (POST creates) are repeated only when they were certainly not carried out: the connection could not be made, or the
//     answer was 429. What to do after any other failure is the caller's matter: look whether the object is there.
//
// Pauses double with jitter; a Retry-After header is honoured when it fits into the budget. A wait ends at once with the request's
// context. The last answer (or error) is handed on as it is.
type retryTransport struct {
	// base carries out the requests.
	base http.RoundTripper
	// attempts is how often a request is tried at most.
	attempts int
	// first is the first pause.
	first time.Duration
	// budget bounds all pauses of one request together.
	budget time.Duration
}

// newTransport is an HTTP transport for an API: pooled connections, the environment's proxy, and time limits on everything but the body.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
	}
}

// RoundTrip implements http.RoundTripper.
func (t *retryTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	pause, budget := t.first, t.budget
	for attempt := 1; ; attempt++ {
		response, err := t.base.RoundTrip(request)
		wait, again := retry(request, response, err, jitter(pause))
		if !again || attempt >= t.attempts || wait > budget {
			return response, err
		}
		next := request.Clone(request.Context())
		if request.Body != nil && request.Body != http.NoBody {
			if request.GetBody == nil {
				return response, err
			}
			body, bodyErr := request.GetBody()
			if bodyErr != nil {
				return response, err
			}
			next.Body = body
		}
		if response != nil {
			// Drained, so that the connection can be used again.
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
			_ = response.Body.Close()
		}
		if sleepErr := nativeprovider.Sleep(request.Context(), wait); sleepErr != nil {
			return nil, sleepErr
		}
		request, pause, budget = next, pause*2, budget-wait
	}
}

// jitter is between 3/4 and 5/4 of d, so that many plugins do not come back in step.
func jitter(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// retry decides whether to try again, and after what pause.
func retry(
	request *http.Request, response *http.Response, err error, pause time.Duration,
) (time.Duration, bool) {
	if request.Context().Err() != nil {
		return 0, false
	}
	if err != nil {
		return pause, idempotent(request.Method) && !errors.Is(err, context.Canceled) || neverSent(err)
	}
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests:
	case code >= 500 && code != http.StatusNotImplemented && idempotent(request.Method):
	default:
		return 0, false
	}
	if asked, ok := retryAfter(response.Header.Get("Retry-After")); ok && asked > pause {
		pause = asked
	}
	return pause, true
}

func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	default:
		return false
	}
}

// neverSent tells whether the connection could not even be made.
func neverSent(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(header string) (time.Duration, bool) {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.Atoi(header); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}
