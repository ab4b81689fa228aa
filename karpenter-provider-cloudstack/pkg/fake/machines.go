package fake

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// States of machines.
const (
	StateStarting  = "Starting"
	StateRunning   = "Running"
	StateStopping  = "Stopping"
	StateStopped   = "Stopped"
	StateDestroyed = "Destroyed"
	StateExpunging = "Expunging"
	StateError     = "Error"
)

// VM is a machine.
type VM struct {
	// ID is chosen where AddVM is given none.
	ID, Name, DisplayName, Group string
	// State is one of the states. Default of AddVM: Running.
	State string
	// ZoneID, OfferingID and TemplateID are ids, with the names that belong to them.
	ZoneID, ZoneName, OfferingID, OfferingName, TemplateID, TemplateName string
	// Arch is that of the template: x86_64, aarch64 or empty.
	Arch string
	// NetworkIDs, SecurityGroupIDs and AffinityGroupIDs are ids; KeyPairs are names.
	NetworkIDs, SecurityGroupIDs, AffinityGroupIDs, KeyPairs []string
	// UserData is as it was given: base64.
	UserData string
	// CPU, CPUSpeedMHz, MemoryMiB, RootDiskGiB and GPUs are its size.
	CPU, CPUSpeedMHz, MemoryMiB int
	RootDiskGiB                 int64
	GPUs                        int
	GPUCard, VGPUProfile        string
	// Tags are its tags, Details what it was made with, without those of its size.
	Tags, Details map[string]string
	// ProjectID is the project that it is of.
	ProjectID string
	// Address is its address in the first network.
	Address string
	// Host is the number of the host that it is on, -1 for none.
	Host int
	// Created is when it was made.
	Created time.Time

	busy   time.Time
	placed bool
}

func (m *VM) copy() VM {
	one := *m
	one.NetworkIDs, one.SecurityGroupIDs = slices.Clone(m.NetworkIDs), slices.Clone(m.SecurityGroupIDs)
	one.AffinityGroupIDs, one.KeyPairs = slices.Clone(m.AffinityGroupIDs), slices.Clone(m.KeyPairs)
	one.Tags, one.Details = maps.Clone(m.Tags), maps.Clone(m.Details)
	return one
}

// VMs are the machines, those that are destroyed and not yet expunged too, in the order in which they were made.
func (c *CloudStack) VMs() []VM {
	defer c.lock()()
	c.settle()
	machines := make([]VM, 0, len(c.machines.order))
	for _, m := range c.machines.all() {
		machines = append(machines, m.copy())
	}
	return machines
}

// Machine is a machine by its id; false where there is none, or no longer.
func (c *CloudStack) Machine(id string) (VM, bool) {
	defer c.lock()()
	c.settle()
	if m := c.machines.get(id); m != nil {
		return m.copy(), true
	}
	return VM{}, false
}

// AddVM adds a machine, as another user would.
func (c *CloudStack) AddVM(machine VM) VM {
	defer c.lock()()
	m := machine.copy()
	if m.ID == "" {
		m.ID = c.newID("vm")
	}
	if m.State == "" {
		m.State = StateRunning
	}
	if m.Tags == nil {
		m.Tags = map[string]string{}
	}
	if m.Created.IsZero() {
		m.Created = c.clock.Now()
	}
	if zone := c.zones.get(m.ZoneID); zone != nil {
		m.ZoneName = zone.Name
	}
	if offering := c.offerings.get(m.OfferingID); offering != nil {
		m.OfferingName = offering.Name
		if m.CPU == 0 {
			m.CPU, m.CPUSpeedMHz, m.MemoryMiB = offering.CPU, offering.CPUSpeedMHz, offering.MemoryMiB
		}
	}
	if template := c.templates.get(m.TemplateID); template != nil {
		m.TemplateName, m.Arch = template.Name, template.Arch
	}
	m.placed = m.State == StateRunning || m.State == StateStarting
	c.machines.put(m.ID, &m)
	c.addRootDisk(&m)
	if m.State == StateRunning {
		c.tell(eventRunning, &m)
	}
	return m.copy()
}

