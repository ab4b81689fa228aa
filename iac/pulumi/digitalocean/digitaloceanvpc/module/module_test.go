package module

import (
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	digitaloceanvpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean/digitaloceanvpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/program"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	vpcType      = "digitalocean:index/vpc:Vpc"
	providerType = "pulumi:providers:digitalocean"
)

// full returns a stack input with every field of the spec set.
func full() *digitaloceanvpcv1.DigitalOceanVpcStackInput {
	return &digitaloceanvpcv1.DigitalOceanVpcStackInput{
		Target: &digitaloceanvpcv1.DigitalOceanVpc{
			ApiVersion: "digital-ocean.project-planton.org/v1",
			Kind:       "DigitalOceanVpc",
			Metadata:   &shared.CloudResourceMetadata{Name: "main"},
			Spec: &digitaloceanvpcv1.DigitalOceanVpcSpec{
				Description:        "the network",
				Region:             digitalocean.DigitalOceanRegion_nyc1,
				IpRangeCidr:        "10.10.0.0/22",
				IsDefaultForRegion: true,
			},
		},
		ProviderConfig: &digitalocean.DigitalOceanProviderConfig{
			ApiToken: "t0ken", SpacesAccessId: "spaces", SpacesSecretKey: "spaces-secret", ApiEndpoint: "http://127.0.0.1:1",
		},
	}
}

func run(
	t *testing.T, stackInput *digitaloceanvpcv1.DigitalOceanVpcStackInput, opts ...moduletest.Option,
) *moduletest.Result {
	t.Helper()
	return moduletest.Run(t, func(ctx *pulumi.Context) error { return Resources(ctx, stackInput) }, opts...)
}

func TestEveryFieldOfTheSpec(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	moduletest.AssertFields(t, result, full().Target.Spec, map[string]moduletest.Expectation{
		"description":           {Type: vpcType, Name: "vpc", Input: "description", Want: "the network"},
		"region":                {Type: vpcType, Name: "vpc", Input: "region", Want: "nyc1"},
		"ip_range_cidr":         {Type: vpcType, Name: "vpc", Input: "ipRange", Want: "10.10.0.0/22"},
		"is_default_for_region": {Warning: "spec.is_default_for_region has no effect"},
	})
	if got := result.Resource(t, vpcType, "vpc").Input("name"); got != "main" {
		t.Errorf("name = %v, want metadata.name", got)
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	result := run(t, full(), moduletest.WithState(vpcType, func(moduletest.Resource) map[string]any {
		return map[string]any{
			"id": "5a4981aa-9653-4bd1-bef5-d6bff52042e4", "vpcUrn": "do:vpc:5a4981aa-9653-4bd1-bef5-d6bff52042e4",
			"createdAt": "2026-11-20 01:02:03 +0000 UTC", "default": false,
		}
	}))
	moduletest.AssertOutputs(t, result, &digitaloceanvpcv1.DigitalOceanVpcStackOutputs{})
	moduletest.AssertConstants(t, &digitaloceanvpcv1.DigitalOceanVpcStackOutputs{},
		OpVpcId, OpUrn, OpCreatedAtRfc3339, OpIpRangeCidr, OpRegion, OpVpcName)
	for name, want := range map[string]string{
		OpVpcId:            "5a4981aa-9653-4bd1-bef5-d6bff52042e4",
		OpUrn:              "do:vpc:5a4981aa-9653-4bd1-bef5-d6bff52042e4",
		OpCreatedAtRfc3339: "2026-11-20T01:02:03Z",
		OpIpRangeCidr:      "10.10.0.0/22",
		OpRegion:           "nyc1",
		OpVpcName:          "main",
	} {
		if got := result.Outputs[name]; got.Value != want || got.Secret {
			t.Errorf("output %s = %v (secret: %t), want %q in clear", name, got.Value, got.Secret, want)
		}
	}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	provider := result.Resource(t, providerType, "digitalocean")
	if got := provider.Input("apiEndpoint"); got != "http://127.0.0.1:1" {
		t.Errorf("apiEndpoint = %v", got)
	}
	for _, name := range []string{"token", "spacesSecretKey"} {
		if value := provider.Inputs[resource.PropertyKey(name)]; !value.IsSecret() {
			t.Errorf("%s is not a secret", name)
		}
	}
	if got := result.Resource(t, vpcType, "vpc").Provider; !strings.Contains(got, "::digitalocean::") {
		t.Errorf("the provider of the VPC is %q, want the explicit one", got)
	}
}

func TestWithoutOptionalFields(t *testing.T) {
	t.Parallel()
	stackInput := full()
	stackInput.ProviderConfig = nil
	stackInput.Target.Spec = &digitaloceanvpcv1.DigitalOceanVpcSpec{Region: digitalocean.DigitalOceanRegion_fra1}
	result := run(t, stackInput)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	vpc := result.Resource(t, vpcType, "vpc")
	for _, name := range []string{"ipRange", "description"} {
		if _, given := vpc.Inputs[resource.PropertyKey(name)]; given {
			t.Errorf("%s is sent, which the manifest does not give", name)
		}
	}
	if warnings := result.Warnings(); len(warnings) > 0 {
		t.Errorf("warnings without a cause: %q", warnings)
	}
	if _, given := result.Resource(t, providerType, "digitalocean").Inputs["token"]; given {
		t.Error("a token is set that no one gave; the plugin would not look into its environment")
	}
}

func TestReplacementAndDeletion(t *testing.T) {
	t.Parallel()
	vpc := run(t, full()).Resource(t, vpcType, "vpc")
	if !vpc.DeleteBeforeReplace {
		t.Error("names are unique: the old VPC must go first")
	}
	if vpc.DeleteTimeout != "15m" {
		t.Errorf("timeout of deletion = %q: members of a VPC go minutes after their cluster", vpc.DeleteTimeout)
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	with := func(change func(*digitaloceanvpcv1.DigitalOceanVpcStackInput)) *digitaloceanvpcv1.DigitalOceanVpcStackInput {
		input := full()
		change(input)
		return input
	}
	tests := map[string]struct {
		reason    string
		input     *digitaloceanvpcv1.DigitalOceanVpcStackInput
		fieldPath string
	}{
		"no target": {
			reason: "the whole stack input is validated", input: &digitaloceanvpcv1.DigitalOceanVpcStackInput{}, fieldPath: "target",
		},
		"kind": {
			reason:    "rules outside the spec count too",
			input:     with(func(i *digitaloceanvpcv1.DigitalOceanVpcStackInput) { i.Target.Kind = "CivoVpc" }),
			fieldPath: "target.kind",
		},
		"endpoint": {
			reason:    "the provider config is validated too",
			input:     with(func(i *digitaloceanvpcv1.DigitalOceanVpcStackInput) { i.ProviderConfig.ApiEndpoint = "nowhere" }),
			fieldPath: "provider_config.api_endpoint",
		},
		"spec": {
			reason:    "rules of the spec count",
			input:     with(func(i *digitaloceanvpcv1.DigitalOceanVpcStackInput) { i.Target.Spec.IpRangeCidr = "10.0.0.0/8" }),
			fieldPath: "target.spec.ip_range_cidr",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := run(t, tt.input)
			var broken *validation.Error
			if !errors.As(result.Err, &broken) {
				t.Fatalf("%s: error %v, want a *validation.Error", tt.reason, result.Err)
			}
			if got := broken.Violations[0].FieldPath; got != tt.fieldPath {
				t.Errorf("%s: field %q, want %q", tt.reason, got, tt.fieldPath)
			}
			if len(result.Resources) > 0 {
				t.Errorf("registered before validation: %v", result.Names())
			}
		})
	}
	t.Run("nil", func(t *testing.T) {
		t.Parallel()
		if result := run(t, nil); result.Err == nil || len(result.Resources) > 0 {
			t.Errorf("error %v, resources %v; want a clear error and nothing registered", result.Err, result.Names())
		}
	})
}

func TestNameMustFitDigitalOcean(t *testing.T) {
	t.Parallel()
	for name, fits := range map[string]bool{
		"main": true, "Main.Net-1": true, "main net": false, "main_net": false,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stackInput := full()
			stackInput.Target.Metadata.Name = name
			result := run(t, stackInput)
			if fits {
				if result.RunErr != nil {
					t.Fatal(result.RunErr)
				}
				return
			}
			if result.Err == nil || !strings.Contains(result.Err.Error(), "metadata.name") || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want an error that names metadata.name, and nothing registered",
					result.Err, result.Names())
			}
		})
	}
}

