package fake_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" // as CloudStack signs
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	neturl "net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
)

var (
	zoneA, zoneB = fake.IDOf("zone", fake.ZoneA), fake.IDOf("zone", fake.ZoneB)
	networkA     = fake.IDOf("network", zoneA+"/"+fake.NetworkA)
	networkB     = fake.IDOf("network", zoneB+"/"+fake.NetworkB)
	small        = fake.IDOf("offering", fake.OfferingSmall)
	template     = fake.IDOf("template", fake.TemplateAMD64)
	noScope      = cloudstack.Scope{}
)

// start serves a small data centre, and makes the client of the provider for it, the SDK beneath.
func start(t *testing.T, options fake.Options) (*fake.CloudStack, *cloudstack.Client) {
	t.Helper()
	c := fake.Default(options)
	return c, clientOf(t, c)
}

func serve(t *testing.T, c *fake.CloudStack) string {
	t.Helper()
	url, stop, err := c.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(stop)
	return url
}

func clientOf(t *testing.T, c *fake.CloudStack) *cloudstack.Client {
	t.Helper()
	client, err := cloudstack.New(cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: serve(t, c), APIKey: fake.DefaultAPIKey, SecretKey: fake.DefaultSecretKey},
		Rate:        10000, Burst: 10000, Backoff: time.Millisecond, JobPoll: time.Millisecond, JobPollMax: 2 * time.Millisecond,
	})
	require.NoError(t, err)
	return client
}

// bounded bounds a test.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func order(name string, change ...func(*cloudstack.Deployment)) cloudstack.Deployment {
	d := cloudstack.Deployment{
		Name: name, DisplayName: "the machine " + name, Group: "karpenter-x", ZoneID: zoneA, ServiceOfferingID: small, TemplateID: template,
		NetworkIDs: []string{networkA}, UserData: base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n")),
	}
	for _, one := range change {
		one(&d)
	}
	return d
}

func deploy(t *testing.T, client *cloudstack.Client, name string, change ...func(*cloudstack.Deployment)) string {
	t.Helper()
	id, job, err := client.DeployVirtualMachine(bounded(t), order(name, change...))
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(bounded(t), job))
	return id
}

func destroy(t *testing.T, client *cloudstack.Client, id string, volumes ...string) {
	t.Helper()
	job, err := client.DestroyVirtualMachine(bounded(t), id, true, volumes)
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(bounded(t), job))
}

func TestTheCatalogue(t *testing.T) {
	c, client := start(t, fake.Options{ThrottleRequests: 1000, ThrottleInterval: 5 * time.Second})
	c.AddZone(fake.Zone{Name: "closed", Disabled: true})
	c.AddOffering(fake.Offering{Name: "old", CPU: 1, CPUSpeedMHz: 1000, MemoryMiB: 512, Inactive: true})
	c.AddNetwork(fake.Network{Name: "storage", ZoneID: zoneB, NotDeployable: true})
	c.AddTemplate(fake.Template{Name: "copying", ZoneIDs: []string{zoneA}, NotReadyZoneIDs: []string{zoneA}, SizeGiB: 4})
	ctx := bounded(t)

	zones, err := client.ListZones(ctx)
	require.NoError(t, err)
	require.Len(t, zones, 2, "users are not shown zones that are disabled")
	require.Equal(t, fake.ZoneA, zones[0].Name)
	require.Equal(t, zoneA, zones[0].Id)
	require.Equal(t, "Enabled", zones[0].Allocationstate)

	networks, err := client.ListNetworks(ctx, noScope, zoneB)
	require.NoError(t, err)
	require.Len(t, networks, 2, "those that take machines only")
	require.Equal(t, "Allocated", networks[0].State, "no machine was in it yet")
	require.Equal(t, map[string]string{"role": "nodes"}, cloudstack.TagsOf(networks[0].Tags))
	require.Equal(t, "Shared", networks[1].Type)

	templates, err := client.ListTemplates(ctx, noScope, zoneA)
	require.NoError(t, err)
	require.Len(t, templates, 3)
	require.Equal(t, "x86_64", templates[0].Arch)
	require.Equal(t, int64(10)<<30, templates[0].Size)
	require.True(t, templates[0].Isready)
	require.False(t, templates[2].Isready, "it is being copied to this zone")
	made, err := cloudstack.Created(templates[1].Created)
	require.NoError(t, err)
	require.Equal(t, time.February, made.Month())

	offerings, err := client.ListServiceOfferings(ctx, noScope)
	require.NoError(t, err)
	require.Len(t, offerings, 8, "inactive ones are left out")
	byName := map[string]*cloudstack.ServiceOffering{}
	for _, offering := range offerings {
		byName[offering.Name] = offering
	}
	require.Equal(t, 2048, byName[fake.OfferingSmall].Memory)
	require.Equal(t, fake.DedicatedHostTag, byName[fake.OfferingDedicated].Hosttags)
	require.Equal(t, 1, byName[fake.OfferingGPU].Gpucount)
	require.True(t, byName[fake.OfferingConstrained].Iscustomized)
	require.Equal(t, "8", byName[fake.OfferingConstrained].Serviceofferingdetails["maxcpunumber"])
	require.Zero(t, byName[fake.OfferingConstrained].Memory)

	groups, err := client.ListSecurityGroups(ctx, noScope)
	require.NoError(t, err)
	require.Len(t, groups, 1)

	capability, err := client.ListCapabilities(ctx)
	require.NoError(t, err)
	require.True(t, capability.Allowuserexpungerecovervm)
	require.Equal(t, 1000, capability.Apilimitmax)
	require.Equal(t, 5, capability.Apilimitinterval)

	_, err = client.ListNetworks(ctx, noScope, "11111111-2222-3333-4444-555555555555")
	require.True(t, cloudstack.IsNotFound(err), "a zone that never was: %v", err)
	_, err = client.ListTemplates(ctx, cloudstack.Scope{Account: "other", DomainID: "d"}, zoneA)
	require.True(t, cloudstack.IsBadRequest(err), "an account that is not there: %v", err)
	_, err = client.ListNetworks(ctx, cloudstack.Scope{Account: "other", DomainID: "d"}, zoneA)
	require.True(t, cloudstack.IsBadRequest(err), "an account that is not there: %v", err)
}

