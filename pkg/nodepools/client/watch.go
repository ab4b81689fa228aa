package client

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

// Pauses between two attempts at a watch whose connection was lost.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
)

// maxEvent bounds one line of a watch, in bytes.
const maxEvent = 4 << 20

// NewStream watches events; generated clients call it. A connection that is lost is made again, after the last event that came, until the
// context ends. Of a change that made several events, some may come twice then.
func (c *Client) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != nodepoolsv1.EventService_WatchEvents_FullMethodName {
		return nil, errors.Errorf("call %s: only events can be watched", method)
	}
	return &watch{client: c, ctx: ctx}, nil
}

// watch is a stream of events.
type watch struct {
	client  *Client
	ctx     context.Context // a stream of gRPC has one
	request *nodepoolsv1.WatchEventsRequest

	body  io.ReadCloser
	lines *bufio.Scanner
	pause time.Duration
}

// SendMsg takes the request, once.
func (w *watch) SendMsg(message any) error {
	request, ok := message.(*nodepoolsv1.WatchEventsRequest)
	if !ok {
		return errors.Errorf("%T is no request to watch events", message)
	}
	w.request = &nodepoolsv1.WatchEventsRequest{
		Since: request.GetSince(), ClusterId: request.GetClusterId(), ObjectId: request.GetObjectId(), Platform: request.GetPlatform(),
	}
	return nil
}

// RecvMsg waits for the next event. The error is that of the context, or an *Error when the service says no.
func (w *watch) RecvMsg(message any) error {
	event, ok := message.(*nodepoolsv1.Event)
	if !ok {
		return errors.Errorf("%T is no event", message)
	}
	for {
		if err := w.connect(); err != nil {
			return err
		}
		data, id, err := w.next()
		if err != nil {
			_ = w.body.Close()
			w.body = nil
			continue
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(data), event); err != nil {
			return errors.Wrap(err, "read an event")
		}
		w.pause = 0
		if id != "" {
			w.request.Since = id
		}
		return nil
	}
}

// connect makes the connection where there is none, again and again while the service cannot be reached.
func (w *watch) connect() error {
	for w.body == nil {
		if w.pause > 0 {
			select {
			case <-w.ctx.Done():
				return w.ctx.Err()
			case <-time.After(w.pause):
			}
		}
		w.pause = min(max(2*w.pause, firstPause), lastPause)
		query := url.Values{}
		for name, value := range map[string]string{
			"since": w.request.GetSince(), "cluster_id": w.request.GetClusterId(), "object_id": w.request.GetObjectId(),
			"platform": w.request.GetPlatform(),
		} {
			if value != "" {
				query.Set(name, value)
			}
		}
		request, err := w.client.newRequest(w.ctx, http.MethodGet, "/api/v1/watch", query, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Accept", "text/event-stream")
		response, err := w.client.watches.Do(request)
		if err != nil {
			if w.ctx.Err() != nil {
				return w.ctx.Err()
			}
			continue
		}
		if response.StatusCode == http.StatusOK {
			w.body, w.lines = response.Body, bufio.NewScanner(response.Body)
			w.lines.Buffer(make([]byte, 0, 64<<10), maxEvent)
			return nil
		}
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		_ = response.Body.Close()
		if response.StatusCode < http.StatusInternalServerError && response.StatusCode != http.StatusTooManyRequests {
			return refusal(response, body)
		}
	}
	return nil
}

// next is the data of the next event, and the revision that everything was told of with it; empty when more of the same revision comes.
func (w *watch) next() (data, id string, err error) {
	var lines []string
	for w.lines.Scan() {
		line := w.lines.Text()
		switch {
		case line == "" && len(lines) > 0:
			return strings.Join(lines, "\n"), id, nil
		case strings.HasPrefix(line, "data:"):
			lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(line, "data:"), " "))
		case strings.HasPrefix(line, "id:"):
			id = strings.TrimPrefix(strings.TrimPrefix(line, "id:"), " ")
		}
	}
	if err := w.lines.Err(); err != nil {
		return "", "", err
	}
	return "", "", io.EOF
}

// Header is empty: REST has no use for it.
func (w *watch) Header() (metadata.MD, error) { return metadata.MD{}, nil }

// Trailer is empty: REST has no use for it.
func (w *watch) Trailer() metadata.MD { return nil }

// CloseSend does nothing: there is one request.
func (w *watch) CloseSend() error { return nil }

// Context is that of the call.
func (w *watch) Context() context.Context { return w.ctx }
