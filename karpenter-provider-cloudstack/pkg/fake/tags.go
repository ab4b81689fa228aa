package fake

import (
	"strings"
)

// tagsOf are the tags of an object of a type; nil where there is none.
func (c *CloudStack) tagsOf(kind, id string) *map[string]string {
	switch kind {
	case "uservm":
		if m := c.machines.get(id); m != nil {
			return &m.Tags
		}
	case "volume":
		if v := c.volumes.get(id); v != nil {
			return &v.Tags
		}
	case "network":
		if network := c.networks.get(id); network != nil {
			return &network.Tags
		}
	case "template":
		if template := c.templates.get(id); template != nil {
			return &template.Tags
		}
	case "securitygroup":
		if group := c.securityGroups.get(id); group != nil {
			return &group.Tags
		}
	}
	return nil
}

func taggable(kind string) bool {
	switch kind {
	case "uservm", "volume", "network", "template", "securitygroup":
		return true
	}
	return false
}

// tagRequest reads what createTags and deleteTags have in common.
func tagRequest(name string, p parameters) (kind string, ids []string, refusal *failure) {
	switch {
	case p["resourceids"] == "":
		return "", nil, missing(name, "resourceids")
	case p["resourcetype"] == "":
		return "", nil, missing(name, "resourcetype")
	case !taggable(strings.ToLower(p["resourcetype"])):
		return "", nil, refuse(codeParameter, "The resource type %s doesn't support resource tags", p["resourcetype"])
	}
	return strings.ToLower(p["resourcetype"]), p.list("resourceids"), nil
}

func (c *CloudStack) createTags(p parameters, r *call) (object, *failure) {
	kind, ids, refusal := tagRequest("createtags", p)
	if refusal != nil {
		return nil, refusal
	}
	tags, _, refusal := p.tags(false)
	if refusal != nil {
		return nil, refusal
	}
	if len(tags) == 0 {
		return nil, missing("createtags", "tags")
	}
	planned := r.jobFault()
	j := c.begin("org.apache.cloudstack.api.command.user.tag.CreateTagsCmd", nil, c.latency("createTags"), func() (object, *failure) {
		if planned != nil {
			return nil, planned
		}
		// All or none, as in a transaction.
		for key, value := range tags {
			for _, id := range ids {
				has := c.tagsOf(kind, id)
				switch {
				case has == nil:
					return nil, refuse(codeParameter, "Unable to find resource by id %s and type %s", id, p["resourcetype"])
				case value == "":
					return nil, refuse(codeParameter, "Value for the key %s is either null or empty", key)
				}
				if _, there := (*has)[key]; there {
					return nil, refuse(codeInternal, "tag %s already on %s with id %s", key, p["resourcetype"], id)
				}
			}
		}
		for _, id := range ids {
			has := c.tagsOf(kind, id)
			added := make(map[string]string, len(*has)+len(tags))
			for _, from := range []map[string]string{*has, tags} {
				for key, value := range from {
					added[key] = value
				}
			}
			*has = added
		}
		return object{"success": true}, nil
	})
	r.jobID = j.id
	return object{"jobid": j.id}, nil
}

func (c *CloudStack) deleteTags(p parameters, r *call) (object, *failure) {
	kind, ids, refusal := tagRequest("deletetags", p)
	if refusal != nil {
		return nil, refusal
	}
	tags, anyValue, refusal := p.tags(false)
	if refusal != nil {
		return nil, refusal
	}
	planned := r.jobFault()
	j := c.begin("org.apache.cloudstack.api.command.user.tag.DeleteTagsCmd", nil, c.latency("deleteTags"), func() (object, *failure) {
		if planned != nil {
			return nil, planned
		}
		deleted := 0
		for _, id := range ids {
			has := c.tagsOf(kind, id)
			if has == nil {
				return nil, refuse(codeParameter, "Unable to find resource by id %s and type %s", id, p["resourcetype"])
			}
			kept := map[string]string{}
			for key, value := range *has {
				goes := len(tags) == 0
				for wanted, of := range tags {
					goes = goes || strings.EqualFold(key, wanted) && (anyValue[wanted] || strings.EqualFold(value, of))
				}
				if goes {
					deleted++
					continue
				}
				kept[key] = value
			}
			*has = kept
		}
		if deleted == 0 {
			return nil, refuse(codeInternal, "Failed to delete tags")
		}
		return object{"success": true}, nil
	})
	r.jobID = j.id
	return object{"jobid": j.id}, nil
}

