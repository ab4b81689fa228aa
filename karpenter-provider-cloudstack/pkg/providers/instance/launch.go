package instance

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"go.uber.org/multierr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// Reasons of CreateErrors, and labels of the metric of failures.
const (
	ReasonNameTaken        = "NameTaken"
	ReasonInProgress       = "LaunchInProgress"
	ReasonLaunchFailed     = "LaunchFailed"
	ReasonUnauthorized     = "Unauthorized"
	ReasonThrottled        = "Throttled"
	ReasonAffinity         = "AffinityGroupFailed"
	ReasonUserData         = "UserDataFailed"
	ReasonUnreachable      = "CloudStackUnreachable"
	ReasonNoCapacity       = "InsufficientCapacity"
	ReasonNoAddress        = "NoAddress"
	ReasonLimit            = "ResourceLimit"
	ReasonInvalidParameter = "InvalidParameters"
)

const (
	// pinnedFor is how long a request is remembered that there was no answer to.
	pinnedFor = 15 * time.Minute
	// looksForLost is how often a machine is looked for after such a request, requestsForLost how often that is made.
	looksForLost, requestsForLost = 3, 2
	// jobPatience is how long the result of a job is waited for that has ended, as the state of its machine tells.
	jobPatience = 30 * time.Second
	// jobGlance is how long a job is looked at that may not have begun.
	jobGlance = 3 * time.Second
	// messageLength bounds messages of conditions.
	messageLength = 600
)

// target is where a machine is tried.
type target struct{ instanceType, zoneID, capacityType, templateID, networkID string }

// candidate is a target, with all that is known of it.
type candidate struct {
	target
	zone     csv1.ZoneStatus
	template csv1.TemplateStatus
	it       *cloudprovider.InstanceType
	offering *cloudprovider.Offering
	price    float64
	order    uint32
}

// launch is one call of Create.
type launch struct {
	*DefaultProvider
	nodeClass    *csv1.CloudStackNodeClass
	nodeClaim    *karpv1.NodeClaim
	types        []*cloudprovider.InstanceType
	requirements scheduling.Requirements
	scope        cloudstack.Scope
	nodeName     string
	nodePool     string
	// taken are the names that machines have or had.
	taken sets.Set[string]
	// full are the errors of attempts for which there was no room, wrong those of all others.
	full, wrong error
}

// Create implements Provider.
func (p *DefaultProvider) Create(
	ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim, types []*cloudprovider.InstanceType,
) (*Instance, error) {
	l := &launch{
		DefaultProvider: p, nodeClass: nodeClass, nodeClaim: nodeClaim, types: types,
		requirements: scheduling.NewNodeSelectorRequirementsWithMinValues(nodeClaim.Spec.Requirements...),
		scope:        selector.Scope(nodeClass),
		nodeName:     NodeName(nodeClaim), nodePool: nodeClaim.Labels[karpv1.NodePoolLabelKey], taken: sets.New[string](),
	}
	began := p.options.Clock.Now()
	// Two calls for one NodeClaim at a time would both find nothing, and both make a machine.
	shared, err, _ := p.launches.Do(l.nodeName, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, p.options.LaunchTimeout)
		defer cancel()
		found, err := l.run(ctx)
		if err != nil {
			launchFailures.WithLabelValues(reasonOf(err)).Inc()
			return nil, err
		}
		created.WithLabelValues(found.ZoneName, found.CapacityType).Inc()
		launchDurations.WithLabelValues(found.ZoneName).Observe(p.options.Clock.Since(began).Seconds())
		return *found, nil
	})
	if err != nil {
		return nil, err
	}
	found, _ := shared.(Instance)
	return &found, nil
}

func (l *launch) run(ctx context.Context) (*Instance, error) {
	if found, err := l.settle(ctx, l.family); found != nil || err != nil {
		return found, err
	}
	candidates := l.candidates()
	if len(candidates) == 0 {
		return nil, cloudprovider.NewInsufficientCapacityError(errors.Errorf("no instance type of %d fits and has room", len(l.types)))
	}
	for attempts := 0; len(candidates) > 0 && attempts < l.options.MaxAttempts; attempts++ {
		one := candidates[0]
		candidates = candidates[1:]
		found, skip, err := l.attempt(ctx, one)
		if found != nil || err != nil {
			return found, err
		}
		candidates = slices.DeleteFunc(candidates, skip)
	}
	if l.wrong != nil {
		// Some of it may pass: the NodeClaim is tried again, and less what there was no room for.
		return nil, createError(multierr.Append(l.wrong, l.full), ReasonLaunchFailed)
	}
	return nil, cloudprovider.NewInsufficientCapacityError(l.full)
}

