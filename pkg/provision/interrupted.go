package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/events"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// A run that is killed leaves operations in the state that had begun and not ended. The engine goes on after a warning, and so would
// create a second object of what it was creating, and believe in what it was deleting. Here they are settled before anything else is
// done, by looking.

// goOn deals with what the last run of the stack left half done: it is settled where the operation changes the state, else told.
// Begun tells that the last run has left its mark. The result is never nil.
func (o *ongoing) goOn(ctx context.Context, run run, begun bool) (result *Result, err error) {
	result = &Result{Stack: o.stack.Identity, Changes: map[Op]int{}}
	found, err := o.command.checkpoint()
	if err != nil {
		return result, err
	}
	if !run.changes {
		for _, operation := range found.PendingOperations {
			o.tell(EventInfo, nameOf(string(operation.Resource.URN)), "the last run ended while "+string(operation.Type)+
				" it: the next apply, refresh or destroy looks first what became of it")
		}
		return result, nil
	}
	if run.destroys {
		if err := o.lookForUnrecorded(found); err != nil {
			return result, err
		}
	}
	ids, unknown, err := o.creates(found)
	if err != nil {
		return result, err
	}
	if run.destroys {
		if targets := o.targets(ids, unknown); len(targets) > 0 {
			if result, found, err = o.adopt(ctx, targets); err != nil {
				return result, err
			}
		}
	}
	if len(ids) > 0 || run.destroys && len(unknown) > 0 {
		if err := o.unlocked(ctx, func() error { return o.write(ctx, found, ids) }); err != nil {
			return result, err
		}
	} else {
		o.unsettled = len(unknown) > 0
	}
	if !begun && !o.toLookAt(found, ids) {
		return result, nil
	}
	o.tell(EventInfo, "", "the last run was killed: looking what became of what it did")
	err = o.unlocked(ctx, func() (err error) {
		result, err = o.recorded(func(stream chan<- events.EngineEvent) error {
			_, err := o.selected.Refresh(ctx, optrefresh.EventStreams(stream), optrefresh.SuppressProgress(),
				optrefresh.Color(colorNever), optrefresh.RunProgram(true))
			return err
		})
		return err
	})
	return result, err
}

// creates are the creations that began and never ended: those of which it is known how they did, as ids by URN ("" for none), and the
// others. The native plugin finds what it made, proven by its journal; for an official plugin nobody can tell but the user.
func (o *ongoing) creates(state *checkpoint) (ids map[string]string, unknown []apitype.ResourceV3, err error) {
	ids = map[string]string{}
	for _, r := range state.pending(apitype.OperationTypeCreating) {
		urn := string(r.URN)
		outcome := "the plugin looks for it before it makes another one"
		id, known := o.stack.Created[nameOf(urn)]
		if !known {
			id = o.unrecordedID(urn)
			known = id != ""
		}
		switch {
		case !known:
			unknown = append(unknown, r)
		case id == "":
			ids[urn], outcome = id, "it does not exist, as was said"
		default:
			ids[urn], outcome = id, "it is "+id
		}
		if known || o.plugin.Choice != Official {
			o.tell(EventInfo, nameOf(urn), "the last run ended while it was being created: "+outcome)
		}
	}
	if len(unknown) > 0 && o.plugin.Choice == Official {
		return nil, nil, unknownCreates(o.stack, unknown)
	}
	return ids, unknown, nil
}

// toLookAt tells whether there are objects to be read from the cloud.
func (o *ongoing) toLookAt(state *checkpoint, ids map[string]string) bool {
	look := false
	for _, id := range ids {
		look = look || id != ""
	}
	for _, operation := range state.PendingOperations {
		if operation.Type != apitype.OperationTypeCreating {
			o.tell(EventInfo, nameOf(string(operation.Resource.URN)), "the last run ended while "+string(operation.Type)+" it")
			look = true
		}
	}
	return look
}

