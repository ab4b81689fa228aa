// Package fault makes emulated clouds fail on demand, so that what provisions on them can be tested for surviving it.
//
// A [Plan] says what goes wrong: which kind of fault strikes the requests of which route, after how many of them, and how often.
// [New] makes an emulated cloud together with the [Injector] that puts a plan into force:
//
//	cloud, faults, err := fault.New(civo.New, emulator.Options{}, fault.Plan{Faults: []fault.Fault{
//		{Kind: fault.LostAnswer, Route: "POST /v2/kubernetes/clusters", Count: 1},
//	}})
//
// Plans are also read from YAML ([Parse]), and changed over HTTP while the cloud is served ([Injector.Handler]).
//
// A run repeats: probabilities are drawn from generators that start from the plan's seed, one a fault, so that whether the n-th
// request of a fault's route is struck depends on the seed and n alone, not on the time or on other requests.
package fault

import (
	"encoding/json"
	"math"
	"net/http"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// Kind is what goes wrong.
type Kind string

// The kinds. The first three groups decide what is answered; a request is struck by one of those at most. The others can be
// combined with one another and with those before them.
const (
	// RateLimit answers 429, with a Retry-After header when the fault has one. The work is not done.
	RateLimit Kind = "rate_limit"
	// ServerError answers 500, 502, 503 or 504. The work is not done.
	ServerError Kind = "server_error"
	// Quota answers that the account may hold no more. The work is not done.
	Quota Kind = "quota"
	// Capacity answers that the region has no machines left. The work is not done.
	Capacity Kind = "capacity"
	// RevokeToken answers 401 to this request and, until the plan is lifted, to all later ones with the same token.
	RevokeToken Kind = "revoke_token"

	// Reset resets the connection before the work is done. Go's HTTP transport sends some requests again by itself when that
	// happens on a connection that was used before: those with GET, and others that are safe.
	Reset Kind = "reset"
	// LostAnswer does the work and resets the connection in place of an answer.
	LostAnswer Kind = "lost_answer"
	// Truncate does the work and answers the first half of the body.
	Truncate Kind = "truncate"

	// Latency lets Duration pass before anything else.
	Latency Kind = "latency"

	// Stuck keeps what the request begins under way for Duration, at least, or until the plan is lifted: clusters, node pools and
	// nodes stay in building, upgrading or deleting.
	Stuck Kind = "stuck"
	// Unseen keeps what the request creates out of reads for Duration or until the plan is lifted, as clouds that are eventually
	// consistent do.
	Unseen Kind = "unseen"
	// Linger lets a cluster that the request deletes count as a member of its network for Duration after it is gone, or until the
	// plan is lifted: the network cannot be deleted meanwhile.
	Linger Kind = "linger"
)

// Plan is what goes wrong with a cloud. The zero Plan is nothing.
type Plan struct {
	// Seed is where the generators of Probability start.
	Seed uint64
	// Faults are asked in this order whether they strike a request, until one decides the answer.
	Faults []Fault
}

// Fault is one thing that goes wrong. Kind and Route are required.
type Fault struct {
	Kind Kind
	// Cloud is civo or digitalocean for a fault of that cloud alone, "" for one of any.
	Cloud string
	// Route is which requests can be struck: a method or *, and a pattern of [emulator.MatchPath], such as
	// "POST /v2/kubernetes/clusters" or "* /v2/**".
	Route string
	// After is how many requests of the route are let through first.
	After int
	// Count is how often the fault strikes, 0 for each time.
	Count int
	// Probability is with which the fault strikes when it could, above 0 and up to 1; 0 means 1.
	Probability float64
	// Duration is that of latency, stuck, unseen and linger, up to a day. 0, which latency cannot have, is until the plan is lifted.
	// It is in real time, whatever the cloud's time scale.
	Duration time.Duration
	// Status is that of server_error, 0 for 500.
	Status int
	// RetryAfter is what rate_limit, and server_error with 503, ask a client to wait, up to a day, in whole seconds (parts are
	// rounded up). With 0 there is no Retry-After header.
	RetryAfter time.Duration
}

// trait is what a kind is.
type trait struct {
	// decides the answer, so that no later fault is asked.
	decides bool
	// What of a Fault it has.
	duration, status, retryAfter bool
}

var kinds = map[Kind]trait{
	RateLimit:   {decides: true, retryAfter: true},
	ServerError: {decides: true, status: true, retryAfter: true},
	Quota:       {decides: true},
	Capacity:    {decides: true},
	RevokeToken: {decides: true},
	Reset:       {decides: true},
	LostAnswer:  {decides: true},
	Truncate:    {decides: true},
	Latency:     {duration: true},
	Stuck:       {duration: true},
	Unseen:      {duration: true},
	Linger:      {duration: true},
}

// Kinds are all kinds, in the order in which this package describes them.
func Kinds() []Kind {
	return []Kind{
		RateLimit, ServerError, Quota, Capacity, RevokeToken, Reset, LostAnswer, Truncate, Latency, Stuck, Unseen, Linger,
	}
}

// longest is the most that a duration can be. It is more than a test waits, and keeps instants within what JSON can say.
const longest = 24 * time.Hour

// Validate tells what is wrong with a plan; the error names the first fault that makes no sense, by its number from 1.
func (p Plan) Validate() error {
	for n, fault := range p.Faults {
		if err := fault.validate(); err != nil {
			return errors.Wrapf(err, "fault %d", n+1)
		}
	}
	return nil
}

// fieldError says which field of a fault is wrong, by the name it has in a file.
type fieldError struct {
	field  string
	reason error
}

// Error names the field.
func (e *fieldError) Error() string { return e.field + ": " + e.reason.Error() }

func wrong(field, format string, args ...any) error {
	return &fieldError{field, errors.Errorf(format, args...)}
}

func (f Fault) validate() error {
	is, known := kinds[f.Kind]
	if !known {
		return wrong("kind", "%q is none of %v", f.Kind, Kinds())
	}
	if f.Cloud != "" && f.Cloud != "civo" && f.Cloud != "digitalocean" {
		return wrong("cloud", "%q is neither civo nor digitalocean", f.Cloud)
	}
	if _, _, err := emulator.SplitRoute(f.Route); err != nil {
		return &fieldError{"route", err}
	}
	if f.After < 0 {
		return wrong("after", "%d is negative", f.After)
	}
	if f.Count < 0 {
		return wrong("count", "%d is negative", f.Count)
	}
	if f.Probability < 0 || f.Probability > 1 || math.IsNaN(f.Probability) {
		return wrong("probability", "%v is not between 0 and 1", f.Probability)
	}
	switch {
	case f.Duration < 0 || f.Duration > longest:
		return wrong("duration", "%v is not between 0 and %v", f.Duration, longest)
	case f.Duration != 0 && !is.duration:
		return wrong("duration", "a fault of kind %s has none", f.Kind)
	case f.Duration == 0 && f.Kind == Latency:
		return wrong("duration", "a fault of kind %s needs one, such as 2s", f.Kind)
	}
	switch f.Status {
	case 0:
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if !is.status {
			return wrong("status", "a fault of kind %s has none", f.Kind)
		}
	default:
		return wrong("status", "%d is none of 500, 502, 503 and 504", f.Status)
	}
	switch {
	case f.RetryAfter < 0 || f.RetryAfter > longest:
		return wrong("retry_after", "%v is not between 0 and %v", f.RetryAfter, longest)
	case f.RetryAfter == 0:
	case !is.retryAfter:
		return wrong("retry_after", "a fault of kind %s has none", f.Kind)
	case f.Kind == ServerError && f.Status != http.StatusServiceUnavailable:
		return wrong("retry_after", "a server_error has one with status 503 alone")
	}
	return nil
}

// document is a fault as files and the admin route show it.
type document struct {
	Kind        Kind    `json:"kind"`
	Cloud       string  `json:"cloud,omitempty"`
	Route       string  `json:"route"`
	After       int     `json:"after,omitempty"`
	Count       int     `json:"count,omitempty"`
	Probability float64 `json:"probability,omitempty"`
	Duration    string  `json:"duration,omitempty"`
	Status      int     `json:"status,omitempty"`
	RetryAfter  string  `json:"retry_after,omitempty"`
}

// MarshalJSON writes the plan so that [Parse] reads it.
func (p Plan) MarshalJSON() ([]byte, error) {
	faults := []document{}
	for _, f := range p.Faults {
		faults = append(faults, document{
			Kind: f.Kind, Cloud: f.Cloud, Route: f.Route, After: f.After, Count: f.Count, Probability: f.Probability,
			Duration: durationText(f.Duration), Status: f.Status, RetryAfter: durationText(f.RetryAfter),
		})
	}
	return json.Marshal(struct {
		Seed   uint64     `json:"seed,omitempty"`
		Faults []document `json:"faults"`
	}{p.Seed, faults})
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