func TestTheLifeOfAMachine(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	c, client := start(t, fake.Options{Clock: clock, JobLatency: fake.Between(20*time.Second, 20*time.Second)})
	var told []string
	c.OnRunning(func(vm fake.VM) { told = append(told, vm.Name+" runs") })
	stop := c.OnGone(func(vm fake.VM) { told = append(told, vm.Name+" is gone") })
	ctx := bounded(t)

	id, job, err := client.DeployVirtualMachine(ctx, order("node-1", func(d *cloudstack.Deployment) {
		d.RootDiskGiB = 30
		d.SSHKeyPairs = []string{fake.KeyPairOps}
		d.Details = map[string]string{"rootDiskController": "virtio"}
	}))
	require.NoError(t, err)
	machines, err := client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{id}})
	require.NoError(t, err)
	require.Len(t, machines, 1, "the row is there before the job has ended")
	require.Equal(t, cloudstack.StateStarting, machines[0].State)
	require.Empty(t, told)

	clock.Step(19 * time.Second)
	c.Settle()
	require.Equal(t, 1, c.PendingJobs(), "the job takes 20 s")
	clock.Step(time.Second)
	require.NoError(t, client.WaitForJob(ctx, job))
	machines, err = client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{Name: "node-1"})
	require.NoError(t, err)
	require.Len(t, machines, 1)
	vm := machines[0]
	require.Equal(t, cloudstack.StateRunning, vm.State)
	require.Equal(t, "the machine node-1", vm.Displayname)
	require.Equal(t, "karpenter-x", vm.Group)
	require.Equal(t, fake.OfferingSmall, vm.Serviceofferingname)
	require.Equal(t, fake.ZoneA, vm.Zonename)
	require.Equal(t, networkA, vm.Nic[0].Networkid)
	require.NotEmpty(t, vm.Ipaddress)
	require.Equal(t, "virtio", vm.Details["rootDiskController"])
	require.Equal(t, fake.KeyPairOps, vm.Keypairs)
	at, err := cloudstack.Created(vm.Created)
	require.NoError(t, err)
	require.True(t, at.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), "it was made when it was asked for: %s", at)
	networks, err := client.ListNetworks(ctx, noScope, zoneA)
	require.NoError(t, err)
	require.Equal(t, "Implemented", networks[0].State, "a machine runs in it")

	job, err = client.DestroyVirtualMachine(ctx, id, true, nil)
	require.NoError(t, err)
	state := func() string {
		vm, _ := c.Machine(id)
		return vm.State
	}
	require.Equal(t, cloudstack.StateStopping, state())
	clock.Step(4 * time.Second)
	require.NoError(t, client.WaitForJob(ctx, job))
	require.Empty(t, state())
	machines, err = client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{id}})
	require.NoError(t, err, "an id that was is no error")
	require.Empty(t, machines)
	job, err = client.DestroyVirtualMachine(ctx, id, true, nil)
	require.NoError(t, err)
	clock.Step(4 * time.Second)
	require.True(t, cloudstack.IsNotFound(client.WaitForJob(ctx, job)), "the job finds no machine")
	machines, err = client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{"11111111-2222-3333-4444-555555555555"}})
	require.NoError(t, err, "an id that never was is an error of the API, and none of the client")
	require.Empty(t, machines)
	_, err = client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{id, "11111111-2222-3333-4444-555555555555"}})
	require.True(t, cloudstack.IsNotFound(err), "one such id has all refused: %v", err)
	_, err = client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{id, id}})
	require.NoError(t, err, "ids that were are left out")
	require.Equal(t, []string{"node-1 runs", "node-1 is gone"}, told)

	stop()
	id, job, err = client.DeployVirtualMachine(ctx, order("node-1"))
	require.NoError(t, err, "the name is free again")
	// Jobs of a machine come one after the other.
	destruction, err := client.DestroyVirtualMachine(ctx, id, true, nil)
	require.NoError(t, err)
	clock.Step(10 * time.Second)
	c.Settle()
	require.Equal(t, cloudstack.StateStarting, state())
	clock.Step(14 * time.Second)
	require.NoError(t, client.WaitForJob(ctx, job))
	require.NoError(t, client.WaitForJob(ctx, destruction))
	require.Len(t, told, 3, "it ran, and the hook for machines that are gone was taken away")
}

func TestCredentials(t *testing.T) {
	c, client := start(t, fake.Options{})
	url := serve(t, c)
	ctx := bounded(t)
	for name, credentials := range map[string]cloudstack.Credentials{
		"another secret": {URL: url, APIKey: fake.DefaultAPIKey, SecretKey: "wrong"},
		"another key":    {URL: url, APIKey: "wrong", SecretKey: fake.DefaultSecretKey},
	} {
		require.NoError(t, client.SetCredentials(credentials))
		_, err := client.ListZones(ctx)
		require.True(t, cloudstack.IsUnauthorized(err), "%s: %v", name, err)
		_, _, err = client.DeployVirtualMachine(ctx, order("node"))
		require.True(t, cloudstack.IsUnauthorized(err), "%s: %v", name, err)
	}
	require.Empty(t, c.VMs())
	c.SetCredentials("new key", "new secret / with * and + in it")
	require.NoError(t, client.SetCredentials(cloudstack.Credentials{URL: url, APIKey: "new key", SecretKey: "new secret / with * and + in it"}))
	_, err := client.ListZones(ctx)
	require.NoError(t, err)
	// What is in the parameters is signed as it is.
	for _, name := range []string{"a b", "a+b", "a*b", "ä", "a&b=c", "a/b?c", "A-Z_.", "100%"} {
		_, err := client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{TagKey: "k", TagValue: name})
		require.NoError(t, err, name)
		_, err = client.CreateTags(ctx, cloudstack.ResourceVirtualMachine, []string{"x"}, map[string]string{name: name})
		require.NoError(t, err, name)
	}
	// The server escapes as Java does: ~ is %7E, where the SDK leaves it as it is.
	ask := func(signedAs string) int {
		query := "apiKey=new%20key&command=listZones&name=" + signedAs + "&response=json"
		mac := hmac.New(sha1.New, []byte("new secret / with * and + in it"))
		mac.Write([]byte(strings.ToLower(query)))
		response, err := http.Get(url + "?" + query + "&signature=" + neturl.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil))))
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, 200, ask("a%7Eb"))
	require.Equal(t, 401, ask("a~b"))
	c.SetClockSkew(14 * time.Minute)
	_, err = client.ListZones(ctx)
	require.NoError(t, err, "requests are good for a quarter of an hour")
	c.SetClockSkew(16 * time.Minute)
	_, err = client.ListZones(ctx)
	require.True(t, cloudstack.IsUnauthorized(err), "the request has expired: %v", err)
}

