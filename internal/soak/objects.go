package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	civofirewallv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civofirewall/v1"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/labels"
)

// The types of the resources in states.
const (
	civoNetwork  = "civo:index/network:Network"
	civoFirewall = "civo:index/firewall:Firewall"
	civoCluster  = "civo:index/kubernetesCluster:KubernetesCluster"
	civoPool     = "civo:index/kubernetesNodePool:KubernetesNodePool"
	doVPC        = "digitalocean:index/vpc:Vpc"
	doCluster    = "digitalocean:index/kubernetesCluster:KubernetesCluster"
	doPool       = "digitalocean:index/kubernetesNodePool:KubernetesNodePool"
)

// object is one thing in a cloud, as a manifest declares it or as it is.
type object struct {
	// Type is the type of its resource.
	Type string
	// Name is unique among the objects of a type: the cluster stands before the name of a pool.
	Name string
	// ID is the cloud's; manifests know none.
	ID string
	// Part tells that it has no resource of its own: a cluster's default pool.
	Part bool
	// Attributes are what a manifest says of it. References are names.
	Attributes map[string]string
}

// key is what there must be one of.
func (o object) key() string { return o.Type + " " + o.Name }

// madeByCluster stands for the network's id at the end of the name of a firewall that comes with a cluster.
const madeByCluster = "-*"

// declared are the objects that manifests stand for.
func declared(manifests []proto.Message) []object {
	var objects []object
	// References are names of manifests; objects are known by names of their own.
	names := map[string]string{}
	for _, manifest := range manifests {
		switch target := manifest.(type) {
		case *civovpcv1.CivoVpc:
			names["CivoVpc "+target.Metadata.Name] = target.Spec.NetworkName
		case *civofirewallv1.CivoFirewall:
			names["CivoFirewall "+target.Metadata.Name] = target.Spec.Name
		case *civokubernetesclusterv1.CivoKubernetesCluster:
			names["CivoKubernetesCluster "+target.Metadata.Name] = target.Spec.ClusterName
		case *digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster:
			names["DigitalOceanKubernetesCluster "+target.Metadata.Name] = target.Spec.ClusterName
		}
	}
	for _, manifest := range manifests {
		switch target := manifest.(type) {
		case *civovpcv1.CivoVpc:
			attributes := map[string]string{"region": strings.ToUpper(target.Spec.Region)}
			if target.Spec.IpRangeCidr != "" {
				attributes["cidr"] = target.Spec.IpRangeCidr
			}
			objects = append(objects, object{Type: civoNetwork, Name: target.Spec.NetworkName, Attributes: attributes})
		case *civofirewallv1.CivoFirewall:
			var rules []string
			for direction, listed := range map[string][]*civofirewallv1.CivoFirewallRule{
				"ingress": target.Spec.InboundRules, "egress": target.Spec.OutboundRules,
			} {
				for _, rule := range listed {
					rules = append(rules, ruleText(direction, or(rule.Action, "allow"), or(rule.Protocol, "tcp"), rule.PortRange, rule.Cidrs, rule.Label))
				}
			}
			objects = append(objects, object{Type: civoFirewall, Name: target.Spec.Name, Attributes: map[string]string{
				"region":  strings.ToUpper(target.Spec.Region.String()),
				"network": names["CivoVpc "+target.Spec.NetworkId.GetValueFrom().GetName()],
				"rules":   list(rules),
			}})
		case *civokubernetesclusterv1.CivoKubernetesCluster:
			objects = append(objects, declaredCivoCluster(target, names)...)
		case *civokubernetesnodepoolv1.CivoKubernetesNodePool:
			spec := target.Spec
			objects = append(objects, object{
				Type: civoPool, Name: names["CivoKubernetesCluster "+spec.Cluster.GetValueFrom().GetName()] + "/" + spec.NodePoolName,
				Attributes: civoPoolAttributes(spec.Size, spec.NodeCount, labels.Merge(labels.ForResource(target.Kind, target.Metadata), spec.Labels),
					taintTexts(spec.Taints), spec.PublicIp),
			})
		case *digitaloceanvpcv1.DigitalOceanVpc:
			attributes := map[string]string{"region": target.Spec.Region.String(), "description": target.Spec.Description}
			if target.Spec.IpRangeCidr != "" {
				attributes["range"] = target.Spec.IpRangeCidr
			}
			objects = append(objects, object{Type: doVPC, Name: target.Metadata.Name, Attributes: attributes})
		case *digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster:
			objects = append(objects, declaredDigitalOceanCluster(target)...)
		case *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool:
			spec := target.Spec
			objects = append(objects, object{
				Type: doPool, Name: names["DigitalOceanKubernetesCluster "+spec.Cluster.GetValueFrom().GetName()] + "/" + spec.NodePoolName,
				Attributes: digitalOceanPoolAttributes(spec.Size, spec.NodeCount, spec.AutoScale, spec.MinNodes, spec.MaxNodes,
					labels.Merge(labels.ForResource(target.Kind, target.Metadata), spec.Labels), taintTexts(spec.Taints), spec.Tags),
			})
		}
	}
	return objects
}

