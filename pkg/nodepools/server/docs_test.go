package server_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDocsInABrowser loads the page that shows the description in Chromium, without a window.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium on PATH to show the page with")
	}
	b := newBench(t)
	command := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom", b.http.URL+"/docs#CreateNodePool")
	var problems strings.Builder
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	page := string(out)
	for _, want := range []string{">/api/v1/nodepools</code>", ">/api/v1/watch</code>", "Body: NodePoolInput", "machineType", "Idempotency-Key", "curl -X POST"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.Contains(problems.String(), "CONSOLE") {
		t.Errorf("the browser complains: %s", problems.String())
	}
	if t.Failed() {
		t.Log(page)
	}
}
