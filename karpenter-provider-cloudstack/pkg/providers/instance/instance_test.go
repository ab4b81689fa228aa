package instance

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/samber/lo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
)

func TestDelete(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, fake.Options{})
	w.class.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}}
	got := w.mustCreate(claim("pool-abcde"))
	csi := w.cloud.AddVolume(fake.Volume{Name: "pvc-1", VMID: got.ID, Tags: map[string]string{"csi": "yes"}})
	old := w.cloud.AddVolume(fake.Volume{Name: "DATA-77-1", VMID: got.ID, Created: time.Now().Add(-time.Hour)})
	if err := w.provider.Delete(ctx, got.ID); err != nil {
		t.Fatal(err)
	}
	w.settled()
	if err := w.provider.Delete(ctx, got.ID); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("have %v", err)
	}
	if _, err := w.provider.Get(ctx, got.ID); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("have %v", err)
	}
	left := lo.Map(w.cloud.Volumes(), func(v fake.Volume, _ int) string { return v.ID })
	if len(left) != 2 || !lo.Every([]string{csi.ID, old.ID}, left) {
		t.Errorf("the disk of the machine has to go, and those of others have to stay: %+v", w.cloud.Volumes())
	}
	if _, there := w.cloud.Machine(got.ID); there {
		t.Error("it has to be expunged")
	}
	if err := w.provider.Delete(ctx, "00000000-0000-4000-8000-000000000000"); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("an id that CloudStack does not know: %v", err)
	}
}

func TestDeleteRemembers(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, fake.Options{})
	got := w.mustCreate(claim("pool-abcde"))
	// The job takes its time, and the machine is shown as running at first.
	latency := w.cloud.Fail(fake.Fault{Command: "destroyVirtualMachine", JobCode: 530, JobText: "host is busy", Times: 1})
	defer latency()
	if err := w.provider.Delete(ctx, got.ID); err != nil {
		t.Fatal(err)
	}
	w.settled()
	if found, err := w.provider.Get(ctx, got.ID); err != nil || !found.Deleting {
		t.Errorf("have %+v, %v", found, err)
	}
	// The job has failed; a call some seconds later finds out, and asks again.
	if err := w.provider.Delete(ctx, got.ID); err != nil || w.count("destroyVirtualMachine") != 1 {
		t.Fatal("it was not given the time to begin")
	}
	w.clock.Step(lookAfter)
	if err := w.provider.Delete(ctx, got.ID); err != nil {
		t.Fatal(err)
	}
	w.settled()
	if err := w.provider.Delete(ctx, got.ID); !cloudprovider.IsNodeClaimNotFoundError(err) {
		t.Errorf("have %v", err)
	}
	if n := w.count("destroyVirtualMachine"); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestDeleteInFlight(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, fake.Options{JobLatency: slowDestroy(time.Minute)})
	got := w.mustCreate(claim("pool-abcde"))
	for range 3 {
		if err := w.provider.Delete(ctx, got.ID); err != nil {
			t.Fatal(err)
		}
		w.clock.Step(lookAfter)
	}
	if n := w.count("destroyVirtualMachine"); n != 1 {
		t.Errorf("%d requests while the first is on its way", n)
	}
}

func TestDeleteExpunge(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		allowed bool
		policy  bool
		command fake.Fault
		want    []string
	}{
		"as a rule":                 {allowed: true, policy: true, want: []string{"true"}},
		"not wanted":                {allowed: true, want: []string{""}},
		"not allowed":               {policy: true, want: []string{""}},
		"refused at once":           {allowed: true, policy: true, command: fake.Fault{Command: "destroyVirtualMachine", Code: 531, Times: 1}, want: []string{"true", ""}},
		"refused by the job":        {allowed: true, policy: true, command: fake.Fault{Command: "destroyVirtualMachine", JobCode: 531, Times: 1}, want: []string{"true", ""}},
		"capabilities not readable": {allowed: true, policy: true, command: fake.Fault{Command: "listCapabilities", Code: 530}, want: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fake.Options{})
			w.cloud.SetExpungeAllowed(c.allowed)
			w.options.Expunges = func(_ context.Context, nodeClass string) (bool, error) {
				if nodeClass != w.class.Name {
					t.Errorf("asked for NodeClass %q", nodeClass)
				}
				return c.policy, nil
			}
			w.restart(w.client)
			got := w.mustCreate(claim("pool-abcde"))
			w.cloud.Fail(c.command)
			w.eventually("the machine goes", func() bool {
				w.settled()
				w.clock.Step(lookAfter)
				return cloudprovider.IsNodeClaimNotFoundError(w.provider.Delete(ctx, got.ID))
			})
			var asked []string
			for _, r := range w.cloud.Requests() {
				if r.Command == "destroyVirtualMachine" {
					asked = append(asked, r.Parameters["expunge"])
				}
			}
			if strings.Join(asked, ",") != strings.Join(c.want, ",") {
				t.Errorf("expunge was %q, want %q", asked, c.want)
			}
		})
	}
}

