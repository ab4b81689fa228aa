package validation_test

import (
	"fmt"
	"regexp"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared/rules"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// anyCluster makes clusters that have much in common, of which many break a rule. What breaks one is drawn less often.
func anyCluster(t *rapid.T) *civokubernetesclusterv1.CivoKubernetesCluster {
	often := func(label string) bool { return rapid.IntRange(0, 14).Draw(t, label) < 14 }
	mostly := func(label, wrong string, right ...string) string {
		if often(label + " is right") {
			return rapid.SampledFrom(right).Draw(t, label)
		}
		return wrong
	}
	network := &foreignkeyv1.StringValueOrRef{LiteralOrRef: &foreignkeyv1.StringValueOrRef_Value{Value: mostly("id", "", "a", "b")}}
	switch {
	case !often("network"):
		network.LiteralOrRef = nil
	case rapid.Bool().Draw(t, "reference"):
		network.LiteralOrRef = &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: &foreignkeyv1.ValueFromRef{
			Name: mostly("reference's name", "", "main", "other"), FieldPath: mostly("path", "spec.id", "", "status.outputs.network_id"),
		}}
	}
	spec := &civokubernetesclusterv1.CivoKubernetesClusterSpec{
		ClusterName: mostly("cluster name", "A", "a", "b", "c"), Region: 3, Network: network,
		KubernetesVersion: mostly("version", "talos-v1.5.0", "1.29.0+k3s1", "1.30.0+k3s1"),
		Tags:              rapid.SampledFrom([][]string{nil, {"a", "b"}, {"ab"}, {"b", "a"}, {"a", "a"}}).Draw(t, "tags"),
	}
	if !often("k3s") {
		spec.ClusterType = civokubernetesclusterv1.CivoKubernetesClusterType_talos
	}
	if often("default pool") {
		spec.DefaultNodePool = &civokubernetesclusterv1.CivoKubernetesClusterDefaultNodePool{
			Size: "s", NodeCount: uint32(rapid.IntRange(1, 2).Draw(t, "nodes")), Name: mostly("default pool's name", "X", "", "x"),
		}
	}
	if rapid.Bool().Draw(t, "another pool") {
		spec.AdditionalNodePools = append(spec.AdditionalNodePools, &civokubernetesclusterv1.CivoKubernetesClusterNodePool{
			Name: mostly("pool", "x", "y", "z"), Size: mostly("size", "", "s"), NodeCount: 1, AutoScale: !often("fixed"),
		})
	}
	cluster := &civokubernetesclusterv1.CivoKubernetesCluster{
		ApiVersion: "civo.project-planton.org/v1", Kind: mostly("kind", "CivoVpc", "CivoKubernetesCluster"), Spec: spec,
	}
	if often("metadata") {
		cluster.Metadata = &shared.CloudResourceMetadata{Name: mostly("name", "-", "a", "b", "c"), Org: mostly("org", "acme", "")}
	}
	return cluster
}

// TestMemo: whatever a memo has seen, it tells of a message what Validate tells.
func TestMemo(t *testing.T) {
	t.Parallel()
	memo := validation.NewMemo() // of all runs: it is to know much
	good, bad := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			message := anyCluster(t)
			err := validation.Validate(message)
			if got := memo.Valid(message); got != (err == nil) {
				t.Fatalf("Valid is %t, and Validate gives %v, of %v", got, err, message)
			}
			if err == nil {
				good++
			} else {
				bad++
			}
		}
	})
	if min(good, bad) < 100 {
		t.Errorf("%d messages were good and %d were not: too few of one sort to tell", good, bad)
	}
	t.Logf("%d messages were good, %d were not", good, bad)
}

// A message that was good and is changed is another one.
func TestMemoOfOneThatChanges(t *testing.T) {
	t.Parallel()
	memo, message := validation.NewMemo(), validVpc()
	for range 2 {
		if !memo.Valid(message) {
			t.Fatal(validation.Validate(message))
		}
	}
	message.Metadata.Relationships = []*shared.CloudResourceRelationship{{}}
	if memo.Valid(message) {
		t.Error("it is valid with a relationship to nothing")
	}
}

// A free field is looked at each time, and a type of which there were many forms is looked at as before.
func TestMemoOfMany(t *testing.T) {
	t.Parallel()
	memo := validation.NewMemo()
	message := validVpc()
	for i := range 2000 {
		message.Metadata.Labels = map[string]string{"number": fmt.Sprint(i)}
		message.Spec.NetworkName = "main"
		if !memo.Valid(message) {
			t.Fatalf("message %d is not valid: %v", i, validation.Validate(message))
		}
		message.Spec.NetworkName = "MAIN"
		if memo.Valid(message) {
			t.Fatalf("message %d is valid with a name that is not", i)
		}
	}
	for _, message := range []proto.Message{nil, (*civovpcv1.CivoVpc)(nil)} {
		if memo.Valid(message) {
			t.Errorf("%T is valid without a message", message)
		}
	}
}

// TestRulesTellNoTime: what was good stays good, as long as no rule looks at the time.
func TestRulesTellNoTime(t *testing.T) {
	t.Parallel()
	now := regexp.MustCompile(`\bnow\b`)
	seen := map[protoreflect.FullName]bool{}
	var look func(protoreflect.MessageDescriptor)
	check := func(of protoreflect.Descriptor, rules proto.Message, err error) {
		if err != nil || now.MatchString(fmt.Sprint(rules)) {
			t.Errorf("a rule of %s looks at the time: %v, %v", of.FullName(), rules, err)
		}
	}
	look = func(message protoreflect.MessageDescriptor) {
		if seen[message.FullName()] {
			return
		}
		seen[message.FullName()] = true
		ofMessage, err := protovalidate.ResolveMessageRules(message)
		check(message, ofMessage, err)
		for i := range message.Fields().Len() {
			field := message.Fields().Get(i)
			ofField, err := protovalidate.ResolveFieldRules(field)
			check(field, ofField, err)
			if field.Message() != nil {
				look(field.Message())
			}
		}
	}
	shared := rules.File_org_project_planton_shared_rules_rules_proto.Extensions()
	for i := range shared.Len() {
		check(shared.Get(i), shared.Get(i).Options(), nil)
	}
	for _, kind := range kinds.All() {
		look(kind.NewStackInput().ProtoReflect().Descriptor())
	}
}
