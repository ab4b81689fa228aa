package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
)

// FuzzQuery: whatever stands in the query of a list or a watch, the answer is 200, or says which parameters cannot be; and what a list
// answers leads to its next page.
func FuzzQuery(f *testing.F) {
	b := newBench(f)
	b.cluster()
	for _, name := range []string{"one", "two", "three"} {
		body := `{"name":"` + name + `","cluster_id":"` + guideCluster + `","spec":` + gcpSpec + `}`
		if got := b.do("POST", "/api/v1/nodepools", body); got.status != http.StatusCreated {
			f.Fatal(got)
		}
	}
	lists := []string{"cluster_id", "cursor", "health", "label", "limit", "name", "needs_reconcile", "offset", "platform", "status"}
	paths := []struct {
		path   string
		fields []string // its parameters
	}{
		{"/api/v1/nodepools", lists},
		{"/api/v1/clusters/" + guideCluster + "/nodepools", lists},
		{"/api/v1/clusters", []string{"cursor", "health", "limit", "name", "needs_reconcile", "offset", "platform", "status"}},
		{"/api/v1/events", []string{"before", "cluster_id", "limit", "object_id"}},
		{"/api/v1/audit", []string{"actor", "before", "limit", "object_id"}},
		{"/api/v1/watch", []string{"cluster_id", "object_id", "platform", "since"}},
	}
	for i := range paths {
		f.Add(uint8(i), "limit=1&offset=0")
		f.Add(uint8(i), "limit=010")
		f.Add(uint8(i), "limit=08&needs_reconcile=true")
		f.Add(uint8(i), "since=0&platform=gcp")
		f.Add(uint8(i), "status=Pending&health=unknown&platform=gcp&label=a&label=b%3Dc&cluster_id="+guideCluster)
		f.Add(uint8(i), "name=%ff&object_id=%ff&actor=%00&before=-1&cursor=x")
		f.Add(uint8(i), "limit=%zz;a&limit=1&limit=2&unknown")
	}
	f.Fuzz(func(t *testing.T, which uint8, query string) {
		tried := paths[int(which)%len(paths)]
		get := func(query string) *firstWords {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, tried.path, nil)
			r.URL.RawQuery = query
			r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
			r.Header.Set(auth.UserHeader, "admin@example.com")
			w := &firstWords{ResponseRecorder: httptest.NewRecorder()}
			if strings.HasSuffix(tried.path, "/watch") {
				w.end = cancel
			}
			b.server.ServeHTTP(w, r)
			return w
		}
		got := get(query)
		switch got.Code {
		case http.StatusOK:
		case http.StatusNotFound, http.StatusGone:
			// Of a cluster that there is none of, and of a revision that is none yet.
			missing := map[int]string{http.StatusNotFound: "cluster_id", http.StatusGone: "since"}[got.Code]
			if values, err := url.ParseQuery(query); err != nil || values.Get(missing) == "" {
				t.Fatalf("%s?%s answers %d %s", tried.path, query, got.Code, got.Body)
			}
			return
		case http.StatusBadRequest:
			checkViolations(t, query, got.Body.Bytes(), tried.fields)
			return
		default:
			t.Fatalf("%s?%s answers %d %s", tried.path, query, got.Code, got.Body)
		}
		if got.end != nil {
			return
		}
		var page struct {
			Nodepools, Clusters []struct{ ID string }
			Limit               int
			NextCursor          string `json:"next_cursor"`
		}
		if err := json.Unmarshal(got.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatalf("%q is taken: %v", query, err)
		}
		if limit := strings.TrimLeft(values.Get("limit"), "+0"); limit != "" && page.Limit != 0 && limit != strconv.Itoa(page.Limit) {
			t.Errorf("the limit %q is read as %d", values.Get("limit"), page.Limit)
		}
		if page.NextCursor == "" {
			return
		}
		first := slices.Concat(page.Nodepools, page.Clusters)
		values.Del("offset")
		values.Set("cursor", page.NextCursor)
		if got = get(values.Encode()); got.Code != http.StatusOK {
			t.Fatalf("the next page of %s?%s answers %d %s", tried.path, query, got.Code, got.Body)
		}
		page.Nodepools, page.Clusters = nil, nil
		if err := json.Unmarshal(got.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, object := range slices.Concat(page.Nodepools, page.Clusters) {
			if slices.Contains(first, object) {
				t.Errorf("%s?%s: %s is on two pages", tried.path, query, object.ID)
			}
		}
	})
}

// checkViolations checks that a refusal names parameters of the query that cannot be. One that cannot be read has none.
func checkViolations(t *testing.T, query string, body []byte, fields []string) {
	t.Helper()
	var refusal struct {
		Error struct {
			Code, Details string
			Violations    []struct{ Field, Rule string }
		}
	}
	if err := json.Unmarshal(body, &refusal); err != nil || refusal.Error.Code != "VALIDATION_ERROR" || refusal.Error.Details == "" {
		t.Fatalf("%q is refused with %s (%v)", query, body, err)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return
	}
	if len(refusal.Error.Violations) == 0 {
		t.Errorf("%q is refused, and no parameter is named: %s", query, body)
	}
	for _, violation := range refusal.Error.Violations {
		name, _, _ := strings.Cut(violation.Field, "[")
		if violation.Rule != "query.unknown" && (!slices.Contains(fields, name) || !values.Has(name)) {
			t.Errorf("%q is refused for %q: %s", query, violation.Field, body)
		}
	}
}

// firstWords ends a request as soon as something is answered, where it would go on.
type firstWords struct {
	*httptest.ResponseRecorder
	end func()
}

func (w *firstWords) Write(data []byte) (int, error) {
	if w.end != nil {
		w.end()
	}
	return w.ResponseRecorder.Write(data)
}
