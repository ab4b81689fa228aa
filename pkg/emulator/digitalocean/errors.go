package digitalocean

import (
	"fmt"
	"net/http"
)

// apiError is a refusal in the API's own words. Its ids and statuses are those that clients look at; the messages are close
// to the real ones where those are known from reports of users, and plain English elsewhere.
// https://docs.digitalocean.com/reference/api/digitalocean/#section/Introduction/HTTP-Statuses
type apiError struct {
	Status  int
	ID      string
	Message string
}

// Error is the message of the answer.
func (e *apiError) Error() string { return e.Message }

func badRequest(format string, args ...any) error {
	return &apiError{Status: http.StatusBadRequest, ID: "bad_request", Message: fmt.Sprintf(format, args...)}
}

func unauthorized() error {
	return &apiError{Status: http.StatusUnauthorized, ID: "unauthorized", Message: "Unable to authenticate you"}
}

func forbidden(format string, args ...any) error {
	return &apiError{Status: http.StatusForbidden, ID: "forbidden", Message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &apiError{Status: http.StatusNotFound, ID: "not_found", Message: fmt.Sprintf(format, args...)}
}

func conflict(format string, args ...any) error {
	return &apiError{Status: http.StatusConflict, ID: "conflict", Message: fmt.Sprintf(format, args...)}
}

func preconditionFailed(format string, args ...any) error {
	return &apiError{Status: http.StatusPreconditionFailed, ID: "precondition_failed", Message: fmt.Sprintf(format, args...)}
}

// invalid is what the API says to a well-formed request whose values it can't accept.
func invalid(format string, args ...any) error {
	return &apiError{Status: http.StatusUnprocessableEntity, ID: "unprocessable_entity", Message: fmt.Sprintf(format, args...)}
}

func tooManyRequests() error {
	return &apiError{Status: http.StatusTooManyRequests, ID: "too_many_requests", Message: "API Rate limit exceeded."}
}

func serverError() error {
	return &apiError{Status: http.StatusInternalServerError, ID: "server_error", Message: "Unexpected server-side error"}
}

func serviceUnavailable() error {
	return &apiError{Status: http.StatusServiceUnavailable, ID: "service_unavailable", Message: "The service is temporarily unavailable"}
}
