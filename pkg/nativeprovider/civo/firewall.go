package civo

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/civo/civogo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// The two lists of rules by their direction in the API.
var ruleLists = []struct {
	key       resource.PropertyKey
	direction string
}{
	{"ingressRules", "ingress"},
	{"egressRules", "egress"},
}

// ruleProperty describes one rule.
func ruleProperty(objectName string) *nativeprovider.Property {
	return &nativeprovider.Property{
		Type: nativeprovider.Object, ObjectName: objectName, Check: checkRule,
		Fields: []nativeprovider.Property{
			{Name: "action", Required: true, Check: oneOf("allow", "deny"), Description: "allow or deny."},
			{
				Name: "cidrs", Type: nativeprovider.Set, Elem: &nativeprovider.Property{}, Required: true,
				Description: "The other end, in CIDR notation.",
			},
			{Name: "id", Computed: true, Description: "Civo's id of the rule."},
			{Name: "label", Description: "Name of the rule."},
			{Name: "portRange", Equal: equalPorts, Description: "A port (80) or a range (8000-9000). Not for icmp."},
			{Name: "protocol", Default: "tcp", Check: oneOf("tcp", "udp", "icmp"), Description: "tcp, udp or icmp."},
		},
	}
}

var portsPattern = regexp.MustCompile(`^[0-9]{1,5}(-[0-9]{1,5})?$`)

func checkRule(value any) error {
	rule, _ := value.(map[string]any)
	ports, _ := rule["portRange"].(string)
	if ports == "" {
		if rule["protocol"] != "icmp" {
			return errors.New("portRange is required unless protocol is icmp")
		}
		return nil
	}
	if rule["protocol"] != "icmp" && !portsPattern.MatchString(ports) {
		return errors.Errorf("portRange %q is neither a port (80) nor a range (8000-9000)", ports)
	}
	if cidrs, _ := rule["cidrs"].([]any); len(cidrs) == 0 {
		return errors.New("cidrs must not be empty")
	}
	return nil
}

// equalPorts takes "80" and "80-80" for the same.
func equalPorts(old, new any) bool {
	normal := func(v any) string {
		s, _ := v.(string)
		if first, last, isRange := strings.Cut(s, "-"); isRange && first == last {
			return first
		}
		return s
	}
	return normal(old) == normal(new)
}

func firewallResource() *nativeprovider.Resource {
	return &nativeprovider.Resource{
		Description: "A firewall with its rules.",
		Properties: []nativeprovider.Property{
			{Name: "name", Autoname: maxName, Check: checkName, Description: "Name, unique in its region. Changes in place."},
			{Name: "networkId", Computed: true, Replaces: true, Check: checkUUID, Description: "The network; the region's default one when absent."},
			regionProperty(),
			{
				Name: "createDefaultRules", Type: nativeprovider.Bool, Default: true,
				Description: "Whether Civo makes its default rules (all open). Must be false to give rules.",
			},
			{
				Name: "ingressRules", Type: nativeprovider.Set, Computed: true, Elem: ruleProperty("FirewallIngressRule"),
				Description: "What may come in.",
			},
			{
				Name: "egressRules", Type: nativeprovider.Set, Computed: true, Elem: ruleProperty("FirewallEgressRule"),
				Description: "What may go out.",
			},
		},
		Timeouts: nativeprovider.Timeouts{Create: 5 * time.Minute, Update: 5 * time.Minute, Delete: 5 * time.Minute},
		Check: func(inputs resource.PropertyMap) []plugin.CheckFailure {
			if inputs["createDefaultRules"].ContainsUnknowns() {
				return nil
			}
			given := false
			for _, list := range ruleLists {
				value := inputs[list.key]
				given = given || value.IsComputed() || value.IsArray() && len(value.ArrayValue()) > 0
			}
			defaults := nativeprovider.GetBool(inputs, "createDefaultRules")
			switch {
			case defaults && given:
				return []plugin.CheckFailure{{
					Property: "createDefaultRules",
					Reason:   "createDefaultRules: must be false when ingressRules or egressRules are given",
				}}
			case !defaults && !given:
				return []plugin.CheckFailure{{
					Property: "ingressRules",
					Reason:   "ingressRules: at least one rule is required when createDefaultRules is false",
				}}
			}
			return nil
		},
		Diff: func(diff *nativeprovider.Diff) error {
			if diff.Changed("createDefaultRules") && diff.Known("createDefaultRules") && nativeprovider.GetBool(diff.New, "createDefaultRules") {
				// Civo makes its rules with the firewall or never. A firewall that has rules may well have them from there.
				has := false
				for _, list := range ruleLists {
					has = has || len(nativeprovider.GetObjects(diff.Old, list.key)) > 0
				}
				if has {
					diff.Drop("createDefaultRules")
				} else {
					diff.Replace("createDefaultRules")
				}
			}
			// Without default rules the program's rules are all there is: a direction that it does not name has none.
			if diff.Known("createDefaultRules") && !nativeprovider.GetBool(diff.New, "createDefaultRules") {
				for _, list := range ruleLists {
					diff.Remove(string(list.key))
				}
			}
			return nil
		},
		Parent:              "region",
		Identity:            []string{"networkId"},
		DeleteBeforeReplace: keeps("name"),
		Create:              createFirewall,
		Read:                readFirewall,
		Update:              updateFirewall,
		Delete:              deleteFirewall,
	}
}

