package service

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	const before = `{"platform": {"type": "aws", "aws": {"instanceType": "m5.large", "userData": "sealed:v1:a"}}, "nodeCount": 3, "labels": {"a": "b"}}`
	tests := []struct {
		after string
		want  []string
	}{
		{before, nil},
		{`{"platform": {"type": "aws", "aws": {"instanceType": "m5.large", "userData": "sealed:v1:b"}}, "nodeCount": 3, "labels": {"a": "b"}}`, []string{"spec.platform.aws.userData"}},
		{`{"platform": {"type": "aws", "aws": {"instanceType": "m5.xlarge"}}, "labels": {"a": "c"}, "autoscaling": {"enabled": true}}`,
			[]string{"spec.platform.aws.instanceType from m5.large to m5.xlarge", "spec.platform.aws.userData", "spec.autoscaling added", "spec.nodeCount from 3 to none", "spec.labels"}},
	}
	for _, test := range tests {
		one, other := &nodepoolsv1.NodePoolSpec{}, &nodepoolsv1.NodePoolSpec{}
		if err := protojson.Unmarshal([]byte(before), one); err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal([]byte(test.after), other); err != nil {
			t.Fatal(err)
		}
		if got := differences(one.ProtoReflect(), other.ProtoReflect(), "spec"); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.after, got, test.want)
		}
	}
}

// TestMergePatch checks the examples of RFC 7396, appendix A, that an object can have.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	object := func(pairs ...any) map[string]any {
		result := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			result[pairs[i].(string)] = pairs[i+1]
		}
		return result
	}
	tests := []struct{ target, patch, want any }{
		{object("a", "b"), object("a", "c"), object("a", "c")},
		{object("a", "b"), object("b", "c"), object("a", "b", "b", "c")},
		{object("a", "b"), object("a", nil), object()},
		{object("a", "b", "b", "c"), object("a", nil), object("b", "c")},
		{object("a", []any{"b"}), object("a", "c"), object("a", "c")},
		{object("a", "c"), object("a", []any{"b"}), object("a", []any{"b"})},
		{object("a", object("b", "c")), object("a", object("b", "d", "c", nil)), object("a", object("b", "d"))},
		{object("a", []any{object("b", "c")}), object("a", []any{1}), object("a", []any{1})},
		{object("e", nil), object("a", 1), object("e", nil, "a", 1)},
		{object(), object("a", object("bb", object("ccc", nil))), object("a", object("bb", object()))},
	}
	for _, test := range tests {
		if got := mergePatch(test.target, test.patch); !cmp.Equal(got, test.want) {
			t.Errorf("%v with %v is %v, want %v", test.target, test.patch, got, test.want)
		}
	}
}

func TestJSONPath(t *testing.T) {
	t.Parallel()
	message := (&nodepoolsv1.NodePool{}).ProtoReflect().Descriptor()
	for path, want := range map[string]string{
		"":                                    "",
		"name":                                "name",
		"cluster_id":                          "cluster_id",
		"spec.node_count":                     "spec.nodeCount",
		"spec.platform.azure.os_disk_size_gb": "spec.platform.azure.osDiskSizeGB",
		"spec.taints[2].key":                  "spec.taints[2].key",
		`spec.labels["a.b/c]d"]`:              `spec.labels["a.b/c]d"]`,
		`spec.labels["a\"]b"]`:                `spec.labels["a\"]b"]`,
		"spec.platform.gcp.taints[0].effect":  "spec.platform.gcp.taints[0].effect",
		"spec.autoscaling.target_cpu_utilization": "spec.autoscaling.targetCPUUtilization",
		"spec.upgrade_settings.max_surge":         "spec.upgradeSettings.maxSurge",
		"not_a_field.machine_type":                "not_a_field.machine_type",
	} {
		if got := jsonPath(message, path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// TestSecretFields checks that each field that is marked as a secret is one that redacting and sealing find: no list, no map, no bytes.
func TestSecretFields(t *testing.T) {
	t.Parallel()
	found := 0
	var walk func(message protoreflect.MessageDescriptor, within bool)
	walk = func(message protoreflect.MessageDescriptor, within bool) {
		for i := range message.Fields().Len() {
			field := message.Fields().Get(i)
			if options, ok := field.Options().(*descriptorpb.FieldOptions); ok && options.GetDebugRedact() {
				found++
				if !isSecret(field) || within || field.IsList() || field.IsMap() {
					t.Errorf("%s is marked as a secret, but would not be redacted", field.FullName())
				}
			}
			if inner := field.Message(); inner != nil && inner.ParentFile().Package() == ownPackage {
				walk(inner, within || field.IsList() || field.IsMap())
			}
		}
	}
	walk((&nodepoolsv1.NodePool{}).ProtoReflect().Descriptor(), false)
	walk((&nodepoolsv1.Cluster{}).ProtoReflect().Descriptor(), false)
	if found == 0 {
		t.Error("no field is marked as a secret")
	}
}

// TestFiltersAreToldApart: no two lists with different filters take each other's cursors, where the values of the filters make one text
// when they are put together too.
func TestFiltersAreToldApart(t *testing.T) {
	t.Parallel()
	seen := map[string]store.Query{}
	for _, query := range []store.Query{
		{Kind: store.NodePool},
		{Kind: store.Cluster},
		{Kind: store.NodePool, Name: "x", Phase: "Ready"},
		{Kind: store.NodePool, Name: "xReady"},
		{Kind: store.NodePool, Phase: "xReady"},
		{Kind: store.NodePool, Owner: "a b"},
		{Kind: store.NodePool, Owner: "a", ClusterID: " b"},
		{Kind: store.NodePool, Platforms: []string{"civo", "aws"}},
		{Kind: store.NodePool, Platforms: []string{"civo aws"}},
		{Kind: store.NodePool, Platforms: []string{}},
		{Kind: store.NodePool, Labels: map[string]string{"a": "b c:d"}},
		{Kind: store.NodePool, Labels: map[string]string{"a": "b", "c": "d"}},
		{Kind: store.NodePool, LabelKeys: []string{"a", "b"}},
		{Kind: store.NodePool, LabelKeys: []string{"a b"}},
		{Kind: store.NodePool, NeedsReconcile: true},
	} {
		hash := filterHash(query)
		if other, found := seen[hash]; found {
			t.Errorf("%+v has the hash of %+v", query, other)
		}
		seen[hash] = query
	}
}
