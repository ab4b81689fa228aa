package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Of more manifests than are held at once, what is said stands in their order; and what is wrong with some of them together is found,
// however far apart they stand.
func TestValidateMany(t *testing.T) {
	t.Parallel()
	const files, each = 3, 300
	directory := t.TempDir()
	var all strings.Builder
	for file := range files {
		var text strings.Builder
		for i := range each {
			fmt.Fprintf(&text, "apiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata: {name: net-%d-%d}\nspec: {networkName: net, region: lon1}\n---\n", file, i)
			fmt.Fprintf(&all, "%s:%d: CivoVpc net-%d-%d is valid\n", filepath.Join(directory, fmt.Sprintf("%d.yaml", file)), 5*i+1, file, i)
		}
		write(t, filepath.Join(directory, fmt.Sprintf("%d.yaml", file)), text.String())
	}
	validate := func(args ...string) (out, errs string, code int) {
		var stdout, stderr bytes.Buffer
		code = Run(context.Background(), Streams{Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" }},
			append([]string{"validate", "-f", directory}, args...))
		return stdout.String(), stderr.String(), code
	}
	if out, errs, code := validate(); out != all.String() || errs != "" || code != ExitOK {
		t.Errorf("exit code %d, %q; got\n%s\nwant\n%s", code, errs, out, all.String())
	}
	out, _, _ := validate("-o", "json")
	var document struct{ Manifests []manifestDocument }
	if err := json.Unmarshal([]byte(out), &document); err != nil || len(document.Manifests) != files*each || document.Manifests[files*each-1].Name != "net-2-299" {
		t.Errorf("%v: got %d manifests in %s", err, len(document.Manifests), out)
	}

	// CivoVpc has no references, so it takes relationships.
	related := func(name, label, to string) string {
		return fmt.Sprintf("apiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata:\n  name: %s\n%s%sspec: {networkName: net, region: lon1}\n---\n",
			name, label, to)
	}
	label := "  labels: {pulumi.project-planton.org/stack.name: same}\n"
	to := func(name string) string { return fmt.Sprintf("  relationships: [{kind: CivoVpc, name: %s}]\n", name) }
	for name, tc := range map[string]struct{ first, last, want string }{
		"Twice": {
			related("a", "", ""), related("a", "", ""),
			"last.yaml:4:3: metadata.name: CivoVpc a is declared already at DIR/9-first.yaml:1; names are unique for a kind, organization and environment [resource.duplicate]",
		},
		"Stack": {
			related("a", label, ""), related("b", label, ""),
			"last.yaml:3:1: metadata: its stack organization/civovpc/same is that of CivoVpc a at DIR/9-first.yaml:1 already [stack]",
		},
		"Circle": {
			related("a", "", to("b")), related("b", "", to("a")),
			"9-first.yaml:3:1: metadata: these resources refer to one another in a circle: CivoVpc a -> CivoVpc b -> CivoVpc a [reference]\n" +
				"     3 | metadata:\n       | ^\nhint: take one of the references or metadata.relationships out",
		},
	} {
		write(t, filepath.Join(directory, "9-first.yaml"), tc.first)
		write(t, filepath.Join(directory, "last.yaml"), tc.last)
		out, errs, code := validate()
		if want := strings.ReplaceAll(tc.want, "DIR", directory); out != "" || code != ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %d bytes on stdout; got\n%s\nwant\n%s", name, code, len(out), errs, want)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
