// Package prism puts prism (https://stoplight.io/open-source/prism) between the tests of the REST API and the servers that they start. Prism is
// an independent reader of the OpenAPI document: it holds each request and each answer against it, and says what does not fit.
//
// One prism serves all servers of a test binary, as it takes seconds to start: what it passes on goes to the server that a header names.
// A package whose TestMain calls Main has its clients go through it by Through.
package prism

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
)

// UpstreamHeader names the host and port of the server that a request is for. Transport sets it. Answers that prism did not make by
// itself carry it too.
const UpstreamHeader = "X-Prism-Upstream"

// nowhere is the upstream of requests of which only prism's word is wanted.
const nowhere = "nowhere"

// lost is the upstream that answers name which are none: the connection to the server ended before its answer did.
const lost = "lost"

// startTime is how long prism may take to start, on a machine that is busy.
const startTime = 2 * time.Minute

// routeNotFound is what prism says of a path or method that the document does not have.
const routeNotFound = "Selected route not found"

// Proxy is a running prism.
type Proxy struct {
	host    string
	process *exec.Cmd
	ended   chan struct{}
	folder  string
	router  *httptest.Server

	mutex     sync.Mutex
	passed    int
	malformed int
	direct    map[string]int
}

// Start starts the prism that stands in a folder of tools, with an OpenAPI document. It runs until Stop.
func Start(tools string, document []byte) (_ *Proxy, err error) {
	p := &Proxy{direct: map[string]int{}}
	defer func() {
		if err != nil {
			p.Stop()
		}
	}()
	if p.folder, err = os.MkdirTemp("", "prism"); err != nil {
		return nil, errors.Wrap(err, "make a folder")
	}
	path := filepath.Join(p.folder, "openapi.json")
	if err := os.WriteFile(path, document, 0o600); err != nil {
		return nil, errors.Wrap(err, "write the document")
	}
	p.router = httptest.NewServer(router())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Wrap(err, "find a port")
	}
	p.host = listener.Addr().String()
	_, port, _ := net.SplitHostPort(p.host)
	_ = listener.Close()
	command := exec.Command(filepath.Join(tools, "prism"), "proxy", path, p.router.URL, "--host", "127.0.0.1", "--port", port, "--cors", "false",
		"--verboseLevel", "error")
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		return nil, errors.Wrap(err, "start prism")
	}
	p.process, p.ended = command, make(chan struct{})
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	for deadline := time.Now().Add(startTime); ; {
		select {
		case <-p.ended:
			return nil, errors.Errorf("prism ended: %s", &said)
		case <-time.After(20 * time.Millisecond):
		}
		connection, err := net.DialTimeout("tcp", p.host, time.Second)
		if err == nil {
			_ = connection.Close()
			return p, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Wrapf(err, "prism does not serve after %s", startTime)
		}
	}
}

// Stop ends prism.
func (p *Proxy) Stop() {
	if p.process != nil {
		_ = p.process.Process.Kill()
		<-p.ended
	}
	if p.router != nil {
		p.router.Close()
	}
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}

// Host is the host and port that prism serves at.
func (p *Proxy) Host() string { return p.host }

// Passed is how many requests and answers prism took for valid, or for refused where the document says that they are.
func (p *Proxy) Passed() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.passed
}

// Report tells what went through prism, and what did not and why.
func (p *Proxy) Report() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "prism held %d requests and their answers against the document, and refused %d malformed ones", p.passed, p.malformed)
	if state := p.process.ProcessState; state != nil {
		fmt.Fprintf(&text, ", in %s of a core", (state.UserTime() + state.SystemTime()).Round(time.Millisecond))
	}
	text.WriteString("\n")
	for _, reason := range slices.Sorted(maps.Keys(p.direct)) {
		fmt.Fprintf(&text, "%d requests went past it: %s\n", p.direct[reason], reason)
	}
	return text.String()
}

func (p *Proxy) count(field *int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	*field++
}

// router passes on what comes from prism, to the server that is meant.
func router() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			host := r.In.Header.Get(UpstreamHeader)
			r.Out.Header.Del(UpstreamHeader)
			r.SetURL(&url.URL{Scheme: "http", Host: host})
		},
		// Whole answers alone are passed on: prism would make something of half of one.
		ModifyResponse: func(answer *http.Response) error {
			content, err := io.ReadAll(answer.Body)
			if err != nil {
				return err
			}
			answer.Body = io.NopCloser(bytes.NewReader(content))
			answer.Header.Set(UpstreamHeader, "passed on")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			w.Header().Set(UpstreamHeader, lost)
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, err.Error())
		},
		// A client that gave up is no error of a test.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(UpstreamHeader) == nowhere {
			w.Header().Set(UpstreamHeader, nowhere)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

