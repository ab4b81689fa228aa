package provision

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
)

const secretToken = "token+that/must=not-show"

func civoResource(typeToken, region string) apitype.ResourceV3 {
	return apitype.ResourceV3{Type: tokens.Type(typeToken), ID: resource.ID("mine"), Outputs: map[string]any{"region": region}}
}

func TestAssociatedInCivo(t *testing.T) {
	t.Parallel()
	const (
		balancers = `[{"id":"b1","name":"ingress","cluster_id":"mine"},{"id":"b2","name":"ingress","cluster_id":"other"},{"id":"b3","name":"of nobody"}]`
		volumes   = `[{"id":"v0","name":"pvc-0","cluster_id":"other","created_at":""},{"id":"v1","name":"pvc-1","cluster_id":"mine","size_gb":"10"}]`
	)
	balancer := Associated{Kind: "load balancer", ID: "b1", Name: "ingress", Outcome: Kept}
	volume := Associated{Kind: "volume", ID: "v1", Name: "pvc-1", Outcome: Kept}
	failing := func(status int, header, value, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header, value)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	lists := func(balancers, volumes http.HandlerFunc) http.HandlerFunc {
		mux := http.NewServeMux()
		mux.Handle("GET /api/v2/loadbalancers", balancers)
		mux.Handle("GET /api/v2/volumes", volumes)
		return mux.ServeHTTP
	}
	ok := func(body string) http.HandlerFunc {
		return failing(http.StatusOK, "Content-Type", "application/json", body)
	}
	var strayed atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		strayed.Add(1)
		_, _ = w.Write([]byte(balancers))
	}))
	t.Cleanup(elsewhere.Close)
	cluster := civoResource(civoClusterType, "FRA1")

	for name, test := range map[string]struct {
		reason   string
		resource apitype.ResourceV3
		answer   http.HandlerFunc
		want     []Associated
		error    string // a part of the message; "" for no error
		requests int32
	}{
		"made": {
			reason: "the objects with the id of the cluster are its own, whatever their other fields are", resource: cluster,
			answer: lists(ok(balancers), ok(volumes)), want: []Associated{balancer, volume}, requests: 2,
		},
		"nothing": {
			reason: "a cluster in which nobody asked for anything, or that is gone, has nothing", resource: cluster,
			answer: lists(ok("[]"), ok("null")), requests: 2,
		},
		"another type": {
			reason: "nothing is asked for what is not a cluster", resource: civoResource("civo:index/network:Network", "FRA1"),
			answer: lists(ok(balancers), ok(volumes)),
		},
		"no region": {
			reason: "Civo would answer for the default region, in which the cluster may not be", resource: civoResource(civoClusterType, ""),
			answer: lists(ok(balancers), ok(volumes)), error: "in which region",
		},
		"half": {
			reason: "one list that cannot be had does not take the other away", resource: cluster,
			answer: lists(failing(http.StatusForbidden, "X", "", `{"code":"disabled_service","reason":"no load balancers","result":"failed"}`), ok(volumes)),
			want:   []Associated{volume}, error: "list the load balancers in FRA1: 403 Forbidden: disabled_service: no load balancers", requests: 2,
		},
		"echo": {
			reason: "the cloud's words are told, the token in them is not", resource: cluster,
			answer: failing(http.StatusUnauthorized, "X", "", `{"code":"database_account_not_found","reason":"no account of `+secretToken+`"}`),
			error:  "401 Unauthorized: database_account_not_found: no account of [token]", requests: 2,
		},
		"gateway": {
			reason: "what is between here and Civo answers anything", resource: cluster,
			answer: failing(http.StatusBadGateway, "X", "", `{"code":502,"reason":["a"]}`), error: "502 Bad Gateway", requests: 2,
		},
		"page": {
			reason: "an answer that is no list is not taken for an empty one", resource: cluster,
			answer: failing(http.StatusOK, "X", "", "<html>"+secretToken), error: "decode the answer", requests: 2,
		},
		"redirect": {
			reason: "the token goes nowhere else", resource: cluster,
			answer: failing(http.StatusFound, "Location", elsewhere.URL+"/api/v2/volumes", ""), error: "302 Found", requests: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				if r.Header.Get("Authorization") != "bearer "+secretToken || r.URL.Query().Get("region") != "FRA1" {
					t.Errorf("the request has the authorization %q and asks for %s", r.Header.Get("Authorization"), r.URL)
				}
				test.answer(w, r)
			}))
			defer server.Close()
			config := &civov1.CivoProviderConfig{ApiToken: secretToken, ApiEndpoint: server.URL + "/api/"}
			got, err := associatedInCivo(t.Context(), config, test.resource)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", test.reason, diff)
			}
			wantQuestionError(t, err, test.error)
			if requests.Load() != test.requests {
				t.Errorf("%d requests, want %d", requests.Load(), test.requests)
			}
		})
	}
	t.Cleanup(func() {
		if strayed.Load() > 0 {
			t.Error("a redirect was followed")
		}
	})
}

