package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Request is what is remembered of one request. Nothing secret is in it: values under names such as token, password or
// kubeconfig, and the token that the client presented wherever it appears, are replaced by [Redacted].
type Request struct {
	// Time is when the request came in.
	Time time.Time `json:"time"`
	// Method is the HTTP method.
	Method string `json:"method"`
	// Path is the path of the URL.
	Path string `json:"path"`
	// Query is the query of the URL without the question mark, its parameters sorted by name.
	Query string `json:"query,omitempty"`
	// Body is the request's body. It is empty when there was none, and a JSON string that says so when it was not JSON.
	Body json.RawMessage `json:"body,omitempty"`
	// Status is the HTTP status of the answer, 0 when the connection was dropped without one.
	Status int `json:"status"`
	// Duration is the time between the request's headers and the end of the answer.
	Duration time.Duration `json:"duration"`
	// Faults are the kinds of the faults that struck the request on purpose, see [NoteFault]; it is empty for most.
	Faults []string `json:"faults,omitempty"`
}

// Redacted stands where a secret stood.
const Redacted = "[redacted]"

// logCapacity bounds the memory of an emulator that runs for days: about a day of one client that polls every 10 s.
const logCapacity = 10_000

// Log is the list of the latest requests, oldest first. The zero Log is ready for use, by several goroutines at once.
type Log struct {
	mu       sync.Mutex
	requests []Request
}

// Add appends a request, and forgets the oldest half when there are more than 10,000.
func (l *Log) Add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.requests) >= logCapacity {
		l.requests = append([]Request(nil), l.requests[logCapacity/2:]...)
	}
	l.requests = append(l.requests, r)
}

// Requests is a copy of the list.
func (l *Log) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Request(nil), l.requests...)
}

// Reset empties the list, for tests that look at the requests of one step.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
}

// redactor takes secrets out of what the log keeps. token is what the client presented; its value is recognised wherever
// it appears.
type redactor struct{ token string }

// secretNames are parts of the names under which clients send secrets.
var secretNames = []string{"token", "password", "secret", "kubeconfig", "apikey", "privatekey", "clientkey", "credential"}

func isSecretName(name string) bool {
	name = strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
	for _, part := range secretNames {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// shortestToken keeps a dummy token such as "x" from turning every x of the log into "[redacted]".
const shortestToken = 6

func (d redactor) text(s string) string {
	if len(d.token) < shortestToken {
		return s
	}
	return strings.ReplaceAll(s, d.token, Redacted)
}

func (d redactor) query(values url.Values) string {
	redacted := make(url.Values, len(values))
	for name, all := range values {
		for _, value := range all {
			if isSecretName(name) {
				value = Redacted
			}
			redacted.Add(d.text(name), d.text(value))
		}
	}
	return redacted.Encode()
}

func (d redactor) body(body []byte) json.RawMessage {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return mustMarshal(fmt.Sprintf("%d bytes that are not JSON", len(body)))
	}
	return mustMarshal(d.value(value))
}

func (d redactor) value(value any) any {
	switch value := value.(type) {
	case string:
		return d.text(value)
	case []any:
		for i := range value {
			value[i] = d.value(value[i])
		}
		return value
	case map[string]any:
		redacted := make(map[string]any, len(value))
		for name, member := range value {
			if member != nil && isSecretName(name) {
				member = Redacted
			}
			redacted[d.text(name)] = d.value(member)
		}
		return redacted
	default:
		return value
	}
}

// mustMarshal encodes what encoding/json itself decoded, which cannot go wrong.
func mustMarshal(value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return encoded
}
