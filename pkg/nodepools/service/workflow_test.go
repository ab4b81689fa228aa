package service_test

import (
	"slices"
	"testing"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// TestWorkflow walks through the life of a pool: create, report, scale, rename, delete.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, address string) {
		b := newBenchAt(t, address)
		cluster := b.cluster(alice, "production", "gcp")
		pool := b.pool(alice, cluster.GetId(), "worker-pool-1")
		if pool.GetGeneration() != 1 || pool.GetResourceVersion() == "" || pool.GetCreatedBy() != alice.Name || pool.GetStatus().GetPhase() != "Pending" {
			t.Fatalf("the created pool is %v", pool)
		}
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "gcp-nodepool-controller", 1, "Ready=False"))
		b.phase(pool.GetId(), "Progressing")
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "gcp-nodepool-controller", 1, "Ready=True"))
		b.phase(pool.GetId(), "Ready")

		scaled := must[*nodepoolsv1.NodePool](t, "scale")(b.put(alice, pool.GetId(), `{"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4"}}, "nodeCount": 6}`))
		if scaled.GetGeneration() != 2 || scaled.GetStatus().GetPhase() != "Pending" {
			t.Fatalf("the scaled pool has generation %d and is %s", scaled.GetGeneration(), scaled.GetStatus().GetPhase())
		}
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "gcp-nodepool-controller", 2, "Ready=True", "Available=True"))
		b.phase(pool.GetId(), "Ready")

		renamed := must[*nodepoolsv1.NodePool](t, "rename")(b.patch(pool.GetId(), `{"name": "workers"}`))
		if renamed.GetName() != "workers" || renamed.GetGeneration() != 2 || renamed.GetStatus().GetPhase() != "Ready" {
			t.Fatalf("the renamed pool is %v", renamed)
		}
		list := must[*nodepoolsv1.ListNodePoolsResponse](t, "list")(b.ListNodePools(b.as(alice), &nodepoolsv1.ListNodePoolsRequest{ClusterId: cluster.GetId(), Status: "Ready"}))
		if list.GetTotal() != 1 || list.GetLimit() != 50 || len(list.GetNodepools()) != 1 {
			t.Fatalf("the list is %v", list)
		}

		if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err != nil {
			t.Fatal(err)
		}
		b.phase(pool.GetId(), "Deleting")
		if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err != nil {
			t.Fatalf("deleting again: %v", err)
		}
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "gcp-nodepool-controller", 2, "Deleted=True"))
		_, err := b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
		refused(t, "get a deleted pool", err, "NOT_FOUND")
		b.pool(alice, cluster.GetId(), "workers")

		want := []string{"nodepool.created", "nodepool.status", "nodepool.status", "nodepool.updated", "nodepool.status", "nodepool.updated", "nodepool.deleting", "nodepool.deleted"}
		if got := b.eventTypes(pool.GetId()); !slices.Equal(got, want) {
			t.Errorf("the events are %v, want %v", got, want)
		}
	})
}