// wantQuestionError wants an error with the part of a message and without the token, or none for "".
func wantQuestionError(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case err == nil && part == "":
	case err == nil || part == "" || !strings.Contains(err.Error(), part):
		t.Errorf("got error %v, want one with %q", err, part)
	case strings.Contains(err.Error(), secretToken):
		t.Errorf("the error tells the token: %v", err)
	}
}

// A cloud that never answers does not hold a destroy, and one that repeats the token does not bring it into a warning.
func TestAssociatedOfABrokenCloud(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second): // for a question that is not bounded
		}
	}))
	defer silent.Close()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"id":"unauthorized","message":"no account of ` + secretToken + `"}`))
	}))
	defer echo.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	_, err := associatedInCivo(ctx, &civov1.CivoProviderConfig{ApiToken: secretToken, ApiEndpoint: silent.URL}, civoResource(civoClusterType, "FRA1"))
	wantQuestionError(t, err, "context deadline exceeded")
	for _, typeToken := range []string{digitalOceanClusterType, digitalOceanVPCType} {
		r := apitype.ResourceV3{Type: tokens.Type(typeToken), ID: "mine"}
		config := &digitaloceanv1.DigitalOceanProviderConfig{ApiToken: secretToken, ApiEndpoint: silent.URL}
		_, err := associatedInDigitalOcean(ctx, config, r, nil)
		wantQuestionError(t, err, "context deadline exceeded")
		config.ApiEndpoint = echo.URL
		_, err = associatedInDigitalOcean(t.Context(), config, r, nil)
		wantQuestionError(t, err, "no account of [token]")
	}
}

// What goes with a cluster: its own resources, its machines, and what Kubernetes made when that is destroyed too.
func TestLeaving(t *testing.T) {
	t.Parallel()
	gone := &leaving{}
	gone.note([]apitype.ResourceV3{
		{ID: "cluster", Outputs: map[string]any{
			"nodePool": map[string]any{"nodes": []any{map[string]any{"dropletId": "1"}, map[string]any{"dropletId": "2"}}},
		}},
		{ID: "pool", Outputs: map[string]any{"nodes": []any{map[string]any{"dropletId": "3"}}}},
	}, []Associated{{ID: "balancer", Outcome: Destroyed}, {ID: "volume", Outcome: Kept}, {ID: "stranger", Outcome: Blocks}})
	want := map[string]bool{"cluster": true, "pool": true, "1": true, "2": true, "3": true, "balancer": true}
	if diff := cmp.Diff(want, gone.ids); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What goes with the destroy of a set does not stand in the way of the VPC that it is in, and what is somebody else's does.
func TestMembersThatLeave(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"members":[{"urn":"do:kubernetes:cluster","name":"c"},{"urn":"do:droplet:1","name":"n"},{"urn":"do:droplet:9","name":"o"}]}`))
	}))
	t.Cleanup(server.Close)
	config := &digitaloceanv1.DigitalOceanProviderConfig{ApiToken: secretToken, ApiEndpoint: server.URL}
	vpc := apitype.ResourceV3{Type: tokens.Type(digitalOceanVPCType), ID: "vpc"}
	gone := &leaving{}
	gone.note([]apitype.ResourceV3{{ID: "cluster", Outputs: map[string]any{
		"nodePool": map[string]any{"nodes": []any{map[string]any{"dropletId": "1"}}},
	}}}, nil)
	for reason, test := range map[string]struct {
		gone *leaving
		want string
	}{
		"nothing else is destroyed": {nil, "cluster 1 9"},
		"the cluster goes before":   {gone, "9"},
	} {
		found, err := associatedInDigitalOcean(t.Context(), config, vpc, test.gone)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, one := range found {
			ids = append(ids, one.ID)
		}
		if got := strings.Join(ids, " "); got != test.want {
			t.Errorf("%s: %q stand in the way, want %q", reason, got, test.want)
		}
	}
}
