package server_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

const asAdmin = "X-User-Email: admin@example.com"

// TestVersionsOfWrites: each way to say which version a write is meant for, with the one that is there and with one from before.
func TestVersionsOfWrites(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cluster()
	const merge = "Content-Type: application/merge-patch+json"
	pools := "/api/v1/nodepools"
	for i, test := range []struct {
		reason, method, query, body, header string
		stale                               bool // "%s" in query, body and header is an old version
		status                              int
		code                                string
	}{
		{"a PUT of the version in the header", "PUT", "", `{"name":"%n","spec":` + gcpSpec + `}`, `If-Match: "%s"`, false, 200, ""},
		{"a PUT of an older one", "PUT", "", `{"name":"%n","spec":` + gcpSpec + `}`, `If-Match: "%s"`, true, 412, "PRECONDITION_FAILED"},
		{"a PUT of whatever is there", "PUT", "", `{"name":"%n","spec":` + gcpSpec + `}`, `If-Match: *`, true, 200, ""},
		{"a weak tag is none for a write", "PUT", "", `{"name":"%n","spec":` + gcpSpec + `}`, `If-Match: W/"%s"`, false, 412, "PRECONDITION_FAILED"},
		{"a PUT of the version in the body", "PUT", "", `{"name":"%n","resource_version":"%s","spec":` + gcpSpec + `}`, "", false, 200, ""},
		{"a PUT of an older one in the body", "PUT", "", `{"name":"%n","resource_version":"%s","spec":` + gcpSpec + `}`, "", true, 409, "CONFLICT"},
		{"a PATCH of an older one in the body", "PATCH", "", `{"resource_version":"%s","spec":{"nodeCount":9}}`, "", true, 409, "CONFLICT"},
		{"a PATCH of an older one in the header", "PATCH", "", `{"spec":{"nodeCount":9}}`, `If-Match: "%s"`, true, 412, "PRECONDITION_FAILED"},
		{"a DELETE of an older one in the query", "DELETE", "?resource_version=%s", "", "", true, 409, "CONFLICT"},
		{"a DELETE of an older one in the header", "DELETE", "", "", `If-Match: "%s"`, true, 412, "PRECONDITION_FAILED"},
		{"a DELETE of the version that is there", "DELETE", "?resource_version=%s", "", `If-Match: "%s"`, false, 204, ""},
	} {
		name := fmt.Sprintf("pool-%d", i)
		pool := b.pool(name)
		old, id := pool.at(t, "resource_version").(string), pool.at(t, "id").(string)
		now := b.do("PATCH", pools+"/"+id, `{"spec":{"nodeCount":5}}`, merge).at(t, "resource_version").(string)
		version := now
		if test.stale {
			version = old
		}
		fill := strings.NewReplacer("%s", version, "%n", name)
		var headers []string
		if test.method == "PATCH" {
			headers = append(headers, merge)
		}
		if test.header != "" {
			headers = append(headers, fill.Replace(test.header))
		}
		got := b.do(test.method, pools+"/"+id+fill.Replace(test.query), fill.Replace(test.body), headers...)
		if got.status != test.status || test.code != "" && got.at(t, "error", "code") != test.code {
			t.Errorf("%s: %d %s, want %d %s", test.reason, got.status, got.body, test.status, test.code)
		}
		if test.status >= 400 {
			if kept := b.do("GET", pools+"/"+id, ""); kept.at(t, "resource_version") != now {
				t.Errorf("%s: it was refused, and changed the pool: %s", test.reason, kept.body)
			}
		}
	}
	// A create that must be one: the name is taken.
	taken := `{"name":"pool-0","cluster_id":"` + guideCluster + `","spec":` + gcpSpec + `}`
	expectError(t, b.do("POST", pools, taken, "If-None-Match: *"), http.StatusPreconditionFailed, "PRECONDITION_FAILED", "")
	expectError(t, b.do("POST", pools, taken), http.StatusConflict, "CONFLICT", "")
}

