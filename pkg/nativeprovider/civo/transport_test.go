package civo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pkg/errors"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

func TestRetryTransport(t *testing.T) {
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
			response, err := (&retryTransport{base: newTransport(), attempts: 4, first: time.Millisecond, budget: time.Second}).RoundTrip(request)
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

func TestRetryTransportEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(50*time.Millisecond, func() { cancel(nativeprovider.ErrCancelled) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	response, err := (&retryTransport{base: newTransport(), attempts: 9, first: time.Hour, budget: 9 * time.Hour}).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, nativeprovider.ErrCancelled) || time.Since(start) > 10*time.Second {
		t.Errorf("error %v after %s", err, time.Since(start))
	}
}

func TestUnreachableEndpoint(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close()
	tries := 0
	transport := &retryTransport{attempts: 3, first: time.Millisecond, budget: time.Second, base: counting{newTransport(), &tries}}
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

func TestVersionsAreOrdered(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b string
		want bool
	}{
		{"1.28.7-k3s1", "1.29.0-k3s1", true},
		{"1.29.0-k3s1", "1.28.7-k3s1", false},
		{"1.9.0-k3s1", "1.10.0-k3s1", true},
		{"v1.29.0+k3s1", "1.29.0-k3s2", true},
		{"1.29.0-k3s1", "v1.29.0+k3s1", false},
		{"1.29.0-k3s9", "1.29.0-k3s10", true},
		{"talos-v1.5.0", "talos-v1.6.7", true},
		{"talos-v1.5.0", "1.29.0-k3s1", false},
		{"something else", "1.29.0-k3s1", false},
	}
	for _, test := range tests {
		if got := lower(test.a, test.b); got != test.want {
			t.Errorf("lower(%q, %q) = %t", test.a, test.b, got)
		}
	}
	version := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 12)
		return fmt.Sprintf("%d.%d.%d-k3s%d", n.Draw(t, "major"), n.Draw(t, "minor"), n.Draw(t, "patch"), n.Draw(t, "k3s"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := version.Draw(t, "a"), version.Draw(t, "b"), version.Draw(t, "c")
		if lower(a, b) && lower(b, a) {
			t.Fatal("both are lower")
		}
		if !lower(a, b) && !lower(b, a) && !equalVersion(a, b) {
			t.Fatal("neither is lower, and they differ")
		}
		if lower(a, b) && lower(b, c) && !lower(a, c) {
			t.Fatal("not transitive")
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(404, []byte(`{"code":"database_network_not_found","reason":"gone"}`))
	f.Add(500, []byte(`{"code":1,"reason":{},"details":[]}`))
	f.Add(404, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, answer []byte) {
		err := refusal("GET /x", status, answer)
		if err == nil || err.Error() == "" {
			t.Fatal("a refusal must be an error")
		}
		if nativeprovider.IsNotFound(err) && !hasCode(err, notFoundCodes...) {
			t.Fatal("not found without Civo saying so")
		}
	})
}

func FuzzVersion(f *testing.F) {
	for _, seed := range []string{"1.28.7-k3s1", "v1.29.0+k3s1", "talos-v1.5.0", ""} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if lower(a, b) && lower(b, a) {
			t.Fatalf("%q and %q are both lower", a, b)
		}
	})
}
