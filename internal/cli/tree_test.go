package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/provision"
	"github.com/plantonhq/project-planton/pkg/stackidentity"
)

// story is an apply of civoSet, as far as a failure: what happens, by the seconds since it began. A line of text is a look at it.
func story(members []provision.Member) []any {
	start := time.Date(2026, 5, 4, 9, 21, 7, 0, time.UTC)
	at := func(second float64, member int, event provision.Event) provision.Event {
		event.Time = start.Add(time.Duration(second * float64(time.Second)))
		event.Stack = members[member].Identity
		return event
	}
	const network, firewall, cluster, pool = 0, 1, 2, 3
	type e = provision.Event
	return []any{
		at(0, network, e{Kind: provision.EventStackStarted, Op: "update", Message: "civo: native plugin"}),
		at(1, network, e{Kind: provision.EventResourceStarted, Resource: "network", Type: "civo:index/network:Network", Op: "create"}),
		at(1, network, e{Kind: provision.EventResourceStatus, Resource: "network", Message: "waiting for network 1 to become active: PENDING"}),
		at(3, network, e{Kind: provision.EventWarning, Message: "the description is\nnot kept by Civo"}),
		"one runs, and the others wait for it",
		at(4, network, e{Kind: provision.EventResourceDone, Resource: "network", Type: "civo:index/network:Network", Op: "create", Elapsed: 3 * time.Second}),
		at(4, network, e{Kind: provision.EventStackDone, Op: "update", Elapsed: 4200 * time.Millisecond}),
		at(4, firewall, e{Kind: provision.EventStackStarted, Op: "preview", Message: "civo: native plugin"}),
		at(5, firewall, e{Kind: provision.EventStackDone, Op: "preview", Elapsed: time.Second}),
		at(5, firewall, e{Kind: provision.EventStackStarted, Op: "update", Message: "civo: native plugin"}),
		at(6, firewall, e{Kind: provision.EventResourceStarted, Resource: "firewall", Type: "civo:index/firewall:Firewall", Op: "create"}),
		at(6, cluster, e{Kind: provision.EventStackStarted, Op: "update", Message: "civo: native plugin"}),
		at(7, cluster, e{Kind: provision.EventResourceStarted, Resource: "cluster", Type: "civo:index/kubernetesCluster:KubernetesCluster", Op: "create"}),
		at(8, cluster, e{Kind: provision.EventResourceStatus, Resource: "cluster", Message: "waiting for cluster acme to become ACTIVE: BUILDING"}),
		at(8, cluster, e{Kind: provision.EventResourceStatus, Resource: "cluster", Message: "waiting for cluster acme to become ACTIVE: BUILDING"}),
		at(80, firewall, e{Kind: provision.EventInfo, Resource: "firewall", Message: "it took a while"}),
		"two run side by side",
		at(81, firewall, e{Kind: provision.EventResourceDone, Resource: "firewall", Type: "civo:index/firewall:Firewall", Op: "create", Elapsed: 75 * time.Second}),
		at(81, firewall, e{Kind: provision.EventStackDone, Op: "update", Elapsed: 76 * time.Second}),
		at(90, cluster, e{Kind: provision.EventError, Resource: "cluster", Message: "timed out"}),
		at(90, cluster, e{Kind: provision.EventResourceFailed, Resource: "cluster", Type: "civo:index/kubernetesCluster:KubernetesCluster", Op: "create", Elapsed: 83 * time.Second}),
		"the resource failed, and its stack ends",
		at(91, cluster, e{Kind: provision.EventStackFailed, Op: "update", Elapsed: 85 * time.Second}),
		"nothing runs any more",
		at(91, pool, e{Kind: provision.EventStackSkipped, Op: "update", Because: []stackidentity.Identity{members[cluster].Identity}}),
		"and what needs the one that failed does not begin",
	}
}

// told tells a story to a viewer, and calls look at each line of text in it.
func told(t *testing.T, viewerOf func(cast) viewer, look func(what string, now time.Time)) {
	t.Helper()
	manifests, err := manifest.Parse("set.yaml", []byte(civoSet))
	if err != nil {
		t.Fatal(err)
	}
	members, err := provision.Order(manifests)
	if err != nil {
		t.Fatal(err)
	}
	viewer := viewerOf(castOf(manifests))
	p := &progress{running: map[subject]running{}, stop: make(chan struct{}), viewers: nil}
	p.viewers = append(p.viewers, viewer)
	var now time.Time
	for _, step := range story(members) {
		switch step := step.(type) {
		case provision.Event:
			now = step.Time
			p.take(step)
		case string:
			p.tellRunning(now.Add(900 * time.Millisecond))
			look(step, now)
		}
	}
	p.close()
}