// SetState puts a machine into another state, as an operator or a host that breaks would: Stopped, Running, Error, Destroyed and so on.
// It tells whether there is such a machine.
func (c *CloudStack) SetState(id, state string) bool {
	defer c.lock()()
	c.settle()
	m := c.machines.get(id)
	if m == nil {
		return false
	}
	m.State = state
	m.placed = state == StateRunning || state == StateStarting
	switch state {
	case StateRunning:
		c.tell(eventRunning, m)
	case StateStopped:
		c.tell(eventStopped, m)
	case StateDestroyed, StateExpunging, StateError:
		c.tell(eventGone, m)
	}
	return true
}

// RemoveVM expunges a machine at once, behind the back of the API. Its data disks stay.
func (c *CloudStack) RemoveVM(id string) bool {
	defer c.lock()()
	c.settle()
	m := c.machines.get(id)
	if m == nil {
		return false
	}
	c.expunge(m, nil)
	return true
}

// ExpungeDestroyed expunges the machines that are destroyed, as CloudStack does after a while.
func (c *CloudStack) ExpungeDestroyed() {
	defer c.lock()()
	c.settle()
	for _, m := range c.machines.all() {
		if m.State == StateDestroyed || m.State == StateExpunging {
			c.expunge(m, nil)
		}
	}
}

// SetVMTags sets tags of a machine, as somebody in the user interface would; an empty value takes a tag away.
func (c *CloudStack) SetVMTags(id string, tags map[string]string) bool {
	defer c.lock()()
	m := c.machines.get(id)
	if m == nil {
		return false
	}
	for key, value := range tags {
		if value == "" {
			delete(m.Tags, key)
			continue
		}
		m.Tags[key] = value
	}
	return true
}

// expunge removes a machine with its tags, its root disk and the volumes named. c is locked.
func (c *CloudStack) expunge(m *VM, volumeIDs []string) {
	was := m.State
	m.State, m.placed = "Expunged", false
	c.machines.remove(m.ID)
	c.removed[m.ID] = m
	c.partFrom(m, volumeIDs, true)
	if was != StateDestroyed && was != StateExpunging {
		c.tell(eventGone, m)
	}
}

