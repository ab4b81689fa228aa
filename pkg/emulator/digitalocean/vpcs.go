package digitalocean

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

type vpcRequest struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Region      string `json:"region"`
	IPRange     string `json:"ip_range"`
}

type vpcUpdate struct {
	Name        *string `json:"name"`
	Description *string `json:"description"`
	Default     *bool   `json:"default"`
}

// maxDescription is the most characters of a VPC's description.
const maxDescription = 255

func (c *Cloud) createVPC(r *http.Request) (reply, error) {
	request, err := read[vpcRequest](r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, now time.Time) (VPC, error) {
		place, ok := regionNamed(request.Region)
		if !ok {
			return VPC{}, invalid("region is invalid")
		}
		ipRange, err := s.vpcRange(request.IPRange)
		if err != nil {
			return VPC{}, err
		}
		id := emulator.NewID()
		vpc := &VPC{ID: id, URN: "do:vpc:" + id, Region: place.Slug, IPRange: ipRange, CreatedAt: now.Truncate(time.Second)}
		if err := s.describeVPC(vpc, request.Name, request.Description); err != nil {
			return VPC{}, err
		}
		s.VPCs = append(s.VPCs, vpc)
		return *vpc, nil
	})
	return respond(http.StatusCreated, "vpc", object), err
}

// describeVPC names a VPC. Names are unique in the account.
func (s *state) describeVPC(vpc *VPC, name, description string) error {
	if !vpcNameForm().MatchString(name) {
		return invalid("name may only contain letters, numbers, dashes and periods")
	}
	for _, other := range s.VPCs {
		if other.Name == name && other.ID != vpc.ID {
			return invalid("a VPC with the name %q already exists", name)
		}
	}
	if len([]rune(description)) > maxDescription {
		return invalid("description is too long (maximum is %d characters)", maxDescription)
	}
	vpc.Name, vpc.Description = name, description
	return nil
}

// vpcRange checks the range that was asked for, or chooses one. No two ranges of an account may overlap.
func (s *state) vpcRange(text string) (string, error) {
	if text == "" {
		return s.freeRange()
	}
	network, err := parsePrivate("ip_range", text)
	if err != nil {
		return "", err
	}
	if network.Bits() < 16 || network.Bits() > 28 {
		return "", invalid("ip_range %s must be between /16 and /28", network)
	}
	for _, reserved := range reservedRanges {
		if reserved.Overlaps(network) {
			return "", invalid("ip_range %s overlaps the reserved range %s", network, reserved)
		}
	}
	if other := s.overlapping(network); other != nil {
		return "", invalid("This range/size overlaps with another VPC network in your account: %s", other.Name)
	}
	return network.String(), nil
}

func (s *state) overlapping(network netip.Prefix) *VPC {
	for _, vpc := range s.VPCs {
		if taken, err := netip.ParsePrefix(vpc.IPRange); err == nil && taken.Overlaps(network) {
			return vpc
		}
	}
	return nil
}

// freeRange is a /20 that no other VPC of the account overlaps.
func (s *state) freeRange() (string, error) {
	first, last := netip.MustParsePrefix("10.100.0.0/20"), netip.MustParseAddr("10.200.0.0")
	for network := first; network.Addr().Less(last); network = nextRange(network) {
		if s.overlapping(network) == nil {
			return network.String(), nil
		}
	}
	return "", invalid("there is no free range left, give one as ip_range")
}

// nextRange is the /20 after a /20.
func nextRange(network netip.Prefix) netip.Prefix {
	bytes := network.Addr().As4()
	next := (binary.BigEndian.Uint32(bytes[:]) &^ (1<<12 - 1)) + 1<<12
	binary.BigEndian.PutUint32(bytes[:], next)
	return netip.PrefixFrom(netip.AddrFrom4(bytes), 20)
}

func (c *Cloud) listVPCs(r *http.Request) (reply, error) {
	return listed(r, "vpcs", seen(c, vpcs)), nil
}

func (c *Cloud) getVPC(r *http.Request) (reply, error) {
	object, err := find(c, func(s *state, _ time.Time) (VPC, error) {
		vpc, err := s.vpc(r.PathValue("vpc"))
		if err != nil {
			return VPC{}, err
		}
		return *vpc, nil
	})
	return respond(http.StatusOK, "vpc", object), err
}

// updateVPC answers PUT, which must name the VPC, and PATCH. What else is left out stays as it is: godo leaves an empty
// description out of its PUT, so it takes a PATCH with an explicit "" to empty one.
func (c *Cloud) updateVPC(r *http.Request) (reply, error) {
	request, err := read[vpcUpdate](r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, _ time.Time) (VPC, error) {
		vpc, err := s.vpc(r.PathValue("vpc"))
		if err != nil {
			return VPC{}, err
		}
		name, description := vpc.Name, vpc.Description
		if r.Method == http.MethodPut {
			name = ""
		}
		if request.Name != nil {
			name = *request.Name
		}
		if request.Description != nil {
			description = *request.Description
		}
		if err := s.describeVPC(vpc, name, description); err != nil {
			return VPC{}, err
		}
		// A region always has a default, so one can only be put in the place of another.
		if request.Default != nil && *request.Default && !vpc.Default {
			s.defaultVPC(vpc.Region).Default = false
			vpc.Default = true
		}
		return *vpc, nil
	})
	return respond(http.StatusOK, "vpc", object), err
}

func (c *Cloud) deleteVPC(r *http.Request) (reply, error) {
	return reply{status: http.StatusNoContent}, c.DeleteVPC(r.PathValue("vpc"))
}

// removeVPC deletes a VPC that is neither a default nor has members.
func (s *state) removeVPC(id string, now time.Time) error {
	vpc, err := s.vpc(id)
	if err != nil {
		return err
	}
	if vpc.Default {
		return forbidden("Can not delete default VPCs")
	}
	if len(s.members(id, now)) > 0 {
		return conflict("Can not delete VPC with members")
	}
	s.VPCs = slices.DeleteFunc(s.VPCs, func(other *VPC) bool { return other.ID == id })
	return nil
}

// member is a resource that stands in a VPC.
type member struct {
	URN       string    `json:"urn"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// members are the clusters of a VPC, those deleted a short while ago, and load balancers that Kubernetes made.
func (s *state) members(vpcID string, now time.Time) []member {
	members := []member{}
	for _, cluster := range s.Clusters {
		if cluster.VPCUUID == vpcID {
			members = append(members, member{cluster.urn(), cluster.Name, cluster.CreatedAt})
		}
	}
	for _, former := range s.FormerMembers {
		if former.VPCUUID == vpcID && !reached(now, former.Until) {
			members = append(members, member{former.URN, former.Name, former.CreatedAt})
		}
	}
	for _, balancer := range s.LoadBalancers {
		if balancer.VPCUUID == vpcID {
			members = append(members, member{"do:loadbalancer:" + balancer.ID, balancer.Name, balancer.CreatedAt})
		}
	}
	return members
}

func (c *Cloud) listVPCMembers(r *http.Request) (reply, error) {
	members, err := find(c, func(s *state, now time.Time) ([]member, error) {
		vpc, err := s.vpc(r.PathValue("vpc"))
		if err != nil {
			return nil, err
		}
		return s.members(vpc.ID, now), nil
	})
	if err != nil {
		return reply{}, err
	}
	return listed(r, "members", members), nil
}
