package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func files(t *testing.T, directory string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(data)
	}
	return found
}

// TestReferenceIsFresh: docs/reference is what the commands say of themselves.
func TestReferenceIsFresh(t *testing.T) {
	t.Parallel()
	fresh := t.TempDir()
	if err := run([]string{"markdown", fresh}); err != nil {
		t.Fatal(err)
	}
	want, have := files(t, fresh), files(t, "../../docs/reference")
	for name, text := range want {
		if have[name] != text {
			t.Errorf("docs/reference/%s is stale: run make reference and commit", name)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("docs/reference/%s is of no command: run make reference and commit", name)
		}
	}
}

// TestManualPages: there is a page for each command, and none tells of the machine or the day that it was made on.
func TestManualPages(t *testing.T) {
	t.Parallel()
	fresh := t.TempDir()
	if err := run([]string{"man", fresh}); err != nil {
		t.Fatal(err)
	}
	pages := files(t, fresh)
	for _, name := range []string{"planton.1", "planton-apply.1", "planton-explain.1", "planton-completion-bash.1"} {
		if !strings.Contains(pages[name], ".SH NAME") {
			t.Errorf("there is no page %s", name)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		if strings.Contains(page, home+"/") || strings.Contains(page, "spf13") {
			t.Errorf("%s tells of the machine that it was made on", name)
		}
	}
}
