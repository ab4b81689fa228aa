package emulator

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestMatchPath(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, pattern, path string
		want                  bool
	}{
		{"the same", "/v2/vpcs", "/v2/vpcs", true},
		{"a longer path", "/v2/vpcs", "/v2/vpcs/1", false},
		{"a shorter path", "/v2/vpcs/{id}", "/v2/vpcs", false},
		{"another text", "/v2/vpcs", "/v2/firewalls", false},
		{"a name for a segment", "/v2/vpcs/{id}", "/v2/vpcs/1", true},
		{"a star for a segment", "/v2/*/1", "/v2/vpcs/1", true},
		{"a segment that is empty is none", "/v2/vpcs/{id}", "/v2/vpcs/", false},
		{"two stars for many", "/v2/**", "/v2/kubernetes/clusters/1", true},
		{"two stars for none", "/v2/vpcs/**", "/v2/vpcs", true},
		{"two stars for an empty one", "/v2/vpcs/**", "/v2/vpcs/", true},
		{"everything", "/**", "/", true},
		{"two stars in between are a text", "/**/pools", "/v2/pools", false},
	} {
		t.Run(test.reason, func(t *testing.T) {
			if got := MatchPath(test.pattern, test.path); got != test.want {
				t.Errorf("%q and %q: %v", test.pattern, test.path, got)
			}
		})
	}
}

func TestSplitRoute(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, route, method, pattern string
	}{
		{"a method and a path", "POST /v2/vpcs", "POST", "/v2/vpcs"},
		{"any method, any path", "* /**", "*", "/**"},
		{"names", "DELETE /v2/kubernetes/clusters/{cluster}/pools/*", "DELETE", "/v2/kubernetes/clusters/{cluster}/pools/*"},
		{"no method", "/v2/vpcs", "", ""},
		{"no path", "POST", "", ""},
		{"a path that begins nowhere", "POST v2/vpcs", "", ""},
		{"a method that is none", "post /v2/vpcs", "", ""},
		{"two spaces", "POST  /v2/vpcs", "", ""},
		{"a query", "GET /v2/vpcs?page=1", "", ""},
		{"two stars in between", "GET /**/pools", "", ""},
		{"a name that does not end", "GET /v2/{id", "", ""},
		{"a name that is empty", "GET /v2/{}", "", ""},
		{"nothing", "", "", ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			method, pattern, err := SplitRoute(test.route)
			if method != test.method || pattern != test.pattern || (err == nil) != (test.method != "") {
				t.Errorf("%q %q %v", method, pattern, err)
			}
		})
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	var log Log
	handler := Handler(Options{Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodDelete {
			NoteFault(r, "first")
			NoteFault(r, "second")
		}
		next.ServeHTTP(w, r)
	}}, &log, http.NotFoundHandler())
	for _, call := range [][2]string{{"POST", "/v2/vpcs"}, {"GET", "/v2/vpcs/1"}, {"GET", "/v2/vpcs/2"}, {"DELETE", "/v2/vpcs/2"}} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(call[0], call[1], nil))
	}
	for _, test := range []struct {
		method, pattern string
		want            int
	}{
		{"POST", "/v2/vpcs", 1}, {"GET", "/v2/vpcs/{id}", 2}, {"", "/v2/vpcs/2", 2}, {"*", "/**", 4}, {"PUT", "/**", 0},
	} {
		if got := log.Count(test.method, test.pattern); got != test.want {
			t.Errorf("%s %s: %d, want %d", test.method, test.pattern, got, test.want)
		}
		if got := Count(log.Requests(), test.method, test.pattern); got != test.want {
			t.Errorf("%s %s: %d of the copy, want %d", test.method, test.pattern, got, test.want)
		}
	}
	for _, request := range log.Requests() {
		if want := request.Method == http.MethodDelete; (len(request.Faults) == 2) != want {
			t.Errorf("%s: faults %v", request.Method, request.Faults)
		}
	}
	NoteFault(httptest.NewRequest(http.MethodGet, "/", nil), "outside of a cloud")
}
