package capacity

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
)

type observer map[instancetype.Machine]string

func (o observer) ObserveMemory(machine instancetype.Machine, seen resource.Quantity) bool {
	o[machine] = seen.String()
	return true
}

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
		Status:     karpv1.NodeClaimStatus{ProviderID: "external-cloudstack://x"},
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
		got := observer{}
		c := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(test.claims...).
			WithIndex(&karpv1.NodeClaim{}, "status.providerID", func(o client.Object) []string { return []string{o.(*karpv1.NodeClaim).Status.ProviderID} }).Build()
		if _, err := NewController(c, got).Reconcile(context.Background(), test.node); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if learned := got[machine] == "3900Mi"; learned != test.learns || len(got) > 1 {
			t.Errorf("%s: learned %v", name, got)
		}
	}
}
