package digitaloceankubernetesclusterv1_test

import (
	"math"
	"slices"
	"testing"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type manifest = *digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster

func valid() manifest {
	return &digitaloceankubernetesclusterv1.DigitalOceanKubernetesCluster{
		ApiVersion: "digital-ocean.project-planton.org/v1",
		Kind:       "DigitalOceanKubernetesCluster",
		Metadata:   &shared.CloudResourceMetadata{Name: "prod-cluster"},
		Spec: &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec{
			ClusterName:       "prod-k8s",
			Region:            digitalocean.DigitalOceanRegion_nyc1,
			KubernetesVersion: "1.31.1-do.4",
			DefaultNodePool:   &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{Size: "s-2vcpu-4gb", NodeCount: 3},
			AdditionalNodePools: []*digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{
				{Name: "workers", Size: "s-4vcpu-8gb", NodeCount: 2},
			},
		},
	}
}

const pool = "spec.additional_node_pools[0]"

func TestDigitalOceanKubernetesCluster(t *testing.T) {
	t.Parallel()
	Run(t, valid,
		Manifest[manifest]("digital-ocean.project-planton.org/v1", "DigitalOceanKubernetesCluster"),
		Accepts[manifest]("metadata.name", "the cluster has a name of its own", "My cluster_1.a"),
		Name[manifest]("spec.cluster_name", "digitalocean_name", 255, true),
		Enum[manifest]("spec.region", 1, true),
		Accepts[manifest]("spec.kubernetes_version", "a slug, or the start of one", "1.31.1-do.4", "1.31.1", "1.31", "1.9.10-do.12"),
		Rejects[manifest]("spec.kubernetes_version", "required", "there is no implicit version", nil, ""),
		Rejects[manifest]("spec.kubernetes_version", "digitalocean_kubernetes_version", "not the start of a slug",
			"01.31", "1.031", "1.31.1-do.04", "1.31.1-do.12345",
			"latest", "1", "1.", "v1.31", "1.31.", "1.31.1-", "1.31.1-do", "1.31.1-do.", "1.31-do.1", "1.31.1-do.4.1", "1.31.1+k3s1", "1.31.1-rc.1", "1.31.1-do.4 ", "1.x"),
		Reference[manifest]("spec.vpc", false),
		Accepts[manifest]("spec.highly_available", "either", true, false),
		Accepts[manifest]("spec.auto_upgrade", "either", true, false),
		Accepts[manifest]("spec.disable_surge_upgrade", "either", true, false),
		Accepts[manifest]("spec.maintenance_window", "days and times, at both ends", nil, "", "sunday=02:00", "any=00:00", "monday=23:59", "saturday=19:30"),
		Rejects[manifest]("spec.maintenance_window", "maintenance_window", "not day=HH:MM",
			"02:00", "sunday", "sunday=", "=02:00", "Sunday=02:00", "sun=02:00", "sunday=2:00", "sunday=24:00", "sunday=02:60", "sunday=02:00:00", "sunday 02:00", "sunday=02:00Z", "sunday = 02:00"),
		Accepts[manifest]("spec.registry_integration", "either", true, false),
		Accepts[manifest]("spec.control_plane_firewall_allowed_ips", "addresses and networks of both versions", nil, []string{"203.0.113.7", "203.0.113.0/24", "0.0.0.0/0", "2001:db8::1", "2001:db8::/32"}),
		Rejects[manifest]("spec.control_plane_firewall_allowed_ips[0]", "ip_or_network", "not an address or a network", "", "office", "203.0.113", "203.0.113.256", "203.0.113.7/24", "203.0.113.0/33", "2001:db8::1/32"),
		Rejects[manifest]("spec.control_plane_firewall_allowed_ips", "repeated.unique", "the same address twice", []string{"203.0.113.7", "203.0.113.7"}),
		DigitalOceanTags[manifest]("spec.tags"),
		IPv4Network[manifest]("spec.cluster_subnet"),
		IPv4Network[manifest]("spec.service_subnet"),
		Accepts[manifest]("spec.destroy_all_associated_resources", "either", true, false),
		Accepts[manifest]("spec.kubeconfig_expire_seconds", "0 is DigitalOcean's default", nil, 0, 3600, 604800),
		defaultNodePool(),
		additionalNodePools(),
		autoscalerConfiguration(),
		[]Case[manifest]{{
			Name:   "an empty spec tells all that is required",
			Reason: "one look at the errors is enough to write the manifest",
			Mutate: func(m manifest) { m.Spec = &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterSpec{} },
			Want: []Violation{
				{Field: "spec.cluster_name", Rule: "required"}, {Field: "spec.region", Rule: "required"},
				{Field: "spec.kubernetes_version", Rule: "required"}, {Field: "spec.default_node_pool", Rule: "required"},
			},
		}},
	)
}

func defaultNodePool() []Case[manifest] {
	const at = "spec.default_node_pool"
	return slices.Concat(
		Rejects[manifest](at, "required", "a cluster has a pool, and nothing follows from its absence", nil),
		Accepts[manifest](at+".size", "DigitalOcean knows its sizes", "s-1vcpu-2gb", "gpu-h100x1-80gb"),
		Rejects[manifest](at+".size", "required", "a node has a size", nil, ""),
		Autoscale[manifest](at, 1),
		Name[manifest](at+".name", "node_pool_name", 255, false),
		Labels[manifest](at+".labels"),
		Taints[manifest](at+".taints"),
		DigitalOceanTags[manifest](at+".tags"),
		[]Case[manifest]{
			{
				Name:   "an empty default pool",
				Reason: "size and count are required",
				Mutate: Set[manifest](at, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{}),
				Want:   []Violation{{Field: at + ".size", Rule: "required"}, {Field: at + ".node_count", Rule: "required"}},
			},
			{
				Name:   "no default pool, and an additional one called default",
				Reason: "only the missing pool is told, not a clash with its name",
				Mutate: Set[manifest](at, nil, pool+".name", "default"),
				Want:   []Violation{{Field: at, Rule: "required"}},
			},
		},
	)
}

func additionalNodePools() []Case[manifest] {
	second := "spec.additional_node_pools[1]"
	clash := []Violation{{Field: "spec", Rule: "node_pools.unique_name"}}
	return slices.Concat(
		Accepts[manifest]("spec.additional_node_pools", "further pools are optional", nil),
		Name[manifest](pool+".name", "digitalocean_name", 255, true),
		Accepts[manifest](pool+".size", "DigitalOcean knows its sizes", "s-1vcpu-2gb"),
		Rejects[manifest](pool+".size", "required", "a node has a size", nil, ""),
		Autoscale[manifest](pool, 0),
		Labels[manifest](pool+".labels"),
		Taints[manifest](pool+".taints"),
		DigitalOceanTags[manifest](pool+".tags"),
		[]Case[manifest]{
			{
				Name:   "two pools of different names",
				Reason: "pools are told apart by their names",
				Mutate: Set[manifest](second+".name", "batch", second+".size", "s-1vcpu-2gb", second+".node_count", 1),
			},
			{
				Name:   "two pools of one name",
				Reason: "pools are told apart by their names",
				Mutate: Set[manifest](second+".name", "workers", second+".size", "s-1vcpu-2gb", second+".node_count", 1),
				Want:   clash,
			},
			{
				Name:   "two pools without names",
				Reason: "they are two unfinished pools, not the same one",
				Mutate: Set[manifest](pool+".name", "", second+".size", "s-1vcpu-2gb", second+".node_count", 1),
				Want:   []Violation{{Field: pool + ".name", Rule: "required"}, {Field: second + ".name", Rule: "required"}},
			},
			{
				Name:   "the name of the default pool",
				Reason: "pools are told apart by their names",
				Mutate: Set[manifest](pool+".name", "system", "spec.default_node_pool.name", "system"),
				Want:   clash,
			},
			{
				Name:   "the name that the default pool has when it is given none",
				Reason: "pools are told apart by their names",
				Mutate: Set[manifest](pool+".name", "default"),
				Want:   clash,
			},
			{
				Name:   "called default, beside a default pool with another name",
				Reason: "the name is free",
				Mutate: Set[manifest](pool+".name", "default", "spec.default_node_pool.name", "system"),
			},
		},
	)
}

func autoscalerConfiguration() []Case[manifest] {
	const at = "spec.autoscaler_configuration"
	return slices.Concat(
		Accepts[manifest](at, "optional", nil),
		Accepts[manifest](at+".scale_down_utilization_threshold", "a share, at both ends", 0.0, 0.01, 0.65, 1.0),
		Rejects[manifest](at+".scale_down_utilization_threshold", "double.gte_lte", "not a share", -0.01, 1.01, 65.0, math.NaN(), math.Inf(1)),
		Accepts[manifest](at+".scale_down_unneeded_time", "durations", nil, "", "10m", "1m30s", "1h", "90s"),
		Rejects[manifest](at+".scale_down_unneeded_time", "duration_text", "not a duration", "10", "m", "10 m", "-10m", "1.5h", "10min", "10M", "1d", "100ms"),
		Accepts[manifest](at+".expanders", "all that there are, in any order", nil, []string{"priority", "random", "least_waste"}),
		Rejects[manifest](at+".expanders[0]", "autoscaler.expander", "not an expander", "", "price", "least-waste", "Random"),
		Rejects[manifest](at+".expanders", "repeated.unique", "the same expander twice", []string{"random", "random"}),
	)
}

func TestAutoscaleLaw(t *testing.T) {
	t.Parallel()
	t.Run("default pool", func(t *testing.T) { t.Parallel(); AutoscaleLaw(t, valid, "spec.default_node_pool", 1) })
	t.Run("additional pool", func(t *testing.T) { t.Parallel(); AutoscaleLaw(t, valid, pool, 0) })
}

func TestDigitalOceanKubernetesClusterStackInput(t *testing.T) {
	t.Parallel()
	StackInput(t, &digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterStackInput{Target: valid()})
}
