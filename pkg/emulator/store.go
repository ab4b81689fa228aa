package emulator

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"
)

// Store keeps the objects of one emulated cloud, in memory and, when it was given a path, in a file. S is the type of the
// whole state; everything in it that matters is exported, because it is kept as JSON.
type Store[S any] struct {
	mu    sync.RWMutex
	path  string
	state *S
	// kept is the state as it was last written: what a failed change falls back to.
	kept []byte
}

// OpenStore reads the state from path, or starts with initial when there is no file yet or path is "". A file that cannot be
// read or decoded is an error; it is never overwritten.
func OpenStore[S any](path string, initial *S) (*Store[S], error) {
	s := &Store[S]{path: path, state: initial}
	if path != "" {
		contents, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, errors.Wrap(err, "read the emulated cloud's state")
		default:
			state, err := decodeState[S](contents)
			if err != nil {
				return nil, errors.Wrapf(err, "decode the emulated cloud's state in %s", path)
			}
			s.state, s.kept = state, contents
			return s, nil
		}
	}
	return s, s.keep()
}

// View reads the state. fn must not change it, nor keep a part of it.
func (s *Store[S]) View(fn func(*S)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	fn(s.state)
}

// Update changes the state. The change is in the file when Update returns nil; when fn or the writing fails, the state is
// what it was before, and the error is fn's own, or that of the writing as a *[WriteError].
func (s *Store[S]) Update(fn func(*S) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := fn(s.state)
	if err == nil {
		if err = s.keep(); err == nil {
			return nil
		}
	}
	before, decodeErr := decodeState[S](s.kept)
	if decodeErr != nil {
		return errors.Wrap(decodeErr, "undo a change of the emulated cloud's state")
	}
	s.state = before
	return err
}

// WriteError says that a change was undone because it could not be written to the state file.
type WriteError struct{ Err error }

// Error names the file, as the cause does.
func (e *WriteError) Error() string { return "write the emulated cloud's state: " + e.Err.Error() }

// Unwrap is the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// keep writes the state to the file, if there is one, and remembers it. The caller holds the lock.
func (s *Store[S]) keep() error {
	encoded, err := json.MarshalIndent(s.state, "", "  ")
	if err != nil {
		return errors.Wrap(err, "encode the emulated cloud's state")
	}
	if s.path != "" && !bytes.Equal(encoded, s.kept) {
		if err := writeFile(s.path, encoded); err != nil {
			return &WriteError{Err: err}
		}
	}
	s.kept = encoded
	return nil
}

func decodeState[S any](encoded []byte) (*S, error) {
	state := new(S)
	if err := json.Unmarshal(encoded, state); err != nil {
		return nil, err
	}
	return state, nil
}

// writeFile puts contents at path in one step: a reader, or the next start after a crash, finds the old or the new contents
// whole. Only the owner can read the file.
func writeFile(path string, contents []byte) (err error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(folder, filepath.Base(path)+".*") // created with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = temporary.Close()
			_ = os.Remove(temporary.Name())
		}
	}()
	if _, err := temporary.Write(contents); err != nil {
		return err
	}
	if err := temporary.Sync(); err != nil {
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
