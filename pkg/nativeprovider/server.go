package nativeprovider

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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
	"google.golang.org/protobuf/types/known/emptypb"
)

// Serve runs the plugin inside this process, on a free port of 127.0.0.1, until ctx ends. Tell the engine with the environment variable
// PULUMI_DEBUG_PROVIDERS=NAME:PORT.
//
// The engine makes a connection for each provider resource of a program (two regions, two accounts) and configures it alone, so each
// connection gets an instance of its own.
func (p *Provider) Serve(ctx context.Context) (port int, err error) {
	return p.serve(ctx, nil)
}

func (p *Provider) serve(ctx context.Context, engine *host) (int, error) {
	_, port, err := p.start(ctx, engine)
	return port, err
}

func (p *Provider) start(ctx context.Context, engine *host) (<-chan error, int, error) {
	instances := &instances{template: p, engine: engine}
	cancel := make(chan bool)
	context.AfterFunc(ctx, func() { close(cancel) })
	handle, err := rpcutil.ServeWithOptions(rpcutil.ServeOptions{
		Cancel: cancel,
		Init: func(server *grpc.Server) error {
			pulumirpc.RegisterResourceProviderServer(server, &dispatcher{})
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

// HandleConn implements stats.Handler: operations of a connection that went away are of no use to anyone.
func (s *instances) HandleConn(ctx context.Context, event stats.ConnStats) {
	if _, ended := event.(*stats.ConnEnd); ended {
		if c, ok := ctx.Value(instanceKey{}).(*connection); ok {
			c.provider.stop()
		}
	}
}

// TagRPC implements stats.Handler.
func (s *instances) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (s *instances) HandleRPC(context.Context, stats.RPCStats) {}

// onlyConfig is the configuration that an unconfigured connection may use: the one that all others agree on. A client that was idle for
// half an hour comes back on a new connection and does not configure again.
func (s *instances) onlyConfig(asking *Provider) (resource.PropertyMap, bool) {
	s.mu.Lock()
	known := append([]*Provider(nil), s.known...)
	s.mu.Unlock()
	var only resource.PropertyMap
	for _, instance := range known {
		if instance == asking {
			continue // the caller holds its lock
		}
		instance.mu.Lock()
		config := instance.config
		instance.mu.Unlock()
		switch {
		case config == nil || containsUnknowns(config):
		case only == nil:
			only = config
		case !resource.NewObjectProperty(only).DeepEquals(resource.NewObjectProperty(config)):
			return nil, false
		}
	}
	return only, only != nil
}

// dispatcher hands each call to the instance of its connection.
type dispatcher struct {
	pulumirpc.UnimplementedResourceProviderServer
}

func of(ctx context.Context) pulumirpc.ResourceProviderServer {
	if c, ok := ctx.Value(instanceKey{}).(*connection); ok {
		return c.server
	}
	return pulumirpc.UnimplementedResourceProviderServer{}
}

// The methods of pulumirpc.ResourceProviderServer, each on the instance of the connection.

func (*dispatcher) Handshake(
	ctx context.Context, r *pulumirpc.ProviderHandshakeRequest,
) (*pulumirpc.ProviderHandshakeResponse, error) {
	return of(ctx).Handshake(ctx, r)
}

func (*dispatcher) GetSchema(
	ctx context.Context, r *pulumirpc.GetSchemaRequest,
) (*pulumirpc.GetSchemaResponse, error) {
	return of(ctx).GetSchema(ctx, r)
}

func (*dispatcher) CheckConfig(ctx context.Context, r *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	return of(ctx).CheckConfig(ctx, r)
}

func (*dispatcher) DiffConfig(ctx context.Context, r *pulumirpc.DiffRequest) (*pulumirpc.DiffResponse, error) {
	return of(ctx).DiffConfig(ctx, r)
}

func (*dispatcher) Configure(
	ctx context.Context, r *pulumirpc.ConfigureRequest,
) (*pulumirpc.ConfigureResponse, error) {
	return of(ctx).Configure(ctx, r)
}

func (*dispatcher) Invoke(ctx context.Context, r *pulumirpc.InvokeRequest) (*pulumirpc.InvokeResponse, error) {
	return of(ctx).Invoke(ctx, r)
}

func (*dispatcher) Check(ctx context.Context, r *pulumirpc.CheckRequest) (*pulumirpc.CheckResponse, error) {
	return of(ctx).Check(ctx, r)
}

func (*dispatcher) Diff(ctx context.Context, r *pulumirpc.DiffRequest) (*pulumirpc.DiffResponse, error) {
	return of(ctx).Diff(ctx, r)
}

func (*dispatcher) Create(ctx context.Context, r *pulumirpc.CreateRequest) (*pulumirpc.CreateResponse, error) {
	return of(ctx).Create(ctx, r)
}

func (*dispatcher) Read(ctx context.Context, r *pulumirpc.ReadRequest) (*pulumirpc.ReadResponse, error) {
	return of(ctx).Read(ctx, r)
}

func (*dispatcher) Update(ctx context.Context, r *pulumirpc.UpdateRequest) (*pulumirpc.UpdateResponse, error) {
	return of(ctx).Update(ctx, r)
}

func (*dispatcher) Delete(ctx context.Context, r *pulumirpc.DeleteRequest) (*emptypb.Empty, error) {
	return of(ctx).Delete(ctx, r)
}

func (*dispatcher) Cancel(ctx context.Context, r *emptypb.Empty) (*emptypb.Empty, error) {
	return of(ctx).Cancel(ctx, r)
}

func (*dispatcher) GetPluginInfo(ctx context.Context, r *emptypb.Empty) (*pulumirpc.PluginInfo, error) {
	return of(ctx).GetPluginInfo(ctx, r)
}

func (*dispatcher) Attach(ctx context.Context, r *pulumirpc.PluginAttach) (*emptypb.Empty, error) {
	return of(ctx).Attach(ctx, r)
}

func (*dispatcher) GetMapping(
	ctx context.Context, r *pulumirpc.GetMappingRequest,
) (*pulumirpc.GetMappingResponse, error) {
	return of(ctx).GetMapping(ctx, r)
}

func (*dispatcher) GetMappings(
	ctx context.Context, r *pulumirpc.GetMappingsRequest,
) (*pulumirpc.GetMappingsResponse, error) {
	return of(ctx).GetMappings(ctx, r)
}
