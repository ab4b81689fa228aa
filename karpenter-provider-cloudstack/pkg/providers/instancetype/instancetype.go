// Package instancetype makes the instance types of Karpenter of the service offerings of CloudStack.
package instancetype

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cache"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

const (
	ttl = 5 * time.Minute
	// cacheName is the label of the metrics of the instance types.
	cacheName = "instance-types"
	// forgetAfter is when the instance types of a CloudStackNodeClass that nobody asks for are forgotten.
	forgetAfter = time.Hour
)

// API is what of CloudStack is asked.
type API interface {
	ListServiceOfferings(ctx context.Context, scope cloudstack.Scope) ([]*cloudstack.ServiceOffering, error)
	ListDiskOfferings(ctx context.Context, scope cloudstack.Scope) ([]*cloudstack.DiskOffering, error)
}

// Templates tells how large templates are, for offerings whose root disk is as large as the template.
type Templates interface {
	GetByID(ctx context.Context, scope cloudstack.Scope, zoneID, id string) (*cloudstack.Template, error)
}

// Provider finds instance types. An instance type is a service offering, or one size of an offering without a size of its own.
type Provider interface {
	// List lists all instance types of a CloudStackNodeClass by name, those that are not available marked as such. It uses the zones,
	// networks and templates of the status. The instance types and their offerings are the caller's own; the requirements, resources and
	// overheads in them are shared, and must be exchanged, never changed, as Karpenter core does. The error is a *selector.Error where no
	// offering fits, or a field cannot be read, and a *cloudprovider.NodeClassNotReadyError where the zones are not known yet.
	List(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]*cloudprovider.InstanceType, error)
	// Get is the one of List that has the name, and as much the caller's own. The error is a *selector.Error where there is none.
	Get(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, name string) (*cloudprovider.InstanceType, error)
	// Offering tells what to deploy for an instance type. The error is a *selector.Error where there is none of the name.
	Offering(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, name string) (Launch, error)
	// Offerings lists the service offerings that the selectors choose, by the name of their instance types. They are shared, and must not
	// be changed. Where the status has zones, it leaves out offerings that none of them has. The error is a *selector.Error where there is
	// none, or where List could not read a field.
	Offerings(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]*cloudstack.ServiceOffering, error)
}

// Launch is what is deployed for an instance type.
type Launch struct {
	// OfferingID and OfferingName are those of the service offering.
	OfferingID, OfferingName string
	// CPU, CPUSpeedMHz and MemoryMiB are what the offering leaves open; 0 for what it has.
	CPU, CPUSpeedMHz, MemoryMiB int
	// ZoneIDs are the ids of the zones that have the offering; nil for all.
	ZoneIDs []string
	// RootDiskOfferingID is the id of the disk offering that takes the place of that of the service offering; empty for none.
	RootDiskOfferingID string
	// DataDiskOfferingIDs are the ids of the disk offerings of the data disks, in their order.
	DataDiskOfferingIDs []string
}

// Options configure a provider.
type Options struct {
	// MemoryOverheadPercent is the share of the memory of an offering that its guest does not see, from 0 to 99.
	MemoryOverheadPercent float64
	// Region is the region that the cloud controller manager labels nodes with; empty for none that is known.
	Region string
}

// DefaultProvider is a Provider that remembers the offerings for five minutes, and the instance types until something differs. It is safe
// for concurrent use.
type DefaultProvider struct {
	api           API
	templates     Templates
	unavailable   *Unavailable
	clock         clock.Clock
	options       Options
	offerings     *cache.Cache[[]*cloudstack.ServiceOffering]
	diskOfferings *cache.Cache[[]*cloudstack.DiskOffering]
	observed      observations

	mu    sync.Mutex
	types map[string]*catalogue
}

var _ Provider = (*DefaultProvider)(nil)

// catalogue are the instance types of a CloudStackNodeClass. It is exchanged, never changed, but for used.
type catalogue struct {
	fingerprint string
	types       []*cloudprovider.InstanceType
	launches    map[string]Launch
	index       map[string]int
	used        atomic.Int64 // in nanoseconds since 1970
}

// NewProvider makes a provider. It makes no request.
func NewProvider(api API, templates Templates, unavailable *Unavailable, clk clock.Clock, options Options) *DefaultProvider {
	return &DefaultProvider{
		api: api, templates: templates, unavailable: unavailable, clock: clk, options: options,
		offerings:     cache.New[[]*cloudstack.ServiceOffering]("service-offerings", ttl, clk),
		diskOfferings: cache.New[[]*cloudstack.DiskOffering]("disk-offerings", ttl, clk),
		types:         map[string]*catalogue{},
	}
}

