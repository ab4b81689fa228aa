//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// residentSet is the largest resident set of a process that has ended, in bytes.
func residentSet(state *os.ProcessState) int64 {
	rusage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	size := int64(rusage.Maxrss) //nolint:unconvert // 32 bits wide on some platforms
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return size // in bytes there, elsewhere in KiB
	}
	return size << 10
}