// settle looks for machines of the NodeClaim that there are already. It returns one that runs, or waits until it does. What failed is
// destroyed. Where it returns neither a machine nor an error, there is none, and a new one may be made.
func (l *launch) settle(
	ctx context.Context, look func(context.Context, cloudstack.Scope, string) ([]*cloudstack.VirtualMachine, error),
) (*Instance, error) {
	machines, err := look(ctx, l.scope, l.nodeName)
	if err != nil {
		return nil, createError(errors.Wrap(err, "look for a machine that was made before"), reasonOfCall(err))
	}
	var alive []*cloudstack.VirtualMachine
	for _, m := range machines {
		l.taken.Insert(m.Name)
		_, destroyed := l.destroyed.get(m.Id)
		switch {
		case !l.owns(m):
			return nil, createError(errors.WithMessagef(errForeign(m), "the name %s is needed, and taken", m.Name), ReasonNameTaken)
		case destroyed || cloudstack.IsGone(m.State):
		case m.State == cloudstack.StateError:
			if err := l.discard(ctx, m); err != nil {
				return nil, err
			}
		default:
			alive = append(alive, m)
		}
	}
	if len(alive) == 0 {
		return nil, nil
	}
	// There is one at most, unless two controllers were at work. The one that has come furthest stays.
	slices.SortFunc(alive, func(a, b *cloudstack.VirtualMachine) int {
		return cmp.Or(cmp.Compare(progress(b.State), progress(a.State)), strings.Compare(a.Name, b.Name), strings.Compare(a.Id, b.Id))
	})
	for _, m := range alive[1:] {
		if err := l.discard(ctx, m); err != nil {
			return nil, err
		}
	}
	return l.adopt(ctx, alive[0])
}

// progress tells how far a machine has come.
func progress(state string) int {
	switch state {
	case cloudstack.StateRunning, cloudstack.StateMigrating:
		return 3
	case cloudstack.StateStarting:
		return 2
	case cloudstack.StateStopped:
		return 1
	}
	return 0
}

// adopt takes a machine that was made before. It returns nothing where that cannot be used, and is destroyed.
func (l *launch) adopt(ctx context.Context, m *cloudstack.VirtualMachine) (*Instance, error) {
	it, offering := l.match(m)
	if it == nil {
		log.FromContext(ctx).Info("a machine that was made before does not fit the node claim any more", "machine", m.Name, "id", m.Id)
		return nil, l.discard(ctx, m)
	}
	log.FromContext(ctx).Info("a machine that was made before is used", "machine", m.Name, "id", m.Id, "state", m.State)
	tags := l.tags(it, offering)
	if _, tagged := cloudstack.TagsOf(m.Tags)[csv1.TagNodeClaim]; !tagged {
		l.tag(ctx, m.Id, tags)
	}
	running, err := l.await(ctx, m.Id, cloudstack.Job{})
	if err != nil {
		return nil, l.fail(ctx, candidate{target: target{
			instanceType: it.Name, zoneID: m.Zoneid, capacityType: offering.CapacityType(), templateID: m.Templateid,
		}, zone: csv1.ZoneStatus{ID: m.Zoneid, Name: offering.Zone()}, it: it, offering: offering}, m.Id, err, nil)
	}
	return l.finish(ctx, running, it, offering, tags)
}

