package module

import (
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/unsupported"
)

// firewall creates the firewall with its rules.
func firewall(
	ctx *pulumi.Context, locals *Locals, civoProvider *civo.Provider, opts ...pulumi.ResourceOption,
) (*civo.Firewall, error) {
	spec := locals.CivoFirewall.Spec
	if len(spec.Tags) > 0 {
		if err := unsupported.Warn(ctx, "spec.tags",
			"Civo cannot attach a firewall to instances by tag; name the firewall at the cluster or instance"); err != nil {
			return nil, err
		}
	}

	ingressRules := civo.FirewallIngressRuleArray{}
	for _, rule := range spec.InboundRules {
		args := civo.FirewallIngressRuleArgs{
			Protocol: pulumi.String(protocol(rule)),
			Cidrs:    pulumi.ToStringArray(rule.Cidrs),
			Action:   pulumi.String(action(rule)),
		}
		if rule.PortRange != "" {
			args.PortRange = pulumi.String(rule.PortRange)
		}
		if rule.Label != "" {
			args.Label = pulumi.String(rule.Label)
		}
		ingressRules = append(ingressRules, args)
	}

	egressRules := civo.FirewallEgressRuleArray{}
	for _, rule := range spec.OutboundRules {
		args := civo.FirewallEgressRuleArgs{
			Protocol: pulumi.String(protocol(rule)),
			Cidrs:    pulumi.ToStringArray(rule.Cidrs),
			Action:   pulumi.String(action(rule)),
		}
		if rule.PortRange != "" {
			args.PortRange = pulumi.String(rule.PortRange)
		}
		if rule.Label != "" {
			args.Label = pulumi.String(rule.Label)
		}
		egressRules = append(egressRules, args)
	}

	args := &civo.FirewallArgs{
		Name:      pulumi.String(spec.Name),
		NetworkId: locals.NetworkId.ToStringOutput(),
		Region:    pulumi.String(locals.Region),
		// Civo's default rules open every port to everyone.
		CreateDefaultRules: pulumi.Bool(false),
	}
	if len(ingressRules) > 0 {
		args.IngressRules = ingressRules
	}
	if len(egressRules) > 0 {
		args.EgressRules = egressRules
	}

	return civo.NewFirewall(ctx, locals.ResourcePrefix+"firewall", args, append(opts,
		pulumi.Provider(civoProvider),
		// A firewall keeps its network and its region for life.
		pulumi.ReplaceOnChanges([]string{"networkId", "region"}),
		// Names are unique, so the old firewall must be gone before the new one comes.
		pulumi.DeleteBeforeReplace(true),
	)...)
}

// protocol returns the protocol of a rule, tcp when it names none.
func protocol(rule *civofirewallv1.CivoFirewallRule) string {
	if rule.Protocol == "" {
		return "tcp"
	}
	return rule.Protocol
}

// action returns what a rule does, allow when it does not say.
func action(rule *civofirewallv1.CivoFirewallRule) string {
	if rule.Action == "" {
		return "allow"
	}
	return rule.Action
}