func TestWhatIsRefusedAtOnce(t *testing.T) {
	_, client := start(t, fake.Options{})
	deploy(t, client, "taken")
	for name, test := range map[string]struct {
		change func(*cloudstack.Deployment)
		is     func(error) bool
		text   string
	}{
		"a template that is not there": {
			func(d *cloudstack.Deployment) { d.TemplateID = small }, cloudstack.IsNotFound, "templateid",
		},
		"no zone": {func(d *cloudstack.Deployment) { d.ZoneID = "" }, cloudstack.IsBadRequest, "missing parameter zoneid"},
		"a network of another zone": {
			func(d *cloudstack.Deployment) { d.NetworkIDs = []string{networkB} }, cloudstack.IsBadRequest, "doesn't belong to zone",
		},
		"a name that is taken":       {func(d *cloudstack.Deployment) { d.Name = "taken" }, cloudstack.IsNameTaken, "taken"},
		"a name that is none":        {func(d *cloudstack.Deployment) { d.Name = "9.node" }, cloudstack.IsBadRequest, "Invalid name"},
		"a name that is too long":    {func(d *cloudstack.Deployment) { d.Name = strings.Repeat("n", 64) }, cloudstack.IsBadRequest, "Invalid name"},
		"user data that is too long": {func(d *cloudstack.Deployment) { d.UserData = userData(24577) }, cloudstack.IsBadRequest, "max.length"},
		"user data that is not encoded": {
			func(d *cloudstack.Deployment) { d.UserData = "#!/bin/sh" }, cloudstack.IsBadRequest, "base64",
		},
		"a key pair that is not there": {
			func(d *cloudstack.Deployment) { d.SSHKeyPairs = []string{"nobody"} }, cloudstack.IsBadRequest, "key pair",
		},
		"security groups in a zone without": {
			func(d *cloudstack.Deployment) { d.SecurityGroupIDs = []string{fake.IDOf("securitygroup", "default")} }, cloudstack.IsBadRequest, "not enabled",
		},
		"a root disk smaller than the template": {func(d *cloudstack.Deployment) { d.RootDiskGiB = 5 }, cloudstack.IsBadRequest, "smaller"},
		"a size to be told, and none": {
			func(d *cloudstack.Deployment) { d.ServiceOfferingID = fake.IDOf("offering", fake.OfferingConstrained) }, cloudstack.IsBadRequest, "custom",
		},
		"a size out of bounds": {func(d *cloudstack.Deployment) {
			d.ServiceOfferingID, d.CPUNumber, d.MemoryMiB = fake.IDOf("offering", fake.OfferingConstrained), 9, 4096
		}, cloudstack.IsBadRequest, "between 1 and 8"},
		"a disk without a size": {func(d *cloudstack.Deployment) {
			d.DataDisks = []cloudstack.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingCustom)}}
		}, cloudstack.IsBadRequest, "size"},
		"an affinity group that is not there": {
			func(d *cloudstack.Deployment) { d.AffinityGroupIDs = []string{small} }, cloudstack.IsNotFound, "affinitygroupids",
		},
		"a project that is not there": {
			func(d *cloudstack.Deployment) { d.Scope.ProjectID = small }, cloudstack.IsNotFound, "projectid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := client.DeployVirtualMachine(bounded(t), order("node", test.change))
			require.Error(t, err)
			require.True(t, test.is(err), "%v", err)
			require.Contains(t, err.Error(), test.text)
		})
	}
	machines, err := client.ListVirtualMachines(bounded(t), noScope, cloudstack.MachineQuery{})
	require.NoError(t, err)
	require.Len(t, machines, 1, "nothing that was refused has left a row")

	id := deploy(t, client, "sized", func(d *cloudstack.Deployment) {
		d.ServiceOfferingID, d.CPUNumber, d.MemoryMiB = fake.IDOf("offering", fake.OfferingConstrained), 3, 5120
		d.UserData = userData(24576)
	})
	machines, err = client.ListVirtualMachines(bounded(t), noScope, cloudstack.MachineQuery{IDs: []string{id}})
	require.NoError(t, err)
	require.Equal(t, 3, machines[0].Cpunumber)
	require.Equal(t, 5120, machines[0].Memory)
	require.Equal(t, 2000, machines[0].Cpuspeed)
}

// What the provider takes for too long is what CloudStack does, to the byte.
func TestTheLimitsOfUserDataAgree(t *testing.T) {
	for limit, lengths := range map[int][]int{
		0: {6000, 24573, 24574, 24576, 24577, 24579, 32768}, 5000: {3747, 3748, 3750, 3751, 3753}, 1 << 20: {786428, 786429, 786430, 786432, 786433},
	} {
		c, client := start(t, fake.Options{MaxUserData: limit})
		renders := bootstrap.NewProvider(nil, nil, clock.RealClock{}, bootstrap.Options{MaxBytes: limit})
		verdicts := map[bool]int{}
		for _, length := range lengths {
			// A configuration of Ignition is never packed.
			text := "{" + strings.Repeat(" ", length-1)
			_, err := renders.Render(t.Context(), bootstrap.Request{
				NodeClass: &csv1.CloudStackNodeClass{Spec: csv1.CloudStackNodeClassSpec{UserData: &text}}, NodeClaim: &karpv1.NodeClaim{}, NodeName: "node",
			})
			job, _, refused := client.DeployVirtualMachine(bounded(t), order(fmt.Sprintf("node-%d", length), func(d *cloudstack.Deployment) {
				d.UserData = base64.StdEncoding.EncodeToString([]byte(text))
			}))
			verdicts[err == nil]++
			require.Equal(t, err == nil, refused == nil, "%d bytes of %d: the provider says %v, CloudStack %v (%s)", length, limit, err, refused, job)
		}
		require.Len(t, verdicts, 2, "some are taken, and some refused")
		require.Len(t, c.VMs(), verdicts[true])
	}
}

// What an offering dictates takes priority over what is asked for.
func TestTheSizeOfTheRootDisk(t *testing.T) {
	c, client := start(t, fake.Options{})
	fixed, custom := fake.IDOf("diskoffering", fake.DiskOfferingSmall), fake.IDOf("diskoffering", fake.DiskOfferingCustom)
	xlarge := fake.IDOf("offering", fake.OfferingXLarge)
	for i, test := range []struct {
		offering, disk string
		asked, gib     int64
	}{
		{small, "", 0, 10}, {small, "", 30, 30}, {xlarge, "", 0, 50}, {xlarge, "", 30, 50}, {small, fixed, 0, 20}, {xlarge, fixed, 30, 20}, {xlarge, custom, 30, 30},
	} {
		id := deploy(t, client, fmt.Sprintf("node-%d", i), func(d *cloudstack.Deployment) {
			d.ServiceOfferingID, d.RootDiskOfferingID, d.RootDiskGiB = test.offering, test.disk, test.asked
		})
		vm, _ := c.Machine(id)
		require.Equal(t, test.gib, vm.RootDiskGiB, "%+v", test)
	}
	_, _, err := client.DeployVirtualMachine(bounded(t), order("no-size", func(d *cloudstack.Deployment) { d.RootDiskOfferingID = custom }))
	require.True(t, cloudstack.IsBadRequest(err), "%v", err)
	require.ErrorContains(t, err, "requires a custom size")
}

