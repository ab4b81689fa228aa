// Package instance makes machines for NodeClaims, finds them, and deletes them. CloudStack knows no request that can be repeated safely:
// what makes a launch so are names that follow from the NodeClaim, a look for them before each launch, and a mark of the cluster that a
// machine has from its first moment.
package instance

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/bootstrap"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/instancetype"
)

// Keys of tags that tell of a machine what a node claim that adopts it has to know.
const (
	// TagInstanceType is the name of the instance type.
	TagInstanceType = csv1.Group + "/instance-type"
	// TagCapacityType is the capacity type.
	TagCapacityType = karpv1.CapacityTypeLabelKey
	// TagDataDisks is how many data disks a machine was made with; machines without the tag, but with others of ours, have none.
	TagDataDisks = csv1.Group + "/data-disks"
)

// Instance is a machine of this cluster.
type Instance struct {
	// ID is its id in CloudStack, Name its name, which is that of the node.
	ID, Name string
	// State is its state, see the constants of package cloudstack.
	State string
	// ZoneID and ZoneName are its zone. The name is the value of the label of the node where Create returns it.
	ZoneID, ZoneName string
	// OfferingID is its service offering, InstanceTypeName the instance type that it was launched as; empty where that is not known.
	OfferingID, InstanceTypeName string
	// TemplateID is what it was made of. Architecture is amd64 or arm64; empty where it is not known.
	TemplateID, Architecture string
	// NetworkIDs are its networks, the default one first. SecurityGroupIDs are its security groups.
	NetworkIDs, SecurityGroupIDs []string
	// CapacityType is its karpenter.sh/capacity-type; empty where that is not known.
	CapacityType string
	// Created is when it was made.
	Created time.Time
	// Tags are its tags.
	Tags map[string]string
	// ProjectID is the project that it is in; empty for none.
	ProjectID string
	// Deleting tells whether it is gone for good, or is being deleted.
	Deleting bool
}

// Provider makes, finds and deletes the machines of one cluster. It touches no machine of another's. It is safe for concurrent use.
type Provider interface {
	// Create makes a machine for a NodeClaim, or finds that which an earlier call has made, and returns when it runs. The instance types
	// are all there are; those that fit are tried from the cheapest on. The error is an InsufficientCapacityError where there is room for
	// none, and a CreateError with a reason else; after any error, Create may be called again, and there is never a second machine.
	Create(context.Context, *csv1.CloudStackNodeClass, *karpv1.NodeClaim, []*cloudprovider.InstanceType) (*Instance, error)
	// Get finds a machine. The error is a NodeClaimNotFoundError where it is gone.
	Get(ctx context.Context, id string) (*Instance, error)
	// List lists all machines of the cluster, in all states. It is complete, or there is an error.
	List(context.Context) ([]*Instance, error)
	// Delete has a machine destroyed, with the data disks that were made with it, and does not wait for that. It may be repeated; the error
	// is a NodeClaimNotFoundError once the machine is gone.
	Delete(ctx context.Context, id string) error
	// EnsureTags writes the tags that a machine lacks or has with other values, and adds them to those of the instance. Other tags stay.
	EnsureTags(ctx context.Context, instance *Instance, want map[string]string) error
}

// API is what the provider asks of CloudStack. *cloudstack.Client has it.
type API interface {
	ListVirtualMachines(context.Context, cloudstack.Scope, cloudstack.MachineQuery) ([]*cloudstack.VirtualMachine, error)
	DeployVirtualMachine(context.Context, cloudstack.Deployment) (string, cloudstack.Job, error)
	StartVirtualMachine(ctx context.Context, id string) (cloudstack.Job, error)
	DestroyVirtualMachine(ctx context.Context, id string, expunge bool, volumeIDs []string) (cloudstack.Job, error)
	CreateTags(ctx context.Context, resourceType string, ids []string, tags map[string]string) (cloudstack.Job, error)
	DeleteTags(ctx context.Context, resourceType string, ids, keys []string) (cloudstack.Job, error)
	ListVolumes(ctx context.Context, scope cloudstack.Scope, machineID string) ([]*cloudstack.Volume, error)
	ListCapabilities(context.Context) (*cloudstack.Capability, error)
	WaitForJob(context.Context, cloudstack.Job) error
}

// Renderer makes the user data of a machine.
type Renderer interface {
	Render(context.Context, bootstrap.Request) (string, error)
}

// Types tells what to deploy for an instance type.
type Types interface {
	Offering(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, name string) (instancetype.Launch, error)
}

