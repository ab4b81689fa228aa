// Package e2e sees the provider at work as users do: the real binary, with Karpenter core in it, on a real control plane and an emulated
// CloudStack. Machines are deployed within a second, and core's windows are short, so that a test waits for little but core's own pace.
//
// Tests that are in each other's way are in worlds of their own, which go on side by side. LAUNCHES=500 in the environment has TestRequestsFail
// launch as many machines, which takes some minutes.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake/kubelet"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// patience is how long a step may take on a machine that is busy with other things. Tests wait for what happens, not for this.
const patience = 2 * time.Minute

// world is a lab that tests share. Each test has a NodePool and a CloudStackNodeClass of its own.
type world struct {
	*lab.Lab
	// turn is whose turn it is to do things that every test in the world would notice.
	turn sync.Mutex
}

// place is a world that is started by the first test that is in it. Worlds go on side by side: most of the time of all tests is Karpenter's
// own pace.
type place struct {
	cloud func() *fake.CloudStack
	// options are changed from those that all worlds have.
	options func(*lab.Options)
	// alone leaves it to the tests to start providers.
	alone bool

	once  sync.Once
	world *world
	err   error
}

// twoSteps is the NodePool whose nodes have no provider id at first.
const twoSteps = "two-steps"

// The worlds.
var (
	// calm is for tests that are in nobody's way.
	calm = &place{options: func(o *lab.Options) {
		o.Environment = append(o.Environment, "FEATURE_GATES=NodeRepair=true", "NODE_REPAIR_TOLERATION=3s")
		o.Kubelet = func(k *kubelet.Options) {
			// The cloud controller manager looks at a node when it has joined. Where that is to be seen, it takes its time.
			k.CloudControllerDelay = func(machine fake.VM) time.Duration {
				if strings.HasPrefix(machine.Name, twoSteps) {
					return 3 * time.Second
				}
				return 100 * time.Millisecond
			}
		}
	}}
	// cruel is where the provider is killed, at requests to CloudStack and to the API server.
	cruel = &place{options: func(o *lab.Options) {
		o.WatchAPI = true
		// A machine that is not known for what it is would be garbage at once.
		o.Environment = append(o.Environment, "GC_GRACE=1s")
	}}
	// stormy is where requests to CloudStack fail.
	stormy = &place{cloud: func() *fake.CloudStack {
		cloud := fake.Default(fake.Options{JobLatency: latency, Seed: uint64(time.Now().UnixNano())})
		// Where there was no room, none is tried for a while. There are other offerings.
		for i := range 60 {
			cloud.AddOffering(fake.Offering{Name: fmt.Sprintf("c1.large.%d", i), CPU: 4, CPUSpeedMHz: 2000, MemoryMiB: 8192})
		}
		return cloud
	}, options: func(o *lab.Options) { o.Environment = append(o.Environment, "LOG_LEVEL=info") }}
	// twin is where there are two providers, one of which leads.
	twin = &place{alone: true, options: func(o *lab.Options) {
		o.Environment = append(o.Environment, "DISABLE_LEADER_ELECTION=false", "LEADER_ELECTION_NAMESPACE="+metav1.NamespaceDefault)
	}}
	places = []*place{calm, cruel, stormy, twin}
)

// latency is how long jobs of CloudStack take.
var latency = fake.Between(200*time.Millisecond, time.Second)

// provider is where build puts the provider.
var provider string

var build = sync.OnceValue(func() error {
	command := exec.Command("go", "build", "-o", provider, "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/cmd/controller")
	command.Stderr = os.Stderr
	return errors.Wrap(command.Run(), "building the provider")
})

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	err := controlplane.Check(controlplane.Options{Scheduler: true, ControllerManager: true, Kwok: true})
	if controlplane.IsMissing(err) {
		banner := strings.Repeat("#", 90)
		fmt.Fprintf(os.Stderr, "%s\n# NOT TESTED END TO END: %v\n%s\n", banner, err, banner)
		return 0
	}
	folder, err := os.MkdirTemp("", "karpenter-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	provider = filepath.Join(folder, "controller")
	log.SetLogger(logr.Discard()) // the provider logs into a file of its own
	// While it is built, worlds start.
	go func() { _ = build() }()
	defer func() {
		var group sync.WaitGroup
		for _, p := range places {
			if p.world != nil {
				group.Go(p.world.Stop)
			}
		}
		group.Wait()
	}()
	return m.Run()
}

