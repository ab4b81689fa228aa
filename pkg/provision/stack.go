package provision

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/events"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optdestroy"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// colorNever keeps terminal codes out of messages.
const colorNever = "never"

// Up makes the cloud what the stack input says. The result holds the outputs, without the values of secrets. The error is an
// *Error.
func (e *Engine) Up(ctx context.Context, stack Stack) (*Result, error) {
	return e.up(ctx, stack, nil)
}

// Import takes resources over that exist already: ids are the ids of the cloud by the names of the resources in the module, such
// as "cluster". Resources of the module that have no id there are created. The stack input must say of a resource what it is: a
// difference is an error, and nothing is taken over.
func (e *Engine) Import(ctx context.Context, stack Stack, ids map[string]string) (*Result, error) {
	return e.up(ctx, stack, func(args *pulumi.ResourceTransformationArgs) *pulumi.ResourceTransformationResult {
		id, ok := ids[args.Name]
		if !ok {
			return nil
		}
		return &pulumi.ResourceTransformationResult{
			Props: args.Props, Opts: append(args.Opts, pulumi.Import(pulumi.ID(id))),
		}
	})
}

func (e *Engine) up(ctx context.Context, stack Stack, transformation pulumi.ResourceTransformation) (*Result, error) {
	return e.run(ctx, "update", stack, run{
		transformation: transformation,
		create:         true,
		do: func(ctx context.Context, s auto.Stack, stream chan<- events.EngineEvent) error {
			_, err := s.Up(ctx, optup.EventStreams(stream), optup.SuppressProgress(), optup.Color(colorNever))
			return err
		},
	})
}

// Preview tells what Up would do. A stack that does not exist yet is not made: its preview runs on a state that is thrown away.
func (e *Engine) Preview(ctx context.Context, stack Stack) (*Result, error) {
	return e.run(ctx, "preview", stack, run{
		scratch: true,
		do: func(ctx context.Context, s auto.Stack, stream chan<- events.EngineEvent) error {
			_, err := s.Preview(ctx, optpreview.EventStreams(stream), optpreview.SuppressProgress(), optpreview.Color(colorNever))
			return err
		},
	})
}

// Refresh makes the state what the cloud is. The result of a stack that does not exist is Missing.
func (e *Engine) Refresh(ctx context.Context, stack Stack) (*Result, error) {
	return e.run(ctx, "refresh", stack, run{
		do: func(ctx context.Context, s auto.Stack, stream chan<- events.EngineEvent) error {
			_, err := s.Refresh(ctx, optrefresh.EventStreams(stream), optrefresh.SuppressProgress(), optrefresh.Color(colorNever),
				optrefresh.RunProgram(true))
			return err
		},
	})
}

// PreviewDestroy tells what Destroy would do. The result of a stack that does not exist is Missing.
func (e *Engine) PreviewDestroy(ctx context.Context, stack Stack) (*Result, error) {
	return e.run(ctx, "preview the destruction of", stack, run{
		do: func(ctx context.Context, s auto.Stack, stream chan<- events.EngineEvent) error {
			_, err := s.PreviewDestroy(ctx, optdestroy.EventStreams(stream), optdestroy.SuppressProgress(),
				optdestroy.Color(colorNever), optdestroy.RunProgram(true))
			return err
		},
	})
}

// Destroy deletes the resources of the stack, and then the stack. The result of a stack that does not exist is Missing.
func (e *Engine) Destroy(ctx context.Context, stack Stack) (*Result, error) {
	return e.run(ctx, "destroy", stack, run{
		do: func(ctx context.Context, s auto.Stack, stream chan<- events.EngineEvent) error {
			// The program runs, so that the provider has today's credentials and not those of the last update.
			_, err := s.Destroy(ctx, optdestroy.EventStreams(stream), optdestroy.SuppressProgress(), optdestroy.Color(colorNever),
				optdestroy.RunProgram(true))
			if err != nil {
				return err
			}
			return errors.Wrap(s.Workspace().RemoveStack(ctx, s.Name()), "remove the empty stack")
		},
	})
}

