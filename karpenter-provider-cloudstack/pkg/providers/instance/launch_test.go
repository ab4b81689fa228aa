package instance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
)

func TestCreate(t *testing.T) {
	w := newWorld(t, fake.Options{})
	w.class.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}}
	w.class.Spec.SSHKeyPairs = []string{fake.KeyPairOps}
	w.class.Spec.RootDisk = &csv1.RootDisk{SizeGiB: lo.ToPtr(int64(30))}
	nodeClaim := claim("pool-abcde", in(corev1.LabelTopologyZone, fake.ZoneB))
	got := w.mustCreate(nodeClaim)
	w.only(nodeClaim, got.ID)
	if got.InstanceTypeName != "m1small" || got.ZoneName != fake.ZoneB || got.CapacityType != karpv1.CapacityTypeOnDemand || got.Architecture != "amd64" {
		t.Errorf("have %+v", got)
	}
	m := w.alive()[0]
	if m.OfferingName != fake.OfferingSmall || m.RootDiskGiB != 30 || m.Group != w.provider.group || m.DisplayName != w.provider.group+"-"+m.Name ||
		!slices.Equal(m.NetworkIDs, got.NetworkIDs) || m.Name != NodeName(nodeClaim) || got.Tags[TagDataDisks] != "1" {
		t.Errorf("have %+v", m)
	}
	disks := lo.Filter(w.cloud.Volumes(), func(v fake.Volume, _ int) bool { return !v.Root })
	if len(disks) != 1 || disks[0].Tags[csv1.TagClusterUID] != clusterUID {
		t.Errorf("the data disk has to have our tags: %+v", disks)
	}
	request := w.renderer.requests[0]
	if request.NodeName != m.Name || request.ZoneName != fake.ZoneB || request.InstanceType.Name != "m1small" ||
		request.Labels[corev1.LabelInstanceTypeStable] != "m1small" || request.Labels["team"] != "blue" ||
		request.Labels[karpv1.NodePoolLabelKey] != "pool" || request.Labels[corev1.LabelArchStable] != "amd64" ||
		!slices.Contains(request.Taints, karpv1.UnregisteredNoExecuteTaint) || request.Taints[0].Key != "starting" {
		t.Errorf("user data was made of %+v", request)
	}
	// A machine of its own is cheap to ask for.
	for command, most := range map[string]int{"deployVirtualMachine": 1, "createTags": 2, "listVolumes": 1, "destroyVirtualMachine": 0} {
		if w.count(command) > most {
			t.Errorf("%d requests of %s, want %d", w.count(command), command, most)
		}
	}
	// Another call for the same NodeClaim finds it.
	if again := w.mustCreate(nodeClaim); again.ID != got.ID || w.count("deployVirtualMachine") != 1 {
		t.Errorf("another machine was made: %s", again.ID)
	}
}

// asked keeps what CloudStack is asked to deploy, and refuses it.
type asked struct {
	API
	deployments []cloudstack.Deployment
}

func (a *asked) ListVirtualMachines(context.Context, cloudstack.Scope, cloudstack.MachineQuery) ([]*cloudstack.VirtualMachine, error) {
	return nil, nil
}

func (a *asked) DeployVirtualMachine(_ context.Context, d cloudstack.Deployment) (string, cloudstack.Job, error) {
	a.deployments = append(a.deployments, d)
	return "", cloudstack.Job{}, &cloudstack.Error{Command: "deployVirtualMachine", Code: 431, Text: "refused"}
}

// unscoped is a CloudStackNodeClass without project and account, of which the emulated CloudStack has few.
func unscoped(nodeClass *csv1.CloudStackNodeClass) *csv1.CloudStackNodeClass {
	one := nodeClass.DeepCopy()
	one.Spec.ProjectID, one.Spec.Account, one.Spec.DomainID = "", "", ""
	return one
}

// anyScope has in each scope what there is in none.
type anyScope struct{ Types }

func (a anyScope) Offering(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, name string) (instancetype.Launch, error) {
	return a.Types.Offering(ctx, unscoped(nodeClass), name)
}

