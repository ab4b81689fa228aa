package heap

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The first megabytes of the heap are in huge pages, unless somebody has chosen how much is collected.
func TestHugePages(t *testing.T) {
	t.Parallel()
	if os.Getenv("HEAP_TEST_HUGE") != "" {
		for range 8 {
			block := make([]byte, 1<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			held = append(held, block)
		}
		rollup, err := os.ReadFile("/proc/self/smaps_rollup")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", rollup)
		return
	}
	setting, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || !bytes.Contains(setting, []byte("[madvise]")) {
		t.Skipf("NOT TESTED: this kernel does not give huge pages where they are asked for, and nowhere else: %s %v", setting, err)
	}
	for _, tc := range []struct {
		reason      string
		environment string
		want        bool
	}{
		{"nobody has chosen", "GOGC=", true},
		{"somebody has chosen", "GOGC=100", false},
	} {
		command := exec.Command(os.Args[0], "-test.run=^TestHugePages$", "-test.v")
		command.Env = append(os.Environ(), "HEAP_TEST_HUGE=1", "GOGC=", "GOMEMLIMIT=", tc.environment)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", tc.reason, err, output)
		}
		if got := hugePages(t, output); got != tc.want {
			t.Errorf("%s: huge pages: got %v, want %v: %s", tc.reason, got, tc.want, output)
		}
	}
}

var held [][]byte

// hugePages reports whether the kernel counts memory of a process in huge pages.
func hugePages(t *testing.T, rollup []byte) bool {
	t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(rollup)); lines.Scan(); {
		if kilobytes, found := strings.CutPrefix(strings.TrimSpace(lines.Text()), "AnonHugePages:"); found {
			return strings.Fields(kilobytes)[0] != "0"
		}
	}
	t.Fatalf("no AnonHugePages in %s", rollup)
	return false
}
