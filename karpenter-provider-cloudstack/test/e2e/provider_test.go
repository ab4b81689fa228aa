package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

func TestPodsFindNodesAndEmptyNodesGo(t *testing.T) {
	w := calm.enter(t)
	const name = "scale"
	w.begin(t, name, nil)
	const count = 12
	w.pods(t, name, count, lab.PodSpec(name, "1500m", "1Gi"))
	w.until(t, name, "all pods have nodes", bound(count))
	w.same(t, name)

	var cpus int64
	for _, node := range w.nodes(t, name) {
		machine := w.machineOf(t, &node)
		if node.Name != machine.Name {
			t.Errorf("node %s is machine %s: the cloud controller manager finds machines by the names of their nodes", node.Name, machine.Name)
		}
		cpus += node.Status.Capacity.Cpu().Value()
	}
	// 12 pods need 18 CPUs. One that counts machines as empty until they have joined starts twice as many.
	if cpus > 32 {
		t.Errorf("machines with %d CPUs were started for pods that want 18", cpus)
	}

	if err := w.DeletePods(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	w.until(t, name, "nothing is left", gone)

	w.pods(t, name, 2, lab.PodSpec(name, "500m", "1Gi"))
	w.until(t, name, "pods have nodes after there were none", bound(2))
	w.same(t, name)
}

func TestRequirements(t *testing.T) {
	w := calm.enter(t)
	const name = "requirements"
	w.begin(t, name, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		pool.Spec.Template.Labels = map[string]string{"team": "a"}
		pool.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "a", Effect: corev1.TaintEffectNoSchedule}}
	})
	tolerant := func(change func(*corev1.PodSpec)) corev1.PodSpec {
		spec := lab.PodSpec(name, "500m", "512Mi")
		spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		change(&spec)
		return spec
	}
	tests := []struct {
		pod, reason string
		spec        corev1.PodSpec
		check       func(*testing.T, *corev1.Node, fake.VM)
	}{
		{"in-zone-b", "a pod that wants a zone gets a machine in it", tolerant(func(s *corev1.PodSpec) {
			s.NodeSelector[corev1.LabelTopologyZone] = fake.ZoneB
		}), func(t *testing.T, _ *corev1.Node, machine fake.VM) {
			if machine.ZoneID != fake.IDOf("zone", fake.ZoneB) {
				t.Errorf("it is in zone %s", machine.ZoneID)
			}
		}},
		{"on-arm", "a pod that wants an architecture gets a machine of a template of it", tolerant(func(s *corev1.PodSpec) {
			s.NodeSelector[corev1.LabelArchStable] = karpv1.ArchitectureArm64
		}), func(t *testing.T, node *corev1.Node, machine fake.VM) {
			if machine.TemplateID != fake.IDOf("template", fake.TemplateARM64) || node.Labels[corev1.LabelArchStable] != "arm64" {
				t.Errorf("it was made of template %s, and its node is labelled %s", machine.TemplateID, node.Labels[corev1.LabelArchStable])
			}
		}},
		{"with-gpu", "a pod that wants a GPU gets a machine that has one", tolerant(func(s *corev1.PodSpec) {
			s.Containers[0].Resources.Requests[csv1.ResourceNVIDIAGPU] = resource.MustParse("1")
			s.Containers[0].Resources.Limits = corev1.ResourceList{csv1.ResourceNVIDIAGPU: resource.MustParse("1")}
		}), func(t *testing.T, _ *corev1.Node, machine fake.VM) {
			if machine.OfferingID != fake.IDOf("offering", fake.OfferingGPU) {
				t.Errorf("its offering is %s", machine.OfferingID)
			}
		}},
		{"eight-cpus", "a pod that asks little, of a node with many CPUs, gets one", tolerant(func(s *corev1.PodSpec) {
			s.NodeSelector[csv1.LabelInstanceCPU] = "8"
		}), func(t *testing.T, node *corev1.Node, _ fake.VM) {
			if node.Status.Capacity.Cpu().Value() != 8 {
				t.Errorf("its node has %s CPUs", node.Status.Capacity.Cpu())
			}
		}},
		{"of-team-a", "a pod finds the label that the NodePool gives to its nodes", tolerant(func(s *corev1.PodSpec) {
			s.NodeSelector["team"] = "a"
		}), func(t *testing.T, node *corev1.Node, _ fake.VM) {
			for _, taint := range node.Spec.Taints {
				if taint.Key == "dedicated" {
					return
				}
			}
			t.Errorf("its node has the taints %v, and not that of the NodePool", node.Spec.Taints)
		}},
	}
	for _, test := range tests {
		w.pods(t, test.pod, 1, test.spec)
		w.cleanPods(t, test.pod)
	}
	w.pods(t, name, 1, lab.PodSpec(name, "500m", "512Mi"))
	// The one without a toleration stays.
	w.until(t, name, "all pods that tolerate the nodes have one", func(c lab.Count) bool {
		return c.Bound == len(tests) && c.Pending == 1 && c.Registered == c.Claims && c.Machines == c.Claims
	})
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			node := w.nodeOf(t, test.pod+"-0")
			test.check(t, node, w.machineOf(t, node))
		})
	}
	w.told(t, "Pod", name, "did not tolerate taint")
	w.same(t, name)
}

