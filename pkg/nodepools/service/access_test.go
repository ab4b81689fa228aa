package service_test

import (
	"testing"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

// TestRoles checks who may do what: reason "" is allowed.
func TestRoles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	own := auth.Identity{Name: "robot", Role: auth.ControllerRole, Platforms: []string{"gcp"}, Controllers: []string{"machines"}}
	const f, n = "FORBIDDEN", "NOT_FOUND"
	tests := []struct {
		what                                         string
		viewer, editor, stranger, admin, robot, none string
		do                                           func(who auth.Identity) error
	}{
		{"read a pool", "", "", n, "", "", "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.GetNodePool(b.as(who), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
			return err
		}},
		{"read its status", "", "", n, "", "", "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.GetNodePoolStatus(b.as(who), &nodepoolsv1.GetNodePoolStatusRequest{Id: pool.GetId()})
			return err
		}},
		{"list", "", "", "", "", "", "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.ListNodePools(b.as(who), &nodepoolsv1.ListNodePoolsRequest{})
			return err
		}},
		{"write a pool", f, "", n, "", f, "UNAUTHENTICATED", func(who auth.Identity) error { _, err := b.put(who, pool.GetId(), gcpSpec); return err }},
		{"create a pool", f, "", n, "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.CreateNodePool(b.as(who), &nodepoolsv1.CreateNodePoolRequest{DryRun: true, Nodepool: &nodepoolsv1.NodePool{Name: "new", ClusterId: cluster.GetId(), Spec: spec(t, gcpSpec)}})
			return err
		}},
		{"delete a pool", f, "", n, "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.DeleteNodePool(b.as(who), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId(), DryRun: true})
			return err
		}},
		{"force a deletion", f, f, f, "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.DeleteNodePool(b.as(who), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId(), DryRun: true, Force: true})
			return err
		}},
		{"force the deletion of a cluster", f, f, f, "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.DeleteCluster(b.as(who), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), DryRun: true, Force: true})
			return err
		}},
		{"report", f, f, f, f, "", "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.UpdateNodePoolStatus(b.as(who), &nodepoolsv1.UpdateNodePoolStatusRequest{Id: pool.GetId(), Report: reportOf("machines", 1, "Ready=True")})
			return err
		}},
		{"register", f, f, f, "", "", "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.RegisterController(b.as(who), &nodepoolsv1.RegisterControllerRequest{Name: "machines", Controller: &nodepoolsv1.Controller{Platforms: []string{"gcp"}}})
			return err
		}},
		{"register another", f, f, f, "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.RegisterController(b.as(who), &nodepoolsv1.RegisterControllerRequest{Name: "other", Controller: &nodepoolsv1.Controller{Platforms: []string{"aws"}}})
			return err
		}},
		{"register for another platform", f, f, f, "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.RegisterController(b.as(who), &nodepoolsv1.RegisterControllerRequest{Name: "machines", Controller: &nodepoolsv1.Controller{Platforms: []string{"aws"}}})
			return err
		}},
		{"list controllers", "", "", "", "", "", "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.ListControllers(b.as(who), &nodepoolsv1.ListControllersRequest{})
			return err
		}},
		{"forget a controller", f, f, f, n, f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.DeleteController(b.as(who), &nodepoolsv1.DeleteControllerRequest{Name: "nobody"})
			return err
		}},
		{"read the audit log", f, f, f, "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.ListAudit(b.as(who), &nodepoolsv1.ListAuditRequest{})
			return err
		}},
		{"make a webhook", f, "", "", "", f, "UNAUTHENTICATED", func(who auth.Identity) error {
			_, err := b.CreateWebhook(b.as(who), &nodepoolsv1.CreateWebhookRequest{Webhook: &nodepoolsv1.Webhook{Url: "https://example.com/", Secret: "0123456789abcdef"}})
			return err
		}},
	}
	for _, test := range tests {
		for _, who := range []struct {
			what     string
			identity auth.Identity
			reason   string
		}{
			{"a viewer", watcher, test.viewer}, {"the owner", alice, test.editor}, {"a stranger", bob, test.stranger},
			{"an administrator", root, test.admin}, {"a controller", own, test.robot}, {"nobody", auth.Identity{}, test.none},
		} {
			refused(t, test.what+" as "+who.what, test.do(who.identity), who.reason)
		}
	}
}

// TestOwner checks that a pool belongs to the owner of its cluster, whoever made it.
func TestOwner(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(root, cluster.GetId(), "workers")
	if pool.GetCreatedBy() != root.Name {
		t.Errorf("created by %s", pool.GetCreatedBy())
	}
	must[*nodepoolsv1.NodePool](t, "update by the owner of the cluster")(b.put(alice, pool.GetId(), gcpSpec))
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(options *service.Options) { options.Quotas = service.Quotas{Clusters: 1, NodePools: 2, Nodes: 12} })
	cluster := b.cluster(alice, "production", "gcp")
	_, err := b.CreateCluster(b.as(alice), &nodepoolsv1.CreateClusterRequest{Cluster: &nodepoolsv1.Cluster{Name: "second", Spec: parse(t, &nodepoolsv1.ClusterSpec{}, `{"platform": {"type": "gcp"}}`)}})
	refused(t, "a second cluster", err, "QUOTA_EXCEEDED")
	b.cluster(bob, "second", "gcp")
	one := b.pool(alice, cluster.GetId(), "one")
	_, err = b.create(alice, cluster.GetId(), "two", `{"platform": {"type": "gcp", "gcp": {"machineType": "a"}}, "autoscaling": {"enabled": true, "maxNodes": 10}}`)
	refused(t, "more nodes, by autoscaling", err, "QUOTA_EXCEEDED")
	b.pool(root, cluster.GetId(), "two")
	_, err = b.create(alice, cluster.GetId(), "three", gcpSpec)
	refused(t, "a third pool", err, "QUOTA_EXCEEDED")
	_, err = b.patch(one.GetId(), `{"spec": {"nodeCount": 10}}`)
	refused(t, "more nodes", err, "QUOTA_EXCEEDED")
	must[*nodepoolsv1.NodePool](t, "as many nodes as there may be")(b.patch(one.GetId(), `{"spec": {"nodeCount": 9}}`))
	if got := b.get(one.GetId()).GetSpec().GetNodeCount(); got != 9 {
		t.Errorf("there are %d nodes", got)
	}
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: one.GetId()}); err != nil {
		t.Fatal(err)
	}
	b.pool(alice, cluster.GetId(), "three")
}
