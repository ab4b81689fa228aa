package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"
)

// maxBody is more than any request of a Kubernetes API of a cloud needs, in bytes.
const maxBody = 1 << 20

// Handler puts what all emulated clouds share in front of a cloud's own handler: requests are recorded in log (and shown
// to Options.OnRequest) with secrets taken out, and Options.Intercept gets its turn. It authenticates no one: how a refusal
// looks is the cloud's own.
func Handler(options Options, log *Log, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		var body []byte
		if r.Body != nil {
			var err error
			body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
			rest := io.Reader(bytes.NewReader(body))
			if err != nil {
				// The cloud's handler answers in its own words, so it meets the error where it reads.
				rest = io.MultiReader(rest, failingReader{err})
			}
			r.Body = io.NopCloser(rest)
		}

		var noted notes
		r = r.WithContext(context.WithValue(r.Context(), notesKey{}, &noted))
		recorder := &statusRecorder{ResponseWriter: w}
		// Deferred, so that a connection dropped by a panic with http.ErrAbortHandler is recorded too. The answer ends when
		// this handler returns, so a client that has read all of it finds its request in the log.
		defer func() {
			redact := redactor{token: BearerToken(r)}
			request := Request{
				Time:     start,
				Method:   r.Method,
				Path:     redact.text(r.URL.Path),
				Query:    redact.query(r.URL.Query()),
				Body:     redact.body(body),
				Status:   recorder.status,
				Duration: time.Since(start),
				Faults:   noted.faults,
			}
			log.Add(request)
			if options.OnRequest != nil {
				options.OnRequest(request)
			}
			if noted.drop {
				reset(w)
			}
		}()

		if options.Intercept != nil {
			options.Intercept(recorder, r, next)
		} else {
			next.ServeHTTP(recorder, r)
		}
		if recorder.status == 0 && !recorder.hijacked && !noted.drop {
			recorder.WriteHeader(http.StatusOK) // what net/http does for a handler that writes nothing
		}
	})
}

// failingReader ends a body that could not be read to its end.
type failingReader struct{ err error }

// Read always fails.
func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// statusRecorder remembers the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status   int
	hijacked bool
}

// WriteHeader passes the status on.
func (s *statusRecorder) WriteHeader(status int) {
	// 1xx are announcements, the answer comes after them.
	if s.status == 0 && status >= http.StatusOK {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write passes a part of the body on.
func (s *statusRecorder) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap lets [http.ResponseController] find what the server's own writer can do, such as flushing. An Intercept that
// hijacks the connection this way has answered as far as the recorder is concerned.
func (s *statusRecorder) Unwrap() http.ResponseWriter {
	s.hijacked = true
	return s.ResponseWriter
}

// WriteJSON answers with a JSON document.
func WriteJSON(w http.ResponseWriter, status int, document any) {
	encoded, err := json.Marshal(document)
	if err != nil {
		// Documents are the emulators' own types; one that cannot be encoded is a defect that a test must see.
		panic(errors.Wrap(err, "encode the answer"))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that went away is none of the cloud's business.
	_, _ = w.Write(append(encoded, '\n'))
}

// writeText writes a part of an answer that is not JSON.
func writeText(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...) // a client that went away is none of the cloud's business
}

// ReadJSON decodes the request's body, which must be one JSON document, whatever the Content-Type and Content-Encoding
// headers say: civogo sends "Content-Encoding: gzip" with a body that is not compressed. Unknown fields are ignored, as the
// clouds do. An empty body leaves into as it is.
func ReadJSON(r *http.Request, into any) error {
	if r.Body == nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return errors.Wrap(err, "read the body")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errors.Wrap(err, "decode the body")
	}
	return nil
}

// NewID is a new random identifier in the form that the clouds use, a version 4 UUID.
func NewID() string { return uuid.NewString() }
