package fake

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// page answers with one page of a list, and with how many elements there are on all pages. A list without any is an empty object.
func (c *CloudStack) page(name string, elements []object, p parameters) (object, *failure) {
	number, refusal := p.number("page")
	if refusal != nil {
		return nil, refusal
	}
	size, refusal := p.number("pagesize")
	if refusal != nil {
		return nil, refusal
	}
	most := int64(c.options.MaxPageSize)
	switch {
	case size > most:
		return nil, refuse(codeParameter, "Page size can not exceed max allowed page size value: %d", most)
	case p["page"] != "" && p["pagesize"] == "":
		return nil, refuse(codeParameter, "pagesize parameter is required when page is specified")
	case number < 0, size < 0:
		return nil, refuse(codeParameter, "page and pagesize are positive")
	}
	if size == 0 {
		size = most
	}
	if number == 0 {
		number = 1
	}
	count := int64(len(elements))
	first := min((number-1)*size, count)
	shown := elements[first:min(first+size, count)]
	if count == 0 {
		return object{}, nil
	}
	return object{"count": count, name: shown}, nil
}

// wantedIDs are those of id and ids: nil for all. An id that never was is an error, one that is no longer is not.
func (c *CloudStack) wantedIDs(p parameters, known func(string) bool) (map[string]bool, *failure) {
	if p["id"] != "" && p["ids"] != "" {
		return nil, refuse(codeParameter, "Specify either id or ids but not both parameters")
	}
	name, ids := "id", p.list("id")
	if p["ids"] != "" {
		name, ids = "ids", p.list("ids")
	}
	if len(ids) == 0 {
		return nil, nil // nil is for all
	}
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		if !known(id) {
			return nil, unknownID(name, id)
		}
		wanted[id] = true
	}
	return wanted, nil
}

// checkScope checks projectid, account and domainid.
func (c *CloudStack) checkScope(p parameters) *failure {
	if id := p["projectid"]; id != "" && id != "-1" && c.projects.get(id) == nil {
		return unknownID("projectid", id)
	}
	if account := p["account"]; account != "" && account != Account {
		return refuse(codeParameter, "Unable to find account %s in domain %s", account, p["domainid"])
	}
	return nil
}

// selection is what a list is asked for by ids, a zone and tags.
type selection struct {
	ids    map[string]bool
	zoneID string
	tags   map[string]string
}

// selection reads what a list is asked for, and refuses what is of nothing.
func (c *CloudStack) selection(p parameters, known func(id string) bool) (selection, *failure) {
	ids, refusal := c.wantedIDs(p, known)
	if refusal != nil {
		return selection{}, refusal
	}
	zoneID := p["zoneid"]
	if zoneID != "" && c.zones.get(zoneID) == nil {
		return selection{}, unknownID("zoneid", zoneID)
	}
	if refusal := c.checkScope(p); refusal != nil {
		return selection{}, refusal
	}
	tags, _, refusal := p.tags(true)
	return selection{ids: ids, zoneID: zoneID, tags: tags}, refusal
}

// fits tells whether an object is asked for; zoneID is empty for what is in no zone.
func (s selection) fits(id, zoneID string, tags map[string]string) bool {
	return (s.ids == nil || s.ids[id]) && (s.zoneID == "" || zoneID == "" || zoneID == s.zoneID) && anyTag(tags, s.tags)
}

// asked tells whether an object of a project, or of none, is asked for. Those of a project are shown only where it is named, or -1 for all
// projects, or to an administrator who has the id. With listall, -1 is for what is in no project too; for users since 4.18.1.
// AccountManagerImpl.buildACLSearchParameters, https://github.com/apache/cloudstack/pull/7667
func (c *CloudStack) asked(p parameters, projectID string) bool {
	switch p["projectid"] {
	case projectID:
		return true
	case "-1":
		return projectID != "" || p["listall"] == "true" && (c.options.Admin || !c.options.ProjectsApart)
	}
	return p["projectid"] == "" && p["id"] != "" && c.options.Admin
}

// anyTag tells whether there is any of the tags that are wanted, or none is: they are ORed.
func anyTag(tags, wanted map[string]string) bool {
	if len(wanted) == 0 {
		return true
	}
	for key, value := range wanted {
		if has, there := tags[key]; there && has == value {
			return true
		}
	}
	return false
}

// like matches as SQL does with the pattern in the middle: without case.
func like(value, pattern string) bool {
	return pattern == "" || strings.Contains(strings.ToLower(value), strings.ToLower(pattern))
}

// set sets what is not the zero value: CloudStack leaves that out.
func set[T comparable](o object, name string, value T) {
	var zero T
	if value != zero {
		o[name] = value
	}
}

func describeTags(tags map[string]string, kind, id string) []object {
	described := []object{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		described = append(described, object{"key": key, "value": tags[key], "resourcetype": kind, "resourceid": id, "account": Account})
	}
	return described
}

