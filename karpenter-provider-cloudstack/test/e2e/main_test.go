// Package e2e sees the provider at work as users do: the real binary, with Karpenter core in it, on a real control plane and an emulated
// CloudStack. Machines are deployed within a second, and core's windows are short, so that a test waits for little but core's own pace.
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
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// patience is how long a step may take on a machine that is busy with other things. Tests wait for what happens, not for this.
const patience = 2 * time.Minute

// world is what all tests share. Each has a NodePool and a CloudStackNodeClass of its own.
var world *lab.Lab

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "karpenter-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	provider := filepath.Join(folder, "controller")
	cloud := fake.Default(fake.Options{JobLatency: fake.Between(200*time.Millisecond, time.Second)})
	world, err = lab.Start(context.Background(), lab.Options{
		Provider: provider, Cloud: cloud, Environment: []string{
			// Some tests read what was done and why.
			"LOG_LEVEL=debug",
			// What a failed launch has left is garbage soon.
			"GC_GRACE=10s", "CLOUDSTACK_CHECK_PERIOD=1s", "CLOUDSTACK_API_RATE=200", "CLOUDSTACK_API_BURST=200",
		},
	})
	if controlplane.IsMissing(err) {
		banner := strings.Repeat("#", 90)
		fmt.Fprintf(os.Stderr, "%s\n# NOT TESTED END TO END: %v\n%s\n", banner, err, banner)
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer world.Stop()
	build := exec.Command("go", "build", "-o", provider, "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/cmd/controller")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "building the provider: %v\n", err)
		return 1
	}
	if err := world.StartProvider(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// begin makes a NodePool and a CloudStackNodeClass with the name of a test, after they were changed to its needs, and waits until
// machines can be started. They go when the test ends.
func begin(t *testing.T, name string, change func(*karpv1.NodePool, *csv1.CloudStackNodeClass)) {
	t.Helper()
	nodeClass := lab.NodeClass(name)
	pool := lab.NodePool(name, name)
	if change != nil {
		change(pool, nodeClass)
	}
	if err := world.Apply(t.Context(), nodeClass, pool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// The machines go with the lab, what counts here is that they are in no other test's way.
		_ = world.DeletePods(ctx, name)
		_ = world.Client.Delete(ctx, pool)
		_ = world.Client.Delete(ctx, nodeClass)
	})
	if err := world.NodeClassReady(t.Context(), name, patience); err != nil {
		t.Fatal(err)
	}
}

// never keeps nodes that are empty.
func never(pool *karpv1.NodePool, _ *csv1.CloudStackNodeClass) {
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration(karpv1.Never)
}

// pods creates pods with the name of a test; all of one spec.
func pods(t *testing.T, name string, count int, spec corev1.PodSpec) {
	t.Helper()
	if err := world.CreatePods(t.Context(), name, count, spec); err != nil {
		t.Fatal(err)
	}
}

// cleanPods deletes pods of another name than the test's when it ends.
func cleanPods(t *testing.T, name string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = world.DeletePods(ctx, name)
	})
}

// logSize is how long the provider's log is.
func logSize(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(world.ProviderLog())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// logSince has the lines that the provider has logged since its log was that long.
func logSince(t *testing.T, size int64) []string {
	t.Helper()
	file, err := os.Open(world.ProviderLog())
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
func until(t *testing.T, pool, what string, met func(lab.Count) bool) lab.Count {
	t.Helper()
	count, err := world.Until(t.Context(), patience, pool, met)
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
func claims(t *testing.T, pool string) []karpv1.NodeClaim {
	t.Helper()
	var list karpv1.NodeClaimList
	if err := world.Client.List(t.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// nodes are the nodes of a NodePool.
func nodes(t *testing.T, pool string) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := world.Client.List(t.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// nodeOf is the node that a pod is bound to.
func nodeOf(t *testing.T, pod string) *corev1.Node {
	t.Helper()
	var got corev1.Pod
	if err := world.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: pod}, &got); err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	if err := world.Client.Get(t.Context(), client.ObjectKey{Name: got.Spec.NodeName}, &node); err != nil {
		t.Fatalf("the node of pod %s: %v", pod, err)
	}
	return &node
}

// machineOf is the machine of a node.
func machineOf(t *testing.T, node *corev1.Node) fake.VM {
	t.Helper()
	id := strings.TrimPrefix(node.Spec.ProviderID, "external-cloudstack://")
	for _, machine := range world.Machines("") {
		if machine.ID == id {
			return machine
		}
	}
	t.Fatalf("node %s has the provider id %q, which no machine has", node.Name, node.Spec.ProviderID)
	return fake.VM{}
}

// told waits until an event about an object of that kind tells of something.
func told(t *testing.T, kind, prefix, text string) {
	t.Helper()
	var seen []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		var events corev1.EventList
		if err := world.Client.List(t.Context(), &events); err != nil {
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
func same(t *testing.T, pool string) {
	t.Helper()
	var difference string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if difference = compare(t, pool); difference == "" {
			return
		}
	}
	t.Errorf("%s\n%s", difference, world.Tails())
}

func compare(t *testing.T, pool string) string {
	t.Helper()
	of := []client.ListOption{}
	if pool != "" {
		of = append(of, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	}
	var claimList karpv1.NodeClaimList
	var nodeList corev1.NodeList
	if err := world.Client.List(t.Context(), &claimList, of...); err != nil {
		t.Fatal(err)
	}
	if err := world.Client.List(t.Context(), &nodeList, of...); err != nil {
		t.Fatal(err)
	}
	what := map[string][]string{}
	for _, machine := range world.Machines(pool) {
		id := "external-cloudstack://" + machine.ID
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
