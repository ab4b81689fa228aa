// Package nodeclass finds what the selectors of a CloudStackNodeClass select, and says in its status what is in the way of machines. It
// keeps a CloudStackNodeClass until no NodeClaim uses it, and has the hash by which machines are known as made of an older one.
package nodeclass

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/object"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	"go.uber.org/multierr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	nodeclaimutils "sigs.k8s.io/karpenter/pkg/utils/nodeclaim"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

const (
	// period is the time between two looks at what the selectors select.
	period = 5 * time.Minute
	// soon is the time until the next look where CloudStack or the API server could not be asked.
	soon = 15 * time.Second
	// waiting is the time between two looks whether a CloudStackNodeClass that is to go is still in use. Deleted NodeClaims are watched.
	waiting = time.Minute
	// concurrent is how many CloudStackNodeClasses are looked at in parallel.
	concurrent = 10
)

// Zones finds zones.
type Zones interface {
	Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]csv1.ZoneStatus, error)
}

// Networks finds networks and security groups.
type Networks interface {
	Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus) (first, additional []csv1.NetworkStatus, err error)
	ResolveSecurityGroups(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus) ([]csv1.SecurityGroupStatus, error)
}

// Templates finds templates.
type Templates interface {
	Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus) ([]csv1.TemplateStatus, error)
}

// Offerings finds service offerings.
type Offerings interface {
	Offerings(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]*cloudstack.ServiceOffering, error)
}

// Bootstrap tells whether user data can be made.
type Bootstrap interface {
	Check(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) error
}

// Providers find what a CloudStackNodeClass selects.
type Providers struct {
	Zones     Zones
	Networks  Networks
	Templates Templates
	Offerings Offerings
	Bootstrap Bootstrap
}

// Controller reconciles CloudStackNodeClasses.
type Controller struct {
	clock      clock.PassiveClock
	kubeClient client.Client
	recorder   events.Recorder
	providers  Providers
	wake       <-chan struct{}
}

// NewController makes a controller. The client needs the index of NodeClaims by their class, as that of Karpenter core has it. Whenever
// something comes through wake, which may be nil, all CloudStackNodeClasses are looked at, as when the credentials have changed.
func NewController(
	clk clock.PassiveClock, kubeClient client.Client, recorder events.Recorder, providers Providers, wake <-chan struct{},
) *Controller {
	return &Controller{clock: clk, kubeClient: kubeClient, recorder: recorder, providers: providers, wake: wake}
}

// Name is the name of the controller.
func (c *Controller) Name() string { return "nodeclass" }

