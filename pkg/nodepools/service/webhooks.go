package service

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/pkg/errors"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// maxWebhooks is how many webhooks an owner may have: each is served all the time.
const maxWebhooks = 20

// eventTypes are the types of events that a webhook can ask for.
var eventTypes = []string{
	"nodepool.created", "nodepool.updated", "nodepool.status", "nodepool.deleting", "nodepool.deleted",
	"cluster.created", "cluster.updated", "cluster.status", "cluster.deleting", "cluster.deleted",
}

// CreateWebhook has the events that the caller sees sent to a URL, from now on.
func (s *Service) CreateWebhook(ctx context.Context, request *nodepoolsv1.CreateWebhookRequest) (*nodepoolsv1.Webhook, error) {
	who, err := writer(ctx)
	if err != nil {
		return nil, err
	}
	given := request.GetWebhook()
	wanted := &nodepoolsv1.Webhook{Url: given.GetUrl(), Types: slices.Clone(given.GetTypes()), Secret: given.GetSecret()}
	if err := check(wanted, "webhook"); err != nil {
		return nil, s.outcome(ctx, err)
	}
	if err := events.CheckURL(wanted.Url, s.options.Webhooks); err != nil {
		return nil, violates("url", "webhook.url", err.Error())
	}
	for _, kind := range wanted.Types {
		if !slices.Contains(eventTypes, kind) {
			return nil, violates("types", "webhook.types", "'"+kind+"' is no type of event")
		}
	}
	if s.sealer.aead == nil {
		return nil, violates("secret", "secret.key", "cannot be kept: the service has no key to seal secrets with; ask its operator for one")
	}
	// Counted outside of the transaction: one more by a race does no harm.
	existing, err := s.store.Webhooks(ctx)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	owned := 0
	for _, webhook := range existing {
		if webhook.Owner == who.Name {
			owned++
		}
	}
	id := uuid.NewString()
	sealed, err := s.sealer.seal(webhookPlace(id), wanted.Secret)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	return answer(ctx, s, call{who.Name, "CreateWebhook", request, false}, func() *nodepoolsv1.Webhook { return &nodepoolsv1.Webhook{} },
		func(c *change) (*nodepoolsv1.Webhook, store.Key, error) {
			if owned >= maxWebhooks {
				return nil, store.Key{}, exceeded("webhooks", maxWebhooks, owned, 1)
			}
			webhook := store.Webhook{
				ID: id, URL: wanted.Url, Owner: who.Name, Types: wanted.Types, Secret: []byte(sealed), All: who.Role == auth.Admin,
				CreatedAt: c.at, Delivered: c.tx.Revision(),
			}
			if err := c.tx.PutWebhook(webhook); err != nil {
				return nil, store.Key{}, err
			}
			result := toWebhook(webhook)
			after, err := toJSON(result)
			if err != nil {
				return nil, store.Key{}, err
			}
			return result, store.Key{}, c.tx.Audit(store.AuditEntry{
				Time: c.at, Actor: c.actor, Action: "webhook", Resource: "webhook", ObjectID: id, After: string(after), RequestID: c.request.ID,
			})
		})
}

// ListWebhooks lists the caller's webhooks; an administrator sees all.
func (s *Service) ListWebhooks(ctx context.Context, _ *nodepoolsv1.ListWebhooksRequest) (*nodepoolsv1.ListWebhooksResponse, error) {
	who, err := reader(ctx)
	if err != nil {
		return nil, err
	}
	webhooks, err := s.store.Webhooks(ctx)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	result := &nodepoolsv1.ListWebhooksResponse{}
	for _, webhook := range webhooks {
		if webhook.Owner == who.Name || who.Role == auth.Admin {
			result.Webhooks = append(result.Webhooks, toWebhook(webhook))
		}
	}
	return result, nil
}

// DeleteWebhook removes a webhook.
func (s *Service) DeleteWebhook(ctx context.Context, request *nodepoolsv1.DeleteWebhookRequest) (*emptypb.Empty, error) {
	who, err := writer(ctx)
	if err != nil {
		return nil, err
	}
	id, err := canonicalID("id", request.GetId())
	if err != nil {
		return nil, err
	}
	webhooks, err := s.store.Webhooks(ctx)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	gone := fail(ReasonNotFound, "Webhook not found", "")
	at := slices.IndexFunc(webhooks, func(one store.Webhook) bool { return one.ID == id })
	if at < 0 || webhooks[at].Owner != who.Name && who.Role != auth.Admin {
		return nil, gone
	}
	before, err := toJSON(toWebhook(webhooks[at]))
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	err = s.transact(ctx, who.Name, func(c *change) error {
		if err := c.tx.DeleteWebhook(id); errors.Is(err, store.ErrNotFound) {
			return gone
		} else if err != nil {
			return err
		}
		return c.tx.Audit(store.AuditEntry{
			Time: c.at, Actor: c.actor, Action: "delete", Resource: "webhook", ObjectID: id, Before: string(before), RequestID: c.request.ID,
		})
	})
	return newEmpty(), err
}

// deliverer sends events to webhooks.
func (s *Service) deliverer() *events.Deliverer {
	options := s.options.Webhooks
	if options.Logger == nil {
		options.Logger = s.logger
	}
	return events.NewDeliverer(s.store, func(webhook store.Webhook) (string, error) {
		return s.sealer.open(webhookPlace(webhook.ID), string(webhook.Secret))
	}, options)
}

func webhookPlace(id string) string { return "webhook/" + id }

func toWebhook(webhook store.Webhook) *nodepoolsv1.Webhook {
	return &nodepoolsv1.Webhook{
		Id: webhook.ID, Url: webhook.URL, Types: webhook.Types, Secret: Redacted, CreatedBy: webhook.Owner,
		CreatedAt: timestamppb.New(webhook.CreatedAt), LastError: webhook.LastError,
	}
}
