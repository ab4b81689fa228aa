package civo

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

// Network is a private network of one region.
type Network struct {
	ID     string `json:"id"`
	Region string `json:"region"`
	// Label is what the user called it, Name what Civo made of that.
	Label   string `json:"label"`
	Name    string `json:"name"`
	Default bool   `json:"default"`
	CIDR    string `json:"cidr"`
	Status  string `json:"status"`

	IPv4Enabled   bool     `json:"ipv4_enabled"`
	IPv6Enabled   bool     `json:"ipv6_enabled"`
	NameserversV4 []string `json:"nameservers_v4"`
	NameserversV6 []string `json:"nameservers_v6,omitempty"`

	// The rest is there when the network is connected to a VLAN.
	VLANID                int    `json:"vlan_id"`
	PhysicalInterface     string `json:"physical_interface,omitempty"`
	GatewayIPv4           string `json:"gateway_ipv4"`
	AllocationPoolV4Start string `json:"allocation_pool_v4_start"`
	AllocationPoolV4End   string `json:"allocation_pool_v4_end"`
}

func (n *Network) rename(label string) {
	n.Label = label
	n.Name = "cust-" + n.ID[:13] + "-" + label
}

type networkRequest struct {
	Label         string   `json:"label"`
	Region        string   `json:"region"`
	CIDRv4        string   `json:"cidr_v4"`
	IPv4Enabled   *bool    `json:"ipv4_enabled"`
	IPv6Enabled   *bool    `json:"ipv6_enabled"`
	NameserversV4 []string `json:"nameservers_v4"`
	NameserversV6 []string `json:"nameservers_v6"`
	VLAN          *struct {
		ID                    int    `json:"vlan_id"`
		PhysicalInterface     string `json:"physical_interface"`
		CIDRv4                string `json:"cidr_v4"`
		GatewayIPv4           string `json:"gateway_ipv4"`
		AllocationPoolV4Start string `json:"allocation_pool_v4_start"`
		AllocationPoolV4End   string `json:"allocation_pool_v4_end"`
	} `json:"vlan_connect"`
}

func (c *Cloud) listNetworks(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		found := []Network{}
		for _, network := range a.Networks {
			if network.Region == region {
				found = append(found, network.clone())
			}
		}
		return found, nil
	})
}

func (c *Cloud) getNetwork(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		network, err := a.network(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		return network.clone(), nil
	})
}

func (c *Cloud) createNetwork(r *http.Request) (any, error) {
	body, err := decode[networkRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		if !isLabel(body.Label) {
			return nil, errLabelInvalid(body.Label)
		}
		if a.networkByLabel(region, body.Label) != nil {
			return nil, errNetworkExists(body.Label)
		}
		cidr := body.CIDRv4
		if body.VLAN != nil && body.VLAN.CIDRv4 != "" {
			cidr = body.VLAN.CIDRv4
		}
		if cidr != "" {
			if prefix, err := netip.ParsePrefix(cidr); err != nil || !prefix.Addr().Is4() {
				return nil, errNetworkInvalid("The CIDR %q is not valid: want an IPv4 network such as 10.0.0.0/16", cidr)
			}
		}
		if err := checkNameservers(body); err != nil {
			return nil, err
		}

		network := a.addNetwork(region, body.Label)
		if cidr != "" {
			network.CIDR = cidr
		}
		network.apply(body)
		if vlan := body.VLAN; vlan != nil {
			network.VLANID = vlan.ID
			network.PhysicalInterface = vlan.PhysicalInterface
			network.GatewayIPv4 = vlan.GatewayIPv4
			network.AllocationPoolV4Start = vlan.AllocationPoolV4Start
			network.AllocationPoolV4End = vlan.AllocationPoolV4End
		}
		return success{ID: network.ID, Label: network.Label, Result: "success"}, nil
	})
}

// updateNetwork renames, or sets the name servers, or both: an empty label and no name servers leave what is there.
func (c *Cloud) updateNetwork(r *http.Request) (any, error) {
	body, err := decode[networkRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		network, err := a.network(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		if err := checkNameservers(body); err != nil {
			return nil, err
		}
		if body.Label != "" && body.Label != network.Label {
			if !isLabel(body.Label) {
				return nil, errLabelInvalid(body.Label)
			}
			if a.networkByLabel(region, body.Label) != nil {
				return nil, errNetworkDuplicateName(body.Label)
			}
			network.rename(body.Label)
		}
		network.apply(body)
		return success{ID: network.ID, Label: network.Label, Result: "success"}, nil
	})
}

func (n *Network) apply(body networkRequest) {
	if len(body.NameserversV4) > 0 {
		n.NameserversV4 = body.NameserversV4
	}
	if len(body.NameserversV6) > 0 {
		n.NameserversV6 = body.NameserversV6
	}
	if body.IPv4Enabled != nil {
		n.IPv4Enabled = *body.IPv4Enabled
	}
	if body.IPv6Enabled != nil {
		n.IPv6Enabled = *body.IPv6Enabled
	}
}

func checkNameservers(body networkRequest) error {
	for _, server := range slices.Concat(body.NameserversV4, body.NameserversV6) {
		if _, err := netip.ParseAddr(server); err != nil {
			return errNetworkInvalid("The name server %q is not an IP address", server)
		}
	}
	return nil
}

// deleteNetwork takes the network's firewalls along, as Civo does: the providers leave the network's own "<label>-default"
// firewall behind.
func (c *Cloud) deleteNetwork(r *http.Request) (any, error) {
	return c.update(r, "", func(a *account, region string) (any, error) {
		network, err := a.network(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		if network.Default {
			return nil, errNetworkIsDefault()
		}
		for _, cluster := range a.clusters(region, c.clock.Now()) {
			if cluster.NetworkID == network.ID {
				return nil, errNetworkInUse(network.Label)
			}
		}
		if a.isLingering(network.ID, c.clock.Now()) {
			return nil, errNetworkInUse(network.Label)
		}
		if a.hasVolumes(network.ID) {
			return nil, errNetworkHasVolumes(network.Label)
		}
		a.removeNetwork(network.ID)
		return done(), nil
	})
}

func (a *account) removeNetwork(id string) {
	a.Networks = slices.DeleteFunc(a.Networks, func(n *Network) bool { return n.ID == id })
	a.Firewalls = slices.DeleteFunc(a.Firewalls, func(f *Firewall) bool { return f.NetworkID == id })
}

func (a *account) networkByLabel(region, label string) *Network {
	for _, network := range a.Networks {
		if network.Region == region && network.Label == label {
			return network
		}
	}
	return nil
}

func (n *Network) clone() Network {
	copied := *n
	copied.NameserversV4 = slices.Clone(n.NameserversV4)
	copied.NameserversV6 = slices.Clone(n.NameserversV6)
	return copied
}

// isLabel tells whether a network or firewall can be called so.
func isLabel(label string) bool {
	return label != "" && len(label) <= 63 && !strings.ContainsFunc(label, unicode.IsSpace)
}
