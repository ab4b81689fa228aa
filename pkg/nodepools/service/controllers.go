package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/status"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// RegisterController says that a controller is there. Objects of its platforms then wait for it. Repeated, it is a sign of life.
func (s *Service) RegisterController(ctx context.Context, request *nodepoolsv1.RegisterControllerRequest) (*nodepoolsv1.Controller, error) {
	who, err := reader(ctx)
	if err != nil {
		return nil, err
	}
	given := request.GetController()
	wanted := &nodepoolsv1.Controller{
		Name: given.GetName(), Platforms: slices.Clone(given.GetPlatforms()), Version: given.GetVersion(), Clusters: given.GetClusters(),
	}
	if wanted.Name == "" {
		wanted.Name = request.GetName()
	}
	if who.Role != auth.Admin && !who.ReportsAs(wanted.Name) {
		return nil, forbidden("this identity does not register as '" + wanted.Name + "'")
	}
	if err := check(wanted, "controller"); err != nil {
		return nil, s.outcome(ctx, err)
	}
	if request.GetName() != "" && request.GetName() != wanted.Name {
		return nil, violates("name", "name.path", "must be that of the path")
	}
	for _, platform := range wanted.Platforms {
		if !who.SeesPlatform(platform) {
			return nil, forbidden("this identity does not register for the platform " + platform)
		}
	}
	slices.Sort(wanted.Platforms)
	var affected []string // nil: none
	result, err := answer(ctx, s, call{who.Name, "RegisterController", request, false}, func() *nodepoolsv1.Controller { return &nodepoolsv1.Controller{} },
		func(c *change) (*nodepoolsv1.Controller, store.Key, error) {
			var err error
			if affected, err = c.register(wanted); err == nil && len(affected) > 0 {
				affected, err = c.orAll(affected)
			}
			return toController(store.Controller{
				Name: wanted.Name, Platforms: wanted.Platforms, Version: wanted.Version, Clusters: wanted.Clusters, LastSeen: c.at,
			}), store.Key{}, err
		})
	if err != nil || affected == nil {
		return result, err
	}
	return result, s.reevaluateAll(ctx, affected)
}

// register keeps a controller, and returns the platforms whose objects wait for others than before.
func (c *change) register(wanted *nodepoolsv1.Controller) ([]string, error) {
	controllers, err := c.allControllers()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(controllers, func(one store.Controller) bool { return one.Name == wanted.GetName() })
	var before []byte
	if at >= 0 {
		if before, err = toJSON(toController(controllers[at])); err != nil {
			return nil, err
		}
	}
	next := store.Controller{Name: wanted.GetName(), Platforms: wanted.GetPlatforms(), Version: wanted.GetVersion(), Clusters: wanted.GetClusters(), LastSeen: c.at}
	if err := c.tx.PutController(next); err != nil {
		return nil, err
	}
	var affected []string
	if at < 0 {
		affected = next.Platforms
		if err := c.setForgotten(next.Name, false); err != nil {
			return nil, err
		}
	} else {
		last := controllers[at]
		slices.Sort(last.Platforms)
		if slices.Equal(last.Platforms, next.Platforms) && last.Clusters == next.Clusters && last.Version == next.Version {
			return nil, nil
		}
		if !slices.Equal(last.Platforms, next.Platforms) || last.Clusters != next.Clusters {
			affected = slices.Concat(last.Platforms, next.Platforms)
			slices.Sort(affected)
			affected = slices.Compact(affected)
		}
	}
	after, err := toJSON(toController(next))
	if err != nil {
		return nil, err
	}
	return affected, c.tx.Audit(store.AuditEntry{
		Time: c.at, Actor: c.actor, Action: "register", Resource: "controller", ObjectID: next.Name,
		Before: string(before), After: string(after), RequestID: c.request.ID,
	})
}

