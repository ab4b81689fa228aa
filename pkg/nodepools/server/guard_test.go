package server

import (
	"fmt"
	"net/http"
	"testing"
)

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:1234":              "192.0.2.7",
		"[::ffff:192.0.2.7]:1":        "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:1234": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":            "fe80::/64",
		"@":                           "socket",
		"":                            "socket",
	} {
		if got := addressOf(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%q is the address %q, want %q", remote, got, want)
		}
	}
}

// TestLimitersAreBounded: who comes from ever more addresses fills no memory, and escapes no limit.
func TestLimitersAreBounded(t *testing.T) {
	t.Parallel()
	l := newLimiters(Rate{PerSecond: 0.001, Burst: 1})
	allowed := 0
	for i := range maxLimiters + 100 {
		if l.allow(fmt.Sprint(i)) {
			allowed++
		}
	}
	if allowed != maxLimiters+1 || len(l.found) > maxLimiters+1 {
		t.Errorf("%d were allowed, and %d are remembered", allowed, len(l.found))
	}
}
