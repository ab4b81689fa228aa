package filelock

import (
	"os"
	"syscall"

	"github.com/pkg/errors"
)

// errorSharingViolation is ERROR_SHARING_VIOLATION of the Windows API.
const errorSharingViolation syscall.Errno = 32

// open opens the file for this process alone: no share mode is the lock of Windows.
func open(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil, syscall.OPEN_ALWAYS,
		syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errorSharingViolation) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(handle), path), nil
}
