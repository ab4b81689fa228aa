package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/pkg/errors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
)

func (s *Server) newGateway() error {
	s.gateway = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
			s.answer(w, r, err)
		}),
		runtime.WithForwardResponseOption(forward),
		runtime.WithForwardResponseRewriter(func(ctx context.Context, message proto.Message) (any, error) {
			if written := aboutOf(ctx).document; written != nil {
				return written, nil
			}
			return message, nil
		}),
		runtime.WithMiddlewares(s.check),
		// A POST is a POST, whatever its X-HTTP-Method-Override says.
		runtime.WithDisablePathLengthFallback(),
		// Headers are read by the guard, and none is passed on as metadata.
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithWriteContentLength(),
	)
	ctx, api := context.Background(), s.options.Service
	if err := nodepoolsv1.RegisterNodePoolServiceHandlerServer(ctx, s.gateway, api); err != nil {
		return errors.WithStack(err)
	}
	if err := nodepoolsv1.RegisterClusterServiceHandlerServer(ctx, s.gateway, api); err != nil {
		return errors.WithStack(err)
	}
	if err := nodepoolsv1.RegisterControllerServiceHandlerServer(ctx, s.gateway, api); err != nil {
		return errors.WithStack(err)
	}
	if err := nodepoolsv1.RegisterEventServiceHandlerServer(ctx, s.gateway, api); err != nil {
		return errors.WithStack(err)
	}
	// The gateway asks what was registered last first, so these come before the generated ones.
	for path, handler := range map[string]runtime.HandlerFunc{
		"/api/v1/nodepools":                       s.listNodePools,
		"/api/v1/clusters/{cluster_id}/nodepools": s.listNodePools,
		"/api/v1/clusters":                        s.listClusters,
		"/api/v1/nodepools/{id}":                  s.getNodePool,
		"/api/v1/clusters/{id}":                   s.getCluster,
		watchPath:                                 s.watch,
	} {
		if err := s.gateway.HandlePath(http.MethodGet, path, handler); err != nil {
			return errors.Wrap(err, path)
		}
	}
	return nil
}

// check is around every handler of the gateway, which by itself would pass over what it does not know.
func (s *Server) check(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		s.checked(templateOf(pattern.String()), next)(w, r, params)
	}
}

// checked is check for the path of a template.
func (s *Server) checked(template string, next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		info := aboutOf(r.Context())
		info.route = template
		if span := trace.SpanFromContext(r.Context()); span.IsRecording() {
			span.SetName(r.Method + " " + template)
			span.SetAttributes(attribute.String("http.route", template), attribute.String("nodepools.request_id", info.id))
		}
		known, ok := s.routes[r.Method+" "+template]
		if !ok {
			s.answer(w, r, errors.Errorf("route %s %s is not described", r.Method, template))
			return
		}
		if err := known.checkQuery(r.URL.RawQuery); err != nil {
			s.answer(w, r, err)
			return
		}
		if err := known.checkBody(r); err != nil {
			s.answer(w, r, err)
			return
		}
		next(w, r, params)
	}
}

// checkBody refuses bodies where none belongs, and media types that are not JSON.
func (r *route) checkBody(request *http.Request) error {
	if r.body == nil {
		if request.ContentLength != 0 && request.Body != nil && request.Body != http.NoBody {
			return invalid("this request takes no body")
		}
		return nil
	}
	wanted := []string{"application/json"}
	if r.method == http.MethodPatch {
		wanted = []string{"application/merge-patch+json", "application/json"}
	}
	refused := &problem{
		Code: CodeUnsupportedMedia, Message: "The request body must be JSON", Details: "send Content-Type: " + wanted[0],
	}
	if encoding := request.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		refused.Details = "send the body without Content-Encoding"
		return refused
	}
	media, params, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refused
	}
	for _, one := range wanted {
		if media == one {
			return nil
		}
	}
	return refused
}

