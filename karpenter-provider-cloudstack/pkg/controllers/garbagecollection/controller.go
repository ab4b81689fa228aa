// Package garbagecollection deletes machines of this cluster that no NodeClaim is for, and data disks that outlived their machines. Core
// looks the other way, for NodeClaims without a machine.
//
// A machine can lose its NodeClaim, or never have one in time: the process dies between the request for a machine and the answer, an answer
// is lost, a launch is given up while CloudStack goes on with it, someone takes the finalizer from a NodeClaim. Each of these machines costs
// money for ever. On the other hand, each machine that is deleted wrongly takes pods with it. So:
//
//   - Machines are listed first, NodeClaims after them: a machine in the list has had its NodeClaim since before. What seems to be garbage
//     is checked once more against NodeClaims from the API server itself, as a cache may stand still.
//   - A NodeClaim keeps the machine of its provider id. While it has none, it keeps those that have its name or its tag.
//   - A machine is garbage only when it is older than the grace, both as CloudStack and as this controller has seen it.
//   - A machine whose tags name another cluster, or another cluster of the same name, is never touched.
//   - Nothing is deleted while there are more nodes in use (registered by Karpenter, and Ready) without a NodeClaim than NodeClaims with a
//     machine. That is not how machines leak, but what a cluster looks like whose NodeClaims were lost: their CRD was deleted, or etcd
//     restored from an old backup. Deleting the Node of a machine that is not needed ends it.
//   - No more than a few are deleted in a cycle, so that there is time to look.
package garbagecollection

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	"go.uber.org/multierr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	corecloudprovider "sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	nodeutils "sigs.k8s.io/karpenter/pkg/utils/node"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudprovider"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

// Instances finds and deletes the machines of this cluster.
type Instances interface {
	// List lists all machines of the cluster, or has an error.
	List(ctx context.Context) ([]*instance.Instance, error)
	// Delete has a machine destroyed. The error is a NodeClaimNotFoundError where it is gone.
	Delete(ctx context.Context, id string) error
}

// Volumes finds and deletes disks.
type Volumes interface {
	ListVolumesByTag(ctx context.Context, scope cloudstack.Scope, key, value string) ([]*cloudstack.Volume, error)
	DeleteVolume(ctx context.Context, id string) error
}

// Groups deletes affinity groups that were made for NodePools that are gone.
type Groups interface {
	Cleanup(ctx context.Context) error
}

// Options bound what is deleted.
type Options struct {
	// ClusterName is the name of the cluster, ClusterUID the UID of its namespace kube-system. Both are needed: without them nothing is
	// deleted.
	ClusterName, ClusterUID string
	// ProviderIDFormat is that of the NodeClaims, besides those that are always read; see cloudprovider.ParseProviderID.
	ProviderIDFormat string
	// Grace is how old a machine is at least before it is taken for garbage. It has to be longer than a launch takes.
	Grace time.Duration
	// MaxDeletions is how many machines and disks are deleted in a cycle at most. Default: 10.
	MaxDeletions int
	// DryRun has garbage reported in logs, events and metrics, and not deleted.
	DryRun bool
	// Period is the time between two cycles. Default: 2 min.
	Period time.Duration
}

// Controller collects garbage.
type Controller struct {
	clock      clock.PassiveClock
	kubeClient client.Client
	reader     client.Reader
	recorder   events.Recorder
	instances  Instances
	volumes    Volumes
	groups     Groups
	options    Options

	// suspects are the machines and disks that seem to be garbage, since when.
	suspects map[string]time.Time
	// disksAt is when disks are looked at again.
	disksAt time.Time
}

// disksPeriod is the time between two looks at disks, of which few are ever left.
const disksPeriod = 10 * time.Minute

// parallel is how many machines are deleted at a time.
const parallel = 10

// NewController makes a controller. The reader asks the API server itself, the client may have a cache. Volumes and groups may be nil: they
// are not looked at then.
func NewController(
	clk clock.PassiveClock, kubeClient client.Client, reader client.Reader, recorder events.Recorder,
	instances Instances, volumes Volumes, groups Groups, options Options,
) *Controller {
	options.MaxDeletions = lo.CoalesceOrEmpty(options.MaxDeletions, 10)
	options.Period = lo.CoalesceOrEmpty(options.Period, 2*time.Minute)
	return &Controller{
		clock: clk, kubeClient: kubeClient, reader: reader, recorder: recorder, instances: instances, volumes: volumes, groups: groups,
		options: options, suspects: map[string]time.Time{},
	}
}

// Name is the name of the controller.
func (c *Controller) Name() string { return "instance.garbagecollection" }

