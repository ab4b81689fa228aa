package civovpcv1_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type manifest = *civovpcv1.CivoVpc

func valid() manifest {
	return &civovpcv1.CivoVpc{
		ApiVersion: "civo.project-planton.org/v1",
		Kind:       "CivoVpc",
		Metadata:   &shared.CloudResourceMetadata{Name: "main"},
		Spec:       &civovpcv1.CivoVpcSpec{NetworkName: "main-network", Region: "fra1"},
	}
}

func TestCivoVpc(t *testing.T) {
	t.Parallel()
	Run(t, valid,
		Manifest[manifest]("civo.project-planton.org/v1", "CivoVpc"),
		Accepts[manifest]("metadata.name", "the network has a name of its own", "My network_1.a"),
		Name[manifest]("spec.network_name", "dns_label", 63, true),
		Accepts[manifest]("spec.region", "a code in either case, also one of a private region", "fra1", "FRA1", "lon1", "SVG-private-1", "ab", strings.Repeat("r", 32)),
		Rejects[manifest]("spec.region", "required", "a network lies in a region", nil, ""),
		Rejects[manifest]("spec.region", "civo_region_code", "not a code", "f", "1fra", "fra 1", "fra_1", "-fra1", "fra1\n", strings.Repeat("r", 33)),
		IPv4Network[manifest]("spec.ip_range_cidr"),
		Accepts[manifest]("spec.ip_range_cidr", "Civo decides how large a network may be", "10.0.0.0/8", "10.0.0.0/30"),
		Accepts[manifest]("spec.description", "short enough", "", "The network of everything", strings.Repeat("é", 255)),
		Rejects[manifest]("spec.description", "string.max_len", "too long", strings.Repeat("d", 256)),
		Accepts[manifest]("spec.civo_credential_id", "readable, answered with a warning", nil, "any"),
		Accepts[manifest]("spec.is_default_for_region", "readable, answered with a warning", true, false),
		[]Case[manifest]{
			{
				Name:   "an empty spec tells all that is required",
				Reason: "one look at the errors is enough to write the manifest",
				Mutate: func(m manifest) { m.Spec = &civovpcv1.CivoVpcSpec{} },
				Want:   []Violation{{Field: "spec.network_name", Rule: "required"}, {Field: "spec.region", Rule: "required"}},
			},
			{
				Name:   "an empty manifest tells all that is required",
				Reason: "one look at the errors is enough to write the manifest",
				Mutate: func(m manifest) { proto.Reset(m) },
				Want: []Violation{
					{Field: "api_version", Rule: "string.const"}, {Field: "kind", Rule: "string.const"},
					{Field: "metadata", Rule: "required"}, {Field: "spec", Rule: "required"},
				},
			},
		},
	)
}

func TestCivoVpcStackInput(t *testing.T) {
	t.Parallel()
	StackInput(t, &civovpcv1.CivoVpcStackInput{Target: valid()})
}
