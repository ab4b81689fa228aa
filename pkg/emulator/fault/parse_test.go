package fault_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

const wholePlan = `# Every field of a plan.
seed: 18446744073709551615
faults:
  - kind: server_error
    cloud: civo
    route: GET /v2/kubernetes/clusters/{id}
    after: 1
    count: 2
    probability: 0.25
    status: 503
    retry_after: 1m
  - {kind: latency, route: "* /**", duration: 1.5s}
`

func TestParse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "faults.yaml")
	if err := os.WriteFile(path, []byte(wholePlan), 0o600); err != nil {
		t.Fatal(err)
	}
	plan, err := fault.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := fault.Plan{Seed: math.MaxUint64, Faults: []fault.Fault{
		{
			Kind: fault.ServerError, Cloud: "civo", Route: "GET /v2/kubernetes/clusters/{id}", After: 1, Count: 2, Probability: 0.25,
			Status: 503, RetryAfter: time.Minute,
		},
		{Kind: fault.Latency, Route: "* /**", Duration: 1500 * time.Millisecond},
	}}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if _, err := fault.Read(path + ".nope"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	one := func(fields string) string { return "faults:\n  - route: GET /v2/vpcs\n    " + fields + "\n" }
	for _, test := range []struct {
		reason, text, want string
	}{
		{"nothing", "", "f: there is no plan"},
		{"a comment alone", "# later\n", "f: there is no plan"},
		{"not YAML", "faults: [", "f: yaml"},
		{"a list", "- kind: reset\n", "f:1:1: want a plan"},
		{"a text", "faults", "f:1:1: want a plan"},
		{"null", "null", "f:1:1: want a plan"},
		{"two documents", "seed: 1\n---\nseed: 2\n", "f:2:1: a second document"},
		{"an unknown field", "seed: 1\nfault: []\n", `f:2:1: a plan has no field "fault"`},
		{"a field twice", "seed: 1\nseed: 2\n", "f:2:1: the field seed is given twice"},
		{"a negative seed", "seed: -1", "f:1:7: seed"},
		{"a seed that is a text", `seed: "1"`, "f:1:7: seed"},
		{"a seed that is too large", "seed: 18446744073709551616", "f:1:7: seed"},
		{"faults that are no list", "faults: {}", "f:1:9: faults: want a list"},
		{"faults that are null", "faults:", "faults: want a list"},
		{"a fault that is a text", "faults: [reset]", "f:1:10: want a fault"},
		{"an alias", "faults: [&a {kind: reset, route: GET /}, *a]", "f:1:42: want a fault"},
		{"a merge", "faults: [{<<: {kind: reset}}]", `f:1:11: a fault has no field "<<"`},
		{"an unknown field of a fault", one("kind: reset\n    times: 2"), `f:4:5: a fault has no field "times"`},
		{"a field of a fault twice", one("kind: reset\n    kind: reset"), "f:4:5: the field kind is given twice"},
		{"no kind", "faults:\n  - route: GET /v2/vpcs\n", "f:2:5: kind"},
		{"an unknown kind", one("kind: explode"), `f:3:11: kind: "explode" is none of`},
		{"no route", "faults:\n  - kind: reset\n", "f:2:5: route"},
		{"a route that is none", "faults:\n  - kind: reset\n    route: /v2/vpcs\n", "f:3:12: route"},
		{"an unknown cloud", one("kind: reset\n    cloud: aws"), "f:4:12: cloud"},
		{"a count that is none", one("kind: reset\n    count: 0"), "f:4:12: count"},
		{"a count that is a fraction", one("kind: reset\n    count: 1.5"), "f:4:12: count"},
		{"a negative after", one("kind: reset\n    after: -1"), "f:4:12: after"},
		{"a probability above 1", one("kind: reset\n    probability: 1.01"), "f:4:18: probability"},
		{"a probability of 0", one("kind: reset\n    probability: 0"), "f:4:18: probability"},
		{"a probability that is not a number", one("kind: reset\n    probability: .nan"), "f:4:18: probability"},
		{"a duration without a unit", one("kind: latency\n    duration: 2"), "f:4:15: duration"},
		{"a negative duration", one("kind: latency\n    duration: -2s"), "f:4:15: duration"},
		{"a duration beyond a day", one("kind: stuck\n    duration: 25h"), "f:4:15: duration"},
		{"latency without a duration", one("kind: latency"), "duration"},
		{"a duration of what has none", one("kind: reset\n    duration: 2s"), "f:4:15: duration"},
		{"a status of success", one("kind: server_error\n    status: 200"), "f:4:13: status"},
		{"a status of what has none", one("kind: quota\n    status: 503"), "f:4:13: status"},
		{"a Retry-After of what has none", one("kind: reset\n    retry_after: 2s"), "f:4:18: retry_after"},
		{"a Retry-After of a 500", one("kind: server_error\n    retry_after: 2s"), "f:4:18: retry_after"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			plan, err := fault.Parse("f", []byte(test.text))
			var at *fault.ParseError
			if !errors.As(err, &at) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a ParseError with %q", err, test.want)
			}
			if len(plan.Faults) > 0 || plan.Seed != 0 {
				t.Errorf("a plan beside the error: %+v", plan)
			}
		})
	}
}

