package service

import (
	"context"
	"strconv"

	"github.com/pkg/errors"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// ListEvents lists past events, the newest first.
func (s *Service) ListEvents(ctx context.Context, request *nodepoolsv1.ListEventsRequest) (*nodepoolsv1.ListEventsResponse, error) {
	who, err := reader(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkQuery(request); err != nil {
		return nil, s.outcome(ctx, err)
	}
	query := store.EventQuery{Owner: ownerFilter(who), ObjectID: lower(request.GetObjectId()), ClusterID: lower(request.GetClusterId()), Limit: DefaultLimit}
	if request.Limit != nil {
		query.Limit = int(request.GetLimit())
	}
	if query.Before, err = revisionOf("before", request.GetBefore()); err != nil {
		return nil, err
	}
	var none bool
	if query.Platforms, none = platformFilter(who, ""); none {
		return &nodepoolsv1.ListEventsResponse{}, nil
	}
	list, err := s.store.Events(ctx, query)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	result := &nodepoolsv1.ListEventsResponse{}
	for _, event := range list {
		result.Events = append(result.Events, events.Message(event))
	}
	return result, nil
}

// ListAudit lists who wrote what, the newest first.
func (s *Service) ListAudit(ctx context.Context, request *nodepoolsv1.ListAuditRequest) (*nodepoolsv1.ListAuditResponse, error) {
	if _, err := administrator(ctx, "read the audit log"); err != nil {
		return nil, err
	}
	if err := checkQuery(request); err != nil {
		return nil, s.outcome(ctx, err)
	}
	query := store.AuditQuery{ObjectID: lower(request.GetObjectId()), Actor: request.GetActor(), Limit: DefaultLimit}
	if request.Limit != nil {
		query.Limit = int(request.GetLimit())
	}
	var err error
	if query.Before, err = revisionOf("before", request.GetBefore()); err != nil {
		return nil, err
	}
	list, err := s.store.Audit(ctx, query)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	result := &nodepoolsv1.ListAuditResponse{}
	for _, entry := range list {
		result.Entries = append(result.Entries, &nodepoolsv1.AuditEntry{
			Revision: strconv.FormatInt(entry.Revision, 10), Time: timestamppb.New(entry.Time), Actor: entry.Actor, Action: entry.Action,
			Resource: entry.Resource, ObjectId: entry.ObjectID, Before: entry.Before, After: entry.After, RequestId: entry.RequestID,
		})
	}
	return result, nil
}

// WatchEvents sends events as they happen. The events of one revision come together; a client that goes on after a revision must have
// seen the last of them.
func (s *Service) WatchEvents(request *nodepoolsv1.WatchEventsRequest, stream grpc.ServerStreamingServer[nodepoolsv1.Event]) error {
	return s.Watch(stream.Context(), request, func(entry *events.Entry) error {
		message, err := entry.Message()
		if err != nil {
			return err
		}
		return stream.Send(message)
	})
}

// Watch sends the events that the caller sees, until the context ends or send fails. Only after an entry that is the last of its
// revision a client may go on from that revision.
func (s *Service) Watch(ctx context.Context, request *nodepoolsv1.WatchEventsRequest, send func(*events.Entry) error) error {
	who, err := reader(ctx)
	if err != nil {
		return err
	}
	// The platforms are those of lists.
	if err := checkQuery(&nodepoolsv1.ListNodePoolsRequest{Platform: request.GetPlatform()}); err != nil {
		return s.outcome(ctx, err)
	}
	since, err := revisionOf("since", request.GetSince())
	if err != nil {
		return err
	}
	if request.GetSince() == "" {
		if since, err = s.store.Revision(ctx); err != nil {
			return s.outcome(ctx, err)
		}
	}
	platforms, none := platformFilter(who, request.GetPlatform())
	if none {
		platforms = []string{""}
	}
	filter := watchFilter{owner: ownerFilter(who), platforms: platforms, clusterID: lower(request.GetClusterId()), objectID: lower(request.GetObjectId())}
	var failed error
	err = s.hub.Watch(ctx, since, func(found []*events.Entry) error {
		for i, entry := range found {
			if !filter.matches(entry.Event) {
				continue
			}
			if !entry.Last && !filter.matchesAny(found[i+1:], entry.Revision) {
				// The rest of the revision is not for this watcher: this entry is its last one.
				entry = &events.Entry{Event: entry.Event, Last: true}
			}
			if failed = send(entry); failed != nil {
				return failed
			}
		}
		return nil
	})
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, store.ErrExpired):
		return fail(ReasonExpired, "the events after revision "+strconv.FormatInt(since, 10)+" are no longer kept",
			"list anew, and watch from the resource_version of the list")
	}
	return s.outcome(ctx, err)
}

// watchFilter is what a watcher sees and wants.
type watchFilter struct {
	owner, clusterID, objectID string
	platforms                  []string
}

func (f watchFilter) matches(event store.Event) bool {
	if f.owner != "" && f.owner != event.Owner || f.clusterID != "" && f.clusterID != event.ClusterID || f.objectID != "" && f.objectID != event.Object.ID {
		return false
	}
	if f.platforms == nil {
		return true
	}
	for _, platform := range f.platforms {
		if platform == event.Platform {
			return true
		}
	}
	return false
}

func (f watchFilter) matchesAny(entries []*events.Entry, revision int64) bool {
	for _, entry := range entries {
		if entry.Revision != revision {
			return false
		}
		if f.matches(entry.Event) {
			return true
		}
	}
	return false
}

// revisionOf reads a revision; empty is 0.
func revisionOf(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 0 {
		return 0, violates(field, "revision", "must be a revision: a number, such as the resource_version of a list")
	}
	return revision, nil
}
