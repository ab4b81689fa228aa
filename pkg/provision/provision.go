// Package provision provisions resources: it runs the module of a resource's kind as one Pulumi stack, through the Automation
// API and the Pulumi CLI.
//
// Start with New, which takes where states are kept (see State), which plugins to use (see Choice) and the modules. Up, Preview,
// Refresh, Destroy, Outputs and Import work on one Stack. A Set, made by NewSet, holds the stacks of several manifests that refer
// to one another, in the order of their references, and hands outputs on.
//
// Errors are of type *Error where the caller can do something about them: its kind tells what. Secrets that this package was
// given are taken out of all messages, events and errors.
package provision

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/reference"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Module registers the resources of a stack input: the module of its kind.
type Module func(ctx *pulumi.Context, stackInput proto.Message) error

// Options are what an Engine is made of.
type Options struct {
	// CLI is the Pulumi CLI, see the package pulumicli. Required.
	CLI auto.PulumiCommand
	// State is where the states of the stacks are kept. Required.
	State *State
	// Modules finds the module of a kind. Required for all but Outputs.
	Modules func(kinds.Kind) (Module, bool)
	// Plugins chooses between official and native plugins; Automatic when empty.
	Plugins Choice
	// Native are the native plugins, by the name of their package: "civo", "digitalocean".
	Native map[string]NativePlugin
	// OnEvent is told what happens while it happens; nil when nobody listens. It is called from one goroutine at a time.
	OnEvent func(Event)
	// Secrets must not appear in any message, event or error, beside those in the provider configs of stack inputs.
	Secrets []string
}

// Engine provisions stacks. It may be used by several goroutines, for different stacks.
type Engine struct {
	options Options

	mu      sync.Mutex // guards calls of OnEvent
	secrets *redactor
}

// New makes an engine.
func New(options Options) (*Engine, error) {
	if options.CLI == nil || options.State == nil {
		return nil, errors.New("an engine needs a pulumi cli and a state")
	}
	if options.Plugins == "" {
		options.Plugins = Automatic
	}
	e := &Engine{options: options, secrets: &redactor{}}
	e.secrets.add(options.Secrets...)
	return e, nil
}

// Stack is one resource to provision.
type Stack struct {
	// Identity names the stack in the backend.
	Identity stackidentity.Identity
	// StackInput is what the module is given: the manifest and the provider config.
	StackInput proto.Message
	// Resolver answers the references of the manifest; nil when the module is to read the stacks of the resources itself.
	Resolver reference.Resolver
	// Created tells of resources, by their names in the module, whether a creation that a run began and never ended succeeded: the id
	// of the object, or "" where there is none. It is only needed with official plugins, which cannot tell.
	Created map[string]string

	// LockTimeout is how long an operation waits for a stack that somebody else works on; it fails at once when it is 0.
	LockTimeout time.Duration

	plugins *sharedPlugins // of several stacks; nil for those of this stack alone
	leaving *leaving       // what a destroy of several stacks takes away; nil outside of one
}

// kind is the kind of the stack's resource.
func (s Stack) kind() kinds.Kind {
	kind, _ := kinds.Of(s.StackInput)
	return kind
}

// emit tells the listener an event, without secrets.
func (e *Engine) emit(event Event) {
	if e.options.OnEvent == nil {
		return
	}
	event.Message = e.secrets.redact(event.Message)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.options.OnEvent(event)
}

// program is the inline program of a stack. It keeps the module's own error, which the engine would only hand on as text.
func (e *Engine) program(stack Stack, failure *moduleFailure, extra pulumi.ResourceTransformation) (pulumi.RunFunc, error) {
	kind := stack.kind()
	if e.options.Modules == nil {
		return nil, errors.Errorf("there is no module for %s", kind)
	}
	module, ok := e.options.Modules(kind)
	if !ok {
		return nil, errors.Errorf("there is no module for %s", kind)
	}
	return func(ctx *pulumi.Context) error {
		if stack.Resolver != nil {
			ctx = reference.WithResolver(ctx, stack.Resolver)
		}
		if extra != nil {
			if err := ctx.RegisterStackTransformation(extra); err != nil {
				return errors.Wrap(err, "register the stack's transformation")
			}
		}
		err := module(ctx, stack.StackInput)
		failure.set(err)
		return err
	}, nil
}

// moduleFailure is the error of a module, written by the program and read after it.
type moduleFailure struct {
	mu  sync.Mutex
	err error
}

func (f *moduleFailure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *moduleFailure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// workspace is a folder for one operation on a stack, with everything the CLI must be told by environment.
type workspace struct {
	auto.Workspace
	directory string
	plugins   *servedPlugins
}

// open makes a workspace on a backend, with plugins that run and end with the workspace; nil for none. Close it.
func (e *Engine) open(
	ctx context.Context, identity stackidentity.Identity, served *servedPlugins, command auto.PulumiCommand, backendURL string,
	program pulumi.RunFunc,
) (*workspace, error) {
	w := &workspace{plugins: served}
	var err error
	if w.directory, err = os.MkdirTemp("", "planton-stack-"); err != nil {
		return nil, errors.Wrap(firstError(err, w.close()), "create the folder of the stack")
	}
	environment := e.options.State.environment()
	if backendURL != "" {
		environment["PULUMI_BACKEND_URL"] = backendURL
	}
	if served != nil {
		// A plugin on PATH goes before the installed ones, and nobody could tell whether it is the chosen one.
		environment["PULUMI_IGNORE_AMBIENT_PLUGINS"] = "true"
		if served.debugProviders != "" {
			environment[environmentDebugProviders] = served.debugProviders
			// The engine would look for the official plugin of the same name on the network, and wait.
			environment["PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"] = "true"
		}
	}
	project := projectOf(identity)
	options := []auto.LocalWorkspaceOption{
		auto.WorkDir(w.directory),
		auto.Project(project),
		auto.Pulumi(command),
		auto.EnvVars(environment),
	}
	if program != nil {
		options = append(options, auto.Program(program))
	}
	if home := e.options.State.Home; home != "" {
		options = append(options, auto.PulumiHome(home))
	}
	if provider := e.options.State.SecretsProvider; provider != "" {
		options = append(options, auto.SecretsProvider(provider))
	}
	if w.Workspace, err = auto.NewLocalWorkspace(ctx, options...); err != nil {
		return nil, errors.Wrap(firstError(err, w.close()), "make the workspace of the stack")
	}
	return w, nil
}

// close stops what was started for the workspace, and removes its folder.
func (w *workspace) close() error {
	if w.plugins != nil {
		w.plugins.stop()
	}
	return errors.Wrap(os.RemoveAll(w.directory), "remove the folder of the stack")
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// redactor takes secrets out of text.
type redactor struct {
	mu      sync.RWMutex
	secrets []string
}

// add makes the redactor know more secrets. Words that are too short to be one would make all text unreadable.
func (r *redactor) add(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, secret := range secrets {
		if len(secret) >= 6 && !slices.Contains(r.secrets, secret) {
			r.secrets = append(r.secrets, secret)
		}
	}
}

func (r *redactor) redact(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	return text
}
