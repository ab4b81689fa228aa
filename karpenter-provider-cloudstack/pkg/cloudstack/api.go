package cloudstack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/pkg/errors"
)

// Types of the SDK that the API answers with.
type (
	// Zone is a zone.
	Zone = sdk.Zone
	// Network is a network.
	Network = sdk.Network
	// Template is a template in one zone.
	Template = sdk.Template
	// ServiceOffering is a service offering.
	ServiceOffering = sdk.ServiceOffering
	// DiskOffering is a disk offering.
	DiskOffering = sdk.DiskOffering
	// SecurityGroup is a security group.
	SecurityGroup = sdk.SecurityGroup
	// VirtualMachine is a machine.
	VirtualMachine = sdk.VirtualMachine
	// Volume is a disk.
	Volume = sdk.Volume
	// AffinityGroup is an affinity group.
	AffinityGroup = sdk.AffinityGroup
	// Capability is what the API can do, and lets these credentials do.
	Capability = sdk.Capability
)

// States of a machine. https://github.com/apache/cloudstack/blob/main/api/src/main/java/com/cloud/vm/VirtualMachine.java
const (
	StateStarting  = "Starting"
	StateRunning   = "Running"
	StateStopping  = "Stopping"
	StateStopped   = "Stopped"
	StateMigrating = "Migrating"
	StateDestroyed = "Destroyed"
	StateExpunging = "Expunging"
	StateExpunged  = "Expunged"
	StateError     = "Error"
)

// Types of resources that tags are put on.
const (
	ResourceVirtualMachine = "UserVm"
	ResourceVolume         = "Volume"
)

// pageSize is how many elements of a list are asked for at once: the most that a server takes that is configured as delivered.
const pageSize = 500

// Scope is whose objects are meant.
type Scope struct {
	// ProjectID is the id of a project; empty for none.
	ProjectID string
	// Account and DomainID are another account than that of the credentials, and its domain; both empty for that.
	Account, DomainID string
}

// scoped are the parameters of the SDK that have a scope. ListAll: without it, an administrator sees only what is its own account's.
type scoped interface {
	SetProjectid(string)
	SetAccount(string)
	SetDomainid(string)
}

func (s Scope) set(p scoped) {
	if s.ProjectID != "" {
		p.SetProjectid(s.ProjectID)
	}
	if s.Account != "" {
		p.SetAccount(s.Account)
		p.SetDomainid(s.DomainID)
	}
}

// listings is how often a list is read at most that changes while its pages are read.
const listings = 5

// all asks for the pages of a list, one after the other. It returns all or an error, never a part. Where an element goes while the pages
// are read, those behind it move up, and one would be missed. So a list whose length changes meanwhile is read again, until its length
// does not change, or until all that was seen the time before is still there: then nothing went the time before, and what came only moved
// others to pages that were read later. The id tells elements apart.
func all[T any](id func(*T) string, page func(number int) (count int, elements []*T, err error)) ([]*T, error) {
	var before []*T // nil: not read yet
	for range listings {
		read, changed, err := pages(page)
		if err != nil {
			return nil, err
		}
		now := make(map[string]*T, len(read))
		for _, element := range read {
			now[id(element)] = element
		}
		// What has moved to the next page meanwhile is there twice; the last of both is the freshest.
		got := slices.DeleteFunc(slices.Clone(read), func(element *T) bool { return now[id(element)] != element })
		gone := func(element *T) bool { return now[id(element)] == nil }
		if !changed && len(got) == len(read) || before != nil && !slices.ContainsFunc(before, gone) {
			return got, nil
		}
		before = got
	}
	return nil, errors.New("a list of CloudStack changes faster than its pages can be read")
}

// pages asks for the pages of a list once, and tells whether its length changed meanwhile.
func pages[T any](page func(number int) (count int, elements []*T, err error)) (got []*T, changed bool, err error) {
	length, size := -1, 0
	for number := 1; ; number++ {
		count, elements, err := page(number)
		if err != nil {
			return nil, false, err
		}
		if number == 1 {
			length, size = count, len(elements)
		}
		got = append(got, elements...)
		changed = changed || count != length || len(got) > count
		switch {
		case !changed && len(got) == count:
			return got, false, nil
		case !changed && len(elements) == 0:
			return nil, false, errors.Errorf("CloudStack counts %d elements of a list, and has shown %d", count, len(got))
		case changed && (len(elements) == 0 || number*size >= count):
			return got, true, nil
		}
	}
}

