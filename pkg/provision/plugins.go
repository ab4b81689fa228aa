package provision

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// Choice says which provider plugins provision.
type Choice string

// The choices of plugins.
const (
	// Native takes the plugins of this project, which run inside of this process.
	Native Choice = "native"
	// Official takes the plugins of the Pulumi registry, which Pulumi downloads where they are missing.
	Official Choice = "official"
	// Automatic takes the native plugin for Civo, whose official one is no longer maintained and crashes when the node count of a
	// pool changes, and for DigitalOcean the official one where it is installed, else the native one.
	Automatic Choice = "automatic"
)

// Choices are all choices.
func Choices() []Choice { return []Choice{Native, Official, Automatic} }

// ParseChoice reads a choice.
func ParseChoice(text string) (Choice, error) {
	for _, choice := range Choices() {
		if text == string(choice) {
			return choice, nil
		}
	}
	return "", errors.Errorf("there are no %q plugins; the choices are native, official and automatic", text)
}

// NativePlugin is a plugin that runs inside of this process.
type NativePlugin interface {
	// Serve starts the plugin on a port of the loopback interface, until the context ends.
	Serve(ctx context.Context) (port int, err error)
}

// journaledPlugin is a native plugin that remembers in a journal what it asked the cloud for, so that a create whose process was
// killed is gone on with by the next one.
type journaledPlugin interface {
	// ServeJournaled is Serve with that journal.
	ServeJournaled(ctx context.Context, creates *journal.Journal) (port int, err error)
}

// lookingPlugin is a native plugin that can be asked what became of creates, without making anything.
type lookingPlugin interface {
	// ServeLooking is Serve of a plugin that only looks: a create takes what an earlier one has made, and fails where there is nothing.
	// looked is told the id, "" for nothing.
	ServeLooking(ctx context.Context, creates *journal.Journal, looked func(urn resource.URN, id string)) (port int, err error)
}

// Plugin is the plugin that provisions a provider's resources.
type Plugin struct {
	// Provider is the name of the plugin's package: "civo" or "digitalocean".
	Provider string
	// Choice is Native or Official.
	Choice Choice
	// Reason says why it was chosen.
	Reason string
}

// String names the plugin and the reason.
func (p Plugin) String() string {
	return fmt.Sprintf("%s: %s plugin (%s)", p.Provider, p.Choice, p.Reason)
}

// Plugin tells which plugin provisions the resources of a provider.
func (e *Engine) Plugin(provider string) (Plugin, error) {
	_, hasNative := e.options.Native[provider]
	return ChoosePlugin(provider, e.options.Plugins, hasNative, e.options.State.Home)
}

// ChoosePlugin tells which plugin provisions the resources of a provider. home is PULUMI_HOME, the user's own when empty.
func ChoosePlugin(provider string, choice Choice, hasNative bool, home string) (Plugin, error) {
	switch choice {
	case Native:
		if !hasNative {
			return Plugin{}, errors.Errorf("there is no native plugin for %s", provider)
		}
		return Plugin{Provider: provider, Choice: Native, Reason: "as asked for"}, nil
	case Official:
		return Plugin{Provider: provider, Choice: Official, Reason: "as asked for"}, nil
	}
	if provider != kinds.Civo {
		if version, ok := InstalledPlugin(provider, home); ok {
			return Plugin{Provider: provider, Choice: Official, Reason: version + " is installed"}, nil
		}
	}
	switch {
	case !hasNative:
		return Plugin{Provider: provider, Choice: Official, Reason: "there is no native one"}, nil
	case provider == kinds.Civo:
		return Plugin{Provider: provider, Choice: Native, Reason: "the official one is no longer maintained"}, nil
	default:
		return Plugin{Provider: provider, Choice: Native, Reason: "the official one is not installed"}, nil
	}
}

// InstalledPlugin looks for an official plugin in PULUMI_HOME, the user's own when empty. The natives can be installed there too, under
// the same name; they are told by the file that their installation leaves.
func InstalledPlugin(provider, home string) (version string, ok bool) {
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", false
		}
		home = filepath.Join(user, ".pulumi")
	}
	folders, err := filepath.Glob(filepath.Join(home, "plugins", "resource-"+provider+"-v*"))
	if err != nil {
		return "", false
	}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil || !info.IsDir() {
			continue
		}
		if _, err := os.Stat(filepath.Join(folder, NativeMarker)); err == nil {
			continue
		}
		_, version, _ := strings.Cut(filepath.Base(folder), "-v")
		return version, true
	}
	return "", false
}

