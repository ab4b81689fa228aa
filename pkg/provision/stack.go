package provision

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/events"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optdestroy"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// colorNever keeps terminal codes out of messages.
const colorNever = "never"

// Up makes the cloud what the stack input says. The result holds the outputs, without the values of secrets. The error is an
// *Error.
func (e *Engine) Up(ctx context.Context, stack Stack) (*Result, error) {
	return e.up(ctx, stack, nil)
}

// Import takes resources over that exist already: ids are the ids of the cloud by the names of the resources in the module, such
// as "cluster". They are recorded as the cloud has them; Preview tells what the next Up would change of them. Nothing in the cloud is
// changed or made: the ids must be those of all resources that the stack does not have yet, and of no other.
func (e *Engine) Import(ctx context.Context, stack Stack, ids map[string]string) (*Result, error) {
	result, err := e.up(ctx, stack, func(args *pulumi.ResourceTransformationArgs) *pulumi.ResourceTransformationResult {
		id, ok := ids[args.Name]
		if !ok {
			return nil
		}
		return &pulumi.ResourceTransformationResult{
			Props: args.Props,
			// The engine refuses to import what differs from the program, such as an object without our labels.
			Opts: append(args.Opts, pulumi.Import(pulumi.ID(id)), pulumi.IgnoreChanges([]string{ignoreAll})),
		}
	})
	if err != nil {
		return result, err
	}
	return result, e.heedChanges(ctx, stack.Identity, ids)
}

// ignoreAll is the path of all properties.
const ignoreAll = "*"

func (e *Engine) up(ctx context.Context, stack Stack, transformation pulumi.ResourceTransformation) (*Result, error) {
	return e.run(ctx, "update", stack, run{
		transformation: transformation,
		changes:        true,
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
		changes: true,
		do: func(ctx context.Context, s auto.Stack, stream chan<- events.EngineEvent) error {
			_, err := s.Refresh(ctx, optrefresh.EventStreams(stream), optrefresh.SuppressProgress(), optrefresh.Color(colorNever),
				optrefresh.RunProgram(true))
			return err
		},
	})
}

// PreviewRefresh tells what Refresh would do: how the cloud differs from the state. Nothing is changed, neither there nor in the state,
// and no lock is taken. The result of a stack that does not exist is Missing.
func (e *Engine) PreviewRefresh(ctx context.Context, stack Stack) (*Result, error) {
	return e.run(ctx, "refresh", stack, run{
		do: func(ctx context.Context, s auto.Stack, stream chan<- events.EngineEvent) error {
			_, err := s.PreviewRefresh(ctx, optrefresh.EventStreams(stream), optrefresh.SuppressProgress(), optrefresh.Color(colorNever),
				optrefresh.RunProgram(true))
			return err
		},
	})
}