// golden compares a text with a file of testdata; UPDATE_GOLDEN=1 writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got:\n%s", path, diff)
	}
}

// TestTree looks at terminals of several sizes while a set is applied.
func TestTree(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, size := range []struct {
		width, height int
		locale        string
	}{{110, 24, "en_US.UTF-8"}, {60, 24, "C"}, {60, 6, ""}} {
		s, v := newTestScreen(t, size.width, size.height)
		streams := Streams{Err: s, ErrTerminal: true, Getenv: func(name string) string {
			return map[string]string{"NO_COLOR": "1", "LANG": size.locale}[name]
		}}
		told(t, func(cast cast) viewer { return newTree(s, streams, cast) }, func(what string, _ time.Time) {
			fmt.Fprintf(&got, "== %d x %d: %s\n%s\n", size.width, size.height, what, v.text())
			for _, row := range v.rows {
				if len(row) > 0 && strings.TrimRight(row, " ") == "" {
					t.Errorf("a row of blanks: %q", row)
				}
			}
		})
		fmt.Fprintf(&got, "== %d x %d: at the end\n%s\n", size.width, size.height, v.text())
	}
	golden(t, "tree.golden", got.String())
}

// TestTreeOfADestroy has what refers to something go first.
func TestTreeOfADestroy(t *testing.T) {
	t.Parallel()
	manifests, err := manifest.Parse("set.yaml", []byte(civoSet))
	if err != nil {
		t.Fatal(err)
	}
	cast := castOf(manifests)
	s, v := newTestScreen(t, 120, 24)
	tree := newTree(s, Streams{Getenv: func(string) string { return "1" }}, cast)
	start := time.Date(2026, 5, 4, 9, 21, 7, 0, time.UTC)
	tree.take(provision.Event{Kind: provision.EventStackDone, Time: start, Op: "destroy", Stack: cast.roles[3].stack})
	tree.take(provision.Event{Kind: provision.EventStackStarted, Time: start, Op: "destroy", Stack: cast.roles[2].stack})
	tree.beat(start.Add(time.Second))
	want := `+ CivoKubernetesNodePool web  not there
* CivoKubernetesCluster main  destroying 1s
. CivoVpc main  waits for CivoFirewall main (spec.network_id), CivoKubernetesCluster main (spec.network)
. CivoFirewall main  waits for CivoKubernetesCluster main (spec.firewall)
1 of 4 done, 1 running, 2 waiting, 1s`
	if diff := cmp.Diff(want, v.text()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestResultsComeLast has what ended written before anything else is, and nothing drawn until the next event.
func TestResultsComeLast(t *testing.T) {
	t.Parallel()
	manifests, err := manifest.Parse("set.yaml", []byte(civoSet))
	if err != nil {
		t.Fatal(err)
	}
	cast := castOf(manifests)
	s, v := newTestScreen(t, 120, 24)
	streams := Streams{Err: s, Getenv: func(string) string { return "" }, settings: &settings{}}
	p := &progress{running: map[subject]running{}, viewers: []viewer{newTree(s, streams, cast)}}
	streams.settings.progress = p
	start := time.Date(2026, 5, 4, 9, 21, 7, 0, time.UTC)
	check := func(reason, want string) {
		t.Helper()
		if diff := cmp.Diff(want, ansi.Strip(v.text())); diff != "" {
			t.Errorf("%s: -want +got:\n%s", reason, diff)
		}
	}
	p.take(provision.Event{Kind: provision.EventStackStarted, Time: start, Op: "update", Stack: cast.roles[0].stack})
	p.tellRunning(start)
	p.take(provision.Event{Kind: provision.EventStackDone, Time: start, Op: "update", Stack: cast.roles[0].stack})
	streams.settle()
	check("what ended since it was drawn", "+ CivoVpc main  unchanged")
	_, _ = v.Write([]byte("Resources: 1 unchanged\n")) // stdout is the same terminal
	p.tellRunning(start.Add(time.Second))
	check("nothing is drawn over the results", "+ CivoVpc main  unchanged\nResources: 1 unchanged")
	p.take(provision.Event{Kind: provision.EventStackStarted, Time: start, Op: "update", Stack: cast.roles[1].stack})
	p.tellRunning(start.Add(time.Second))
	if !strings.Contains(v.text(), "CivoFirewall main  applying 1s") {
		t.Errorf("the next event is not drawn:\n%s", v.text())
	}
}

// TestLines has one stable line an event where nobody looks, and fewer where fewer are wanted.
func TestLines(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, level := range []string{"debug", "info", "warn", "error"} {
		var errs bytes.Buffer
		streams := Streams{Err: &errs, Getenv: func(string) string { return "" }, settings: &settings{level: level}}
		told(t, func(cast cast) viewer { return newLines(streams, cast) }, func(string, time.Time) {})
		fmt.Fprintf(&got, "== %s\n%s", level, errs.String())
	}
	golden(t, "lines.golden", got.String())
}

// closed makes a schema say no to fields that it does not describe, which the committed one allows, because fields may be added.
func closed(schema any) any {
	switch schema := schema.(type) {
	case map[string]any:
		_, has := schema["additionalProperties"]
		if _, properties := schema["properties"]; properties && schema["type"] == "object" && !has {
			schema["additionalProperties"] = false
		}
		for name := range schema {
			schema[name] = closed(schema[name])
		}
	case []any:
		for i := range schema {
			schema[i] = closed(schema[i])
		}
	}
	return schema
}

// eventSchema is the committed schema of events, closed.
var eventSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	content, err := os.ReadFile("../../schemas/events.schema.json")
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("events.schema.json", closed(document)); err != nil {
		return nil, err
	}
	return compiler.Compile("events.schema.json")
})

