// Package service is the core of the NodePools service: what may be written by whom, what a write changes, and what controllers make
// of it. It knows neither HTTP nor SQL: requests come in as the messages of service.proto, and objects are kept in a store.
//
// Where to find what: create.go, update.go, patch.go, delete.go hold the writes of users, report.go those of controllers, get.go and
// list.go the reads, evaluate.go what time changes, watch.go and webhooks.go how changes are told.
package service

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/pkg/errors"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// Defaults of Options.
const (
	DefaultProgressDeadline = 30 * time.Minute
	DefaultDeletionDeadline = 30 * time.Minute
	DefaultSweepInterval    = time.Minute
	// IdempotencyTTL is how long the answer to a request with an Idempotency-Key is kept.
	IdempotencyTTL = 24 * time.Hour
)

// Options are what a Service is made of. Only Store is required.
type Options struct {
	// Store keeps everything.
	Store store.Store
	// Key seals secrets before they are kept: 32 bytes, the same in every process on the same store. Without it, secrets are refused.
	Key []byte
	// Provisioned are the platforms that this service provisions itself, and the name that its reports carry: "civo":
	// "civo-controller". Their objects get a job at each change.
	Provisioned map[string]string
	// Check says what a provisioned platform does not allow of a cluster, or of a pool in it (nil: of the cluster itself). It
	// looks at nothing else than its arguments. Field paths are those of the object's JSON. Nil allows everything.
	Check func(ctx context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) []validation.Violation
	// FixedName says whether an object of a platform keeps the name that it was created with. Nil says that every name can change.
	FixedName func(kind store.Kind, platform string) bool
	// Previewer says in a dry run what the provider would do. Nil says nothing.
	Previewer Previewer
	// Quotas bound what an owner may have.
	Quotas Quotas
	// ProgressDeadline is how long a generation may take before it is Failed; 0 means DefaultProgressDeadline.
	ProgressDeadline time.Duration
	// DeletionDeadline is how long a deletion may take before it is called stalled; 0 means DefaultDeletionDeadline.
	DeletionDeadline time.Duration
	// SweepInterval is how often Tick enqueues again what is not finished; 0 means DefaultSweepInterval.
	SweepInterval time.Duration
	// Webhooks says how events are delivered. Its store and key are those of the service.
	Webhooks events.WebhookOptions
	// Logger gets what clients are not told, such as errors of the database. Nil is slog.Default().
	Logger *slog.Logger
	// Now is the clock of deadlines and times; nil is the store's. Tests set it.
	Now func() time.Time
}

// Service implements the four gRPC services of service.proto. All methods can be called at the same time.
type Service struct {
	nodepoolsv1.UnimplementedNodePoolServiceServer
	nodepoolsv1.UnimplementedClusterServiceServer
	nodepoolsv1.UnimplementedControllerServiceServer
	nodepoolsv1.UnimplementedEventServiceServer

	store     store.Store
	options   Options
	sealer    *sealer
	hub       *events.Hub
	logger    *slog.Logger
	lastSweep sweepClock
}

// New returns a service on a store. It compiles the rules of all messages that it checks, for which the first requests would wait.
func New(options Options) (*Service, error) {
	if options.Store == nil {
		return nil, errors.New("a service needs a store")
	}
	sealer, err := newSealer(options.Key)
	if err != nil {
		return nil, err
	}
	if err := compileRules(); err != nil {
		return nil, err
	}
	if options.ProgressDeadline == 0 {
		options.ProgressDeadline = DefaultProgressDeadline
	}
	if options.DeletionDeadline == 0 {
		options.DeletionDeadline = DefaultDeletionDeadline
	}
	if options.SweepInterval == 0 {
		options.SweepInterval = DefaultSweepInterval
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	options.Provisioned = maps.Clone(options.Provisioned)
	return &Service{
		store:   options.Store,
		options: options,
		sealer:  sealer,
		hub:     events.NewHub(options.Store),
		logger:  options.Logger,
	}, nil
}

// Request is what a request carries beside its message: headers of HTTP, metadata of gRPC.
type Request struct {
	// ID names the request in logs and in the audit log.
	ID string
	// IfMatch and IfNoneMatch are the values of the headers of RFC 9110, section 13.1.
	IfMatch, IfNoneMatch string
	// IdempotencyKey makes a repeated request get the answer of the first one.
	IdempotencyKey string
	// Written, when not nil, is called with the JSON of an answer that was kept as such; it need not be made of the message again. Answers
	// of which there is none are not told.
	Written func(document []byte)
}

type requestKey struct{}

// WithRequest returns a context that carries what the request has beside its message.
func WithRequest(ctx context.Context, request Request) context.Context {
	return context.WithValue(ctx, requestKey{}, request)
}

func requestOf(ctx context.Context) Request {
	request, _ := ctx.Value(requestKey{}).(Request)
	return request
}

// now is the time outside of transactions.
func (s *Service) now() time.Time {
	if s.options.Now != nil {
		return s.options.Now().UTC()
	}
	return time.Now().UTC()
}
