// Package client speaks to a NodePools service over its REST API, with the client that is generated from the protos:
//
//	connection, err := client.New(client.Options{Server: "https://nodepools.example.com", Token: token})
//	pools := nodepoolsv1.NewNodePoolServiceClient(connection)
//	page, err := pools.ListNodePools(ctx, &nodepoolsv1.ListNodePoolsRequest{Status: "Failed"})
//
// Paths, bodies and queries follow from the annotations of the protos, so every method of every service can be called, through whatever
// proxies stand between. Where gRPC can pass, a connection of package grpc does as well.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pkg/errors"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The headers that a call can carry: put them into its context with metadata.AppendToOutgoingContext.
const (
	// IfMatch has a write fail with the code PRECONDITION_FAILED unless the object's ETag is this one, such as "42" (with the quotes).
	IfMatch = "if-match"
	// IdempotencyKey has a create that is repeated with the same key get the answer of the first one, for 24 hours.
	IdempotencyKey = "idempotency-key"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// Options say where the service is, and who calls.
type Options struct {
	// Server is the URL of the service, such as https://nodepools.example.com. Required.
	Server string
	// Token is the bearer token that proves who calls; empty for none. It is sent over https, and to loopback addresses only over http.
	Token string
	// User is the email address in the header X-User-Email, which services in development mode go by; empty for none.
	User string
	// HTTP makes the requests; one with a timeout of 30 seconds for all but watches when nil.
	HTTP *http.Client
}

// Client is a connection to a service. It may be used by several goroutines.
type Client struct {
	base        *url.URL
	token, user string
	calls       *http.Client // with a timeout
	watches     *http.Client // without
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// New makes a connection. Nothing is sent before the first call. The error says what is wrong with the options.
func New(options Options) (*Client, error) {
	base, err := url.Parse(options.Server)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, errors.Errorf("the server must be a URL such as https://nodepools.example.com, not %q", options.Server)
	}
	if options.Token != "" && base.Scheme == "http" && !isLoopback(base.Hostname()) {
		return nil, errors.Errorf("a token must not be sent in clear: use https for %s", base.Host)
	}
	c := &Client{base: base, token: options.Token, user: options.User, calls: options.HTTP, watches: options.HTTP}
	if options.HTTP == nil {
		// A token is for this server alone, wherever it sends us.
		stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.calls = &http.Client{Timeout: 30 * time.Second, CheckRedirect: stay}
		c.watches = &http.Client{CheckRedirect: stay}
	}
	return c, nil
}

func isLoopback(host string) bool {
	return host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.")
}

// Invoke calls a method; generated clients do. The error is an *Error when the service says no.
func (c *Client) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	request, ok := args.(proto.Message)
	into, okReply := reply.(proto.Message)
	if !ok || !okReply {
		return errors.Errorf("call %s: %T and %T are no messages", method, args, reply)
	}
	httpRequest, err := c.request(ctx, method, request)
	if err != nil {
		return errors.Wrap(err, "call "+method)
	}
	response, err := c.calls.Do(httpRequest)
	if err != nil {
		return errors.Wrap(err, "ask the service")
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return errors.Wrap(err, "read the service's answer")
	}
	if response.StatusCode/100 != 2 {
		return refusal(response, body)
	}
	if len(body) == 0 {
		return nil
	}
	// A service that is newer than this client may say more.
	err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, into)
	return errors.Wrap(err, "read the service's answer")
}

// request puts a call into the form that the annotations of its method tell.
func (c *Client) request(ctx context.Context, method string, message proto.Message) (*http.Request, error) {
	rule, err := ruleOf(method)
	if err != nil {
		return nil, err
	}
	verb, template := pattern(rule)
	sent := map[protoreflect.Name]bool{}
	path, err := expand(template, message.ProtoReflect(), sent)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if rule.GetBody() != "" {
		field := message.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(rule.GetBody()))
		if field == nil || field.Message() == nil {
			return nil, errors.Errorf("the body %q is no message", rule.GetBody())
		}
		sent[field.Name()] = true
		data, err := protojson.Marshal(message.ProtoReflect().Get(field).Message().Interface())
		if err != nil {
			return nil, errors.Wrap(err, "write the body")
		}
		body = bytes.NewReader(data)
	}
	query := url.Values{}
	message.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case sent[field.Name()]:
		case field.IsList():
			for i := range value.List().Len() {
				query.Add(field.JSONName(), value.List().Get(i).String())
			}
		default:
			query.Set(field.JSONName(), value.String())
		}
		return true
	})
	return c.newRequest(ctx, verb, path, query, body)
}

