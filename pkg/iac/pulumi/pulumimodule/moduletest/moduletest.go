// Package moduletest runs modules under Pulumi mocks and tells what they registered.
//
// Run gives a program an engine that answers everything and provisions nothing. What comes back is every resource with its
// inputs and options, every function call, every log message and every stack output, with its secretness. The checks
// AssertEverySpecFieldIsCovered and AssertOutputs hold a module against the descriptors of its kind, so that a field that
// is added to a proto cannot be forgotten.
package moduletest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/internals"
)

const (
	stackReferenceType = "pulumi:pulumi:StackReference"
	readStackFunction  = "pulumi:pulumi:readStackOutputs"
)

// Resource is one registration (or, for stack references, one read) of a resource.
type Resource struct {
	// Type is the type token, such as "civo:index/network:Network".
	Type string
	// Name is the logical name.
	Name string
	// ID is the id that the mocks gave it.
	ID string
	// Custom tells resources that a plugin manages from components.
	Custom bool
	// Inputs are the inputs; secrets are marked. Unknown inputs are absent.
	Inputs resource.PropertyMap
	// Provider is the reference of the explicit provider, "urn::id", empty without one.
	Provider string
	// Parent is the URN of the parent.
	Parent string
	// Dependencies are the URNs of all the resources that this one waits for, sorted as registered.
	Dependencies []string
	// IgnoreChanges, ReplaceOnChanges and AdditionalSecretOutputs are the options of these names.
	IgnoreChanges, ReplaceOnChanges, AdditionalSecretOutputs []string
	// DeleteBeforeReplace is the option of this name.
	DeleteBeforeReplace bool
	// BeforeCreate and BeforeUpdate are the names of the hooks that run before a creation and before an update.
	BeforeCreate, BeforeUpdate []string
	// DeleteTimeout is the custom timeout of deletion, empty without one.
	DeleteTimeout string
}

// Input returns the input at a path such as "pools.nodeCount", secrets unwrapped, as a plain Go value: nil when it is
// absent, float64 for numbers, []any and map[string]any for the compound ones.
func (r Resource) Input(path string) any {
	value := resource.NewProperty(r.Inputs)
	for _, name := range strings.Split(path, ".") {
		for value.IsSecret() {
			value = value.SecretValue().Element
		}
		if !value.IsObject() {
			return nil
		}
		value = value.ObjectValue()[resource.PropertyKey(name)]
	}
	return plain(value)
}

// plain makes a Go value of a property, secrets unwrapped.
func plain(value resource.PropertyValue) any {
	for value.IsSecret() {
		value = value.SecretValue().Element
	}
	return value.MapRepl(nil, func(v resource.PropertyValue) (any, bool) {
		if v.IsSecret() {
			return plain(v), true
		}
		return nil, false
	})
}

// Call is one call of a function of a provider.
type Call struct {
	// Token is the function, such as "civo:index/getKubernetesCluster:getKubernetesCluster".
	Token string
	// Args are its arguments.
	Args resource.PropertyMap
	// Provider is the reference of the explicit provider, empty without one.
	Provider string
}

// Message is one message of the log.
type Message struct {
	// Severity is "debug", "info", "warning" or "error".
	Severity string
	// Text is the message.
	Text string
}

// Output is one output of the stack.
type Output struct {
	// Value is the value; nil when it is not known.
	Value any
	// Known is false when a preview cannot know the value.
	Known bool
	// Secret tells whether the engine would encrypt the value.
	Secret bool
}

// Result is what a program did.
type Result struct {
	// Resources are the resources in the order in which they were registered.
	Resources []Resource
	// Calls are the calls of functions, in order.
	Calls []Call
	// Log holds the log messages, in order.
	Log []Message
	// Outputs are the outputs of the stack, by name. Empty when the program failed.
	Outputs map[string]Output
	// Err is the error that the program returned, before the runtime adds its own.
	Err error
	// RunErr is the error of the run as a whole: Err, or that of an output or a registration which failed on its own.
	RunErr error
}

