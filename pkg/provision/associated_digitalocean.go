package provision

import (
	"context"
	"net/http"
	"strings"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
)

// The types that something may be associated with.
const (
	digitalOceanClusterType = "digitalocean:index/kubernetesCluster:KubernetesCluster"
	digitalOceanVPCType     = "digitalocean:index/vpc:Vpc"
)

// associatedInDigitalOcean is what Kubernetes made for a cluster, and what stands in a VPC and does not go before it.
func associatedInDigitalOcean(
	ctx context.Context, config *digitaloceanv1.DigitalOceanProviderConfig, r apitype.ResourceV3, gone *leaving,
) ([]Associated, error) {
	switch string(r.Type) {
	case digitalOceanClusterType:
		return ofCluster(ctx, config, r)
	case digitalOceanVPCType:
		return membersOf(ctx, config, string(r.ID), gone)
	default:
		return nil, nil
	}
}

// droplets notes the machines of node pools. The caller holds the lock.
func (l *leaving) droplets(value any) {
	switch value := value.(type) {
	case map[string]any:
		if id, ok := value["dropletId"].(string); ok {
			l.ids[id] = true
		}
		for _, field := range value {
			l.droplets(field)
		}
	case []any:
		for _, element := range value {
			l.droplets(element)
		}
	}
}

func digitalOcean(config *digitaloceanv1.DigitalOceanProviderConfig) (*godo.Client, error) {
	var options []godo.ClientOpt
	if endpoint := config.GetApiEndpoint(); endpoint != "" {
		options = append(options, godo.SetBaseURL(endpoint))
	}
	client, err := godo.New(questioner("Bearer", config.GetApiToken()), options...)
	return client, errors.Wrap(err, "make the digitalocean client")
}

// ofCluster is what Kubernetes made for a cluster. A cluster that is gone has nothing.
func ofCluster(
	ctx context.Context, config *digitaloceanv1.DigitalOceanProviderConfig, cluster apitype.ResourceV3,
) ([]Associated, error) {
	client, err := digitalOcean(config)
	if err != nil {
		return nil, err
	}
	made, response, err := client.Kubernetes.ListAssociatedResourcesForDeletion(ctx, string(cluster.ID))
	if err != nil {
		if response != nil && response.Response != nil && response.StatusCode == http.StatusNotFound {
			return nil, nil
		}
		return nil, errors.Wrap(err, "list what kubernetes made for the cluster")
	}
	// What was applied last counts: that is what the plugin goes by.
	outcome := Kept
	if cluster.Outputs["destroyAllAssociatedResources"] == true {
		outcome = Destroyed
	}
	var found []Associated
	for _, group := range []struct {
		kind    string
		objects []*godo.AssociatedResource
	}{
		{"load balancer", made.LoadBalancers}, {"volume", made.Volumes}, {"volume snapshot", made.VolumeSnapshots},
	} {
		for _, object := range group.objects {
			found = append(found, Associated{
				Kind: group.kind, ID: object.ID, Name: object.Name, Outcome: outcome, Choice: "spec.destroyAllAssociatedResources",
			})
		}
	}
	return found, nil
}

// membersOf is what stands in a VPC and does not go before it.
func membersOf(
	ctx context.Context, config *digitaloceanv1.DigitalOceanProviderConfig, vpc string, gone *leaving,
) ([]Associated, error) {
	client, err := digitalOcean(config)
	if err != nil {
		return nil, err
	}
	var found []Associated
	for page := 1; ; page++ {
		members, response, err := client.VPCs.ListMembers(ctx, vpc, nil, &godo.ListOptions{Page: page, PerPage: 200})
		if err != nil {
			if response != nil && response.Response != nil && response.StatusCode == http.StatusNotFound {
				return nil, nil
			}
			return found, errors.Wrap(err, "list the members of the vpc")
		}
		for _, member := range members {
			// do:kubernetes:3c5b...
			parts := strings.SplitN(member.URN, ":", 3)
			if len(parts) != 3 || gone.has(parts[2]) {
				continue
			}
			kind := parts[1]
			switch kind {
			case "kubernetes":
				kind = "kubernetes cluster"
			case "loadbalancer":
				kind = "load balancer"
			}
			found = append(found, Associated{Kind: kind, ID: parts[2], Name: member.Name, Outcome: Blocks})
		}
		if response.Links == nil || response.Links.IsLastPage() {
			return found, nil
		}
	}
}
