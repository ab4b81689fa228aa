package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/status"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/validation"
)

func TestPreconditions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	old := pool.GetResourceVersion()
	pool = must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 4}}`))
	etag := `"` + pool.GetResourceVersion() + `"`
	tests := []struct {
		name    string
		request service.Request
		version string
		reason  string
	}{
		{"nothing", service.Request{}, "", ""},
		{"current tag", service.Request{IfMatch: etag}, "", ""},
		{"old tag", service.Request{IfMatch: `"` + old + `"`}, "", "PRECONDITION_FAILED"},
		{"one of several", service.Request{IfMatch: `"1", ` + etag}, "", ""},
		{"any", service.Request{IfMatch: "*"}, "", ""},
		{"weak tag", service.Request{IfMatch: "W/" + etag}, "", "PRECONDITION_FAILED"},
		{"no tag", service.Request{IfMatch: pool.GetResourceVersion()}, "", "VALIDATION_ERROR"},
		{"half a tag", service.Request{IfMatch: `"1`}, "", "VALIDATION_ERROR"},
		{"must not be there", service.Request{IfNoneMatch: "*"}, "", "PRECONDITION_FAILED"},
		{"must be another", service.Request{IfNoneMatch: etag}, "", "PRECONDITION_FAILED"},
		{"is another", service.Request{IfNoneMatch: `"1"`}, "", ""},
		{"current version", service.Request{}, pool.GetResourceVersion(), ""},
		{"old version", service.Request{}, old, "CONFLICT"},
		{"no version", service.Request{}, "abc", "CONFLICT"},
		{"old tag and version", service.Request{IfMatch: `"` + old + `"`}, old, "PRECONDITION_FAILED"},
	}
	for _, test := range tests {
		ctx := b.as(alice, test.request)
		_, err := b.UpdateNodePool(ctx, &nodepoolsv1.UpdateNodePoolRequest{Id: pool.GetId(), DryRun: true, Nodepool: &nodepoolsv1.NodePool{Spec: spec(t, gcpSpec), ResourceVersion: test.version}})
		refused(t, test.name+": update", err, test.reason)
		_, err = b.DeleteNodePool(ctx, &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId(), DryRun: true, ResourceVersion: test.version})
		refused(t, test.name+": delete", err, test.reason)
		patch := &nodepoolsv1.PatchNodePoolRequest{Id: pool.GetId(), DryRun: true}
		parse(t, patch, `{"patch": {"resource_version": "`+test.version+`"}}`)
		patch.Id, patch.DryRun = pool.GetId(), true
		_, err = b.PatchNodePool(ctx, patch)
		refused(t, test.name+": patch", err, test.reason)
	}
	again := &nodepoolsv1.CreateNodePoolRequest{Nodepool: &nodepoolsv1.NodePool{Name: "workers", ClusterId: pool.GetClusterId(), Spec: spec(t, gcpSpec)}}
	_, err := b.CreateNodePool(b.as(alice, service.Request{IfNoneMatch: "*"}), again)
	refused(t, "create what is there, if it is not", err, "PRECONDITION_FAILED")
	_, err = b.CreateNodePool(b.as(alice, service.Request{IfMatch: "*"}), again)
	refused(t, "create what must be there", err, "PRECONDITION_FAILED")
	again.Nodepool.Name = "others"
	must[*nodepoolsv1.NodePool](t, "create what is not there")(b.CreateNodePool(b.as(alice, service.Request{IfNoneMatch: "*"}), again))
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, address string) {
		b := newBenchAt(t, address)
		cluster := b.cluster(alice, "production", "gcp")
		request := &nodepoolsv1.CreateNodePoolRequest{Nodepool: &nodepoolsv1.NodePool{Name: "workers", ClusterId: cluster.GetId(), Spec: spec(t, gcpSpec)}}
		keyed := service.Request{IdempotencyKey: "6e1c"}
		first := must[*nodepoolsv1.NodePool](t, "create")(b.CreateNodePool(b.as(alice, keyed), request))
		must[*nodepoolsv1.NodePool](t, "patch")(b.patch(first.GetId(), `{"spec": {"nodeCount": 9}}`))
		again := must[*nodepoolsv1.NodePool](t, "create again")(b.CreateNodePool(b.as(alice, keyed), request))
		if !proto.Equal(first, again) {
			t.Errorf("the answer was %v, and now is %v", first, again)
		}
		if got := b.eventTypes(first.GetId()); len(got) != 2 {
			t.Errorf("the events are %v", got)
		}
		other := proto.CloneOf(request)
		other.Nodepool.Name = "others"
		_, err := b.CreateNodePool(b.as(alice, keyed), other)
		refused(t, "another request with the same key", err, "IDEMPOTENCY_KEY_REUSED")
		_, err = b.UpdateNodePool(b.as(alice, keyed), &nodepoolsv1.UpdateNodePoolRequest{Id: first.GetId(), Nodepool: &nodepoolsv1.NodePool{Spec: spec(t, gcpSpec)}})
		refused(t, "another method with the same key", err, "IDEMPOTENCY_KEY_REUSED")
		_, err = b.CreateNodePool(b.as(root, keyed), request)
		refused(t, "the same key of somebody else", err, "CONFLICT")
		_, err = b.CreateNodePool(b.as(alice, service.Request{IdempotencyKey: strings.Repeat("a", 256)}), request)
		refused(t, "a key that is too long", err, "VALIDATION_ERROR")
		// A deletion that is repeated after the pool is gone has the answer that it had.
		for range 2 {
			if _, err := b.DeleteNodePool(b.as(alice, service.Request{IdempotencyKey: "gone"}), &nodepoolsv1.DeleteNodePoolRequest{Id: first.GetId()}); err != nil {
				t.Fatal(err)
			}
		}
		// What failed, and what was only tried, leaves nothing behind the key.
		_, err = b.UpdateNodePool(b.as(alice, service.Request{IdempotencyKey: "new"}), &nodepoolsv1.UpdateNodePoolRequest{Id: first.GetId(), Nodepool: &nodepoolsv1.NodePool{Spec: spec(t, gcpSpec)}})
		refused(t, "update what is gone", err, "NOT_FOUND")
		request.DryRun = true
		must[*nodepoolsv1.NodePool](t, "try")(b.CreateNodePool(b.as(alice, service.Request{IdempotencyKey: "new"}), request))
		request.DryRun = false
		must[*nodepoolsv1.NodePool](t, "create anew")(b.CreateNodePool(b.as(alice, service.Request{IdempotencyKey: "new"}), request))
		// The same request many times at once makes one pool.
		request.Nodepool.Name = "at-once"
		var group sync.WaitGroup
		made := make([]*nodepoolsv1.NodePool, 20)
		for i := range made {
			group.Go(func() {
				var err error
				if made[i], err = b.CreateNodePool(b.as(alice, service.Request{IdempotencyKey: "at once"}), request); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for _, one := range made {
			if !proto.Equal(one, made[0]) {
				t.Errorf("one request has the answers %v and %v", made[0], one)
			}
		}
	})
}

func TestImmutable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gcp := b.cluster(alice, "gcp", "gcp")
	pool := b.pool(alice, gcp.GetId(), "workers")
	for field, patch := range map[string]string{
		"id":                 `{"id": "123e4567-e89b-12d3-a456-426614174000"}`,
		"cluster_id":         `{"cluster_id": "123e4567-e89b-12d3-a456-426614174000"}`,
		"spec.platform.type": `{"spec": {"platform": {"type": "aws", "gcp": null, "aws": {"instanceType": "m5.xlarge"}}}}`,
	} {
		_, err := b.patch(pool.GetId(), patch)
		refused(t, field, err, "VALIDATION_ERROR")
		if !slices.Contains(fields(err), field) || !strings.Contains(details(err), "cannot change") {
			t.Errorf("%s: %v, %s", field, fields(err), details(err))
		}
	}
	digitalocean := b.cluster(alice, "do", "digitalocean")
	for field, patch := range map[string]string{
		"spec.platform.digitalocean.region":               `{"region": "ams3"}`,
		"spec.platform.digitalocean.vpcId":                `{"vpcId": "x"}`,
		"spec.platform.digitalocean.highlyAvailable":      `{"highlyAvailable": null}`,
		"spec.platform.digitalocean.defaultNodePool.size": `{"defaultNodePool": {"size": "s-4vcpu-8gb"}}`,
		"": `{"defaultNodePool": {"nodeCount": 3}}`,
	} {
		request := parse(t, &nodepoolsv1.PatchClusterRequest{}, `{"patch": {"spec": {"platform": {"digitalocean": `+patch+`}}}}`)
		request.Id = digitalocean.GetId()
		_, err := b.PatchCluster(b.as(alice), request)
		if field == "" {
			refused(t, patch, err, "")
			continue
		}
		refused(t, patch, err, "VALIDATION_ERROR")
		if got := fields(err); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: the fields are %v", patch, got)
		}
	}
}

