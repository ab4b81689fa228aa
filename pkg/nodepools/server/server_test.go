package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/pkg/errors"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/internal/openapi/prism"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/ui"
)

var _ server.Service = (*service.Service)(nil)

// The ids that the guide's examples name.
const (
	guideCluster = "550e8400-e29b-41d4-a716-446655440000"
	guidePool    = "123e4567-e89b-12d3-a456-426614174000"
)

// bench is the whole service, but for provisioning, on an address of its own. Each request and answer that goes through do is held
// against the OpenAPI document; with the validating proxy, each that its client makes, see proxy_test.go.
type bench struct {
	t      testing.TB
	server *server.Server
	http   *httptest.Server
	router routers.Router
	client *http.Client
}

// empty is a database without objects, made once: each test takes a copy, which costs less than making its tables.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "nodepools")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "nodepools.db")
	db, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func openStore(t testing.TB) *store.DB {
	t.Helper()
	content, err := empty()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nodepools.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// description is the OpenAPI document, read once. It must not be changed.
var description = sync.OnceValues(func() (*openapi3.T, error) { return openapi3.NewLoader().LoadFromData(server.Description()) })

func newBench(t testing.TB, change ...func(*server.Options)) *bench {
	t.Helper()
	db := openStore(t)
	core, err := service.New(service.Options{Store: db, Key: bytes.Repeat([]byte("k"), 32), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	roles := auth.Roles{
		{Subject: "controller@example.com", Role: auth.ControllerRole},
		{Subject: "admin@example.com", Role: auth.Admin},
		{Subject: "viewer@example.com", Role: auth.Viewer},
		{Subject: "*", Role: auth.Editor},
	}
	options := server.Options{
		Service: core, Authenticator: auth.Chain(auth.Header(roles, auth.LoopbackPeer)), Ready: db.Ping, Logger: slog.New(slog.DiscardHandler),
	}
	for _, change := range change {
		change(&options)
	}
	made, err := server.New(options)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, server: made, http: httptest.NewUnstartedServer(made)}
	b.http.Config = made.HTTPServer()
	b.http.Start()
	t.Cleanup(func() {
		made.EndStreams()
		b.http.Close()
	})
	b.client = b.http.Client()
	b.client.Timeout = time.Minute
	through(t, b.client)
	document, err := description()
	if err != nil {
		t.Fatal(err)
	}
	here := *document
	here.Servers = openapi3.Servers{{URL: b.http.URL}}
	if b.router, err = gorillamux.NewRouter(&here); err != nil {
		t.Fatal(err)
	}
	return b
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var result map[string]any
	if err := json.Unmarshal([]byte(a.body), &result); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return result
}

// at returns a part of the answer by its path, nil where there is none.
func (a answer) at(t testing.TB, path ...string) any {
	t.Helper()
	var at any = a.json(t)
	for _, step := range path {
		inner, _ := at.(map[string]any)
		at = inner[step]
	}
	return at
}

// request is a request to make: headers are "Name: value".
func (b *bench) request(method, path, body string, headers ...string) *http.Request {
	b.t.Helper()
	ctx := b.t.Context()
	if name, _, _ := strings.Cut(path, "?"); !strings.HasPrefix(name, "/api/") && !slices.Contains([]string{"/health", "/healthz", "/readyz", "/metrics"}, name) {
		ctx = prism.Direct(ctx, "pages for people, which the description does not have")
	}
	r, err := http.NewRequestWithContext(ctx, method, b.http.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body == "" {
		r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set(auth.UserHeader, "user@example.com")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if value == "" {
			r.Header.Del(name)
			continue
		}
		r.Header.Set(name, value)
	}
	return r
}

// do makes a request and holds it and its answer against the OpenAPI document.
func (b *bench) do(method, path, body string, headers ...string) answer {
	b.t.Helper()
	return b.send(b.request(method, path, body, headers...), body)
}

// malformed makes a request that is not as the description has it, on purpose.
func (b *bench) malformed(method, path, body string, headers ...string) answer {
	b.t.Helper()
	r := b.request(method, path, body, headers...)
	return b.send(r.WithContext(prism.Malformed(r.Context())), body)
}

func (b *bench) send(r *http.Request, body string) answer {
	b.t.Helper()
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	found := answer{response.StatusCode, response.Header, string(content)}
	b.checkDescribed(r, body, found)
	return found
}

// checkDescribed fails where the document does not describe what happened: a request that was taken must be valid by it, and every
// answer must be.
func (b *bench) checkDescribed(r *http.Request, body string, got answer) {
	b.t.Helper()
	route, params, err := b.router.FindRoute(r)
	if err != nil {
		// HEAD is what GET is, and a description need not describe itself.
		if got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed && r.Method != http.MethodHead && strings.HasPrefix(r.URL.Path, "/api/") {
			b.t.Errorf("%s %s answers %d and is not described: %v", r.Method, r.URL.Path, got.status, err)
		}
		return
	}
	again := r.Clone(context.Background())
	again.Body = io.NopCloser(strings.NewReader(body))
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true}
	input := &openapi3filter.RequestValidationInput{Request: again, PathParams: params, Route: route, Options: options}
	err = openapi3filter.ValidateRequest(context.Background(), input)
	if err != nil && got.status < 300 {
		b.t.Errorf("%s %s is taken (%d) and not valid by the description: %v", r.Method, r.URL, got.status, err)
	}
	output := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: got.status, Header: got.header, Options: options}
	output.SetBodyBytes([]byte(got.body))
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		b.t.Errorf("the answer to %s %s is not as described: %v\n%d %s", r.Method, r.URL, err, got.status, got.body)
	}
}