// match finds the instance type and the offering that a machine is of, among those that fit the NodeClaim.
func (l *launch) match(m *cloudstack.VirtualMachine) (*cloudprovider.InstanceType, *cloudprovider.Offering) {
	tags := cloudstack.TagsOf(m.Tags)
	// The label of a zone need not be its name.
	zone, _ := lo.Find(l.nodeClass.Status.Zones, func(z csv1.ZoneStatus) bool { return z.ID == m.Zoneid })
	for _, it := range l.types {
		if name := tags[TagInstanceType]; name != "" && name != it.Name ||
			!it.Requirements.Get(csv1.LabelServiceOfferingID).Has(m.Serviceofferingid) ||
			!it.Requirements.Get(csv1.LabelInstanceCPU).Has(strconv.Itoa(m.Cpunumber)) ||
			!it.Requirements.Get(csv1.LabelInstanceMemory).Has(strconv.Itoa(m.Memory)) ||
			!l.fits(it) {
			continue
		}
		offerings := lo.Filter(it.Offerings.Compatible(l.requirements), func(o *cloudprovider.Offering, _ int) bool {
			return o.Zone() == zone.Name && (tags[TagCapacityType] == "" || tags[TagCapacityType] == o.CapacityType())
		})
		if len(offerings) > 0 {
			return it, offerings.Cheapest()
		}
	}
	return nil, nil
}

func (l *launch) fits(it *cloudprovider.InstanceType) bool {
	return l.requirements.Compatible(it.Requirements, scheduling.AllowUndefinedWellKnownLabels) == nil
}

// candidates are where the machine may be made, the cheapest first.
func (l *launch) candidates() []candidate {
	var all []candidate
	zones := lo.KeyBy(l.nodeClass.Status.Zones, func(z csv1.ZoneStatus) string { return z.Name })
	for _, it := range l.types {
		if !l.fits(it) {
			continue
		}
		for _, group := range it.AllocatableOfferingsList() {
			if !resources.Fits(l.nodeClaim.Spec.Resources.Requests, group.Allocatable) {
				continue
			}
			for _, offering := range group.Offerings.Compatible(l.requirements) {
				zone, known := zones[offering.Zone()]
				if !known || l.unavailable.IsUnavailable(it.Name, zone.Name, offering.CapacityType()) ||
					l.affinity.IsFull(l.nodeClass, l.nodePool, zone.Name) {
					continue
				}
				all = append(all, l.places(it, offering, zone)...)
			}
		}
	}
	pinned, isPinned := l.pinned.get(l.nodeName)
	first := func(c candidate) int { return lo.Ternary(isPinned && c.target == pinned, 0, 1) }
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(first(a)-first(b), cmp.Compare(a.price, b.price),
			cmp.Compare(rank(a.capacityType), rank(b.capacityType)), cmp.Compare(a.order, b.order))
	})
	return all
}

// places are where an offering may be used in a zone: with each template of an architecture that fits, in each network with room.
func (l *launch) places(it *cloudprovider.InstanceType, offering *cloudprovider.Offering, zone csv1.ZoneStatus) []candidate {
	networks := lo.FilterMap(l.nodeClass.Status.Networks, func(n csv1.NetworkStatus, _ int) (string, bool) {
		return n.ID, n.ZoneID == zone.ID
	})
	if len(networks) == 0 {
		// CloudStack has a network of its own for zones with security groups.
		networks = []string{""}
	}
	var all []candidate
	for _, template := range l.nodeClass.Status.Templates {
		if template.ZoneID != zone.ID || !l.requirements.Get(corev1.LabelArchStable).Has(template.Architecture) ||
			!it.Requirements.Get(corev1.LabelArchStable).Has(template.Architecture) ||
			!offering.Requirements.Get(corev1.LabelArchStable).Has(template.Architecture) {
			continue
		}
		for _, network := range networks {
			if network != "" && l.unavailable.IsNetworkUnavailable(network) {
				continue
			}
			t := target{
				instanceType: it.Name, zoneID: zone.ID, capacityType: offering.CapacityType(), templateID: template.ID, networkID: network,
			}
			all = append(all, candidate{
				target: t, zone: zone, template: template, it: it, offering: offering, price: offering.Price, order: l.order(zone.ID, network),
			})
		}
	}
	return all
}

// rank has what is paid for anyway used first.
func rank(capacityType string) int {
	switch capacityType {
	case karpv1.CapacityTypeReserved:
		return 0
	case karpv1.CapacityTypeSpot:
		return 1
	}
	return 2
}

// order spreads NodeClaims over zones and networks of one price, always in the same way for one NodeClaim.
func (l *launch) order(place ...string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.nodeName + "/" + strings.Join(place, "/")))
	return h.Sum32()
}

// none skips nothing.
func none(candidate) bool { return false }