// Whatever a CloudStackNodeClass says of machines is asked for, and nothing else.
func TestCreateAsksForAll(t *testing.T) {
	const project = "11111111-2222-3333-4444-555555555555"
	storage := csv1.NetworkStatus{ID: "storage-b", Name: "storage", ZoneID: fake.IDOf("zone", fake.ZoneB)}
	all := func(c *csv1.CloudStackNodeClass) {
		c.Spec.ServiceOfferingSelectorTerms = []csv1.ServiceOfferingSelectorTerm{{Name: fake.OfferingConstrained}}
		c.Spec.CustomOffering = &csv1.CustomOffering{CPUs: []int32{2}, MemoryMiBPerCPU: []int32{1536}}
		c.Spec.RootDisk = &csv1.RootDisk{DiskOfferingID: fake.DiskOfferingCustom, SizeGiB: lo.ToPtr[int64](40)}
		c.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.DiskOfferingCustom, SizeGiB: lo.ToPtr[int64](5)}, {DiskOfferingID: fake.DiskOfferingSmall}}
		c.Spec.SSHKeyPairs = []string{fake.KeyPairOps, "more"}
		c.Spec.Details = map[string]string{"rootDiskController": "scsi"}
		c.Spec.Affinity = &csv1.Affinity{Mode: csv1.AffinityGroup, GroupIDs: []string{"group-1", "group-2"}}
		c.Status.Zones[1].SecurityGroupsEnabled = true
		c.Status.SecurityGroups = []csv1.SecurityGroupStatus{{ID: "sg-1", Name: "a"}, {ID: "sg-2", Name: "b"}}
		c.Status.AdditionalNetworks = []csv1.NetworkStatus{{ID: "storage-a", Name: "storage", ZoneID: fake.IDOf("zone", fake.ZoneA)}, storage}
	}
	least := cloudstack.Deployment{
		ZoneID: fake.IDOf("zone", fake.ZoneB), ServiceOfferingID: fake.IDOf("offering", fake.OfferingSmall), TemplateID: fake.IDOf("template", fake.TemplateAMD64),
		NetworkIDs: []string{network(fake.ZoneB, fake.NetworkB).ID}, Group: GroupName(clusterName, clusterUID),
	}
	most := least
	most.ServiceOfferingID, most.CPUNumber, most.MemoryMiB = fake.IDOf("offering", fake.OfferingConstrained), 2, 3072
	most.NetworkIDs = append(slices.Clone(least.NetworkIDs), storage.ID)
	most.RootDiskOfferingID, most.RootDiskGiB = fake.IDOf("diskoffering", fake.DiskOfferingCustom), 40
	most.DataDisks = []cloudstack.DataDisk{
		{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingCustom), SizeGiB: 5}, {DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)},
	}
	most.SSHKeyPairs, most.Details = []string{fake.KeyPairOps, "more"}, map[string]string{"rootDiskController": "scsi"}
	most.AffinityGroupIDs, most.SecurityGroupIDs = []string{"group-1", "group-2"}, []string{"sg-1", "sg-2"}
	scoped := func(scope cloudstack.Scope) cloudstack.Deployment { one := least; one.Scope = scope; return one }
	for name, test := range map[string]struct {
		change func(*csv1.CloudStackNodeClass)
		want   cloudstack.Deployment
	}{
		"the least":  {func(*csv1.CloudStackNodeClass) {}, least},
		"all":        {all, most},
		"a project":  {func(c *csv1.CloudStackNodeClass) { c.Spec.ProjectID = project }, scoped(cloudstack.Scope{ProjectID: project})},
		"an account": {func(c *csv1.CloudStackNodeClass) { c.Spec.Account, c.Spec.DomainID = "team", "domain" }, scoped(cloudstack.Scope{Account: "team", DomainID: "domain"})},
		"no security groups where the zone has none": {func(c *csv1.CloudStackNodeClass) {
			c.Status.SecurityGroups = []csv1.SecurityGroupStatus{{ID: "sg-1"}}
		}, least},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{})
			test.change(w.class)
			api := &asked{API: w.client}
			w.restart(api)
			nodeClaim := claim("pool-abcde", in(corev1.LabelTopologyZone, fake.ZoneB))
			types, err := w.types.List(t.Context(), unscoped(w.class))
			if err != nil {
				t.Fatal(err)
			}
			w.provider.types = anyScope{w.types}
			if _, err := w.provider.Create(t.Context(), w.class, nodeClaim, types); err == nil || len(api.deployments) == 0 {
				t.Fatalf("%d deployments, %v", len(api.deployments), err)
			}
			got := api.deployments[0]
			if got.Name != NodeName(nodeClaim) || got.DisplayName != w.provider.group+"-"+got.Name || got.UserData == "" {
				t.Errorf("have %+v", got)
			}
			got.Name, got.DisplayName, got.UserData = "", "", ""
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCreateChooses(t *testing.T) {
	for name, c := range map[string]struct {
		requirements []karpv1.NodeSelectorRequirementWithMinValues
		requests     corev1.ResourceList
		want         string
	}{
		"the cheapest":               {want: fake.OfferingSmall},
		"what fits the requests":     {requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}, want: fake.OfferingLarge},
		"memory less overhead":       {requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}, want: fake.OfferingMedium},
		"what the requirements name": {requirements: []karpv1.NodeSelectorRequirementWithMinValues{in(corev1.LabelInstanceTypeStable, "m1large")}, want: fake.OfferingLarge},
		"labels of ours": {requirements: []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: csv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpGt, Values: []string{"1"}},
		}, want: fake.OfferingMedium},
		"none of that zone":         {requirements: []karpv1.NodeSelectorRequirementWithMinValues{in(corev1.LabelTopologyZone, "elsewhere")}},
		"none of that architecture": {requirements: []karpv1.NodeSelectorRequirementWithMinValues{in(corev1.LabelArchStable, "arm64")}},
		"none that large":           {requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5")}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{})
			nodeClaim := claim("pool-abcde", c.requirements...)
			if c.requests != nil {
				nodeClaim.Spec.Resources.Requests = c.requests
			}
			got, err := w.create(context.Background(), nodeClaim)
			if c.want == "" {
				if !cloudprovider.IsInsufficientCapacityError(err) || w.count("deployVirtualMachine") > 0 {
					t.Fatalf("have %v, %v", got, err)
				}
				return
			}
			if err != nil || w.alive()[0].OfferingName != c.want {
				t.Fatalf("want %s, have %s, %v", c.want, describe(w.alive()), err)
			}
		})
	}
}

