package digitalocean

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	integration := &godo.KubernetesClusterRegistryRequest{ClusterUUIDs: []string{cluster.ID}}
	enabled := func() bool {
		t.Helper()
		return must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Get(ctx, cluster.ID)).RegistryEnabled
	}

	_, _, err := f.client.Registry.Get(ctx)
	wantError(t, err, 404, "not_found")
	_, err = f.client.Kubernetes.AddRegistry(ctx, integration)
	wantError(t, err, 404, "not_found")
	_, err = f.client.Kubernetes.RemoveRegistry(ctx, integration)
	wantError(t, err, 404, "not_found")
	_, err = f.client.Registry.Delete(ctx)
	wantError(t, err, 404, "not_found")
	_, _, err = f.client.Registry.Create(ctx, &godo.RegistryCreateRequest{Name: "Not Valid"})
	wantError(t, err, 422, "unprocessable_entity")
	_, _, err = f.client.Registry.Create(ctx, &godo.RegistryCreateRequest{Name: "mine", Region: "mars1"})
	wantError(t, err, 422, "unprocessable_entity")

	registry := must[*godo.Registry](t)(f.client.Registry.Create(ctx, &godo.RegistryCreateRequest{Name: "mine", Region: "fra1", SubscriptionTierSlug: "basic"}))
	if registry.Name != "mine" || registry.Region != "fra1" {
		t.Errorf("registry = %+v", registry)
	}
	if got := must[*godo.Registry](t)(f.client.Registry.Get(ctx)); *got != *registry {
		t.Errorf("read %+v, want %+v", got, registry)
	}
	_, _, err = f.client.Registry.Create(ctx, &godo.RegistryCreateRequest{Name: "second"})
	wantError(t, err, 409, "conflict")

	mustDo(t)(f.client.Kubernetes.AddRegistry(ctx, integration))
	if !enabled() {
		t.Error("the cluster has no registry")
	}
	mustDo(t)(f.client.Kubernetes.RemoveRegistry(ctx, integration))
	if enabled() {
		t.Error("the cluster still has the registry")
	}
	_, err = f.client.Kubernetes.AddRegistry(ctx, &godo.KubernetesClusterRegistryRequest{ClusterUUIDs: []string{cluster.ID, emulator.NewID()}})
	wantError(t, err, 404, "not_found")
	if enabled() {
		t.Error("a refused request gave the cluster the registry")
	}
	mustDo(t)(f.client.Kubernetes.AddRegistry(ctx, integration))
	mustDo(t)(f.client.Registry.Delete(ctx))
	if enabled() || f.Registry() != nil {
		t.Error("the cluster has a registry that is gone")
	}

	if err := f.SetRegistry("seeded"); err != nil {
		t.Fatal(err)
	}
	if got := must[*godo.Registry](t)(f.client.Registry.Get(ctx)); got.Name != "seeded" || f.Registry().Name != "seeded" {
		t.Errorf("registry = %+v", got)
	}
	if err := f.SetRegistry(""); err != nil {
		t.Fatal(err)
	}
	_, _, err = f.client.Registry.Get(ctx)
	wantError(t, err, 404, "not_found")
}

