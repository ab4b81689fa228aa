package civo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/civo/civogo"
	"github.com/google/go-cmp/cmp"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

func TestAuthentication(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})

	if _, err := b.client("LON1").ListRegions(); err != nil {
		t.Errorf("the right token: %v", err)
	}
	_, err := b.clientWith("wrong-token", "LON1").ListRegions()
	wantError(t, err, civogo.DatabaseAccountNotFoundError)

	// civogo refuses to go without a token; others do not.
	response, err := http.Get(b.url + "/v2/regions")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer map[string]string
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusUnauthorized || answer["result"] != "requires_authentication" {
		t.Errorf("no token: got %d %v", response.StatusCode, answer)
	}
}

func TestAnyTokenWhenNoneIsSet(t *testing.T) {
	t.Parallel()
	cloud, err := New(emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	client, err := civogo.NewClientWithURL("anything", server.URL(), "LON1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ListRegions(); err != nil {
		t.Error(err)
	}
}

func TestCatalogues(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	// An empty region, as a provider sends before it knows one.
	client := b.client("")

	listed := must(client.ListRegions())(t)
	if len(listed) != len(regions) || listed[0].Code != "LON1" || !listed[0].Default || !listed[0].Features.Kubernetes {
		t.Errorf("regions: %+v", listed)
	}
	if region := must(client.GetDefaultRegion())(t); region.Code != "LON1" {
		t.Errorf("default region: %+v", region)
	}
	offered := must(client.ListAvailableKubernetesVersions())(t)
	found := map[string]civogo.KubernetesVersion{}
	for _, version := range offered {
		found[version.Version] = version
	}
	if v := found["1.29.0-k3s1"]; v.ClusterType != "k3s" || v.Label != "1.29.0-k3s1" {
		t.Errorf("version 1.29.0-k3s1: %+v", v)
	}
	if v := found["talos-v1.5.0"]; v.ClusterType != "talos" || !v.Default {
		t.Errorf("version talos-v1.5.0: %+v", v)
	}
	if size := must(client.FindInstanceSizes("g4s.kube.medium"))(t); size.CPUCores != 2 || size.RAMMegabytes != 4096 || size.Type != "Kubernetes" {
		t.Errorf("size: %+v", size)
	}
	apps := must(client.ListKubernetesMarketplaceApplications())(t)
	if len(apps) != len(applications) || apps[0].Name != "Traefik-v2-nodeport" || !apps[0].Default {
		t.Errorf("applications: %+v", apps)
	}
	if quota := must(client.GetQuota())(t); quota.InstanceCountLimit == 0 || quota.InstanceCountUsage != 0 {
		t.Errorf("quota: %+v", quota)
	}
}

func TestDefaultNetworkPerRegion(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	ids := map[string]bool{}
	for _, region := range regions {
		client := b.client(region.Code)
		network := must(client.GetDefaultNetwork())(t)
		ids[network.ID] = true
		if firewall := must(client.FindFirewall("default-default"))(t); firewall.NetworkID != network.ID || firewall.RulesCount != 6 {
			t.Errorf("%s: the default network's firewall: %+v", region.Code, firewall)
		}
		_, err := client.DeleteNetwork(network.ID)
		wantError(t, err, civogo.NetworkDeleteDefaultError)
	}
	if len(ids) != len(regions) {
		t.Errorf("%d default networks for %d regions", len(ids), len(regions))
	}
}

func TestNetworkLifeCycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("FRA1")

	created := must(client.CreateNetwork(civogo.NetworkConfig{
		Label: "prod", Region: "FRA1", CIDRv4: "10.1.0.0/16", NameserversV4: []string{"9.9.9.9"},
	}))(t)
	if created.Result != "success" || created.Label != "prod" {
		t.Errorf("created: %+v", created)
	}
	network := must(client.GetNetwork(created.ID))(t)
	want := &civogo.Network{
		ID: created.ID, Name: "cust-" + created.ID[:13] + "-prod", Label: "prod", CIDR: "10.1.0.0/16", Status: "Active",
		IPv4Enabled: true, NameserversV4: []string{"9.9.9.9"},
	}
	if diff := cmp.Diff(want, network); diff != "" {
		t.Errorf("network (-want +got):\n%s", diff)
	}
	if second := must(client.NewNetwork("second"))(t); must(client.GetNetwork(second.ID))(t).CIDR != "192.168.2.0/24" {
		t.Errorf("the CIDR of a network that asks for none: %+v", must(client.GetNetwork(second.ID))(t))
	}

	if renamed := must(client.RenameNetwork("production", created.ID))(t); renamed.Label != "production" {
		t.Errorf("renamed: %+v", renamed)
	}
	// Name servers alone keep the label.
	must(client.UpdateNetwork(created.ID, civogo.NetworkConfig{Region: "FRA1", NameserversV4: []string{"1.0.0.1"}}))(t)
	network = must(client.GetNetwork(created.ID))(t)
	if network.Label != "production" || len(network.NameserversV4) != 1 || network.NameserversV4[0] != "1.0.0.1" {
		t.Errorf("after both updates: %+v", network)
	}
	if found := must(client.FindNetwork("production"))(t); found.ID != created.ID {
		t.Errorf("found %+v", found)
	}

	if deleted := must(client.DeleteNetwork(created.ID))(t); deleted.Result != civogo.ResultSuccess {
		t.Errorf("deleted: %+v", deleted)
	}
	_, err := client.GetNetwork(created.ID)
	wantError(t, err, civogo.DatabaseNetworkNotFoundError)
	_, err = client.DeleteNetwork(created.ID)
	wantError(t, err, civogo.DatabaseNetworkNotFoundError)
}

func TestNetworkWithVLAN(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	created := must(client.CreateNetwork(civogo.NetworkConfig{Label: "vlan", Region: "LON1", VLanConfig: &civogo.VLANConnectConfig{
		VlanID: 42, PhysicalInterface: "eth1", CIDRv4: "10.9.0.0/24", GatewayIPv4: "10.9.0.1",
		AllocationPoolV4Start: "10.9.0.10", AllocationPoolV4End: "10.9.0.99",
	}}))(t)
	network := must(client.GetNetwork(created.ID))(t)
	if network.VlanID != 42 || network.PhysicalInterface != "eth1" || network.CIDR != "10.9.0.0/24" ||
		network.GatewayIPv4 != "10.9.0.1" || network.AllocationPoolV4Start != "10.9.0.10" || network.AllocationPoolV4End != "10.9.0.99" {
		t.Errorf("network: %+v", network)
	}
}

func TestNetworkErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	first := must(client.NewNetwork("first"))(t)
	must(client.NewNetwork("second"))(t)

	for _, test := range []struct {
		reason string
		call   func() error
		want   error
	}{
		{"a label that is taken", func() error { _, err := client.NewNetwork("first"); return err }, civogo.DatabaseNetworkExistsError},
		{"renaming to a label that is taken", func() error { _, err := client.RenameNetwork("second", first.ID); return err }, civogo.DatabaseNetworkDuplicateNameError},
		{"no label", func() error { _, err := client.NewNetwork(""); return err }, civogo.ParameterLabelInvalidError},
		{"a label with a space", func() error { _, err := client.NewNetwork("a b"); return err }, civogo.ParameterLabelInvalidError},
		{"renaming to a label with a space", func() error { _, err := client.RenameNetwork("a b", first.ID); return err }, civogo.ParameterLabelInvalidError},
		{"a CIDR that is none", func() error {
			_, err := client.CreateNetwork(civogo.NetworkConfig{Label: "x", CIDRv4: "10.0.0.0"})
			return err
		}, civogo.DatabaseNetworkCreateError},
		{"a name server that is none", func() error {
			_, err := client.UpdateNetwork(first.ID, civogo.NetworkConfig{NameserversV4: []string{"dns"}})
			return err
		}, civogo.DatabaseNetworkCreateError},
		{"renaming what is not there", func() error { _, err := client.RenameNetwork("x", "nope"); return err }, civogo.DatabaseNetworkNotFoundError},
		{"reading what is not there", func() error { _, err := client.GetNetwork("nope"); return err }, civogo.DatabaseNetworkNotFoundError},
		{"reading from another region", func() error { _, err := b.client("NYC1").GetNetwork(first.ID); return err }, civogo.DatabaseNetworkNotFoundError},
		{"a region that is not there", func() error { _, err := b.client("XXX1").ListNetworks(); return err }, civogo.RegionUnavailableError},
		{"creating in a region that is not there", func() error { _, err := b.client("XXX1").NewNetwork("x"); return err }, civogo.RegionUnavailableError},
	} {
		t.Run(test.reason, func(t *testing.T) { wantError(t, test.call(), test.want) })
	}
	if got := len(must(client.ListNetworks())(t)); got != 3 {
		t.Errorf("%d networks after refusals, want 3", got)
	}
}

func TestFirewallLifeCycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	network := must(client.NewNetwork("prod"))(t)

	created := must(client.NewFirewall(&civogo.FirewallConfig{
		Name: "web", Region: "LON1", NetworkID: network.ID, CreateRules: ptr(false),
		Rules: []civogo.FirewallRule{
			{Protocol: "tcp", Ports: "6443", Cidr: []string{"10.0.0.0/8"}, Direction: "ingress", Action: "allow", Label: "api"},
			{Protocol: "udp", StartPort: "8000", EndPort: "8100", Cidr: []string{"0.0.0.0/0"}, Direction: "egress", Action: "deny"},
			{Protocol: "icmp", Cidr: []string{"0.0.0.0/0"}, Direction: "ingress", Action: "allow"},
		},
	}))(t)
	firewall := must(client.FindFirewall(created.ID))(t)
	want := &civogo.Firewall{ID: created.ID, Name: "web", NetworkID: network.ID, RulesCount: 3, Rules: []civogo.FirewallRule{
		{FirewallID: created.ID, Protocol: "tcp", StartPort: "6443", EndPort: "6443", Ports: "6443", Cidr: []string{"10.0.0.0/8"}, Direction: "ingress", Action: "allow", Label: "api"},
		{FirewallID: created.ID, Protocol: "udp", StartPort: "8000", EndPort: "8100", Ports: "8000-8100", Cidr: []string{"0.0.0.0/0"}, Direction: "egress", Action: "deny"},
		{FirewallID: created.ID, Protocol: "icmp", Cidr: []string{"0.0.0.0/0"}, Direction: "ingress", Action: "allow"},
	}}
	ids := map[string]bool{}
	for i := range firewall.Rules {
		ids[firewall.Rules[i].ID] = true
		firewall.Rules[i].ID = ""
	}
	if diff := cmp.Diff(want, firewall); diff != "" || len(ids) != 3 {
		t.Errorf("firewall with %d ids of rules (-want +got):\n%s", len(ids), diff)
	}

	must(client.RenameFirewall(created.ID, &civogo.FirewallConfig{Name: "front"}))(t)
	rule := must(client.NewFirewallRule(&civogo.FirewallRuleConfig{
		FirewallID: created.ID, Protocol: "tcp", Ports: "80-443", Cidr: []string{"0.0.0.0/0"}, Direction: "ingress", Action: "allow", Label: "web",
	}))(t)
	if rule.ID == "" || rule.FirewallID != created.ID || rule.StartPort != "80" || rule.EndPort != "443" || rule.Ports != "80-443" {
		t.Errorf("new rule: %+v", rule)
	}
	if found := must(client.FindFirewallRule(created.ID, rule.ID))(t); found.Label != "web" {
		t.Errorf("found rule: %+v", found)
	}
	// civogo never asks for one firewall or one rule alone; other clients do.
	for _, path := range []string{"/v2/firewalls/" + created.ID, "/v2/firewalls/" + created.ID + "/rules/" + rule.ID} {
		var one struct{ ID string }
		if err := json.Unmarshal(must(client.SendGetRequest(path))(t), &one); err != nil || !strings.HasSuffix(path, one.ID) {
			t.Errorf("GET %s: %+v, %v", path, one, err)
		}
	}
	must(client.DeleteFirewallRule(created.ID, rule.ID))(t)
	if rules := must(client.ListFirewallRules(created.ID))(t); len(rules) != 3 {
		t.Errorf("%d rules, want 3", len(rules))
	}
	if firewall := must(client.FindFirewall("front"))(t); firewall.NetworkID != network.ID {
		t.Errorf("a rename without a network moved the firewall: %+v", firewall)
	}
	must(client.DeleteFirewall(created.ID))(t)
	_, err := client.FindFirewall(created.ID)
	wantError(t, err, civogo.ZeroMatchesError)
}

func TestFirewallDefaultRules(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	for _, test := range []struct {
		reason string
		create *bool
		want   int
	}{
		{"asked for nothing: the default rules", nil, 6},
		{"asked for them", ptr(true), 6},
		{"asked for none", ptr(false), 0},
	} {
		t.Run(test.reason, func(t *testing.T) {
			name := fmt.Sprintf("fw-%p", test.create)
			created := must(client.NewFirewall(&civogo.FirewallConfig{Name: name, Region: "LON1", CreateRules: test.create}))(t)
			firewall := must(client.FindFirewall(created.ID))(t)
			if len(firewall.Rules) != test.want {
				t.Errorf("%d rules, want %d", len(firewall.Rules), test.want)
			}
			if network := must(client.GetDefaultNetwork())(t); firewall.NetworkID != network.ID {
				t.Errorf("a firewall that names no network is in %s, not in the default one", firewall.NetworkID)
			}
			must(client.DeleteFirewall(created.ID))(t)
		})
	}
}

func TestFirewallErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	_, first := b.place(client, "first")
	b.place(client, "second")
	elsewhere, _ := b.place(b.client("NYC1"), "elsewhere")

	rule := func(change func(*civogo.FirewallRuleConfig)) func() error {
		return func() error {
			config := &civogo.FirewallRuleConfig{
				FirewallID: first, Protocol: "tcp", Ports: "80", Cidr: []string{"0.0.0.0/0"}, Direction: "ingress", Action: "allow",
			}
			change(config)
			_, err := client.NewFirewallRule(config)
			return err
		}
	}
	create := func(config civogo.FirewallConfig) func() error {
		return func() error {
			config.Region = "LON1"
			_, err := client.NewFirewall(&config)
			return err
		}
	}
	for _, test := range []struct {
		reason string
		call   func() error
		want   error
	}{
		{"a name that is taken", create(civogo.FirewallConfig{Name: "first"}), civogo.DatabaseFirewallExistsError},
		{"no name", create(civogo.FirewallConfig{}), civogo.ParameterNameInvalidError},
		{"a network that is not there", create(civogo.FirewallConfig{Name: "x", NetworkID: "nope"}), civogo.DatabaseNetworkNotFoundError},
		{"a network of another region", create(civogo.FirewallConfig{Name: "x", NetworkID: elsewhere}), civogo.DatabaseNetworkNotFoundError},
		{"a rule that is not valid", create(civogo.FirewallConfig{Name: "x", Rules: []civogo.FirewallRule{{Protocol: "tcp"}}}), civogo.DatabaseFirewallRulesInvalidParams},
		{"renaming to a name that is taken", func() error {
			_, err := client.RenameFirewall(first, &civogo.FirewallConfig{Name: "second"})
			return err
		}, civogo.DatabaseFirewallDuplicateNameError},
		{"renaming what is not there", func() error {
			_, err := client.RenameFirewall("nope", &civogo.FirewallConfig{Name: "x"})
			return err
		}, civogo.DatabaseFirewallNotFoundError},
		{"deleting what is not there", func() error { _, err := client.DeleteFirewall("nope"); return err }, civogo.DatabaseFirewallNotFoundError},
		{"deleting from another region", func() error { _, err := b.client("NYC1").DeleteFirewall(first); return err }, civogo.DatabaseFirewallNotFoundError},
		{"rules of what is not there", func() error { _, err := client.ListFirewallRules("nope"); return err }, civogo.DatabaseFirewallNotFoundError},
		{"deleting a rule that is not there", func() error { _, err := client.DeleteFirewallRule(first, "nope"); return err }, civogo.DatabaseFirewallRulesFindError},
		{"a protocol that is none", rule(func(c *civogo.FirewallRuleConfig) { c.Protocol = "sctp" }), civogo.DatabaseFirewallRulesInvalidParams},
		{"a direction that is none", rule(func(c *civogo.FirewallRuleConfig) { c.Direction = "in" }), civogo.DatabaseFirewallRulesInvalidParams},
		{"an action that is none", rule(func(c *civogo.FirewallRuleConfig) { c.Action = "drop" }), civogo.DatabaseFirewallRulesInvalidParams},
		{"no CIDR", rule(func(c *civogo.FirewallRuleConfig) { c.Cidr = nil }), civogo.DatabaseFirewallRulesInvalidParams},
		{"a CIDR that is none", rule(func(c *civogo.FirewallRuleConfig) { c.Cidr = []string{"10.0.0.1"} }), civogo.DatabaseFirewallRulesInvalidParams},
		{"no ports", rule(func(c *civogo.FirewallRuleConfig) { c.Ports = "" }), civogo.ParameterStartPortMissingError},
		{"port 0", rule(func(c *civogo.FirewallRuleConfig) { c.Ports = "0" }), civogo.DatabaseFirewallRulesInvalidParams},
		{"a port beyond 65535", rule(func(c *civogo.FirewallRuleConfig) { c.Ports = "65536" }), civogo.DatabaseFirewallRulesInvalidParams},
		{"a range that runs backwards", rule(func(c *civogo.FirewallRuleConfig) { c.Ports = "443-80" }), civogo.DatabaseFirewallRulesInvalidParams},
		{"ports that are words", rule(func(c *civogo.FirewallRuleConfig) { c.Ports = "http" }), civogo.DatabaseFirewallRulesInvalidParams},
	} {
		t.Run(test.reason, func(t *testing.T) { wantError(t, test.call(), test.want) })
	}
}

func TestClusterLifeCycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{TimeScale: 1})
	client := b.client("LON1")
	config := b.config(client, "prod")
	config.KubernetesVersion = "v1.29.0-k3s1"
	config.Tags = "team:infra  env-prod"
	config.Pools[0].Labels = map[string]string{"ignored": "by the platform"}
	config.Pools[0].Taints = []corev1.Taint{{Key: "ignored", Effect: corev1.TaintEffectNoSchedule}}
	config.Pools[0].PublicIPNodePool = true

	cluster := must(client.NewKubernetesClusters(config))(t)
	if cluster.ID == "" || cluster.Status != "BUILDING" || cluster.Ready || cluster.KubeConfig != "" || cluster.APIEndPoint != "" {
		t.Errorf("right after creation: %+v", cluster)
	}
	if cluster.RequiredPools[0].Count != 2 || cluster.Pools[0].Count != 0 || len(cluster.Pools) != 1 {
		t.Errorf("right after creation the pool is asked for and empty: required %+v, pools %+v", cluster.RequiredPools, cluster.Pools)
	}

	b.advance(nodeListedTime)
	cluster = must(client.GetKubernetesCluster(cluster.ID))(t)
	if pool := cluster.Pools[0]; pool.Count != 2 || pool.Instances[0].Status != "BUILDING" || cluster.Status != "BUILDING" {
		t.Errorf("when nodes are listed: %s %+v", cluster.Status, pool)
	}

	b.advance(clusterBuildTime - nodeListedTime)
	cluster = must(client.GetKubernetesCluster(cluster.ID))(t)
	if cluster.Status != "ACTIVE" || !cluster.Ready || cluster.BuiltAt.IsZero() || !cluster.CreatedAt.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("when built: %+v", cluster)
	}
	if cluster.KubernetesVersion != "1.29.0-k3s1" || cluster.ClusterType != "k3s" || cluster.CNIPlugin != "flannel" ||
		cluster.NetworkID != config.NetworkID || cluster.FirewallID != config.InstanceFirewall ||
		cluster.NumTargetNode != 2 || cluster.TargetNodeSize != "g4s.kube.medium" || cluster.DNSEntry != cluster.ID+".k8s.civo.com" ||
		cluster.APIEndPoint != "https://"+cluster.MasterIP+":6443" {
		t.Errorf("when built: %+v", cluster)
	}
	if diff := cmp.Diff([]string{"team:infra", "env-prod"}, cluster.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	pool := cluster.Pools[0]
	if pool.ID != "default" || pool.Count != 2 || len(pool.InstanceNames) != 2 || len(pool.Instances) != 2 || !pool.PublicIPNodePool ||
		pool.Instances[0].Status != "ACTIVE" || pool.Instances[0].Hostname != pool.InstanceNames[0] || pool.Instances[0].CPUCores != 2 {
		t.Errorf("default pool: %+v", pool)
	}
	if len(pool.Labels) != 0 || len(pool.Taints) != 0 {
		t.Errorf("the platform ignores labels and taints of the default pool at creation: %+v", pool)
	}
	if len(cluster.Instances) != 2 || len(cluster.InstalledApplications) != 2 || !cluster.InstalledApplications[0].Installed || len(cluster.Conditions) != 3 {
		t.Errorf("when built: %+v", cluster)
	}
	if instances := must(client.ListKubernetesClusterInstances(cluster.ID))(t); len(instances) != 2 || instances[0].Status != "ACTIVE" {
		t.Errorf("instances: %+v", instances)
	}

	// A change that moves no node is there at once.
	updated := must(client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{Name: "prod-2", Tags: "one"}))(t)
	if updated.Name != "prod-2" || updated.Status != "ACTIVE" || len(updated.Tags) != 1 {
		t.Errorf("renamed: %+v", updated)
	}

	updated = must(client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{KubernetesVersion: "1.30.5-k3s1"}))(t)
	if updated.Status != "UPGRADING" || updated.KubernetesVersion != "1.30.5-k3s1" || !updated.Ready {
		t.Errorf("upgrading: %+v", updated)
	}
	_, err := client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{KubernetesVersion: "1.31.6-k3s1"})
	wantError(t, err, civogo.CannotScaleAlreadyRescalingClusterError)
	b.advance(clusterUpgradeTime)

	updated = must(client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{Pools: []civogo.KubernetesClusterPoolConfig{
		{ID: "default", Count: 3, Size: "g4s.kube.medium", Labels: map[string]string{"tier": "base"}},
	}}))(t)
	if updated.Status != "SCALING" || updated.RequiredPools[0].Count != 3 || updated.Pools[0].Count != 2 || updated.NumTargetNode != 3 {
		t.Errorf("scaling: %s required %+v pools %+v", updated.Status, updated.RequiredPools, updated.Pools)
	}
	if updated.Pools[0].Labels["tier"] != "base" {
		t.Errorf("an update sets labels on the default pool: %+v", updated.Pools[0])
	}
	b.advance(nodeActiveTime)
	if got := must(client.GetKubernetesCluster(cluster.ID))(t); got.Status != "ACTIVE" || got.Pools[0].Count != 3 {
		t.Errorf("scaled up: %s %+v", got.Status, got.Pools)
	}

	must(client.DeleteKubernetesCluster(cluster.ID))(t)
	if got := must(client.GetKubernetesCluster(cluster.ID))(t); got.Status != "DELETING" || got.Ready || len(got.Pools) != 1 {
		t.Errorf("being deleted: %+v", got)
	}
	_, err = client.DeleteFirewall(config.InstanceFirewall)
	if err == nil || !strings.Contains(err.Error(), "database_firewall_inuse_by_cluster") {
		t.Errorf("deleting the firewall of a cluster that is being deleted: %v", err)
	}
	must(client.DeleteKubernetesCluster(cluster.ID))(t)
	b.advance(clusterDeleteTime)
	_, err = client.GetKubernetesCluster(cluster.ID)
	wantError(t, err, civogo.DatabaseKubernetesClusterNotFoundError)
	_, err = client.DeleteKubernetesCluster(cluster.ID)
	wantError(t, err, civogo.DatabaseKubernetesClusterNotFoundError)
	must(client.DeleteFirewall(config.InstanceFirewall))(t)
	must(client.DeleteNetwork(config.NetworkID))(t)
	if left := b.cloud.Clusters(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestClusterIsThereAtOnceWithoutTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{TimeScale: 0})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	if cluster.Status != "ACTIVE" || cluster.Pools[0].Count != 2 || cluster.KubeConfig == "" {
		t.Errorf("created: %+v", cluster)
	}
	must(client.DeleteKubernetesCluster(cluster.ID))(t)
	_, err := client.GetKubernetesCluster(cluster.ID)
	wantError(t, err, civogo.DatabaseKubernetesClusterNotFoundError)
}

