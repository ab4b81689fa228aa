// Package timestamp reads the times that provider plugins report.
package timestamp

import (
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

const (
	// goLayout is what time.Time.String prints. The bridged plugins of Civo and DigitalOcean store times this way.
	goLayout = numericLayout + " MST"
	// numericLayout is the same without the name of the zone.
	numericLayout = "2006-01-02 15:04:05.999999999 -0700"
)

// RFC3339 returns the time that the text says in RFC 3339, in UTC. It reads RFC 3339 itself and the form of Go's
// time.Time.String. An empty text and Go's zero time, by which plugins say that they do not know, give an empty text. A text of another form, and
// a time whose year in UTC is not one of 0 to 9999, is an error.
func RFC3339(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	at, ok := parse(text)
	switch {
	case !ok:
		return "", errors.Errorf("read time %q: neither RFC 3339 nor the form of Go's time.String", text)
	case at.IsZero():
		return "", nil
	case at.Year() < 0 || at.Year() > 9999:
		return "", errors.Errorf("read time %q: RFC 3339 has no year %d", text, at.Year())
	}
	return at.Format(time.RFC3339Nano), nil
}

// parse reads a time, and tells it in UTC.
func parse(text string) (time.Time, bool) {
	// A reading of the monotonic clock follows the time as " m=+0.001".
	wall, _, _ := strings.Cut(text, " m=")
	for _, layout := range []string{time.RFC3339Nano, goLayout, numericLayout} {
		if at, err := time.Parse(layout, wall); err == nil {
			return at.UTC(), true
		}
	}
	// time.String prints an offset again where a zone has no name ("+0530 +0530"), which no layout can read.
	if fields := strings.Fields(wall); len(fields) == 4 {
		if at, err := time.Parse(numericLayout, strings.Join(fields[:3], " ")); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// Output is RFC3339 of an output.
func Output(text pulumi.StringOutput) pulumi.StringOutput {
	return text.ApplyT(RFC3339).(pulumi.StringOutput)
}
