package endtoend

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/kinds"
)

// recordedRequest is a request that an official plugin sent to a stub, see testdata/recorded.
type recordedRequest struct {
	Method string         `json:"m"`
	Path   string         `json:"path"`
	Query  string         `json:"q"`
	Body   map[string]any `json:"body"`
	Status int            `json:"st"`
}

func recorded(t *testing.T, file string) []recordedRequest {
	t.Helper()
	opened, err := os.Open(filepath.Join("testdata", "recorded", file))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	var requests []recordedRequest
	for lines := bufio.NewScanner(opened); lines.Scan(); {
		var request recordedRequest
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, request)
	}
	return requests
}

// replay sends recorded requests with the ids of the objects that there are, and returns the statuses.
func (w *world) replay(provider string, requests []recordedRequest, ids *strings.Replacer) []int {
	w.t.Helper()
	url, token := w.civoURL, civoToken
	if provider == kinds.DigitalOcean {
		url, token = w.doURL, digitaloceanToken
	}
	var statuses []int
	for _, sent := range requests {
		body, err := json.Marshal(sent.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(w.t.Context(), sent.Method, url+ids.Replace(sent.Path)+"?"+sent.Query,
			strings.NewReader(string(body)))
		if err != nil {
			w.t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = response.Body.Close()
		statuses = append(statuses, response.StatusCode)
	}
	return statuses
}

// What the official DigitalOcean plugin sent, sent again: a scaling is applied, the last tag stays, a pool is waited for until it
// is gone, a cluster is not, so that its VPC has members still.
func TestRecordedRequests(t *testing.T) {
	t.Parallel()
	const clusterID, poolID = "1684a952-2fc6-4892-a183-6a8035fc63cf", "f7352033-0722-408a-8b4f-fbeb1879d841"
	w := newBench(t, kinds.DigitalOcean)
	w.digitalocean.SetVPCGracePeriod(time.Hour)
	var vpc struct{ VPC struct{ ID string } }
	w.call(kinds.DigitalOcean, "POST", "/v2/vpcs", m{"name": "net", "region": "nyc1"}, &vpc)
	var made struct {
		Cluster struct{ ID string } `json:"kubernetes_cluster"`
	}
	w.call(kinds.DigitalOcean, "POST", "/v2/kubernetes/clusters", m{
		"name": "main", "region": "nyc1", "version": "1.31.1-do.4", "vpc_uuid": vpc.VPC.ID,
		"node_pools": []m{{"name": "default", "size": "s-2vcpu-4gb", "count": 1}},
	}, &made)
	var pool struct {
		Pool struct{ ID string } `json:"node_pool"`
	}
	w.call(kinds.DigitalOcean, "POST", "/v2/kubernetes/clusters/"+made.Cluster.ID+"/node_pools",
		m{"name": "extra", "size": "s-2vcpu-4gb", "count": 2, "tags": []string{"last"}}, &pool)
	ids := strings.NewReplacer(clusterID, made.Cluster.ID, poolID, pool.Pool.ID)

	requests := recorded(t, "requests-digitalocean.jsonl")
	scaled := slices.IndexFunc(requests, func(r recordedRequest) bool { return r.Method == http.MethodPut })
	if got := w.replay(kinds.DigitalOcean, requests[:scaled+1], ids); !slices.Equal(got, []int{200, 200, 202}) {
		t.Errorf("refresh and scaling: %v", got)
	}
	now := w.doksNamed("main").Pool("extra")
	if now.Count != 3 {
		t.Errorf("the pool has %d nodes, want the 3 that were asked for", now.Count)
	}
	if _, sent := requests[scaled].Body["tags"]; sent || userTags(now.Tags) != "last" {
		t.Errorf("a pool without tags in the program is updated with %v, and the pool has the tags %q", requests[scaled].Body, now.Tags)
	}

	rest := requests[scaled+1:]
	statuses := w.replay(kinds.DigitalOcean, rest, ids)
	for i, request := range rest {
		if statuses[i] != request.Status {
			t.Errorf("%s %s: %d, the stub answered %d", request.Method, request.Path, statuses[i], request.Status)
		}
	}
	if last := rest[len(rest)-1]; last.Method != http.MethodDelete || last.Path != "/v2/kubernetes/clusters/"+clusterID {
		t.Errorf("the last request is %s %s, want the cluster's deletion, which is not waited for", last.Method, last.Path)
	}
	if got := w.replay(kinds.DigitalOcean, []recordedRequest{{Method: "DELETE", Path: "/v2/vpcs/" + vpc.VPC.ID}}, ids); got[0] < 400 {
		t.Errorf("the VPC of a cluster that was deleted just now is deleted: %d", got[0])
	}
}

// What the official Civo plugin sent, sent again: it reads cluster and pool, and waits until each is not found.
func TestRecordedRequestsOfCivo(t *testing.T) {
	t.Parallel()
	const clusterID, poolID = "8089de78-8404-49ed-8150-21f1edf602cf", "bb23b66b-b3a7-49a1-9f7d-43f53a7b08d9"
	w := newBench(t, kinds.Civo)
	network := w.civoNetwork("net")
	cluster := w.civoCluster("main", network, w.civoFirewall("fw", network))
	w.call(kinds.Civo, "POST", "/v2/kubernetes/clusters/"+cluster+"/pools",
		m{"id": "extra", "count": 2, "size": "g4s.kube.medium", "region": "LON1"}, nil)

	requests := recorded(t, "requests-civo.jsonl")
	statuses := w.replay(kinds.Civo, requests, strings.NewReplacer(clusterID, cluster, poolID, "extra"))
	for i, request := range requests {
		if statuses[i] != request.Status {
			t.Errorf("%s %s: %d, the stub answered %d", request.Method, request.Path, statuses[i], request.Status)
		}
	}
	if left := w.civo.Clusters(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
