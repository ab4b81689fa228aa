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
	return register(ctx, name, true, func(args *pulumi.ResourceHookArgs) error {
		refusal := refuse(args.OldInputs, args.NewInputs)
		if refusal == nil || IsNative(ctx, pkg, provider) {
			return nil
		}
		return refusal
	})
}

// Warning looks at a planned update of a resource and tells, a text each, what the official plugin would leave as it is
// while it reports success. old is the recorded state: the inputs of the last update are not enough, because the official
// plugin has recorded a change as made that it did not make.
type Warning func(old, newInputs resource.PropertyMap) []string

// WarnOfUpdate returns the hook that warns, in the preview already, of what the official plugin leaves out of an update.
// The name of the hook must be unique in the program. The plugin is asked only when there is something to say.
//
//	pulumi.ResourceHooks(&pulumi.ResourceHookBinding{BeforeUpdate: []*pulumi.ResourceHook{hook}})
func WarnOfUpdate(
	ctx *pulumi.Context, name, pkg string, provider pulumi.ProviderResource, warn Warning,
) (*pulumi.ResourceHook, error) {
	return register(ctx, name, true, func(args *pulumi.ResourceHookArgs) error {
		texts := warn(args.OldOutputs, args.NewInputs)
		if len(texts) == 0 || IsNative(ctx, pkg, provider) {
			return nil
		}
		for _, text := range texts {
			if err := ctx.Log.Warn(text, nil); err != nil {
				return errors.Wrap(err, "warn of what the official plugin leaves out")
			}
		}
		return nil
	})
}

// Present finds the object that a resource is about to be created as: what it is called for the user, empty when there is
// none. An error means that it is not known whether there is one.
type Present func() (description string, err error)

// RefuseSecond returns the hook that stops the creation of a resource whose object is in the cloud already, when the
// provider of the package is not served by the native plugin: the official plugins forget objects that exist, after a read
// that failed or a creation that ended half-way. howToGoOn follows the description of the object. The name of the hook
// must be unique in the program.
//
// It runs when the resource is created and not in the preview, where the object that a replacement deletes first is still
// there.
//
//	pulumi.ResourceHooks(&pulumi.ResourceHookBinding{BeforeCreate: []*pulumi.ResourceHook{hook}})
func RefuseSecond(
	ctx *pulumi.Context, name, pkg string, provider pulumi.ProviderResource, present Present, howToGoOn string,
) (*pulumi.ResourceHook, error) {
	return register(ctx, name, false, func(*pulumi.ResourceHookArgs) error {
		if IsNative(ctx, pkg, provider) {
			return nil
		}
		description, err := present()
		if err != nil {
			return errors.Wrap(err, "nothing was created: it is not known whether the stack has lost sight of an object that exists")
		}
		if description == "" {
			return nil
		}
		return errors.Errorf("%s exists already, and this stack does not know it: a second one is refused, and nothing was created. %s", description, howToGoOn)
	})
}

// register makes a hook of a callback.
func register(ctx *pulumi.Context, name string, onDryRun bool, callback pulumi.ResourceHookFunction) (*pulumi.ResourceHook, error) {
	// With a CLI that has no resource hooks the SDK would leave the guarded resource out without a word, and the engine would
	// then delete it.
	if err := ctx.RequirePulumiVersion(hooksVersion); err != nil {
		return nil, errors.Wrapf(err, "resource hook %s needs the Pulumi CLI %s", name, hooksVersion)
	}
	hook, err := ctx.RegisterResourceHook(name, callback, &pulumi.ResourceHookOptions{OnDryRun: onDryRun})
	if err != nil {
		return nil, errors.Wrapf(err, "register resource hook %s", name)
	}
	return hook, nil
}
