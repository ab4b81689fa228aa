package instance

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/pkg/errors"
	"github.com/samber/lo"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

// EnsureTags implements Provider. The disks that were made with a machine get the same tags.
func (p *DefaultProvider) EnsureTags(ctx context.Context, instance *Instance, want map[string]string) error {
	if missing(instance.Tags, want) == nil {
		return nil
	}
	want = maps.Clone(want)
	var disks []*cloudstack.Volume
	if _, tagged := instance.Tags[csv1.TagNodeClaim]; !tagged || instance.Tags[TagDataDisks] != "" {
		m, err := p.read(ctx, instance.ID)
		if err != nil {
			return err
		}
		if disks, err = p.dataDisks(ctx, m); err != nil {
			return errors.Wrapf(err, "list the disks of machine %s (%s)", instance.Name, instance.ID)
		}
		// A machine with tags and without this one has no disks to delete with it.
		if len(disks) > 0 && instance.Tags[TagDataDisks] == "" {
			want[TagDataDisks] = strconv.Itoa(len(disks))
		}
	}
	if err := p.tagDisks(ctx, disks, want); err != nil {
		return errors.Wrapf(err, "tags of the disks of machine %s (%s)", instance.Name, instance.ID)
	}
	if err := p.writeTags(ctx, cloudstack.ResourceVirtualMachine, instance.ID, instance.Tags, want); err != nil {
		return errors.Wrapf(err, "tags of machine %s (%s)", instance.Name, instance.ID)
	}
	instance.Tags = lo.Assign(instance.Tags, want)
	return nil
}

// tagDisks writes tags on disks that were made with a machine.
func (p *DefaultProvider) tagDisks(ctx context.Context, disks []*cloudstack.Volume, want map[string]string) error {
	for _, disk := range disks {
		if err := p.writeTags(ctx, cloudstack.ResourceVolume, disk.Id, cloudstack.TagsOf(disk.Tags), want); err != nil {
			return err
		}
	}
	return nil
}

// writeTags writes the tags that an object lacks, or has with other values. CloudStack cannot change a tag, only delete it before.
func (p *DefaultProvider) writeTags(ctx context.Context, resourceType, id string, have, want map[string]string) error {
	write := missing(have, want)
	if write == nil {
		return nil
	}
	replaced := lo.Filter(slices.Sorted(maps.Keys(write)), func(key string, _ int) bool { _, has := have[key]; return has })
	if len(replaced) > 0 {
		job, err := p.api.DeleteTags(ctx, resourceType, []string{id}, replaced)
		if err != nil {
			return err
		}
		if err := p.api.WaitForJob(ctx, job); err != nil {
			return err
		}
	}
	job, err := p.api.CreateTags(ctx, resourceType, []string{id}, write)
	if err != nil {
		return err
	}
	return p.api.WaitForJob(ctx, job)
}

// missing are the tags that are not there, or have other values; nil for none.
func missing(have, want map[string]string) map[string]string {
	var tags map[string]string
	for key, value := range want {
		if old, has := have[key]; !has || old != value {
			if tags == nil {
				tags = map[string]string{}
			}
			tags[key] = value
		}
	}
	return tags
}
