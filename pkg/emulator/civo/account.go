package civo

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// account is all that an emulated account holds, in the order of creation.
type account struct {
	// Cloud is cloudName, so that the state of another cloud is not taken for an account of Civo's.
	Cloud     string      `json:"cloud"`
	Networks  []*Network  `json:"networks"`
	Firewalls []*Firewall `json:"firewalls"`
	Clusters  []*Cluster  `json:"clusters"`
	// Volumes and LoadBalancers are what Kubernetes made.
	Volumes       []*AssociatedResource `json:"volumes,omitempty"`
	LoadBalancers []*AssociatedResource `json:"load_balancers,omitempty"`
	// Versions are versions of Kubernetes beyond the catalogue's.
	Versions []Version `json:"versions,omitempty"`
	Quota    Quota     `json:"quota"`
	// Addresses counts the public addresses given out, so that none is given twice.
	Addresses int `json:"addresses"`
	// Unseen says until when the objects of these ids are missing from reads, see ids.
	Unseen map[string]time.Time `json:"unseen,omitempty"`
	// Lingering are clusters that are gone and count as members of their networks all the same.
	Lingering []lingering `json:"lingering,omitempty"`
}

// Quota bounds what an account may hold, over all regions. Zero is no bound.
type Quota struct {
	Instances     int `json:"instances,omitempty"`      // nodes
	CPUCores      int `json:"cpu_cores,omitempty"`      // of all nodes
	RAMMegabytes  int `json:"ram_megabytes,omitempty"`  // of all nodes
	DiskGigabytes int `json:"disk_gigabytes,omitempty"` // of all nodes
	Networks      int `json:"networks,omitempty"`       // the default ones not counted
	Firewalls     int `json:"firewalls,omitempty"`      // those of the default networks not counted
}

const cloudName = "civo"

// newAccount holds what Civo gives a new account: in each region a default network with a firewall.
func newAccount() *account {
	a := &account{Cloud: cloudName}
	for _, region := range regions {
		network := a.addNetwork(region.Code, "default")
		network.Default = true
		a.Firewalls = append(a.Firewalls, &Firewall{
			ID:        newID(),
			Region:    region.Code,
			Name:      "default-default",
			NetworkID: network.ID,
			Rules:     defaultRules(),
		})
	}
	return a
}

// addNetwork gives the network the first /24 of 192.168.0.0/16 that its region has left.
func (a *account) addNetwork(region, label string) *Network {
	network := &Network{
		ID:            newID(),
		Region:        region,
		Label:         label,
		Status:        "Active",
		IPv4Enabled:   true,
		NameserversV4: []string{"8.8.8.8", "1.1.1.1"},
	}
	network.rename(label)
	for third := 1; ; third++ {
		network.CIDR = fmt.Sprintf("192.168.%d.0/24", third)
		// Beyond 254 networks they overlap, which the real cloud allows too: networks are apart from each other.
		if third == 254 || !a.usesCIDR(region, network.CIDR) {
			break
		}
	}
	a.Networks = append(a.Networks, network)
	return network
}

func (a *account) usesCIDR(region, cidr string) bool {
	for _, network := range a.Networks {
		if network.Region == region && network.CIDR == cidr {
			return true
		}
	}
	return false
}

func (a *account) network(region, id string) (*Network, error) {
	for _, network := range a.Networks {
		if network.Region == region && network.ID == id {
			return network, nil
		}
	}
	return nil, errNetworkNotFound(id)
}

func (a *account) defaultNetwork(region string) *Network {
	for _, network := range a.Networks {
		if network.Region == region && network.Default {
			return network
		}
	}
	return nil // not reached: every region has one, and it cannot be deleted
}

func (a *account) firewall(region, id string) (*Firewall, error) {
	for _, firewall := range a.Firewalls {
		if firewall.Region == region && firewall.ID == id {
			return firewall, nil
		}
	}
	return nil, errFirewallNotFound(id)
}

// cluster finds a cluster that is not gone, in whatever status.
func (a *account) cluster(region, id string, now time.Time) (*Cluster, error) {
	for _, cluster := range a.Clusters {
		if cluster.Region == region && cluster.ID == id && !cluster.gone(now) {
			return cluster, nil
		}
	}
	return nil, errClusterNotFound(id)
}

// clusters are those of a region that are not gone, of all regions for "".
func (a *account) clusters(region string, now time.Time) []*Cluster {
	var present []*Cluster
	for _, cluster := range a.Clusters {
		if (region == "" || cluster.Region == region) && !cluster.gone(now) {
			present = append(present, cluster)
		}
	}
	return present
}

// forget drops what is gone. It changes nothing that anyone could see.
func (a *account) forget(now time.Time) {
	present := a.clusters("", now)
	for _, cluster := range present {
		cluster.forget(now)
	}
	a.Clusters = present
	a.forgetEffects(now)
}

// address gives out the next public address. 198.18.0.0/15 is set aside for tests of networks (RFC 2544), so an address of an
// emulated cluster is never someone else's.
func (a *account) address() string {
	a.Addresses++
	next := a.Addresses
	return netip.AddrFrom4([4]byte{198, byte(18 + next>>16&1), byte(next >> 8), byte(next)}).String()
}

func newID() string { return emulator.NewID() }
