package fault

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// Cloud is what the injector needs of an emulated cloud.
type Cloud interface {
	http.Handler
	// Name is what Fault.Cloud calls it.
	Name() string
	// Requests are the latest requests that it was sent, oldest first.
	Requests() []emulator.Request
	// Refuse answers a request in the cloud's own words.
	Refuse(w http.ResponseWriter, r *http.Request, refusal emulator.Refusal)
	// Heal ends what [emulator.Effects] began.
	Heal() error
}

// Injector puts a plan into force on one emulated cloud. Its methods may be called from several goroutines.
type Injector struct {
	cloud Cloud
	// inner is the Intercept that the cloud's options had, if any. It comes after the faults.
	inner func(http.ResponseWriter, *http.Request, http.Handler)

	// serving is held, shared, while a request is at the cloud, so that nothing of a plan happens after it was lifted.
	serving sync.RWMutex
	run     *run
}

// Strike is one time that a fault struck.
type Strike struct {
	// Fault is the fault's number in the plan, from 0.
	Fault int  `json:"fault"`
	Kind  Kind `json:"kind"`
	// Method and Path are the request's.
	Method string `json:"method"`
	Path   string `json:"path"`
}

// strikesKept bounds the memory of what strikes a cloud for days.
const strikesKept = 10_000

// New makes an emulated cloud by its package's New, with a plan in force. The options' own Intercept, if any, comes after the faults.
func New[C Cloud](newCloud func(emulator.Options) (C, error), options emulator.Options, plan Plan) (C, *Injector, error) {
	var none C
	if err := plan.Validate(); err != nil {
		return none, nil, err
	}
	injector := &Injector{inner: options.Intercept}
	options.Intercept = injector.intercept
	cloud, err := newCloud(options)
	if err != nil {
		return none, nil, err
	}
	injector.cloud = cloud
	injector.run = newRun(plan, cloud.Name())
	return cloud, injector, nil
}

// Set lifts the plan that is in force, as Lift does, and puts another one in its place.
func (i *Injector) Set(plan Plan) error {
	if err := plan.Validate(); err != nil {
		return err
	}
	next := newRun(plan, i.cloud.Name())
	// Whoever waits out a latency stops waiting, so that the lock is to be had.
	i.serving.RLock()
	current := i.run
	i.serving.RUnlock()
	current.lift()

	i.serving.Lock()
	defer i.serving.Unlock()
	i.run.lift() // another one, when Set is called twice at once
	i.run = next
	return errors.Wrap(i.cloud.Heal(), "heal the cloud")
}

// Lift ends all faults: none strikes any more, tokens are valid again, and what is stuck, unseen or lingering is no longer. Requests
// that wait are served. The cloud's ordinary slowness stays.
func (i *Injector) Lift() error { return i.Set(Plan{}) }

// Plan is what is in force.
func (i *Injector) Plan() Plan {
	plan := i.current().plan
	plan.Faults = append([]Fault(nil), plan.Faults...)
	return plan
}

// Strikes are the latest strikes of the plan that is in force, oldest first.
func (i *Injector) Strikes() []Strike {
	run := i.current()
	run.mu.Lock()
	defer run.mu.Unlock()
	return append([]Strike(nil), run.strikes...)
}

func (i *Injector) current() *run {
	i.serving.RLock()
	defer i.serving.RUnlock()
	return i.run
}

// run is the time that one plan is in force.
type run struct {
	plan   Plan
	lifted chan struct{}
	lift   func()

	mu      sync.Mutex
	active  []*active
	revoked map[[sha256.Size]byte]bool
	strikes []Strike
}

// active is a fault and how far it is.
type active struct {
	Fault
	number       int
	method, path string
	seen, struck int
	random       *rand.Rand
}

func newRun(plan Plan, cloud string) *run {
	plan.Faults = append([]Fault(nil), plan.Faults...)
	r := &run{plan: plan, lifted: make(chan struct{}), revoked: map[[sha256.Size]byte]bool{}}
	r.lift = sync.OnceFunc(func() { close(r.lifted) })
	for number, fault := range plan.Faults {
		if fault.Cloud != "" && fault.Cloud != cloud {
			continue
		}
		method, path, _ := emulator.SplitRoute(fault.Route) // the plan is valid
		r.active = append(r.active, &active{
			Fault: fault, number: number, method: method, path: path,
			random: rand.New(rand.NewPCG(plan.Seed, uint64(number))),
		})
	}
	return r
}

// hit is what faults do to one request.
type hit struct {
	latency time.Duration
	effects emulator.Effects
	// answer is the fault that decides the answer, nil when the cloud does.
	answer *Fault
}

