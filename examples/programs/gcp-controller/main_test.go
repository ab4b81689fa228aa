package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// The service, for people and for the controller. The controller itself knows nothing of it but its address.
func serve(t *testing.T) string {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "nodepools.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	core, err := service.New(service.Options{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	api, err := server.New(server.Options{
		Service: core, Ready: db.Ping,
		Authenticator: auth.Header(auth.Roles{{Subject: "gcp@controllers.example.com", Role: auth.ControllerRole}, {Subject: "*", Role: auth.Editor}}, auth.LoopbackPeer),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(api)
	t.Cleanup(func() {
		api.EndStreams()
		listener.Close()
	})
	return listener.URL
}

// user asks as a user does.
type user struct {
	t   *testing.T
	url string
}

func (u user) ask(method, path, body string) (int, string) {
	u.t.Helper()
	request, err := http.NewRequestWithContext(u.t.Context(), method, u.url+path, strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header.Set("X-User-Email", "user@example.com")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// until waits for an answer that has a text.
func (u user) until(path, text string) {
	u.t.Helper()
	last := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, last = u.ask(http.MethodGet, path, ""); strings.Contains(last, text) {
			return
		}
	}
	u.t.Fatalf("%s never said %s; it says %s", path, text, last)
}

const (
	clusterID = "550e8400-e29b-41d4-a716-446655440000"
	poolID    = "123e4567-e89b-12d3-a456-426614174000"
)

func TestAPoolFromCreationToDeletion(t *testing.T) {
	t.Parallel()
	url := serve(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	c := &controller{
		api: &api{server: url, user: "gcp@controllers.example.com"}, cloud: &cloud{step: 20 * time.Millisecond, nodes: map[string]int{}},
		poll: 200 * time.Millisecond, log: log.New(t.Output(), "", 0),
	}
	go func() { ended <- c.run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	u := user{t: t, url: url}
	u.until("/api/v1/nodepools", `"total":0`)
	if code, text := u.ask(http.MethodPost, "/api/v1/clusters",
		`{"id": "`+clusterID+`", "name": "production", "spec": {"platform": {"type": "gcp", "gcp": {"region": "us-central1"}}}}`); code != http.StatusCreated {
		t.Fatalf("the cluster: %d %s", code, text)
	}
	if code, text := u.ask(http.MethodPost, "/api/v1/nodepools", `{"id": "`+poolID+`", "name": "production-workers", "cluster_id": "`+clusterID+`",
		"spec": {"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4", "zones": ["us-central1-a"]}}, "nodeCount": 3}}`); code != http.StatusCreated {
		t.Fatalf("the pool: %d %s", code, text)
	}
	const path = "/api/v1/nodepools/" + poolID
	u.until(path, `"phase":"Ready"`)
	u.until(path+"/status", "All 3 nodes are ready")
	u.until("/api/v1/clusters/"+clusterID, `"phase":"Ready"`)

	if code, text := u.ask(http.MethodPut, path, `{"name": "production-workers",
		"spec": {"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4"}}, "nodeCount": 6}}`); code != http.StatusOK {
		t.Fatalf("the update: %d %s", code, text)
	}
	u.until(path+"/status", "All 6 nodes are ready")
	u.until(path, `"observed_generation":2`)

	if code, text := u.ask(http.MethodDelete, path, ""); code != http.StatusNoContent {
		t.Fatalf("the deletion: %d %s", code, text)
	}
	u.until(path, `"NOT_FOUND"`)
	c.cloud.mu.Lock()
	left := c.cloud.nodes[poolID]
	c.cloud.mu.Unlock()
	if left != 0 {
		t.Errorf("%d nodes are left of a pool that is gone", left)
	}
}

func TestRegionOf(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]string{"us-central1-a": "us-central1", "a": "a", "-": "-", "": ""} {
		if got := regionOf(zone); got != want {
			t.Errorf("the region of %q is %q, want %q", zone, got, want)
		}
	}
}