// ListControllers lists the registered controllers by their names.
func (s *Service) ListControllers(ctx context.Context, _ *nodepoolsv1.ListControllersRequest) (*nodepoolsv1.ListControllersResponse, error) {
	if _, err := reader(ctx); err != nil {
		return nil, err
	}
	controllers, err := s.store.Controllers(ctx)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	result := &nodepoolsv1.ListControllersResponse{}
	for _, controller := range controllers {
		result.Controllers = append(result.Controllers, toController(controller))
	}
	return result, nil
}

// DeleteController forgets a controller: objects no longer wait for it, and those that are being deleted do not either. Where it is
// interrupted, Tick does the rest.
func (s *Service) DeleteController(ctx context.Context, request *nodepoolsv1.DeleteControllerRequest) (*emptypb.Empty, error) {
	who, err := administrator(ctx, "forget a controller")
	if err != nil {
		return nil, err
	}
	if request.GetName() != plainText(request.GetName()) {
		return nil, fail(ReasonNotFound, "Controller not found", "")
	}
	found := true
	err = s.transact(ctx, who.Name, func(c *change) error {
		err := c.tx.DeleteController(request.GetName())
		if found = !errors.Is(err, store.ErrNotFound); err != nil && found {
			return err
		}
		// One that never registered may have reported: it is waited for too.
		if err := c.setForgotten(request.GetName(), true); err != nil || !found {
			return err
		}
		return c.tx.Audit(store.AuditEntry{
			Time: c.at, Actor: c.actor, Action: "delete", Resource: "controller", ObjectID: request.GetName(), RequestID: c.request.ID,
		})
	})
	if err != nil {
		return nil, err
	}
	released, err := s.releaseFinalizers(ctx, request.GetName())
	if err != nil {
		return nil, err
	}
	if !found && !released {
		return nil, fail(ReasonNotFound, "Controller not found", "")
	}
	return newEmpty(), s.reevaluateAll(ctx, nil)
}

// releaseFinalizers takes a forgotten controller from the objects that wait for it, and says whether there were any.
func (s *Service) releaseFinalizers(ctx context.Context, name string) (bool, error) {
	// That it is forgotten is kept already, so this is done also when the client does not wait for it.
	ctx = context.WithoutCancel(ctx)
	released := false
	for _, kind := range []store.Kind{store.NodePool, store.Cluster} {
		query := store.Query{Kind: kind, Phase: status.Deleting, Limit: batch}
		err := s.eachPage(ctx, query, func(c *change, record store.Record) error {
			o, err := decode(record)
			if err != nil || !o.removeFinalizer(name) {
				return err
			}
			// One that registered again meanwhile is there, and does its part.
			if forgotten, err := c.forgotten(); err != nil || !slices.Contains(forgotten, name) {
				return err
			}
			released = true
			pools, err := c.tx.Pools(o.clusterID())
			if err != nil {
				return err
			}
			if o.removable(len(pools)) {
				return c.forget(o, "delete")
			}
			if _, err := c.evaluate(o, false); err != nil {
				return err
			}
			if err := c.put(o, record.Owner); err != nil {
				return err
			}
			return c.event(o, "status", describeStatus(o, record.Phase))
		})
		if err != nil {
			return released, s.outcome(ctx, err)
		}
	}
	return released, s.transact(ctx, actorService, func(c *change) error { return c.setForgotten(name, false) })
}

// reevaluateAll makes the status of all objects of some platforms (none given: of all) anew: they wait for other controllers than before.
func (s *Service) reevaluateAll(ctx context.Context, platforms []string) error {
	// What was registered is kept already, so this is done also when the client does not wait for it.
	ctx = context.WithoutCancel(ctx)
	controllers, err := s.store.Controllers(ctx)
	if err != nil {
		return s.outcome(ctx, err)
	}
	if len(platforms) == 0 {
		platforms = nil
	}
	for _, kind := range []store.Kind{store.Cluster, store.NodePool} {
		err := s.eachPage(ctx, store.Query{Kind: kind, Platforms: platforms, Limit: batch}, func(c *change, record store.Record) error {
			o, err := decode(record)
			if err != nil {
				return err
			}
			return c.refresh(o)
		})
		if err != nil {
			return s.outcome(ctx, err)
		}
	}
	return s.transact(ctx, actorService, func(c *change) error {
		return c.tx.PutIdempotent(store.Idempotent{Actor: settledActor, Key: settledKey, Fingerprint: fingerprintOf(controllers), Expires: never})
	})
}

