package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// make install puts planton, the completions and a manual page for each command where packages have them, below DESTDIR and nowhere else,
// for everybody to read whoever made the package; and a script of completion is one that its shell can read.
func TestMakeInstall(t *testing.T) {
	t.Parallel()
	dist, into := t.TempDir(), t.TempDir()
	// Built without -trimpath, since what was built for the tests before is of use then.
	install := exec.Command("sh", "-c", `umask 077; exec make -C .. install PREFIX=/usr "DIST=$0" "DESTDIR=$1"`, dist, into)
	install.Env = append(os.Environ(), "BUILD_FLAGS=", "VERSION=v9.8.7", "MAKEFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := map[string]bool{
		"usr/bin/planton": true,
		"usr/share/bash-completion/completions/planton":    true,
		"usr/share/zsh/site-functions/_planton":            true,
		"usr/share/fish/vendor_completions.d/planton.fish": true,
		"usr/share/powershell/completions/planton.ps1":     true,
	}
	pages, err := filepath.Glob("reference/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages were found: %v", len(pages), err)
	}
	for _, page := range pages {
		want["usr/share/man/man1/"+strings.ReplaceAll(strings.TrimSuffix(filepath.Base(page), ".md"), "_", "-")+".1"] = true
	}
	err = filepath.WalkDir(into, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == into {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, into+string(filepath.Separator)))
		mode := fs.FileMode(0o644)
		if entry.IsDir() || name == "usr/bin/planton" {
			mode = 0o755
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
		if entry.IsDir() {
			return nil
		}
		if !want[name] || info.Size() == 0 {
			t.Errorf("%s, of %d bytes: it should not be there", name, info.Size())
		}
		delete(want, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
	if out, err := exec.Command(filepath.Join(into, "usr/bin/planton"), "version").Output(); err != nil || !strings.HasPrefix(string(out), "planton v9.8.7 ") {
		t.Errorf("planton version: %v: %s", err, out)
	}
	for shell, script := range map[string]string{"bash": "bash-completion/completions/planton", "zsh": "zsh/site-functions/_planton", "fish": "fish/vendor_completions.d/planton.fish"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("there is no %s to read its script", shell)
			continue
		}
		if out, err := exec.Command(shell, "-n", filepath.Join(into, "usr/share", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
}

// What can be told of the Dockerfile in a second: what it copies is there and is not left out, and its commands are ones that a shell can
// read. make image-test builds the image and runs it.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(read(t, "../Dockerfile"), "\\\n", "")
	ignored := map[string]bool{}
	for _, line := range strings.Split(read(t, "../.dockerignore"), "\n") {
		ignored[strings.TrimSpace(line)] = true
	}
	copied := 0
	for _, match := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(text, -1) {
		for _, source := range strings.Fields(match[1]) {
			copied++
			if _, err := os.Stat(filepath.Join("..", source)); err != nil {
				t.Errorf("COPY %s: %v", source, err)
			}
			if ignored[source] {
				t.Errorf("COPY %s: .dockerignore leaves it out", source)
			}
		}
	}
	if copied < 7 {
		t.Errorf("%d sources are copied", copied)
	}
	commands := regexp.MustCompile(`(?m)^RUN (.+)$`).FindAllStringSubmatch(text, -1)
	for _, match := range commands {
		command := exec.Command("sh", "-n")
		command.Stdin = strings.NewReader(match[1])
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("RUN %s: %v: %s", match[1], err, out)
		}
		for _, script := range regexp.MustCompile(`\bsh (\S+)`).FindAllStringSubmatch(match[1], -1) {
			if out, err := exec.Command("sh", "-n", filepath.Join("..", script[1])).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", script[1], err, out)
			}
		}
	}
	if len(commands) == 0 {
		t.Error("there is no command")
	}
	// The toolchain of the image builds what go.mod asks for, by itself: the image is of the minor version.
	image := regexp.MustCompile(`(?m)^ARG BUILD_IMAGE=golang:(\S+)$`).FindStringSubmatch(text)
	for _, module := range []string{"../go.mod", "../tools/go.mod"} {
		if directive := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, module)); image == nil || directive == nil ||
			!strings.HasPrefix(directive[1]+".", image[1]+".") {
			t.Errorf("the image is built with Go %v, and %s asks for %v", image, module, directive)
		}
	}
	// The image itself: it runs no command when it is made, everything in it was built before, and nothing is looked for elsewhere when it runs.
	stages := strings.Split(text, "\nFROM ")
	last := stages[len(stages)-1]
	if strings.Contains(last, "\nRUN ") {
		t.Error("the last stage runs a command")
	}
	made := strings.ReplaceAll(stages[1], "sh tools/completions /out ", "/out/bin /out/share ")
	for _, match := range regexp.MustCompile(`(?m)^COPY --from=build (?:--chown=\S+ )?/out/(\S+) `).FindAllStringSubmatch(last, -1) {
		if !strings.Contains(made, "/out/"+match[1]) {
			t.Errorf("nothing makes /out/%s", match[1])
		}
	}
	for _, setting := range []string{"PLANTON_PULUMI=/usr/local/bin/pulumi", "PULUMI_SKIP_UPDATE_CHECK=true", "HOME=", "USER="} {
		if !regexp.MustCompile(`(?m)^ENV .*\b` + setting).MatchString(last) {
			t.Errorf("the image does not set %s", setting)
		}
	}
	if user := regexp.MustCompile(`(?m)^USER (\S+)$`).FindStringSubmatch(text); user == nil || strings.HasPrefix(user[1], "0") || user[1] == "root" {
		t.Errorf("the image runs as %v", user)
	}
}
