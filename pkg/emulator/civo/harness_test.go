package civo

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/civo/civogo"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// bench is an emulated cloud behind a real HTTP server, and the time on its clock.
type bench struct {
	t     *testing.T
	cloud *Cloud
	url   string

	mu  sync.Mutex
	now time.Time
}

const testToken = "test-token-0123456789"

func newBench(t *testing.T, options emulator.Options) *bench {
	t.Helper()
	if options.Token == "" {
		options.Token = testToken
	}
	b := &bench{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	cloud, err := newCloud(options, b.time)
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
	b.cloud, b.url = cloud, server.URL()
	return b
}

func (b *bench) time() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// client is a civogo client of its own: one is not safe for several goroutines.
func (b *bench) client(region string) *civogo.Client { return b.clientWith(testToken, region) }

func (b *bench) clientWith(token, region string) *civogo.Client {
	client, err := civogo.NewClientWithURL(token, b.url, region)
	if err != nil {
		b.t.Fatal(err)
	}
	return client
}

// place makes a network and a firewall in it.
func (b *bench) place(client *civogo.Client, name string) (networkID, firewallID string) {
	b.t.Helper()
	network := must(client.CreateNetwork(civogo.NetworkConfig{Label: name, Region: client.Region}))(b.t)
	no := false
	firewall := must(client.NewFirewall(&civogo.FirewallConfig{
		Name: name, Region: client.Region, NetworkID: network.ID, CreateRules: &no,
	}))(b.t)
	return network.ID, firewall.ID
}

// config is a cluster that the API takes.
func (b *bench) config(client *civogo.Client, name string) *civogo.KubernetesClusterConfig {
	b.t.Helper()
	networkID, firewallID := b.place(client, name)
	return &civogo.KubernetesClusterConfig{
		Name:             name,
		NetworkID:        networkID,
		InstanceFirewall: firewallID,
		Pools:            []civogo.KubernetesClusterPoolConfig{{ID: "default", Count: 2, Size: "g4s.kube.medium"}},
	}
}

func (b *bench) cluster(client *civogo.Client, name string) *civogo.KubernetesCluster {
	b.t.Helper()
	return must(client.NewKubernetesClusters(b.config(client, name)))(b.t)
}

// must ends the test when a call that has to succeed does not.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// call sends a request that civogo cannot be made to send.
func (b *bench) call(method, path, body string) (status int, header http.Header) {
	b.t.Helper()
	request, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Authorization", "bearer "+testToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		b.t.Error(err)
	}
	return response.StatusCode, response.Header
}

func ptr[T any](value T) *T { return &value }
