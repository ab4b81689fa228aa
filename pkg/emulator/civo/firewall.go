package civo

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Firewall is a set of rules in one network.
type Firewall struct {
	ID        string `json:"id"`
	Region    string `json:"region"`
	Name      string `json:"name"`
	NetworkID string `json:"network_id"`
	Rules     []Rule `json:"rules"`
}

// Rule lets traffic through a firewall, or keeps it out.
type Rule struct {
	ID         string `json:"id"`
	FirewallID string `json:"firewall_id"`
	// Protocol is tcp, udp or icmp.
	Protocol string `json:"protocol"`
	// StartPort and EndPort are decimal numbers, both "" for icmp. Ports is the same as text, "80" or "8000-8100".
	StartPort string   `json:"start_port"`
	EndPort   string   `json:"end_port"`
	Ports     string   `json:"ports"`
	CIDR      []string `json:"cidr"`
	// Direction is ingress or egress.
	Direction string `json:"direction"`
	// Action is allow or deny.
	Action string `json:"action"`
	Label  string `json:"label"`
}

// firewallDocument is a firewall as the API answers it.
type firewallDocument struct {
	Firewall
	RulesCount        int `json:"rules_count"`
	InstanceCount     int `json:"instance_count"`
	ClusterCount      int `json:"cluster_count"`
	LoadBalancerCount int `json:"loadbalancer_count"`
}

// defaultRules let everything in and out, as the rules do that Civo makes when it is asked for no others.
func defaultRules() []Rule {
	var rules []Rule
	for _, direction := range []string{"ingress", "egress"} {
		rules = append(rules,
			Rule{Protocol: "tcp", StartPort: "1", EndPort: "65535", Ports: "1-65535", Label: "All TCP ports open", Direction: direction},
			Rule{Protocol: "udp", StartPort: "1", EndPort: "65535", Ports: "1-65535", Label: "All UDP ports open", Direction: direction},
			Rule{Protocol: "icmp", Label: "Ping/traceroute", Direction: direction},
		)
	}
	for i := range rules {
		rules[i].ID = newID()
		rules[i].CIDR = []string{"0.0.0.0/0"}
		rules[i].Action = "allow"
	}
	return rules
}

type ruleRequest struct {
	Region    string   `json:"region"`
	Protocol  string   `json:"protocol"`
	StartPort string   `json:"start_port"`
	EndPort   string   `json:"end_port"`
	Ports     string   `json:"ports"`
	CIDR      []string `json:"cidr"`
	Direction string   `json:"direction"`
	Action    string   `json:"action"`
	Label     string   `json:"label"`
}

// rule is the rule that the request asks for.
func (q ruleRequest) rule() (Rule, error) {
	rule := Rule{
		ID: newID(), Protocol: strings.ToLower(q.Protocol), CIDR: q.CIDR, Direction: q.Direction, Action: q.Action, Label: q.Label,
	}
	if rule.Protocol == "" {
		rule.Protocol = "tcp"
	}
	if rule.Action == "" {
		rule.Action = "allow"
	}
	switch {
	case !slices.Contains([]string{"tcp", "udp", "icmp"}, rule.Protocol):
		return Rule{}, errRuleInvalid("The protocol %q is not valid: want tcp, udp or icmp", q.Protocol)
	case rule.Direction != "ingress" && rule.Direction != "egress":
		return Rule{}, errRuleInvalid("The direction %q is not valid: want ingress or egress", q.Direction)
	case rule.Action != "allow" && rule.Action != "deny":
		return Rule{}, errRuleInvalid("The action %q is not valid: want allow or deny", q.Action)
	case len(rule.CIDR) == 0:
		return Rule{}, errRuleInvalid("A rule needs at least one CIDR")
	}
	for _, cidr := range rule.CIDR {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return Rule{}, errRuleInvalid("The CIDR %q is not valid: want a network such as 10.0.0.0/16", cidr)
		}
	}
	if rule.Protocol == "icmp" {
		return rule, nil
	}
	// ports win over start_port and end_port.
	start, end := q.StartPort, q.EndPort
	if q.Ports != "" {
		var isRange bool
		if start, end, isRange = strings.Cut(q.Ports, "-"); !isRange {
			end = start
		}
	}
	if start == "" {
		return Rule{}, errStartPortMissing(rule.Protocol)
	}
	if end == "" {
		end = start
	}
	first, last := portNumber(start), portNumber(end)
	if first == 0 || last == 0 || first > last {
		return Rule{}, errRuleInvalid("The ports %q to %q are not valid: want 1 to 65535, the lower one first", start, end)
	}
	rule.StartPort, rule.EndPort, rule.Ports = start, end, q.Ports
	if rule.Ports == "" {
		rule.Ports = start
		if first != last {
			rule.Ports = start + "-" + end
		}
	}
	return rule, nil
}

