package nativeprovider

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// statuses are answers with these statuses.
func statuses(all ...int) []answer {
	var out []answer
	for _, status := range all {
		out = append(out, answer{status: status})
	}
	return out
}

// fails is an answer that is an error, followed by answers with these statuses.
func fails(err error, then ...int) []answer {
	return append([]answer{{err: err}}, statuses(then...)...)
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
		{"a success is a success", "GET", statuses(200), 1, 200},
		{"a GET after 503", "GET", statuses(503, 500, 200), 3, 200},
		{"a DELETE after 502", "DELETE", statuses(502, 204), 2, 204},
		{"a PUT after a reset", "PUT", fails(io.ErrUnexpectedEOF, 202), 2, 202},
		{"a POST not after 503", "POST", statuses(503, 201), 1, 503},
		{"a POST not after a reset", "POST", fails(io.ErrUnexpectedEOF, 201), 1, 0},
		{"a POST after 429, which did nothing", "POST", statuses(429, 201), 2, 201},
		{"a POST that was never sent", "POST", fails(dialError, 201), 2, 201},
		{"what is not implemented stays so", "GET", statuses(501, 200), 1, 501},
		{"what is refused stays so", "GET", statuses(404, 200), 1, 404},
		{"it gives up", "GET", statuses(503), 4, 503},
		{"it gives up on errors", "GET", fails(dialError), 4, 0},
		{"a Retry-After that is too long is not waited for", "GET", []answer{{status: 429, retryAfter: "3600"}, {status: 200}}, 1, 429},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			base := &script{answers: test.answers}
			transport := &RetryTransport{Base: base, Attempts: 4, First: time.Microsecond, Longest: time.Millisecond, Budget: time.Minute}
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
				if base.bodies[i] != "body" {
					t.Errorf("request %d has body %q", i, base.bodies[i])
				}
			}
		})
	}
}

func TestTransportHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	base := &script{answers: []answer{{status: 429, retryAfter: "1"}, {status: 200}}}
	transport := &RetryTransport{Base: base, Attempts: 2, First: time.Microsecond, Longest: time.Microsecond, Budget: time.Minute}
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
	transport := &RetryTransport{Base: base, Attempts: 4, First: time.Hour, Longest: time.Hour, Budget: 9 * time.Hour}
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
	response, err = (&RetryTransport{Base: base, Attempts: 4, Budget: 9 * time.Hour}).RoundTrip(request)
	if response != nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancellation: %v", err)
	}
}

// attemptsOf are the times, after the first one, at which a transport tries a request to a server that never has time. The clock is the
// test's own, and no time passes.
func attemptsOf(t *testing.T, transport *RetryTransport) (begun []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		transport.Base = roundTripper(func(*http.Request) (*http.Response, error) {
			begun = append(begun, time.Since(start))
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody}, nil
		})
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	})
	return begun
}

// A Retry-After that is a date is one of the cloud's clock: it is waited for as long as was meant, whatever this machine's clock says.
func TestTransportWaitsByTheCloudsClock(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		ahead  time.Duration // the cloud's clock
	}{
		{"one clock", 0},
		{"this machine's clock is an hour late", time.Hour},
		{"this machine's clock is an hour early", -time.Hour},
		{"this machine's clock was never set", 30 * 365 * 24 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			var begun []time.Duration
			start := time.Now()
			transport := &RetryTransport{Attempts: 2, First: time.Millisecond, Budget: time.Minute}
			transport.Base = roundTripper(func(*http.Request) (*http.Response, error) {
				begun = append(begun, time.Since(start))
				now := time.Now().Add(test.ahead).UTC()
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Header: http.Header{
					"Date": {now.Format(http.TimeFormat)}, "Retry-After": {now.Add(20 * time.Second).Format(http.TimeFormat)},
				}}, nil
			})
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if len(begun) != 2 || begun[1] < 19*time.Second || begun[1] > 21*time.Second {
				t.Errorf("%s: it tried at %v, want twice, 20 seconds apart", test.reason, begun)
			}
			if off := transport.Now().Sub(time.Now().Add(test.ahead)).Abs(); off > time.Second {
				t.Errorf("%s: its time is off by %s", test.reason, off)
			}
		})
	}
}

func TestTransportDoublesItsPauses(t *testing.T) {
	t.Parallel()
	begun := attemptsOf(t, &RetryTransport{Attempts: 8, First: time.Second, Budget: time.Hour})
	if len(begun) != 8 {
		t.Fatalf("it tried at %v, want 8 attempts", begun)
	}
	for i, pause := 1, time.Second; i < len(begun); i, pause = i+1, pause*2 {
		if took := begun[i] - begun[i-1]; took < pause*3/4 || took > pause*5/4 {
			t.Errorf("pause %d is %v, want %v with jitter", i, took, pause)
		}
	}
}

// Many pauses that are short enough each would together take as long as all attempts do: here 4 hours.
func TestTransportHasOneBudgetForAllAttempts(t *testing.T) {
	t.Parallel()
	const budget = time.Minute
	begun := attemptsOf(t, &RetryTransport{Attempts: 1000, First: time.Second, Longest: 16 * time.Second, Budget: budget})
	if last := begun[len(begun)-1]; len(begun) < 5 || last > budget {
		t.Errorf("%d attempts, the last after %v, with a budget of %v", len(begun), last, budget)
	}
}

