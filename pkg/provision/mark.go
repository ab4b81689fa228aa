package provision

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/urn"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// A mark stands in the state directory as long as an operation that changes a stack runs. Where one is found, the last run on this
// machine was killed. The engine's own record of it is not enough: it knows of creations, but loses a deletion when the program
// runs along, and everything when it was this process alone that was killed.

// mark says that an operation on a stack runs. It tells whether there was a mark already, and how to take it away.
func (s *State) mark(identity stackidentity.Identity) (found bool, unmark func(), err error) {
	if s.Shared != nil {
		return s.markShared(identity)
	}
	if s.marks == "" {
		return false, func() {}, nil
	}
	if err := os.MkdirAll(s.marks, 0o700); err != nil {
		return false, nil, onDisk(err, "create the folder of the marks of runs")
	}
	file := filepath.Join(s.marks, url.PathEscape(identity.String()))
	made, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case os.IsExist(err):
		found = true
	case err != nil:
		return false, nil, onDisk(err, "mark the run")
	default:
		if err := made.Close(); err != nil {
			return false, nil, onDisk(err, "mark the run")
		}
	}
	return found, func() { _ = os.Remove(file) }, nil
}

// The names of what is in State.Shared begin with these.
const (
	sharedMarks   = "running/"
	sharedCreates = "creates/"
)

// markShared is mark where all machines see it.
func (s *State) markShared(identity stackidentity.Identity) (found bool, unmark func(), err error) {
	name := sharedMarks + identity.String()
	marks, err := s.Shared.Read(name)
	if err != nil {
		return false, nil, errors.Wrap(err, "look for the mark of a run")
	}
	_, found = marks[name]
	if !found {
		if err := s.Shared.Write(name, nil); err != nil {
			return false, nil, errors.Wrap(err, "mark the run")
		}
	}
	return found, func() { _ = s.Shared.Remove(name) }, nil
}

// journal is the journal of creates, nil for none.
func (s *State) journal() *journal.Journal {
	switch {
	case s.Shared != nil:
		return journal.On(under{Files: s.Shared, prefix: sharedCreates})
	case s.Creates != "":
		return journal.Open(s.Creates)
	}
	return nil
}

// under are those files whose names begin with a prefix, by the rest of their names.
type under struct {
	journal.Files
	prefix string
}

// Read implements journal.Files.
func (u under) Read(prefix string) (map[string][]byte, error) {
	all, err := u.Files.Read(u.prefix + prefix)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(all))
	for name, content := range all {
		files[strings.TrimPrefix(name, u.prefix)] = content
	}
	return files, nil
}

// Write implements journal.Files.
func (u under) Write(name string, content []byte) error { return u.Files.Write(u.prefix+name, content) }

// Remove implements journal.Files.
func (u under) Remove(name string) error { return u.Files.Remove(u.prefix + name) }

// askedFor is what native plugins asked a cloud for on behalf of a stack, and do not know to be recorded in its state.
func (s *State) askedFor(identity stackidentity.Identity) ([]journal.Entry, error) {
	creates := s.journal()
	if creates == nil {
		return nil, nil
	}
	urns, err := creates.URNs()
	if err != nil {
		return nil, err
	}
	var asked []journal.Entry
	for _, text := range urns {
		name, err := urn.Parse(text)
		if err != nil || string(name.Project()) != identity.Project || string(name.Stack()) != identity.Stack {
			continue
		}
		entries, err := creates.Entries(text)
		if err != nil {
			return nil, err
		}
		asked = append(asked, entries...)
	}
	return asked, nil
}