func declaredCivoCluster(target *civokubernetesclusterv1.CivoKubernetesCluster, names map[string]string) []object {
	spec := target.Spec
	network := names["CivoVpc "+spec.Network.GetValueFrom().GetName()]
	region := strings.ToUpper(spec.Region.String())
	var objects []object
	firewall := names["CivoFirewall "+spec.Firewall.GetValueFrom().GetName()]
	if spec.Firewall == nil {
		// One is made in the network that lets in the Kubernetes API and web traffic.
		firewall = spec.ClusterName + madeByCluster
		anywhere := []string{"0.0.0.0/0"}
		objects = append(objects, object{Type: civoFirewall, Name: firewall, Attributes: map[string]string{
			"region": region, "network": network, "rules": list([]string{
				ruleText("ingress", "allow", "tcp", "6443", anywhere, "kubernetes api"),
				ruleText("ingress", "allow", "tcp", "80", anywhere, "http"),
				ruleText("ingress", "allow", "tcp", "443", anywhere, "https"),
				ruleText("egress", "allow", "tcp", "1-65535", anywhere, "all tcp"),
				ruleText("egress", "allow", "udp", "1-65535", anywhere, "all udp"),
				ruleText("egress", "allow", "icmp", "", anywhere, "all icmp"),
			}),
		}})
	}
	objects = append(objects,
		object{Type: civoCluster, Name: spec.ClusterName, Attributes: map[string]string{
			"region": region, "network": network, "firewall": firewall,
			"version": strings.Replace(spec.KubernetesVersion, "+", "-", 1), "tags": list(spec.Tags), "status": "ACTIVE",
		}},
		object{
			Type: civoPool, Name: spec.ClusterName + "/" + or(spec.DefaultNodePool.Name, "default"), Part: true,
			Attributes: civoPoolAttributes(spec.DefaultNodePool.Size, spec.DefaultNodePool.NodeCount, nil, nil, false),
		})
	for _, pool := range spec.AdditionalNodePools {
		objects = append(objects, object{
			Type: civoPool, Name: spec.ClusterName + "/" + pool.Name,
			Attributes: civoPoolAttributes(pool.Size, pool.NodeCount, labels.Merge(labels.ForResource(target.Kind, target.Metadata), pool.Labels),
				taintTexts(pool.Taints), pool.PublicIp),
		})
	}
	return objects
}

func declaredDigitalOceanCluster(target *digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster) []object {
	spec := target.Spec
	common := labels.ForResource(target.Kind, target.Metadata)
	attributes := map[string]string{
		"region": spec.Region.String(), "vpc": spec.Vpc.GetValueFrom().GetName(), "version": spec.KubernetesVersion,
		"tags": list(spec.Tags), "ha": fmt.Sprint(spec.HighlyAvailable), "auto upgrade": fmt.Sprint(spec.AutoUpgrade),
		"surge upgrade": fmt.Sprint(!spec.DisableSurgeUpgrade), "firewall": list(spec.ControlPlaneFirewallAllowedIps), "status": "running",
	}
	if spec.MaintenanceWindow != "" {
		attributes["maintenance"] = spec.MaintenanceWindow
	}
	pool := spec.DefaultNodePool
	objects := []object{
		{Type: doCluster, Name: spec.ClusterName, Attributes: attributes},
		{
			Type: doPool, Name: spec.ClusterName + "/" + or(pool.Name, "default"), Part: true,
			Attributes: digitalOceanPoolAttributes(pool.Size, pool.NodeCount, pool.AutoScale, pool.MinNodes, pool.MaxNodes,
				labels.Merge(common, pool.Labels), taintTexts(pool.Taints), pool.Tags),
		},
	}
	for _, pool := range spec.AdditionalNodePools {
		objects = append(objects, object{
			Type: doPool, Name: spec.ClusterName + "/" + pool.Name,
			Attributes: digitalOceanPoolAttributes(pool.Size, pool.NodeCount, pool.AutoScale, pool.MinNodes, pool.MaxNodes,
				labels.Merge(common, pool.Labels), taintTexts(pool.Taints), pool.Tags),
		})
	}
	return objects
}

