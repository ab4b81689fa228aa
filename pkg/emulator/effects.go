package emulator

import (
	"context"
	"math"
	"net"
	"net/http"
	"time"
)

// Forever is longer than any test runs: what takes so long ends when the cloud is healed.
const Forever = time.Duration(math.MaxInt64)

// Effects are what an Options.Intercept asks a cloud to do, beyond what a request asks, to the objects that the request changes.
// All of them are in real time, whatever Options.TimeScale says, and end at the latest when the cloud's Heal is called. The zero
// value asks for nothing.
type Effects struct {
	// Stuck is how long, at least, what the request begins is under way: a cluster stays in building, upgrading or deleting, and
	// so do nodes and node pools. What the clouds do at once, such as the deletion of a network, does not get stuck.
	Stuck time.Duration
	// Unseen is how long what the request creates is missing from reads. Writes find it, and so do the methods of tests.
	Unseen time.Duration
	// Linger is how long, at least, a cluster that the request deletes still counts as a member of its network after it is gone.
	Linger time.Duration
}

type effectsKey struct{}

// WithEffects is a context for a request that has effects.
func WithEffects(ctx context.Context, effects Effects) context.Context {
	return context.WithValue(ctx, effectsKey{}, effects)
}

// EffectsOf are the effects that a request's context holds, the zero value when it holds none.
func EffectsOf(ctx context.Context) Effects {
	effects, _ := ctx.Value(effectsKey{}).(Effects)
	return effects
}

// Refusal is a reason that lies with the cloud, not with the request, for not doing what was asked.
type Refusal struct {
	Reason Reason
	// Status is the HTTP status of a ReasonServerError: 500, 502, 503 or 504. The other reasons have their cloud's.
	Status int
}

// Reason says what is wrong with a cloud; see [Refusal].
type Reason int

// The reasons.
const (
	// ReasonServerError is a defect or an outage.
	ReasonServerError Reason = iota
	// ReasonRateLimit is too many requests, 429.
	ReasonRateLimit
	// ReasonQuota is an account that may hold no more.
	ReasonQuota
	// ReasonCapacity is a region that has no machines left.
	ReasonCapacity
	// ReasonUnauthorized is a token that is not, or no longer, valid.
	ReasonUnauthorized
)

// gatewayPage is what a load balancer in front of an API answers when the API does not.
const gatewayPage = "<html>\r\n<head><title>%[1]d %[2]s</title></head>\r\n<body>\r\n<center><h1>%[1]d %[2]s</h1></center>\r\n</body>\r\n</html>\r\n"

// WriteGatewayError answers as a load balancer does when the API behind it is down: a page of HTML, which clients that expect
// JSON stumble over.
func WriteGatewayError(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	writeText(w, gatewayPage, status, http.StatusText(status))
}

// notes are what an Options.Intercept tells [Handler] of a request.
type notes struct {
	faults []string
	drop   bool
}

type notesKey struct{}

// NoteFault has the log say that a fault struck a request; see Request.Faults. An Options.Intercept calls it.
func NoteFault(r *http.Request, name string) {
	if noted, ok := r.Context().Value(notesKey{}).(*notes); ok {
		noted.faults = append(noted.faults, name)
	}
}

// DropConnection has the request's connection reset in place of an answer, once the request is in the log and the Options.Intercept
// that calls it has returned, which must not have answered.
func DropConnection(r *http.Request) {
	noted, ok := r.Context().Value(notesKey{}).(*notes)
	if !ok {
		panic(http.ErrAbortHandler) // not behind Handler
	}
	noted.drop = true
}

// reset ends a connection without an answer, by a TCP reset where there is a connection to be had.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // what is closed without lingering is reset
	}
	_ = connection.Close()
}
