package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestVerdicts(t *testing.T) {
	good := result{load: load{"1000 pods share nodes", 1000, false}, latency: latencies[1], up: time.Minute, used: used{memory: 200, cores: 0.4}}
	slow, large, busy := good, good, good
	slow.up, large.memory, busy.cores = 2*time.Minute, 260, 0.5
	one := result{load: load{"500 nodes with a pod each", 500, true}, latency: latencies[0], up: 31 * time.Minute, used: used{memory: 1e6, cores: 2}}
	for _, test := range []struct {
		reason string
		result result
		want   []string // the beginnings and parts of the lines
	}{
		{"all is below", good, []string{"met: all bound in 60 s", "met: memory of the provider 200 MB", "met: processors that the provider takes 0.40 cores"}},
		{"as slow as the threshold", slow, []string{"MISSED: all bound in 120 s", "met: ", "met: "}},
		{"as large as the threshold", large, []string{"met: ", "MISSED: memory of the provider 260 MB", "met: "}},
		{"as busy as the threshold", busy, []string{"met: ", "met: ", "MISSED: processors"}},
		{"a suite that wants nothing but time", one, []string{"MISSED: all bound in 1860 s"}},
		{"a load that no suite has", result{load: load{"7 pods", 7, false}}, nil},
	} {
		got := verdicts(test.result)
		if len(got) != len(test.want) {
			t.Errorf("%s: %q", test.reason, got)
			continue
		}
		for i, line := range got {
			if word, figure, _ := strings.Cut(test.want[i], ": "); !strings.HasPrefix(line, word+": ") || !strings.Contains(line, figure) {
				t.Errorf("%s: %q, want %q", test.reason, line, test.want[i])
			}
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, test := range []struct {
		reason  string
		values  []float64
		percent int
		want    float64
	}{
		{"nothing was measured", nil, 50, 0}, {"one", []float64{7}, 99, 7}, {"the middle", hundred, 50, 50}, {"all but one", hundred, 99, 99},
		{"of few, the largest", []float64{3, 1, 2}, 99, 3}, {"the smallest", hundred, 0, 1},
	} {
		if got := percentile(test.values, test.percent); got != test.want {
			t.Errorf("%s: %v, want %v", test.reason, got, test.want)
		}
	}
}

func TestUsage(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("not on Linux: no process can be watched")
	}
	u, err := watch(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 50*time.Millisecond; { // what takes a core
	}
	got, err := u.stop()
	if err != nil || got.memory < 1 || got.memory > 1e5 || got.cores <= 0 || got.others < 0 || got.others > float64(2*runtime.NumCPU()) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := watch(1 << 30); err == nil {
		t.Error("a process that there is not is watched")
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	made := 0
	// What was measured is printed, even where a later load fails.
	err := measureAll(context.Background(), &out, []load{{"2 pods share nodes", 2, false}, {"1000 nodes with a pod each", 1000, true}}, latencies,
		func(load load, latency latency) (result, error) {
			if made++; made == 4 {
				return result{}, errors.New("broken")
			}
			return result{
				load: load, latency: latency, nodes: 2, up: time.Minute, down: time.Second, used: used{memory: 100, cores: 1, others: 0.5}, idle: 2 * time.Minute,
				creating: calls{"deployVirtualMachine": 2, "listVirtualMachines": 5}, settling: calls{"listVirtualMachines": 9}, resting: calls{"listVirtualMachines": 3}, deleting: calls{"destroyVirtualMachine": 2},
			}, nil
		})
	if err == nil || !strings.Contains(err.Error(), "1000 nodes with a pod each, latency none: broken") || made != 4 {
		t.Errorf("%d measurements, %v", made, err)
	}
	for _, want := range []string{
		"2 pods share nodes          20-60 s  2      60 s       2          3.5                 1.0                 1 s       100 MB  1.00   0.50\n",
		"creating          7        listVirtualMachines 5, deployVirtualMachine 2\n", "idle              1.5/min  listVirtualMachines 3\n",
		// What follows at once on the making of nodes is no part of what an idle cluster costs.
		"the minute after  9        listVirtualMachines 9\n",
		"met: 1000 nodes with a pod each, latency 20-60 s: all bound in 60 s; Karpenter core's performance suite wants less than 300 s for 1,000 pods on hosts of their own\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

func TestLatencies(t *testing.T) {
	for name, want := range map[string]int{"": 2, "real": 1, "none": 1} {
		if got, err := latenciesOf(name); err != nil || len(got) != want || name != "" && (got[0].longest > 0) != (name == "real") {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := latenciesOf("some"); err == nil {
		t.Error("a latency that there is not is taken")
	}
}

// Core would give up nodes that wait for each other; who reads the figures is told.
func TestCrowd(t *testing.T) {
	many, most, shared := load{"2000 nodes", 2000, true}, load{"1000 nodes", crowd, true}, load{"2000 pods", 2000, false}
	for _, l := range []load{many, most, shared} {
		var out strings.Builder
		if err := report(&out, []result{{load: l, latency: latencies[0], nodes: 1, up: time.Minute}}); err != nil {
			t.Fatal(err)
		}
		told, set := strings.Contains(out.String(), "with --launch-timeout 15m"), slices.Contains(l.environment(), "LAUNCH_TIMEOUT=15m0s")
		if told != (l == many) || set != (l == many) {
			t.Errorf("%s: told %t, set %t", l.name, told, set)
		}
	}
}

func TestLoads(t *testing.T) {
	if loads, err := loadsOf(10, "5,20"); err != nil || len(loads) != 3 || loads[0].perNode || !loads[2].perNode || loads[2].pods != 20 {
		t.Errorf("%+v, %v", loads, err)
	}
	if loads, err := loadsOf(0, ""); err != nil || len(loads) != 0 {
		t.Errorf("%+v, %v", loads, err)
	}
	for _, wrong := range []string{"many", "0", "-1", "5,x"} {
		if _, err := loadsOf(0, wrong); err == nil {
			t.Errorf("%q is no number of nodes", wrong)
		}
	}
}

// The measurement of instance types, made few times.
func TestInstanceTypes(t *testing.T) {
	cloud, nodeClass := dataCentre(latencies[1])
	url, stop, err := cloud.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var out strings.Builder
	if err := instanceTypesOf(t.Context(), &out, latencies[1], url, nodeClass, 1); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "CloudStack is asked\tnone\t1\t") {
		t.Errorf("got\n%s", out.String())
	}
	cloud.AddOffering(offeringOf(offerings))
	if err := instanceTypesOf(t.Context(), &out, latencies[1], url, nodeClass, 1); err == nil {
		t.Error("an instance type too many is not noticed")
	}
}

// The measurement of machines, with few.
func TestMachines(t *testing.T) {
	f, err := machines(t.Context(), 6, latencies[1], 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if f.creating["deployVirtualMachine"] != 6 || f.deleting["destroyVirtualMachine"] != 6 || f.listing.sum() != f.listing["listVirtualMachines"] {
		t.Errorf("made with %s, listed with %s, deleted with %s", f.creating, f.listing, f.deleting)
	}
	if f.failures.sum() != 0 || len(f.launches) != 6 || f.launches[5] <= 0 || f.launches[5] > f.up {
		t.Errorf("%s failures, launches of %v in %s", f.failures, f.launches, f.up)
	}
}

// The provider is measured with the memory that the chart gives it.
func TestMemoryLimit(t *testing.T) {
	content, err := os.ReadFile("../../charts/karpenter-cloudstack/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Controller struct{ Resources corev1.ResourceRequirements }
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	limit := values.Controller.Resources.Limits.Memory().Value()
	if want := fmt.Sprintf("MEMORY_LIMIT=%d", limit); limit == 0 || !slices.Contains(load{}.environment(), want) {
		t.Errorf("the chart says %s, and a measurement has %v", want, load{}.environment())
	}
}