// Reads that fail never mean that a machine is gone.
func TestReadsThatFail(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, fake.Options{})
	got := w.mustCreate(claim("pool-abcde"))
	for _, fault := range []fake.Fault{{Code: 530}, {Code: 401}, {Code: 429}, {Drop: true}, {Status: 503}, {LoseAnswer: true}} {
		fault.Command = "listVirtualMachines"
		w.cloud.Fail(fault)
		if _, err := w.provider.Get(ctx, got.ID); err == nil || cloudprovider.IsNodeClaimNotFoundError(err) {
			t.Errorf("Get with %+v: %v", fault, err)
		}
		if err := w.provider.Delete(ctx, got.ID); err == nil || cloudprovider.IsNodeClaimNotFoundError(err) {
			t.Errorf("Delete with %+v: %v", fault, err)
		}
		if machines, err := w.provider.List(ctx); err == nil || machines != nil {
			t.Errorf("List with %+v: %v", fault, machines)
		}
		w.cloud.ClearFaults()
	}
	// Each of the requests of a list counts.
	for skip := range 4 {
		seen := 0
		w.cloud.Fail(fake.Fault{Command: "listVirtualMachines", Code: 431, Text: "no", Match: func(fake.Request) bool { seen++; return seen > skip }})
		if machines, err := w.provider.List(ctx); err == nil {
			t.Errorf("request %d of the list failed, and it has %d machines", skip+1, len(machines))
		}
		w.cloud.ClearFaults()
	}
	// Disks that cannot be listed keep the machine.
	w.class.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}}
	got = w.mustCreate(claim("pool-fghij"))
	w.cloud.Fail(fake.Fault{Command: "listVolumes", Code: 530})
	if err := w.provider.Delete(ctx, got.ID); err == nil || w.count("destroyVirtualMachine") > 0 {
		t.Errorf("have %v", err)
	}
}

