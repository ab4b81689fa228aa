package kubeconfig

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
)

const (
	// BackupSuffix is what the name of a kubeconfig gets for the copy of it from before the last Merge that changed it.
	BackupSuffix = ".planton-backup"

	// lockSuffix is that of kubectl, so that the two keep out of each other's way: whoever makes the file has the lock.
	// https://github.com/kubernetes/client-go/blob/master/tools/clientcmd/loader.go
	lockSuffix   = ".lock"
	lockPatience = 10 * time.Second
	lockInterval = 100 * time.Millisecond
)

// LockedError is the error of a kubeconfig that somebody else is writing, or was when their process was killed.
type LockedError struct {
	// Lock is the file that stands for the lock.
	Lock string
}

// Error says how to get rid of a lock that nobody holds.
func (e *LockedError) Error() string {
	return "another process, such as kubectl, is writing the kubeconfig: " + e.Lock + " is there; remove it if no such process runs"
}

// Merged tells what Merge did.
type Merged struct {
	// File is the kubeconfig.
	File string
	// Changed is false when everything was in it already; then nothing was written.
	Changed bool
	// Backup is the copy of the kubeconfig as it was; empty when there was none, or nothing was written.
	Backup string
}

// DefaultFile is the kubeconfig that kubectl writes a new context into: the first one of KUBECONFIG, or ~/.kube/config.
func DefaultFile(getenv func(string) string) (string, error) {
	for _, file := range filepath.SplitList(getenv("KUBECONFIG")) {
		if file != "" {
			return file, nil
		}
	}
	home := getenv("HOME")
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return "", errors.Wrap(err, "find the home directory (set KUBECONFIG)")
		}
	}
	return filepath.Join(home, ".kube", "config"), nil
}

// Merge puts a cluster into a kubeconfig, which it makes where it is missing. It is written as a whole or not at all, readable by its
// owner alone, under the lock that kubectl takes; a copy of what was there before stands beside it. The error is a *ForeignError when the
// name is taken, and a *LockedError when the lock did not become free within ten seconds.
func Merge(ctx context.Context, file string, entry Entry) (Merged, error) {
	merged := Merged{File: file}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return merged, errors.Wrap(err, "create the folder of the kubeconfig")
	}
	unlock, err := lock(ctx, file+lockSuffix)
	if err != nil {
		return merged, err
	}
	defer unlock()
	// A link stays one: what it points at is written.
	target, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		target, err = file, nil
	}
	if err != nil {
		return merged, errors.Wrap(err, "find the kubeconfig")
	}
	old, err := os.ReadFile(target)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return merged, errors.Wrap(err, "read the kubeconfig")
	}
	content, err := merge(old, entry)
	if err != nil {
		var foreign *ForeignError
		if errors.As(err, &foreign) {
			foreign.File = file
		}
		return merged, errors.Wrapf(err, "merge into %s", file)
	}
	if bytes.Equal(old, content) {
		return merged, nil
	}
	if !missing {
		if err := Write(target+BackupSuffix, old); err != nil {
			return merged, err
		}
		merged.Backup = target + BackupSuffix
	}
	merged.Changed = true
	return merged, Write(target, content)
}

// Write writes a file that only its owner can read, as a whole or not at all.
func Write(file string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*") // CreateTemp makes it 0600
	if err != nil {
		return errors.Wrapf(err, "write %s", file)
	}
	_, err = temporary.Write(content)
	if syncErr := temporary.Sync(); err == nil {
		err = syncErr
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return errors.Wrapf(err, "write %s", file)
	}
	return nil
}

// lock makes the lock file, and waits while there is one.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	deadline := time.Now().Add(lockPatience)
	for {
		made, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = made.Close()
			return func() { _ = os.Remove(file) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, errors.Wrap(err, "lock the kubeconfig")
		}
		if time.Now().After(deadline) {
			return nil, &LockedError{Lock: file}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Wrap(ctx.Err(), "wait for the lock of the kubeconfig")
		case <-time.After(lockInterval):
		}
	}
}