// userData is of a length.
func userData(length int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("#", length)))
}

func TestWhereThereIsNoRoom(t *testing.T) {
	gpu := fake.IDOf("offering", fake.OfferingGPU)
	for name, test := range map[string]struct {
		before func(*fake.CloudStack)
		is     func(error) bool
		isNot  func(error) bool
	}{
		"no host of the tags":        {func(c *fake.CloudStack) { c.SetCapacity(zoneA, fake.GPUHosts, 0) }, cloudstack.IsInsufficientCapacity, cloudstack.IsNoAddress},
		"no host for the offering":   {func(c *fake.CloudStack) { c.SetOfferingCapacity(zoneA, gpu, 0) }, cloudstack.IsInsufficientCapacity, cloudstack.IsLimit},
		"a fault of the job":         {func(c *fake.CloudStack) { c.Fail(fake.Fault{Command: "deployVirtualMachine", Times: 1, JobCode: 534}) }, cloudstack.IsInsufficientCapacity, cloudstack.IsLimit},
		"no address in the network":  {func(c *fake.CloudStack) { addresses(c, 1, 0) }, cloudstack.IsNoAddress, cloudstack.IsLimit},
		"no address, with code 535":  {func(c *fake.CloudStack) { addresses(c, 1, 535) }, cloudstack.IsNoAddress, cloudstack.IsLimit},
		"a job that fails otherwise": {func(c *fake.CloudStack) { c.Fail(fake.Fault{Command: "deployVirtualMachine", Times: 1, JobCode: 530}) }, isCode(530), cloudstack.IsInsufficientCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			c, client := start(t, fake.Options{})
			ctx := bounded(t)
			deploy(t, client, "other")
			test.before(c)
			withGPU := func(d *cloudstack.Deployment) {
				d.ServiceOfferingID = gpu
				d.DataDisks = []cloudstack.DataDisk{{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)}}
			}
			id, job, err := client.DeployVirtualMachine(ctx, order("node", withGPU))
			require.NoError(t, err, "the job finds out")
			err = client.WaitForJob(ctx, job)
			require.Error(t, err)
			require.True(t, test.is(err), "%v", err)
			require.False(t, test.isNot(err), "%v", err)

			machines, err := client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{id}})
			require.NoError(t, err)
			require.Len(t, machines, 1, "the row stays")
			require.Equal(t, cloudstack.StateError, machines[0].State)
			require.Len(t, c.Volumes(), 1, "its disks do not")
			_, _, err = client.DeployVirtualMachine(ctx, order("node", withGPU))
			require.True(t, cloudstack.IsNameTaken(err), "nor is the name free: %v", err)
			var told *cloudstack.Error
			require.ErrorAs(t, err, &told)
			require.Equal(t, 4350, told.ExceptionCode)

			c.SetCapacity(zoneA, fake.GPUHosts, -1)
			c.SetOfferingCapacity(zoneA, gpu, -1)
			addresses(c, 0, 0)
			destroy(t, client, id)
			deploy(t, client, "node", withGPU)
		})
	}
}

func isCode(code int) func(error) bool {
	return func(err error) bool {
		told, is := err.(*cloudstack.Error) //nolint:errorlint // as the client returns it
		return is && told.Code == code
	}
}

func addresses(c *fake.CloudStack, number, code int) {
	c.AddNetwork(fake.Network{Name: fake.NetworkA, ZoneID: zoneA, Addresses: number, AddressCode: code})
}

func TestCapacityIsCounted(t *testing.T) {
	c, client := start(t, fake.Options{})
	c.SetCapacity(zoneA, "", 20)
	var mu sync.Mutex
	var deploying sync.WaitGroup
	ran, none := map[string]bool{}, 0
	for i := range 30 {
		deploying.Go(func() {
			id, job, err := client.DeployVirtualMachine(t.Context(), order(fmt.Sprintf("node-%d", i)))
			if err == nil {
				err = client.WaitForJob(t.Context(), job)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				ran[id] = true
			case cloudstack.IsInsufficientCapacity(err):
				none++
			default:
				t.Errorf("node-%d: %v", i, err)
			}
		})
	}
	deploying.Wait()
	require.Len(t, ran, 20)
	require.Equal(t, 10, none)
	deploy(t, client, "elsewhere", func(d *cloudstack.Deployment) { d.ZoneID, d.NetworkIDs = zoneB, []string{networkB} })
	deploy(t, client, "dedicated", func(d *cloudstack.Deployment) { d.ServiceOfferingID = fake.IDOf("offering", fake.OfferingDedicated) })
	for id := range ran {
		destroy(t, client, id)
		break
	}
	deploy(t, client, "instead")
	byState := map[string]int{}
	for _, vm := range c.VMs() {
		byState[vm.State]++
	}
	require.Equal(t, map[string]int{cloudstack.StateRunning: 22, cloudstack.StateError: 10}, byState)
}

func TestLimits(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)
	c.SetLimit("", fake.Limit{CPUs: 3})
	deploy(t, client, "one", func(d *cloudstack.Deployment) { d.ServiceOfferingID = fake.IDOf("offering", fake.OfferingMedium) })
	_, _, err := client.DeployVirtualMachine(ctx, order("two", func(d *cloudstack.Deployment) { d.ServiceOfferingID = fake.IDOf("offering", fake.OfferingMedium) }))
	require.True(t, cloudstack.IsLimit(err), "4 CPUs of 3: %v", err)
	require.Len(t, c.VMs(), 1, "what a limit refuses leaves no row")
	deploy(t, client, "three")
	c.SetLimit("", fake.Limit{Machines: 2, Code: 532})
	_, _, err = client.DeployVirtualMachine(ctx, order("four"))
	require.True(t, cloudstack.IsLimit(err), "%v", err)
	require.False(t, cloudstack.IsInsufficientCapacity(err), "532 is of accounts: %v", err)
	project := c.AddProject(fake.Project{Name: "p"})
	inProject := func(d *cloudstack.Deployment) { d.Scope.ProjectID, d.NetworkIDs = project.ID, nil }
	_, _, err = client.DeployVirtualMachine(ctx, order("five", inProject))
	require.True(t, cloudstack.IsBadRequest(err), "the project has no network: %v", err)
	network := c.AddNetwork(fake.Network{Name: "p", ZoneID: zoneA, ProjectID: project.ID})
	deploy(t, client, "five", inProject)
	_, _, err = client.DeployVirtualMachine(ctx, order("six", func(d *cloudstack.Deployment) { d.NetworkIDs = []string{network.ID} }))
	require.True(t, cloudstack.IsUnauthorized(err), "a network of a project is for its machines: %v", err)

	machines, err := client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{})
	require.NoError(t, err)
	require.Len(t, machines, 2, "machines of projects are shown only where the project is named")
	machines, err = client.ListVirtualMachines(ctx, cloudstack.Scope{ProjectID: project.ID}, cloudstack.MachineQuery{})
	require.NoError(t, err)
	require.Len(t, machines, 1)
	require.Equal(t, project.ID, machines[0].Projectid)
	inProjectID := machines[0].Id
	machines, err = client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{inProjectID}})
	require.NoError(t, err)
	require.Empty(t, machines, "not even by its id")
	machines, err = client.ListVirtualMachines(ctx, cloudstack.Scope{ProjectID: "-1"}, cloudstack.MachineQuery{})
	require.NoError(t, err)
	require.Len(t, machines, 3, "-1 is for all projects, and with listall for what is in none too")
	machines, err = client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{Keyword: "machine thr"})
	require.NoError(t, err)
	require.Len(t, machines, 1, "a keyword is a part of the name or of the display name")
}

