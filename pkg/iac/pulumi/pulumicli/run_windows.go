package pulumicli

import (
	"os"
	"os/exec"
	"syscall"
)

// generateConsoleCtrlEvent sends a signal to a process group.
// https://learn.microsoft.com/windows/console/generateconsolectrlevent
var generateConsoleCtrlEvent = syscall.NewLazyDLL("kernel32.dll").NewProc("GenerateConsoleCtrlEvent")

// setProcessGroup starts the command in a process group of its own.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// interrupt asks the command to end: Ctrl-Break, because Windows does not send Ctrl-C to a single process group.
func interrupt(process *os.Process) error {
	if ok, _, err := generateConsoleCtrlEvent.Call(syscall.CTRL_BREAK_EVENT, uintptr(process.Pid)); ok == 0 {
		return err
	}
	return nil
}
