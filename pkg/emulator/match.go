package emulator

import (
	"net/http"
	"strings"

	"github.com/pkg/errors"
)

// MatchPath tells whether a path is one of those that pattern stands for. A segment of the pattern is a text that is matched as
// it is, or * or {any name} for any one segment; ** at the end is for any number of them, also none.
//
//	/v2/kubernetes/clusters        the list of clusters alone
//	/v2/kubernetes/clusters/{id}   any one cluster
//	/v2/kubernetes/**              all of Kubernetes
func MatchPath(pattern, path string) bool {
	wanted, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, segment := range wanted {
		switch {
		case segment == "**" && i == len(wanted)-1:
			return true
		case i >= len(given):
			return false
		case isWildcard(segment):
			if given[i] == "" {
				return false
			}
		case segment != given[i]:
			return false
		}
	}
	return len(wanted) == len(given)
}

func isWildcard(segment string) bool {
	return segment == "*" || len(segment) > 2 && strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}")
}

// SplitRoute takes a route, a method or * and a pattern of [MatchPath] with a space between, apart. It fails when it is none.
func SplitRoute(route string) (method, pattern string, err error) {
	method, pattern, found := strings.Cut(route, " ")
	if !found || strings.ContainsAny(pattern, " ?#") || !strings.HasPrefix(pattern, "/") {
		return "", "", errors.Errorf(`route %q: want a method and a path, such as "POST /v2/kubernetes/clusters" or "* /v2/**"`, route)
	}
	switch method {
	case "*", http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return "", "", errors.Errorf("route %q: the method %q is none of GET, HEAD, POST, PUT, PATCH, DELETE and *", route, method)
	}
	segments := strings.Split(pattern, "/")
	for i, segment := range segments {
		wildcard := isWildcard(segment) || segment == "**" && i == len(segments)-1
		if !wildcard && strings.ContainsAny(segment, "*{}") {
			return "", "", errors.Errorf("route %q: the segment %q is neither a text, * or {name}, nor ** at the end", route, segment)
		}
	}
	return method, pattern, nil
}

// Matches tells whether the request has the method, any for "" or *, and a path that the pattern of [MatchPath] stands for.
func (r Request) Matches(method, pattern string) bool {
	return (method == "" || method == "*" || method == r.Method) && MatchPath(pattern, r.Path)
}

// Count tells how many of the requests match; see [Request.Matches]. With it, a test says "exactly one create":
//
//	emulator.Count(cloud.Requests(), http.MethodPost, "/v2/kubernetes/clusters") == 1
func Count(requests []Request, method, pattern string) int {
	n := 0
	for _, request := range requests {
		if request.Matches(method, pattern) {
			n++
		}
	}
	return n
}

// Count tells how many requests of the list match; see [Request.Matches].
func (l *Log) Count(method, pattern string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Count(l.requests, method, pattern)
}
