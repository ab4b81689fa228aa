// Package nativeprovider is the machinery that a Pulumi provider plugin of this project stands on: a table of properties and four
// functions a resource, and this package answers the engine.
//
// It is built on the Pulumi SDK's own provider server (sdk/v3/go/common/resource/plugin) and not on pulumi-go-provider, because a native
// plugin must be able to take over a state that the official, Terraform-bridged plugin wrote, and hand it back: that needs full control of
// property names and of the bridge's own fields (__defaults, __meta, __pulumi_raw_state_delta), and costs no further dependency.
//
// Start with [Spec] (what a plugin declares), [Property] (one line of the table) and [New]. [Provider.Serve] runs a plugin inside this
// process for PULUMI_DEBUG_PROVIDERS, [Main] is the whole main function of a plugin binary.
//
// What holds for every resource, whatever the cloud:
//
//   - A preview never calls the cloud.
//   - Inputs are compared with the recorded state, not with the previous inputs, so drift that a refresh has seen is planned away.
//   - Only [ErrNotFound] means that an object is gone. Any other error of a read is an error and keeps the state.
//   - An object that was created but did not become ready is recorded with its id; the next update goes on with it.
//   - A create whose process was killed is gone on with by the next one, when there is a journal: see [Operation.MakeOnce].
//   - Cancellation and custom timeouts end a wait at once.
package nativeprovider

