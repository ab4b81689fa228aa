package heap

import (
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason string
		live   uint64
		want   int
	}{
		{"nothing is in use: the first collection comes at Floor", 0, mostPercent},
		{"with more, Go's own least size of a heap would be above Floor", 1 << 20, mostPercent},
		{"up to Floor", 8 << 20, 700},
		{"half of Floor", Floor / 2, 100},
		{"as Go does by itself", Floor, 100},
		{"as Go does by itself", 10 * Floor, 100},
		{"as Go does by itself", math.MaxUint64, 100},
	} {
		if got := percentFor(tc.live); got != tc.want {
			t.Errorf("%s: with %d bytes: got %d, want %d", tc.reason, tc.live, got, tc.want)
		}
	}
}

// What a program makes before Floor is reached is never looked through, and what it makes behind it is, so that memory does not grow.
func TestCollections(t *testing.T) {
	t.Parallel()
	if mebibytes, err := strconv.Atoi(os.Getenv("HEAP_TEST_MIB")); err == nil {
		for range mebibytes {
			garbage = make([]byte, 1<<20)
		}
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		t.Logf("collections: %d.", stats.NumGC-stats.NumForcedGC)
		return
	}
	for _, tc := range []struct {
		reason      string
		mebibytes   int
		environment string
		least, most int
	}{
		{"half of Floor", Floor >> 21, "", 0, 0},
		{"thirty times Floor: no more than twice Floor lies about", 30 * Floor >> 20, "", 15, 60},
		{"somebody has chosen", Floor >> 21, "GOGC=100", 1, 60},
		{"somebody has chosen", Floor >> 21, "GOMEMLIMIT=1GiB", 1, 60},
	} {
		command := exec.Command(os.Args[0], "-test.run=^TestCollections$", "-test.v")
		command.Env = append(os.Environ(), "HEAP_TEST_MIB="+strconv.Itoa(tc.mebibytes), "GOGC=", "GOMEMLIMIT=")
		if tc.environment != "" {
			command.Env = append(command.Env, tc.environment)
		}
		out, err := command.CombinedOutput()
		match := regexp.MustCompile(`collections: (\d+)\.`).FindSubmatch(out)
		if err != nil || match == nil {
			t.Fatalf("%s: %v: %s", tc.reason, err, out)
		}
		if n, _ := strconv.Atoi(string(match[1])); n < tc.least || n > tc.most {
			t.Errorf("%s: %d collections, want %d to %d", tc.reason, n, tc.least, tc.most)
		}
	}
}

// garbage is what was made last; what was before it is not in use.
var garbage []byte
