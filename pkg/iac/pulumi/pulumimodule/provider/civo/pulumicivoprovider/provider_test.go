package pulumicivoprovider

import (
	"slices"
	"strings"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"pgregory.net/rapid"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

func get(t *testing.T, config *civo.CivoProviderConfig, opts ...Option) (*moduletest.Result, moduletest.Resource) {
	t.Helper()
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		provider, err := Get(ctx, config, opts...)
		if err != nil {
			return err
		}
		ctx.Export("token", provider.Token)
		return nil
	})
	if result.RunErr != nil || len(result.Resources) != 1 {
		t.Fatalf("error %v, resources %v", result.RunErr, result.Names())
	}
	return result, result.Resources[0]
}

func TestGet(t *testing.T) {
	t.Parallel()
	result, provider := get(t, &civo.CivoProviderConfig{
		ApiToken: "s3cret", DefaultRegion: civo.CivoRegion_fra1, ApiEndpoint: "http://127.0.0.1:1",
		ObjectStoreAccessId: "a", ObjectStoreSecretKey: "b",
	})
	if provider.Name != "civo" || provider.Type != "pulumi:providers:civo" {
		t.Errorf("registered %s %s", provider.Type, provider.Name)
	}
	if !provider.Inputs["token"].IsSecret() || !result.Outputs["token"].Secret {
		t.Error("the token is not a secret, in the inputs or in the outputs")
	}
	if !slices.Contains(provider.AdditionalSecretOutputs, "token") {
		t.Errorf("additional secret outputs: %q", provider.AdditionalSecretOutputs)
	}
	for input, want := range map[string]any{"token": "s3cret", "region": "FRA1", "apiEndpoint": "http://127.0.0.1:1"} {
		if got := provider.Input(input); got != want {
			t.Errorf("%s = %v, want %v", input, got, want)
		}
	}
}

func TestGetWithoutConfig(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*civo.CivoProviderConfig{"nil": nil, "empty": {}} {
		_, provider := get(t, config)
		for _, input := range []string{"token", "region", "apiEndpoint"} {
			if value, given := provider.Inputs[resource.PropertyKey(input)]; given {
				t.Errorf("%s: %s = %v; the plugin would not look into its environment", name, input, value)
			}
		}
	}
}

func TestGetOptions(t *testing.T) {
	t.Parallel()
	_, provider := get(t, &civo.CivoProviderConfig{DefaultRegion: civo.CivoRegion_fra1},
		Region("lon1"), Name("mine"), ResourceOptions(pulumi.DeleteBeforeReplace(true)))
	if provider.Name != "mine" || provider.Input("region") != "LON1" || !provider.DeleteBeforeReplace {
		t.Errorf("registered %s in %v, options passed on: %t", provider.Name, provider.Input("region"), provider.DeleteBeforeReplace)
	}
}

func TestResolveRegion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason       string
		spec, config civo.CivoRegion
		want         string
	}{
		{"the spec counts first", civo.CivoRegion_mum1, civo.CivoRegion_lon1, "MUM1"},
		{"then the config", civo.CivoRegion_civo_region_unspecified, civo.CivoRegion_lon1, "LON1"},
	} {
		got, err := ResolveRegion(tt.spec, &civo.CivoProviderConfig{DefaultRegion: tt.config})
		if got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.reason, got, err, tt.want)
		}
	}
	for _, config := range []*civo.CivoProviderConfig{nil, {}} {
		_, err := ResolveRegion(civo.CivoRegion_civo_region_unspecified, config)
		if err == nil || !strings.Contains(err.Error(), "spec.region") || !strings.Contains(err.Error(), "provider_config.default_region") {
			t.Errorf("error %v, want one that names both places", err)
		}
	}
}

func TestRegionCode(t *testing.T) {
	t.Parallel()
	for number, name := range civo.CivoRegion_name {
		want := strings.ToUpper(name)
		if number == 0 {
			want = ""
		}
		if got := RegionCode(civo.CivoRegion(number)); got != want {
			t.Errorf("RegionCode(%s) = %q, want %q", name, got, want)
		}
	}
}

func inputs(count any, labels map[string]any) resource.PropertyMap {
	return resource.PropertyMap{
		"nodeCount": resource.NewPropertyValue(count),
		"labels":    resource.NewProperty(resource.NewPropertyMapFromMap(labels)),
	}
}

func TestRefuseNodePoolUpdate(t *testing.T) {
	t.Parallel()
	some := map[string]any{"a": "b"}
	tests := map[string]struct {
		reason   string
		old, new resource.PropertyMap
		want     string
	}{
		"scale":          {reason: "the official plugin crashes", old: inputs(2.0, some), new: inputs(3.0, some), want: "from 2 to 3"},
		"to unknown":     {reason: "a count that a preview cannot know may be another one", old: inputs(2.0, some), new: inputs(resource.Computed{Element: resource.NewProperty("")}, some), want: "not known yet"},
		"secret count":   {reason: "a secret is not printed as one", old: inputs(2.0, some), new: inputs(resource.MakeSecret(resource.NewProperty(3.0)), some), want: "from 2 to 3"},
		"labels emptied": {reason: "the official plugin does not take the last label off", old: inputs(2.0, some), new: inputs(2.0, nil), want: "last labels"},
		"labels gone":    {reason: "an absent map is an empty one", old: inputs(2.0, some), new: resource.PropertyMap{"nodeCount": resource.NewProperty(2.0)}, want: "last labels"},
		"labels changed": {reason: "labels can be changed", old: inputs(2.0, some), new: inputs(2.0, map[string]any{"a": "c"})},
		"labels added":   {reason: "labels can be added", old: inputs(2.0, nil), new: inputs(2.0, some)},
		"nothing":        {reason: "other changes are none of this guard's business", old: inputs(2.0, some), new: inputs(2.0, some)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := RefuseNodePoolUpdate(tt.old, tt.new)
			if tt.want == "" {
				if err != nil {
					t.Errorf("%s: %v", tt.reason, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("%s: not refused", tt.reason)
			}
			for _, part := range []string{tt.want, "refused", "official Civo plugin", "--plugins native", "pulumi-resource-civo", "another name"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q lacks %q", tt.reason, err, part)
				}
			}
		})
	}
}

func TestRefuseNodePoolUpdateLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		was, is := rapid.IntRange(1, 5).Draw(r, "was"), rapid.IntRange(1, 5).Draw(r, "is")
		err := RefuseNodePoolUpdate(inputs(float64(was), map[string]any{"a": "b"}), inputs(float64(is), map[string]any{"a": "b"}))
		if (err != nil) != (was != is) {
			r.Fatalf("from %d to %d: %v", was, is, err)
		}
	})
}

func TestGuardNodePool(t *testing.T) {
	t.Parallel()
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		guard, err := GuardNodePool(ctx, "pool-guard", nil)
		if err != nil {
			return err
		}
		var component pulumi.ResourceState
		return ctx.RegisterComponentResource("test:index:Component", "one", &component, guard)
	})
	if result.RunErr != nil {
		t.Fatal(result.RunErr)
	}
	if got := result.Resources[0].BeforeUpdate; !slices.Equal(got, []string{"pool-guard"}) {
		t.Errorf("hooks before an update: %q", got)
	}
}
