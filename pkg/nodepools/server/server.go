// Package server is the face of the NodePools service: REST and gRPC on one port, from the same definitions.
//
// A request goes through serve.go (request id, log, metrics, panics), guard.go (who it is, how often, how much), then to the gateway
// (gateway.go), which grpc-gateway generated from service.proto, to the reads that answer stored JSON (reads.go), to the watch
// (watch.go), or to gRPC. Errors of all of them become the envelope of errors.go. openapi.go serves the description of it all.
package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
)

// Service is what the server puts on the network.
type Service interface {
	nodepoolsv1.NodePoolServiceServer
	nodepoolsv1.ClusterServiceServer
	nodepoolsv1.ControllerServiceServer
	nodepoolsv1.EventServiceServer

	// RawNodePool and RawCluster read an object as the JSON that is answered, and its revision, with the checks of GetNodePool and
	// GetCluster.
	RawNodePool(ctx context.Context, id string) (document []byte, revision int64, err error)
	RawCluster(ctx context.Context, id string) (document []byte, revision int64, err error)
	// RawNodePools and RawClusters read a page of objects as JSON, and the rest of the page, with the checks of ListNodePools and
	// ListClusters.
	RawNodePools(ctx context.Context, request *nodepoolsv1.ListNodePoolsRequest) ([][]byte, *nodepoolsv1.ListNodePoolsResponse, error)
	RawClusters(ctx context.Context, request *nodepoolsv1.ListClustersRequest) ([][]byte, *nodepoolsv1.ListClustersResponse, error)
	// Watch is WatchEvents for the event stream of HTTP.
	Watch(ctx context.Context, request *nodepoolsv1.WatchEventsRequest, send func(*events.Entry) error) error
}

// Defaults of Options.
const (
	DefaultMaxBody        = 1 << 20
	DefaultMaxHeader      = 32 << 10
	DefaultRequestTimeout = time.Minute
	DefaultHeartbeat      = 15 * time.Second
)

// Options are what a Server is made of. Service, Authenticator and Ready are required.
type Options struct {
	// Service answers.
	Service Service
	// Authenticator tells who makes a request. Everything but health, the API's description and the page needs an identity.
	Authenticator auth.Authenticator
	// Ready asks what the service needs, such as the database, whether it is there.
	Ready func(ctx context.Context) error
	// Alive tells why the process should be started anew; nil: it never should. It must answer at once, and must not call the absence of
	// something else a reason: a restart brings nothing back that is elsewhere.
	Alive func() error
	// Rate bounds the requests of each identity; zero does not.
	Rate Rate
	// UnknownRate bounds the requests of each address whose sender is not known, for lack of credentials or because they are refused; zero
	// does not.
	UnknownRate Rate
	// MaxBody bounds the body of a request in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// RequestTimeout bounds the time of a request that is not a watch; 0 means DefaultRequestTimeout.
	RequestTimeout time.Duration
	// Heartbeat is how often an idle watch sends a comment, so that proxies keep it; 0 means DefaultHeartbeat.
	Heartbeat time.Duration
	// Registry gets the server's metrics, and is what /metrics shows; nil is a new one.
	Registry *prometheus.Registry
	// OpenMetrics shows /metrics to everyone, not only to who is known.
	OpenMetrics bool
	// Tracer, when not nil, gets a span for each request.
	Tracer trace.TracerProvider
	// Logger gets a line for each request; nil is slog.Default().
	Logger *slog.Logger
	// Version and Commit are those of the program; the metric nodepools_build_info tells them.
	Version, Commit string
	// Page is served at "/" and wherever nothing else is; nil leads from "/" to /docs.
	Page http.Handler
}

// Server is an http.Handler. All methods can be called at the same time.
type Server struct {
	options Options
	handler http.Handler
	gateway *runtime.ServeMux
	grpc    *grpc.Server
	routes  map[string]*route // by method and path template
	limits  *limiters
	// unknowns are the limits of who could not be known, by address.
	unknowns *limiters
	metrics  *metrics

	readiness readiness
	draining  atomic.Bool
	ended     chan struct{}
	end       sync.Once
}

// New returns a server.
func New(options Options) (*Server, error) {
	if options.Service == nil || options.Authenticator == nil || options.Ready == nil {
		return nil, errors.New("a server needs a Service, an Authenticator and Ready")
	}
	if options.MaxBody == 0 {
		options.MaxBody = DefaultMaxBody
	}
	if options.RequestTimeout == 0 {
		options.RequestTimeout = DefaultRequestTimeout
	}
	if options.Heartbeat == 0 {
		options.Heartbeat = DefaultHeartbeat
	}
	if options.Registry == nil {
		options.Registry = prometheus.NewRegistry()
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	s := &Server{options: options, limits: newLimiters(options.Rate), unknowns: newLimiters(options.UnknownRate), ended: make(chan struct{})}
	var err error
	if s.metrics, err = newMetrics(options); err != nil {
		return nil, err
	}
	if s.routes, err = apiRoutes(); err != nil {
		return nil, err
	}
	if err = s.newGateway(); err != nil {
		return nil, err
	}
	s.newGRPC()
	s.handler = http.HandlerFunc(s.serve)
	if options.Tracer != nil {
		s.handler = otelhttp.NewHandler(s.handler, "nodepools", otelhttp.WithTracerProvider(options.Tracer),
			otelhttp.WithPropagators(propagation.TraceContext{}))
	}
	return s, nil
}

// ServeHTTP serves REST, and gRPC over HTTP/2.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// HTTPServer returns an http.Server with limits for the open network: on the time that headers may take, on their size, and on idle
// connections. It speaks HTTP/1.1 and HTTP/2, with TLS and without.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    DefaultMaxHeader,
		Protocols:         protocols,
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
}

// Drain prepares the end: readiness fails from now on, so that load balancers send nothing new. Requests are still answered.
func (s *Server) Drain() { s.draining.Store(true) }

// EndStreams ends all watches, now and from now on; their clients go on elsewhere from the last event that they saw. It comes before
// http.Server.Shutdown, which waits for every request to end.
func (s *Server) EndStreams() { s.end.Do(func() { close(s.ended) }) }
