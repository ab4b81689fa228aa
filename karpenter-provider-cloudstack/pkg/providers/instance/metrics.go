package instance

import (
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

var (
	created = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "machines_created_total",
		Help: "Machines that were made, by zone and capacity type.",
	}, []string{"zone", "capacity_type"})
	launchDurations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "launch_duration_seconds",
		Help:    "Time until a machine runs, with all that was tried in vain before, by zone.",
		Buckets: prometheus.ExponentialBuckets(0.5, 2, 10),
	}, []string{"zone"})
	launchFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "launch_failures_total",
		Help: "Launches that ended without a machine, by reason.",
	}, []string{"reason"})
	destroys = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "machines_destroyed_total",
		Help: "Machines that CloudStack was asked to destroy, by whether they are expunged.",
	}, []string{"expunge"})
	destroyFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "destroy_failures_total",
		Help: "Requests to destroy a machine that failed, at once or later.",
	})
)

func init() {
	metrics.Registry.MustRegister(created, launchDurations, launchFailures, destroys, destroyFailures)
}

// reasonOf is the reason of an error of Create.
func reasonOf(err error) string {
	var e *cloudprovider.CreateError
	switch {
	case cloudprovider.IsInsufficientCapacityError(err):
		return ReasonNoCapacity
	case errors.As(err, &e):
		return e.ConditionReason
	}
	return ReasonLaunchFailed
}
