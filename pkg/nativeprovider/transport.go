package nativeprovider

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// RetryTransport repeats requests that a cloud could not take just now, without ever doing something twice that must be done once.
//
//   - GET, HEAD, OPTIONS, PUT and DELETE are repeated after a connection error, 429 and 5xx (not 501).
//   - Other methods (POST creates) are repeated only when they were certainly not carried out: the connection could not be made, or the
//     answer was 429. What to do after any other failure is the caller's matter: look whether the object is there.
//
// Pauses double from First with jitter; a Retry-After header is honoured when it fits into Budget. A wait ends at once with the request's
// context. The last answer (or error) is handed on as it is.
type RetryTransport struct {
	// Base carries out the requests; NewTransport() when nil.
	Base http.RoundTripper
	// Attempts is how often a request is tried at most; 5 when 0.
	Attempts int
	// First is the first pause; 250 ms when 0.
	First time.Duration
	// Budget bounds all pauses of one request together; 1 minute when 0.
	Budget time.Duration
}

// NewTransport is an HTTP transport for an API: pooled connections, the environment's proxy, and time limits on everything but the body.
func NewTransport() *http.Transport {
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
func (t *RetryTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = defaultTransport
	}
	attempts, pause, budget := t.Attempts, t.First, t.Budget
	if attempts <= 0 {
		attempts = 5
	}
	if pause <= 0 {
		pause = 250 * time.Millisecond
	}
	if budget <= 0 {
		budget = time.Minute
	}
	for attempt := 1; ; attempt++ {
		response, err := base.RoundTrip(request)
		wait, again := t.retry(request, response, err, jitter(pause))
		if !again || attempt >= attempts || wait > budget {
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
		if sleepErr := Sleep(request.Context(), wait); sleepErr != nil {
			return nil, sleepErr
		}
		request, pause, budget = next, pause*2, budget-wait
	}
}

var defaultTransport = NewTransport()

// retry decides whether to try again, and after what pause.
func (t *RetryTransport) retry(
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