// TestForcedDeletion: only an administrator forgets what controllers still hold; the audit log says who did, and what there was.
func TestForcedDeletion(t *testing.T) {
	t.Parallel()
	b := guideBench(t, "pool")
	path := "/api/v1/nodepools/" + guidePool
	b.do("PUT", path+"/status", report(1, ready), asController)
	expectError(t, b.do("DELETE", path+"?force=true", ""), http.StatusForbidden, "FORBIDDEN", "")
	if got := b.do("DELETE", path, ""); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := b.do("DELETE", path+"?force=true", "", asAdmin); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	expectError(t, b.do("GET", path, ""), http.StatusNotFound, "NOT_FOUND", "")
	entries := b.do("GET", "/api/v1/audit?object_id="+guidePool, "", asAdmin, "X-Request-Id: reads").at(t, "entries").([]any)
	last := entries[0].(map[string]any)
	if last["action"] != "force-delete" || last["actor"] != "admin@example.com" || !strings.Contains(last["before"].(string), `"name":"pool"`) || last["request_id"] == "" {
		t.Errorf("the audit log says %v", last)
	}
	// With its pools, a cluster goes the same way.
	b.do("PUT", "/api/v1/nodepools/"+b.pool("pool").at(t, "id").(string)+"/status", report(1, ready), asController)
	if got := b.do("DELETE", "/api/v1/clusters/"+guideCluster+"?force=true", "", asAdmin); got.status != http.StatusNoContent {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := b.do("GET", "/api/v1/nodepools", "", asAdmin); got.at(t, "total") != 0.0 {
		t.Errorf("pools of the cluster that was forgotten: %s", got.body)
	}
}

// TestWatchThatComesTooLate: events that are no longer kept are not passed over in silence.
func TestWatchThatComesTooLate(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), t.TempDir()+"/nodepools.db", store.Options{KeepEvents: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	core, err := service.New(service.Options{Store: db, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *server.Options) { o.Service = core })
	b.cluster()
	b.pool("one")
	if err := db.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectError(t, b.do("GET", "/api/v1/watch?since=0", ""), http.StatusGone, "EXPIRED", "")
	expectError(t, b.do("GET", "/api/v1/watch", "", "Last-Event-ID: 1"), http.StatusGone, "EXPIRED", "")
	// As it says: list, and watch from there.
	now := b.do("GET", "/api/v1/nodepools", "").at(t, "resource_version").(string)
	b.pool("two")
	if types, _ := b.events("/api/v1/watch?since="+now, "", 1); types[0] != "nodepool.created" {
		t.Errorf("events after the list: %v", types)
	}
}

// TestWebhooksOverREST: made, listed without their secret, and removed; an address that is not public is refused.
func TestWebhooksOverREST(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const secret = "0123456789abcdef"
	webhook := func(url string) string {
		return `{"url":"` + url + `","secret":"` + secret + `","types":["nodepool.created"]}`
	}
	made := b.do("POST", "/api/v1/webhooks", webhook("https://hooks.example.com/x"), "Idempotency-Key: 1")
	if made.status != http.StatusCreated || made.at(t, "created_by") != "user@example.com" {
		t.Fatalf("%d %s", made.status, made.body)
	}
	if again := b.do("POST", "/api/v1/webhooks", webhook("https://hooks.example.com/x"), "Idempotency-Key: 1"); again.body != made.body {
		t.Errorf("sent again: %s, and first %s", again.body, made.body)
	}
	listed := b.do("GET", "/api/v1/webhooks", "")
	if len(listed.at(t, "webhooks").([]any)) != 1 || strings.Contains(listed.body+made.body, secret) {
		t.Errorf("%s", listed.body)
	}
	if got := b.do("GET", "/api/v1/webhooks", "", "X-User-Email: other@example.com"); got.body != `{"webhooks":[]}` {
		t.Errorf("another sees %s", got.body)
	}
	for _, url := range []string{"https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/", "https://169.254.169.254/latest", "http://hooks.example.com/"} {
		got := b.do("POST", "/api/v1/webhooks", webhook(url))
		expectError(t, got, http.StatusBadRequest, "VALIDATION_ERROR", "")
		if strings.Contains(got.body, secret) {
			t.Errorf("the answer shows the secret: %s", got.body)
		}
	}
	path := "/api/v1/webhooks/" + made.at(t, "id").(string)
	expectError(t, b.do("DELETE", path, "", "X-User-Email: other@example.com"), http.StatusNotFound, "NOT_FOUND", "")
	if got := b.do("DELETE", path, ""); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestHeadersAreBounded: a header that is too large is refused before anything reads it.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *server.Options) { o.Authenticator = auth.Header(auth.Everyone(auth.Editor), auth.LoopbackPeer) })
	connection, err := net.Dial("tcp", strings.TrimPrefix(b.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(time.Minute))
	// net/http allows some more than it is told to.
	_, _ = fmt.Fprintf(connection, "GET /api/v1/nodepools HTTP/1.1\r\nHost: localhost\r\nX-Padding: %s\r\n\r\n", strings.Repeat("x", server.DefaultMaxHeader+8<<10))
	answer, _ := io.ReadAll(connection)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 431 ") {
		t.Errorf("the answer is %q", answer)
	}
}