// Faults of single requests and jobs, and what becomes of the launch.
func TestCreateFaults(t *testing.T) {
	zoneA, zoneB := fake.IDOf("zone", fake.ZoneA), fake.IDOf("zone", fake.ZoneB)
	small := fake.IDOf("offering", fake.OfferingSmall)
	full := func(w *world) {
		w.cloud.SetCapacity(zoneA, "", 0)
		w.cloud.SetCapacity(zoneB, "", 0)
	}
	deploy := func(f fake.Fault) func(*world) {
		f.Command = "deployVirtualMachine"
		return func(w *world) { w.cloud.Fail(f) }
	}
	both := func(do ...func(*world)) func(*world) {
		return func(w *world) {
			for _, one := range do {
				one(w)
			}
		}
	}
	for name, c := range map[string]struct {
		fault func(*world)
		// reason is that of the CreateError; insufficient is for no room. Neither: there is a machine.
		reason       string
		insufficient bool
		// asked are the offerings that were asked for, where that counts.
		asked []string
		check func(*world, error)
	}{
		"533 of the cheapest": {
			fault: func(w *world) {
				w.cloud.SetOfferingCapacity(zoneA, small, 0)
				w.cloud.SetOfferingCapacity(zoneB, small, 0)
			},
			asked: []string{fake.OfferingSmall, fake.OfferingSmall, fake.OfferingMedium},
			check: func(w *world, _ error) {
				if !w.unavailable.IsUnavailable("m1small", fake.ZoneA, "on-demand") || !w.unavailable.IsUnavailable("m1small", fake.ZoneB, "on-demand") ||
					w.unavailable.IsUnavailable("m1medium", fake.ZoneA, "on-demand") {
					w.Error("m1small has to be unavailable in both zones, and nothing else")
				}
			},
		},
		"533 of all": {
			fault: full, insufficient: true,
			check: func(w *world, err error) {
				if n := w.count("deployVirtualMachine"); n != 6 || !strings.Contains(err.Error(), "533") {
					w.Errorf("%d requests, %v", n, err)
				}
				before := w.count("deployVirtualMachine")
				if _, err := w.create(context.Background(), claim("other")); !cloudprovider.IsInsufficientCapacityError(err) {
					w.Errorf("have %v", err)
				}
				if w.count("deployVirtualMachine") != before {
					w.Error("what is unavailable was asked for again")
				}
			},
		},
		"no more attempts than allowed": {
			fault: both(full, func(w *world) { w.options.MaxAttempts = 2; w.restart(w.client) }), insufficient: true,
			asked: []string{fake.OfferingSmall, fake.OfferingSmall},
		},
		"533 at once":    {fault: deploy(fake.Fault{Code: 533, Text: "no room", Times: 1}), asked: []string{fake.OfferingSmall, fake.OfferingSmall}},
		"534 of the job": {fault: deploy(fake.Fault{JobCode: 534, JobText: "Resource [Host:1] is unreachable", Times: 1}), asked: []string{fake.OfferingSmall, fake.OfferingSmall}},
		"534 of the zone": {
			fault: deploy(fake.Fault{JobCode: 534, JobText: "Resource [DataCenter:1] is unreachable", Times: 1}),
			check: func(w *world, _ error) {
				if w.unavailable.IsUnavailable("m1large", fake.ZoneA, "on-demand") == w.unavailable.IsUnavailable("m1large", fake.ZoneB, "on-demand") {
					w.Error("one zone has to be unavailable")
				}
			},
		},
		"535 of the job": {fault: deploy(fake.Fault{JobCode: 535, JobText: "cannot allocate", Times: 1})},
		"limit of machines": {
			fault: func(w *world) {
				w.cloud.AddVM(fake.VM{Name: "foreign", ZoneID: zoneA})
				w.cloud.SetLimit("", fake.Limit{Machines: 1})
			},
			insufficient: true, asked: []string{fake.OfferingSmall},
			check: func(w *world, _ error) {
				if !w.unavailable.IsUnavailable("m1large", fake.ZoneB, "on-demand") {
					w.Error("a limit counts for all zones and instance types")
				}
			},
		},
		"limit of memory": {
			fault: func(w *world) { w.cloud.SetLimit("", fake.Limit{MemoryMiB: 1024, Code: 532}) },
			// All others have more.
			insufficient: true, asked: []string{fake.OfferingSmall},
		},
		"530 at once": {fault: deploy(fake.Fault{Code: 530, Text: "Internal error", Times: 1})},
		"530 always": {
			fault: deploy(fake.Fault{Code: 530, Text: "Internal error"}), reason: ReasonLaunchFailed,
		},
		"530 of the job":  {fault: deploy(fake.Fault{JobCode: 530, JobText: "Internal error", Times: 1})},
		"530 of all jobs": {fault: deploy(fake.Fault{JobCode: 530, JobText: "Internal error"}), reason: ReasonLaunchFailed},
		"429 once":        {fault: func(w *world) { w.cloud.Fail(fake.Fault{Command: "deployVirtualMachine", Code: 429, Times: 1}) }},
		"429 always":      {fault: deploy(fake.Fault{Code: 429, Text: "too many"}), reason: ReasonThrottled},
		"401":             {fault: deploy(fake.Fault{Code: 401, Text: "unable to verify user credentials"}), reason: ReasonUnauthorized},
		"531":             {fault: deploy(fake.Fault{Code: 531, Text: "permission denied"}), reason: ReasonUnauthorized},
		"431": {fault: func(w *world) { w.class.Spec.SSHKeyPairs = []string{"nobody"} }, reason: ReasonLaunchFailed, check: func(w *world, err error) {
			if !strings.Contains(err.Error(), "nobody") {
				w.Errorf("the error has to say what is wrong: %v", err)
			}
			if w.unavailable.IsUnavailable("m1small", fake.ZoneA, "on-demand") {
				w.Error("a parameter that is wrong is no want of room")
			}
		}},
		"answer lost":        {fault: deploy(fake.Fault{LoseAnswer: true, Times: 1}), asked: []string{fake.OfferingSmall}},
		"answers all lost":   {fault: deploy(fake.Fault{LoseAnswer: true}), asked: []string{fake.OfferingSmall}},
		"connection dropped": {fault: deploy(fake.Fault{Drop: true, Times: 1}), asked: []string{fake.OfferingSmall, fake.OfferingSmall}},
		"all connections dropped": {
			fault: deploy(fake.Fault{Drop: true}), reason: ReasonUnreachable, asked: []string{fake.OfferingSmall, fake.OfferingSmall},
			check: func(w *world, _ error) {
				// The request without an answer is made again as it was.
				places := lo.Uniq(lo.FilterMap(w.cloud.Requests(), func(r fake.Request, _ int) (string, bool) {
					return r.Parameters["name"] + r.Parameters["networkids"] + r.Parameters["serviceofferingid"], r.Command == "deployVirtualMachine"
				}))
				if len(places) != 1 {
					w.Errorf("requests differ: %v", places)
				}
			},
		},
		"a proxy answers":   {fault: deploy(fake.Fault{Status: 502, Times: 1})},
		"tags refused":      {fault: func(w *world) { w.cloud.Fail(fake.Fault{Command: "createTags", Code: 530, Times: 1}) }},
		"tags lost":         {fault: func(w *world) { w.cloud.Fail(fake.Fault{Command: "createTags", Drop: true, Times: 1}) }},
		"tags fail later":   {fault: func(w *world) { w.cloud.Fail(fake.Fault{Command: "createTags", JobCode: 530, Times: 1}) }},
		"lists fail":        {fault: func(w *world) { w.cloud.Fail(fake.Fault{Command: "listVirtualMachines", Code: 530}) }, reason: ReasonLaunchFailed},
		"destroy refused":   {fault: both(deploy(fake.Fault{JobCode: 533, Times: 1}), func(w *world) { w.cloud.Fail(fake.Fault{Command: "destroyVirtualMachine", Code: 530, Times: 1}) }), reason: ReasonLaunchFailed},
		"expunge forbidden": {fault: both(deploy(fake.Fault{JobCode: 533, Times: 1}), func(w *world) { w.cloud.SetExpungeAllowed(false) })},
		"no addresses": {
			fault: func(w *world) {
				for _, zone := range []string{zoneA, zoneB} {
					name := lo.Ternary(zone == zoneA, fake.NetworkA, fake.NetworkB)
					w.cloud.AddNetwork(fake.Network{Name: name, ZoneID: zone, Addresses: 1})
					w.cloud.AddVM(fake.VM{Name: "foreign-" + name, ZoneID: zone, NetworkIDs: []string{fake.IDOf("network", zone+"/"+name)}})
				}
			},
			insufficient: true, asked: []string{fake.OfferingSmall, fake.OfferingSmall},
			check: func(w *world, _ error) {
				if !w.unavailable.IsNetworkUnavailable(network(fake.ZoneA, fake.NetworkA).ID) || w.unavailable.IsUnavailable("m1small", fake.ZoneA, "on-demand") {
					w.Error("the networks have to be unavailable, and nothing else")
				}
			},
		},
		"user data fails": {fault: func(w *world) { w.renderer.err = errDead }, reason: ReasonUserData, asked: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{})
			c.fault(w)
			foreign := len(w.alive())
			nodeClaim := claim("pool-abcde")
			got, err := w.create(context.Background(), nodeClaim)
			if c.insufficient != cloudprovider.IsInsufficientCapacityError(err) || reason(err) != c.reason {
				t.Fatalf("have %v (%q)", err, reason(err))
			}
			if c.asked != nil && !slices.Equal(w.offeringsAsked(), c.asked) {
				t.Errorf("asked for %v, want %v", w.offeringsAsked(), c.asked)
			}
			if c.check != nil {
				c.check(w, err)
			}
			w.settled()
			if err == nil {
				w.only(nodeClaim, got.ID)
				return
			}
			if ours := len(w.alive()) - foreign; ours != 0 && !strings.Contains(name, "destroy") {
				t.Errorf("%d machines are left: %s", ours, describe(w.alive()))
			}
			// When it is over, the same NodeClaim gets one machine.
			w.cloud.ClearFaults()
			for _, zone := range []string{zoneA, zoneB} {
				w.cloud.SetCapacity(zone, "", -1)
				w.cloud.AddNetwork(fake.Network{Name: fake.NetworkA, ZoneID: zoneA})
				w.cloud.AddNetwork(fake.Network{Name: fake.NetworkB, ZoneID: zoneB})
			}
			w.cloud.SetLimit("", fake.Limit{})
			w.class.Spec.SSHKeyPairs, w.renderer.err = nil, nil
			w.clock.Step(10 * time.Minute)
			for _, m := range w.alive() {
				if strings.HasPrefix(m.Name, "foreign") {
					w.cloud.RemoveVM(m.ID)
				}
			}
			got = w.mustCreate(nodeClaim)
			w.only(nodeClaim, got.ID)
		})
	}
}

