package reconcile

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	clusterID = "550e8400-e29b-41d4-a716-446655440000"
	poolID    = "123e4567-e89b-12d3-a456-426614174000"
)

// parse reads a message that the API would take.
func parse[M proto.Message](t *testing.T, into M, text string) M {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("read %s: %v", text, err)
	}
	if err := validation.Validate(into); err != nil {
		t.Fatalf("the API would not take %s: %v", text, err)
	}
	return into
}

func civoCluster(t *testing.T, edit ...func(*nodepoolsv1.Cluster)) *nodepoolsv1.Cluster {
	t.Helper()
	return edited(parse(t, &nodepoolsv1.Cluster{}, `{"id": "`+clusterID+`", "name": "main", "spec": {
		"kubernetesVersion": "1.29.0+k3s1",
		"platform": {"type": "civo", "civo": {"region": "fra1", "defaultNodePool": {"size": "g4s.kube.medium", "nodeCount": 2}}}}}`), edit)
}

func digitalOceanCluster(t *testing.T, edit ...func(*nodepoolsv1.Cluster)) *nodepoolsv1.Cluster {
	t.Helper()
	return edited(parse(t, &nodepoolsv1.Cluster{}, `{"id": "`+clusterID+`", "name": "main", "spec": {
		"kubernetesVersion": "1.31",
		"platform": {"type": "digitalocean", "digitalocean": {"region": "nyc3", "defaultNodePool": {"size": "s-2vcpu-4gb", "nodeCount": 1}}}}}`), edit)
}

func civoPool(t *testing.T, edit ...func(*nodepoolsv1.NodePool)) *nodepoolsv1.NodePool {
	t.Helper()
	return edited(parse(t, &nodepoolsv1.NodePool{}, `{"id": "`+poolID+`", "name": "batch", "cluster_id": "`+clusterID+`", "spec": {
		"platform": {"type": "civo", "civo": {"size": "g4s.kube.large"}}, "nodeCount": 3, "labels": {"tier": "batch"},
		"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}}`), edit)
}

func digitalOceanPool(t *testing.T, edit ...func(*nodepoolsv1.NodePool)) *nodepoolsv1.NodePool {
	t.Helper()
	return edited(parse(t, &nodepoolsv1.NodePool{}, `{"id": "`+poolID+`", "name": "batch", "cluster_id": "`+clusterID+`", "spec": {
		"platform": {"type": "digitalocean", "digitalocean": {"size": "s-4vcpu-8gb", "tags": ["env:prod"]}},
		"autoscaling": {"enabled": true, "minNodes": 0, "maxNodes": 5}}}`), edit)
}

func edited[M any](message M, edits []func(M)) M {
	for _, edit := range edits {
		edit(message)
	}
	return message
}

