//go:build unix

package nodepoolsserver

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
)

// marked are the processes whose mark begins so: servers, and their engines, which stand in process groups of their own. The plugins are in
// the server, so that an engine whose server is killed ends as soon as it needs one, and goes on until then. They are found on Linux alone.
func marked(mark string) []*os.Process {
	var all []*os.Process
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		// It is this process from here on, also when it ends and another one is given its id.
		process, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		environment, _ := os.ReadFile(filepath.Join(folder, "environ")) // empty of one that ended, or is somebody else's
		if bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+markVariable+"="+mark)) {
			all = append(all, process)
		} else {
			_ = process.Release()
		}
	}
	return all
}

// commandLine is what a process was started as; empty when it ended.
func commandLine(process *os.Process) string {
	line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.Pid), "cmdline"))
	return strings.ReplaceAll(string(bytes.TrimRight(line, "\x00")), "\x00", " ")
}

// end ends all processes whose mark begins so, and those that they start meanwhile.
func (w *world) end(mark string) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left := marked(mark)
		if len(left) == 0 {
			return
		}
		late := time.Now().After(deadline)
		for _, process := range left {
			if late {
				w.t.Errorf("this lives on: %s", commandLine(process))
			}
			_ = process.Kill()
			_ = process.Release()
		}
		if late {
			return
		}
	}
}

// TestNothingOutlivesATest: the engine of a server that is killed goes on without it, and ends with the test.
func TestNothingOutlivesATest(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("a server is killed", func(t *testing.T) {
		real, err := pulumiCLI()
		if err != nil {
			t.Skip(err)
		}
		// An engine that does not see that its server is gone. A stopped one would be woken up and ended by the kernel.
		const hangs = "sleep 1000"
		engine := filepath.Join(t.TempDir(), "pulumi")
		script := "#!/bin/sh\ncase \" $* \" in *' up '*) exec " + hangs + ";; esac\nexec '" + real.Path + "' \"$@\"\n"
		// A program that is forked meanwhile would hold the file open for writing, and what is written to cannot be run.
		syscall.ForkLock.RLock()
		err = os.WriteFile(engine, []byte(script), 0o700)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, pulumicli.Environment+"="+engine)
		p := w.start()
		if len(marked(p.mark)) == 0 {
			t.Skip("what a server started is found on Linux alone")
		}
		dir = w.dir
		p.do(http.MethodPost, "/api/v1/clusters", civoBody)
		runs := func() bool {
			return slices.ContainsFunc(marked(p.mark), func(process *os.Process) bool { return commandLine(process) == hangs })
		}
		w.until("the engine runs", runs)
		p.kill()
		if !runs() {
			t.Error("no engine goes on without its server: nothing is tested")
		}
	})
	if dir == "" {
		return
	}
	for _, process := range marked(dir) {
		t.Errorf("this outlives the test: %s", commandLine(process))
		_ = process.Kill()
	}
}
