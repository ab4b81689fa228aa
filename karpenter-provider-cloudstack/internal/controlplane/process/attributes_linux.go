package process

import "syscall"

// attributes keep the keyboard's interrupt from the program, which its parent ends in its own time, and end it with its parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
