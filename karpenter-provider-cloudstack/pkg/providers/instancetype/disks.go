package instancetype

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// disks are the disk offerings that a CloudStackNodeClass names.
type disks struct {
	// root is that of the root disk; nil where it is that of the service offering.
	root *cloudstack.DiskOffering
	// data are those of the data disks, in their order.
	data []*cloudstack.DiskOffering
}

// namesDisks tells whether a CloudStackNodeClass names disk offerings.
func namesDisks(nodeClass *csv1.CloudStackNodeClass) bool {
	return len(nodeClass.Spec.DataDisks) > 0 || lo.FromPtr(nodeClass.Spec.RootDisk).DiskOfferingID != ""
}

// disks finds the disk offerings that a CloudStackNodeClass names, with a number that is another one when there may be others. CloudStack is
// asked only where there is a name. The error is a *selector.Error where one cannot be used.
func (p *DefaultProvider) disks(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, maxAge time.Duration) (disks, uint64, error) {
	if !namesDisks(nodeClass) {
		return disks{}, 0, nil
	}
	scope := selector.Scope(nodeClass)
	all, sequence, err := p.diskOfferings.GetWithin(ctx, selector.Key(scope, ""), maxAge, func(ctx context.Context) ([]*cloudstack.DiskOffering, error) {
		return p.api.ListDiskOfferings(ctx, scope)
	})
	if err != nil {
		return disks{}, 0, errors.Wrap(err, "list disk offerings")
	}
	var found disks
	if root := lo.FromPtr(nodeClass.Spec.RootDisk); root.DiskOfferingID != "" {
		if found.root, err = diskOffering("spec.rootDisk", all, root.DiskOfferingID, root.SizeGiB, nodeClass.Status.Zones); err != nil {
			return disks{}, 0, err
		}
	}
	for i, disk := range nodeClass.Spec.DataDisks {
		one, err := diskOffering(fmt.Sprintf("spec.dataDisks[%d]", i), all, disk.DiskOfferingID, disk.SizeGiB, nodeClass.Status.Zones)
		if err != nil {
			return disks{}, 0, err
		}
		found.data = append(found.data, one)
	}
	return found, sequence, nil
}

// diskOffering finds a disk offering by its id or its name, and checks that a disk of the size can be made of it in all zones.
func diskOffering(
	field string, all []*cloudstack.DiskOffering, idOrName string, sizeGiB *int64, zones []csv1.ZoneStatus,
) (*cloudstack.DiskOffering, error) {
	chosen := lo.Filter(all, func(o *cloudstack.DiskOffering, _ int) bool { return o.Id == idOrName })
	if len(chosen) == 0 {
		chosen = lo.Filter(all, func(o *cloudstack.DiskOffering, _ int) bool { return o.Name == idOrName })
	}
	refuse := func(reason, format string, arguments ...any) (*cloudstack.DiskOffering, error) {
		return nil, selector.Errorf(reason, "%s.diskOfferingID: %s", field, fmt.Sprintf(format, arguments...))
	}
	switch len(chosen) {
	case 0:
		return refuse(selector.ReasonNotFound, "there is no disk offering %q; there is %s", idOrName,
			selector.Names(lo.Map(all, func(o *cloudstack.DiskOffering, _ int) string { return o.Name })))
	case 1:
	default:
		ids := lo.Map(chosen, func(o *cloudstack.DiskOffering, _ int) string { return o.Id })
		return refuse(selector.ReasonAmbiguous, "%d disk offerings have the name %q: write the id of one of them, %s", len(chosen), idOrName,
			selector.Names(ids))
	}
	one := chosen[0]
	elsewhere := lo.FilterMap(zones, func(z csv1.ZoneStatus, _ int) (string, bool) {
		in := split(one.Zoneid)
		return z.Name, len(in) > 0 && !slices.Contains(in, z.ID)
	})
	switch {
	case strings.EqualFold(one.State, stateInactive):
		return refuse(selector.ReasonNotUsable, "the disk offering %q is inactive", one.Name)
	case len(elsewhere) > 0:
		return refuse(selector.ReasonNotUsable, "the disk offering %q is not for the zones %s: name one that all zones have", one.Name,
			selector.Names(elsewhere))
	case one.Iscustomized && sizeGiB == nil:
		return nil, selector.Errorf(selector.ReasonInvalid, "%s.sizeGiB: the disk offering %q has no size of its own: set sizeGiB", field, one.Name)
	case !one.Iscustomized && sizeGiB != nil && *sizeGiB != one.Disksize:
		return nil, selector.Errorf(selector.ReasonInvalid, "%s.sizeGiB: disks of the disk offering %q have %d GiB, and not %d: leave sizeGiB out, "+
			"or name a disk offering without a size", field, one.Name, one.Disksize, *sizeGiB)
	}
	return one, nil
}

// launch tells which disk offerings machines are made with.
func (d disks) launch(launch Launch) Launch {
	if d.root != nil {
		launch.RootDiskOfferingID = d.root.Id
	}
	for _, one := range d.data {
		launch.DataDiskOfferingIDs = append(launch.DataDiskOfferingIDs, one.Id)
	}
	return launch
}

// ownGiB is the size that a root disk has whatever is asked for; 0 where it may be told. CloudStack takes that of an offering first.
func (d disks) ownGiB(offering *cloudstack.ServiceOffering) int64 {
	switch {
	case d.root == nil:
		return max(offering.Rootdisksize, 0)
	case d.root.Iscustomized:
		return 0
	}
	return d.root.Disksize
}