// List implements Provider.
func (p *DefaultProvider) List(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]*cloudprovider.InstanceType, error) {
	c, err := p.catalogue(ctx, nodeClass)
	if err != nil {
		return nil, err
	}
	return lo.Map(c.types, func(it *cloudprovider.InstanceType, _ int) *cloudprovider.InstanceType { return copyOf(it) }), nil
}

// copyOf is an instance type that may be made unavailable, priced or enlarged without another's being so. Core asks for all of them for each
// NodePool and each NodeClaim, and so the maps in it, which are most of it and which core never writes to, are not copied.
func copyOf(it *cloudprovider.InstanceType) *cloudprovider.InstanceType {
	offerings := make([]cloudprovider.Offering, len(it.Offerings))
	out := &cloudprovider.InstanceType{
		Name: it.Name, Requirements: it.Requirements, Capacity: it.Capacity, Overhead: it.Overhead,
		Offerings: make(cloudprovider.Offerings, len(it.Offerings)),
	}
	for i, offering := range it.Offerings {
		offerings[i] = *offering
		out.Offerings[i] = &offerings[i]
	}
	return out
}

// Get implements Provider.
func (p *DefaultProvider) Get(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, name string) (*cloudprovider.InstanceType, error) {
	c, err := p.catalogue(ctx, nodeClass)
	if err != nil {
		return nil, err
	}
	at, ok := c.index[name]
	if !ok {
		return nil, unknown(nodeClass, name)
	}
	return copyOf(c.types[at]), nil
}

// Offering implements Provider.
func (p *DefaultProvider) Offering(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, name string) (Launch, error) {
	c, err := p.catalogue(ctx, nodeClass)
	if err != nil {
		return Launch{}, err
	}
	launch, ok := c.launches[name]
	if !ok {
		return Launch{}, unknown(nodeClass, name)
	}
	launch.ZoneIDs, launch.DataDiskOfferingIDs = slices.Clone(launch.ZoneIDs), slices.Clone(launch.DataDiskOfferingIDs)
	return launch, nil
}

func unknown(nodeClass *csv1.CloudStackNodeClass, name string) error {
	return selector.Errorf(selector.ReasonNotFound, "CloudStackNodeClass %q selects no service offering for the instance type %q", nodeClass.Name, name)
}

// Offerings implements Provider.
func (p *DefaultProvider) Offerings(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]*cloudstack.ServiceOffering, error) {
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) ([]*cloudstack.ServiceOffering, error) {
		all, _, err := p.list(ctx, nodeClass, maxAge)
		if err != nil {
			return nil, err
		}
		sizes, err := selectSizes(nodeClass, all)
		if err != nil {
			return nil, err
		}
		// What List cannot read has to show before a machine is wanted.
		if _, err := compileRules(nodeClass.Spec.CapacityTypeRules); err != nil {
			return nil, err
		}
		if _, err := reservationsOf(nodeClass.Spec.Kubelet); err != nil {
			return nil, err
		}
		if _, _, err := p.disks(ctx, nodeClass, maxAge); err != nil {
			return nil, err
		}
		chosen := lo.Map(sizes, func(one size, _ int) *cloudstack.ServiceOffering { return one.offering })
		return lo.UniqBy(chosen, func(offering *cloudstack.ServiceOffering) string { return offering.Id }), nil
	})
}

// ObserveMemory records how much memory a registered node has, and tells whether that is less than was known. Instance types of that
// offering have no more memory from then on, where a template in use is the one of the node. Amounts below half of the offering's are not
// believed.
func (p *DefaultProvider) ObserveMemory(machine Machine, seen resource.Quantity) bool {
	return p.observed.observe(machine, seen)
}

func (p *DefaultProvider) list(
	ctx context.Context, nodeClass *csv1.CloudStackNodeClass, maxAge time.Duration,
) ([]*cloudstack.ServiceOffering, uint64, error) {
	scope := selector.Scope(nodeClass)
	offerings, sequence, err := p.offerings.GetWithin(ctx, selector.Key(scope, ""), maxAge, func(ctx context.Context) ([]*cloudstack.ServiceOffering, error) {
		return p.api.ListServiceOfferings(ctx, scope)
	})
	return offerings, sequence, errors.Wrap(err, "list service offerings")
}