// Who finds what of machines in and out of projects has changed with 4.18.1.
func TestWhoSeesMachinesOfProjects(t *testing.T) {
	for name, test := range map[string]struct {
		options             fake.Options
		none, all, byItsOwn int
	}{
		"a user":                  {fake.Options{}, 1, 2, 0},
		"a user before 4.18.1":    {fake.Options{ProjectsApart: true}, 1, 1, 0},
		"an administrator":        {fake.Options{Admin: true}, 1, 2, 1},
		"an administrator before": {fake.Options{Admin: true, ProjectsApart: true}, 1, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, client := start(t, test.options)
			c.AddVM(fake.VM{Name: "of-none"})
			vm := c.AddVM(fake.VM{Name: "of-p", ProjectID: c.AddProject(fake.Project{Name: "p"}).ID})
			count := func(scope cloudstack.Scope, query cloudstack.MachineQuery) int {
				machines, err := client.ListVirtualMachines(bounded(t), scope, query)
				require.NoError(t, err)
				return len(machines)
			}
			require.Equal(t, test.none, count(noScope, cloudstack.MachineQuery{}), "no project is named")
			require.Equal(t, test.all, count(cloudstack.Scope{ProjectID: "-1"}, cloudstack.MachineQuery{}), "all projects")
			require.Equal(t, 1, count(cloudstack.Scope{ProjectID: vm.ProjectID}, cloudstack.MachineQuery{}), "its project is named")
			require.Equal(t, test.byItsOwn, count(noScope, cloudstack.MachineQuery{IDs: []string{vm.ID}}), "by its id")
			raw := sdk.NewClient(serve(t, c), fake.DefaultAPIKey, fake.DefaultSecretKey, false)
			parameters := raw.VirtualMachine.NewListVirtualMachinesParams()
			parameters.SetProjectid("-1")
			answer, err := raw.VirtualMachine.ListVirtualMachines(parameters)
			require.NoError(t, err)
			require.Equal(t, 1, answer.Count, "all projects, without listall")
		})
	}
}

func TestTags(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)
	one, two, three := deploy(t, client, "one"), deploy(t, client, "two"), deploy(t, client, "three")
	tag := func(ids []string, tags map[string]string) error {
		job, err := client.CreateTags(ctx, cloudstack.ResourceVirtualMachine, ids, tags)
		require.NoError(t, err)
		return client.WaitForJob(ctx, job)
	}
	require.NoError(t, tag([]string{one, two}, map[string]string{"cluster": "a", "pool": "x"}))
	require.NoError(t, tag([]string{three}, map[string]string{"cluster": "b"}))
	require.Error(t, tag([]string{three, one}, map[string]string{"pool": "y"}), "one has it already")
	require.Error(t, tag([]string{three}, map[string]string{"empty": ""}), "values are needed")
	err := tag([]string{three, "11111111-2222-3333-4444-555555555555"}, map[string]string{"pool": "y"})
	require.True(t, cloudstack.IsBadRequest(err), "%v", err)
	vm, _ := c.Machine(three)
	require.Equal(t, map[string]string{"cluster": "b"}, vm.Tags, "all or none")

	list := func(query cloudstack.MachineQuery) []string {
		machines, err := client.ListVirtualMachines(ctx, noScope, query)
		require.NoError(t, err)
		names := []string{}
		for _, vm := range machines {
			names = append(names, vm.Name)
		}
		return names
	}
	require.Equal(t, []string{"one", "two"}, list(cloudstack.MachineQuery{TagKey: "cluster", TagValue: "a"}))
	require.Empty(t, list(cloudstack.MachineQuery{TagKey: "cluster", TagValue: "c"}))
	require.Equal(t, []string{"two", "three"}, list(cloudstack.MachineQuery{IDs: []string{three, two}}))

	raw := sdk.NewClient(serve(t, c), fake.DefaultAPIKey, fake.DefaultSecretKey, true)
	query := raw.VirtualMachine.NewListVirtualMachinesParams()
	query.SetTags(map[string]string{"cluster": "b", "pool": "x"})
	answer, err := raw.VirtualMachine.ListVirtualMachines(query)
	require.NoError(t, err)
	require.Equal(t, 3, answer.Count, "tags are ORed")
	query.SetTags(map[string]string{"cluster": ""})
	_, err = raw.VirtualMachine.ListVirtualMachines(query)
	require.ErrorContains(t, err, "431", "a filter needs key and value")
	query = raw.VirtualMachine.NewListVirtualMachinesParams()
	query.SetName("t")
	answer, err = raw.VirtualMachine.ListVirtualMachines(query)
	require.NoError(t, err)
	require.Equal(t, 2, answer.Count, "names are patterns")
	require.Empty(t, list(cloudstack.MachineQuery{Name: "t"}), "the client wants the whole name")

	job, err := client.DeleteTags(ctx, cloudstack.ResourceVirtualMachine, []string{one}, []string{"pool"})
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(ctx, job))
	vm, _ = c.Machine(one)
	require.Equal(t, map[string]string{"cluster": "a"}, vm.Tags)
	job, err = client.DeleteTags(ctx, cloudstack.ResourceVirtualMachine, []string{one}, []string{"pool"})
	require.NoError(t, err)
	require.Error(t, client.WaitForJob(ctx, job), "there is none any more")

	destroy(t, client, two)
	require.Equal(t, []string{"one"}, list(cloudstack.MachineQuery{TagKey: "cluster", TagValue: "a"}), "tags vanish with their machine")
	require.Error(t, tag([]string{two}, map[string]string{"late": "1"}))
}

