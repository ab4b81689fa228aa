// Package reachability checks whether the API of CloudStack can be reached.
//
// The result is a metric and an answer over HTTP of its own, and no part of readiness: a controller that cannot reach CloudStack still
// leads, and restarting it helps nobody.
package reachability

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
)

// Path is where the metrics server answers what Monitor.ServeHTTP says.
const Path = "/cloudstackz"

// How many checks in a row turn the state. One lost request is no outage, and one answer no recovery.
const (
	failuresToFall    = 3
	successesToRise   = 2
	fasterWhenTurning = 3
)

// Reasons why the API cannot be used.
const (
	// ReasonNotChecked is for the time before the first check has ended.
	ReasonNotChecked = "NotChecked"
	// ReasonNoAnswer is for an API that does not answer, or with something that is not of CloudStack.
	ReasonNoAnswer = "NoAnswer"
	// ReasonUnauthorized is for credentials that CloudStack does not take.
	ReasonUnauthorized = "Unauthorized"
	// ReasonError is for an API that answers with an error.
	ReasonError = "Error"
)

var (
	reachable = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "api_reachable",
		Help: "Whether the CloudStack API can be used (1) or not (0). Three failed checks in a row make it 0, two that succeed make it 1.",
	})
	checks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "api_checks_total",
		Help: "Checks whether the CloudStack API can be used, by result: OK, NoAnswer, Unauthorized or Error.",
	}, []string{"result"})
	rateLimit = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "karpenter", Subsystem: "cloudstack", Name: "api_rate_limit",
		Help: "Requests to the CloudStack API a second at most: what the options say, or less where CloudStack tells a lower limit.",
	})
)

func init() { metrics.Registry.MustRegister(reachable, checks, rateLimit) }

// API is what a check asks.
type API interface {
	ListCapabilities(context.Context) (*cloudstack.Capability, error)
	// SetRate bounds the requests a second, and those at once.
	SetRate(perSecond float64, burst int)
}

// State is what is known of the API.
type State struct {
	// Reachable tells whether the API can be used.
	Reachable bool `json:"reachable"`
	// Reason says why not, one of the constants; empty when it can.
	Reason string `json:"reason,omitempty"`
	// Since is when Reachable became what it is.
	Since time.Time `json:"since"`
	// Version is the version of CloudStack; empty when it was never told.
	Version string `json:"version,omitempty"`
}

// Monitor checks whether the API can be used. It is safe for concurrent use.
type Monitor struct {
	api     API
	clock   clock.Clock
	period  time.Duration
	timeout time.Duration
	told    limit // by the options
	again   chan struct{}

	mu     sync.Mutex
	state  State
	streak int // checks in a row that say the opposite of the state
	limit  limit
}

// limit is what the client is bound to.
type limit struct {
	perSecond float64
	burst     int
}

// NewMonitor makes a monitor. It makes no request.
func NewMonitor(api API, clk clock.Clock, o *options.Options) *Monitor {
	rateLimit.Set(o.APIRate)
	return &Monitor{
		api: api, clock: clk, period: o.CheckPeriod, timeout: o.APITimeout, told: limit{o.APIRate, o.APIBurst}, limit: limit{o.APIRate, o.APIBurst},
		again: make(chan struct{}, 1), state: State{Reason: ReasonNotChecked, Since: clk.Now()},
	}
}

// State is what is known now.
func (m *Monitor) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Now has the next check made at once.
func (m *Monitor) Now() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// Start implements manager.Runnable: it checks until the context ends. Where the last checks contradict the state, the next comes sooner.
func (m *Monitor) Start(ctx context.Context) error {
	for {
		m.check(ctx)
		pause := m.period
		if m.turning() {
			pause /= fasterWhenTurning
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-m.again:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: whether the one that waits to lead could is good to know before it does.
func (*Monitor) NeedLeaderElection() bool { return false }

// turning tells whether another check or two could turn the state.
func (m *Monitor) turning() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.streak > 0
}

func (m *Monitor) check(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	capability, err := m.api.ListCapabilities(asking)
	if ctx.Err() != nil {
		return
	}
	reason := reasonOf(err)
	if reason == "" {
		checks.WithLabelValues("OK").Inc()
	} else {
		checks.WithLabelValues(reason).Inc()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.state.Version = capability.Cloudstackversion
		m.follow(ctx, capability)
	}
	never := m.state.Reason == ReasonNotChecked
	switch {
	case (reason == "") == m.state.Reachable && !never:
		m.streak = 0
		m.state.Reason = reason
		return
	case never && reason == "":
		// Nothing contradicts the first answer.
		m.streak = successesToRise
	default:
		m.streak++
	}
	if reason == "" && m.streak < successesToRise || reason != "" && m.streak < failuresToFall {
		return
	}
	m.streak = 0
	m.state.Reachable, m.state.Reason, m.state.Since = reason == "", reason, m.clock.Now()
	if reason == "" {
		reachable.Set(1)
		log.FromContext(ctx).Info("CloudStack can be reached", "version", m.state.Version)
		return
	}
	reachable.Set(0)
	log.FromContext(ctx).Error(err, "CloudStack cannot be used", "reason", reason)
}

// reasonOf says why the API cannot be used after that answer; empty when it can. Whoever is throttled is known and heard.
func reasonOf(err error) string {
	switch {
	case err == nil, cloudstack.IsThrottled(err):
		return ""
	case cloudstack.IsUnauthorized(err):
		return ReasonUnauthorized
	case cloudstack.IsUnknownResult(err):
		return ReasonNoAnswer
	}
	return ReasonError
}

// follow takes over the limit that CloudStack tells. What is sent at once and what follows it within a window are no more than that
// together, whenever the window begins.
func (m *Monitor) follow(ctx context.Context, capability *cloudstack.Capability) {
	next := m.told
	most, seconds := float64(capability.Apilimitmax), float64(capability.Apilimitinterval)
	if most > 0 && seconds > 0 && float64(next.burst)+next.perSecond*seconds > most {
		next.burst = max(1, min(next.burst, capability.Apilimitmax/10))
		next.perSecond = min(next.perSecond, max(0.5, most-float64(next.burst))/seconds)
	}
	if next == m.limit {
		return
	}
	m.limit = next
	m.api.SetRate(next.perSecond, next.burst)
	rateLimit.Set(next.perSecond)
	log.FromContext(ctx).Info("requests to CloudStack are limited", "perSecond", next.perSecond, "burst", next.burst)
}

// ServeHTTP answers 200 when the API can be used and 503 when not, and the state in JSON.
func (m *Monitor) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	state := m.State()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !state.Reachable {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(state)
}