// newRequest makes a request to the service.
func (c *Client) newRequest(ctx context.Context, verb, path string, query url.Values, body io.Reader) (*http.Request, error) {
	address := strings.TrimSuffix(c.base.String(), "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, verb, address, body)
	if err != nil {
		return nil, errors.Wrap(err, "make the request")
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
		if verb == http.MethodPatch {
			request.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.user != "" {
		request.Header.Set("X-User-Email", c.user)
	}
	if given, ok := metadata.FromOutgoingContext(ctx); ok {
		for _, name := range []string{IfMatch, IdempotencyKey} {
			for _, value := range given.Get(name) {
				request.Header.Set(name, value)
			}
		}
	}
	return request, nil
}

// ruleOf is what the protos say of a method, such as "/org.project_planton.nodepools.v1.NodePoolService/GetNodePool".
func ruleOf(method string) (*annotations.HttpRule, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, errors.Wrap(err, "find the method")
	}
	rule, ok := proto.GetExtension(found.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil, errors.New("the method has no path")
	}
	return rule, nil
}

// pattern is the verb and the path of a rule.
func pattern(rule *annotations.HttpRule) (verb, template string) {
	switch {
	case rule.GetGet() != "":
		return http.MethodGet, rule.GetGet()
	case rule.GetPost() != "":
		return http.MethodPost, rule.GetPost()
	case rule.GetPut() != "":
		return http.MethodPut, rule.GetPut()
	case rule.GetPatch() != "":
		return http.MethodPatch, rule.GetPatch()
	default:
		return http.MethodDelete, rule.GetDelete()
	}
}

// expand puts fields into the path, and notes them.
func expand(template string, message protoreflect.Message, sent map[protoreflect.Name]bool) (string, error) {
	var path strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		path.WriteString(before)
		if !found {
			return path.String(), nil
		}
		name, after, _ := strings.Cut(rest, "}")
		template = after
		field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			return "", errors.Errorf("the path names a field %q that there is not", name)
		}
		value := message.Get(field).String()
		if value == "" || value == "." || value == ".." {
			return "", errors.Errorf("%s must be given", field.JSONName())
		}
		sent[field.Name()] = true
		path.WriteString(url.PathEscape(value))
	}
}

// Error is the service's no.
type Error struct {
	// StatusCode is that of HTTP, such as 409.
	StatusCode int `json:"-"`
	// Code is the service's, such as CONFLICT; empty when the answer is not one of the service.
	Code string `json:"code"`
	// Message and Details say what is wrong.
	Message string `json:"message"`
	Details string `json:"details"`
	// Violations are the rules that were broken, each with its field.
	Violations []Violation `json:"violations"`
	// RequestID is what the service's log finds the request by.
	RequestID string `json:"request_id"`
}

// Violation is a rule that was broken.
type Violation struct {
	Field   string `json:"field"`
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string {
	text := e.Message
	if e.Code == "" {
		text = "the service answered with status " + http.StatusText(e.StatusCode)
	}
	if len(e.Violations) > 1 {
		for _, violation := range e.Violations {
			text += "\n  " + strings.TrimPrefix(violation.Field+": ", ": ") + violation.Message
		}
	} else if e.Details != "" {
		text += ": " + e.Details
	}
	if e.StatusCode >= http.StatusInternalServerError && e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// refusal is the error of an answer that is none of success.
func refusal(response *http.Response, body []byte) error {
	var envelope struct {
		Error *Error `json:"error"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil || envelope.Error == nil {
		// Something between answered. Its page says nothing that a terminal should show.
		return &Error{StatusCode: response.StatusCode}
	}
	envelope.Error.StatusCode = response.StatusCode
	return envelope.Error
}