// attempt makes a machine, and waits until it runs. Where there is neither a machine nor an error, the next candidate is to be tried that
// skip leaves.
func (l *launch) attempt(ctx context.Context, c candidate) (found *Instance, skip func(candidate) bool, err error) {
	deployment, err := l.deployment(ctx, c)
	if err != nil || deployment == nil {
		return nil, func(other candidate) bool { return other.instanceType == c.instanceType && other.zoneID == c.zoneID }, err
	}
	tags := l.tags(c.it, c.offering)
	for request := 1; ; request++ {
		deployment.Name = l.freeName()
		if deployment.Name == "" {
			return nil, none, createError(errors.Errorf("all %d names of the machines of %s are taken by ones that failed: expunge them",
				attemptsNamed, l.nodeName), ReasonNameTaken)
		}
		deployment.DisplayName = l.group + "-" + deployment.Name
		if deployment.UserData, err = l.userData(ctx, c, deployment.Name); err != nil {
			return nil, none, err
		}
		id, job, err := l.deploy(ctx, *deployment)
		switch {
		case err == nil:
			l.pinned.forget(l.nodeName)
			l.taken.Insert(deployment.Name)
			return l.launched(ctx, c, id, job, tags)
		case cloudstack.IsUnknownResult(err) || isInternal(err):
			// The machine may be in the making. Another request has to be the same, so that CloudStack refuses a second machine.
			l.pinned.put(l.nodeName, c.target)
			if found, settled := l.settleLost(ctx); found != nil || settled != nil {
				return found, none, settled
			}
			if request < requestsForLost && ctx.Err() == nil {
				continue
			}
			if !isInternal(err) {
				return nil, none, createError(err, ReasonUnreachable)
			}
		case cloudstack.IsNameTaken(err):
			// By a machine of an earlier request, or by one that failed and cannot be seen any more.
			l.taken.Insert(deployment.Name)
			if found, settled := l.settle(ctx, l.familyAlone); found != nil || settled != nil {
				return found, none, settled
			}
			request--
			continue
		}
		l.pinned.forget(l.nodeName)
		err = l.fail(ctx, c, "", err, &skip)
		return nil, skip, err
	}
}

// isInternal tells whether CloudStack met with something unforeseen, and may have done a part of what was asked.
func isInternal(err error) bool {
	var e *cloudstack.Error
	return errors.As(err, &e) && e.Code == cloudstack.CodeInternal
}