func TestLongLists(t *testing.T) {
	c, client := start(t, fake.Options{})
	for i := range 1201 {
		c.AddVM(fake.VM{Name: fmt.Sprintf("node-%04d", i), ZoneID: zoneA, OfferingID: small, TemplateID: template, Tags: map[string]string{"cluster": "a"}})
	}
	c.AddVM(fake.VM{Name: "foreign", ZoneID: zoneA, OfferingID: small})
	c.ResetRequests()
	machines, err := client.ListVirtualMachines(bounded(t), noScope, cloudstack.MachineQuery{TagKey: "cluster", TagValue: "a"})
	require.NoError(t, err)
	require.Len(t, machines, 1201)
	require.Equal(t, map[string]int{"listVirtualMachines": 3}, c.Counts())
	seen := map[string]bool{}
	for _, vm := range machines {
		require.False(t, seen[vm.Id], "each once")
		seen[vm.Id] = true
	}

	// A machine that goes while the list is read moves the others to the page before.
	c.Fail(fake.Fault{Command: "listVirtualMachines", Times: 1, Match: func(r fake.Request) bool { return r.Parameters["page"] == "2" },
		Before: func(fake.Request) { c.RemoveVM(machines[0].Id) }})
	again, err := client.ListVirtualMachines(bounded(t), noScope, cloudstack.MachineQuery{TagKey: "cluster", TagValue: "a"})
	require.NoError(t, err)
	require.Len(t, again, 1200)
	delete(seen, machines[0].Id)
	for _, vm := range again {
		delete(seen, vm.Id)
	}
	require.Empty(t, seen, "none is passed over")

	c.Fail(fake.Fault{Command: "listVirtualMachines", Match: func(r fake.Request) bool { return r.Parameters["page"] == "2" }, Code: 530})
	machines, err = client.ListVirtualMachines(bounded(t), noScope, cloudstack.MachineQuery{TagKey: "cluster", TagValue: "a"})
	require.Error(t, err, "a part of a list is none")
	require.Empty(t, machines)
	c.ClearFaults()

	raw := sdk.NewClient(serve(t, c), fake.DefaultAPIKey, fake.DefaultSecretKey, true)
	query := raw.VirtualMachine.NewListVirtualMachinesParams()
	answer, err := raw.VirtualMachine.ListVirtualMachines(query)
	require.NoError(t, err)
	require.Equal(t, 1201, answer.Count)
	require.Len(t, answer.VirtualMachines, 500, "who asks for no page gets the first")
	query.SetPage(1)
	_, err = raw.VirtualMachine.ListVirtualMachines(query)
	require.ErrorContains(t, err, "pagesize")
	query.SetPagesize(501)
	_, err = raw.VirtualMachine.ListVirtualMachines(query)
	require.ErrorContains(t, err, "page size")
	query.SetPagesize(500)
	query.SetPage(4)
	answer, err = raw.VirtualMachine.ListVirtualMachines(query)
	require.NoError(t, err)
	require.Empty(t, answer.VirtualMachines)
}

func TestFaults(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)

	takeBack := c.Fail(fake.Fault{Command: "listZones", Code: 530, Text: "the database is away", Times: 2})
	_, err := client.ListZones(ctx)
	require.NoError(t, err, "what only reads is asked again")
	require.Equal(t, 3, c.Counts()["listZones"])
	takeBack()

	c.Fail(fake.Fault{Command: "listZones", Code: 530, Text: "the database is away"})
	_, err = client.ListZones(ctx)
	require.ErrorContains(t, err, "the database is away")
	c.ClearFaults()

	// The answer to a deployment is lost: it was made, and must not be made again.
	c.Fail(fake.Fault{Command: "deployVirtualMachine", LoseAnswer: true, Times: 1})
	_, _, err = client.DeployVirtualMachine(ctx, order("node"))
	require.True(t, cloudstack.IsUnknownResult(err), "%v", err)
	require.Len(t, c.VMs(), 1)
	require.Equal(t, 1, c.Counts()["deployVirtualMachine"])
	_, _, err = client.DeployVirtualMachine(ctx, order("node"))
	require.True(t, cloudstack.IsNameTaken(err), "%v", err)

	// The request is lost: nothing was made.
	c.Fail(fake.Fault{Command: "deployVirtualMachine", Drop: true, Times: 1})
	_, _, err = client.DeployVirtualMachine(ctx, order("other"))
	require.True(t, cloudstack.IsUnknownResult(err), "%v", err)
	require.Len(t, c.VMs(), 1)

	// Something between answers.
	c.Fail(fake.Fault{Command: "deployVirtualMachine", Status: 502, Times: 1})
	_, _, err = client.DeployVirtualMachine(ctx, order("other"))
	require.True(t, cloudstack.IsUnknownResult(err), "%v", err)
	require.Len(t, c.VMs(), 1)

	// An error of CloudStack is no unknown result.
	c.Fail(fake.Fault{Command: "deployVirtualMachine", Code: 431, ExceptionCode: 4350, Text: "The vm with hostName other already exists in the network domain: x", Times: 1})
	_, _, err = client.DeployVirtualMachine(ctx, order("other"))
	require.True(t, cloudstack.IsNameTaken(err), "%v", err)
	require.False(t, cloudstack.IsUnknownResult(err))

	// A request that takes longer than its context.
	c.Fail(fake.Fault{Command: "deployVirtualMachine", Delay: time.Minute, Times: 1})
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, _, err = client.DeployVirtualMachine(short, order("other"))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	// What happens before the work and after it can be seen.
	var seen []int
	c.Fail(fake.Fault{
		Command: "deployVirtualMachine", Times: 1, Match: func(r fake.Request) bool { return r.Parameters["name"] == "watched" },
		Before: func(fake.Request) { seen = append(seen, count(c, "watched")) }, After: func(fake.Request) { seen = append(seen, count(c, "watched")) },
	})
	deploy(t, client, "unwatched")
	deploy(t, client, "watched")
	require.Equal(t, []int{0, 1}, seen)

	c.SetDown(true)
	_, err = client.ListZones(ctx)
	require.True(t, cloudstack.IsUnknownResult(err), "%v", err)
	c.SetDown(false)
	_, err = client.ListZones(ctx)
	require.NoError(t, err)
}

func count(c *fake.CloudStack, name string) int {
	n := 0
	for _, vm := range c.VMs() {
		if vm.Name == name {
			n++
		}
	}
	return n
}

func TestFaultsByChance(t *testing.T) {
	hit := func(seed uint64) []int {
		c, client := start(t, fake.Options{Seed: seed})
		c.Fail(fake.Fault{Command: "deployVirtualMachine", Code: 530, Probability: 0.3})
		var hits []int
		for i := range 40 {
			if _, _, err := client.DeployVirtualMachine(bounded(t), order(fmt.Sprintf("node-%d", i))); err != nil {
				hits = append(hits, i)
			}
		}
		return hits
	}
	first := hit(7)
	require.Greater(t, len(first), 3)
	require.Less(t, len(first), 25)
	require.Equal(t, first, hit(7), "the same seed does the same")
	require.NotEqual(t, first, hit(8))
}

