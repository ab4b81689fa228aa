package instance

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/affinity"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/template"
)

const (
	clusterName = "test"
	clusterUID  = "8f3c5f3e-6f0c-4b57-9f0e-3f1d1f1c9a01"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	m.Run()
}

// world is an emulated CloudStack with a provider.
type world struct {
	*testing.T
	cloud       *fake.CloudStack
	client      *cloudstack.Client
	clock       *clocktesting.FakeClock
	unavailable *instancetype.Unavailable
	affinity    *affinity.DefaultProvider
	types       *instancetype.DefaultProvider
	renderer    *renderer
	provider    *DefaultProvider
	class       *csv1.CloudStackNodeClass
	options     Options
}

func newWorld(t *testing.T, options fake.Options) *world {
	t.Helper()
	cloud := fake.Default(options)
	url, stop, err := cloud.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client, err := cloudstack.New(cloudstack.Options{
		Credentials: cloudstack.Credentials{URL: url, APIKey: fake.DefaultAPIKey, SecretKey: fake.DefaultSecretKey},
		Rate:        1e6, Burst: 1e6, Attempts: 3, Backoff: time.Millisecond, JobPoll: time.Millisecond, JobPollMax: 4 * time.Millisecond,
		RequestTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		T: t, cloud: cloud, client: client, clock: clocktesting.NewFakeClock(time.Now()), renderer: &renderer{}, class: nodeClass(),
		options: Options{
			ClusterName: clusterName, ClusterUID: clusterUID, ProviderIDPrefix: "external-cloudstack://",
			Poll: 2 * time.Millisecond, PollMax: 4 * time.Millisecond, BatchWindow: time.Microsecond, StartAfter: 20 * time.Millisecond,
			LaunchTimeout: 20 * time.Second,
		},
	}
	w.restart(client)
	return w
}

// restart is a new process: it remembers nothing.
func (w *world) restart(api API) {
	w.unavailable = instancetype.NewUnavailable(w.clock)
	w.affinity = affinity.NewProvider(w.client, GroupName(clusterName, clusterUID), w.clock)
	w.types = instancetype.NewProvider(w.client, template.NewProvider(w.client, clock.RealClock{}), w.unavailable, w.clock, instancetype.Options{})
	options := w.options
	options.Clock = w.clock
	w.provider = NewProvider(api, w.renderer, w.types, w.unavailable, w.affinity, options)
}

func nodeClass() *csv1.CloudStackNodeClass {
	zoneA, zoneB := fake.IDOf("zone", fake.ZoneA), fake.IDOf("zone", fake.ZoneB)
	return &csv1.CloudStackNodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "6c0d1a52-0000-4000-8000-000000000001"},
		Spec: csv1.CloudStackNodeClassSpec{
			Zones:                []string{fake.ZoneA, fake.ZoneB},
			NetworkSelectorTerms: []csv1.NetworkSelectorTerm{{Tags: map[string]string{"role": "nodes"}}},
			ServiceOfferingSelectorTerms: []csv1.ServiceOfferingSelectorTerm{
				{Name: fake.OfferingSmall}, {Name: fake.OfferingMedium}, {Name: fake.OfferingLarge},
			},
			TemplateSelectorTerms: []csv1.TemplateSelectorTerm{{Name: fake.TemplateAMD64}},
			Tags:                  map[string]string{"team": "blue", csv1.TagClusterUID: "not yours"},
		},
		Status: csv1.CloudStackNodeClassStatus{
			Zones:    []csv1.ZoneStatus{{ID: zoneA, Name: fake.ZoneA}, {ID: zoneB, Name: fake.ZoneB}},
			Networks: []csv1.NetworkStatus{network(fake.ZoneA, fake.NetworkA), network(fake.ZoneB, fake.NetworkB)},
			Templates: []csv1.TemplateStatus{
				{ID: fake.IDOf("template", fake.TemplateAMD64), Name: fake.TemplateAMD64, ZoneID: zoneA, Architecture: "amd64"},
				{ID: fake.IDOf("template", fake.TemplateAMD64), Name: fake.TemplateAMD64, ZoneID: zoneB, Architecture: "amd64"},
			},
		},
	}
}

func network(zone, name string) csv1.NetworkStatus {
	id := fake.IDOf("zone", zone)
	return csv1.NetworkStatus{ID: fake.IDOf("network", id+"/"+name), Name: name, ZoneID: id}
}

// claim is a NodeClaim that wants a CPU at least.
func claim(name string, requirements ...karpv1.NodeSelectorRequirementWithMinValues) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{karpv1.NodePoolLabelKey: "pool", "team": "blue"},
		},
		Spec: karpv1.NodeClaimSpec{
			Requirements:  requirements,
			StartupTaints: []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}},
			Resources:     karpv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
		},
	}
}

func in(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// instanceTypes are all there are now.
func (w *world) instanceTypes() []*cloudprovider.InstanceType {
	w.Helper()
	its, err := w.types.List(context.Background(), w.class)
	if err != nil {
		w.Fatal(err)
	}
	return its
}

func (w *world) create(ctx context.Context, nodeClaim *karpv1.NodeClaim) (*Instance, error) {
	w.Helper()
	its, err := w.types.List(ctx, w.class)
	if err != nil {
		return nil, err
	}
	return w.provider.Create(ctx, w.class, nodeClaim, its)
}

func (w *world) mustCreate(nodeClaim *karpv1.NodeClaim) *Instance {
	w.Helper()
	got, err := w.create(context.Background(), nodeClaim)
	if err != nil {
		w.Fatal(err)
	}
	return got
}

// alive are the machines that CloudStack has and that are not on their way out.
func (w *world) alive() []fake.VM {
	return lo.Filter(w.cloud.VMs(), func(m fake.VM, _ int) bool { return !cloudstack.IsGone(m.State) })
}

// settled waits until the jobs that were begun have ended.
func (w *world) settled() {
	w.Helper()
	w.eventually("jobs end", func() bool { return w.cloud.PendingJobs() == 0 })
}

func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	for range 5000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	w.Fatalf("this never came: %s", what)
}

