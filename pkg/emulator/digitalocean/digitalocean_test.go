package digitalocean

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// testToken is what the tests' clients present. It must be found nowhere but in the requests themselves.
const testToken = "dop_v1_test_0123456789abcdef"

// fakeTime is a clock that tests move.
type fakeTime struct {
	mu  sync.Mutex
	now time.Time
}

func newFakeTime() *fakeTime {
	return &fakeTime{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
}

func (f *fakeTime) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeTime) advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// fixture is an emulated cloud behind a real HTTP server, and godo in front of it.
type fixture struct {
	*Cloud
	client *godo.Client
	url    string
	time   *fakeTime
}

// start serves a cloud in which nothing takes time.
func start(t *testing.T) *fixture { return startWith(t, emulator.Options{Token: testToken}) }

// startSlow serves a cloud as slow as the real one, whose time the test moves.
func startSlow(t *testing.T) *fixture {
	return startWith(t, emulator.Options{Token: testToken, TimeScale: 1})
}

func startWith(t *testing.T, options emulator.Options) *fixture {
	t.Helper()
	clock := newFakeTime()
	cloud, err := newCloud(options, clock.Now)
	if err != nil {
		t.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fixture{Cloud: cloud, client: clientOf(t, server.URL(), testToken), url: server.URL(), time: clock}
}

// clientOf is godo as the provider plugins make it, without their retries.
func clientOf(t *testing.T, url, token string) *godo.Client {
	t.Helper()
	client, err := godo.New(&http.Client{Transport: bearer(token)}, godo.SetBaseURL(url))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// bearer is a transport that presents a token, and keeps the id of a refusal, which godo throws away.
type bearer string

// errorIDHeader is where the transport leaves the id of a refusal.
const errorIDHeader = "X-Test-Error-Id"

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || response.StatusCode < 400 {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var refused struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &refused); err != nil {
		return nil, errors.Wrapf(err, "a refusal that is not JSON: %s", body)
	}
	response.Header.Set(errorIDHeader, refused.ID)
	return response, nil
}

// wantError checks a refusal: its status, its id, and that it can be found in the logs of both sides.
func wantError(t *testing.T, err error, status int, id string) {
	t.Helper()
	var refused *godo.ErrorResponse
	if !errors.As(err, &refused) {
		t.Fatalf("error = %v, want a refusal with %d %s", err, status, id)
	}
	if refused.Response.StatusCode != status || refused.Response.Header.Get(errorIDHeader) != id {
		t.Errorf("refusal = %d %s (%v), want %d %s", refused.Response.StatusCode, refused.Response.Header.Get(errorIDHeader), err, status, id)
	}
	if refused.Message == "" || refused.RequestID == "" || refused.RequestID != refused.Response.Header.Get("X-Request-Id") {
		t.Errorf("refusal %+v lacks a message or a request id, or it isn't the header's", refused)
	}
}

func must[T any](t *testing.T) func(T, *godo.Response, error) T {
	return func(value T, _ *godo.Response, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func mustDo(t *testing.T) func(*godo.Response, error) {
	return func(_ *godo.Response, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// simpleCluster asks for a cluster with one pool of two nodes.
func simpleCluster(name string) *godo.KubernetesClusterCreateRequest {
	return &godo.KubernetesClusterCreateRequest{
		Name:        name,
		RegionSlug:  "fra1",
		VersionSlug: "1.31.1-do.4",
		NodePools: []*godo.KubernetesNodePoolCreateRequest{
			{Name: "default", Size: "s-2vcpu-4gb", Count: 2, Tags: []string{"terraform:default-node-pool"}},
		},
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, tc := range []struct {
		reason, token string
	}{
		{"a wrong token is refused", "dop_v1_wrong"},
		{"no token is refused", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			_, _, err := clientOf(t, f.url, tc.token).Account.Get(context.Background())
			wantError(t, err, 401, "unauthorized")
			var refused *godo.ErrorResponse
			if errors.As(err, &refused) && refused.Message != "Unable to authenticate you" {
				t.Errorf("message = %q", refused.Message)
			}
		})
	}
	t.Run("the right token is let in", func(t *testing.T) {
		t.Parallel()
		account := must[*godo.Account](t)(f.client.Account.Get(context.Background()))
		if account.Status != "active" || account.UUID == "" {
			t.Errorf("account = %+v", account)
		}
	})
	t.Run("any token is let in where none is configured", func(t *testing.T) {
		t.Parallel()
		open := startWith(t, emulator.Options{})
		must[*godo.Account](t)(clientOf(t, open.url, "whatever").Account.Get(context.Background()))
		_, _, err := clientOf(t, open.url, "").Account.Get(context.Background())
		wantError(t, err, 401, "unauthorized")
	})
}

func TestAnswerHeaders(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, first, err := f.client.Account.Get(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := f.client.Account.Get(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if first.Limit != 5000 || second.Remaining != first.Remaining-1 || !second.Reset.After(f.time.Now()) {
		t.Errorf("rates = %v, then %v", first.Rate, second.Rate)
	}
	if id := first.Header.Get("X-Request-Id"); id == "" || id == second.Header.Get("X-Request-Id") {
		t.Errorf("request ids = %q, %q, want two different ones", id, second.Header.Get("X-Request-Id"))
	}
	f.time.advance(2 * time.Hour)
	_, third, err := f.client.Account.Get(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if third.Remaining != 4999 {
		t.Errorf("after the hour %d requests remain, want 4999", third.Remaining)
	}
}

func TestUnknownCallsAreNotFound(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, call := range [][2]string{
		{"GET", "/v2/droplets"}, {"GET", "/"}, {"POST", "/v2/account"}, {"DELETE", "/v2/kubernetes/clusters"}, {"GET", "/v1/kubernetes/clusters"},
	} {
		request, err := f.client.NewRequest(context.Background(), call[0], call[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.client.Do(context.Background(), request, nil)
		wantError(t, err, 404, "not_found")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	f := start(t)
	options := must[*godo.KubernetesOptions](t)(f.client.Kubernetes.GetOptions(context.Background()))
	for i, v := range options.Versions {
		if v.KubernetesVersion+"-do." != v.Slug[:len(v.KubernetesVersion)+4] {
			t.Errorf("version %q has the Kubernetes version %q", v.Slug, v.KubernetesVersion)
		}
		if i > 0 && compareSlugs(options.Versions[i-1].Slug, v.Slug) <= 0 {
			t.Errorf("%s is listed before %s, want the newest first", options.Versions[i-1].Slug, v.Slug)
		}
	}
	if len(options.Regions) < 14 || len(options.Sizes) < 20 {
		t.Errorf("%d regions and %d sizes", len(options.Regions), len(options.Sizes))
	}

	if err := f.AddVersion("1.31.1-do.9"); err != nil {
		t.Fatal(err)
	}
	if err := f.AddVersion("1.31.1-do.9"); err != nil {
		t.Fatal(err) // twice is once
	}
	if err := f.RemoveVersion("1.31.14-do.0"); err != nil {
		t.Fatal(err)
	}
	if err := f.RemoveVersion("1.31.14-do.0"); err == nil {
		t.Error("a version was taken off the offer twice")
	}
	if err := f.AddVersion("1.31"); err == nil {
		t.Error("1.31 was put on offer")
	}
	request := simpleCluster("prefix")
	request.VersionSlug = "1.31"
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(context.Background(), request))
	if cluster.VersionSlug != "1.31.1-do.9" {
		t.Errorf("1.31 became %s, want the newest on offer", cluster.VersionSlug)
	}
	request = simpleCluster("latest")
	request.VersionSlug = "latest"
	cluster = must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(context.Background(), request))
	if want := f.Versions()[0]; cluster.VersionSlug != want {
		t.Errorf("latest became %s, want %s", cluster.VersionSlug, want)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	if _, err := New(emulator.Options{TimeScale: -1}); err == nil {
		t.Error("a negative time scale was accepted")
	}
	file := filepath.Join(t.TempDir(), "state.json")
	if _, err := emulator.OpenStore(file, &struct{ Cloud string }{"other"}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(emulator.Options{StateFile: file}); err == nil {
		t.Error("the state file of another cloud was accepted")
	}
	if _, err := New(emulator.Options{StateFile: t.TempDir()}); err == nil {
		t.Error("a folder was accepted as the state file")
	}
}
