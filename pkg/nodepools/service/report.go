package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/status"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// Limits of the metadata of a report.
const (
	maxMetadataBytes = 16 << 10
	maxMetadataDepth = 8
)

// seenInterval is how often a report renews when its controller was seen: often enough to tell that one is gone.
const seenInterval = 10 * time.Second

// Reporter takes what the controllers of this process report. The service is one.
type Reporter interface {
	// Report keeps a report about an object, by the rules of UpdateNodePoolStatus. The error of an object that is gone has the reason
	// NOT_FOUND.
	Report(ctx context.Context, key store.Key, report *nodepoolsv1.ControllerStatus) error
}

// Report takes a report of a controller that runs in this process. No identity is looked at.
func (s *Service) Report(ctx context.Context, key store.Key, report *nodepoolsv1.ControllerStatus) error {
	_, _, err := s.report(ctx, key, report, func(store.Record) error { return nil })
	return err
}

// Provisions says whether this process provisions a platform.
func (s *Service) Provisions(platform string) bool { return s.options.Provisioned[platform] != "" }

// UpdateNodePoolStatus takes the report of a controller about a pool.
func (s *Service) UpdateNodePoolStatus(ctx context.Context, request *nodepoolsv1.UpdateNodePoolStatusRequest) (*nodepoolsv1.NodePoolStatus, error) {
	o, reports, err := s.reportAs(ctx, store.NodePool, request.GetId(), request.GetClusterId(), request.GetReport())
	if err != nil {
		return nil, err
	}
	return &nodepoolsv1.NodePoolStatus{NodepoolId: o.ID, ControllerStatus: reports, Status: o.pool.GetStatus(), Generation: o.pool.GetGeneration()}, nil
}

// UpdateClusterStatus takes the report of a controller about a cluster.
func (s *Service) UpdateClusterStatus(ctx context.Context, request *nodepoolsv1.UpdateClusterStatusRequest) (*nodepoolsv1.ClusterStatus, error) {
	o, reports, err := s.reportAs(ctx, store.Cluster, request.GetId(), "", request.GetReport())
	if err != nil {
		return nil, err
	}
	return &nodepoolsv1.ClusterStatus{ClusterId: o.ID, ControllerStatus: reports, Status: o.cluster.GetStatus(), Generation: o.cluster.GetGeneration()}, nil
}

func (s *Service) reportAs(ctx context.Context, kind store.Kind, id, clusterID string, report *nodepoolsv1.ControllerStatus) (*object, []*nodepoolsv1.ControllerStatus, error) {
	who, err := reader(ctx)
	if err != nil {
		return nil, nil, err
	}
	if who.Role != auth.ControllerRole {
		return nil, nil, forbidden("only controllers report status")
	}
	if id, err = canonicalID("id", id); err != nil {
		return nil, nil, err
	}
	if report == nil {
		return nil, nil, violates("", "required", "a report is required")
	}
	if name := report.GetControllerName(); name != "" && !who.ReportsAs(name) {
		return nil, nil, forbidden("this identity does not report as '" + name + "'")
	}
	return s.report(ctx, store.Key{Kind: kind, ID: id}, report, func(record store.Record) error {
		if !sees(who, record) || clusterID != "" && !sameID(clusterID, record.ClusterID) {
			return notFound(kind)
		}
		return nil
	})
}

// report keeps a report, and makes the status of its object anew.
func (s *Service) report(ctx context.Context, key store.Key, report *nodepoolsv1.ControllerStatus, allowed func(store.Record) error) (*object, []*nodepoolsv1.ControllerStatus, error) {
	if err := check(report, "report"); err != nil {
		return nil, nil, s.outcome(ctx, err)
	}
	if err := checkMetadata(report.GetMetadata()); err != nil {
		return nil, nil, err
	}
	var o *object
	var reports []*nodepoolsv1.ControllerStatus
	err := s.transact(ctx, report.GetControllerName(), func(c *change) error {
		var err error
		if o, err = c.load(key); err != nil {
			return err
		}
		if err := allowed(o.record); err != nil {
			return err
		}
		reports, err = c.keepReport(o, report)
		if err != nil {
			return err
		}
		return c.acknowledge(o, report, reports)
	})
	return o, reports, err
}