const gcpSpec = `{"platform":{"type":"gcp","gcp":{"machineType":"n1-standard-4","diskSize":100,"diskType":"pd-ssd"}},"nodeCount":3}`

// cluster makes the cluster that the guide's examples presume.
func (b *bench) cluster() {
	b.t.Helper()
	got := b.do("POST", "/api/v1/clusters", `{"id":"`+guideCluster+`","name":"production","spec":{"platform":{"type":"gcp"}}}`)
	if got.status != http.StatusCreated {
		b.t.Fatalf("create a cluster: %d %s", got.status, got.body)
	}
}

func (b *bench) pool(name string) answer {
	b.t.Helper()
	got := b.do("POST", "/api/v1/nodepools", `{"name":"`+name+`","cluster_id":"`+guideCluster+`","spec":`+gcpSpec+`}`)
	if got.status != http.StatusCreated {
		b.t.Fatalf("create a pool: %d %s", got.status, got.body)
	}
	return got
}

func expectError(t *testing.T, got answer, status int, code, details string) {
	t.Helper()
	if got.status != status || got.at(t, "error", "code") != code {
		t.Errorf("%d %s, want %d %s", got.status, got.body, status, code)
	}
	if text, _ := got.at(t, "error", "details").(string); !strings.Contains(text, details) {
		t.Errorf("details are %q and do not say %q", text, details)
	}
}

