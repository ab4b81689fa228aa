package service

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/status"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// actorService is who does what nobody asked for: a deadline that passed.
const actorService = "nodepools-service"

// evaluate makes the status of an object from what its controllers have reported, and says whether it changed.
func (c *change) evaluate(o *object, newGeneration bool) (bool, error) {
	reports, err := c.reportsOf(o.Key)
	if err != nil {
		return false, err
	}
	return c.evaluateWith(o, newGeneration, reports)
}

func (c *change) evaluateWith(o *object, newGeneration bool, reports []*nodepoolsv1.ControllerStatus) (bool, error) {
	required, err := c.requiredOf(o)
	if err != nil {
		return false, err
	}
	input := status.Input{
		Generation:       o.resource().GetGeneration(),
		NewGeneration:    newGeneration,
		Reports:          reports,
		Required:         required,
		Previous:         o.resource().GetStatus(),
		Now:              c.at,
		ProgressDeadline: c.options.ProgressDeadline,
		DeletionDeadline: c.options.DeletionDeadline,
		Finalizers:       o.resource().GetFinalizers(),
		DesiredNodes:     o.desiredNodes(),
	}
	if o.deleting() {
		input.DeletionRequestedAt = o.resource().GetDeletionRequestedAt().AsTime()
		if o.cluster != nil {
			pools, err := c.tx.Pools(o.ID)
			if err != nil {
				return false, err
			}
			input.WaitsForPools = len(pools) > 0
		}
	}
	next, due := status.Aggregate(input)
	o.due = due
	o.needsReconcile = o.deleting() || !status.Observed(input.Generation, status.RequiredOf(required, reports), reports)
	changed := !proto.Equal(next, o.resource().GetStatus())
	o.setStatus(next)
	return changed, nil
}

// reportsOf reads what controllers reported about an object.
func (c *change) reportsOf(key store.Key) ([]*nodepoolsv1.ControllerStatus, error) {
	kept, err := c.tx.Reports(key)
	if err != nil {
		return nil, err
	}
	return decodeReports(kept)
}

func decodeReports(kept []store.Report) ([]*nodepoolsv1.ControllerStatus, error) {
	result := make([]*nodepoolsv1.ControllerStatus, 0, len(kept))
	for _, report := range kept {
		message := &nodepoolsv1.ControllerStatus{}
		if err := proto.Unmarshal(report.Message, message); err != nil {
			return nil, errors.Wrapf(err, "read the report of %s", report.Controller)
		}
		result = append(result, message)
	}
	return result, nil
}

// requiredOf are the controllers that an object has to wait for: this service itself, where it provisions the platform, and those that
// registered for it.
func (c *change) requiredOf(o *object) ([]string, error) {
	controllers, err := c.allControllers()
	if err != nil {
		return nil, err
	}
	var required []string
	if own := c.options.Provisioned[o.platform()]; own != "" {
		required = append(required, own)
	}
	for _, controller := range controllers {
		if slices.Contains(controller.Platforms, o.platform()) && (o.pool != nil || controller.Clusters) {
			required = append(required, controller.Name)
		}
	}
	return required, nil
}

// allControllers are those that registered, as this transaction found them first.
func (c *change) allControllers() ([]store.Controller, error) {
	if c.read {
		return c.controllers, nil
	}
	controllers, err := c.tx.Controllers()
	if err == nil {
		c.controllers, c.read = controllers, true
	}
	return controllers, err
}

// reevaluate makes the status of a kept object anew, and writes it when it changed. An object that is gone is none of its business.
func (c *change) reevaluate(key store.Key) error {
	record, err := c.tx.Get(key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	o, err := decode(record)
	if err != nil {
		return err
	}
	return c.refresh(o)
}

// refresh evaluates an object and writes what changed.
func (c *change) refresh(o *object) error {
	before := o.record
	phase := o.resource().GetStatus().GetPhase()
	changed, err := c.evaluate(o, false)
	if err != nil {
		return err
	}
	if !changed && o.due.Equal(before.Due) && o.needsReconcile == before.NeedsReconcile {
		return nil
	}
	if err := c.put(o, before.Owner); err != nil {
		return err
	}
	// Each revision of an object has an event: a watcher knows every ETag.
	return c.event(o, "status", describeStatus(o, phase))
}

func describeStatus(o *object, phaseBefore string) string {
	current := o.resource().GetStatus()
	text := noun(o.Kind) + " " + o.resource().GetName() + " is " + current.GetPhase()
	if phaseBefore != "" && phaseBefore != current.GetPhase() {
		text += ", and was " + phaseBefore
	}
	if current.GetMessage() != "" {
		text += ": " + current.GetMessage()
	}
	return text
}

// sweepClock is when the last sweep was.
type sweepClock struct {
	mutex sync.Mutex
	at    time.Time
}

// take says whether a sweep is due, and then takes it.
func (s *sweepClock) take(now time.Time, interval time.Duration) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.at.IsZero() && now.Sub(s.at) < interval {
		return false
	}
	s.at = now
	return true
}

