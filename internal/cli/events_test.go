package cli

import (
	"strings"
)

// lastLine is the last event of an output.
func lastLine(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return lines[len(lines)-1]
}
