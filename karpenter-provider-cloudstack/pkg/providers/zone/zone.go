// Package zone finds the zones of CloudStack.
package zone

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"k8s.io/utils/clock"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cache"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

const (
	ttl = time.Hour
	// disabled is the allocation state of a zone that takes no machines.
	disabled = "Disabled"
)

// API is what of CloudStack is asked.
type API interface {
	ListZones(ctx context.Context) ([]*cloudstack.Zone, error)
}

// Provider finds zones. What it returns is shared, and must not be changed.
type Provider interface {
	// List lists the zones that the credentials may use.
	List(ctx context.Context) ([]*cloudstack.Zone, error)
	// GetByName finds a zone by its id or its name. The error is a *selector.Error where there is none, or several of that name.
	GetByName(ctx context.Context, nameOrID string) (*cloudstack.Zone, error)
	// Resolve finds all zones of a CloudStackNodeClass, in its order. The error is a *selector.Error where one is unknown or disabled.
	Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]csv1.ZoneStatus, error)
}

// DefaultProvider is a Provider that remembers the zones for an hour.
type DefaultProvider struct {
	api   API
	zones *cache.Cache[[]*cloudstack.Zone]
}

var _ Provider = (*DefaultProvider)(nil)

// NewProvider makes a provider. It makes no request.
func NewProvider(api API, clk clock.Clock) *DefaultProvider {
	return &DefaultProvider{api: api, zones: cache.New[[]*cloudstack.Zone]("zones", ttl, clk)}
}

// List implements Provider.
func (p *DefaultProvider) List(ctx context.Context) ([]*cloudstack.Zone, error) {
	return p.list(ctx, ttl)
}

func (p *DefaultProvider) list(ctx context.Context, maxAge time.Duration) ([]*cloudstack.Zone, error) {
	zones, _, err := p.zones.GetWithin(ctx, "", maxAge, p.api.ListZones)
	return zones, errors.Wrap(err, "list zones")
}

// GetByName implements Provider.
func (p *DefaultProvider) GetByName(ctx context.Context, nameOrID string) (*cloudstack.Zone, error) {
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) (*cloudstack.Zone, error) {
		zones, err := p.list(ctx, maxAge)
		if err != nil {
			return nil, err
		}
		return find(zones, nameOrID, "zone")
	})
}

// Resolve implements Provider.
func (p *DefaultProvider) Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass) ([]csv1.ZoneStatus, error) {
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) ([]csv1.ZoneStatus, error) {
		zones, err := p.list(ctx, maxAge)
		if err != nil {
			return nil, err
		}
		return resolve(zones, nodeClass)
	})
}

func resolve(zones []*cloudstack.Zone, nodeClass *csv1.CloudStackNodeClass) ([]csv1.ZoneStatus, error) {
	wanted := nodeClass.ZoneSelectors()
	if len(wanted) == 0 {
		return nil, selector.Errorf(selector.ReasonInvalid, "spec.zones names no zone: name one, there is %s", names(zones))
	}
	var statuses []csv1.ZoneStatus
	for i, nameOrID := range wanted {
		field := fmt.Sprintf("spec.zones[%d]", i)
		if len(nodeClass.Spec.Zones) == 0 {
			field = "spec.zone"
		}
		zone, err := find(zones, nameOrID, field)
		if err != nil {
			return nil, err
		}
		if zone.Allocationstate == disabled {
			return nil, selector.Errorf(selector.ReasonNotUsable, "%s: zone %q is disabled: enable it, or name another one", field, zone.Name)
		}
		status := csv1.ZoneStatus{ID: zone.Id, Name: LabelOf(zone), SecurityGroupsEnabled: zone.Securitygroupsenabled}
		same, found := lo.Find(statuses, func(other csv1.ZoneStatus) bool { return other.ID == status.ID || other.Name == status.Name })
		switch {
		case found && same.ID == status.ID:
			continue // named by name and by id
		case found:
			return nil, selector.Errorf(selector.ReasonAmbiguous, "%s: nodes of zone %q would have the same value of topology.kubernetes.io/zone as those of zone %s: "+
				"name one of them", field, zone.Name, same.ID)
		}
		statuses = append(statuses, status)
	}
	return statuses, nil
}

// LabelOf is the value of topology.kubernetes.io/zone of the nodes of a zone: its name, in the form that labels allow; else its id. The cloud
// controller manager cannot label nodes of zones whose names no label can have.
func LabelOf(zone *cloudstack.Zone) string {
	if label := selector.LabelValue(zone.Name); label != "" {
		return label
	}
	return zone.Id
}

func find(zones []*cloudstack.Zone, nameOrID, field string) (*cloudstack.Zone, error) {
	if zone, ok := lo.Find(zones, func(zone *cloudstack.Zone) bool { return zone.Id == nameOrID }); ok {
		return zone, nil
	}
	found := lo.Filter(zones, func(zone *cloudstack.Zone, _ int) bool { return zone.Name == nameOrID })
	switch len(found) {
	case 0:
		return nil, selector.Errorf(selector.ReasonNotFound, "%s: there is no zone %q that these credentials may use; there is %s", field, nameOrID, names(zones))
	case 1:
		return found[0], nil
	default:
		return nil, selector.Errorf(selector.ReasonAmbiguous, "%s: %d zones have the name %q: give the id of one", field, len(found), nameOrID)
	}
}

func names(zones []*cloudstack.Zone) string {
	return selector.Names(lo.Map(zones, func(zone *cloudstack.Zone, _ int) string { return zone.Name }))
}
