package provision

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// stackOf is the stack of a manifest.
func stackOf(t *testing.T, m *manifest.Manifest, token string) Stack {
	t.Helper()
	identity, err := stackidentity.For(m.Kind, kinds.Metadata(m.Target))
	if err != nil {
		t.Fatal(err)
	}
	input, err := NewStackInput(m.Target, configs(token))
	if err != nil {
		t.Fatal(err)
	}
	return Stack{Identity: identity, StackInput: input}
}

// TestLifeOfAStack walks one stack through its life on the real engine. The steps build on one another.
func TestLifeOfAStack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	stack := func(label, region, token string) Stack { return stackOf(t, vpc(t, "main", label, region), token) }
	check := func(step string, got *Result, err error, want map[Op]int) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if diff := cmp.Diff(want, got.Changes, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: changes: -want +got:\n%s", step, diff)
		}
	}

	result, err := w.Preview(ctx, stack("main", "fra1", testToken))
	check("preview before there is a stack", result, err, map[Op]int{OpCreate: 1})
	if output := result.Outputs["network_id"]; output.Known || output.Secret {
		t.Errorf("the preview knows an id that does not exist: %+v", output)
	}
	if entries, _ := filepath.Glob(filepath.Join(w.directory, "state", "backend", ".pulumi", "stacks", "*")); len(entries) != 0 {
		t.Errorf("the preview left %v", entries)
	}

	result, err = w.Up(ctx, stack("main", "fra1", testToken))
	check("create", result, err, map[Op]int{OpCreate: 1})
	want := Outputs{"network_id": {Value: "main-1", Known: true}, "kubeconfig_b64": {Secret: true}}
	if diff := cmp.Diff(want, result.Outputs); diff != "" {
		t.Errorf("outputs of the up: -want +got:\n%s", diff)
	}

	result, err = w.Up(ctx, stack("main", "fra1", testToken))
	check("no-op", result, err, map[Op]int{OpSame: 1})
	if result.Changed() {
		t.Error("a second up changed something")
	}

	result, err = w.Preview(ctx, stack("renamed", "fra1", testToken))
	check("preview of an update", result, err, map[Op]int{OpUpdate: 1})
	wantChange := []Change{{Resource: "network", Type: "civo:index/thing:Thing", Op: OpUpdate,
		Properties: []PropertyChange{{Path: "label", Kind: "update", Old: "main", New: "renamed"}}}}
	if diff := cmp.Diff(wantChange, result.Resources); diff != "" {
		t.Errorf("resources of the preview: -want +got:\n%s", diff)
	}
	if output := result.Outputs["network_id"]; output.Value != "main-1" {
		t.Errorf("an id that stays is known in the preview; got %+v", output)
	}

	result, err = w.Up(ctx, stack("main", "lon1", testToken))
	check("replace", result, err, map[Op]int{OpReplace: 1})
	if diff := cmp.Diff(map[string]bool{"main": true}, w.labels()); diff != "" || len(w.things) != 1 {
		t.Errorf("after the replacement: %v", w.things)
	}

	outputs, err := w.Outputs(ctx, stack("main", "fra1", testToken).Identity)
	if err != nil {
		t.Fatal(err)
	}
	want = Outputs{
		"network_id":     {Value: "main-2", Known: true},
		"kubeconfig_b64": {Value: "password-of-main", Secret: true, Known: true},
	}
	if diff := cmp.Diff(want, outputs); diff != "" {
		t.Errorf("outputs: -want +got:\n%s", diff)
	}
	// Without secrets, no process is started.
	cli := w.options.CLI
	w.options.CLI = nil
	public, err := w.PublicOutputs(ctx, stack("main", "fra1", testToken).Identity)
	w.options.CLI = cli
	if err != nil {
		t.Fatal(err)
	}
	want["kubeconfig_b64"] = Output{Secret: true}
	if diff := cmp.Diff(want, public); diff != "" {
		t.Errorf("outputs without secrets: -want +got:\n%s", diff)
	}

	// Somebody changes the thing behind the stack's back, and the manifest changes too: the refresh only looks, and the next up
	// puts things right.
	w.mu.Lock()
	changed := w.things["main-2"].Copy()
	changed["label"] = resource.NewStringProperty("drifted")
	w.things["main-2"] = changed
	w.mu.Unlock()
	result, err = w.Refresh(ctx, stack("renamed", "lon1", testToken))
	check("refresh after a change", result, err, map[Op]int{OpUpdate: 1})
	wantChange = []Change{{Resource: "network", Type: "civo:index/thing:Thing", Op: OpUpdate,
		Properties: []PropertyChange{{Path: "label", Kind: "update", Old: "main", New: "drifted"}}}}
	if diff := cmp.Diff(wantChange, result.Resources); diff != "" {
		t.Errorf("resources of the refresh: -want +got:\n%s", diff)
	}
	result, err = w.Refresh(ctx, stack("renamed", "lon1", testToken))
	check("refresh again", result, err, map[Op]int{OpSame: 1})
	result, err = w.Up(ctx, stack("renamed", "lon1", testToken))
	check("up after a change", result, err, map[Op]int{OpUpdate: 1})
	if diff := cmp.Diff(map[string]bool{"renamed": true}, w.labels()); diff != "" {
		t.Errorf("after the up: -want +got:\n%s", diff)
	}
	result, err = w.Up(ctx, stack("main", "lon1", testToken))
	check("change back", result, err, map[Op]int{OpUpdate: 1})

	// Somebody deletes the thing behind the stack's back.
	w.mu.Lock()
	clear(w.things)
	w.mu.Unlock()
	result, err = w.Refresh(ctx, stack("main", "lon1", testToken))
	check("refresh after a deletion", result, err, map[Op]int{OpDelete: 1})
	result, err = w.Up(ctx, stack("main", "lon1", testToken))
	check("create again", result, err, map[Op]int{OpCreate: 1})

	// The token of yesterday has expired; a destroy uses today's.
	w.tokens = nil
	result, err = w.PreviewDestroy(ctx, stack("main", "lon1", "token-of-today"))
	check("preview of a destroy", result, err, map[Op]int{OpDelete: 1})
	result, err = w.Destroy(ctx, stack("main", "lon1", "token-of-today"))
	check("destroy", result, err, map[Op]int{OpDelete: 1})
	for _, token := range w.tokens {
		if token != "token-of-today" {
			t.Errorf("the destroy used %q", token)
		}
	}
	if len(w.things) != 0 {
		t.Errorf("after the destroy: %v", w.things)
	}

	result, err = w.Destroy(ctx, stack("main", "lon1", testToken))
	check("destroy of nothing", result, err, nil)
	if !result.Missing {
		t.Error("the destroy of a stack that does not exist does not say so")
	}
	if _, err = w.Outputs(ctx, stack("main", "fra1", testToken).Identity); KindOf(err) != NotFound {
		t.Errorf("outputs of nothing: got error %v, want one of kind NotFound", err)
	}
	if _, err = w.PublicOutputs(ctx, stack("main", "fra1", testToken).Identity); KindOf(err) != NotFound {
		t.Errorf("outputs without secrets, of nothing: got error %v, want one of kind NotFound", err)
	}

	checkEvents(t, w.events)
	checkNoSecrets(t, w)
}

