//go:build !linux

package postgrestest

import (
	"os/user"
	"syscall"
)

const syncMethod = "fsync"

func attributes(*user.User) *syscall.SysProcAttr { return nil }
