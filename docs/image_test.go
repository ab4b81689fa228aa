package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What can be told of the Dockerfile without a container engine: what it copies is there and is not left out, and its commands are ones
// that a shell can read.
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
	if user := regexp.MustCompile(`(?m)^USER (\S+)$`).FindStringSubmatch(text); user == nil || strings.HasPrefix(user[1], "0") || user[1] == "root" {
		t.Errorf("the image runs as %v", user)
	}
}
