package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// TestConfirm answers the question of an apply: it needs somebody at a terminal, which scripts do not have.
func TestConfirm(t *testing.T) {
	t.Parallel()
	cli, err := pulumiCLI()
	if err != nil {
		t.Skipf("this test runs the Pulumi engine: %v", err)
	}
	directory := t.TempDir()
	manifest := filepath.Join(directory, "vpc.yaml")
	text := "apiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata: {name: main}\nspec: {networkName: acme-net, region: fra1}\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := withEngine(cli, map[string]string{
		provision.EnvironmentStateDirectory: filepath.Join(directory, "state"),
	})
	run := func(answer string, args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = Run(t.Context(), Streams{
			In: strings.NewReader(answer), Out: &out, Err: &errs, InTerminal: true,
			Getenv: func(name string) string { return environment[name] },
		}, append(args, "-f", manifest, "--cloud", "emulated"))
		return code, out.String(), errs.String()
	}
	made := func() bool {
		content, err := os.ReadFile(filepath.Join(directory, "state", "emulated", "clouds", "civo.json"))
		return err == nil && strings.Contains(string(content), "acme-net")
	}

	for _, answer := range []string{"n\n", "\n", ""} {
		code, stdout, stderr := run(answer, "apply")
		if code != ExitCanceled || made() {
			t.Fatalf("answer %q: exit code %d, made %t", answer, code, made())
		}
		if !strings.Contains(stderr, "+  network create") || !strings.Contains(stderr, "Apply this? [y/N]") || stdout != "" {
			t.Errorf("answer %q: stdout %q, stderr %q", answer, stdout, stderr)
		}
	}
	if code, stdout, stderr := run("y\n", "apply"); code != ExitOK || !made() || !strings.Contains(stdout, "1 created") {
		t.Fatalf("yes: exit code %d, made %t, stdout %q, stderr %q", code, made(), stdout, stderr)
	}
	if code, _, stderr := run("", "apply"); code != ExitOK || strings.Contains(stderr, "Apply this?") {
		t.Errorf("nothing to do: exit code %d; there is nothing to ask, but stderr is %q", code, stderr)
	}
	if code, _, stderr := run("yes\n", "destroy"); code != ExitOK || made() || !strings.Contains(stderr, "Destroy this?") {
		t.Errorf("destroy: exit code %d, made %t, stderr %q", code, made(), stderr)
	}
}

func TestPainter(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reason   string
		terminal bool
		env      map[string]string
		want     string
	}{
		{"color on a terminal", true, nil, "\x1b[31mx\x1b[0m"},
		{"none where nobody looks", false, nil, "x"},
		{"none where it is not wanted", true, map[string]string{"NO_COLOR": "1"}, "x"},
		{"none where it cannot be shown", true, map[string]string{"TERM": "dumb"}, "x"},
	}
	for _, tc := range cases {
		if got := painter(tc.terminal, func(name string) string { return tc.env[name] })(red, "x"); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
		}
	}
}

// TestHeartbeat hears of a resource that its plugin says nothing about.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	p := newProgress(Streams{Err: &errs, Getenv: func(string) string { return "" }}, nil)
	p.close()
	start := time.Now()
	stack := stackidentity.Identity{Organization: "o", Project: "p", Stack: "s"}
	p.take(provision.Event{Kind: provision.EventResourceStarted, Time: start, Stack: stack, Resource: "cluster", Op: provision.OpCreate})
	p.tellRunning(start.Add(heartbeat - time.Second))
	p.tellRunning(start.Add(heartbeat))
	p.tellRunning(start.Add(heartbeat + time.Second))
	p.take(provision.Event{Kind: provision.EventResourceDone, Time: start, Stack: stack, Resource: "cluster", Op: provision.OpCreate})
	p.tellRunning(start.Add(5 * heartbeat))
	want := "o/p/s: cluster: creating\no/p/s: cluster: still creating, 30s so far\no/p/s: cluster: created\n"
	if !strings.HasPrefix(errs.String(), strings.TrimSuffix(want, "created\n")) || strings.Count(errs.String(), "still") != 1 {
		t.Errorf("got %q, want %q", errs.String(), want)
	}
}
