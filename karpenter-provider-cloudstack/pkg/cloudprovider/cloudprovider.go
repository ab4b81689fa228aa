// Package cloudprovider is what Karpenter's core asks of a cloud, answered for Apache CloudStack.
package cloudprovider

import (
	"context"
	"strings"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// Name is the name of this cloud provider.
const Name = "cloudstack"

// Reasons of CreateErrors.
const (
	ReasonNodeClassUnknown = "NodeClassReadinessUnknown"
	ReasonInstanceTypes    = "InstanceTypesFailed"
)

// Overlays changes instance types by what NodeOverlays say. *nodeoverlay.InstanceTypeStore of core does.
type Overlays interface {
	ApplyAll(nodePool string, types []*cloudprovider.InstanceType) ([]*cloudprovider.InstanceType, error)
}

// Full tells of zones that have no host left for the affinity group of a NodePool. affinity.Provider does.
type Full interface {
	IsFull(nodeClass *csv1.CloudStackNodeClass, nodePool, zone string) bool
}

// Options configure a CloudProvider.
type Options struct {
	// ProviderIDFormat is the format of provider ids, see ProviderID.
	ProviderIDFormat string
	// Overlays are NodeOverlays, which count with core's feature gate; nil for none.
	Overlays Overlays
	// Full tells of full affinity groups; nil for none.
	Full Full
	// DriftAge is how old the list of machines may be that drift is looked for in. Default: 2 min.
	DriftAge time.Duration
	// RepairToleration is how long a node may be not ready before it is replaced, see RepairPolicies. Default: 10 min.
	RepairToleration time.Duration
	// Clock tells the time. Default: that of the system.
	Clock clock.Clock
}

// CloudProvider implements cloudprovider.CloudProvider of core. It is safe for concurrent use.
type CloudProvider struct {
	instances instance.Provider
	types     instancetype.Provider
	kube      client.Client
	recorder  events.Recorder
	options   Options
	listed    *listing
}

var _ cloudprovider.CloudProvider = (*CloudProvider)(nil)

// New makes a CloudProvider. It makes no request.
func New(
	instances instance.Provider, instanceTypes instancetype.Provider, kube client.Client, recorder events.Recorder, options Options,
) *CloudProvider {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.DriftAge == 0 {
		options.DriftAge = 2 * time.Minute
	}
	if options.RepairToleration == 0 {
		options.RepairToleration = 10 * time.Minute
	}
	return &CloudProvider{
		instances: instances, types: instanceTypes, kube: kube, recorder: recorder, options: options,
		listed: &listing{list: instances.List, age: options.DriftAge, clock: options.Clock},
	}
}

// ExpungePolicy tells whether machines of a NodeClass are expunged, for instance.Options. Those of one that is gone are, as is the default.
func ExpungePolicy(reader client.Reader) func(ctx context.Context, nodeClass string) (bool, error) {
	return func(ctx context.Context, name string) (bool, error) {
		nodeClass := &csv1.CloudStackNodeClass{}
		if name != "" {
			if err := reader.Get(ctx, types.NamespacedName{Name: name}, nodeClass); client.IgnoreNotFound(err) != nil {
				return false, errors.Wrapf(err, "read CloudStackNodeClass %s", name)
			}
		}
		return nodeClass.Expunges(), nil
	}
}

// Name implements cloudprovider.CloudProvider.
func (*CloudProvider) Name() string { return Name }

// GetSupportedNodeClasses implements cloudprovider.CloudProvider.
func (*CloudProvider) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&csv1.CloudStackNodeClass{}}
}

// RepairPolicies implements cloudprovider.CloudProvider: nodes that have not been ready for Options.RepairToleration are replaced. They count
// with core's feature gate NodeRepair.
func (c *CloudProvider) RepairPolicies() []cloudprovider.RepairPolicy {
	return []cloudprovider.RepairPolicy{
		{ConditionType: corev1.NodeReady, ConditionStatus: corev1.ConditionFalse, TolerationDuration: c.options.RepairToleration},
		{ConditionType: corev1.NodeReady, ConditionStatus: corev1.ConditionUnknown, TolerationDuration: c.options.RepairToleration},
	}
}