var hostName = regexp.MustCompile(`^[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

func (c *CloudStack) deployVirtualMachine(p parameters, r *call) (object, *failure) {
	m, disks, refusal := c.order(p, r)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := c.overLimit(m); refusal != nil {
		return nil, refusal
	}
	c.machines.put(m.ID, m)
	c.addRootDisk(m)
	for _, disk := range disks {
		disk.VMID, disk.ZoneID, disk.ProjectID = m.ID, m.ZoneID, m.ProjectID
		c.volumes.put(disk.ID, disk)
	}
	starts := p["startvm"] != "false"
	m.State = StateStarting
	latency := c.latency("deployVirtualMachine")
	noRoom := r.jobFault()
	if noRoom == nil && starts {
		if noRoom = c.place(m); noRoom != nil {
			latency /= 10
		}
	}
	j := c.begin("org.apache.cloudstack.api.command.user.vm.DeployVMCmd", m, latency, func() (object, *failure) {
		return c.deployed(m, starts, noRoom)
	})
	r.jobID = j.id
	return object{"id": m.ID, "jobid": j.id}, nil
}

// deployed ends a deployment.
func (c *CloudStack) deployed(m *VM, starts bool, failed *failure) (object, *failure) {
	if c.machines.get(m.ID) == nil {
		return nil, refuse(codeInternal, "Unable to find the machine %s", m.Name)
	}
	if failed != nil {
		// The row stays, and with it the name. Its disks are destroyed.
		m.State, m.placed, m.Host, m.Address = StateError, false, -1, ""
		for _, v := range c.volumes.all() {
			if v.VMID == m.ID {
				c.removeVolume(v.ID)
			}
		}
		return nil, failed
	}
	if m.State != StateStarting { // somebody has changed it meanwhile
		return object{"virtualmachine": c.describeVM(m)}, nil
	}
	m.State = StateStopped
	if starts {
		c.run(m)
	}
	return object{"virtualmachine": c.describeVM(m)}, nil
}

func (c *CloudStack) run(m *VM) {
	m.State = StateRunning
	for _, id := range m.NetworkIDs {
		if network := c.networks.get(id); network != nil && network.State == "Allocated" {
			network.State = "Implemented"
		}
	}
	c.tell(eventRunning, m)
}

// order makes a machine of the parameters, or says what is wrong with them.
func (c *CloudStack) order(p parameters, r *call) (*VM, []*Volume, *failure) {
	const name = "deployvirtualmachine"
	m := &VM{
		ID: c.newID("vm"), Name: p["name"], DisplayName: p["displayname"], Group: p["group"], UserData: p["userdata"], ProjectID: p["projectid"],
		Tags: map[string]string{}, Details: map[string]string{}, Created: c.clock.Now(), Host: -1,
	}
	for _, required := range []string{"serviceofferingid", "templateid", "zoneid"} {
		if p[required] == "" {
			return nil, nil, missing(name, required)
		}
	}
	if refusal := c.checkScope(p); refusal != nil {
		return nil, nil, refusal
	}
	zone, offering, template := c.zones.get(p["zoneid"]), c.offerings.get(p["serviceofferingid"]), c.templates.get(p["templateid"])
	switch {
	case zone == nil:
		return nil, nil, unknownID("zoneid", p["zoneid"])
	case offering == nil:
		return nil, nil, unknownID("serviceofferingid", p["serviceofferingid"])
	case template == nil:
		return nil, nil, unknownID("templateid", p["templateid"])
	case zone.Disabled && !c.options.Admin:
		return nil, nil, refuse(codeAccount, "Cannot perform this operation, Zone is currently disabled: %s", zone.Name)
	case offering.Inactive:
		return nil, nil, refuse(codeParameter, "Service offering %s is inactive", offering.Name)
	case len(offering.ZoneIDs) > 0 && !slices.Contains(offering.ZoneIDs, zone.ID):
		return nil, nil, refuse(codeAccount, "%s does not have permission to use offering %s in zone %s", Account, offering.Name, zone.Name)
	case !template.in(zone.ID) || slices.Contains(template.NotReadyZoneIDs, zone.ID):
		return nil, nil, refuse(codeParameter, "Template %s has not been completely downloaded to zone %s", template.Name, zone.Name)
	}
	m.ZoneID, m.ZoneName, m.OfferingID, m.OfferingName = zone.ID, zone.Name, offering.ID, offering.Name
	m.TemplateID, m.TemplateName, m.Arch = template.ID, template.Name, template.Arch
	m.GPUs, m.GPUCard, m.VGPUProfile = offering.GPUs, offering.GPUCard, offering.VGPUProfile
	if m.Name == "" {
		m.Name = "VM-" + m.ID
	}
	if m.DisplayName == "" {
		m.DisplayName = m.Name
	}
	if !hostName.MatchString(m.Name) {
		return nil, nil, refuse(codeParameter, "Invalid name. Vm name can contain ASCII letters 'a' through 'z', the digits '0' through '9', and the "+
			"hyphen ('-'), must be between 1 and 63 characters long, and can't start or end with \"-\" and can't start with digit")
	}
	steps := []func() *failure{
		func() *failure { return c.orderNetworks(m, p, zone) },
		func() *failure { return c.orderSize(m, r, offering) },
		func() *failure { return c.orderGroups(m, p, zone) },
		func() *failure { return c.checkUserData(p["userdata"], r.method) },
	}
	for _, step := range steps {
		if refusal := step(); refusal != nil {
			return nil, nil, refusal
		}
	}
	size, refusal := p.number("rootdisksize")
	switch {
	case refusal != nil:
		return nil, nil, refusal
	case size < 0 || size > 0 && size < template.SizeGiB:
		return nil, nil, refuse(codeParameter, "Root disk size of %d GB is smaller than the template's %d GB", size, template.SizeGiB)
	}
	// What an offering dictates takes priority over what is asked for. UserVmManagerImpl.configureCustomRootDiskSize
	own := offering.RootDiskGiB
	if id := p["overridediskofferingid"]; id != "" {
		instead := c.diskOfferings.get(id)
		switch {
		case instead == nil:
			return nil, nil, unknownID("overridediskofferingid", id)
		case instead.SizeGiB == 0 && size == 0:
			return nil, nil, refuse(codeParameter, "This disk offering requires a custom size specified")
		}
		own = instead.SizeGiB
	}
	m.RootDiskGiB = max(cmp.Or(own, size), template.SizeGiB)
	disks, refusal := c.orderDisks(m, p)
	if refusal != nil {
		return nil, nil, refusal
	}
	return m, disks, c.nameTaken(m)
}

func (t *Template) in(zoneID string) bool {
	return len(t.ZoneIDs) == 0 || slices.Contains(t.ZoneIDs, zoneID)
}

func (c *CloudStack) orderNetworks(m *VM, p parameters, zone *Zone) *failure {
	ids := p.list("networkids")
	if len(ids) == 0 {
		for _, network := range c.networks.all() {
			if network.ZoneID == zone.ID && !network.NotDeployable && network.ProjectID == m.ProjectID && (zone.SecurityGroups || network.Type == "Isolated") {
				ids = []string{network.ID}
				break
			}
		}
	}
	if len(ids) == 0 {
		return refuse(codeParameter, "Unable to find a default network to start a vm")
	}
	for _, id := range ids {
		network := c.networks.get(id)
		switch {
		case network == nil:
			return unknownID("networkids", id)
		case network.ZoneID != zone.ID:
			return refuse(codeParameter, "Network id=%s doesn't belong to zone %s", id, zone.ID)
		case network.ProjectID != m.ProjectID && network.Type == "Isolated":
			return refuse(codeAccount, "Unable to use network with id= %s, permission denied", id)
		}
	}
	m.NetworkIDs = ids
	return nil
}

func (c *CloudStack) orderSize(m *VM, r *call, offering *Offering) *failure {
	size := map[string]int{"cpunumber": offering.CPU, "cpuspeed": offering.CPUSpeedMHz, "memory": offering.MemoryMiB}
	for key, value := range r.rawDetails {
		which := strings.ToLower(key)
		if _, of := size[which]; !of {
			m.Details[key] = value
			continue
		}
		number, err := strconv.Atoi(value)
		if err != nil || number <= 0 {
			return refuse(codeParameter, "Invalid value %q of the detail %s", value, key)
		}
		if offering.Customized && size[which] == 0 {
			size[which] = number
		}
	}
	if size["cpunumber"] == 0 || size["cpuspeed"] == 0 || size["memory"] == 0 {
		return refuse(codeParameter, "Need to specify custom parameter values cpu, cpu speed and memory when using custom offering")
	}
	bounds := func(value int, least, most, what string) *failure {
		low, _ := strconv.Atoi(offering.Details[least])
		high, err := strconv.Atoi(offering.Details[most])
		if value < low || err == nil && value > high {
			return refuse(codeParameter, "Invalid %s value, specify a value between %d and %d", what, low, high)
		}
		return nil
	}
	if offering.Customized {
		if refusal := bounds(size["cpunumber"], "mincpunumber", "maxcpunumber", "CPU cores"); refusal != nil {
			return refusal
		}
		if refusal := bounds(size["memory"], "minmemory", "maxmemory", "memory"); refusal != nil {
			return refusal
		}
	}
	m.CPU, m.CPUSpeedMHz, m.MemoryMiB = size["cpunumber"], size["cpuspeed"], size["memory"]
	return nil
}

func (c *CloudStack) orderGroups(m *VM, p parameters, zone *Zone) *failure {
	m.SecurityGroupIDs, m.AffinityGroupIDs, m.KeyPairs = p.list("securitygroupids"), p.list("affinitygroupids"), p.list("keypairs")
	if one := p["keypair"]; one != "" {
		m.KeyPairs = append(m.KeyPairs, one)
	}
	for _, id := range m.SecurityGroupIDs {
		if c.securityGroups.get(id) == nil {
			return unknownID("securitygroupids", id)
		}
	}
	if len(m.SecurityGroupIDs) > 0 && !zone.SecurityGroups {
		return refuse(codeParameter, "Can't create vm with security groups; security group feature is not enabled per zone")
	}
	for _, id := range m.AffinityGroupIDs {
		if c.affinityGroups.get(id) == nil {
			return unknownID("affinitygroupids", id)
		}
	}
	for _, name := range m.KeyPairs {
		if !c.keyPairs[name] {
			return refuse(codeParameter, "A key pair with name '%s' was not found.", name)
		}
	}
	return nil
}

// maxUserDataGet and maxUserDataPost are the lengths from which on user data is too long for a GET and a POST.
const (
	maxUserDataGet  = 4096
	maxUserDataPost = 1 << 20
)

// checkUserData counts as CloudStack does: the length in base64, never that of what it is decoded to.
func (c *CloudStack) checkUserData(userData, method string) *failure {
	if userData == "" {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(userData)
	switch {
	case err != nil || len(data) == 0:
		return refuse(codeParameter, "User data should be base64 encoded")
	case method == "GET" && len(userData) >= maxUserDataGet, len(userData) >= maxUserDataPost:
		return refuse(codeParameter, "User data is too long for an http %s request", method)
	case len(userData) > c.options.MaxUserData:
		return refuse(codeParameter, "User data has exceeded vm.userdata.max.length : %d", c.options.MaxUserData)
	}
	return nil
}

// orderDisks reads diskofferingid and size, or datadisksdetails[0].diskofferingid and so on.
func (c *CloudStack) orderDisks(m *VM, p parameters) ([]*Volume, *failure) {
	var disks []*Volume
	add := func(prefix, offeringName, sizeName string) *failure {
		offering := c.diskOfferings.get(p[prefix+offeringName])
		if offering == nil {
			return unknownID(prefix+offeringName, p[prefix+offeringName])
		}
		size, refusal := p.number(prefix + sizeName)
		switch {
		case refusal != nil:
			return refusal
		case offering.SizeGiB == 0 && size <= 0:
			return refuse(codeParameter, "Disk offering %s requires size parameter.", offering.Name)
		case offering.SizeGiB > 0:
			size = offering.SizeGiB
		}
		disks = append(disks, &Volume{
			ID: c.newID("volume"), Name: fmt.Sprintf("DATA-%s-%d", m.ID[:8], len(disks)+1), DiskOfferingID: offering.ID, SizeGiB: size,
			Tags: map[string]string{}, Created: c.clock.Now(),
		})
		return nil
	}
	if p["diskofferingid"] != "" {
		if refusal := add("", "diskofferingid", "size"); refusal != nil {
			return nil, refusal
		}
	}
	for i := 0; ; i++ {
		prefix := fmt.Sprintf("datadisksdetails[%d].", i)
		if p[prefix+"diskofferingid"] == "" {
			return disks, nil
		}
		if refusal := add(prefix, "diskofferingid", "size"); refusal != nil {
			return nil, refusal
		}
	}
}

// nameTaken looks at all machines that have a row still, whatever their state, in the networks of the same network domains.
func (c *CloudStack) nameTaken(m *VM) *failure {
	domains := map[string]bool{}
	for _, id := range m.NetworkIDs {
		domains[c.networks.get(id).Domain] = true
	}
	for _, other := range c.machines.all() {
		if other.Name != m.Name {
			continue
		}
		for _, id := range other.NetworkIDs {
			network := c.networks.get(id)
			if network != nil && domains[network.Domain] {
				return refuse(codeParameter, "The vm with hostName %s already exists in the network domain: %s; network=%s", m.Name, network.Domain, network.Name)
			}
		}
	}
	return nil
}

// overLimit tells whether the account or the project would have too much.
func (c *CloudStack) overLimit(m *VM) *failure {
	limit, limited := c.limits[m.ProjectID]
	if !limited {
		return nil
	}
	machines, cpus, memory := 1, m.CPU, m.MemoryMiB
	for _, other := range c.machines.all() {
		if other.ProjectID == m.ProjectID && other.State != StateError && other.State != StateDestroyed && other.State != StateExpunging {
			machines, cpus, memory = machines+1, cpus+other.CPU, memory+other.MemoryMiB
		}
	}
	for _, one := range []struct {
		what      string
		has, most int
	}{{"user_vm", machines, limit.Machines}, {"cpu", cpus, limit.CPUs}, {"memory", memory, limit.MemoryMiB}} {
		if one.most > 0 && one.has > one.most {
			return refuse(limit.Code, "Maximum amount of resources of Type = '%s' for Account Name = '%s' has been exceeded: limit %d, needed %d",
				one.what, Account, one.most, one.has)
		}
	}
	return nil
}

// place finds room for a machine, or says what there is none of. c is locked.
func (c *CloudStack) place(m *VM) *failure {
	for _, id := range m.NetworkIDs {
		network := c.networks.get(id)
		if network == nil || network.Addresses == 0 {
			continue
		}
		used := 0
		for _, other := range c.machines.all() {
			// A machine that is being made holds one once it has found room; one that was made does until its row is gone.
			holds := other.placed || other.State != StateError && other.State != StateStarting
			if other != m && holds && slices.Contains(other.NetworkIDs, id) {
				used++
			}
		}
		if used >= network.Addresses {
			return refuse(network.AddressCode, "Unable to acquire Guest IP address for network %s: no free ip address", network.Name)
		}
	}
	noRoom := func(affinity bool) *failure {
		text := fmt.Sprintf("Unable to create a deployment for VM instance {\"name\":\"%s\"}", m.Name)
		if affinity {
			text += ", Please check the affinity groups provided, there may not be sufficient capacity to follow them"
		}
		return refuse(codeInsufficientCapacity, "%s", text)
	}
	tags := ""
	if offering := c.offerings.get(m.OfferingID); offering != nil {
		tags = sortedTags(offering.HostTags)
	}
	inPool, ofOffering := 0, 0
	for _, other := range c.machines.all() {
		if other == m || !other.placed || other.ZoneID != m.ZoneID {
			continue
		}
		if other.OfferingID == m.OfferingID {
			ofOffering++
		}
		if offering := c.offerings.get(other.OfferingID); offering != nil && sortedTags(offering.HostTags) == tags {
			inPool++
		}
	}
	if most, limited := c.capacity[m.ZoneID+"/tags/"+tags]; limited && inPool >= most {
		return noRoom(len(m.AffinityGroupIDs) > 0)
	}
	if most, limited := c.capacity[m.ZoneID+"/offering/"+m.OfferingID]; limited && ofOffering >= most {
		return noRoom(len(m.AffinityGroupIDs) > 0)
	}
	host, found := c.host(m)
	if !found {
		return noRoom(true)
	}
	m.Host, m.placed = host, true
	c.numbers++
	m.Address = fmt.Sprintf("10.%d.%d.%d", 1+c.numbers>>16&0x7f, c.numbers>>8&0xff, c.numbers&0xff)
	return nil
}

// host chooses a host: one that no machine of the same anti-affinity group is on. A soft group gives way.
func (c *CloudStack) host(m *VM) (int, bool) {
	hard, soft := map[int]bool{}, map[int]bool{}
	for _, id := range m.AffinityGroupIDs {
		group := c.affinityGroups.get(id)
		if group == nil {
			continue
		}
		for _, other := range c.machines.all() {
			if !other.placed || other.ZoneID != m.ZoneID || !slices.Contains(other.AffinityGroupIDs, id) {
				continue
			}
			switch group.Type {
			case AntiAffinity:
				hard[other.Host] = true
			case SoftAntiAffinity:
				soft[other.Host] = true
			}
		}
	}
	hosts := 1 << 20
	if zone := c.zones.get(m.ZoneID); zone != nil && zone.Hosts > 0 {
		hosts = zone.Hosts
	}
	last := -1
	for host := range hosts {
		if hard[host] {
			continue
		}
		if !soft[host] {
			return host, true
		}
		if last < 0 {
			last = host
		}
		if len(soft) >= hosts {
			break
		}
	}
	return last, last >= 0
}

// find finds a machine by the parameter id. One that was expunged is found too: its id is known still.
func (c *CloudStack) find(name string, p parameters) (*VM, *failure) {
	id := p["id"]
	switch {
	case id == "":
		return nil, missing(strings.ToLower(name), "id")
	case c.machines.get(id) != nil:
		return c.machines.get(id), nil
	case c.removed[id] != nil:
		return c.removed[id], nil
	}
	return nil, unknownID("id", id)
}

func (c *CloudStack) destroyVirtualMachine(p parameters, r *call) (object, *failure) {
	m, refusal := c.find("destroyVirtualMachine", p)
	if refusal != nil {
		return nil, refusal
	}
	volumeIDs := p.list("volumeids")
	for _, id := range volumeIDs {
		if c.volumes.get(id) == nil && !c.removedVolumes[id] {
			return nil, unknownID("volumeids", id)
		}
	}
	expunge, planned := p["expunge"] == "true", r.jobFault()
	j := c.begin("org.apache.cloudstack.api.command.user.vm.DestroyVMCmd", m, c.latency("destroyVirtualMachine"), func() (object, *failure) {
		if planned != nil {
			return nil, planned
		}
		return c.destroyed(m, expunge, volumeIDs)
	})
	if m.State == StateRunning && planned == nil && (!expunge || c.mayExpunge()) {
		m.State = StateStopping
	}
	r.jobID = j.id
	return object{"jobid": j.id}, nil
}

func (c *CloudStack) mayExpunge() bool { return c.options.Admin || c.expungeAllowed }

// destroyed ends a destruction.
func (c *CloudStack) destroyed(m *VM, expunge bool, volumeIDs []string) (object, *failure) {
	switch {
	case expunge && !c.mayExpunge():
		return nil, refuse(codeInternal, "Parameter expunge can be passed by Admin only. Or when the allow.user.expunge.recover.vm key is set.")
	case c.machines.get(m.ID) == nil:
		return nil, refuse(codeParameter, "unable to find a virtual machine with id %s", m.ID)
	case (m.State == StateDestroyed || m.State == StateExpunging) && !expunge:
		return object{"virtualmachine": c.describeVM(m)}, nil
	}
	for _, id := range volumeIDs {
		if v := c.volumes.get(id); v == nil || v.VMID != m.ID {
			return nil, refuse(codeParameter, "The following supplied volumes are not attached to the VM: %s", id)
		}
	}
	if expunge {
		c.expunge(m, volumeIDs)
		return object{"virtualmachine": c.describeVM(m)}, nil
	}
	wasError := m.State == StateError
	m.State, m.placed, m.Host = StateDestroyed, false, -1
	c.partFrom(m, volumeIDs, false)
	if !wasError {
		c.tell(eventGone, m)
	}
	if c.options.ExpungeAfter > 0 {
		c.begin("expunge", nil, c.options.ExpungeAfter, func() (object, *failure) {
			if c.machines.get(m.ID) != nil && m.State == StateDestroyed {
				c.expunge(m, nil)
			}
			return nil, nil
		})
	}
	return object{"virtualmachine": c.describeVM(m)}, nil
}

func (c *CloudStack) expungeVirtualMachine(p parameters, r *call) (object, *failure) {
	m, refusal := c.find("expungeVirtualMachine", p)
	switch {
	case refusal != nil:
		return nil, refusal
	case !c.mayExpunge():
		return nil, refuse(codeAccount, "Expunging a vm can only be done by an Admin. Or when the allow.user.expunge.recover.vm key is set.")
	}
	j := c.begin("org.apache.cloudstack.api.command.admin.vm.ExpungeVMCmd", m, c.latency("expungeVirtualMachine"), func() (object, *failure) {
		if c.machines.get(m.ID) == nil {
			return nil, refuse(codeParameter, "unable to find a virtual machine with id %s", m.ID)
		}
		if m.State != StateDestroyed && m.State != StateExpunging && m.State != StateError {
			return nil, refuse(codeParameter, "Please destroy vm with specified id before expunging")
		}
		c.expunge(m, nil)
		return object{"success": true}, nil
	})
	r.jobID = j.id
	return object{"jobid": j.id}, nil
}

func (c *CloudStack) startVirtualMachine(p parameters, r *call) (object, *failure) {
	m, refusal := c.find("startVirtualMachine", p)
	if refusal != nil {
		return nil, refusal
	}
	planned := r.jobFault()
	j := c.begin("org.apache.cloudstack.api.command.user.vm.StartVMCmd", m, c.latency("startVirtualMachine"), func() (object, *failure) {
		switch {
		case planned != nil:
			return nil, planned
		case c.machines.get(m.ID) == nil:
			return nil, refuse(codeParameter, "unable to find a virtual machine with id %s", m.ID)
		case m.State == StateRunning:
			return object{"virtualmachine": c.describeVM(m)}, nil
		case m.State != StateStopped:
			return nil, refuse(codeInternal, "Unable to start a VM in state %s", m.State)
		}
		if noRoom := c.place(m); noRoom != nil {
			return nil, noRoom
		}
		c.run(m)
		return object{"virtualmachine": c.describeVM(m)}, nil
	})
	r.jobID = j.id
	return object{"jobid": j.id}, nil
}

func (c *CloudStack) stopVirtualMachine(p parameters, r *call) (object, *failure) {
	m, refusal := c.find("stopVirtualMachine", p)
	if refusal != nil {
		return nil, refusal
	}
	planned := r.jobFault()
	j := c.begin("org.apache.cloudstack.api.command.user.vm.StopVMCmd", m, c.latency("stopVirtualMachine"), func() (object, *failure) {
		switch {
		case planned != nil:
			return nil, planned
		case c.machines.get(m.ID) == nil:
			return nil, refuse(codeParameter, "unable to find a virtual machine with id %s", m.ID)
		case m.State == StateRunning:
			m.State, m.placed, m.Host = StateStopped, false, -1
			c.tell(eventStopped, m)
		}
		return object{"virtualmachine": c.describeVM(m)}, nil
	})
	r.jobID = j.id
	return object{"jobid": j.id}, nil
}

// jobFault is the planned failure of the job of a request.
func (r *call) jobFault() *failure {
	if r.fault.JobCode == 0 {
		return nil
	}
	text := r.fault.JobText
	if text == "" {
		text = "a planned fault"
	}
	return refuse(r.fault.JobCode, "%s", text)
}