// PreviewDestroy tells what Destroy would do. The result of a stack that does not exist is Missing.
func (e *Engine) PreviewDestroy(ctx context.Context, stack Stack) (*Result, error) {
	return e.run(ctx, "preview the destruction of", stack, run{
		destroys: true,
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
		changes:  true,
		destroys: true,
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
	// changes tells that the operation changes the state, and has to begin with what the last one left half done.
	// destroys tells that it destroys, or would: it has to know of everything that was made.
	changes, destroys bool
	// create makes the stack where it is missing; scratch makes it on a backend that is thrown away. Otherwise a missing stack is
	// the result.
	create, scratch bool
}

// run does an operation. One that changes the stack waits, as long as it may, for others that do.
func (e *Engine) run(ctx context.Context, operation string, stack Stack, run run) (result *Result, err error) {
	start := time.Now()
	e.secrets.add(secretsIn(stack.StackInput)...)
	defer func() {
		if result != nil {
			result.Duration = time.Since(start)
		}
	}()
	if !run.changes {
		return e.attempt(ctx, operation, stack, run)
	}
	waiting := &patience{engine: e, stack: stack}
	release, err := waiting.hold(ctx, operation)
	if err != nil {
		return nil, err
	}
	defer release()
	for attempts := 0; ; attempts++ {
		// Each attempt reads the state anew: who had the lock has changed it.
		result, err = e.attempt(ctx, operation, stack, run)
		if err == nil || !waiting.again(ctx, err, attempts) {
			return result, err
		}
	}
}

// attempt does an operation, which fails when somebody else works on the stack.
func (e *Engine) attempt(ctx context.Context, operation string, stack Stack, run run) (*Result, error) {
	start := time.Now()
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
	if err := e.options.State.mend(); err != nil {
		return nil, err
	}
	if run.changes {
		if err := e.options.State.checkRoom(); err != nil {
			return nil, err
		}
	}
	command := &ofOperation{
		PulumiCommand: e.options.CLI,
		local:         func() (string, bool, bool) { return e.options.State.localCheckpoint(stack.Identity) },
	}
	served, err := stack.plugins.serve(ctx, e, stack)
	if err != nil {
		return nil, errors.Wrap(err, "start the provider plugin")
	}
	w, err := e.open(ctx, stack.Identity, served, command, "", program)
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
		identity.Organization = fileOrganization
		selected, err = auto.NewStack(ctx, identity.String(), w.Workspace)
	case missing:
		e.emit(Event{Kind: EventStackDone, Time: time.Now(), Stack: stack.Identity, Op: Op(operation)})
		return &Result{Stack: stack.Identity, Changes: map[Op]int{}, Missing: true}, nil
	}
	if err != nil {
		e.emit(Event{Kind: EventStackFailed, Time: time.Now(), Stack: stack.Identity, Op: Op(operation), Elapsed: time.Since(start)})
		return nil, e.failure(ctx, operation, stack.Identity, err, nil, nil)
	}

	e.emit(Event{Kind: EventStackStarted, Time: time.Now(), Stack: stack.Identity, Op: Op(operation), Message: plugin.String()})
	o := &ongoing{engine: e, stack: stack, selected: selected, command: command, plugin: plugin, fresh: missing}
	result, err := o.run(ctx, run)
	result.Duration = time.Since(start)
	if err != nil {
		e.emit(Event{Kind: EventStackFailed, Time: time.Now(), Stack: stack.Identity, Op: Op(operation), Elapsed: time.Since(start)})
		err = e.failure(ctx, operation, stack.Identity, err, failure.get(), result)
		if failure, ok := err.(*Error); ok && command.wasKilled() { //nolint:errorlint // it is the error that was just made
			failure.Message = "the engine was killed: what it had begun may exist without being recorded; the same command looks for it " +
				"and goes on from there"
		}
		return result, err
	}
	e.emit(Event{Kind: EventStackDone, Time: time.Now(), Stack: stack.Identity, Op: Op(operation), Elapsed: time.Since(start)})
	return result, nil
}

// ongoing is one operation on a stack that was found or made.
type ongoing struct {
	engine   *Engine
	stack    Stack
	selected auto.Stack
	command  *ofOperation
	plugin   Plugin
	// fresh tells that the stack was made just now.
	fresh bool
	// unrecorded is what the native plugin asked the cloud for and the state knows nothing of; only a destroy looks.
	unrecorded []journal.Entry
	// unsettled tells that the engine remembers creations that the last run began, until an update has found out about them.
	unsettled bool
}

// run begins with what the last run left half done, and leaves a mark where it is killed itself. There is always a result.
func (o *ongoing) run(ctx context.Context, run run) (result *Result, err error) {
	result = &Result{Stack: o.stack.Identity, Changes: map[Op]int{}}
	begun, lost := false, error(nil)
	if run.changes {
		var unmark func()
		if begun, unmark, err = o.engine.options.State.mark(o.stack.Identity); err != nil {
			return result, err
		}
		defer func() {
			// Where somebody else works on the stack, a mark of an earlier run stays for whoever comes next.
			if !o.command.wasKilled() && lost == nil && (!begun || !isLocked(err)) {
				unmark()
			}
		}()
	}
	if !o.fresh {
		if looked, err := o.goOn(ctx, run, begun); err != nil {
			return looked, err
		}
	}
	var associated []Associated
	if run.destroys {
		associated = o.beforeDestroy(ctx, run.changes)
	}
	err = o.unlocked(ctx, func() (err error) {
		result, err = o.recorded(func(stream chan<- events.EngineEvent) error { return run.do(ctx, o.selected, stream) })
		return err
	})
	result.Associated = associated
	if run.changes {
		// What the engine has written may stand in a folder that is none.
		if lost = o.engine.options.State.checkFolder(); lost != nil {
			return result, lost
		}
	}
	if err == nil && o.unsettled && run.create {
		err = o.forget(ctx)
	}
	return result, err
}

// recorded does something that tells events, and returns what they tell.
func (o *ongoing) recorded(do func(chan<- events.EngineEvent) error) (*Result, error) {
	recorder, stream := o.engine.record(o.stack.Identity)
	err := do(stream)
	recorder.finish()
	return recorder.result, err
}

// tell tells something about the stack, or about one of its resources.
func (o *ongoing) tell(kind EventKind, resource, message string) {
	o.engine.emit(Event{Kind: kind, Time: time.Now(), Stack: o.stack.Identity, Resource: resource, Message: message})
}

// unlocked does something that takes the lock of the stack. Where the lock is that of a process of this machine which has ended, it is
// removed first.
func (o *ongoing) unlocked(ctx context.Context, do func() error) error {
	err := do()
	pids, stale := staleLockOf(err)
	if !stale || ctx.Err() != nil {
		return err
	}
	// In files, that lock alone: another process may have removed it too, and taken its own.
	if _, inFiles := o.engine.options.State.folder(); inFiles {
		if _, unlockErr := o.engine.Unlock(ctx, o.stack.Identity, false); unlockErr != nil {
			return err
		}
	} else if err := o.selected.Cancel(ctx); err != nil {
		return err
	}
	o.tell(EventWarning, "", "removed the lock of process "+strings.Join(pids, ", ")+", which has ended without doing so")
	return do()
}

// isLocked tells whether somebody else works on the stack.
func isLocked(err error) bool { return err != nil && lockedWords().MatchString(err.Error()) }

func staleLockOf(err error) ([]string, bool) {
	if !isLocked(err) {
		return nil, false
	}
	return staleLock(err.Error())
}
