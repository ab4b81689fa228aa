package doctor

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// state are the checks of where states are kept.
type state struct {
	provision.Inspection
	backendURL string // as it was given, which may have a password
}

func (s *state) check(ctx context.Context, cli *pulumicli.CLI) []Check {
	checks := []Check{s.backend(ctx, cli)}
	if s.PassphraseFrom != "" {
		checks = append(checks, s.passphrase())
	}
	return append(checks, s.locks()...)
}

// locks names the locks that keep a stack from being worked on and that nobody may hold any more, with the command that clears them.
func (s *state) locks() []Check {
	var checks []Check
	for _, stack := range s.Locked {
		unlock := "planton unlock --stack " + stack.Identity.String()
		for _, lock := range stack.Locks {
			check := Check{Name: "lock", Status: Note, Message: stack.Identity.String() + " is locked by " + lock.String()}
			switch lock.Holder {
			case provision.Ended:
				check.Fix = "the next operation removes the lock, and so does: " + unlock
			case provision.Elsewhere, provision.Unreadable:
				check.Fix = "whether it still runs cannot be told from here; if you know that it does not: " + unlock + " --force"
			default:
				continue // somebody is at work
			}
			checks = append(checks, check)
		}
	}
	return checks
}

// backend looks whether the backend answers, and whether states can be written where that can be told without writing one.
func (s *state) backend(ctx context.Context, cli *pulumicli.CLI) Check {
	check := Check{Name: "state", Status: OK, Message: s.BackendURL}
	var gone *provision.Error
	if errors.As(s.Gone, &gone) {
		check.Status, check.Message, check.Fix = Missing, gone.Message, gone.Hint
		return check
	}
	if s.Folder != "" || s.backendURL == "" {
		if problem := writable(s.Folder); problem != "" {
			check.Status, check.Message = Missing, s.BackendURL+": "+problem
			check.Fix = "make the folder writable, or name another one in " + provision.EnvironmentStateDirectory + " or another backend in PULUMI_BACKEND_URL"
		}
		return check
	}
	if cli == nil {
		check.Status, check.Message = Note, s.BackendURL+": without a Pulumi CLI it is not known whether it answers"
		return check
	}
	folder, err := os.MkdirTemp("", "planton-doctor-*")
	if err != nil {
		check.Status, check.Message, check.Fix = Missing, "there is no folder for temporary files: "+err.Error(), "set TMPDIR to one that can be written to"
		return check
	}
	defer func() { _ = os.RemoveAll(folder) }()
	command := exec.CommandContext(ctx, cli.Path, "whoami", "--non-interactive")
	command.Dir = folder
	command.Env = append(os.Environ(), "PULUMI_SKIP_UPDATE_CHECK=true", "PULUMI_BACKEND_URL="+s.backendURL)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	switch {
	case ctx.Err() != nil:
		check.Status, check.Message = Missing, s.BackendURL+" did not answer in time"
	case err != nil:
		check.Status = Missing
		check.Message = s.BackendURL + " does not answer as it should: " + strings.ReplaceAll(lastLine(stderr.String(), err), s.backendURL, s.BackendURL)
	default:
		check.Message += " answers; logged in as " + strings.TrimSpace(string(out))
	}
	if check.Status == Missing {
		check.Fix = "correct PULUMI_BACKEND_URL or its credentials, see https://www.pulumi.com/docs/iac/concepts/state-and-backends/"
	}
	return check
}

// passphrase looks whether the passphrase is there, and is nobody else's.
func (s *state) passphrase() Check {
	check := Check{Name: "passphrase", Status: OK, Message: "from " + s.PassphraseFrom}
	if s.PassphraseFile == "" {
		return check
	}
	content, err := os.ReadFile(s.PassphraseFile)
	switch {
	case err != nil && s.PassphraseMade && os.IsNotExist(err) && s.Stacks:
		check.Status, check.Message = Missing, "there are stacks, but the passphrase of their secrets is gone: "+s.PassphraseFile
		check.Fix = "put the file back from a copy, or set PULUMI_CONFIG_PASSPHRASE to what was in it"
	case err != nil && s.PassphraseMade && os.IsNotExist(err):
		check.Message = "the first apply makes one up and keeps it in " + s.PassphraseFile
	case err != nil:
		check.Status, check.Message, check.Fix = Missing, err.Error(), "correct "+s.PassphraseFrom
	case len(bytes.TrimSpace(content)) == 0:
		check.Status, check.Message, check.Fix = Missing, s.PassphraseFile+" is empty", "put the passphrase back from a copy"
	default:
		if info, err := os.Stat(s.PassphraseFile); err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			check.Status = Note
			check.Message = fmt.Sprintf("%s can be read by others (its mode is %04o)", s.PassphraseFile, info.Mode().Perm())
			check.Fix = "chmod 600 " + s.PassphraseFile
		}
	}
	return check
}

// lastLine is the last line of what a process wrote, else its error.
func lastLine(text string, err error) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return strings.TrimPrefix(last, "error: ")
	}
	return err.Error()
}

// writable says why nothing can be written to a folder, or where it is missing to the folder that it would be made in; empty when
// something can.
func writable(folder string) string {
	for {
		info, err := os.Stat(folder)
		if err == nil && !info.IsDir() {
			return folder + " is no folder"
		}
		if err == nil {
			break
		}
		parent := filepath.Dir(folder)
		if !os.IsNotExist(err) || parent == folder {
			return err.Error()
		}
		folder = parent
	}
	file, err := os.CreateTemp(folder, ".planton-doctor-*")
	if err != nil {
		return cause(err) + ": " + folder
	}
	_, err = file.WriteString("x")
	if closing := file.Close(); err == nil {
		err = closing
	}
	_ = os.Remove(file.Name())
	if err != nil {
		return cause(err) + ": " + folder
	}
	return ""
}

// cause is an error of a file without the name of the file.
func cause(err error) string {
	if failure, ok := err.(*fs.PathError); ok { //nolint:errorlint // the os package returns it bare
		return failure.Err.Error()
	}
	return err.Error()
}

// loopback looks whether the emulated clouds could listen.
func loopback() Check {
	check := Check{Name: "loopback", Status: OK, Message: "the emulated clouds can listen on 127.0.0.1"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Check{Name: "loopback", Status: Missing, Message: err.Error(), Fix: "allow this process to listen on 127.0.0.1"}
	}
	_ = listener.Close()
	return check
}
