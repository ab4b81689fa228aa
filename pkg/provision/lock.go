package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Holder is what is known of the process that holds a lock.
type Holder string

// What is known of holders.
const (
	// Alive: a process of this machine has the number that the lock names.
	Alive Holder = "alive"
	// Ended: the process was one of this machine, and has ended without giving the lock back.
	Ended Holder = "ended"
	// Elsewhere: the process is one of another machine, and nobody can tell from here whether it still runs.
	Elsewhere Holder = "elsewhere"
	// Unreadable: the lock does not say whose it is.
	Unreadable Holder = "unreadable"
)

// Lock is a lock on a stack: somebody works on it, or was killed while they did.
type Lock struct {
	// Holder is what is known of the process that holds it.
	Holder Holder `json:"holder"`
	// User, Host and PID name that process.
	User string `json:"user,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Since is when the lock was taken, by that machine's clock.
	Since time.Time `json:"since,omitzero"`

	file string
}

// String tells whose lock it is.
func (l Lock) String() string {
	who := fmt.Sprintf("process %d of %s on %s", l.PID, l.User, l.Host)
	switch l.Holder {
	case Ended:
		who += ", which has ended"
	case Unreadable:
		return "a lock file that cannot be read (" + l.file + ")"
	}
	return who + ", since " + l.Since.Format(time.RFC3339)
}

// holderOf tells what is known of a process. Only its number and its machine say something: the time of a lock is of a clock that may
// be wrong, or may have been set since.
func holderOf(host string, pid int) Holder {
	here, err := os.Hostname()
	switch {
	case err != nil || host != here:
		return Elsewhere
	case processEnded(pid):
		return Ended
	default:
		return Alive
	}
}

// Locks are the locks on a stack. Known is false where the backend does not tell: only those in files do.
func (e *Engine) Locks(identity stackidentity.Identity) (locks []Lock, known bool, err error) {
	directory, ok := e.options.State.folder()
	if !ok {
		return nil, false, nil
	}
	locks, err = locksIn(directory, identity)
	return locks, true, err
}

// lockFolder is where Pulumi's file backend keeps the locks of stacks, a folder a stack.
const lockFolder = ".pulumi/locks"

func locksIn(directory string, identity stackidentity.Identity) ([]Lock, error) {
	// Beside a lock its attributes may stand, in a file of its name and ".attrs".
	files, err := fs.Glob(os.DirFS(directory), path.Join(lockFolder, identity.String(), "*.json"))
	if err != nil {
		return nil, errors.Wrap(err, "look for the locks of the stack")
	}
	var locks []Lock
	for _, name := range files {
		lock, err := readLock(filepath.Join(directory, filepath.FromSlash(name)))
		if os.IsNotExist(errors.Cause(err)) {
			continue // it was given back just now
		}
		if err != nil {
			return nil, err
		}
		locks = append(locks, lock)
	}
	return locks, nil
}

func readLock(file string) (Lock, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Lock{}, errors.Wrap(err, "read a lock")
	}
	var owner struct {
		PID       int       `json:"pid"`
		Username  string    `json:"username"`
		Hostname  string    `json:"hostname"`
		Timestamp time.Time `json:"timestamp"`
	}
	if err := json.Unmarshal(content, &owner); err != nil || owner.PID <= 0 {
		return Lock{Holder: Unreadable, file: file}, nil //nolint:nilerr // that it cannot be read is what is to be told
	}
	return Lock{
		Holder: holderOf(owner.Hostname, owner.PID), User: owner.Username, Host: owner.Hostname, PID: owner.PID, Since: owner.Timestamp,
		file: file,
	}, nil
}

// locksNamed are the locks that the words of the engine name.
func locksNamed(text string) []Lock {
	var locks []Lock
	for _, match := range lockOwnerWords().FindAllStringSubmatch(text, -1) {
		pid, err := strconv.Atoi(match[3])
		if err != nil {
			return nil
		}
		since, _ := time.Parse(time.RFC3339, match[4]) // for people alone
		locks = append(locks, Lock{Holder: holderOf(match[2], pid), User: match[1], Host: match[2], PID: pid, Since: since})
	}
	return locks
}

// Unlock takes the locks of a stack away whose processes have ended, and returns them. The error is of kind Conflict where a lock is
// another one's, and nothing is taken away then; force takes it away all the same. Two that work on one stack at once lose what the
// other one writes, so the caller has to be sure that nobody does.
func (e *Engine) Unlock(ctx context.Context, identity stackidentity.Identity, force bool) ([]Lock, error) {
	if err := e.options.State.mend(); err != nil {
		return nil, err
	}
	locks, known, err := e.Locks(identity)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, e.cancel(ctx, identity, force)
	}
	var others []string
	for _, lock := range locks {
		if lock.Holder != Ended {
			others = append(others, lock.String())
		}
	}
	if len(others) > 0 && !force {
		return nil, &Error{
			Kind: Conflict, Stack: identity, Operation: "unlock", Message: "it is locked by " + strings.Join(others, "; "),
		}
	}
	return locks, removeLocks(locks)
}

func removeLocks(locks []Lock) error {
	for _, lock := range locks {
		if err := os.Remove(lock.file); err != nil && !os.IsNotExist(err) {
			return errors.Wrap(err, "remove the lock")
		}
		_ = os.Remove(lock.file + ".attrs")
	}
	return nil
}

// cancel takes all locks away in a backend that does not tell whose they are.
func (e *Engine) cancel(ctx context.Context, identity stackidentity.Identity, force bool) error {
	if !force {
		return &Error{
			Kind: Refused, Stack: identity, Operation: "unlock",
			Message: "who holds a lock cannot be looked up in this backend: the operation that is locked out names them, and removes the " +
				"lock by itself when they were a process of this machine that has ended; --force removes it without looking",
		}
	}
	if _, err := e.pulumi(ctx, "cancel", "--yes", "--stack", identity.String()); err != nil {
		return e.failure(ctx, "unlock", identity, err, nil, nil)
	}
	return nil
}

// pulumi runs a command of the CLI that needs no project, and returns what it writes.
func (e *Engine) pulumi(ctx context.Context, args ...string) (string, error) {
	directory, err := os.MkdirTemp("", "planton-stack-")
	if err != nil {
		return "", errors.Wrap(err, "create a folder for the command")
	}
	defer func() { _ = os.RemoveAll(directory) }()
	var environment []string
	for name, value := range e.options.State.environment() {
		environment = append(environment, name+"="+value)
	}
	if home := e.options.State.Home; home != "" {
		environment = append(environment, environmentHome+"="+home)
	}
	out, errs, _, err := e.options.CLI.Run(ctx, directory, nil, nil, nil, environment, append(args, "--non-interactive")...)
	return out, errors.Wrap(err, errs)
}

// folder is the folder of a backend in files.
func (s *State) folder() (string, bool) {
	directory := folderOf(s.BackendURL)
	return directory, directory != ""
}

// staleLock tells whether all who hold the lock of a stack are processes of this machine that have ended, and which. A process that is
// killed leaves its lock, and would keep everybody out for ever.
func staleLock(text string) (pids []string, stale bool) {
	for _, match := range lockOwnerWords().FindAllStringSubmatch(text, -1) {
		pid, err := strconv.Atoi(match[3])
		if err != nil || holderOf(match[2], pid) != Ended {
			return nil, false
		}
		pids = append(pids, match[3])
	}
	return pids, len(pids) > 0
}
