package fake

import (
	"slices"
	"strings"
	"time"
)

// Types of affinity groups.
const (
	AntiAffinity     = "host anti-affinity"
	SoftAntiAffinity = "non-strict host anti-affinity"
)

// Zone is a zone.
type Zone struct {
	// ID is made of the name where it is empty.
	ID, Name string
	// SecurityGroups makes it a zone whose machines have security groups.
	SecurityGroups bool
	// Disabled zones take no machines of users, and are shown to administrators only.
	Disabled bool
	// Hosts is how many hosts it has, for anti-affinity. 0: as many as are wanted.
	Hosts int
}

// Network is a network.
type Network struct {
	// ID is made of the name and zone where it is empty.
	ID, Name, ZoneID string
	// Type is Isolated, Shared or L2. Default: Isolated.
	Type string
	// State is Allocated, Implemented or Setup. Default: Allocated, and Implemented once a machine runs in it.
	State string
	// Domain is its network domain, in which names are unique. Default: one of its own.
	Domain string
	// VPCID is the id of the VPC that it is a tier of.
	VPCID string
	// ProjectID is the project that it is of.
	ProjectID string
	// Tags are its tags.
	Tags map[string]string
	// Addresses is how many machines it has addresses for. 0: any number.
	Addresses int
	// AddressCode is the error code of a job that finds no address. Default: 533.
	AddressCode int
	// NotDeployable takes it out of those that machines can be put into.
	NotDeployable bool
}

// Template is a template.
type Template struct {
	// ID is made of the name where it is empty.
	ID, Name string
	// Arch is x86_64 or aarch64; empty as in releases before 4.20.
	Arch string
	// ZoneIDs are the zones that it is in; empty for all.
	ZoneIDs []string
	// NotReadyZoneIDs are the zones where it is being copied still.
	NotReadyZoneIDs []string
	// OSType is the name of its operating system.
	OSType string
	// Created is when it was made. Default: the start of 2026.
	Created time.Time
	// SizeGiB is the size of its disk. Default: 10.
	SizeGiB int64
	// Tags are its tags.
	Tags map[string]string
}

// Offering is a service offering.
type Offering struct {
	// ID is made of the name where it is empty.
	ID, Name string
	// CPU, CPUSpeedMHz and MemoryMiB are its size. One that is Customized has none of those that are 0.
	CPU, CPUSpeedMHz, MemoryMiB int
	// Customized has the size told with each machine, within the bounds of the details mincpunumber, maxcpunumber, minmemory and maxmemory.
	Customized bool
	// HostTags and StorageTags are comma separated.
	HostTags, StorageTags string
	// Details are its details.
	Details map[string]string
	// RootDiskGiB is the size of the root disk; 0 for that of the template.
	RootDiskGiB int64
	// GPUs is how many GPUs it has, GPUCard of which kind, VGPUProfile which part of one.
	GPUs                 int
	GPUCard, VGPUProfile string
	// ZoneIDs are the zones that it can be used in; empty for all.
	ZoneIDs []string
	// Inactive offerings are not for new machines.
	Inactive bool
}

// DiskOffering is a disk offering.
type DiskOffering struct {
	// ID is made of the name where it is empty.
	ID, Name string
	// SizeGiB is its size; 0 where it is told with each disk.
	SizeGiB int64
}

// SecurityGroup is a security group.
type SecurityGroup struct {
	// ID is made of the name where it is empty.
	ID, Name string
	// Tags are its tags.
	Tags map[string]string
}

// AffinityGroup is an affinity group.
type AffinityGroup struct {
	// ID is made of the name where it is empty.
	ID, Name, Description string
	// Type is AntiAffinity, SoftAntiAffinity, host affinity or non-strict host affinity.
	Type string
	// ProjectID is the project that it is of.
	ProjectID string
}

// Project is a project.
type Project struct {
	// ID is made of the name where it is empty.
	ID, Name string
}

// Limit is what an account or a project may have. 0: any number.
type Limit struct {
	// Machines, CPUs and MemoryMiB are counted over machines that are not destroyed, nor in Error.
	Machines, CPUs, MemoryMiB int
	// Code is the error code of a deployment beyond the limit. Default: 535.
	Code int
}

// AddZone adds a zone, or takes the place of that with the id.
func (c *CloudStack) AddZone(zone Zone) Zone {
	defer c.lock()()
	if zone.ID == "" {
		zone.ID = idOf("zone", zone.Name)
	}
	c.zones.put(zone.ID, &zone)
	return zone
}

