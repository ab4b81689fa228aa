package lab

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane"
)

// APIRequest is a request of the provider to the API server.
type APIRequest struct {
	// Method is GET, POST, PUT, PATCH or DELETE.
	Method string
	// Path is that of the URL, such as /apis/karpenter.sh/v1/nodeclaims/a/status.
	Path string
	// Body is what is sent. Patches are JSON; objects of Kubernetes itself may be protobuf.
	Body string
}

// moment is a request that somebody waits for.
type moment struct {
	match func(APIRequest) bool
	after bool
	call  func()
}

// gateway stands between the provider and the API server.
type gateway struct {
	server *http.Server
	done   chan struct{}

	mu      sync.Mutex
	moments []*moment
}

// OnAPIRequest has something called when the provider makes a request to the API server that fits: before the API server gets it, which it
// then never does, or after, and then the provider does not get the answer. It happens once, unless it is taken back before. The lab needs
// Options.WatchAPI.
func (l *Lab) OnAPIRequest(match func(APIRequest) bool, after bool, call func()) (takeBack func()) {
	return l.gateway.on(&moment{match: match, after: after, call: call})
}

func (g *gateway) on(m *moment) (takeBack func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moments = append(g.moments, m)
	return func() { g.take(func(other *moment) bool { return other == m }) }
}

// take removes the first moment that fits, and returns it.
func (g *gateway) take(fits func(*moment) bool) *moment {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, m := range g.moments {
		if fits(m) {
			g.moments = append(g.moments[:i:i], g.moments[i+1:]...)
			return m
		}
	}
	return nil
}

type momentKey struct{}

// errAnswerLost is why an answer is not passed on.
var errAnswerLost = errors.New("the answer is lost")

// startGateway stands a gateway before an API server, and writes a kubeconfig that leads to it.
func startGateway(plane *controlplane.ControlPlane, kubeconfig string) (*gateway, error) {
	target, err := url.Parse(plane.Config.Host)
	if err != nil {
		return nil, errors.Wrap(err, "reading the address of the API server")
	}
	transport, err := rest.TransportFor(plane.Config)
	if err != nil {
		return nil, errors.Wrap(err, "making a client for the API server")
	}
	g := &gateway{done: make(chan struct{})}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		// Events of a watch are passed on as they come.
		FlushInterval: -1,
		ModifyResponse: func(response *http.Response) error {
			if m, ok := response.Request.Context().Value(momentKey{}).(*moment); ok {
				m.call()
				return errAnswerLost
			}
			return nil
		},
		// Whoever asked is gone, or is not to get an answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Wrap(err, "standing before the API server")
	}
	g.server = &http.Server{Handler: g.handler(proxy), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	certificate, key := plane.ServerCertificate()
	go func() {
		defer close(g.done)
		_ = g.server.ServeTLS(listener, certificate, key) // its error says that it was closed
	}()
	config, err := clientcmd.LoadFromFile(plane.Kubeconfig)
	if err != nil {
		g.stop()
		return nil, errors.Wrap(err, "reading the kubeconfig")
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + listener.Addr().String()
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		g.stop()
		return nil, errors.Wrap(err, "writing the kubeconfig of the provider")
	}
	return g, nil
}

func (g *gateway) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			request := APIRequest{Method: r.Method, Path: r.URL.Path, Body: string(body)}
			if m := g.take(func(m *moment) bool { return m.match(request) }); m != nil {
				if !m.after {
					m.call()
					panic(http.ErrAbortHandler)
				}
				// What was sent is done, whether or not who sent it lives to hear so.
				r = r.WithContext(context.WithValue(context.WithoutCancel(r.Context()), momentKey{}, m))
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (g *gateway) stop() {
	_ = g.server.Close()
	<-g.done
}

// kubeconfig is that of the provider.
func (l *Lab) kubeconfig() string {
	if l.gateway == nil {
		return l.ControlPlane.Kubeconfig
	}
	return filepath.Join(l.Directory, "provider.kubeconfig")
}
