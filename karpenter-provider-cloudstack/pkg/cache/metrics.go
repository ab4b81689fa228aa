package cache

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	hits   = counter("cache_hits_total", "Questions that a cache answered, by cache.")
	misses = counter("cache_misses_total", "Questions that a cache had to ask CloudStack or to calculate, by cache.")
	stale  = counter("cache_stale_total", "Answers of a cache that were old, as CloudStack could not be asked, by cache.")
)

func counter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "karpenter", Subsystem: "cloudstack", Name: name, Help: help}, []string{"cache"})
}

func init() { metrics.Registry.MustRegister(hits, misses, stale) }

// Hit counts a question that the cache of that name answered. Caches of other kinds count with it too.
func Hit(name string) { hits.WithLabelValues(name).Inc() }

// Miss counts a question that the cache of that name could not answer.
func Miss(name string) { misses.WithLabelValues(name).Inc() }
