package soak

import (
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
)

// chance draws what a seed decides.
type chance struct{ *rand.Rand }

// in tells whether something of the probability happens.
func (c chance) in(probability float64) bool { return c.Float64() < probability }

// between draws a number, both ends included.
func (c chance) between(low, high int) int { return low + c.IntN(high-low+1) }

// of draws one of several.
func of[T any](c chance, all ...T) T { return all[c.IntN(len(all))] }

func metadata(name string) *shared.CloudResourceMetadata {
	return &shared.CloudResourceMetadata{Name: name, Org: "soak", Env: "test"}
}

// valueFrom refers to the default output of the default kind of the field.
func valueFrom(name string) *foreignkeyv1.StringValueOrRef {
	return &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{
		ValueFrom: &foreignkeyv1.ValueFromRef{Name: name},
	}}
}

// parts are what a set of manifests of one cloud has beside its network.
type parts struct {
	firewall, cluster bool
	pools             int
}

// civoManifests declare a network on Civo and what stands in it, in the order of their references.
func civoManifests(c chance, with parts) []proto.Message {
	const apiVersion = "civo.project-planton.org/v1"
	region := of(c, civo.CivoRegion_fra1, civo.CivoRegion_lon1, civo.CivoRegion_nyc1)
	network := &civovpcv1.CivoVpc{
		ApiVersion: apiVersion, Kind: "CivoVpc", Metadata: metadata("civo-net"),
		Spec: &civovpcv1.CivoVpcSpec{NetworkName: "soak-net", Region: region.String()},
	}
	if c.in(0.5) {
		network.Spec.IpRangeCidr = fmt.Sprintf("10.%d.0.0/22", c.between(10, 99))
	}
	manifests := []proto.Message{network}
	if with.firewall {
		spec := &civofirewallv1.CivoFirewallSpec{Name: "soak-fw", Region: region, NetworkId: valueFrom("civo-net")}
		for i := range c.between(1, 3) {
			spec.InboundRules = append(spec.InboundRules, firewallRule(c, 100*(i+1)))
		}
		if c.in(0.5) {
			spec.OutboundRules = append(spec.OutboundRules,
				&civofirewallv1.CivoFirewallRule{Protocol: "icmp", Cidrs: []string{"0.0.0.0/0"}, Label: "pings"})
		}
		manifests = append(manifests, &civofirewallv1.CivoFirewall{
			ApiVersion: apiVersion, Kind: "CivoFirewall", Metadata: metadata("civo-fw"), Spec: spec,
		})
	}
	if !with.cluster {
		return manifests
	}
	cluster := &civokubernetesclusterv1.CivoKubernetesClusterSpec{
		ClusterName: "soak-cluster", Region: region, KubernetesVersion: of(c, "1.29.8+k3s1", "1.30.5-k3s1"),
		Network: valueFrom("civo-net"),
		DefaultNodePool: &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{
			Name: of(c, "", "system"), Size: "g4s.kube.small", NodeCount: uint32(c.between(1, 3)),
		},
	}
	if with.firewall {
		cluster.Firewall = valueFrom("civo-fw")
	}
	if c.in(0.5) {
		cluster.Tags = []string{"team:soak", fmt.Sprintf("run:%d", c.between(1, 9))}
	}
	if c.in(0.5) {
		cluster.AdditionalNodePools = []*civokubernetesclusterv1.CivoKubernetesClusterNodePool{{
			Name: "extra", Size: "g4s.kube.medium", NodeCount: uint32(c.between(1, 3)), Labels: map[string]string{"workload": "extra"},
		}}
	}
	manifests = append(manifests, &civokubernetesclusterv1.CivoKubernetesCluster{
		ApiVersion: apiVersion, Kind: "CivoKubernetesCluster", Metadata: metadata("civo-cluster"), Spec: cluster,
	})
	for i := range with.pools {
		spec := &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{
			NodePoolName: fmt.Sprintf("pool-%d", i), Region: region, Cluster: valueFrom("civo-cluster"),
			Size: of(c, "g4s.kube.medium", "g4s.kube.large"), NodeCount: uint32(c.between(1, 3)),
			Labels: map[string]string{"workload": fmt.Sprintf("w%d", c.between(1, 9))},
		}
		if c.in(0.4) {
			spec.Taints = []*civokubernetesnodepoolv1.CivoKubernetesNodePoolTaint{{Key: "dedicated", Value: "soak", Effect: "NoSchedule"}}
		}
		manifests = append(manifests, &civokubernetesnodepoolv1.CivoKubernetesNodePool{
			ApiVersion: apiVersion, Kind: "CivoKubernetesNodePool", Metadata: metadata(fmt.Sprintf("civo-pool-%d", i)), Spec: spec,
		})
	}
	return manifests
}

