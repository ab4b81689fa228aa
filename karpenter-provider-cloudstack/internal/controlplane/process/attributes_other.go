//go:build !linux

package process

import "syscall"

// attributes are empty: only Linux ends a program with its parent.
func attributes() *syscall.SysProcAttr { return nil }
