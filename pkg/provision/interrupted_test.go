package provision

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumicli"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// killed runs an operation on an engine that is killed, as with kill -9, in the middle of the next request to the cloud; meanwhile is
// what happens in the cloud before that.
func (w *world) killed(t *testing.T, meanwhile func(), operation func(*Engine) error) {
	t.Helper()
	options := w.options
	cli, _ := options.CLI.(*pulumicli.CLI)
	mortal, kill := *cli, make(chan struct{})
	mortal.Kill = kill
	options.CLI = &mortal
	engine, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	blocked := make(chan struct{})
	w.mu.Lock()
	w.blocked = blocked
	w.mu.Unlock()
	go func() {
		<-blocked
		w.mu.Lock()
		w.blocked = nil
		meanwhile()
		w.mu.Unlock()
		close(kill)
	}()
	if err := operation(engine); err == nil {
		t.Fatal("an engine that was killed says that all went well")
	}
}

// stateOf is what the state file of the stack of CivoVpc main says.
func (w *world) stateOf(t *testing.T) *checkpoint {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.directory, "state", "backend", ".pulumi", "stacks", "organization", "civovpc", "main.json"))
	if os.IsNotExist(err) {
		content, err = os.ReadFile(filepath.Join(w.directory, "state", "backend", ".pulumi", "stacks", "civovpc", "main.json"))
	}
	var file struct {
		Checkpoint struct {
			Latest apitype.DeploymentV3 `json:"latest"`
		} `json:"checkpoint"`
	}
	if err == nil {
		err = json.Unmarshal(content, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &checkpoint{DeploymentV3: file.Checkpoint.Latest}
}

// TestKilledWhileCreating goes on after an engine that was killed in the middle of a creation.
func TestKilledWhileCreating(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	w.killed(t, func() {}, func(e *Engine) error {
		_, err := e.Up(ctx, stack)
		return err
	})
	if got := len(w.stateOf(t).pending(apitype.OperationTypeCreating)); got != 1 {
		t.Fatalf("the state has %d pending creations; this test is about one", got)
	}

	official := w.options
	official.Plugins = Official
	cautious, err := New(official)
	if err != nil {
		t.Fatal(err)
	}
	for name, operation := range map[string]func() (*Result, error){
		"update":  func() (*Result, error) { return cautious.Up(ctx, stack) },
		"refresh": func() (*Result, error) { return cautious.Refresh(ctx, stack) },
		"destroy": func() (*Result, error) { return cautious.Destroy(ctx, stack) },
	} {
		_, err := operation()
		if KindOf(err) != Refused || !strings.Contains(err.Error(), "network (civo:index/thing:Thing)") ||
			!strings.Contains(err.Error(), "--created network=ID") {
			t.Errorf("%s with the official plugin: got error %v, want a refusal that names the resource and the way out", name, err)
		}
	}
	if got := len(w.stateOf(t).PendingOperations); got != 1 {
		t.Errorf("after the refusals the state has %d pending operations, want that one", got)
	}

	result, err := w.Preview(ctx, stack)
	if err != nil || result.Changes[OpCreate] != 1 || !w.told("the last run ended while creating it") {
		t.Errorf("preview: error %v, changes %v; want one creation, and a word about the last run", err, result)
	}
	result, err = w.Up(ctx, stack)
	if err != nil || result.Changes[OpCreate] != 1 || len(w.things) != 1 {
		t.Fatalf("the next up: error %v, things %v", err, w.things)
	}
	if !w.told("which has ended without doing so") || !w.told("the plugin looks for it") {
		t.Errorf("the lock or the creation was settled in silence: %v", w.events)
	}
	for _, diagnostic := range result.Diagnostics {
		t.Errorf("the next up says %v", diagnostic)
	}
	if pending := w.stateOf(t).PendingOperations; len(pending) != 0 {
		t.Errorf("pending operations stay: %v", pending)
	}
}

// told tells whether an event said so.
func (w *world) told(words string) bool {
	for _, event := range w.events {
		if strings.Contains(event.Message, words) {
			return true
		}
	}
	return false
}

// TestTellCreated takes a creation over of which only the user knows that it succeeded, and one of which they know that it did not.
func TestTellCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	made := resource.PropertyMap{"label": resource.NewStringProperty("main"), "region": resource.NewStringProperty("fra1")}
	w.killed(t, func() { w.things["main-9"] = made }, func(e *Engine) error {
		_, err := e.Up(ctx, stack)
		return err
	})
	answered := stack
	answered.Created = map[string]string{"network": "main-9"}
	if _, err := w.Refresh(ctx, answered); err != nil {
		t.Fatal(err)
	}
	result, err := w.Up(ctx, stack)
	if err != nil || result.Changed() || len(w.things) != 1 {
		t.Fatalf("the next up: error %v, changes %v, things %v", err, result.Changes, w.things)
	}

	// The region replaces: the new thing is made while the old one is there.
	moved := stackOf(t, vpc(t, "main", "main", "lon1"), testToken)
	there := made.Copy()
	there["region"] = resource.NewStringProperty("lon1")
	w.killed(t, func() { w.things["main-10"] = there }, func(e *Engine) error {
		_, err := e.Up(ctx, moved)
		return err
	})
	moved.Created = map[string]string{"network": "main-10"}
	result, err = w.Up(ctx, moved)
	if err != nil || len(w.things) != 1 || w.things["main-10"] == nil {
		t.Fatalf("after the replacement: error %v, changes %v, things %v; want the new one alone", err, result.Changes, w.things)
	}
	result, err = w.Up(ctx, moved)
	if err != nil || result.Changed() {
		t.Errorf("once more: error %v, changes %v", err, result.Changes)
	}
	if _, err := w.Destroy(ctx, moved); err != nil || len(w.things) != 0 {
		t.Errorf("destroy: error %v, things %v", err, w.things)
	}

	w.killed(t, func() {}, func(e *Engine) error {
		_, err := e.Up(ctx, stack)
		return err
	})
	stack.Created = map[string]string{"network": ""}
	result, err = w.Up(ctx, stack)
	if err != nil || result.Changes[OpCreate] != 1 || len(w.things) != 1 {
		t.Errorf("a creation that did not happen: error %v, things %v", err, w.things)
	}
}

