package operator

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/awslabs/operatorpkg/controller"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	metricsnode "sigs.k8s.io/karpenter/pkg/controllers/metrics/node"
	metricspod "sigs.k8s.io/karpenter/pkg/controllers/metrics/pod"
	"sigs.k8s.io/karpenter/pkg/controllers/state"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
)

const lifetime = "karpenter_nodes_current_lifetime_seconds"

// nodeFigures are the metrics of nodes that the registry tells, by name and labels.
func nodeFigures(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "karpenter_nodes_") && family.GetName() != "karpenter_cluster_utilization_percent" {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			if !slices.IsSorted(labels) {
				t.Errorf("the labels of %s have no order: %v", family.GetName(), labels)
			}
			key := fmt.Sprint(family.GetName(), family.GetHelp(), family.GetType(), labels)
			if _, twice := figures[key]; twice {
				t.Errorf("%s is told twice", key)
			}
			figures[key] = metric.GetGauge().GetValue()
		}
	}
	return figures
}

func amounts(text ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(text); i += 2 {
		list[corev1.ResourceName(text[i])] = resource.MustParse(text[i+1])
	}
	return list
}

// What is told of nodes without core's controller is what that controller tells, to the last label.
func TestNodeMetrics(t *testing.T) {
	ctx, c := t.Context(), suite.Client(t)
	cluster := state.NewCluster(clock.RealClock{}, c, nil)
	core := metricsnode.NewController(cluster)
	add := func(n *corev1.Node, containers ...corev1.ResourceRequirements) {
		t.Helper()
		for i, r := range containers {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", n.Name, i)}, Spec: corev1.PodSpec{
				NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Image: "pause", Resources: r}},
			}}
			if i == 1 {
				pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "1"}}
			}
			suite.Create(t, c, pod)
			t.Cleanup(func() { _ = c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)) }) // nothing else here looks at pods
		}
		suite.Create(t, c, n)
		if err := cluster.UpdateNode(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "ours", Labels: map[string]string{
			karpv1.NodePoolLabelKey: "pool", corev1.LabelInstanceTypeStable: "m1small", corev1.LabelTopologyZone: "zone-a", csv1.LabelInstanceCPU: "2", "team": "a",
			karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
		}},
		Spec: corev1.NodeSpec{ProviderID: "external-cloudstack://1"},
		Status: corev1.NodeStatus{
			Phase: corev1.NodeRunning, Capacity: amounts("cpu", "2", "memory", "4Gi", "pods", "110", "nvidia.com/gpu", "0"),
			Allocatable: amounts("cpu", "1940m", "memory", "3Gi", "pods", "110", "nvidia.com/gpu", "0"),
		},
	}, corev1.ResourceRequirements{Requests: amounts("cpu", "250m", "memory", "100M"), Limits: amounts("memory", "1Gi")},
		corev1.ResourceRequirements{Requests: amounts("cpu", "10m"), Limits: amounts("cpu", "1")})
	add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "other"}, Status: corev1.NodeStatus{Allocatable: amounts("cpu", "4", "ephemeral-storage", "10Gi")},
	})
	launching := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "launching"}, Status: karpv1.NodeClaimStatus{ProviderID: "external-cloudstack://2", Capacity: amounts("cpu", "8")}}
	cluster.UpdateNodeClaim(launching)
	if _, err := core.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	want := nodeFigures(t)
	if len(want) < 20 {
		t.Fatalf("core tells %d figures", len(want))
	}

	pods := metricspod.NewController(c, cluster)
	left, err := NodeMetrics(metrics.Registry, cluster, []controller.Controller{pods, core})
	if err != nil || len(left) != 1 || left[0] != controller.Controller(pods) {
		t.Fatalf("%v are left (%v)", left, err)
	}
	got := nodeFigures(t)
	for key, value := range want {
		have, there := got[key]
		tolerance := 1e-9
		if strings.HasPrefix(key, lifetime) {
			tolerance = 60
		}
		if !there || math.Abs(have-value) > tolerance {
			t.Errorf("%s is %v (told: %t), and core says %v", key, have, there, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d figures, and core has %d: %v", len(got), len(want), slices.Sorted(maps.Keys(got)))
	}
	// Nothing is kept of what is gone.
	cluster.DeleteNode("ours")
	cluster.DeleteNode("other")
	if got := nodeFigures(t); len(got) != 0 {
		t.Errorf("without nodes: %v", got)
	}

	// Core may be told to observe nothing.
	same, err := NodeMetrics(prometheus.NewRegistry(), cluster, left)
	if err != nil || len(same) != 1 {
		t.Errorf("%v, %v", same, err)
	}
}
