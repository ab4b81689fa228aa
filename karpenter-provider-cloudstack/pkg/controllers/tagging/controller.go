// Package tagging keeps the tags of machines as they have to be. Tags cannot be given to a machine when it is made, and the request that
// follows may be lost; people change tags; and those of a CloudStackNodeClass change while machines run.
package tagging

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/samber/lo"
	"go.uber.org/multierr"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/operator/injection"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudprovider"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

const (
	// period is the time between two looks at all machines.
	period = 5 * time.Minute
	// parallel is how many machines are tagged at a time.
	parallel = 5
	// annotationTagKeys has the keys of the tags of the CloudStackNodeClass that the machine of a NodeClaim was given, a JSON list: so that
	// a tag that is taken from the CloudStackNodeClass can be taken from the machine, and no other.
	annotationTagKeys = csv1.Group + "/tag-keys"
)

// Results of the metric.
const (
	resultWritten = "written"
	resultFailed  = "failed"
)

var written = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: "karpenter", Subsystem: "cloudstack", Name: "tag_corrections_total",
	Help: "Machines whose tags were not as they have to be, by result (written, failed).",
}, []string{"result"})

func init() { metrics.Registry.MustRegister(written) }

// Instances has the machines of this cluster, and their tags.
type Instances interface {
	// List lists all machines of the cluster, or has an error.
	List(ctx context.Context) ([]*instance.Instance, error)
	// Tags are the tags that the machine of a NodeClaim has to have.
	Tags(nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim) map[string]string
	// EnsureTags writes the tags that a machine lacks, or has with other values.
	EnsureTags(ctx context.Context, instance *instance.Instance, want map[string]string) error
}

// API takes tags away.
type API interface {
	DeleteTags(ctx context.Context, resourceType string, ids, keys []string) (cloudstack.Job, error)
	ListVolumes(ctx context.Context, scope cloudstack.Scope, machineID string) ([]*cloudstack.Volume, error)
	WaitForJob(ctx context.Context, job cloudstack.Job) error
}

// Controller tags machines.
type Controller struct {
	kubeClient client.Client
	instances  Instances
	api        API
	format     string
}

// NewController makes a controller. The format is that of provider ids, besides those that are always read; see
// cloudprovider.ParseProviderID.
func NewController(kubeClient client.Client, instances Instances, api API, providerIDFormat string) *Controller {
	return &Controller{kubeClient: kubeClient, instances: instances, api: api, format: providerIDFormat}
}

// Name is the name of the controller.
func (c *Controller) Name() string { return "instance.tagging" }

// Reconcile looks at all machines. One list shows the tags of all of them: that is fewer requests than one for each.
func (c *Controller) Reconcile(ctx context.Context) (reconciler.Result, error) {
	ctx = injection.WithControllerName(ctx, c.Name())
	nodeClaims, nodeClasses, err := c.objects(ctx)
	if err != nil {
		return reconciler.Result{}, err
	}
	if len(nodeClaims) == 0 {
		return reconciler.Result{RequeueAfter: period}, nil
	}
	instances, err := c.instances.List(ctx)
	if err != nil {
		return reconciler.Result{}, errors.Wrap(err, "list machines")
	}
	instances = lo.Filter(instances, func(i *instance.Instance, _ int) bool {
		return !i.Deleting && i.State != cloudstack.StateError && nodeClaims[i.ID] != nil
	})
	errs := make([]error, len(instances))
	workqueue.ParallelizeUntil(ctx, parallel, len(instances), func(n int) {
		nodeClaim := nodeClaims[instances[n].ID]
		nodeClass := nodeClasses[nodeClaim.Spec.NodeClassRef.Name]
		if nodeClass == nil {
			return
		}
		errs[n] = errors.Wrapf(c.tag(ctx, nodeClass, nodeClaim, instances[n]), "tag machine %s", instances[n].Name)
	})
	if err := multierr.Combine(errs...); err != nil {
		return reconciler.Result{}, err
	}
	return reconciler.Result{RequeueAfter: period}, nil
}

// objects are the NodeClaims that stay, by the ids of their machines, and the CloudStackNodeClasses, by their names.
func (c *Controller) objects(ctx context.Context) (map[string]*karpv1.NodeClaim, map[string]*csv1.CloudStackNodeClass, error) {
	nodeClaimList := &karpv1.NodeClaimList{}
	if err := c.kubeClient.List(ctx, nodeClaimList); err != nil {
		return nil, nil, errors.Wrap(err, "list NodeClaims")
	}
	nodeClassList := &csv1.CloudStackNodeClassList{}
	if err := c.kubeClient.List(ctx, nodeClassList); err != nil {
		return nil, nil, errors.Wrap(err, "list CloudStackNodeClasses")
	}
	nodeClaims := map[string]*karpv1.NodeClaim{}
	for i := range nodeClaimList.Items {
		nodeClaim := &nodeClaimList.Items[i]
		if nodeClaim.Spec.NodeClassRef == nil || nodeClaim.Spec.NodeClassRef.Group != csv1.Group || !nodeClaim.DeletionTimestamp.IsZero() {
			continue
		}
		if id, err := cloudprovider.ParseProviderID(nodeClaim.Status.ProviderID, c.format); err == nil {
			nodeClaims[id] = nodeClaim
		}
	}
	nodeClasses := map[string]*csv1.CloudStackNodeClass{}
	for i := range nodeClassList.Items {
		nodeClasses[nodeClassList.Items[i].Name] = &nodeClassList.Items[i]
	}
	return nodeClaims, nodeClasses, nil
}

