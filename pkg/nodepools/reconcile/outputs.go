package reconcile

import (
	"fmt"
	"strings"

	"github.com/plantonhq/project-planton/pkg/provision"
)

// metadataClusterCloudID is the cloud's id of the cluster that a pool stands in.
const metadataClusterCloudID = "cluster_cloud_id"

// made is what an operation made.
type made struct {
	nodes []any
}

// detailsOf are the metadata of a report after everything was made.
func detailsOf(o *object, results []*provision.Result) (map[string]any, made) {
	details := map[string]any{metadataName: o.name()}
	var m made
	for _, result := range results {
		text := func(into, name string) {
			if value, ok := result.Outputs[name].Value.(string); ok && value != "" {
				details[into] = value
			}
		}
		if o.pool == nil {
			text(metadataCloudID, "cluster_id")
			text(metadataRegion, "region")
			text("network_id", "network_id")
			text("vpc_id", "vpc_id")
			text("api_server_endpoint", "api_server_endpoint")
			text("kubernetes_version", "kubernetes_version")
			continue
		}
		text(metadataCloudID, "node_pool_id")
		text(metadataClusterCloudID, "cluster_id")
		text(metadataRegion, "region")
		m.nodes, _ = result.Outputs["node_names"].Value.([]any)
		details[metadataActiveNodes], details[metadataReadyNodes] = len(m.nodes), len(m.nodes)
	}
	if o.pool != nil && details[metadataRegion] == nil {
		details[metadataRegion] = regionOf(o.cluster)
	}
	return details, m
}

// driftOf says how the cloud differs from what was made, empty when it does not; and how many nodes an autoscaled pool has now, -1
// when that is what it was or is not the autoscaler's to choose.
func driftOf(o *object, results []*provision.Result) (drift string, nodes int) {
	nodes = -1
	scales := o.pool != nil && o.pool.GetSpec().GetAutoscaling().GetEnabled()
	var all []string
	for _, result := range results {
		for _, change := range result.Resources {
			switch change.Op {
			case provision.OpDelete:
				all = append(all, change.Resource+" does not exist any more")
				continue
			case provision.OpSame:
				continue
			default:
			}
			for _, property := range change.Properties {
				name := property.Path
				if isCount(name) && scales {
					if count, ok := property.New.(float64); ok && name == "nodeCount" {
						nodes = int(count)
					}
					continue
				}
				text := fmt.Sprintf("%s.%s is %v, was %v", change.Resource, name, property.New, property.Old)
				if property.New == nil && property.Old == nil {
					text = change.Resource + "." + name + " differs" // a secret, or more than one value
				}
				all = append(all, text)
			}
		}
	}
	const most = 10
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(all, "; "), nodes
}

// isCount tells whether a property follows from how many nodes there are.
func isCount(path string) bool {
	for _, counted := range []string{"nodeCount", "actualNodeCount", "instanceNames", "nodes"} {
		if path == counted || strings.HasPrefix(path, counted+"[") || strings.HasPrefix(path, counted+".") {
			return true
		}
	}
	return false
}
