package server

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/pkg/errors"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

// Codes of errors that arise before a request reaches the service; the others are the reasons of package service.
const (
	CodeMethodNotAllowed = "METHOD_NOT_ALLOWED"
	CodeUnsupportedMedia = "UNSUPPORTED_MEDIA_TYPE"
	CodeTooLarge         = "PAYLOAD_TOO_LARGE"
	CodeRateLimited      = "RATE_LIMITED"
)

// statuses are those of the codes. A quota is 403 and not 429: trying again does not help.
var statuses = map[string]int{
	service.ReasonValidation:         http.StatusBadRequest,
	service.ReasonUnauthenticated:    http.StatusUnauthorized,
	service.ReasonForbidden:          http.StatusForbidden,
	service.ReasonQuotaExceeded:      http.StatusForbidden,
	service.ReasonNotFound:           http.StatusNotFound,
	CodeMethodNotAllowed:             http.StatusMethodNotAllowed,
	service.ReasonConflict:           http.StatusConflict,
	service.ReasonExpired:            http.StatusGone,
	service.ReasonPreconditionFailed: http.StatusPreconditionFailed,
	CodeTooLarge:                     http.StatusRequestEntityTooLarge,
	CodeUnsupportedMedia:             http.StatusUnsupportedMediaType,
	service.ReasonKeyReused:          http.StatusUnprocessableEntity,
	CodeRateLimited:                  http.StatusTooManyRequests,
	service.ReasonInternal:           http.StatusInternalServerError,
	service.ReasonUnavailable:        http.StatusServiceUnavailable,
}

// problem is an error as it is answered.
type problem struct {
	// Code is for programs, Message for people; Details says what exactly, where there is more to say.
	Code       string      `json:"code"`
	Message    string      `json:"message"`
	Details    string      `json:"details"`
	Violations []violation `json:"violations,omitempty"`
	// RequestID finds the request in the logs, of errors that are not the client's.
	RequestID string `json:"request_id,omitempty"`
}

// violation is one rule that one field breaks.
type violation struct {
	Field   string `json:"field"`
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"`
}

func (p *problem) Error() string { return p.Code + ": " + p.Message + ": " + p.Details }

func invalid(details string, violations ...violation) *problem {
	return &problem{Code: service.ReasonValidation, Message: "Validation failed", Details: details, Violations: violations}
}

func pathNotFound() *problem {
	return &problem{Code: service.ReasonNotFound, Message: "Path not found", Details: "see /openapi.json for the paths that there are"}
}

// problemOf turns any error into one that can be answered. What is not meant for clients is told as an internal error alone.
func problemOf(err error) *problem {
	var known *problem
	if errors.As(err, &known) {
		return known
	}
	var refused *auth.Refused
	switch {
	case errors.As(err, &refused):
		return &problem{Code: service.ReasonUnauthenticated, Message: "Authentication failed", Details: refused.Reason}
	case errors.Is(err, auth.ErrNoCredentials):
		return &problem{
			Code: service.ReasonUnauthenticated, Message: "Authentication is required",
			Details: "send Authorization: Bearer with a token",
		}
	case errors.Is(err, auth.ErrUnavailable):
		return &problem{
			Code: service.ReasonUnavailable, Message: "Authentication is not possible now",
			Details: "the identity provider does not answer; try again",
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &problem{Code: service.ReasonUnavailable, Message: "The request took too long", Details: "try again"}
	}
	st, ok := status.FromError(err)
	if !ok {
		return &problem{Code: service.ReasonInternal, Message: "Internal error"}
	}
	result := &problem{Message: st.Message()}
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == service.ErrorDomain {
				result.Code, result.Details = detail.GetReason(), detail.GetMetadata()[service.DetailsKey]
			}
		case *errdetails.BadRequest:
			for _, field := range detail.GetFieldViolations() {
				result.Violations = append(result.Violations, violation{Field: field.GetField(), Rule: field.GetReason(), Message: field.GetDescription()})
			}
		}
	}
	if result.Code != "" {
		return result
	}
	// The gateway's own errors carry a code alone.
	switch st.Code() {
	case codes.InvalidArgument:
		return invalid(readable(st.Message()))
	case codes.NotFound:
		return pathNotFound()
	case codes.Unimplemented:
		return &problem{Code: CodeMethodNotAllowed, Message: "Method not allowed"}
	case codes.DeadlineExceeded, codes.Canceled, codes.Unavailable:
		return &problem{Code: service.ReasonUnavailable, Message: "The request took too long", Details: "try again"}
	default:
		return &problem{Code: service.ReasonInternal, Message: "Internal error"}
	}
}

var protoPosition = regexp.MustCompile(`^(syntax error )?\(line (\d+):(\d+)\): `)

// readable takes the words of the JSON library apart: it varies the space after its name on purpose.
func readable(text string) string {
	text = strings.TrimLeft(strings.TrimPrefix(text, "proto:"), " \u00a0")
	return protoPosition.ReplaceAllString(text, "line $2, column $3: $1")
}

// answer writes an error.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, err error) {
	about := aboutOf(r.Context())
	result := problemOf(err)
	if about.tooLarge {
		result = &problem{Code: CodeTooLarge, Message: "The request body is too large", Details: "the limit is " + bytesText(s.options.MaxBody)}
	}
	code, ok := statuses[result.Code]
	if !ok {
		code = http.StatusInternalServerError
	}
	header := w.Header()
	header.Del("Etag")
	header.Del("Location")
	switch code {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="nodepools"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		header.Set("Allow", strings.Join(s.methodsOf(r.URL.Path), ", "))
	}
	if code >= http.StatusInternalServerError {
		// A copy: the problem may be answered to others too.
		told := *result
		told.RequestID = about.id
		result, about.err = &told, err
	}
	about.code = result.Code
	header.Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]*problem{"error": result})
}