// Unavailable remembers for a while where there was no room.
type Unavailable interface {
	Mark(ctx context.Context, reason, instanceType, zone, capacityType string)
	MarkZone(ctx context.Context, reason, zone string)
	MarkNetwork(ctx context.Context, reason, networkID string)
	IsUnavailable(instanceType, zone, capacityType string) bool
	IsNetworkUnavailable(networkID string) bool
}

// Affinity has the affinity groups of machines.
type Affinity interface {
	// Groups are the ids of the groups of a NodePool's machines.
	Groups(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodePool string) ([]string, error)
	// Forget has groups looked up again, as CloudStack does not know one of them.
	Forget(nodeClass *csv1.CloudStackNodeClass, nodePool string)
	// IsHard tells whether no two machines of a group may be on one host, so that a group is full while a zone is not.
	IsHard(nodeClass *csv1.CloudStackNodeClass) bool
	// MarkFull remembers for a while that a zone has no host left for a group.
	MarkFull(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodePool, zone string)
	// IsFull tells whether that was so.
	IsFull(nodeClass *csv1.CloudStackNodeClass, nodePool, zone string) bool
}

// Options configure a provider. The names are needed, all else has a default.
type Options struct {
	// ClusterName is the name of the cluster, ClusterUID the UID of its namespace kube-system.
	ClusterName, ClusterUID string
	// ProviderIDPrefix is handed to the user data.
	ProviderIDPrefix string
	// Expunges tells whether machines of a NodeClass, by its name, are expunged when they are deleted. Default: all are.
	Expunges func(ctx context.Context, nodeClass string) (bool, error)
	// DeployConcurrency is how many requests for a machine are made at a time. CloudStack allots addresses and disks while it answers
	// them; the jobs that follow are its own to queue. Default: 20.
	DeployConcurrency int
	// LaunchTimeout is how long Create takes at most. It has to be less than core's LaunchTimeout, which begins earlier. Default: 4 min.
	LaunchTimeout time.Duration
	// MaxAttempts is how many machines Create tries at most. Default: 8.
	MaxAttempts int
	// Poll is the first pause between two looks at a machine in the making, and the grid that all looks are on, so that many machines are
	// looked at with one request; PollMax is the longest pause. Default: 1 s and 5 s.
	Poll, PollMax time.Duration
	// BatchWindow is how long a look for a machine waits for others to be made with. Default: 20 ms.
	BatchWindow time.Duration
	// StartAfter is how long a machine that was found stopped is watched before it is started. Default: 30 s.
	StartAfter time.Duration
	// DestroyAgain is how long a machine that is being destroyed may take, before it is asked for again. Default: 1 min.
	DestroyAgain time.Duration
	// Clock tells the time. Default: that of the system.
	Clock clock.Clock
}

// DefaultProvider is the Provider of a cluster.
type DefaultProvider struct {
	api         API
	renderer    Renderer
	types       Types
	unavailable Unavailable
	affinity    Affinity
	options     Options
	group       string
	deploys     chan struct{}
	launches    singleflight.Group
	byID        *batcher[*cloudstack.VirtualMachine]

	namesMu sync.Mutex
	// names look for machines by name, one for each scope.
	names map[cloudstack.Scope]*batcher[[]*cloudstack.VirtualMachine]

	// destroyed are machines that are being destroyed.
	destroyed *memory[string, destruction]
	// pinned are where machines may be in the making whose requests had no answer.
	pinned *memory[string, target]

	mu sync.Mutex
	// expunge tells whether the credentials may expunge machines, expungeUntil until when that is believed.
	expunge      bool
	expungeUntil time.Time
}

// NewProvider makes the provider of a cluster. It makes no request.
func NewProvider(api API, renderer Renderer, types Types, unavailable Unavailable, affinity Affinity, options Options) *DefaultProvider {
	options.DeployConcurrency = lo.CoalesceOrEmpty(options.DeployConcurrency, 20)
	options.LaunchTimeout = lo.CoalesceOrEmpty(options.LaunchTimeout, 4*time.Minute)
	options.MaxAttempts = lo.CoalesceOrEmpty(options.MaxAttempts, 8)
	options.Poll = lo.CoalesceOrEmpty(options.Poll, time.Second)
	options.PollMax = lo.CoalesceOrEmpty(options.PollMax, 5*time.Second)
	options.BatchWindow = lo.CoalesceOrEmpty(options.BatchWindow, 20*time.Millisecond)
	options.StartAfter = lo.CoalesceOrEmpty(options.StartAfter, 30*time.Second)
	options.DestroyAgain = lo.CoalesceOrEmpty(options.DestroyAgain, time.Minute)
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Expunges == nil {
		options.Expunges = func(context.Context, string) (bool, error) { return true, nil }
	}
	p := &DefaultProvider{
		api: api, renderer: renderer, types: types, unavailable: unavailable, affinity: affinity, options: options,
		group:     GroupName(options.ClusterName, options.ClusterUID),
		deploys:   make(chan struct{}, options.DeployConcurrency),
		names:     map[cloudstack.Scope]*batcher[[]*cloudstack.VirtualMachine]{},
		destroyed: newMemory[string, destruction](options.Clock, options.DestroyAgain),
		pinned:    newMemory[string, target](options.Clock, pinnedFor),
	}
	p.byID = newBatcher(options.BatchWindow, 4, p.readAll)
	return p
}