func TestCreateNameTaken(t *testing.T) {
	networks := []string{network(fake.ZoneA, fake.NetworkA).ID, network(fake.ZoneB, fake.NetworkB).ID}
	nodeClaim := claim("pool-abcde")
	machine := func(w *world, state string, ours bool) fake.VM {
		m := fake.VM{
			Name: NodeName(nodeClaim), State: state, ZoneID: fake.IDOf("zone", fake.ZoneA), OfferingID: fake.IDOf("offering", fake.OfferingMedium),
			TemplateID: fake.IDOf("template", fake.TemplateAMD64), NetworkIDs: networks,
		}
		if ours {
			m.Group, m.DisplayName = w.provider.group, w.provider.group+"-"+m.Name
		}
		return w.cloud.AddVM(m)
	}
	t.Run("by another's", func(t *testing.T) {
		for _, state := range []string{fake.StateRunning, fake.StateStopped, fake.StateError} {
			w := newWorld(t, fake.Options{})
			m := machine(w, state, false)
			_, err := w.create(context.Background(), nodeClaim)
			if reason(err) != ReasonNameTaken || !strings.Contains(err.Error(), m.Name) || !strings.Contains(err.Error(), m.ID) {
				t.Errorf("have %v", err)
			}
			if now, _ := w.cloud.Machine(m.ID); now.State != state || len(now.Tags) > 0 || w.count("destroyVirtualMachine") > 0 || len(w.alive()) != 1 {
				t.Errorf("it was touched: %+v", now)
			}
		}
	})
	t.Run("by another's of another cluster with the same name", func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		m := machine(w, fake.StateRunning, false)
		w.cloud.SetVMTags(m.ID, map[string]string{csv1.TagManagedBy: clusterName, csv1.TagClusterUID: "other", csv1.TagNodeClaim: nodeClaim.Name})
		if _, err := w.create(context.Background(), nodeClaim); reason(err) != ReasonNameTaken {
			t.Errorf("have %v", err)
		}
	})
	t.Run("by ours that runs", func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		m := machine(w, fake.StateRunning, true)
		got := w.mustCreate(nodeClaim)
		w.only(nodeClaim, m.ID)
		if got.InstanceTypeName != "m1medium" || w.count("deployVirtualMachine") > 0 {
			t.Errorf("have %+v", got)
		}
	})
	t.Run("by ours that is stopped", func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		m := machine(w, fake.StateStopped, true)
		w.mustCreate(nodeClaim)
		w.only(nodeClaim, m.ID)
	})
	t.Run("by ours in Error", func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		m := machine(w, fake.StateError, true)
		got := w.mustCreate(nodeClaim)
		w.only(nodeClaim, got.ID)
		if got.ID == m.ID || w.count("destroyVirtualMachine") != 1 {
			t.Errorf("have %+v", got)
		}
	})
	t.Run("by ours of an offering that does not fit", func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		machine(w, fake.StateRunning, true)
		fits := nodeClaim.DeepCopy()
		fits.Spec.Requirements = append(fits.Spec.Requirements, in(corev1.LabelInstanceTypeStable, "m1large"))
		got := w.mustCreate(fits)
		w.only(fits, got.ID)
	})
	t.Run("by two of ours", func(t *testing.T) {
		w := newWorld(t, fake.Options{})
		machine(w, fake.StateStopped, true)
		m := machine(w, fake.StateRunning, true)
		got := w.mustCreate(nodeClaim)
		if got.ID != m.ID {
			t.Errorf("that which runs has to stay")
		}
		w.only(nodeClaim, m.ID)
	})
	t.Run("by one that cannot be seen", func(t *testing.T) {
		// Users are not shown machines that are destroyed and not expunged yet.
		w := newWorld(t, fake.Options{})
		machine(w, fake.StateDestroyed, true)
		got := w.mustCreate(nodeClaim)
		w.only(nodeClaim, got.ID)
		if got.Name != NodeName(nodeClaim)+"-2" {
			t.Errorf("have %s", got.Name)
		}
	})
}

