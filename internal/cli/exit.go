package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/plantonhq/project-planton/pkg/credentials"
	"github.com/plantonhq/project-planton/pkg/foreignkey"
	"github.com/plantonhq/project-planton/pkg/kubeconfig"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/provision/emulatedcloud"
)

// Exit codes. docs/exit-codes.md explains them; they stay as they are.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitInvalid     = 3
	ExitReference   = 4
	ExitCredentials = 5
	ExitUnreachable = 6
	ExitLocked      = 7
	ExitRefused     = 8
	ExitChanged     = 9
	ExitState       = 10
	ExitCanceled    = 130
)

// usageFailure is the error of wrong flags or arguments.
type usageFailure struct{ message string }

func (e *usageFailure) Error() string { return e.message }

func usageError(message string) error { return &usageFailure{message: message} }

// canceledError is the error of a command that was interrupted.
type canceledError struct{ cause error }

func (e *canceledError) Error() string { return e.cause.Error() }
func (e *canceledError) Unwrap() error { return e.cause }

// foundError is the error of a command that was asked what is wrong, and found something: it has done its work, so that its exit code
// is that of tools which look for problems.
type foundError struct{ cause error }

func (e *foundError) Error() string { return e.cause.Error() }
func (e *foundError) Unwrap() error { return e.cause }

// ExitCode is the exit code of an error.
func ExitCode(err error) int {
	var (
		canceled *canceledError
		usage    *usageFailure
		missing  *credentials.Error
		found    *foundError
		cycle    *foreignkey.CycleError
		invalid  *manifest.Error
		locked   *emulatedcloud.LockedError
		written  *kubeconfig.LockedError
		foreign  *kubeconfig.ForeignError
		changed  *changedError
	)
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &canceled) || errors.Is(err, context.Canceled):
		return ExitCanceled
	case errors.As(err, &changed):
		return ExitChanged
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &found):
		return ExitFailed
	case errors.As(err, &missing):
		return ExitCredentials
	case errors.As(err, &cycle):
		return ExitReference
	case errors.As(err, &invalid):
		for _, problem := range invalid.Problems {
			if problem.RuleID != manifest.RuleReference {
				return ExitInvalid
			}
		}
		return ExitReference
	case errors.As(err, &locked) || errors.As(err, &written):
		return ExitLocked
	case errors.As(err, &foreign):
		return ExitRefused
	}
	switch provision.KindOf(err) {
	case provision.Invalid:
		return ExitInvalid
	case provision.NotFound:
		return ExitReference
	case provision.Credentials:
		return ExitCredentials
	case provision.Unreachable:
		return ExitUnreachable
	case provision.Conflict:
		return ExitLocked
	case provision.Refused:
		return ExitRefused
	case provision.StateTrouble:
		return ExitState
	case provision.Canceled:
		return ExitCanceled
	default:
		return ExitFailed
	}
}

// exitNames are the words for exit codes in JSON.
var exitNames = map[int]string{
	ExitFailed: "failed", ExitUsage: "usage", ExitInvalid: "invalid", ExitReference: "reference", ExitCredentials: "credentials",
	ExitUnreachable: "unreachable", ExitLocked: "locked", ExitRefused: "refused", ExitState: "state", ExitCanceled: "canceled",
}

// report tells an error: to stderr for people, and with -o json also to stdout, where a program looks.
func report(streams Streams, command *cobra.Command, err error) {
	writeError(streams, command, err)
	var told *toldError
	if errors.As(err, &told) || command == nil {
		return // the command's own JSON has it
	}
	if flag := command.Flags().Lookup("output"); flag == nil || flag.Value.String() != outputJSON {
		return
	}
	streams.settings.events = hasEvents(command) // the error may be one of flags
	_ = writeResult(streams, map[string]any{"error": errorDocument(streams, err)})
}

// toldError marks an error that stands in the JSON that a command wrote already.
type toldError struct{ cause error }

func (e *toldError) Error() string { return e.cause.Error() }
func (e *toldError) Unwrap() error { return e.cause }

// errorDocument is an error as JSON. That of several manifests is the first one's, and has them all in a list.
func errorDocument(streams Streams, err error) map[string]any {
	var several *provision.SetError
	if errors.As(err, &several) {
		var all []map[string]any
		for _, one := range several.Errors {
			all = append(all, errorDocument(streams, one))
		}
		document := errorDocument(streams, several.Errors[0])
		document["errors"] = all
		return document
	}
	var found *foundError
	if errors.As(err, &found) {
		err = found.cause
	}
	document := map[string]any{"kind": exitNames[ExitCode(err)], "message": err.Error()}
	var invalid *manifest.Error
	if errors.As(err, &invalid) {
		document["message"] = fmt.Sprintf("%d problems", len(invalid.Problems))
		if len(invalid.Problems) == 1 {
			document["message"] = invalid.Problems[0].String()
		}
		document["problems"] = invalid.Problems
	}
	var failure *provision.Error
	if errors.As(err, &failure) {
		document["message"] = failure.Message
		document["stack"] = failure.Stack.String()
		document["operation"] = failure.Operation
		if failure.Resource != "" {
			document["resource"] = failure.Resource
		}
		if failure.RequestID != "" {
			document["requestId"] = failure.RequestID
		}
		if role := streams.role(failure.Stack); role != nil {
			document["manifest"] = describe(role.manifest)
		}
	}
	if text, ok := document["message"].(string); ok {
		document["message"] = streams.commands(text)
	}
	if hint := hintFor(streams, nil, err, ""); hint != "" {
		document["hint"] = hint
	}
	return document
}

func writeError(streams Streams, command *cobra.Command, err error) {
	var several *provision.SetError
	if errors.As(err, &several) {
		for _, one := range several.Errors {
			writeError(streams, command, one)
		}
		return
	}
	paint := painter(streams.ErrTerminal, streams.Getenv)
	var invalid *manifest.Error
	if errors.As(err, &invalid) {
		problems := slices.Clone(invalid.Problems)
		for i := range problems {
			problems[i].Message, problems[i].Hint = streams.commands(problems[i].Message), streams.commands(problems[i].Hint)
		}
		writeProblems(streams.Err, paint, command, problems)
		return
	}
	_, _ = fmt.Fprintf(streams.Err, "%s %s\n", paint(red, "error:"), streams.commands(err.Error()))
	var failure *provision.Error
	if errors.As(err, &failure) {
		if role := streams.role(failure.Stack); role != nil {
			_, _ = fmt.Fprintf(streams.Err, "  at %s: %s\n", role.manifest.Source, role.manifest)
		}
	}
	if hint := hintFor(streams, command, err, streams.again()); hint != "" {
		_, _ = fmt.Fprintf(streams.Err, "hint: %s\n", hint)
	}
}
