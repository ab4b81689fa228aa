package postgrestest

import (
	"os/user"
	"strconv"
	"syscall"
)

const syncMethod = "syncfs"

// attributes has a server run as a user, and end with the test that started it, however that ends.
func attributes(account *user.User) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if account != nil {
		uid, _ := strconv.ParseUint(account.Uid, 10, 32)
		gid, _ := strconv.ParseUint(account.Gid, 10, 32)
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return attributes
}