// Create implements cloudprovider.CloudProvider.
func (c *CloudProvider) Create(ctx context.Context, nodeClaim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	nodeClass, err := c.nodeClass(ctx, nodeClaim.Spec.NodeClassRef)
	if err != nil {
		if kerrors.IsNotFound(err) {
			c.recorder.Publish(nodeClassMissing(nodeClaim, nodeClaim.Spec.NodeClassRef))
			// Core deletes the NodeClaim then; another comes when the NodePool is ready again.
			return nil, cloudprovider.NewInsufficientCapacityError(err)
		}
		return nil, cloudprovider.NewCreateError(err, ReasonNodeClassUnknown, err.Error())
	}
	if err := ready(nodeClass); err != nil {
		return nil, err
	}
	nodePool := nodeClaim.Labels[karpv1.NodePoolLabelKey]
	instanceTypes, err := c.types.List(ctx, nodeClass)
	if err == nil && nodePool != "" && c.options.Overlays != nil && options.FromContext(ctx).FeatureGates.NodeOverlay {
		instanceTypes, err = c.options.Overlays.ApplyAll(nodePool, instanceTypes)
	}
	if err != nil {
		reason := ReasonInstanceTypes
		if wrong, ok := selector.As(err); ok {
			reason = wrong.Reason
		}
		return nil, cloudprovider.NewCreateError(errors.Wrap(err, "find out the instance types"), reason, err.Error())
	}
	machine, err := c.instances.Create(ctx, nodeClass, nodeClaim, instanceTypes)
	if err != nil {
		c.recorder.Publish(launchFailed(nodeClaim, err)...)
		return nil, err
	}
	it, ok := lo.Find(instanceTypes, func(it *cloudprovider.InstanceType) bool { return it.Name == machine.InstanceTypeName })
	if !ok {
		return nil, errors.Errorf("machine %s is of instance type %s, which there is no more", machine.Name, machine.InstanceTypeName)
	}
	return c.launched(nodeClass, nodeClaim, machine, it), nil
}

// ready tells why no machine can be made of a NodeClass, if so.
func ready(nodeClass *csv1.CloudStackNodeClass) error {
	condition := nodeClass.StatusConditions().Get(status.ConditionReady)
	name := nodeClass.Name
	switch {
	case condition == nil || condition.IsUnknown():
		err := errors.Errorf("it is not known yet whether CloudStackNodeClass %s is ready", name)
		return cloudprovider.NewCreateError(err, ReasonNodeClassUnknown, err.Error())
	case condition.ObservedGeneration != nodeClass.Generation:
		return cloudprovider.NewNodeClassNotReadyError(errors.Errorf("CloudStackNodeClass %s was changed, and not looked at since", name))
	case condition.IsFalse():
		return cloudprovider.NewNodeClassNotReadyError(errors.Errorf("CloudStackNodeClass %s: %s", name, condition.Message))
	}
	return nil
}

// nodeClass reads a NodeClass. One that is being deleted is not found: a machine of it would keep it from going.
func (c *CloudProvider) nodeClass(ctx context.Context, ref *karpv1.NodeClassReference) (*csv1.CloudStackNodeClass, error) {
	if ref == nil {
		return nil, errors.New("the NodeClaim names no NodeClass")
	}
	nodeClass := &csv1.CloudStackNodeClass{}
	if err := c.kube.Get(ctx, types.NamespacedName{Name: ref.Name}, nodeClass); err != nil {
		return nil, errors.Wrapf(err, "read CloudStackNodeClass %s", ref.Name)
	}
	if !nodeClass.DeletionTimestamp.IsZero() {
		return nil, errors.Wrapf(kerrors.NewNotFound(
			csv1.SchemeGroupVersion.WithResource("cloudstacknodeclasses").GroupResource(), ref.Name), "CloudStackNodeClass %s is being deleted", ref.Name)
	}
	return nodeClass, nil
}

// launched is the NodeClaim of a machine, with all that core wants to know of it.
func (c *CloudProvider) launched(
	nodeClass *csv1.CloudStackNodeClass, wanted *karpv1.NodeClaim, machine *instance.Instance, it *cloudprovider.InstanceType,
) *karpv1.NodeClaim {
	nodeClaim := c.nodeClaim(machine)
	capacity, allocatable := it.Capacity, it.Allocatable()
	if offering, group := offeringOf(it, machine); offering != nil {
		nodeClaim.Labels = lo.Assign(nodeClaim.Labels, instance.Labels(wanted, it, offering, machine.Architecture))
		allocatable = group.Allocatable
		if len(offering.CapacityOverride) > 0 {
			capacity = resources.Merge(capacity, offering.CapacityOverride)
		}
	}
	nonZero := func(_ corev1.ResourceName, q resource.Quantity) bool { return !q.IsZero() }
	nodeClaim.Status.Capacity = lo.PickBy(capacity, nonZero)
	nodeClaim.Status.Allocatable = lo.PickBy(allocatable, nonZero)
	// A machine that an earlier call has made may be of a NodeClass that was changed since.
	hash, version := machine.Tags[csv1.AnnotationNodeClassHash], machine.Tags[csv1.AnnotationNodeClassHashVersion]
	if hash == "" || version == "" {
		hash, version = nodeClass.Hash(), csv1.NodeClassHashVersion
	}
	nodeClaim.Annotations = map[string]string{
		csv1.AnnotationNodeClassHash:        hash,
		csv1.AnnotationNodeClassHashVersion: version,
		csv1.AnnotationTemplateID:           machine.TemplateID,
		csv1.AnnotationNetworkIDs:           strings.Join(machine.NetworkIDs, ","),
	}
	if machine.Tags[csv1.TagNodeClaim] == wanted.Name {
		nodeClaim.Annotations[csv1.AnnotationInstanceTagged] = "true"
	}
	return nodeClaim
}