// Resource returns the only resource of the type and name. The test fails without it.
func (r *Result) Resource(t testing.TB, typeToken, name string) Resource {
	t.Helper()
	var found []Resource
	for _, candidate := range r.Resources {
		if candidate.Type == typeToken && candidate.Name == name {
			found = append(found, candidate)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d resources of type %s named %q, want one; registered: %v", len(found), typeToken, name, r.Names())
	}
	return found[0]
}

// Names returns "type name" of every resource, in the order of registration.
func (r *Result) Names() []string {
	names := make([]string, 0, len(r.Resources))
	for _, res := range r.Resources {
		names = append(names, res.Type+" "+res.Name)
	}
	return names
}

// Warnings returns the texts of the warnings, in order.
func (r *Result) Warnings() []string { return r.messages("warning") }

// Errors returns the texts of the logged errors, in order.
func (r *Result) Errors() []string { return r.messages("error") }

func (r *Result) messages(severity string) []string {
	var texts []string
	for _, message := range r.Log {
		if message.Severity == severity {
			texts = append(texts, message.Text)
		}
	}
	return texts
}

// Option prepares the mocks.
type Option func(*mocks)

// WithStack makes a stack that stack references can read, named "organization/project/stack". Without it, the stack does
// not exist.
func WithStack(fqdn string, outputs map[string]any) Option {
	return func(m *mocks) { m.stacks[fqdn] = outputs }
}

// WithState makes resources of the type come back with the properties that the function returns, over their inputs, and
// with the id that stands in them under "id".
func WithState(typeToken string, state func(Resource) map[string]any) Option {
	return func(m *mocks) { m.states[typeToken] = state }
}

// WithFunction makes the function of the token answer. Functions without it fail, as functions that a plugin does not know.
func WithFunction(token string, answer func(args map[string]any) (map[string]any, error)) Option {
	return func(m *mocks) { m.functions[token] = answer }
}

// WithConfig sets config values of the stack; keys are "project:key".
func WithConfig(config map[string]string) Option {
	return func(m *mocks) { maps.Copy(m.config, config) }
}

// WithRootDirectory sets the folder of the program.
func WithRootDirectory(path string) Option { return func(m *mocks) { m.rootDirectory = path } }

// Preview makes the run a preview. The mocks still make ids, so that outputs are known.
func Preview() Option { return func(m *mocks) { m.preview = true } }

// Run runs the program under mocks and returns what it did.
func Run(t testing.TB, program pulumi.RunFunc, opts ...Option) *Result {
	t.Helper()
	m := &mocks{
		stacks:    map[string]map[string]any{},
		states:    map[string]func(Resource) map[string]any{},
		functions: map[string]func(map[string]any) (map[string]any, error){},
		config:    map[string]string{},
		result:    &Result{Outputs: map[string]Output{}},
	}
	for _, opt := range opts {
		opt(m)
	}
	m.result.RunErr = pulumi.RunErr(
		func(ctx *pulumi.Context) error {
			ctx.Log = logger{m}
			if m.result.Err = program(ctx); m.result.Err != nil {
				return m.result.Err
			}
			for name, value := range ctx.GetCurrentExportMap() {
				output, err := internals.UnsafeAwaitOutput(context.Background(), pulumi.ToOutput(value))
				if err != nil {
					return errors.Wrapf(err, "output %s", name)
				}
				m.result.Outputs[name] = Output{Value: output.Value, Known: output.Known, Secret: output.Secret}
			}
			return nil
		},
		pulumi.WithMocksWithOrganization("organization", "project", "stack", m),
		func(info *pulumi.RunInfo) {
			info.Config, info.DryRun, info.RootDirectory = m.config, m.preview, m.rootDirectory
		},
	)
	return m.result
}

// mocks answers for the engine and keeps what it was told.
type mocks struct {
	mu            sync.Mutex
	result        *Result
	stacks        map[string]map[string]any
	states        map[string]func(Resource) map[string]any
	functions     map[string]func(map[string]any) (map[string]any, error)
	config        map[string]string
	rootDirectory string
	preview       bool
}

// NewResource answers registrations and reads.
func (m *mocks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	if args.TypeToken == stackReferenceType {
		return m.readStack(args)
	}
	rpc := args.RegisterRPC
	registered := Resource{
		Type: args.TypeToken, Name: args.Name, ID: args.Name + "-id", Custom: args.Custom, Inputs: args.Inputs,
		Provider: args.Provider, Parent: rpc.GetParent(), Dependencies: rpc.GetDependencies(),
		IgnoreChanges: rpc.GetIgnoreChanges(), ReplaceOnChanges: rpc.GetReplaceOnChanges(),
		AdditionalSecretOutputs: rpc.GetAdditionalSecretOutputs(), DeleteBeforeReplace: rpc.GetDeleteBeforeReplace(),
		BeforeCreate: rpc.GetHooks().GetBeforeCreate(), BeforeUpdate: rpc.GetHooks().GetBeforeUpdate(), DeleteTimeout: rpc.GetCustomTimeouts().GetDelete(),
	}
	state := args.Inputs.Copy()
	if of, ok := m.states[args.TypeToken]; ok {
		for key, value := range of(registered) {
			if key == "id" {
				registered.ID = fmt.Sprint(value)
				continue
			}
			state[resource.PropertyKey(key)] = resource.NewPropertyValue(value)
		}
	}
	for _, name := range registered.AdditionalSecretOutputs {
		key := resource.PropertyKey(name)
		if value, ok := state[key]; ok && !value.IsSecret() {
			state[key] = resource.MakeSecret(value)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.result.Resources = append(m.result.Resources, registered)
	if !args.Custom {
		return "", state, nil
	}
	return registered.ID, state, nil
}

// readStack answers the read of a stack reference.
func (m *mocks) readStack(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.result.Resources = append(m.result.Resources, Resource{
		Type: args.TypeToken, Name: args.Name, ID: args.ID, Inputs: args.Inputs, Parent: args.ReadRPC.GetParent(),
	})
	outputs, err := m.outputsOf(args.ID)
	if err != nil {
		return "", nil, err
	}
	state := args.Inputs.Copy()
	state["outputs"] = outputs
	return args.ID, state, nil
}

// outputsOf returns the outputs of a stack.
func (m *mocks) outputsOf(fqdn string) (resource.PropertyValue, error) {
	outputs, ok := m.stacks[fqdn]
	if !ok {
		// The words of the engine for a stack that its backend does not have.
		return resource.PropertyValue{}, errors.Errorf("unknown stack %q", fqdn)
	}
	return resource.NewProperty(resource.NewPropertyMapFromMap(outputs)), nil
}

// Call answers calls of functions.
func (m *mocks) Call(args pulumi.MockCallArgs) (resource.PropertyMap, error) {
	if args.Token == readStackFunction {
		stack := args.Args["name"].StringValue()
		outputs, err := m.outputsOf(stack)
		if err != nil {
			return nil, err
		}
		return resource.PropertyMap{"name": args.Args["name"], "outputs": outputs}, nil
	}
	m.mu.Lock()
	m.result.Calls = append(m.result.Calls, Call{Token: args.Token, Args: args.Args, Provider: args.Provider})
	answer, ok := m.functions[args.Token]
	m.mu.Unlock()
	if !ok {
		return nil, errors.Errorf("unknown function %s", args.Token)
	}
	properties, err := answer(args.Args.Mappable())
	if err != nil {
		return nil, err
	}
	return resource.NewPropertyMapFromMap(properties), nil
}

// logger is the pulumi.Log of a run.
type logger struct{ mocks *mocks }

// Debug keeps a message for those who look for the cause of an error.
func (l logger) Debug(text string, _ *pulumi.LogArgs) error { return l.mocks.log("debug", text) }

// Info keeps a message.
func (l logger) Info(text string, _ *pulumi.LogArgs) error { return l.mocks.log("info", text) }

// Warn keeps a warning.
func (l logger) Warn(text string, _ *pulumi.LogArgs) error { return l.mocks.log("warning", text) }

// Error keeps an error.
func (l logger) Error(text string, _ *pulumi.LogArgs) error { return l.mocks.log("error", text) }

func (m *mocks) log(severity, text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.result.Log = append(m.result.Log, Message{Severity: severity, Text: text})
	return nil
}
