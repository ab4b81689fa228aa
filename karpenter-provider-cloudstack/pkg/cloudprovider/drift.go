package cloudprovider

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

// Reasons of drift.
const (
	// DriftNodeClass is for a NodeClass whose fields a machine cannot follow.
	DriftNodeClass cloudprovider.DriftReason = "NodeClassDrift"
	// DriftZone is for a machine in a zone that is no longer one of the NodeClass.
	DriftZone cloudprovider.DriftReason = "ZoneDrift"
	// DriftTemplate is for a machine of a template that another has taken the place of.
	DriftTemplate cloudprovider.DriftReason = "TemplateDrift"
	// DriftServiceOffering is for a machine whose offering was changed, or that the NodeClass no longer chooses.
	DriftServiceOffering cloudprovider.DriftReason = "ServiceOfferingDrift"
	// DriftNetwork is for a machine that is not in the networks that one of the NodeClass would be in.
	DriftNetwork cloudprovider.DriftReason = "NetworkDrift"
	// DriftSecurityGroup is for a machine with other security groups.
	DriftSecurityGroup cloudprovider.DriftReason = "SecurityGroupDrift"
)

// IsDrifted implements cloudprovider.CloudProvider. It compares the fields of the NodeClass by their hash, as far as both hashes are of one
// version, and then what the machine has with what was found for the selectors. What is not known is no drift: a NodeClass that is not ready,
// or was changed and not looked at since, replaces no machine, and a machine that was made seconds ago is looked at next time.
func (c *CloudProvider) IsDrifted(ctx context.Context, nodeClaim *karpv1.NodeClaim) (cloudprovider.DriftReason, error) {
	nodeClass, err := c.nodeClass(ctx, nodeClaim.Spec.NodeClassRef)
	if err != nil {
		if kerrors.IsNotFound(err) {
			return "", nil
		}
		return "", err
	}
	if staticDrift(nodeClass, nodeClaim) {
		return DriftNodeClass, nil
	}
	id, err := ParseProviderID(nodeClaim.Status.ProviderID, c.options.ProviderIDFormat)
	if err != nil {
		return "", err
	}
	machine, asOf, err := c.listed.find(ctx, id)
	if err == nil && machine == nil {
		if launched := nodeClaim.StatusConditions().Get(karpv1.ConditionTypeLaunched); launched.IsTrue() && launched.LastTransitionTime.After(asOf) {
			return "", nil
		}
		machine, err = c.instances.Get(ctx, id)
	}
	if err != nil {
		return "", err
	}
	return c.drift(ctx, nodeClass, nodeClaim, machine)
}

func staticDrift(nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim) bool {
	classHash, classVersion := nodeClass.Annotations[csv1.AnnotationNodeClassHash], nodeClass.Annotations[csv1.AnnotationNodeClassHashVersion]
	hash, version := nodeClaim.Annotations[csv1.AnnotationNodeClassHash], nodeClaim.Annotations[csv1.AnnotationNodeClassHashVersion]
	if classHash == "" || hash == "" || version == "" || classVersion != version {
		return false
	}
	return classHash != hash
}

