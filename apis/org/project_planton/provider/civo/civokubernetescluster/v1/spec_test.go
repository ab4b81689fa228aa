package civokubernetesclusterv1_test

import (
	"slices"
	"testing"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type manifest = *civokubernetesclusterv1.CivoKubernetesCluster

func valid() manifest {
	return &civokubernetesclusterv1.CivoKubernetesCluster{
		ApiVersion: "civo.project-planton.org/v1",
		Kind:       "CivoKubernetesCluster",
		Metadata:   &shared.CloudResourceMetadata{Name: "prod-cluster"},
		Spec: &civokubernetesclusterv1.CivoKubernetesClusterSpec{
			ClusterName:       "prod-k8s",
			Region:            civo.CivoRegion_fra1,
			KubernetesVersion: "1.29.0+k3s1",
			Network: &foreignkeyv1.StringValueOrRef{
				LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: "f73a4b7e-5b1c-4b0c-8f0e-0d6f9d3f2a11"},
			},
			DefaultNodePool: &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{Size: "g4s.kube.large", NodeCount: 5},
			AdditionalNodePools: []*civokubernetesclusterv1.CivoKubernetesClusterNodePool{
				{Name: "workers", Size: "g4s.kube.medium", NodeCount: 2},
			},
		},
	}
}

const pool = "spec.additional_node_pools[0]"

func TestCivoKubernetesCluster(t *testing.T) {
	t.Parallel()
	Run(t, valid,
		Manifest[manifest]("civo.project-planton.org/v1", "CivoKubernetesCluster"),
		Accepts[manifest]("metadata.name", "the cluster has a name of its own", "My cluster_1.a"),
		Name[manifest]("spec.cluster_name", "dns_label", 63, true),
		Enum[manifest]("spec.region", 1, true),
		versions(),
		Reference[manifest]("spec.network", true),
		Reference[manifest]("spec.firewall", false),
		CivoTags[manifest]("spec.tags"),
		Accepts[manifest]("spec.highly_available", "readable, answered with a warning", true, false),
		Accepts[manifest]("spec.auto_upgrade", "readable, answered with a warning", true, false),
		Accepts[manifest]("spec.disable_surge_upgrade", "readable, answered with a warning", true, false),
		Enum[manifest]("spec.cni", 1, false),
		Accepts[manifest]("spec.cni", "cilium goes with k3s", 2),
		Accepts[manifest]("spec.cluster_type", "k3s, given or not", nil, 1),
		Rejects[manifest]("spec.cluster_type", "enum.defined_only", "a number that the enum does not have", 99),
		Accepts[manifest]("spec.applications", "applications with and without a plan, and a default one left out",
			nil, []string{"cert-manager", "mysql:5GB", "-Traefik-v2-nodeport"}, []string{"Rancher_2.x"}),
		Rejects[manifest]("spec.applications[0]", "civo_application", "not one application: Civo takes them separated by commas",
			"", "a,b", "a b", "--a", "-", "a:", ":5GB", "a:b:c", "a,", " a"),
		Rejects[manifest]("spec.applications", "repeated.unique", "the same application twice", []string{"Redis", "Redis"}),
		defaultNodePool(),
		additionalNodePools(),
		[]Case[manifest]{{
			Name:   "an empty spec tells all that is required",
			Reason: "one look at the errors is enough to write the manifest",
			Mutate: func(m manifest) { m.Spec = &civokubernetesclusterv1.CivoKubernetesClusterSpec{} },
			Want: []Violation{
				{Field: "spec.cluster_name", Rule: "required"}, {Field: "spec.region", Rule: "required"},
				{Field: "spec.kubernetes_version", Rule: "required"}, {Field: "spec.network", Rule: "required"},
				{Field: "spec.default_node_pool", Rule: "required"},
			},
		}},
	)
}

