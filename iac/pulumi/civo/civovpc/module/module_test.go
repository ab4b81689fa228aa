package module

import (
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	civovpcv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo/civovpc/v1"
	"github.com/plantonhq/project-planton/apis/org/project_planton/shared"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
	"github.com/plantonhq/project-planton/pkg/validation"
)

const (
	networkType  = "civo:index/network:Network"
	providerType = "pulumi:providers:civo"
)

// full returns a stack input with every field of the spec set.
func full() *civovpcv1.CivoVpcStackInput {
	return &civovpcv1.CivoVpcStackInput{
		Target: &civovpcv1.CivoVpc{
			ApiVersion: "civo.project-planton.org/v1",
			Kind:       "CivoVpc",
			Metadata:   &shared.CloudResourceMetadata{Name: "main"},
			Spec: &civovpcv1.CivoVpcSpec{
				CivoCredentialId:   "cred-1",
				NetworkName:        "acme-dev",
				Region:             "fra1",
				IpRangeCidr:        "10.10.0.0/22",
				IsDefaultForRegion: true,
				Description:        "the network",
			},
		},
		ProviderConfig: &civo.CivoProviderConfig{
			ApiToken: "t0ken", DefaultRegion: civo.CivoRegion_lon1, ApiEndpoint: "http://127.0.0.1:1",
		},
	}
}

func run(t *testing.T, stackInput *civovpcv1.CivoVpcStackInput, opts ...moduletest.Option) *moduletest.Result {
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
		"civo_credential_id":    {Warning: "spec.civo_credential_id has no effect"},
		"network_name":          {Type: networkType, Name: "network", Input: "label", Want: "acme-dev"},
		"region":                {Type: networkType, Name: "network", Input: "region", Want: "FRA1"},
		"ip_range_cidr":         {Type: networkType, Name: "network", Input: "cidrV4", Want: "10.10.0.0/22"},
		"is_default_for_region": {Warning: "spec.is_default_for_region has no effect"},
		"description":           {Warning: "spec.description has no effect"},
	})
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	result := run(t, full(), moduletest.WithState(networkType, func(moduletest.Resource) map[string]any {
		return map[string]any{"id": "net-1", "cidrV4": "10.10.0.0/22"}
	}))
	moduletest.AssertOutputs(t, result, &civovpcv1.CivoVpcStackOutputs{})
	moduletest.AssertConstants(t, &civovpcv1.CivoVpcStackOutputs{},
		OpNetworkId, OpCidrBlock, OpCreatedAtRfc3339, OpNetworkName, OpRegion)
	for name, want := range map[string]string{
		OpNetworkId: "net-1", OpCidrBlock: "10.10.0.0/22", OpCreatedAtRfc3339: "", OpNetworkName: "acme-dev", OpRegion: "FRA1",
	} {
		if got := result.Outputs[name].Value; got != want {
			t.Errorf("output %s = %v, want %q", name, got, want)
		}
	}
}

func TestProvider(t *testing.T) {
	t.Parallel()
	result := run(t, full())
	provider := result.Resource(t, providerType, "civo")
	if got := provider.Input("region"); got != "FRA1" {
		t.Errorf("region of the provider = %v, want that of the network, FRA1", got)
	}
	if got := provider.Input("apiEndpoint"); got != "http://127.0.0.1:1" {
		t.Errorf("apiEndpoint = %v", got)
	}
	if token := provider.Inputs["token"]; !token.IsSecret() {
		t.Error("the token is not a secret")
	}
	if got := result.Resource(t, networkType, "network").Provider; !strings.Contains(got, "::civo::") {
		t.Errorf("the network's provider is %q, want the explicit one", got)
	}
}

func TestWithoutOptionalFields(t *testing.T) {
	t.Parallel()
	stackInput := full()
	stackInput.ProviderConfig = nil
	stackInput.Target.Spec = &civovpcv1.CivoVpcSpec{NetworkName: "n", Region: "LON1"}
	result := run(t, stackInput)
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	network := result.Resource(t, networkType, "network")
	if _, given := network.Inputs["cidrV4"]; given {
		t.Error("a range is sent that the manifest does not give")
	}
	if warnings := result.Warnings(); len(warnings) > 0 {
		t.Errorf("warnings without a cause: %q", warnings)
	}
	if _, given := result.Resource(t, providerType, "civo").Inputs["token"]; given {
		t.Error("a token is set that no one gave; the plugin would not look into its environment")
	}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	network := run(t, full()).Resource(t, networkType, "network")
	if got := strings.Join(network.ReplaceOnChanges, " "); got != "cidrV4 region" {
		t.Errorf("replaced on changes of %q", got)
	}
	if !network.DeleteBeforeReplace {
		t.Error("labels are unique: the old network must go first")
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason    string
		input     *civovpcv1.CivoVpcStackInput
		fieldPath string
	}{
		"no target": {
			reason: "the whole stack input is validated", input: &civovpcv1.CivoVpcStackInput{}, fieldPath: "target",
		},
		"api version": {
			reason: "rules outside the spec count too",
			input: func() *civovpcv1.CivoVpcStackInput {
				input := full()
				input.Target.ApiVersion = "v1"
				return input
			}(),
			fieldPath: "target.api_version",
		},
		"endpoint": {
			reason: "the provider config is validated too",
			input: func() *civovpcv1.CivoVpcStackInput {
				input := full()
				input.ProviderConfig.ApiEndpoint = "nowhere"
				return input
			}(),
			fieldPath: "provider_config.api_endpoint",
		},
		"spec": {
			reason: "rules of the spec count",
			input: func() *civovpcv1.CivoVpcStackInput {
				input := full()
				input.Target.Spec.NetworkName = "Not A Label"
				return input
			}(),
			fieldPath: "target.spec.network_name",
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

func TestComponent(t *testing.T) {
	t.Parallel()
	spec := full().Target.Spec
	before := proto.CloneOf(spec)
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		one, err := New(ctx, "one", &Args{Spec: spec, ProviderConfig: full().ProviderConfig})
		if err != nil {
			return err
		}
		two, err := New(ctx, "two", &Args{Spec: spec})
		if err != nil {
			return err
		}
		ctx.Export("one", one.NetworkId)
		ctx.Export("two", two.NetworkName)
		ctx.Export("cidr", two.CidrBlock)
		ctx.Export("region", two.Region)
		return nil
	})
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Outputs["one"].Value; got != "one-network-id" {
		t.Errorf("network id = %v", got)
	}
	if got := result.Outputs["region"].Value; got != "FRA1" {
		t.Errorf("region = %v", got)
	}
	network := result.Resource(t, networkType, "one-network")
	if !strings.HasSuffix(network.Parent, "planton:civo:CivoVpc::one") {
		t.Errorf("parent of the network = %q, want the component", network.Parent)
	}
	if !strings.Contains(network.Provider, "::one-civo::") {
		t.Errorf("provider of the network = %q, want the component's own", network.Provider)
	}
	result.Resource(t, networkType, "two-network")
	if !proto.Equal(before, spec) {
		t.Error("the spec of the caller was changed")
	}
}

func TestComponentRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]*Args{
		"nil":     nil,
		"no spec": {},
		"rule":    {Spec: &civovpcv1.CivoVpcSpec{NetworkName: "n", Region: "not a region"}},
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
