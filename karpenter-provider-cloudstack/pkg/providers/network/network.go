// Package network finds the networks and security groups of machines.
package network

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"k8s.io/utils/clock"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cache"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

const ttl = 5 * time.Minute

// What is not for machines: networks that are being deleted, and those of the system.
const (
	stateDestroy = "Destroy"
	trafficGuest = "Guest"
)

// API is what of CloudStack is asked.
type API interface {
	ListNetworks(ctx context.Context, scope cloudstack.Scope, zoneID string) ([]*cloudstack.Network, error)
	ListSecurityGroups(ctx context.Context, scope cloudstack.Scope) ([]*cloudstack.SecurityGroup, error)
}

// Provider finds networks and security groups. What it returns is shared, and must not be changed. Networks that no machine is in yet
// (Allocated) are found as well: CloudStack implements them with their first machine.
type Provider interface {
	// GetByName finds the network of a name. The error is a *selector.Error where there is none, or several.
	GetByName(ctx context.Context, scope cloudstack.Scope, zoneID, name string) (*cloudstack.Network, error)
	// GetByID finds the network of an id. The error is a *selector.Error where there is none.
	GetByID(ctx context.Context, scope cloudstack.Scope, zoneID, id string) (*cloudstack.Network, error)
	// GetByTags lists the networks that have all of the tags, by name; the value * is for any.
	GetByTags(ctx context.Context, scope cloudstack.Scope, zoneID string, tags map[string]string) ([]*cloudstack.Network, error)
	// Resolve finds the networks of the first interface, of which a machine gets one of its zone, and those of the further interfaces,
	// of which it gets all of its zone, in this order. The error is a *selector.Error that names each zone without a network.
	Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus) (first, additional []csv1.NetworkStatus, err error)
	// ResolveSecurityGroups finds the security groups, sorted by name; none where no term asks for one. The error is a *selector.Error
	// where the terms select none, or no zone has security groups.
	ResolveSecurityGroups(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus) ([]csv1.SecurityGroupStatus, error)
}

// DefaultProvider is a Provider that remembers networks and security groups for five minutes.
type DefaultProvider struct {
	api      API
	networks *cache.Cache[[]*cloudstack.Network]
	groups   *cache.Cache[[]*cloudstack.SecurityGroup]
}

var _ Provider = (*DefaultProvider)(nil)

// NewProvider makes a provider. It makes no request.
func NewProvider(api API, clk clock.Clock) *DefaultProvider {
	return &DefaultProvider{
		api:      api,
		networks: cache.New[[]*cloudstack.Network]("networks", ttl, clk),
		groups:   cache.New[[]*cloudstack.SecurityGroup]("security-groups", ttl, clk),
	}
}

// list lists the networks of a zone that machines can be put into, by name and id.
func (p *DefaultProvider) list(ctx context.Context, scope cloudstack.Scope, zoneID string, maxAge time.Duration) ([]*cloudstack.Network, error) {
	networks, _, err := p.networks.GetWithin(ctx, selector.Key(scope, zoneID), maxAge, func(ctx context.Context) ([]*cloudstack.Network, error) {
		networks, err := p.api.ListNetworks(ctx, scope, zoneID)
		if err != nil {
			return nil, err
		}
		networks = lo.Filter(networks, func(n *cloudstack.Network, _ int) bool {
			return n.State != stateDestroy && !n.Issystem && (n.Traffictype == "" || n.Traffictype == trafficGuest)
		})
		slices.SortFunc(networks, func(a, b *cloudstack.Network) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Id, b.Id))
		})
		return networks, nil
	})
	return networks, errors.Wrapf(err, "list the networks of zone %s", zoneID)
}

// GetByName implements Provider.
func (p *DefaultProvider) GetByName(ctx context.Context, scope cloudstack.Scope, zoneID, name string) (*cloudstack.Network, error) {
	return p.one(ctx, scope, zoneID, csv1.NetworkSelectorTerm{Name: name})
}

