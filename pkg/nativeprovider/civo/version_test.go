package civo

import (
	"fmt"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

func TestARefusalTellsTheRequestAndTheAttempts(t *testing.T) {
	t.Parallel()
	response := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"X-Request-Id": {"r-1"}, "X-Attempts": {"5"}}}
	err := refusal("GET", "/x", response, []byte(`{"code":"down","reason":"later"}`))
	if want := "civo API: GET /x: 503 Service Unavailable down: later, after 5 attempts (request id r-1)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if err := refusal("GET", "/x", &http.Response{StatusCode: http.StatusServiceUnavailable}, []byte(`{"request_id":"r-2"}`)); err.Error() !=
		"civo API: GET /x: 503 Service Unavailable (request id r-2)" {
		t.Errorf("%q", err)
	}
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
		const path = "/v2/networks/x"
		err := refusal("GET", path, &http.Response{StatusCode: status}, answer)
		if err == nil || err.Error() == "" {
			t.Fatal("a refusal must be an error")
		}
		if nativeprovider.IsNotFound(err) && !hasCode(err, notFoundCodes(path)...) {
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