// settleLost looks for a machine whose request had no answer.
func (l *launch) settleLost(ctx context.Context) (*Instance, error) {
	for look := 0; look < looksForLost; look++ {
		if !l.pause(ctx, l.options.Poll) {
			return nil, inProgress(ctx, l.nodeName)
		}
		if found, err := l.settle(ctx, l.familyAlone); found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// freeName is the first name that no machine has or had; empty where there is none.
func (l *launch) freeName() string {
	for n := 1; n <= attemptsNamed; n++ {
		if name := nameOfAttempt(l.nodeName, n); !l.taken.Has(name) {
			return name
		}
	}
	return ""
}

// deploy makes the request, when it is its turn.
func (l *launch) deploy(ctx context.Context, deployment cloudstack.Deployment) (string, cloudstack.Job, error) {
	select {
	case l.deploys <- struct{}{}:
	case <-ctx.Done():
		return "", cloudstack.Job{}, ctx.Err()
	}
	defer func() { <-l.deploys }()
	return l.api.DeployVirtualMachine(ctx, deployment)
}

// deployment is what CloudStack is asked for, less the name and the user data. There is none where the offering is not for the zone.
func (l *launch) deployment(ctx context.Context, c candidate) (*cloudstack.Deployment, error) {
	offering, err := l.DefaultProvider.types.Offering(ctx, l.nodeClass, c.instanceType)
	if err != nil {
		l.wrong = multierr.Append(l.wrong, errors.Wrapf(err, "instance type %s", c.instanceType))
		return nil, nil
	}
	if offering.ZoneIDs != nil && !slices.Contains(offering.ZoneIDs, c.zoneID) {
		l.full = multierr.Append(l.full, errors.Errorf("instance type %s is not for zone %s", c.instanceType, c.zone.Name))
		return nil, nil
	}
	groups, err := l.affinity.Groups(ctx, l.nodeClass, l.nodePool)
	if err != nil {
		return nil, createError(errors.Wrap(err, "affinity groups"), lo.Ternary(ctx.Err() == nil, ReasonAffinity, ReasonInProgress))
	}
	spec := l.nodeClass.Spec
	d := &cloudstack.Deployment{
		Scope: l.scope, Group: l.group, ZoneID: c.zoneID, ServiceOfferingID: offering.OfferingID, TemplateID: c.templateID,
		AffinityGroupIDs: groups, SSHKeyPairs: spec.SSHKeyPairs, Details: spec.Details,
		CPUNumber: offering.CPU, CPUSpeedMHz: offering.CPUSpeedMHz, MemoryMiB: offering.MemoryMiB,
		RootDiskOfferingID: offering.RootDiskOfferingID,
		DataDisks: lo.Map(offering.DataDiskOfferingIDs, func(id string, i int) cloudstack.DataDisk {
			return cloudstack.DataDisk{DiskOfferingID: id, SizeGiB: lo.FromPtr(spec.DataDisks[i].SizeGiB)}
		}),
	}
	if c.networkID != "" {
		d.NetworkIDs = append(d.NetworkIDs, c.networkID)
	}
	for _, network := range l.nodeClass.Status.AdditionalNetworks {
		if network.ZoneID == c.zoneID {
			d.NetworkIDs = append(d.NetworkIDs, network.ID)
		}
	}
	if c.zone.SecurityGroupsEnabled {
		d.SecurityGroupIDs = lo.Map(l.nodeClass.Status.SecurityGroups, func(g csv1.SecurityGroupStatus, _ int) string { return g.ID })
	}
	if spec.RootDisk != nil {
		d.RootDiskGiB = lo.FromPtr(spec.RootDisk.SizeGiB)
	}
	return d, nil
}

// userData is what the machine is told.
func (l *launch) userData(ctx context.Context, c candidate, name string) (string, error) {
	taints := slices.Concat(l.nodeClaim.Spec.Taints, l.nodeClaim.Spec.StartupTaints)
	if !lo.ContainsBy(taints, func(t corev1.Taint) bool { return t.MatchTaint(&karpv1.UnregisteredNoExecuteTaint) }) {
		taints = append(taints, karpv1.UnregisteredNoExecuteTaint)
	}
	userData, err := l.renderer.Render(ctx, bootstrap.Request{
		NodeClass: l.nodeClass, NodeClaim: l.nodeClaim, NodeName: name, ZoneName: c.zone.Name, InstanceType: c.it,
		Labels:           lo.Assign(Labels(l.nodeClaim, c.it, c.offering, c.template.Architecture), l.nodeClaim.Labels),
		Taints:           taints,
		ProviderIDPrefix: l.options.ProviderIDPrefix,
	})
	var problem *bootstrap.Error
	switch {
	case err == nil:
		return userData, nil
	case errors.As(err, &problem):
		return "", createError(err, problem.Reason)
	}
	return "", createError(errors.Wrap(err, "user data"), ReasonUserData)
}

// Labels are the labels of a node: what its NodeClaim, instance type and offering require that has one value, as far as labels can have
// that value. Architecture is that of its template; empty where it is not known.
func Labels(
	nodeClaim *karpv1.NodeClaim, it *cloudprovider.InstanceType, offering *cloudprovider.Offering, architecture string,
) map[string]string {
	labels := map[string]string{}
	add := func(requirements scheduling.Requirements) {
		for _, r := range requirements {
			if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 && len(validation.IsValidLabelValue(r.Any())) == 0 {
				labels[r.Key] = r.Any()
			}
		}
	}
	add(scheduling.NewNodeSelectorRequirementsWithMinValues(nodeClaim.Spec.Requirements...))
	add(it.Requirements)
	add(offering.Requirements)
	labels[corev1.LabelInstanceTypeStable] = it.Name
	if architecture != "" {
		labels[corev1.LabelArchStable] = architecture
	}
	return labels
}

// tags are those of the NodeClaim, and what another call has to know of the machine.
func (l *launch) tags(it *cloudprovider.InstanceType, offering *cloudprovider.Offering) map[string]string {
	tags := l.Tags(l.nodeClass, l.nodeClaim)
	tags[TagInstanceType], tags[TagCapacityType] = it.Name, offering.CapacityType()
	tags[csv1.AnnotationNodeClassHash], tags[csv1.AnnotationNodeClassHashVersion] = l.nodeClass.Hash(), csv1.NodeClassHashVersion
	if n := len(l.nodeClass.Spec.DataDisks); n > 0 {
		tags[TagDataDisks] = strconv.Itoa(n)
	}
	return tags
}

// tag asks for the tags of a new machine. It does not wait, and what fails is not lost: the machine is known by its group and its name, and
// whoever finds it without tags writes them.
func (p *DefaultProvider) tag(ctx context.Context, id string, tags map[string]string) {
	if _, err := p.api.CreateTags(ctx, cloudstack.ResourceVirtualMachine, []string{id}, tags); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Info("a new machine has no tags yet", "id", id, "error", err.Error())
	}
}

// launched waits for a machine that was asked for.
func (l *launch) launched(
	ctx context.Context, c candidate, id string, job cloudstack.Job, tags map[string]string,
) (found *Instance, skip func(candidate) bool, err error) {
	skip = none
	l.tag(ctx, id, tags)
	m, err := l.await(ctx, id, job)
	if err != nil {
		err = l.fail(ctx, c, id, err, &skip)
		return nil, skip, err
	}
	found, err = l.finish(ctx, m, c.it, c.offering, tags)
	return found, skip, err
}

// errVanished is for a machine that was destroyed while it was made.
var errVanished = errors.New("the machine was destroyed while it was made")

// await waits until a machine runs. The error is a failed where it never will, errVanished where it is gone, and an unsettled where it is
// not known what becomes of it. States tell all but the cause of a failure, and are read for many machines at once; jobs have to be asked
// for one by one. A machine that stays stopped is started: the job that should have done it has ended with its management server.
func (l *launch) await(ctx context.Context, id string, job cloudstack.Job) (*cloudstack.VirtualMachine, error) {
	var stopped time.Time
	// A machine without a job is adopted, and may run already.
	for pause, wait := l.options.Poll, job.ID != ""; ; wait = true {
		if wait {
			if !l.pause(ctx, pause) {
				return nil, inProgress(ctx, l.nodeName)
			}
			pause = min(pause*3/2, l.options.PollMax)
		}
		m, err := l.byID.get(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil, inProgress(ctx, l.nodeName)
		case err != nil:
			return nil, &unsettled{err}
		case m == nil || cloudstack.IsGone(m.State):
			return nil, errVanished
		case m.State == cloudstack.StateRunning:
			return m, nil
		case m.State == cloudstack.StateError:
			return nil, l.result(ctx, job, errors.Errorf("machine %s is in state Error", m.Name))
		case m.State != cloudstack.StateStopped:
			stopped = time.Time{}
			continue
		case stopped.IsZero():
			stopped = time.Now()
			continue
		case time.Since(stopped) < l.options.StartAfter:
			continue
		}
		stopped = time.Now()
		if job.ID != "" {
			if job, err = l.glance(ctx, job); err != nil {
				return nil, err
			}
			continue
		}
		log.FromContext(ctx).Info("a machine that stays stopped is started", "machine", m.Name, "id", id)
		if job, err = l.api.StartVirtualMachine(ctx, id); err != nil {
			return nil, lo.Ternary[error](cloudstack.IsInsufficientCapacity(err) || cloudstack.IsBadRequest(err), &failed{err}, &unsettled{err})
		}
	}
}

// glance looks at the job of a machine that is stopped. It returns the job where that goes on, and none where it has ended without failing.
func (l *launch) glance(ctx context.Context, job cloudstack.Job) (cloudstack.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, jobGlance)
	defer cancel()
	err := l.api.WaitForJob(ctx, job)
	switch {
	case ctx.Err() != nil:
		return job, nil
	case err == nil || cloudstack.IsNotFound(err):
		return cloudstack.Job{}, nil
	}
	return job, &failed{err}
}