// A controller is registered in one transaction, and the objects that wait for it are evaluated in many: a process may end in between. What
// is kept under this name, which no caller has for its spaces, tells for which controllers all objects were evaluated.
const (
	settledActor = "what objects wait for"
	settledKey   = "evaluated"
	// forgottenKey has the names of the controllers that were forgotten and not yet taken from all objects that wait for them.
	forgottenKey = "forgotten"
)

// never is later than all there is to expire.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// fingerprintOf is a hash of what objects wait for: which controllers there are, and what for.
func fingerprintOf(controllers []store.Controller) []byte {
	hash := sha256.New()
	for _, controller := range controllers { // by their names
		platforms := slices.Sorted(slices.Values(controller.Platforms))
		_, _ = fmt.Fprintf(hash, "%q %q %t\n", controller.Name, platforms, controller.Clusters)
	}
	return hash.Sum(nil)
}

// settled says whether all objects were evaluated for these controllers.
func (c *change) settled(controllers []store.Controller) (bool, error) {
	kept, err := c.tx.Idempotent(settledActor, settledKey)
	if errors.Is(err, store.ErrNotFound) {
		return len(controllers) == 0, nil
	}
	return bytes.Equal(kept.Fingerprint, fingerprintOf(controllers)), err
}

// forgotten are the names under forgottenKey.
func (c *change) forgotten() (names []string, err error) {
	kept, err := c.tx.Idempotent(settledActor, forgottenKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = errors.Wrap(json.Unmarshal(kept.Answer, &names), "read which controllers were forgotten")
	}
	return names, err
}

// setForgotten puts a name under forgottenKey, or takes it away.
func (c *change) setForgotten(name string, forgotten bool) error {
	names, err := c.forgotten()
	if err != nil || slices.Contains(names, name) == forgotten {
		return err
	}
	if forgotten {
		names = append(names, name)
	} else {
		names = slices.DeleteFunc(names, func(one string) bool { return one == name })
	}
	text, err := json.Marshal(names)
	if err != nil {
		return errors.Wrap(err, "keep which controllers were forgotten")
	}
	return c.tx.PutIdempotent(store.Idempotent{Actor: settledActor, Key: forgottenKey, Answer: text, Expires: never})
}

// orAll returns the platforms, or none, which stands for all, when what others registered before was not followed to its end.
func (c *change) orAll(platforms []string) ([]string, error) {
	before, err := c.allControllers() // read before this transaction wrote
	if err != nil {
		return nil, err
	}
	if settled, err := c.settled(before); err != nil || settled {
		return platforms, err
	}
	return []string{}, nil
}

// settle does what is left to do where a process that registered a controller, or forgot one, ended before it had.
func (s *Service) settle(ctx context.Context) error {
	controllers, err := s.store.Controllers(ctx)
	if err != nil {
		return err
	}
	settled := false
	var forgotten []string
	err = s.transact(ctx, actorService, func(c *change) (err error) {
		if settled, err = c.settled(controllers); err != nil {
			return err
		}
		if forgotten, err = c.forgotten(); err != nil {
			return err
		}
		return errDryRun // nothing was written
	})
	if err != nil {
		return err
	}
	for _, name := range forgotten {
		if _, err := s.releaseFinalizers(ctx, name); err != nil {
			return err
		}
	}
	if settled {
		return nil
	}
	return s.reevaluateAll(ctx, nil)
}

func toController(controller store.Controller) *nodepoolsv1.Controller {
	result := &nodepoolsv1.Controller{Name: controller.Name, Platforms: controller.Platforms, Version: controller.Version, Clusters: controller.Clusters}
	if !controller.LastSeen.IsZero() {
		result.LastSeen = timestamppb.New(controller.LastSeen)
	}
	return proto.CloneOf(result)
}
