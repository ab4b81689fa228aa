//go:build unix

package nodepoolsserver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
)

// consoleBlock is a block of commands, as pages show them.
var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// TestDocumentedCommands runs what docs/nodepools.md shows, as it is printed but for the address: the server without any flag but that,
// and in another shell all that a newcomer types.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "nodepools.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := consoleBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 || blocks[0][1] != "$ go run ./cmd/nodepools-server\n" {
		t.Fatalf("the page has %d blocks of commands, the first of which is %q", len(blocks), blocks[0][1])
	}
	w := newWorld(t)
	// The last flag counts: this is the server without flags, but for the port and for the pace of the emulated clouds.
	p := w.start("--cloud", "emulated", "--plugins", "automatic", "--time-scale", "0")
	bin := filepath.Join(w.dir, "bin")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "planton")); err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile(`(?m)^\$ `).ReplaceAllString(blocks[1][1], "")
	url := p.door()
	script = strings.ReplaceAll(script, "http://localhost:8080", url)
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	shell.Env = append(w.environment, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PLANTON_NODEPOOLS_SERVER="+url)
	output, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	for _, want := range []string{`"phase":"Pending"`, "production-workers   civo", "phase: Ready", "ready: 4", "controller_name: civo-controller"} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the commands never said %q:\n%s", want, output)
		}
	}
	p.stop()
}

// TestDocumentedAuth: the file that docs/nodepools.md shows is one that --auth takes, with a file of tokens as the command makes them.
func TestDocumentedAuth(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "nodepools.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n# fragment\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("the page has %d blocks of YAML", len(blocks))
	}
	var made bytes.Buffer
	if code := Run(t.Context(), []string{"token", "--name", "ci@example.com", "--role", "editor", "--expires-in", "24h"}, os.Getenv, &made, &made); code != 0 {
		t.Fatalf("token ended with %d: %s", code, &made)
	}
	secret, entry, _ := strings.Cut(made.String(), "\n")
	if strings.Contains(entry, secret) || !strings.Contains(entry, "name: ci@example.com") {
		t.Errorf("the entry is\n%s", entry)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"auth.yaml": blocks[0][1], "tokens.yaml": entry} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := config{authFile: filepath.Join(dir, "auth.yaml"), tlsCA: "ca.pem"}
	authenticator, development, err := c.authenticator()
	if err != nil || development {
		t.Fatalf("the file is not taken: %v, development: %t", err, development)
	}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer "+secret)
	identity, err := authenticator.Authenticate(request)
	if err != nil || identity.Name != "ci@example.com" || identity.Role != auth.Editor {
		t.Errorf("the token is %+v, %v", identity, err)
	}
}
