package digitaloceankubernetesnodepoolv1_test

import (
	"testing"

	digitaloceankubernetesnodepoolv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceankubernetesnodepool/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	foreignkeyv1 "github.com/plantonhq/project-planton/apis/org/project_planton/shared/foreignkey/v1"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type manifest = *digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool

func valid() manifest {
	return &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePool{
		ApiVersion: "digital-ocean.project-planton.org/v1",
		Kind:       "DigitalOceanKubernetesNodePool",
		Metadata:   &shared.CloudResourceMetadata{Name: "workers"},
		Spec: &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec{
			NodePoolName: "workers",
			Cluster: &foreignkeyv1.StringValueOrRef{
				LiteralOrRef: &foreignkeyv1.StringValueOrRef_ValueFrom{ValueFrom: &foreignkeyv1.ValueFromRef{Name: "prod-cluster"}},
			},
			Size:      "s-4vcpu-8gb",
			NodeCount: 3,
		},
	}
}

func TestDigitalOceanKubernetesNodePool(t *testing.T) {
	t.Parallel()
	Run(t, valid,
		Manifest[manifest]("digital-ocean.project-planton.org/v1", "DigitalOceanKubernetesNodePool"),
		Accepts[manifest]("metadata.name", "the pool has a name of its own", "My pool_1.a"),
		Name[manifest]("spec.node_pool_name", "digitalocean_name", 255, true),
		Reference[manifest]("spec.cluster", true),
		Accepts[manifest]("spec.size", "DigitalOcean knows its sizes", "s-1vcpu-2gb", "gpu-h100x1-80gb"),
		Rejects[manifest]("spec.size", "required", "a node has a size", nil, ""),
		Autoscale[manifest]("spec", 0),
		Labels[manifest]("spec.labels"),
		Taints[manifest]("spec.taints"),
		DigitalOceanTags[manifest]("spec.tags"),
		[]Case[manifest]{{
			Name:   "an empty spec tells all that is required",
			Reason: "one look at the errors is enough to write the manifest",
			Mutate: func(m manifest) { m.Spec = &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolSpec{} },
			Want: []Violation{
				{Field: "spec.node_pool_name", Rule: "required"}, {Field: "spec.cluster", Rule: "required"},
				{Field: "spec.size", Rule: "required"}, {Field: "spec.node_count", Rule: "required"},
			},
		}},
	)
}

func TestAutoscaleLaw(t *testing.T) {
	t.Parallel()
	AutoscaleLaw(t, valid, "spec", 0)
}

func TestDigitalOceanKubernetesNodePoolStackInput(t *testing.T) {
	t.Parallel()
	StackInput(t, &digitaloceankubernetesnodepoolv1.DigitalOceanKubernetesNodePoolStackInput{Target: valid()})
}