import (
	"context"
	"sync"
	"time"

	"github.com/blang/semver"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// Spec declares a plugin: its configuration, resources and functions.
type Spec struct {
	// Name is the package name, for example "civo". Tokens start with it.
	Name string
	// Version is the version of the plugin, semver without "v". "0.0.0" when it does not parse.
	Version string
	// Description is a sentence for the package schema.
	Description string
	// Config is the table of the provider's own configuration.
	Config []Property
	// Configure makes the client of the cloud from the configuration, which is fully known and plain (no secret wrappers). It must not call
	// the cloud: it runs for previews too. What it returns is handed to every function as Operation.Client.
	Configure func(ctx context.Context, config resource.PropertyMap) (client any, err error)
	// Resources by type token, for example "civo:index/network:Network".
	Resources map[tokens.Type]*Resource
	// Journal is the folder in which creates are remembered until their objects are recorded, see package journal. "" remembers nothing:
	// a create whose process was killed is then not gone on with.
	Journal string
	// JournalScope tells apart what shares that folder and may have the same URNs, see [journal.Entry].
	JournalScope string
	// Functions by token, for example "civo:index/getNetwork:getNetwork". New adds getPlugin, see [PluginFunction].
	Functions map[tokens.ModuleMember]*Function
}

// Resource declares one resource type. Inputs and states that its functions are given are plain: no secret wrappers, no computed values, no
// fields of the bridge; a property that was not given is absent.
type Resource struct {
	// Description is for the package schema.
	Description string
	// Properties is the table of all properties, inputs and outputs.
	Properties []Property
	// Timeouts are the defaults for operations whose caller names no custom timeout.
	Timeouts Timeouts
	// Meta is the Terraform bridge's __meta that a newly created state gets, for resources whose official plugin needs a schema version
	// there to take the state over, for example `{"schema_version":"1"}`. An existing __meta is kept.
	Meta string

	// Identity are paths of inputs ("pools.size") whose values an object has from the moment that Create asks for it. One that has the
	// wanted name and another value there is not what was asked for, see Operation.MakeOnce.
	Identity []string
	// Parent is the property that names what the object's name is unique in (Making.Parent); "" for the account.
	Parent resource.PropertyKey

	// Check is the check that needs several properties together. Optional. Values may be computed.
	Check func(inputs resource.PropertyMap) []plugin.CheckFailure
	// Diff refines what the table found: it may make a change a replacement, drop it, or refuse it with an error. Optional. It must not
	// call the cloud. A refusal fails the update, already in the preview, but neither a refresh nor a replacement that is asked for.
	Diff func(diff *Diff) error
	// DeleteBeforeReplace tells whether a replacement must delete the old object first, because the two cannot exist together (a name that
	// stays and must be unique). Optional. New values may be computed.
	DeleteBeforeReplace func(old, new resource.PropertyMap) bool

	// Create makes the object and waits until it is ready. When the object exists but something after that failed, it returns the id and
	// whatever state is known together with the error: nothing is lost then. An input that the returned state does not name is copied
	// into the state; name a property with a null value to say that it has none.
	Create func(ctx context.Context, op *Operation, inputs resource.PropertyMap) (id string, state resource.PropertyMap, err error)
	// Read returns the object's present state. state is empty for an import, and the id then is what the user typed; the returned id is the
	// one that is recorded. A definite not-found is reported with [NotFound]. A property that the returned state does not name keeps its
	// recorded value.
	Read func(ctx context.Context, op *Operation, id string, state resource.PropertyMap) (newID string, newState resource.PropertyMap, err error)
	// Update changes the object in place from state to inputs and waits until it is ready. It also runs with nothing to change for an object
	// whose creation did not finish: it waits then. State together with an error means that a part was applied.
	Update func(ctx context.Context, op *Operation, id string, state, inputs resource.PropertyMap) (newState resource.PropertyMap, err error)
	// Delete removes the object and waits until it is gone. An object that is gone already is a success.
	Delete func(ctx context.Context, op *Operation, id string, state resource.PropertyMap) error
}

// Timeouts bound one operation, waits included. Zero means 30 minutes (5 for Read).
type Timeouts struct{ Create, Read, Update, Delete time.Duration }

const (
	defaultTimeout     = 30 * time.Minute
	defaultReadTimeout = 5 * time.Minute
)

// Function declares one function (a data source).
type Function struct {
	// Description is for the package schema.
	Description string
	// Inputs and Outputs are the tables of arguments and results.
	Inputs, Outputs []Property
	// Offline functions need no configured client: Operation.Client is nil.
	Offline bool
	// Invoke answers one call. The arguments are plain, checked and complete with their defaults.
	Invoke func(ctx context.Context, op *Operation, args resource.PropertyMap) (resource.PropertyMap, error)
}

// Operation is what a resource function is given beside the values.
type Operation struct {
	// URN of the resource; empty for functions.
	URN resource.URN
	// Client is what Spec.Configure returned.
	Client any
	// Random is the engine's seed for names that a create must make up; the same seed gives the same name. May be empty.
	Random []byte

	// creating is what a create remembers; nil for other operations, and without a journal.
	creating *creating
	// looking is told the id of what an earlier create has made, "" for nothing, by a create that only looks, see Provider.ServeLooking;
	// nil for one that makes.
	looking func(id string)

	log func(severity pulumirpc.LogSeverity, message string, ephemeral bool)
}

// Status shows a line beside the resource in the engine's progress display while the operation runs. It is not kept in the log.
func (o *Operation) Status(message string) {
	if o != nil && o.log != nil {
		o.log(pulumirpc.LogSeverity_INFO, message, true)
	}
}

// Warn adds a warning to the engine's log.
func (o *Operation) Warn(message string) {
	if o != nil && o.log != nil {
		o.log(pulumirpc.LogSeverity_WARNING, message, false)
	}
}

// Provider is one plugin: the resources and functions of one cloud. It implements plugin.Provider of the Pulumi SDK.
type Provider struct {
	plugin.UnimplementedProvider

	spec    Spec
	version semver.Version

	// stop ends all operations of this instance.
	stopped context.Context
	stop    context.CancelFunc

	mu         sync.Mutex
	host       *host                // nil when no engine is known
	ownsHost   bool                 // whether host is this instance's to close
	config     resource.PropertyMap // as configured, plain; nil before Configure
	client     any
	clientMade bool
	// shared answers for an instance that the engine did not configure on this connection, see server.go.
	shared func() (resource.PropertyMap, bool)

	// looked makes it a plugin that only looks, see ServeLooking; nil for an ordinary one.
	looked func(urn resource.URN, id string)
	// creates is the journal of creates; nil remembers nothing.
	creates *journal.Journal
	// requests is told each request to the cloud; nil when nobody listens.
	requests func(Request)
}

var _ plugin.GrpcProvider = (*Provider)(nil)

// New makes a plugin of what spec declares and adds the getPlugin function to it.
func New(spec Spec) *Provider {
	functions := make(map[tokens.ModuleMember]*Function, len(spec.Functions)+1)
	for token, function := range spec.Functions {
		functions[token] = function
	}
	functions[PluginFunction(spec.Name)] = pluginFunction(spec.Version)
	spec.Functions = functions

	version, err := semver.Parse(spec.Version)
	if err != nil {
		version = semver.Version{}
	}
	stopped, stop := context.WithCancel(context.Background())
	p := &Provider{spec: spec, version: version, stopped: stopped, stop: stop}
	if spec.Journal != "" {
		p.creates = journal.Open(spec.Journal)
	}
	return p
}

// instance is a provider of the same spec with a configuration and a cancellation of its own.
func (p *Provider) instance() *Provider {
	stopped, stop := context.WithCancel(context.Background())
	return &Provider{
		spec: p.spec, version: p.version, stopped: stopped, stop: stop, looked: p.looked, creates: p.creates, requests: p.requests,
	}
}

// Spec is what the plugin was made of, getPlugin included. It must not be changed.
func (p *Provider) Spec() Spec { return p.spec }

// PluginFunction is the token of the function that only native plugins have: it takes nothing and answers {name: "native", version}. A
// program asks it to tell a native plugin from the official one.
func PluginFunction(pkg string) tokens.ModuleMember {
	return tokens.ModuleMember(pkg + ":index/getPlugin:getPlugin")
}

func pluginFunction(version string) *Function {
	return &Function{
		Description: "Tells a program which plugin it is talking to. Only native plugins have this function.",
		Outputs: []Property{
			{Name: "name", Type: String, Output: true, Description: `Always "native".`},
			{Name: "version", Type: String, Output: true, Description: "Version of the native plugin."},
		},
		Offline: true,
		Invoke: func(context.Context, *Operation, resource.PropertyMap) (resource.PropertyMap, error) {
			return resource.PropertyMap{
				"name":    resource.NewStringProperty("native"),
				"version": resource.NewStringProperty(version),
			}, nil
		},
	}
}

// Handshake implements plugin.Provider.
func (p *Provider) Handshake(
	_ context.Context, request plugin.ProviderHandshakeRequest,
) (*plugin.ProviderHandshakeResponse, error) {
	if request.EngineAddress != "" {
		if err := p.Attach(request.EngineAddress); err != nil {
			return nil, err
		}
	}
	return &plugin.ProviderHandshakeResponse{
		AcceptSecrets:                   true,
		AcceptOutputs:                   true,
		SupportsAutonamingConfiguration: true,
		AcceptsByteString:               true,
	}, nil
}

// Attach connects to the engine's log, for a plugin that the engine did not start itself (PULUMI_DEBUG_PROVIDERS).
func (p *Provider) Attach(address string) error {
	engine, err := newHost(address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeHost()
	p.host, p.ownsHost = engine, true
	return nil
}

// GetPluginInfo implements plugin.Provider.
func (p *Provider) GetPluginInfo(context.Context) (plugin.PluginInfo, error) {
	return plugin.PluginInfo{Version: &p.version}, nil
}

// SignalCancellation implements plugin.Provider: every wait ends now.
func (p *Provider) SignalCancellation(context.Context) error {
	p.stop()
	return nil
}

// Close implements plugin.Provider.
func (p *Provider) Close() error {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeHost()
	return nil
}

// closeHost lets go of the connection to the engine. The caller holds the lock.
func (p *Provider) closeHost() {
	if p.host != nil && p.ownsHost {
		_ = p.host.close() // nothing is lost: every line was sent when it was written
	}
	p.host, p.ownsHost = nil, false
}

// GetMapping implements plugin.Provider: there is none.
func (p *Provider) GetMapping(context.Context, plugin.GetMappingRequest) (plugin.GetMappingResponse, error) {
	return plugin.GetMappingResponse{}, nil
}

// GetMappings implements plugin.Provider: there are none.
func (p *Provider) GetMappings(context.Context, plugin.GetMappingsRequest) (plugin.GetMappingsResponse, error) {
	return plugin.GetMappingsResponse{}, nil
}

// operation is the context and the helpers of one operation: the context ends with the request, the timeout or the engine's cancellation.
func (p *Provider) operation(
	ctx context.Context, urn resource.URN, seconds float64, fallback time.Duration,
) (context.Context, *Operation, context.CancelFunc) {
	timeout := fallback
	if seconds > 0 {
		timeout = time.Duration(seconds * float64(time.Second))
	}
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	ctx, cancelCause := context.WithCancelCause(ctx)
	if p.requests != nil {
		ctx = WithRequestLog(ctx, func(request Request) {
			request.URN = urn
			p.requests(request)
		})
	}
	detach := context.AfterFunc(p.stopped, func() { cancelCause(ErrCancelled) })
	ctx, cancelTimeout := context.WithTimeoutCause(ctx, timeout, &TimeoutError{After: timeout})

	op := &Operation{URN: urn, log: func(severity pulumirpc.LogSeverity, message string, ephemeral bool) {
		p.mu.Lock()
		engine := p.host
		p.mu.Unlock()
		if engine == nil {
			return
		}
		// A log line is a courtesy: it must neither fail nor delay the operation.
		logCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = engine.log(logCtx, severity, urn, message, ephemeral)
	}}
	if p.looked != nil {
		op.looking = func(id string) { p.looked(urn, id) }
	}
	return ctx, op, func() {
		detach()
		cancelTimeout()
		cancelCause(nil)
	}
}
