// Package affinity has the affinity groups of machines: those that a NodeClass names, and one of its own for each NodePool whose machines
// are to be on different hosts.
package affinity

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"go.uber.org/multierr"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

// Types of affinity groups, as CloudStack spells them.
const (
	// TypeAnti has no two machines on one host.
	TypeAnti = "host anti-affinity"
	// TypeSoftAnti has two machines on one host only where there is no other.
	TypeSoftAnti = "non-strict host anti-affinity"
)

const (
	// knownFor is how long the id of a group is believed.
	knownFor = 10 * time.Minute
	// fullFor is how long a zone without a host for a group is left alone.
	fullFor = 3 * time.Minute
	// unusedFor is how long a group was not asked for, before one without machines is deleted.
	unusedFor = time.Hour
	// createTimeout bounds the making of a group. Others wait for it, so it outlives whoever began it.
	createTimeout = time.Minute
)

// API is what the provider asks of CloudStack. *cloudstack.Client has it.
type API interface {
	ListAffinityGroups(ctx context.Context, scope cloudstack.Scope, name string) ([]*cloudstack.AffinityGroup, error)
	CreateAffinityGroup(ctx context.Context, scope cloudstack.Scope, name, groupType, description string) (cloudstack.Job, error)
	DeleteAffinityGroup(ctx context.Context, id string) (cloudstack.Job, error)
	WaitForJob(context.Context, cloudstack.Job) error
}

// Provider has the affinity groups of one cluster. It is safe for concurrent use.
type Provider interface {
	// Groups are the ids of the groups that the machines of a NodePool are put into. A group of the NodePool's own is made when it is
	// first needed.
	Groups(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodePool string) ([]string, error)
	// Forget has groups looked up again, as CloudStack does not know one of them.
	Forget(nodeClass *csv1.CloudStackNodeClass, nodePool string)
	// IsHard tells whether no two machines may be on one host, so that the group of a NodePool is full while its zones are not.
	IsHard(nodeClass *csv1.CloudStackNodeClass) bool
	// MarkFull remembers for three minutes that a zone, by its name, has no host left for the group of a NodePool.
	MarkFull(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodePool, zone string)
	// IsFull tells whether that was so.
	IsFull(nodeClass *csv1.CloudStackNodeClass, nodePool, zone string) bool
	// Cleanup deletes groups of this cluster that no machine is in, and that no one has asked for in an hour.
	Cleanup(context.Context) error
}

// DefaultProvider is the Provider of a cluster.
type DefaultProvider struct {
	api    API
	prefix string
	clock  clock.Clock
	flight singleflight.Group

	mu      sync.Mutex
	started time.Time
	known   map[key]group
	full    map[fullKey]time.Time
}

// key is a group of a NodePool.
type key struct {
	scope cloudstack.Scope
	name  string
}

type group struct {
	id     string
	until  time.Time
	needed time.Time
}

type fullKey struct {
	key
	zone string
}

var _ Provider = (*DefaultProvider)(nil)

// NewProvider makes the provider of a cluster. The prefix is what the names of its groups begin with, see instance.GroupName. It makes no
// request.
func NewProvider(api API, prefix string, clk clock.Clock) *DefaultProvider {
	return &DefaultProvider{
		api: api, prefix: prefix + "-", clock: clk, started: clk.Now(), known: map[key]group{}, full: map[fullKey]time.Time{},
	}
}

// Groups implements Provider.
func (p *DefaultProvider) Groups(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodePool string) ([]string, error) {
	switch mode(nodeClass) {
	case csv1.AffinityGroup:
		return slices.Clone(nodeClass.Spec.Affinity.GroupIDs), nil
	case csv1.AffinityAnti, csv1.AffinitySoftAnti:
	default:
		return nil, nil
	}
	k := p.key(nodeClass, nodePool)
	now := p.clock.Now()
	p.mu.Lock()
	g := p.known[k]
	g.needed = now
	p.known[k] = g
	p.mu.Unlock()
	if g.id != "" && now.Before(g.until) {
		return []string{g.id}, nil
	}
	done := p.flight.DoChan(k.name+"/"+k.scope.ProjectID+"/"+k.scope.Account+"/"+k.scope.DomainID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
		defer cancel()
		return p.ensure(ctx, k, typeOf(nodeClass), nodePool)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case result := <-done:
		if result.Err != nil {
			return nil, result.Err
		}
		id, _ := result.Val.(string)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.known[k] = group{id: id, until: now.Add(knownFor), needed: now}
		return []string{id}, nil
	}
}

