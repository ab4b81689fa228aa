package digitalocean

import (
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

type firewallRequest struct {
	Name          string         `json:"name"`
	InboundRules  []InboundRule  `json:"inbound_rules"`
	OutboundRules []OutboundRule `json:"outbound_rules"`
	DropletIDs    []int          `json:"droplet_ids"`
	Tags          []string       `json:"tags"`
}

// portsForm is a port, a range of ports, or all of them.
var portsForm = regexp.MustCompile(`^(all|[0-9]{1,5}(-[0-9]{1,5})?)$`)

// normalise checks the request, and writes all ports as "0", as the API does.
func (f *firewallRequest) normalise() error {
	if !firewallName().MatchString(f.Name) {
		return invalid("name may only contain letters, numbers, dashes and periods, and starts with a letter or number")
	}
	if len(f.InboundRules)+len(f.OutboundRules) == 0 {
		return invalid("at least one rule must be specified")
	}
	for i := range f.InboundRules {
		rule := &f.InboundRules[i]
		if err := checkRule(rule.Protocol, &rule.Ports, rule.Sources, "sources"); err != nil {
			return err
		}
	}
	for i := range f.OutboundRules {
		rule := &f.OutboundRules[i]
		if err := checkRule(rule.Protocol, &rule.Ports, rule.Destinations, "destinations"); err != nil {
			return err
		}
	}
	for _, tag := range f.Tags {
		if !tagForm().MatchString(tag) {
			return invalid("tag %q may only contain letters, numbers, colons, dashes, and underscores", tag)
		}
	}
	return nil
}

func checkRule(protocol string, ports *string, peers *Peers, side string) error {
	switch {
	case protocol == "icmp":
		*ports = ""
	case protocol != "tcp" && protocol != "udp":
		return invalid("protocol %q is not one of tcp, udp, icmp", protocol)
	case !portsForm.MatchString(*ports):
		return invalid("ports %q is neither a port, a range of ports, nor all", *ports)
	case *ports == "all":
		*ports = "0"
	}
	if peers == nil || len(peers.Addresses)+len(peers.Tags)+len(peers.DropletIDs)+len(peers.LoadBalancerUIDs)+len(peers.KubernetesIDs) == 0 {
		return invalid("a rule needs %s", side)
	}
	for _, address := range peers.Addresses {
		if err := checkAddress(side+".addresses", address); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) firewall(id string) (*firewallRecord, error) {
	for _, firewall := range s.Firewalls {
		if firewall.ID == id {
			return firewall, nil
		}
	}
	return nil, notFound("firewall not found")
}

// setFirewall puts what was asked for in the place of what there was: PUT replaces a firewall whole.
func (c *Cloud) setFirewall(s *state, firewall *firewallRecord, request firewallRequest, now time.Time) error {
	for _, other := range s.Firewalls {
		if other.Name == request.Name && other.ID != firewall.ID {
			return conflict("duplicate name: a firewall with the name %q already exists", request.Name)
		}
	}
	firewall.Name, firewall.Tags, firewall.DropletIDs = request.Name, request.Tags, request.DropletIDs
	firewall.InboundRules, firewall.OutboundRules = request.InboundRules, request.OutboundRules
	firewall.AppliedAt = c.ends(s, now, firewallCreation)
	return nil
}

func (c *Cloud) createFirewall(r *http.Request) (reply, error) {
	request, err := readFirewall(r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, now time.Time) (Firewall, error) {
		firewall := &firewallRecord{Firewall: Firewall{ID: emulator.NewID(), CreatedAt: now.Truncate(time.Second)}}
		if err := c.setFirewall(s, firewall, request, now); err != nil {
			return Firewall{}, err
		}
		s.Firewalls = append(s.Firewalls, firewall)
		return firewall.object(now), nil
	})
	return respond(http.StatusAccepted, "firewall", object), err
}

func readFirewall(r *http.Request) (firewallRequest, error) {
	request, err := read[firewallRequest](r)
	if err == nil {
		err = request.normalise()
	}
	return request, err
}

func (c *Cloud) listFirewalls(r *http.Request) (reply, error) {
	return listed(r, "firewalls", seen(c, firewalls)), nil
}

func (c *Cloud) getFirewall(r *http.Request) (reply, error) {
	object, err := find(c, func(s *state, now time.Time) (Firewall, error) {
		firewall, err := s.firewall(r.PathValue("firewall"))
		if err != nil {
			return Firewall{}, err
		}
		return firewall.object(now), nil
	})
	return respond(http.StatusOK, "firewall", object), err
}

func (c *Cloud) updateFirewall(r *http.Request) (reply, error) {
	request, err := readFirewall(r)
	if err != nil {
		return reply{}, err
	}
	object, err := changeFor(c, r, func(s *state, now time.Time) (Firewall, error) {
		firewall, err := s.firewall(r.PathValue("firewall"))
		if err != nil {
			return Firewall{}, err
		}
		if err := c.setFirewall(s, firewall, request, now); err != nil {
			return Firewall{}, err
		}
		return firewall.object(now), nil
	})
	return respond(http.StatusOK, "firewall", object), err
}

func (c *Cloud) deleteFirewall(r *http.Request) (reply, error) {
	_, err := changeFor(c, r, func(s *state, _ time.Time) (any, error) {
		firewall, err := s.firewall(r.PathValue("firewall"))
		if err != nil {
			return nil, err
		}
		s.Firewalls = slices.DeleteFunc(s.Firewalls, func(other *firewallRecord) bool { return other == firewall })
		return nil, nil
	})
	return reply{status: http.StatusNoContent}, err
}