func versions() []Case[manifest] {
	const version = "spec.kubernetes_version"
	talos := func(name, reason, version string, cni int, want ...Violation) Case[manifest] {
		return Case[manifest]{
			Name:   name,
			Reason: reason,
			Mutate: Set[manifest]("spec.kubernetes_version", version, "spec.cluster_type", 2, "spec.cni", cni),
			Want:   want,
		}
	}
	mismatch := Violation{Field: "spec", Rule: "cluster_type.version"}
	return slices.Concat(
		Accepts[manifest](version, "k3s, as people and as Civo write it", "1.29.0+k3s1", "1.29.0-k3s1", "v1.29.0-k3s1", "v1.29.0+k3s2", "1.30.12-k3s9"),
		Rejects[manifest](version, "required", "there is no implicit version", nil, ""),
		Rejects[manifest](version, "civo_kubernetes_version", "Civo takes a full version only",
			"latest", "1", "1.29", "1.26.3", "v1.29.0", "1.29.0+k3s", "1.29.0+k3s10", "1.29.0_k3s1", "1.29.0+rke1", "V1.29.0+k3s1", "1.29.0+k3s1 ", "1.29.0-do.1", "talos1.5.0"),
		[]Case[manifest]{
			talos("talos with its version", "a distribution and its version", "talos-v1.5.0", 0),
			talos("talos with flannel", "the one network plugin that it has", "talos-v1.5.0", 1),
			talos("talos with cilium", "Civo refuses it", "talos-v1.5.0", 2, Violation{Field: "spec", Rule: "cni.talos"}),
			talos("talos with a k3s version", "a version of another distribution", "1.29.0+k3s1", 0, mismatch),
			talos("talos, both wrong", "each mistake is told", "1.29.0+k3s1", 2, mismatch, Violation{Field: "spec", Rule: "cni.talos"}),
			talos("talos without a version", "only the missing version is told", "", 0, Violation{Field: version, Rule: "required"}),
			talos("talos with an incomplete version", "only the form is told", "talos-v1.5", 0, Violation{Field: version, Rule: "civo_kubernetes_version"}),
			{
				Name:   "k3s with a talos version",
				Reason: "a version of another distribution",
				Mutate: Set[manifest](version, "talos-v1.5.0", "spec.cluster_type", 1),
				Want:   []Violation{mismatch},
			},
			{
				Name:   "no distribution with a talos version",
				Reason: "k3s is the default, and a distribution cannot be changed later: say it",
				Mutate: Set[manifest](version, "talos-v1.5.0"),
				Want:   []Violation{mismatch},
			},
		},
	)
}

func defaultNodePool() []Case[manifest] {
	const at = "spec.default_node_pool"
	return slices.Concat(
		Rejects[manifest](at, "required", "a cluster has a pool, and nothing follows from its absence", nil),
		Accepts[manifest](at+".size", "Civo knows its sizes", "g4s.kube.xsmall", "an.g1.l40s.kube.x1"),
		Rejects[manifest](at+".size", "required", "a node has a size", nil, ""),
		Accepts[manifest](at+".node_count", "one node is enough", 1, 3, 100),
		Rejects[manifest](at+".node_count", "required", "a cluster has a node", nil, 0),
		Name[manifest](at+".name", "node_pool_name", 63, false),
		[]Case[manifest]{
			{
				Name:   "an empty default pool",
				Reason: "size and count are required",
				Mutate: Set[manifest](at, &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{}),
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
	clash := []Violation{{Field: "spec", Rule: "node_pools.unique_name"}}
	return slices.Concat(
		Accepts[manifest]("spec.additional_node_pools", "further pools are optional", nil),
		Name[manifest](pool+".name", "dns_label", 63, true),
		Accepts[manifest](pool+".size", "Civo knows its sizes", "g4s.kube.xsmall"),
		Rejects[manifest](pool+".size", "required", "a node has a size", nil, ""),
		Autoscale[manifest](pool, 1),
		Labels[manifest](pool+".labels"),
		Taints[manifest](pool+".taints"),
		Accepts[manifest](pool+".public_ip", "either", true, false),
		[]Case[manifest]{
			{
				Name:   "two pools of different names",
				Reason: "a pool's name is its id",
				Mutate: Set[manifest]("spec.additional_node_pools[1].name", "batch", "spec.additional_node_pools[1].size", "g4s.kube.small", "spec.additional_node_pools[1].node_count", 1),
			},
			{
				Name:   "two pools of one name",
				Reason: "a pool's name is its id",
				Mutate: Set[manifest]("spec.additional_node_pools[1].name", "workers", "spec.additional_node_pools[1].size", "g4s.kube.small", "spec.additional_node_pools[1].node_count", 1),
				Want:   clash,
			},
			{
				Name:   "two pools without names",
				Reason: "they are two unfinished pools, not the same one",
				Mutate: Set[manifest](pool+".name", "", "spec.additional_node_pools[1].size", "g4s.kube.small", "spec.additional_node_pools[1].node_count", 1),
				Want:   []Violation{{Field: pool + ".name", Rule: "required"}, {Field: "spec.additional_node_pools[1].name", Rule: "required"}},
			},
			{
				Name:   "the name of the default pool",
				Reason: "a pool's name is its id",
				Mutate: Set[manifest](pool+".name", "system", "spec.default_node_pool.name", "system"),
				Want:   clash,
			},
			{
				Name:   "the name that the default pool has when it is given none",
				Reason: "a pool's name is its id",
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

func TestAutoscaleLaw(t *testing.T) {
	t.Parallel()
	AutoscaleLaw(t, valid, pool, 1)
}

func TestCivoKubernetesClusterStackInput(t *testing.T) {
	t.Parallel()
	StackInput(t, &civokubernetesclusterv1.CivoKubernetesClusterStackInput{Target: valid()})
}
