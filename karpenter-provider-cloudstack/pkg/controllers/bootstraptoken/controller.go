// Package bootstraptoken deletes bootstrap tokens that are no longer needed: their machine has joined, their NodeClaim is gone, or their
// time is over. A token that is left would let anyone who finds it join the cluster.
package bootstraptoken

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/multierr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/operator/injection"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
)

const (
	// period is the time between two looks.
	period = time.Minute
	// grace is how old a token is at least before it is deleted for want of a NodeClaim: the list of NodeClaims may be older than it.
	grace = 5 * time.Minute
)

// Reasons for which tokens are deleted, labels of the metric.
const (
	reasonRegistered = "registered"
	reasonExpired    = "expired"
	reasonOrphaned   = "orphaned"
)

var deleted = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: "karpenter", Subsystem: "cloudstack", Name: "bootstrap_tokens_deleted_total",
	Help: "Bootstrap tokens that were deleted, by reason (registered, expired, orphaned).",
}, []string{"reason"})

func init() { metrics.Registry.MustRegister(deleted) }

// Controller deletes bootstrap tokens.
type Controller struct {
	clock      clock.PassiveClock
	kubeClient client.Client
	reader     client.Reader
}

// NewController makes a controller. The reader asks the API server itself: a cache would hold Secrets.
func NewController(clk clock.PassiveClock, kubeClient client.Client, reader client.Reader) *Controller {
	return &Controller{clock: clk, kubeClient: kubeClient, reader: reader}
}

// Name is the name of the controller.
func (c *Controller) Name() string { return "bootstraptoken" }

// Reconcile looks at all tokens that were made here.
func (c *Controller) Reconcile(ctx context.Context) (reconciler.Result, error) {
	ctx = injection.WithControllerName(ctx, c.Name())
	secrets := &corev1.SecretList{}
	err := c.reader.List(ctx, secrets, client.InNamespace(bootstrap.TokenNamespace), client.MatchingLabels{bootstrap.LabelToken: "true"})
	switch {
	case apierrors.IsForbidden(err):
		// Who may not make tokens has none to delete: these rights are given for mintToken only.
		log.FromContext(ctx).V(1).Info("bootstrap tokens may not be listed, so that none is deleted")
		return reconciler.Result{RequeueAfter: period}, nil
	case err != nil:
		return reconciler.Result{}, errors.Wrap(err, "list bootstrap tokens")
	}
	if len(secrets.Items) == 0 {
		return reconciler.Result{RequeueAfter: period}, nil
	}
	nodeClaims := &karpv1.NodeClaimList{}
	if err := c.kubeClient.List(ctx, nodeClaims); err != nil {
		return reconciler.Result{}, errors.Wrap(err, "list NodeClaims")
	}
	byUID := map[string]*karpv1.NodeClaim{}
	for i := range nodeClaims.Items {
		byUID[string(nodeClaims.Items[i].UID)] = &nodeClaims.Items[i]
	}
	var errs error
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		reason := c.reason(secret, byUID[secret.Labels[bootstrap.LabelTokenNodeClaimUID]])
		if reason == "" || secret.Type != corev1.SecretTypeBootstrapToken {
			continue
		}
		// The preconditions: the token may have been made to last in the meantime.
		err := c.kubeClient.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
		if apierrors.IsConflict(err) {
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			errs = multierr.Append(errs, errors.Wrapf(err, "delete the bootstrap token %s", secret.Name))
			continue
		}
		deleted.WithLabelValues(reason).Inc()
		log.FromContext(ctx).V(1).Info("bootstrap token deleted", "Secret", secret.Name, "reason", reason,
			"NodeClaim", secret.Annotations[bootstrap.AnnotationTokenNodeClaim])
	}
	if errs != nil {
		return reconciler.Result{}, errs
	}
	return reconciler.Result{RequeueAfter: period}, nil
}

// reason is why a token is no longer needed; empty where it is.
func (c *Controller) reason(secret *corev1.Secret, nodeClaim *karpv1.NodeClaim) string {
	switch {
	case nodeClaim != nil && nodeClaim.StatusConditions().Get(karpv1.ConditionTypeRegistered).IsTrue():
		return reasonRegistered
	case c.clock.Now().After(bootstrap.TokenExpiration(secret)):
		return reasonExpired
	case nodeClaim == nil && c.clock.Since(secret.CreationTimestamp.Time) > grace:
		return reasonOrphaned
	}
	return ""
}

// Register has the controller started by the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	err := controllerruntime.NewControllerManagedBy(m).
		Named(c.Name()).
		WatchesRawSource(singleton.Source()).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, period),
		}).
		Complete(singleton.AsReconciler(c))
	return errors.Wrap(err, "register the controller of bootstrap tokens")
}
