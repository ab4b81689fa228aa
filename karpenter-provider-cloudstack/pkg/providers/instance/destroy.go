package instance

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

const (
	// permissionFor is how long it is believed what the credentials may do.
	permissionFor = time.Hour
	// madeWith is how long after a machine the disks are made that it is made with, as CloudStack dates them.
	madeWith = 2 * time.Minute
	// lookAfter is how long a machine has to begin to stop, before its job is looked at; lookFor is how long that takes at most.
	lookAfter, lookFor = 4 * time.Second, time.Second
	// followFor is how long a job is followed that destroys a machine of a launch that failed, destroysFollowed how often that is asked for.
	followFor, destroysFollowed = 2 * time.Minute, 3
	// typeDataDisk is the type of disks other than the root disk.
	typeDataDisk = "DATADISK"
	// dataDiskPrefix is what CloudStack names disks that are made with a machine.
	dataDiskPrefix = "DATA-"
)

// destruction is a machine that is being destroyed.
type destruction struct {
	began   time.Time
	job     cloudstack.Job
	expunge bool
}

// Delete implements Provider.
func (p *DefaultProvider) Delete(ctx context.Context, id string) error {
	m, err := p.read(ctx, id)
	if err != nil {
		return err
	}
	if under, ok := p.destroyed.get(id); ok {
		// Permissions are refused, and much else fails, only in the job. A machine that goes nowhere is looked at more closely.
		if m.State == cloudstack.StateStopping || p.options.Clock.Since(under.began) < lookAfter || !p.hasFailed(ctx, m, under) {
			return nil
		}
	}
	expunge, err := p.options.Expunges(ctx, cloudstack.TagsOf(m.Tags)[csv1.TagNodeClass])
	if err != nil {
		return errors.Wrapf(err, "find out whether machine %s is to be expunged", id)
	}
	if err := p.destroy(ctx, m, expunge); err != nil && !cloudstack.IsNotFound(err) {
		return err
	}
	return nil
}

// hasFailed looks at the job of a machine that is being destroyed.
func (p *DefaultProvider) hasFailed(ctx context.Context, m *cloudstack.VirtualMachine, under destruction) bool {
	glance, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	err := p.api.WaitForJob(glance, under.job)
	return glance.Err() == nil && p.wasRefused(ctx, m, under, err)
}

// wasRefused takes note of a job that was to destroy a machine, and has failed.
func (p *DefaultProvider) wasRefused(ctx context.Context, m *cloudstack.VirtualMachine, under destruction, err error) bool {
	if err == nil || cloudstack.IsUnknownResult(err) || cloudstack.IsThrottled(err) {
		return false
	}
	destroyFailures.Inc()
	log.FromContext(ctx).Info("a machine was not destroyed, and is tried again", "machine", m.Name, "id", m.Id, "error", err.Error())
	if under.expunge && isForbidden(err) {
		p.forbidExpunge()
	}
	p.destroyed.forget(m.Id)
	return true
}

// follow sees to it that a machine goes that no NodeClaim has, and that nobody would ask about again: much is refused only in the job. It does
// not wait. What it gives up, or a controller that ends leaves, is for garbage collection.
func (p *DefaultProvider) follow(ctx context.Context, m *cloudstack.VirtualMachine, expunge bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followFor)
	go func() {
		defer cancel()
		for request := 1; ; {
			under, ok := p.destroyed.get(m.Id)
			if !ok {
				return
			}
			err := p.api.WaitForJob(ctx, under.job)
			switch {
			case ctx.Err() != nil || err == nil || cloudstack.IsNotFound(err):
				return
			case !p.wasRefused(ctx, m, under, err):
				// It is not known, and asked again.
				if !p.pause(ctx, p.options.PollMax) {
					return
				}
				continue
			}
			if request < destroysFollowed {
				request++
				err = p.destroy(ctx, m, expunge)
			}
			if err != nil && !cloudstack.IsNotFound(err) {
				log.FromContext(ctx).Error(err, "a machine that failed is still there, and left to garbage collection", "machine", m.Name, "id", m.Id)
				return
			}
		}
	}()
}

