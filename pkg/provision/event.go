package provision

import (
	"strings"
	"sync"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/auto/events"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/urn"

	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// Op is what is done to a resource.
type Op string

// The operations on resources.
const (
	// OpCreate makes a new resource.
	OpCreate Op = "create"
	// OpUpdate changes a resource in place.
	OpUpdate Op = "update"
	// OpReplace makes a new resource and deletes the old one, in the order that is possible.
	OpReplace Op = "replace"
	// OpDelete deletes a resource.
	OpDelete Op = "delete"
	// OpImport takes a resource over that exists already.
	OpImport Op = "import"
	// OpRead reads a resource that belongs to somebody else.
	OpRead Op = "read"
	// OpRefresh reads a resource to see whether it still is what the state says.
	OpRefresh Op = "refresh"
	// OpSame leaves a resource as it is.
	OpSame Op = "same"
)

// opOf is the operation that a step of the engine is a part of.
func opOf(step apitype.OpType) Op {
	switch step {
	case apitype.OpReplace, apitype.OpCreateReplacement, apitype.OpDeleteReplaced, apitype.OpReadReplacement,
		apitype.OpDiscardReplaced, apitype.OpImportReplacement, apitype.OpRemovePendingReplace:
		return OpReplace
	case apitype.OpReadDiscard:
		return OpRead
	default:
		return Op(step)
	}
}

// EventKind is what an Event tells.
type EventKind string

// The kinds of events.
const (
	// EventStackStarted tells that an operation on a stack begins. The message is the plugin that is used.
	EventStackStarted EventKind = "stackStarted"
	// EventStackDone tells that it ended well, also where there was no stack and nothing to do.
	EventStackDone EventKind = "stackDone"
	// EventStackFailed tells that it failed. The error stands in what the operation returns.
	EventStackFailed EventKind = "stackFailed"
	// EventStackSkipped tells that it will not begin, because operations on other stacks failed: Because.
	EventStackSkipped EventKind = "stackSkipped"
	// EventResourceStarted tells that something is being done to a resource.
	EventResourceStarted EventKind = "resourceStarted"
	// EventResourceStatus tells what that waits for.
	EventResourceStatus EventKind = "resourceStatus"
	// EventResourceDone tells that it was done.
	EventResourceDone EventKind = "resourceDone"
	// EventResourceFailed tells that it failed.
	EventResourceFailed EventKind = "resourceFailed"
	// EventWarning is a warning of the module, the plugin or the engine.
	EventWarning EventKind = "warning"
	// EventInfo is a remark of the module, the plugin or the engine.
	EventInfo EventKind = "info"
	// EventError is an error of the module, the plugin or the engine.
	EventError EventKind = "error"
)

// Event tells one thing that happens.
type Event struct {
	Kind EventKind
	// Time is when it happened.
	Time time.Time
	// Stack is where it happened.
	Stack stackidentity.Identity
	// Resource is the name of the resource in its module, such as "cluster"; empty for the stack itself.
	Resource string
	// Type is the type token of the resource.
	Type string
	// Op is what is done to the resource, or to the stack: up, preview, refresh or destroy.
	Op Op
	// Elapsed is how long it took, for events that end something.
	Elapsed time.Duration
	// Planning tells that it is only a preview.
	Planning bool
	// Message is for people; it has no secrets in it.
	Message string
	// Because are the stacks for which one was skipped.
	Because []stackidentity.Identity
}

// Diagnostic is a message of the module, the plugin or the engine.
type Diagnostic struct {
	// Severity is "error", "warning" or "info".
	Severity string `json:"severity"`
	// Resource is the name of the resource that it is about; may be empty.
	Resource string `json:"resource,omitempty"`
	// Message is for people.
	Message string `json:"message"`
}

const stackType = "pulumi:pulumi:Stack"

// colors are the color marks of the engine.
var colors = pattern(`<\{%[^%]*%\}>`)

func plain(text string) string {
	return strings.TrimSpace(colors().ReplaceAllString(text, ""))
}

// recorder turns the events of the engine into those of this package, and into the result.
type recorder struct {
	engine  *Engine
	stack   stackidentity.Identity
	result  *Result
	started map[string]time.Time
	planned map[string]apitype.StepEventMetadata // by URN: the step that was begun last, which may tell more than its end
	urns    []string                             // of the resources, in the order in which they were done
	changes map[string]Change                    // by URN
	sides   map[string]sides                     // by URN
	done    chan struct{}

	mu     sync.Mutex // guards the result against events that come too late
	closed bool
}

// record starts to read a stream of events. Wait for done after the stream was closed.
func (e *Engine) record(stack stackidentity.Identity) (*recorder, chan events.EngineEvent) {
	r := &recorder{
		engine: e, stack: stack, done: make(chan struct{}),
		started: map[string]time.Time{}, planned: map[string]apitype.StepEventMetadata{}, changes: map[string]Change{},
		sides:  map[string]sides{},
		result: &Result{Stack: stack, Changes: map[Op]int{}},
	}
	stream := make(chan events.EngineEvent)
	go func() {
		defer close(r.done)
		for event := range stream {
			r.take(event)
		}
	}()
	return r, stream
}

func (r *recorder) take(event events.EngineEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case event.Error != nil:
		// One event that cannot be read is no reason to fail: the engine's exit code has the last word.
	case event.ResourcePreEvent != nil:
		r.resourceStarted(event.ResourcePreEvent.Metadata, event.ResourcePreEvent.Planning)
	case event.ResOutputsEvent != nil:
		r.resourceDone(event.ResOutputsEvent.Metadata, event.ResOutputsEvent.Planning)
	case event.ResOpFailedEvent != nil:
		r.resourceFailed(event.ResOpFailedEvent.Metadata)
	case event.DiagnosticEvent != nil:
		r.diagnostic(*event.DiagnosticEvent)
	}
}