func TestAssociatedResources(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	type ids struct{ cluster, vpc, balancer, volume, snapshot string }
	make := func(t *testing.T, name string) ids {
		t.Helper()
		vpc := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: name, RegionSlug: "fra1"}))
		request := simpleCluster(name)
		request.VPCUUID = vpc.ID
		cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, request))
		made := ids{cluster: cluster.ID, vpc: vpc.ID}
		for _, add := range []struct {
			call func(clusterID, name string) (string, error)
			to   *string
		}{{f.AddLoadBalancer, &made.balancer}, {f.AddVolume, &made.volume}, {f.AddVolumeSnapshot, &made.snapshot}} {
			id, err := add.call(cluster.ID, name+"-resource")
			if err != nil {
				t.Fatal(err)
			}
			*add.to = id
		}
		return made
	}
	left := func() [3]int { return [3]int{len(f.LoadBalancers()), len(f.Volumes()), len(f.VolumeSnapshots())} }

	a, b, c := make(t, "a"), make(t, "b"), make(t, "c")
	list := must[*godo.KubernetesAssociatedResources](t)(f.client.Kubernetes.ListAssociatedResourcesForDeletion(ctx, a.cluster))
	if diff := cmp.Diff(&godo.KubernetesAssociatedResources{
		Volumes:         []*godo.AssociatedResource{{ID: a.volume, Name: "a-resource"}},
		VolumeSnapshots: []*godo.AssociatedResource{{ID: a.snapshot, Name: "a-resource"}},
		LoadBalancers:   []*godo.AssociatedResource{{ID: a.balancer, Name: "a-resource"}},
	}, list); diff != "" {
		t.Errorf("associated resources (-want +got):\n%s", diff)
	}

	mustDo(t)(f.client.Kubernetes.DeleteDangerous(ctx, a.cluster))
	if got := left(); got != [3]int{2, 2, 2} {
		t.Errorf("left after the dangerous way: %v", got)
	}
	mustDo(t)(f.client.VPCs.Delete(ctx, a.vpc))

	mustDo(t)(f.client.Kubernetes.DeleteSelective(ctx, b.cluster, &godo.KubernetesClusterDeleteSelectiveRequest{
		Volumes: []string{b.volume, c.volume}, LoadBalancers: []string{b.balancer},
	}))
	if got := left(); got != [3]int{1, 1, 2} {
		t.Errorf("left after the selective way: %v, want those of the other cluster untouched", got)
	}

	// The plain way leaks: the load balancer stays, and stays in the VPC.
	mustDo(t)(f.client.Kubernetes.Delete(ctx, c.cluster))
	_, err := f.client.VPCs.Delete(ctx, c.vpc)
	wantError(t, err, 409, "conflict")
	members := must[[]*godo.VPCMember](t)(f.client.VPCs.ListMembers(ctx, c.vpc, nil, nil))
	if len(members) != 1 || members[0].URN != "do:loadbalancer:"+c.balancer {
		t.Errorf("members = %+v", members)
	}
	balancers := must[[]godo.LoadBalancer](t)(f.client.LoadBalancers.List(ctx, nil))
	if len(balancers) != 1 || balancers[0].ID != c.balancer || balancers[0].VPCUUID != c.vpc || balancers[0].Region.Slug != "fra1" {
		t.Errorf("load balancers = %+v", balancers)
	}
	if got := must[*godo.LoadBalancer](t)(f.client.LoadBalancers.Get(ctx, c.balancer)); got.Name != "c-resource" || got.Status != "active" {
		t.Errorf("load balancer = %+v", got)
	}
	mustDo(t)(f.client.LoadBalancers.Delete(ctx, c.balancer))
	mustDo(t)(f.client.VPCs.Delete(ctx, c.vpc))
	volumes := must[[]godo.Volume](t)(f.client.Storage.ListVolumes(ctx, nil))
	if len(volumes) != 1 || volumes[0].ID != c.volume {
		t.Errorf("volumes = %+v", volumes)
	}
	if got := must[*godo.Volume](t)(f.client.Storage.GetVolume(ctx, c.volume)); got.Name != "c-resource" || got.Region.Slug != "fra1" {
		t.Errorf("volume = %+v", got)
	}
	mustDo(t)(f.client.Storage.DeleteVolume(ctx, c.volume))

	for _, err := range []error{
		second(f.client.LoadBalancers.Delete(ctx, c.balancer)), third(f.client.LoadBalancers.Get(ctx, c.balancer)),
		second(f.client.Storage.DeleteVolume(ctx, c.volume)), third(f.client.Storage.GetVolume(ctx, c.volume)),
		second(f.client.Kubernetes.DeleteDangerous(ctx, c.cluster)),
		second(f.client.Kubernetes.DeleteSelective(ctx, c.cluster, &godo.KubernetesClusterDeleteSelectiveRequest{})),
		third(f.client.Kubernetes.ListAssociatedResourcesForDeletion(ctx, c.cluster)),
	} {
		wantError(t, err, 404, "not_found")
	}
	if _, err := f.AddLoadBalancer(c.cluster, "x"); err == nil {
		t.Error("a load balancer was made for a cluster that is gone")
	}
}

func second(_ *godo.Response, err error) error            { return err }
func third[T any](_ T, _ *godo.Response, err error) error { return err }

