package provision

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// A state is read from its file where nothing about it is unusual; all else is left to the CLI.
func TestLocalCheckpoint(t *testing.T) {
	t.Parallel()
	identity := stackidentity.Identity{Organization: fileOrganization, Project: "civovpc", Stack: "main"}
	const (
		file = ".pulumi/stacks/civovpc/main.json"
		good = `{"version":3,"checkpoint":{"stack":"x","latest":{"resources":[{"urn":"urn:pulumi:main::civovpc::a:b:C::d","type":"a:b:C"}]}}}`
		want = `{"version":3,"deployment":{"resources":[{"urn":"urn:pulumi:main::civovpc::a:b:C::d","type":"a:b:C"}]}}`
	)
	good1 := func(more map[string]string) map[string]string {
		files := map[string]string{metaFile: "version: 1\n", file: good}
		for name, text := range more {
			files[name] = text
		}
		return files
	}
	for name, tc := range map[string]struct {
		reason        string
		files         map[string]string
		identity      stackidentity.Identity
		text          string
		exists, known bool
	}{
		"Good":         {"as the CLI would export it", good1(nil), identity, want, true, true},
		"Backup":       {"a copy beside it does not matter", good1(map[string]string{file + ".bak": "torn"}), identity, want, true, true},
		"Empty":        {"nothing was ever done with the stack", good1(map[string]string{file: `{"version":3,"checkpoint":{}}`}), identity, `{"version":3,"deployment":{}}`, true, true},
		"None":         {"there is no such stack", map[string]string{metaFile: "version: 1"}, identity, "", false, true},
		"Other":        {"that of another stack does not count", map[string]string{metaFile: "version: 1", ".pulumi/stacks/civovpc/other.json": good}, identity, "", false, true},
		"OnlyBackup":   {"the CLI may put a copy back", map[string]string{metaFile: "version: 1", file + ".bak": good}, identity, "", false, false},
		"Compressed":   {"it is there, in another form", map[string]string{metaFile: "version: 1", file + ".gz": good}, identity, "", false, false},
		"Zstd":         {"it is there, in another form", map[string]string{metaFile: "version: 1", file + ".zst": good}, identity, "", false, false},
		"NoMeta":       {"an old layout, or no backend", map[string]string{file: good}, identity, "", false, false},
		"OldLayout":    {"without folders of projects", good1(map[string]string{metaFile: "version: 0"}), identity, "", false, false},
		"Torn":         {"the CLI tells what is wrong", good1(map[string]string{file: good[:30]}), identity, "", false, false},
		"NoCheckpoint": {"no state", good1(map[string]string{file: `{"version":3}`}), identity, "", false, false},
		"OldVersion":   {"the CLI knows how to read it", good1(map[string]string{file: strings.Replace(good, `:3`, `:2`, 1)}), identity, "", false, false},
		"Features":     {"the CLI knows whether it can read it", good1(map[string]string{file: strings.Replace(good, `:3`, `:3,"features":["refreshBeforeUpdate"]`, 1)}), identity, "", false, false},
		"Pending": {
			"something half done may have to be written back",
			good1(map[string]string{file: `{"version":3,"checkpoint":{"latest":{"pending_operations":[{"resource":{"urn":"a"},"type":"creating"}]}}}`}), identity, "", false, false,
		},
		"NoDeployment": {"not what a deployment is", good1(map[string]string{file: `{"version":3,"checkpoint":{"latest":[]}}`}), identity, "", false, false},
		"Organization": {"files know one organization", good1(nil), stackidentity.Identity{Organization: "acme", Project: "civovpc", Stack: "main"}, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			for name, text := range tc.files {
				put(t, directory, name, text)
			}
			text, exists, known := (&State{files: directory}).localCheckpoint(tc.identity)
			if text != tc.text || exists != tc.exists || known != tc.known {
				t.Errorf("%s: got %q, exists %v, known %v; want %q, %v, %v", tc.reason, text, exists, known, tc.text, tc.exists, tc.known)
			}
		})
	}

	t.Run("Unreadable", func(t *testing.T) {
		t.Parallel()
		directory := t.TempDir()
		put(t, directory, metaFile, "version: 1")
		if err := os.MkdirAll(filepath.Join(directory, filepath.FromSlash(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, _, known := (&State{files: directory}).localCheckpoint(identity); known {
			t.Error("a folder in the place of the file: the CLI is to tell what is wrong")
		}
	})
	t.Run("Elsewhere", func(t *testing.T) {
		t.Parallel()
		if _, _, known := (&State{BackendURL: "https://api.example.com"}).localCheckpoint(identity); known {
			t.Error("a backend that is not in files of planton's own is the CLI's")
		}
	})
}