func TestLimits(t *testing.T) {
	w := calm.enter(t)
	const name = "limits"
	w.begin(t, name, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		pool.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("6")}
	})
	w.pods(t, name, 8, lab.PodSpec(name, "1500m", "1Gi"))
	w.until(t, name, "some pods have nodes, and the others wait", func(c lab.Count) bool {
		return c.Bound > 0 && c.Pending > 0 && c.Claims > 0 && c.Registered == c.Claims
	})
	w.told(t, "Pod", name, "limits")
	var cpus int64
	for _, node := range w.nodes(t, name) {
		cpus += node.Status.Capacity.Cpu().Value()
	}
	if cpus > 6 {
		t.Errorf("the NodePool has %d CPUs, and its limit is 6", cpus)
	}
	w.same(t, name)
}

func TestDrift(t *testing.T) {
	w := calm.enter(t)
	const name, replicas = "drift", int32(3)
	w.begin(t, name, nil)
	w.deploy(t, name, replicas, "1500m")
	w.until(t, name, "the pods have nodes", bound(int(replicas)))
	before := map[string]bool{}
	for _, claim := range w.claims(t, name) {
		before[claim.Name] = true
	}

	var nodeClass csv1.CloudStackNodeClass
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: name}, &nodeClass); err != nil {
		t.Fatal(err)
	}
	changed := nodeClass.DeepCopy()
	changed.Spec.SSHKeyPairs = []string{fake.KeyPairOps}
	if err := w.Client.Patch(t.Context(), changed, client.MergeFrom(&nodeClass)); err != nil {
		t.Fatal(err)
	}
	w.until(t, name, "every node was replaced", func(c lab.Count) bool {
		for _, claim := range w.claims(t, name) {
			if before[claim.Name] {
				return false
			}
		}
		return bound(int(replicas))(c)
	})
	for _, node := range w.nodes(t, name) {
		if keys := w.machineOf(t, &node).KeyPairs; len(keys) != 1 || keys[0] != fake.KeyPairOps {
			t.Errorf("machine %s has the key pairs %v", node.Name, keys)
		}
	}
	w.same(t, name)
}

// What is left after most pods went moves to a machine of its size.
func TestConsolidation(t *testing.T) {
	w := calm.enter(t)
	const name, replicas = "consolidation", int32(4)
	w.begin(t, name, func(pool *karpv1.NodePool, _ *csv1.CloudStackNodeClass) {
		pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: csv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2", "8"},
		})
	})
	deployment := w.deploy(t, name, replicas, "1500m")
	w.until(t, name, "the pods share a large node", func(c lab.Count) bool { return bound(int(replicas))(c) && c.Nodes == 1 })
	small := deployment.DeepCopy()
	*small.Spec.Replicas = 1
	if err := w.Client.Patch(t.Context(), small, client.MergeFrom(deployment)); err != nil {
		t.Fatal(err)
	}
	w.until(t, name, "the pod that is left has a small node", func(c lab.Count) bool {
		if !bound(1)(c) || c.Nodes != 1 {
			return false
		}
		of := w.nodes(t, name)
		return len(of) == 1 && of[0].Status.Capacity.Cpu().Value() == 2
	})
	w.same(t, name)
}