// result is why a machine failed, as its job tells; otherwise where that cannot be found out.
func (l *launch) result(ctx context.Context, job cloudstack.Job, otherwise error) error {
	if job.ID == "" {
		return &failed{otherwise}
	}
	ctx, cancel := context.WithTimeout(ctx, jobPatience)
	defer cancel()
	if err := l.api.WaitForJob(ctx, job); err != nil && ctx.Err() == nil && !cloudstack.IsNotFound(err) {
		return &failed{err}
	}
	return &failed{otherwise}
}

// failed is for a machine that has failed for good.
type failed struct{ error }

// Unwrap returns the cause.
func (e *failed) Unwrap() error { return e.error }

// unsettled is for a machine of which it is not known what becomes of it.
type unsettled struct{ error }

// Unwrap returns the cause.
func (e *unsettled) Unwrap() error { return e.error }

// fail handles the error of a request or of a machine with that id. It returns nil where another candidate may be tried, and sets skip
// to those for which there is no room either.
func (l *launch) fail(ctx context.Context, c candidate, id string, err error, skip *func(candidate) bool) error {
	if skip == nil {
		skip = new(func(candidate) bool)
	}
	*skip = none
	var create *cloudprovider.CreateError
	var open *unsettled
	switch {
	case errors.As(err, &create):
		return err
	case ctx.Err() != nil:
		return inProgress(ctx, l.nodeName)
	case errors.As(err, &open):
		return createError(err, reasonOfCall(err))
	}
	if id != "" && !errors.Is(err, errVanished) {
		m, readErr := l.byID.get(ctx, id)
		if readErr != nil {
			return createError(readErr, reasonOfCall(readErr))
		}
		// Whatever it is about to become: only what is destroyed cannot turn out well after another was made.
		if m != nil && !cloudstack.IsGone(m.State) {
			if err := l.discard(ctx, m); err != nil {
				return err
			}
		}
	}
	log.FromContext(ctx).Info("a machine could not be made", "instance-type", c.instanceType, "zone", c.zone.Name, "capacity-type",
		c.capacityType, "network", c.networkID, "error", err.Error())
	here := errors.WithMessagef(err, "%s in zone %s", c.instanceType, c.zone.Name)
	// A candidate that is adopted has no network, and is not known by it.
	same := func(other candidate) bool {
		return other.instanceType == c.instanceType && other.zoneID == c.zoneID && other.capacityType == c.capacityType
	}
	switch {
	case cloudstack.IsUnauthorized(err):
		return createError(err, ReasonUnauthorized)
	case cloudstack.IsThrottled(err):
		return createError(err, ReasonThrottled)
	case cloudstack.IsNoAddress(err) && c.networkID != "":
		l.full = multierr.Append(l.full, here)
		l.unavailable.MarkNetwork(ctx, ReasonNoAddress, c.networkID)
		*skip = func(other candidate) bool { return other.networkID == c.networkID }
	case cloudstack.IsLimit(err):
		l.full = multierr.Append(l.full, here)
		*skip = l.limited(ctx, c, err)
	case cloudstack.IsInsufficientCapacity(err) && l.affinity.IsHard(l.nodeClass):
		// Hosts without a machine of the group have run out, and others may have room for other machines.
		l.full = multierr.Append(l.full, here)
		l.affinity.MarkFull(ctx, l.nodeClass, l.nodePool, c.zone.Name)
		*skip = func(other candidate) bool { return other.zoneID == c.zoneID }
	case cloudstack.IsInsufficientCapacity(err) && strings.Contains(err.Error(), "[DataCenter:"):
		l.full = multierr.Append(l.full, here)
		l.unavailable.MarkZone(ctx, ReasonNoCapacity, c.zone.Name)
		*skip = func(other candidate) bool { return other.zoneID == c.zoneID }
	case cloudstack.IsInsufficientCapacity(err):
		l.full = multierr.Append(l.full, here)
		l.unavailable.Mark(ctx, ReasonNoCapacity, c.instanceType, c.zone.Name, c.capacityType)
		*skip = func(other candidate) bool { return same(other) && other.templateID == c.templateID }
	case cloudstack.IsBadRequest(err):
		l.wrong = multierr.Append(l.wrong, here)
		// It may be a group that was deleted.
		l.affinity.Forget(l.nodeClass, l.nodePool)
		*skip = same
	default:
		l.wrong = multierr.Append(l.wrong, here)
	}
	return nil
}

