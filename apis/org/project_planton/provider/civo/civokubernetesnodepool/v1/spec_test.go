package civokubernetesnodepoolv1_test

import (
	"testing"

	civokubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civokubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type manifest = *civokubernetesnodepoolv1.CivoKubernetesNodePool

func valid() manifest {
	return &civokubernetesnodepoolv1.CivoKubernetesNodePool{
		ApiVersion: "civo.project-planton.org/v1",
		Kind:       "CivoKubernetesNodePool",
		Metadata:   &shared.CloudResourceMetadata{Name: "workers"},
		Spec: &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{
			NodePoolName: "workers",
			Cluster: &foreignkeyv1.StringValueOrRef{
				LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: &foreignkeyv1.ValueFromRef{Name: "prod-cluster"}},
			},
			Size:      "g4s.kube.medium",
			NodeCount: 3,
		},
	}
}

func TestCivoKubernetesNodePool(t *testing.T) {
	t.Parallel()
	Run(t, valid,
		Manifest[manifest]("civo.project-planton.org/v1", "CivoKubernetesNodePool"),
		Accepts[manifest]("metadata.name", "the pool has a name of its own", "My pool_1.a"),
		Name[manifest]("spec.node_pool_name", "dns_label", 63, true),
		Reference[manifest]("spec.cluster", true),
		Accepts[manifest]("spec.size", "Civo knows its sizes", "g4s.kube.xsmall", "an.g1.l40s.kube.x1"),
		Rejects[manifest]("spec.size", "required", "a node has a size", nil, ""),
		Autoscale[manifest]("spec", 1),
		CivoTags[manifest]("spec.tags"),
		Labels[manifest]("spec.labels"),
		Taints[manifest]("spec.taints"),
		Accepts[manifest]("spec.public_ip", "either", true, false),
		Enum[manifest]("spec.region", 6, false),
		[]Case[manifest]{{
			Name:   "an empty spec tells all that is required",
			Reason: "one look at the errors is enough to write the manifest",
			Mutate: func(m manifest) { m.Spec = &civokubernetesnodepoolv1.CivoKubernetesNodePoolSpec{} },
			Want: []Violation{
				{Field: "spec.node_pool_name", Rule: "required"}, {Field: "spec.cluster", Rule: "required"},
				{Field: "spec.size", Rule: "required"}, {Field: "spec.node_count", Rule: "required"},
			},
		}},
	)
}

func TestAutoscaleLaw(t *testing.T) {
	t.Parallel()
	AutoscaleLaw(t, valid, "spec", 1)
}

func TestCivoKubernetesNodePoolStackInput(t *testing.T) {
	t.Parallel()
	StackInput(t, &civokubernetesnodepoolv1.CivoKubernetesNodePoolStackInput{Target: valid()})
}