// forward adds to answers what only HTTP has: the status, the ETag and the place of what was created.
func forward(ctx context.Context, w http.ResponseWriter, message proto.Message) error {
	info := aboutOf(ctx)
	var place string
	switch message := message.(type) {
	case *emptypb.Empty:
		w.Header().Del("Content-Type")
		w.Header().Del("Content-Length")
		w.WriteHeader(http.StatusNoContent)
		return nil
	case *nodepoolsv1.NodePool:
		setETag(w, message.GetResourceVersion())
		place = "/api/v1/nodepools/" + message.GetId()
	case *nodepoolsv1.Cluster:
		setETag(w, message.GetResourceVersion())
		place = "/api/v1/clusters/" + message.GetId()
	case *nodepoolsv1.Webhook:
		// There is no path that reads one webhook.
		place = "/api/v1/webhooks"
	}
	if info.request != nil && info.request.Method == http.MethodPost && place != "" {
		if dry := info.request.URL.Query().Get("dry_run"); dry == "" || dry == "false" || dry == "0" {
			w.Header().Set("Location", place)
			created(w)
		}
	}
	return nil
}

// created answers 201. The gateway sets the length of the answer after this, when it is too late; the answer is then sent in chunks,
// or with the length that net/http finds.
func created(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) }

func setETag(w http.ResponseWriter, revision string) {
	if revision != "" {
		w.Header().Set("Etag", `"`+revision+`"`)
	}
}

// marshaler reads and writes JSON as the API promises it: unknown and repeated fields are refused, and lists are never null.
type marshaler struct{}

var toJSON = protojson.MarshalOptions{}

// ContentType is that of answers.
func (marshaler) ContentType(any) string { return "application/json" }

// Marshal writes a message.
func (marshaler) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case document:
		return v, nil
	case proto.Message:
		return marshal(v)
	}
	return json.Marshal(v)
}

// marshal writes a message in the one way that JSON without spaces has, with the fields that are always there.
func marshal(message proto.Message) ([]byte, error) {
	raw, err := toJSON.Marshal(message)
	if err != nil {
		return nil, errors.Wrap(err, "write an answer")
	}
	var out bytes.Buffer
	out.Grow(len(raw) + 64)
	// The library varies its spaces on purpose.
	if err := json.Compact(&out, raw); err != nil {
		return nil, errors.Wrap(err, "write an answer")
	}
	reflected := message.ProtoReflect()
	fields := reflected.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !alwaysThere(field) || reflected.Has(field) {
			continue
		}
		zero := "[]"
		if !field.IsList() {
			zero = "0"
		}
		out.Truncate(out.Len() - 1)
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s}", field.JSONName(), zero)
	}
	return out.Bytes(), nil
}

// alwaysThere tells the fields that an answer has even when they are empty: the lists and numbers of list answers, and the reports of
// a status.
func alwaysThere(field protoreflect.FieldDescriptor) bool {
	message := string(field.ContainingMessage().Name())
	switch {
	case strings.HasPrefix(message, "List") && strings.HasSuffix(message, "Response"):
		return field.IsList() || field.Kind() == protoreflect.Int32Kind
	case message == "NodePoolStatus" || message == "ClusterStatus":
		return field.IsList()
	}
	return false
}

// Unmarshal reads a message, or a pointer to one that is nil.
func (marshaler) Unmarshal(data []byte, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		pointer := reflect.ValueOf(v)
		if pointer.Kind() != reflect.Pointer || pointer.Elem().Kind() != reflect.Pointer {
			return errors.Errorf("cannot read a %T", v)
		}
		if pointer.Elem().IsNil() {
			pointer.Elem().Set(reflect.New(pointer.Elem().Type().Elem()))
		}
		if message, ok = pointer.Elem().Interface().(proto.Message); !ok {
			return errors.Errorf("cannot read a %T", v)
		}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the request body is empty; a JSON object is needed")
	}
	return protojson.Unmarshal(data, message)
}

// NewDecoder reads a whole body: what stands behind the object is an error too.
func (m marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return errors.Wrap(err, "read the request body")
		}
		return m.Unmarshal(data, v)
	})
}

// NewEncoder writes messages.
func (m marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := m.Marshal(v)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
}

// methodsOf are those that a path has.
func (s *Server) methodsOf(path string) []string {
	if !strings.HasPrefix(path, "/api/") {
		return []string{http.MethodGet, http.MethodHead}
	}
	var found []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		for _, known := range s.routes {
			if known.method == method && known.matches(path) {
				found = append(found, method)
				if method == http.MethodGet {
					found = append(found, http.MethodHead)
				}
				break
			}
		}
	}
	return found
}
