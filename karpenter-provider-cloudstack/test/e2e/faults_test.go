package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// launches is how many machines are launched while requests fail: LAUNCHES of the environment, or few enough to wait for.
func launches(t *testing.T) int {
	t.Helper()
	text, told := os.LookupEnv("LAUNCHES")
	if !told {
		return 60
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		t.Fatalf("LAUNCHES is %q: a number of launches, such as 500", text)
	}
	return count
}

// oneEach has a machine for each pod that asks for 3 CPUs.
func oneEach(pool *karpv1.NodePool, _ *csv1.CloudStackNodeClass) {
	pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
		Key: csv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"4"},
	})
}

// A tenth of all requests fails in each of these ways, on the way up and on the way down. In the end there is a machine for each node claim,
// and nothing else.
func TestRequestsFail(t *testing.T) {
	w := stormy.enter(t)
	const name = "storm"
	w.begin(t, name, oneEach)
	count := launches(t)
	kinds := map[string]fake.Fault{
		"530": {Code: 530, Text: "internal error"}, "429": {Code: 429, Text: "API limit reached"}, "401": {Code: 401, Text: "unable to verify"},
		"a dropped connection": {Drop: true, Probability: 0.05}, "a lost answer": {LoseAnswer: true, Probability: 0.05},
		// Whether there is room, only deployments tell: some in the answer, most in the job.
		"533":          {Code: 533, Text: "insufficient capacity", Command: "deployVirtualMachine", Probability: 0.03},
		"533 of a job": {JobCode: 533, JobText: "Unable to create a deployment for VM instance", Command: "deployVirtualMachine", Probability: 0.07},
	}
	struck := map[string]*atomic.Int64{}
	for kind, fault := range kinds {
		if fault.Probability == 0 {
			fault.Probability = 0.1
		}
		struck[kind] = &atomic.Int64{}
		fault.Before = func(fake.Request) { struck[kind].Add(1) }
		kinds[kind] = fault
	}
	// Each happens once for certain, and then at random.
	fail := func() {
		for _, fault := range kinds {
			fault.Times, fault.Probability = 1, 0
			w.Cloud.Fail(fault)
		}
		for _, fault := range kinds {
			w.Cloud.Fail(fault)
		}
	}
	fail()
	t.Cleanup(w.Cloud.ClearFaults)
	began := time.Now()
	w.pods(t, name, count, lab.PodSpec(name, "3", "4Gi"))
	// Tags may be missing for a while, and machines without them are in no NodePool.
	w.untilOf(t, count, "", "all pods have nodes", bound(count))
	w.same(t, "")
	t.Logf("%d launches took %s", count, time.Since(began).Round(time.Second))
	for kind, times := range struck {
		if times.Swap(0) == 0 {
			t.Errorf("no request has failed with %s", kind)
		}
	}
	// A node may have joined just now: its claim has a minute to notice.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var stuck []string
		for _, claim := range w.claims(t, name) {
			if !claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
				stuck = append(stuck, fmt.Sprintf("%s: %+v", claim.Name, claim.Status.Conditions))
			}
		}
		if len(stuck) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("node claims are stuck: %s", strings.Join(stuck, "; "))
			break
		}
	}

	w.Cloud.ClearFaults()
	fail()
	began = time.Now()
	if err := w.DeletePods(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	w.untilOf(t, count, "", "nothing is left", gone)
	t.Logf("%d deletions took %s", count, time.Since(began).Round(time.Second))
	for _, kind := range []string{"530", "429", "401", "a dropped connection", "a lost answer"} {
		if struck[kind].Load() == 0 {
			t.Errorf("no request has failed with %s on the way down", kind)
		}
	}
	if disks := w.Cloud.Volumes(); len(disks) > 0 {
		t.Errorf("%d disks are left", len(disks))
	}
}