// portNumber is 0 for what is no port.
func portNumber(text string) int {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

func (f *Firewall) add(rule Rule) {
	rule.FirewallID = f.ID
	f.Rules = append(f.Rules, rule)
}

func (f *Firewall) clone() Firewall {
	copied := *f
	copied.Rules = make([]Rule, len(f.Rules))
	for i, rule := range f.Rules {
		rule.FirewallID = f.ID
		rule.CIDR = slices.Clone(rule.CIDR)
		copied.Rules[i] = rule
	}
	return copied
}

func (c *Cloud) document(a *account, firewall *Firewall) firewallDocument {
	document := firewallDocument{Firewall: firewall.clone(), RulesCount: len(firewall.Rules)}
	for _, cluster := range a.clusters(firewall.Region, c.clock.Now()) {
		if cluster.FirewallID == firewall.ID {
			document.ClusterCount++
		}
	}
	return document
}

func (c *Cloud) listFirewalls(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		found := []firewallDocument{}
		for _, firewall := range a.Firewalls {
			if firewall.Region == region {
				found = append(found, c.document(a, firewall))
			}
		}
		return found, nil
	})
}

func (c *Cloud) getFirewall(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		firewall, err := a.firewall(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		return c.document(a, firewall), nil
	})
}

type firewallRequest struct {
	Name      string `json:"name"`
	Region    string `json:"region"`
	NetworkID string `json:"network_id"`
	// CreateRules asks for the default rules; absent means yes.
	CreateRules *bool         `json:"create_rules"`
	Rules       []ruleRequest `json:"rules"`
}

func (c *Cloud) createFirewall(r *http.Request) (any, error) {
	body, err := decode[firewallRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		if !isLabel(body.Name) {
			return nil, errNameInvalid(body.Name)
		}
		network := a.defaultNetwork(region)
		if body.NetworkID != "" {
			var err error
			if network, err = a.network(region, body.NetworkID); err != nil {
				return nil, err
			}
		}
		if a.firewallByName(region, body.Name) != nil {
			return nil, errFirewallExists(body.Name)
		}

		firewall := &Firewall{ID: newID(), Region: region, Name: body.Name, NetworkID: network.ID}
		if body.CreateRules == nil || *body.CreateRules {
			firewall.Rules = defaultRules()
		}
		for _, asked := range body.Rules {
			rule, err := asked.rule()
			if err != nil {
				return nil, err
			}
			firewall.add(rule)
		}
		a.Firewalls = append(a.Firewalls, firewall)
		return success{ID: firewall.ID, Name: firewall.Name, Result: "success"}, nil
	})
}

// updateFirewall renames. The network of a firewall stays what it is, whatever the request says.
func (c *Cloud) updateFirewall(r *http.Request) (any, error) {
	body, err := decode[firewallRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		firewall, err := a.firewall(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		if !isLabel(body.Name) {
			return nil, errNameInvalid(body.Name)
		}
		if other := a.firewallByName(region, body.Name); other != nil && other != firewall {
			return nil, errFirewallDuplicateName(body.Name)
		}
		firewall.Name = body.Name
		return success{ID: firewall.ID, Name: firewall.Name, Result: "success"}, nil
	})
}

func (c *Cloud) deleteFirewall(r *http.Request) (any, error) {
	return c.update(r, "", func(a *account, region string) (any, error) {
		firewall, err := a.firewall(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		if c.document(a, firewall).ClusterCount > 0 {
			return nil, errFirewallInUse(firewall.Name)
		}
		if a.isLingering(firewall.ID, c.clock.Now()) {
			return nil, errFirewallInUse(firewall.Name)
		}
		a.Firewalls = slices.DeleteFunc(a.Firewalls, func(f *Firewall) bool { return f == firewall })
		return done(), nil
	})
}

func (a *account) firewallByName(region, name string) *Firewall {
	for _, firewall := range a.Firewalls {
		if firewall.Region == region && firewall.Name == name {
			return firewall
		}
	}
	return nil
}

func (c *Cloud) listRules(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		firewall, err := a.firewall(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		return firewall.clone().Rules, nil
	})
}

func (c *Cloud) getRule(r *http.Request) (any, error) {
	return c.view(r, func(a *account, region string) (any, error) {
		firewall, err := a.firewall(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		for _, rule := range firewall.clone().Rules {
			if rule.ID == r.PathValue("rule") {
				return rule, nil
			}
		}
		return nil, errRuleNotFound(r.PathValue("rule"))
	})
}

func (c *Cloud) createRule(r *http.Request) (any, error) {
	body, err := decode[ruleRequest](r)
	if err != nil {
		return nil, err
	}
	return c.update(r, body.Region, func(a *account, region string) (any, error) {
		firewall, err := a.firewall(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		rule, err := body.rule()
		if err != nil {
			return nil, err
		}
		firewall.add(rule)
		rule.FirewallID = firewall.ID
		return rule, nil
	})
}

func (c *Cloud) deleteRule(r *http.Request) (any, error) {
	return c.update(r, "", func(a *account, region string) (any, error) {
		firewall, err := a.firewall(region, r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		if !firewall.removeRule(r.PathValue("rule")) {
			return nil, errRuleNotFound(r.PathValue("rule"))
		}
		return done(), nil
	})
}

func (f *Firewall) removeRule(id string) bool {
	before := len(f.Rules)
	f.Rules = slices.DeleteFunc(f.Rules, func(rule Rule) bool { return rule.ID == id })
	return len(f.Rules) < before
}
