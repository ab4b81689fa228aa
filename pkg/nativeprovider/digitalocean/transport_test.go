package digitalocean

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	"pgregory.net/rapid"
)

// answer is one answer of a script: a status and a Retry-After, or an error.
type answer struct {
	status     int
	retryAfter string
	err        error
}

// script answers requests in order, and the last answer for ever.
type script struct {
	mu      sync.Mutex
	answers []answer
	bodies  []string
	tokens  []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := ""
	if r.Body != nil {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(content)
	}
	s.bodies = append(s.bodies, body)
	s.tokens = append(s.tokens, r.Header.Get("Authorization"))
	now := s.answers[min(len(s.bodies), len(s.answers))-1]
	if now.err != nil {
		return nil, now.err
	}
	response := &http.Response{StatusCode: now.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
	if now.retryAfter != "" {
		response.Header.Set("Retry-After", now.retryAfter)
	}
	return response, nil
}

// codes are answers with these statuses.
func codes(statuses ...int) []answer {
	var out []answer
	for _, status := range statuses {
		out = append(out, answer{status: status})
	}
	return out
}

// fails is an answer that is an error, followed by answers with these statuses.
func fails(err error, statuses ...int) []answer {
	return append([]answer{{err: err}}, codes(statuses...)...)
}

func TestTransportRepeatsWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	dialError := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	tests := []struct {
		reason  string
		method  string
		answers []answer
		sent    int
		status  int // 0 when an error is wanted
	}{
		{"a success is a success", "GET", codes(200), 1, 200},
		{"a GET after 503", "GET", codes(503, 500, 200), 3, 200},
		{"a DELETE after 502", "DELETE", codes(502, 204), 2, 204},
		{"a PUT after a reset", "PUT", fails(io.ErrUnexpectedEOF, 202), 2, 202},
		{"a POST not after 503", "POST", codes(503, 201), 1, 503},
		{"a POST not after a reset", "POST", fails(io.ErrUnexpectedEOF, 201), 1, 0},
		{"a POST after 429, which did nothing", "POST", codes(429, 201), 2, 201},
		{"a POST that was never sent", "POST", fails(dialError, 201), 2, 201},
		{"what is not implemented stays so", "GET", codes(501, 200), 1, 501},
		{"what is refused stays so", "GET", codes(404, 200), 1, 404},
		{"it gives up", "GET", codes(503), 4, 503},
		{"it gives up on errors", "GET", fails(dialError), 4, 0},
		{"a Retry-After that is too long is not waited for", "GET", []answer{{status: 429, retryAfter: "3600"}, {status: 200}}, 1, 429},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			base := &script{answers: test.answers}
			transport := &retryTransport{base: base, token: "secret", retries: 3, waitMin: time.Microsecond, waitMax: time.Millisecond}
			request, err := http.NewRequestWithContext(t.Context(), test.method, "http://127.0.0.1/", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if response != nil {
				defer func() { _ = response.Body.Close() }()
			}
			switch {
			case test.status == 0 && err == nil:
				t.Error("no error")
			case test.status != 0 && (err != nil || response.StatusCode != test.status):
				t.Errorf("status %v, error %v, want %d", response, err, test.status)
			}
			if len(base.bodies) != test.sent {
				t.Errorf("sent %d times, want %d", len(base.bodies), test.sent)
			}
			for i := range base.bodies {
				if base.bodies[i] != "body" || base.tokens[i] != "Bearer secret" {
					t.Errorf("request %d has body %q and authorization %q", i, base.bodies[i], base.tokens[i])
				}
			}
			if request.Header.Get("Authorization") != "" {
				t.Error("the caller's request has the token")
			}
		})
	}
}

func TestTransportHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	base := &script{answers: []answer{{status: 429, retryAfter: "1"}, {status: 200}}}
	transport := &retryTransport{base: base, retries: 1, waitMin: time.Microsecond, waitMax: time.Microsecond}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	response, err := transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	_ = response.Body.Close()
	if took := time.Since(start); took < time.Second {
		t.Errorf("it came back after %v, and was asked to wait a second", took)
	}
}

func TestTransportStaysInItsTime(t *testing.T) {
	t.Parallel()
	base := &script{answers: []answer{{status: 503, retryAfter: "60"}}}
	transport := &retryTransport{base: base, retries: 3, waitMin: time.Hour, waitMax: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || ctx.Err() != nil {
		t.Fatalf("want the answer at once when there is no time for another: %v, %v", response, err)
	}
	_ = response.Body.Close()

	ctx, cancel = context.WithCancel(t.Context())
	request = request.WithContext(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	response, err = (&retryTransport{base: base, retries: 3}).RoundTrip(request)
	if response != nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancellation: %v", err)
	}
}

// FuzzRetryAfter: whatever a server writes, it is no wait into the past.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "7", "-7", "99999999999999999999", "Sun, 01 Mar 2026 12:01:00 GMT", "Sun, 01 Mar 0001 12:01:00 GMT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if wait, ok := retryAfter(header, time.Now()); wait < 0 || !ok && wait != 0 {
			t.Errorf("waits %v", wait)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                              -1,
		"soon":                          -1,
		"0":                             0,
		"7":                             7 * time.Second,
		"9999999999999":                 (1 << 30) * time.Second,
		"-7":                            0,
		"Sun, 01 Mar 2026 12:01:00 GMT": time.Minute,
		"Sun, 01 Mar 2026 11:00:00 GMT": 0,
	} {
		got, ok := retryAfter(header, now)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v, want %v", header, got, ok, want)
		}
	}
}

// TestWaitsAreBounded: whatever is configured, a wait is neither negative nor longer than the longest.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		low := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "low"))
		high := low + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
		attempt := rapid.IntRange(0, 1000).Draw(t, "attempt")
		wait, ok := (&retryTransport{waitMin: low, waitMax: high}).wait(nil, attempt)
		if !ok || wait < 0 || wait > high {
			t.Fatalf("waits %v", wait)
		}
	})
}
