package cloudstack

import (
	"strconv"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "request_duration_seconds",
		Help:    "Time of requests to the CloudStack API, by command and by the code of the answer (200, an error code, or none).",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 13),
	}, []string{"command", "code"})
	retries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "request_retries_total",
		Help: "Requests to the CloudStack API that were made again, by command.",
	}, []string{"command"})
	jobDurations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "job_duration_seconds",
		Help:    "Time from the request for a job to its end, by command and by the code of its result (200, an error code, or none).",
		Buckets: prometheus.ExponentialBuckets(0.25, 2, 12),
	}, []string{"command", "code"})
	jobsWaited = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "jobs_waited_for",
		Help: "Jobs of CloudStack that are waited for now.",
	})
)

func init() { metrics.Registry.MustRegister(requests, retries, jobDurations, jobsWaited) }

// codeLabel is the code of an answer, "none" where there was no answer.
func codeLabel(err error) string {
	var e *Error
	switch {
	case err == nil:
		return "200"
	case errors.As(err, &e):
		return strconv.Itoa(e.Code)
	default:
		return "none"
	}
}

func observe(command string, err error, took time.Duration) {
	requests.WithLabelValues(command, codeLabel(err)).Observe(took.Seconds())
}