// A node that has lived as long as its NodePool lets it is replaced.
func TestExpiration(t *testing.T) {
	w := calm.enter(t)
	const name = "expiration"
	w.begin(t, name, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		pool.Spec.Template.Spec.ExpireAfter = karpv1.MustParseNillableDuration("20s")
	})
	w.deploy(t, name, 1, "1500m")
	w.until(t, name, "the pod has a node", bound(1))
	first := w.claims(t, name)[0]
	w.until(t, name, "the pod has another node", func(c lab.Count) bool {
		for _, claim := range w.claims(t, name) {
			if claim.Name == first.Name {
				return false
			}
		}
		return bound(1)(c)
	})
	if machine, there := w.Cloud.Machine(machineID(first.Status.ProviderID)); there && machine.State == fake.StateRunning {
		t.Errorf("machine %s of the node that has expired runs still", machine.Name)
	}
}

// deploy makes a Deployment with the name of a test, which goes when the test ends.
func (w *world) deploy(t *testing.T, name string, replicas int32, cpu string) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: lab.PodSpec(name, cpu, "512Mi")},
		},
	}
	if err := w.Apply(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Client.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	return deployment
}

func TestNotReadyNodeClassStopsLaunches(t *testing.T) {
	w := calm.enter(t)
	const name = "not-ready"
	w.begin(t, name, never)
	w.pods(t, name, 1, lab.PodSpec(name, "500m", "512Mi"))
	w.until(t, name, "the pod has a node", bound(1))

	terms := w.setNetworks(t, name, []csv1.NetworkSelectorTerm{{Name: "no-such-network"}})
	var nodeClass csv1.CloudStackNodeClass
	w.until(t, name, "the CloudStackNodeClass is not ready", func(lab.Count) bool {
		if err := w.Client.Get(t.Context(), client.ObjectKey{Name: name}, &nodeClass); err != nil {
			t.Fatal(err)
		}
		return nodeClass.StatusConditions().Get(csv1.ConditionNetworksReady).IsFalse()
	})
	text := nodeClass.StatusConditions().Get(csv1.ConditionNetworksReady).Message
	for _, want := range []string{"networkSelectorTerms", fake.ZoneA, fake.NetworkA} {
		if !strings.Contains(text, want) {
			t.Errorf("the condition should say which field selects nothing, where, and what there is; it lacks %q: %q", want, text)
		}
	}
	w.until(t, name, "the NodePool is not ready either", func(lab.Count) bool {
		var pool karpv1.NodePool
		if err := w.Client.Get(t.Context(), client.ObjectKey{Name: name}, &pool); err != nil {
			t.Fatal(err)
		}
		return pool.StatusConditions().Get(status.ConditionReady).IsFalse()
	})
	// From here on, the log tells when Karpenter has looked at the pods that wait, and started nothing.
	logged := w.logSize(t)
	w.pods(t, "more", 3, lab.PodSpec(name, "3", "4Gi"))
	w.cleanPods(t, "more")
	w.until(t, name, "Karpenter has passed the NodePool over", func(lab.Count) bool {
		times := 0
		for _, line := range w.logSince(t, logged) {
			if strings.Contains(line, "ignoring nodepool, not ready") && strings.Contains(line, name) {
				times++
			}
		}
		// The first may tell of a round that had begun before there were pods.
		return times > 1
	})
	if c := w.until(t, name, "the pods wait", func(c lab.Count) bool { return c.Pending == 3 }); c.Claims != 1 || c.Machines != 1 || c.Ready != 1 {
		t.Errorf("there are %s: the node from before stays, and none is added", c)
	}
	w.setNetworks(t, name, terms)
	w.until(t, name, "the pods that waited have nodes", bound(4))
	w.same(t, name)
}