func TestFirewalls(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startSlow(t)
	request := &godo.FirewallRequest{
		Name: "web",
		InboundRules: []godo.InboundRule{
			{Protocol: "tcp", PortRange: "443", Sources: &godo.Sources{Addresses: []string{"0.0.0.0/0", "::/0"}}},
			{Protocol: "udp", PortRange: "8000-9000", Sources: &godo.Sources{Tags: []string{"lb"}, DropletIDs: []int{7}, LoadBalancerUIDs: []string{"x"}, KubernetesIDs: []string{"y"}}},
			{Protocol: "icmp", Sources: &godo.Sources{Addresses: []string{"10.0.0.1"}}},
		},
		OutboundRules: []godo.OutboundRule{{Protocol: "tcp", PortRange: "all", Destinations: &godo.Destinations{Addresses: []string{"0.0.0.0/0"}}}},
		DropletIDs:    []int{1, 2},
		Tags:          []string{"k8s:worker"},
	}
	firewall := must[*godo.Firewall](t)(f.client.Firewalls.Create(ctx, request))
	want := &godo.Firewall{
		ID: firewall.ID, Name: "web", Status: "waiting", InboundRules: request.InboundRules, DropletIDs: []int{1, 2}, Tags: []string{"k8s:worker"},
		// All ports are written as 0.
		OutboundRules: []godo.OutboundRule{{Protocol: "tcp", PortRange: "0", Destinations: &godo.Destinations{Addresses: []string{"0.0.0.0/0"}}}},
		Created:       f.time.Now().Format(time.RFC3339), PendingChanges: []godo.PendingChange{},
	}
	if diff := cmp.Diff(want, firewall); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	f.time.advance(firewallCreation)
	want.Status = "succeeded"
	if diff := cmp.Diff(want, must[*godo.Firewall](t)(f.client.Firewalls.Get(ctx, firewall.ID))); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}

	_, _, err := f.client.Firewalls.Create(ctx, request)
	wantError(t, err, 409, "conflict")
	other := *request
	other.Name = "other"
	must[*godo.Firewall](t)(f.client.Firewalls.Create(ctx, &other))
	_, _, err = f.client.Firewalls.Update(ctx, firewall.ID, &other)
	wantError(t, err, 409, "conflict")

	replaced := must[*godo.Firewall](t)(f.client.Firewalls.Update(ctx, firewall.ID, &godo.FirewallRequest{Name: "web2", InboundRules: request.InboundRules[:1]}))
	if replaced.Name != "web2" || len(replaced.InboundRules) != 1 || len(replaced.OutboundRules) != 0 || len(replaced.Tags) != 0 || len(replaced.DropletIDs) != 0 {
		t.Errorf("replaced by %+v", replaced)
	}
	all := must[[]godo.Firewall](t)(f.client.Firewalls.List(ctx, nil))
	if len(all) != 2 || len(f.Firewalls()) != 2 {
		t.Errorf("%d firewalls are listed", len(all))
	}
	mustDo(t)(f.client.Firewalls.Delete(ctx, firewall.ID))
	wantError(t, second(f.client.Firewalls.Delete(ctx, firewall.ID)), 404, "not_found")
	wantError(t, third(f.client.Firewalls.Get(ctx, firewall.ID)), 404, "not_found")
	wantError(t, third(f.client.Firewalls.Update(ctx, firewall.ID, request)), 404, "not_found")

	anywhere := &godo.Sources{Addresses: []string{"0.0.0.0/0"}}
	for _, tc := range []struct {
		reason  string
		request godo.FirewallRequest
	}{
		{"a name is needed", godo.FirewallRequest{InboundRules: request.InboundRules}},
		{"a name has no spaces", godo.FirewallRequest{Name: "a b", InboundRules: request.InboundRules}},
		{"a rule is needed", godo.FirewallRequest{Name: "a"}},
		{"the protocol is known", godo.FirewallRequest{Name: "a", InboundRules: []godo.InboundRule{{Protocol: "sctp", PortRange: "1", Sources: anywhere}}}},
		{"ports are needed", godo.FirewallRequest{Name: "a", InboundRules: []godo.InboundRule{{Protocol: "tcp", Sources: anywhere}}}},
		{"ports are numbers", godo.FirewallRequest{Name: "a", InboundRules: []godo.InboundRule{{Protocol: "tcp", PortRange: "http", Sources: anywhere}}}},
		{"sources are needed", godo.FirewallRequest{Name: "a", InboundRules: []godo.InboundRule{{Protocol: "tcp", PortRange: "1"}}}},
		{"destinations are needed", godo.FirewallRequest{Name: "a", OutboundRules: []godo.OutboundRule{{Protocol: "tcp", PortRange: "1", Destinations: &godo.Destinations{}}}}},
		{"addresses are addresses", godo.FirewallRequest{Name: "a", InboundRules: []godo.InboundRule{{Protocol: "tcp", PortRange: "1", Sources: &godo.Sources{Addresses: []string{"all"}}}}}},
		{"tags are well formed", godo.FirewallRequest{Name: "a", InboundRules: request.InboundRules, Tags: []string{"a b"}}},
	} {
		_, _, err := f.client.Firewalls.Create(ctx, &tc.request)
		t.Log(tc.reason, err)
		wantError(t, err, 422, "unprocessable_entity")
	}
}

func TestEditsBehindAClientsBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("prod")))
	extra := must[*godo.KubernetesNodePool](t)(f.client.Kubernetes.CreateNodePool(ctx, cluster.ID, &godo.KubernetesNodePoolCreateRequest{Name: "extra", Size: "c-2", Count: 1}))

	for _, edit := range []error{
		f.ScalePool(cluster.ID, extra.ID, 3),
		f.UpgradeCluster(cluster.ID, "1.33.6-do.0"),
	} {
		if edit != nil {
			t.Fatal(edit)
		}
	}
	after := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Get(ctx, cluster.ID))
	if after.VersionSlug != "1.33.6-do.0" || after.NodePools[1].Count != 3 || len(after.NodePools[1].Nodes) != 3 {
		t.Errorf("after the edits: %+v", after)
	}
	snapshot := f.Clusters()[0]
	if snapshot.ID != cluster.ID || snapshot.Pool("extra").Count != 3 || snapshot.Pool("none") != nil {
		t.Errorf("snapshot = %+v", snapshot)
	}
	snapshot.NodePools[0].Tags[0], snapshot.Tags[0] = "changed", "changed"
	if again := f.Clusters()[0]; again.Tags[0] == "changed" || again.NodePools[0].Tags[0] == "changed" {
		t.Error("a snapshot is a part of the state")
	}

	if err := f.DeletePool(cluster.ID, extra.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err := f.client.Kubernetes.GetNodePool(ctx, cluster.ID, extra.ID)
	wantError(t, err, 404, "not_found")
	if err := f.DeleteCluster(cluster.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = f.client.Kubernetes.Get(ctx, cluster.ID)
	wantError(t, err, 404, "not_found")

	alive := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, simpleCluster("alive")))
	for i, edit := range []error{
		f.UpgradeCluster(alive.ID, "1.99.0-do.0"),
		f.ScalePool(cluster.ID, extra.ID, 3), f.UpgradeCluster(cluster.ID, "1.33.6-do.0"), f.DeletePool(cluster.ID, extra.ID),
		f.DeleteCluster(cluster.ID), f.SetClusterStatus(cluster.ID, "error", ""), f.DeleteVPC(emulator.NewID()),
	} {
		if edit == nil {
			t.Errorf("edit %d of what is not there did not fail", i)
		}
	}
}

func TestRequestLog(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seen := make(chan emulator.Request, 10)
	f := startWith(t, emulator.Options{Token: testToken, OnRequest: func(r emulator.Request) { seen <- r }})
	must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "net", RegionSlug: "fra1", Description: "my token is " + testToken}))
	_, _, err := f.client.VPCs.Get(ctx, testToken)
	wantError(t, err, 404, "not_found")
	_, _, err = f.client.VPCs.List(ctx, &godo.ListOptions{Page: 2})
	if err != nil {
		t.Fatal(err)
	}

	requests := f.Requests()
	want := []emulator.Request{
		{Method: "POST", Path: "/v2/vpcs", Status: 201, Body: []byte(`{"description":"my token is [redacted]","name":"net","region":"fra1"}`)},
		{Method: "GET", Path: "/v2/vpcs/[redacted]", Status: 404},
		{Method: "GET", Path: "/v2/vpcs", Query: "page=2", Status: 200},
	}
	if diff := cmp.Diff(want, requests, cmpopts.IgnoreFields(emulator.Request{}, "Time", "Duration")); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	for range want {
		<-seen
	}
	f.ForgetRequests()
	if len(f.Requests()) != 0 {
		t.Error("requests are remembered")
	}
}

func TestIntercept(t *testing.T) {
	t.Parallel()
	f := startWith(t, emulator.Options{Token: testToken, Intercept: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/v2/account" {
			emulator.WriteJSON(w, 503, map[string]string{"id": "server_error", "message": "try again"})
			return
		}
		next.ServeHTTP(w, r)
	}})
	_, response, err := f.client.Account.Get(context.Background())
	if err == nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("response = %v, %v", response, err)
	}
	must[[]*godo.VPC](t)(f.client.VPCs.List(context.Background(), nil))
	if requests := f.Requests(); len(requests) != 2 || requests[0].Status != 503 || requests[1].Status != 200 {
		t.Errorf("requests = %+v", requests)
	}
}
