package civo

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// lingering is a cluster that is gone, and counts as a member of its network all the same.
type lingering struct {
	NetworkID  string    `json:"network_id"`
	FirewallID string    `json:"firewall_id"`
	Until      time.Time `json:"until"`
}

// Refuse answers a request as Civo does when the reason lies with the cloud.
func (c *Cloud) Refuse(w http.ResponseWriter, _ *http.Request, refusal emulator.Refusal) {
	switch refusal.Reason {
	case emulator.ReasonRateLimit:
		writeError(w, errRateLimit())
	case emulator.ReasonQuota:
		writeError(w, refuse(http.StatusForbidden, "quota_limit_reached", "The quota of the account has been reached"))
	case emulator.ReasonCapacity:
		writeError(w, errOutOfCapacity())
	case emulator.ReasonUnauthorized:
		writeError(w, errAccountNotFound())
	default:
		if refusal.Status != http.StatusInternalServerError {
			emulator.WriteGatewayError(w, refusal.Status)
			return
		}
		// civogo tells this one by the status in the body.
		emulator.WriteJSON(w, refusal.Status, map[string]any{"status": refusal.Status, "error": "Internal Server Error"})
	}
}

// Heal ends what [emulator.Effects] began: nothing is under way for longer than if it began now, reads see all that there is, and
// nothing lingers.
func (c *Cloud) Heal() error {
	return c.edit(func(a *account, when schedule) error {
		a.Unseen, a.Lingering = nil, nil
		soon := func(d time.Duration) time.Time { return c.clock.AfterInstant(when.now, d) }
		for _, cluster := range a.Clusters {
			cluster.BuiltAt = earliest(cluster.BuiltAt, soon(clusterBuildTime))
			cluster.UpgradedAt = earliest(cluster.UpgradedAt, soon(clusterUpgradeTime))
			cluster.GoneAt = earliest(cluster.GoneAt, soon(clusterDeleteTime))
			active := soon(nodeActiveTime)
			if cluster.BuiltAt.After(active) {
				active = cluster.BuiltAt // its first nodes come with a cluster
			}
			for _, pool := range cluster.Pools {
				pool.GoneAt = earliest(pool.GoneAt, soon(nodeDeleteTime))
				for _, instance := range pool.Instances {
					instance.ActiveAt = earliest(instance.ActiveAt, active)
					instance.GoneAt = earliest(instance.GoneAt, soon(nodeDeleteTime))
				}
			}
		}
		return nil
	})
}

// earliest leaves an instant that is not set as it is.
func earliest(t, bound time.Time) time.Time {
	if t.After(bound) {
		return bound
	}
	return t
}

// ends is the instant at which something ends that the request begins now and that takes d in the real cloud.
func (c *Cloud) ends(r *http.Request, now time.Time, d time.Duration) time.Time {
	ordinary := c.clock.AfterInstant(now, d)
	if stuck := now.Add(emulator.EffectsOf(r.Context()).Stuck); stuck.After(ordinary) {
		return stuck
	}
	return ordinary
}

// linger makes a cluster that is being deleted count for a while after it is gone.
func (a *account) linger(cluster *Cluster, d time.Duration) {
	if d > 0 {
		a.Lingering = append(a.Lingering, lingering{
			NetworkID: cluster.NetworkID, FirewallID: cluster.FirewallID, Until: cluster.GoneAt.Add(d),
		})
	}
}

// isLingering tells whether a cluster that is gone still counts as one that uses the network or firewall.
func (a *account) isLingering(id string, now time.Time) bool {
	return slices.ContainsFunc(a.Lingering, func(l lingering) bool {
		return (l.NetworkID == id || l.FirewallID == id) && now.Before(l.Until)
	})
}

// forgetEffects drops what has ended.
func (a *account) forgetEffects(now time.Time) {
	maps.DeleteFunc(a.Unseen, func(_ string, until time.Time) bool { return !now.Before(until) })
	a.Lingering = slices.DeleteFunc(a.Lingering, func(l lingering) bool { return !now.Before(l.Until) })
}

// poolKey names a pool among all objects: pools of several clusters may be called the same.
func poolKey(cluster *Cluster, pool *Pool) string { return cluster.ID + "/" + pool.ID }

// ids are those of all objects that can be missing from reads.
func (a *account) ids() map[string]bool {
	ids := map[string]bool{}
	for _, network := range a.Networks {
		ids[network.ID] = true
	}
	for _, firewall := range a.Firewalls {
		ids[firewall.ID] = true
		for _, rule := range firewall.Rules {
			ids[rule.ID] = true
		}
	}
	for _, cluster := range a.Clusters {
		ids[cluster.ID] = true
		for _, pool := range cluster.Pools {
			ids[poolKey(cluster, pool)] = true
		}
	}
	return ids
}

// hideNew keeps what is not among the known ids from reads for a while.
func (a *account) hideNew(known map[string]bool, now time.Time, d time.Duration) {
	if d <= 0 {
		return
	}
	if a.Unseen == nil {
		a.Unseen = map[string]time.Time{}
	}
	for id := range a.ids() {
		if !known[id] {
			a.Unseen[id] = now.Add(d)
		}
	}
}

// visible is the account as reads see it.
func (a *account) visible(now time.Time) *account {
	hidden := func(id string) bool { return now.Before(a.Unseen[id]) }
	anyHidden := false
	for id := range a.Unseen {
		anyHidden = anyHidden || hidden(id)
	}
	if !anyHidden {
		return a
	}
	seen := *a
	seen.Networks, seen.Firewalls, seen.Clusters = nil, nil, nil
	for _, network := range a.Networks {
		if !hidden(network.ID) {
			seen.Networks = append(seen.Networks, network)
		}
	}
	for _, firewall := range a.Firewalls {
		if !hidden(firewall.ID) {
			partial := *firewall
			partial.Rules = slices.DeleteFunc(slices.Clone(firewall.Rules), func(rule Rule) bool { return hidden(rule.ID) })
			seen.Firewalls = append(seen.Firewalls, &partial)
		}
	}
	for _, cluster := range a.Clusters {
		if !hidden(cluster.ID) {
			partial := *cluster
			partial.Pools = slices.DeleteFunc(slices.Clone(cluster.Pools), func(pool *Pool) bool { return hidden(poolKey(cluster, pool)) })
			seen.Clusters = append(seen.Clusters, &partial)
		}
	}
	return &seen
}
