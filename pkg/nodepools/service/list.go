package service

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// DefaultLimit is how many objects a page holds when the request does not say.
const DefaultLimit = 50

// ListNodePools lists the pools that the caller sees, in the order of their creation.
func (s *Service) ListNodePools(ctx context.Context, request *nodepoolsv1.ListNodePoolsRequest) (*nodepoolsv1.ListNodePoolsResponse, error) {
	records, frame, err := s.nodePools(ctx, request, false)
	if err != nil {
		return nil, err
	}
	result := nodePoolsOf(frame)
	for _, record := range records {
		pool, err := decode(record)
		if err != nil {
			return nil, s.outcome(ctx, err)
		}
		result.Nodepools = append(result.Nodepools, redacted(pool.pool))
	}
	return result, nil
}

// ListClusters lists the clusters that the caller sees, in the order of their creation.
func (s *Service) ListClusters(ctx context.Context, request *nodepoolsv1.ListClustersRequest) (*nodepoolsv1.ListClustersResponse, error) {
	records, frame, err := s.clusters(ctx, request, false)
	if err != nil {
		return nil, err
	}
	result := clustersOf(frame)
	for _, record := range records {
		cluster, err := decode(record)
		if err != nil {
			return nil, s.outcome(ctx, err)
		}
		result.Clusters = append(result.Clusters, redacted(cluster.cluster))
	}
	return result, nil
}

// RawNodePools is ListNodePools with the pools as JSON. The page is the response without its pools.
func (s *Service) RawNodePools(ctx context.Context, request *nodepoolsv1.ListNodePoolsRequest) (documents [][]byte, page *nodepoolsv1.ListNodePoolsResponse, err error) {
	records, frame, err := s.nodePools(ctx, request, true)
	if err != nil {
		return nil, nil, err
	}
	return documentsOf(records), nodePoolsOf(frame), nil
}

// RawClusters is ListClusters with the clusters as JSON. The page is the response without its clusters.
func (s *Service) RawClusters(ctx context.Context, request *nodepoolsv1.ListClustersRequest) (documents [][]byte, page *nodepoolsv1.ListClustersResponse, err error) {
	records, frame, err := s.clusters(ctx, request, true)
	if err != nil {
		return nil, nil, err
	}
	return documentsOf(records), clustersOf(frame), nil
}

func documentsOf(records []store.Record) [][]byte {
	result := make([][]byte, len(records))
	for i, record := range records {
		result[i] = record.Document
	}
	return result
}

// frame is what the responses of all lists have in common.
type frame struct {
	total, limit, offset        int32
	nextCursor, resourceVersion string
}

func nodePoolsOf(frame frame) *nodepoolsv1.ListNodePoolsResponse {
	return &nodepoolsv1.ListNodePoolsResponse{
		Total: frame.total, Limit: frame.limit, Offset: frame.offset, NextCursor: frame.nextCursor, ResourceVersion: frame.resourceVersion,
	}
}

func clustersOf(frame frame) *nodepoolsv1.ListClustersResponse {
	return &nodepoolsv1.ListClustersResponse{
		Total: frame.total, Limit: frame.limit, Offset: frame.offset, NextCursor: frame.nextCursor, ResourceVersion: frame.resourceVersion,
	}
}

// nodePools reads a page of pools; documents has only their JSON read.
func (s *Service) nodePools(ctx context.Context, request *nodepoolsv1.ListNodePoolsRequest, documents bool) ([]store.Record, frame, error) {
	if err := checkQuery(request); err != nil {
		return nil, frame{}, s.outcome(ctx, err)
	}
	query := store.Query{
		Kind: store.NodePool, Name: request.GetName(), Phase: request.GetStatus(), Health: request.GetHealth(), NeedsReconcile: request.GetNeedsReconcile(),
		DocumentsOnly: documents,
	}
	for i, label := range request.GetLabel() {
		key, value, exact := strings.Cut(label, "=")
		if key == "" {
			return nil, frame{}, violates(fmt.Sprintf("label[%d]", i), "label", "must be key=value, or a key alone")
		}
		if !exact {
			query.LabelKeys = append(query.LabelKeys, key)
			continue
		}
		if before, twice := query.Labels[key]; twice && before != value {
			return nil, frame{}, violates(fmt.Sprintf("label[%d]", i), "label", "asks for two values of one label, which no pool has")
		}
		if query.Labels == nil {
			query.Labels = map[string]string{}
		}
		query.Labels[key] = value
	}
	if id := request.GetClusterId(); id != "" {
		// A cluster that the caller does not see is not there: neither its pools nor how many they are.
		canonical, err := canonicalID("cluster_id", id)
		if err != nil {
			return nil, frame{}, err
		}
		if _, err := s.get(ctx, store.Cluster, canonical); err != nil {
			return nil, frame{}, err
		}
		query.ClusterID = canonical
	}
	return s.list(ctx, query, request.GetPlatform(), request.Limit, request.GetOffset(), request.GetCursor())
}

