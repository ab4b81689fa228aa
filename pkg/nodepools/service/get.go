package service

import (
	"context"

	"github.com/pkg/errors"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// GetNodePool reads a pool.
func (s *Service) GetNodePool(ctx context.Context, request *nodepoolsv1.GetNodePoolRequest) (*nodepoolsv1.NodePool, error) {
	record, err := s.getNodePool(ctx, request.GetId(), request.GetClusterId())
	if err != nil {
		return nil, err
	}
	pool, err := decode(record)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	return redacted(pool.pool), nil
}

// GetCluster reads a cluster.
func (s *Service) GetCluster(ctx context.Context, request *nodepoolsv1.GetClusterRequest) (*nodepoolsv1.Cluster, error) {
	record, err := s.get(ctx, store.Cluster, request.GetId())
	if err != nil {
		return nil, err
	}
	cluster, err := decode(record)
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	return redacted(cluster.cluster), nil
}

// RawNodePool reads a pool as JSON, and its revision.
func (s *Service) RawNodePool(ctx context.Context, id string) (document []byte, revision int64, err error) {
	record, err := s.find(ctx, store.NodePool, id, s.store.Document)
	return record.Document, record.Revision, err
}

// RawCluster reads a cluster as JSON, and its revision.
func (s *Service) RawCluster(ctx context.Context, id string) (document []byte, revision int64, err error) {
	record, err := s.find(ctx, store.Cluster, id, s.store.Document)
	return record.Document, record.Revision, err
}

// GetNodePoolStatus reads what the controllers reported about a pool.
func (s *Service) GetNodePoolStatus(ctx context.Context, request *nodepoolsv1.GetNodePoolStatusRequest) (*nodepoolsv1.NodePoolStatus, error) {
	record, err := s.getNodePool(ctx, request.GetId(), request.GetClusterId())
	if err != nil {
		return nil, err
	}
	pool, reports, err := s.withReports(ctx, record)
	if err != nil {
		return nil, err
	}
	return &nodepoolsv1.NodePoolStatus{NodepoolId: pool.ID, ControllerStatus: reports, Status: pool.pool.GetStatus(), Generation: pool.pool.GetGeneration()}, nil
}

// GetClusterStatus reads what the controllers reported about a cluster.
func (s *Service) GetClusterStatus(ctx context.Context, request *nodepoolsv1.GetClusterStatusRequest) (*nodepoolsv1.ClusterStatus, error) {
	record, err := s.get(ctx, store.Cluster, request.GetId())
	if err != nil {
		return nil, err
	}
	cluster, reports, err := s.withReports(ctx, record)
	if err != nil {
		return nil, err
	}
	return &nodepoolsv1.ClusterStatus{ClusterId: cluster.ID, ControllerStatus: reports, Status: cluster.cluster.GetStatus(), Generation: cluster.cluster.GetGeneration()}, nil
}

// get reads an object that the caller sees.
func (s *Service) get(ctx context.Context, kind store.Kind, id string) (store.Record, error) {
	return s.find(ctx, kind, id, s.store.Get)
}

// find reads an object that the caller sees, or some of it.
func (s *Service) find(ctx context.Context, kind store.Kind, id string, get func(context.Context, store.Key) (store.Record, error)) (store.Record, error) {
	who, err := reader(ctx)
	if err != nil {
		return store.Record{}, err
	}
	if id, err = canonicalID("id", id); err != nil {
		return store.Record{}, err
	}
	record, err := get(ctx, store.Key{Kind: kind, ID: id})
	if errors.Is(err, store.ErrNotFound) || err == nil && !sees(who, record) {
		return store.Record{}, notFound(kind)
	}
	return record, s.outcome(ctx, err)
}

func (s *Service) getNodePool(ctx context.Context, id, clusterID string) (store.Record, error) {
	record, err := s.get(ctx, store.NodePool, id)
	if err == nil && clusterID != "" && !sameID(clusterID, record.ClusterID) {
		return store.Record{}, notFound(store.NodePool)
	}
	return record, err
}

func (s *Service) withReports(ctx context.Context, record store.Record) (*object, []*nodepoolsv1.ControllerStatus, error) {
	o, err := decode(record)
	if err != nil {
		return nil, nil, s.outcome(ctx, err)
	}
	kept, err := s.store.Reports(ctx, record.Key)
	if err != nil {
		return nil, nil, s.outcome(ctx, err)
	}
	reports, err := decodeReports(kept)
	return o, reports, s.outcome(ctx, err)
}
