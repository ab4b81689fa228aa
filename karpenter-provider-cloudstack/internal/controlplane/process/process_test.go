package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what takes no time.
const patience = 20 * time.Second

// The test binary is the parent of TestEndsWithParent when this is set: it starts a program, tells its id, and waits to be killed.
const parentVariable = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(parentVariable); log != "" {
		p, err := Start(Options{Path: "/bin/sleep", Args: []string{"600"}, LogFile: log})
		if err != nil {
			panic(err)
		}
		fmt.Println(p.Pid())
		// Garbage collection and other threads must not end it: give the runtime some reason to move goroutines about.
		runtime.GC()
		select {}
	}
	os.Exit(m.Run())
}

func TestErr(t *testing.T) {
	for _, test := range []struct {
		reason, script string
		want           []string
		not            string
	}{
		{"a program that fails tells its status and its last lines", "seq 1 100; echo broken >&2; exit 4", []string{"exit status 4", "100", "broken"}, "\t1\n"},
		{"a program that should run and ends well is an error too", "echo bye", []string{"status 0", "bye"}, ""},
		{"a program that writes nothing has no lines", "exit 1", []string{"exit status 1", "silent"}, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			p, err := Start(Options{Name: "silent", Path: "/bin/sh", Args: []string{"-c", test.script}, LogFile: filepath.Join(t.TempDir(), "log")})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-p.Done():
			case <-time.After(patience):
				p.Kill()
				t.Fatal("the program did not end")
			}
			got := p.Err()
			if got == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(got.Error(), want) {
					t.Errorf("error %q lacks %q", got, want)
				}
			}
			if test.not != "" && strings.Contains(got.Error(), test.not) {
				t.Errorf("error %q has more than the end of the log", got)
			}
		})
	}
}

func TestKill(t *testing.T) {
	p, err := Start(Options{Path: "/bin/sleep", Args: []string{"600"}, LogFile: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("a program that runs has the error %v", err)
	}
	p.Kill()
	p.Kill()
	if err := p.Err(); err != nil {
		t.Errorf("a program that was killed has the error %v: it was meant to end", err)
	}
	if err := syscall.Kill(p.Pid(), 0); err == nil {
		t.Error("the process is still there")
	}
}

func TestStartFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no-such-program")
	if _, err := Start(Options{Path: missing, LogFile: filepath.Join(t.TempDir(), "log")}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want an error that names %s", err, missing)
	}
}

func TestEndsWithParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a program with its parent")
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatal("the program does not run although its parent does")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for deadline := time.Now().Add(patience); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the program outlives its parent")
		}
	}
}

// alive tells whether a process runs; one that has ended and that nobody has asked about yet does not.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(after, "Z")
}