// clusters reads a page of clusters; documents has only their JSON read.
func (s *Service) clusters(ctx context.Context, request *nodepoolsv1.ListClustersRequest, documents bool) ([]store.Record, frame, error) {
	if err := checkQuery(request); err != nil {
		return nil, frame{}, s.outcome(ctx, err)
	}
	query := store.Query{
		Kind: store.Cluster, Name: request.GetName(), Phase: request.GetStatus(), Health: request.GetHealth(), NeedsReconcile: request.GetNeedsReconcile(),
		DocumentsOnly: documents,
	}
	return s.list(ctx, query, request.GetPlatform(), request.Limit, request.GetOffset(), request.GetCursor())
}

// list reads a page of what the caller sees.
func (s *Service) list(ctx context.Context, query store.Query, platform string, limit *int32, offset int32, cursor string) ([]store.Record, frame, error) {
	who, err := reader(ctx)
	if err != nil {
		return nil, frame{}, err
	}
	query.Owner = ownerFilter(who)
	found := frame{limit: DefaultLimit, offset: offset}
	if limit != nil {
		found.limit = *limit
	}
	query.Limit, query.Offset = int(found.limit), int(offset)
	var none bool
	query.Platforms, none = platformFilter(who, platform)
	filter := filterHash(query)
	if cursor != "" {
		if offset != 0 {
			return nil, frame{}, violates("cursor", "cursor", "cannot be given together with an offset")
		}
		if query.After, err = readCursor(cursor, filter); err != nil {
			return nil, frame{}, err
		}
	}
	var page store.Page
	if none {
		page.Revision, err = s.store.Revision(ctx)
	} else {
		page, err = s.store.List(ctx, query)
	}
	if err != nil {
		return nil, frame{}, s.outcome(ctx, err)
	}
	found.total = int32(min(page.Total, 1<<31-1))
	found.resourceVersion = strconv.FormatInt(page.Revision, 10)
	if page.More {
		found.nextCursor = writeCursor(page.Records[len(page.Records)-1].Sequence, filter)
	}
	return page.Records, found, nil
}

// filterHash tells lists with different filters apart: a cursor of one means nothing in the other.
func filterHash(query store.Query) string {
	// JSON keeps the values apart; of texts and a bool it never fails.
	filters, _ := json.Marshal([]any{
		query.Kind, query.Owner, query.Platforms, query.ClusterID, query.Name, query.Phase, query.Health, query.Labels, query.LabelKeys, query.NeedsReconcile,
	})
	sum := sha256.Sum256(filters)
	return base64.RawURLEncoding.EncodeToString(sum[:6])
}

// A cursor is the place in the order of creation that a page ended with. Objects keep their places, so nothing is skipped and nothing
// comes twice while others write.
func writeCursor(sequence int64, filter string) string {
	return base64.RawURLEncoding.EncodeToString([]byte("1." + filter + "." + strconv.FormatInt(sequence, 10)))
}

func readCursor(cursor, filter string) (int64, error) {
	after, err := parseCursor(cursor, filter)
	if err != nil {
		return 0, violates("cursor", "cursor", err.Error())
	}
	return after, nil
}

func parseCursor(cursor, filter string) (int64, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(text), ".")
	if err != nil || len(parts) != 3 || parts[0] != "1" {
		return 0, errors.New("must be the next_cursor of the page before")
	}
	if parts[1] != filter {
		return 0, errors.New("is of a list with other filters: give the same filters on each page")
	}
	after, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || after < 1 {
		return 0, errors.New("must be the next_cursor of the page before")
	}
	return after, nil
}
