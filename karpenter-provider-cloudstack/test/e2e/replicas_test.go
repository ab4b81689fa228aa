package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/reachability"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// replica is one of the providers of a world with several.
type replica struct {
	*lab.Replica
	name, probes, metrics string
}

// replicate starts a provider, and waits until it is ready.
func (w *world) replicate(t *testing.T, name string) *replica {
	t.Helper()
	r := &replica{name: name}
	for _, port := range []*string{&r.probes, &r.metrics} {
		free, err := lab.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		*port = free
	}
	var err error
	if r.Replica, err = w.StartReplica(name, "HEALTH_PROBE_PORT="+r.probes, "METRICS_PORT="+r.metrics); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	w.until(t, "", "replica "+name+" is ready", func(lab.Count) bool {
		code, _ := get(t.Context(), r.probes, "/readyz")
		return code == http.StatusOK
	})
	return r
}

// get asks a program on this machine. The code is 0 where it does not answer, and the text says why.
func get(ctx context.Context, port, path string) (code int, text string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// leader is who holds the lease; empty for nobody.
func (w *world) leader(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "karpenter-leader-election"}, lease)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// lead starts two providers, and returns when the first leads.
func (w *world) lead(t *testing.T, name string) (first, second *replica) {
	t.Helper()
	before := w.leader(t)
	first = w.replicate(t, name+"-first")
	w.until(t, "", "the first replica leads", func(lab.Count) bool { now := w.leader(t); return now != "" && now != before })
	return first, w.replicate(t, name+"-second")
}

// The leader is killed while CloudStack makes machines for it. The one that follows knows them for what they are.
func TestLeaderIsKilled(t *testing.T) {
	w := twin.enter(t)
	w.takeTurn(t)
	const name, count = "leader", 10
	first, second := w.lead(t, name)
	leader := w.leader(t)
	w.begin(t, name, oneEach)

	var made atomic.Int64
	killed := make(chan struct{})
	before := w.deployed()
	defer w.Cloud.Fail(fake.Fault{Command: "deployVirtualMachine", After: func(fake.Request) {
		// Some machines are on their way, and some are not asked for yet.
		if made.Add(1) == count/2 {
			first.Kill()
			close(killed)
		}
	}})()
	w.pods(t, name, count, lab.PodSpec(name, "3", "4Gi"))
	select {
	case <-killed:
	case <-time.After(patience):
		t.Fatalf("the first replica has deployed %d machines; the end of its log:\n%s", w.deployed()-before, first.Tail())
	}
	// Replicas die on their own in no test: what follows fails when the second does.
	w.until(t, name, "all pods have nodes", bound(count))
	w.same(t, "")
	if now := w.leader(t); now == leader || now == "" {
		t.Errorf("the lease is that of %q, and was that of %q", now, leader)
	}
	if made := w.deployed() - before; made != count {
		t.Errorf("CloudStack was told to make %d machines for %d pods that need one each", made, count)
	}
	if have := len(w.claims(t, name)); have != count {
		t.Errorf("there are %d node claims for %d pods that need one each", have, count)
	}
	if code, text := get(t.Context(), second.probes, "/healthz"); code != http.StatusOK {
		t.Errorf("the second replica is not healthy: %d %s", code, text)
	}
	w.end(t, name)
}

// end deletes a NodePool, and waits until nothing is left in the world.
func (w *world) end(t *testing.T, name string) {
	t.Helper()
	if err := w.Client.Delete(t.Context(), lab.NodePool(name, name)); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	w.until(t, "", "nothing is left", gone)
}

