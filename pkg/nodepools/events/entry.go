// Package events tells what changed: to watchers, through a hub that reads the store once for all of them, and to webhooks.
package events

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/pkg/errors"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// Entry is an event as watchers get it. It is shared between them: nothing in it may be changed.
type Entry struct {
	store.Event
	// Last says that no other event of the same revision follows. Only after it, the revision is a place to go on from.
	Last bool

	jsonOnce    sync.Once
	json        []byte
	jsonError   error
	messageOnce sync.Once
	message     *nodepoolsv1.Event
	messageErr  error
}

// JSON is the event with its object, as JSON without secrets. It is made once for all watchers.
func (e *Entry) JSON() ([]byte, error) {
	e.jsonOnce.Do(func() { e.json, e.jsonError = toJSON(e.Event) })
	return e.json, e.jsonError
}

// Message is the event with its object. It is made once for all watchers.
func (e *Entry) Message() (*nodepoolsv1.Event, error) {
	e.messageOnce.Do(func() {
		e.message = Message(e.Event)
		if len(e.Document) == 0 {
			return
		}
		if e.Object.Kind == store.Cluster {
			e.message.Cluster = &nodepoolsv1.Cluster{}
			e.messageErr = protojson.Unmarshal(e.Document, e.message.Cluster)
		} else {
			e.message.Nodepool = &nodepoolsv1.NodePool{}
			e.messageErr = protojson.Unmarshal(e.Document, e.message.Nodepool)
		}
		e.messageErr = errors.Wrapf(e.messageErr, "read the object of the event of revision %d", e.Revision)
	})
	return e.message, e.messageErr
}

// Message is an event without its object, as lists of past events hold it.
func Message(event store.Event) *nodepoolsv1.Event {
	return &nodepoolsv1.Event{
		Revision: strconv.FormatInt(event.Revision, 10), Type: event.Type, Time: timestamppb.New(event.Time), Actor: event.Actor,
		ObjectId: event.Object.ID, ClusterId: event.ClusterID, Generation: event.Generation, Message: event.Text,
	}
}

// toJSON puts the object's JSON into that of the event, rather than reading and writing it again.
func toJSON(event store.Event) ([]byte, error) {
	loose, err := protojson.Marshal(Message(event))
	if err != nil {
		return nil, errors.Wrapf(err, "write the event of revision %d", event.Revision)
	}
	var result bytes.Buffer
	if err := json.Compact(&result, loose); err != nil {
		return nil, errors.Wrap(err, "compact JSON")
	}
	if len(event.Document) == 0 {
		return result.Bytes(), nil
	}
	result.Truncate(result.Len() - 1)
	result.WriteString(`,"` + string(event.Object.Kind) + `":`)
	result.Write(event.Document)
	result.WriteByte('}')
	return result.Bytes(), nil
}

// entries are events with their places in their revisions.
func entries(list []store.Event) []*Entry {
	result := make([]*Entry, len(list))
	for i, event := range list {
		result[i] = &Entry{Event: event, Last: i+1 == len(list) || list[i+1].Revision != event.Revision}
	}
	return result
}