// limited handles a limit of the account: what is not smaller is of no use in any zone.
func (l *launch) limited(ctx context.Context, c candidate, err error) func(candidate) bool {
	text := strings.ToLower(err.Error())
	not := func(name corev1.ResourceName) func(*cloudprovider.InstanceType) bool {
		return func(it *cloudprovider.InstanceType) bool {
			mine, other := c.it.Capacity[name], it.Capacity[name]
			return other.Cmp(mine) >= 0
		}
	}
	useless := func(*cloudprovider.InstanceType) bool { return true }
	switch {
	case strings.Contains(text, "cpu"):
		useless = not(corev1.ResourceCPU)
	case strings.Contains(text, "memory"):
		useless = not(corev1.ResourceMemory)
	}
	for _, it := range l.types {
		if !useless(it) {
			continue
		}
		for _, offering := range it.Offerings {
			l.unavailable.Mark(ctx, ReasonLimit, it.Name, offering.Zone(), offering.CapacityType())
		}
	}
	return func(other candidate) bool { return useless(other.it) }
}

// discard has a machine of ours destroyed. Its name stays taken.
func (l *launch) discard(ctx context.Context, m *cloudstack.VirtualMachine) error {
	err := l.destroy(ctx, m, l.nodeClass.Expunges())
	switch {
	case err == nil:
		l.follow(ctx, m, l.nodeClass.Expunges())
		return nil
	case cloudstack.IsNotFound(err):
		return nil
	case ctx.Err() != nil:
		return inProgress(ctx, l.nodeName)
	}
	return createError(errors.Wrapf(err, "destroy machine %s (%s), which failed or is one too many", m.Name, m.Id), reasonOfCall(err))
}

