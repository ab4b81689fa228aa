package autoscale

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	civokubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetescluster/v1"
	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	digitaloceankubernetesclusterv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetescluster/v1"
	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

// TestBoundsOfEveryPool: a pool of any kind that can be autoscaled whose spec keeps the rules starts with exactly the count that it gives, which is within the
// bounds; one that breaks them starts with a count that is within the bounds all the same, where there are any.
func TestBoundsOfEveryPool(t *testing.T) {
	t.Parallel()
	for _, empty := range []interface {
		proto.Message
		Spec
	}{
		&civokubernetesclusterv1.CivoKubernetesClusterNodePool{},
		&civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{},
		&digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterDefaultNodePool{},
		&digitaloceankubernetesclusterv1.DigitalOceanKubernetesClusterNodePool{},
		&digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec{},
	} {
		name := empty.ProtoReflect().Descriptor().Name()
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				message := proto.Clone(empty)
				set := func(field protoreflect.Name, value any) {
					reflected := message.ProtoReflect()
					reflected.Set(reflected.Descriptor().Fields().ByName(field), protoreflect.ValueOf(value))
				}
				count := rapid.Uint32Range(0, 6)
				set("auto_scale", rapid.Bool().Draw(r, "auto_scale"))
				set("node_count", count.Draw(r, "node_count"))
				set("min_nodes", count.Draw(r, "min_nodes"))
				set("max_nodes", count.Draw(r, "max_nodes"))
				spec := message.(Spec)
				kept := true
				for _, violation := range validationtest.Of(t, message) {
					kept = kept && violation.Field != "" && violation.Field != "node_count"
				}

				first := Of(spec).FirstCount()
				if kept && (first != int(spec.GetNodeCount()) || first < 1) {
					r.Fatalf("%v keeps the rules and starts with %d", message, first)
				}
				bounded := spec.GetAutoScale() && spec.GetMinNodes() <= spec.GetMaxNodes()
				if bounded && (first < int(spec.GetMinNodes()) || first > int(spec.GetMaxNodes())) {
					r.Fatalf("%v starts with %d", message, first)
				}
				if kept && !spec.GetAutoScale() && (spec.GetMinNodes() != 0 || spec.GetMaxNodes() != 0) {
					r.Fatalf("%v has bounds that nothing keeps", message)
				}
			})
		})
	}
}