// Reconcile brings a CloudStackNodeClass up to date.
func (c *Controller) Reconcile(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) (reconcile.Result, error) {
	ctx = injection.WithControllerName(ctx, c.Name())
	if !nodeClass.DeletionTimestamp.IsZero() {
		return c.finalize(ctx, nodeClass)
	}
	if err := c.annotate(ctx, nodeClass); err != nil {
		return ignoreRaces(err)
	}
	stored := nodeClass.DeepCopy()
	outcomes := c.resolve(ctx, nodeClass)
	nodeClass.SetConditions(conditions(stored, outcomes, c.clock.Now()))
	if !equality.Semantic.DeepEqual(stored.Status, nodeClass.Status) {
		// The lock: conditions are a list, which a patch replaces as a whole.
		err := c.kubeClient.Status().Patch(ctx, nodeClass, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
		if err != nil {
			return ignoreRaces(errors.Wrap(err, "write the status"))
		}
	}
	c.tell(stored, nodeClass)
	if lo.ContainsBy(outcomes, func(o outcome) bool { return o.again }) {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	return reconcile.Result{RequeueAfter: period}, nil
}

// annotate writes the finalizer, and the hash with its version. Where that version is a new one, the hashes of NodeClaims are made anew
// first: an upgrade of the controller replaces no machine.
func (c *Controller) annotate(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) error {
	stored := nodeClass.DeepCopy()
	hash := nodeClass.Hash()
	if nodeClass.Annotations[csv1.AnnotationNodeClassHashVersion] != csv1.NodeClassHashVersion {
		if err := c.rehash(ctx, nodeClass, hash); err != nil {
			return err
		}
	}
	controllerutil.AddFinalizer(nodeClass, csv1.TerminationFinalizer)
	nodeClass.Annotations = lo.Assign(nodeClass.Annotations, map[string]string{
		csv1.AnnotationNodeClassHash: hash, csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion,
	})
	if equality.Semantic.DeepEqual(stored.ObjectMeta, nodeClass.ObjectMeta) {
		return nil
	}
	// The lock: finalizers are a list, which a patch replaces as a whole.
	err := c.kubeClient.Patch(ctx, nodeClass, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	nodeClass.Status = stored.Status // the answer need not have what is not yet written
	return errors.Wrap(err, "write finalizer and hash")
}

// rehash gives NodeClaims the hash of now. One that is drifted already keeps its hash: whether it would be drifted by the new one cannot be
// known.
func (c *Controller) rehash(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, hash string) error {
	nodeClaims, err := c.nodeClaims(ctx, nodeClass)
	if err != nil {
		return err
	}
	for i := range nodeClaims {
		nodeClaim := &nodeClaims[i]
		if nodeClaim.Annotations[csv1.AnnotationNodeClassHashVersion] == csv1.NodeClassHashVersion {
			continue
		}
		stored := nodeClaim.DeepCopy()
		annotations := map[string]string{csv1.AnnotationNodeClassHashVersion: csv1.NodeClassHashVersion}
		if nodeClaim.StatusConditions().Get(karpv1.ConditionTypeDrifted) == nil {
			annotations[csv1.AnnotationNodeClassHash] = hash
		}
		nodeClaim.Annotations = lo.Assign(nodeClaim.Annotations, annotations)
		err = multierr.Append(err, client.IgnoreNotFound(c.kubeClient.Patch(ctx, nodeClaim, client.MergeFrom(stored))))
	}
	return errors.Wrap(err, "write the hash of NodeClaims")
}

// finalize lets a CloudStackNodeClass go when no NodeClaim uses it: without it, core could not delete their machines.
func (c *Controller) finalize(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(nodeClass, csv1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	nodeClaims, err := c.nodeClaims(ctx, nodeClass)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(nodeClaims) > 0 {
		c.recorder.Publish(inUse(nodeClass, lo.Map(nodeClaims, func(n karpv1.NodeClaim, _ int) string { return n.Name })))
		return reconcile.Result{RequeueAfter: waiting}, nil
	}
	stored := nodeClass.DeepCopy()
	controllerutil.RemoveFinalizer(nodeClass, csv1.TerminationFinalizer)
	err = c.kubeClient.Patch(ctx, nodeClass, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return ignoreRaces(errors.Wrap(err, "take the finalizer away"))
	}
	log.FromContext(ctx).Info("the CloudStackNodeClass is no longer in use, and goes")
	return reconcile.Result{}, nil
}

func (c *Controller) nodeClaims(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]karpv1.NodeClaim, error) {
	nodeClaims := &karpv1.NodeClaimList{}
	err := c.kubeClient.List(ctx, nodeClaims, nodeclaimutils.ForNodeClass(nodeClass))
	return nodeClaims.Items, errors.Wrap(err, "list the NodeClaims of the CloudStackNodeClass")
}

// ignoreRaces: what another has written, or deleted, is looked at again, and is no error.
func ignoreRaces(err error) (reconcile.Result, error) {
	switch cause := errors.Cause(err); {
	case apierrors.IsConflict(cause):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case apierrors.IsNotFound(cause):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// wakeUp puts all CloudStackNodeClasses into the queue whenever something comes through wake, until the context ends. It does not wait for
// that.
func (c *Controller) wakeUp(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
			}
			nodeClasses := &csv1.CloudStackNodeClassList{}
			if err := c.kubeClient.List(ctx, nodeClasses); err != nil {
				log.FromContext(ctx).Error(err, "CloudStackNodeClasses are looked at later than they could be")
				continue
			}
			for i := range nodeClasses.Items {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&nodeClasses.Items[i])})
			}
		}
	}()
	return nil
}

// Register has the controller started by the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	kind := object.GVK(&csv1.CloudStackNodeClass{}).GroupKind()
	toNodeClass := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		nodeClaim, ok := o.(*karpv1.NodeClaim)
		if !ok || nodeClaim.Spec.NodeClassRef == nil || nodeClaim.Spec.NodeClassRef.GroupKind() != kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: nodeClaim.Spec.NodeClassRef.Name}}}
	})
	err := controllerruntime.NewControllerManagedBy(m).
		Named(c.Name()).
		// Our own writes of the status and of annotations change no generation.
		For(&csv1.CloudStackNodeClass{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&karpv1.NodeClaim{}, toNodeClass, builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(event.CreateEvent) bool { return false },
			UpdateFunc:  func(event.UpdateEvent) bool { return false },
			DeleteFunc:  func(event.DeleteEvent) bool { return true },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		WatchesRawSource(source.Func(c.wakeUp)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrent}).
		Complete(reconcile.AsReconciler(m.GetClient(), c))
	return errors.Wrap(err, "register the controller nodeclass")
}
