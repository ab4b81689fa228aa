package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// together is how much memory a process and all that it started take at once.
type together struct {
	stop chan struct{}
	peak chan int64
}

// watch looks at a process until end, five times a second.
func watch(pid int) *together {
	t := &together{stop: make(chan struct{}), peak: make(chan int64, 1)}
	go func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		var peak int64
		for {
			select {
			case <-t.stop:
				t.peak <- peak
				return
			case <-ticker.C:
				peak = max(peak, family(pid))
			}
		}
	}()
	return t
}

// end is the most that was seen, in bytes; 0 where the operating system does not tell.
func (t *together) end() int64 {
	close(t.stop)
	return <-t.peak
}

// family is the memory of a process and all its descendants, in bytes. What they share is counted once.
// https://man7.org/linux/man-pages/man5/proc_pid_smaps.5.html
func family(root int) int64 {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	children := map[int][]int{}
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid; the name may hold anything
		fields := strings.Fields(string(content)[strings.LastIndex(string(content), ")")+1:])
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	var sum func(int) int64
	sum = func(pid int) int64 {
		total := proportionalSet(pid)
		for _, child := range children[pid] {
			total += sum(child)
		}
		return total
	}
	return sum(root)
}

// proportionalSet is the memory of a process in bytes, of which that part is its own that it shares with others.
func proportionalSet(pid int) int64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		var size int64
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &size); n == 1 {
			return size << 10
		}
	}
	return 0
}