// TestFixedName: where a platform tells objects by their names, another name would be another object.
func TestFixedName(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(options *service.Options) {
		options.FixedName = func(kind store.Kind, platform string) bool { return kind == store.NodePool && platform == "gcp" }
	})
	gcp := b.cluster(alice, "gcp", "gcp")
	pool := b.pool(alice, gcp.GetId(), "workers")
	_, err := b.patch(pool.GetId(), `{"name": "others"}`)
	refused(t, "the name of a pool", err, "VALIDATION_ERROR")
	if got := fields(err); !slices.Equal(got, []string{"name"}) {
		t.Errorf("the fields are %v", got)
	}
	_, err = b.patch(pool.GetId(), `{"name": "workers", "spec": {"nodeCount": 2}}`)
	refused(t, "the same name", err, "")
	request := parse(t, &nodepoolsv1.PatchClusterRequest{}, `{"patch": {"name": "other"}}`)
	request.Id = gcp.GetId()
	_, err = b.PatchCluster(b.as(alice), request)
	refused(t, "the name of a cluster", err, "")
}

func TestUpdateIsValidated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	b.pool(alice, cluster.GetId(), "others")
	tests := []struct {
		name   string
		wanted *nodepoolsv1.NodePool
		reason string
		field  string
	}{
		{"nothing", nil, "VALIDATION_ERROR", ""},
		{"no spec", &nodepoolsv1.NodePool{Name: "a"}, "VALIDATION_ERROR", "spec"},
		{"odd name", &nodepoolsv1.NodePool{Name: "A B", Spec: spec(t, gcpSpec)}, "VALIDATION_ERROR", "name"},
		{"negative count", &nodepoolsv1.NodePool{Spec: spec(t, `{"platform": {"type": "gcp", "gcp": {"machineType": "a"}}, "nodeCount": -1}`)}, "VALIDATION_ERROR", "spec.nodeCount"},
		{"another cluster", &nodepoolsv1.NodePool{ClusterId: pool.GetId(), Spec: spec(t, gcpSpec)}, "VALIDATION_ERROR", "cluster_id"},
		{"another id", &nodepoolsv1.NodePool{Id: cluster.GetId(), Spec: spec(t, gcpSpec)}, "VALIDATION_ERROR", "id"},
		{"a name that is taken", &nodepoolsv1.NodePool{Name: "others", Spec: spec(t, gcpSpec)}, "CONFLICT", ""},
	}
	for _, test := range tests {
		_, err := b.UpdateNodePool(b.as(alice), &nodepoolsv1.UpdateNodePoolRequest{Id: pool.GetId(), Nodepool: test.wanted})
		refused(t, test.name, err, test.reason)
		if got := fields(err); test.reason == "VALIDATION_ERROR" && !slices.Equal(got, []string{test.field}) {
			t.Errorf("%s: the fields are %v, want %s", test.name, got, test.field)
		}
	}
	if got := b.get(pool.GetId()); !proto.Equal(got, pool) {
		t.Errorf("what was refused made %v of %v", got, pool)
	}
	_, err := b.UpdateCluster(b.as(alice), &nodepoolsv1.UpdateClusterRequest{Id: cluster.GetId(), Cluster: &nodepoolsv1.Cluster{Spec: &nodepoolsv1.ClusterSpec{}}})
	refused(t, "a cluster without a platform", err, "VALIDATION_ERROR")
	renamed := must[*nodepoolsv1.Cluster](t, "rename")(b.UpdateCluster(b.as(alice), &nodepoolsv1.UpdateClusterRequest{Id: cluster.GetId(), Cluster: &nodepoolsv1.Cluster{Name: "prod", Spec: cluster.GetSpec()}}))
	if renamed.GetName() != "prod" || renamed.GetGeneration() != 1 {
		t.Errorf("the renamed cluster is %v", renamed)
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.create(alice, b.cluster(alice, "production", "gcp").GetId(), "workers",
		`{"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4", "diskSize": 100}}, "nodeCount": 3, "labels": {"team": "a", "env": "prod"}, "taints": [{"key": "a", "effect": "NoSchedule"}]}`))
	tests := []struct {
		name, patch, field string
	}{
		{"unknown field", `{"spec": {"nodeCunt": 4}}`, "spec.nodeCunt"},
		{"unknown field, deeper", `{"spec": {"taints": [{"kye": "a"}]}}`, "spec.taints[0].kye"},
		{"two names of a field", `{"spec": {"nodeCount": 4, "node_count": 5}}`, "spec.node_count"},
		{"wrong type", `{"spec": {"nodeCount": "many"}}`, ""},
		{"half a node", `{"spec": {"nodeCount": 1.5}}`, ""},
		{"no name", `{"name": null}`, "name"},
		{"no spec", `{"spec": null}`, "spec"},
		{"no platform", `{"spec": {"platform": null}}`, "spec.platform"},
		{"a result that breaks a rule", `{"spec": {"nodeCount": null}}`, "spec"},
		{"a bad label", `{"spec": {"labels": {"a b": "c"}}}`, `spec.labels["a b"]`},
	}
	for _, test := range tests {
		_, err := b.patch(pool.GetId(), test.patch)
		refused(t, test.name, err, "VALIDATION_ERROR")
		if got := fields(err); !slices.Contains(got, test.field) {
			t.Errorf("%s: the fields are %v, want %s", test.name, got, test.field)
		}
	}
	got := must[*nodepoolsv1.NodePool](t, "patch")(b.patch(pool.GetId(), `{"spec": {"node_count": 4, "labels": {"team": null, "tier": "1"}, "taints": [{"key": "b", "effect": "NoExecute"}], "platform": {"gcp": {"diskSize": null}}}}`))
	want := spec(t, `{"platform": {"type": "gcp", "gcp": {"machineType": "n1-standard-4"}}, "nodeCount": 4, "labels": {"env": "prod", "tier": "1"}, "taints": [{"key": "b", "effect": "NoExecute"}]}`)
	if !proto.Equal(got.GetSpec(), want) || got.GetGeneration() != 2 {
		t.Errorf("the patched spec is %v, want %v", got.GetSpec(), want)
	}
	if got := must[*nodepoolsv1.NodePool](t, "empty patch")(b.patch(pool.GetId(), `{}`)); got.GetGeneration() != 2 {
		t.Errorf("an empty patch makes the generation %d", got.GetGeneration())
	}
}

func TestClientIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := b.cluster(alice, "production", "gcp")
	request := &nodepoolsv1.CreateNodePoolRequest{ClusterId: cluster.GetId(), Nodepool: &nodepoolsv1.NodePool{Id: "123E4567-E89B-12D3-A456-426614174000", Name: "workers", Spec: spec(t, gcpSpec)}}
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.CreateNodePool(b.as(alice), request))
	if pool.GetId() != "123e4567-e89b-12d3-a456-426614174000" || pool.GetClusterId() != cluster.GetId() {
		t.Fatalf("the pool is %v", pool)
	}
	b.get("123E4567-e89b-12d3-a456-426614174000")
	request.Nodepool.Name = "others"
	_, err := b.CreateNodePool(b.as(alice), request)
	refused(t, "an id that is taken", err, "CONFLICT")
	request.Nodepool.Id, request.Nodepool.ClusterId = "", "550e8400-e29b-41d4-a716-446655440000"
	_, err = b.CreateNodePool(b.as(alice), request)
	refused(t, "two clusters", err, "VALIDATION_ERROR")
	request.ClusterId = ""
	_, err = b.CreateNodePool(b.as(alice), request)
	refused(t, "a cluster that is not there", err, "NOT_FOUND")
	_, err = b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId(), ClusterId: "550e8400-e29b-41d4-a716-446655440000"})
	refused(t, "a pool in another cluster's path", err, "NOT_FOUND")
	_, err = b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: "../etc"})
	refused(t, "an id that is none", err, "VALIDATION_ERROR")
}