// owns tells whether a machine is of this cluster: its tags say so, or, where they are not there yet, its instance group or display name,
// which a machine has from its first moment.
func (p *DefaultProvider) owns(m *cloudstack.VirtualMachine) bool {
	tags := cloudstack.TagsOf(m.Tags)
	uid, tagged := tags[csv1.TagClusterUID]
	if tagged {
		return uid == p.options.ClusterUID && tags[csv1.TagManagedBy] == p.options.ClusterName
	}
	return m.Group == p.group || strings.HasPrefix(m.Displayname, p.group+"-")
}

// Tags are the tags that the machine of a NodeClaim has to have. Those of the NodeClass never take the place of ours.
func (p *DefaultProvider) Tags(nodeClass *csv1.CloudStackNodeClass, nodeClaim *karpv1.NodeClaim) map[string]string {
	tags := maps.Clone(nodeClass.Spec.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[csv1.TagManagedBy] = p.options.ClusterName
	tags[csv1.TagClusterUID] = p.options.ClusterUID
	tags[csv1.TagNodeClaim] = nodeClaim.Name
	tags[csv1.TagNodePool] = nodeClaim.Labels[karpv1.NodePoolLabelKey]
	tags[csv1.TagNodeClass] = nodeClass.Name
	// CloudStack has no empty tags.
	maps.DeleteFunc(tags, func(_, value string) bool { return value == "" })
	return tags
}

// instance is a machine as CloudStack tells of it.
func (p *DefaultProvider) instance(m *cloudstack.VirtualMachine) *Instance {
	tags := cloudstack.TagsOf(m.Tags)
	_, destroyed := p.destroyed.get(m.Id)
	// Where CloudStack does not tell the time, a machine is taken for a new one, which nothing deletes yet.
	created, err := cloudstack.Created(m.Created)
	if err != nil {
		created = p.options.Clock.Now()
	}
	nics := slices.Clone(m.Nic)
	slices.SortStableFunc(nics, func(a, b nic) int { return lo.Ternary(a.Isdefault, 0, 1) - lo.Ternary(b.Isdefault, 0, 1) })
	return &Instance{
		ID: m.Id, Name: m.Name, State: m.State, ZoneID: m.Zoneid, ZoneName: m.Zonename, OfferingID: m.Serviceofferingid,
		InstanceTypeName: tags[TagInstanceType], CapacityType: tags[TagCapacityType],
		TemplateID: m.Templateid, Architecture: architecture(m.Arch),
		NetworkIDs:       lo.Map(nics, func(n nic, _ int) string { return n.Networkid }),
		SecurityGroupIDs: lo.Map(m.Securitygroup, func(g securityGroup, _ int) string { return g.Id }),
		Created:          created, Tags: tags, ProjectID: m.Projectid,
		Deleting: destroyed || cloudstack.IsGone(m.State),
	}
}

// architecture has the name that Kubernetes has for an architecture.
func architecture(name string) string {
	switch strings.ToLower(name) {
	case "x86_64", "amd64":
		return karpv1.ArchitectureAmd64
	case "aarch64", "arm64":
		return karpv1.ArchitectureArm64
	}
	return ""
}

// scopes are whose machines are looked at: what the credentials see, and all projects that they are in. An ordinary user is not shown
// what is in a project without asking for it, not even by id.
var scopes = []cloudstack.Scope{{}, {ProjectID: "-1"}}

// errForeign is for a machine of another's.
func errForeign(m *cloudstack.VirtualMachine) error {
	return errors.Errorf("machine %s (%s, %s) is not of this cluster: it has neither its tags nor its group", m.Name, m.Id, m.State)
}
