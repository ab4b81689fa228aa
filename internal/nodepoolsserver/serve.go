package nodepoolsserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/reconcile"
	"github.com/plantonhq/project-planton/pkg/nodepools/server"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/nodepools/ui"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// serve runs the service until its context ends.
func serve(ctx context.Context, c config, getenv func(string) string, out io.Writer) (err error) {
	if err := c.check(getenv); err != nil {
		return &usageError{err}
	}
	logger, err := newLogger(out, c.logFormat, c.logLevel)
	if err != nil {
		return &usageError{err}
	}
	authenticator, development, err := c.authenticator()
	if err != nil {
		return &usageError{err}
	}
	if development && c.listen != "" {
		if err := auth.CheckListen(ctx, c.listen); err != nil {
			return &usageError{errors.Wrap(err, "--auth is not given")}
		}
	}
	tlsConfig, err := c.tlsConfig()
	if err != nil {
		return &usageError{err}
	}
	if err := os.MkdirAll(c.stateDirectory, 0o700); err != nil {
		return errors.Wrap(err, "make the state directory")
	}
	address := databaseAddress(getenv, c.stateDirectory)
	key, err := sealingKey(getenv, c.keyFile, !shared(address))
	if err != nil {
		return err
	}
	db, err := store.Open(ctx, address, store.Options{KeepEvents: c.keepEvents, KeepAudit: c.keepAudit, Logger: logger})
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, db.Close()) }()

	w, err := newWorkers(ctx, c, db, getenv, out, logger)
	if err != nil {
		return err
	}
	defer w.close()
	core, err := service.New(service.Options{
		Store: db, Key: key, Provisioned: w.provisioned, Check: checker(logger), FixedName: reconcile.NameIsFixed,
		Previewer:        w,
		Quotas:           service.Quotas{Clusters: c.maxClusters, NodePools: c.maxPools, Nodes: c.maxNodes},
		ProgressDeadline: c.progressDeadline, DeletionDeadline: c.deletionDeadline,
		Webhooks: events.WebhookOptions{AllowHTTP: c.webhooksHTTP, AllowPrivate: c.webhooksPrivate, Logger: logger},
		Logger:   logger,
	})
	if err != nil {
		return err
	}
	w.use(core)

	registry := prometheus.NewRegistry()
	registerMetrics(registry, db, logger)
	tracer, stopTracing, err := newTracer(ctx, getenv)
	if err != nil {
		return err
	}
	defer stopTracing()
	options := server.Options{
		Service: core, Authenticator: authenticator, Ready: db.Ping, Alive: func() error { return notStuck(db.Stuck()) }, Registry: registry, OpenMetrics: c.openMetrics || development, Logger: logger,
		Rate: server.Rate{PerSecond: c.rate, Burst: c.burst}, UnknownRate: server.Rate{PerSecond: c.unknownRate, Burst: c.burst},
		Page: ui.Handler(),
	}
	options.Version, options.Commit = readBuild()
	if tracer != nil {
		options.Tracer = tracer
	}
	api, err := server.New(options)
	if err != nil {
		return err
	}
	listeners, err := c.listeners(ctx)
	if err != nil {
		return err
	}

	// What ends the service: the caller, or a listener that fails.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	httpServer := api.HTTPServer()
	httpServer.TLSConfig = tlsConfig
	var serving, working sync.WaitGroup
	for _, listener := range listeners {
		serving.Go(func() {
			var err error
			if tlsConfig != nil && listener.Addr().Network() == "tcp" {
				err = httpServer.ServeTLS(listener, "", "")
			} else {
				err = httpServer.Serve(listener)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				fail(errors.Wrap(err, "serve"))
			}
		})
	}
	working.Go(func() { core.Run(ctx) })
	working.Go(func() { w.run(ctx) })
	tell(out, c, listeners, development, address, w.provisioned)

	<-ctx.Done()
	logger.Info("ending: what was begun is being finished")
	api.Drain()
	api.EndStreams()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.grace)
	defer cancel()
	if err := httpServer.Shutdown(ending); err != nil {
		_ = httpServer.Close()
	}
	serving.Wait()
	working.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// firstOf is the first error.
func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// listeners open the address and the unix socket.
func (c *config) listeners(ctx context.Context) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, listener := range all {
				_ = listener.Close()
			}
		}
	}()
	open := net.ListenConfig{}
	if c.listen != "" {
		listener, err := open.Listen(ctx, "tcp", c.listen)
		if err != nil {
			return all, errors.Wrap(err, "--listen")
		}
		all = append(all, listener)
	}
	if c.socket != "" {
		// A socket that a killed process left behind is in the way; one that answers is not ours to take.
		if connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", c.socket); err == nil {
			_ = connection.Close()
			return all, errors.Errorf("--unix-socket %s: another process serves there", c.socket)
		}
		if info, err := os.Lstat(c.socket); err == nil && info.Mode()&os.ModeSocket != 0 {
			_ = os.Remove(c.socket)
		}
		listener, err := open.Listen(ctx, "unix", c.socket)
		if err != nil {
			return all, errors.Wrap(err, "--unix-socket")
		}
		all = append(all, listener)
		if err := os.Chmod(c.socket, 0o660); err != nil { // the group of the socket may use it: that is what it is for
			return all, errors.Wrap(err, "--unix-socket")
		}
	}
	return all, nil
}

