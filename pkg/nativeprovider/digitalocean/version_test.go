package digitalocean

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestVersionOrder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		a, b   string
		want   int
		ok     bool
	}{
		{"the same", "1.31.1-do.4", "1.31.1-do.4", 0, true},
		{"a revision", "1.31.1-do.4", "1.31.1-do.10", -1, true},
		{"a patch, as a number", "1.31.10-do.0", "1.31.9-do.9", 1, true},
		{"a minor version", "1.9.0-do.0", "1.31.0-do.0", -1, true},
		{"a prefix", "1.30", "1.31.1-do.4", -1, true},
		{"no version", "latest", "1.31.1-do.4", 0, false},
		{"nothing", "1.31.1-do.4", "", 0, false},
	} {
		got, ok := versionOrder(test.a, test.b)
		if got != test.want || ok != test.ok {
			t.Errorf("%s: %s and %s: %d, %v", test.reason, test.a, test.b, got, ok)
		}
	}
}

func TestVersionPrefix(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]bool{
		"1": true, "1.31": true, "1.31.1": true, "1.31.1-do": true, "1.3": false, "1.31.": false, "": false, "1.31.1-do.4": false, "1.31.1-do.40": false,
	} {
		if got := isVersionPrefix(prefix, "1.31.1-do.4"); got != want {
			t.Errorf("%q: %v, want %v", prefix, got, want)
		}
	}
}

func TestIsUpgrade(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		live, wanted string
		want         bool
	}{
		{"1.31.1-do.4", "1.31.1-do.4", false}, {"1.31.1-do.4", "1.31.1-do.5", true}, {"1.31.1-do.4", "1.32.0-do.0", true},
		{"1.31.1-do.4", "1.31.0-do.9", false}, {"1.31.1-do.4", "1.31", false}, {"1.31.1-do.4", "1.30", false}, {"1.31.1-do.4", "1.32", true},
		{"1.31.1-do.4", "", false}, {"1.31.1-do.4", "latest", true},
	} {
		if got := isUpgrade(test.live, test.wanted); got != test.want {
			t.Errorf("from %s to %s: %v", test.live, test.wanted, got)
		}
	}
}

func slugs(t *rapid.T) []string {
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) string {
		n := func(name string) int { return rapid.IntRange(0, 40).Draw(t, name) }
		return fmt.Sprintf("1.%d.%d-do.%d", n("minor"), n("patch"), n("revision"))
	})).Draw(t, "slugs")
}

// TestNewestFirst: no version stands before a newer one, and none is lost.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		given := append(slugs(t), rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "noise")...)
		sorted := slices.Clone(given)
		newestFirst(sorted)
		for i := 1; i < len(sorted); i++ {
			if order, ok := versionOrder(sorted[i-1], sorted[i]); ok && order < 0 {
				t.Fatalf("%s stands before %s", sorted[i-1], sorted[i])
			}
		}
		slices.Sort(given)
		slices.Sort(sorted)
		if !slices.Equal(given, sorted) {
			t.Fatal("a version was lost")
		}
	})
}
