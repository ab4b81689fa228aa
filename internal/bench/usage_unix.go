//go:build unix

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
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

// residentSet is the largest resident set of a process that has ended, in bytes. On Linux it is at least that of the process that
// started it, which shares its memory with it for a moment.
func residentSet(state *os.ProcessState) int64 {
	rusage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return bytesOf(rusage)
}

// ownUsage is what this process has taken so far, without those that it started.
func ownUsage() usage {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			var size int64
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &size); n == 1 {
				return usage{CPU: ownCPU(), RSS: size << 10}
			}
		}
	}
	var rusage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &rusage)
	return usage{CPU: ownCPU(), RSS: bytesOf(&rusage)}
}

func bytesOf(rusage *syscall.Rusage) int64 {
	size := int64(rusage.Maxrss) //nolint:unconvert // 32 bits wide on some platforms
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return size // in bytes there, elsewhere in KiB
	}
	return size << 10
}