// enter is the world, for a test that may run beside those in other worlds.
func (p *place) enter(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	p.once.Do(p.start)
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.world
}

func (p *place) start() {
	o := lab.Options{Provider: provider, Environment: []string{
		// Some tests read what was done and why.
		"LOG_LEVEL=debug",
		// What a failed launch has left is garbage soon.
		"GC_GRACE=10s", "CLOUDSTACK_CHECK_PERIOD=1s", "CLOUDSTACK_API_RATE=200", "CLOUDSTACK_API_BURST=200",
	}}
	if o.Cloud = fake.Default(fake.Options{JobLatency: latency}); p.cloud != nil {
		o.Cloud = p.cloud()
	}
	p.options(&o)
	started, err := lab.Start(context.Background(), o)
	if p.err = err; err != nil {
		return
	}
	p.world = &world{Lab: started}
	if p.err = build(); p.err == nil && !p.alone {
		p.err = started.StartProvider()
	}
}

// takeTurn waits until no other test of the world does what others would notice.
func (w *world) takeTurn(t *testing.T) {
	w.turn.Lock()
	t.Cleanup(w.turn.Unlock)
}

// begin makes a NodePool and a CloudStackNodeClass with the name of a test, after they were changed to its needs, and waits until
// machines can be started. They go when the test ends.
func (w *world) begin(t *testing.T, name string, change func(*karpv1.NodePool, *csv1.CloudStackNodeClass)) {
	t.Helper()
	nodeClass := lab.NodeClass(name)
	pool := lab.NodePool(name, name)
	if change != nil {
		change(pool, nodeClass)
	}
	if err := w.Apply(t.Context(), nodeClass, pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// The machines go with the lab, what counts here is that they are in no other test's way.
		_ = w.DeletePods(ctx, name)
		_ = w.Client.Delete(ctx, pool)
		_ = w.Client.Delete(ctx, nodeClass)
	})
	if err := w.NodeClassReady(t.Context(), name, patience); err != nil {
		t.Fatal(err)
	}
}

// never keeps nodes that are empty.
func never(pool *karpv1.NodePool, _ *csv1.CloudStackNodeClass) {
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration(karpv1.Never)
}

// pods creates pods with the name of a test; all of one spec.
func (w *world) pods(t *testing.T, name string, count int, spec corev1.PodSpec) {
	t.Helper()
	if err := w.CreatePods(t.Context(), name, count, spec); err != nil {
		t.Fatal(err)
	}
}

// cleanPods deletes pods of another name than the test's when it ends.
func (w *world) cleanPods(t *testing.T, name string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.DeletePods(ctx, name)
	})
}

