package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/events"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

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
	look := begun
	err = o.unlocked(ctx, func() error {
		settled, err := o.settleCreates(ctx, found)
		look = look || settled
		return err
	})
	for _, operation := range found.PendingOperations {
		if operation.Type != apitype.OperationTypeCreating {
			o.tell(EventInfo, nameOf(string(operation.Resource.URN)), "the last run ended while "+string(operation.Type)+" it")
			look = true
		}
	}
	if err == nil && look {
		o.tell(EventInfo, "", "the last run was killed: looking what became of what it did")
		err = o.unlocked(ctx, func() (err error) {
			result, err = o.recorded(func(stream chan<- events.EngineEvent) error {
				_, err := o.selected.Refresh(ctx, optrefresh.EventStreams(stream), optrefresh.SuppressProgress(),
					optrefresh.Color(colorNever), optrefresh.RunProgram(true))
				return err
			})
			return err
		})
	}
	if err != nil || len(o.unrecorded) == 0 {
		return result, err
	}
	return o.adopt(ctx)
}

// settleCreates takes the creations that began and never ended out of the state: the native plugin finds what it made, proven by its
// journal; for an official plugin nobody can tell but the user. Found tells that there are objects to be read.
func (o *ongoing) settleCreates(ctx context.Context, state *checkpoint) (found bool, err error) {
	creates := state.pending(apitype.OperationTypeCreating)
	if len(creates) == 0 {
		return false, nil
	}
	ids, unknown := map[string]string{}, []apitype.ResourceV3(nil)
	for _, r := range creates {
		if id, told := o.stack.Created[nameOf(string(r.URN))]; told {
			ids[string(r.URN)] = id
			continue
		}
		if id := o.unrecordedID(string(r.URN)); id != "" {
			ids[string(r.URN)] = id
			continue
		}
		unknown = append(unknown, r)
	}
	if len(unknown) > 0 && o.plugin.Choice == Official {
		return false, unknownCreates(o.stack, unknown)
	}
	settled, err := state.settled(ids)
	if err != nil {
		return false, err
	}
	if err := o.selected.Workspace().ImportStack(ctx, o.selected.Name(), settled); err != nil {
		return false, err
	}
	for _, r := range creates {
		outcome := "the plugin looks for it before it makes another one"
		if id, told := ids[string(r.URN)]; told && id != "" {
			outcome, found = "it is "+id, true
			o.unrecorded = slices.DeleteFunc(o.unrecorded, func(entry journal.Entry) bool { return entry.URN == string(r.URN) })
		} else if told {
			outcome = "it does not exist, as was said"
		}
		o.tell(EventInfo, nameOf(string(r.URN)), "the last run ended while it was being created: "+outcome)
	}
	return found, nil
}

// adopt takes objects into the state that the native plugin asked the cloud for, and of which the state does not know: a destroy would
// leave them behind. The plugin's create looks for them, and proves that they are ours.
func (o *ongoing) adopt(ctx context.Context) (*Result, error) {
	var targets []string
	for _, entry := range o.unrecorded {
		targets = append(targets, entry.URN)
		o.tell(EventInfo, nameOf(entry.URN), fmt.Sprintf(
			"an earlier run asked for %s %s and could not record it: it is looked for, to be destroyed too", entry.Kind, entry.Name))
	}
	return o.recorded(func(stream chan<- events.EngineEvent) error {
		_, err := o.selected.Up(ctx, optup.EventStreams(stream), optup.SuppressProgress(), optup.Color(colorNever), optup.Target(targets))
		return err
	})
}

// lookForUnrecorded finds out what the native plugin asked the cloud for and the state knows nothing of.
func (o *ongoing) lookForUnrecorded(state *checkpoint) error {
	if o.plugin.Choice != Native {
		return nil
	}
	asked, err := o.engine.options.State.askedFor(o.stack.Identity)
	o.unrecorded = slices.DeleteFunc(asked, func(entry journal.Entry) bool {
		return slices.ContainsFunc(state.Resources, func(r apitype.ResourceV3) bool {
			return entry.ID != "" && string(r.URN) == entry.URN && string(r.ID) == entry.ID
		})
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