// only fails unless there is one machine, which runs and has the tags of the NodeClaim.
func (w *world) only(nodeClaim *karpv1.NodeClaim, id string) {
	w.Helper()
	w.settled()
	machines := w.alive()
	if len(machines) != 1 {
		w.Fatalf("there are %d machines: %v", len(machines), describe(machines))
	}
	m := machines[0]
	if m.ID != id || m.State != fake.StateRunning || !IsNameOf(m.Name, nodeClaim) {
		w.Errorf("want %s running with a name of %s, have %v", id, NodeName(nodeClaim), describe(machines))
	}
	for key, value := range w.provider.Tags(w.class, nodeClaim) {
		if m.Tags[key] != value {
			w.Errorf("tag %s is %q, want %q", key, m.Tags[key], value)
		}
	}
}

func describe(machines []fake.VM) string {
	return strings.Join(lo.Map(machines, func(m fake.VM, _ int) string {
		return fmt.Sprintf("%s (%s, %s in %s)", m.Name, m.State, m.OfferingName, m.ZoneName)
	}), ", ")
}

// reason is that of a CreateError.
func reason(err error) string {
	var e *cloudprovider.CreateError
	if errors.As(err, &e) {
		return e.ConditionReason
	}
	return ""
}

// renderer keeps what user data was made of.
type renderer struct {
	mu       sync.Mutex
	requests []bootstrap.Request
	err      error
}

func (r *renderer) Render(_ context.Context, request bootstrap.Request) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
	return base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n# " + request.NodeName)), r.err
}

// mortal is a process that dies at a call: before it is made, or when CloudStack has done what was asked and before its answer is read.
// Whatever the process would do afterwards does not happen.
type mortal struct {
	API
	dies  int
	after bool

	calls atomic.Int64
	dead  atomic.Bool
	kill  context.CancelFunc
	at    atomic.Value
}

var errDead = errors.New("the process is dead")

func died[T any](m *mortal, what string, call func() (T, error)) (T, error) {
	var none T
	if m.dead.Load() {
		return none, errDead
	}
	now := m.calls.Add(1) == int64(m.dies)
	if now {
		m.at.Store(what)
	}
	if now && !m.after {
		m.die()
		return none, errDead
	}
	got, err := call()
	if now {
		m.die()
		return none, errDead
	}
	return got, err
}

func (m *mortal) die() {
	m.dead.Store(true)
	m.kill()
}

func (m *mortal) ListVirtualMachines(ctx context.Context, s cloudstack.Scope, q cloudstack.MachineQuery) ([]*cloudstack.VirtualMachine, error) {
	return died(m, "list", func() ([]*cloudstack.VirtualMachine, error) { return m.API.ListVirtualMachines(ctx, s, q) })
}

type deployed struct {
	id  string
	job cloudstack.Job
}

func (m *mortal) DeployVirtualMachine(ctx context.Context, d cloudstack.Deployment) (string, cloudstack.Job, error) {
	got, err := died(m, "deploy", func() (deployed, error) {
		id, job, err := m.API.DeployVirtualMachine(ctx, d)
		return deployed{id, job}, err
	})
	return got.id, got.job, err
}

func (m *mortal) DestroyVirtualMachine(ctx context.Context, id string, expunge bool, volumes []string) (cloudstack.Job, error) {
	return died(m, "destroy", func() (cloudstack.Job, error) { return m.API.DestroyVirtualMachine(ctx, id, expunge, volumes) })
}

func (m *mortal) CreateTags(ctx context.Context, resourceType string, ids []string, tags map[string]string) (cloudstack.Job, error) {
	return died(m, "tag", func() (cloudstack.Job, error) { return m.API.CreateTags(ctx, resourceType, ids, tags) })
}

func (m *mortal) ListVolumes(ctx context.Context, s cloudstack.Scope, id string) ([]*cloudstack.Volume, error) {
	return died(m, "volumes", func() ([]*cloudstack.Volume, error) { return m.API.ListVolumes(ctx, s, id) })
}

func (m *mortal) WaitForJob(ctx context.Context, job cloudstack.Job) error {
	_, err := died(m, "job", func() (struct{}, error) { return struct{}{}, m.API.WaitForJob(ctx, job) })
	return err
}

// offeringsAsked are the names of the offerings that were asked for, in order.
func (w *world) offeringsAsked() []string {
	names := map[string]string{}
	for _, name := range []string{fake.OfferingSmall, fake.OfferingMedium, fake.OfferingLarge} {
		names[fake.IDOf("offering", name)] = name
	}
	return lo.FilterMap(w.cloud.Requests(), func(r fake.Request, _ int) (string, bool) {
		return names[r.Parameters["serviceofferingid"]], r.Command == "deployVirtualMachine"
	})
}

// count is how many requests of a command there were.
func (w *world) count(command string) int { return w.cloud.Counts()[command] }
