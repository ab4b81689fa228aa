package civofirewallv1_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/pkg/validation"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type manifest = *civofirewallv1.CivoFirewall

func valid() manifest {
	rule := func() []*civofirewallv1.CivoFirewallRule {
		return []*civofirewallv1.CivoFirewallRule{{
			Protocol: "tcp", PortRange: "6443", Cidrs: []string{"203.0.113.0/24"}, Action: "allow", Label: "K8s API restricted",
		}}
	}
	return &civofirewallv1.CivoFirewall{
		ApiVersion: "civo.project-planton.org/v1",
		Kind:       "CivoFirewall",
		Metadata:   &shared.CloudResourceMetadata{Name: "main"},
		Spec: &civofirewallv1.CivoFirewallSpec{
			Name: "main-firewall",
			NetworkId: &foreignkeyv1.StringValueOrRef{
				LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: "f73a4b7e-5b1c-4b0c-8f0e-0d6f9d3f2a11"},
			},
			InboundRules:  rule(),
			OutboundRules: rule(),
		},
	}
}

func TestCivoFirewall(t *testing.T) {
	t.Parallel()
	Run(t, valid,
		Manifest[manifest]("civo.project-planton.org/v1", "CivoFirewall"),
		Accepts[manifest]("metadata.name", "the firewall has a name of its own", "My firewall_1.a"),
		Name[manifest]("spec.name", "dns_label", 63, true),
		Reference[manifest]("spec.network_id", true),
		Enum[manifest]("spec.region", 3, false),
		CivoTags[manifest]("spec.tags"),
		rule("spec.inbound_rules[0]"),
		rule("spec.outbound_rules[0]"),
		Accepts[manifest]("spec.inbound_rules", "a firewall that lets nothing in", nil),
		Accepts[manifest]("spec.outbound_rules", "a firewall that lets nothing out", nil),
		[]Case[manifest]{
			{
				Name:   "no rules at all",
				Reason: "Civo would make rules of its own, which open everything",
				Mutate: Set[manifest]("spec.inbound_rules", nil, "spec.outbound_rules", nil),
				Want:   []Violation{{Field: "spec", Rule: "firewall.rules"}},
			},
			{
				Name:   "mistakes in two rules",
				Reason: "each mistake is told, with the rule's index",
				Mutate: Set[manifest](
					"spec.inbound_rules[1].cidrs[0]", "10.0.0.0/8", "spec.inbound_rules[1].port_range", "0",
					"spec.inbound_rules[2].cidrs[0]", "10.0.0.0/8", "spec.inbound_rules[2].port_range", "ssh"),
				Want: []Violation{
					{Field: "spec.inbound_rules[1].port_range", Rule: "port_range.bounds"},
					{Field: "spec.inbound_rules[2].port_range", Rule: "port_range"},
				},
			},
			{
				Name:   "an empty spec tells all that is required",
				Reason: "one look at the errors is enough to write the manifest",
				Mutate: func(m manifest) { m.Spec = &civofirewallv1.CivoFirewallSpec{} },
				Want: []Violation{
					{Field: "spec", Rule: "firewall.rules"}, {Field: "spec.name", Rule: "required"}, {Field: "spec.network_id", Rule: "required"},
				},
			},
		},
	)
}

// rule returns the cases of a firewall rule at a path.
func rule(path string) []Case[manifest] {
	ports, cidrs := path+".port_range", path+".cidrs"
	return slices.Concat(
		Accepts[manifest](path+".protocol", "protocols of Civo; tcp when absent", nil, "tcp", "udp", "icmp"),
		Rejects[manifest](path+".protocol", "firewall_rule.protocol", "not a protocol of Civo", "TCP", "http", "any", "icmpv6", " tcp"),
		Accepts[manifest](path+".action", "allow when absent", nil, "allow", "deny"),
		Rejects[manifest](path+".action", "firewall_rule.action", "not an action", "Allow", "drop", "reject"),
		Accepts[manifest](ports, "ports and ranges, at both ends", "1", "80", "65535", "1-65535", "8000-9000", "80-80", "65535-65535"),
		Rejects[manifest](ports, "port_range", "not a port or a range", "http", "80,443", "80 - 90", "80-", "-80", "80-90-100", "8e1", "+80", "080", "00", "100000", "1-100000", "*", "all"),
		Rejects[manifest](ports, "port_range.bounds", "no such port", "0", "0-80", "65536", "1-65536", "99999"),
		Rejects[manifest](ports, "port_range.bounds", "the higher first", "9-1", "65535-1", "90-80"),
		Accepts[manifest](cidrs, "networks of both versions, and everything", []string{"0.0.0.0/0", "::/0", "10.0.0.0/8", "203.0.113.7/32", "2001:db8::/32"}),
		Rejects[manifest](cidrs, "repeated.min_items", "a rule is for some addresses", nil),
		Rejects[manifest](cidrs, "repeated.unique", "the same network twice", []string{"10.0.0.0/8", "10.0.0.0/8"}),
		Rejects[manifest](cidrs+"[0]", "ip_network", "not a network", "", "10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "anywhere", "::1/0"),
		Accepts[manifest](path+".label", "short enough", nil, "K8s API", strings.Repeat("l", 255)),
		Rejects[manifest](path+".label", "string.max_len", "too long", strings.Repeat("l", 256)),
		[]Case[manifest]{
			{
				Name:   path + " icmp without ports",
				Reason: "icmp has no ports",
				Mutate: Set[manifest](path+".protocol", "icmp", ports, nil),
			},
			{
				Name:   path + " tcp without ports",
				Reason: "Civo requires them unless the protocol is icmp",
				Mutate: Set[manifest](path+".protocol", "tcp", ports, nil),
				Want:   []Violation{{Field: path, Rule: "firewall_rule.port_range_required"}},
			},
			{
				Name:   path + " no protocol and no ports",
				Reason: "an absent protocol means tcp",
				Mutate: Set[manifest](path+".protocol", nil, ports, nil),
				Want:   []Violation{{Field: path, Rule: "firewall_rule.port_range_required"}},
			},
		},
	)
}

// A range of ports is valid exactly when both ends are ports and the lower comes first.
func TestPortRangeLaw(t *testing.T) {
	t.Parallel()
	port := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(65533, 65538), rapid.IntRange(0, 99999))
	rapid.Check(t, func(t *rapid.T) {
		from, to := port.Draw(t, "from"), port.Draw(t, "to")
		m := valid()
		m.Spec.InboundRules[0].PortRange = fmt.Sprintf("%d-%d", from, to)
		holds := 1 <= from && from <= to && to <= 65535
		if err := validation.Validate(m); (err == nil) != holds {
			t.Fatalf("the law holds: %v; validation says: %v", holds, err)
		}
	})
}

func TestCivoFirewallStackInput(t *testing.T) {
	t.Parallel()
	StackInput(t, &civofirewallv1.CivoFirewallStackInput{Target: valid()})
}