type previewer func(cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) (string, error)

func (p previewer) Preview(_ context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) (string, error) {
	return p(cluster, pool)
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	text, failure := "+ 3 nodes", error(nil)
	b := newBench(t, func(options *service.Options) {
		options.Provisioned = map[string]string{"gcp": "gcp-controller"}
		options.Previewer = previewer(func(cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) (string, error) {
			if cluster.GetName() != "production" || pool.GetName() != "workers" {
				t.Errorf("the previewer sees %v in %v", pool, cluster)
			}
			return text, failure
		})
	})
	cluster := b.cluster(alice, "production", "gcp")
	request := &nodepoolsv1.CreateNodePoolRequest{DryRun: true, Nodepool: &nodepoolsv1.NodePool{Name: "workers", ClusterId: cluster.GetId(), Spec: spec(t, gcpSpec)}}
	before := must[int64](t, "revision")(b.store.Revision(t.Context()))
	tried := must[*nodepoolsv1.NodePool](t, "try")(b.CreateNodePool(b.as(alice), request))
	if condition := status.Find(tried.GetStatus().GetConditions(), "Preview"); condition.GetMessage() != text || condition.GetStatus() != "True" || tried.GetGeneration() != 1 {
		t.Errorf("the answer is %v", tried)
	}
	text = strings.Repeat("\u00e9", 40<<10)
	tried = must[*nodepoolsv1.NodePool](t, "try what has much to tell")(b.CreateNodePool(b.as(alice), request))
	if got := status.Find(tried.GetStatus().GetConditions(), "Preview").GetMessage(); len(got) != 64<<10 {
		t.Errorf("of a long preview %d bytes are shown", len(got))
	}
	text = "x" + text
	tried = must[*nodepoolsv1.NodePool](t, "try what is cut in a character")(b.CreateNodePool(b.as(alice), request))
	if got := status.Find(tried.GetStatus().GetConditions(), "Preview").GetMessage(); !utf8.ValidString(got) || len(got) != 64<<10-1 {
		t.Errorf("of a long preview %d bytes are shown", len(got))
	}
	if after := must[int64](t, "revision")(b.store.Revision(t.Context())); after != before {
		t.Errorf("a dry run went from revision %d to %d", before, after)
	}
	request.DryRun = false
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.CreateNodePool(b.as(alice), request))
	_, err := b.CreateNodePool(b.as(alice), &nodepoolsv1.CreateNodePoolRequest{DryRun: true, Nodepool: request.Nodepool})
	refused(t, "try a name that is taken", err, "CONFLICT")
	failure = errors.New("the cloud is down")
	changed := must[*nodepoolsv1.NodePool](t, "try an update")(b.UpdateNodePool(b.as(alice), &nodepoolsv1.UpdateNodePoolRequest{
		Id: pool.GetId(), DryRun: true, Nodepool: &nodepoolsv1.NodePool{Spec: spec(t, strings.Replace(gcpSpec, `"nodeCount": 3`, `"nodeCount": 5`, 1))},
	}))
	if condition := status.Find(changed.GetStatus().GetConditions(), "Preview"); condition.GetStatus() != "Unknown" || changed.GetGeneration() != 2 {
		t.Errorf("the answer is %v", changed)
	}
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId(), DryRun: true}); err != nil {
		t.Fatal(err)
	}
	if got := b.get(pool.GetId()); !proto.Equal(got, pool) {
		t.Errorf("dry runs left %v of %v", got, pool)
	}
}