func civoPoolAttributes(size string, count uint32, labels map[string]string, taints []string, publicIP bool) map[string]string {
	return map[string]string{
		"size": size, "count": fmt.Sprint(count), "nodes": fmt.Sprint(count), "labels": pairs(labels), "taints": list(taints),
		"public ip": fmt.Sprint(publicIP),
	}
}

func digitalOceanPoolAttributes(
	size string, count uint32, autoScale bool, low, high uint32, labels map[string]string, taints, tags []string,
) map[string]string {
	return map[string]string{
		"size": size, "count": fmt.Sprint(count), "nodes": fmt.Sprint(count), "autoscale": fmt.Sprintf("%t %d-%d", autoScale, low, high),
		"labels": pairs(labels), "taints": list(taints), "tags": list(tags),
	}
}

// Clouds are what the clouds hold.
type Clouds struct {
	CivoNetworks  []civo.Network
	CivoFirewalls []civo.Firewall
	CivoClusters  []civo.Cluster
	VPCs          []digitalocean.VPC
	Clusters      []digitalocean.Cluster
	// Other names what no manifest can stand for: cloud firewalls, load balancers and volumes of DigitalOcean.
	Other []string
}

// Look reads what the clouds hold, whatever their clients see.
func Look(civoCloud *civo.Cloud, digitalOceanCloud *digitalocean.Cloud) Clouds {
	clouds := Clouds{
		CivoNetworks: civoCloud.Networks(), CivoFirewalls: civoCloud.Firewalls(), CivoClusters: civoCloud.Clusters(),
		VPCs: digitalOceanCloud.VPCs(), Clusters: digitalOceanCloud.Clusters(),
	}
	for _, firewall := range digitalOceanCloud.Firewalls() {
		clouds.Other = append(clouds.Other, "digitalocean firewall "+firewall.Name)
	}
	for _, balancer := range digitalOceanCloud.LoadBalancers() {
		clouds.Other = append(clouds.Other, "digitalocean load balancer "+balancer.ID)
	}
	for _, volume := range digitalOceanCloud.Volumes() {
		clouds.Other = append(clouds.Other, "digitalocean volume "+volume.ID)
	}
	return clouds
}