// A launch that takes longer than Create may is waited for by the next call.
func TestCreateTakesLong(t *testing.T) {
	w := newWorld(t, fake.Options{JobLatency: func(command string, _ *rand.Rand) time.Duration {
		return lo.Ternary(command == "deployVirtualMachine", 300*time.Millisecond, 0)
	}})
	w.options.LaunchTimeout = 50 * time.Millisecond
	w.restart(w.client)
	nodeClaim := claim("pool-abcde")
	if _, err := w.create(context.Background(), nodeClaim); reason(err) != ReasonInProgress {
		t.Fatalf("have %v", err)
	}
	w.options.LaunchTimeout = 20 * time.Second
	w.restart(w.client)
	got := w.mustCreate(nodeClaim)
	w.only(nodeClaim, got.ID)
	if w.count("deployVirtualMachine") != 1 {
		t.Error("it was asked for again")
	}
}

// The process dies at each call of a launch, before and after CloudStack has done what was asked. The next one makes exactly one machine.
func TestCreateDies(t *testing.T) {
	for name, arrange := range map[string]func(*world){
		"all is well": func(*world) {},
		"with disks": func(w *world) {
			w.class.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}}
		},
		"no room at first": func(w *world) {
			for _, zone := range []string{fake.ZoneA, fake.ZoneB} {
				w.cloud.SetOfferingCapacity(fake.IDOf("zone", zone), fake.IDOf("offering", fake.OfferingSmall), 0)
			}
		},
		"answer lost": func(w *world) { w.cloud.Fail(fake.Fault{Command: "deployVirtualMachine", LoseAnswer: true, Times: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			points := map[string]bool{}
			for dies := 1; ; dies++ {
				finished := false
				for _, after := range []bool{false, true} {
					w := newWorld(t, fake.Options{})
					arrange(w)
					ctx, cancel := context.WithCancel(context.Background())
					process := &mortal{API: w.client, dies: dies, after: after, kill: cancel}
					w.restart(process)
					nodeClaim := claim("pool-abcde")
					_, err := w.create(ctx, nodeClaim)
					finished = !process.dead.Load()
					if !finished {
						points[fmt.Sprint(process.at.Load(), after)] = true
					}
					cancel()
					w.restart(w.client)
					got, again := w.create(context.Background(), nodeClaim)
					if again != nil {
						t.Fatalf("died at call %d (%v, after: %t): %v; then %v", dies, process.at.Load(), after, err, again)
					}
					w.only(nodeClaim, got.ID)
					for _, v := range w.cloud.Volumes() {
						if !v.Root && v.Tags[csv1.TagClusterUID] != clusterUID {
							t.Errorf("died at call %d (%v, after: %t): a disk has no tags", dies, process.at.Load(), after)
						}
					}
				}
				if finished {
					break
				}
			}
			for _, point := range []string{"list", "deploy", "tag"} {
				if !points[point+"false"] || !points[point+"true"] {
					t.Errorf("it never died at %s: %v", point, points)
				}
			}
		})
	}
}