func TestOwnership(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, fake.Options{})
	project := w.cloud.AddProject(fake.Project{Name: "nodes"})
	group := GroupName(clusterName, clusterUID)
	ours := map[string]fake.VM{
		"with tags":          {Tags: map[string]string{csv1.TagManagedBy: clusterName, csv1.TagClusterUID: clusterUID}},
		"without tags":       {Group: group, DisplayName: group + "-x"},
		"display name only":  {DisplayName: group + "-y"},
		"in Error":           {Group: group, DisplayName: group + "-z", State: fake.StateError},
		"in a project":       {Group: group, DisplayName: group + "-p", ProjectID: project.ID},
		"tags and a project": {ProjectID: project.ID, Tags: map[string]string{csv1.TagManagedBy: clusterName, csv1.TagClusterUID: clusterUID}},
	}
	others := map[string]fake.VM{
		"another's":          {},
		"another cluster":    {Tags: map[string]string{csv1.TagManagedBy: "other", csv1.TagClusterUID: clusterUID}},
		"another's UID":      {Tags: map[string]string{csv1.TagManagedBy: clusterName, csv1.TagClusterUID: "other"}},
		"UID and our group":  {Group: group, DisplayName: group + "-o", Tags: map[string]string{csv1.TagManagedBy: clusterName, csv1.TagClusterUID: "other"}},
		"tag without UID":    {Tags: map[string]string{csv1.TagManagedBy: clusterName}},
		"longer group":       {DisplayName: group + "er-x", Group: group + "er"},
		"group of same name": {DisplayName: GroupName(clusterName, "other") + "-x", Group: GroupName(clusterName, "other")},
	}
	want := map[string]string{}
	for name, m := range ours {
		m.Name = "vm-" + strings.ReplaceAll(name, " ", "-")
		want[w.cloud.AddVM(m).ID] = name
	}
	var foreign []fake.VM
	for name, m := range others {
		m.Name = "vm-" + strings.ReplaceAll(strings.ReplaceAll(name, "'", ""), " ", "-")
		foreign = append(foreign, w.cloud.AddVM(m))
	}
	machines, err := w.provider.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, m := range machines {
		have[m.ID] = true
		if _, ok := want[m.ID]; !ok {
			t.Errorf("%s is listed, and another's", m.Name)
		}
	}
	for id, name := range want {
		if !have[id] {
			t.Errorf("one is missing: %s", name)
		}
		if _, err := w.provider.Get(ctx, id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range foreign {
		if err := w.provider.Delete(ctx, m.ID); err == nil || cloudprovider.IsNodeClaimNotFoundError(err) {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if w.count("destroyVirtualMachine") > 0 {
		t.Error("machines of others were destroyed")
	}
	for id := range want {
		if err := w.provider.Delete(ctx, id); err != nil {
			t.Errorf("%s: %v", want[id], err)
		}
	}
	w.settled()
	if n := len(w.alive()); n != len(foreign) {
		t.Errorf("%d machines are left, %d are of others", n, len(foreign))
	}
}

func TestListIsComplete(t *testing.T) {
	w := newWorld(t, fake.Options{MaxPageSize: 500})
	for i := range 1203 {
		w.cloud.AddVM(fake.VM{Name: nameOfAttempt("vm", i+2), Tags: map[string]string{csv1.TagManagedBy: clusterName, csv1.TagClusterUID: clusterUID}})
	}
	machines, err := w.provider.List(context.Background())
	if err != nil || len(machines) != 1203 {
		t.Fatalf("%d machines, %v", len(machines), err)
	}
}

// Many reads at once are few requests, also where some machines are not known any more.
func TestReadsAreMadeTogether(t *testing.T) {
	w := newWorld(t, fake.Options{})
	tags := map[string]string{csv1.TagManagedBy: clusterName, csv1.TagClusterUID: clusterUID}
	var ids []string
	for i := range 150 {
		ids = append(ids, w.cloud.AddVM(fake.VM{Name: nameOfAttempt("vm", i+2), Tags: tags}).ID)
	}
	found, err := w.provider.readAll(context.Background(), ids)
	if err != nil || len(found) != 150 || w.count("listVirtualMachines") != 2 {
		t.Fatalf("%d machines of %d requests, %v", len(found), w.count("listVirtualMachines"), err)
	}
	unknown := "00000000-0000-4000-8000-000000000000"
	found, err = w.provider.readAll(context.Background(), append(ids[:7:7], unknown))
	if err != nil || len(found) != 7 || found[unknown] != nil {
		t.Fatalf("%d machines, %v", len(found), err)
	}
}

func TestEnsureTags(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, fake.Options{})
	w.class.Spec.DataDisks = []csv1.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}}
	nodeClaim := claim("pool-abcde")
	w.cloud.Fail(fake.Fault{Command: "createTags", Code: 530})
	got := w.mustCreate(nodeClaim)
	if _, tagged := got.Tags[csv1.TagNodeClaim]; tagged {
		t.Fatal("it cannot have tags")
	}
	w.cloud.ClearFaults()
	want := w.provider.Tags(w.class, nodeClaim)
	if err := w.provider.EnsureTags(ctx, got, want); err != nil {
		t.Fatal(err)
	}
	w.only(nodeClaim, got.ID)
	for _, v := range w.cloud.Volumes() {
		if !v.Root && v.Tags[csv1.TagManagedBy] != clusterName {
			t.Errorf("the disk has %v", v.Tags)
		}
	}
	// A change is made, and nothing is written twice.
	want["team"] = "red"
	w.cloud.ResetRequests()
	for range 2 {
		if err := w.provider.EnsureTags(ctx, got, want); err != nil {
			t.Fatal(err)
		}
	}
	if w.alive()[0].Tags["team"] != "red" || got.Tags["team"] != "red" || w.count("createTags") != 2 || w.count("deleteTags") != 2 {
		t.Errorf("have %v, and requests %v", w.alive()[0].Tags, w.cloud.Counts())
	}
	// The disk is deleted with the machine, though its tags were written late.
	if err := w.provider.Delete(ctx, got.ID); err != nil {
		t.Fatal(err)
	}
	w.settled()
	if n := len(w.cloud.Volumes()); n > 0 {
		t.Errorf("%d disks are left", n)
	}
}

var hostName = regexp.MustCompile(`^[a-z][a-z0-9-]*[a-z0-9]$`)

func TestNodeName(t *testing.T) {
	name := func(claim, uid string) string {
		return NodeName(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim, UID: types.UID(uid)}})
	}
	for _, claim := range []string{"pool-abcde", "Pool.With_Odd.Chars-1", "9nines", "-", "", strings.Repeat("long-", 40), strings.Repeat("x", 51) + "-y"} {
		got := name(claim, "1")
		if len(got) > nameLength-suffixLength || !hostName.MatchString(got) {
			t.Errorf("%q is no host name, of %q", got, claim)
		}
		if got == name(claim, "2") {
			t.Errorf("%q is the name of two NodeClaims", got)
		}
		if got != name(claim, "1") {
			t.Error("a name has to stay")
		}
	}
	nodeClaim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "pool-abcde", UID: "1"}}
	base := NodeName(nodeClaim)
	for machine, want := range map[string]bool{
		base: true, base + "-2": true, base + "-99": true, base + "-1": false, base + "-100": false, base + "-02": false, base + "-x": false,
		base + "2": false, base + "-": false, "x" + base: false, "": false,
	} {
		if IsNameOf(machine, nodeClaim) != want {
			t.Errorf("%q: want %t", machine, want)
		}
	}
}

func slowDestroy(latency time.Duration) func(string, *rand.Rand) time.Duration {
	return func(command string, _ *rand.Rand) time.Duration {
		return lo.Ternary(command == "destroyVirtualMachine", latency, 0)
	}
}