func (c *CloudStack) listAffinityGroups(p parameters) (object, *failure) {
	wanted, refusal := c.selection(p, func(id string) bool { return c.affinityGroups.get(id) != nil })
	if refusal != nil {
		return nil, refusal
	}
	var found []object
	for _, group := range c.affinityGroups.all() {
		if !wanted.fits(group.ID, "", nil) || p["name"] != "" && group.Name != p["name"] || p["type"] != "" && group.Type != p["type"] ||
			!c.asked(p, group.ProjectID) {
			continue
		}
		found = append(found, c.describeGroup(group))
	}
	return c.page("affinitygroup", found, p)
}

func (c *CloudStack) describeGroup(group *AffinityGroup) object {
	machines := []string{}
	for _, m := range c.machines.all() {
		for _, id := range m.AffinityGroupIDs {
			if id == group.ID {
				machines = append(machines, m.ID)
			}
		}
	}
	o := object{
		"id": group.ID, "name": group.Name, "type": group.Type, "description": group.Description, "account": Account, "virtualmachineIds": machines,
	}
	set(o, "projectid", group.ProjectID)
	return o
}

func (c *CloudStack) createAffinityGroup(p parameters, r *call) (object, *failure) {
	switch {
	case p["name"] == "":
		return nil, missing("createaffinitygroup", "name")
	case p["type"] == "":
		return nil, missing("createaffinitygroup", "type")
	}
	switch p["type"] {
	case AntiAffinity, SoftAntiAffinity, "host affinity", "non-strict host affinity":
	default:
		return nil, refuse(codeParameter, "Unable to create affinity group, invalid affinity group type%s", p["type"])
	}
	if refusal := c.checkScope(p); refusal != nil {
		return nil, refusal
	}
	for _, group := range c.affinityGroups.all() {
		if group.Name == p["name"] && group.ProjectID == p["projectid"] {
			return nil, refuse(codeParameter, "Unable to create affinity group, a group with name %s already exists.", group.Name)
		}
	}
	// The row is made with the request; the job has little left to do.
	group := &AffinityGroup{
		ID: c.newID("affinitygroup"), Name: p["name"], Type: p["type"], Description: p["description"], ProjectID: p["projectid"],
	}
	c.affinityGroups.put(group.ID, group)
	planned := r.jobFault()
	j := c.begin("org.apache.cloudstack.api.command.user.affinitygroup.CreateAffinityGroupCmd", nil, c.latency("createAffinityGroup"),
		func() (object, *failure) {
			if planned != nil {
				return nil, planned
			}
			return object{"affinitygroup": c.describeGroup(group)}, nil
		})
	r.jobID = j.id
	return object{"id": group.ID, "jobid": j.id}, nil
}

// deleteAffinityGroup deletes a group whether machines are in it or not, as CloudStack does: they are in none then.
func (c *CloudStack) deleteAffinityGroup(p parameters, r *call) (object, *failure) {
	if p["id"] == "" {
		return nil, refuse(codeParameter, "Either the affinity group Id or group name must be specified to delete the group")
	}
	group := c.affinityGroups.get(p["id"])
	if group == nil {
		return nil, unknownID("id", p["id"])
	}
	planned := r.jobFault()
	j := c.begin("org.apache.cloudstack.api.command.user.affinitygroup.DeleteAffinityGroupCmd", nil, c.latency("deleteAffinityGroup"),
		func() (object, *failure) {
			if planned != nil {
				return nil, planned
			}
			if c.affinityGroups.get(group.ID) == nil {
				return nil, refuse(codeParameter, "Unable to find affinity group by id %s", group.ID)
			}
			c.affinityGroups.remove(group.ID)
			return object{"success": true}, nil
		})
	r.jobID = j.id
	return object{"jobid": j.id}, nil
}