func TestLifeOfAPool(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cluster()
	created := b.do("POST", "/api/v1/clusters/"+guideCluster+"/nodepools", `{"id":"`+guidePool+`","name":"worker-pool-1","spec":`+gcpSpec+`}`)
	if created.status != http.StatusCreated || created.header.Get("Location") != "/api/v1/nodepools/"+guidePool {
		t.Fatalf("created: %d %v %s", created.status, created.header, created.body)
	}
	tag := created.header.Get("ETag")
	if want := `"` + created.at(t, "resource_version").(string) + `"`; tag != want {
		t.Errorf("ETag is %s, want %s", tag, want)
	}
	path := "/api/v1/nodepools/" + guidePool
	if got := b.do("GET", path, "", "If-None-Match: "+tag); got.status != http.StatusNotModified || got.body != "" {
		t.Errorf("read again what is there: %d %s", got.status, got.body)
	}
	for _, path := range []string{path, "/api/v1/clusters/" + guideCluster + "/nodepools/" + guidePool, path + "?cluster_id=" + guideCluster} {
		got := b.do("GET", path, "")
		if got.status != http.StatusOK || got.body != created.body || got.header.Get("ETag") != tag {
			t.Errorf("%s: %d %s\nwant %s", path, got.status, got.body, created.body)
		}
	}
	if got := b.do("GET", "/api/v1/clusters/"+guidePool+"/nodepools/"+guidePool, ""); got.status != http.StatusNotFound {
		t.Errorf("a pool under another cluster: %d", got.status)
	}
	expectError(t, b.do("GET", path, "", "If-Match: \"1\""), http.StatusPreconditionFailed, "PRECONDITION_FAILED", tag)

	updated := b.do("PUT", path, `{"name":"worker-pool-1","spec":`+strings.Replace(gcpSpec, `"nodeCount":3`, `"nodeCount":5`, 1)+`}`, "If-Match: "+tag)
	if updated.status != http.StatusOK || updated.at(t, "generation") != 2.0 || updated.header.Get("ETag") == tag {
		t.Errorf("update: %d %s", updated.status, updated.body)
	}
	expectError(t, b.do("PUT", path, `{"name":"worker-pool-1","spec":`+gcpSpec+`}`, "If-Match: "+tag), http.StatusPreconditionFailed, "PRECONDITION_FAILED", "")
	patched := b.do("PATCH", path, `{"spec":{"nodeCount":7}}`, "Content-Type: application/merge-patch+json")
	if patched.status != http.StatusOK || patched.at(t, "spec", "nodeCount") != 7.0 {
		t.Errorf("patch: %d %s", patched.status, patched.body)
	}
	report := `{"controller_name":"gcp-nodepool-controller","observed_generation":3,"conditions":[{"type":"Ready","status":"True","reason":"NodesReady"}]}`
	expectError(t, b.do("PUT", path+"/status", report), http.StatusForbidden, "FORBIDDEN", "")
	got := b.do("PUT", path+"/status", report, "X-User-Email: controller@example.com")
	if got.status != http.StatusOK || got.at(t, "status", "phase") != "Ready" {
		t.Errorf("report: %d %s", got.status, got.body)
	}
	if got := b.do("GET", path+"/status", ""); got.status != http.StatusOK || got.at(t, "nodepool_id") != guidePool {
		t.Errorf("status: %d %s", got.status, got.body)
	}
	for range 2 {
		if got := b.do("DELETE", path, ""); got.status != http.StatusNoContent || got.body != "" || got.header.Get("Content-Type") != "" {
			t.Errorf("delete: %d %v %q", got.status, got.header, got.body)
		}
	}
	if got := b.do("GET", path, ""); got.at(t, "status", "phase") != "Deleting" {
		t.Errorf("while it is deleted: %d %s", got.status, got.body)
	}
	for _, path := range []string{"/api/v1/events", "/api/v1/controllers", "/api/v1/webhooks"} {
		if got := b.do("GET", path, ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := b.do("GET", "/api/v1/audit", "", "X-User-Email: admin@example.com"); got.status != http.StatusOK {
		t.Errorf("audit: %d %s", got.status, got.body)
	}
	expectError(t, b.do("GET", "/api/v1/audit", ""), http.StatusForbidden, "FORBIDDEN", "")
}

func TestDryRunCreatesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cluster()
	got := b.do("POST", "/api/v1/nodepools?dry_run=true", `{"name":"one","cluster_id":"`+guideCluster+`","spec":`+gcpSpec+`}`)
	if got.status != http.StatusOK || got.header.Get("Location") != "" {
		t.Errorf("dry run: %d %v %s", got.status, got.header, got.body)
	}
	if got := b.do("GET", "/api/v1/nodepools", ""); !strings.HasPrefix(got.body, `{"nodepools":[],"total":0,"limit":50,"offset":0`) {
		t.Errorf("after a dry run: %s", got.body)
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cluster()
	body := `{"name":"one","cluster_id":"` + guideCluster + `","spec":` + gcpSpec + `}`
	first := b.do("POST", "/api/v1/nodepools", body, "Idempotency-Key: 1")
	again := b.do("POST", "/api/v1/nodepools", body, "Idempotency-Key: 1")
	if again.status != http.StatusCreated || again.body != first.body {
		t.Errorf("sent again: %d %s\nwant %s", again.status, again.body, first.body)
	}
	expectError(t, b.do("POST", "/api/v1/nodepools", strings.Replace(body, "one", "two", 1), "Idempotency-Key: 1"),
		http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED", "")
	expectError(t, b.malformed("POST", "/api/v1/nodepools", body, "Idempotency-Key: "+strings.Repeat("k", 256)),
		http.StatusBadRequest, "VALIDATION_ERROR", "Idempotency-Key")
}

// What the validating proxy does with a bad request.
const (
	passes    = ""          // by the description, nothing is wrong with it
	malformed = "malformed" // it must be called so
	notJSON   = "a body that is not JSON: the proxy waits for the rest of it, and never answers"
)

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *server.Options) { o.MaxBody = 4096 })
	b.cluster()
	b.pool("taken")
	pools, nested := "/api/v1/nodepools", "/api/v1/clusters/"+guideCluster+"/nodepools"
	for _, test := range []struct {
		reason               string
		method, path, body   string
		headers              []string
		status               int
		code, message, wants string
		proxy                string
	}{
		{"the guide's first error", "POST", nested, `{"spec":` + gcpSpec + `}`, nil, 400, "VALIDATION_ERROR", "Validation failed", "nodepool name is required", malformed},
		{"the guide's second error", "GET", pools + "/" + guidePool, "", nil, 404, "NOT_FOUND", "NodePool not found", "", passes},
		{"the guide's third error", "POST", nested, `{"name":"taken","spec":` + gcpSpec + `}`, nil, 409, "CONFLICT", "NodePool with name 'taken' already exists in cluster", "", passes},
		{"a field that there is not", "POST", nested, `{"name":"x","spec":` + gcpSpec + `,"colour":"red"}`, nil, 400, "VALIDATION_ERROR", "Validation failed", `line 1, column`, malformed},
		{"a field that there is not, deeper", "POST", nested, `{"name":"x","spec":{"replicas":3}}`, nil, 400, "VALIDATION_ERROR", "", `unknown field "replicas"`, malformed},
		{"a field twice", "POST", nested, `{"name":"x","name":"y"}`, nil, 400, "VALIDATION_ERROR", "", "duplicate field", malformed},
		{"no JSON", "POST", nested, `{"name":`, nil, 400, "VALIDATION_ERROR", "", "", notJSON},
		{"something after the object", "POST", nested, `{"name":"x"} {}`, nil, 400, "VALIDATION_ERROR", "", "", notJSON},
		{"an array", "POST", nested, `[]`, nil, 400, "VALIDATION_ERROR", "", "", malformed},
		{"null", "POST", nested, `null`, nil, 400, "VALIDATION_ERROR", "", "", malformed},
		{"no body", "POST", nested, "", []string{"Content-Type: application/json"}, 400, "VALIDATION_ERROR", "", "empty", malformed},
		{"a form, as curl sends without -H", "POST", nested, "name=x", []string{"Content-Type: application/x-www-form-urlencoded"}, 415, "UNSUPPORTED_MEDIA_TYPE", "", "application/json", malformed},
		{"no media type", "POST", nested, "{}", []string{"Content-Type: "}, 415, "UNSUPPORTED_MEDIA_TYPE", "", "application/json", malformed},
		{"a patch of another kind", "PATCH", pools + "/" + guidePool, "[]", []string{"Content-Type: application/json-patch+json"}, 415, "UNSUPPORTED_MEDIA_TYPE", "", "merge-patch", malformed},
		{"a compressed body", "POST", nested, "{}", []string{"Content-Encoding: gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE", "", "Content-Encoding", malformed},
		{"a body that is too large", "POST", nested, `{"name":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, "PAYLOAD_TOO_LARGE", "", "4 KiB", malformed},
		{"a body where none belongs", "DELETE", pools + "/" + guidePool, `{}`, nil, 400, "VALIDATION_ERROR", "", "no body", malformed},
		{"a parameter that there is not", "GET", pools + "?colour=red", "", nil, 400, "VALIDATION_ERROR", "", "has cluster_id, limit", passes},
		{"a parameter of a path that has none", "GET", "/api/v1/webhooks?limit=3", "", nil, 400, "VALIDATION_ERROR", "", "it has none", passes},
		{"a parameter twice", "GET", pools + "?limit=3&limit=4", "", nil, 400, "VALIDATION_ERROR", "", "once", malformed},
		{"no number", "GET", pools + "?limit=abc", "", nil, 400, "VALIDATION_ERROR", "", "whole number", malformed},
		{"a limit that is too low", "GET", pools + "?limit=0", "", nil, 400, "VALIDATION_ERROR", "", "limit", malformed},
		{"a limit that is too high", "GET", pools + "?limit=101", "", nil, 400, "VALIDATION_ERROR", "", "limit", malformed},
		{"an offset below zero", "GET", pools + "?offset=-1", "", nil, 400, "VALIDATION_ERROR", "", "offset", malformed},
		{"a phase that there is not", "GET", pools + "?status=Great", "", nil, 400, "VALIDATION_ERROR", "", "status", malformed},
		{"neither true nor false", "POST", pools + "?dry_run=yes", "{}", nil, 400, "VALIDATION_ERROR", "", "true or false", malformed},
		{"a cluster in path and query", "GET", nested + "?cluster_id=" + guideCluster, "", nil, 400, "VALIDATION_ERROR", "", "path", passes},
		{"a query that cannot be read", "GET", pools + "?limit=%zz", "", nil, 400, "VALIDATION_ERROR", "", "query", malformed},
		{"no id", "GET", pools + "/abc", "", nil, 400, "VALIDATION_ERROR", "", "UUID", malformed},
		{"a path that there is not", "GET", "/api/v1/machines", "", nil, 404, "NOT_FOUND", "Path not found", "openapi", passes},
		{"a path that there is not, beside the API", "GET", "/machines", "", nil, 404, "NOT_FOUND", "Path not found", "openapi", passes},
		{"a method that there is not", "PUT", pools, "{}", nil, 405, "METHOD_NOT_ALLOWED", "", "", passes},
		{"an override of the method", "POST", pools + "/" + guidePool, "a=b", []string{"X-HTTP-Method-Override: DELETE", "Content-Type: application/x-www-form-urlencoded"}, 405, "METHOD_NOT_ALLOWED", "", "", passes},
		{"nobody", "GET", pools, "", []string{"X-User-Email: "}, 401, "UNAUTHENTICATED", "Authentication is required", "Bearer", malformed},
		{"no address", "GET", pools, "", []string{"X-User-Email: user"}, 401, "UNAUTHENTICATED", "", "X-User-Email", passes},
		{"a viewer writes", "POST", nested, `{"name":"x","spec":` + gcpSpec + `}`, []string{"X-User-Email: viewer@example.com"}, 403, "FORBIDDEN", "", "", passes},
		{"an ETag without quotes", "PUT", pools + "/" + guidePool, `{"name":"x","spec":` + gcpSpec + `}`, []string{"If-Match: 12"}, 404, "NOT_FOUND", "", "", passes},
		{"a watch from nowhere", "GET", "/api/v1/watch?since=abc", "", nil, 400, "VALIDATION_ERROR", "", "revision", passes},
	} {
		t.Run(test.reason, func(t *testing.T) {
			b := *b
			b.t = t
			var got answer
			switch test.proxy {
			case passes:
				got = b.do(test.method, test.path, test.body, test.headers...)
			case malformed:
				got = b.malformed(test.method, test.path, test.body, test.headers...)
			default:
				r := b.request(test.method, test.path, test.body, test.headers...)
				got = b.send(r.WithContext(prism.Direct(r.Context(), test.proxy)), test.body)
			}
			expectError(t, got, test.status, test.code, test.wants)
			if text := got.at(t, "error", "message"); test.message != "" && text != test.message {
				t.Errorf("message is %q, want %q", text, test.message)
			}
			if got.header.Get("Content-Type") != "application/json" || got.header.Get("X-Request-Id") == "" {
				t.Errorf("headers %v", got.header)
			}
			switch test.status {
			case http.StatusMethodNotAllowed:
				if got.header.Get("Allow") == "" {
					t.Error("no header Allow")
				}
			case http.StatusUnauthorized:
				if got.header.Get("WWW-Authenticate") == "" {
					t.Error("no header WWW-Authenticate")
				}
			}
		})
	}
}

func TestHeadersGivenTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"X-User-Email", "If-Match", "Idempotency-Key"} {
		r := b.request("GET", "/api/v1/nodepools", "")
		r.Header[name] = []string{"a@example.com", "b@example.com"}
		r = r.WithContext(prism.Direct(r.Context(), "the same header twice: the proxy makes one of them"))
		if got := b.send(r, ""); got.status != http.StatusBadRequest && got.status != http.StatusUnauthorized || !strings.Contains(got.body, "once") {
			t.Errorf("%s twice: %d %s", name, got.status, got.body)
		}
	}
}

func TestListsPageAndFilter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cluster()
	for _, name := range []string{"a", "b", "c"} {
		b.pool(name)
	}
	first := b.do("GET", "/api/v1/nodepools?limit=2", "")
	cursor, _ := first.at(t, "next_cursor").(string)
	if first.at(t, "total") != 3.0 || len(first.at(t, "nodepools").([]any)) != 2 || cursor == "" {
		t.Fatalf("first page: %s", first.body)
	}
	second := b.do("GET", "/api/v1/nodepools?limit=2&cursor="+cursor, "")
	if len(second.at(t, "nodepools").([]any)) != 1 || second.at(t, "next_cursor") != nil {
		t.Errorf("second page: %s", second.body)
	}
	if got := b.do("GET", "/api/v1/nodepools?limit=10&status=Ready", ""); got.at(t, "total") != 0.0 || got.at(t, "limit") != 10.0 {
		t.Errorf("none is Ready: %s", got.body)
	}
	if got := b.do("GET", "/api/v1/nodepools", "", "X-User-Email: other@example.com"); got.at(t, "total") != 0.0 {
		t.Errorf("another sees %s", got.body)
	}
	if got := b.do("GET", "/api/v1/clusters?platform=gcp", ""); got.at(t, "total") != 1.0 {
		t.Errorf("clusters: %s", got.body)
	}
}

func TestWatchGoesOnFromARevision(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *server.Options) { o.Heartbeat = 50 * time.Millisecond })
	b.cluster()
	start := b.do("GET", "/api/v1/nodepools", "").at(t, "resource_version").(string)
	b.pool("a")
	types, last := b.events("/api/v1/watch?since="+start, "", 1)
	if !slices.Equal(types, []string{"nodepool.created"}) || last == "" {
		t.Fatalf("events %v, last %q", types, last)
	}
	b.pool("b")
	types, _ = b.events("/api/v1/watch?since="+start, "", 2)
	if !slices.Equal(types, []string{"nodepool.created", "nodepool.created"}) {
		t.Errorf("events since %s: %v", start, types)
	}
	// The header goes before the query, and what was seen does not come again.
	types, next := b.events("/api/v1/watch?since="+start, last, 1)
	if !slices.Equal(types, []string{"nodepool.created"}) || next == last {
		t.Errorf("events after %s: %v, last %s", last, types, next)
	}
	// An idle watch is open and says so.
	r := b.request("GET", "/api/v1/watch", "")
	response, err := b.client.Do(r.WithContext(prism.Direct(r.Context(), endless)))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	var heard []string
	for len(heard) < 2 && lines.Scan() {
		if lines.Text() != "" {
			heard = append(heard, lines.Text())
		}
	}
	if !slices.Equal(heard, []string{": open", ": still here"}) && !slices.Equal(heard, []string{": still here", ": still here"}) {
		t.Errorf("an idle watch says %q", heard)
	}
	// The end of the service ends it.
	b.server.EndStreams()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the watch breaks rather than ends: %v", err)
	}
	_ = response.Body.Close()
	expectError(t, b.do("GET", "/api/v1/watch", ""), http.StatusServiceUnavailable, "UNAVAILABLE", "again")
}

// endless is why watches go past the validating proxy.
const endless = "server-sent events: the proxy reads an answer to its end before it passes it on, and a watch has none"

// events reads so many events of a watch: their types, and the last id.
func (b *bench) events(path, lastID string, count int) (types []string, last string) {
	b.t.Helper()
	r := b.request("GET", path, "", "Last-Event-ID: "+lastID)
	ctx, cancel := context.WithCancel(prism.Direct(r.Context(), endless))
	defer cancel()
	response, err := b.client.Do(r.WithContext(ctx))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("watch: %d %v", response.StatusCode, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	for len(types) < count && lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			last = value
		case "event":
			types = append(types, value)
		case "data":
			var event map[string]any
			if err := json.Unmarshal([]byte(value), &event); err != nil || event["nodepool"] == nil && event["cluster"] == nil {
				b.t.Errorf("event %s: %v", value, err)
			}
		}
	}
	return types, last
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got := b.do("GET", "/api/v1/nodepools", "", "X-Request-Id: mine-1"); got.header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("id %q", got.header.Get("X-Request-Id"))
	}
	if got := b.do("GET", "/api/v1/nodepools", "", "X-Request-Id: no id"); got.header.Get("X-Request-Id") == "no id" {
		t.Error("an id with a space is taken")
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	b := newBench(t, func(o *server.Options) {
		o.Version, o.Commit = "v1.2.3", "abc"
		o.Alive = func() error {
			if stuck.Load() {
				return errors.New("in the SQL")
			}
			return nil
		}
	})
	for _, path := range []string{"/healthz", "/readyz", "/health", "/openapi.json", "/docs", "/docs/docs.js", "/docs/docs.css"} {
		if got := b.do("GET", path, "", "X-User-Email: "); got.status != http.StatusOK || got.body == "" {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	if got := b.do("HEAD", "/api/v1/nodepools", ""); got.status != http.StatusOK || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
	if got := b.malformed("GET", "/metrics", "", "X-User-Email: "); got.status != http.StatusUnauthorized {
		t.Errorf("metrics for anybody: %d", got.status)
	}
	if got := b.do("GET", "/metrics", ""); !strings.Contains(got.body, `nodepools_http_requests_total{code="200",method="HEAD",route="/api/v1/nodepools"} 1`) {
		t.Errorf("metrics: %s", got.body)
	}
	if got := b.do("GET", "/metrics", ""); !strings.Contains(got.body, `nodepools_build_info{commit="abc",goversion="go`) || !strings.Contains(got.body, `version="v1.2.3"} 1`) {
		t.Errorf("the version in the metrics: %s", got.body)
	}
	if got := b.do("OPTIONS", "/api/v1/nodepools", "", "Origin: https://example.com"); got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another site is let in: %v", got.header)
	}
	stuck.Store(true)
	if got := b.do("GET", "/healthz", ""); got.status != http.StatusServiceUnavailable || got.body != "to be started anew\n" {
		t.Errorf("stuck: %d %s", got.status, got.body)
	}
	stuck.Store(false)
	b.server.Drain()
	if got := b.do("GET", "/readyz", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("ready while it ends: %d", got.status)
	}
	if got := b.do("GET", "/healthz", ""); got.status != http.StatusOK {
		t.Errorf("dead while it ends: %d", got.status)
	}
}

// TestReadinessAsksSeldom: many who ask whether the service is ready cost the database one question, and one who hangs up does not make it
// unready for the others.
func TestReadinessAsksSeldom(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	b := newBench(t, func(o *server.Options) {
		o.Ready = func(ctx context.Context) error {
			asked.Add(1)
			return ctx.Err()
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	for _, ctx := range []context.Context{gone, t.Context(), t.Context(), t.Context()} {
		out := httptest.NewRecorder()
		b.server.ServeHTTP(out, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
		if out.Code != http.StatusOK {
			t.Errorf("%d %s", out.Code, out.Body)
		}
	}
	if most := 1 + int32(time.Since(start)/(250*time.Millisecond)); asked.Load() > most {
		t.Errorf("the database was asked %d times", asked.Load())
	}
}

func TestRateLimitIsEachUsersOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *server.Options) { o.Rate = server.Rate{PerSecond: 0.001, Burst: 2} })
	for i, want := range []int{200, 200, 429} {
		got := b.do("GET", "/api/v1/nodepools", "")
		if got.status != want {
			t.Errorf("request %d: %d, want %d", i, got.status, want)
		}
		if want == 429 && got.header.Get("Retry-After") == "" {
			t.Error("no header Retry-After")
		}
	}
	if got := b.do("GET", "/api/v1/nodepools", "", "X-User-Email: other@example.com"); got.status != http.StatusOK {
		t.Errorf("another user: %d", got.status)
	}
}

// TestRateLimitOfTheUnknown: who is not known is bounded by the address, over REST and gRPC together, and holds up nobody who is known.
func TestRateLimitOfTheUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *server.Options) { o.UnknownRate = server.Rate{PerSecond: 0.001, Burst: 3} })
	for i, test := range []struct {
		header string
		status int
	}{
		{"X-User-Email: nobody", http.StatusUnauthorized},
		{"Authorization: Bearer npt_guessed", http.StatusUnauthorized},
		{"X-User-Email: user@example.com", http.StatusOK},
		{"X-User-Email: nobody", http.StatusUnauthorized},
		{"X-User-Email: nobody", http.StatusTooManyRequests},
		{"Authorization: Bearer npt_guessed", http.StatusTooManyRequests},
		{"X-User-Email: user@example.com", http.StatusOK},
	} {
		headers := []string{test.header}
		if strings.HasPrefix(test.header, "Authorization") {
			headers = append(headers, "X-User-Email: ")
		}
		got := b.do("GET", "/api/v1/nodepools", "", headers...)
		if got.status != test.status || got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") == "" {
			t.Errorf("request %d, %s: %d %v %s", i, test.header, got.status, got.header, got.body)
		}
	}
	connection := dial(t, strings.TrimPrefix(b.http.URL, "http://"), insecure.NewCredentials())
	_, err := nodepoolsv1.NewNodePoolServiceClient(connection).ListNodePools(t.Context(), &nodepoolsv1.ListNodePoolsRequest{})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("over gRPC: %v", err)
	}
	// What a probe of life asks is answered to everyone.
	if got := b.do("GET", "/healthz", "", "X-User-Email: "); got.status != http.StatusOK {
		t.Errorf("healthz: %d", got.status)
	}
}

