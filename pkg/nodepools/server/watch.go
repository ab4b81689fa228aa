package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pkg/errors"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/events"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

// firstWord is how long a watch waits for a first event, or for a refusal that then has a status of its own, before it tells that it
// is open.
const firstWord = 100 * time.Millisecond

// writeTimeout is how long a client may take to read what was sent.
const writeTimeout = 30 * time.Second

// watch sends events as they happen, as server-sent events. The id of an event is its revision, where a watch can go on. Only the last
// event of a revision has one: who went on after an earlier one would miss the rest.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	request := &nodepoolsv1.WatchEventsRequest{}
	if err := fill(request, r); err != nil {
		s.answer(w, r, err)
		return
	}
	if last := r.Header.Get("Last-Event-Id"); last != "" {
		// Clients send it by themselves when a connection broke; it is newer than what they asked for at first.
		request.Since = last
	}
	select {
	case <-s.ended:
		s.answer(w, r, &problem{Code: service.ReasonUnavailable, Message: "The service is shutting down", Details: "watch again"})
		return
	default:
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s.metrics.watches.Inc()
	defer s.metrics.watches.Dec()

	found := make(chan *events.Entry)
	result := make(chan error, 1)
	go func() {
		defer func() {
			// There is no net/http below this goroutine that would catch a panic.
			if cause := recover(); cause != nil {
				result <- errors.Errorf("the watch panicked: %v", cause)
			}
		}()
		result <- s.options.Service.Watch(ctx, request, func(entry *events.Entry) error {
			select {
			case found <- entry:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()

	out := &eventWriter{w: w, control: http.NewResponseController(w)}
	first := time.NewTimer(firstWord)
	defer first.Stop()
	heartbeat := time.NewTicker(s.options.Heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case entry := <-found:
			err = out.event(entry)
			heartbeat.Reset(s.options.Heartbeat)
		case <-first.C:
			if !out.opened {
				err = out.write(": open\n\n")
			}
		case <-heartbeat.C:
			err = out.write(": still here\n\n")
		case <-s.ended:
			// The connection ends, and the client comes again, elsewhere or after the restart.
			return
		case err := <-result:
			switch {
			case err == nil || r.Context().Err() != nil:
			case !out.opened:
				s.answer(w, r, err)
			default:
				s.failed(out, r, err)
			}
			return
		}
		if err != nil {
			return // The client is gone, or does not read.
		}
	}
}

// failed tells the client of a watch that runs why it ends.
func (s *Server) failed(out *eventWriter, r *http.Request, err error) {
	about, told := aboutOf(r.Context()), *problemOf(err)
	about.code = told.Code
	if statuses[told.Code] >= http.StatusInternalServerError {
		about.err, told.RequestID = err, about.id
	}
	if data, err := json.Marshal(map[string]problem{"error": told}); err == nil {
		_ = out.write("event: error\ndata: " + string(data) + "\n\n")
	}
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	opened  bool
}

func (e *eventWriter) event(entry *events.Entry) error {
	data, err := entry.JSON()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("event: %s\ndata: %s\n\n", entry.Type, data)
	if entry.Last {
		text = fmt.Sprintf("id: %d\n", entry.Revision) + text
	}
	return e.write(text)
}

// write sends at once, and gives up on a client that does not read.
func (e *eventWriter) write(text string) error {
	if !e.opened {
		e.opened = true
		header := e.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-store")
		// Nginx would otherwise collect the answer.
		header.Set("X-Accel-Buffering", "no")
		e.w.WriteHeader(http.StatusOK)
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := e.w.Write([]byte(text)); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(e.control.Flush())
}
