package plugin

import (
	"testing"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi-civo/sdk/v2/go/civo"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/moduletest"
)

const getPlugin = "civo:index/getPlugin:getPlugin"

// answers makes the plugin answer with a name.
func answers(name string) moduletest.Option {
	return moduletest.WithFunction(getPlugin, func(map[string]any) (map[string]any, error) {
		return map[string]any{"name": name, "version": "2.4.8"}, nil
	})
}

func TestIsNative(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		opts   []moduletest.Option
		want   bool
	}{
		"native":   {reason: "the native plugin says so", opts: []moduletest.Option{answers("native")}, want: true},
		"official": {reason: "the official plugin does not know the function"},
		"other":    {reason: "another plugin may know the function", opts: []moduletest.Option{answers("something")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				provider, err := civo.NewProvider(ctx, "civo", nil)
				if err != nil {
					return err
				}
				if got := IsNative(ctx, "civo", provider); got != tt.want {
					t.Errorf("%s: %t, want %t", tt.reason, got, tt.want)
				}
				return nil
			}, tt.opts...)
			if result.RunErr != nil {
				t.Fatal(result.RunErr)
			}
			if len(result.Calls) != 1 || result.Calls[0].Token != getPlugin || result.Calls[0].Provider == "" {
				t.Errorf("calls %+v, want one through the explicit provider", result.Calls)
			}
		})
	}
}

func TestRefuseUpdate(t *testing.T) {
	t.Parallel()
	refusal := errors.New("no")
	refuse := func(oldInputs, newInputs resource.PropertyMap) error {
		if !oldInputs.DeepEquals(newInputs) {
			return refusal
		}
		return nil
	}
	one, two := resource.PropertyMap{"n": resource.NewProperty(1.0)}, resource.PropertyMap{"n": resource.NewProperty(2.0)}
	tests := map[string]struct {
		reason string
		new    resource.PropertyMap
		opts   []moduletest.Option
		want   error
		asks   int
	}{
		"nothing to refuse": {reason: "the plugin is not even asked", new: one},
		"native":            {reason: "the native plugin makes the change", new: two, opts: []moduletest.Option{answers("native")}, asks: 1},
		"official":          {reason: "the official plugin must not be given it", new: two, want: refusal, asks: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				hook, err := RefuseUpdate(ctx, "guard", "civo", nil, refuse)
				if err != nil {
					return err
				}
				if hook.Name != "guard" {
					t.Errorf("the hook is named %q", hook.Name)
				}
				if got := hook.Callback(&pulumi.ResourceHookArgs{OldInputs: one, NewInputs: tt.new}); !errors.Is(got, tt.want) {
					t.Errorf("%s: %v, want %v", tt.reason, got, tt.want)
				}
				return nil
			}, tt.opts...)
			if result.RunErr != nil {
				t.Fatal(result.RunErr)
			}
			if len(result.Calls) != tt.asks {
				t.Errorf("%s: the plugin was asked %d times, want %d", tt.reason, len(result.Calls), tt.asks)
			}
		})
	}
}
