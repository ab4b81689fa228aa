package digitalocean

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// FuzzRequests sends bodies to every call that takes one. Whatever they are, the answer is JSON (or nothing) and no
// 500, and the account stays one that the other calls can show.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `"x"`, `{"name":"c","region":"fra1","version":"1.31","node_pools":[{"name":"p","size":"c-2","count":1}]}`,
		`{"name":"c","region":"nyc3","version":"latest","ha":true,"node_pools":[{"name":"p","size":"gpu-mi300x1-192gb","auto_scale":true,"min_nodes":0,"max_nodes":9}],"maintenance_policy":{"day":"Sunday","start_time":"10:00"},"cluster_subnet":"10.1.0.0/16"}`,
		`{"count":99999999999,"name":"p","size":"c-2"}`, `{"count":-5}`, `{"tags":["a",null,"k8s"],"labels":{"a":null},"taints":[{"Key":"a","Effect":"NoExecute"}]}`,
		`{"auto_scale":true,"min_nodes":-9223372036854775808,"max_nodes":9223372036854775807}`,
		`{"name":"v","region":"fra1","ip_range":"10.0.0.0/33"}`, `{"name":"v","region":"fra1","ip_range":"10.9.0.0/16","default":true}`,
		`{"name":"f","inbound_rules":[{"protocol":"tcp","ports":"all","sources":{"addresses":["::/0"]}}]}`, `{"inbound_rules":[null],"outbound_rules":[{}]}`,
		`{"cluster_uuids":["x"]}`, `{"version":"1.32.10-do.0"}`, `{"nodes":["x"]}`, `{"volumes":["x"]}`,
		`{"cluster_autoscaler_configuration":{"scale_down_utilization_threshold":0.5,"expanders":["random"]},"control_plane_firewall":{"allowed_addresses":["10.0.0.1"]}}`,
	} {
		f.Add(seed, "page=1")
	}
	f.Add(`{}`, "page=99999999999999999999&per_page=-1&expiry_seconds=9223372036854775807&replace=1")
	f.Fuzz(func(t *testing.T, body, query string) {
		cloud, err := New(emulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		send := func(method, path, body string) *httptest.ResponseRecorder {
			request := httptest.NewRequest(method, path, strings.NewReader(body))
			request.Header.Set("Authorization", "Bearer token")
			request.URL.RawQuery = query
			recorder := httptest.NewRecorder()
			cloud.ServeHTTP(recorder, request)
			return recorder
		}
		if made := send("POST", "/v2/kubernetes/clusters", `{"name":"base","region":"fra1","version":"1.31.1-do.4","node_pools":[{"name":"p","size":"c-2","count":1},{"name":"q","size":"c-2","count":1}]}`); made.Code != http.StatusCreated {
			t.Fatalf("%d %s", made.Code, made.Body)
		}
		cluster := cloud.Clusters()[0]
		path := "/v2/kubernetes/clusters/" + cluster.ID
		pool := path + "/node_pools/" + cluster.NodePools[0].ID
		for _, call := range [][2]string{
			{"POST", "/v2/kubernetes/clusters"}, {"PUT", path}, {"POST", path + "/upgrade"}, {"POST", path + "/node_pools"}, {"PUT", pool},
			{"POST", pool + "/recycle"}, {"DELETE", pool + "/nodes/" + cluster.NodePools[0].Nodes[0].ID},
			{"POST", "/v2/vpcs"}, {"PUT", "/v2/vpcs/" + cluster.VPCUUID}, {"PATCH", "/v2/vpcs/" + cluster.VPCUUID},
			{"POST", "/v2/firewalls"}, {"POST", "/v2/registry"}, {"POST", "/v2/kubernetes/registry"}, {"DELETE", "/v2/kubernetes/registry"},
			{"GET", "/v2/kubernetes/clusters"}, {"GET", path}, {"GET", path + "/credentials"}, {"GET", path + "/kubeconfig"}, {"GET", path + "/node_pools"},
			{"GET", "/v2/vpcs"}, {"GET", "/v2/vpcs/" + cluster.VPCUUID + "/members"}, {"GET", "/v2/firewalls"}, {"GET", "/v2/kubernetes/options"},
			{"DELETE", path + "/destroy_with_associated_resources/selective"},
		} {
			answer := send(call[0], call[1], body)
			if answer.Code >= 500 {
				t.Errorf("%v: %d %s", call, answer.Code, answer.Body)
			}
			if content := answer.Header().Get("Content-Type"); content == "application/json" && !json.Valid(answer.Body.Bytes()) {
				t.Errorf("%v: not JSON: %s", call, answer.Body)
			}
			for _, cluster := range cloud.Clusters() {
				nodes := 0
				for _, pool := range cluster.NodePools {
					nodes += len(pool.Nodes)
				}
				if len(cluster.NodePools) == 0 || nodes > maxNodes {
					t.Errorf("%v left a cluster with %d pools and %d nodes", call, len(cluster.NodePools), nodes)
				}
			}
		}
		for _, r := range regions {
			n := 0
			for _, vpc := range cloud.VPCs() {
				if vpc.Region == r.Slug && vpc.Default {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s has %d default VPCs", r.Slug, n)
			}
		}
	})
}
