package garbagecollection

import (
	"context"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"go.uber.org/multierr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

const (
	typeDataDisk = "DATADISK"
	// stateReady and stateAllocated are the states of a disk that nothing is being done with.
	stateReady     = "Ready"
	stateAllocated = "Allocated"
	// csiPrefix begins the names of disks that CSI drivers make for PersistentVolumes.
	csiPrefix = "pvc-"
)

// scopes are whose disks are looked at: those of the account, and those of all projects.
var scopes = []cloudstack.Scope{{}, {ProjectID: "-1"}}

// disks deletes data disks that were made with machines that are gone. CloudStack deletes none with a machine unless it is told to, and
// it is not told where the machine was destroyed by another hand. What a CSI driver has made is never deleted: it has no tags of ours, and
// where someone has given it some, it is recognised by its name and by the PersistentVolumes.
func (c *Controller) disks(ctx context.Context, instances []*instance.Instance, nodeClaims []karpv1.NodeClaim, fresh bool, left int) error {
	if c.volumes == nil || c.clock.Now().Before(c.disksAt) {
		return nil
	}
	var tagged []*cloudstack.Volume
	for _, scope := range scopes {
		volumes, err := c.volumes.ListVolumesByTag(ctx, scope, csv1.TagManagedBy, c.options.ClusterName)
		if err != nil {
			return errors.Wrap(err, "list the disks of the cluster")
		}
		tagged = append(tagged, volumes...)
	}
	tagged = lo.UniqBy(tagged, func(v *cloudstack.Volume) string { return v.Id })
	persistent := &corev1.PersistentVolumeList{}
	if len(tagged) > 0 {
		if !fresh {
			var err error
			if nodeClaims, err = c.ask(ctx); err != nil {
				return err
			}
		}
		if err := c.reader.List(ctx, persistent); err != nil {
			return errors.Wrap(err, "list PersistentVolumes")
		}
	}
	c.disksAt = c.clock.Now().Add(disksPeriod)
	used := map[string]bool{}
	for _, i := range instances {
		if !i.Deleting {
			used[i.Tags[csv1.TagNodeClaim]] = true
		}
	}
	for _, nodeClaim := range nodeClaims {
		used[nodeClaim.Name] = true
	}
	handles := map[string]bool{}
	for _, volume := range persistent.Items {
		if volume.Spec.CSI != nil {
			handles[volume.Spec.CSI.VolumeHandle] = true
		}
	}
	var errs error
	count := 0
	for _, volume := range tagged {
		if !c.isLeft(volume, used, handles) {
			delete(c.suspects, volume.Id)
			continue
		}
		count++
		if _, known := c.suspects[volume.Id]; !known {
			c.suspects[volume.Id] = c.clock.Now()
		}
		// A disk is as old as its machine was: what counts is how long it has been left.
		if c.clock.Since(c.suspects[volume.Id]) < max(c.options.Grace, time.Minute) || left <= 0 {
			continue
		}
		left--
		errs = multierr.Append(errs, c.deleteDisk(ctx, volume))
	}
	orphans.WithLabelValues(kindVolume).Set(float64(count))
	return errs
}

// isLeft tells whether a disk was made with a machine of this cluster that is gone.
func (c *Controller) isLeft(volume *cloudstack.Volume, used, handles map[string]bool) bool {
	tags := cloudstack.TagsOf(volume.Tags)
	nodeClaim := tags[csv1.TagNodeClaim]
	return volume.Type == typeDataDisk &&
		(volume.State == stateReady || volume.State == stateAllocated) &&
		volume.Virtualmachineid == "" &&
		tags[csv1.TagManagedBy] == c.options.ClusterName && tags[csv1.TagClusterUID] == c.options.ClusterUID &&
		nodeClaim != "" && !used[nodeClaim] &&
		!handles[volume.Id] && !strings.HasPrefix(volume.Name, csiPrefix)
}

func (c *Controller) deleteDisk(ctx context.Context, volume *cloudstack.Volume) error {
	logger := log.FromContext(ctx).WithValues("disk", volume.Name, "id", volume.Id)
	if c.options.DryRun {
		logger.Info("disk of a machine that is gone found; it is not deleted in a dry run")
		collected.WithLabelValues(kindVolume, resultDryRun).Inc()
		return nil
	}
	if err := c.volumes.DeleteVolume(ctx, volume.Id); err != nil && !cloudstack.IsNotFound(err) {
		collected.WithLabelValues(kindVolume, resultFailed).Inc()
		return errors.Wrapf(err, "delete disk %s (%s), whose machine is gone", volume.Name, volume.Id)
	}
	logger.Info("disk of a machine that is gone deleted")
	collected.WithLabelValues(kindVolume, resultDeleted).Inc()
	delete(c.suspects, volume.Id)
	return nil
}