// checkEvents looks whether each line of an output is an event, and returns their types.
func checkEvents(output string) (types []string, err error) {
	schema, err := eventSchema()
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(strings.TrimSuffix(output, "\n"), "\n") {
		event, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			return nil, errors.Wrap(err, line)
		}
		if err := schema.Validate(event); err != nil {
			return nil, errors.Wrap(err, line)
		}
		var document struct{ Type string }
		if err := json.Unmarshal([]byte(line), &document); err != nil {
			return nil, err
		}
		types = append(types, document.Type)
	}
	return types, nil
}

// TestEvents validates each event of a story, and results with all that they can have.
func TestEvents(t *testing.T) {
	t.Parallel()
	schema, err := eventSchema()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	streams := Streams{Out: &out, Getenv: func(string) string { return "" }, settings: &settings{events: true}}
	told(t, func(cast cast) viewer { return newEventWriter(streams, cast) }, func(string, time.Time) {})
	golden(t, "events.golden", out.String())
	types := map[string]bool{}
	names, err := checkEvents(out.String())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		types[name] = true
	}
	for _, name := range []provision.EventKind{
		provision.EventStackStarted, provision.EventStackDone, provision.EventStackFailed, provision.EventStackSkipped, provision.EventResourceStarted,
		provision.EventResourceStatus, provision.EventResourceDone, provision.EventResourceFailed, provision.EventWarning,
		provision.EventInfo, provision.EventError, eventStillRunning,
	} {
		if !types[string(name)] {
			t.Errorf("there is no %s", name)
		}
	}

	out.Reset()
	manifests, err := manifest.Parse("set.yaml", []byte(civoSet))
	if err != nil {
		t.Fatal(err)
	}
	streams.settings.cast = castOf(manifests)
	failure := func(member int, message string) error {
		return &provision.Error{Kind: provision.Failed, Operation: "update", Stack: streams.settings.cast.roles[member].stack, Message: message}
	}
	for _, err := range []error{
		&provision.SetError{Errors: []error{failure(0, "the quota is reached"), failure(1, "it already exists")}},
		usageError("no manifest is given"),
		&manifest.Error{Problems: []manifest.Problem{{File: "a.yaml", Line: 3, Column: 1, FieldPath: "spec", RuleID: "required", Message: "x", Kind: "CivoVpc", Hint: "y",
			Generated: true}}},
		&provision.Error{Kind: provision.Failed, Operation: "update", Message: "already exists", Resource: "network", RequestID: "1"},
		errors.New("disk full"),
	} {
		if err := writeResult(streams, map[string]any{"error": errorDocument(streams, err)}); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := checkEvents(out.String()); err != nil || len(names) != 5 {
		t.Errorf("%d results, %v", len(names), err)
	}

	for _, name := range exitNames {
		event := map[string]any{"type": "result", "time": "2026-05-04T09:21:07Z", "error": map[string]any{"kind": name, "message": "x"}}
		if err := schema.Validate(event); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range []string{
		`{"type":"result","time":"2026-05-04T09:21:07.123Z"}`,
		`{"type":"stackDone","time":"2026-05-04T09:21:07.123Z","stack":"o/p/s","op":"apply"}`,
		`{"type":"stackDone","time":"yesterday","stack":"o/p/s","op":"apply","seconds":1}`,
		`{"type":"stackDone","time":"2026-05-04T09:21:07.123Z","stack":"o/p/s","op":"apply","seconds":1,"extra":1}`,
		`{"type":"explosion","time":"2026-05-04T09:21:07.123Z","stack":"o/p/s"}`,
	} {
		event, err := jsonschema.UnmarshalJSON(strings.NewReader(wrong))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(event) == nil {
			t.Errorf("%s is no event", wrong)
		}
	}
}