// found are the objects in the clouds, without those that the clouds make by themselves: the default networks, and the default firewall
// of each network.
func (c Clouds) found() []object {
	var objects []object
	networks, defaults := map[string]string{}, map[string]bool{}
	for _, network := range c.CivoNetworks {
		networks[network.ID] = network.Label
		defaults[network.ID] = network.Default
		if network.Default {
			continue
		}
		objects = append(objects, object{Type: civoNetwork, Name: network.Label, ID: network.ID, Attributes: map[string]string{
			"region": network.Region, "cidr": network.CIDR,
		}})
	}
	firewalls, ownFirewalls := map[string]string{}, map[string]int{}
	for _, firewall := range c.CivoFirewalls {
		name := firewall.Name
		if suffix := "-" + firewall.NetworkID[:min(8, len(firewall.NetworkID))]; strings.HasSuffix(name, suffix) {
			name = strings.TrimSuffix(name, suffix) + madeByCluster
		}
		firewalls[firewall.ID] = name
		// A network that is renamed keeps the firewall that it came with, and that firewall its name.
		if strings.HasSuffix(name, "-default") || name == "default" {
			ownFirewalls[firewall.NetworkID]++
			if ownFirewalls[firewall.NetworkID] == 1 {
				continue
			}
		}
		var rules []string
		for _, rule := range firewall.Rules {
			ports := rule.StartPort
			if rule.EndPort != rule.StartPort {
				ports += "-" + rule.EndPort
			}
			rules = append(rules, ruleText(rule.Direction, rule.Action, rule.Protocol, ports, rule.CIDR, rule.Label))
		}
		objects = append(objects, object{Type: civoFirewall, Name: name, ID: firewall.ID, Attributes: map[string]string{
			"region": firewall.Region, "network": or(networks[firewall.NetworkID], "gone: "+firewall.NetworkID), "rules": list(rules),
		}})
	}
	for _, cluster := range c.CivoClusters {
		objects = append(objects, object{Type: civoCluster, Name: cluster.Name, ID: cluster.ID, Attributes: map[string]string{
			"region": cluster.Region, "network": or(networks[cluster.NetworkID], "gone: "+cluster.NetworkID),
			"firewall": or(firewalls[cluster.FirewallID], "gone: "+cluster.FirewallID),
			"version":  cluster.Version, "tags": list(cluster.Tags), "status": cluster.Status,
		}})
		for i, pool := range cluster.Pools {
			attributes := civoPoolAttributes(pool.Size, uint32(pool.Count), pool.Labels, taintTexts(pointers(pool.Taints)), pool.PublicIP)
			attributes["nodes"] = fmt.Sprint(len(pool.Instances))
			objects = append(objects, object{Type: civoPool, Name: cluster.Name + "/" + pool.ID, ID: pool.ID, Part: i == 0, Attributes: attributes})
		}
	}

	vpcs := map[string]string{}
	for _, vpc := range c.VPCs {
		vpcs[vpc.ID] = vpc.Name
		if vpc.Default {
			continue
		}
		objects = append(objects, object{Type: doVPC, Name: vpc.Name, ID: vpc.ID, Attributes: map[string]string{
			"region": vpc.Region, "range": vpc.IPRange, "description": vpc.Description,
		}})
	}
	for _, cluster := range c.Clusters {
		window := cluster.MaintenancePolicy
		var allowed []string
		if cluster.ControlPlaneFirewall.Enabled {
			allowed = cluster.ControlPlaneFirewall.AllowedAddresses
		}
		objects = append(objects, object{Type: doCluster, Name: cluster.Name, ID: cluster.ID, Attributes: map[string]string{
			"region": cluster.Region, "vpc": or(vpcs[cluster.VPCUUID], "gone: "+cluster.VPCUUID), "version": cluster.Version,
			"tags": list(userTags(cluster.Tags)), "ha": fmt.Sprint(cluster.HA), "auto upgrade": fmt.Sprint(cluster.AutoUpgrade),
			"surge upgrade": fmt.Sprint(cluster.SurgeUpgrade), "firewall": list(allowed), "status": cluster.Status.State,
			"maintenance": window.Day + "=" + window.StartTime,
		}})
		for i, pool := range cluster.NodePools {
			attributes := digitalOceanPoolAttributes(pool.Size, uint32(pool.Count), pool.AutoScale, uint32(pool.MinNodes), uint32(pool.MaxNodes),
				pool.Labels, taintTexts(pointers(pool.Taints)), userTags(pool.Tags))
			attributes["nodes"] = fmt.Sprint(len(pool.Nodes))
			objects = append(objects, object{Type: doPool, Name: cluster.Name + "/" + pool.Name, ID: pool.ID, Part: i == 0, Attributes: attributes})
		}
	}
	return objects
}

// userTags are the tags without those of the platform and of the plugins, which mark the default pool.
func userTags(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(tag string) bool {
		return tag == "k8s" || strings.HasPrefix(tag, "k8s:") || strings.HasPrefix(tag, "terraform:")
	})
}

func ruleText(direction, action, protocol, ports string, cidrs []string, label string) string {
	return strings.Join([]string{direction, action, protocol, ports, list(cidrs), label}, " ")
}

// taint is a taint of any cloud, of a manifest or of an emulator.
type taint interface {
	*civokubernetesnodepoolv1.CivoKubernetesNodePoolTaint | *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint |
		*civo.Taint | *digitalocean.Taint
}

func taintTexts[T taint](taints []T) []string {
	texts := make([]string, len(taints))
	for i, one := range taints {
		switch one := any(one).(type) {
		case *civokubernetesnodepoolv1.CivoKubernetesNodePoolTaint:
			texts[i] = one.Key + "=" + one.Value + ":" + one.Effect
		case *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolTaint:
			texts[i] = one.Key + "=" + one.Value + ":" + one.Effect
		case *civo.Taint:
			texts[i] = one.Key + "=" + one.Value + ":" + one.Effect
		case *digitalocean.Taint:
			texts[i] = one.Key + "=" + one.Value + ":" + one.Effect
		}
	}
	return texts
}

func pointers[T any](values []T) []*T {
	all := make([]*T, len(values))
	for i := range values {
		all[i] = &values[i]
	}
	return all
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// list is a list whose order is of no matter.
func list(texts []string) string {
	sorted := slices.Clone(texts)
	slices.Sort(sorted)
	return strings.Join(sorted, ", ")
}

func pairs(values map[string]string) string {
	texts := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, key+"="+values[key])
	}
	return strings.Join(texts, ", ")
}
