package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

// moment is a request at which the provider is killed: one to CloudStack, or one to the API server.
type moment struct {
	reason  string
	command string
	api     func(lab.APIRequest) bool
	// after has the request done, and its answer lost. Otherwise it is never done.
	after bool
}

// sent fits requests to the API server whose body has a text.
func sent(method, path, text string) func(lab.APIRequest) bool {
	pattern := regexp.MustCompile("^" + path + "$")
	return func(r lab.APIRequest) bool {
		return r.Method == method && pattern.MatchString(r.Path) && strings.Contains(r.Body, text)
	}
}

const (
	nodeClaimPath = "/apis/karpenter.sh/v1/nodeclaims/[^/]+"
	nodePath      = "/api/v1/nodes/[^/]+"
	secretsPath   = "/api/v1/namespaces/kube-system/secrets"
	noFinalizers  = `"finalizers":null`
)

// up are where a launch is cut off, in the order in which they come.
var up = []moment{
	{reason: "a node claim has its finalizer, and nothing was begun", api: sent("PATCH", nodeClaimPath, karpv1.TerminationFinalizer), after: true},
	{reason: "there is an affinity group, and the provider has not heard of it", command: "createAffinityGroup", after: true},
	{reason: "there is no token yet", api: sent("POST", secretsPath, "")},
	{reason: "there is a token, and nobody knows it", api: sent("POST", secretsPath, ""), after: true},
	{reason: "nothing has been deployed yet", command: "deployVirtualMachine"},
	{reason: "CloudStack has the machine, and the provider has not heard of it", command: "deployVirtualMachine", after: true},
	{reason: "the machine has no tags yet", command: "createTags"},
	{reason: "the machine has tags, and the provider has not heard of it", command: "createTags", after: true},
	{reason: "the provider waits until the machine runs", command: "listVirtualMachines", after: true},
	{reason: "the machine runs, and the node claim tells nothing of it", api: sent("PATCH", nodeClaimPath, csv1.AnnotationTemplateID)},
	{reason: "the node claim has labels, and no provider id yet", api: sent("PATCH", nodeClaimPath+"/status", `"providerID":"`)},
	{reason: "the node claim has a provider id, and Karpenter has not heard so", api: sent("PATCH", nodeClaimPath+"/status", `"providerID":"`), after: true},
	{reason: "the node has joined, and is not registered", api: sent("PATCH", nodePath, karpv1.NodeRegisteredLabelKey)},
	{reason: "the node is registered, and the node claim does not tell", api: sent("PATCH", nodePath, karpv1.NodeRegisteredLabelKey), after: true},
}

// down are where a deletion is cut off, in the order in which they come.
var down = []moment{
	{reason: "the node claim is being deleted, and its node is not", api: sent("DELETE", nodePath, "")},
	{reason: "the node is being deleted, and takes pods still", api: sent("PATCH", nodePath, karpv1.DisruptedTaintKey)},
	{reason: "the node is empty, and its machine runs", command: "destroyVirtualMachine"},
	{reason: "the machine is being destroyed, and the provider has not heard so", command: "destroyVirtualMachine", after: true},
	{reason: "the machine is being destroyed, and the node claim does not tell", api: sent("PATCH", nodeClaimPath+"/status", karpv1.ConditionTypeInstanceTerminating)},
	{reason: "the machine is gone, and its node is not", api: sent("PATCH", nodePath, noFinalizers)},
	{reason: "the node is gone, and Karpenter has not heard so", api: sent("PATCH", nodePath, noFinalizers), after: true},
	{reason: "the node is gone, and the node claim has its finalizer", api: sent("PATCH", nodeClaimPath, noFinalizers)},
	{reason: "the node claim is gone, and Karpenter has not heard so", api: sent("PATCH", nodeClaimPath, noFinalizers), after: true},
}

// Whoever wants to know what becomes of a machine whose launch or deletion was cut off finds each moment in docs/karpenter.md, in this order.
func TestMomentsAreDocumented(t *testing.T) {
	content, err := os.ReadFile("../../../docs/karpenter.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "### Killed at each step\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| [^|]*\|$`).FindAllStringSubmatch(section, -1) {
		if row[1] != "Killed when" {
			documented = append(documented, row[1])
		}
	}
	var tested []string
	for _, m := range slices.Concat(up, down) {
		tested = append(tested, m.reason)
	}
	if diff := cmp.Diff(tested, documented); diff != "" {
		t.Errorf("docs/karpenter.md does not have the moments at which the provider is killed:\n%s", diff)
	}
}