func TestDescriptionAndRoutesAgree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	document, err := description()
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			if path == "/api/v1/watch" {
				continue // it would go on for ever, and has tests of its own
			}
			r := b.request(method, strings.NewReplacer("{id}", guidePool, "{cluster_id}", guideCluster, "{name}", "x").Replace(path), "")
			if operation.RequestBody != nil {
				r = r.WithContext(prism.Malformed(r.Context())) // there is none
			}
			got := b.send(r, "")
			if strings.Contains(got.body, "Path not found") || got.status == http.StatusMethodNotAllowed || got.status >= http.StatusInternalServerError {
				t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
			}
			served++
		}
	}
	if served < 30 {
		t.Errorf("only %d operations are described", served)
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newBench(t, func(o *server.Options) {
		o.Service = broken{o.Service}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	got := b.do("GET", "/api/v1/nodepools", "", "X-Request-Id: here")
	expectError(t, got, http.StatusInternalServerError, "INTERNAL", "")
	if strings.Contains(got.body, "secret") || got.at(t, "error", "request_id") != "here" {
		t.Errorf("%s", got.body)
	}
	if got := b.do("GET", "/api/v1/watch", ""); got.status != http.StatusInternalServerError || strings.Contains(got.body, "secret") {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.http.Close() // so that the log is whole
	if !strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "request_id=here") {
		t.Errorf("the log does not tell: %s", log.String())
	}
}

// broken panics.
type broken struct{ server.Service }

func (broken) RawNodePools(context.Context, *nodepoolsv1.ListNodePoolsRequest) ([][]byte, *nodepoolsv1.ListNodePoolsResponse, error) {
	panic("secret state")
}

func (broken) Watch(context.Context, *nodepoolsv1.WatchEventsRequest, func(*events.Entry) error) error {
	panic("secret state")
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *server.Options) { o.Authenticator = auth.Header(auth.Everyone(auth.Editor), auth.UnixPeer) })
	if got := b.do("GET", "/api/v1/nodepools", ""); got.status != http.StatusUnauthorized {
		t.Errorf("over TCP: %d", got.status)
	}
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	over := b.server.HTTPServer()
	go func() { _ = over.Serve(listener) }()
	t.Cleanup(func() { _ = over.Close() })
	b.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	if got := b.do("GET", "/api/v1/nodepools", ""); got.status != http.StatusOK {
		t.Errorf("over the socket: %d %s", got.status, got.body)
	}
}