// Clients that failed together do not come back together.
func TestPausesDiffer(t *testing.T) {
	t.Parallel()
	requests, looks := map[time.Duration]bool{}, map[time.Duration]bool{}
	for range 20 {
		requests[attemptsOf(t, &RetryTransport{Attempts: 2, First: time.Hour, Budget: 9 * time.Hour})[1]] = true
		synctest.Test(t, func(t *testing.T) {
			start, looked := time.Now(), 0
			if err := PollUntil(t.Context(), Poll{First: time.Hour}, func(context.Context) (bool, string, error) {
				looked++
				return looked == 2, "", nil
			}); err != nil {
				t.Fatal(err)
			}
			looks[time.Since(start)] = true
		})
	}
	if len(requests) == 1 || len(looks) == 1 {
		t.Errorf("20 clients have %d different pauses between requests and %d between looks", len(requests), len(looks))
	}
}

func TestTransportOnARealServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, reason, method string
		answers              []int
		retryAfter           string
		want, requests       int
	}{
		{name: "get 503", reason: "reads are safe", method: http.MethodGet, answers: []int{503, 503, 200}, want: 200, requests: 3},
		{name: "get 429", reason: "refused, not done", method: http.MethodGet, answers: []int{429, 200}, retryAfter: "0", want: 200, requests: 2},
		{name: "get gives up", reason: "four attempts", method: http.MethodGet, answers: []int{500, 500, 500, 500, 200}, want: 500, requests: 4},
		{name: "get 501", reason: "it will never be implemented", method: http.MethodGet, answers: []int{501, 200}, want: 501, requests: 1},
		{name: "get 404", reason: "an answer", method: http.MethodGet, answers: []int{404, 200}, want: 404, requests: 1},
		{name: "put 502", reason: "the same change twice is one change", method: http.MethodPut, answers: []int{502, 200}, want: 200, requests: 2},
		{name: "delete 502", reason: "gone is gone", method: http.MethodDelete, answers: []int{502, 200}, want: 200, requests: 2},
		{name: "post 503", reason: "it may have been carried out", method: http.MethodPost, answers: []int{503, 200}, want: 503, requests: 1},
		{name: "post 429", reason: "refused, not done", method: http.MethodPost, answers: []int{429, 200}, want: 200, requests: 2},
		{name: "long Retry-After", reason: "more than the budget", method: http.MethodGet, answers: []int{429, 200}, retryAfter: "3600",
			want: 429, requests: 1},
		{name: "late Retry-After date", reason: "more than the budget", method: http.MethodGet, answers: []int{503, 200},
			retryAfter: "Fri, 31 Dec 2999 23:59:59 GMT", want: 503, requests: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method == http.MethodPut && string(body) != "payload" {
					t.Errorf("attempt %d has the body %q", requests+1, body)
				}
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.WriteHeader(test.answers[requests])
				requests++
			}))
			defer server.Close()
			request, err := http.NewRequest(test.method, server.URL, bytes.NewReader([]byte("payload")))
			if err != nil {
				t.Fatal(err)
			}
			response, err := (&RetryTransport{Base: NewTransport(), Attempts: 4, First: time.Millisecond, Budget: time.Second}).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.want || requests != test.requests {
				t.Errorf("%s: status %d after %d requests, want %d after %d", test.reason, response.StatusCode, requests, test.want, test.requests)
			}
		})
	}
}

func TestTransportEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(ErrCancelled) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	response, err := (&RetryTransport{Base: NewTransport(), Attempts: 9, First: time.Hour, Budget: 9 * time.Hour}).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, ErrCancelled) || time.Since(start) > 10*time.Second {
		t.Errorf("error %v after %s", err, time.Since(start))
	}
}

func TestUnreachableEndpoint(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close()
	tries := 0
	transport := &RetryTransport{Attempts: 3, First: time.Millisecond, Budget: time.Second, Base: counting{NewTransport(), &tries}}
	request, err := http.NewRequest(http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("want an error")
	}
	if tries != 3 {
		t.Errorf("%d attempts: a POST that was never sent can be sent again", tries)
	}
}

type counting struct {
	http.RoundTripper
	n *int
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	*c.n++
	return c.RoundTripper.RoundTrip(r)
}

// TestTheLastCauseIsTold: what failed is told with the cloud's id of the request, also when the wait for the next attempt is cut short.
func TestTheLastCauseIsTold(t *testing.T) {
	t.Parallel()
	header := http.Header{"X-Request-Id": {"r-1"}}
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: header.Clone(), Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(ErrCancelled) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &RetryTransport{Base: base, Attempts: 2, First: time.Hour, Budget: 9 * time.Hour}}
	response, err := client.Do(request)
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("want an error")
	}
	told := RequestError(ctx, err)
	if !errors.Is(told, ErrCancelled) || told.Error() != "cancelled (the last answer was 503 Service Unavailable, request id r-1)" {
		t.Errorf("%v", told)
	}

	response, err = (&RetryTransport{Base: base, Attempts: 3, AttemptsHeader: "X-Tries", Budget: time.Minute}).RoundTrip(request.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := response.Header.Get("X-Tries"); got != "3" {
		t.Errorf("%q attempts", got)
	}
	gone := errors.New("connection reset")
	failing := roundTripper(func(*http.Request) (*http.Response, error) { return nil, gone })
	response, err = (&RetryTransport{Base: failing, Attempts: 3, Budget: time.Minute}).RoundTrip(request.WithContext(t.Context()))
	if response != nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, gone) || err.Error() != "after 3 attempts: connection reset" {
		t.Errorf("%v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
		wait := (&RetryTransport{First: low, Longest: high}).wait(nil, attempt)
		if wait < 0 || high > 0 && wait > high {
			t.Fatalf("waits %v", wait)
		}
	})
}
