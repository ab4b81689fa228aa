package reconcile

import (
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Check tells what the platform of a cluster, or of a pool in it (nil: of the cluster itself), would not take, at the fields of the
// object's JSON. Platforms that others provision are not looked at.
func Check(cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) ([]validation.Violation, error) {
	if pool != nil {
		return checkPool(cluster, pool)
	}
	return checkCluster(cluster)
}

// NameIsFixed tells whether an object of a platform keeps the name that it was created with: on Civo the name is a pool's id, and
// neither cloud renames a cluster. DigitalOcean renames pools in place.
func NameIsFixed(kind store.Kind, platform string) bool {
	return platform == kinds.Civo || platform == kinds.DigitalOcean && kind == store.Cluster
}

func checkCluster(cluster *nodepoolsv1.Cluster) ([]validation.Violation, error) {
	var violations []validation.Violation
	platform := cluster.GetSpec().GetPlatform()
	var region, field string
	var known map[string]int32
	switch platform.GetType() {
	case kinds.Civo:
		region, field, known = platform.GetCivo().GetRegion(), "spec.platform.civo.region", civov1.CivoRegion_value
	case kinds.DigitalOcean:
		region, field, known = platform.GetDigitalocean().GetRegion(), "spec.platform.digitalocean.region", digitaloceanv1.DigitalOceanRegion_value
	default:
		return nil, nil
	}
	if known[region] == 0 {
		violations = append(violations, validation.Violation{FieldPath: field, RuleID: "region", Message: "must be a region of the platform: " + strings.Join(regions(known), ", ")})
	}
	if len(violations) > 0 {
		return violations, nil
	}
	all, err := clusterManifests(cluster)
	if err != nil {
		return nil, err
	}
	return violationsOf(all, map[string]string{
		"spec.kubernetes_version": "spec.kubernetesVersion", "spec.cluster_name": "name", "spec.network_name": "name",
		"spec.default_node_pool": "spec.platform." + platform.GetType() + ".defaultNodePool",
	})
}

func checkPool(cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) ([]validation.Violation, error) {
	spec := pool.GetSpec()
	provider := spec.GetPlatform().GetType()
	if provider != kinds.Civo && provider != kinds.DigitalOcean {
		return nil, nil
	}
	var violations []validation.Violation
	refuse := func(given bool, field, message string) {
		if given {
			violations = append(violations, validation.Violation{FieldPath: field, RuleID: "platform." + provider, Message: message})
		}
	}
	scaling := spec.GetAutoscaling()
	none := "cannot be set for a pool of this platform: its autoscaler goes by the pods that are pending"
	refuse(scaling != nil && scaling.TargetCpuUtilization != nil, "spec.autoscaling.targetCPUUtilization", none)
	refuse(scaling != nil && scaling.TargetMemoryUtilization != nil, "spec.autoscaling.targetMemoryUtilization", none)
	refuse(scaling != nil && scaling.ScaleDownDelay != nil, "spec.autoscaling.scaleDownDelay", none)
	refuse(scaling != nil && scaling.ScaleUpDelay != nil, "spec.autoscaling.scaleUpDelay", none)
	refuse(spec.GetUpgradeSettings() != nil, "spec.upgradeSettings", "cannot be set for a pool of this platform: it decides by itself how nodes are replaced")
	refuse(provider == kinds.Civo && scaling.GetEnabled() && scaling.GetMinNodes() < 1, "spec.autoscaling.minNodes",
		"must be at least 1: a pool of Civo cannot be empty")
	refuse(provider == kinds.DigitalOcean && scaling.GetEnabled() && spec.NodeCount != nil && spec.GetNodeCount() < 1, "spec.nodeCount",
		"must be at least 1 at first")
	refuse(!scaling.GetEnabled() && spec.GetNodeCount() < 1, "spec.nodeCount", "must be at least 1: a pool of this platform cannot be empty")
	if len(violations) > 0 {
		return violations, nil
	}
	all, err := poolManifests(cluster, pool, "the-cluster")
	if err != nil {
		return nil, err
	}
	return violationsOf(all, map[string]string{
		"spec.node_pool_name": "name", "spec.size": "spec.platform." + provider + ".size", "spec.node_count": "spec.nodeCount",
		"spec.min_nodes": "spec.autoscaling.minNodes", "spec.max_nodes": "spec.autoscaling.maxNodes",
		"spec.tags": "spec.platform." + provider + ".tags",
	})
}

// regionOf is the region of a cluster.
func regionOf(cluster *nodepoolsv1.Cluster) string {
	platform := cluster.GetSpec().GetPlatform()
	if platform.GetType() == kinds.Civo {
		return platform.GetCivo().GetRegion()
	}
	return platform.GetDigitalocean().GetRegion()
}

// violationsOf are the rules of the kinds that manifests break, at the fields of the object that they were made from.
func violationsOf(all []*manifest.Manifest, fields map[string]string) ([]validation.Violation, error) {
	var violations []validation.Violation
	for _, m := range all {
		err := validation.Validate(m.Target)
		var broken *validation.Error
		if err != nil && !errors.As(err, &broken) {
			return nil, errors.Wrap(err, "check the rules of "+m.Kind.Name)
		}
		if broken == nil {
			continue
		}
		for _, v := range broken.Violations {
			violations = append(violations, validation.Violation{FieldPath: fieldOf(v.FieldPath, fields), RuleID: v.RuleID, Message: v.Message})
		}
	}
	return violations, nil
}

// fieldOf is the field of the object that a field of the kind was made from; longer prefixes count more.
func fieldOf(path string, fields map[string]string) string {
	best := ""
	for prefix := range fields {
		if strings.HasPrefix(path, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	if best == "" {
		return path
	}
	return fields[best] + camel(strings.TrimPrefix(path, best))
}

// camel writes the names of a path as JSON has them.
func camel(path string) string {
	parts := strings.Split(path, "_")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}

// regions are the names of an enum of regions, in the order of their numbers.
func regions(known map[string]int32) []string {
	names := make([]string, len(known))
	for name, number := range known {
		if int(number) < len(names) {
			names[number] = name
		}
	}
	return names[1:]
}

// unmarshal reads an object of the store.
func unmarshal[M proto.Message](data []byte, into M) (M, error) {
	return into, errors.Wrap(proto.Unmarshal(data, into), "read an object of the store")
}