// GetByID implements Provider.
func (p *DefaultProvider) GetByID(ctx context.Context, scope cloudstack.Scope, zoneID, id string) (*cloudstack.Network, error) {
	return p.one(ctx, scope, zoneID, csv1.NetworkSelectorTerm{ID: id})
}

func (p *DefaultProvider) one(ctx context.Context, scope cloudstack.Scope, zoneID string, term csv1.NetworkSelectorTerm) (*cloudstack.Network, error) {
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) (*cloudstack.Network, error) {
		networks, err := p.list(ctx, scope, zoneID, maxAge)
		if err != nil {
			return nil, err
		}
		found := matching(networks, []csv1.NetworkSelectorTerm{term})
		switch len(found) {
		case 0:
			return nil, selector.Errorf(selector.ReasonNotFound, "zone %s has no network %q; it has %s", zoneID, cmp.Or(term.ID, term.Name), names(networks))
		case 1:
			return found[0], nil
		default:
			return nil, selector.Errorf(selector.ReasonAmbiguous, "%d networks of zone %s have the name %q: give the id of one", len(found), zoneID, term.Name)
		}
	})
}

// GetByTags implements Provider.
func (p *DefaultProvider) GetByTags(
	ctx context.Context, scope cloudstack.Scope, zoneID string, tags map[string]string,
) ([]*cloudstack.Network, error) {
	networks, err := p.list(ctx, scope, zoneID, ttl)
	if err != nil {
		return nil, err
	}
	return matching(networks, []csv1.NetworkSelectorTerm{{Tags: tags}}), nil
}

// resolved are the networks of both kinds.
type resolved struct{ first, additional []csv1.NetworkStatus }

// Resolve implements Provider.
func (p *DefaultProvider) Resolve(
	ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus,
) (first, additional []csv1.NetworkStatus, err error) {
	both, err := selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) (resolved, error) {
		var both resolved
		var missing []string
		for _, zone := range zones {
			networks, err := p.list(ctx, selector.Scope(nodeClass), zone.ID, maxAge)
			if err != nil {
				return resolved{}, err
			}
			first, additional, problem := resolve(nodeClass, zone, networks)
			if problem != "" {
				missing = append(missing, problem)
			}
			both.first, both.additional = append(both.first, first...), append(both.additional, additional...)
		}
		if len(missing) > 0 {
			return resolved{}, selector.Errorf(selector.ReasonNotFound, "%s", strings.Join(missing, "; "))
		}
		return both, nil
	})
	return both.first, both.additional, err
}

func resolve(nodeClass *csv1.CloudStackNodeClass, zone csv1.ZoneStatus, networks []*cloudstack.Network) (first, additional []csv1.NetworkStatus, problem string) {
	taken := map[string]bool{}
	for i, term := range nodeClass.Spec.AdditionalNetworkSelectorTerms {
		found, ok := lo.Find(matching(networks, []csv1.NetworkSelectorTerm{term}), func(n *cloudstack.Network) bool { return !taken[n.Id] })
		if !ok {
			return nil, nil, fmt.Sprintf("spec.additionalNetworkSelectorTerms[%d] selects no further network of zone %q; the zone has %s", i, zone.Name, names(networks))
		}
		taken[found.Id] = true
		additional = append(additional, status(found, zone))
	}
	terms := nodeClass.Spec.NetworkSelectorTerms
	if len(terms) == 0 {
		if !zone.SecurityGroupsEnabled {
			return nil, nil, fmt.Sprintf("zone %q has no security groups, so that its machines need a network: set spec.networkSelectorTerms; the zone has %s",
				zone.Name, names(networks))
		}
		return nil, additional, ""
	}
	// A machine cannot have two interfaces in one network.
	for _, found := range matching(networks, terms) {
		if !taken[found.Id] {
			first = append(first, status(found, zone))
		}
	}
	if len(first) == 0 {
		beside := ""
		if len(taken) > 0 {
			beside = " beside the additional ones"
		}
		return nil, nil, fmt.Sprintf("spec.networkSelectorTerms selects no network of zone %q%s; the zone has %s", zone.Name, beside, names(networks))
	}
	return first, additional, ""
}