// killAt has the provider killed at a moment. It returns what waits until that has happened, and starts it again.
func (w *world) killAt(t *testing.T, m moment) (happened func()) {
	t.Helper()
	killed := make(chan struct{})
	kill := func() {
		w.KillProvider()
		close(killed)
	}
	var takeBack func()
	if m.api != nil {
		takeBack = w.OnAPIRequest(m.api, m.after, kill)
	} else {
		fault := fake.Fault{Command: m.command, Times: 1, Match: func(request fake.Request) bool {
			// Machines are listed for other reasons too; these are asked for by their ids.
			return m.command != "listVirtualMachines" || request.Parameters["ids"] != "" || request.Parameters["id"] != ""
		}}
		if m.after {
			fault.After, fault.LoseAnswer = func(fake.Request) { kill() }, true
		} else {
			fault.Before, fault.Drop = func(fake.Request) { kill() }, true
		}
		takeBack = w.Cloud.Fail(fault)
	}
	return func() {
		t.Helper()
		defer takeBack()
		select {
		case <-killed:
		case <-time.After(patience):
			count, err := w.Count(t.Context(), "")
			t.Fatalf("never so: %s; there are %s (%v); %s", m.reason, count, err, w.Tails())
		}
		w.startAgain(t)
	}
}

func (w *world) startAgain(t *testing.T) {
	t.Helper()
	if err := w.StartProvider(); err != nil {
		t.Fatal(err)
	}
}

// deployed is how many machines CloudStack was told to make, and has begun to.
func (w *world) deployed() int {
	made := 0
	for _, request := range w.Cloud.Requests() {
		if request.Command == "deployVirtualMachine" && request.JobID != "" {
			made++
		}
	}
	return made
}

// Wherever a launch or a deletion is cut off, no machine is started twice, and none is forgotten.
func TestProviderIsKilled(t *testing.T) {
	w := cruel.enter(t)
	const name, each = "killed", 3
	w.begin(t, name, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		oneEach(pool, nodeClass)
		nodeClass.Spec.Affinity = &csv1.Affinity{Mode: csv1.AffinitySoftAnti}
	})
	wave := func(i int) string { return fmt.Sprintf("wave-%d", i) }
	start := func(i int) {
		w.pods(t, wave(i), each, lab.PodSpec(name, "3", "4Gi"))
		w.cleanPods(t, wave(i))
	}
	for i, m := range up {
		happened := w.killAt(t, m)
		start(i)
		happened()
	}
	// And at moments that nobody has thought of.
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	waves := len(up) + 2
	for i := len(up); i < waves; i++ {
		begun := w.deployed()
		start(i)
		w.until(t, name, "launches have begun", func(lab.Count) bool { return w.deployed() > begun })
		time.Sleep(time.Duration(random.Int64N(int64(time.Second))))
		w.KillProvider()
		w.startAgain(t)
	}
	w.until(t, name, "all pods have nodes", bound(waves*each))
	// Machines that nobody knows of are in no NodePool: there must be none at all.
	w.same(t, "")
	if made := w.deployed(); made != waves*each {
		t.Errorf("CloudStack was told to make %d machines for %d pods that need one each", made, waves*each)
	}
	if have := len(w.claims(t, name)); have != waves*each {
		t.Errorf("there are %d node claims for %d pods that need one each", have, waves*each)
	}
	if groups := w.Cloud.AffinityGroups(); len(groups) != 1 {
		t.Errorf("the machines of one NodePool are in %d affinity groups", len(groups))
	}

	// The same on the way down.
	claims := w.claims(t, name)
	for i := range waves {
		if err := w.DeletePods(t.Context(), wave(i)); err != nil {
			t.Fatal(err)
		}
	}
	w.until(t, name, "the pods are gone", func(c lab.Count) bool { return c.Bound == 0 && c.Pending == 0 })
	for i, m := range down {
		happened := w.killAt(t, m)
		for n := range each {
			if err := w.Client.Delete(t.Context(), &claims[i*each+n]); err != nil {
				t.Fatal(err)
			}
		}
		happened()
	}
	if err := w.Client.DeleteAllOf(t.Context(), &karpv1.NodeClaim{}, client.MatchingLabels{karpv1.NodePoolLabelKey: name}); err != nil {
		t.Fatal(err)
	}
	w.until(t, "", "nothing is left", gone)
	w.until(t, "", "no token is left", func(lab.Count) bool { return w.tokens(t) == 0 })
	if disks := w.Cloud.Volumes(); len(disks) > 0 {
		t.Errorf("%d disks are left", len(disks))
	}

	// Karpenter does not ask for the end of a machine that its node claim knows nothing of.
	happened := w.killAt(t, moment{reason: "a machine is known to CloudStack alone", command: "deployVirtualMachine", after: true})
	start(waves)
	w.until(t, "", "a machine runs", func(lab.Count) bool { return lab.Running(w.Machines("")) > 0 })
	if err := w.DeletePods(t.Context(), wave(waves)); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.DeleteAllOf(t.Context(), &karpv1.NodeClaim{}, client.MatchingLabels{karpv1.NodePoolLabelKey: name}); err != nil {
		t.Fatal(err)
	}
	happened()
	w.until(t, "", "no node claim is left", func(c lab.Count) bool { return c.Claims == 0 })
	// Garbage is looked for every two minutes, and at the start.
	w.KillProvider()
	w.startAgain(t)
	w.until(t, "", "the machine that nobody knew of is gone", gone)
}

// tokens are how many bootstrap tokens there are.
func (w *world) tokens(t *testing.T) int {
	t.Helper()
	var secrets corev1.SecretList
	if err := w.Client.List(t.Context(), &secrets, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{bootstrap.LabelToken}); err != nil {
		t.Fatal(err)
	}
	return len(secrets.Items)
}
