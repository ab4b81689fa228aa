package reachability

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

// api answers with the next of its answers, and with the last for ever.
type api struct {
	answers    []error
	capability cloudstack.Capability
	rate       float64
	burst      int
	asked      chan struct{}
}

func (a *api) ListCapabilities(context.Context) (*cloudstack.Capability, error) {
	if a.asked != nil {
		a.asked <- struct{}{}
	}
	err := a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	if err != nil {
		return nil, err
	}
	return &a.capability, nil
}

func (a *api) SetRate(perSecond float64, burst int) { a.rate, a.burst = perSecond, burst }

func code(code int) error {
	return &cloudstack.Error{Command: "listCapabilities", Code: code, Text: "no"}
}

// answers are those of a word: . is an answer, x none, a refusal of the credentials u, an error e, throttling t.
func answers(word string) []error {
	of := map[rune]error{'.': nil, 'x': &cloudstack.TransportError{Command: "listCapabilities"}, 'u': code(401), 'e': code(530), 't': code(429)}
	var errs []error
	for _, letter := range word {
		errs = append(errs, of[letter])
	}
	return errs
}

func TestHysteresis(t *testing.T) {
	for name, test := range map[string]struct {
		answers string
		states  string // after each check: r is reachable, - is not, ? is not known yet
		reason  string
	}{
		"the first answer is enough":                {".", "r", ""},
		"without an answer it takes three":          {"xxx", "??-", ReasonNoAnswer},
		"one lost request is no outage":             {".x.x.xx.", "rrrrrrrr", ""},
		"three are":                                 {".xxx", "rrr-", ReasonNoAnswer},
		"one answer is no recovery":                 {".xxx.x.x", "rrr-----", ReasonNoAnswer},
		"two are":                                   {".xxx..", "rrr--r", ""},
		"whoever is throttled is known":             {".tttt", "rrrrr", ""},
		"wrong credentials":                         {".uuu", "rrr-", ReasonUnauthorized},
		"errors":                                    {".eee", "rrr-", ReasonError},
		"the reason follows":                        {".xxxu", "rrr--", ReasonUnauthorized},
		"failures of several kinds count together":  {".xue", "rrr-", ReasonError},
		"an answer among failures begins them anew": {".xx.xx.", "rrrrrrr", ""},
		"not known and one failure":                 {"x.", "?r", ""},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
			fake := &api{answers: answers(test.answers)}
			m := NewMonitor(fake, clk, options.Defaults())
			var states strings.Builder
			for range test.answers {
				clk.Step(time.Second)
				m.check(context.Background())
				switch state := m.State(); {
				case state.Reason == ReasonNotChecked:
					states.WriteString("?")
				case state.Reachable:
					states.WriteString("r")
					if testutil.ToFloat64(reachable) != 1 {
						t.Error("the metric says otherwise")
					}
				default:
					states.WriteString("-")
					if testutil.ToFloat64(reachable) != 0 {
						t.Error("the metric says otherwise")
					}
				}
			}
			if states.String() != test.states || m.State().Reason != test.reason {
				t.Errorf("states %s, want %s; reason %q, want %q", &states, test.states, m.State().Reason, test.reason)
			}
		})
	}
}

// Since tells when the state turned, not when it was looked at.
func TestSince(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	m := NewMonitor(&api{answers: answers("...xxxx")}, clk, options.Defaults())
	var since []int64
	for range 7 {
		clk.Step(time.Second)
		m.check(context.Background())
		since = append(since, m.State().Since.Unix())
	}
	if got := fmt.Sprint(since); got != "[1001 1001 1001 1001 1001 1006 1006]" {
		t.Error(got)
	}
}

func TestServeHTTP(t *testing.T) {
	m := NewMonitor(&api{answers: answers(".xxx"), capability: cloudstack.Capability{Cloudstackversion: "4.22.0.0"}}, clocktesting.NewFakeClock(time.Unix(0, 0)), options.Defaults())
	ask := func() (int, State) {
		t.Helper()
		recorder := httptest.NewRecorder()
		m.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, nil))
		var state State
		if err := json.Unmarshal(recorder.Body.Bytes(), &state); err != nil {
			t.Fatal(err)
		}
		return recorder.Code, state
	}
	if code, state := ask(); code != http.StatusServiceUnavailable || state.Reason != ReasonNotChecked {
		t.Errorf("before the first check: %d %+v", code, state)
	}
	m.check(t.Context())
	if code, state := ask(); code != http.StatusOK || !state.Reachable || state.Version != "4.22.0.0" {
		t.Errorf("after an answer: %d %+v", code, state)
	}
	for range 3 {
		m.check(t.Context())
	}
	if code, state := ask(); code != http.StatusServiceUnavailable || state.Reachable || state.Reason != ReasonNoAnswer {
		t.Errorf("after an outage: %d %+v", code, state)
	}
}

// What is sent in any window of CloudStack's is no more than it takes.
func TestLimitIsFollowed(t *testing.T) {
	o := options.Defaults()
	o.APIRate, o.APIBurst = 20, 40
	for name, test := range map[string]struct {
		limit, interval int
		changed         bool
	}{
		"none":             {0, 0, false},
		"lower":            {25, 5, true},
		"very low":         {2, 1, true},
		"higher":           {1000, 1, false},
		"of a minute":      {600, 60, true},
		"half of that":     {300, 60, true},
		"enough":           {1240, 60, false},
		"not enough":       {1239, 60, true},
		"too much at once": {50, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &api{answers: answers("."), capability: cloudstack.Capability{Apilimitmax: test.limit, Apilimitinterval: test.interval}}
			m := NewMonitor(fake, clocktesting.NewFakeClock(time.Unix(0, 0)), o)
			m.check(t.Context())
			if (fake.rate != 0) != test.changed {
				t.Fatalf("rate %g, burst %d", fake.rate, fake.burst)
			}
			if test.changed {
				window := float64(fake.burst) + fake.rate*float64(test.interval)
				if window > float64(test.limit)*1.0000001 {
					t.Errorf("%g requests in a window of %d", window, test.limit)
				}
				if fake.burst < 1 || math.IsNaN(fake.rate) || fake.rate <= 0 {
					t.Errorf("rate %g, burst %d", fake.rate, fake.burst)
				}
			}
			fake.rate, fake.burst, fake.capability = 0, 0, cloudstack.Capability{}
			m.check(t.Context())
			if test.changed && (fake.rate != 20 || fake.burst != 40) {
				t.Errorf("without the limit: rate %g, burst %d", fake.rate, fake.burst)
			}
		})
	}
}

// Start checks at once, when it is told to, and ends with its context.
func TestStart(t *testing.T) {
	fake := &api{answers: answers("."), asked: make(chan struct{})}
	o := options.Defaults()
	o.CheckPeriod = time.Hour
	m := NewMonitor(fake, clocktesting.NewFakeClock(time.Unix(0, 0)), o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	asked := func(what string) {
		t.Helper()
		select {
		case <-fake.asked:
		case <-time.After(20 * time.Second):
			t.Fatal("no check " + what)
		}
	}
	asked("at the start")
	m.Now()
	asked("when there is a reason")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if m.NeedLeaderElection() {
		t.Error("only the leader checks")
	}
}
