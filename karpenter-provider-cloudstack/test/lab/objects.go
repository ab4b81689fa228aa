package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
)

// NodeClass is a CloudStackNodeClass with all that the data centre of the lab has. Machines join as kubeadm has them join, each with a
// token of its own; the kubelets of the lab read labels and taints from what kubeadm would read them from.
func NodeClass(name string) *csv1.CloudStackNodeClass {
	least := int64(1)
	mintToken := true
	return &csv1.CloudStackNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: csv1.CloudStackNodeClassSpec{
			Zones:                        []string{fake.ZoneA, fake.ZoneB},
			NetworkSelectorTerms:         []csv1.NetworkSelectorTerm{{Type: "Isolated"}},
			ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{{CPU: &csv1.Range{Min: &least}}},
			TemplateSelectorTerms:        []csv1.TemplateSelectorTerm{{NameRegex: ".*"}},
			Bootstrap:                    &csv1.Bootstrap{Mode: csv1.BootstrapKubeadm, Endpoint: "10.0.0.1:6443", MintToken: &mintToken},
		},
	}
}

// NodePool is a NodePool whose nodes go as soon as they are empty.
func NodePool(name, nodeClass string) *karpv1.NodePool {
	return &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
				NodeClassRef: &karpv1.NodeClassReference{Group: csv1.Group, Kind: "CloudStackNodeClass", Name: nodeClass},
				Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
					{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{string(corev1.Linux)}},
					// Left open, core takes it that spot may be had, and wants it wherever a node is to be replaced by a cheaper one.
					{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
				},
				ExpireAfter: karpv1.MustParseNillableDuration(karpv1.Never),
			}},
			Disruption: karpv1.Disruption{
				ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmpty,
				ConsolidateAfter:    karpv1.MustParseNillableDuration("0s"),
				Budgets:             []karpv1.Budget{{Nodes: "100%"}},
			},
		},
	}
}

// Apply creates objects.
func (l *Lab) Apply(ctx context.Context, objects ...client.Object) error {
	for _, object := range objects {
		if err := l.Client.Create(ctx, object); err != nil {
			return errors.Wrapf(err, "creating %T %s", object, object.GetName())
		}
	}
	return nil
}

// NodeClassReady waits until a CloudStackNodeClass is ready. The error says what is in the way.
func (l *Lab) NodeClassReady(ctx context.Context, name string, timeout time.Duration) error {
	var last csv1.CloudStackNodeClass
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		if err := l.Err(); err != nil {
			return false, err
		}
		if err := l.Client.Get(ctx, client.ObjectKey{Name: name}, &last); err != nil {
			return false, errors.Wrapf(err, "reading CloudStackNodeClass %s", name)
		}
		ready := last.StatusConditions().Get(status.ConditionReady)
		return ready != nil && ready.IsTrue() && ready.ObservedGeneration == last.Generation, nil
	})
	return errors.Wrapf(err, "CloudStackNodeClass %s is not ready: %s; %s\nfor", name, conditions(&last), l.Tails())
}

func conditions(nodeClass *csv1.CloudStackNodeClass) string {
	text := "no conditions"
	for i, condition := range nodeClass.GetConditions() {
		if i == 0 {
			text = ""
		}
		text += fmt.Sprintf("\n\t%s=%s %s %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return text
}
