package fault_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

// call sends one request, without a network. Its status is 0 when the connection was dropped.
func call(cloud http.Handler, method, path string) (status int) {
	request := httptest.NewRequest(method, path, strings.NewReader("{}"))
	request.Header.Set("Authorization", "Bearer "+testToken)
	recorder := httptest.NewRecorder()
	defer func() {
		// This is how a handler drops a connection that it cannot take over.
		if recovered := recover(); recovered != nil && recovered != any(http.ErrAbortHandler) {
			panic(recovered)
		}
	}()
	cloud.ServeHTTP(recorder, request)
	return recorder.Code
}

// outcome is all that a run shows.
type outcome struct {
	Statuses []int
	Strikes  []fault.Strike
	Faults   [][]string
}

func repeat(t *rapid.T, cloudName string, plan fault.Plan, calls [][2]string) outcome {
	var cloud fault.Cloud
	var injector *fault.Injector
	var err error
	if cloudName == "civo" {
		cloud, injector, err = fault.New(civo.New, emulator.Options{}, plan)
	} else {
		cloud, injector, err = fault.New(digitalocean.New, emulator.Options{}, plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	for _, c := range calls {
		o.Statuses = append(o.Statuses, call(cloud, c[0], c[1]))
	}
	for _, request := range cloud.Requests() {
		o.Faults = append(o.Faults, request.Faults)
	}
	o.Strikes = injector.Strikes()
	return o
}

var drawCall = rapid.Custom(func(t *rapid.T) [2]string {
	return [2]string{
		rapid.SampledFrom([]string{"GET", "POST", "DELETE"}).Draw(t, "method"),
		rapid.SampledFrom([]string{"/v2/vpcs", "/v2/networks", "/v2/kubernetes/clusters", "/v2/kubernetes/clusters/1", "/v2/vpcs/x", "/v2/networks/x"}).Draw(t, "path"),
	}
})

// The same plan and the same requests come to the same end, on each cloud.
func TestRunsRepeat(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		faults := rapid.SliceOfN(rapid.Custom(drawFault), 1, 6).Draw(t, "faults")
		faults = slices.DeleteFunc(faults, func(f fault.Fault) bool { return f.Kind == fault.Latency }) // takes its time
		plan := fault.Plan{Seed: rapid.Uint64().Draw(t, "seed"), Faults: faults}
		calls := rapid.SliceOfN(drawCall, 1, 30).Draw(t, "calls")
		for _, name := range []string{"civo", "digitalocean"} {
			first, second := repeat(t, name, plan, calls), repeat(t, name, plan, calls)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("%s: two runs differ:\n%s", name, diff)
			}
		}
	})
}

// Which requests of its route a fault strikes does not depend on requests of other routes in between.
func TestDrawsAreApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := fault.Plan{Seed: rapid.Uint64().Draw(t, "seed"), Faults: []fault.Fault{
			{Kind: fault.Quota, Route: "POST /v2/networks", Probability: 0.5},
			{Kind: fault.Capacity, Route: "GET /v2/networks", Probability: 0.5},
		}}
		struck := func(between []int) (pattern []bool) {
			var calls [][2]string
			for _, n := range between {
				for range n {
					calls = append(calls, [2]string{"GET", "/v2/networks"})
				}
				calls = append(calls, [2]string{"POST", "/v2/networks"})
			}
			o := repeat(t, "civo", plan, calls)
			for i, c := range calls {
				if c[0] == "POST" {
					pattern = append(pattern, len(o.Faults[i]) > 0)
				}
			}
			return pattern
		}
		between := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 20).Draw(t, "between")
		if diff := cmp.Diff(struck(make([]int, len(between))), struck(between)); diff != "" {
			t.Errorf("the strikes differ:\n%s", diff)
		}
	})
}

func TestProbability(t *testing.T) {
	t.Parallel()
	struck := func(seed uint64, probability float64) (pattern string) {
		cloud, _, err := fault.New(civo.New, emulator.Options{}, fault.Plan{Seed: seed, Faults: []fault.Fault{
			{Kind: fault.Quota, Route: "GET /v2/networks", Probability: probability},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			if call(cloud, "GET", "/v2/networks") == http.StatusOK {
				pattern += "."
			} else {
				pattern += "x"
			}
		}
		return pattern
	}
	for _, test := range []struct {
		probability, want float64
	}{{0, 1}, {1, 1}, {0.5, 0.5}, {0.1, 0.1}} {
		got := float64(strings.Count(struck(1, test.probability), "x")) / 1000
		if math.Abs(got-test.want) > 0.06 {
			t.Errorf("probability %v struck %v of the requests", test.probability, got)
		}
	}
	if struck(1, 0.5) == struck(2, 0.5) {
		t.Error("two seeds struck the same requests")
	}
}
