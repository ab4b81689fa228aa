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

// script answers requests in order, and the last answer for ever.
type script struct {
	mu      sync.Mutex
	answers []func() (*http.Response, error)
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
	return s.answers[min(len(s.bodies), len(s.answers))-1]()
}

func code(status int, header ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(""))}, nil
	}
}

func broken(err error) func() (*http.Response, error) {
	return func() (*http.Response, error) { return nil, err }
}

func TestTransportRepeatsWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	dialError := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	tests := []struct {
		reason  string
		method  string
		answers []func() (*http.Response, error)
		sent    int
		status  int // 0 when an error is wanted
	}{
		{"a success is a success", "GET", []func() (*http.Response, error){code(200)}, 1, 200},
		{"a GET after 503", "GET", []func() (*http.Response, error){code(503), code(500), code(200)}, 3, 200},
		{"a DELETE after 502", "DELETE", []func() (*http.Response, error){code(502), code(204)}, 2, 204},
		{"a PUT after a reset", "PUT", []func() (*http.Response, error){broken(io.ErrUnexpectedEOF), code(202)}, 2, 202},
		{"a POST not after 503", "POST", []func() (*http.Response, error){code(503), code(201)}, 1, 503},
		{"a POST not after a reset", "POST", []func() (*http.Response, error){broken(io.ErrUnexpectedEOF), code(201)}, 1, 0},
		{"a POST after 429, which did nothing", "POST", []func() (*http.Response, error){code(429), code(201)}, 2, 201},
		{"a POST that was never sent", "POST", []func() (*http.Response, error){broken(dialError), code(201)}, 2, 201},
		{"what is not implemented stays so", "GET", []func() (*http.Response, error){code(501), code(200)}, 1, 501},
		{"what is refused stays so", "GET", []func() (*http.Response, error){code(404), code(200)}, 1, 404},
		{"it gives up", "GET", []func() (*http.Response, error){code(503)}, 4, 503},
		{"it gives up on errors", "GET", []func() (*http.Response, error){broken(dialError)}, 4, 0},
		{"a Retry-After that is too long is not waited for", "GET", []func() (*http.Response, error){code(429, "Retry-After", "3600"), code(200)}, 1, 429},
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
	base := &script{answers: []func() (*http.Response, error){code(429, "Retry-After", "1"), code(200)}}
	transport := &retryTransport{base: base, retries: 1, waitMin: time.Microsecond, waitMax: time.Microsecond}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	response, err := transport.RoundTrip(request)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v, %v", response, err)
	}
	_ = response.Body.Close()
	if took := time.Since(start); took < time.Second {
		t.Errorf("it came back after %v, and was asked to wait a second", took)
	}
}

func TestTransportStaysInItsTime(t *testing.T) {
	t.Parallel()
	base := &script{answers: []func() (*http.Response, error){code(503, "Retry-After", "60")}}
	transport := &retryTransport{base: base, retries: 3, waitMin: time.Hour, waitMax: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil || response.StatusCode != 503 || ctx.Err() != nil {
		t.Fatalf("want the answer at once when there is no time for another: %v, %v", response, err)
	}
	_ = response.Body.Close()

	ctx, cancel = context.WithCancel(t.Context())
	request = request.WithContext(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := (&retryTransport{base: base, retries: 3}).RoundTrip(request); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancellation: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                              -1,
		"soon":                          -1,
		"0":                             0,
		"7":                             7 * time.Second,
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
