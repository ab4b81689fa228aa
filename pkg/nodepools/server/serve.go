package server

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
)

// about is what becomes known about a request on its way.
type about struct {
	id       string
	identity auth.Identity
	// route is the path's template: what metrics and logs call the request.
	route string
	// code is that of the error that was answered, err its cause when that is not the client's fault.
	code     string
	err      error
	tooLarge bool
	request  *http.Request
	// document is the JSON of the answer, where the service has made it already.
	document document
}

// document is JSON that is answered as it is.
type document []byte

type aboutKey struct{}

func aboutOf(ctx context.Context) *about {
	found, ok := ctx.Value(aboutKey{}).(*about)
	if !ok {
		return &about{}
	}
	return found
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// WriteHeader is for http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write is for http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is what gRPC asks of a ResponseWriter.
func (w *recorder) Flush() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// serve is around every request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	info := &about{id: r.Header.Get("X-Request-Id"), route: "none"}
	if !requestID.MatchString(info.id) {
		info.id = uuid.NewString()
	}
	r = r.WithContext(context.WithValue(r.Context(), aboutKey{}, info))
	info.request = r
	out := &recorder{ResponseWriter: w}
	header := w.Header()
	header.Set("X-Request-Id", info.id)
	header.Set("X-Content-Type-Options", "nosniff")
	s.metrics.running.Inc()
	defer func() {
		s.metrics.running.Dec()
		if cause := recover(); cause != nil {
			if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				panic(cause)
			}
			s.options.Logger.LogAttrs(r.Context(), slog.LevelError, "request panicked", slog.String("request_id", info.id), slog.Any("panic", cause))
			if out.status != 0 {
				// What was sent already cannot be taken back; the client must not take it for a whole answer.
				panic(http.ErrAbortHandler)
			}
			s.answer(out, r, errors.New("panic"))
		}
		s.done(r, info, out, time.Since(start))
	}()
	s.route(out, r)
}

// done tells of a request that was answered.
func (s *Server) done(r *http.Request, info *about, out *recorder, took time.Duration) {
	if out.status == 0 {
		out.status = http.StatusOK // what net/http answers for who writes nothing
	}
	code := strconv.Itoa(out.status)
	s.metrics.requests.WithLabelValues(methodLabel(r.Method), info.route, code).Inc()
	s.metrics.duration.WithLabelValues(methodLabel(r.Method), info.route).Observe(took.Seconds())
	level := slog.LevelInfo
	if out.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !s.options.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", info.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
		slog.Int("status", out.status), slog.Duration("took", took), slog.Int64("bytes", out.bytes), slog.String("remote", r.RemoteAddr),
	}
	if info.identity.Name != "" {
		attrs = append(attrs, slog.String("identity", info.identity.Name), slog.String("role", string(info.identity.Role)))
	}
	if info.code != "" {
		attrs = append(attrs, slog.String("code", info.code))
	}
	if info.err != nil {
		attrs = append(attrs, slog.String("error", info.err.Error()))
	}
	s.options.Logger.LogAttrs(r.Context(), level, "request", attrs...)
}

// methodLabel keeps invented methods out of the metrics.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// route leads a request to who answers it.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	info := aboutOf(r.Context())
	switch path := r.URL.Path; {
	case isGRPC(r):
		info.route = "grpc"
		s.serveGRPC(w, r)
	case strings.HasPrefix(path, "/api/"):
		w.Header().Set("Cache-Control", "private, no-cache")
		s.serveAPI(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		s.answer(w, r, &problem{Code: CodeMethodNotAllowed, Message: "Method not allowed"})
	case path == "/healthz", path == "/livez":
		info.route = path
		s.alive(w, r)
	case path == "/readyz", path == "/health":
		info.route = path
		s.ready(w, r)
	case path == "/metrics":
		info.route = path
		s.serveMetrics(w, r)
	case path == "/openapi.json" || path == "/docs" || strings.HasPrefix(path, "/docs/"):
		info.route = "/docs"
		s.describe(w, r)
	case s.options.Page != nil:
		info.route = "/"
		s.options.Page.ServeHTTP(w, r)
	case path == "/":
		info.route = path
		http.Redirect(w, r, "/docs", http.StatusFound)
	default:
		s.answer(w, r, pathNotFound())
	}
}

func (s *Server) alive(w http.ResponseWriter, r *http.Request) {
	if s.options.Alive != nil {
		if err := s.options.Alive(); err != nil {
			aboutOf(r.Context()).err = err
			text(w, http.StatusServiceUnavailable, "to be started anew\n")
			return
		}
	}
	text(w, http.StatusOK, "ok\n")
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		text(w, http.StatusServiceUnavailable, "shutting down\n")
		return
	}
	if err := s.askReady(r.Context()); err != nil {
		aboutOf(r.Context()).err = err
		// Who asks may be anybody: the reason is in the log.
		text(w, http.StatusServiceUnavailable, "not ready\n")
		return
	}
	text(w, http.StatusOK, "ok\n")
}

// readyFor is how long an answer about readiness counts: anybody may ask, as often as they like, and the database is asked seldom.
const readyFor = 250 * time.Millisecond

// readiness is what was found out last.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (s *Server) askReady(ctx context.Context) error {
	s.readiness.mu.Lock()
	defer s.readiness.mu.Unlock()
	if time.Since(s.readiness.at) > readyFor {
		// The answer is for others too: that this client has gone is not why the service would not be ready.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		s.readiness.err = s.options.Ready(ctx)
		s.readiness.at = time.Now()
	}
	return s.readiness.err
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}