func firewallRule(c chance, port int) *civofirewallv1.CivoFirewallRule {
	rule := &civofirewallv1.CivoFirewallRule{
		PortRange: fmt.Sprint(port), Cidrs: []string{"203.0.113.0/24"}, Label: fmt.Sprintf("port %d", port),
	}
	if c.in(0.3) {
		rule.Protocol, rule.PortRange = "udp", fmt.Sprintf("%d-%d", port, port+9)
	}
	return rule
}

// digitalOceanManifests declare a VPC on DigitalOcean and what stands in it, in the order of their references.
func digitalOceanManifests(c chance, with parts) []proto.Message {
	const apiVersion = "digital-ocean.project-planton.org/v1"
	region := of(c, digitalocean.DigitalOceanRegion_fra1, digitalocean.DigitalOceanRegion_nyc3, digitalocean.DigitalOceanRegion_ams3)
	vpc := &digitaloceanvpcv1.DigitalOceanVpc{
		ApiVersion: apiVersion, Kind: "DigitalOceanVpc", Metadata: metadata("do-net"),
		Spec: &digitaloceanvpcv1.DigitalOceanVpcSpec{Region: region, Description: of(c, "", "soaked")},
	}
	if c.in(0.5) {
		vpc.Spec.IpRangeCidr = fmt.Sprintf("10.%d.0.0/20", c.between(10, 99))
	}
	manifests := []proto.Message{vpc}
	if !with.cluster {
		return manifests
	}
	cluster := &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec{
		ClusterName: "soak-cluster", Region: region, KubernetesVersion: of(c, "1.32.2-do.1", "1.33.1-do.3"),
		Vpc: valueFrom("do-net"), DisableSurgeUpgrade: c.in(0.3),
		DefaultNodePool: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{
			Name: of(c, "", "system"), Size: "s-2vcpu-4gb", NodeCount: uint32(c.between(1, 3)),
		},
	}
	if c.in(0.5) {
		cluster.Tags = []string{"team:soak", fmt.Sprintf("run:%d", c.between(1, 9))}
	}
	if c.in(0.3) {
		cluster.ControlPlaneFirewallAllowedIps = []string{"203.0.113.0/24"}
	}
	if c.in(0.3) {
		cluster.MaintenanceWindow = "sunday=02:00"
	}
	if c.in(0.5) {
		cluster.AdditionalNodePools = []*digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{{
			Name: "extra", Size: "s-4vcpu-8gb", NodeCount: uint32(c.between(1, 3)), Labels: map[string]string{"workload": "extra"},
		}}
	}
	manifests = append(manifests, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster{
		ApiVersion: apiVersion, Kind: "DigitalOceanKubernetesCluster", Metadata: metadata("do-cluster"), Spec: cluster,
	})
	for i := range with.pools {
		spec := &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec{
			NodePoolName: fmt.Sprintf("pool-%d", i), Cluster: valueFrom("do-cluster"),
			Size: of(c, "s-4vcpu-8gb", "c-4"), NodeCount: uint32(c.between(1, 3)),
			Labels: map[string]string{"workload": fmt.Sprintf("w%d", c.between(1, 9))},
		}
		if c.in(0.3) {
			spec.AutoScale, spec.MinNodes, spec.MaxNodes = true, 1, uint32(c.between(3, 6))
		}
		if c.in(0.4) {
			spec.Taints = []*digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint{
				{Key: "dedicated", Value: "soak", Effect: "NoSchedule"},
			}
		}
		if c.in(0.4) {
			spec.Tags = []string{"pool:soak"}
		}
		manifests = append(manifests, &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{
			ApiVersion: apiVersion, Kind: "DigitalOceanKubernetesNodePool", Metadata: metadata(fmt.Sprintf("do-pool-%d", i)), Spec: spec,
		})
	}
	return manifests
}

