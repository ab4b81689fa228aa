package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/internal/openapi/prism"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
)

// openapiTool returns the path of a tool that `make openapi` installs.
func openapiTool(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv(prism.ToolsVariable)
	if folder == "" {
		t.Skip(prism.ToolsVariable + " does not say where prism and redocly are; make openapi does")
	}
	return filepath.Join(folder, name)
}

func describedIn(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(path, server.Description(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDescriptionPassesTheLinter(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), openapiTool(t, "redocly"), "lint", "--extends=recommended", "--max-problems=20", describedIn(t))
	command.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	out, err := command.CombinedOutput()
	if err != nil || strings.Contains(string(out), "warning") && !strings.Contains(string(out), "Woohoo") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMain has the requests of all tests go through prism, where there is one. What cannot go through it is marked with the reason
// (prism.Direct), which the end of the tests lists: server-sent events, headers that are given twice, bodies that are not JSON, HEAD, and
// the pages that the description does not have. gRPC, unix sockets and client certificates are no business of an HTTP proxy, and their
// tests have clients of their own.
func TestMain(m *testing.M) {
	os.Exit(prism.Main(m.Run, server.Description(), 250))
}

// through has the requests of a client go through the validating proxy, where there is one.
func through(t testing.TB, client *http.Client) *prism.Proxy {
	t.Helper()
	prism.Through(t, client)
	return prism.Shared(t)
}

// TestTheProxyComplains: what does not fit is told, of requests and of answers, and what is declared malformed must be.
func TestTheProxyComplains(t *testing.T) {
	t.Parallel()
	openapiTool(t, "prism")
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"nodepools":null,"total":"1"}`))
	}))
	t.Cleanup(upstream.Close)
	proxy := prism.Shared(t)
	for name, test := range map[string]struct {
		context    context.Context
		path, want string
	}{
		"a wrong answer":               {t.Context(), "/api/v1/nodepools", "response.body"},
		"a wrong request":              {t.Context(), "/api/v1/nodepools?limit=1000", "request.query"},
		"a path that there is not":     {t.Context(), "/api/v1/machines", "not found"},
		"malformed, and it is not":     {prism.Malformed(t.Context()), "/api/v1/nodepools", "takes it for valid"},
		"malformed, and so it is":      {prism.Malformed(t.Context()), "/api/v1/nodepools?limit=1000", ""},
		"what does not go through it ": {prism.Direct(t.Context(), "a test of the proxy itself"), "/api/v1/nodepools", ""},
	} {
		var told string
		client := &http.Client{Transport: proxy.Transport(upstream.Client().Transport, func(_ *http.Request, text string) { told += text })}
		r, err := http.NewRequestWithContext(test.context, http.MethodGet, upstream.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User-Email", "user@example.com")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if !strings.Contains(told, test.want) || test.want == "" && told != "" {
			t.Errorf("%s: the proxy says %q", name, told)
		}
	}
}

// TestTheProxyLosesNobody: a server that is gone, or goes in the middle of an answer, is lost through the proxy too; no answer is made up.
func TestTheProxyLosesNobody(t *testing.T) {
	t.Parallel()
	openapiTool(t, "prism")
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"nodepools":[`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(half.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, address := range map[string]string{"half an answer": half.URL, "no server": gone.URL} {
		client := &http.Client{}
		transport := prism.Through(t, client)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v1/nodepools", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User-Email", "user@example.com")
		answer, err := client.Do(r)
		if err == nil {
			_ = answer.Body.Close()
			t.Errorf("%s: it was answered with %d", name, answer.StatusCode)
		} else if !strings.Contains(err.Error(), "the server was lost") || transport.Passed() != 0 {
			t.Errorf("%s: %v, and %d requests passed", name, err, transport.Passed())
		}
	}
}
