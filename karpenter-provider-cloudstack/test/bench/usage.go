package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// ticks is in how many parts of a second Linux counts the time of processors that a process takes.
const ticks = 100

// usage watches a process, and the machine.
type usage struct {
	pid           int
	began         time.Time
	ticks, others float64
	samples       []float64
	end           chan struct{}
	done          chan error
}

// used is what was used.
type used struct {
	// memory is the 95th percentile of the memory of the process in megabytes, cores how many it took on average.
	memory, cores float64
	// others is how many cores all took that has nothing to do with the measurement.
	others float64
}

// watch begins to watch a process.
func watch(pid int) (*usage, error) {
	before, err := processorTicks(pid)
	if err != nil {
		return nil, err
	}
	others, err := othersTicks()
	if err != nil {
		return nil, err
	}
	u := &usage{pid: pid, began: time.Now(), ticks: before, others: others, end: make(chan struct{}), done: make(chan error, 1)}
	go func() { u.done <- u.sample() }()
	return u, nil
}

// sample looks at the memory each second, and when the watch ends.
func (u *usage) sample() error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		var last bool
		select {
		case <-ticker.C:
		case <-u.end:
			last = true
		}
		megabytes, err := residentMB(u.pid)
		if err != nil {
			return err
		}
		if u.samples = append(u.samples, megabytes); last {
			return nil
		}
	}
}

// stop ends the watch.
func (u *usage) stop() (used, error) {
	close(u.end)
	if err := <-u.done; err != nil {
		return used{}, err
	}
	after, err := processorTicks(u.pid)
	if err != nil {
		return used{}, err
	}
	others, err := othersTicks()
	if err != nil {
		return used{}, err
	}
	second := ticks * time.Since(u.began).Seconds()
	return used{memory: percentile(u.samples, 95), cores: (after - u.ticks) / second, others: max(0, others-u.others) / second}, nil
}

// residentMB is the memory of a process that is in use, as Linux tells it.
func residentMB(pid int) (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, errors.Wrap(err, "reading how much memory the provider takes")
	}
	for line := range bytes.Lines(raw) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib * 1024 / 1e6, errors.WithStack(err)
		}
	}
	return 0, errors.New("Linux does not tell how much memory the provider takes")
}

// processorTicks is how long a process has been on processors, in ticks.
func processorTicks(pid int) (float64, error) {
	fields, err := stat(strconv.Itoa(pid))
	if err != nil {
		return 0, errors.Wrap(err, "reading how long the provider has been running")
	}
	return sumOf(fields[user : system+1])
}

// Fields of /proc/<pid>/stat, counted from after the name: ppid, utime and stime of proc(5).
const parent, user, system = 1, 11, 12

// stat has the fields of /proc/<pid>/stat after the name, which is in brackets and may have anything in it.
func stat(pid string) ([]string, error) {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil, errors.WithStack(err)
	}
	_, after, _ := bytes.Cut(raw, []byte(") "))
	fields := strings.Fields(string(after))
	if len(fields) <= system {
		return nil, errors.Errorf("/proc/%s/stat is shorter than expected", pid)
	}
	return fields, nil
}

func sumOf(fields []string) (sum float64, err error) {
	for _, field := range fields {
		count, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, errors.WithStack(err)
		}
		sum += count
	}
	return sum, nil
}

// othersTicks is how long the processors of the machine have been busy with anything but this process and its descendants, in ticks.
func othersTicks() (float64, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, errors.Wrap(err, "reading how busy the machine is")
	}
	// cpu user nice system idle iowait irq softirq steal
	line, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, errors.New("/proc/stat is not as expected")
	}
	busy, err := sumOf(slices.Concat(fields[1:4], fields[6:9]))
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, errors.Wrap(err, "reading which processes there are")
	}
	all := map[string][]string{}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err == nil {
			// One that has ended meanwhile counts no more.
			if fields, err := stat(entry.Name()); err == nil {
				all[entry.Name()] = fields
			}
		}
	}
	self := strconv.Itoa(os.Getpid())
	for pid, fields := range all {
		for one := pid; one != "" && one != "0"; {
			if one == self {
				mine, err := sumOf(fields[user : system+1])
				if err != nil {
					return 0, err
				}
				busy -= mine
				break
			}
			if all[one] == nil {
				break
			}
			one = all[one][parent]
		}
	}
	return busy, nil
}

// percentile is the smallest of the values that so many percent of them do not exceed; 0 of no values.
func percentile[T float64 | time.Duration](values []T, percent int) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
