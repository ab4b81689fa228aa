package emulator

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/pkg/errors"
)

// Server serves an emulated cloud on a loopback address.
type Server struct {
	listener net.Listener
	http     *http.Server
	served   chan error
}

// Listen serves h on addr, "127.0.0.1:0" for a free port, until Close. It refuses addresses that other machines can reach:
// an emulated cloud hands out objects to whoever knows its token, and is no service to run on a network.
func Listen(addr string, h http.Handler) (*Server, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, errors.Wrapf(err, "listen on %q", addr)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, errors.Errorf("listen on %q: not a loopback address, give 127.0.0.1, [::1] or localhost", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Wrapf(err, "listen on %q", addr)
	}
	// "localhost" means what the machine's resolver says it means.
	if bound, ok := listener.Addr().(*net.TCPAddr); !ok || !bound.IP.IsLoopback() {
		_ = listener.Close()
		return nil, errors.Errorf("listen on %q: that is %s here, not a loopback address", addr, listener.Addr())
	}
	server := &Server{
		listener: listener,
		http: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: 10 * time.Second,
			// civogo opens a connection for every request and never closes it, so idle ones must not pile up.
			IdleTimeout: 15 * time.Second,
		},
		served: make(chan error, 1),
	}
	go func() { server.served <- server.http.Serve(listener) }()
	return server, nil
}

// Addr is the host and port that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is the base URL of the server, without a slash at its end.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Close stops listening, gives requests that are being answered two seconds, and frees the port. A second call does nothing.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if err != nil {
		return errors.Wrapf(err, "close the server on %s", s.Addr())
	}
	if served, open := <-s.served; open {
		close(s.served)
		if !errors.Is(served, http.ErrServerClosed) {
			return errors.Wrapf(served, "serve on %s", s.Addr())
		}
	}
	return nil
}