// offeringOf is the offering that a machine is of, and what its nodes can allocate. An offering may have become unavailable by now.
func offeringOf(it *cloudprovider.InstanceType, machine *instance.Instance) (*cloudprovider.Offering, cloudprovider.AllocatableOfferings) {
	is := func(o *cloudprovider.Offering) bool {
		return o.Zone() == machine.ZoneName && o.CapacityType() == machine.CapacityType
	}
	groups := it.AllocatableOfferingsList()
	for _, group := range groups {
		if offering, ok := lo.Find(group.Offerings, is); ok {
			return offering, group
		}
	}
	if offering, ok := lo.Find(it.Offerings, is); ok {
		return offering, groups[0]
	}
	return nil, cloudprovider.AllocatableOfferings{}
}

// nodeClaim is what is known of a machine without anything else.
func (c *CloudProvider) nodeClaim(machine *instance.Instance) *karpv1.NodeClaim {
	labels := lo.PickBy(map[string]string{
		corev1.LabelTopologyZone:       selector.LabelValue(machine.ZoneName),
		corev1.LabelInstanceTypeStable: machine.InstanceTypeName,
		corev1.LabelArchStable:         machine.Architecture,
		karpv1.CapacityTypeLabelKey:    machine.CapacityType,
		karpv1.NodePoolLabelKey:        machine.Tags[csv1.TagNodePool],
		csv1.LabelServiceOfferingID:    machine.OfferingID,
	}, func(_, value string) bool { return value != "" && len(validation.IsValidLabelValue(value)) == 0 })
	nodeClaim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: lo.CoalesceOrEmpty(machine.Tags[csv1.TagNodeClaim], machine.Name), Labels: labels, CreationTimestamp: metav1.NewTime(machine.Created),
			Annotations: map[string]string{},
		},
		Status: karpv1.NodeClaimStatus{
			NodeName: machine.Name, ProviderID: ProviderID(c.options.ProviderIDFormat, machine.ID), ImageID: machine.TemplateID,
		},
	}
	if machine.Deleting {
		nodeClaim.DeletionTimestamp = lo.ToPtr(metav1.NewTime(c.options.Clock.Now()))
	}
	return nodeClaim
}

// Delete implements cloudprovider.CloudProvider.
func (c *CloudProvider) Delete(ctx context.Context, nodeClaim *karpv1.NodeClaim) error {
	id, err := ParseProviderID(nodeClaim.Status.ProviderID, c.options.ProviderIDFormat)
	if err != nil {
		return err
	}
	return c.instances.Delete(ctx, id)
}

// Get implements cloudprovider.CloudProvider. Nothing of the answer is cached.
func (c *CloudProvider) Get(ctx context.Context, providerID string) (*karpv1.NodeClaim, error) {
	id, err := ParseProviderID(providerID, c.options.ProviderIDFormat)
	if err != nil {
		return nil, err
	}
	machine, err := c.instances.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.nodeClaim(machine), nil
}

// List implements cloudprovider.CloudProvider. It is complete, or there is an error: core takes what is missing for gone.
func (c *CloudProvider) List(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	machines, err := c.instances.List(ctx)
	if err != nil {
		return nil, err
	}
	return lo.Map(machines, func(m *instance.Instance, _ int) *karpv1.NodeClaim { return c.nodeClaim(m) }), nil
}

// GetInstanceTypes implements cloudprovider.CloudProvider. All are returned, also those that there is no room for.
func (c *CloudProvider) GetInstanceTypes(ctx context.Context, nodePool *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	nodeClass, err := c.nodeClass(ctx, nodePool.Spec.Template.Spec.NodeClassRef)
	if err != nil {
		if kerrors.IsNotFound(err) {
			c.recorder.Publish(nodeClassMissing(nodePool, nodePool.Spec.Template.Spec.NodeClassRef))
		}
		return nil, err
	}
	instanceTypes, err := c.types.List(ctx, nodeClass)
	if err != nil || c.options.Full == nil {
		return instanceTypes, err
	}
	full := map[string]bool{}
	for _, zone := range nodeClass.Status.Zones {
		full[zone.Name] = c.options.Full.IsFull(nodeClass, nodePool.Name, zone.Name)
	}
	for _, it := range instanceTypes {
		for _, offering := range it.Offerings {
			offering.Available = offering.Available && !full[offering.Zone()]
		}
	}
	return instanceTypes, nil
}