// targets are the URNs of what a destroy must find first: what the native plugin asked for and the state knows nothing of, and what was
// being created when there is no journal of it, because it is on another machine, say. A destroy would leave both behind.
func (o *ongoing) targets(ids map[string]string, unknown []apitype.ResourceV3) []string {
	var targets []string
	add := func(urn, what string) {
		if _, known := ids[urn]; known || slices.Contains(targets, urn) {
			return
		}
		targets = append(targets, urn)
		o.tell(EventInfo, nameOf(urn), "an earlier run asked for "+what+" and could not record it: it is looked for, to be destroyed too")
	}
	for _, entry := range o.unrecorded {
		add(entry.URN, entry.Kind+" "+entry.Name)
	}
	for _, r := range unknown {
		add(string(r.URN), string(r.Type))
	}
	return targets
}

// adopt takes into the state what exists of the targets, and returns the state after that. The plugin looks for them, proves that they are
// ours, and makes nothing: of what does not exist, its journal and the state that is written next have nothing any more.
func (o *ongoing) adopt(ctx context.Context, targets []string) (*Result, *checkpoint, error) {
	var mu sync.Mutex
	looked := map[string]string{} // ids by URN, "" for nothing
	plugin, err := o.engine.serveLooking(ctx, o.plugin.Provider, func(urn resource.URN, id string) {
		mu.Lock()
		defer mu.Unlock()
		looked[string(urn)] = id
	})
	if err != nil {
		return &Result{Stack: o.stack.Identity, Changes: map[Op]int{}}, nil, err
	}
	defer plugin.stop()
	workspace := o.selected.Workspace()
	ordinary := workspace.GetEnvVars()[environmentDebugProviders]
	workspace.SetEnvVar(environmentDebugProviders, plugin.debugProviders)
	defer workspace.SetEnvVar(environmentDebugProviders, ordinary)

	// That a create finds nothing is an error for the engine, and none for the user: what was found is told below.
	silent := &ongoing{engine: &Engine{options: o.engine.options, secrets: o.engine.secrets}, stack: o.stack}
	silent.engine.options.OnEvent = nil
	var result *Result
	err = o.unlocked(ctx, func() (err error) {
		result, err = silent.recorded(func(stream chan<- events.EngineEvent) error {
			_, err := o.selected.Up(ctx, optup.EventStreams(stream), optup.SuppressProgress(), optup.Color(colorNever),
				optup.Target(targets), optup.ContinueOnError())
			return err
		})
		return err
	})
	for _, diagnostic := range result.Diagnostics {
		if diagnostic.Severity == "warning" {
			o.tell(EventWarning, diagnostic.Resource, diagnostic.Message)
		}
	}
	if err != nil && (ctx.Err() != nil || o.command.wasKilled() || isLocked(err)) {
		return result, nil, err
	}
	if _, err := auto.SelectStack(ctx, o.selected.Name(), workspace); err != nil {
		return result, nil, err
	}
	after, stateErr := o.command.checkpoint()
	if stateErr != nil {
		return result, nil, stateErr
	}
	mu.Lock()
	defer mu.Unlock()
	for _, urn := range targets {
		id, known := looked[urn]
		switch {
		case known && id == "":
			o.tell(EventInfo, nameOf(urn), "it does not exist: there is nothing to destroy")
		case err == nil || known && after.has(urn, id):
		case o.wentWithParent(urn, looked):
			o.tell(EventInfo, nameOf(urn), "it does not exist, because what it was a part of does not")
			if err := o.dropFromJournal(urn); err != nil {
				return result, nil, err
			}
		default:
			return result, nil, err
		}
	}
	return result, after, nil
}

// wentWithParent tells whether an object is gone because what it was a part of is, as a node pool with its cluster: the engine does not
// come to it then.
func (o *ongoing) wentWithParent(urn string, looked map[string]string) bool {
	for _, entry := range o.unrecorded {
		for _, parent := range o.unrecorded {
			if id, known := looked[parent.URN]; entry.URN == urn && known && id == "" && parent.ID != "" && parent.ID == entry.Parent {
				return true
			}
		}
	}
	return false
}

// dropFromJournal removes what the journal has of a resource whose object does not exist.
func (o *ongoing) dropFromJournal(urn string) error {
	for _, entry := range o.unrecorded {
		if entry.URN != urn {
			continue
		}
		if err := o.engine.options.State.journal().Remove(entry.Key()); err != nil {
			return err
		}
	}
	return nil
}