// keepReport writes a report, and returns the last ones of all controllers.
func (c *change) keepReport(o *object, report *nodepoolsv1.ControllerStatus) ([]*nodepoolsv1.ControllerStatus, error) {
	generation := o.resource().GetGeneration()
	if report.GetObservedGeneration() > generation {
		return nil, fail(ReasonConflict, fmt.Sprintf("generation %d does not exist yet", report.GetObservedGeneration()),
			fmt.Sprintf("the generation of the %s is %d", noun(o.Kind), generation))
	}
	kept, err := c.tx.Reports(o.Key)
	if err != nil {
		return nil, err
	}
	reports, err := decodeReports(kept)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(kept, func(one store.Report) bool { return one.Controller == report.GetControllerName() })
	var last *nodepoolsv1.ControllerStatus
	first := c.at
	if at >= 0 {
		last = reports[at]
		if report.GetObservedGeneration() < last.GetObservedGeneration() {
			return nil, fail(ReasonConflict, fmt.Sprintf("the report about generation %d is too late", report.GetObservedGeneration()),
				fmt.Sprintf("%s has reported about generation %d already", report.GetControllerName(), last.GetObservedGeneration()))
		}
		if report.GetObservedGeneration() == last.GetObservedGeneration() {
			first = kept[at].FirstAt
		}
	}
	merged := status.Merge(last, report, c.at)
	if at >= 0 {
		reports[at] = merged
	} else {
		place, _ := slices.BinarySearchFunc(reports, merged.GetControllerName(), func(one *nodepoolsv1.ControllerStatus, name string) int {
			return strings.Compare(one.GetControllerName(), name)
		})
		reports = slices.Insert(reports, place, merged)
	}
	message, err := proto.MarshalOptions{Deterministic: true}.Marshal(merged)
	if err != nil {
		return nil, err
	}
	err = c.tx.PutReport(o.Key, store.Report{
		Controller: merged.GetControllerName(), ObservedGeneration: merged.GetObservedGeneration(), FirstAt: first, At: c.at, Message: message,
	})
	if err != nil {
		return nil, err
	}
	return reports, c.seen(merged.GetControllerName())
}

// acknowledge makes of the reports what follows from them.
func (c *change) acknowledge(o *object, report *nodepoolsv1.ControllerStatus, reports []*nodepoolsv1.ControllerStatus) error {
	before, phase := o.record, o.resource().GetStatus().GetPhase()
	released := o.deleting() && status.IsDeleted(report) && o.removeFinalizer(report.GetControllerName())
	if o.deleting() && len(o.resource().GetFinalizers()) == 0 {
		pools := 0
		if o.cluster != nil {
			records, err := c.tx.Pools(o.ID)
			if err != nil {
				return err
			}
			pools = len(records)
		}
		if o.removable(pools) {
			if _, err := c.evaluateWith(o, false, reports); err != nil {
				return err
			}
			return c.forget(o, "delete")
		}
	}
	changed, err := c.evaluateWith(o, false, reports)
	if err != nil {
		return err
	}
	if !changed && !released && o.due.Equal(before.Due) && o.needsReconcile == before.NeedsReconcile {
		return nil
	}
	if err := c.put(o, before.Owner); err != nil {
		return err
	}
	if err := c.event(o, "status", describeStatus(o, phase)); err != nil {
		return err
	}
	return c.audit(o, "status", before.Document, o.record.Document)
}

// seen keeps when a registered controller was seen, not more often than anyone needs to know.
func (c *change) seen(name string) error {
	controllers, err := c.allControllers()
	if err != nil {
		return err
	}
	for _, controller := range controllers {
		if controller.Name == name && c.at.Sub(controller.LastSeen) >= seenInterval {
			controller.LastSeen = c.at
			return c.tx.PutController(controller)
		}
	}
	return nil
}

func checkMetadata(metadata *structpb.Struct) error {
	if size := proto.Size(metadata); size > maxMetadataBytes {
		return violates("metadata", "metadata.size", fmt.Sprintf("must have at most %d bytes, not %d", maxMetadataBytes, size))
	}
	if metadata != nil && depth(structpb.NewStructValue(metadata)) > maxMetadataDepth {
		return violates("metadata", "metadata.depth", fmt.Sprintf("must be nested at most %d deep", maxMetadataDepth))
	}
	return nil
}

func depth(value *structpb.Value) int {
	deepest := 0
	for _, field := range value.GetStructValue().GetFields() {
		deepest = max(deepest, depth(field))
	}
	for _, element := range value.GetListValue().GetValues() {
		deepest = max(deepest, depth(element))
	}
	if value.GetStructValue() != nil || value.GetListValue() != nil {
		deepest++
	}
	return deepest
}
