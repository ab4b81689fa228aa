package provision

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
)

// Associated is an object in the cloud that no manifest declares, and that a destroy has to do with.
type Associated struct {
	// Kind says what it is: "load balancer", "volume", "volume snapshot", or the kind that the cloud gives.
	Kind string `json:"kind"`
	// ID and Name are the cloud's.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Outcome is what becomes of it.
	Outcome Outcome `json:"outcome"`
}

// Outcome is what becomes of an object when what it belongs to is destroyed.
type Outcome string

// The outcomes.
const (
	// Destroyed goes along with its cluster, because spec.destroy_all_associated_resources says so.
	Destroyed Outcome = "destroyed"
	// Kept stays when its cluster goes, and costs money.
	Kept Outcome = "kept"
	// Blocks stands in a network, which is not deleted before it is gone.
	Blocks Outcome = "blocks"
)

// String names the object.
func (a Associated) String() string { return fmt.Sprintf("%s %s (%s)", a.Kind, a.Name, a.ID) }

// The types that something may be associated with.
const (
	digitalOceanClusterType = "digitalocean:index/kubernetesCluster:KubernetesCluster"
	digitalOceanVPCType     = "digitalocean:index/vpc:Vpc"
)

// leaving are the ids of objects that a destroy of several stacks takes away, those before it included.
type leaving map[string]bool

// note notes what goes with the resources of a stack.
func (l leaving) note(resources []apitype.ResourceV3, associated []Associated) {
	for _, r := range resources {
		l[string(r.ID)] = true
		l.droplets(r.Outputs)
	}
	for _, a := range associated {
		if a.Outcome == Destroyed {
			l[a.ID] = true
		}
	}
}

// droplets notes the machines of node pools.
func (l leaving) droplets(value any) {
	switch value := value.(type) {
	case map[string]any:
		if id, ok := value["dropletId"].(string); ok {
			l[id] = true
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

// associatedTimeout bounds the question for associated objects.
const associatedTimeout = 30 * time.Second

// associated asks the cloud what else a destroy of the resources has to do with.
func (o *ongoing) associated(ctx context.Context, resources []apitype.ResourceV3) []Associated {
	input, ok := o.stack.StackInput.(interface {
		GetProviderConfig() *digitaloceanv1.DigitalOceanProviderConfig
	})
	if !ok {
		return nil // Civo has no route that tells what the cluster made
	}
	ctx, cancel := context.WithTimeout(ctx, associatedTimeout)
	defer cancel()
	var found []Associated
	for _, r := range resources {
		var err error
		var of []Associated
		switch string(r.Type) {
		case digitalOceanClusterType:
			of, err = ofCluster(ctx, input.GetProviderConfig(), r)
		case digitalOceanVPCType:
			of, err = o.membersOf(ctx, input.GetProviderConfig(), string(r.ID))
		}
		if err != nil {
			o.tell(EventWarning, nameOf(string(r.URN)), "cannot tell what else is there: "+err.Error())
		}
		found = append(found, of...)
	}
	if o.stack.leaving != nil {
		o.stack.leaving.note(resources, found)
	}
	return found
}

// beforeDestroy finds what else a destroy has to do with, and tells it when the destroy is about to begin.
func (o *ongoing) beforeDestroy(ctx context.Context, begins bool) []Associated {
	state, err := o.command.checkpoint()
	if err != nil {
		return nil // the stack is new
	}
	associated := o.associated(ctx, state.Resources)
	if !begins {
		return associated
	}
	for _, a := range associated {
		switch a.Outcome {
		case Destroyed:
			o.tell(EventInfo, "", a.String()+" was made by Kubernetes and is destroyed too")
		case Kept:
			o.tell(EventWarning, "", a.String()+" was made by Kubernetes and is kept: delete it in the cloud when nobody needs it")
		case Blocks:
			o.tell(EventWarning, "", a.String()+" stands in the network, which is not deleted before it is gone: waiting for that")
		}
	}
	return associated
}

func digitalOcean(config *digitaloceanv1.DigitalOceanProviderConfig) (*godo.Client, error) {
	var options []godo.ClientOpt
	if endpoint := config.GetApiEndpoint(); endpoint != "" {
		options = append(options, godo.SetBaseURL(endpoint))
	}
	client, err := godo.New(&http.Client{Transport: bearer(config.GetApiToken()), CheckRedirect: refuseRedirect}, options...)
	return client, errors.Wrap(err, "make the digitalocean client")
}

// refuseRedirect keeps the token from being sent to wherever an answer points; the API does not redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bearer sends requests with a token.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(request)
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
			found = append(found, Associated{Kind: group.kind, ID: object.ID, Name: object.Name, Outcome: outcome})
		}
	}
	return found, nil
}

// membersOf is what stands in a VPC and does not go before it.
func (o *ongoing) membersOf(
	ctx context.Context, config *digitaloceanv1.DigitalOceanProviderConfig, vpc string,
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
			if len(parts) != 3 || o.stack.leaving[parts[2]] {
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