func TestValidateNamesTheFault(t *testing.T) {
	t.Parallel()
	plan := fault.Plan{Faults: []fault.Fault{{Kind: fault.Reset, Route: "GET /"}, {Kind: fault.Reset, Route: "GET /", Probability: math.NaN()}}}
	if err := plan.Validate(); err == nil || !strings.Contains(err.Error(), "fault 2: probability") {
		t.Errorf("got %v", err)
	}
	if err := (fault.Plan{}).Validate(); err != nil {
		t.Errorf("the plan of nothing: %v", err)
	}
	for _, invalid := range []fault.Fault{
		{Kind: fault.Reset, Route: "GET /", After: -1}, {Kind: fault.Reset, Route: "GET /", Count: -1},
		{Kind: fault.Latency, Route: "GET /", Duration: -1}, {Kind: fault.RateLimit, Route: "GET /", RetryAfter: -1},
	} {
		if err := (fault.Plan{Faults: []fault.Fault{invalid}}).Validate(); err == nil {
			t.Errorf("%+v was accepted", invalid)
		}
	}
}

// drawFault draws a valid fault.
func drawFault(t *rapid.T) fault.Fault {
	f := fault.Fault{
		Kind:  rapid.SampledFrom(fault.Kinds()).Draw(t, "kind"),
		Cloud: rapid.SampledFrom([]string{"", "civo", "digitalocean"}).Draw(t, "cloud"),
		Route: rapid.SampledFrom([]string{"* /**", "POST /v2/vpcs", "GET /v2/kubernetes/clusters/{id}", "DELETE /v2/*/x"}).Draw(t, "route"),
		After: rapid.IntRange(0, 9).Draw(t, "after"),
		Count: rapid.IntRange(0, 9).Draw(t, "count"),
	}
	if rapid.Bool().Draw(t, "likely") {
		f.Probability = rapid.Float64Range(1e-9, 1).Draw(t, "probability")
	}
	duration := rapid.Int64Range(1, int64(24*time.Hour))
	switch f.Kind {
	case fault.Latency:
		f.Duration = time.Duration(duration.Draw(t, "duration"))
	case fault.Stuck, fault.Unseen, fault.Linger:
		if rapid.Bool().Draw(t, "ends") {
			f.Duration = time.Duration(duration.Draw(t, "duration"))
		}
	case fault.ServerError:
		f.Status = rapid.SampledFrom([]int{0, 500, 502, 503, 504}).Draw(t, "status")
	}
	if (f.Kind == fault.RateLimit || f.Status == 503) && rapid.Bool().Draw(t, "asks to wait") {
		f.RetryAfter = time.Duration(duration.Draw(t, "retry after"))
	}
	return f
}

// A plan that is written is the plan that is read.
func TestPlanRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := fault.Plan{Seed: rapid.Uint64().Draw(t, "seed"), Faults: rapid.SliceOfN(rapid.Custom(drawFault), 1, 5).Draw(t, "faults")}
		if err := plan.Validate(); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		read, err := fault.Parse("plan", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(plan, read); diff != "" {
			t.Errorf("%s\n%s", diff, text)
		}
	})
}

// Whatever the text is, the parser returns; what it takes is valid, and written and read again the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		wholePlan, "", "{}", "null", "seed: 7", "faults: []", "faults: [{kind: stuck, route: POST /v2/vpcs}]", "a: &a [*a]", "seed: 0x10",
		"faults: [{kind: rate_limit, route: '* /**', retry_after: 3s, probability: 1e-9}]", "---\n---\n", "\xff", "? [a]\n: b", "!!binary x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		plan, err := fault.Parse("f", text)
		if err != nil {
			var at *fault.ParseError
			if !errors.As(err, &at) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if err := plan.Validate(); err != nil {
			t.Fatal(err)
		}
		written, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		again, err := fault.Parse("f", written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if diff := cmp.Diff(plan, again); diff != "" {
			t.Error(diff)
		}
	})
}
