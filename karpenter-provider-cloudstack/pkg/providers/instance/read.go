package instance

import (
	"context"
	"slices"
	"strings"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/pkg/errors"
	"github.com/samber/lo"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
)

type (
	nic           = sdk.Nic
	securityGroup = sdk.VirtualMachineSecuritygroup
)

const (
	// idsAtOnce is how many ids a request has at most, so that its address is not too long.
	idsAtOnce = 100
	// namesAtOnce is from how many names on the machines of the cluster are listed instead of looking for each name.
	namesAtOnce = 5
)

// Get implements Provider.
func (p *DefaultProvider) Get(ctx context.Context, id string) (*Instance, error) {
	m, err := p.read(ctx, id)
	if err != nil {
		return nil, err
	}
	return p.instance(m), nil
}

// read finds a machine of this cluster. The error is a NodeClaimNotFoundError where it is gone.
func (p *DefaultProvider) read(ctx context.Context, id string) (*cloudstack.VirtualMachine, error) {
	m, err := p.byID.get(ctx, id)
	switch {
	case err != nil:
		return nil, errors.Wrapf(err, "look for machine %s", id)
	case m == nil:
		return nil, cloudprovider.NewNodeClaimNotFoundError(errors.Errorf("there is no machine %s", id))
	case !p.owns(m):
		return nil, errForeign(m)
	case cloudstack.IsGone(m.State):
		return nil, cloudprovider.NewNodeClaimNotFoundError(errors.Errorf("machine %s (%s) is %s", m.Name, id, m.State))
	}
	return m, nil
}

// readAll finds machines by id. What it does not find, no scope has.
func (p *DefaultProvider) readAll(ctx context.Context, ids []string) (map[string]*cloudstack.VirtualMachine, error) {
	found := make(map[string]*cloudstack.VirtualMachine, len(ids))
	for _, scope := range scopes {
		missing := lo.Filter(ids, func(id string, _ int) bool { return found[id] == nil })
		for chunk := range slices.Chunk(missing, idsAtOnce) {
			machines, err := p.readChunk(ctx, scope, chunk)
			if err != nil {
				return nil, err
			}
			for _, m := range machines {
				found[m.Id] = m
			}
		}
	}
	return found, nil
}

func (p *DefaultProvider) readChunk(ctx context.Context, scope cloudstack.Scope, ids []string) ([]*cloudstack.VirtualMachine, error) {
	machines, err := p.api.ListVirtualMachines(ctx, scope, cloudstack.MachineQuery{IDs: ids})
	if !cloudstack.IsNotFound(err) {
		return machines, err
	}
	// One that CloudStack has forgotten makes it refuse all of them.
	if len(ids) == 1 {
		return nil, nil
	}
	half := len(ids) / 2
	first, err := p.readChunk(ctx, scope, ids[:half])
	if err != nil {
		return nil, err
	}
	second, err := p.readChunk(ctx, scope, ids[half:])
	return append(first, second...), err
}

// List implements Provider. Machines are found by their tag, and by their display name where they have no tags yet: people can change
// either, and hardly both.
func (p *DefaultProvider) List(ctx context.Context) ([]*Instance, error) {
	found := map[string]*Instance{}
	for _, scope := range scopes {
		for _, query := range []cloudstack.MachineQuery{
			{TagKey: csv1.TagManagedBy, TagValue: p.options.ClusterName},
			{Keyword: p.group},
		} {
			machines, err := p.api.ListVirtualMachines(ctx, scope, query)
			if err != nil {
				return nil, errors.Wrap(err, "list the machines of the cluster")
			}
			for _, m := range machines {
				if p.owns(m) {
					found[m.Id] = p.instance(m)
				}
			}
		}
	}
	instances := lo.Values(found)
	slices.SortFunc(instances, func(a, b *Instance) int { return strings.Compare(a.ID, b.ID) })
	return instances, nil
}

// family finds all machines whose names are those of a NodeClaim, whoever owns them. Where many NodeClaims ask at once, only machines of
// this cluster are found; one of another's shows when its name is refused.
func (p *DefaultProvider) family(ctx context.Context, scope cloudstack.Scope, nodeName string) ([]*cloudstack.VirtualMachine, error) {
	p.namesMu.Lock()
	b := p.names[scope]
	if b == nil {
		b = newBatcher(p.options.BatchWindow, 1, func(ctx context.Context, names []string) (map[string][]*cloudstack.VirtualMachine, error) {
			return p.families(ctx, scope, names)
		})
		p.names[scope] = b
	}
	p.namesMu.Unlock()
	return b.get(ctx, nodeName)
}

func (p *DefaultProvider) families(ctx context.Context, scope cloudstack.Scope, names []string) (map[string][]*cloudstack.VirtualMachine, error) {
	found := make(map[string][]*cloudstack.VirtualMachine, len(names))
	if len(names) < namesAtOnce {
		for _, name := range names {
			machines, err := p.familyAlone(ctx, scope, name)
			if err != nil {
				return nil, err
			}
			found[name] = machines
		}
		return found, nil
	}
	machines, err := p.api.ListVirtualMachines(ctx, scope, cloudstack.MachineQuery{Keyword: p.group})
	if err != nil {
		return nil, err
	}
	wanted := lo.SliceToMap(names, func(name string) (string, struct{}) { return name, struct{}{} })
	for _, m := range machines {
		for _, name := range []string{m.Name, withoutAttempt(m.Name)} {
			if _, ok := wanted[name]; ok && isNameOf(m.Name, name) {
				found[name] = append(found[name], m)
				break
			}
		}
	}
	return found, nil
}

// familyAlone finds all machines whose names are those of one NodeClaim.
func (p *DefaultProvider) familyAlone(ctx context.Context, scope cloudstack.Scope, nodeName string) ([]*cloudstack.VirtualMachine, error) {
	machines, err := p.api.ListVirtualMachines(ctx, scope, cloudstack.MachineQuery{Keyword: nodeName})
	return lo.Filter(machines, func(m *cloudstack.VirtualMachine, _ int) bool { return isNameOf(m.Name, nodeName) }), err
}

// withoutAttempt is a name without what follows its last hyphen.
func withoutAttempt(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		return name[:i]
	}
	return name
}
