package provision

import (
	"os"
	"syscall"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// The words by which trouble with the state is told. They are those of Pulumi's backends and of operating systems.
var (
	passphraseWords = pattern(`(?i)incorrect passphrase|passphrase must be set|no passphrase`)
	damagedWords    = pattern(`failed to load checkpoint: (place|unknown|unexpected end|invalid|EOF)|snapshot integrity failure|` +
		`could not deserialize deployment|unexpected end of JSON input`)
	fullWords = pattern(`(?i)no space left on device|disk quota exceeded|not enough space on the disk`)
	// storeWords are those of the client of a store of objects, such as S3, about what Pulumi keeps there.
	storeWords    = pattern(`blob \((key "[^"]*"\) \()?code=`)
	readOnlyWords = pattern(`(?i)read-only file system|(open|mkdir|create|write|rename|unlink|remove|chmod) \S+: permission denied`)
)

// stateTrouble tells whether words are about the state that cannot be read or written, and what to do then.
func (e *Engine) stateTrouble(stack stackidentity.Identity, text string) (hint string, ok bool) {
	switch {
	case passphraseWords().MatchString(text):
		return "", true
	case damagedWords().MatchString(text):
		hint := "the file of the state is damaged; put a copy of it back with planton state import"
		if backups := e.Backups(stack); len(backups) > 0 {
			hint += ", such as the last one that the engine kept: planton state import --stack " + stack.String() + " " + backups[0]
		}
		return hint + "; then planton refresh -f FILE reads what has changed since", true
	case storeWords().MatchString(text) && unreachableWords().MatchString(text):
		return "the backend of the states does not answer: look whether this machine reaches it (PULUMI_BACKEND_URL), and run the command " +
			"again: it looks what became of what was begun", true
	case fullWords().MatchString(text):
		return "make room on the disk of the state, and run the command again: it looks what became of what was begun", true
	case readOnlyWords().MatchString(text):
		return "the state must be writable: look at the owner and the mode of its folder, and how its disk is mounted", true
	}
	return "", false
}

// room is how much an operation must be able to write: Pulumi writes the state of a stack after each step, and keeps copies.
const room = 1 << 20

// checkRoom finds out whether a backend in files can be written, before anything is begun. Pulumi's file backend replaces a state by half
// of the new one when the disk is full.
func (s *State) checkRoom() error {
	directory, ok := s.folder()
	if !ok {
		return nil
	}
	if err := s.checkFolder(); err != nil {
		return err
	}
	probe, err := os.CreateTemp(directory, ".planton-room-*")
	if err != nil {
		return onDisk(err, writeStates)
	}
	defer func() { _ = os.Remove(probe.Name()) }()
	if err := tryOut(probe); err != nil {
		return err
	}
	return s.nameFolder()
}

// writeStates is what fails when the states cannot be written.
const writeStates = "write the stacks' states"

// tryOut writes as much as an operation may need, and closes the file.
func tryOut(file *os.File) error {
	_, err := file.Write(make([]byte, room))
	return onDisk(firstError(err, file.Close()), writeStates)
}

// onDisk makes the error of a file of the state, which is of kind StateTrouble when the disk is full or may not be written.
func onDisk(err error, doing string) error {
	if err == nil {
		return nil
	}
	for _, cause := range []error{syscall.ENOSPC, syscall.EROFS, os.ErrPermission} {
		if errors.Is(err, cause) {
			failure := &Error{Kind: StateTrouble, Operation: doing, Message: err.Error(), cause: err}
			failure.Hint, _ = (&Engine{options: Options{State: &State{}}}).stateTrouble(stackidentity.Identity{}, err.Error())
			return failure
		}
	}
	return errors.Wrap(err, doing)
}