func TestTimeScale(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{TimeScale: 0.01})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	b.advance(clusterBuildTime/100 - time.Millisecond)
	if got := must(client.GetKubernetesCluster(cluster.ID))(t); got.Status != "BUILDING" {
		t.Errorf("just before a hundredth of the time: %s", got.Status)
	}
	b.advance(time.Millisecond)
	if got := must(client.GetKubernetesCluster(cluster.ID))(t); got.Status != "ACTIVE" {
		t.Errorf("after a hundredth of the time: %s", got.Status)
	}
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(cluster.KubeConfig))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != cluster.APIEndPoint || len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 {
		t.Errorf("kubeconfig: host %q, CA %d, certificate %d, key %d bytes", config.Host, len(config.CAData), len(config.CertData), len(config.KeyData))
	}
	if again := must(client.GetKubernetesCluster(cluster.ID))(t); again.KubeConfig != cluster.KubeConfig {
		t.Error("a second read gives another kubeconfig")
	}
	if listed := must(client.FindKubernetesCluster("prod"))(t); listed.KubeConfig != cluster.KubeConfig {
		t.Error("the list gives another kubeconfig")
	}
	if other := b.cluster(client, "other"); other.MasterIP == cluster.MasterIP {
		t.Errorf("two clusters at %s", other.MasterIP)
	}
}

func TestClusterDefaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	network := must(client.GetDefaultNetwork())(t)
	firewall := must(client.FindFirewall("default-default"))(t)

	plain := must(client.NewKubernetesClusters(&civogo.KubernetesClusterConfig{
		Name: "plain", InstanceFirewall: firewall.ID, Pools: []civogo.KubernetesClusterPoolConfig{{Count: 1, Size: "g4s.kube.small"}},
	}))(t)
	if plain.NetworkID != network.ID || plain.KubernetesVersion != "1.30.5-k3s1" || plain.Pools[0].ID == "" || len(plain.Tags) != 0 {
		t.Errorf("plain: %+v", plain)
	}
	talos := must(client.NewKubernetesClusters(&civogo.KubernetesClusterConfig{
		Name: "talos", FirewallID: firewall.ID, KubernetesVersion: "talos-v1.6.7", NumTargetNodes: 4,
	}))(t)
	if talos.ClusterType != "talos" || talos.KubernetesVersion != "talos-v1.6.7" || talos.NumTargetNode != 4 ||
		talos.TargetNodeSize != "g4s.kube.medium" || len(talos.InstalledApplications) != 0 {
		t.Errorf("talos: %+v", talos)
	}
	cilium := must(client.NewKubernetesClusters(&civogo.KubernetesClusterConfig{
		Name: "cilium", FirewallID: firewall.ID, CNIPlugin: "cilium", NumTargetNodes: 1,
		Applications: "Linkerd:Linkerd & Jaeger,-Traefik-v2-nodeport,Redis",
	}))(t)
	var installed []string
	for _, application := range cilium.InstalledApplications {
		installed = append(installed, application.Application+"/"+application.Plan)
	}
	if diff := cmp.Diff([]string{"metrics-server/", "Linkerd/Linkerd & Jaeger", "Redis/"}, installed); diff != "" || cilium.CNIPlugin != "cilium" {
		t.Errorf("cilium %q, applications (-want +got):\n%s", cilium.CNIPlugin, diff)
	}
	if firewall := must(client.FindFirewall("default-default"))(t); firewall.ClusterCount != 3 {
		t.Errorf("the firewall counts %d clusters, want 3", firewall.ClusterCount)
	}
}

func TestClusterErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	existing := b.cluster(client, "existing")
	_, otherFirewall := b.place(client, "other")
	elsewhereNetwork, elsewhereFirewall := b.place(b.client("NYC1"), "elsewhere")
	base := b.config(client, "fresh")

	create := func(change func(*civogo.KubernetesClusterConfig)) func() error {
		return func() error {
			config := *base
			config.Pools = append([]civogo.KubernetesClusterPoolConfig(nil), base.Pools...)
			change(&config)
			_, err := client.NewKubernetesClusters(&config)
			return err
		}
	}
	update := func(config civogo.KubernetesClusterConfig) func() error {
		return func() error {
			_, err := client.UpdateKubernetesCluster(existing.ID, &config)
			return err
		}
	}
	pool := func(change func(*civogo.KubernetesClusterPoolConfig)) func() error {
		return create(func(c *civogo.KubernetesClusterConfig) { change(&c.Pools[0]) })
	}
	type config = civogo.KubernetesClusterConfig
	type poolConfig = civogo.KubernetesClusterPoolConfig
	for _, test := range []struct {
		reason string
		call   func() error
		want   error
	}{
		{"a name that is taken", create(func(c *config) { c.Name = "existing" }), civogo.DatabaseKubernetesClusterDuplicateError},
		{"no name", create(func(c *config) { c.Name = "" }), civogo.KubernetesClusterInvalidNameError},
		{"a name with a space", create(func(c *config) { c.Name = "a b" }), civogo.KubernetesClusterInvalidNameError},
		{"a name of 64", create(func(c *config) { c.Name = strings.Repeat("a", 64) }), civogo.KubernetesClusterInvalidNameError},
		{"a version that is not offered", create(func(c *config) { c.KubernetesVersion = "1.20.0-k3s1" }), civogo.DatabaseKubernetesClusterInvalidVersionError},
		{"the version as k3s writes it", create(func(c *config) { c.KubernetesVersion = "1.29.0+k3s1" }), civogo.DatabaseKubernetesClusterInvalidVersionError},
		{"a k3s version for talos", create(func(c *config) { c.ClusterType, c.KubernetesVersion = "talos", "1.29.0-k3s1" }), civogo.DatabaseKubernetesClusterInvalidVersionError},
		{"a type that is none", create(func(c *config) { c.ClusterType = "rke2" }), civogo.DatabaseKubernetesClusterInvalidError},
		{"a network plugin that is none", create(func(c *config) { c.CNIPlugin = "calico" }), civogo.DatabaseKubernetesClusterInvalidError},
		{"cilium on talos", create(func(c *config) { c.ClusterType, c.CNIPlugin = "talos", "cilium" }), civogo.DatabaseKubernetesClusterInvalidError},
		{"a network that is not there", create(func(c *config) { c.NetworkID = "nope" }), civogo.DatabaseNetworkNotFoundError},
		{"a network of another region", create(func(c *config) { c.NetworkID = elsewhereNetwork }), civogo.DatabaseNetworkNotFoundError},
		{"no firewall", create(func(c *config) { c.InstanceFirewall = "" }), civogo.ParameterValueMissingError},
		{"a firewall that is not there", create(func(c *config) { c.InstanceFirewall = "nope" }), civogo.DatabaseFirewallNotFoundError},
		{"a firewall of another region", create(func(c *config) { c.InstanceFirewall = elsewhereFirewall }), civogo.DatabaseFirewallNotFoundError},
		{"a firewall of another network", create(func(c *config) { c.InstanceFirewall = otherFirewall }), civogo.DatabaseFirewallMismatchError},
		{"an application that is not there", create(func(c *config) { c.Applications = "nope" }), civogo.DatabaseKubernetesApplicationNotFoundError},
		{"an application in the wrong case", create(func(c *config) { c.Applications = "redis" }), civogo.DatabaseKubernetesApplicationNotFoundError},
		{"a space before an application", create(func(c *config) { c.Applications = "Redis, MariaDB" }), civogo.DatabaseKubernetesApplicationNotFoundError},
		{"a plan that is not there", create(func(c *config) { c.Applications = "MariaDB:1TB" }), civogo.DatabaseKubernetesApplicationInvalidPlanError},
		{"no pools", create(func(c *config) { c.Pools = nil }), civogo.DatabaseKubernetesClusterNoPoolsError},
		{"a size that is not there", pool(func(p *poolConfig) { p.Size = "g4s.kube.huge" }), civogo.DatabaseSizeNotFoundError},
		{"a size of an instance", pool(func(p *poolConfig) { p.Size = "g4s.small" }), civogo.DatabaseSizeNotFoundError},
		{"no count", pool(func(p *poolConfig) { p.Count = 0 }), civogo.DatabaseKubernetesClusterInvalidError},
		{"a count below 0", pool(func(p *poolConfig) { p.Count = -1 }), civogo.DatabaseKubernetesClusterInvalidError},
		{"a count beyond reason", pool(func(p *poolConfig) { p.Count = 1_000_000_000 }), civogo.QuotaLimitReachedError},
		{"a pool id with a space", pool(func(p *poolConfig) { p.ID = "a b" }), civogo.DatabaseKubernetesClusterInvalidError},
		{"a taint effect that is none", pool(func(p *poolConfig) { p.Taints = []corev1.Taint{{Key: "a", Effect: "Never"}} }), civogo.DatabaseKubernetesClusterInvalidError},
		{"two pools of one id", create(func(c *config) { c.Pools = append(c.Pools, c.Pools[0]) }), civogo.DatabaseKubernetesClusterInvalidError},

		{"renaming to a name that is not valid", update(config{Name: "a b"}), civogo.KubernetesClusterInvalidNameError},
		{"upgrading to a version that is not offered", update(config{KubernetesVersion: "1.99.0-k3s1"}), civogo.DatabaseKubernetesClusterInvalidVersionError},
		{"upgrading to a lower version", update(config{KubernetesVersion: "1.29.8-k3s1"}), civogo.DatabaseKubernetesClusterInvalidVersionError},
		{"upgrading to another type", update(config{KubernetesVersion: "talos-v1.7.6"}), civogo.DatabaseKubernetesClusterInvalidVersionError},
		{"moving to a firewall of another network", update(config{FirewallID: otherFirewall}), civogo.DatabaseFirewallMismatchError},
		{"moving to a firewall that is not there", update(config{FirewallID: "nope"}), civogo.DatabaseFirewallNotFoundError},
		{"adding an application that is not there", update(config{Applications: "nope"}), civogo.DatabaseKubernetesApplicationNotFoundError},
		{"scaling below 0", update(config{NumTargetNodes: -1}), civogo.DatabaseKubernetesClusterInvalidError},
		{"one pool twice", update(config{Pools: []poolConfig{{ID: "default", Count: 1}, {ID: "default", Count: 2}}}), civogo.DatabaseKubernetesClusterInvalidError},
		{"updating what is not there", func() error {
			_, err := client.UpdateKubernetesCluster("nope", &config{Name: "x"})
			return err
		}, civogo.DatabaseKubernetesClusterNotFoundError},
		{"reading from another region", func() error {
			_, err := b.client("NYC1").GetKubernetesCluster(existing.ID)
			return err
		}, civogo.DatabaseKubernetesClusterNotFoundError},
		{"deleting from another region", func() error {
			_, err := b.client("NYC1").DeleteKubernetesCluster(existing.ID)
			return err
		}, civogo.DatabaseKubernetesClusterNotFoundError},
		{"creating in a region that is not there", func() error {
			_, err := b.client("XXX1").NewKubernetesClusters(base)
			return err
		}, civogo.RegionUnavailableError},
		{"deleting the network of a cluster", func() error {
			_, err := client.DeleteNetwork(existing.NetworkID)
			if err != nil && strings.Contains(err.Error(), "database_network_inuse_by_cluster") {
				return civogo.UnknownError // civogo has no name for it
			}
			return err
		}, civogo.UnknownError},
		{"deleting the firewall of a cluster", func() error {
			_, err := client.DeleteFirewall(existing.FirewallID)
			if err != nil && strings.Contains(err.Error(), "database_firewall_inuse_by_cluster") {
				return civogo.UnknownError // civogo has no name for it
			}
			return err
		}, civogo.UnknownError},
	} {
		t.Run(test.reason, func(t *testing.T) { wantError(t, test.call(), test.want) })
	}

	// None of it left a trace.
	after := must(client.GetKubernetesCluster(existing.ID))(t)
	if diff := cmp.Diff(existing, after); diff != "" {
		t.Errorf("refused changes changed the cluster (-before +after):\n%s", diff)
	}
	if clusters := b.cloud.Clusters(); len(clusters) != 1 {
		t.Errorf("%d clusters, want 1", len(clusters))
	}
}