func TestProvisionedPlatforms(t *testing.T) {
	t.Parallel()
	var recorder *recorder
	b := newBench(t, recorded(&recorder), func(options *service.Options) {
		options.Provisioned = map[string]string{"civo": "civo-controller"}
		options.Check = func(_ context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) []validation.Violation {
			if pool.GetSpec().GetPlatform().GetCivo().GetSize() == "none" {
				return []validation.Violation{{FieldPath: "spec.platform.civo.size", RuleID: "civo.size", Message: "there is no such size in " + cluster.GetSpec().GetPlatform().GetCivo().GetRegion()}}
			}
			return nil
		}
	})
	jobs := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, key := range recorder.take() {
			got = append(got, string(key.Kind)+" "+key.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the jobs are %v, want %v", what, got, want)
		}
	}
	if !b.Provisions("civo") || b.Provisions("gcp") {
		t.Errorf("civo is provisioned: %t, gcp is: %t", b.Provisions("civo"), b.Provisions("gcp"))
	}
	cluster := b.cluster(alice, "production", "civo")
	jobs("create a cluster", "cluster "+cluster.GetId())
	b.pool(alice, b.cluster(alice, "elsewhere", "gcp").GetId(), "workers")
	jobs("another platform")
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.create(alice, cluster.GetId(), "workers", `{"platform": {"type": "civo", "civo": {"size": "g4s.kube.medium"}}, "nodeCount": 1}`))
	if !slices.Contains(strings.Fields(pool.GetStatus().GetMessage()), "civo-controller") {
		t.Errorf("the pool waits for %q", pool.GetStatus().GetMessage())
	}
	jobs("create a pool", "nodepool "+pool.GetId())
	_, err := b.patch(pool.GetId(), `{"spec": {"platform": {"civo": {"size": "none"}}}}`)
	refused(t, "what the platform does not allow", err, "VALIDATION_ERROR")
	if details(err) != "spec.platform.civo.size: there is no such size in fra1" {
		t.Errorf("the details are %q", details(err))
	}
	_, err = b.create(alice, cluster.GetId(), "nowhere", `{"platform": {"type": "civo", "civo": {"size": "none"}}, "nodeCount": 1}`)
	refused(t, "create what the platform does not allow", err, "VALIDATION_ERROR")
	jobs("refused")
	must[*nodepoolsv1.NodePool](t, "scale")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 2}}`))
	jobs("scale", "nodepool "+pool.GetId())
	must[*nodepoolsv1.NodePool](t, "nothing")(b.patch(pool.GetId(), `{"spec": {"nodeCount": 2}}`))
	jobs("nothing")
	poolKey, clusterKey := store.Key{Kind: store.NodePool, ID: pool.GetId()}, store.Key{Kind: store.Cluster, ID: cluster.GetId()}
	for key, generation := range map[store.Key]int32{poolKey: 2, clusterKey: 1} {
		if err := b.Report(t.Context(), key, reportOf("civo-controller", generation, "Ready=True")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs("sweep what is finished")
	if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Cascade: true}); err != nil {
		t.Fatal(err)
	}
	jobs("delete with the pools: the cluster waits", "nodepool "+pool.GetId())
	b.pass(2 * service.DefaultSweepInterval)
	if err := b.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs("sweep while the cluster waits", "nodepool "+pool.GetId())
	if err := b.Report(t.Context(), clusterKey, reportOf("civo-controller", 1, "Ready=False")); err != nil {
		t.Fatal(err)
	}
	if err := b.Report(t.Context(), poolKey, reportOf("civo-controller", 2, "Deleted=True")); err != nil {
		t.Fatal(err)
	}
	jobs("the last pool is gone", "cluster "+cluster.GetId())
	if err := b.Report(t.Context(), clusterKey, reportOf("civo-controller", 1, "Deleted=True")); err != nil {
		t.Fatal(err)
	}
	refused(t, "report about what is gone", b.Report(t.Context(), clusterKey, reportOf("civo-controller", 1, "Deleted=True")), "NOT_FOUND")
	jobs("gone")
}

func TestForce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("machines", "gcp")
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	if _, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()}); err != nil {
		t.Fatal(err)
	}
	_, err := b.put(alice, pool.GetId(), strings.Replace(gcpSpec, `"nodeCount": 3`, `"nodeCount": 5`, 1))
	refused(t, "change what is being deleted", err, "CONFLICT")
	if _, err := b.DeleteNodePool(b.as(root, service.Request{ID: "r-1"}), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId(), Force: true}); err != nil {
		t.Fatal(err)
	}
	_, err = b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: pool.GetId()})
	refused(t, "get what was forgotten", err, "NOT_FOUND")
	log := must[*nodepoolsv1.ListAuditResponse](t, "audit")(b.ListAudit(b.as(root), &nodepoolsv1.ListAuditRequest{ObjectId: pool.GetId()}))
	last := log.GetEntries()[0]
	if last.GetAction() != "force-delete" || last.GetActor() != root.Name || last.GetRequestId() != "r-1" || last.GetAfter() != "" || !strings.Contains(last.GetBefore(), `"name":"workers"`) {
		t.Errorf("the audit log says %v", last)
	}
	others := b.pool(alice, cluster.GetId(), "others")
	if _, err := b.DeleteCluster(b.as(root), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Force: true}); err != nil {
		t.Fatal(err)
	}
	_, err = b.GetNodePool(b.as(alice), &nodepoolsv1.GetNodePoolRequest{Id: others.GetId()})
	refused(t, "get a pool of what was forgotten", err, "NOT_FOUND")
}

// TestForceIsAudited: of a cluster that is forced away, each object that goes is told and audited with what it was, as forced, and by whom;
// only for the one version that was meant, and not when it is tried.
func TestForceIsAudited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("machines", "gcp")
	cluster := b.cluster(alice, "production", "gcp")
	pools := []*nodepoolsv1.NodePool{b.pool(alice, cluster.GetId(), "one"), b.pool(alice, cluster.GetId(), "two")}
	asRoot := func(request service.Request) context.Context { return b.as(root, request) }
	for _, dry := range []bool{false, true} {
		request, reason := service.Request{}, ""
		if !dry {
			request.IfMatch, reason = `"1"`, "PRECONDITION_FAILED"
		}
		_, err := b.DeleteNodePool(asRoot(request), &nodepoolsv1.DeleteNodePoolRequest{Id: pools[1].GetId(), Force: true, DryRun: dry})
		refused(t, "force a pool of another version, or try to", err, reason)
		_, err = b.DeleteCluster(asRoot(request), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Force: true, DryRun: dry})
		refused(t, "force a cluster of another version, or try to", err, reason)
	}
	_, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Force: true})
	refused(t, "force as its owner", err, "FORBIDDEN")
	b.phase(pools[1].GetId(), "Pending")

	if _, err := b.DeleteCluster(asRoot(service.Request{ID: "r-1"}), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Force: true}); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []struct{ id, name, event string }{
		{pools[0].GetId(), "one", "nodepool.deleted"}, {pools[1].GetId(), "two", "nodepool.deleted"}, {cluster.GetId(), "production", "cluster.deleted"},
	} {
		log := must[*nodepoolsv1.ListAuditResponse](t, "audit")(b.ListAudit(b.as(root), &nodepoolsv1.ListAuditRequest{ObjectId: gone.id})).GetEntries()
		last := log[0]
		if last.GetAction() != "force-delete" || last.GetActor() != root.Name || last.GetRequestId() != "r-1" || last.GetAfter() != "" ||
			!strings.Contains(last.GetBefore(), `"name":"`+gone.name+`"`) {
			t.Errorf("the audit log says of %s: %v", gone.name, last)
		}
		if got := b.eventTypes(gone.id); got[0] != gone.event && got[len(got)-1] != gone.event {
			t.Errorf("the events of %s are %v", gone.name, got)
		}
	}
}

// TestForcedPoolTakesItsClusterAlong: a cluster that waits for its last pool alone goes with it, also when the pool is forced away; that
// itself is no force.
func TestForcedPoolTakesItsClusterAlong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("machines", "gcp")
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Cascade: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteNodePool(b.as(root), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId(), Force: true}); err != nil {
		t.Fatal(err)
	}
	_, err := b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: cluster.GetId()})
	refused(t, "get a cluster whose last pool is gone", err, "NOT_FOUND")
	log := must[*nodepoolsv1.ListAuditResponse](t, "audit")(b.ListAudit(b.as(root), &nodepoolsv1.ListAuditRequest{ObjectId: cluster.GetId()})).GetEntries()
	if got := log[0].GetAction(); got != "delete" {
		t.Errorf("the end of the cluster is audited as %q", got)
	}
}

// TestDeletionStalls: pools and clusters whose controllers take too long are said to be stalled, with what they wait for; neither asking
// again nor a report that it goes on puts that off or takes it back.
func TestDeletionStalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(options *service.Options) { options.DeletionDeadline = time.Hour })
	must[*nodepoolsv1.Controller](t, "register")(b.RegisterController(b.as(controller), &nodepoolsv1.RegisterControllerRequest{
		Name: "machines", Controller: &nodepoolsv1.Controller{Platforms: []string{"gcp"}, Clusters: true},
	}))
	full, empty := b.cluster(alice, "full", "gcp"), b.cluster(alice, "empty", "gcp")
	pool := b.pool(alice, full.GetId(), "workers")
	remove := func() {
		t.Helper()
		_, err := b.DeleteNodePool(b.as(alice), &nodepoolsv1.DeleteNodePoolRequest{Id: pool.GetId()})
		refused(t, "delete a pool", err, "")
		_, err = b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: empty.GetId()})
		refused(t, "delete a cluster", err, "")
	}
	reports := func() {
		t.Helper()
		must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "machines", 1, "Ready=False"))
		must[*nodepoolsv1.ClusterStatus](t, "report")(b.UpdateClusterStatus(b.as(controller), &nodepoolsv1.UpdateClusterStatusRequest{
			Id: empty.GetId(), Report: reportOf("machines", 1, "Ready=False"),
		}))
	}
	stalled := func(what, want string) {
		t.Helper()
		if err := b.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		cluster := must[*nodepoolsv1.Cluster](t, "get")(b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: empty.GetId()}))
		for _, got := range []*nodepoolsv1.Status{b.get(pool.GetId()).GetStatus(), cluster.GetStatus()} {
			condition := status.Find(got.GetConditions(), "DeletionStalled")
			if condition.GetStatus() != want || (got.GetReason() == "DeletionStalled") != (want == "True") ||
				want == "True" && !strings.Contains(condition.GetMessage(), "machines") {
				t.Errorf("%s: stalled is %v, want %s", what, condition, want)
			}
		}
	}
	remove()
	stalled("at first", "False")
	b.pass(40 * time.Minute)
	remove()
	reports()
	stalled("before its time", "False")
	b.pass(21 * time.Minute)
	stalled("after its time", "True")
	remove()
	reports()
	stalled("reported about, and asked for again", "True")
}

// TestForgottenController checks that a deletion does not wait for a controller that is forgotten.
func TestForgottenController(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("one", "gcp")
	b.register("two", "gcp")
	cluster := b.cluster(alice, "production", "gcp")
	pool := b.pool(alice, cluster.GetId(), "workers")
	if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId(), Cascade: true}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		b.phase(pool.GetId(), "Deleting")
		if _, err := b.DeleteController(b.as(root), &nodepoolsv1.DeleteControllerRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: cluster.GetId()})
	refused(t, "get what waits for nobody", err, "NOT_FOUND")
}

// TestForgettingThatIsCutOff: a process that ends between forgetting a controller and releasing the objects that wait for it leaves none that
// wait for ever. The next process releases them, but not those of a controller that has registered again.
func TestForgettingThatIsCutOff(t *testing.T) {
	t.Parallel()
	databases(t, testForgettingThatIsCutOff)
}

func testForgettingThatIsCutOff(t *testing.T, address string) {
	var broken *recorder
	b := newBenchAt(t, address, recorded(&broken))
	next, err := service.New(service.Options{Store: b.store, Now: b.now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	tick := func() {
		t.Helper()
		b.pass(2 * service.DefaultSweepInterval)
		if err := next.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	forget := func(ctx context.Context, name string) error {
		_, err := b.DeleteController(ctx, &nodepoolsv1.DeleteControllerRequest{Name: name})
		return err
	}
	// deleted is a cluster with a pool, both of which wait for a controller to be deleted.
	deleted := func(name string) (cluster, pool string) {
		t.Helper()
		cluster = b.cluster(alice, name, "gcp").GetId()
		pool = b.pool(alice, cluster, "workers").GetId()
		if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster, Cascade: true}); err != nil {
			t.Fatal(err)
		}
		b.phase(pool, "Deleting")
		return cluster, pool
	}
	gone := func(cluster string) {
		t.Helper()
		_, err := b.GetCluster(b.as(alice), &nodepoolsv1.GetClusterRequest{Id: cluster})
		refused(t, "get what waits for nobody", err, "NOT_FOUND")
	}

	b.register("machines", "gcp")
	cluster, pool := deleted("one")
	broken.failList = true
	refused(t, "forget, and end", forget(b.as(root), "machines"), "UNAVAILABLE")
	broken.failList = false
	b.phase(pool, "Deleting")
	tick()
	gone(cluster)

	b.register("machines", "gcp")
	cluster, pool = deleted("two")
	broken.failList = true
	refused(t, "forget, and end", forget(b.as(root), "machines"), "UNAVAILABLE")
	broken.failList = false
	b.register("machines", "gcp")
	tick()
	if got := b.get(pool).GetFinalizers(); !slices.Equal(got, []string{"machines"}) {
		t.Errorf("the pool waits for %v, and not for the controller that is there again", got)
	}
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool, "machines", 1, "Deleted=True"))

	for _, name := range []string{"nobody", "\xff", "a\x00"} {
		refused(t, "forget whom nobody knows", forget(b.as(root), name), "NOT_FOUND")
	}
	// One that was never registered was waited for because it reported.
	if err := forget(b.as(root), "machines"); err != nil {
		t.Fatal(err)
	}
	gone(cluster)
	cluster = b.cluster(alice, "three", "gcp").GetId()
	pool = b.pool(alice, cluster, "workers").GetId()
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool, "visitor", 1, "Ready=True"))
	if _, err := b.DeleteCluster(b.as(alice), &nodepoolsv1.DeleteClusterRequest{Id: cluster, Cascade: true}); err != nil {
		t.Fatal(err)
	}
	// The client goes away meanwhile.
	ctx, leave := context.WithCancel(b.as(root))
	broken.onList = leave
	if err := forget(ctx, "visitor"); err != nil {
		t.Fatal(err)
	}
	broken.onList = nil
	gone(cluster)

	// A controller registers again while it is being taken from the objects.
	b.register("machines", "gcp")
	_, pool = deleted("four")
	broken.onList = func() {
		broken.onList = nil
		b.register("machines", "gcp")
	}
	refused(t, "forget what is there again", forget(b.as(root), "machines"), "")
	if got := b.get(pool).GetFinalizers(); !slices.Equal(got, []string{"machines"}) {
		t.Errorf("the pool waits for %v, and not for the controller that is there again", got)
	}

	// What was done to its end is not done again.
	tick()
	before := must[int64](t, "revision")(b.store.Revision(t.Context()))
	tick()
	if after := must[int64](t, "revision")(b.store.Revision(t.Context())); after != before {
		t.Errorf("with nothing to do, revisions %d to %d were written", before+1, after)
	}
}

// TestRegistrationThatIsCutOff: a process that ends between registering a controller and evaluating the pools that wait for it leaves no pool
// Ready by what others said alone. The next process finds out, and so does the next registration, whatever it is for.
func TestRegistrationThatIsCutOff(t *testing.T) {
	t.Parallel()
	var broken *recorder
	b := newBench(t, recorded(&broken))
	pool := b.pool(alice, b.cluster(alice, "production", "gcp").GetId(), "workers")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "machines", 1, "Ready=True"))
	cutOff := func(name string) {
		t.Helper()
		broken.failList = true
		_, err := b.RegisterController(b.as(controller), &nodepoolsv1.RegisterControllerRequest{Name: name, Controller: &nodepoolsv1.Controller{Platforms: []string{"gcp"}}})
		refused(t, "register, and end", err, "UNAVAILABLE")
		broken.failList = false
	}
	cutOff("network")
	b.phase(pool.GetId(), "Ready")
	next, err := service.New(service.Options{Store: b.store, Now: b.now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.phase(pool.GetId(), "Pending")
	must[*nodepoolsv1.NodePoolStatus](t, "report")(b.report(pool.GetId(), "network", 1, "Ready=True"))
	b.phase(pool.GetId(), "Ready")

	cutOff("storage")
	b.register("elsewhere", "aws")
	b.phase(pool.GetId(), "Progressing")

	// What was done to its end is not done again.
	revision := must[int64](t, "revision")(b.store.Revision(t.Context()))
	b.pass(time.Hour)
	if err := next.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.phase(pool.GetId(), "Failed") // the deadline
	b.pass(time.Hour)
	before := must[int64](t, "revision")(b.store.Revision(t.Context()))
	if err := next.Tick(t.Context()); err != nil || before == revision || before != must[int64](t, "revision")(b.store.Revision(t.Context())) {
		t.Errorf("with nothing to do, something was written after revision %d (%v)", before, err)
	}
}

// TestWritten: the JSON of what was written is told as it is kept, so that it can be answered; where there is none, nothing is told.
func TestWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	parent := b.cluster(alice, "production", "aws")
	const text = `{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge", "userData": "hunter2"}}, "nodeCount": %d}`
	var told []byte
	as := func(key string) context.Context {
		told = nil
		return b.as(alice, service.Request{IdempotencyKey: key, Written: func(document []byte) { told = document }})
	}
	ask := func(nodes int, dryRun bool) *nodepoolsv1.CreateNodePoolRequest {
		return &nodepoolsv1.CreateNodePoolRequest{DryRun: dryRun, Nodepool: &nodepoolsv1.NodePool{
			Name: "workers", ClusterId: parent.GetId(), Spec: spec(t, fmt.Sprintf(text, nodes)),
		}}
	}
	expect := func(what string, answer proto.Message, id string, kept func(context.Context, string) ([]byte, int64, error)) {
		t.Helper()
		document, _, err := kept(b.as(alice), id)
		if err != nil || string(told) != string(document) || strings.Contains(string(told), "hunter2") {
			t.Errorf("%s: told %s, kept is %s: %v", what, told, document, err)
		}
		read := answer.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(told, read); err != nil || !proto.Equal(read, answer) {
			t.Errorf("%s: told %s, and answered %v: %v", what, told, answer, err)
		}
	}

	must[*nodepoolsv1.NodePool](t, "try")(b.CreateNodePool(as(""), ask(1, true)))
	if told != nil {
		t.Errorf("a dry run tells %s, which is not kept", told)
	}
	request := ask(1, false)
	pool := must[*nodepoolsv1.NodePool](t, "create")(b.CreateNodePool(as("1"), request))
	expect("create", pool, pool.GetId(), b.RawNodePool)
	if !proto.Equal(request, ask(1, false)) {
		t.Errorf("the request is %v after it was served", request)
	}
	must[*nodepoolsv1.NodePool](t, "repeat")(b.CreateNodePool(as("1"), request))
	if told != nil {
		t.Errorf("a repeated request tells %s; the object may have changed", told)
	}
	change := &nodepoolsv1.UpdateNodePoolRequest{Id: pool.GetId(), Nodepool: &nodepoolsv1.NodePool{Spec: spec(t, fmt.Sprintf(text, 2))}}
	expect("update", must[*nodepoolsv1.NodePool](t, "update")(b.UpdateNodePool(as(""), change)), pool.GetId(), b.RawNodePool)
	must[*nodepoolsv1.NodePool](t, "update with the same")(b.UpdateNodePool(as(""), change))
	if told != nil {
		t.Errorf("an update that writes nothing tells %s", told)
	}
	cluster := must[*nodepoolsv1.Cluster](t, "create a cluster")(b.CreateCluster(as(""), &nodepoolsv1.CreateClusterRequest{
		Cluster: &nodepoolsv1.Cluster{Name: "another", Spec: parent.GetSpec()},
	}))
	expect("create a cluster", cluster, cluster.GetId(), b.RawCluster)
	cluster = must[*nodepoolsv1.Cluster](t, "rename it")(b.UpdateCluster(as(""), &nodepoolsv1.UpdateClusterRequest{
		Id: cluster.GetId(), Cluster: &nodepoolsv1.Cluster{Name: "renamed", Spec: parent.GetSpec()},
	}))
	expect("rename it", cluster, cluster.GetId(), b.RawCluster)
	if _, err := b.DeleteCluster(as(""), &nodepoolsv1.DeleteClusterRequest{Id: cluster.GetId()}); err != nil || told != nil {
		t.Errorf("a deletion tells %s: %v", told, err)
	}
}
