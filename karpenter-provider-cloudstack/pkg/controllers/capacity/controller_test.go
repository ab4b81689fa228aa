package capacity

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
)

type observer map[instancetype.Machine]string

func (o observer) ObserveMemory(machine instancetype.Machine, seen resource.Quantity) bool {
	o[machine] = seen.String()
	return true
}

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

func node(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{csv1.LabelInstanceMemory: "4096", csv1.LabelServiceOfferingID: "o1", karpv1.NodeRegisteredLabelKey: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: "external-cloudstack://x"},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("3900Mi")}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func claim(name, template string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{csv1.AnnotationTemplateID: template}},
		Spec: karpv1.NodeClaimSpec{
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: "default"},
		},
		Status: karpv1.NodeClaimStatus{ProviderID: "external-cloudstack://x"},
	}
}

func TestObserve(t *testing.T) {
	machine := instancetype.Machine{OfferingID: "o1", TemplateID: "t1", MemoryMiB: 4096}
	for name, test := range map[string]struct {
		node   *corev1.Node
		claims []client.Object
		learns bool
	}{
		"a node":             {node(), []client.Object{claim("a", "t1")}, true},
		"two NodeClaims":     {node(), []client.Object{claim("a", "t1"), claim("b", "t1")}, false},
		"no NodeClaim":       {node(), nil, false},
		"unknown template":   {node(), []client.Object{claim("a", "")}, false},
		"no memory yet":      {node(func(n *corev1.Node) { n.Status.Capacity = nil }), []client.Object{claim("a", "t1")}, false},
		"of another cloud":   {node(func(n *corev1.Node) { n.Labels = nil }), []client.Object{claim("a", "t1")}, false},
		"label is no number": {node(func(n *corev1.Node) { n.Labels[csv1.LabelInstanceMemory] = "4Gi" }), []client.Object{claim("a", "t1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := observer{}
			suite.Create(t, suite.Client(t), test.claims...)
			// The index is one of core's.
			c := suite.Cached(t, suite.Index{Kind: &karpv1.NodeClaim{}, Field: "status.providerID", Values: func(o client.Object) []string {
				return []string{o.(*karpv1.NodeClaim).Status.ProviderID}
			}})
			if _, err := NewController(c, got).Reconcile(t.Context(), test.node); err != nil {
				t.Fatal(err)
			}
			if learned := got[machine] == "3900Mi"; learned != test.learns || len(got) > 1 {
				t.Errorf("learned %v", got)
			}
		})
	}
}