func TestPoolLifeCycle(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{TimeScale: 1})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	b.advance(clusterBuildTime)

	result := must(client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{
		ID: "workers", Count: 2, Size: "g4s.kube.large", PublicIPNodePool: true,
		Labels: map[string]string{"tier": "web"},
		Taints: []corev1.Taint{{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule}},
	}))(t)
	if result.Result != civogo.ResultSuccess {
		t.Errorf("created: %+v", result)
	}
	got := must(client.GetKubernetesCluster(cluster.ID))(t)
	if got.Status != "SCALING" || len(got.RequiredPools) != 2 || got.RequiredPools[1].Count != 2 || got.Pools[0].ID != "default" {
		t.Errorf("right after creation: %s %+v %+v", got.Status, got.RequiredPools, got.Pools)
	}
	b.advance(nodeListedTime)
	if pool := must(client.GetKubernetesClusterPool(cluster.ID, "workers"))(t); pool.Count != 2 || pool.Instances[1].Status != "BUILDING" {
		t.Errorf("nodes listed: %+v", pool)
	}
	b.advance(nodeActiveTime - nodeListedTime)
	pool := must(client.FindKubernetesClusterPool(cluster.ID, "workers"))(t)
	if pool.Size != "g4s.kube.large" || !pool.PublicIPNodePool || pool.Labels["tier"] != "web" || len(pool.InstanceNames) != 2 || pool.Instances[1].Status != "ACTIVE" {
		t.Errorf("pool: %+v", pool)
	}
	if diff := cmp.Diff([]corev1.Taint{{Key: "dedicated", Value: "web", Effect: corev1.TaintEffectNoSchedule}}, pool.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}

	// null leaves labels and taints alone, which is what civogo sends when it has none.
	updated := must(client.UpdateKubernetesClusterPool(cluster.ID, "workers", &civogo.KubernetesClusterPoolUpdateConfig{Count: ptr(3), Region: "LON1"}))(t)
	if updated.Count != 2 || len(updated.Taints) != 1 || updated.Labels["tier"] != "web" {
		t.Errorf("scaling up: %+v", updated)
	}
	b.advance(nodeActiveTime)
	kept := must(client.GetKubernetesClusterPool(cluster.ID, "workers"))(t)
	if kept.Count != 3 || kept.InstanceNames[0] != pool.InstanceNames[0] || kept.InstanceNames[1] != pool.InstanceNames[1] {
		t.Errorf("scaled up: %+v", kept)
	}

	must(client.UpdateKubernetesClusterPool(cluster.ID, "workers", &civogo.KubernetesClusterPoolUpdateConfig{
		Count: ptr(1), Labels: map[string]string{"tier": "api"}, Taints: []corev1.Taint{}, Region: "LON1",
	}))(t)
	shrinking := must(client.GetKubernetesCluster(cluster.ID))(t)
	if shrinking.Status != "SCALING" || shrinking.RequiredPools[1].Count != 1 || shrinking.Pools[1].Count != 3 || shrinking.Pools[1].Instances[2].Status != "DELETING" {
		t.Errorf("scaling down: %s %+v %+v", shrinking.Status, shrinking.RequiredPools, shrinking.Pools[1])
	}
	b.advance(nodeDeleteTime)
	shrunk := must(client.GetKubernetesClusterPool(cluster.ID, "workers"))(t)
	if shrunk.Count != 1 || shrunk.InstanceNames[0] != pool.InstanceNames[0] || len(shrunk.Taints) != 0 || shrunk.Labels["tier"] != "api" {
		t.Errorf("scaled down: %+v", shrunk)
	}
	// Only an empty object, which civogo cannot send, clears labels.
	if status, _ := b.call("PUT", "/v2/kubernetes/clusters/"+cluster.ID+"/pools/workers", `{"labels":{}}`); status != http.StatusOK {
		t.Errorf("clearing labels: %d", status)
	}
	if cleared := must(client.GetKubernetesClusterPool(cluster.ID, "workers"))(t); len(cleared.Labels) != 0 {
		t.Errorf("labels after clearing: %+v", cleared.Labels)
	}

	must(client.DeleteKubernetesClusterPool(cluster.ID, "workers"))(t)
	if going := must(client.GetKubernetesCluster(cluster.ID))(t); len(going.RequiredPools) != 1 || len(going.Pools) != 2 || going.Status != "SCALING" {
		t.Errorf("being deleted: %s %+v %+v", going.Status, going.RequiredPools, going.Pools)
	}
	must(client.GetKubernetesClusterPool(cluster.ID, "workers"))(t)
	_, err := client.UpdateKubernetesClusterPool(cluster.ID, "workers", &civogo.KubernetesClusterPoolUpdateConfig{Count: ptr(2)})
	wantError(t, err, civogo.DatabaseClusterPoolNotFoundError)
	b.advance(nodeDeleteTime)
	_, err = client.GetKubernetesClusterPool(cluster.ID, "workers")
	wantError(t, err, civogo.DatabaseClusterPoolNotFoundError)
	if pools := must(client.ListKubernetesClusterPools(cluster.ID))(t); len(pools) != 1 || pools[0].ID != "default" {
		t.Errorf("pools: %+v", pools)
	}
	if got := must(client.GetKubernetesCluster(cluster.ID))(t); got.Status != "ACTIVE" {
		t.Errorf("in the end: %s", got.Status)
	}
}

func TestPoolErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	create := func(config civogo.KubernetesClusterPoolConfig) func() error {
		return func() error {
			_, err := client.CreateKubernetesClusterPool(cluster.ID, &config)
			return err
		}
	}
	instance := must(client.GetKubernetesClusterPool(cluster.ID, "default"))(t).Instances[0].ID
	for _, test := range []struct {
		reason string
		call   func() error
		want   error
	}{
		{"an id that is taken", create(civogo.KubernetesClusterPoolConfig{ID: "default", Count: 1, Size: "g4s.kube.small"}), civogo.DatabaseKubernetesClusterInvalidError},
		{"no count", create(civogo.KubernetesClusterPoolConfig{ID: "x", Size: "g4s.kube.small"}), civogo.DatabaseKubernetesClusterInvalidError},
		{"no size", create(civogo.KubernetesClusterPoolConfig{ID: "x", Count: 1}), civogo.DatabaseSizeNotFoundError},
		{"a cluster that is not there", func() error {
			_, err := client.CreateKubernetesClusterPool("nope", &civogo.KubernetesClusterPoolConfig{ID: "x", Count: 1, Size: "g4s.kube.small"})
			return err
		}, civogo.DatabaseKubernetesClusterNotFoundError},
		{"a cluster of another region", func() error {
			_, err := b.client("NYC1").CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{ID: "x", Count: 1, Size: "g4s.kube.small"})
			return err
		}, civogo.DatabaseKubernetesClusterNotFoundError},
		{"pools of what is not there", func() error { _, err := client.ListKubernetesClusterPools("nope"); return err }, civogo.DatabaseKubernetesClusterNotFoundError},
		{"reading what is not there", func() error { _, err := client.GetKubernetesClusterPool(cluster.ID, "nope"); return err }, civogo.DatabaseClusterPoolNotFoundError},
		{"scaling to 0", func() error {
			_, err := client.UpdateKubernetesClusterPool(cluster.ID, "default", &civogo.KubernetesClusterPoolUpdateConfig{Count: ptr(0)})
			return err
		}, civogo.DatabaseKubernetesClusterInvalidError},
		{"scaling what is not there", func() error {
			_, err := client.UpdateKubernetesClusterPool(cluster.ID, "nope", &civogo.KubernetesClusterPoolUpdateConfig{Count: ptr(1)})
			return err
		}, civogo.DatabaseClusterPoolNotFoundError},
		{"deleting what is not there", func() error { _, err := client.DeleteKubernetesClusterPool(cluster.ID, "nope"); return err }, civogo.DatabaseClusterPoolNotFoundError},
		{"deleting the last pool", func() error { _, err := client.DeleteKubernetesClusterPool(cluster.ID, "default"); return err }, civogo.DatabaseClusterPoolNoSufficientInstancesAvailableError},
		{"deleting a node that is not there", func() error {
			_, err := client.DeleteKubernetesClusterPoolInstance(cluster.ID, "default", "nope")
			return err
		}, civogo.DatabaseClusterPoolInstanceNotFoundError},
		{"deleting a node", func() error {
			_, err := client.DeleteKubernetesClusterPoolInstance(cluster.ID, "default", instance)
			return err
		}, nil},
		{"deleting the last node", func() error {
			left := must(client.GetKubernetesClusterPool(cluster.ID, "default"))(t)
			if left.Count != 1 || left.Instances[0].ID == instance {
				t.Errorf("after deleting a node: %+v", left)
			}
			_, err := client.DeleteKubernetesClusterPoolInstance(cluster.ID, "default", left.Instances[0].ID)
			return err
		}, civogo.DatabaseClusterPoolNoSufficientInstancesAvailableError},
	} {
		t.Run(test.reason, func(t *testing.T) { wantError(t, test.call(), test.want) })
	}
}

func TestClusterBeingDeletedTakesNoChange(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{TimeScale: 1})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	must(client.DeleteKubernetesCluster(cluster.ID))(t)
	_, err := client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{Name: "x"})
	wantError(t, err, civogo.CannotScaleAlreadyRescalingClusterError)
	_, err = client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{ID: "x", Count: 1, Size: "g4s.kube.small"})
	wantError(t, err, civogo.CannotScaleAlreadyRescalingClusterError)
	_, err = client.NewKubernetesClusters(&civogo.KubernetesClusterConfig{Name: "prod", NetworkID: cluster.NetworkID, InstanceFirewall: cluster.FirewallID, NumTargetNodes: 1})
	wantError(t, err, civogo.DatabaseKubernetesClusterDuplicateError)
}

func TestUpdateTakesThePoolsAsTheWholeList(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	must(client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{ID: "old", Count: 1, Size: "g4s.kube.small"}))(t)
	must(client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{Pools: []civogo.KubernetesClusterPoolConfig{
		{ID: "default"}, // no count: as it is
		{ID: "new", Count: 2, Size: "g4s.kube.large"},
	}}))(t)
	var got []string
	for _, pool := range must(client.ListKubernetesClusterPools(cluster.ID))(t) {
		got = append(got, fmt.Sprintf("%s:%d:%s", pool.ID, pool.Count, pool.Size))
	}
	if diff := cmp.Diff([]string{"default:2:g4s.kube.medium", "new:2:g4s.kube.large"}, got); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

func TestRescalingTwiceAtOnceIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{TimeScale: 1})
	client := b.client("LON1")
	cluster := b.cluster(client, "prod")
	pools := func(count int) *civogo.KubernetesClusterConfig {
		return &civogo.KubernetesClusterConfig{Pools: []civogo.KubernetesClusterPoolConfig{{ID: "default", Count: count}}}
	}
	_, err := client.UpdateKubernetesCluster(cluster.ID, pools(3))
	wantError(t, err, civogo.CannotScaleAlreadyRescalingClusterError)
	if got := must(client.GetKubernetesCluster(cluster.ID))(t); got.RequiredPools[0].Count != 2 {
		t.Errorf("the refused change was made: %+v", got.RequiredPools)
	}
	// The same count is no change.
	must(client.UpdateKubernetesCluster(cluster.ID, pools(2)))(t)
	b.advance(clusterBuildTime)
	must(client.UpdateKubernetesCluster(cluster.ID, pools(3)))(t)
	_, err = client.UpdateKubernetesCluster(cluster.ID, pools(4))
	wantError(t, err, civogo.CannotScaleAlreadyRescalingClusterError)
}

func TestRegionsAreApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	london, newYork := b.client("LON1"), b.client("nyc1") // either case is understood
	one, two := b.cluster(london, "same-name"), b.cluster(newYork, "same-name")
	for _, test := range []struct {
		client *civogo.Client
		want   string
	}{{london, one.ID}, {newYork, two.ID}, {b.client(""), one.ID}} {
		page := must(test.client.ListKubernetesClusters())(t)
		if len(page.Items) != 1 || page.Items[0].ID != test.want {
			t.Errorf("clusters of %q: %+v", test.client.Region, page.Items)
		}
		if networks := must(test.client.ListNetworks())(t); len(networks) != 2 {
			t.Errorf("networks of %q: %+v", test.client.Region, networks)
		}
		if firewalls := must(test.client.ListFirewalls())(t); len(firewalls) != 2 {
			t.Errorf("firewalls of %q: %+v", test.client.Region, firewalls)
		}
	}
	if page := must(b.client("FRA1").ListKubernetesClusters())(t); len(page.Items) != 0 {
		t.Errorf("clusters of FRA1: %+v", page.Items)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	firewall := must(client.FindFirewall("default-default"))(t)
	for i := range 21 {
		must(client.NewKubernetesClusters(&civogo.KubernetesClusterConfig{
			Name: fmt.Sprintf("cluster-%02d", i), InstanceFirewall: firewall.ID, NumTargetNodes: 1,
		}))(t)
	}
	page := must(client.ListKubernetesClusters())(t)
	if page.Page != 1 || page.PerPage != 20 || page.Pages != 2 || len(page.Items) != 20 || page.Items[0].Name != "cluster-00" {
		t.Errorf("first page: %d %d %d, %d items", page.Page, page.PerPage, page.Pages, len(page.Items))
	}
	body := must(client.SendGetRequest("/v2/kubernetes/clusters?page=2"))(t)
	var second civogo.PaginatedKubernetesClusters
	if err := json.Unmarshal(body, &second); err != nil {
		t.Fatal(err)
	}
	if second.Page != 2 || len(second.Items) != 1 || second.Items[0].Name != "cluster-20" {
		t.Errorf("second page: %d, %d items", second.Page, len(second.Items))
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	client := b.client("LON1")
	config := b.config(client, "prod")
	if err := b.cloud.SetQuota(Quota{Instances: 3, Networks: 1, Firewalls: 1, RAMMegabytes: 3 * 4096}); err != nil {
		t.Fatal(err)
	}
	_, err := client.NewNetwork("more")
	wantError(t, err, civogo.QuotaLimitReachedError)
	_, err = client.NewFirewall(&civogo.FirewallConfig{Name: "more", Region: "LON1"})
	if err != nil {
		t.Errorf("a firewall of the default network is not counted: %v", err)
	}
	_, err = client.NewFirewall(&civogo.FirewallConfig{Name: "another", Region: "LON1", NetworkID: config.NetworkID})
	wantError(t, err, civogo.QuotaLimitReachedError)

	cluster := must(client.NewKubernetesClusters(config))(t)
	_, err = client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{ID: "more", Count: 2, Size: "g4s.kube.small"})
	wantError(t, err, civogo.QuotaLimitReachedError)
	_, err = client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{ID: "big", Count: 1, Size: "g4s.kube.large"})
	wantError(t, err, civogo.QuotaLimitReachedError)
	must(client.UpdateKubernetesClusterPool(cluster.ID, "default", &civogo.KubernetesClusterPoolUpdateConfig{Count: ptr(3), Region: "LON1"}))(t)
	_, err = client.UpdateKubernetesClusterPool(cluster.ID, "default", &civogo.KubernetesClusterPoolUpdateConfig{Count: ptr(4), Region: "LON1"})
	wantError(t, err, civogo.QuotaLimitReachedError)
	if pools := must(client.ListKubernetesClusterPools(cluster.ID))(t); len(pools) != 1 || pools[0].Count != 3 {
		t.Errorf("refused changes were made: %+v", pools)
	}
	if quota := must(client.GetQuota())(t); quota.InstanceCountLimit != 3 || quota.InstanceCountUsage != 3 || quota.NetworkCountUsage != 1 || quota.CPUCoreUsage != 6 {
		t.Errorf("quota: %+v", quota)
	}
	// What is over a quota that was lowered can still become less.
	if err := b.cloud.SetQuota(Quota{Instances: 1}); err != nil {
		t.Fatal(err)
	}
	must(client.UpdateKubernetesClusterPool(cluster.ID, "default", &civogo.KubernetesClusterPoolUpdateConfig{Count: ptr(2), Region: "LON1"}))(t)
}

