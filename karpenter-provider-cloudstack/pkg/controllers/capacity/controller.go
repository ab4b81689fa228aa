// Package capacity learns from registered nodes how much memory machines have. A guest sees less than its offering has, and how much less
// depends on the hypervisor and on the template: only a node can tell.
package capacity

import (
	"context"
	"strconv"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	nodeclaimutils "sigs.k8s.io/karpenter/pkg/utils/nodeclaim"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
)

// Observer remembers the memory of nodes. It tells whether it learned something.
type Observer interface {
	ObserveMemory(machine instancetype.Machine, seen resource.Quantity) bool
}

// Controller looks at nodes.
type Controller struct {
	kubeClient client.Client
	observer   Observer
}

// NewController makes a controller. The client needs the index of NodeClaims by their provider id, as that of Karpenter core has it.
func NewController(kubeClient client.Client, observer Observer) *Controller {
	return &Controller{kubeClient: kubeClient, observer: observer}
}

// Name is the name of the controller.
func (c *Controller) Name() string { return "instancetype.capacity" }

// Reconcile tells the observer the memory of a node.
func (c *Controller) Reconcile(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	ctx = injection.WithControllerName(ctx, c.Name())
	memory, known := node.Status.Capacity[corev1.ResourceMemory]
	nominal, err := strconv.Atoi(node.Labels[csv1.LabelInstanceMemory])
	offering := node.Labels[csv1.LabelServiceOfferingID]
	if !known || err != nil || offering == "" || node.Spec.ProviderID == "" {
		return reconcile.Result{}, nil
	}
	nodeClaims := &karpv1.NodeClaimList{}
	if err := c.kubeClient.List(ctx, nodeClaims, nodeclaimutils.ForProviderID(node.Spec.ProviderID)); err != nil {
		return reconcile.Result{}, errors.Wrap(err, "list the NodeClaim of a node")
	}
	// Without a NodeClaim, or with several, it is not known what the machine was made of.
	if len(nodeClaims.Items) != 1 || nodeClaims.Items[0].Annotations[csv1.AnnotationTemplateID] == "" {
		return reconcile.Result{}, nil
	}
	machine := instancetype.Machine{OfferingID: offering, TemplateID: nodeClaims.Items[0].Annotations[csv1.AnnotationTemplateID], MemoryMiB: nominal}
	if c.observer.ObserveMemory(machine, memory) {
		log.FromContext(ctx).V(1).Info("learned how much memory machines have", "offering", offering, "template", machine.TemplateID,
			"offered-mib", nominal, "memory", memory.String())
	}
	return reconcile.Result{}, nil
}

// Register has the controller started by the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	err := controllerruntime.NewControllerManagedBy(m).
		Named(c.Name()).
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return isRegistered(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool {
				before, ok := e.ObjectOld.(*corev1.Node)
				after, isNode := e.ObjectNew.(*corev1.Node)
				return ok && isNode && isRegistered(after) &&
					(!isRegistered(before) || !before.Status.Capacity.Memory().Equal(*after.Status.Capacity.Memory()))
			},
			DeleteFunc:  func(event.DeleteEvent) bool { return false },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(reconcile.AsReconciler(m.GetClient(), c))
	return errors.Wrap(err, "register the controller of capacity")
}

func isRegistered(o client.Object) bool {
	return o.GetLabels()[karpv1.NodeRegisteredLabelKey] == "true"
}