// strike tells which faults strike a request.
func (r *run) strike(request *http.Request) hit {
	r.mu.Lock()
	defer r.mu.Unlock()
	token := sha256.Sum256([]byte(emulator.BearerToken(request)))
	if r.revoked[token] {
		emulator.NoteFault(request, string(RevokeToken))
		return hit{answer: &Fault{Kind: RevokeToken}}
	}
	var h hit
	for _, fault := range r.active {
		if !fault.strikes(request) {
			continue
		}
		emulator.NoteFault(request, string(fault.Kind))
		if len(r.strikes) >= strikesKept {
			r.strikes = append([]Strike(nil), r.strikes[strikesKept/2:]...)
		}
		r.strikes = append(r.strikes, Strike{Fault: fault.number, Kind: fault.Kind, Method: request.Method, Path: request.URL.Path})
		duration := fault.Duration
		if duration == 0 {
			duration = emulator.Forever
		}
		switch fault.Kind {
		case Latency:
			h.latency += fault.Duration
		case Stuck:
			h.effects.Stuck = max(h.effects.Stuck, duration)
		case Unseen:
			h.effects.Unseen = max(h.effects.Unseen, duration)
		case Linger:
			h.effects.Linger = max(h.effects.Linger, duration)
		case RevokeToken:
			r.revoked[token] = true
		}
		if kinds[fault.Kind].decides {
			h.answer = &fault.Fault
			return h
		}
	}
	return h
}

// strikes counts the request, and tells whether this one is struck.
func (a *active) strikes(request *http.Request) bool {
	if a.method != "*" && a.method != request.Method || !emulator.MatchPath(a.path, request.URL.Path) {
		return false
	}
	a.seen++
	if a.seen <= a.After || a.Count > 0 && a.struck >= a.Count {
		return false
	}
	if a.Probability > 0 && a.random.Float64() >= a.Probability {
		return false
	}
	a.struck++
	return true
}

// intercept is the Options.Intercept of the cloud.
func (i *Injector) intercept(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if i.inner != nil {
		cloud := next
		next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { i.inner(w, r, cloud) })
	}
	run := i.current()
	h := run.strike(r)
	if h.latency > 0 {
		// A client that gives up does not keep the cloud from doing the work.
		timer := time.NewTimer(h.latency)
		select {
		case <-timer.C:
		case <-r.Context().Done():
		case <-run.lifted:
		}
		timer.Stop()
	}

	i.serving.RLock()
	defer i.serving.RUnlock()
	select {
	case <-run.lifted: // meanwhile
		h = hit{}
	default:
	}
	if h.effects != (emulator.Effects{}) {
		r = r.WithContext(emulator.WithEffects(r.Context(), h.effects))
	}
	if h.answer == nil {
		next.ServeHTTP(w, r)
		return
	}
	i.answer(w, r, next, *h.answer)
}

// answer does what a fault that decides the answer does.
func (i *Injector) answer(w http.ResponseWriter, r *http.Request, next http.Handler, fault Fault) {
	refusal := emulator.Refusal{}
	switch fault.Kind {
	case Reset:
		emulator.DropConnection(r)
		return
	case LostAnswer:
		next.ServeHTTP(&answer{header: http.Header{}}, r)
		emulator.DropConnection(r)
		return
	case Truncate:
		whole := &answer{header: http.Header{}}
		next.ServeHTTP(whole, r)
		whole.writeHalf(w)
		return
	case RateLimit:
		refusal.Reason = emulator.ReasonRateLimit
	case Quota:
		refusal.Reason = emulator.ReasonQuota
	case Capacity:
		refusal.Reason = emulator.ReasonCapacity
	case RevokeToken:
		refusal.Reason = emulator.ReasonUnauthorized
	default:
		refusal.Status = fault.Status
		if refusal.Status == 0 {
			refusal.Status = http.StatusInternalServerError
		}
	}
	if fault.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((fault.RetryAfter+time.Second-1)/time.Second)))
	}
	i.cloud.Refuse(w, r, refusal)
}

// answer keeps what the cloud answers.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is that of the answer.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the first status.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write keeps a part of the body.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// writeHalf sends the answer with half of its body, which is not JSON: what opens a JSON document is in the first half, what closes
// it is not.
func (a *answer) writeHalf(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	half := a.body.Bytes()[:a.body.Len()/2]
	w.Header().Set("Content-Length", strconv.Itoa(len(half)))
	a.WriteHeader(http.StatusOK)
	if a.status == http.StatusNoContent {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(half) // a client that went away is none of the cloud's business
}