func TestTheSameIDsInEachRun(t *testing.T) {
	made := func(seed uint64) string {
		_, client := start(t, fake.Options{Seed: seed})
		return deploy(t, client, "node")
	}
	require.Equal(t, made(1), made(1))
	require.NotEqual(t, made(1), made(2))
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, made(1))
}

func TestThrottling(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)
	c.SetThrottle(3, time.Hour)
	for range 3 {
		_, err := client.ListZones(ctx)
		require.NoError(t, err)
	}
	_, err := client.ListZones(ctx)
	require.True(t, cloudstack.IsThrottled(err), "%v", err)
	_, _, err = client.DeployVirtualMachine(ctx, order("node"))
	require.True(t, cloudstack.IsThrottled(err), "%v", err)
	require.Empty(t, c.VMs())
	c.SetThrottle(1, 5*time.Millisecond)
	for range 5 {
		_, err := client.ListZones(ctx)
		require.NoError(t, err, "it is asked again, until there is room")
	}
}

func TestWithoutPermissionToExpunge(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)
	c.SetExpungeAllowed(false)
	var gone []string
	c.OnGone(func(vm fake.VM) { gone = append(gone, vm.Name) })
	id := deploy(t, client, "node")
	capability, err := client.ListCapabilities(ctx)
	require.NoError(t, err)
	require.False(t, capability.Allowuserexpungerecovervm)
	job, err := client.DestroyVirtualMachine(ctx, id, true, nil)
	require.NoError(t, err)
	err = client.WaitForJob(ctx, job)
	require.ErrorContains(t, err, "expunge can be passed by Admin only", "the job refuses it")
	vm, there := c.Machine(id)
	require.True(t, there)
	require.Equal(t, cloudstack.StateRunning, vm.State)

	job, err = client.DestroyVirtualMachine(ctx, id, false, nil)
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(ctx, job))
	vm, there = c.Machine(id)
	require.True(t, there)
	require.Equal(t, cloudstack.StateDestroyed, vm.State)
	machines, err := client.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{id}})
	require.NoError(t, err)
	require.Empty(t, machines, "users do not see it any more")
	require.Equal(t, []string{"node"}, gone)
	_, _, err = client.DeployVirtualMachine(ctx, order("node"))
	require.True(t, cloudstack.IsNameTaken(err), "its name is taken still: %v", err)
	job, err = client.DestroyVirtualMachine(ctx, id, false, nil)
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(ctx, job), "to destroy it again is no error")
	c.ExpungeDestroyed()
	deploy(t, client, "node")
	require.Len(t, c.VMs(), 1)
	require.Equal(t, []string{"node"}, gone, "it is gone once")

	admin, asAdmin := start(t, fake.Options{Admin: true, ExpungeAfter: time.Nanosecond})
	admin.SetExpungeAllowed(false)
	id = deploy(t, asAdmin, "node")
	job, err = asAdmin.DestroyVirtualMachine(ctx, id, false, nil)
	require.NoError(t, err)
	require.NoError(t, asAdmin.WaitForJob(ctx, job))
	require.Eventually(t, func() bool { return len(admin.VMs()) == 0 }, 5*time.Second, time.Millisecond, "CloudStack expunges it after a while")
	destroy(t, asAdmin, deploy(t, asAdmin, "node"))
	stopped := admin.AddVM(fake.VM{Name: "stopped", ZoneID: zoneA, OfferingID: small, TemplateID: template, State: cloudstack.StateDestroyed})
	machines, err = asAdmin.ListVirtualMachines(ctx, noScope, cloudstack.MachineQuery{IDs: []string{stopped.ID}})
	require.NoError(t, err)
	require.Len(t, machines, 1, "administrators see what is destroyed")
}

func TestDisks(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)
	withDisks := func(d *cloudstack.Deployment) {
		d.DataDisks = []cloudstack.DataDisk{
			{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingSmall)},
			{DiskOfferingID: fake.IDOf("diskoffering", fake.DiskOfferingCustom), SizeGiB: 7},
		}
	}
	id := deploy(t, client, "node", withDisks)
	csi := c.AddVolume(fake.Volume{Name: "pvc-1", VMID: id, SizeGiB: 1})
	volumes, err := client.ListVolumes(ctx, noScope, id)
	require.NoError(t, err)
	require.Len(t, volumes, 4)
	require.Equal(t, "ROOT", volumes[0].Type)
	require.Equal(t, int64(20)<<30, volumes[1].Size)
	require.Equal(t, int64(7)<<30, volumes[2].Size)
	job, err := client.CreateTags(ctx, cloudstack.ResourceVolume, []string{volumes[1].Id, volumes[2].Id}, map[string]string{"cluster": "a"})
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(ctx, job))
	ours, err := client.ListVolumesByTag(ctx, noScope, "cluster", "a")
	require.NoError(t, err)
	require.Len(t, ours, 2)
	require.Equal(t, id, ours[0].Virtualmachineid)
	require.True(t, cloudstack.IsBadRequest(client.DeleteVolume(ctx, ours[0].Id)), "it is attached")

	job, err = client.DestroyVirtualMachine(ctx, id, true, []string{ours[0].Id, c.AddVolume(fake.Volume{Name: "loose"}).ID})
	require.NoError(t, err)
	require.True(t, cloudstack.IsBadRequest(client.WaitForJob(ctx, job)), "one is not of this machine")
	_, there := c.Machine(id)
	require.True(t, there)

	destroy(t, client, id, ours[0].Id)
	ours, err = client.ListVolumesByTag(ctx, noScope, "cluster", "a")
	require.NoError(t, err)
	require.Len(t, ours, 1, "the one that was not named has outlived its machine")
	require.Empty(t, ours[0].Virtualmachineid)
	require.NoError(t, client.DeleteVolume(ctx, ours[0].Id))
	require.True(t, cloudstack.IsNotFound(client.DeleteVolume(ctx, ours[0].Id)))
	id = deploy(t, client, "destroyed", withDisks)
	volumes, err = client.ListVolumes(ctx, noScope, id)
	require.NoError(t, err)
	job, err = client.DestroyVirtualMachine(ctx, id, false, []string{volumes[1].Id})
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(ctx, job))
	left, err := client.ListVolumes(ctx, noScope, id)
	require.NoError(t, err)
	require.Len(t, left, 1, "a machine that is destroyed has its root disk still, until it is expunged")
	require.Equal(t, "ROOT", left[0].Type)
	require.NoError(t, client.DeleteVolume(ctx, volumes[2].Id), "its data disks are of no machine")
	c.ExpungeDestroyed()

	names := []string{}
	for _, volume := range c.Volumes() {
		names = append(names, volume.Name)
	}
	require.Equal(t, []string{csi.Name, "loose"}, names)
}

