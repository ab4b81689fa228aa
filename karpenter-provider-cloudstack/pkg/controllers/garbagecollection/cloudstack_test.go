package garbagecollection

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/samber/lo"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudprovider"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	emulator "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instance"
)

// TestOfAnEmulatedCloudStack has all of a launch that can be left behind, and what others have, in one CloudStack, over HTTP.
func TestOfAnEmulatedCloudStack(t *testing.T) {
	ctx := context.Background()
	cloud := emulator.Default(emulator.Options{Seed: 1})
	url, stop, err := cloud.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	api, err := cloudstack.New(cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: url, APIKey: emulator.DefaultAPIKey, SecretKey: emulator.DefaultSecretKey},
		Rate:        1e6, Burst: 1e6, JobPoll: time.Millisecond, JobPollMax: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	project := cloud.AddProject(emulator.Project{Name: "nodes"})
	group := instance.GroupName(cluster, clusterUID)
	zone := emulator.IDOf("zone", emulator.ZoneA)
	tags := func(nodeClaim string) map[string]string {
		return map[string]string{csv1.TagManagedBy: cluster, csv1.TagClusterUID: clusterUID, csv1.TagNodeClaim: nodeClaim}
	}
	add := func(name string, vm emulator.VM) emulator.VM {
		vm.Name, vm.ZoneID, vm.Created = name, zone, now.Add(-time.Hour)
		vm.OfferingID, vm.TemplateID = emulator.IDOf("offering", emulator.OfferingSmall), emulator.IDOf("template", emulator.TemplateAMD64)
		return cloud.AddVM(vm)
	}
	kept := add("kept", emulator.VM{Tags: tags("general-1")})
	making := claim(2)
	c := suite.Client(t)
	suite.Create(t, c, making)
	add(instance.NodeName(making), emulator.VM{Group: group, DisplayName: group + "-x"})
	add("untagged", emulator.VM{Group: group, DisplayName: group + "-x"})
	add("tagged", emulator.VM{Tags: tags("gone"), ProjectID: project.ID})
	add("failed", emulator.VM{Group: group, DisplayName: group + "-x", State: cloudstack.StateError})
	add("someone", emulator.VM{})
	add("namesake", emulator.VM{Tags: map[string]string{csv1.TagManagedBy: cluster, csv1.TagClusterUID: "another"}})
	cloud.AddVolume(emulator.Volume{Name: "DATA-left", ZoneID: zone, Tags: tags("gone")})
	cloud.AddVolume(emulator.Volume{Name: "DATA-kept", ZoneID: zone, VMID: kept.ID, Tags: tags("general-1")})
	cloud.AddVolume(emulator.Volume{Name: "pvc-1", ZoneID: zone})

	instances := instance.NewProvider(api, nil, nil, nil, nil, instance.Options{ClusterName: cluster, ClusterUID: clusterUID})
	clk := clocktesting.NewFakePassiveClock(now)
	suite.Create(t, c, claim(1, func(n *karpv1.NodeClaim) { n.Status.ProviderID = cloudprovider.ProviderID("", kept.ID) }))
	controller := NewController(clk, c, c, &recorder{}, instances, api, nil, Options{ClusterName: cluster, ClusterUID: clusterUID, Grace: 5 * time.Minute})
	// The first cycle deletes machines, the second sees their disks left, the third deletes these.
	for _, minutes := range []int{0, 11, 22} {
		clk.SetTime(now.Add(time.Duration(minutes) * time.Minute))
		if _, err := controller.Reconcile(ctx); err != nil {
			t.Fatal(err)
		}
	}
	alive := lo.FilterMap(cloud.VMs(), func(vm emulator.VM, _ int) (string, bool) { return vm.Name, !cloudstack.IsGone(vm.State) })
	slices.Sort(alive)
	want := []string{instance.NodeName(making), "kept", "namesake", "someone"}
	slices.Sort(want)
	if !slices.Equal(alive, want) {
		t.Errorf("machines: %v, not %v", alive, want)
	}
	names := lo.FilterMap(cloud.Volumes(), func(v emulator.Volume, _ int) (string, bool) { return v.Name, !v.Root })
	slices.Sort(names)
	if want := []string{"DATA-kept", "pvc-1"}; !slices.Equal(names, want) {
		t.Errorf("disks: %v, not %v", names, want)
	}
}