// run is one operation on a stack.
type run struct {
	do             func(context.Context, auto.Stack, chan<- events.EngineEvent) error
	transformation pulumi.ResourceTransformation
	// create makes the stack where it is missing; scratch makes it on a backend that is thrown away. Otherwise a missing stack is
	// the result.
	create, scratch bool
}

func (e *Engine) run(ctx context.Context, operation string, stack Stack, run run) (*Result, error) {
	start := time.Now()
	e.secrets.add(secretsIn(stack.StackInput)...)
	failure := &moduleFailure{}
	program, err := e.program(stack, failure, run.transformation)
	if err != nil {
		return nil, err
	}
	provider := stack.kind().Provider
	plugin, err := e.Plugin(provider)
	if err != nil {
		return nil, err
	}
	// The result says all that the CLI's answers after an operation would.
	command := withoutQuestions{e.options.CLI}
	w, err := e.open(ctx, stack.Identity, provider, command, "", program)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.close() }()

	selected, err := auto.SelectStack(ctx, stack.Identity.String(), w.Workspace)
	missing := err != nil && isMissing(err)
	switch {
	case missing && run.create:
		selected, err = auto.NewStack(ctx, stack.Identity.String(), w.Workspace)
	case missing && run.scratch:
		scratch, mkdirErr := os.MkdirTemp("", "planton-preview-")
		if mkdirErr != nil {
			return nil, errors.Wrap(mkdirErr, "create the folder of the preview")
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		w.SetEnvVar(environmentBackend, fileURL(scratch))
		// Pulumi's own files know one organization only.
		identity := stack.Identity
		identity.Organization = "organization"
		selected, err = auto.NewStack(ctx, identity.String(), w.Workspace)
	case missing:
		return &Result{Stack: stack.Identity, Changes: map[Op]int{}, Missing: true}, nil
	}
	if err != nil {
		return nil, e.failure(ctx, operation, stack.Identity, err, nil, nil)
	}

	e.emit(Event{Kind: EventStackStarted, Time: time.Now(), Stack: stack.Identity, Op: Op(operation), Message: plugin.String()})
	recorder, stream := e.record(stack.Identity)
	err = run.do(ctx, selected, stream)
	recorder.finish()
	if pids, stale := staleLockOf(err); stale && ctx.Err() == nil {
		if cancelErr := selected.Cancel(ctx); cancelErr != nil {
			return recorder.result, e.failure(ctx, operation, stack.Identity, cancelErr, nil, recorder.result)
		}
		e.emit(Event{Kind: EventWarning, Time: time.Now(), Stack: stack.Identity,
			Message: "removed the lock of process " + strings.Join(pids, ", ") + ", which has ended without doing so"})
		recorder, stream = e.record(stack.Identity)
		err = run.do(ctx, selected, stream)
		recorder.finish()
	}
	recorder.result.Duration = time.Since(start)
	if err != nil {
		return recorder.result, e.failure(ctx, operation, stack.Identity, err, failure.get(), recorder.result)
	}
	e.emit(Event{
		Kind: EventStackDone, Time: time.Now(), Stack: stack.Identity, Op: Op(operation), Elapsed: recorder.result.Duration,
	})
	return recorder.result, nil
}

func staleLockOf(err error) ([]string, bool) {
	if err == nil || !lockedWords.MatchString(err.Error()) {
		return nil, false
	}
	return staleLock(err.Error())
}

// withoutQuestions answers what the Automation API asks after an operation, and what nobody looks at: each question would start the
// CLI once more.
type withoutQuestions struct{ auto.PulumiCommand }

// Run implements auto.PulumiCommand.
func (c withoutQuestions) Run(
	ctx context.Context, workdir string, stdin io.Reader, stdout, stderr []io.Writer, environment []string, args ...string,
) (string, string, int, error) {
	switch {
	case len(args) > 1 && slices.Equal(args[:2], []string{"stack", "history"}):
		return "[]", "", 0, nil
	case len(args) > 1 && slices.Equal(args[:2], []string{"stack", "output"}):
		return "{}", "", 0, nil
	}
	return c.PulumiCommand.Run(ctx, workdir, stdin, stdout, stderr, environment, args...)
}

// Version implements auto.PulumiCommand.
func (c withoutQuestions) Version() semver.Version { return c.PulumiCommand.Version() }
