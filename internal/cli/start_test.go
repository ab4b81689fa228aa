package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What our packages make before a command is even known, every command pays for: tables and regular expressions that few commands need
// are made when they are.
func TestStart(t *testing.T) {
	t.Parallel()
	const most = 100_000 // bytes; one regular expression that counts to 255 takes as much
	command := exec.Command(os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := regexp.MustCompile(`(?m)^init (\S+) @.* clock, (\d+) bytes`).FindAllStringSubmatch(string(out), -1)
	ours := 0
	for _, match := range found {
		if !strings.HasPrefix(match[1], "github.com/plantonhq/project-planton/") {
			continue
		}
		ours++
		if bytes, _ := strconv.Atoi(match[2]); bytes > most {
			t.Errorf("%s makes %d bytes at the start, more than %d", match[1], bytes, most)
		}
	}
	if ours < 10 {
		t.Errorf("only %d of %d packages are ours: the trace is read wrongly", ours, len(found))
	}
}
