package nativeprovider

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/logging"
	"github.com/pulumi/pulumi/sdk/v3/go/common/util/rpcutil"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/plantonhq/project-planton/pkg/nativeprovider/journal"
)

// Serve runs the plugin inside this process, on a free port of 127.0.0.1, until ctx ends. Tell the engine with the environment variable
// PULUMI_DEBUG_PROVIDERS=NAME:PORT. Its requests to the cloud are told to the log of ctx, see [WithRequestLog].
//
// The engine makes a connection for each provider resource of a program (two regions, two accounts) and configures it alone, so each
// connection gets an instance of its own.
func (p *Provider) Serve(ctx context.Context) (port int, err error) {
	_, port, err = p.start(ctx, nil)
	return port, err
}

// ServeJournaled is Serve with a journal of creates in place of the one of [Spec]. It must be one for one Pulumi backend alone: a URN does
// not name the backend.
func (p *Provider) ServeJournaled(ctx context.Context, creates *journal.Journal) (port int, err error) {
	journaled := p.instance()
	journaled.creates = creates
	return journaled.Serve(ctx)
}

// ServeLooking is ServeJournaled of a plugin that makes and changes nothing, for what is about to be destroyed. A create takes what an
// earlier create of the resource has made, as it is; looked is told its id. Where there is nothing, looked is told "", the create fails,
// and the journal has nothing of it any more. An update leaves everything as it is.
func (p *Provider) ServeLooking(
	ctx context.Context, creates *journal.Journal, looked func(urn resource.URN, id string),
) (port int, err error) {
	looking := p.instance()
	looking.creates, looking.looked = creates, looked
	return looking.Serve(ctx)
}

// start serves until ctx ends; engine, if any, is the engine that started this process. done gets the error that ended the server, nil for ctx.
func (p *Provider) start(ctx context.Context, engine *host) (done <-chan error, port int, err error) {
	template := p.instance()
	template.requests = requestLog(ctx)
	instances := &instances{template: template, engine: engine}
	cancel := make(chan bool)
	context.AfterFunc(ctx, func() {
		// The server waits for calls that are being answered: they end now.
		instances.stop()
		close(cancel)
	})
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(server *grpc.Server) error {
			server.RegisterService(perConnection(), pulumirpc.UnimplementedResourceProviderServer{})
			return nil
		},
		Options: []grpc.ServerOption{grpc.StatsHandler(instances)},
	})
	if err != nil {
		return nil, 0, errors.Wrapf(err, "serve provider %s", p.spec.Name)
	}
	return handle.Done, handle.Port, nil
}

// Main is the main function of a plugin binary: it prints the port on standard output, as Pulumi expects, and serves until the engine goes
// away or interrupts it. The engine's address is the only argument; without it the plugin waits to be attached to. The error is for main to
// print.
func Main(p *Provider) error {
	logging.InitLogging(false, 0, false)
	if p.creates == nil {
		directory, scope, err := defaultJournal(os.Getenv)
		if err != nil {
			return err
		}
		p.creates, p.spec.JournalScope = journal.Open(directory), scope
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	// The engine adds flags of its own (-tracing ADDRESS); its address is the last argument that is not one.
	var engine *host
	for i := len(os.Args) - 1; i >= 1; i-- {
		if argument := os.Args[i]; argument != "" && argument[0] != '-' {
			var err error
			if engine, err = newHost(argument); err != nil {
				return err
			}
			if err := rpcutil.Healthcheck(ctx, argument, 5*time.Minute, stop); err != nil {
				return errors.Wrap(err, "watch the engine")
			}
			break
		}
	}
	done, port, err := p.start(ctx, engine)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, port); err != nil {
		return errors.Wrap(err, "print the port")
	}
	return errors.Wrapf(<-done, "serve provider %s", p.spec.Name)
}

// instances gives each connection its own instance of the plugin.
type instances struct {
	template *Provider
	engine   *host

	mu    sync.Mutex
	known []*Provider
}

type instanceKey struct{}

type connection struct {
	provider *Provider
	server   pulumirpc.ResourceProviderServer
}

// TagConn implements stats.Handler.
func (s *instances) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	instance := s.template.instance()
	instance.host = s.engine
	instance.shared = func() (resource.PropertyMap, bool) { return s.onlyConfig(instance) }
	s.mu.Lock()
	s.known = append(s.known, instance)
	s.mu.Unlock()
	return context.WithValue(ctx, instanceKey{}, &connection{provider: instance, server: plugin.NewProviderServer(instance)})
}

// HandleConn implements stats.Handler: operations of a connection that went away are of no use to anyone. Its configuration is remembered,
// once, see onlyConfig.
func (s *instances) HandleConn(ctx context.Context, event stats.ConnStats) {
	c, ok := ctx.Value(instanceKey{}).(*connection)
	if _, ended := event.(*stats.ConnEnd); !ended || !ok {
		return
	}
	_ = c.provider.Close() // ends operations; never fails
	config := c.provider.configuration()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = slices.DeleteFunc(s.known, func(p *Provider) bool { return p == c.provider })
	if config != nil && !slices.ContainsFunc(s.known, func(p *Provider) bool { return sameConfig(p.configuration(), config) }) {
		s.known = append(s.known, c.provider)
	}
}

// stop ends all operations.
func (s *instances) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, instance := range s.known {
		instance.stop()
	}
}

func sameConfig(a, b resource.PropertyMap) bool {
	return a != nil && b != nil && resource.NewObjectProperty(a).DeepEquals(resource.NewObjectProperty(b))
}

// TagRPC implements stats.Handler.
func (s *instances) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (s *instances) HandleRPC(context.Context, stats.RPCStats) {}

// onlyConfig is the configuration that an unconfigured connection may use: the one that all others agree on. A client that was idle for
// half an hour comes back on a new connection and does not configure again.
func (s *instances) onlyConfig(asking *Provider) (resource.PropertyMap, bool) {
	s.mu.Lock()
	known := slices.Clone(s.known)
	s.mu.Unlock()
	var only resource.PropertyMap
	for _, instance := range known {
		if instance == asking {
			continue
		}
		config := instance.configuration()
		switch {
		case config == nil || containsUnknowns(config):
		case only == nil:
			only = config
		case !sameConfig(only, config):
			return nil, false
		}
	}
	return only, only != nil
}

// perConnection is the provider service with each method on the instance of the connection that the call came in on.
func perConnection() *grpc.ServiceDesc {
	service := pulumirpc.ResourceProvider_ServiceDesc
	service.Methods = slices.Clone(service.Methods)
	for i, method := range service.Methods {
		service.Methods[i].Handler = func(
			_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
		) (any, error) {
			return method.Handler(instanceOf(ctx), ctx, decode, interceptor)
		}
	}
	service.Streams = slices.Clone(service.Streams)
	for i, stream := range service.Streams {
		service.Streams[i].Handler = func(_ any, s grpc.ServerStream) error {
			return stream.Handler(instanceOf(s.Context()), s)
		}
	}
	return &service
}

func instanceOf(ctx context.Context) pulumirpc.ResourceProviderServer {
	if c, ok := ctx.Value(instanceKey{}).(*connection); ok {
		return c.server
	}
	return pulumirpc.UnimplementedResourceProviderServer{}
}