// ListZones lists the zones that the credentials may use.
func (c *Client) ListZones(ctx context.Context) ([]*Zone, error) {
	return all(func(one *Zone) string { return one.Id }, func(number int) (int, []*Zone, error) {
		answer, err := call(ctx, c, "listZones", func(client *sdk.CloudStackClient) (*sdk.ListZonesResponse, error) {
			p := client.Zone.NewListZonesParams()
			p.SetAvailable(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.Zone.ListZones(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.Zones, nil
	})
}

// ListNetworks lists the networks of a zone that machines can be put into. Networks that no machine is in yet are among them.
func (c *Client) ListNetworks(ctx context.Context, scope Scope, zoneID string) ([]*Network, error) {
	return all(func(one *Network) string { return one.Id }, func(number int) (int, []*Network, error) {
		answer, err := call(ctx, c, "listNetworks", func(client *sdk.CloudStackClient) (*sdk.ListNetworksResponse, error) {
			p := client.Network.NewListNetworksParams()
			scope.set(p)
			p.SetZoneid(zoneID)
			p.SetCanusefordeploy(true)
			p.SetListall(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.Network.ListNetworks(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.Networks, nil
	})
}

// ListTemplates lists the templates of a zone that machines can be made of.
func (c *Client) ListTemplates(ctx context.Context, scope Scope, zoneID string) ([]*Template, error) {
	// A template has one id in all zones.
	return all(func(one *Template) string { return one.Id + "/" + one.Zoneid }, func(number int) (int, []*Template, error) {
		answer, err := call(ctx, c, "listTemplates", func(client *sdk.CloudStackClient) (*sdk.ListTemplatesResponse, error) {
			p := client.Template.NewListTemplatesParams("executable")
			scope.set(p)
			p.SetZoneid(zoneID)
			p.SetListall(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.Template.ListTemplates(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.Templates, nil
	})
}

// ListServiceOfferings lists the service offerings that are in use.
func (c *Client) ListServiceOfferings(ctx context.Context, scope Scope) ([]*ServiceOffering, error) {
	return all(func(one *ServiceOffering) string { return one.Id }, func(number int) (int, []*ServiceOffering, error) {
		answer, err := call(ctx, c, "listServiceOfferings", func(client *sdk.CloudStackClient) (*sdk.ListServiceOfferingsResponse, error) {
			p := client.ServiceOffering.NewListServiceOfferingsParams()
			scope.set(p)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.ServiceOffering.ListServiceOfferings(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.ServiceOfferings, nil
	})
}

// ListDiskOfferings lists the disk offerings that the credentials may use.
func (c *Client) ListDiskOfferings(ctx context.Context, scope Scope) ([]*DiskOffering, error) {
	return all(func(one *DiskOffering) string { return one.Id }, func(number int) (int, []*DiskOffering, error) {
		answer, err := call(ctx, c, "listDiskOfferings", func(client *sdk.CloudStackClient) (*sdk.ListDiskOfferingsResponse, error) {
			p := client.DiskOffering.NewListDiskOfferingsParams()
			scope.set(p)
			p.SetListall(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.DiskOffering.ListDiskOfferings(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.DiskOfferings, nil
	})
}

// ListSecurityGroups lists security groups.
func (c *Client) ListSecurityGroups(ctx context.Context, scope Scope) ([]*SecurityGroup, error) {
	return all(func(one *SecurityGroup) string { return one.Id }, func(number int) (int, []*SecurityGroup, error) {
		answer, err := call(ctx, c, "listSecurityGroups", func(client *sdk.CloudStackClient) (*sdk.ListSecurityGroupsResponse, error) {
			p := client.SecurityGroup.NewListSecurityGroupsParams()
			scope.set(p)
			p.SetListall(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.SecurityGroup.ListSecurityGroups(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.SecurityGroups, nil
	})
}

// MachineQuery chooses machines. Fields that are set all have to fit.
type MachineQuery struct {
	// IDs are ids; those that are of nothing are left out of the answer.
	IDs []string
	// Name is the name, exactly.
	Name string
	// Keyword is a part of the name or of the display name.
	Keyword string
	// TagKey and TagValue are a tag. One only: CloudStack lists machines with any of several.
	TagKey, TagValue string
}

// ListVirtualMachines lists machines in all states, also those that are destroyed where the credentials may see them. The answer is
// complete, or there is an error. A query by id of a machine that is gone gives an empty list.
func (c *Client) ListVirtualMachines(ctx context.Context, scope Scope, query MachineQuery) ([]*VirtualMachine, error) {
	machines, err := all(func(one *VirtualMachine) string { return one.Id }, func(number int) (int, []*VirtualMachine, error) {
		answer, err := call(ctx, c, "listVirtualMachines", func(client *sdk.CloudStackClient) (*sdk.ListVirtualMachinesResponse, error) {
			p := client.VirtualMachine.NewListVirtualMachinesParams()
			scope.set(p)
			switch {
			case len(query.IDs) == 1:
				p.SetId(query.IDs[0])
			case len(query.IDs) > 1:
				p.SetIds(query.IDs)
			}
			if query.Name != "" {
				p.SetName(query.Name)
			}
			if query.Keyword != "" {
				p.SetKeyword(query.Keyword)
			}
			if query.TagKey != "" {
				p.SetTags(map[string]string{query.TagKey: query.TagValue})
			}
			p.SetListall(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.VirtualMachine.ListVirtualMachines(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.VirtualMachines, nil
	})
	if len(query.IDs) == 1 && IsNotFound(err) {
		return nil, nil
	}
	if query.Name != "" {
		// The server matches names as patterns.
		machines = slices.DeleteFunc(machines, func(m *VirtualMachine) bool { return m.Name != query.Name })
	}
	return machines, err
}

// DataDisk is a disk that a machine is made with.
type DataDisk struct {
	// DiskOfferingID is the id of its disk offering.
	DiskOfferingID string
	// SizeGiB is its size in GiB; 0 for that of the offering.
	SizeGiB int64
}

// Deployment is what a machine is to be.
type Deployment struct {
	Scope Scope
	// Name is its name and host name: at most 63 characters, letters, digits and hyphens, a letter first.
	Name string
	// DisplayName is what people are shown.
	DisplayName string
	// Group is the instance group that it is put into; empty for none.
	Group string
	// ZoneID, ServiceOfferingID and TemplateID are ids.
	ZoneID, ServiceOfferingID, TemplateID string
	// NetworkIDs are the ids of its networks, the default one first.
	NetworkIDs []string
	// SecurityGroupIDs, AffinityGroupIDs are ids.
	SecurityGroupIDs, AffinityGroupIDs []string
	// SSHKeyPairs are names of key pairs.
	SSHKeyPairs []string
	// UserData is base64.
	UserData string
	// RootDiskGiB is the size of the root disk; 0 for that of the offering or the template.
	RootDiskGiB int64
	// RootDiskOfferingID takes the place of the disk offering of the service offering; empty for none.
	RootDiskOfferingID string
	// DataDisks are further disks.
	DataDisks []DataDisk
	// Details are details of the machine. Those of the size are CPUNumber and the others.
	Details map[string]string
	// CPUNumber, CPUSpeedMHz and MemoryMiB are the size of a machine of an offering that has none; 0 for all others.
	CPUNumber, CPUSpeedMHz, MemoryMiB int
}

// parameters are those of deployVirtualMachine. They are not made by the SDK, because its datadisksdetails are not what the server reads.
func (d Deployment) parameters() map[string]string {
	p := map[string]string{
		"name": d.Name, "displayname": d.DisplayName, "group": d.Group, "zoneid": d.ZoneID, "serviceofferingid": d.ServiceOfferingID,
		"templateid": d.TemplateID, "networkids": strings.Join(d.NetworkIDs, ","), "securitygroupids": strings.Join(d.SecurityGroupIDs, ","),
		"affinitygroupids": strings.Join(d.AffinityGroupIDs, ","), "keypairs": strings.Join(d.SSHKeyPairs, ","), "userdata": d.UserData,
		"overridediskofferingid": d.RootDiskOfferingID, "projectid": d.Scope.ProjectID, "account": d.Scope.Account, "domainid": d.Scope.DomainID,
	}
	number := func(name string, value int64) {
		if value != 0 {
			p[name] = strconv.FormatInt(value, 10)
		}
	}
	number("rootdisksize", d.RootDiskGiB)
	for i, disk := range d.DataDisks {
		at := fmt.Sprintf("datadisksdetails[%d].", i)
		p[at+"diskofferingid"] = disk.DiskOfferingID
		p[at+"deviceid"] = strconv.Itoa(i + 1)
		number(at+"size", disk.SizeGiB)
	}
	for _, key := range slices.Sorted(maps.Keys(d.Details)) {
		p["details[0]."+key] = d.Details[key]
	}
	number("details[0].cpuNumber", int64(d.CPUNumber))
	number("details[0].cpuSpeed", int64(d.CPUSpeedMHz))
	number("details[0].memory", int64(d.MemoryMiB))
	maps.DeleteFunc(p, func(_, value string) bool { return value == "" })
	return p
}

// DeployVirtualMachine has a machine made and started. The id is known at once; whether there is room for it, the job tells. Where
// IsUnknownResult holds for the error, the machine may be in the making: look for its name.
func (c *Client) DeployVirtualMachine(ctx context.Context, deployment Deployment) (id string, job Job, err error) {
	const command = "deployVirtualMachine"
	type answer struct {
		ID    string `json:"id"`
		JobID string `json:"jobid"`
	}
	got, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (answer, error) {
		var got answer
		return got, custom(client, command, deployment.parameters(), &got)
	})
	if err == nil && got.ID == "" {
		err = &TransportError{Command: command, cause: errors.New("the answer has no id")}
	}
	return got.ID, newJob(command, got.JobID), err
}

// custom makes a request whose parameters are those given.
func custom(client *sdk.CloudStackClient, command string, parameters map[string]string, into any) error {
	service, ok := client.Custom.(*sdk.CustomService) // its interface has no methods
	if !ok {
		return errors.New("the SDK has no service for requests of one's own")
	}
	p := &sdk.CustomServiceParams{}
	for key, value := range parameters {
		p.SetParam(key, value)
	}
	return service.CustomPostRequest(command, p, into)
}

// DestroyVirtualMachine has a machine destroyed, with the volumes named: all others outlive it. With expunge it is gone for good, and its
// name free; that needs a permission, see ListCapabilities.
func (c *Client) DestroyVirtualMachine(ctx context.Context, id string, expunge bool, volumeIDs []string) (Job, error) {
	const command = "destroyVirtualMachine"
	answer, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (*sdk.DestroyVirtualMachineResponse, error) {
		p := client.VirtualMachine.NewDestroyVirtualMachineParams(id)
		if expunge {
			p.SetExpunge(true)
		}
		if len(volumeIDs) > 0 {
			p.SetVolumeids(volumeIDs)
		}
		return client.VirtualMachine.DestroyVirtualMachine(p)
	})
	if err != nil {
		return Job{}, err
	}
	return newJob(command, answer.JobID), nil
}

// StartVirtualMachine starts a machine that is stopped.
func (c *Client) StartVirtualMachine(ctx context.Context, id string) (Job, error) {
	const command = "startVirtualMachine"
	answer, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (*sdk.StartVirtualMachineResponse, error) {
		return client.VirtualMachine.StartVirtualMachine(client.VirtualMachine.NewStartVirtualMachineParams(id))
	})
	if err != nil {
		return Job{}, err
	}
	return newJob(command, answer.JobID), nil
}

// CreateTags puts the same tags on objects of one type. A tag that an object has already is an error.
func (c *Client) CreateTags(ctx context.Context, resourceType string, ids []string, tags map[string]string) (Job, error) {
	const command = "createTags"
	answer, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (*sdk.CreateTagsResponse, error) {
		return client.Resourcetags.CreateTags(client.Resourcetags.NewCreateTagsParams(ids, resourceType, tags))
	})
	if err != nil {
		return Job{}, err
	}
	return newJob(command, answer.JobID), nil
}

// DeleteTags takes tags from objects of one type, whatever their values.
func (c *Client) DeleteTags(ctx context.Context, resourceType string, ids, keys []string) (Job, error) {
	const command = "deleteTags"
	parameters := map[string]string{"resourceids": strings.Join(ids, ","), "resourcetype": resourceType}
	for i, key := range keys {
		parameters[fmt.Sprintf("tags[%d].key", i)] = key
	}
	type answer struct {
		JobID string `json:"jobid"`
	}
	got, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (answer, error) {
		var got answer
		return got, custom(client, command, parameters, &got)
	})
	return newJob(command, got.JobID), err
}

// ListVolumes lists the disks of a machine.
func (c *Client) ListVolumes(ctx context.Context, scope Scope, machineID string) ([]*Volume, error) {
	return c.volumes(ctx, scope, func(p *sdk.ListVolumesParams) { p.SetVirtualmachineid(machineID) })
}

// ListVolumesByTag lists the disks that have a tag.
func (c *Client) ListVolumesByTag(ctx context.Context, scope Scope, key, value string) ([]*Volume, error) {
	return c.volumes(ctx, scope, func(p *sdk.ListVolumesParams) { p.SetTags(map[string]string{key: value}) })
}

func (c *Client) volumes(ctx context.Context, scope Scope, choose func(*sdk.ListVolumesParams)) ([]*Volume, error) {
	return all(func(one *Volume) string { return one.Id }, func(number int) (int, []*Volume, error) {
		answer, err := call(ctx, c, "listVolumes", func(client *sdk.CloudStackClient) (*sdk.ListVolumesResponse, error) {
			p := client.Volume.NewListVolumesParams()
			scope.set(p)
			choose(p)
			p.SetListall(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.Volume.ListVolumes(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.Volumes, nil
	})
}

// DeleteVolume deletes a disk that is of no machine.
func (c *Client) DeleteVolume(ctx context.Context, id string) error {
	_, err := call(ctx, c, "deleteVolume", func(client *sdk.CloudStackClient) (*sdk.DeleteVolumeResponse, error) {
		return client.Volume.DeleteVolume(client.Volume.NewDeleteVolumeParams(id))
	})
	return err
}

// ListAffinityGroups lists the affinity groups of a name; all, where it is empty.
func (c *Client) ListAffinityGroups(ctx context.Context, scope Scope, name string) ([]*AffinityGroup, error) {
	return all(func(one *AffinityGroup) string { return one.Id }, func(number int) (int, []*AffinityGroup, error) {
		answer, err := call(ctx, c, "listAffinityGroups", func(client *sdk.CloudStackClient) (*sdk.ListAffinityGroupsResponse, error) {
			p := client.AffinityGroup.NewListAffinityGroupsParams()
			scope.set(p)
			if name != "" {
				p.SetName(name)
			}
			p.SetListall(true)
			p.SetPage(number)
			p.SetPagesize(pageSize)
			return client.AffinityGroup.ListAffinityGroups(p)
		})
		if err != nil {
			return 0, nil, err
		}
		return answer.Count, answer.AffinityGroups, nil
	})
}

// CreateAffinityGroup makes an affinity group of a type, such as "host anti-affinity".
func (c *Client) CreateAffinityGroup(ctx context.Context, scope Scope, name, groupType, description string) (Job, error) {
	const command = "createAffinityGroup"
	answer, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (*sdk.CreateAffinityGroupResponse, error) {
		p := client.AffinityGroup.NewCreateAffinityGroupParams(name, groupType)
		scope.set(p)
		p.SetDescription(description)
		return client.AffinityGroup.CreateAffinityGroup(p)
	})
	if err != nil {
		return Job{}, err
	}
	return newJob(command, answer.JobID), nil
}

// DeleteAffinityGroup deletes an affinity group that no machine is in.
func (c *Client) DeleteAffinityGroup(ctx context.Context, id string) (Job, error) {
	const command = "deleteAffinityGroup"
	answer, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (*sdk.DeleteAffinityGroupResponse, error) {
		p := client.AffinityGroup.NewDeleteAffinityGroupParams()
		p.SetId(id)
		return client.AffinityGroup.DeleteAffinityGroup(p)
	})
	if err != nil {
		return Job{}, err
	}
	return newJob(command, answer.JobID), nil
}

// ListCapabilities tells what the API can do, and lets these credentials do.
func (c *Client) ListCapabilities(ctx context.Context) (*Capability, error) {
	answer, err := call(ctx, c, "listCapabilities", func(client *sdk.CloudStackClient) (*sdk.ListCapabilitiesResponse, error) {
		return client.Configuration.ListCapabilities(client.Configuration.NewListCapabilitiesParams())
	})
	if err != nil {
		return nil, err
	}
	if answer.Capabilities == nil {
		return nil, &TransportError{Command: "listCapabilities", cause: errors.New("the answer has no capability")}
	}
	return answer.Capabilities, nil
}

// TagsOf are tags by their keys.
func TagsOf(tags []sdk.Tags) map[string]string {
	byKey := make(map[string]string, len(tags))
	for _, tag := range tags {
		byKey[tag.Key] = tag.Value
	}
	return byKey
}

// IsGone tells whether a machine in that state is no more, or about to be: nothing brings it back but an administrator.
func IsGone(state string) bool {
	return state == StateDestroyed || state == StateExpunging || state == StateExpunged
}

// createdLayout is how CloudStack writes times.
const createdLayout = "2006-01-02T15:04:05-0700"

// Created reads a time of CloudStack.
func Created(text string) (time.Time, error) {
	at, err := time.Parse(createdLayout, text)
	return at, errors.Wrap(err, "read a time of CloudStack")
}
