//go:build !unix

package main

import (
	"os"
	"time"
)

var started = time.Now()

// ownCPU is the time since the start: that of the process is not told here.
func ownCPU() time.Duration { return time.Since(started) }

// residentSet is not told here.
func residentSet(*os.ProcessState) int64 { return 0 }

// ownUsage is what this process has taken so far.
func ownUsage() usage { return usage{CPU: ownCPU()} }