// CloudStack is away for a minute, with launches and deletions under way. Nodes stay, nothing is made twice or forgotten, and no replica
// ends, stops leading, or is taken for not ready.
func TestCloudStackIsDown(t *testing.T) {
	w := twin.enter(t)
	w.takeTurn(t)
	const name, kept, leaving, more = "outage", 3, 3, 6
	first, second := w.lead(t, name)
	leader := w.leader(t)
	w.begin(t, name, never)
	// A machine for each pod, of so many CPUs.
	spec := func(cpus string) corev1.PodSpec {
		spec := lab.PodSpec(name, "3", "4Gi")
		spec.NodeSelector[csv1.LabelInstanceCPU] = cpus
		if cpus == "8" {
			spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("6")
		}
		return spec
	}
	start := w.deployed()
	w.pods(t, name, kept, spec("4"))
	w.pods(t, "leaving", leaving, spec("4"))
	w.cleanPods(t, "leaving")
	w.until(t, name, "the pods have nodes", bound(kept+leaving))
	stay := map[string]string{}
	for _, claim := range w.claims(t, name) {
		stay[claim.Name] = claim.Status.ProviderID
	}

	leave := map[string]bool{}
	for i := range leaving {
		leave[w.nodeOf(t, fmt.Sprintf("leaving-%d", i)).Spec.ProviderID] = true
	}
	// From here on, both are asked all the time.
	watching, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	var wrong []string
	var mu sync.Mutex
	for _, r := range []*replica{first, second} {
		for _, path := range []string{"/healthz", "/readyz"} {
			watch.Go(func() {
				for ; watching.Err() == nil; time.Sleep(100 * time.Millisecond) {
					if code, text := get(watching, r.probes, path); code != http.StatusOK && watching.Err() == nil {
						mu.Lock()
						wrong = append(wrong, fmt.Sprintf("%s of %s: %d %s", path, r.name, code, text))
						mu.Unlock()
					}
				}
			})
		}
	}
	defer func() { stop(); watch.Wait() }()

	// CloudStack begins with some launches and one deletion, hears of no other, and is away then.
	var begun sync.WaitGroup
	for command, times := range map[string]int{"deployVirtualMachine": more / 2, "destroyVirtualMachine": 1} {
		begun.Add(times)
		defer w.Cloud.Fail(fake.Fault{Command: command, Times: times, After: func(fake.Request) { begun.Done() }})()
		defer w.Cloud.Fail(fake.Fault{Command: command, Drop: true})()
	}
	down := make(chan struct{})
	go func() {
		begun.Wait()
		w.Cloud.SetDown(true)
		w.Cloud.ClearFaults()
		close(down)
	}()
	if err := w.DeletePods(t.Context(), "leaving"); err != nil {
		t.Fatal(err)
	}
	goes := map[string]string{}
	for claim, id := range stay {
		if leave[id] {
			delete(stay, claim)
			goes[claim] = id
			if err := w.Client.Delete(t.Context(), &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// These find no place on the machines that are to go.
	w.pods(t, "during-outage", more, spec("8"))
	w.cleanPods(t, "during-outage")
	select {
	case <-down:
	case <-time.After(patience):
		t.Fatalf("launches and deletions are not under way: %s", first.Tail())
	}
	defer w.Cloud.SetDown(false)
	began := time.Now()
	there := func(when string) {
		t.Helper()
		found, left := 0, maps.Clone(goes)
		for _, claim := range w.claims(t, name) {
			if id, old := stay[claim.Name]; old && id == claim.Status.ProviderID && claim.DeletionTimestamp == nil {
				found++
			}
			delete(left, claim.Name)
		}
		// Silence is no proof that a machine is gone.
		for claim, id := range left {
			if machine, there := w.Cloud.Machine(machineID(id)); there && machine.State == fake.StateRunning {
				t.Fatalf("%s, node claim %s is gone, and machine %s of it runs", when, claim, machine.Name)
			}
		}
		if found != kept {
			t.Fatalf("%s, %d of the %d node claims from before are there", when, found, kept)
		}
		if now := w.leader(t); now != leader {
			t.Fatalf("%s, %q leads, and %q did before", when, now, leader)
		}
	}
	const outage = time.Minute
	// First nothing is answered, then connections are refused.
	refused, noticed := false, false
	for time.Since(began) < outage {
		if !refused && time.Since(began) > outage/2 {
			w.CloseCloud()
			refused = true
		}
		there("during the outage")
		code, _ := get(t.Context(), first.metrics, reachability.Path)
		noticed = noticed || code == http.StatusServiceUnavailable
		time.Sleep(time.Second)
	}
	if !noticed {
		t.Error("the leader has not noticed that CloudStack is away")
	}
	if err := w.OpenCloud(); err != nil {
		t.Fatal(err)
	}
	w.Cloud.SetDown(false)
	w.until(t, name, "all pods have nodes, and those that were to go are gone", bound(kept+more))
	there("after the outage")
	w.same(t, "")
	if made := w.deployed() - start; made != kept+leaving+more {
		t.Errorf("CloudStack was told to make %d machines for %d pods that need one each", made, kept+leaving+more)
	}
	w.until(t, "", "the leader has noticed that CloudStack is there", func(lab.Count) bool {
		code, _ := get(t.Context(), first.metrics, reachability.Path)
		return code == http.StatusOK
	})
	for _, r := range []*replica{first, second} {
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	}
	stop()
	watch.Wait()
	if len(wrong) > 0 {
		t.Errorf("the replicas were taken for not ready %d times, first so: %s", len(wrong), wrong[0])
	}
	w.end(t, name)
}
