package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/time/rate"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

// Rate bounds requests.
type Rate struct {
	// PerSecond is how many requests an identity may make a second, in the long run; 0 does not bound them.
	PerSecond float64
	// Burst is how many it may make at once; at least 1.
	Burst int
}

// limiters has a limiter for each identity, or address, that was here lately.
type limiters struct {
	rate Rate

	mu    sync.Mutex
	found map[string]*limiter
	swept time.Time
}

type limiter struct {
	*rate.Limiter
	used time.Time
}

func newLimiters(bound Rate) *limiters {
	bound.Burst = max(bound.Burst, 1)
	return &limiters{rate: bound, found: map[string]*limiter{}}
}

// maxLimiters bounds what callers with many addresses make the service remember. Those that come when there are so many share one limiter.
const maxLimiters = 1 << 16

// allow says whether who has a name, or an address, may make one more request now.
func (l *limiters) allow(name string) bool {
	if l.rate.PerSecond <= 0 {
		return true
	}
	now := time.Now()
	l.mu.Lock()
	if now.Sub(l.swept) > time.Minute {
		l.swept = now
		// After this long a limiter is full again, as a new one is.
		idle := time.Minute + time.Duration(float64(l.rate.Burst)/l.rate.PerSecond*float64(time.Second))
		for key, one := range l.found {
			if now.Sub(one.used) > idle {
				delete(l.found, key)
			}
		}
	}
	one, ok := l.found[name]
	if !ok && len(l.found) >= maxLimiters {
		name = ""
		one, ok = l.found[name]
	}
	if !ok {
		one = &limiter{Limiter: rate.NewLimiter(rate.Limit(l.rate.PerSecond), l.rate.Burst)}
		l.found[name] = one
	}
	one.used = now
	l.mu.Unlock()
	return one.AllowN(now, 1)
}

// Headers whose meaning would depend on which of several lines is read.
var singleHeaders = []string{"If-Match", "If-None-Match", "Idempotency-Key", "Last-Event-Id", "Content-Type"}

// maxKey bounds what the store keeps of an Idempotency-Key.
const maxKey = 255

// identify finds out who makes a request and what it carries beside its message.
func (s *Server) identify(r *http.Request) (*http.Request, error) {
	identity, err := s.options.Authenticator.Authenticate(r)
	if err != nil {
		return r, s.unknown(r, err)
	}
	info := aboutOf(r.Context())
	info.identity = identity
	if !s.limits.allow(identity.Name) {
		s.metrics.limited.Inc()
		return r, &problem{Code: CodeRateLimited, Message: "Too many requests", Details: fmt.Sprintf("at most %g a second are served for each user", s.options.Rate.PerSecond)}
	}
	for _, name := range singleHeaders {
		if len(r.Header.Values(name)) > 1 {
			return r, invalid("the header " + name + " must be given once")
		}
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return r, invalid(fmt.Sprintf("the header Idempotency-Key must not be longer than %d bytes", maxKey))
	}
	ctx := auth.NewContext(r.Context(), identity)
	ctx = service.WithRequest(ctx, service.Request{
		ID: info.id, IfMatch: r.Header.Get("If-Match"), IfNoneMatch: r.Header.Get("If-None-Match"), IdempotencyKey: key,
		Written: func(document []byte) { info.document = document },
	})
	r = r.WithContext(ctx)
	info.request = r
	return r, nil
}

// unknown is the answer to who could not be known. Too many of them from one address are told to wait; who is known at the same address,
// behind the same gateway, is not held up by them.
func (s *Server) unknown(r *http.Request, err error) error {
	if errors.Is(err, auth.ErrUnavailable) || s.unknowns.allow(addressOf(r)) {
		return err
	}
	s.metrics.limited.Inc()
	return &problem{
		Code: CodeRateLimited, Message: "Too many requests without an identity",
		Details: fmt.Sprintf("at most %g a second are served for each address", s.options.UnknownRate.PerSecond),
	}
}

// addressOf is where a request comes from. Of IPv6 it is the network: whoever has one address has 2^64.
func addressOf(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "socket"
	}
	address := peer.Addr().Unmap().WithZone("")
	if address.Is6() {
		if network, err := address.Prefix(64); err == nil {
			return network.String()
		}
	}
	return address.String()
}

// serveAPI guards the REST API.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	r, err := s.identify(r)
	if err != nil {
		s.answer(w, r, err)
		return
	}
	if r.Method == http.MethodHead {
		// net/http leaves the body out, by the method of the request that it knows.
		clone := *r
		clone.Method = http.MethodGet
		r = &clone
	}
	if r.URL.Path != watchPath {
		ctx, cancel := context.WithTimeout(r.Context(), s.options.RequestTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		control := http.NewResponseController(w)
		deadline := time.Now().Add(s.options.RequestTimeout + 10*time.Second)
		_ = control.SetWriteDeadline(deadline)
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(deadline)
			r.Body = &body{ReadCloser: http.MaxBytesReader(w, r.Body, s.options.MaxBody), about: aboutOf(r.Context()), control: control}
		}
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	}
	if !s.serveRead(w, r) {
		s.gateway.ServeHTTP(w, r)
	}
}

// body is a request's body, whose end lifts the deadline of reading it, and which remembers that it was too large: the gateway passes
// errors on as texts.
type body struct {
	io.ReadCloser
	about   *about
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		b.about.tooLarge = true
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func bytesText(n int64) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
