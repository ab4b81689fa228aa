package provision

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// ErrorKind tells what can be done about an error.
type ErrorKind string

// The kinds of errors.
const (
	// Invalid: the manifest or the provider config is wrong.
	Invalid ErrorKind = "invalid"
	// NotFound: a reference points at a stack or an output that does not exist, or in a circle.
	NotFound ErrorKind = "not-found"
	// Credentials: the cloud does not accept the token, or there is none.
	Credentials ErrorKind = "credentials"
	// Unreachable: the cloud, or the backend, cannot be reached, or has no time now.
	Unreachable ErrorKind = "unreachable"
	// Conflict: somebody else works on the stack.
	Conflict ErrorKind = "conflict"
	// Refused: the change would do harm, and was stopped before it began.
	Refused ErrorKind = "refused"
	// StateTrouble: the state cannot be read or written: the disk is full, the file is damaged, the passphrase is another one.
	StateTrouble ErrorKind = "state"
	// Failed: the cloud said no.
	Failed ErrorKind = "failed"
	// Canceled: the caller canceled the context.
	Canceled ErrorKind = "canceled"
)

// Error is the error of an operation on a stack.
type Error struct {
	// Kind tells what can be done about it.
	Kind ErrorKind
	// Stack is the stack; the zero value where the error is about none.
	Stack stackidentity.Identity
	// Operation is what was being done to the stack, such as "update".
	Operation string
	// Message says what went wrong, in the cloud's words where it is the cloud that said no, without secrets. It may have
	// several lines.
	Message string
	// Resource is the name in the module of the resource that failed, such as "cluster"; empty when none did, or several.
	Resource string
	// RequestID is what the cloud's support finds the request by that failed; empty when the cloud told none.
	RequestID string
	// Hint says what to do about it where the message does not; empty where the kind says enough.
	Hint string
	// Locks are those that kept the operation out, of kind Conflict: as the backend named them, which buckets do as well as files. Nil where
	// it did not.
	Locks []Lock
	// Result is what was done before the error; nil when nothing was begun.
	Result *Result

	cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Stack == (stackidentity.Identity{}) {
		return e.Operation + ": " + e.Message
	}
	return fmt.Sprintf("%s stack %s: %s", e.Operation, e.Stack, e.Message)
}

// Unwrap returns the cause, which may hold more text than is good to show.
func (e *Error) Unwrap() error { return e.cause }

// KindOf is the kind of an error, "" when it is not one of an operation on a stack.
func KindOf(err error) ErrorKind {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Kind
	}
	return ""
}

// pattern is a regular expression that is compiled when it is first asked for: most commands look for none of them.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// The words by which an error of a cloud or of the engine is told. Plugins hand errors on as text, so there is nothing else.
var (
	lockedWords      = pattern(`(?i)the stack is currently locked|another update is currently in progress`)
	credentialsWords = pattern(`(?i)\b401\b|\b403\b|unauthori[sz]ed|unauthenticated|unable to authenticate|authentication|` +
		`invalid[ _]?(api[ _]?)?(key|token)|(token|key) (is |has )?(invalid|expired)|database_account_not_found|access[ _]denied|` +
		`permission denied|\bforbidden\b|no credentials|token is (missing|required)`)
	unreachableWords = pattern(`(?i)connection refused|no such host|i/o timeout|network is unreachable|no route to host|` +
		`tls handshake|x509:|connection reset|unexpected EOF|: EOF|dial tcp|proxyconnect|server misbehaving|` +
		`\b429\b|too many requests|\b50[0234]\b|service unavailable|bad gateway|gateway timeout|internal server error`)
	refusedWords = pattern(`(?i)\brefus(ed|es)\b|is known to crash|cannot be changed|immutable|` +
		`cannot go back|could only get there by replacing|cannot undo|cannot turn off`)
	// A quota and an object in use are answered with a 403, too, and no other token helps.
	heldWords    = pattern(`(?i)quota|limit (has been )?(reached|exceeded)|exceeds? (the )?limits?|in use by|members of`)
	missingWords = pattern(`but its stack .* (cannot be read|has no such output)`)
)

// kindOfText tells the kind of an error by its words.
func kindOfText(text string) ErrorKind {
	switch {
	case lockedWords().MatchString(text):
		return Conflict
	case missingWords().MatchString(text):
		return NotFound
	// "connection refused" is not a refusal, and stands before it.
	case unreachableWords().MatchString(text):
		return Unreachable
	case heldWords().MatchString(text):
		return Failed
	case credentialsWords().MatchString(text):
		return Credentials
	case refusedWords().MatchString(text):
		return Refused
	default:
		return Failed
	}
}

