package cloudstack

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
)

// Statuses of jobs.
const (
	jobPending   = 0
	jobSucceeded = 1
	jobFailed    = 2
)

// Job is something that CloudStack has begun.
type Job struct {
	// ID is the id of the job; empty where there is none, and so nothing to wait for.
	ID string
	// Command is what began it.
	Command string

	began time.Time
}

func newJob(command, id string) Job { return Job{ID: id, Command: command, began: time.Now()} }

// WaitForJob waits until a job has ended. The error is an *Error where the job failed, and that of the context where it ended first: the
// job goes on then. A job that CloudStack no longer knows is a *Error of IsNotFound: what became of it must be looked up.
func (c *Client) WaitForJob(ctx context.Context, job Job) error {
	if job.ID == "" {
		return nil
	}
	jobsWaited.Inc()
	defer jobsWaited.Dec()
	err := c.jobs.wait(ctx, job)
	if ctx.Err() == nil {
		jobDurations.WithLabelValues(job.Command, codeLabel(err)).Observe(time.Since(job.began).Seconds())
	}
	return err
}

// jobPoller looks at jobs for all who wait. A job that several wait for is looked at once.
type jobPoller struct {
	client       *Client
	first, limit time.Duration

	mu      sync.Mutex
	watches map[string]*watch
}

// watch is a job that is looked at.
type watch struct {
	done    chan struct{}
	err     error
	waiters int
	stop    context.CancelFunc
}

func newJobPoller(client *Client, first, limit time.Duration) *jobPoller {
	return &jobPoller{client: client, first: first, limit: limit, watches: map[string]*watch{}}
}

func (p *jobPoller) wait(ctx context.Context, job Job) error {
	p.mu.Lock()
	w := p.watches[job.ID]
	if w == nil {
		// The looking outlives whoever began it, as long as another waits.
		looking, stop := context.WithCancel(context.WithoutCancel(ctx))
		w = &watch{done: make(chan struct{}), stop: stop}
		p.watches[job.ID] = w
		go p.look(looking, job, w)
	}
	w.waiters++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.waiters--; w.waiters == 0 {
			w.stop()
			if p.watches[job.ID] == w {
				delete(p.watches, job.ID)
			}
		}
	}()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *jobPoller) look(ctx context.Context, job Job, w *watch) {
	defer close(w.done)
	for pause := p.first; ; pause = min(pause*3/2, p.limit) {
		select {
		case <-ctx.Done():
			w.err = ctx.Err()
			return
		case <-time.After(pause):
		}
		ended, err := p.client.jobResult(ctx, job)
		switch {
		case ended:
			w.err = err
			return
		case err != nil && !IsUnknownResult(err) && !IsThrottled(err) && codeOf(err) != CodeInternal:
			w.err = err
			return
		}
	}
}

// jobResult looks at a job once. It has ended where the first result is true, and failed where there is an error besides.
func (c *Client) jobResult(ctx context.Context, job Job) (bool, error) {
	const command = "queryAsyncJobResult"
	type result struct {
		Status int             `json:"jobstatus"`
		Code   int             `json:"jobresultcode"`
		Result json.RawMessage `json:"jobresult"`
	}
	// The SDK would ask three times by itself, and sleep in between whatever the context says.
	answer, err := call(ctx, c, command, func(client *sdk.CloudStackClient) (result, error) {
		var got result
		return got, custom(client, command, map[string]string{"jobid": job.ID}, &got)
	})
	if err != nil {
		return false, err
	}
	switch answer.Status {
	case jobPending:
		return false, nil
	case jobSucceeded:
		return true, nil
	case jobFailed:
	}
	failed := &Error{Command: job.Command, Code: answer.Code, JobID: job.ID, Text: "the job failed, and does not say why"}
	var cause struct {
		Code          int    `json:"errorcode"`
		ExceptionCode int    `json:"cserrorcode"`
		Text          string `json:"errortext"`
	}
	if json.Unmarshal(answer.Result, &cause) == nil && cause.Code != 0 {
		failed.Code, failed.ExceptionCode, failed.Text = cause.Code, cause.ExceptionCode, cause.Text
	}
	return true, failed
}
