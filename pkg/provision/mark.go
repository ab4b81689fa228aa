package provision

import (
	"net/url"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/urn"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// A mark stands in the state directory as long as an operation that changes a stack runs. Where one is found, the last run on this
// machine was killed. The engine's own record of it is not enough: it knows of creations, but loses a deletion when the program
// runs along, and everything when it was this process alone that was killed.

// mark says that an operation on a stack runs. It tells whether there was a mark already, and how to take it away.
func (s *State) mark(identity stackidentity.Identity) (found bool, unmark func(), err error) {
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

// askedFor is what native plugins asked a cloud for on behalf of a stack, and do not know to be recorded in its state.
func (s *State) askedFor(identity stackidentity.Identity) ([]journal.Entry, error) {
	if s.Creates == "" {
		return nil, nil
	}
	creates := journal.Open(s.Creates)
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