// finish is a machine that runs, with its tags.
func (l *launch) finish(
	ctx context.Context, m *cloudstack.VirtualMachine, it *cloudprovider.InstanceType, offering *cloudprovider.Offering, tags map[string]string,
) (*Instance, error) {
	found := l.instance(m)
	if _, tagged := found.Tags[csv1.TagNodeClaim]; !tagged {
		// Tags are written by a job of their own, which is done by now, or has failed. Whatever goes wrong here is tried again later.
		if again, err := l.byID.get(ctx, m.Id); err == nil && again != nil {
			found = l.instance(again)
		}
		if err := l.EnsureTags(ctx, found, tags); err != nil {
			log.FromContext(ctx).Info("a new machine has no tags yet", "machine", m.Name, "id", m.Id, "error", err.Error())
		}
	}
	if len(l.nodeClass.Spec.DataDisks) > 0 {
		disks, err := l.dataDisks(ctx, m)
		if err == nil {
			err = l.tagDisks(ctx, disks, l.Tags(l.nodeClass, l.nodeClaim))
		}
		if err != nil {
			log.FromContext(ctx).Info("the disks of a new machine have no tags yet", "machine", m.Name, "id", m.Id, "error", err.Error())
		}
	}
	found.InstanceTypeName, found.CapacityType, found.ZoneName = it.Name, offering.CapacityType(), offering.Zone()
	if found.Architecture == "" {
		if template, ok := lo.Find(l.nodeClass.Status.Templates, func(t csv1.TemplateStatus) bool {
			return t.ID == found.TemplateID && t.ZoneID == found.ZoneID
		}); ok {
			found.Architecture = template.Architecture
		}
	}
	return found, nil
}

// pause waits, and until the next point of the grid, so that many who wait ask at once. It tells whether the context goes on.
func (p *DefaultProvider) pause(ctx context.Context, length time.Duration) bool {
	now := time.Now()
	at := now.Add(length).Truncate(p.options.Poll)
	if at.Before(now.Add(p.options.Poll / 2)) {
		at = at.Add(p.options.Poll)
	}
	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// createError is an error with a reason for the condition of the NodeClaim.
func createError(err error, reason string) error {
	message := err.Error()
	if len(message) > messageLength {
		message = strings.ToValidUTF8(message[:messageLength], "") + "..."
	}
	return cloudprovider.NewCreateError(err, reason, message)
}

// inProgress is for a machine that takes longer than Create may. The next call waits for it.
func inProgress(ctx context.Context, nodeName string) error {
	return createError(errors.Wrap(ctx.Err(), fmt.Sprintf("machine %s is not running yet; it is waited for again", nodeName)), ReasonInProgress)
}

// reasonOfCall is the reason of an error of a request other than that for the machine.
func reasonOfCall(err error) string {
	switch {
	case cloudstack.IsUnauthorized(err):
		return ReasonUnauthorized
	case cloudstack.IsThrottled(err):
		return ReasonThrottled
	case cloudstack.IsUnknownResult(err):
		return ReasonUnreachable
	}
	return ReasonLaunchFailed
}
