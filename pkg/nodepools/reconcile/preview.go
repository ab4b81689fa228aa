package reconcile

import (
	"context"
	"fmt"
	"strings"

	"github.com/pkg/errors"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// Preview tells what making a cluster, or a pool in it (nil: the cluster itself), what it says would do in the cloud. Nothing is
// changed. Text and error are fit to be shown to whoever asks.
func (r *Reconciler) Preview(ctx context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) (string, error) {
	var all []*manifest.Manifest
	var err error
	if pool == nil {
		all, err = clusterManifests(cluster)
	} else {
		report, readErr := r.report(ctx, store.Key{Kind: store.Cluster, ID: cluster.GetId()}, Controllers[cluster.GetSpec().GetPlatform().GetType()])
		cloudID := report.GetMetadata().GetFields()[metadataCloudID].GetStringValue()
		if readErr == nil && cloudID == "" {
			return fmt.Sprintf("the pool would be made once cluster %q is there", cluster.GetName()), nil
		}
		if err = readErr; err == nil {
			all, err = poolManifests(cluster, pool, cloudID)
		}
	}
	if err != nil {
		r.options.Log.Warn("preview", "error", err)
		return "", errors.New("the service could not do it; its log says why")
	}
	return r.preview(ctx, all)
}

func (r *Reconciler) preview(ctx context.Context, all []*manifest.Manifest) (string, error) {
	results, err := r.options.Provisioner.Preview(ctx, all)
	if err != nil {
		r.options.Log.Warn("preview", "error", err)
		_, message := words(err)
		return "", errors.New(message)
	}
	var lines []string
	for _, result := range results {
		for _, change := range result.Resources {
			line := string(change.Op) + " " + change.Resource
			var properties []string
			for _, property := range change.Properties {
				text := property.Path
				if property.Replaces {
					text += " (replaces)"
				}
				properties = append(properties, text)
			}
			if len(properties) > 0 {
				line += ": " + strings.Join(properties, ", ")
			}
			lines = append(lines, line)
		}
		for _, diagnostic := range result.Diagnostics {
			if diagnostic.Severity == "warning" {
				lines = append(lines, "warning: "+diagnostic.Message)
			}
		}
	}
	if len(lines) == 0 {
		return "nothing would change", nil
	}
	return strings.Join(lines, "\n"), nil
}
