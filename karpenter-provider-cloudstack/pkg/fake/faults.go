package fake

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Fault is something that goes wrong with requests of a command.
type Fault struct {
	// Command is the command, such as deployVirtualMachine; empty for all.
	Command string
	// Match chooses among the requests of the command; nil for all.
	Match func(Request) bool
	// Times is how often it happens. 0: until it is taken back.
	Times int
	// Probability is how likely it happens, of those requests that it could happen to. 0: always. Those it spares do not count in Times.
	Probability float64

	// Delay has the request wait before anything else happens.
	Delay time.Duration
	// Before is called before the work, and After once it is done but not answered. Neither may call the API and wait for it.
	Before, After func(Request)
	// Drop closes the connection before the work: nothing is done, nothing answered. A GET on a connection that was used before is made
	// again by net/http itself: to have a client notice, drop more than one.
	Drop bool
	// Status answers with an HTTP status and a body that is not of CloudStack, as what stands between does. Nothing is done.
	Status int
	// Code and Text answer with an error of CloudStack, ExceptionCode is its cserrorcode. Nothing is done.
	Code, ExceptionCode int
	Text                string
	// LoseAnswer closes the connection after the work.
	LoseAnswer bool
	// JobCode and JobText fail the job. A machine that is deployed goes to Error; one that is destroyed stays as it is.
	JobCode int
	JobText string
}

type plannedFault struct {
	Fault
	used int
	off  bool
}

// Fail plans a fault. Of those that are planned for a request, the one planned first happens. It returns what takes the fault back.
func (c *CloudStack) Fail(fault Fault) (takeBack func()) {
	defer c.lock()()
	planned := &plannedFault{Fault: fault}
	c.faults = append(c.faults, planned)
	return func() {
		defer c.lock()()
		planned.off = true
	}
}

// ClearFaults takes all faults back.
func (c *CloudStack) ClearFaults() {
	defer c.lock()()
	for _, fault := range c.faults {
		fault.off = true
	}
	c.faults = nil
}

// faultOf is what goes wrong with a request. c is locked.
func (c *CloudStack) faultOf(request Request) Fault {
	c.faults = slices.DeleteFunc(c.faults, func(f *plannedFault) bool { return f.off || f.Times > 0 && f.used >= f.Times })
	for _, fault := range c.faults {
		if fault.Command != "" && fault.Command != request.Command || fault.Match != nil && !fault.Match(request) {
			continue
		}
		if fault.Probability > 0 && c.random.Float64() >= fault.Probability {
			continue
		}
		fault.used++
		return fault.Fault
	}
	return Fault{}
}

// Request is a request that was made. There is no credential in it.
type Request struct {
	// At is when it was made, by the clock of the CloudStack.
	At time.Time
	// Command is the command.
	Command string
	// Method is GET or POST.
	Method string
	// Parameters are the parameters without keys and signature; of user data, there is only how long it is.
	Parameters map[string]string
	// Code is 200 or the error code that was answered; 0 where nothing was.
	Code int
	// JobID is the id of the job that it began.
	JobID string
}

// Requests are those that were made, the oldest first, as many as Options.KeepRequests.
func (c *CloudStack) Requests() []Request {
	defer c.lock()()
	requests := slices.Clone(c.requests)
	for i := range requests {
		requests[i].Parameters = maps.Clone(requests[i].Parameters)
	}
	return requests
}

// Counts are how many requests were made of each command since ResetRequests.
func (c *CloudStack) Counts() map[string]int {
	defer c.lock()()
	return maps.Clone(c.counts)
}

// ResetRequests forgets which requests were made.
func (c *CloudStack) ResetRequests() {
	defer c.lock()()
	c.requests = nil
	clear(c.counts)
}

// remember keeps a request. c is locked.
func (c *CloudStack) remember(request Request) {
	c.counts[request.Command]++
	if len(c.requests) >= 2*c.options.KeepRequests {
		c.requests = slices.Clone(c.requests[len(c.requests)-c.options.KeepRequests:])
	}
	c.requests = append(c.requests, request)
}

// drop closes the connection without an answer.
func drop() { panic(http.ErrAbortHandler) }
