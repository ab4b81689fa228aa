package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
)

// family is a set: networks a and b; cluster x in a, clusters y and z in b.
func family(t *testing.T) (*Set, map[string]*manifest.Manifest) {
	t.Helper()
	in := func(network string) string { return fmt.Sprintf("{valueFrom: {name: %s}}", network) }
	manifests := []*manifest.Manifest{
		cluster(t, "x", "x", in("a")), cluster(t, "y", "y", in("b")), vpc(t, "a", "a", "fra1"), vpc(t, "b", "b", "fra1"),
		cluster(t, "z", "z", in("b")),
	}
	set, err := (&Engine{}).NewSet(manifests, configs(testToken))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*manifest.Manifest{}
	for _, m := range manifests {
		byName[nameOfManifest(m)] = m
	}
	return set, byName
}

func nameOfManifest(m *manifest.Manifest) string { return kinds.Metadata(m.Target).GetName() }

// told are the results as text: the name of the stack, the status, and what was to blame.
func told(results []*Result) []string {
	var lines []string
	for _, result := range results {
		line := result.Stack.Stack + " " + string(result.Status)
		for _, because := range result.Because {
			line += " " + because.Stack
		}
		lines = append(lines, line)
	}
	return lines
}

func TestEach(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		way    direction
		only   []string
		fails  []string
		want   []string
		err    string // what the error tells, a line a manifest
	}{
		"Forwards": {
			reason: "results stand in the order of the references", way: forwards,
			want: []string{"a succeeded", "x succeeded", "b succeeded", "y succeeded", "z succeeded"},
		},
		"Backwards": {
			reason: "what depends on others goes first", way: backwards,
			want: []string{"z succeeded", "y succeeded", "b succeeded", "x succeeded", "a succeeded"},
		},
		"Failure": {
			reason: "a failure stops what needs it, and nothing else", way: forwards, fails: []string{"b"},
			want: []string{"a succeeded", "x succeeded", "b failed", "y skipped b", "z skipped b"}, err: "no b",
		},
		"FailureBackwards": {
			reason: "a network stays as long as something is in it", way: backwards, fails: []string{"y"},
			want: []string{"z succeeded", "y failed", "b skipped y", "x succeeded", "a succeeded"}, err: "no y",
		},
		"Failures": {
			reason: "all are told, in the order of the results", way: backwards, fails: []string{"x", "z", "y"},
			want: []string{"z failed", "y failed", "b skipped z y", "x failed", "a skipped x"}, err: "no z\nno y\nno x",
		},
		"Only": {
			reason: "others are left alone", way: forwards, only: []string{"b", "z"}, want: []string{"b succeeded", "z succeeded"},
		},
		"OnlyTheEnd": {
			reason: "what is needed and not among them is not waited for", way: backwards, only: []string{"a", "b", "z"},
			want: []string{"z succeeded", "b succeeded", "a succeeded"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, byName := family(t)
			if tc.only != nil {
				var only []*manifest.Manifest
				for _, name := range tc.only {
					only = append(only, byName[name])
				}
				set.Only(only)
			}
			var mu sync.Mutex
			began := map[string]int{}
			results, err := set.each(t.Context(), "test", tc.way, func(_ context.Context, member Member, _ Stack) (*Result, error) {
				name := nameOfManifest(member.Manifest)
				mu.Lock()
				defer mu.Unlock()
				began[name]++
				if slices.Contains(tc.fails, name) {
					return nil, errors.New("no " + name)
				}
				return &Result{Stack: member.Identity, Outputs: Outputs{"network_id": {Value: name, Known: true}}}, nil
			})
			if diff := cmp.Diff(tc.want, told(results)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			for _, line := range tc.want {
				name, rest, _ := strings.Cut(line, " ")
				if want := map[bool]int{true: 0, false: 1}[strings.HasPrefix(rest, "skipped")]; began[name] != want {
					t.Errorf("%s began %d times, want %d", name, began[name], want)
				}
			}
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.err {
				t.Errorf("%s: got error %q, want %q", tc.reason, got, tc.err)
			}
		})
	}
}

// TestEachHandsOutputsOn: what a member needs is known when it begins.
func TestEachHandsOutputsOn(t *testing.T) {
	t.Parallel()
	set, _ := family(t)
	_, err := set.each(t.Context(), "test", forwards, func(ctx context.Context, member Member, _ Stack) (*Result, error) {
		for _, ref := range member.references {
			output, err := set.value(ctx, member, ref)
			if err != nil || output.Value != "id of "+ref.Name {
				return nil, errors.Errorf("%s of %s is %v, error %v", ref.OutputKey, ref.Name, output.Value, err)
			}
		}
		return &Result{Outputs: Outputs{"network_id": {Value: "id of " + nameOfManifest(member.Manifest), Known: true}}}, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEachCanceled: what was begun ends, and the rest says that it was not begun.
func TestEachCanceled(t *testing.T) {
	t.Parallel()
	set, _ := family(t)
	set.Parallel(1)
	ctx, cancel := context.WithCancel(t.Context())
	results, err := set.each(ctx, "update", forwards, func(ctx context.Context, member Member, _ Stack) (*Result, error) {
		if nameOfManifest(member.Manifest) == "x" {
			cancel()
			return nil, ctx.Err()
		}
		return &Result{Stack: member.Identity}, nil
	})
	if diff := cmp.Diff([]string{"a succeeded", "x canceled", "b canceled", "y canceled", "z canceled"}, told(results)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	if KindOf(results[2].Err) != Canceled || !strings.Contains(results[2].Err.Error(), "before it was begun") {
		t.Errorf("what was not begun: got error %v", results[2].Err)
	}
}

func TestClosures(t *testing.T) {
	t.Parallel()
	set, byName := family(t)
	cases := map[string]struct {
		reason  string
		closure func([]Member, []*manifest.Manifest) []*manifest.Manifest
		of      []string
		want    []string
	}{
		"Needed":     {reason: "a cluster needs its network", closure: Needed, of: []string{"z"}, want: []string{"b", "z"}},
		"NeededTop":  {reason: "a network needs nothing", closure: Needed, of: []string{"b"}, want: []string{"b"}},
		"NeededBoth": {reason: "each once, in the order of the set", closure: Needed, of: []string{"z", "y", "a"}, want: []string{"a", "b", "y", "z"}},
		"Dependent":  {reason: "what stands in a network depends on it", closure: Dependent, of: []string{"b"}, want: []string{"b", "y", "z"}},
		"Leaf":       {reason: "nothing depends on a cluster", closure: Dependent, of: []string{"x"}, want: []string{"x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var of []*manifest.Manifest
			for _, name := range tc.of {
				of = append(of, byName[name])
			}
			var got []string
			for _, m := range tc.closure(set.Members(), of) {
				got = append(got, nameOfManifest(m))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
