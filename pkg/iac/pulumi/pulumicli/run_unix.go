//go:build unix

package pulumicli

import (
	"os"
	"os/exec"
	"syscall"
)

// setProcessGroup starts the command in a process group of its own.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// interrupt asks the command to end, as Ctrl-C does.
func interrupt(process *os.Process) error {
	return process.Signal(os.Interrupt)
}