// TestDestroyWithoutJournal destroys after a creation that was killed, where no journal tells what became of it: it is on another machine,
// say. Nothing is made, and what cannot be proven to be ours is neither taken nor forgotten.
func TestDestroyWithoutJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	w.killed(t, func() {}, func(e *Engine) error {
		_, err := e.Up(t.Context(), stack)
		return err
	})
	if err := os.RemoveAll(w.options.State.Creates); err != nil {
		t.Fatal(err)
	}
	w.things["stranger"] = resource.PropertyMap{
		"label": resource.NewStringProperty("main"), "region": resource.NewStringProperty("fra1"),
	}
	if _, err := w.Destroy(t.Context(), stack); err == nil || !strings.Contains(err.Error(), "(id stranger), and it is not this resource's") {
		t.Errorf("got error %v, want one that names what is there", err)
	}
	if pending := w.stateOf(t).pending(apitype.OperationTypeCreating); len(pending) != 1 || len(w.things) != 1 {
		t.Errorf("a destroy that failed forgot the creation, or took the stranger: %v, %v", pending, w.things)
	}
	clear(w.things)
	if _, err := w.Destroy(t.Context(), stack); err != nil || len(w.things) != 0 || w.next != 0 {
		t.Errorf("error %v, things %v, of which %d were made", err, w.things, w.next)
	}
	if !w.told("it does not exist: there is nothing to destroy") {
		t.Errorf("the creation was settled in silence: %v", w.events)
	}
}