func TestComponent(t *testing.T) {
	t.Parallel()
	spec := full().Target.Spec
	before := proto.CloneOf(spec)
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		one, err := New(ctx, "one", &Args{Spec: spec, ProviderConfig: full().ProviderConfig})
		if err != nil {
			return err
		}
		two, err := New(ctx, "two", &Args{Spec: spec, Metadata: &shared.CloudResourceMetadata{Name: "second"}})
		if err != nil {
			return err
		}
		ctx.Export("one", one.VpcId)
		ctx.Export("region", one.Region)
		ctx.Export("two", two.VpcName)
		return nil
	})
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	for name, want := range map[string]string{"one": "one-vpc-id", "region": "nyc1", "two": "second"} {
		if got := result.Outputs[name].Value; got != want {
			t.Errorf("output %s = %v, want %q", name, got, want)
		}
	}
	vpc := result.Resource(t, vpcType, "one-vpc")
	if !strings.HasSuffix(vpc.Parent, "planton:digitalocean:DigitalOceanVpc::one") {
		t.Errorf("parent of the VPC = %q, want the component", vpc.Parent)
	}
	if !strings.Contains(vpc.Provider, "::one-digitalocean::") {
		t.Errorf("provider of the VPC = %q, want the component's own", vpc.Provider)
	}
	result.Resource(t, vpcType, "two-vpc")
	if !proto.Equal(before, spec) {
		t.Error("the spec of the caller was changed")
	}
}

func TestComponentRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]*Args{
		"nil":     nil,
		"no spec": {},
		"rule":    {Spec: &digitaloceanvpcv1.DigitalOceanVpcSpec{Region: 4711}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				_, err := New(ctx, "one", args)
				return err
			})
			var broken *validation.Error
			if !errors.As(result.Err, &broken) || len(result.Resources) > 0 {
				t.Errorf("error %v, resources %v; want a *validation.Error and nothing registered", result.Err, result.Names())
			}
		})
	}
}

func TestStackInputBesideTheProgram(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, program.Func(Resources), moduletest.WithRootDirectory(".."))
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if len(result.Outputs) == 0 {
		t.Error("the program exports nothing")
	}
}
