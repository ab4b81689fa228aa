package civo

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// Whatever a client sends is answered with JSON, and never with a failure of the emulator's own.
func FuzzRequests(f *testing.F) {
	paths := []string{
		"/v2/networks", "/v2/networks/NETWORK", "/v2/firewalls", "/v2/firewalls/FIREWALL", "/v2/firewalls/FIREWALL/rules",
		"/v2/kubernetes/clusters", "/v2/kubernetes/clusters/CLUSTER", "/v2/kubernetes/clusters/CLUSTER/pools",
		"/v2/kubernetes/clusters/CLUSTER/pools/default",
	}
	for i := range paths {
		f.Add(true, i, `{"label":"a","name":"a","cidr_v4":"10.0.0.0/8","region":"LON1","nameservers_v4":["8.8.8.8"]}`)
		f.Add(false, i, `{"name":"a","kubernetes_version":"1.31.6-k3s1","tags":"a b","pools":[{"id":"p","count":1,"size":"g4s.kube.small","taints":null,"labels":{}}]}`)
		f.Add(true, i, `{"name":"b","num_target_nodes":2,"instance_firewall":"FIREWALL","cni_plugin":"cilium","applications":"Redis,-metrics-server"}`)
		f.Add(true, i, `{"protocol":"tcp","ports":"80-90","cidr":["0.0.0.0/0"],"direction":"ingress","action":"allow"}`)
		f.Add(false, i, `{"num_target_nodes":-3,"count":99999999999,"applications":",,-:,"}`)
		f.Add(false, i, `{"id":"p","count":3,"size":"g4s.kube.small","labels":{"a":"b"},"taints":[{"key":"a","value":"","effect":"NoExecute"}]}`)
		f.Add(true, i, `[null]`)
		f.Add(false, i, "\x1f\x8b\x08")
	}
	f.Fuzz(func(t *testing.T, post bool, path int, body string) {
		// A cloud of its own, so that a finding can be reproduced.
		cloud, err := New(emulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		send := func(method, path, body string) *httptest.ResponseRecorder {
			request := httptest.NewRequest(method, path, strings.NewReader(body))
			request.Header.Set("Authorization", "bearer x")
			recorder := httptest.NewRecorder()
			cloud.ServeHTTP(recorder, request)
			return recorder
		}
		network, firewall := cloud.Networks()[0].ID, cloud.Firewalls()[0].ID
		created := send("POST", "/v2/kubernetes/clusters",
			`{"name":"fuzz","instance_firewall":"`+firewall+`","pools":[{"id":"default","count":1,"size":"g4s.kube.small"}]}`)
		var cluster struct{ ID string }
		if err := json.Unmarshal(created.Body.Bytes(), &cluster); err != nil || cluster.ID == "" {
			t.Fatalf("%v: %s", err, created.Body)
		}
		fill := strings.NewReplacer("NETWORK", network, "FIREWALL", firewall, "CLUSTER", cluster.ID).Replace

		method := http.MethodPut
		if post {
			method = http.MethodPost
		}
		if path < 0 {
			path = -(path + 1)
		}
		answer := send(method, fill(paths[path%len(paths)]), fill(body))
		if answer.Code >= 500 || !json.Valid(answer.Body.Bytes()) {
			t.Fatalf("%s %s: %d %s", method, paths[path%len(paths)], answer.Code, answer.Body)
		}
		// What it accepted can be read back.
		for _, list := range []string{"/v2/networks", "/v2/firewalls", "/v2/kubernetes/clusters", "/v2/kubernetes/clusters/" + cluster.ID} {
			if answer := send(http.MethodGet, list, ""); answer.Code != http.StatusOK {
				t.Fatalf("GET %s afterwards: %d %s", list, answer.Code, answer.Body)
			}
		}
	})
}