// tell says where the service is, and what a person does next.
func tell(out io.Writer, c config, listeners []net.Listener, development bool, address string, provisioned map[string]string) {
	scheme := "http"
	if c.tlsCert != "" {
		scheme = "https"
	}
	for _, listener := range listeners {
		if listener.Addr().Network() == "tcp" {
			_, _ = fmt.Fprintf(out, "serving on %s://%s\n", scheme, listener.Addr())
		} else {
			_, _ = fmt.Fprintf(out, "serving on unix:%s\n", listener.Addr())
		}
	}
	database := "SQLite in " + address
	if shared(address) {
		database = "PostgreSQL" // the address may hold a password
	}
	_, _ = fmt.Fprintf(out, "database: %s\n", database)
	if c.workers > 0 {
		_, _ = fmt.Fprintf(out, "clouds: %s (%s)\n", c.cloud, strings.Join(slices.Sorted(maps.Keys(provisioned)), ", "))
	}
	if development {
		_, _ = fmt.Fprintf(out, "development mode: whoever is on this machine is who the header %s says; --auth says otherwise\n", auth.UserHeader)
	}
}

// newLogger logs to out.
func newLogger(out io.Writer, format, level string) (*slog.Logger, error) {
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return nil, errors.Errorf("--log-level %s: must be debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: at}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return nil, errors.Errorf("--log-format %s: must be text or json", format)
}

// newTracer sends spans where the standard variables of OpenTelemetry say; nil where they say nothing.
func newTracer(ctx context.Context, getenv func(string) string) (*sdktrace.TracerProvider, func(), error) {
	if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, errors.Wrap(err, "prepare tracing")
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	return provider, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = provider.Shutdown(ending)
	}, nil
}

// checker says what the platforms that are provisioned here do not allow.
func checker(logger *slog.Logger) func(context.Context, *nodepoolsv1.Cluster, *nodepoolsv1.NodePool) []validation.Violation {
	return func(_ context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) []validation.Violation {
		violations, err := reconcile.Check(cluster, pool)
		if err != nil {
			logger.Error("check what a platform allows", "error", err)
			return []validation.Violation{{FieldPath: "spec", RuleID: "internal", Message: "could not be checked; the service's log says why"}}
		}
		return violations
	}
}

// workers do the work of this process: none of it, where there are no workers.
type workers struct {
	config      config
	db          *store.DB
	logger      *slog.Logger
	clouds      *clouds
	provisioned map[string]string
	reconciler  *reconcile.Reconciler
}

func newWorkers(ctx context.Context, c config, db *store.DB, getenv func(string) string, out io.Writer, logger *slog.Logger) (*workers, error) {
	w := &workers{config: c, db: db, logger: logger, provisioned: map[string]string{}}
	if c.workers > 0 {
		var err error
		if w.clouds, err = openClouds(ctx, c, db, getenv, out); err != nil {
			return nil, err
		}
		w.provisioned = w.clouds.provisioned
	} else if c.platforms == nil {
		w.provisioned = maps.Clone(reconcile.Controllers)
	}
	if c.platforms != nil {
		w.provisioned = map[string]string{}
		for _, platform := range c.platforms {
			if w.clouds != nil && w.clouds.provisioned[platform] == "" {
				w.close()
				return nil, errors.Errorf("--provision %s: there are no credentials for it", platform)
			}
			w.provisioned[platform] = reconcile.Controllers[platform]
		}
	}
	return w, nil
}

// use has the workers report to a service.
func (w *workers) use(core *service.Service) {
	if w.clouds == nil {
		return
	}
	w.reconciler = reconcile.New(reconcile.Options{
		Objects: w.db, Reporter: core, Provisioner: w.clouds.provisioner, Progress: w.clouds.progress, Holder: holder(),
		DriftInterval: w.config.driftInterval, Log: w.logger,
	})
}

// holder names this process, unlike every other one.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = kinds.Civo
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails, see its documentation
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(random))
}

// Preview is a service.Previewer. A process without workers has no engine to ask.
func (w *workers) Preview(ctx context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) (string, error) {
	if w.reconciler == nil {
		return "", errors.New("this process of the service has no engine to ask")
	}
	return w.reconciler.Preview(ctx, cluster, pool)
}

// run works until the context ends, and lets what was begun end.
func (w *workers) run(ctx context.Context) {
	if w.reconciler == nil {
		<-ctx.Done()
		return
	}
	var beating sync.WaitGroup
	// The workers of this machine live as long as one of them finishes what it began.
	beat, stop := context.WithCancel(context.WithoutCancel(ctx))
	beating.Go(func() {
		if err := w.reconciler.Beat(beat); err != nil {
			w.logger.Error("tell that this worker lives", "error", err)
		}
	})
	err := w.db.Work(ctx, store.WorkOptions{Concurrency: w.config.workers, Grace: w.config.grace},
		func(job context.Context, key store.Key) (time.Duration, error) {
			// The engine ends at the next step when it is told to, and records what it did.
			job, cancel := context.WithCancel(job)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return w.reconciler.Work(job, key)
		})
	if err != nil {
		w.logger.Error("work", "error", err)
	}
	stop()
	beating.Wait()
}

func (w *workers) close() {
	if w.clouds != nil {
		w.clouds.close()
	}
}

// longestBatch is far more than transactions take, and than they are given where the database does not answer.
const longestBatch = 5 * time.Minute

// notStuck says that transactions do not end any more, by the time for which those that are committed have been at it.
func notStuck(stuck time.Duration) error {
	if stuck > longestBatch {
		return errors.Errorf("transactions have been waiting for the database for %s", stuck.Round(time.Second))
	}
	return nil
}