func TestEdits(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{TimeScale: 1})
	client := b.client("PHX1")
	cluster := b.cluster(client, "prod")
	b.advance(clusterBuildTime)
	must(client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{ID: "workers", Count: 2, Size: "g4s.kube.small"}))(t)
	b.advance(nodeActiveTime)
	rule := Rule{Protocol: "tcp", StartPort: "22", EndPort: "22", Ports: "22", CIDR: []string{"0.0.0.0/0"}, Direction: "ingress", Action: "allow"}

	for what, err := range map[string]error{
		"scale":          b.cloud.ScalePool(cluster.ID, "workers", 5),
		"labels":         b.cloud.SetPoolLabels(cluster.ID, "workers", map[string]string{"by": "hand"}),
		"taints":         b.cloud.SetPoolTaints(cluster.ID, "workers", Taint{Key: "by", Value: "hand", Effect: "NoExecute"}),
		"upgrade":        b.cloud.UpgradeCluster(cluster.ID, "1.32.5-k3s1"),
		"tags":           b.cloud.SetClusterTags(cluster.ID, "by-hand"),
		"rename":         b.cloud.RenameCluster(cluster.ID, "by-hand"),
		"rename network": b.cloud.RenameNetwork(cluster.NetworkID, "by-hand"),
		"add rule":       b.cloud.AddRule(cluster.FirewallID, rule),
		"version":        b.cloud.AddVersion("1.40.0-k3s1", "development"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	got := must(client.GetKubernetesCluster(cluster.ID))(t)
	if got.Status != "ACTIVE" || got.Pools[1].Count != 5 || got.RequiredPools[1].Count != 5 || got.Pools[1].Labels["by"] != "hand" ||
		got.Pools[1].Taints[0].Effect != "NoExecute" || got.KubernetesVersion != "1.32.5-k3s1" || got.Tags[0] != "by-hand" || got.Name != "by-hand" {
		t.Errorf("the API shows the edits at once: %+v", got)
	}
	if network := must(client.GetNetwork(cluster.NetworkID))(t); network.Label != "by-hand" {
		t.Errorf("network: %+v", network)
	}
	must(client.UpdateKubernetesCluster(cluster.ID, &civogo.KubernetesClusterConfig{KubernetesVersion: "1.40.0-k3s1"}))(t)
	rules := must(client.ListFirewallRules(cluster.FirewallID))(t)
	if len(rules) != 1 || rules[0].Ports != "22" {
		t.Fatalf("rules: %+v", rules)
	}
	snapshot, found := b.cloud.Cluster("by-hand")
	workers, hasWorkers := snapshot.Pool("workers")
	if !found || !hasWorkers || snapshot.Status != "UPGRADING" || len(workers.Instances) != 5 || workers.Instances[0].Status != "ACTIVE" {
		t.Errorf("snapshot: %+v", snapshot)
	}
	snapshot.Tags[0], workers.Labels["by"] = "changed", "changed"
	if again, _ := b.cloud.Cluster(cluster.ID); again.Tags[0] != "by-hand" {
		t.Error("a change of a snapshot changed the cloud")
	}

	for what, err := range map[string]error{
		"delete rule":    b.cloud.DeleteRule(cluster.FirewallID, rules[0].ID),
		"delete pool":    b.cloud.DeletePool(cluster.ID, "workers"),
		"delete cluster": b.cloud.DeleteCluster(cluster.ID),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := b.cloud.DeleteFirewall(cluster.FirewallID); err != nil {
		t.Error(err)
	}
	if err := b.cloud.DeleteNetwork(cluster.NetworkID); err != nil {
		t.Error(err)
	}
	if left := b.cloud.Clusters(); len(left) != 0 {
		t.Errorf("clusters left: %+v", left)
	}
	for _, network := range b.cloud.Networks() {
		if !network.Default {
			t.Errorf("left: %+v", network)
		}
	}
	for _, firewall := range b.cloud.Firewalls() {
		if firewall.Name != "default-default" {
			t.Errorf("left: %+v", firewall)
		}
	}
}

func TestEditsOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	cluster := b.cluster(b.client("LON1"), "prod")
	for what, err := range map[string]error{
		"network":          b.cloud.DeleteNetwork("nope"),
		"network label":    b.cloud.RenameNetwork("nope", "x"),
		"firewall":         b.cloud.DeleteFirewall("nope"),
		"rule":             b.cloud.DeleteRule(cluster.FirewallID, "nope"),
		"rule of firewall": b.cloud.AddRule("nope", Rule{}),
		"cluster":          b.cloud.DeleteCluster("nope"),
		"version":          b.cloud.UpgradeCluster("nope", "1.30.5-k3s1"),
		"pool":             b.cloud.ScalePool(cluster.ID, "nope", 1),
		"pool below 0":     b.cloud.ScalePool(cluster.ID, "default", -1),
		"last pool":        b.cloud.DeletePool(cluster.ID, "default"),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clouds", "civo.json")
	before := newBench(t, emulator.Options{TimeScale: 1, StateFile: path})
	client := before.client("LON1")
	cluster := before.cluster(client, "prod")
	before.advance(clusterBuildTime)
	must(client.CreateKubernetesClusterPool(cluster.ID, &civogo.KubernetesClusterPoolConfig{
		ID: "workers", Count: 2, Size: "g4s.kube.small", Labels: map[string]string{"a": "b"},
	}))(t)
	if err := before.cloud.AddVersion("1.40.0-k3s1", "development"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the state file has mode %o", mode)
	}

	// Halfway through scaling.
	before.advance(nodeListedTime)
	after := newBench(t, emulator.Options{TimeScale: 1, StateFile: path})
	after.now = before.time()
	if diff := cmp.Diff(before.cloud.Clusters(), after.cloud.Clusters()); diff != "" {
		t.Errorf("clusters (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.cloud.Networks(), after.cloud.Networks()); diff != "" {
		t.Errorf("networks (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.cloud.Firewalls(), after.cloud.Firewalls()); diff != "" {
		t.Errorf("firewalls (-before +after):\n%s", diff)
	}
	same := must(client.GetKubernetesCluster(cluster.ID))(t)
	again := must(after.client("LON1").GetKubernetesCluster(cluster.ID))(t)
	if diff := cmp.Diff(same, again); diff != "" || again.Status != "SCALING" {
		t.Errorf("%s (-before +after):\n%s", again.Status, diff)
	}
	after.advance(nodeActiveTime)
	if got := must(after.client("LON1").GetKubernetesCluster(cluster.ID))(t); got.Status != "ACTIVE" || got.Pools[1].Count != 2 {
		t.Errorf("time went on in the meantime: %s %+v", got.Status, got.Pools)
	}
}

func TestChangeThatCannotBeWrittenIsNotMade(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "clouds")
	b := newBench(t, emulator.Options{StateFile: filepath.Join(folder, "civo.json")})
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	// A file where the folder was: it can neither be written to nor made.
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	client := b.client("LON1")
	if _, err := client.NewNetwork("lost"); err == nil {
		t.Error("no error")
	}
	if networks := must(client.ListNetworks())(t); len(networks) != 1 {
		t.Errorf("a change that was answered with an error is there: %+v", networks)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	must(client.NewNetwork("kept"))(t)
}

func TestBrokenStateFile(t *testing.T) {
	t.Parallel()
	for _, contents := range []string{`{"networks":[{"id"`, `{"cloud":"another","networks":[]}`, `{}`, ``} {
		path := filepath.Join(t.TempDir(), "civo.json")
		if err := os.WriteFile(path, []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(emulator.Options{StateFile: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want an error that names the file", contents, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != contents {
			t.Errorf("%q: the file was overwritten with %q, %v", contents, after, err)
		}
	}
	if _, err := New(emulator.Options{TimeScale: -1}); err == nil {
		t.Error("a negative time scale: no error")
	}
}

func TestRequestLog(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []emulator.Request
	b := newBench(t, emulator.Options{OnRequest: func(r emulator.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
	}})
	client := b.client("LON1")
	must(client.NewNetwork("prod"))(t)
	b.call("PUT", "/v2/networks/x?token="+testToken, `{"label":"x","api_token":"hidden-1","nested":[{"kubeconfig":"hidden-2"},"`+testToken+`"]}`)
	_, err := b.clientWith("another-secret-token", "LON1").ListNetworks()
	wantError(t, err, civogo.DatabaseAccountNotFoundError)

	logged := b.cloud.Requests()
	if len(logged) != 3 {
		t.Fatalf("%d requests, want 3: %+v", len(logged), logged)
	}
	if first := logged[0]; first.Method != http.MethodPost || first.Path != "/v2/networks" || first.Status != 200 ||
		!strings.Contains(string(first.Body), `"label":"prod"`) || first.Duration <= 0 || first.Time.IsZero() {
		t.Errorf("first: %+v", first)
	}
	if second := logged[1]; second.Status != 404 || !strings.Contains(string(second.Body), `"label":"x"`) || !strings.Contains(second.Query, "token=%5Bredacted%5D") {
		t.Errorf("second: %s %s", second.Query, second.Body)
	}
	if logged[2].Status != 401 {
		t.Errorf("third: %+v", logged[2])
	}
	everything, err := json.Marshal(logged)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{testToken, "hidden-1", "hidden-2", "another-secret-token"} {
		if strings.Contains(string(everything), secret) {
			t.Errorf("the log holds %q: %s", secret, everything)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 3 {
		t.Errorf("OnRequest saw %d requests, want 3", len(seen))
	}
	b.cloud.ResetRequests()
	if left := b.cloud.Requests(); len(left) != 0 {
		t.Errorf("after a reset: %+v", left)
	}
}

func TestIntercept(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch r.URL.Path {
		case "/v2/networks":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/v2/firewalls":
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	}})
	client := b.client("LON1")
	if _, err := client.ListNetworks(); err == nil {
		t.Error("an answered fault: no error")
	}
	if _, err := client.ListFirewalls(); err == nil {
		t.Error("a dropped connection: no error")
	}
	must(client.ListRegions())(t)
	var statuses []int
	for _, request := range b.cloud.Requests() {
		statuses = append(statuses, request.Status)
	}
	// The dropped connection may have been tried again by net/http.
	if len(statuses) < 3 || statuses[0] != 503 || statuses[1] != 0 || statuses[len(statuses)-1] != 200 {
		t.Errorf("statuses: %v", statuses)
	}
}

func TestUnknownEndpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{})
	for _, request := range []struct{ method, path string }{
		{"GET", "/"}, {"GET", "/v2/instances"}, {"PATCH", "/v2/networks"}, {"DELETE", "/v2/regions"}, {"GET", "/v2/kubernetes/clusters/a/b/c"},
	} {
		status, header := b.call(request.method, request.path, "")
		if status != http.StatusNotFound || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %s: %d %s", request.method, request.path, status, header.Get("Content-Type"))
		}
	}
}

// Several clients at once see each their own objects, and nothing is lost. Run it with -race.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	b := newBench(t, emulator.Options{StateFile: filepath.Join(t.TempDir(), "civo.json")})
	const workers = 8
	var group sync.WaitGroup
	failures := make(chan error, workers)
	for worker := range workers {
		group.Go(func() {
			failures <- func() error {
				client := b.client(regions[worker%2].Code)
				name := fmt.Sprintf("w%d", worker)
				network, err := client.NewNetwork(name)
				if err != nil {
					return err
				}
				firewall, err := client.NewFirewall(&civogo.FirewallConfig{Name: name, Region: client.Region, NetworkID: network.ID})
				if err != nil {
					return err
				}
				cluster, err := client.NewKubernetesClusters(&civogo.KubernetesClusterConfig{
					Name: name, NetworkID: network.ID, InstanceFirewall: firewall.ID, NumTargetNodes: 1,
				})
				if err != nil {
					return err
				}
				for count := 2; count < 5; count++ {
					if err := b.cloud.ScalePool(cluster.ID, cluster.Pools[0].ID, count); err != nil {
						return err
					}
					got, err := client.FindKubernetesCluster(name)
					if err != nil {
						return err
					}
					if got.Pools[0].Count != count {
						return errors.Errorf("%s: %d nodes, want %d", name, got.Pools[0].Count, count)
					}
				}
				if _, err := client.DeleteNetwork(network.ID); err == nil {
					return errors.New("the network of a cluster was deleted")
				}
				return nil
			}()
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			t.Error(err)
		}
	}
	if got := len(b.cloud.Clusters()); got != workers {
		t.Errorf("%d clusters, want %d", got, workers)
	}
}