func checkEvents(t *testing.T, events []Event) {
	t.Helper()
	seen := map[EventKind]bool{}
	for _, event := range events {
		seen[event.Kind] = true
		if event.Kind == EventResourceStatus && event.Message != "waiting for main" {
			t.Errorf("got status %q", event.Message)
		}
		if strings.Contains(event.Message, testToken) {
			t.Errorf("an event has the token in it: %+v", event)
		}
	}
	for _, kind := range []EventKind{
		EventStackStarted, EventStackDone, EventResourceStarted, EventResourceStatus, EventResourceDone,
	} {
		if !seen[kind] {
			t.Errorf("there was no event of kind %s", kind)
		}
	}
}

// checkNoSecrets looks through all files of the state for secrets in clear text.
func checkNoSecrets(t *testing.T, w *world) {
	t.Helper()
	found := 0
	err := filepath.Walk(w.directory, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found++
		for _, secret := range []string{testToken, "token-of-today", "password-of"} {
			if strings.Contains(string(content), secret) {
				t.Errorf("%s has %q in it in clear", path, secret)
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("looked through %d files: %v", found, err)
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	// The thing is there already: made by a stack that is forgotten.
	if _, err := w.Up(t.Context(), stackOf(t, vpc(t, "other", "main", "fra1"), testToken)); err != nil {
		t.Fatal(err)
	}
	result, err := w.Import(t.Context(), stack, map[string]string{"network": "main-1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[Op]int{OpImport: 1}, result.Changes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	result, err = w.Up(t.Context(), stack)
	if err != nil || result.Changed() {
		t.Errorf("after the import: error %v, changes %v", err, result.Changes)
	}
	if len(w.things) != 1 {
		t.Errorf("the import made something: %v", w.things)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cases := []struct {
		reason      string
		name        string
		fails       error
		want        ErrorKind
		wantMessage string
	}{
		{reason: "the cloud's own words come through", name: "quota", fails: errors.New("quota_limit_reached: 3 networks"), want: Failed, wantMessage: "quota_limit_reached: 3 networks"},
		{reason: "an expired token is told apart", name: "token", fails: errors.New("401 Unauthorized: token " + testToken + " has expired"), want: Credentials, wantMessage: "token [secret] has expired"},
		{reason: "a cloud that cannot be reached is told apart", name: "unreachable", fails: errors.New("dial tcp 127.0.0.1:1: connect: connection refused"), want: Unreachable, wantMessage: "connection refused"},
		{reason: "what a module says comes through", name: "broken", want: Failed, wantMessage: "the module is broken, and knows [secret]"},
	}
	for _, tc := range cases {
		w.mu.Lock()
		w.fails[tc.name] = tc.fails
		w.mu.Unlock()
		_, err := w.Up(t.Context(), stackOf(t, vpc(t, tc.name, tc.name, "fra1"), testToken))
		var failure *Error
		if !errors.As(err, &failure) {
			t.Fatalf("%s: got error %v, want an *Error", tc.reason, err)
		}
		if failure.Kind != tc.want || !strings.Contains(failure.Message, tc.wantMessage) {
			t.Errorf("%s: got %s %q, want %s %q", tc.reason, failure.Kind, failure.Message, tc.want, tc.wantMessage)
		}
		if strings.Contains(err.Error(), testToken) {
			t.Errorf("%s: the error shows the token: %v", tc.reason, err)
		}
	}
	if len(w.things) != 0 {
		t.Errorf("something was made: %v", w.things)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.blocked = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-w.blocked
		cancel()
	}()
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	_, err := w.Up(ctx, stack)
	if KindOf(err) != Canceled {
		t.Fatalf("got error %v, want one of kind Canceled", err)
	}
	// The stack is not locked, and the next up makes what is missing.
	w.mu.Lock()
	w.blocked = nil
	w.mu.Unlock()
	result, err := w.Up(t.Context(), stack)
	if err != nil {
		t.Fatal(err)
	}
	if result.Changes[OpCreate] != 1 || len(w.things) != 1 {
		t.Errorf("after the cancel: changes %v, things %v", result.Changes, w.things)
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	w.blocked = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.Up(ctx, stack)
	}()
	<-w.blocked
	_, err := w.Up(t.Context(), stack)
	if KindOf(err) != Conflict || !strings.Contains(err.Error(), "process ") {
		t.Errorf("got error %v, want one of kind Conflict that names the other process", err)
	}
	// One that may wait says what for, and begins when the other has ended: what that was killed in is none of its business.
	wait := w.waiting(t, func() {
		w.mu.Lock()
		w.blocked = nil
		w.mu.Unlock()
		cancel()
	})
	stack.LockTimeout = time.Minute
	result, err := wait.Up(t.Context(), stack)
	if err != nil || !result.Changed() {
		t.Errorf("after waiting: %+v, error %v", result, err)
	}
	<-done
}

// waiting is an engine on the same state that calls a function when it begins to wait for a lock.
func (w *world) waiting(t *testing.T, onWait func()) *Engine {
	t.Helper()
	options := w.options
	options.OnEvent = func(event Event) {
		if event.Kind == EventInfo && strings.Contains(event.Message, "waiting up to 1m0s") {
			onWait()
		}
		if strings.Contains(event.Message, "the last run was killed") {
			t.Errorf("the run that was waited for was taken for a killed one")
		}
	}
	engine, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// TestStaleLockWithAttributes: Pulumi writes the attributes of each file beside it, where the URL of the backend does not tell it
// otherwise, and they are no lock.
func TestStaleLockWithAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.State.BackendURL = strings.TrimSuffix(w.options.State.BackendURL, "?metadata=skip")
	engine, err := New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	if _, err := engine.Up(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("go", "version")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(w.directory, "state", "backend", ".pulumi", "locks", "organization", "civovpc", "main")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"0b1f8b1e-0000-4000-8000-000000000000.json":       fmt.Sprintf(`{"pid":%d,"username":"someone","hostname":%q}`, ended.Process.Pid, host),
		"0b1f8b1e-0000-4000-8000-000000000000.json.attrs": `{"user.content_type":"text/plain; charset=utf-8","md5":null}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if result, err := engine.Up(t.Context(), stack); err != nil || result.Changed() {
		t.Errorf("a lock of a process that has ended: %+v, error %v", result, err)
	}
	if left, err := os.ReadDir(folder); err == nil && len(left) > 0 {
		t.Errorf("of the lock there is left: %v", left)
	}
}

// TestStaleLock finds the lock of a process that was killed.
func TestStaleLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stack := stackOf(t, vpc(t, "main", "main", "fra1"), testToken)
	if _, err := w.Up(t.Context(), stack); err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("go", "version")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(w.directory, "state", "backend", ".pulumi", "locks", "organization", "civovpc", "main")
	lock := func(host string) {
		t.Helper()
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		content := fmt.Sprintf(`{"pid":%d,"username":"someone","hostname":%q,"timestamp":"2026-01-02T03:04:05Z"}`, ended.Process.Pid, host)
		if err := os.WriteFile(filepath.Join(folder, "0b1f8b1e-0000-4000-8000-000000000000.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	lock(host)
	result, err := w.Up(t.Context(), stack)
	if err != nil || result.Changed() {
		t.Fatalf("a lock of a process that has ended: got error %v", err)
	}
	if last := w.events[len(w.events)-2]; last.Kind != EventWarning || !strings.Contains(last.Message, "which has ended") {
		t.Errorf("the lock went in silence; the last event but one is %+v", last)
	}

	lock("another-machine")
	if _, err := w.Up(t.Context(), stack); KindOf(err) != Conflict || !strings.Contains(err.Error(), "someone@another-machine") {
		t.Errorf("a lock of another machine: got error %v, want one of kind Conflict that names it", err)
	}

	// The other machine ends its work while it is waited for.
	stack.LockTimeout = time.Minute
	result, err = w.waiting(t, func() { _ = os.RemoveAll(folder) }).Up(t.Context(), stack)
	if err != nil || result.Changed() {
		t.Errorf("after waiting for another machine: %+v, error %v", result, err)
	}
}
