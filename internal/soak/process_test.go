//go:build linux

package soak

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// process is a process under test, with all that it starts: a session, because the Pulumi CLI stands in a process group of its own.
type process struct {
	cmd *exec.Cmd

	mu sync.Mutex // one kill at a time
}

func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// What outlives the process must not keep its output open for ever.
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, errors.Wrap(err, "start the process under test")
	}
	return &process{cmd: cmd}, nil
}

// kill kills the session with -9, and returns when nothing of it runs.
func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	const patience = 10 * time.Second
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(time.Millisecond) {
		running, err := session(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		if len(running) == 0 {
			return nil
		}
		// One that was started meanwhile is found the next time.
		for _, pid := range running {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return errors.Wrapf(err, "kill process %d", pid)
			}
		}
	}
	return errors.Errorf("what process %d started does not end", p.cmd.Process.Pid)
}

// session are the processes of a session that run. Linux tells of each in which session it is, whatever process group it made.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
func session(leader int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, errors.Wrap(err, "list processes")
	}
	var running []int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name, in parentheses, may hold anything.
		text := string(content)
		fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
		const state, inSession = 0, 3
		if len(fields) <= inSession || fields[state] == "Z" || fields[state] == "X" || fields[inSession] != strconv.Itoa(leader) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, errors.Wrap(err, "read the id of a process")
		}
		running = append(running, pid)
	}
	return running, nil
}
