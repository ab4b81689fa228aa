package fake

import (
	"maps"
	"slices"
	"time"
)

// Volume is a disk.
type Volume struct {
	// ID is chosen where AddVolume is given none.
	ID, Name string
	// VMID is the machine that it is attached to; empty for none.
	VMID string
	// Root is for the disk that a machine starts from.
	Root bool
	// ZoneID, DiskOfferingID and ProjectID are ids.
	ZoneID, DiskOfferingID, ProjectID string
	// SizeGiB is its size.
	SizeGiB int64
	// Tags are its tags.
	Tags map[string]string
	// Created is when it was made.
	Created time.Time
}

func (v *Volume) copy() Volume {
	one := *v
	one.Tags = maps.Clone(v.Tags)
	return one
}

// Volumes are the disks, root disks too.
func (c *CloudStack) Volumes() []Volume {
	defer c.lock()()
	c.settle()
	volumes := make([]Volume, 0, len(c.volumes.order))
	for _, v := range c.volumes.all() {
		volumes = append(volumes, v.copy())
	}
	return volumes
}

// AddVolume adds a disk, as a CSI driver would; with VMID, it is attached.
func (c *CloudStack) AddVolume(volume Volume) Volume {
	defer c.lock()()
	v := volume.copy()
	if v.ID == "" {
		v.ID = c.newID("volume")
	}
	if v.Tags == nil {
		v.Tags = map[string]string{}
	}
	if v.Created.IsZero() {
		v.Created = c.clock.Now()
	}
	if m := c.machines.get(v.VMID); m != nil {
		v.ZoneID, v.ProjectID = m.ZoneID, m.ProjectID
	}
	c.volumes.put(v.ID, &v)
	return v.copy()
}

func (c *CloudStack) addRootDisk(m *VM) {
	v := &Volume{
		ID: c.newID("volume"), Name: "ROOT-" + m.ID[:8], VMID: m.ID, Root: true, ZoneID: m.ZoneID, ProjectID: m.ProjectID,
		SizeGiB: m.RootDiskGiB, Tags: map[string]string{}, Created: c.clock.Now(),
	}
	c.volumes.put(v.ID, v)
}

func (c *CloudStack) removeVolume(id string) {
	c.volumes.remove(id)
	c.removedVolumes[id] = true
}

// partFrom removes the root disk of a machine where that goes, and of its other disks those that are named; the rest is detached.
func (c *CloudStack) partFrom(m *VM, volumeIDs []string, root bool) {
	for _, v := range c.volumes.all() {
		switch {
		case v.VMID != m.ID || v.Root && !root:
		case v.Root || slices.Contains(volumeIDs, v.ID):
			c.removeVolume(v.ID)
		default:
			v.VMID = ""
		}
	}
}

func (c *CloudStack) deleteVolume(p parameters) (object, *failure) {
	id := p["id"]
	v := c.volumes.get(id)
	switch {
	case id == "":
		return nil, missing("deletevolume", "id")
	case v == nil && c.removedVolumes[id]:
		return nil, refuse(codeParameter, "Unable to find volume with ID: %s", id)
	case v == nil:
		return nil, unknownID("id", id)
	case v.VMID != "":
		return nil, refuse(codeParameter, "Please specify a volume that is not attached to any VM.")
	}
	c.removeVolume(id)
	return object{"success": true}, nil
}

func (c *CloudStack) listVolumes(p parameters) (object, *failure) {
	if id := p["virtualmachineid"]; id != "" && c.machines.get(id) == nil && c.removed[id] == nil {
		return nil, unknownID("virtualmachineid", id)
	}
	wanted, refusal := c.selection(p, func(id string) bool { return c.volumes.get(id) != nil || c.removedVolumes[id] })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, v := range c.volumes.all() {
		kind := "DATADISK"
		if v.Root {
			kind = "ROOT"
		}
		switch {
		case !wanted.fits(v.ID, v.ZoneID, v.Tags), p["virtualmachineid"] != "" && v.VMID != p["virtualmachineid"], p["type"] != "" && p["type"] != kind,
			p["name"] != "" && v.Name != p["name"], !c.asked(p, v.ProjectID):
			continue
		}
		one := object{
			"id": v.ID, "name": v.Name, "type": kind, "zoneid": v.ZoneID, "size": v.SizeGiB << 30, "created": v.Created.Format(timeLayout),
			"account": Account, "state": "Ready", "tags": describeTags(v.Tags, "Volume", v.ID),
		}
		set(one, "virtualmachineid", v.VMID)
		set(one, "diskofferingid", v.DiskOfferingID)
		set(one, "projectid", v.ProjectID)
		if m := c.machines.get(v.VMID); m != nil {
			one["vmname"], one["vmstate"] = m.Name, m.State
		}
		found = append(found, one)
	}
	return c.page("volume", found, p)
}
