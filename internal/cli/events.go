package cli

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/provision"
)

// Types of events beside those of package provision. schemas/events.schema.json describes all of them; types and fields are added and never
// renamed.
const (
	eventStillRunning = "stillRunning"
	eventResult       = "result"
)

// eventDocument is an event in JSON.
type eventDocument struct {
	Type string `json:"type"`
	Time string `json:"time"`
	*manifestDocument
	Stack        string   `json:"stack,omitempty"`
	Resource     string   `json:"resource,omitempty"`
	ResourceType string   `json:"resourceType,omitempty"`
	Op           string   `json:"op,omitempty"`
	Plugin       string   `json:"plugin,omitempty"`
	Message      string   `json:"message,omitempty"`
	Because      []string `json:"skippedBecauseOf,omitempty"`
	Seconds      *float64 `json:"seconds,omitempty"`
}

// stackOps are the words in events for operations on stacks.
var stackOps = map[provision.Op]string{
	"update": "apply", "preview": "preview", "refresh": "refresh", "destroy": "destroy", "preview the destruction of": "preview-destroy",
}

// eventWriter writes a JSON object an event to stdout.
type eventWriter struct {
	streams Streams
	cast    cast
	last    map[subject]string // the last status of each resource, which is not told twice
}

func newEventWriter(streams Streams, cast cast) *eventWriter {
	return &eventWriter{streams: streams, cast: cast, last: map[subject]string{}}
}

func (w *eventWriter) take(event provision.Event) {
	document := w.document(string(event.Kind), event)
	switch event.Kind {
	case provision.EventStackStarted:
		document.Plugin = event.Message
	case provision.EventResourceStatus:
		if w.last[subjectOf(event)] == event.Message {
			return
		}
		w.last[subjectOf(event)] = event.Message
		document.Message = event.Message
	default:
		document.Message = event.Message
	}
	switch event.Kind {
	case provision.EventStackDone, provision.EventStackFailed, provision.EventResourceDone, provision.EventResourceFailed:
		document.Seconds = seconds(event.Elapsed)
	}
	_ = writeEvent(w.streams, document)
}

func (w *eventWriter) still(r running, now time.Time) {
	document := w.document(eventStillRunning, r.event)
	document.Time, document.Message, document.Seconds = timeText(now), r.status, seconds(now.Sub(r.event.Time))
	_ = writeEvent(w.streams, document)
}

func (*eventWriter) beat(time.Time) {}
func (*eventWriter) settle()        {}

func (w *eventWriter) document(eventType string, event provision.Event) *eventDocument {
	document := &eventDocument{
		Type: eventType, Time: timeText(event.Time), Stack: event.Stack.String(), Resource: event.Resource, ResourceType: event.Type,
		Op: string(event.Op), Because: w.cast.names(event.Because),
	}
	if event.Resource == "" && event.Op != "" {
		document.Op = word(stackOps, event.Op)
	}
	if role := w.cast.role(event.Stack); role != nil {
		described := describe(role.manifest)
		document.manifestDocument = &described
	}
	return document
}

func seconds(elapsed time.Duration) *float64 {
	value := elapsed.Round(time.Millisecond).Seconds()
	return &value
}

// timeText is a time as events have it, RFC 3339 in UTC.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// writeEvent writes an event as one line.
func writeEvent(streams Streams, document any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(document); err != nil {
		return errors.Wrap(err, "write an event")
	}
	streams.settings.writing.Lock()
	defer streams.settings.writing.Unlock()
	_, err := streams.Out.Write(line.Bytes())
	return errors.Wrap(err, "write an event")
}

// writeResult writes the result of a command, or the error that kept it from having one, as JSON: as the last event where there are events.
func writeResult(streams Streams, document map[string]any) error {
	if !streams.events() {
		return writeJSON(streams, document)
	}
	rest, err := json.Marshal(document)
	if err != nil {
		return errors.Wrap(err, "write the result")
	}
	// The type comes first, as in all events.
	line := append([]byte(`{"type":"`+eventResult+`","time":"`+timeText(time.Now())+`",`), rest[1:]...)
	return writeEvent(streams, json.RawMessage(line))
}
