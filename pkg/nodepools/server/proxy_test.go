package server_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/nodepools/server"
)

// openapiTool returns the path of a tool that `make openapi` installs.
func openapiTool(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("NODEPOOLS_OPENAPI_TOOLS")
	if folder == "" {
		t.Skip("NODEPOOLS_OPENAPI_TOOLS does not say where prism and redocly are; make openapi does")
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

// TestThroughAValidatingProxy plays the life of a pool, the lists and the guide through prism, a second and independent reader of the
// description: it says of each request and each answer what does not fit.
func TestThroughAValidatingProxy(t *testing.T) {
	t.Parallel()
	prism, path := openapiTool(t, "prism"), describedIn(t)
	for name, play := range map[string]func(*testing.T, *bench){
		"life of a pool": lifeOfAPool,
		"lists":          listsPageAndFilter,
		"guide": func(t *testing.T, b *bench) {
			b.guide(t, "worker-pool-1")
			guideWorkflow(t, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.at(startPrism(t, prism, path, b.http.URL))
			requests := 0
			b.seen = func(r *http.Request, got answer) {
				requests++
				text := got.header.Get("Sl-Violations")
				if text == "" {
					return
				}
				var violations []struct {
					Location []string `json:"location"`
					Message  string   `json:"message"`
				}
				if err := json.Unmarshal([]byte(text), &violations); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
				for _, one := range violations {
					// What the service refused, the proxy may call wrong too.
					if len(one.Location) > 0 && one.Location[0] == "request" && got.status >= http.StatusBadRequest {
						continue
					}
					t.Errorf("%s %s, answered %d: %v %s", r.Method, r.URL, got.status, one.Location, one.Message)
				}
			}
			play(t, b)
			if requests < 5 {
				t.Errorf("only %d requests went through the proxy", requests)
			}
		})
	}
}

func startPrism(t *testing.T, prism, description, upstream string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := strings.Cut(address, ":")
	command := exec.CommandContext(t.Context(), prism, "proxy", description, upstream, "--host", "127.0.0.1", "--port", port)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	listening := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "is listening") {
				listening <- true
			}
		}
		listening <- false
	}()
	select {
	case ok := <-listening:
		if !ok {
			t.Fatal("prism ended")
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("prism does not start")
	}
	return "http://" + address
}