// write takes the creations that began and never ended out of the state. What has an id stays in it as a resource.
func (o *ongoing) write(ctx context.Context, state *checkpoint, ids map[string]string) error {
	settled, err := state.settled(ids)
	if err != nil {
		return err
	}
	return o.selected.Workspace().ImportStack(ctx, o.selected.Name(), settled)
}

// forget takes the creations out of the state of which the operation that just succeeded has found out what became of them. The engine
// itself never does.
func (o *ongoing) forget(ctx context.Context) error {
	if _, err := auto.SelectStack(ctx, o.selected.Name(), o.selected.Workspace()); err != nil {
		return err
	}
	state, err := o.command.checkpoint()
	if err != nil {
		return err
	}
	return o.write(ctx, state, nil)
}

// lookForUnrecorded finds out what the native plugin asked the cloud for and the state knows nothing of.
func (o *ongoing) lookForUnrecorded(state *checkpoint) error {
	if o.plugin.Choice != Native {
		return nil
	}
	asked, err := o.engine.options.State.askedFor(o.stack.Identity)
	o.unrecorded = slices.DeleteFunc(asked, func(entry journal.Entry) bool {
		return entry.ID != "" && state.has(entry.URN, entry.ID)
	})
	return err
}

// unrecordedID is the id of an object that the state knows nothing of.
func (o *ongoing) unrecordedID(urn string) string {
	for _, entry := range o.unrecorded {
		if entry.URN == urn {
			return entry.ID
		}
	}
	return ""
}

// unknownCreates is the error about creations of which nobody knows how they ended.
func unknownCreates(stack Stack, resources []apitype.ResourceV3) error {
	var names, exist, missing []string
	for _, r := range resources {
		name := nameOf(string(r.URN))
		names = append(names, fmt.Sprintf("%s (%s)", name, r.Type))
		exist = append(exist, "--created "+name+"=ID")
		missing = append(missing, "--created "+name+"=")
	}
	return &Error{
		Kind: Refused, Stack: stack.Identity, Operation: "go on with",
		Message: fmt.Sprintf("the last run ended while it was creating %s; the official plugin cannot tell whether it exists, and would "+
			"make another one; look for it in the cloud, then give its id (planton refresh -f FILE %s) or say that it does not exist "+
			"(planton refresh -f FILE %s)", strings.Join(names, ", "), strings.Join(exist, " "), strings.Join(missing, " ")),
	}
}

// settled is the state without creations that had begun. Those of which the id is given, by URN, become resources, as the engine would
// have written them down had it heard of the id.
func (c *checkpoint) settled(ids map[string]string) (apitype.UntypedDeployment, error) {
	var document apitype.UntypedDeployment
	var deployment map[string]any
	err := json.Unmarshal([]byte(c.text), &document)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(document.Deployment))
		decoder.UseNumber() // numbers stay as they are written
		err = decoder.Decode(&deployment)
	}
	if err != nil {
		return document, errors.Wrap(err, "read the state of the stack")
	}
	resources, _ := deployment["resources"].([]any)
	operations, _ := deployment["pending_operations"].([]any)
	done := map[string]bool{}
	for _, operation := range operations {
		fields, _ := operation.(map[string]any)
		created, _ := fields["resource"].(map[string]any)
		urn, _ := created["urn"].(string)
		if fields["type"] != string(apitype.OperationTypeCreating) || ids[urn] == "" {
			continue
		}
		created["id"] = ids[urn]
		if created["outputs"] == nil {
			created["outputs"] = created["inputs"]
		}
		if !done[urn] {
			resources = append(replaced(resources, urn), created)
			done[urn] = true
		}
	}
	deployment["resources"] = resources
	delete(deployment, "pending_operations")
	document.Deployment, err = json.Marshal(deployment)
	return document, errors.Wrap(err, "write the state of the stack")
}

// replaced are resources of which the one with the URN has got a replacement: the old one is to be deleted.
func replaced(resources []any, urn string) []any {
	return slices.DeleteFunc(resources, func(r any) bool {
		fields, _ := r.(map[string]any)
		if fields["urn"] != urn {
			return false
		}
		if fields["pendingReplacement"] == true {
			return true // it was deleted before its replacement was made
		}
		fields["delete"] = true
		return false
	})
}
