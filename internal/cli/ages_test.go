package cli

import (
	"testing"
	"time"
)

// What was done by a machine whose clock is early, or before this one's was set back, lies in the future.
func TestAges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		reason   string
		since    time.Duration
		age, ago string
	}{
		{"just now", 0, "0s", "0s"},
		{"by a clock that is a little early", 30 * time.Second, "0s", "0s"},
		{"by a clock that is an hour early", time.Hour, "0s", "in the future"},
		{"by a clock of next year", 365 * 24 * time.Hour, "0s", "in the future"},
		{"an hour ago", -time.Hour, "60m", "1h"},
		{"by a clock that was never set", -56 * 365 * 24 * time.Hour, "20440d", "20440d"},
	} {
		at := now.Add(test.since)
		if got := age(at, now); got != test.age {
			t.Errorf("%s: planton get says %q, want %q", test.reason, got, test.age)
		}
		if got := ago(at, now); got != test.ago {
			t.Errorf("%s: planton stacks says %q, want %q", test.reason, got, test.ago)
		}
	}
}