// changed are the manifests as they are applied last: some are scaled, labelled, tagged, renamed or upgraded, all of it in place.
func changed(c chance, manifests []proto.Message) []proto.Message {
	last := make([]proto.Message, len(manifests))
	for i, manifest := range manifests {
		last[i] = proto.Clone(manifest)
		if c.in(0.6) {
			change(c, last[i])
		}
	}
	return last
}

func change(c chance, manifest proto.Message) {
	switch target := manifest.(type) {
	case *civovpcv1.CivoVpc:
		target.Spec.NetworkName = "soak-net-renamed"
	case *civofirewallv1.CivoFirewall:
		if len(target.Spec.InboundRules) > 1 && c.in(0.5) {
			target.Spec.InboundRules = target.Spec.InboundRules[1:]
		}
		target.Spec.InboundRules = append(target.Spec.InboundRules, firewallRule(c, 8000))
	case *civokubernetesclusterv1.CivoKubernetesCluster:
		if c.in(0.5) {
			target.Spec.KubernetesVersion = "1.31.6-k3s1"
		}
		if c.in(0.5) {
			target.Spec.Tags = append(target.Spec.Tags, "changed")
		}
		if c.in(0.5) {
			target.Spec.DefaultNodePool.NodeCount = uint32(c.between(1, 4))
		}
		for _, pool := range target.Spec.AdditionalNodePools {
			pool.NodeCount = uint32(c.between(1, 4))
			pool.Labels["changed"] = "yes"
		}
		if len(target.Spec.AdditionalNodePools) > 0 && c.in(0.3) {
			target.Spec.AdditionalNodePools = nil
		}
	case *civokubernetesnodepoolv1.CivoKubernetesNodePool:
		target.Spec.NodeCount = uint32(c.between(1, 4))
		target.Spec.Labels["changed"] = "yes"
	case *digitaloceanvpcv1.DigitalOceanVpc:
		target.Spec.Description = "changed"
	case *digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster:
		if c.in(0.5) {
			target.Spec.KubernetesVersion = "1.33.6-do.0"
		}
		if c.in(0.5) {
			target.Spec.Tags = append(target.Spec.Tags, "changed")
		}
		if c.in(0.5) {
			target.Spec.DefaultNodePool.NodeCount = uint32(c.between(1, 4))
			target.Spec.DefaultNodePool.Labels = map[string]string{"changed": "yes"}
		}
		if c.in(0.3) {
			target.Spec.HighlyAvailable = true
		}
		for _, pool := range target.Spec.AdditionalNodePools {
			pool.NodeCount = uint32(c.between(1, 4))
			pool.Labels["changed"] = "yes"
		}
		if len(target.Spec.AdditionalNodePools) > 0 && c.in(0.3) {
			target.Spec.AdditionalNodePools = nil
		}
	case *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool:
		// The size of an autoscaled pool is the autoscaler's.
		if !target.Spec.AutoScale {
			target.Spec.NodeCount = uint32(c.between(1, 4))
		}
		target.Spec.Labels["changed"] = "yes"
		if c.in(0.3) {
			target.Spec.Tags = append(target.Spec.Tags, "changed")
		}
	}
}