// Reconcile runs one cycle.
func (c *Controller) Reconcile(ctx context.Context) (reconciler.Result, error) {
	ctx = injection.WithControllerName(ctx, c.Name())
	if c.options.ClusterName == "" || c.options.ClusterUID == "" {
		return c.refuse(ctx, "identity", "the name of the cluster or the UID of the namespace kube-system is not known", nil)
	}
	instances, err := c.instances.List(ctx)
	if err != nil {
		return reconciler.Result{}, errors.Wrap(err, "list machines")
	}
	cached := &karpv1.NodeClaimList{}
	if err := c.kubeClient.List(ctx, cached); err != nil {
		return reconciler.Result{}, errors.Wrap(err, "list NodeClaims")
	}
	garbage := c.garbage(ctx, instances, cached.Items)
	nodeClaims, fresh := cached.Items, false
	if len(garbage) > 0 {
		if nodeClaims, err = c.ask(ctx); err != nil {
			return reconciler.Result{}, err
		}
		fresh = true
		garbage = c.garbage(ctx, instances, nodeClaims)
	}
	c.remember(instances, garbage)
	orphans.WithLabelValues(kindInstance).Set(float64(len(garbage)))
	due := lo.Filter(garbage, func(i *instance.Instance, _ int) bool { return c.isDue(i.ID, i.Created) })
	slices.SortFunc(due, func(a, b *instance.Instance) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	nodes := &corev1.NodeList{}
	if err := c.kubeClient.List(ctx, nodes); err != nil {
		return reconciler.Result{}, errors.Wrap(err, "list nodes")
	}
	living := lo.Filter(due, func(i *instance.Instance, _ int) bool { return isInUse(c.nodeOf(i, nodes.Items)) })
	if len(living) > len(lo.Filter(nodeClaims, func(n karpv1.NodeClaim, _ int) bool { return isOurs(&n) && n.Status.ProviderID != "" })) {
		return c.refuse(ctx, "living_nodes", fmt.Sprintf(
			"%d machines whose nodes are registered and Ready have no NodeClaim, more than there are NodeClaims: were NodeClaims lost? "+
				"Restore them, or delete the Nodes that are not needed: %s",
			len(living), describe(living)), living)
	}
	left := c.options.MaxDeletions
	if len(due) > left {
		log.FromContext(ctx).Info("more garbage than is deleted in one cycle; the rest follows", "garbage", len(due), "limit", left)
	}
	err = c.deleteInstances(ctx, due[:min(len(due), left)], nodes.Items)
	left -= min(len(due), left)
	err = multierr.Append(err, c.disks(ctx, instances, nodeClaims, fresh, left))
	if c.groups != nil && !c.options.DryRun {
		err = multierr.Append(err, errors.Wrap(c.groups.Cleanup(ctx), "clean up affinity groups"))
	}
	if err != nil {
		return reconciler.Result{}, err
	}
	return reconciler.Result{RequeueAfter: c.options.Period}, nil
}

// ask lists NodeClaims from the API server itself.
func (c *Controller) ask(ctx context.Context) ([]karpv1.NodeClaim, error) {
	nodeClaims := &karpv1.NodeClaimList{}
	err := c.reader.List(ctx, nodeClaims)
	return nodeClaims.Items, errors.Wrap(err, "list NodeClaims from the API server")
}

// garbage are the machines of this cluster that no NodeClaim keeps, whatever their age.
func (c *Controller) garbage(ctx context.Context, instances []*instance.Instance, nodeClaims []karpv1.NodeClaim) []*instance.Instance {
	byID := map[string]bool{}
	var launching []*karpv1.NodeClaim
	for i := range nodeClaims {
		nodeClaim := &nodeClaims[i]
		if !isOurs(nodeClaim) {
			continue
		}
		if nodeClaim.Status.ProviderID == "" {
			launching = append(launching, nodeClaim)
			continue
		}
		id, err := c.parse(nodeClaim.Status.ProviderID)
		if err != nil {
			// It is not known which machine it keeps: it keeps what has its name.
			log.FromContext(ctx).Error(err, "the provider id of a NodeClaim cannot be read", "NodeClaim", nodeClaim.Name)
			launching = append(launching, nodeClaim)
			continue
		}
		byID[id] = true
	}
	byName := lo.SliceToMap(launching, func(n *karpv1.NodeClaim) (string, bool) { return n.Name, true })
	return lo.Filter(instances, func(i *instance.Instance, _ int) bool {
		switch {
		case i.Deleting || byID[i.ID]:
			return false
		case c.isForeign(i.Tags):
			return false
		case i.State == cloudstack.StateError:
			// It never ran and never will. A launch that goes on makes another.
			return true
		case byName[i.Tags[csv1.TagNodeClaim]]:
			return false
		}
		return !lo.ContainsBy(launching, func(n *karpv1.NodeClaim) bool { return instance.IsNameOf(i.Name, n) })
	})
}

// isForeign tells whether tags name another cluster, or another cluster of the same name. The list of machines has none of these; this is
// for the day on which it does.
func (c *Controller) isForeign(tags map[string]string) bool {
	name, hasName := tags[csv1.TagManagedBy]
	uid, hasUID := tags[csv1.TagClusterUID]
	return hasName && name != c.options.ClusterName || hasUID && uid != c.options.ClusterUID
}

// remember keeps since when machines have seemed to be garbage, and forgets those that do not.
func (c *Controller) remember(instances, garbage []*instance.Instance) {
	seems := lo.SliceToMap(garbage, func(i *instance.Instance) (string, bool) { return i.ID, true })
	for _, i := range instances {
		if !seems[i.ID] {
			delete(c.suspects, i.ID)
		}
	}
	for id := range seems {
		if _, known := c.suspects[id]; !known {
			c.suspects[id] = c.clock.Now()
		}
	}
	// What CloudStack no longer lists is not forgotten above.
	for id, since := range c.suspects {
		if !seems[id] && c.clock.Since(since) > 24*time.Hour {
			delete(c.suspects, id)
		}
	}
}

// isDue tells whether something is old enough to be deleted. A machine of which CloudStack does not tell when it was made is as old as it
// has been looked at.
func (c *Controller) isDue(id string, created time.Time) bool {
	if created.IsZero() {
		created = c.suspects[id]
	}
	return !created.IsZero() && c.clock.Since(created) >= c.options.Grace
}

func (c *Controller) deleteInstances(ctx context.Context, due []*instance.Instance, nodes []corev1.Node) error {
	errs := make([]error, len(due))
	workqueue.ParallelizeUntil(ctx, parallel, len(due), func(n int) {
		errs[n] = c.deleteInstance(ctx, due[n], c.nodeOf(due[n], nodes))
	})
	return multierr.Combine(errs...)
}

func (c *Controller) deleteInstance(ctx context.Context, i *instance.Instance, node *corev1.Node) error {
	logger := log.FromContext(ctx).WithValues("machine", i.Name, "id", i.ID, "state", i.State, "created", i.Created,
		"nodeclaim", i.Tags[csv1.TagNodeClaim])
	if c.options.DryRun {
		logger.Info("machine without a NodeClaim found; it is not deleted in a dry run")
		collected.WithLabelValues(kindInstance, resultDryRun).Inc()
		c.recorder.Publish(found(i, "Machine "+i.Name+" has no NodeClaim, and would be deleted if this were no dry run"))
		return nil
	}
	if err := c.instances.Delete(ctx, i.ID); corecloudprovider.IgnoreNodeClaimNotFoundError(err) != nil {
		collected.WithLabelValues(kindInstance, resultFailed).Inc()
		return errors.Wrapf(err, "delete machine %s (%s), which has no NodeClaim", i.Name, i.ID)
	}
	logger.Info("machine without a NodeClaim deleted")
	collected.WithLabelValues(kindInstance, resultDeleted).Inc()
	c.recorder.Publish(found(i, "Machine "+i.Name+" had no NodeClaim, and was deleted"))
	if node == nil {
		return nil
	}
	// Where no cloud controller manager runs, nobody else takes the node away.
	return errors.Wrapf(client.IgnoreNotFound(c.kubeClient.Delete(ctx, node)), "delete the node of machine %s", i.Name)
}

// refuse deletes nothing, and says why.
func (c *Controller) refuse(ctx context.Context, reason, message string, instances []*instance.Instance) (reconciler.Result, error) {
	refused.WithLabelValues(reason).Inc()
	log.FromContext(ctx).Error(nil, "no garbage is collected", "reason", message)
	for _, nodeClass := range lo.Uniq(lo.Map(instances, func(i *instance.Instance, _ int) string { return i.Tags[csv1.TagNodeClass] })) {
		c.recorder.Publish(refusal(nodeClass, "No garbage is collected: "+message))
	}
	return reconciler.Result{RequeueAfter: c.options.Period}, nil
}

func (c *Controller) parse(providerID string) (string, error) {
	return cloudprovider.ParseProviderID(providerID, c.options.ProviderIDFormat)
}

// isOurs tells whether a NodeClaim is of this provider.
func isOurs(nodeClaim *karpv1.NodeClaim) bool {
	return nodeClaim.Spec.NodeClassRef != nil && nodeClaim.Spec.NodeClassRef.Group == csv1.Group
}

// nodeOf is the node of a machine: by its provider id, or by its name where it has none. Nil where there is none.
func (c *Controller) nodeOf(i *instance.Instance, nodes []corev1.Node) *corev1.Node {
	for n := range nodes {
		node := &nodes[n]
		if node.Spec.ProviderID == "" {
			if node.Name == i.Name {
				return node
			}
			continue
		}
		if id, err := c.parse(node.Spec.ProviderID); err == nil && id == i.ID {
			return node
		}
	}
	return nil
}

// isInUse tells whether a node runs pods: Karpenter has let them on it, and it lives. A machine that joined after its NodeClaim was given
// up is no such node.
func isInUse(node *corev1.Node) bool {
	return node != nil && node.Labels[karpv1.NodeRegisteredLabelKey] == "true" &&
		nodeutils.GetCondition(node, corev1.NodeReady).Status == corev1.ConditionTrue
}

func describe(instances []*instance.Instance) string {
	const shown = 5
	names := lo.Map(instances, func(i *instance.Instance, _ int) string { return i.Name })
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// Register has the controller started by the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	err := controllerruntime.NewControllerManagedBy(m).
		Named(c.Name()).
		WatchesRawSource(singleton.Source()).
		// After an outage of CloudStack the next cycle does not come much later than usual.
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, c.options.Period),
		}).
		Complete(singleton.AsReconciler(c))
	return errors.Wrap(err, "register the controller of garbage collection")
}