// setNetworks exchanges the networks of a CloudStackNodeClass, and returns those that it had.
func (w *world) setNetworks(t *testing.T, name string, terms []csv1.NetworkSelectorTerm) []csv1.NetworkSelectorTerm {
	t.Helper()
	var nodeClass csv1.CloudStackNodeClass
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: name}, &nodeClass); err != nil {
		t.Fatal(err)
	}
	changed := nodeClass.DeepCopy()
	changed.Spec.NetworkSelectorTerms = terms
	if err := w.Client.Patch(t.Context(), changed, client.MergeFrom(&nodeClass)); err != nil {
		t.Fatal(err)
	}
	return nodeClass.Spec.NetworkSelectorTerms
}

// Nodes that are not ready for long are replaced, whether their kubelets say so, or nothing is heard of them because somebody has stopped
// their machines. The others stay.
func TestNodeRepair(t *testing.T) {
	w := calm.enter(t)
	const name, replicas = "repair", int32(6)
	w.begin(t, name, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		oneEach(pool, nodeClass)
	})
	w.deploy(t, name, replicas, "3")
	w.until(t, name, "the pods have nodes", bound(int(replicas)))
	before := w.claims(t, name)
	sick, stopped := before[0], before[1]
	if err := w.Kubelet.SetReady(t.Context(), sick.Status.NodeName, corev1.ConditionFalse); err != nil {
		t.Fatal(err)
	}
	// A fifth of the nodes may be repaired at a time, rounded up.
	if !w.Cloud.SetState(machineID(stopped.Status.ProviderID), fake.StateStopped) {
		t.Fatalf("there is no machine %s", stopped.Status.ProviderID)
	}
	w.until(t, name, "the nodes are replaced", func(c lab.Count) bool {
		for _, claim := range w.claims(t, name) {
			if claim.Name == sick.Name || claim.Name == stopped.Name {
				return false
			}
		}
		return bound(int(replicas))(c)
	})
	w.same(t, name)
	left := map[string]bool{}
	for _, claim := range w.claims(t, name) {
		left[claim.Name] = true
	}
	for _, claim := range before[2:] {
		if !left[claim.Name] {
			t.Errorf("the node of %s was well, and is gone", claim.Name)
		}
	}
}

