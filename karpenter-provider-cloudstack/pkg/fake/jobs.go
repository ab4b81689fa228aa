package fake

import (
	"slices"
	"time"
)

// Statuses of jobs.
const (
	jobPending = iota
	jobSucceeded
	jobFailed
)

// job is something that takes time.
type job struct {
	id, command          string
	created, due         time.Time
	machineID            string
	status               int
	result               object
	failure              *failure
	run                  func() (object, *failure)
	instanceType, target string
}

// begin begins a job, which ends after the latency. Jobs of one machine come one after the other. c is locked.
func (c *CloudStack) begin(command string, machine *VM, latency time.Duration, run func() (object, *failure)) *job {
	now := c.clock.Now()
	j := &job{id: c.newID("job"), command: command, created: now, due: now.Add(latency), run: run}
	if machine != nil {
		j.machineID, j.instanceType, j.target = machine.ID, "VirtualMachine", machine.ID
		if machine.busy.After(now) {
			j.due = machine.busy.Add(latency)
		}
		machine.busy = j.due
	}
	c.jobs[j.id] = j
	// Of jobs that end at the same time, the one that began first ends first.
	at, _ := slices.BinarySearchFunc(c.queue, j, func(one, added *job) int {
		if one.due.After(added.due) {
			return 1
		}
		return -1
	})
	c.queue = slices.Insert(c.queue, at, j)
	// The clock may call this with a lock of its own held.
	c.clock.AfterFunc(j.due.Sub(now), func() { go c.Settle() })
	return j
}

func (c *CloudStack) latency(command string) time.Duration {
	return c.options.JobLatency(command, c.random)
}

// Settle ends the jobs that are due. Requests do so first, and a timer does; tests that move the clock may want it at once.
func (c *CloudStack) Settle() {
	defer c.lock()()
	c.settle()
}

func (c *CloudStack) settle() {
	now := c.clock.Now()
	for len(c.queue) > 0 && !c.queue[0].due.After(now) {
		j := c.queue[0]
		c.queue = c.queue[1:]
		j.result, j.failure = j.run()
		j.status = jobSucceeded
		if j.failure != nil {
			j.status = jobFailed
		}
		j.run = nil
	}
}

// PendingJobs is how many jobs have not ended.
func (c *CloudStack) PendingJobs() int {
	defer c.lock()()
	c.settle()
	return len(c.queue)
}

// ForgetJobs has the results of all jobs forgotten, as CloudStack does after a while. Those under way go on.
func (c *CloudStack) ForgetJobs() {
	defer c.lock()()
	c.settle()
	clear(c.jobs)
}

func (c *CloudStack) queryAsyncJobResult(p parameters) (object, *failure) {
	id := p["jobid"]
	if id == "" {
		return nil, missing("queryasyncjobresult", "jobid")
	}
	j := c.jobs[id]
	if j == nil {
		return nil, unknownID("jobid", id)
	}
	answer := object{
		"accountid": idOf("account", Account), "userid": idOf("user", Account), "cmd": j.command, "jobid": j.id,
		"jobprocstatus": 0, "jobresultcode": 0, "jobstatus": j.status, "created": j.created.Format(timeLayout),
		"jobinstancetype": j.instanceType, "jobinstanceid": j.target,
	}
	switch j.status {
	case jobSucceeded:
		answer["jobresulttype"], answer["jobresult"] = "object", j.result
	case jobFailed:
		answer["jobresulttype"], answer["jobresultcode"] = "object", j.failure.code
		answer["jobresult"] = object{"errorcode": j.failure.code, "errortext": j.failure.text}
	}
	return answer, nil
}

// event is something that hooks are told.
type event struct {
	kind    eventKind
	machine VM
}

// eventKind is what became of a machine.
type eventKind int

// Kinds of events: a machine runs, for the first time or again; it was stopped, and may be started again; it was destroyed, expunged or
// removed.
const (
	eventRunning eventKind = iota
	eventStopped
	eventGone
)

type hook struct {
	id   int
	kind eventKind
	call func(VM)
}

// OnRunning has a function called with each machine that runs from now on. It returns what ends that. Hooks are called one after the
// other, in the order of what happened, and may call methods of c.
func (c *CloudStack) OnRunning(call func(VM)) (stop func()) { return c.on(eventRunning, call) }

// OnStopped is like OnRunning, for machines that stop and still are there.
func (c *CloudStack) OnStopped(call func(VM)) (stop func()) { return c.on(eventStopped, call) }

// OnGone is like OnRunning, for machines that are destroyed, expunged or removed.
func (c *CloudStack) OnGone(call func(VM)) (stop func()) { return c.on(eventGone, call) }

func (c *CloudStack) on(kind eventKind, call func(VM)) func() {
	defer c.lock()()
	c.numbers++
	id := int(c.numbers) // counts
	c.hooks = append(c.hooks, hook{id: id, kind: kind, call: call})
	return func() {
		defer c.lock()()
		c.hooks = slices.DeleteFunc(slices.Clone(c.hooks), func(h hook) bool { return h.id == id })
	}
}

func (c *CloudStack) tell(kind eventKind, machine *VM) {
	c.events = append(c.events, event{kind: kind, machine: machine.copy()})
}

// dispatch calls the hooks, without a lock. Only one does at a time: whoever comes meanwhile leaves its events to that one.
func (c *CloudStack) dispatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dispatching {
		return
	}
	c.dispatching = true
	for len(c.events) > 0 {
		one := c.events[0]
		c.events = c.events[1:]
		hooks := slices.Clone(c.hooks)
		c.mu.Unlock()
		for _, h := range hooks {
			if h.kind == one.kind {
				h.call(one.machine)
			}
		}
		c.mu.Lock()
	}
	c.dispatching = false
}
