package cli

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/client"
)

// servedObject is what clusters and node pools of the service have in common.
type servedObject interface {
	proto.Message
	GetId() string
	GetName() string
	GetGeneration() int32
	GetStatus() *nodepoolsv1.Status
	GetCreatedAt() *timestamppb.Timestamp
}

// servedFilter chooses among objects of the service.
type servedFilter struct {
	cluster, status, health, platform, name string
	labels                                  []string
}

// servedKind is one of the two kinds, and the calls for it.
type servedKind struct {
	noun, plural string
	list         func(ctx context.Context, c *client.Client, filter servedFilter) ([]servedObject, error)
	get          func(ctx context.Context, c *client.Client, id string) (servedObject, error)
	create       func(ctx context.Context, c *client.Client, document []byte, dryRun bool) (servedObject, error)
	update       func(ctx context.Context, c *client.Client, id string, document []byte, dryRun bool) (servedObject, error)
	patch        func(ctx context.Context, c *client.Client, id string, patch *structpb.Struct, dryRun bool) (servedObject, error)
	remove       func(ctx context.Context, c *client.Client, id string, force, cascade, dryRun bool) error
	status       func(ctx context.Context, c *client.Client, id string) (proto.Message, error)
}

// pageSize is how many objects a page of a list has.
var pageSize = proto.Int32(100)

// servedPools are the node pools.
func servedPools() servedKind {
	service := func(c *client.Client) nodepoolsv1.NodePoolServiceClient {
		return nodepoolsv1.NewNodePoolServiceClient(c)
	}
	return servedKind{
		noun: "node pool", plural: "nodepools",
		list: func(ctx context.Context, c *client.Client, filter servedFilter) ([]servedObject, error) {
			request := &nodepoolsv1.ListNodePoolsRequest{
				ClusterId: filter.cluster, Status: filter.status, Health: filter.health, Platform: filter.platform, Name: filter.name,
				Label: filter.labels, Limit: pageSize,
			}
			var all []servedObject
			for {
				page, err := service(c).ListNodePools(ctx, request)
				if err != nil {
					return nil, err
				}
				for _, pool := range page.GetNodepools() {
					all = append(all, pool)
				}
				if request.Cursor = page.GetNextCursor(); request.GetCursor() == "" {
					return all, nil
				}
			}
		},
		get: func(ctx context.Context, c *client.Client, id string) (servedObject, error) {
			return service(c).GetNodePool(ctx, &nodepoolsv1.GetNodePoolRequest{Id: id})
		},
		create: func(ctx context.Context, c *client.Client, document []byte, dryRun bool) (servedObject, error) {
			pool := &nodepoolsv1.NodePool{}
			if err := protojson.Unmarshal(document, pool); err != nil {
				return nil, err
			}
			return service(c).CreateNodePool(ctx, &nodepoolsv1.CreateNodePoolRequest{Nodepool: pool, DryRun: dryRun})
		},
		update: func(ctx context.Context, c *client.Client, id string, document []byte, dryRun bool) (servedObject, error) {
			pool := &nodepoolsv1.NodePool{}
			if err := protojson.Unmarshal(document, pool); err != nil {
				return nil, err
			}
			return service(c).UpdateNodePool(ctx, &nodepoolsv1.UpdateNodePoolRequest{Id: id, Nodepool: pool, DryRun: dryRun})
		},
		patch: func(ctx context.Context, c *client.Client, id string, patch *structpb.Struct, dryRun bool) (servedObject, error) {
			return service(c).PatchNodePool(ctx, &nodepoolsv1.PatchNodePoolRequest{Id: id, Patch: patch, DryRun: dryRun})
		},
		remove: func(ctx context.Context, c *client.Client, id string, force, _, dryRun bool) error {
			_, err := service(c).DeleteNodePool(ctx, &nodepoolsv1.DeleteNodePoolRequest{Id: id, Force: force, DryRun: dryRun})
			return err
		},
		status: func(ctx context.Context, c *client.Client, id string) (proto.Message, error) {
			return service(c).GetNodePoolStatus(ctx, &nodepoolsv1.GetNodePoolStatusRequest{Id: id})
		},
	}
}

// servedClusters are the clusters.
func servedClusters() servedKind {
	service := func(c *client.Client) nodepoolsv1.ClusterServiceClient { return nodepoolsv1.NewClusterServiceClient(c) }
	return servedKind{
		noun: "cluster", plural: "clusters",
		list: func(ctx context.Context, c *client.Client, filter servedFilter) ([]servedObject, error) {
			request := &nodepoolsv1.ListClustersRequest{
				Status: filter.status, Health: filter.health, Platform: filter.platform, Name: filter.name, Limit: pageSize,
			}
			var all []servedObject
			for {
				page, err := service(c).ListClusters(ctx, request)
				if err != nil {
					return nil, err
				}
				for _, cluster := range page.GetClusters() {
					all = append(all, cluster)
				}
				if request.Cursor = page.GetNextCursor(); request.GetCursor() == "" {
					return all, nil
				}
			}
		},
		get: func(ctx context.Context, c *client.Client, id string) (servedObject, error) {
			return service(c).GetCluster(ctx, &nodepoolsv1.GetClusterRequest{Id: id})
		},
		create: func(ctx context.Context, c *client.Client, document []byte, dryRun bool) (servedObject, error) {
			cluster := &nodepoolsv1.Cluster{}
			if err := protojson.Unmarshal(document, cluster); err != nil {
				return nil, err
			}
			return service(c).CreateCluster(ctx, &nodepoolsv1.CreateClusterRequest{Cluster: cluster, DryRun: dryRun})
		},
		update: func(ctx context.Context, c *client.Client, id string, document []byte, dryRun bool) (servedObject, error) {
			cluster := &nodepoolsv1.Cluster{}
			if err := protojson.Unmarshal(document, cluster); err != nil {
				return nil, err
			}
			return service(c).UpdateCluster(ctx, &nodepoolsv1.UpdateClusterRequest{Id: id, Cluster: cluster, DryRun: dryRun})
		},
		patch: func(ctx context.Context, c *client.Client, id string, patch *structpb.Struct, dryRun bool) (servedObject, error) {
			return service(c).PatchCluster(ctx, &nodepoolsv1.PatchClusterRequest{Id: id, Patch: patch, DryRun: dryRun})
		},
		remove: func(ctx context.Context, c *client.Client, id string, force, cascade, dryRun bool) error {
			_, err := service(c).DeleteCluster(ctx, &nodepoolsv1.DeleteClusterRequest{Id: id, Force: force, Cascade: cascade, DryRun: dryRun})
			return err
		},
		status: func(ctx context.Context, c *client.Client, id string) (proto.Message, error) {
			return service(c).GetClusterStatus(ctx, &nodepoolsv1.GetClusterStatusRequest{Id: id})
		},
	}
}
