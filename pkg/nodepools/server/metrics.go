package server

import (
	"net/http"
	"runtime"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the server's own.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	running  prometheus.Gauge
	limited  prometheus.Counter
	watches  prometheus.Gauge
}

func newMetrics(options Options) (*metrics, error) {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "nodepools_build_info", Help: "1, with the version of the program in the labels.",
		ConstLabels: prometheus.Labels{"version": options.Version, "commit": options.Commit, "goversion": runtime.Version()},
	})
	build.Set(1)
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodepools_http_requests_total", Help: "Requests by method, path template and status.",
		}, []string{"method", "route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "nodepools_http_request_duration_seconds", Help: "Time to answer a request; of a watch, how long it lasted.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"method", "route"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "nodepools_http_requests_running", Help: "Requests that are being answered."}),
		limited: prometheus.NewCounter(prometheus.CounterOpts{Name: "nodepools_http_requests_limited_total", Help: "Requests refused by the rate limit."}),
		watches: prometheus.NewGauge(prometheus.GaugeOpts{Name: "nodepools_watches", Help: "Watches that are open, over HTTP and gRPC."}),
	}
	for _, collector := range []prometheus.Collector{build, m.requests, m.duration, m.running, m.limited, m.watches} {
		if err := options.Registry.Register(collector); err != nil {
			return nil, errors.Wrap(err, "register metrics")
		}
	}
	return m, nil
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if !s.options.OpenMetrics {
		var err error
		if r, err = s.identify(r); err != nil {
			s.answer(w, r, err)
			return
		}
	}
	s.Metrics().ServeHTTP(w, r)
}

// Metrics serves the metrics alone, to whoever asks: for a listener of its own.
func (s *Server) Metrics() http.Handler {
	return promhttp.HandlerFor(s.options.Registry, promhttp.HandlerOpts{})
}