// AddNetwork adds a network, or takes the place of that with the id.
func (c *CloudStack) AddNetwork(network Network) Network {
	defer c.lock()()
	if network.ID == "" {
		network.ID = idOf("network", network.ZoneID+"/"+network.Name)
	}
	if network.Type == "" {
		network.Type = "Isolated"
	}
	if network.State == "" {
		network.State = "Allocated"
	}
	if network.Domain == "" {
		network.Domain = "cs-" + network.ID[:8] + ".internal"
	}
	if network.AddressCode == 0 {
		network.AddressCode = codeInsufficientCapacity
	}
	c.networks.put(network.ID, &network)
	return network
}

// AddTemplate adds a template, or takes the place of that with the id.
func (c *CloudStack) AddTemplate(template Template) Template {
	defer c.lock()()
	if template.ID == "" {
		template.ID = idOf("template", template.Name)
	}
	if template.Created.IsZero() {
		template.Created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if template.SizeGiB == 0 {
		template.SizeGiB = 10
	}
	c.templates.put(template.ID, &template)
	return template
}

// AddOffering adds a service offering, or takes the place of that with the id.
func (c *CloudStack) AddOffering(offering Offering) Offering {
	defer c.lock()()
	if offering.ID == "" {
		offering.ID = idOf("offering", offering.Name)
	}
	c.offerings.put(offering.ID, &offering)
	return offering
}

// AddDiskOffering adds a disk offering, or takes the place of that with the id.
func (c *CloudStack) AddDiskOffering(offering DiskOffering) DiskOffering {
	defer c.lock()()
	if offering.ID == "" {
		offering.ID = idOf("diskoffering", offering.Name)
	}
	c.diskOfferings.put(offering.ID, &offering)
	return offering
}

// AddSecurityGroup adds a security group, or takes the place of that with the id.
func (c *CloudStack) AddSecurityGroup(group SecurityGroup) SecurityGroup {
	defer c.lock()()
	if group.ID == "" {
		group.ID = idOf("securitygroup", group.Name)
	}
	c.securityGroups.put(group.ID, &group)
	return group
}

// AddAffinityGroup adds an affinity group, or takes the place of that with the id.
func (c *CloudStack) AddAffinityGroup(group AffinityGroup) AffinityGroup {
	defer c.lock()()
	if group.ID == "" {
		group.ID = idOf("affinitygroup", group.ProjectID+"/"+group.Name)
	}
	c.affinityGroups.put(group.ID, &group)
	return group
}

// AffinityGroups are the affinity groups.
func (c *CloudStack) AffinityGroups() []AffinityGroup {
	defer c.lock()()
	groups := make([]AffinityGroup, 0, len(c.affinityGroups.order))
	for _, group := range c.affinityGroups.all() {
		groups = append(groups, *group)
	}
	return groups
}

// AddProject adds a project.
func (c *CloudStack) AddProject(project Project) Project {
	defer c.lock()()
	if project.ID == "" {
		project.ID = idOf("project", project.Name)
	}
	c.projects.put(project.ID, &project)
	return project
}

// AddKeyPair adds a key pair of SSH.
func (c *CloudStack) AddKeyPair(name string) {
	defer c.lock()()
	c.keyPairs[name] = true
}

// Remove removes a zone, network, template, offering, disk offering, security group or affinity group by its id. Machines that use it stay.
func (c *CloudStack) Remove(id string) {
	defer c.lock()()
	c.zones.remove(id)
	c.networks.remove(id)
	c.templates.remove(id)
	c.offerings.remove(id)
	c.diskOfferings.remove(id)
	c.securityGroups.remove(id)
	c.affinityGroups.remove(id)
}

// SetCapacity tells how many machines there is room for in a zone, on the hosts that have the tags (comma separated; empty for offerings
// without). Less than 0: for any number, which is also so where it was never set.
func (c *CloudStack) SetCapacity(zoneID, hostTags string, machines int) {
	defer c.lock()()
	c.setCapacity(zoneID+"/tags/"+sortedTags(hostTags), machines)
}

// SetOfferingCapacity tells how many machines of an offering there is room for in a zone. Less than 0: for any number.
func (c *CloudStack) SetOfferingCapacity(zoneID, offeringID string, machines int) {
	defer c.lock()()
	c.setCapacity(zoneID+"/offering/"+offeringID, machines)
}

func (c *CloudStack) setCapacity(key string, machines int) {
	if machines < 0 {
		delete(c.capacity, key)
		return
	}
	c.capacity[key] = machines
}

// SetLimit limits what a project may have, or, where its id is empty, the account.
func (c *CloudStack) SetLimit(projectID string, limit Limit) {
	defer c.lock()()
	if limit.Code == 0 {
		limit.Code = codeResourceAllocation
	}
	c.limits[projectID] = limit
}

func sortedTags(tags string) string {
	parts := strings.FieldsFunc(tags, func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}
