// Package digitalocean emulates the part of DigitalOcean's API that Kubernetes clusters need: clusters and their node pools,
// VPCs, cloud firewalls, the container registry, and what Kubernetes makes by itself (load balancers, volumes).
//
// A [Cloud] is an [http.Handler] that godo, and so the provider plugins built on it, can't tell from the real thing as far as
// they look: shapes, status codes, error ids, states and the order they come in. Where the API's documentation is silent, the
// emulator does what the clients of the API are known to rely on, and says so in a comment.
//
//	cloud, err := digitalocean.New(emulator.Options{Token: "any"})
//	server, err := emulator.Listen("127.0.0.1:0", cloud)
//	client, err := godo.New(httpClient, godo.SetBaseURL(server.URL()))
//
// Tests look at the cloud with [Cloud.VPCs], [Cloud.Clusters] and the like, and change it behind a client's back with
// [Cloud.ScalePool], [Cloud.DeleteCluster] and the like.
//
// Reference: https://docs.digitalocean.com/reference/api/digitalocean/
package digitalocean

import (
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// How long things take in the real cloud, roughly. Options.TimeScale shortens them.
const (
	clusterCreation = 2 * time.Minute
	clusterUpgrade  = 3 * time.Minute
	nodeCreation    = 75 * time.Second
	// nodeRemoval is draining and deleting, about half of it each.
	nodeRemoval      = 40 * time.Second
	firewallCreation = 5 * time.Second
	// vpcMembership is how long a deleted cluster still counts as a member of its VPC, which can't be deleted meanwhile:
	// https://github.com/digitalocean/terraform-provider-digitalocean/issues/488
	vpcMembership = 3 * time.Minute
)

// Cloud is one emulated DigitalOcean account. It may be used by several goroutines at once.
type Cloud struct {
	options emulator.Options
	clock   emulator.Clock
	store   *emulator.Store[state]
	log     emulator.Log
	rate    rateCounter
	handler http.Handler

	mu         sync.Mutex
	vpcGrace   time.Duration
	vpcGraceOn bool
}

// New opens the emulated account that Options.StateFile keeps, or makes a fresh one: no clusters, a default VPC in each
// region, no container registry. It fails on options that make no sense, and on a state file that can't be read or is
// another cloud's.
func New(options emulator.Options) (*Cloud, error) {
	return newCloud(options, nil)
}

// newCloud lets tests give the time.
func newCloud(options emulator.Options, now func() time.Time) (*Cloud, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	c := &Cloud{options: options, clock: emulator.NewClock(options.TimeScale, now)}
	store, err := emulator.OpenStore(options.StateFile, newState(c.clock.Now()))
	if err != nil {
		return nil, err
	}
	var cloud string
	store.View(func(s *state) { cloud = s.Cloud })
	if cloud != cloudName {
		return nil, errors.Errorf("the state file %s is not an emulated DigitalOcean's", options.StateFile)
	}
	if err := store.Update(func(s *state) error { s.addMissingDefaults(c.clock.Now()); return nil }); err != nil {
		return nil, err
	}
	c.store = store
	c.handler = emulator.Handler(options, &c.log, c.routes())
	return c, nil
}

// ServeHTTP answers one request of the API.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Name is "digitalocean".
func (c *Cloud) Name() string { return cloudName }

// view reads the account as it is now.
func view[T any](c *Cloud, read func(s *state, now time.Time) T) T {
	c.finishDeletions()
	var result T
	c.store.View(func(s *state) { result = read(s, c.clock.Now()) })
	return result
}

// change changes the account. When edit fails, nothing has changed. Edits get the instant at which they happen; what is due
// by then is done before.
func change[T any](c *Cloud, edit func(s *state, now time.Time) (T, error)) (T, error) {
	return changeWith(c, emulator.Effects{}, edit)
}

// changeFor changes the account for a request, whose effects the change has.
func changeFor[T any](c *Cloud, r *http.Request, edit func(s *state, now time.Time) (T, error)) (T, error) {
	return changeWith(c, emulator.EffectsOf(r.Context()), edit)
}

func changeWith[T any](c *Cloud, effects emulator.Effects, edit func(s *state, now time.Time) (T, error)) (T, error) {
	var result T
	err := c.store.Update(func(s *state) error {
		now := c.clock.Now()
		s.settle(now)
		s.effects = effects
		known := s.ids()
		var err error
		if result, err = edit(s, now); err == nil {
			s.hideNew(known, now)
		}
		return err
	})
	return result, err
}

// find reads one thing of the account that may not be there, as a client of the API sees the account.
func find[T any](c *Cloud, read func(s *state, now time.Time) (T, error)) (T, error) {
	var err error
	result := view(c, func(s *state, now time.Time) T {
		var found T
		found, err = read(s.visible(now), now)
		return found
	})
	return result, err
}

// later is the instant at which something ends that takes d in the real cloud and begins at start.
func (c *Cloud) later(start time.Time, d time.Duration) time.Time {
	return c.clock.AfterInstant(start, d)
}

// membershipEnds is the instant at which a cluster that is deleted stops being a member of its VPC.
func (c *Cloud) membershipEnds(deleted time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vpcGraceOn {
		return deleted.Add(c.vpcGrace)
	}
	return c.later(deleted, vpcMembership)
}
