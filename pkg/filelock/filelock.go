// Package filelock keeps two processes of one machine from doing the same thing at once, by a lock on a file. The
// operating system gives the lock back when the process ends, however it ends, so that a killed process leaves none.
package filelock

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// pollInterval is how often Acquire looks whether the lock has become free.
const pollInterval = 200 * time.Millisecond

// Lock is a lock that this process holds.
type Lock struct {
	file *os.File
}

// Try takes the lock on the file of the given path, which it makes, with its folder, where it is missing. While another
// process, or another Lock of this process, holds it, the error is ErrLocked (see errors.Is).
func Try(path string) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, errors.Wrap(err, "create the folder of the lock file")
	}
	file, err := open(path)
	if err != nil {
		return nil, errors.Wrapf(err, "lock %s", path)
	}
	// Who holds the lock is only for the message of the next one who wants it: a failure to write it is none of the lock.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Lock{file: file}, nil
}

// Acquire takes the lock as Try does, and waits for it while another process holds it. onWait, which may be nil, is called
// once when there is something to wait for. The error is that of the context when it ends first.
func Acquire(ctx context.Context, path string, onWait func()) (*Lock, error) {
	for waited := false; ; waited = true {
		lock, err := Try(path)
		if err == nil || !errors.Is(err, ErrLocked) {
			return lock, err
		}
		if !waited && onWait != nil {
			onWait()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Wrapf(ctx.Err(), "wait for the lock %s", path)
		case <-time.After(pollInterval):
		}
	}
}

// Holder is the id of the process that took the lock on the file last, 0 when that cannot be told.
func Holder(path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	return pid
}

// Unlock gives the lock back. The file stays: to remove it would let two processes lock two files of the same name.
func (l *Lock) Unlock() error {
	return errors.Wrap(l.file.Close(), "close the lock file")
}
