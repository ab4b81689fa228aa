package module

import (
	"strings"

	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// anywhere is every IPv4 address.
const anywhere = "0.0.0.0/0"

// openPorts are what the firewall that the module makes lets in, and nothing else.
var openPorts = []struct{ port, label string }{
	{port: "6443", label: "kubernetes api"},
	{port: "80", label: "http"},
	{port: "443", label: "https"},
}

// firewall creates the firewall of a cluster whose manifest names none, because Civo requires one. It lets in the
// Kubernetes API and web traffic only. Everything may go out: nodes pull images and reach Civo's API.
func firewall(
	ctx *pulumi.Context, locals *Locals, civoProvider *civo.Provider, opts ...pulumi.ResourceOption,
) (*civo.Firewall, error) {
	ingressRules := civo.FirewallIngressRuleArray{}
	for _, open := range openPorts {
		ingressRules = append(ingressRules, civo.FirewallIngressRuleArgs{
			Protocol:  pulumi.String("tcp"),
			PortRange: pulumi.String(open.port),
			Cidrs:     pulumi.ToStringArray([]string{anywhere}),
			Action:    pulumi.String("allow"),
			Label:     pulumi.String(open.label),
		})
	}

	return civo.NewFirewall(ctx, locals.ResourcePrefix+"firewall", &civo.FirewallArgs{
		Name:               firewallName(locals),
		NetworkId:          locals.NetworkId.ToStringOutput(),
		Region:             pulumi.String(locals.Region),
		CreateDefaultRules: pulumi.Bool(false),
		IngressRules:       ingressRules,
		EgressRules: civo.FirewallEgressRuleArray{
			civo.FirewallEgressRuleArgs{
				Protocol:  pulumi.String("tcp"),
				PortRange: pulumi.String("1-65535"),
				Cidrs:     pulumi.ToStringArray([]string{anywhere}),
				Action:    pulumi.String("allow"),
				Label:     pulumi.String("all tcp"),
			},
			civo.FirewallEgressRuleArgs{
				Protocol:  pulumi.String("udp"),
				PortRange: pulumi.String("1-65535"),
				Cidrs:     pulumi.ToStringArray([]string{anywhere}),
				Action:    pulumi.String("allow"),
				Label:     pulumi.String("all udp"),
			},
			civo.FirewallEgressRuleArgs{
				Protocol: pulumi.String("icmp"),
				Cidrs:    pulumi.ToStringArray([]string{anywhere}),
				Action:   pulumi.String("allow"),
				Label:    pulumi.String("all icmp"),
			},
		},
	}, append(opts,
		pulumi.Provider(civoProvider),
		pulumi.ReplaceOnChanges([]string{"networkId", "region"}),
	)...)
}

// firewallName is unique to the cluster and its network. When the network changes, the new firewall comes first and the
// old one goes last, after the cluster that it is in use by; the two need different names meanwhile.
func firewallName(locals *Locals) pulumi.StringInput {
	clusterName := locals.CivoKubernetesCluster.Spec.ClusterName
	return locals.NetworkId.ToStringOutput().ApplyT(func(networkId string) string {
		const maxLength, suffixLength = 63, 8
		suffix := networkId[:min(suffixLength, len(networkId))]
		prefix := clusterName[:min(maxLength-suffixLength-1, len(clusterName))]
		return strings.TrimRight(prefix, "-") + "-" + suffix
	}).(pulumi.StringOutput)
}
