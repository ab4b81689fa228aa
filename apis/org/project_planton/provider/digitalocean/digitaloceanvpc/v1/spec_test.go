package digitaloceanvpcv1_test

import (
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	. "github.com/plantonhq/project-planton/pkg/validation/validationtest"
)

type manifest = *digitaloceanvpcv1.DigitalOceanVpc

func valid() manifest {
	return &digitaloceanvpcv1.DigitalOceanVpc{
		ApiVersion: "digital-ocean.project-planton.org/v1",
		Kind:       "DigitalOceanVpc",
		Metadata:   &shared.CloudResourceMetadata{Name: "main"},
		Spec:       &digitaloceanvpcv1.DigitalOceanVpcSpec{Region: digitalocean.DigitalOceanRegion_nyc3},
	}
}

func TestDigitalOceanVpc(t *testing.T) {
	t.Parallel()
	Run(t, valid,
		Manifest[manifest]("digital-ocean.project-planton.org/v1", "DigitalOceanVpc"),
		Accepts[manifest]("metadata.name", "names that DigitalOcean takes for a VPC", "main.vpc-1", "Main"),
		vpcName("main vpc"), vpcName("main_vpc"),
		Enum[manifest]("spec.region", 1, true),
		Accepts[manifest]("spec.region", "the first and the last region, and those that were added", 8, 101, 106),
		Rejects[manifest]("spec.region", "enum.defined_only", "a number between the regions", 9, 100, 107),
		IPv4Network[manifest]("spec.ip_range_cidr"),
		Accepts[manifest]("spec.ip_range_cidr", "the largest and the smallest", "10.255.0.0/16", "10.0.0.0/28", "192.168.0.0/16"),
		Rejects[manifest]("spec.ip_range_cidr", "vpc_range_size", "larger than a /16 or smaller than a /28", "10.0.0.0/15", "10.0.0.0/8", "10.0.0.0/29", "10.0.0.0/32"),
		Rejects[manifest]("spec.ip_range_cidr", "vpc_range_private", "not an address of RFC 1918",
			"203.0.113.0/24", "9.255.0.0/16", "11.0.0.0/16", "172.15.0.0/16", "172.32.0.0/16", "192.167.0.0/16", "192.169.0.0/16", "100.64.0.0/16"),
		Accepts[manifest]("spec.description", "short enough", nil, "The VPC of everything", strings.Repeat("é", 255)),
		Rejects[manifest]("spec.description", "string.max_len", "too long", strings.Repeat("d", 256)),
		Accepts[manifest]("spec.is_default_for_region", "readable, answered with a warning", true, false),
		[]Case[manifest]{
			{
				Name:   "a public range that is also too large",
				Reason: "each mistake is told",
				Mutate: Set[manifest]("spec.ip_range_cidr", "8.0.0.0/8"),
				Want:   []Violation{{Field: "spec.ip_range_cidr", Rule: "vpc_range_size"}, {Field: "spec.ip_range_cidr", Rule: "vpc_range_private"}},
			},
			{
				Name:   "an empty spec tells all that is required",
				Reason: "one look at the errors is enough to write the manifest",
				Mutate: func(m manifest) { m.Spec = &digitaloceanvpcv1.DigitalOceanVpcSpec{} },
				Want:   []Violation{{Field: "spec.region", Rule: "required"}},
			},
		},
	)
}

// vpcName returns the case of a name that other kinds take and DigitalOcean does not take for a VPC.
func vpcName(name string) []Case[manifest] {
	return []Case[manifest]{{
		Name:   "metadata.name " + name,
		Reason: "metadata.name is the VPC's name",
		Mutate: Set[manifest]("metadata.name", name),
		Want:   []Violation{{Field: "", Rule: "digitalocean_vpc_name"}},
	}}
}

func TestDigitalOceanVpcStackInput(t *testing.T) {
	t.Parallel()
	StackInput(t, &digitaloceanvpcv1.DigitalOceanVpcStackInput{Target: valid()})
}
