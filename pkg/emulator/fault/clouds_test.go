package fault_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/civo/civogo"
	"github.com/digitalocean/godo"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

const testToken = "fault-test-token-0123456789"

// api is an account as its cloud's own Go client sees it.
type api interface {
	createNetwork(name string) (id string, err error)
	getNetwork(id string) error
	listNetworks() (ids []string, err error)
	deleteNetwork(id string) error
	createFirewall(networkID string) (id string, err error)
	getFirewall(id string) error
	createCluster(name, networkID, firewallID string) (id string, err error)
	getCluster(id string) (state string, err error)
	listClusters() (ids []string, err error)
	upgradeCluster(id string) error
	deleteCluster(id string) error
	createPool(clusterID, name string) (id string, err error)
	getPool(clusterID, id string) (states []string, err error)
	deletePool(clusterID, id string) error
}

// bench is an emulated cloud that can fail, behind a real HTTP server, and the cloud's own client in front of it.
type bench struct {
	api
	*fault.Injector
	cloud fault.Cloud
	url   string
	// client is a client that presents another token.
	client func(token string) api
	// networks counts what is there but the default networks, whatever reads see.
	networks func() int

	networksPath, poolsPath                string
	building, running, upgrading, deleting string
	notFound                               func(error) bool
	inUse                                  func(error) bool
	refused                                func(err error, kind fault.Kind, status int) bool
}

// onBothClouds runs a test on each cloud, with a plan in force.
func onBothClouds(t *testing.T, plan fault.Plan, test func(t *testing.T, b *bench)) {
	t.Helper()
	for _, name := range []string{"civo", "digitalocean"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t, name, emulator.Options{Token: ""}, plan))
		})
	}
}

func start(t *testing.T, name string, options emulator.Options, plan fault.Plan) *bench {
	t.Helper()
	b := &bench{}
	if name == "civo" {
		cloud, injector, err := fault.New(civo.New, options, plan)
		if err != nil {
			t.Fatal(err)
		}
		b.cloud, b.Injector = cloud, injector
		b.networks = func() int {
			n := 0
			for _, network := range cloud.Networks() {
				if !network.Default {
					n++
				}
			}
			return n
		}
		b.client = func(token string) api {
			client, err := civogo.NewClientWithURL(token, b.url, "LON1")
			if err != nil {
				t.Fatal(err)
			}
			return civoAPI{client}
		}
		b.networksPath, b.poolsPath = "/v2/networks", "/v2/kubernetes/clusters/{id}/pools"
		b.building, b.running, b.upgrading, b.deleting = "BUILDING", "ACTIVE", "UPGRADING", "DELETING"
		b.notFound = func(err error) bool {
			return errors.Is(err, civogo.DatabaseNetworkNotFoundError) || errors.Is(err, civogo.DatabaseKubernetesClusterNotFoundError) ||
				errors.Is(err, civogo.DatabaseFirewallNotFoundError) || errors.Is(err, civogo.DatabaseClusterPoolNotFoundError)
		}
		b.inUse = func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "is in use by a Kubernetes cluster")
		}
		b.refused = func(err error, kind fault.Kind, status int) bool {
			switch kind {
			case fault.Quota:
				return errors.Is(err, civogo.QuotaLimitReachedError)
			case fault.Capacity:
				return errors.Is(err, civogo.OutOFCapacityError)
			case fault.RevokeToken:
				return errors.Is(err, civogo.DatabaseAccountNotFoundError)
			case fault.RateLimit:
				return err != nil && strings.Contains(err.Error(), "Too many requests")
			}
			if status == http.StatusInternalServerError {
				return errors.Is(err, civogo.InternalServerError)
			}
			return errors.Is(err, civogo.ResponseDecodeFailedError) // a page of HTML
		}
	} else {
		cloud, injector, err := fault.New(digitalocean.New, options, plan)
		if err != nil {
			t.Fatal(err)
		}
		cloud.SetVPCGracePeriod(0)
		b.cloud, b.Injector = cloud, injector
		b.networks = func() int {
			n := 0
			for _, vpc := range cloud.VPCs() {
				if !vpc.Default {
					n++
				}
			}
			return n
		}
		b.client = func(token string) api {
			client, err := godo.New(&http.Client{}, godo.SetBaseURL(b.url), godo.SetRequestHeaders(map[string]string{"Authorization": "Bearer " + token}))
			if err != nil {
				t.Fatal(err)
			}
			return digitalOceanAPI{t, client}
		}
		b.networksPath, b.poolsPath = "/v2/vpcs", "/v2/kubernetes/clusters/{id}/node_pools"
		b.building, b.running, b.upgrading, b.deleting = "provisioning", "running", "upgrading", "deleted"
		b.notFound = func(err error) bool { return status(err) == http.StatusNotFound }
		b.inUse = func(err error) bool { return status(err) == http.StatusConflict }
		b.refused = func(err error, kind fault.Kind, want int) bool {
			switch kind {
			case fault.Quota:
				return status(err) == http.StatusUnprocessableEntity && strings.Contains(err.Error(), "droplet limit")
			case fault.Capacity:
				return status(err) == http.StatusUnprocessableEntity && strings.Contains(err.Error(), "size is unavailable")
			case fault.RevokeToken:
				return status(err) == http.StatusUnauthorized && strings.Contains(err.Error(), "Unable to authenticate you")
			case fault.RateLimit:
				return status(err) == http.StatusTooManyRequests
			}
			return status(err) == want
		}
	}
	server, err := emulator.Listen("127.0.0.1:0", b.Handler())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// What waits is let go, or the server could not be closed.
		if err := b.Lift(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	b.url = server.URL()
	b.api = b.client(testToken)
	return b
}