// NativeMarker is the file in a plugin's folder that tells a native plugin from the official one.
const NativeMarker = ".native"

// environmentDebugProviders tells the engine where plugins are served already, as NAME:PORT.
const environmentDebugProviders = "PULUMI_DEBUG_PROVIDERS"

// servedPlugins are native plugins that run for one operation, or for several.
type servedPlugins struct {
	debugProviders string
	stop           context.CancelFunc
}

// sharedPlugins are the native plugins that operations on several stacks share. Stop them.
//
// Each connection configures its plugin alone. But a client that was idle for half an hour comes back on a new connection, does not
// configure again, and is served only where all have configured alike. So only stacks share a plugin that give it the same settings.
type sharedPlugins struct {
	mu     sync.Mutex
	served map[string]*servedPlugins // by provider and settings
}

// serve starts the native plugin for a stack, where that is the one to use, unless it runs for stacks of the same settings already. Without
// sharing, it is the stack's alone.
func (p *sharedPlugins) serve(ctx context.Context, e *Engine, stack Stack) (*servedPlugins, error) {
	provider := stack.kind().Provider
	if p == nil {
		return e.servePlugin(ctx, provider)
	}
	key, err := settingsOf(stack)
	if err != nil {
		return nil, err
	}
	key = provider + " " + key
	p.mu.Lock()
	defer p.mu.Unlock()
	served, ok := p.served[key]
	if !ok {
		if served, err = e.servePlugin(ctx, provider); err != nil {
			return nil, err
		}
		if p.served == nil {
			p.served = map[string]*servedPlugins{}
		}
		p.served[key] = served
	}
	return &servedPlugins{debugProviders: served.debugProviders, stop: func() {}}, nil
}

func (p *sharedPlugins) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, served := range p.served {
		served.stop()
	}
}

// settingsOf tells stacks apart whose modules configure a plugin differently: by the provider config, and by the region.
func settingsOf(stack Stack) (string, error) {
	input := stack.StackInput.ProtoReflect()
	settings := ""
	if field := input.Descriptor().Fields().ByName("provider_config"); field != nil && input.Has(field) {
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(input.Get(field).Message().Interface())
		if err != nil {
			return "", errors.Wrap(err, "compare the settings of plugins")
		}
		settings = string(encoded)
	}
	spec := kinds.Spec(kinds.Target(stack.StackInput)).ProtoReflect()
	if field := spec.Descriptor().Fields().ByName(regionField); field != nil {
		settings += " " + strings.ToLower(spec.Get(field).String())
	}
	return settings, nil
}

// servePlugin starts the native plugin of a provider where that is the one to use.
func (e *Engine) servePlugin(ctx context.Context, provider string) (*servedPlugins, error) {
	plugin, err := e.Plugin(provider)
	if err != nil {
		return nil, err
	}
	if plugin.Choice != Native {
		return &servedPlugins{stop: func() {}}, nil
	}
	serve := e.options.Native[provider].Serve
	if journaled, ok := e.options.Native[provider].(journaledPlugin); ok && e.options.State.journal() != nil {
		serve = func(ctx context.Context) (int, error) {
			return journaled.ServeJournaled(ctx, e.options.State.journal())
		}
	}
	return serveNative(ctx, provider, serve)
}

// serveLooking starts the native plugin of a provider as one that makes nothing.
func (e *Engine) serveLooking(ctx context.Context, provider string, looked func(urn resource.URN, id string)) (*servedPlugins, error) {
	looking, ok := e.options.Native[provider].(lookingPlugin)
	if !ok {
		return nil, errors.Errorf("the native plugin for %s cannot look for what an earlier run has made", provider)
	}
	return serveNative(ctx, provider, func(ctx context.Context) (int, error) {
		return looking.ServeLooking(ctx, e.options.State.journal(), looked)
	})
}

func serveNative(ctx context.Context, provider string, serve func(context.Context) (int, error)) (*servedPlugins, error) {
	// The plugin outlives a canceled operation: the engine tells it to cancel, and must hear what became of its requests.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	port, err := serve(serving)
	if err != nil {
		stop()
		return nil, errors.Wrapf(err, "serve the native plugin for %s", provider)
	}
	return &servedPlugins{debugProviders: fmt.Sprintf("%s:%d", provider, port), stop: stop}, nil
}
