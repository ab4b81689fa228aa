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
	cloud, err := New(emulator.Options{})
	if err != nil {
		f.Fatal(err)
	}
	send := func(method, path, body string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(method, "/", strings.NewReader(body))
		request.URL.Path = path
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
		f.Fatalf("%v: %s", err, created.Body)
	}

	paths := []string{
		"/v2/networks", "/v2/networks/" + network, "/v2/firewalls", "/v2/firewalls/" + firewall, "/v2/firewalls/" + firewall + "/rules",
		"/v2/kubernetes/clusters", "/v2/kubernetes/clusters/" + cluster.ID, "/v2/kubernetes/clusters/" + cluster.ID + "/pools",
		"/v2/kubernetes/clusters/" + cluster.ID + "/pools/default",
	}
	for i := range paths {
		f.Add(true, i, `{"label":"a","name":"a","cidr_v4":"10.0.0.0/8","region":"LON1","nameservers_v4":["8.8.8.8"]}`)
		f.Add(false, i, `{"name":"a","kubernetes_version":"1.30.5-k3s1","tags":"a b","pools":[{"id":"p","count":1,"size":"g4s.kube.small","taints":null,"labels":{}}]}`)
		f.Add(true, i, `{"protocol":"tcp","ports":"80-90","cidr":["0.0.0.0/0"],"direction":"ingress","action":"allow"}`)
		f.Add(false, i, `{"num_target_nodes":-3,"count":99999999999,"applications":",,-:,"}`)
		f.Add(true, i, `[null]`)
		f.Add(false, i, "\x1f\x8b\x08")
	}
	f.Fuzz(func(t *testing.T, post bool, path int, body string) {
		method := http.MethodPut
		if post {
			method = http.MethodPost
		}
		if path < 0 {
			path = -(path + 1)
		}
		answer := send(method, paths[path%len(paths)], body)
		if answer.Code >= 500 || !json.Valid(answer.Body.Bytes()) {
			t.Fatalf("%s %s %q: %d %s", method, paths[path%len(paths)], body, answer.Code, answer.Body)
		}
		// What it accepted can be read back.
		if answer := send(http.MethodGet, "/v2/kubernetes/clusters/"+cluster.ID, ""); answer.Code != http.StatusOK {
			t.Fatalf("the cluster after %s %s %q: %d %s", method, paths[path%len(paths)], body, answer.Code, answer.Body)
		}
	})
}