func TestLogLine(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := newBench(t, func(o *server.Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) })
	b.do("GET", "/api/v1/nodepools?name=x", "", "X-Request-Id: 7", "Authorization: Bearer npt_hidden")
	b.http.Close()
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	if line["request_id"] != "7" || line["status"] != 401.0 || line["path"] != "/api/v1/nodepools" || line["code"] != "UNAUTHENTICATED" {
		t.Errorf("%s", log.String())
	}
	if strings.Contains(log.String(), "hidden") {
		t.Errorf("the log holds the token: %s", log.String())
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	b := newBench(t, func(o *server.Options) { o.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)) })
	b.do("GET", "/api/v1/nodepools", "", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	b.http.Close()
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Name() != "GET /api/v1/nodepools" || ended[0].SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("spans %v", ended)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if got := b.do("GET", "/", ""); got.status != http.StatusFound || got.header.Get("Location") != "/docs" {
		t.Errorf("without a page: %d %v", got.status, got.header)
	}
	b = newBench(t, func(o *server.Options) { o.Page = ui.Handler() })
	for _, path := range []string{"/", "/app.js", "/app.css"} {
		if got := b.do("GET", path, "", "X-User-Email: "); got.status != http.StatusOK || got.body == "" {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	expectError(t, b.do("GET", "/api/none", ""), http.StatusNotFound, "NOT_FOUND", "")
}