// failure makes the error of an operation: of what the module said, else of the engine's diagnostics, else of what the CLI wrote.
func (e *Engine) failure(
	ctx context.Context, operation string, stack stackidentity.Identity, err error, moduleErr error, result *Result,
) error {
	failure := &Error{Stack: stack, Operation: operation, Result: result, cause: err}
	switch {
	case ctx.Err() != nil:
		failure.Kind = Canceled
		failure.Message = "canceled: what was begun was ended and recorded; the same command goes on from there"
		return failure
	case auto.IsConcurrentUpdateError(err) || lockedWords().MatchString(err.Error()):
		failure.Kind, failure.Locks = Conflict, locksNamed(err.Error())
		failure.Message = e.secrets.redact("somebody else works on the stack" + lockOwner(err.Error()))
		return failure
	}

	var broken *validation.Error
	var reason *Error
	if errors.As(err, &reason) {
		return reason
	}
	switch {
	case errors.As(moduleErr, &broken):
		failure.Kind, failure.Message = Invalid, moduleErr.Error()
	case errors.As(moduleErr, &reason):
		failure.Kind, failure.Message = reason.Kind, reason.Message
	default:
		failure.Message = message(result, err, moduleErr)
		failure.Kind = kindOfText(failure.Message)
		if hint, ok := e.stateTrouble(stack, failure.Message); ok {
			failure.Kind, failure.Hint = StateTrouble, hint
		}
	}
	failure.Message = e.secrets.redact(failure.Message)
	failure.Resource, failure.RequestID = failedResource(result), requestIDIn(failure.Message)
	return failure
}

// failedResource is the one resource that errors are about.
func failedResource(result *Result) string {
	name := ""
	if result == nil {
		return ""
	}
	for _, diagnostic := range result.Diagnostics {
		switch {
		case diagnostic.Severity != "error" || diagnostic.Resource == "":
		case name != "" && name != diagnostic.Resource:
			return ""
		default:
			name = diagnostic.Resource
		}
	}
	return name
}

// requestIDWords are how the native plugins, godo and the official plugins name the id of a request.
var requestIDWords = pattern(`(?i)\brequest(?:[ _-]?id)?"?:? "?([0-9a-z][0-9a-z._:-]{6,}[0-9a-z])\b`)

// requestIDIn is the id of the request that an error is about.
func requestIDIn(text string) string {
	for _, match := range requestIDWords().FindAllStringSubmatch(text, -1) {
		if strings.ContainsAny(match[1], "0123456789") { // and no other word after "request"
			return match[1]
		}
	}
	return ""
}

// message are the words of the errors of an operation. What the cloud said about a resource comes before what the module made of it.
func message(result *Result, err, moduleErr error) string {
	var lines []string
	if result != nil {
		for _, diagnostic := range result.Diagnostics {
			if diagnostic.Severity != "error" {
				continue
			}
			line := diagnostic.Message
			if diagnostic.Resource != "" {
				line = diagnostic.Resource + ": " + line
			}
			lines = append(lines, line)
		}
	}
	if len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	if moduleErr != nil {
		return moduleErr.Error()
	}
	return cliWords(err.Error())
}

// cliError is a line in which the CLI says what is wrong.
var cliError = pattern(`(?m)^\s*(?:stderr: )?error: (.*)$`)

// cliWords is what the CLI wrote about its failure, without the rest that the Automation API puts into its errors.
func cliWords(text string) string {
	if matches := cliError().FindAllStringSubmatch(text, -1); len(matches) > 0 {
		lines := make([]string, len(matches))
		for i, match := range matches {
			lines[i] = plain(match[1])
		}
		return strings.Join(lines, "\n")
	}
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// lockOwnerWords is how the file backends name the one who holds the lock.
var lockOwnerWords = pattern(`created by (\S+)@(\S+) \(pid (\d+)\) at (\S+)`)

// lockOwner names who holds the lock of a stack, where the backend tells.
func lockOwner(text string) string {
	match := lockOwnerWords().FindStringSubmatch(text)
	if match == nil {
		return ""
	}
	return fmt.Sprintf(": %s@%s, process %s, since %s", match[1], match[2], match[3], match[4])
}