func (r *recorder) resourceStarted(metadata apitype.StepEventMetadata, planning bool) {
	r.planned[metadata.URN] = metadata
	if isHousekeeping(metadata) || metadata.Op == apitype.OpSame || metadata.Op == apitype.OpReplace {
		return // a replace is only a mark between the two steps of a replacement
	}
	r.started[metadata.URN] = time.Now()
	if planning {
		return
	}
	r.engine.emit(r.event(EventResourceStarted, metadata, planning))
}

func (r *recorder) resourceDone(metadata apitype.StepEventMetadata, planning bool) {
	if metadata.Type == stackType {
		if metadata.New != nil {
			r.result.Outputs = outputsOf(metadata.New.Outputs)
		}
		return
	}
	if isProvider(metadata.Type) {
		return
	}
	r.change(metadata)
	if metadata.Op == apitype.OpSame || metadata.Op == apitype.OpReplace || planning {
		return
	}
	r.engine.emit(r.event(EventResourceDone, metadata, planning))
}

// isProvider tells whether a resource is the settings of a plugin. They live in the state alone: nobody cares when they change.
func isProvider(typeToken string) bool {
	return strings.HasPrefix(typeToken, "pulumi:providers:")
}

func isHousekeeping(metadata apitype.StepEventMetadata) bool {
	return metadata.Type == stackType || isProvider(metadata.Type)
}

// change notes what was done to a resource. When several things were, such as a refresh and then nothing, the last one counts that
// is not nothing.
func (r *recorder) change(metadata apitype.StepEventMetadata) {
	change := changeOf(metadata, r.planned[metadata.URN])
	known, ok := r.changes[metadata.URN]
	if !ok {
		r.urns = append(r.urns, metadata.URN)
	}
	switch {
	case ok && change.Op == OpSame:
		return
	case known.Op == change.Op && len(change.Properties) == 0:
		return // the other half of a replacement
	}
	r.changes[metadata.URN] = change
	r.sides[metadata.URN] = sidesOf(metadata, r.planned[metadata.URN])
}

func (r *recorder) resourceFailed(metadata apitype.StepEventMetadata) {
	r.engine.emit(r.event(EventResourceFailed, metadata, false))
}

func (r *recorder) event(kind EventKind, metadata apitype.StepEventMetadata, planning bool) Event {
	event := Event{
		Kind: kind, Time: time.Now(), Stack: r.stack, Resource: nameOf(metadata.URN), Type: metadata.Type,
		Op: Op(metadata.Op), Planning: planning,
	}
	if at, ok := r.started[metadata.URN]; ok && kind != EventResourceStarted {
		event.Elapsed = time.Since(at)
	}
	return event
}

func (r *recorder) diagnostic(d apitype.DiagnosticEvent) {
	message := plain(d.Message)
	if message == "" {
		return
	}
	event := Event{Time: time.Now(), Stack: r.stack, Resource: nameOf(d.URN), Message: message}
	if d.Ephemeral {
		event.Kind = EventResourceStatus
		r.engine.emit(event)
		return
	}
	severity := d.Severity
	switch severity {
	case "error":
		event.Kind = EventError
	case "warning":
		event.Kind = EventWarning
	case "info", "info#err":
		severity = "info"
		event.Kind = EventInfo
	default:
		return // debug
	}
	// The engine asks the user to settle what this package settles.
	if severity == "warning" && strings.HasPrefix(message, "Attempting to deploy or update resources with ") {
		return
	}
	// The engine ends every failed operation with these words, which say nothing.
	if severity == "error" && isEcho(message) {
		return
	}
	diagnostic := Diagnostic{Severity: severity, Resource: event.Resource, Message: r.engine.secrets.redact(message)}
	for _, earlier := range r.result.Diagnostics {
		if earlier == diagnostic {
			return
		}
	}
	r.result.Diagnostics = append(r.result.Diagnostics, diagnostic)
	r.engine.emit(event)
}

// isEcho tells whether a diagnostic only says that there was another one.
func isEcho(message string) bool {
	switch message {
	case "update failed", "preview failed", "refresh failed", "destroy failed", "destroying failed", "updating failed":
		return true
	}
	return false
}

// nameOf is the name of a resource in its URN; that of the stack is empty.
func nameOf(text string) string {
	parsed, err := urn.Parse(text)
	if err != nil || string(parsed.Type()) == stackType {
		return ""
	}
	return parsed.Name()
}

// eventsGrace is how long the last events of an operation may take after the CLI has ended.
const eventsGrace = 2 * time.Second

// finish waits for the last events of an operation. When the CLI never came as far as to send one, nobody ends the stream; what
// might still come then is not taken any more.
func (r *recorder) finish() {
	select {
	case <-r.done:
	case <-time.After(eventsGrace):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, urn := range r.urns {
		change := r.changes[urn]
		r.result.Changes[change.Op]++
		if change.Op != OpSame {
			r.result.Resources = append(r.result.Resources, change)
			r.result.sides = append(r.result.sides, r.sides[urn])
		}
	}
}