const (
	// batch is how many objects are listed together.
	batch = 100
	// together is how many of them are written together: the writes of others wait meanwhile.
	together = 10
)

// Tick does what time makes due: it evaluates deadlines, and at intervals enqueues again what this service provisions and what is not
// finished, so that a lost job is no lost change, and ends what a process that died had begun (settle). It is to be called every few seconds, in any number of processes.
func (s *Service) Tick(ctx context.Context) error {
	now := s.now()
	seen := map[store.Key]bool{}
	for {
		keys, err := s.store.Due(ctx, now, batch)
		if err != nil {
			return errors.Wrap(err, "read what is due")
		}
		// What is still due by this clock is not yet by that of the transaction: the next tick is for it.
		keys = slices.DeleteFunc(keys, func(key store.Key) bool { return seen[key] })
		for _, key := range keys {
			seen[key] = true
			if err := s.transact(ctx, actorService, func(c *change) error { return c.reevaluate(key) }); err != nil {
				return errors.Wrapf(err, "evaluate %s %s", key.Kind, key.ID)
			}
		}
		if len(keys) < batch {
			break
		}
	}
	if !s.lastSweep.take(now, s.options.SweepInterval) {
		return nil
	}
	if err := s.settle(ctx); err != nil {
		return errors.Wrap(err, "evaluate what waits for other controllers than before")
	}
	return s.sweep(ctx)
}

// sweep enqueues what this service provisions and has yet to work on.
func (s *Service) sweep(ctx context.Context) error {
	platforms := slices.Sorted(maps.Keys(s.options.Provisioned))
	if len(platforms) == 0 {
		return nil
	}
	for _, kind := range []store.Kind{store.Cluster, store.NodePool} {
		query := store.Query{Kind: kind, Platforms: platforms, NeedsReconcile: true, Limit: batch}
		err := s.eachPage(ctx, query, func(c *change, record store.Record) error {
			if record.Kind == store.Cluster && record.Deleting {
				// It is enqueued when its last pool goes.
				if pools, err := c.tx.Pools(record.ID); err != nil || len(pools) > 0 {
					return err
				}
			}
			return c.tx.Enqueue(record.Key, time.Time{})
		})
		if err != nil {
			return errors.Wrap(err, "enqueue what is not finished")
		}
	}
	return nil
}

// eachPage calls a function for each object of a list that is still there, a few in a transaction.
func (s *Service) eachPage(ctx context.Context, query store.Query, function func(c *change, record store.Record) error) error {
	for {
		page, err := s.store.List(ctx, query)
		if err != nil || len(page.Records) == 0 {
			return err
		}
		for few := range slices.Chunk(page.Records, together) {
			if err := s.each(ctx, few, function); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		query.After = page.Records[len(page.Records)-1].Sequence
	}
}

// each calls a function, in one transaction, for each of some listed objects that is still there.
func (s *Service) each(ctx context.Context, listed []store.Record, function func(c *change, record store.Record) error) error {
	return s.transact(ctx, actorService, func(c *change) error {
		for _, one := range listed {
			record, err := c.tx.Get(one.Key)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err == nil {
				err = function(c, record)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Run calls Tick, prunes the store and delivers webhooks until its context ends. A failure is logged and tried again.
func (s *Service) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { s.deliverer().Run(ctx) })
	tick, prune := time.NewTicker(time.Second), time.NewTicker(time.Hour)
	defer tick.Stop()
	defer prune.Stop()
	work := s.Tick // what became due while nobody ran waits no longer
	for {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			s.logger.LogAttrs(ctx, slog.LevelError, "the regular work failed", slog.String("error", err.Error()))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			work = s.Tick
		case <-prune.C:
			work = s.store.Prune
		}
	}
}