func TestAffinity(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)
	c.AddZone(fake.Zone{Name: fake.ZoneA, Hosts: 2})
	make := func(name, kind string) string {
		job, err := client.CreateAffinityGroup(ctx, noScope, name, kind, "for a test")
		require.NoError(t, err)
		require.NoError(t, client.WaitForJob(ctx, job))
		groups, err := client.ListAffinityGroups(ctx, noScope, name)
		require.NoError(t, err)
		require.Len(t, groups, 1)
		require.Equal(t, kind, groups[0].Type)
		return groups[0].Id
	}
	hard, soft := make("hard", fake.AntiAffinity), make("soft", fake.SoftAntiAffinity)
	_, err := client.CreateAffinityGroup(ctx, noScope, "hard", fake.AntiAffinity, "")
	require.True(t, cloudstack.IsBadRequest(err), "there is one of the name: %v", err)
	_, err = client.CreateAffinityGroup(ctx, noScope, "odd", "best friends", "")
	require.True(t, cloudstack.IsBadRequest(err), "%v", err)
	in := func(group string) func(*cloudstack.Deployment) {
		return func(d *cloudstack.Deployment) { d.AffinityGroupIDs = []string{group} }
	}
	first := deploy(t, client, "hard-1", in(hard))
	deploy(t, client, "hard-2", in(hard))
	_, job, err := client.DeployVirtualMachine(ctx, order("hard-3", in(hard)))
	require.NoError(t, err)
	err = client.WaitForJob(ctx, job)
	require.True(t, cloudstack.IsInsufficientCapacity(err), "%v", err)
	require.ErrorContains(t, err, "affinity groups", "the hosts are used up")
	for i := range 3 {
		deploy(t, client, fmt.Sprintf("soft-%d", i), in(soft))
	}
	groups, err := client.ListAffinityGroups(ctx, noScope, "")
	require.NoError(t, err)
	require.Len(t, groups, 2)
	require.Contains(t, groups[0].VirtualmachineIds, first)
	destroy(t, client, first)
	deploy(t, client, "hard-4", in(hard))
	hosts := map[int]int{}
	for _, vm := range c.VMs() {
		if vm.State == cloudstack.StateRunning && strings.HasPrefix(vm.Name, "hard") {
			hosts[vm.Host]++
		}
	}
	require.Equal(t, map[int]int{0: 1, 1: 1}, hosts)
	for range 2 {
		job, err = client.DeleteAffinityGroup(ctx, soft)
	}
	if err == nil {
		err = client.WaitForJob(ctx, job)
	}
	require.True(t, cloudstack.IsNotFound(err), "it is deleted once: %v", err)
	require.Len(t, c.AffinityGroups(), 1)
}

func TestStopAndStart(t *testing.T) {
	c, client := start(t, fake.Options{})
	ctx := bounded(t)
	var told []string
	c.OnRunning(func(fake.VM) { told = append(told, "runs") })
	c.OnStopped(func(fake.VM) { told = append(told, "stopped") })
	id := deploy(t, client, "node")
	require.True(t, c.SetState(id, cloudstack.StateStopped))
	c.SetCapacity(zoneA, "", 0)
	job, err := client.StartVirtualMachine(ctx, id)
	require.NoError(t, err)
	require.True(t, cloudstack.IsInsufficientCapacity(client.WaitForJob(ctx, job)), "another has taken its room")
	vm, _ := c.Machine(id)
	require.Equal(t, cloudstack.StateStopped, vm.State, "it is not in Error for that")
	c.SetCapacity(zoneA, "", 1)
	job, err = client.StartVirtualMachine(ctx, id)
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(ctx, job))
	require.Equal(t, []string{"runs", "stopped", "runs"}, told)
	require.False(t, c.SetState("11111111-2222-3333-4444-555555555555", cloudstack.StateStopped))
}

func TestJobs(t *testing.T) {
	c, client := start(t, fake.Options{JobLatency: func(string, *rand.Rand) time.Duration { return 30 * time.Millisecond }})
	ctx := bounded(t)
	runs := make(chan string, 2)
	c.OnRunning(func(vm fake.VM) { runs <- vm.Name })
	_, job, err := client.DeployVirtualMachine(ctx, order("node"))
	require.NoError(t, err)
	c.ForgetJobs()
	select {
	case name := <-runs: // though nobody asks
		require.Equal(t, "node", name)
	case <-ctx.Done():
		t.Fatal("the machine does not run")
	}
	require.True(t, cloudstack.IsNotFound(client.WaitForJob(ctx, job)), "nobody knows the job any more")

	// An answer about the job that is lost is no end of the job.
	c.Fail(fake.Fault{Command: "queryAsyncJobResult", Code: 530, Times: 1})
	_, job, err = client.DeployVirtualMachine(ctx, order("node-2"))
	require.NoError(t, err)
	require.NoError(t, client.WaitForJob(ctx, job))
}

func TestRequestsAreRememberedWithoutSecrets(t *testing.T) {
	c, client := start(t, fake.Options{KeepRequests: 10})
	secret := base64.StdEncoding.EncodeToString([]byte("token: abcdef.0123456789abcdef"))
	id := deploy(t, client, "node", func(d *cloudstack.Deployment) { d.UserData = secret })
	requests := c.Requests()
	require.Equal(t, "deployVirtualMachine", requests[0].Command)
	require.Equal(t, "POST", requests[0].Method)
	require.Equal(t, 200, requests[0].Code)
	require.NotEmpty(t, requests[0].JobID)
	require.Equal(t, "node", requests[0].Parameters["name"])
	require.Equal(t, fmt.Sprintf("%d characters", len(secret)), requests[0].Parameters["userdata"])
	text := fmt.Sprintf("%+v", requests)
	require.NotContains(t, text, secret)
	require.NotContains(t, text, fake.DefaultAPIKey)
	require.NotContains(t, strings.ToLower(text), "signature")
	vm, _ := c.Machine(id)
	require.Equal(t, secret, vm.UserData)
	for range 50 {
		_, err := client.ListZones(bounded(t))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(c.Requests()), 20)
	require.Equal(t, 50, c.Counts()["listZones"])
	_, err := sdk.NewClient(serve(t, c), fake.DefaultAPIKey, fake.DefaultSecretKey, true).Pod.ListPods(&sdk.ListPodsParams{})
	require.ErrorContains(t, err, "432", "what is not emulated is refused")
}