// catalogue are the instance types as they are now.
func (p *DefaultProvider) catalogue(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) (*catalogue, error) {
	if len(nodeClass.Status.Zones) == 0 {
		// Without zones no instance type has an offering, which core takes for drift.
		return nil, cloudprovider.NewNodeClassNotReadyError(errors.Errorf("the zones of CloudStackNodeClass %q are not known yet", nodeClass.Name))
	}
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) (*catalogue, error) {
		offerings, sequence, err := p.list(ctx, nodeClass, maxAge)
		if err != nil {
			return nil, err
		}
		disks, diskSequence, err := p.disks(ctx, nodeClass, maxAge)
		if err != nil {
			return nil, err
		}
		templateBytes, err := p.templateBytes(ctx, nodeClass)
		if err != nil {
			return nil, err
		}
		// What changes in the meantime is seen next time, as the numbers are older than the data.
		fingerprint, err := p.fingerprint(nodeClass, sequence, diskSequence, templateBytes)
		if err != nil {
			return nil, err
		}
		key := cmp.Or(string(nodeClass.UID), nodeClass.Name)
		if c := p.cached(key, fingerprint); c != nil {
			cache.Hit(cacheName)
			return c, nil
		}
		cache.Miss(cacheName)
		c, err := p.build(nodeClass, offerings, disks, templateBytes)
		if err != nil {
			return nil, err
		}
		c.fingerprint = fingerprint
		p.keep(key, c)
		shown.show(nodeClass.Name, c, p.clock)
		log.FromContext(ctx).V(1).Info("made the instance types", "CloudStackNodeClass", nodeClass.Name, "instanceTypes", len(c.types))
		return c, nil
	})
}

// fingerprint is all that instance types depend on, by value: the CloudStackNodeClass belongs to the caller, who may change it.
func (p *DefaultProvider) fingerprint(nodeClass *csv1.CloudStackNodeClass, sequence, diskSequence uint64, templateBytes int64) (string, error) {
	spec := nodeClass.Spec
	spec.UserData, spec.Bootstrap, spec.Tags, spec.Details, spec.Affinity = nil, nil, nil, nil, nil
	status := nodeClass.Status
	status.Conditions, status.Offerings, status.OfferingCount, status.SecurityGroups = nil, nil, 0, nil
	text, err := json.Marshal(struct {
		Spec                                            csv1.CloudStackNodeClassSpec
		Status                                          csv1.CloudStackNodeClassStatus
		Offerings, DiskOfferings, Unavailable, Observed uint64
		TemplateBytes                                   int64
	}{spec, status, sequence, diskSequence, p.unavailable.Sequence(), p.observed.version(), templateBytes})
	return string(text), errors.Wrapf(err, "write CloudStackNodeClass %s as JSON", nodeClass.Name)
}

func (p *DefaultProvider) cached(key, fingerprint string) *catalogue {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.types[key]
	if c == nil || c.fingerprint != fingerprint {
		return nil
	}
	c.used.Store(p.clock.Now().UnixNano())
	return c
}

func (p *DefaultProvider) keep(key string, c *catalogue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for other, old := range p.types {
		if now.Sub(time.Unix(0, old.used.Load())) > forgetAfter {
			delete(p.types, other)
		}
	}
	c.used.Store(now.UnixNano())
	p.types[key] = c
}

func (p *DefaultProvider) build(
	nodeClass *csv1.CloudStackNodeClass, offerings []*cloudstack.ServiceOffering, disks disks, templateBytes int64,
) (*catalogue, error) {
	sizes, err := selectSizes(nodeClass, offerings)
	if err != nil {
		return nil, err
	}
	rules, err := compileRules(nodeClass.Spec.CapacityTypeRules)
	if err != nil {
		return nil, err
	}
	kubelet, err := reservationsOf(nodeClass.Spec.Kubelet)
	if err != nil {
		return nil, err
	}
	observed, _ := p.observed.snapshot()
	b := &builder{
		options: p.options, nodeClass: nodeClass, rules: rules, kubelet: kubelet, unavailable: p.unavailable, observed: observed,
		disks: disks, templateBytes: templateBytes,
	}
	b.plan()
	c := &catalogue{launches: make(map[string]Launch, len(sizes)), index: make(map[string]int, len(sizes))}
	for _, one := range sizes {
		c.index[one.name] = len(c.types)
		c.launches[one.name] = disks.launch(one.launch)
		c.types = append(c.types, b.instanceType(one))
	}
	return c, nil
}

// templateBytes is the size of the smallest template in use, 0 where it makes no difference or is not known. A template that is gone is
// passed over: the status is about to change.
func (p *DefaultProvider) templateBytes(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) (int64, error) {
	if nodeClass.Spec.RootDisk != nil && nodeClass.Spec.RootDisk.SizeGiB != nil {
		return 0, nil
	}
	var least int64
	for _, status := range nodeClass.Status.Templates {
		template, err := p.templates.GetByID(ctx, selector.Scope(nodeClass), status.ZoneID, status.ID)
		switch {
		case selector.IsNotFound(err):
		case err != nil:
			return 0, err
		case template.Size > 0 && (least == 0 || template.Size < least):
			least = template.Size
		}
	}
	return least, nil
}
