package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// Tests of this file do things to the world that others would notice, so they are not parallel: Go runs them before those that are.

// While CloudStack does not answer, nodes stay, and launches wait. It is down until launches were tried and failed.
func TestCloudStackIsDown(t *testing.T) {
	const name = "outage"
	begin(t, name, never)
	pods(t, name, 2, lab.PodSpec(name, "1500m", "1Gi"))
	until(t, name, "the pods have nodes", bound(2))
	before := map[string]string{}
	for _, claim := range claims(t, name) {
		before[claim.Name] = claim.Status.ProviderID
	}

	world.Cloud.SetDown(true)
	defer world.Cloud.SetDown(false)
	pods(t, "during-outage", 4, lab.PodSpec(name, "3", "4Gi"))
	cleanPods(t, "during-outage")
	until(t, name, "launches were tried", func(c lab.Count) bool {
		if c.Claims <= len(before) {
			return false
		}
		for _, claim := range claims(t, name) {
			launched := claim.StatusConditions().Get(karpv1.ConditionTypeLaunched)
			if _, old := before[claim.Name]; !old && (launched == nil || !launched.IsUnknown() || launched.Reason == "AwaitingReconciliation") {
				return false
			}
		}
		return true
	})
	// Core looks for machines that have vanished now and then; one that reads silence as absence deletes these claims.
	kept := func(when string) {
		t.Helper()
		found := 0
		for _, claim := range claims(t, name) {
			if id, old := before[claim.Name]; old && id == claim.Status.ProviderID && claim.DeletionTimestamp == nil {
				found++
			}
		}
		if found != len(before) {
			t.Errorf("%s, %d of the %d node claims from before are there", when, found, len(before))
		}
	}
	kept("during the outage")
	world.Cloud.SetDown(false)
	until(t, name, "all pods have nodes", bound(6))
	kept("after the outage")
	same(t, name)
}

// steps are where a launch or a deletion is cut off.
var steps = []struct {
	reason, command string
	after           bool
}{
	{"nothing has been deployed yet", "deployVirtualMachine", false},
	{"CloudStack has the machine, and the provider has not heard of it", "deployVirtualMachine", true},
	{"the machine has no tags yet", "createTags", false},
	{"the machine has tags, and the provider has not heard of it", "createTags", true},
	{"the provider waits until the machine runs", "listVirtualMachines", true},
}

// killAt kills the provider in the middle of the next request of a command, and starts it again. It returns what waits until that has
// happened.
func killAt(t *testing.T, command string, after bool) (happened func()) {
	t.Helper()
	killed := make(chan struct{})
	kill := func(fake.Request) {
		world.KillProvider()
		close(killed)
	}
	fault := fake.Fault{Command: command, Times: 1, Match: func(request fake.Request) bool {
		// Machines are listed for other reasons too; these are asked for by their ids.
		return command != "listVirtualMachines" || request.Parameters["ids"] != "" || request.Parameters["id"] != ""
	}}
	if after {
		fault.After, fault.LoseAnswer = kill, true
	} else {
		fault.Before, fault.Drop = kill, true
	}
	takeBack := world.Cloud.Fail(fault)
	return func() {
		t.Helper()
		defer takeBack()
		select {
		case <-killed:
		case <-time.After(patience):
			count, err := world.Count(t.Context(), "")
			t.Fatalf("the provider has not asked for %s; there are %s (%v); %s", command, count, err, world.Tails())
		}
		if err := world.StartProvider(); err != nil {
			t.Fatal(err)
		}
	}
}

// deployed is how many machines CloudStack was told to make, and has begun to.
func deployed() int {
	made := 0
	for _, request := range world.Cloud.Requests() {
		if request.Command == "deployVirtualMachine" && request.JobID != "" {
			made++
		}
	}
	return made
}

// Wherever a launch or a deletion is cut off, no machine is started twice, and none is forgotten.
func TestProviderIsKilled(t *testing.T) {
	const name, each = "killed", 5
	begin(t, name, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		// A machine for each pod.
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: csv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"4"},
		})
	})
	before := deployed()
	wave := func(i int) string { return fmt.Sprintf("wave-%d", i) }
	for i, step := range steps {
		happened := killAt(t, step.command, step.after)
		pods(t, wave(i), each, lab.PodSpec(name, "3", "4Gi"))
		cleanPods(t, wave(i))
		happened()
	}
	// And at moments that nobody has thought of.
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	waves := len(steps) + 2
	for i := len(steps); i < waves; i++ {
		begun := deployed()
		pods(t, wave(i), each, lab.PodSpec(name, "3", "4Gi"))
		cleanPods(t, wave(i))
		until(t, name, "launches have begun", func(lab.Count) bool { return deployed() > begun })
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		world.KillProvider()
		if err := world.StartProvider(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, name, "all pods have nodes", bound(waves*each))
	// Machines that nobody knows of are in no NodePool: there must be none at all.
	same(t, "")
	if made := deployed() - before; made != waves*each {
		t.Errorf("CloudStack was told to make %d machines for %d pods that need one each", made, waves*each)
	}
	if have := len(claims(t, name)); have != waves*each {
		t.Errorf("there are %d node claims for %d pods that need one each", have, waves*each)
	}

	// The same on the way down.
	for i := range waves {
		if err := world.DeletePods(t.Context(), wave(i)); err != nil {
			t.Fatal(err)
		}
	}
	happened := killAt(t, "destroyVirtualMachine", true)
	if err := world.Client.DeleteAllOf(t.Context(), &karpv1.NodeClaim{}, client.MatchingLabels{karpv1.NodePoolLabelKey: name}); err != nil {
		t.Fatal(err)
	}
	happened()
	killAt(t, "destroyVirtualMachine", false)()
	until(t, "", "nothing is left", gone)
}
