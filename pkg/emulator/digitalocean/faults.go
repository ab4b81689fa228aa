package digitalocean

import (
	"net/http"
	"slices"
	"time"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// Refuse answers a request as DigitalOcean does when the reason lies with the cloud.
func (c *Cloud) Refuse(w http.ResponseWriter, _ *http.Request, refusal emulator.Refusal) {
	requestID := emulator.NewID()
	w.Header().Set("X-Request-Id", requestID)
	c.rate.count(w.Header(), c.clock.Now())
	err := serverError()
	switch refusal.Reason {
	case emulator.ReasonRateLimit:
		w.Header().Set("Ratelimit-Remaining", "0")
		err = tooManyRequests()
	case emulator.ReasonQuota:
		// As in https://github.com/digitalocean/doctl/issues/1619.
		err = invalid("validation error: exceed limits, not enough available droplet limit")
	case emulator.ReasonCapacity:
		err = invalid("validation error: the size is unavailable in this region")
	case emulator.ReasonUnauthorized:
		err = unauthorized()
	case emulator.ReasonServerError:
		switch refusal.Status {
		case http.StatusServiceUnavailable:
			err = serviceUnavailable()
		case http.StatusBadGateway, http.StatusGatewayTimeout:
			emulator.WriteGatewayError(w, refusal.Status)
			return
		}
	}
	writeError(w, err, requestID)
}

// Heal ends what [emulator.Effects] began: nothing is under way for longer than if it began now, reads see all that there is, and
// nothing lingers for longer than usual.
func (c *Cloud) Heal() error {
	_, err := change(c, func(s *state, now time.Time) (any, error) {
		s.Unseen = nil
		for _, cluster := range s.Clusters {
			cluster.ReadyAt = earliest(cluster.ReadyAt, c.later(now, clusterCreation))
			cluster.UpgradedAt = earliest(cluster.UpgradedAt, c.later(now, clusterUpgrade))
			cluster.DeletedAt = earliest(cluster.DeletedAt, now)
			cluster.MemberUntil = earliest(cluster.MemberUntil, c.membershipEnds(now))
			// The nodes of a new cluster and of an upgrade come and go with it.
			running := latest(cluster.UpgradedAt, c.later(latest(cluster.ReadyAt, now), nodeCreation))
			gone := latest(cluster.UpgradedAt, c.later(now, nodeRemoval))
			for _, pool := range cluster.Pools {
				if pool.DeletedAt != nil {
					*pool.DeletedAt = earliest(*pool.DeletedAt, gone)
				}
				for _, node := range pool.Nodes {
					node.RunningAt = earliest(node.RunningAt, running)
					node.DeletedFrom = earliest(node.DeletedFrom, gone)
					node.GoneAt = earliest(node.GoneAt, gone)
				}
			}
		}
		for _, former := range s.FormerMembers {
			former.Until = earliest(former.Until, c.membershipEnds(now))
		}
		for _, firewall := range s.Firewalls {
			firewall.AppliedAt = earliest(firewall.AppliedAt, c.later(now, firewallCreation))
		}
		s.settle(now)
		return nil, nil
	})
	return err
}

func earliest(t, bound time.Time) time.Time {
	if t.After(bound) {
		return bound
	}
	return t
}

func latest(t, bound time.Time) time.Time {
	if t.Before(bound) {
		return bound
	}
	return t
}

// ends is the instant at which something ends that the change begins at start and that takes d in the real cloud.
func (c *Cloud) ends(s *state, start time.Time, d time.Duration) time.Time {
	ordinary := c.later(start, d)
	if s.effects.Stuck <= 0 {
		return ordinary
	}
	return latest(ordinary, c.clock.Now().Add(s.effects.Stuck))
}

// removeDeleted forgets the clusters whose deletion has come to its end. Their VPCs count them as members for a while.
func (s *state) removeDeleted(now time.Time) {
	s.Clusters = slices.DeleteFunc(s.Clusters, func(cluster *clusterRecord) bool {
		if !cluster.deleted(now) {
			return false
		}
		s.FormerMembers = append(s.FormerMembers, &formerMember{
			VPCUUID: cluster.VPCUUID, URN: cluster.urn(), Name: cluster.Name, CreatedAt: cluster.CreatedAt, Until: cluster.MemberUntil,
		})
		return true
	})
}

func (c *clusterRecord) deleted(now time.Time) bool {
	return !c.DeletedAt.IsZero() && reached(now, c.DeletedAt)
}

// finishDeletions lets reads not see a cluster whose deletion, which was stuck, has come to its end.
func (c *Cloud) finishDeletions() {
	due := false
	c.store.View(func(s *state) {
		now := c.clock.Now()
		due = slices.ContainsFunc(s.Clusters, func(cluster *clusterRecord) bool { return cluster.deleted(now) })
	})
	if due {
		// When the state file cannot be written, the cluster is there a little longer.
		_ = c.store.Update(func(s *state) error { s.settle(c.clock.Now()); return nil })
	}
}

// ids are those of all objects that can be missing from reads.
func (s *state) ids() map[string]bool {
	ids := map[string]bool{}
	for _, vpc := range s.VPCs {
		ids[vpc.ID] = true
	}
	for _, firewall := range s.Firewalls {
		ids[firewall.ID] = true
	}
	for _, cluster := range s.Clusters {
		ids[cluster.ID] = true
		for _, pool := range cluster.Pools {
			ids[pool.ID] = true
		}
	}
	return ids
}

// hideNew keeps what is not among the known ids from reads for a while, when the change has that effect.
func (s *state) hideNew(known map[string]bool, now time.Time) {
	if s.effects.Unseen <= 0 {
		return
	}
	if s.Unseen == nil {
		s.Unseen = map[string]time.Time{}
	}
	for id := range s.ids() {
		if !known[id] {
			s.Unseen[id] = now.Add(s.effects.Unseen)
		}
	}
}

// visible is the account as reads see it.
func (s *state) visible(now time.Time) *state {
	hidden := func(id string) bool { return now.Before(s.Unseen[id]) }
	anyHidden := false
	for id := range s.Unseen {
		anyHidden = anyHidden || hidden(id)
	}
	if !anyHidden {
		return s
	}
	seen := *s
	seen.VPCs = slices.DeleteFunc(slices.Clone(s.VPCs), func(vpc *VPC) bool { return hidden(vpc.ID) })
	seen.Firewalls = slices.DeleteFunc(slices.Clone(s.Firewalls), func(firewall *firewallRecord) bool { return hidden(firewall.ID) })
	seen.Clusters = nil
	for _, cluster := range s.Clusters {
		if !hidden(cluster.ID) {
			partial := *cluster
			partial.Pools = slices.DeleteFunc(slices.Clone(cluster.Pools), func(pool *poolRecord) bool { return hidden(pool.ID) })
			seen.Clusters = append(seen.Clusters, &partial)
		}
	}
	return &seen
}

// seen reads the account as a client of the API sees it.
func seen[T any](c *Cloud, read func(s *state, now time.Time) T) T {
	return view(c, func(s *state, now time.Time) T { return read(s.visible(now), now) })
}