// count tells how many requests the cloud was sent.
func (b *bench) count(method, pattern string) int {
	return emulator.Count(b.cloud.Requests(), method, pattern)
}

func (b *bench) last() emulator.Request {
	all := b.cloud.Requests()
	return all[len(all)-1]
}

// newCluster makes a cluster in a network of its own.
func (b *bench) newCluster(t *testing.T, name string) (networkID, id string) {
	t.Helper()
	networkID = must(b.createNetwork(name))(t)
	firewallID := must(b.createFirewall(networkID))(t)
	return networkID, must(b.createCluster(name, networkID, firewallID))(t)
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// status is that of a refusal, 0 for other errors.
func status(err error) int {
	var refused *godo.ErrorResponse
	if !errors.As(err, &refused) {
		return 0
	}
	return refused.Response.StatusCode
}

type civoAPI struct{ *civogo.Client }

func (c civoAPI) createNetwork(name string) (string, error) {
	made, err := c.CreateNetwork(civogo.NetworkConfig{Label: name, Region: c.Region})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c civoAPI) getNetwork(id string) error {
	_, err := c.GetNetwork(id)
	return err
}

func (c civoAPI) listNetworks() (ids []string, err error) {
	networks, err := c.ListNetworks()
	for _, network := range networks {
		ids = append(ids, network.ID)
	}
	return ids, err
}

func (c civoAPI) deleteNetwork(id string) error {
	_, err := c.DeleteNetwork(id)
	return err
}

func (c civoAPI) createFirewall(networkID string) (string, error) {
	made, err := c.NewFirewall(&civogo.FirewallConfig{Name: "of-" + networkID, Region: c.Region, NetworkID: networkID})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c civoAPI) getFirewall(id string) error {
	_, err := c.SendGetRequest("/v2/firewalls/" + id) // civogo has no call for one firewall
	var refused civogo.HTTPError
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return civogo.DatabaseFirewallNotFoundError
	}
	return err
}

func (c civoAPI) createCluster(name, networkID, firewallID string) (string, error) {
	made, err := c.NewKubernetesClusters(&civogo.KubernetesClusterConfig{
		Name: name, Region: c.Region, NetworkID: networkID, InstanceFirewall: firewallID,
		Pools: []civogo.KubernetesClusterPoolConfig{{ID: "default", Count: 1, Size: "g4s.kube.medium"}},
	})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c civoAPI) getCluster(id string) (string, error) {
	cluster, err := c.GetKubernetesCluster(id)
	if err != nil {
		return "", err
	}
	return cluster.Status, nil
}

func (c civoAPI) listClusters() (ids []string, err error) {
	clusters, err := c.ListKubernetesClusters()
	if err != nil {
		return nil, err
	}
	for _, cluster := range clusters.Items {
		ids = append(ids, cluster.ID)
	}
	return ids, nil
}

func (c civoAPI) upgradeCluster(id string) error {
	_, err := c.UpdateKubernetesCluster(id, &civogo.KubernetesClusterConfig{KubernetesVersion: "1.31.6-k3s1", Region: c.Region})
	return err
}

func (c civoAPI) deleteCluster(id string) error {
	_, err := c.DeleteKubernetesCluster(id)
	return err
}