func TestCheckCluster(t *testing.T) {
	for name, test := range map[string]struct {
		cluster *nodepoolsv1.Cluster
		want    string // fields of the violations
	}{
		"a good cluster of Civo":         {cluster: civoCluster(t)},
		"a good cluster of DigitalOcean": {cluster: digitalOceanCluster(t)},
		"the cluster of another platform is not looked at": {cluster: &nodepoolsv1.Cluster{
			Spec: &nodepoolsv1.ClusterSpec{Platform: &nodepoolsv1.ClusterPlatform{Type: "gcp"}},
		}},
		"an unknown region": {
			cluster: civoCluster(t, func(c *nodepoolsv1.Cluster) { c.Spec.Platform.Civo.Region = "mars1" }),
			want:    "spec.platform.civo.region",
		},
		"the name of no region": {
			cluster: digitalOceanCluster(t, func(c *nodepoolsv1.Cluster) {
				c.Spec.Platform.Digitalocean.Region = "digital_ocean_region_unspecified"
			}),
			want: "spec.platform.digitalocean.region",
		},
		"no version": {
			cluster: civoCluster(t, func(c *nodepoolsv1.Cluster) { c.Spec.KubernetesVersion = nil }),
			want:    "spec.kubernetesVersion",
		},
		"a version of another platform": {
			cluster: civoCluster(t, func(c *nodepoolsv1.Cluster) { c.Spec.KubernetesVersion = proto.String("1.31.1-do.4") }),
			want:    "spec.kubernetesVersion",
		},
	} {
		t.Run(name, func(t *testing.T) {
			violations, err := Check(test.cluster, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := fieldsOf(violations); got != test.want {
				t.Errorf("the violations are of %q, want %q: %v", got, test.want, violations)
			}
		})
	}
}

func TestCheckPool(t *testing.T) {
	for name, test := range map[string]struct {
		digitalOcean bool
		pool         *nodepoolsv1.NodePool
		want         string
	}{
		"a good pool of Civo":         {pool: civoPool(t)},
		"a good pool of DigitalOcean": {digitalOcean: true, pool: digitalOceanPool(t)},
		"the pool of another platform is not looked at": {pool: &nodepoolsv1.NodePool{
			Spec: &nodepoolsv1.NodePoolSpec{Platform: &nodepoolsv1.Platform{Type: "gcp"}},
		}},
		"an empty pool": {
			pool: civoPool(t, func(p *nodepoolsv1.NodePool) { p.Spec.NodeCount = proto.Int32(0) }), want: "spec.nodeCount",
		},
		"Civo scales to one": {
			pool: civoPool(t, func(p *nodepoolsv1.NodePool) {
				p.Spec.Autoscaling = &nodepoolsv1.Autoscaling{Enabled: true, MaxNodes: 3}
			}),
			want: "spec.autoscaling.minNodes",
		},
		"DigitalOcean scales to zero, but does not begin there": {
			digitalOcean: true, want: "spec.nodeCount",
			pool: digitalOceanPool(t, func(p *nodepoolsv1.NodePool) { p.Spec.NodeCount = proto.Int32(0) }),
		},
		"what these platforms cannot do": {
			digitalOcean: true,
			pool: digitalOceanPool(t, func(p *nodepoolsv1.NodePool) {
				a := p.Spec.Autoscaling
				a.TargetCpuUtilization, a.TargetMemoryUtilization = proto.Int32(70), proto.Int32(80)
				a.ScaleDownDelay, a.ScaleUpDelay = proto.String("10m"), proto.String("3m")
				p.Spec.UpgradeSettings = &nodepoolsv1.UpgradeSettings{MaxSurge: proto.String("1")}
			}),
			want: "spec.autoscaling.targetCPUUtilization spec.autoscaling.targetMemoryUtilization spec.autoscaling.scaleDownDelay " +
				"spec.autoscaling.scaleUpDelay spec.upgradeSettings",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := civoCluster(t)
			if test.digitalOcean {
				cluster = digitalOceanCluster(t)
			}
			violations, err := Check(cluster, test.pool)
			if err != nil {
				t.Fatal(err)
			}
			if got := fieldsOf(violations); got != test.want {
				t.Errorf("the violations are of %q, want %q: %v", got, test.want, violations)
			}
		})
	}
}

func TestNameIsFixed(t *testing.T) {
	for _, test := range []struct {
		kind     store.Kind
		platform string
		want     bool
	}{
		{store.NodePool, "civo", true},
		{store.NodePool, "digitalocean", false},
		{store.NodePool, "gcp", false},
		{store.Cluster, "civo", true},
		{store.Cluster, "digitalocean", true},
		{store.Cluster, "aws", false},
	} {
		if got := NameIsFixed(test.kind, test.platform); got != test.want {
			t.Errorf("the name of a %s of %s is fixed: %t, want %t", test.kind, test.platform, got, test.want)
		}
	}
}

// TestNodesCarryThePoolsName: `kubectl get nodes -l nodepool=NAME` finds them.
func TestNodesCarryThePoolsName(t *testing.T) {
	pool := civoPool(t)
	if got := labels(pool); got[PoolLabel] != "batch" || got["tier"] != "batch" {
		t.Errorf("the labels are %v", got)
	}
	pool.Spec.Labels[PoolLabel] = "mine"
	if got := labels(pool)[PoolLabel]; got != "mine" {
		t.Errorf("the label is %q, though the spec says otherwise", got)
	}
}

func fieldsOf(violations []validation.Violation) string {
	var fields []string
	for _, v := range violations {
		fields = append(fields, v.FieldPath)
	}
	return strings.Join(fields, " ")
}
