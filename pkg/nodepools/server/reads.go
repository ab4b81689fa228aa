package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

// The reads here answer JSON as it is kept, which spares reading it into messages and writing it again.

const (
	nodePoolsPath = "/api/v1/nodepools"
	nodePoolPath  = "/api/v1/nodepools/{id}"
)

// serveRead answers the reads that most requests are, as the gateway does, which looks through all its paths for them. False says that it is
// another request.
func (s *Server) serveRead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL.RawPath != "" {
		return false
	}
	if r.URL.Path == nodePoolsPath {
		s.checked(nodePoolsPath, s.listNodePools)(w, r, nil)
		return true
	}
	id, ok := strings.CutPrefix(r.URL.Path, nodePoolsPath+"/")
	if !ok || !plainID(id) {
		return false
	}
	s.checked(nodePoolPath, s.getNodePool)(w, r, map[string]string{"id": id})
	return true
}

// plainID says whether a path's segment is written as an id is, with nothing in it that means something in a path.
func plainID(text string) bool {
	return len(text) == 36 && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') && c != '-'
	})
}

func (s *Server) getNodePool(w http.ResponseWriter, r *http.Request, params map[string]string) {
	if r.URL.RawQuery != "" {
		// The pool must be one of the cluster that the query names, which the other way checks.
		request := &nodepoolsv1.GetNodePoolRequest{}
		if err := fill(request, r); err != nil {
			s.answer(w, r, err)
			return
		}
		request.Id = params["id"]
		pool, err := s.options.Service.GetNodePool(r.Context(), request)
		s.object(w, r, pool, err)
		return
	}
	document, revision, err := s.options.Service.RawNodePool(r.Context(), params["id"])
	s.document(w, r, document, revision, err)
}

// object answers a message as document does.
func (s *Server) object(w http.ResponseWriter, r *http.Request, pool *nodepoolsv1.NodePool, err error) {
	var document []byte
	var revision int64
	if err == nil {
		document, err = marshal(pool)
	}
	if err == nil {
		revision, err = strconv.ParseInt(pool.GetResourceVersion(), 10, 64)
	}
	s.document(w, r, document, revision, err)
}

func (s *Server) getCluster(w http.ResponseWriter, r *http.Request, params map[string]string) {
	document, revision, err := s.options.Service.RawCluster(r.Context(), params["id"])
	s.document(w, r, document, revision, err)
}

// document answers an object, or that the client has it already.
func (s *Server) document(w http.ResponseWriter, r *http.Request, document []byte, revision int64, err error) {
	if err != nil {
		s.answer(w, r, err)
		return
	}
	tag := `"` + strconv.FormatInt(revision, 10) + `"`
	if given := r.Header.Get("If-Match"); given != "" && !matchesTag(given, tag, false) {
		s.answer(w, r, &problem{
			Code: service.ReasonPreconditionFailed, Message: "The object has changed", Details: "it is at " + tag + ", not " + given,
		})
		return
	}
	w.Header().Set("Etag", tag)
	if given := r.Header.Get("If-None-Match"); given != "" && matchesTag(given, tag, true) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, document)
}

// matchesTag compares an ETag with a list of them (RFC 9110, section 8.8.3.2), weakly or strongly.
func matchesTag(list, tag string, weak bool) bool {
	for one := range strings.SplitSeq(list, ",") {
		one = strings.TrimSpace(one)
		if weak {
			one = strings.TrimPrefix(one, "W/")
		}
		if one == "*" || one == tag {
			return true
		}
	}
	return false
}

func writeJSON(w http.ResponseWriter, document []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document)
}

var nothing = utilities.NewDoubleArray(nil)

// fill reads the query into a request. It was checked before.
func fill(request proto.Message, r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	if err := runtime.PopulateQueryParameters(request, r.URL.Query(), nothing); err != nil {
		return invalid(err.Error())
	}
	return nil
}

func (s *Server) listNodePools(w http.ResponseWriter, r *http.Request, params map[string]string) {
	request := &nodepoolsv1.ListNodePoolsRequest{}
	if err := fill(request, r); err != nil {
		s.answer(w, r, err)
		return
	}
	if cluster, ok := params["cluster_id"]; ok {
		request.ClusterId = cluster
	}
	documents, page, err := s.options.Service.RawNodePools(r.Context(), request)
	s.page(w, r, "nodepools", documents, page, err)
}

func (s *Server) listClusters(w http.ResponseWriter, r *http.Request, _ map[string]string) {
	request := &nodepoolsv1.ListClustersRequest{}
	if err := fill(request, r); err != nil {
		s.answer(w, r, err)
		return
	}
	documents, page, err := s.options.Service.RawClusters(r.Context(), request)
	s.page(w, r, "clusters", documents, page, err)
}

// rest is what a page has beside its objects.
type rest interface {
	GetTotal() int32
	GetLimit() int32
	GetOffset() int32
	GetNextCursor() string
	GetResourceVersion() string
}

// page answers a part of a list.
func (s *Server) page(w http.ResponseWriter, r *http.Request, name string, documents [][]byte, page rest, err error) {
	if err != nil {
		s.answer(w, r, err)
		return
	}
	tail, err := json.Marshal(struct {
		Total           int32  `json:"total"`
		Limit           int32  `json:"limit"`
		Offset          int32  `json:"offset"`
		NextCursor      string `json:"next_cursor,omitempty"`
		ResourceVersion string `json:"resource_version,omitempty"`
	}{page.GetTotal(), page.GetLimit(), page.GetOffset(), page.GetNextCursor(), page.GetResourceVersion()})
	if err != nil {
		s.answer(w, r, err)
		return
	}
	size := len(tail) + len(name) + 8
	for _, document := range documents {
		size += len(document) + 1
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	out.WriteString(`{"` + name + `":[`)
	for i, document := range documents {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(document)
	}
	out.WriteString("],")
	out.Write(tail[1:])
	writeJSON(w, out.Bytes())
}