func (c civoAPI) createPool(clusterID, name string) (string, error) {
	_, err := c.CreateKubernetesClusterPool(clusterID, &civogo.KubernetesClusterPoolConfig{
		ID: name, Count: 1, Size: "g4s.kube.medium", Region: c.Region,
	})
	return name, err
}

func (c civoAPI) getPool(clusterID, id string) (states []string, err error) {
	pool, err := c.GetKubernetesClusterPool(clusterID, id)
	if err != nil {
		return nil, err
	}
	for _, instance := range pool.Instances {
		states = append(states, instance.Status)
	}
	return states, nil
}

func (c civoAPI) deletePool(clusterID, id string) error {
	_, err := c.DeleteKubernetesClusterPool(clusterID, id)
	return err
}

type digitalOceanAPI struct {
	t *testing.T
	*godo.Client
}

func (c digitalOceanAPI) createNetwork(name string) (string, error) {
	made, _, err := c.VPCs.Create(c.t.Context(), &godo.VPCCreateRequest{Name: name, RegionSlug: "fra1"})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c digitalOceanAPI) getNetwork(id string) error {
	_, _, err := c.VPCs.Get(c.t.Context(), id)
	return err
}

func (c digitalOceanAPI) listNetworks() (ids []string, err error) {
	networks, _, err := c.VPCs.List(c.t.Context(), &godo.ListOptions{PerPage: 200})
	for _, network := range networks {
		ids = append(ids, network.ID)
	}
	return ids, err
}

func (c digitalOceanAPI) deleteNetwork(id string) error {
	_, err := c.VPCs.Delete(c.t.Context(), id)
	return err
}

func (c digitalOceanAPI) createFirewall(networkID string) (string, error) {
	made, _, err := c.Firewalls.Create(c.t.Context(), &godo.FirewallRequest{
		Name:         "of-" + networkID,
		InboundRules: []godo.InboundRule{{Protocol: "tcp", PortRange: "443", Sources: &godo.Sources{Addresses: []string{"0.0.0.0/0"}}}},
	})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c digitalOceanAPI) getFirewall(id string) error {
	_, _, err := c.Firewalls.Get(c.t.Context(), id)
	return err
}

func (c digitalOceanAPI) createCluster(name, networkID, _ string) (string, error) {
	made, _, err := c.Kubernetes.Create(c.t.Context(), &godo.KubernetesClusterCreateRequest{
		Name: name, RegionSlug: "fra1", VersionSlug: "1.31.1-do.4", VPCUUID: networkID,
		NodePools: []*godo.KubernetesNodePoolCreateRequest{{Name: "default", Size: "s-2vcpu-4gb", Count: 1}},
	})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c digitalOceanAPI) getCluster(id string) (string, error) {
	cluster, _, err := c.Kubernetes.Get(c.t.Context(), id)
	if err != nil {
		return "", err
	}
	return string(cluster.Status.State), nil
}

func (c digitalOceanAPI) listClusters() (ids []string, err error) {
	clusters, _, err := c.Kubernetes.List(c.t.Context(), nil)
	for _, cluster := range clusters {
		ids = append(ids, cluster.ID)
	}
	return ids, err
}

func (c digitalOceanAPI) upgradeCluster(id string) error {
	offered, _, err := c.Kubernetes.GetUpgrades(c.t.Context(), id)
	if err != nil {
		return err
	}
	_, err = c.Kubernetes.Upgrade(c.t.Context(), id, &godo.KubernetesClusterUpgradeRequest{VersionSlug: offered[0].Slug})
	return err
}

func (c digitalOceanAPI) deleteCluster(id string) error {
	_, err := c.Kubernetes.Delete(c.t.Context(), id)
	return err
}

func (c digitalOceanAPI) createPool(clusterID, name string) (string, error) {
	made, _, err := c.Kubernetes.CreateNodePool(c.t.Context(), clusterID, &godo.KubernetesNodePoolCreateRequest{Name: name, Size: "s-2vcpu-4gb", Count: 1})
	if err != nil {
		return "", err
	}
	return made.ID, nil
}

func (c digitalOceanAPI) getPool(clusterID, id string) (states []string, err error) {
	pool, _, err := c.Kubernetes.GetNodePool(c.t.Context(), clusterID, id)
	if err != nil {
		return nil, err
	}
	for _, node := range pool.Nodes {
		states = append(states, node.Status.State)
	}
	return states, nil
}

func (c digitalOceanAPI) deletePool(clusterID, id string) error {
	_, err := c.Kubernetes.DeleteNodePool(c.t.Context(), clusterID, id)
	return err
}