func TestCreateAtOnce(t *testing.T) {
	const claims = 50
	w := newWorld(t, fake.Options{JobLatency: func(string, *rand.Rand) time.Duration { return 20 * time.Millisecond }})
	w.options.BatchWindow, w.options.Poll, w.options.PollMax = 2*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	w.restart(w.client)
	its := w.instanceTypes()
	var group sync.WaitGroup
	var ids sync.Map
	for i := range claims {
		// Three calls for each NodeClaim, as of a controller that does not know better.
		for range 3 {
			group.Go(func() {
				got, err := w.provider.Create(context.Background(), w.class, claim(fmt.Sprintf("pool-%d", i)), its)
				if err != nil {
					t.Error(err)
					return
				}
				if other, _ := ids.LoadOrStore(i, got.ID); other != got.ID {
					t.Errorf("%s and %s are of one NodeClaim", other, got.ID)
				}
			})
		}
	}
	group.Wait()
	w.settled()
	if n := len(w.alive()); n != claims || w.count("deployVirtualMachine") != claims {
		t.Fatalf("%d machines of %d requests for %d NodeClaims", n, w.count("deployVirtualMachine"), claims)
	}
	// Looks for machines are made together.
	if n := w.count("listVirtualMachines") + w.count("queryAsyncJobResult"); n > 2*claims {
		t.Errorf("%d looks for %d machines", n, claims)
	}
}

// Where a request had no answer, the next call makes the same request, whatever is cheaper by now: the machine may be in the making.
func TestCreateKeepsTarget(t *testing.T) {
	w := newWorld(t, fake.Options{})
	w.cloud.Fail(fake.Fault{Command: "deployVirtualMachine", Drop: true})
	nodeClaim := claim("pool-abcde")
	if _, err := w.create(context.Background(), nodeClaim); reason(err) != ReasonUnreachable {
		t.Fatalf("have %v", err)
	}
	w.cloud.ClearFaults()
	w.class.Spec.Pricing = &csv1.Pricing{Offerings: map[string]resource.Quantity{fake.OfferingLarge: resource.MustParse("0.0001")}}
	w.mustCreate(nodeClaim)
	if got := w.mustCreate(claim("other")); got.InstanceTypeName != "m1large" {
		t.Fatalf("the prices do not count: %+v", got)
	}
	if asked := w.offeringsAsked(); !slices.Equal(asked, []string{fake.OfferingSmall, fake.OfferingSmall, fake.OfferingSmall, fake.OfferingLarge}) {
		t.Errorf("asked for %v", asked)
	}
}

// The instance types may be older than what became unavailable meanwhile.
func TestCreateWithOldTypes(t *testing.T) {
	w := newWorld(t, fake.Options{})
	its := w.instanceTypes()
	for _, zone := range []string{fake.ZoneA, fake.ZoneB} {
		w.unavailable.Mark(context.Background(), "test", "m1small", zone, karpv1.CapacityTypeOnDemand)
	}
	got, err := w.provider.Create(context.Background(), w.class, claim("pool-abcde"), its)
	if err != nil || got.InstanceTypeName != "m1medium" {
		t.Errorf("have %+v, %v", got, err)
	}
}

// A machine in the making that cannot be looked at is neither given up nor replaced.
func TestCreateCannotLook(t *testing.T) {
	w := newWorld(t, fake.Options{})
	w.cloud.Fail(fake.Fault{
		Command: "listVirtualMachines", Code: 431, Text: "no", Times: 1, Match: func(r fake.Request) bool { return r.Parameters["id"] != "" },
	})
	nodeClaim := claim("pool-abcde")
	if _, err := w.create(context.Background(), nodeClaim); reason(err) != ReasonLaunchFailed {
		t.Fatalf("have %v", err)
	}
	got := w.mustCreate(nodeClaim)
	w.only(nodeClaim, got.ID)
	if w.count("destroyVirtualMachine") > 0 || w.count("deployVirtualMachine") != 1 {
		t.Errorf("requests %v", w.cloud.Counts())
	}
}

// Disk offerings may be named by their names; what pods are promised of the root disk is what the machine gets.
func TestCreateWithDiskOfferings(t *testing.T) {
	for name, test := range map[string]struct {
		root *csv1.RootDisk
		gib  int64
	}{
		"by its name":    {&csv1.RootDisk{DiskOfferingID: fake.DiskOfferingSmall}, 20},
		"by its id":      {&csv1.RootDisk{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}, 20},
		"without a size": {&csv1.RootDisk{DiskOfferingID: fake.DiskOfferingCustom, SizeGiB: lo.ToPtr[int64](70)}, 70},
		"none":           {&csv1.RootDisk{SizeGiB: lo.ToPtr[int64](30)}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{})
			w.class.Spec.RootDisk = test.root
			w.class.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.DiskOfferingCustom, SizeGiB: lo.ToPtr[int64](5)}, {DiskOfferingID: fake.DiskOfferingSmall}}
			got := w.mustCreate(claim("pool-abcde"))
			m, _ := w.cloud.Machine(got.ID)
			promised := w.instanceTypes()[0].Capacity[corev1.ResourceEphemeralStorage]
			if m.RootDiskGiB != test.gib || promised.Value() != test.gib<<30 {
				t.Errorf("a root disk of %d GiB, and %s are promised", m.RootDiskGiB, promised.String())
			}
			disks := lo.FilterMap(w.cloud.Volumes(), func(v fake.Volume, _ int) (int64, bool) { return v.SizeGiB, !v.Root })
			if !slices.Equal(disks, []int64{5, 20}) {
				t.Errorf("data disks of %v GiB", disks)
			}
		})
	}
}

