// Package plugin tells which plugin answers for a provider, and keeps changes away from a plugin that cannot make them.
//
// A module speaks to the types of an official SDK. Two plugins can answer: the official one and the native one of this
// project, which is right in places where the official one is not.
package plugin

import (
	"fmt"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// NativeName is the name by which the native plugins answer.
const NativeName = "native"

// IsNative reports whether the provider of the package ("civo" or "digitalocean") is served by a native plugin. Only the
// native plugins know the function getPlugin, so every failure of the call means that another plugin is at work.
func IsNative(ctx *pulumi.Context, pkg string, provider pulumi.ProviderResource) bool {
	var answer struct {
		Name string `pulumi:"name"`
	}
	token := fmt.Sprintf("%s:index/getPlugin:getPlugin", pkg)
	var opts []pulumi.InvokeOption
	if provider != nil {
		opts = append(opts, pulumi.Provider(provider))
	}
	if err := ctx.Invoke(token, &struct{}{}, &answer, opts...); err != nil {
		return false
	}
	return answer.Name == NativeName
}

// hooksVersion is the range of CLIs that have resource hooks which run in previews
// (https://github.com/pulumi/pulumi/pull/20037).
const hooksVersion = ">=3.182.0"

// Refusal looks at a planned update of a resource and returns an error when the official plugin must not be given it. The
// error says what the user can do instead.
type Refusal func(oldInputs, newInputs resource.PropertyMap) error

// RefuseUpdate returns the hook that stops an update, in the preview already, when the refusal says so and the provider
// of the package is not served by the native plugin. The name of the hook must be unique in the program. The plugin is
// asked only when there is something to refuse. It fails when the Pulumi CLI is too old for resource hooks.
//
//	pulumi.ResourceHooks(&pulumi.ResourceHookBinding{BeforeUpdate: []*pulumi.ResourceHook{hook}})
func RefuseUpdate(
	ctx *pulumi.Context, name, pkg string, provider pulumi.ProviderResource, refuse Refusal,
) (*pulumi.ResourceHook, error) {
	// With a CLI that has no resource hooks the SDK would leave the guarded resource out without a word, and the engine would
	// then delete it.
	if err := ctx.RequirePulumiVersion(hooksVersion); err != nil {
		return nil, errors.Wrapf(err, "resource hook %s needs the Pulumi CLI %s", name, hooksVersion)
	}
	callback := func(args *pulumi.ResourceHookArgs) error {
		refusal := refuse(args.OldInputs, args.NewInputs)
		if refusal == nil || IsNative(ctx, pkg, provider) {
			return nil
		}
		return refusal
	}
	hook, err := ctx.RegisterResourceHook(name, callback, &pulumi.ResourceHookOptions{OnDryRun: true})
	if err != nil {
		return nil, errors.Wrapf(err, "register resource hook %s", name)
	}
	return hook, nil
}