// TestDestroyMakesNothing destroys and refreshes where the journal tells of an object that is no more, and the state of none.
func TestDestroyMakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	w.fails["main"] = errors.New("not today")
	if _, err := w.Up(t.Context(), stack); err == nil {
		t.Fatal("the stack was to be made without its resource")
	}
	clear(w.fails)
	entry := journal.Entry{
		URN: "urn:pulumi:main::civovpc::civo:index/thing:Thing::network", Kind: "thing", Name: "main", ID: "main-7",
	}
	creates := journal.Open(w.options.State.Creates)
	if err := creates.Write(entry); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Refresh(t.Context(), stack); err != nil || w.next != 0 {
		t.Errorf("refresh: error %v, %d things made", err, w.next)
	}
	if _, err := w.Destroy(t.Context(), stack); err != nil || w.next != 0 || len(w.things) != 0 {
		t.Errorf("destroy: error %v, %d things made, %v left", err, w.next, w.things)
	}
	if left, err := creates.URNs(); err != nil || len(left) != 0 {
		t.Errorf("the journal still has %v, %v", left, err)
	}
	if !w.told("it does not exist: there is nothing to destroy") {
		t.Errorf("the entry was settled in silence: %v", w.events)
	}
}

// TestKilledWhileDeletingAndUpdating goes on by looking: what the cloud deleted is not believed to be there.
func TestKilledWhileDeletingAndUpdating(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	if _, err := w.Up(ctx, stack); err != nil {
		t.Fatal(err)
	}
	w.killed(t, func() { clear(w.things) }, func(e *Engine) error {
		_, err := e.Destroy(ctx, stack)
		return err
	})
	result, err := w.Up(ctx, stack)
	if err != nil {
		t.Fatalf("up after a deletion: %s", err)
	}
	if result.Changes[OpCreate] != 1 || len(w.things) != 1 {
		t.Fatalf("up after a deletion: changes %v, things %v", result.Changes, w.things)
	}
	if !w.told("the last run was killed: looking") {
		t.Error("the deletion was settled in silence")
	}

	renamed := stackOf(t, vpc(t, "main", "renamed", "fra1"), testToken)
	change := func() {
		for _, thing := range w.things {
			thing["label"] = resource.NewStringProperty("renamed")
		}
	}
	w.killed(t, change, func(e *Engine) error {
		_, err := e.Up(ctx, renamed)
		return err
	})
	result, err = w.Up(ctx, renamed)
	if err != nil {
		t.Fatalf("up after an update that was carried out: %s", err)
	}
	if result.Changed() || len(w.stateOf(t).PendingOperations) != 0 {
		t.Errorf("up after an update that was carried out: changes %v", result.Changes)
	}
}

// TestSettled edits a state.
func TestSettled(t *testing.T) {
	t.Parallel()
	const urn = "urn:pulumi:main::civovpc::civo:index/network:Network::network"
	before, err := readCheckpoint(`{"version": 4, "features": ["views"], "deployment": {"manifest": {"magic": "m"}, "unheardOf": 12345678901234567890,
		"resources": [
			{"urn": "` + urn + `", "custom": true, "id": "old", "pendingReplacement": true},
			{"urn": "` + urn + `", "custom": true, "id": "older"}
		],
		"pending_operations": [
			{"type": "creating", "resource": {"urn": "` + urn + `", "custom": true, "inputs": {"label": "x"}}},
			{"type": "creating", "resource": {"urn": "` + urn + `", "custom": true, "inputs": {"label": "x"}}},
			{"type": "creating", "resource": {"urn": "other", "custom": true}}
		]}}`)
	if err != nil {
		t.Fatal(err)
	}
	after, err := before.settled(map[string]string{urn: "new"})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(after.Deployment, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"manifest": map[string]any{"magic": "m"}, "unheardOf": 12345678901234567890.0,
		"resources": []any{
			map[string]any{"urn": urn, "custom": true, "id": "older", "delete": true},
			map[string]any{
				"urn": urn, "custom": true, "id": "new",
				"inputs": map[string]any{"label": "x"}, "outputs": map[string]any{"label": "x"},
			},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if after.Version != 4 || !strings.Contains(string(after.Deployment), "12345678901234567890") {
		t.Errorf("version %d, %s", after.Version, after.Deployment)
	}
}