func status(n *cloudstack.Network, zone csv1.ZoneStatus) csv1.NetworkStatus {
	return csv1.NetworkStatus{ID: n.Id, Name: n.Name, ZoneID: zone.ID}
}

// matching are the networks that fit any of the terms.
func matching(networks []*cloudstack.Network, terms []csv1.NetworkSelectorTerm) []*cloudstack.Network {
	return lo.Filter(networks, func(n *cloudstack.Network, _ int) bool {
		return slices.ContainsFunc(terms, func(term csv1.NetworkSelectorTerm) bool {
			empty := term.ID == "" && term.Name == "" && len(term.Tags) == 0 && term.Type == "" && term.VPCID == ""
			return !empty &&
				(term.ID == "" || term.ID == n.Id) &&
				(term.Name == "" || term.Name == n.Name) &&
				(term.Type == "" || term.Type == n.Type) &&
				(term.VPCID == "" || term.VPCID == n.Vpcid) &&
				selector.MatchTags(cloudstack.TagsOf(n.Tags), term.Tags)
		})
	})
}

func names(networks []*cloudstack.Network) string {
	return selector.Names(lo.Map(networks, func(n *cloudstack.Network, _ int) string { return n.Name }))
}

// ResolveSecurityGroups implements Provider.
func (p *DefaultProvider) ResolveSecurityGroups(
	ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus,
) ([]csv1.SecurityGroupStatus, error) {
	const field = "spec.securityGroupSelectorTerms"
	terms := nodeClass.Spec.SecurityGroupSelectorTerms
	if len(terms) == 0 {
		return nil, nil
	}
	if !slices.ContainsFunc(zones, func(zone csv1.ZoneStatus) bool { return zone.SecurityGroupsEnabled }) {
		return nil, selector.Errorf(selector.ReasonInvalid, "%s: no zone of %s has security groups: remove the terms", field,
			selector.Names(lo.Map(zones, func(zone csv1.ZoneStatus, _ int) string { return zone.Name })))
	}
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) ([]csv1.SecurityGroupStatus, error) {
		scope := selector.Scope(nodeClass)
		groups, _, err := p.groups.GetWithin(ctx, selector.Key(scope, ""), maxAge, func(ctx context.Context) ([]*cloudstack.SecurityGroup, error) {
			return p.api.ListSecurityGroups(ctx, scope)
		})
		if err != nil {
			return nil, errors.Wrap(err, "list security groups")
		}
		var statuses []csv1.SecurityGroupStatus
		for _, group := range groups {
			if slices.ContainsFunc(terms, func(term csv1.SecurityGroupSelectorTerm) bool { return fitsGroup(term, group) }) {
				statuses = append(statuses, csv1.SecurityGroupStatus{ID: group.Id, Name: group.Name})
			}
		}
		if len(statuses) == 0 {
			return nil, selector.Errorf(selector.ReasonNotFound, "%s selects no security group; there is %s", field,
				selector.Names(lo.Map(groups, func(group *cloudstack.SecurityGroup, _ int) string { return group.Name })))
		}
		slices.SortFunc(statuses, func(a, b csv1.SecurityGroupStatus) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
		})
		return statuses, nil
	})
}

func fitsGroup(term csv1.SecurityGroupSelectorTerm, group *cloudstack.SecurityGroup) bool {
	return (term.ID != "" || term.Name != "" || len(term.Tags) > 0) &&
		(term.ID == "" || term.ID == group.Id) &&
		(term.Name == "" || term.Name == group.Name) &&
		selector.MatchTags(cloudstack.TagsOf(group.Tags), term.Tags)
}