// Two controllers that both believe to lead launch a machine for one NodeClaim at the same moment: both have looked for one before either has
// asked.
func TestTwoLeaders(t *testing.T) {
	for name, test := range map[string]struct {
		differs bool
		made    int
	}{
		"both know the same": {false, 1},
		"one knows of a zone without room, and takes another network": {true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{})
			nodeClaim := claim("pool-abcde")
			options := w.options
			options.Clock = w.clock
			unavailable := instancetype.NewUnavailable(w.clock)
			other := NewProvider(w.client, w.renderer, w.types, unavailable, w.affinity, options)
			its := w.instanceTypes()
			if test.differs {
				w.unavailable.MarkZone(context.Background(), "test", fake.ZoneA)
				unavailable.MarkZone(context.Background(), "test", fake.ZoneB)
			}
			var looked sync.WaitGroup
			looked.Add(2)
			w.cloud.Fail(fake.Fault{Command: "deployVirtualMachine", Times: 2, Before: func(fake.Request) { looked.Done(); looked.Wait() }})
			var group sync.WaitGroup
			for _, leader := range []*DefaultProvider{w.provider, other} {
				group.Go(func() {
					if _, err := leader.Create(context.Background(), w.class, nodeClaim, its); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			w.settled()
			if n := len(w.alive()); n != test.made {
				t.Fatalf("%d machines: %s", n, describe(w.alive()))
			}
			w.restart(w.client)
			got := w.mustCreate(nodeClaim)
			w.only(nodeClaim, got.ID)
		})
	}
}

// A machine that failed goes also where the job that is to destroy it is refused, and no other call for its NodeClaim follows.
func TestWhatFailedGoes(t *testing.T) {
	for name, test := range map[string]struct {
		arrange func(*world)
		left    int
		asked   int
	}{
		"at once":                   {func(*world) {}, 0, 1},
		"at the second request":     {func(w *world) { w.cloud.Fail(fake.Fault{Command: "destroyVirtualMachine", JobCode: 530, Times: 1}) }, 0, 2},
		"with what is allowed":      {func(w *world) { w.cloud.SetExpungeAllowed(false) }, 0, 1},
		"left to others in the end": {func(w *world) { w.cloud.Fail(fake.Fault{Command: "destroyVirtualMachine", JobCode: 530}) }, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{})
			test.arrange(w)
			w.cloud.Fail(fake.Fault{Command: "deployVirtualMachine", JobCode: 533, Times: 1})
			before := testutil.ToFloat64(destroyFailures)
			got := w.mustCreate(claim("pool-abcde"))
			w.eventually("the machine that failed is asked to go", func() bool {
				failed := slices.DeleteFunc(w.alive(), func(m fake.VM) bool { return m.ID == got.ID })
				listed, err := w.provider.List(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				// What is left to garbage collection is not said to be going.
				return w.count("destroyVirtualMachine") == test.asked && len(failed) == test.left &&
					(test.left == 0 || len(listed) == 2 && !listed[0].Deleting && !listed[1].Deleting)
			})
			if failures := testutil.ToFloat64(destroyFailures) - before; int(failures) < test.asked-1+test.left {
				t.Errorf("%v failures are counted", failures)
			}
		})
	}
}

// Launches at once, each of which is repeated until it succeeds, with faults of all kinds: there is one machine for each, and nothing else to
// clean up.
func TestCreateAtOnceWithFaults(t *testing.T) {
	kinds := []fake.Fault{
		{Code: 533}, {Code: 530}, {Code: 429}, {Code: 401}, {Drop: true}, {LoseAnswer: true}, {Status: 502}, {JobCode: 530}, {JobCode: 533},
	}
	for name, test := range map[string]struct {
		claims      int
		commands    []string
		faults      []fake.Fault
		probability float64
	}{
		"any request fails": {
			40, []string{"deployVirtualMachine", "createTags", "listVirtualMachines", "queryAsyncJobResult", "destroyVirtualMachine"}, kinds, 0.02,
		},
		"a tenth of the deployments fails in each way": {500, []string{"deployVirtualMachine"}, kinds[:5], 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{JobLatency: func(_ string, r *rand.Rand) time.Duration { return time.Duration(r.IntN(10)) * time.Millisecond }})
			w.options.BatchWindow = time.Millisecond
			w.restart(w.client)
			for _, command := range test.commands {
				for _, fault := range test.faults {
					fault.Command, fault.Probability = command, test.probability
					w.cloud.Fail(fault)
				}
			}
			var group sync.WaitGroup
			for i := range test.claims {
				group.Go(func() {
					nodeClaim := claim(fmt.Sprintf("pool-%d", i))
					for range 100 {
						its, err := w.types.List(context.Background(), w.class)
						if err != nil {
							continue
						}
						if _, err := w.provider.Create(context.Background(), w.class, nodeClaim, its); err == nil {
							return
						}
						w.clock.Step(time.Minute)
					}
					t.Errorf("%s never got a machine", nodeClaim.Name)
				})
			}
			group.Wait()
			w.eventually("there is a machine for each NodeClaim, and what failed is gone", func() bool {
				alive := w.alive()
				return w.cloud.PendingJobs() == 0 && len(alive) == test.claims &&
					lo.EveryBy(alive, func(m fake.VM) bool { return m.State == fake.StateRunning })
			})
			if n := w.count("deployVirtualMachine"); n <= test.claims {
				t.Errorf("%d requests for machines: no fault has struck", n)
			}
		})
	}
}