func (c *CloudProvider) drift(
	ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim, machine *instance.Instance,
) (cloudprovider.DriftReason, error) {
	if machine.Deleting || machine.State == cloudstack.StateError {
		return "", nil
	}
	// Each resolver has its condition; one that did not get through says nothing of its part.
	known := func(condition string) bool {
		found := nodeClass.StatusConditions().Get(condition)
		return found != nil && found.IsTrue() && found.ObservedGeneration == nodeClass.Generation
	}
	if !known(csv1.ConditionZonesReady) {
		return "", nil
	}
	zone, ok := lo.Find(nodeClass.Status.Zones, func(z csv1.ZoneStatus) bool { return z.ID == machine.ZoneID })
	if !ok {
		return DriftZone, nil
	}
	if known(csv1.ConditionTemplatesReady) && templateDrift(nodeClass, nodeClaim, machine) {
		return DriftTemplate, nil
	}
	if known(csv1.ConditionNetworksReady) && networkDrift(nodeClass, machine) {
		return DriftNetwork, nil
	}
	if zone.SecurityGroupsEnabled && known(csv1.ConditionSecurityGroupsReady) && len(nodeClass.Spec.SecurityGroupSelectorTerms) > 0 {
		want := lo.Map(nodeClass.Status.SecurityGroups, func(g csv1.SecurityGroupStatus, _ int) string { return g.ID })
		if !sets.New(want...).Equal(sets.New(machine.SecurityGroupIDs...)) {
			return DriftSecurityGroup, nil
		}
	}
	if was := nodeClaim.Labels[csv1.LabelServiceOfferingID]; was != "" && was != machine.OfferingID {
		return DriftServiceOffering, nil
	}
	if known(csv1.ConditionOfferingsReady) {
		offerings, err := c.types.Offerings(ctx, nodeClass)
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(offerings, func(o *cloudstack.ServiceOffering) bool { return o.Id == machine.OfferingID }) {
			return DriftServiceOffering, nil
		}
	}
	return "", nil
}

// templateDrift tells whether a new machine would be of another template. Where there is none of its architecture, no new one could take its
// place.
func templateDrift(nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim, machine *instance.Instance) bool {
	arch := lo.CoalesceOrEmpty(nodeClaim.Labels[corev1.LabelArchStable], machine.Architecture)
	templates := lo.Filter(nodeClass.Status.Templates, func(t csv1.TemplateStatus, _ int) bool {
		return t.ZoneID == machine.ZoneID && (arch == "" || t.Architecture == arch)
	})
	return len(templates) > 0 && !slices.ContainsFunc(templates, func(t csv1.TemplateStatus) bool { return t.ID == machine.TemplateID })
}

// networkDrift tells whether a machine is in another network than one that it would be started in, or lacks a further one. Networks that
// someone has added besides are let be.
func networkDrift(nodeClass *csv1.CloudStackNodeClass, machine *instance.Instance) bool {
	inZone := func(networks []csv1.NetworkStatus) []string {
		return lo.FilterMap(networks, func(n csv1.NetworkStatus, _ int) (string, bool) { return n.ID, n.ZoneID == machine.ZoneID })
	}
	if first := inZone(nodeClass.Status.Networks); len(first) > 0 {
		if len(machine.NetworkIDs) == 0 || !slices.Contains(first, machine.NetworkIDs[0]) {
			return true
		}
	}
	return !lo.Every(machine.NetworkIDs, inZone(nodeClass.Status.AdditionalNetworks))
}

const (
	// errorFor is how long an error of the list of machines stands for all who ask.
	errorFor = 15 * time.Second
	// renewAfter is how old the list is at least that a machine is missing in before there is another: many are launched at a time.
	renewAfter = 30 * time.Second
)

// listing is a list of machines that is some minutes old at most. Core looks for drift claim by claim; a request for each would be most of
// what is asked of CloudStack.
type listing struct {
	list  func(context.Context) ([]*instance.Instance, error)
	age   time.Duration
	clock clock.Clock

	mu    sync.Mutex
	asOf  time.Time
	until time.Time
	err   error
	byID  map[string]*instance.Instance
}

// find finds a machine; nil where the list has none. The list that it looks in is complete, and as of the time that is returned, which is
// never longer ago than the age.
func (l *listing) find(ctx context.Context, id string) (*instance.Instance, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	missing := l.err == nil && l.byID[id] == nil && now.Sub(l.asOf) >= renewAfter
	if missing || !now.Before(l.until) {
		machines, err := l.list(ctx)
		if ctx.Err() != nil {
			return nil, now, ctx.Err()
		}
		l.asOf, l.until, l.err = now, now.Add(lo.Ternary(err == nil, l.age, errorFor)), err
		l.byID = lo.KeyBy(machines, func(m *instance.Instance) string { return m.ID })
	}
	return l.byID[id], l.asOf, l.err
}