func (c *Controller) tag(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim, i *instance.Instance) error {
	want := c.instances.Tags(nodeClass, nodeClaim)
	missing := lo.PickBy(want, func(key, value string) bool { return i.Tags[key] != value })
	dropped := lo.Filter(recorded(nodeClaim), func(key string, _ int) bool {
		_, wanted := want[key]
		_, there := i.Tags[key]
		return there && !wanted && !isOwnership(key)
	})
	if len(missing) > 0 || len(dropped) > 0 {
		err := c.write(ctx, i, want, missing, dropped)
		written.WithLabelValues(lo.Ternary(err == nil, resultWritten, resultFailed)).Inc()
		if err != nil {
			return err
		}
		log.FromContext(ctx).Info("tags of a machine corrected", "machine", i.Name, "id", i.ID, "written", sortedKeys(missing), "taken", dropped)
	}
	return c.record(ctx, nodeClass, nodeClaim)
}

func (c *Controller) write(ctx context.Context, i *instance.Instance, want, missing map[string]string, dropped []string) error {
	if len(missing) > 0 {
		if err := c.instances.EnsureTags(ctx, i, want); err != nil {
			return err
		}
	}
	if len(dropped) == 0 {
		return nil
	}
	if err := c.drop(ctx, cloudstack.ResourceVirtualMachine, []string{i.ID}, dropped); err != nil {
		return err
	}
	volumes, err := c.api.ListVolumes(ctx, cloudstack.Scope{ProjectID: i.ProjectID}, i.ID)
	if err != nil {
		return errors.Wrap(err, "list its disks")
	}
	for _, volume := range volumes {
		tags := cloudstack.TagsOf(volume.Tags)
		// A disk without the tag of the cluster is not ours, such as one of a CSI driver.
		if tags[csv1.TagManagedBy] != want[csv1.TagManagedBy] {
			continue
		}
		if keys := lo.Filter(dropped, func(key string, _ int) bool { return lo.HasKey(tags, key) }); len(keys) > 0 {
			if err := c.drop(ctx, cloudstack.ResourceVolume, []string{volume.Id}, keys); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Controller) drop(ctx context.Context, resourceType string, ids, keys []string) error {
	job, err := c.api.DeleteTags(ctx, resourceType, ids, keys)
	if err == nil {
		err = c.api.WaitForJob(ctx, job)
	}
	return errors.Wrap(err, "take tags away")
}

// record writes into the NodeClaim that its machine has its tags, and which of them came from the CloudStackNodeClass.
func (c *Controller) record(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim) error {
	stored := nodeClaim.DeepCopy()
	nodeClaim.Annotations = lo.Assign(nodeClaim.Annotations, map[string]string{csv1.AnnotationInstanceTagged: "true"})
	if keys := sortedKeys(nodeClass.Spec.Tags); len(keys) > 0 {
		text, err := json.Marshal(keys)
		if err != nil {
			return errors.Wrap(err, "write the keys of tags")
		}
		nodeClaim.Annotations[annotationTagKeys] = string(text)
	} else {
		delete(nodeClaim.Annotations, annotationTagKeys)
	}
	if equality.Semantic.DeepEqual(stored.Annotations, nodeClaim.Annotations) {
		return nil
	}
	return errors.Wrap(client.IgnoreNotFound(c.kubeClient.Patch(ctx, nodeClaim, client.MergeFrom(stored))), "annotate the NodeClaim")
}

// recorded are the keys of the tags that the machine was given for its CloudStackNodeClass.
func recorded(nodeClaim *karpv1.NodeClaim) []string {
	var keys []string
	if json.Unmarshal([]byte(nodeClaim.Annotations[annotationTagKeys]), &keys) != nil {
		return nil
	}
	return keys
}

func isOwnership(key string) bool {
	return strings.HasPrefix(key, "karpenter.sh/") || strings.HasPrefix(key, csv1.Group+"/")
}

func sortedKeys(m map[string]string) []string {
	keys := lo.Keys(m)
	slices.Sort(keys)
	return keys
}

// Register has the controller started by the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	err := controllerruntime.NewControllerManagedBy(m).
		Named(c.Name()).
		WatchesRawSource(singleton.Source()).
		// A change of tags is a change of the generation.
		Watches(&csv1.CloudStackNodeClass{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{}}
		}), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, period),
		}).
		Complete(singleton.AsReconciler(c))
	return errors.Wrap(err, "register the controller of tags")
}