func TestCreateAntiAffinity(t *testing.T) {
	w := newWorld(t, fake.Options{})
	w.class.Spec.Affinity = &csv1.Affinity{Mode: csv1.AffinityAnti}
	for _, zone := range []string{fake.ZoneA, fake.ZoneB} {
		w.cloud.AddZone(fake.Zone{Name: zone, Hosts: 1})
	}
	first, second := w.mustCreate(claim("one")), w.mustCreate(claim("two"))
	if first.ZoneName == second.ZoneName {
		t.Errorf("both are in %s", first.ZoneName)
	}
	if _, err := w.create(context.Background(), claim("three")); !cloudprovider.IsInsufficientCapacityError(err) {
		t.Fatalf("have %v", err)
	}
	for _, zone := range []string{fake.ZoneA, fake.ZoneB} {
		if !w.affinity.IsFull(w.class, "pool", zone) || w.affinity.IsFull(w.class, "other", zone) {
			t.Errorf("the group of the NodePool has to be full in %s, and no other", zone)
		}
		for _, it := range []string{"m1small", "m1medium", "m1large"} {
			if w.unavailable.IsUnavailable(it, zone, "on-demand") {
				t.Errorf("%s has room in %s for machines of other groups", it, zone)
			}
		}
	}
	// Where that is known, CloudStack is not asked again.
	before := w.count("deployVirtualMachine")
	if _, err := w.create(context.Background(), claim("four")); !cloudprovider.IsInsufficientCapacityError(err) || w.count("deployVirtualMachine") != before {
		t.Errorf("have %v, and %d requests", err, w.count("deployVirtualMachine")-before)
	}
	// Somebody deletes the group.
	w.clock.Step(4 * time.Minute)
	w.cloud.RemoveVM(first.ID)
	w.cloud.RemoveVM(second.ID)
	for _, group := range w.cloud.AffinityGroups() {
		w.cloud.Remove(group.ID)
	}
	w.mustCreate(claim("five"))
}

func TestCreateSpreads(t *testing.T) {
	w := newWorld(t, fake.Options{})
	zones := map[string]int{}
	for i := range 20 {
		zones[w.mustCreate(claim(fmt.Sprintf("pool-%d", i))).ZoneName]++
	}
	if zones[fake.ZoneA] < 4 || zones[fake.ZoneB] < 4 {
		t.Errorf("machines of one price have to be spread over zones: %v", zones)
	}
}

// Any sequence of launches and deletions with faults of all kinds ends with a machine for each NodeClaim, and none besides.
func TestAnySequence(t *testing.T) {
	for seed := range uint64(9) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			w := newWorld(t, fake.Options{Seed: seed, JobLatency: func(_ string, r *rand.Rand) time.Duration {
				return time.Duration(r.IntN(4)) * time.Millisecond
			}})
			if seed%2 == 1 {
				w.class.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}}
			}
			if seed%3 == 2 {
				w.cloud.SetExpungeAllowed(false)
			}
			w.options.LaunchTimeout = 3 * time.Second
			w.restart(w.client)
			for _, command := range []string{
				"deployVirtualMachine", "destroyVirtualMachine", "createTags", "listVirtualMachines", "queryAsyncJobResult", "listVolumes",
			} {
				for _, fault := range []fake.Fault{
					{Code: 533, Text: "no room"}, {Code: 530, Text: "Internal error"}, {Code: 429, Text: "too many"}, {Code: 401, Text: "who are you"},
					{Drop: true}, {LoseAnswer: true}, {JobCode: 530, JobText: "Internal error"}, {JobCode: 533, JobText: "no room"}, {Status: 502},
				} {
					fault.Command, fault.Probability = command, 0.03
					w.cloud.Fail(fault)
				}
			}
			ids := map[string]string{} // of the NodeClaims that there are; empty before a machine is known
			var names []string
			deleting := map[string]bool{} // ids of machines whose NodeClaims are being deleted
			of := func(name string) *karpv1.NodeClaim { return claim(name) }
			launch := func(name string) error {
				got, err := w.create(context.Background(), of(name))
				if err == nil {
					ids[name] = got.ID
				}
				return err
			}
			for range 60 {
				w.clock.Step(20 * time.Second)
				if len(names) == 0 || random.IntN(3) == 0 {
					names = append(names, fmt.Sprintf("pool-%d", len(names)))
					ids[names[len(names)-1]] = ""
				}
				name := names[random.IntN(len(names))]
				id, exists := ids[name]
				switch dice := random.IntN(10); {
				case dice == 0:
					w.restart(w.client)
				case dice < 4 && exists: // core deletes a NodeClaim, or gives it up
					delete(ids, name)
					if id != "" {
						deleting[id] = true
					}
				case exists && id == "":
					_ = launch(name)
				}
				for id := range deleting {
					if cloudprovider.IsNodeClaimNotFoundError(w.provider.Delete(context.Background(), id)) {
						delete(deleting, id)
					}
				}
			}
			w.cloud.ClearFaults()
			w.clock.Step(10 * time.Minute)
			for name, id := range ids {
				if id == "" {
					if err := launch(name); err != nil {
						t.Fatalf("without faults: %v", err)
					}
				}
			}
			// What is left over is what garbage collection is for: all that List has, and that no NodeClaim has.
			known := lo.Invert(ids)
			w.settled()
			w.eventually("machines go", func() bool {
				w.clock.Step(time.Minute)
				w.settled()
				machines, err := w.provider.List(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				gone := true
				for _, m := range machines {
					if _, ok := known[m.ID]; !ok && !cloudstack.IsGone(m.State) {
						gone = false
						_ = w.provider.Delete(context.Background(), m.ID)
					}
				}
				return gone
			})
			machines := w.alive()
			if len(machines) != len(ids) {
				t.Fatalf("%d NodeClaims, and machines %s", len(ids), describe(machines))
			}
			for _, m := range machines {
				name, ok := known[m.ID]
				if !ok || m.State != fake.StateRunning || !IsNameOf(m.Name, of(name)) {
					t.Errorf("%s is of no NodeClaim, or of the wrong one (%q)", describe([]fake.VM{m}), name)
				}
			}
			for _, v := range w.cloud.Volumes() {
				if _, ok := known[v.VMID]; !ok && !v.Root {
					if m, there := w.cloud.Machine(v.VMID); !there || !cloudstack.IsGone(m.State) {
						t.Errorf("disk %s is left, of %+v", v.Name, m)
					}
				}
			}
		})
	}
}
