//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// ownCPU is the user and system time of this process: what else the machine does is not in it.
func ownCPU() time.Duration {
	var rusage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &rusage); err != nil {
		return 0
	}
	return time.Duration(rusage.Utime.Nano() + rusage.Stime.Nano())
}

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
