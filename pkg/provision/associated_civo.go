package provision

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
)

const (
	civoClusterType = "civo:index/kubernetesCluster:KubernetesCluster"
	civoEndpoint    = "https://api.civo.com"
	// maxCivoAnswer bounds what is read of an answer.
	maxCivoAnswer = 32 << 20
)

// associatedInCivo is what Kubernetes made for a cluster: Civo lists it with the id of the cluster, and goes on doing so when the cluster
// is gone. It is always kept, for a delete of a cluster at Civo has no choice.
func associatedInCivo(ctx context.Context, config *civov1.CivoProviderConfig, cluster apitype.ResourceV3) ([]Associated, error) {
	if string(cluster.Type) != civoClusterType || cluster.ID == "" {
		return nil, nil
	}
	region, _ := cluster.Outputs["region"].(string)
	if region == "" {
		// Without a region Civo would answer for the default one.
		return nil, errors.New("the state does not say in which region the cluster is")
	}
	client := questioner("bearer", config.GetApiToken())
	var found []Associated
	var failed error
	for _, list := range []struct{ kind, path string }{
		{"load balancer", "/v2/loadbalancers"}, {"volume", "/v2/volumes"},
	} {
		objects, err := listInCivo(ctx, client, config.GetApiEndpoint(), list.path, region)
		if err != nil && failed == nil {
			failed = errors.Wrapf(err, "list the %ss in %s", list.kind, region)
		}
		for _, object := range objects {
			if object.ClusterID == string(cluster.ID) {
				found = append(found, Associated{Kind: list.kind, ID: object.ID, Name: object.Name, Outcome: Kept})
			}
		}
	}
	return found, failed
}

// civoObject is what the lists have in common. The types of civogo v0.3.89 have more fields, of which one alone that is not as expected,
// such as an empty time, would fail the whole list; and its client takes neither a context nor a transport, and panics on some errors.
type civoObject struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	ClusterID string `json:"cluster_id"`
}

// listInCivo reads one of the lists, which have no pages.
func listInCivo(ctx context.Context, client *http.Client, endpoint, path, region string) ([]civoObject, error) {
	if endpoint == "" {
		endpoint = civoEndpoint
	}
	address := strings.TrimSuffix(endpoint, "/") + path + "?" + url.Values{"region": {region}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxCivoAnswer))
	if err != nil {
		return nil, errors.Wrap(err, "read the answer")
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(civoRefusal(response.Status, answer))
	}
	var objects []civoObject
	if err := json.Unmarshal(answer, &objects); err != nil {
		return nil, errors.Wrap(err, "decode the answer")
	}
	return objects, nil
}

// civoRefusal are the words of an answer that is not a list. Fields may be of any type when something between here and Civo answers.
func civoRefusal(status string, answer []byte) string {
	var fields map[string]any
	_ = json.Unmarshal(answer, &fields)
	for _, key := range []string{"code", "reason"} {
		if text, ok := fields[key].(string); ok && text != "" {
			status += ": " + text
		}
	}
	return status
}
