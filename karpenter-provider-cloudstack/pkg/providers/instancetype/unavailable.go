package instancetype

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// unavailableFor is how long what had no room is left alone.
const unavailableFor = 3 * time.Minute

// Unavailable remembers what there was no room for, so that the next machine is tried elsewhere. It is safe for concurrent use.
type Unavailable struct {
	clock clock.Clock

	mu       sync.Mutex
	sequence uint64
	until    map[place]time.Time
	next     time.Time
}

// place is what there is no room for: an instance type in a zone, a zone, or a network.
type place struct{ instanceType, zone, capacityType, network string }

// NewUnavailable makes an Unavailable that has nothing in it.
func NewUnavailable(clk clock.Clock) *Unavailable {
	return &Unavailable{clock: clk, until: map[place]time.Time{}}
}

// Mark remembers for three minutes that there is no room for an instance type in a zone. The zone is the value of its label.
func (u *Unavailable) Mark(ctx context.Context, reason, instanceType, zone, capacityType string) {
	u.mark(ctx, reason, place{instanceType: instanceType, zone: zone, capacityType: capacityType})
}

// MarkZone remembers for three minutes that there is no room in a zone. The zone is the value of its label.
func (u *Unavailable) MarkZone(ctx context.Context, reason, zone string) {
	u.mark(ctx, reason, place{zone: zone})
}

// MarkNetwork remembers for three minutes that a network takes no machines, as one without free addresses.
func (u *Unavailable) MarkNetwork(ctx context.Context, reason, networkID string) {
	u.mark(ctx, reason, place{network: networkID})
}

func (u *Unavailable) mark(ctx context.Context, reason string, p place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire()
	if _, already := u.until[p]; !already {
		u.sequence++
		log.FromContext(ctx).V(1).Info("no room for machines", "reason", reason, "instanceType", p.instanceType, "zone", p.zone,
			"capacityType", p.capacityType, "network", p.network, "for", unavailableFor.String())
	}
	end := u.clock.Now().Add(unavailableFor)
	u.until[p] = end
	if u.next.IsZero() || end.Before(u.next) {
		u.next = end
	}
}

// IsUnavailable tells whether there was no room for an instance type in a zone, or for anything in that zone.
func (u *Unavailable) IsUnavailable(instanceType, zone, capacityType string) bool {
	return u.has(place{instanceType: instanceType, zone: zone, capacityType: capacityType}, place{zone: zone})
}

// IsNetworkUnavailable tells whether a network took no machines.
func (u *Unavailable) IsNetworkUnavailable(networkID string) bool {
	return u.has(place{network: networkID})
}

func (u *Unavailable) has(places ...place) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire()
	for _, p := range places {
		if _, marked := u.until[p]; marked {
			return true
		}
	}
	return false
}

// Sequence is a number that is another one whenever something became unavailable, or available again.
func (u *Unavailable) Sequence() uint64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire()
	return u.sequence
}

// expire forgets what is over. It looks through all only when the first of them is due. The lock is held.
func (u *Unavailable) expire() {
	now := u.clock.Now()
	if u.next.IsZero() || now.Before(u.next) {
		return
	}
	u.next = time.Time{}
	for p, until := range u.until {
		switch {
		case !now.Before(until):
			delete(u.until, p)
			u.sequence++
		case u.next.IsZero() || until.Before(u.next):
			u.next = until
		}
	}
}
