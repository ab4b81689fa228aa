package plugin

import (
	"strings"
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

func TestWarnOfUpdate(t *testing.T) {
	t.Parallel()
	warn := func(old, newInputs resource.PropertyMap) []string {
		if Filled(old["tags"]) && Emptied(newInputs["tags"]) {
			return []string{"left out"}
		}
		return nil
	}
	tagged := resource.PropertyMap{"tags": resource.NewProperty([]resource.PropertyValue{resource.NewProperty("a")})}
	tests := map[string]struct {
		reason          string
		state, recorded resource.PropertyMap
		opts            []moduletest.Option
		want, asks      int
	}{
		"nothing left out": {reason: "the plugin is not even asked"},
		"native":           {reason: "the native plugin makes the change", state: tagged, opts: []moduletest.Option{answers("native")}, asks: 1},
		"official":         {reason: "the user is told", state: tagged, want: 1, asks: 1},
		"recorded as made": {reason: "the state counts, not the inputs that the last up recorded", recorded: tagged},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				hook, err := WarnOfUpdate(ctx, "left-out", "civo", nil, warn)
				if err != nil {
					return err
				}
				return hook.Callback(&pulumi.ResourceHookArgs{OldInputs: tt.recorded, OldOutputs: tt.state})
			}, tt.opts...)
			if result.RunErr != nil {
				t.Fatal(result.RunErr)
			}
			if len(result.Warnings()) != tt.want || len(result.Calls) != tt.asks {
				t.Errorf("%s: %q after %d questions, want %d warnings after %d", tt.reason, result.Warnings(), len(result.Calls), tt.want, tt.asks)
			}
		})
	}
}

func TestRefuseSecond(t *testing.T) {
	t.Parallel()
	unreachable := errors.New("503")
	tests := map[string]struct {
		reason      string
		description string
		err         error
		opts        []moduletest.Option
		want        []string
	}{
		"native":     {reason: "the native plugin forgets nothing", description: "cluster x", opts: []moduletest.Option{answers("native")}},
		"none":       {reason: "there is nothing yet"},
		"forgotten":  {reason: "a second one must not come", description: "cluster x", want: []string{"cluster x", "refused", "import it"}},
		"who knows?": {reason: "an API that cannot be asked proves nothing", err: unreachable, want: []string{"503", "nothing was created"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got error
			result := moduletest.Run(t, func(ctx *pulumi.Context) error {
				hook, err := RefuseSecond(ctx, "guard", "civo", nil, func() (string, error) { return tt.description, tt.err }, "import it")
				if err != nil {
					return err
				}
				got = hook.Callback(&pulumi.ResourceHookArgs{})
				return nil
			}, tt.opts...)
			if result.RunErr != nil {
				t.Fatal(result.RunErr)
			}
			if (got != nil) != (len(tt.want) > 0) {
				t.Fatalf("%s: %v", tt.reason, got)
			}
			for _, part := range tt.want {
				if !strings.Contains(got.Error(), part) {
					t.Errorf("%s: %q lacks %q", tt.reason, got, part)
				}
			}
		})
	}
}

func TestEmptied(t *testing.T) {
	t.Parallel()
	unknown := resource.Output{Element: resource.NewProperty("")}
	for reason, tt := range map[string]struct {
		value           resource.PropertyValue
		filled, emptied bool
	}{
		"absent":                {emptied: true},
		"an empty list":         {value: resource.NewProperty([]resource.PropertyValue{}), emptied: true},
		"an empty text":         {value: resource.NewProperty(""), emptied: true},
		"a text":                {value: resource.NewProperty("a"), filled: true},
		"a secret text":         {value: resource.MakeSecret(resource.NewProperty("a")), filled: true},
		"a known output":        {value: resource.NewProperty(resource.Output{Element: resource.NewProperty("a"), Known: true}), filled: true},
		"an output not known":   {value: resource.NewProperty(unknown)},
		"a value not known":     {value: resource.MakeComputed(resource.NewProperty(""))},
		"a map with a property": {value: resource.NewProperty(resource.PropertyMap{"a": resource.NewProperty("b")}), filled: true},
	} {
		if Filled(tt.value) != tt.filled || Emptied(tt.value) != tt.emptied {
			t.Errorf("%s: filled %t, emptied %t", reason, Filled(tt.value), Emptied(tt.value))
		}
	}
}