// GPUs are for pods that ask for one: these get a node each, of as many GPUs as there are. Other pods stay away from such nodes, although
// these have CPUs to spare, and no such machine is chosen for them.
func TestGPUs(t *testing.T) {
	w := calm.enter(t)
	const gpus, plain, count = "gpus", "no-gpus", 2
	// Both NodePools have it, and no other.
	purpose := map[string]string{"purpose": "gpus"}
	w.begin(t, gpus, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		pool.Spec.Template.Labels = purpose
		pool.Spec.Template.Spec.Taints = []corev1.Taint{{Key: string(csv1.ResourceNVIDIAGPU), Effect: corev1.TaintEffectNoSchedule}}
	})
	// This one may use any machine, also those with a GPU.
	w.begin(t, plain, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		pool.Spec.Template.Labels = purpose
	})
	withGPU := lab.PodSpec(gpus, "1", "1Gi")
	withGPU.Containers[0].Resources.Requests[csv1.ResourceNVIDIAGPU] = resource.MustParse("1")
	withGPU.Containers[0].Resources.Limits = corev1.ResourceList{csv1.ResourceNVIDIAGPU: resource.MustParse("1")}
	withGPU.Tolerations = []corev1.Toleration{{Key: string(csv1.ResourceNVIDIAGPU), Operator: corev1.TolerationOpExists}}
	withoutGPU := lab.PodSpec(plain, "1", "1Gi")
	// Either NodePool would do.
	withoutGPU.NodeSelector = purpose
	running := func(name string, count int) {
		t.Helper()
		w.until(t, "", "the pods "+name+" have nodes", func(lab.Count) bool {
			var pods corev1.PodList
			if err := w.Client.List(t.Context(), &pods, client.MatchingLabels{"app": name}); err != nil {
				t.Fatal(err)
			}
			for _, pod := range pods.Items {
				if pod.Spec.NodeName == "" {
					return false
				}
			}
			return len(pods.Items) == count
		})
	}
	w.pods(t, gpus, count, withGPU)
	running(gpus, count)
	on := map[string]bool{}
	for i := range count {
		node := w.nodeOf(t, fmt.Sprintf("%s-%d", gpus, i))
		on[node.Name] = true
		if node.Labels[karpv1.NodePoolLabelKey] != gpus || w.machineOf(t, node).OfferingID != fake.IDOf("offering", fake.OfferingGPU) {
			t.Errorf("a pod that wants a GPU is on node %s of NodePool %s", node.Name, node.Labels[karpv1.NodePoolLabelKey])
		}
		promised := w.claimOf(t, node).Status.Capacity[csv1.ResourceNVIDIAGPU]
		if has := node.Status.Capacity[csv1.ResourceNVIDIAGPU]; has.Value() != 1 || promised.Cmp(has) != 0 {
			t.Errorf("node %s has %s GPUs, and its node claim tells of %s", node.Name, has.String(), promised.String())
		}
	}
	if len(on) != count {
		t.Errorf("%d pods with a GPU each share %d machines with one", count, len(on))
	}

	// There is room for these on the nodes with GPUs.
	w.pods(t, plain, count, withoutGPU)
	running(plain, count)
	for i := range count {
		node := w.nodeOf(t, fmt.Sprintf("%s-%d", plain, i))
		if on[node.Name] || w.machineOf(t, node).GPUs > 0 {
			t.Errorf("a pod that wants no GPU is on node %s, which has some", node.Name)
		}
	}
	w.same(t, gpus)
	w.same(t, plain)
}

// Where kubelets leave their provider id and the labels of their place to the cloud controller manager, a node is taken for the machine's
// when that has looked at it, and no sooner ready for pods.
func TestNodesJoinInTwoSteps(t *testing.T) {
	w := calm.enter(t)
	w.begin(t, twoSteps, func(pool *karpv1.NodePool, nodeClass *csv1.CloudStackNodeClass) {
		never(pool, nodeClass)
		nodeClass.Spec.Bootstrap = &csv1.Bootstrap{Mode: csv1.BootstrapCustom}
		userData := "#!/bin/sh\necho 'KUBELET_EXTRA_ARGS=\"--cloud-provider=external --node-labels={{ .Labels }} " +
			"--register-with-taints={{ .Taints }}\"' > /etc/default/kubelet\n"
		nodeClass.Spec.UserData = &userData
	})
	w.pods(t, twoSteps, 1, lab.PodSpec(twoSteps, "500m", "512Mi"))
	between := 0
	w.until(t, twoSteps, "the pod has a node", func(c lab.Count) bool {
		var all corev1.NodeList
		if err := w.Client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for _, node := range all.Items {
			if !strings.HasPrefix(node.Name, twoSteps) || node.Spec.ProviderID != "" {
				continue
			}
			between++
			if c.Bound > 0 || c.Registered > 0 {
				t.Errorf("node %s has no provider id yet, and there are %s", node.Name, c)
			}
		}
		return bound(1)(c)
	})
	if between == 0 {
		t.Error("the node had a provider id from the start: it is not seen how Karpenter waits for one")
	}
	w.same(t, twoSteps)
	node := w.nodes(t, twoSteps)[0]
	for _, taint := range node.Spec.Taints {
		t.Errorf("node %s has the taint %s", node.Name, taint.Key)
	}
	machine := w.machineOf(t, &node)
	if zone := node.Labels[corev1.LabelTopologyZone]; zone != machine.ZoneName {
		t.Errorf("node %s is in zone %q, and its machine in %s", node.Name, zone, machine.ZoneName)
	}
	if claim := w.claimOf(t, &node); !claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Errorf("node claim %s is not initialized: %+v", claim.Name, claim.Status.Conditions)
	}
}
