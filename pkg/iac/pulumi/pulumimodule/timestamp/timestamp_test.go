package timestamp

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRFC3339(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, text, want string
		wantErr            bool
	}{
		"time.String": {reason: "what the bridged plugins store", text: "2026-11-20 10:00:00 +0000 UTC", want: "2026-11-20T10:00:00Z"},
		"fraction":    {reason: "fractions are kept", text: "2026-11-20 10:00:00.25 +0000 UTC", want: "2026-11-20T10:00:00.25Z"},
		"zone":        {reason: "zones are turned into UTC", text: "2026-11-20 10:00:00 +0100 CET", want: "2026-11-20T09:00:00Z"},
		"nameless":    {reason: "a zone without a name prints its offset twice", text: "2026-11-20 10:00:00 +0530 +0530", want: "2026-11-20T04:30:00Z"},
		"monotonic":   {reason: "time.Now prints its monotonic clock", text: "2026-11-20 10:00:00 +0000 UTC m=+0.0001", want: "2026-11-20T10:00:00Z"},
		"rfc 3339":    {reason: "the form of the clouds' APIs", text: "2026-11-20T10:00:00Z", want: "2026-11-20T10:00:00Z"},
		"offset":      {reason: "RFC 3339 with an offset", text: "2026-11-20T10:00:00+02:00", want: "2026-11-20T08:00:00Z"},
		"empty":       {reason: "a time that is not known"},
		"zero":        {reason: "how Go prints a time that was never set", text: "0001-01-01 00:00:00 +0000 UTC"},
		"nameless 0":  {reason: "zero in a zone without a name", text: "0001-01-01 00:00:00 +0000 +0000"},
		"before":      {reason: "in UTC it is the year -1, which RFC 3339 has no digits for", text: "0000-01-01 0:00:00 +0100", wantErr: true},
		"after":       {reason: "in UTC it is the year 10000", text: "9999-12-31T23:30:00-01:00", wantErr: true},
		"nonsense":    {reason: "a form that is not known is an error, not a guess", text: "yesterday", wantErr: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := RFC3339(tt.text)
			if got != tt.want || (err != nil) != tt.wantErr {
				t.Errorf("%s: RFC3339(%q) = %q, %v; want %q", tt.reason, tt.text, got, err, tt.want)
			}
		})
	}
}

func TestRFC3339Law(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(r, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(r, "nanos"))
		zone := time.FixedZone("", rapid.IntRange(-12, 14).Draw(r, "hours")*3600)
		for _, text := range []string{at.UTC().String(), at.In(zone).String(), at.UTC().Format(time.RFC3339Nano)} {
			got, err := RFC3339(text)
			if err != nil {
				r.Fatal(err)
			}
			if parsed, err := time.Parse(time.RFC3339Nano, got); err != nil || !parsed.Equal(at) {
				r.Fatalf("RFC3339(%q) = %q (%v), want %s", text, got, err, at)
			}
		}
	})
}

func FuzzRFC3339(f *testing.F) {
	f.Add("2026-11-20 10:00:00 +0530 +0530")
	f.Add("2026-11-20T10:00:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := RFC3339(text)
		if err != nil || got == "" {
			return
		}
		if again, err := RFC3339(got); err != nil || again != got {
			t.Errorf("RFC3339(%q) = %q, but RFC3339 of that is %q, %v", text, got, again, err)
		}
	})
}