// logSize is how long the provider's log is.
func (w *world) logSize(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(w.ProviderLog())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// logSince has the lines that the provider has logged since its log was that long.
func (w *world) logSince(t *testing.T, size int64) []string {
	t.Helper()
	file, err := os.Open(w.ProviderLog())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(size, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}

// until waits until the counts of a NodePool are as they should be.
func (w *world) until(t *testing.T, pool, what string, met func(lab.Count) bool) lab.Count {
	t.Helper()
	return w.untilOf(t, 0, pool, what, met)
}

// untilOf is until, with the patience and the pause between two looks that so many objects take.
func (w *world) untilOf(t *testing.T, objects int, pool, what string, met func(lab.Count) bool) lab.Count {
	t.Helper()
	more := time.Duration(objects)
	count, err := w.UntilEvery(t.Context(), 200*time.Millisecond+more*5*time.Millisecond, patience+more*2*time.Second, pool, met)
	if err != nil {
		t.Fatalf("not so: %s: %v", what, err)
	}
	return count
}

// bound tells whether so many pods have nodes, none is left without, and every node claim has a machine and a node.
func bound(pods int) func(lab.Count) bool {
	return func(c lab.Count) bool {
		return c.Bound == pods && c.Pending == 0 && c.Claims > 0 && c.Registered == c.Claims && c.Ready == c.Claims && c.Nodes == c.Claims &&
			c.Machines == c.Claims
	}
}

// gone tells whether nothing is left.
func gone(c lab.Count) bool { return c == lab.Count{} }

// claims are the node claims of a NodePool.
func (w *world) claims(t *testing.T, pool string) []karpv1.NodeClaim {
	t.Helper()
	var list karpv1.NodeClaimList
	if err := w.Client.List(t.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// nodes are the nodes of a NodePool.
func (w *world) nodes(t *testing.T, pool string) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := w.Client.List(t.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// nodeOf is the node that a pod is bound to.
func (w *world) nodeOf(t *testing.T, pod string) *corev1.Node {
	t.Helper()
	var got corev1.Pod
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: pod}, &got); err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: got.Spec.NodeName}, &node); err != nil {
		t.Fatalf("the node of pod %s: %v", pod, err)
	}
	return &node
}

// claimOf is the node claim of a node.
func (w *world) claimOf(t *testing.T, node *corev1.Node) *karpv1.NodeClaim {
	t.Helper()
	for _, claim := range w.claims(t, node.Labels[karpv1.NodePoolLabelKey]) {
		if claim.Status.ProviderID == node.Spec.ProviderID {
			return &claim
		}
	}
	t.Fatalf("node %s has the provider id %q, which no node claim has", node.Name, node.Spec.ProviderID)
	return nil
}

// providerIDPrefix is what is before the id of a machine in a provider id.
const providerIDPrefix = "external-cloudstack://"

// machineID is the id of the machine that has a provider id.
func machineID(providerID string) string { return strings.TrimPrefix(providerID, providerIDPrefix) }

// machineOf is the machine of a node.
func (w *world) machineOf(t *testing.T, node *corev1.Node) fake.VM {
	t.Helper()
	id := machineID(node.Spec.ProviderID)
	for _, machine := range w.Machines("") {
		if machine.ID == id {
			return machine
		}
	}
	t.Fatalf("node %s has the provider id %q, which no machine has", node.Name, node.Spec.ProviderID)
	return fake.VM{}
}

// told waits until an event about an object of that kind tells of something.
func (w *world) told(t *testing.T, kind, prefix, text string) {
	t.Helper()
	var seen []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		var events corev1.EventList
		if err := w.Client.List(t.Context(), &events); err != nil {
			t.Fatal(err)
		}
		seen = seen[:0]
		for _, event := range events.Items {
			if event.InvolvedObject.Kind == kind && strings.HasPrefix(event.InvolvedObject.Name, prefix) {
				if strings.Contains(event.Message, text) {
					return
				}
				seen = append(seen, event.Message)
			}
		}
	}
	t.Fatalf("no event about %s %s tells of %q, but:\n%s", kind, prefix, text, strings.Join(seen, "\n"))
}

// same checks that machines, node claims and nodes are the same ones: of a NodePool, or all with an empty name.
func (w *world) same(t *testing.T, pool string) {
	t.Helper()
	var difference string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if difference = w.compare(t, pool); difference == "" {
			return
		}
	}
	t.Errorf("%s\n%s", difference, w.Tails())
}

func (w *world) compare(t *testing.T, pool string) string {
	t.Helper()
	of := []client.ListOption{}
	if pool != "" {
		of = append(of, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	}
	var claimList karpv1.NodeClaimList
	var nodeList corev1.NodeList
	if err := w.Client.List(t.Context(), &claimList, of...); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.List(t.Context(), &nodeList, of...); err != nil {
		t.Fatal(err)
	}
	what := map[string][]string{}
	for _, machine := range w.Machines(pool) {
		id := providerIDPrefix + machine.ID
		what[id] = append(what[id], fmt.Sprintf("machine %s (%s)", machine.Name, machine.State))
	}
	for _, claim := range claimList.Items {
		what[claim.Status.ProviderID] = append(what[claim.Status.ProviderID], "node claim "+claim.Name)
	}
	for _, node := range nodeList.Items {
		what[node.Spec.ProviderID] = append(what[node.Spec.ProviderID], "node "+node.Name)
	}
	var wrong []string
	for id, of := range what {
		if len(of) != 3 || id == "" {
			wrong = append(wrong, fmt.Sprintf("%q: %s", id, strings.Join(of, ", ")))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return "these lack a machine, a node claim or a node:\n\t" + strings.Join(wrong, "\n\t")
}
