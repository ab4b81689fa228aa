package journal

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/pkg/errors"
)

// Files are what a journal is written to: a folder, or what several machines share. Its methods can be called at the same time.
type Files interface {
	// Read reads all files whose names begin so; none is no error. A read that fails is one, also of a single file.
	Read(prefix string) (map[string][]byte, error)
	// Write puts a file in the place of the one of that name: whole or not at all, and to stay when it returns.
	Write(name string, content []byte) error
	// Remove removes a file. That there is none is a success.
	Remove(name string) error
	// String says where they are, for messages.
	fmt.Stringer
}

// folder is files in a folder, which the first write makes.
type folder string

// String is the path.
func (f folder) String() string { return string(f) }

// Read implements Files.
func (f folder) Read(prefix string) (map[string][]byte, error) {
	found, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := map[string][]byte{}
	for _, file := range found {
		name := file.Name()
		if file.IsDir() || !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, suffix) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(string(f), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return files, nil
}

// Write implements Files. The file is on the disk when it returns.
func (f folder) Write(name string, content []byte) error {
	if err := makeFolder(string(f)); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(string(f), name+".*") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	if syncErr := temporary.Sync(); err == nil {
		err = syncErr
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(string(f), name))
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return err
	}
	return syncFolder(string(f))
}

// Remove implements Files. What a killed process left of a write goes, too.
func (f folder) Remove(name string) error {
	leftovers, err := filepath.Glob(filepath.Join(string(f), name+".*"))
	if err != nil {
		leftovers = nil // the folder's name is a pattern that is none
	}
	for _, path := range append(leftovers, filepath.Join(string(f), name)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// makeFolder makes a folder and those above it, for their owner alone, and has them on the disk.
func makeFolder(directory string) error {
	if info, err := os.Stat(directory); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(directory)
	if above != directory {
		if err := makeFolder(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(directory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(above)
}

// syncFolder has the names in a folder on the disk. Windows has no such call, and needs none.
func syncFolder(directory string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	opened, err := os.Open(directory)
	if err != nil {
		return err
	}
	err = opened.Sync()
	if closeErr := opened.Close(); err == nil {
		err = closeErr
	}
	return err
}
