// Package process runs a program beside this one: its output goes to a file, it ends with its parent, and when it ends before it was
// told to, the error has the end of its output.
package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/pkg/errors"
)

// tailLines is how many lines of the output an error has.
const tailLines = 15

// Options say what to run.
type Options struct {
	// Name is the name in errors. Default: the base name of Path.
	Name string
	// Path is the program.
	Path string
	// Args are its arguments, without the program itself.
	Args []string
	// Env are its environment variables, name=value. Nil: those of this process.
	Env []string
	// LogFile takes what it writes to both its streams. What the file has is kept, so that a program which is started again goes on
	// with one file.
	LogFile string
}

// Process is a program that was started.
type Process struct {
	name, logFile string
	cmd           *exec.Cmd
	done          chan struct{}
	state         error
	killed        atomic.Bool
}

// Start starts a program. On Linux the kernel kills it when this process ends, however it ends.
func Start(o Options) (*Process, error) {
	if o.Name == "" {
		o.Name = filepath.Base(o.Path)
	}
	log, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Wrapf(err, "starting %s", o.Name)
	}
	p := &Process{name: o.Name, logFile: o.LogFile, done: make(chan struct{})}
	p.cmd = exec.Command(o.Path, o.Args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = o.Env, log, log
	p.cmd.SysProcAttr = attributes()
	started := make(chan error)
	go func() {
		// The kernel counts the end of the thread that forked as the end of the parent, so the thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		// The child has the file open itself.
		_ = log.Close()
		started <- err
		if err != nil {
			return
		}
		p.state = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, errors.Wrapf(err, "starting %s", o.Name)
	}
	return p, nil
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Err is nil while the program runs, and after Kill or Interrupt; else it says how the program ended, with the last lines it wrote.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.killed.Load() {
		return nil
	}
	how := "it exited with status 0"
	if p.state != nil {
		how = p.state.Error()
	}
	return errors.Errorf("%s ended on its own: %s; the end of %s:\n%s", p.name, how, p.logFile, p.Tail())
}

// Kill ends the program at once, as kill -9 does, and waits until it is gone. It is no error when it has ended before.
func (p *Process) Kill() {
	p.killed.Store(true)
	// The one error there is, is that the process has ended.
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Interrupt asks the program to end; Done tells when it has.
func (p *Process) Interrupt() {
	p.killed.Store(true)
	_ = p.cmd.Process.Signal(os.Interrupt)
}

// Tail has the last lines that the program wrote.
func (p *Process) Tail() string { return Tail(p.logFile) }

// Tail has the last lines of a file, indented; where it cannot be read, why.
func Tail(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("\t(%v)", err)
	}
	lines := strings.Split(string(bytes.TrimRight(raw, "\n")), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return "\t" + strings.Join(lines, "\n\t")
}