func firewallPath(id string) string { return "/v2/firewalls/" + url.PathEscape(id) }

func (r regional) firewalls(ctx context.Context) ([]civogo.Firewall, error) {
	const path = "/v2/firewalls"
	var firewalls []civogo.Firewall
	err := r.call(ctx, http.MethodGet, path, nil, &firewalls)
	if err == nil && firewalls == nil {
		err = holdsNothing(path, "list of firewalls")
	}
	return firewalls, err
}

// firewall finds a firewall by id. The API reads firewalls as a list only; one that is missing from a complete list does not exist.
func (r regional) firewall(ctx context.Context, id string) (*civogo.Firewall, error) {
	firewalls, err := r.firewalls(ctx)
	if err != nil {
		return nil, err
	}
	for i := range firewalls {
		if firewalls[i].ID == id {
			return &firewalls[i], nil
		}
	}
	return nil, nativeprovider.NotFound(errors.Errorf("region %s has no firewall %s", r.code, id))
}

// rules are those of a firewall, as that was read last.
func (r regional) rules(ctx context.Context, firewall *civogo.Firewall) ([]civogo.FirewallRule, error) {
	path := firewallPath(firewall.ID) + "/rules"
	var rules []civogo.FirewallRule
	err := r.call(ctx, http.MethodGet, path, nil, &rules)
	if err == nil && rules == nil && firewall.RulesCount > 0 {
		err = holdsNothing(path, "list of rules")
	}
	return rules, err
}