type directKey struct{}

// Direct marks requests that prism cannot pass on; the reason says why not, and is reported.
func Direct(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, directKey{}, reason)
}

type malformedKey struct{}

// Malformed marks requests that are not as the document has them, on purpose. Prism must say so; the answer is that of the server itself, as
// prism does not pass on all that is malformed, or not as it was.
func Malformed(ctx context.Context) context.Context {
	return context.WithValue(ctx, malformedKey{}, true)
}

// Transport sends requests through prism, and tells of each what does not fit. Their bodies must be ones that can be read again
// (http.Request.GetBody). Requests that are marked by Direct go to the server alone; so do HEAD requests, which no document describes. A
// server that cannot be reached, or whose answer ends in the middle, is the error that it is without prism.
func (p *Proxy) Transport(next http.RoundTripper, complain func(r *http.Request, text string)) *Transport {
	return &Transport{proxy: p, next: next, complain: complain}
}

// Transport is an http.RoundTripper whose requests go through prism.
type Transport struct {
	proxy    *Proxy
	next     http.RoundTripper
	complain func(r *http.Request, text string)
	passed   atomic.Int64
}

// Passed is how many of its requests and their answers were held against the document.
func (t *Transport) Passed() int { return int(t.passed.Load()) }

// RoundTrip is that of an http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	reason, direct := r.Context().Value(directKey{}).(string)
	if r.Method == http.MethodHead {
		reason, direct = "HEAD is what GET is, without a body; the document does not have it", true
	}
	if direct {
		t.proxy.mutex.Lock()
		t.proxy.direct[reason]++
		t.proxy.mutex.Unlock()
		return t.next.RoundTrip(r)
	}
	if r.Context().Value(malformedKey{}) != nil {
		if err := t.refused(r); err != nil {
			return nil, err
		}
		return t.next.RoundTrip(r)
	}
	answer, err := t.ask(r, r.URL.Host)
	if err != nil {
		return nil, err
	}
	if answer.Header.Get(UpstreamHeader) == lost {
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(answer.Body)
		return nil, errors.Errorf("the server was lost: %s", text)
	}
	found, err := violations(answer)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
	case found[0] == routeNotFound && (answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusMethodNotAllowed):
	default:
		t.complain(r, fmt.Sprintf("answered %d: %s", answer.StatusCode, strings.Join(found, "; ")))
	}
	t.proxy.count(&t.proxy.passed)
	t.passed.Add(1)
	return answer, nil
}

// refused complains unless prism says that a request is not as the document has it.
func (t *Transport) refused(r *http.Request) error {
	answer, err := t.ask(r, nowhere)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	found, err := violations(answer)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found, func(one string) bool { return strings.HasPrefix(one, "request") }) {
		t.complain(r, fmt.Sprintf("is declared malformed, and prism takes it for valid: %q", found))
	}
	t.proxy.count(&t.proxy.malformed)
	return nil
}

// ask sends a request to prism, for an upstream.
func (t *Transport) ask(r *http.Request, upstream string) (*http.Response, error) {
	through := r.Clone(r.Context())
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, errors.Wrap(err, "read the body again")
		}
		through.Body = body
	}
	through.URL.Scheme, through.URL.Host, through.Host = "http", t.proxy.host, ""
	through.Header.Set(UpstreamHeader, upstream)
	answer, err := t.next.RoundTrip(through)
	return answer, errors.Wrap(err, "ask prism")
}

// Took counts a request that something else than Transport made, with UpstreamHeader, and returns what did not fit.
func (p *Proxy) Took(answer *http.Response) ([]string, error) {
	p.count(&p.passed)
	return violations(answer)
}

// violations are what prism found in a request and its answer, each with where it stands: "request" or "response" begins it. What prism
// refused by itself, such as a body that is not JSON, is a violation of the request.
func violations(answer *http.Response) ([]string, error) {
	if answer.Header.Get(UpstreamHeader) == "" {
		return []string{"request: prism refused it"}, nil
	}
	text := answer.Header.Get("Sl-Violations")
	if text == "" {
		return nil, nil
	}
	var found []struct {
		Location []string `json:"location"`
		Message  string   `json:"message"`
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, errors.Wrapf(err, "read what prism says: %s", text)
	}
	var result []string
	for _, one := range found {
		if one.Message == routeNotFound {
			return []string{routeNotFound}, nil
		}
		result = append(result, strings.Join(one.Location, ".")+": "+one.Message)
	}
	return result, nil
}