func (c *CloudStack) listVirtualMachines(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.machines.get(id) != nil || c.removed[id] != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, m := range c.machines.all() {
		gone := m.State == StateDestroyed || m.State == StateExpunging
		switch {
		case !wanted.fits(m.ID, m.ZoneID, m.Tags), gone && !c.options.Admin, !like(m.Name, p["name"]),
			!like(m.Name, p["keyword"]) && !like(m.DisplayName, p["keyword"]), p["state"] != "" && p["state"] != m.State && (p["state"] != "Present" || gone),
			p["templateid"] != "" && m.TemplateID != p["templateid"], p["networkid"] != "" && !slices.Contains(m.NetworkIDs, p["networkid"]),
			p["affinitygroupid"] != "" && !slices.Contains(m.AffinityGroupIDs, p["affinitygroupid"]),
			!c.asked(p, m.ProjectID):
			continue
		}
		found = append(found, c.describeVM(m))
	}
	return c.page("virtualmachine", found, p)
}

func (c *CloudStack) describeVM(m *VM) object {
	o := object{
		"id": m.ID, "name": m.Name, "displayname": cmp.Or(m.DisplayName, m.Name), "state": m.State, "account": Account, "hypervisor": "KVM",
		"created": m.Created.Format(timeLayout), "zoneid": m.ZoneID, "zonename": m.ZoneName, "templateid": m.TemplateID,
		"templatename": m.TemplateName, "serviceofferingid": m.OfferingID, "serviceofferingname": m.OfferingName,
		"cpunumber": m.CPU, "cpuspeed": m.CPUSpeedMHz, "memory": m.MemoryMiB, "haenable": false, "details": maps.Clone(m.Details),
		"tags": describeTags(m.Tags, "UserVm", m.ID), "keypairs": strings.Join(m.KeyPairs, ","), "userdata": m.UserData,
	}
	set(o, "group", m.Group)
	set(o, "arch", m.Arch)
	set(o, "projectid", m.ProjectID)
	set(o, "ipaddress", m.Address)
	set(o, "gpucount", m.GPUs)
	set(o, "gpucardname", m.GPUCard)
	set(o, "vgpuprofilename", m.VGPUProfile)
	nics := []object{}
	for i, id := range m.NetworkIDs {
		nic := object{"id": idOf("nic", m.ID+id), "networkid": id, "isdefault": i == 0, "traffictype": "Guest"}
		if network := c.networks.get(id); network != nil {
			nic["networkname"], nic["type"] = network.Name, network.Type
		}
		if i == 0 {
			set(nic, "ipaddress", m.Address)
		}
		nics = append(nics, nic)
	}
	groups := []object{}
	for _, id := range m.SecurityGroupIDs {
		if group := c.securityGroups.get(id); group != nil {
			groups = append(groups, object{"id": id, "name": group.Name})
		}
	}
	affinity := []object{}
	for _, id := range m.AffinityGroupIDs {
		if group := c.affinityGroups.get(id); group != nil {
			affinity = append(affinity, object{"id": id, "name": group.Name, "type": group.Type})
		}
	}
	o["nic"], o["securitygroup"], o["affinitygroup"] = nics, groups, affinity
	return o
}

func (c *CloudStack) listZones(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.zones.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, zone := range c.zones.all() {
		if !wanted.fits(zone.ID, zone.ID, nil) || p["name"] != "" && zone.Name != p["name"] || zone.Disabled && !c.options.Admin {
			continue
		}
		state := "Enabled"
		if zone.Disabled {
			state = "Disabled"
		}
		found = append(found, object{
			"id": zone.ID, "name": zone.Name, "networktype": "Advanced", "securitygroupsenabled": zone.SecurityGroups, "allocationstate": state,
			"localstorageenabled": false, "type": "Core", "tags": []object{},
		})
	}
	return c.page("zone", found, p)
}

func (c *CloudStack) listNetworks(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.networks.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, network := range c.networks.all() {
		switch {
		case !wanted.fits(network.ID, network.ZoneID, network.Tags), !like(network.Name, p["keyword"]),
			p["canusefordeploy"] == "true" && network.NotDeployable, p["type"] != "" && !strings.EqualFold(network.Type, p["type"]),
			p["vpcid"] != "" && network.VPCID != p["vpcid"], network.Type != "Shared" && !c.asked(p, network.ProjectID):
			continue
		}
		one := object{
			"id": network.ID, "name": network.Name, "displaytext": network.Name, "zoneid": network.ZoneID, "type": network.Type, "state": network.State,
			"traffictype": "Guest", "canusefordeploy": !network.NotDeployable, "networkdomain": network.Domain, "account": Account,
			"tags": describeTags(network.Tags, "Network", network.ID),
		}
		if zone := c.zones.get(network.ZoneID); zone != nil {
			one["zonename"] = zone.Name
		}
		set(one, "vpcid", network.VPCID)
		set(one, "projectid", network.ProjectID)
		found = append(found, one)
	}
	return c.page("network", found, p)
}