func createFirewall(
	ctx context.Context, op *nativeprovider.Operation, inputs resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	r, err := c.in(nativeprovider.GetString(inputs, "region"))
	if err != nil {
		return "", nil, err
	}
	name := nativeprovider.GetString(inputs, "name")
	network := nativeprovider.GetString(inputs, "networkId")
	if network == "" {
		if network, err = r.defaultNetwork(ctx); err != nil {
			return "", nil, errors.Wrapf(err, "create civo firewall %s", name)
		}
	}
	defaults := nativeprovider.GetBool(inputs, "createDefaultRules")
	config := civogo.FirewallConfig{Name: name, Region: r.code, NetworkID: network, CreateRules: &defaults}
	for _, list := range ruleLists {
		for _, rule := range nativeprovider.GetObjects(inputs, list.key) {
			config.Rules = append(config.Rules, ruleOf(rule, list.direction))
		}
	}
	id, err := op.MakeOnce(ctx, r.making("firewall", name,
		func(ctx context.Context, name string) ([]nativeprovider.Found, error) {
			firewalls, err := r.firewalls(ctx)
			var found []nativeprovider.Found
			for _, firewall := range firewalls {
				if firewall.Name == name {
					found = append(found, nativeprovider.Found{ID: firewall.ID, State: resource.PropertyMap{"networkId": text(firewall.NetworkID)}})
				}
			}
			return found, err
		},
		func(ctx context.Context) (string, error) {
			var made civogo.FirewallResult
			err := r.call(ctx, http.MethodPost, "/v2/firewalls", config, &made)
			return made.ID, err
		}))
	if err != nil {
		return "", nil, errors.Wrapf(err, "create civo firewall %s", name)
	}
	state, err := r.firewallState(ctx, id)
	if err != nil {
		// Without rules: the update that follows looks at the real ones and adds what is missing.
		partial := resource.PropertyMap{
			"region": text(r.code), "networkId": text(network),
			"ingressRules": nativeprovider.Objects(nil), "egressRules": nativeprovider.Objects(nil),
		}
		return id, partial, errors.Wrapf(err, "create civo firewall %s", name)
	}
	return id, state, nil
}

// ruleOf is a rule of a program in the API's form.
func ruleOf(rule resource.PropertyMap, direction string) civogo.FirewallRule {
	converted := civogo.FirewallRule{
		Protocol:  nativeprovider.GetString(rule, "protocol"),
		Cidr:      nativeprovider.GetStrings(rule, "cidrs"),
		Direction: direction,
		Action:    nativeprovider.GetString(rule, "action"),
		Label:     nativeprovider.GetString(rule, "label"),
	}
	if converted.Protocol != "icmp" {
		converted.Ports = nativeprovider.GetString(rule, "portRange")
		first, last, isRange := strings.Cut(converted.Ports, "-")
		if !isRange {
			last = first
		}
		converted.StartPort, converted.EndPort = first, last
	}
	return converted
}

// ruleState is a rule of the API in a program's form.
func ruleState(rule civogo.FirewallRule) resource.PropertyMap {
	ports := rule.Ports
	if ports == "" && rule.StartPort != "" {
		ports = rule.StartPort
		if rule.EndPort != "" && rule.EndPort != rule.StartPort {
			ports += "-" + rule.EndPort
		}
	}
	return resource.PropertyMap{
		"id":        text(rule.ID),
		"action":    text(rule.Action),
		"cidrs":     nativeprovider.Strings(rule.Cidr),
		"label":     text(rule.Label),
		"portRange": text(ports),
		"protocol":  text(rule.Protocol),
	}
}

func (r regional) firewallState(ctx context.Context, id string) (resource.PropertyMap, error) {
	firewall, err := r.firewall(ctx, id)
	if err != nil {
		return nil, err
	}
	rules, err := r.rules(ctx, firewall)
	if err != nil {
		return nil, err
	}
	state := resource.PropertyMap{
		"name":      text(firewall.Name),
		"networkId": text(firewall.NetworkID),
		"region":    text(r.code),
	}
	for _, list := range ruleLists {
		var ours []resource.PropertyMap
		for _, rule := range rules {
			if rule.Direction == list.direction {
				ours = append(ours, ruleState(rule))
			}
		}
		state[list.key] = nativeprovider.Objects(ours)
	}
	return state, nil
}

func readFirewall(
	ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap,
) (string, resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return "", nil, err
	}
	var present resource.PropertyMap
	_, err = c.locate(ctx, nativeprovider.GetString(state, "region"), func(r regional) error {
		present, err = r.firewallState(ctx, id)
		return err
	})
	if err != nil {
		return "", nil, errors.Wrapf(err, "read civo firewall %s", id)
	}
	if len(state) == 0 {
		// The API does not tell whether rules were made by default. A firewall that is imported is described by its rules, if it has any.
		has := len(nativeprovider.GetObjects(present, "ingressRules"))+len(nativeprovider.GetObjects(present, "egressRules")) > 0
		present["createDefaultRules"] = resource.NewBoolProperty(!has)
	}
	return id, present, nil
}

