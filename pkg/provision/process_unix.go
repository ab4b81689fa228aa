//go:build unix

package provision

import (
	"syscall"

	"github.com/pkg/errors"
)

// processEnded tells for certain that no process has the id.
func processEnded(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