func (c *CloudStack) listTemplates(p parameters) (object, *failure) {
	if p["templatefilter"] == "" {
		return nil, missing("listtemplates", "templatefilter")
	}
	wanted, refusal := c.selection(p, func(id string) bool { return c.templates.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, template := range c.templates.all() {
		for _, zone := range c.zones.all() {
			if !template.in(zone.ID) || !wanted.fits(template.ID, zone.ID, template.Tags) || p["name"] != "" && template.Name != p["name"] {
				continue
			}
			ready := !slices.Contains(template.NotReadyZoneIDs, zone.ID)
			one := object{
				"id": template.ID, "name": template.Name, "displaytext": template.Name, "zoneid": zone.ID, "zonename": zone.Name, "isready": ready,
				"status": "Download Complete", "created": template.Created.Format(timeLayout), "ostypename": template.OSType, "hypervisor": "KVM",
				"format": "QCOW2", "size": template.SizeGiB << 30, "templatetype": "USER", "account": Account, "ispublic": true, "isfeatured": true,
				"tags": describeTags(template.Tags, "Template", template.ID),
			}
			if !ready {
				one["status"] = "42% Downloaded"
			}
			set(one, "arch", template.Arch)
			found = append(found, one)
		}
	}
	return c.page("template", found, p)
}

func (c *CloudStack) listServiceOfferings(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.offerings.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, offering := range c.offerings.all() {
		state := "Active"
		if offering.Inactive {
			state = "Inactive"
		}
		switch {
		case !wanted.fits(offering.ID, "", nil), p["name"] != "" && offering.Name != p["name"], state != cmp.Or(p["state"], "Active"),
			p["zoneid"] != "" && len(offering.ZoneIDs) > 0 && !slices.Contains(offering.ZoneIDs, p["zoneid"]):
			continue
		}
		one := object{
			"id": offering.ID, "name": offering.Name, "displaytext": offering.Name, "state": state, "iscustomized": offering.Customized,
			"storagetype": "shared", "provisioningtype": "thin", "isvolatile": false, "issystem": false, "defaultuse": false,
			"created": "2026-01-01T00:00:00+0000",
		}
		set(one, "cpunumber", offering.CPU)
		set(one, "cpuspeed", offering.CPUSpeedMHz)
		set(one, "memory", offering.MemoryMiB)
		set(one, "hosttags", offering.HostTags)
		set(one, "storagetags", offering.StorageTags)
		set(one, "rootdisksize", offering.RootDiskGiB)
		set(one, "gpucount", offering.GPUs)
		set(one, "gpucardname", offering.GPUCard)
		set(one, "vgpuprofilename", offering.VGPUProfile)
		set(one, "zoneid", strings.Join(offering.ZoneIDs, ","))
		if len(offering.Details) > 0 {
			one["serviceofferingdetails"] = maps.Clone(offering.Details)
		}
		found = append(found, one)
	}
	return c.page("serviceoffering", found, p)
}

func (c *CloudStack) listDiskOfferings(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.diskOfferings.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, offering := range c.diskOfferings.all() {
		if wanted.fits(offering.ID, "", nil) && (p["name"] == "" || offering.Name == p["name"]) {
			found = append(found, object{"id": offering.ID, "name": offering.Name, "disksize": offering.SizeGiB, "iscustomized": offering.SizeGiB == 0})
		}
	}
	return c.page("diskoffering", found, p)
}

func (c *CloudStack) listSecurityGroups(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.securityGroups.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, group := range c.securityGroups.all() {
		if !wanted.fits(group.ID, "", group.Tags) || p["securitygroupname"] != "" && group.Name != p["securitygroupname"] {
			continue
		}
		found = append(found, object{
			"id": group.ID, "name": group.Name, "account": Account, "ingressrule": []object{}, "egressrule": []object{},
			"tags": describeTags(group.Tags, "SecurityGroup", group.ID),
		})
	}
	return c.page("securitygroup", found, p)
}

func (c *CloudStack) listProjects(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.projects.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, project := range c.projects.all() {
		if wanted.fits(project.ID, "", nil) {
			found = append(found, object{"id": project.ID, "name": project.Name, "state": "Active"})
		}
	}
	return c.page("project", found, p)
}

func (c *CloudStack) listCapabilities(parameters) (object, *failure) {
	capability := object{
		"cloudstackversion": "4.22.0.0", "securitygroupsenabled": true, "dynamicrolesenabled": true, "customdiskofferingmaxsize": 1024,
		"customdiskofferingminsize": 1, "allowuserexpungerecovervm": c.mayExpunge(), "allowuserviewdestroyedvm": c.options.Admin,
		"kvmsnapshotenabled": false, "projectinviterequired": false, "supportELB": "false", "defaultuipagesize": 20,
	}
	if c.throttleMax > 0 {
		capability["apilimitinterval"], capability["apilimitmax"] = max(1, int(c.throttleEvery.Seconds())), c.throttleMax
	}
	return object{"capability": capability}, nil
}