func updateFirewall(
	ctx context.Context, op *nativeprovider.Operation, id string, state, inputs resource.PropertyMap,
) (resource.PropertyMap, error) {
	c, err := clientOf(op)
	if err != nil {
		return nil, err
	}
	r, err := c.in(nativeprovider.GetString(state, "region"))
	if err != nil {
		return nil, err
	}
	if err := r.applyFirewall(ctx, id, inputs); err != nil {
		// Some of it may be done: the record becomes what is there now.
		lookCtx, cancel := afterwards(ctx)
		defer cancel()
		present, _ := r.firewallState(lookCtx, id)
		return present, errors.Wrapf(err, "update civo firewall %s", id)
	}
	updated, err := r.firewallState(ctx, id)
	return updated, errors.Wrapf(err, "update civo firewall %s", id)
}

// applyFirewall makes a firewall what the inputs say. New rules come before old ones go, so that no traffic that is allowed before and after
// is cut in between.
func (r regional) applyFirewall(ctx context.Context, id string, inputs resource.PropertyMap) error {
	firewall, err := r.firewall(ctx, id)
	if err != nil {
		return err
	}
	if name := nativeprovider.GetString(inputs, "name"); name != "" && name != firewall.Name {
		if err := r.call(ctx, http.MethodPut, firewallPath(id), civogo.FirewallConfig{Name: name, Region: r.code}, nil); err != nil {
			return err
		}
	}
	present, err := r.rules(ctx, firewall)
	if err != nil {
		return err
	}
	var surplus []civogo.FirewallRule
	for _, list := range ruleLists {
		if !nativeprovider.Has(inputs, list.key) && nativeprovider.GetBool(inputs, "createDefaultRules") {
			continue // Civo's own rules
		}
		var left []civogo.FirewallRule
		for _, rule := range present {
			if rule.Direction == list.direction {
				left = append(left, rule)
			}
		}
		element := ruleProperty("")
		for _, wanted := range nativeprovider.GetObjects(inputs, list.key) {
			found := false
			for i, rule := range left {
				if element.Same(resource.NewObjectProperty(ruleState(rule)), resource.NewObjectProperty(wanted)) {
					left = append(left[:i], left[i+1:]...)
					found = true
					break
				}
			}
			if found {
				continue
			}
			rule := ruleOf(wanted, list.direction)
			config := civogo.FirewallRuleConfig{
				FirewallID: id, Region: r.code, Protocol: rule.Protocol, StartPort: rule.StartPort, EndPort: rule.EndPort,
				Cidr: rule.Cidr, Direction: rule.Direction, Action: rule.Action, Label: rule.Label, Ports: rule.Ports,
			}
			if err := r.call(ctx, http.MethodPost, firewallPath(id)+"/rules", config, nil); err != nil {
				return err
			}
		}
		surplus = append(surplus, left...)
	}
	for _, rule := range surplus {
		err := r.call(ctx, http.MethodDelete, firewallPath(id)+"/rules/"+url.PathEscape(rule.ID), nil, nil)
		if err != nil && !nativeprovider.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func deleteFirewall(ctx context.Context, op *nativeprovider.Operation, id string, state resource.PropertyMap) error {
	c, err := clientOf(op)
	if err != nil {
		return err
	}
	r, err := c.in(nativeprovider.GetString(state, "region"))
	if err != nil {
		return err
	}
	err = r.remove(ctx, op, "firewall "+id, firewallPath(id), func(ctx context.Context) error {
		_, err := r.firewall(ctx, id)
		return err
	})
	return errors.Wrapf(err, "delete civo firewall %s", id)
}
