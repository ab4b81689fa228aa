package pulumidigitaloceanprovider

import (
	"slices"
	"testing"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

func get(t *testing.T, config *digitalocean.DigitalOceanProviderConfig, opts ...Option) (*moduletest.Result, moduletest.Resource) {
	t.Helper()
	result := moduletest.Run(t, func(ctx *pulumi.Context) error {
		provider, err := Get(ctx, config, opts...)
		if err != nil {
			return err
		}
		ctx.Export("token", provider.Token)
		ctx.Export("spacesSecretKey", provider.SpacesSecretKey)
		return nil
	})
	if result.RunErr != nil || len(result.Resources) != 1 {
		t.Fatalf("error %v, resources %v", result.RunErr, result.Names())
	}
	return result, result.Resources[0]
}

func TestGet(t *testing.T) {
	t.Parallel()
	result, provider := get(t, &digitalocean.DigitalOceanProviderConfig{
		ApiToken: "s3cret", SpacesAccessId: "spaces", SpacesSecretKey: "spaces-s3cret", ApiEndpoint: "http://127.0.0.1:1",
	})
	if provider.Name != "digitalocean" || provider.Type != "pulumi:providers:digitalocean" {
		t.Errorf("registered %s %s", provider.Type, provider.Name)
	}
	for _, secret := range []string{"token", "spacesSecretKey"} {
		if !provider.Inputs[resource.PropertyKey(secret)].IsSecret() || !result.Outputs[secret].Secret {
			t.Errorf("%s is not a secret, in the inputs or in the outputs", secret)
		}
		if !slices.Contains(provider.AdditionalSecretOutputs, secret) {
			t.Errorf("additional secret outputs: %q", provider.AdditionalSecretOutputs)
		}
	}
	for input, want := range map[string]any{
		"token": "s3cret", "spacesAccessId": "spaces", "spacesSecretKey": "spaces-s3cret", "apiEndpoint": "http://127.0.0.1:1",
	} {
		if got := provider.Input(input); got != want {
			t.Errorf("%s = %v, want %v", input, got, want)
		}
	}
}

func TestGetWithoutConfig(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]*digitalocean.DigitalOceanProviderConfig{"nil": nil, "empty": {}} {
		_, provider := get(t, config)
		for _, input := range []string{"token", "spacesAccessId", "spacesSecretKey"} {
			if value, given := provider.Inputs[resource.PropertyKey(input)]; given {
				t.Errorf("%s: %s = %v; the plugin would not look into its environment", name, input, value)
			}
		}
	}
}

func TestGetOptions(t *testing.T) {
	t.Parallel()
	_, provider := get(t, nil, Name("mine"), ResourceOptions(pulumi.DeleteBeforeReplace(true)))
	if provider.Name != "mine" || !provider.DeleteBeforeReplace {
		t.Errorf("registered %s, options passed on: %t", provider.Name, provider.DeleteBeforeReplace)
	}
}