// ensure finds a group, or makes it.
func (p *DefaultProvider) ensure(ctx context.Context, k key, groupType, nodePool string) (string, error) {
	id, err := p.find(ctx, k, groupType)
	if id != "" || err != nil {
		return id, err
	}
	job, err := p.api.CreateAffinityGroup(ctx, k.scope, k.name, groupType, "Nodes of the Karpenter NodePool "+nodePool)
	if err == nil {
		err = p.api.WaitForJob(ctx, job)
	}
	// Whatever went wrong: another may have made it, or this request, whose answer was lost.
	id, findErr := p.find(ctx, k, groupType)
	switch {
	case id != "":
		log.FromContext(ctx).Info("an affinity group was made", "group", k.name, "id", id, "type", groupType)
		return id, nil
	case err != nil:
		return "", errors.Wrapf(err, "make affinity group %s", k.name)
	case findErr != nil:
		return "", findErr
	}
	return "", errors.Errorf("affinity group %s was made, and is not there", k.name)
}

func (p *DefaultProvider) find(ctx context.Context, k key, groupType string) (string, error) {
	groups, err := p.api.ListAffinityGroups(ctx, k.scope, k.name)
	if err != nil {
		return "", errors.Wrapf(err, "look for affinity group %s", k.name)
	}
	for _, g := range groups {
		switch {
		case g.Name != k.name:
		case g.Type != groupType:
			return "", errors.Errorf("affinity group %s (%s) is of type %q, and %q is needed: delete it", g.Name, g.Id, g.Type, groupType)
		default:
			return g.Id, nil
		}
	}
	return "", nil
}

// Forget implements Provider.
func (p *DefaultProvider) Forget(nodeClass *csv1.CloudStackNodeClass, nodePool string) {
	if typeOf(nodeClass) == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, p.key(nodeClass, nodePool))
}

// IsHard implements Provider. Groups that a NodeClass names may be of any type, and are not taken for hard.
func (p *DefaultProvider) IsHard(nodeClass *csv1.CloudStackNodeClass) bool {
	return mode(nodeClass) == csv1.AffinityAnti
}

// MarkFull implements Provider.
func (p *DefaultProvider) MarkFull(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, nodePool, zone string) {
	log.FromContext(ctx).Info("there is no host left for an affinity group", "nodepool", nodePool, "zone", zone, "for", fullFor.String())
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for k, until := range p.full {
		if !now.Before(until) {
			delete(p.full, k)
		}
	}
	p.full[fullKey{p.key(nodeClass, nodePool), zone}] = now.Add(fullFor)
}

// IsFull implements Provider.
func (p *DefaultProvider) IsFull(nodeClass *csv1.CloudStackNodeClass, nodePool, zone string) bool {
	if !p.IsHard(nodeClass) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	until, full := p.full[fullKey{p.key(nodeClass, nodePool), zone}]
	return full && p.clock.Now().Before(until)
}

// Cleanup implements Provider. A group that was deleted is made again when it is needed.
func (p *DefaultProvider) Cleanup(ctx context.Context) error {
	now := p.clock.Now()
	// What was asked for before this process began is not known.
	if now.Sub(p.started) < unusedFor {
		return nil
	}
	p.mu.Lock()
	needed := map[string]bool{}
	for k, g := range p.known {
		if now.Sub(g.needed) < unusedFor {
			needed[k.name] = true
		} else {
			delete(p.known, k)
		}
	}
	p.mu.Unlock()
	var wrong error
	for _, scope := range []cloudstack.Scope{{}, {ProjectID: "-1"}} {
		groups, err := p.api.ListAffinityGroups(ctx, scope, "")
		if err != nil {
			return errors.Wrap(err, "list affinity groups")
		}
		for _, g := range groups {
			if !strings.HasPrefix(g.Name, p.prefix) || len(g.VirtualmachineIds) > 0 || needed[g.Name] {
				continue
			}
			job, err := p.api.DeleteAffinityGroup(ctx, g.Id)
			if err == nil {
				err = p.api.WaitForJob(ctx, job)
			}
			if err != nil && !cloudstack.IsNotFound(err) {
				wrong = multierr.Append(wrong, errors.Wrapf(err, "delete affinity group %s (%s)", g.Name, g.Id))
				continue
			}
			log.FromContext(ctx).Info("an affinity group was deleted that no machine is in", "group", g.Name, "id", g.Id)
		}
	}
	return wrong
}

// key is the group of a NodePool. A NodePool whose NodeClass changes its mode gets another group.
func (p *DefaultProvider) key(nodeClass *csv1.CloudStackNodeClass, nodePool string) key {
	return key{
		scope: selector.Scope(nodeClass),
		name:  p.prefix + lo.Ternary(mode(nodeClass) == csv1.AffinitySoftAnti, "soft-", "hard-") + nodePool,
	}
}

func mode(nodeClass *csv1.CloudStackNodeClass) csv1.AffinityMode {
	return lo.FromPtr(nodeClass.Spec.Affinity).Mode
}

// typeOf is the type of the group of a NodePool's own; empty where there is none.
func typeOf(nodeClass *csv1.CloudStackNodeClass) string {
	switch mode(nodeClass) {
	case csv1.AffinityAnti:
		return TypeAnti
	case csv1.AffinitySoftAnti:
		return TypeSoftAnti
	}
	return ""
}
