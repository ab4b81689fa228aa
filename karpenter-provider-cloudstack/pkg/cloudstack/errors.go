package cloudstack

import (
	"fmt"
	"strings"
	"time"

	"github.com/pkg/errors"
)

// Error codes of CloudStack, which are the HTTP status of an answer and the errorcode in it.
// https://github.com/apache/cloudstack/blob/main/api/src/main/java/org/apache/cloudstack/api/ApiErrorCode.java
const (
	CodeUnauthorized          = 401
	CodeLimitExceeded         = 429
	CodeMalformedParameter    = 430
	CodeParameter             = 431
	CodeUnsupported           = 432
	CodeInternal              = 530
	CodeAccount               = 531
	CodeAccountResourceLimit  = 532
	CodeInsufficientCapacity  = 533
	CodeResourceUnavailable   = 534
	CodeResourceAllocation    = 535
	CodeResourceInUse         = 536
	CodeNetworkRuleConflict   = 537
	serverExceptionHostExists = 4350
)

// Error is what CloudStack says is wrong with a request, at once or as the result of its job.
type Error struct {
	// Command is the API command, such as deployVirtualMachine.
	Command string
	// Code is the error code, see the constants.
	Code int
	// ExceptionCode is the code of the exception (cserrorcode), 0 when it is not told.
	ExceptionCode int
	// Text is what CloudStack says. It may name objects of the account, never a credential.
	Text string
	// JobID is the id of the job that failed; empty when the request did.
	JobID string

	retryAfter time.Duration
}

// Error names the command, the code and what CloudStack says.
func (e *Error) Error() string {
	job := ""
	if e.JobID != "" {
		job = ", job " + e.JobID
	}
	return fmt.Sprintf("%s: CloudStack says %d: %s%s", e.Command, e.Code, strings.TrimSpace(e.Text), job)
}

// TransportError is a request without an answer that could be understood: whether CloudStack did what was asked is not known.
type TransportError struct {
	// Command is the API command.
	Command string
	cause   error
}

// Error names the command and the cause. The URL of the request has a signature in it, and is left out.
func (e *TransportError) Error() string {
	return e.Command + ": no answer of CloudStack: " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.cause }

// codeOf is the error code of an error, 0 where CloudStack gave none.
func codeOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// IsUnknownResult tells whether it is not known if CloudStack did what was asked: there was no answer, or none that could be read.
func IsUnknownResult(err error) bool {
	var e *TransportError
	return errors.As(err, &e)
}

// IsNotFound tells whether CloudStack says that an id is of nothing. An empty list is no error, and the same.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeParameter &&
		(strings.Contains(e.Text, "entity does not exist") || strings.Contains(e.Text, "nable to find") || strings.Contains(e.Text, "does not exist"))
}

// IsInsufficientCapacity tells whether there is no room for a machine: no host (533), none that is up (534), or nothing left to allocate,
// such as addresses (535).
func IsInsufficientCapacity(err error) bool {
	switch codeOf(err) {
	case CodeInsufficientCapacity, CodeResourceUnavailable, CodeResourceAllocation:
		return true
	}
	return false
}

// IsLimit tells whether a limit of the account, domain or project is reached (532, or 535 where it says so).
func IsLimit(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	text := strings.ToLower(e.Text)
	return e.Code == CodeAccountResourceLimit ||
		e.Code == CodeResourceAllocation && (strings.Contains(text, "limit") || strings.Contains(text, "maximum"))
}

// IsNoAddress tells whether a network has no addresses left.
func IsNoAddress(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	text := strings.ToLower(e.Text)
	return (e.Code == CodeInsufficientCapacity || e.Code == CodeResourceAllocation) &&
		(strings.Contains(text, "ip address") || strings.Contains(text, "free ip") || strings.Contains(text, "insufficient address"))
}

// IsNameTaken tells whether a machine of that name exists already in the network's domain, whatever its state.
func IsNameTaken(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == CodeParameter &&
		(e.ExceptionCode == serverExceptionHostExists && strings.Contains(e.Text, "already exists") ||
			strings.Contains(e.Text, "already exists in the network domain"))
}

// IsUnauthorized tells whether the credentials are wrong (401) or may not do what was asked (531).
func IsUnauthorized(err error) bool {
	code := codeOf(err)
	return code == CodeUnauthorized || code == CodeAccount
}

// IsThrottled tells whether CloudStack takes no more requests for now (429).
func IsThrottled(err error) bool { return codeOf(err) == CodeLimitExceeded }

// IsBadRequest tells whether CloudStack does not take the parameters (430, 431, 432).
func IsBadRequest(err error) bool {
	switch codeOf(err) {
	case CodeMalformedParameter, CodeParameter, CodeUnsupported:
		return true
	}
	return false
}