// destroy asks for the end of a machine of ours, and of the disks that were made with it.
func (p *DefaultProvider) destroy(ctx context.Context, m *cloudstack.VirtualMachine, expunge bool) error {
	if !p.owns(m) {
		return errForeign(m)
	}
	volumes, err := p.volumesOf(ctx, m)
	if err != nil {
		return errors.Wrapf(err, "list the disks of machine %s (%s)", m.Name, m.Id)
	}
	expunge = expunge && p.mayExpunge(ctx)
	job, err := p.api.DestroyVirtualMachine(ctx, m.Id, expunge, volumes)
	if expunge && isForbidden(err) {
		p.forbidExpunge()
		expunge = false
		job, err = p.api.DestroyVirtualMachine(ctx, m.Id, false, volumes)
	}
	if err != nil {
		destroyFailures.Inc()
		return errors.Wrapf(err, "destroy machine %s (%s)", m.Name, m.Id)
	}
	p.destroyed.put(m.Id, destruction{began: p.options.Clock.Now(), job: job, expunge: expunge})
	destroys.WithLabelValues(strconv.FormatBool(expunge)).Inc()
	log.FromContext(ctx).Info("a machine is destroyed", "machine", m.Name, "id", m.Id, "state", m.State, "expunge", expunge, "disks", len(volumes))
	return nil
}

// volumesOf are the ids of the disks that were made with a machine. Disks that were attached later belong to whoever did that, such as a
// CSI driver, and outlive the machine.
func (p *DefaultProvider) volumesOf(ctx context.Context, m *cloudstack.VirtualMachine) ([]string, error) {
	tags := cloudstack.TagsOf(m.Tags)
	if tags[csv1.TagNodeClaim] != "" && tags[TagDataDisks] == "" {
		return nil, nil
	}
	volumes, err := p.dataDisks(ctx, m)
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(volumes))
	for _, v := range volumes {
		ids = append(ids, v.Id)
	}
	return ids, nil
}

// dataDisks are the disks, other than the root disk, that were made with a machine.
func (p *DefaultProvider) dataDisks(ctx context.Context, m *cloudstack.VirtualMachine) ([]*cloudstack.Volume, error) {
	all, err := p.api.ListVolumes(ctx, cloudstack.Scope{ProjectID: m.Projectid}, m.Id)
	if err != nil {
		return nil, err
	}
	var volumes []*cloudstack.Volume
	for _, v := range all {
		// A list of the disks of a machine has no others; what is about to be deleted is worth a second look.
		if v.Type == typeDataDisk && v.Virtualmachineid == m.Id && p.madeWith(v, m) {
			volumes = append(volumes, v)
		}
	}
	return volumes, nil
}

// madeWith tells whether a disk was made with its machine: it has our tags, or, where no one has written any, the name and the age of such
// a disk.
func (p *DefaultProvider) madeWith(v *cloudstack.Volume, m *cloudstack.VirtualMachine) bool {
	tags := cloudstack.TagsOf(v.Tags)
	if uid, tagged := tags[csv1.TagClusterUID]; tagged {
		return uid == p.options.ClusterUID && tags[csv1.TagManagedBy] == p.options.ClusterName
	}
	if len(tags) > 0 || !strings.HasPrefix(v.Name, dataDiskPrefix) {
		return false
	}
	machineMade, err := cloudstack.Created(m.Created)
	if err != nil {
		return false
	}
	made, err := cloudstack.Created(v.Created)
	return err == nil && made.Sub(machineMade).Abs() <= madeWith
}

// mayExpunge tells whether the credentials may expunge. Where that cannot be found out, machines are only destroyed for once.
func (p *DefaultProvider) mayExpunge(ctx context.Context) bool {
	now := p.options.Clock.Now()
	p.mu.Lock()
	may, known := p.expunge, now.Before(p.expungeUntil)
	p.mu.Unlock()
	if known {
		return may
	}
	capability, err := p.api.ListCapabilities(ctx)
	if err != nil {
		log.FromContext(ctx).Info("a machine is not expunged, as CloudStack does not tell whether it may be", "error", err.Error())
		return false
	}
	if !capability.Allowuserexpungerecovervm {
		log.FromContext(ctx).Info("the credentials may not expunge machines: they are destroyed, and CloudStack expunges them later")
	}
	p.setExpunge(capability.Allowuserexpungerecovervm)
	return capability.Allowuserexpungerecovervm
}

// forbidExpunge has machines destroyed without expunging them for a while.
func (p *DefaultProvider) forbidExpunge() { p.setExpunge(false) }

func (p *DefaultProvider) setExpunge(may bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expunge, p.expungeUntil = may, p.options.Clock.Now().Add(permissionFor)
}

// isForbidden tells whether CloudStack refuses to expunge for want of a permission. Within a job, that is an internal error.
func isForbidden(err error) bool {
	var e *cloudstack.Error
	return errors.As(err, &e) && (e.Code == cloudstack.CodeAccount || e.Code == cloudstack.CodeInternal && strings.Contains(e.Text, "expunge"))
}
