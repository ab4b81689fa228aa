package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pkg/errors"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/plantonhq/project-planton/pkg/nodepools/store"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// The reasons of errors. Each is the reason of the errdetails.ErrorInfo of a gRPC status, and the code of an error in the REST API.
const (
	ReasonValidation         = "VALIDATION_ERROR"
	ReasonNotFound           = "NOT_FOUND"
	ReasonConflict           = "CONFLICT"
	ReasonPreconditionFailed = "PRECONDITION_FAILED"
	ReasonForbidden          = "FORBIDDEN"
	ReasonUnauthenticated    = "UNAUTHENTICATED"
	ReasonQuotaExceeded      = "QUOTA_EXCEEDED"
	ReasonKeyReused          = "IDEMPOTENCY_KEY_REUSED"
	ReasonUnavailable        = "UNAVAILABLE"
	ReasonInternal           = "INTERNAL"
	// ReasonExpired is that of a watch from a revision whose events are no longer kept: list anew, then watch from there.
	ReasonExpired = "EXPIRED"
)

// ErrorDomain is the domain of the errdetails.ErrorInfo of all errors.
const ErrorDomain = "nodepools"

// DetailsKey is the key of the metadata of the errdetails.ErrorInfo whose value is the text of details in the REST API.
const DetailsKey = "details"

var reasonCodes = map[string]codes.Code{
	ReasonValidation:         codes.InvalidArgument,
	ReasonNotFound:           codes.NotFound,
	ReasonConflict:           codes.Aborted,
	ReasonPreconditionFailed: codes.FailedPrecondition,
	ReasonForbidden:          codes.PermissionDenied,
	ReasonUnauthenticated:    codes.Unauthenticated,
	ReasonQuotaExceeded:      codes.ResourceExhausted,
	ReasonKeyReused:          codes.InvalidArgument,
	ReasonUnavailable:        codes.Unavailable,
	ReasonInternal:           codes.Internal,
	ReasonExpired:            codes.OutOfRange,
}

// fail returns an error for the client.
func fail(reason, message, details string) error {
	return failWith(reason, message, details, nil)
}

func failWith(reason, message, details string, violations []validation.Violation) error {
	info := &errdetails.ErrorInfo{Reason: reason, Domain: ErrorDomain}
	if details != "" {
		info.Metadata = map[string]string{DetailsKey: details}
	}
	parts := []protoadapt.MessageV1{info}
	if len(violations) > 0 {
		request := &errdetails.BadRequest{}
		for _, violation := range violations {
			request.FieldViolations = append(request.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: violation.FieldPath, Description: violation.Message, Reason: violation.RuleID,
			})
		}
		parts = append(parts, request)
	}
	result, err := status.New(reasonCodes[reason], message).WithDetails(parts...)
	if err != nil {
		return status.Error(reasonCodes[reason], message)
	}
	return result.Err()
}

// title is how an error calls a kind of object.
func title(kind store.Kind) string {
	if kind == store.Cluster {
		return "Cluster"
	}
	return "NodePool"
}

// noun is how a sentence calls a kind of object.
func noun(kind store.Kind) string {
	if kind == store.Cluster {
		return "cluster"
	}
	return "node pool"
}

func notFound(kind store.Kind) error { return fail(ReasonNotFound, title(kind)+" not found", "") }

func conflict(format string, args ...any) error {
	return fail(ReasonConflict, fmt.Sprintf(format, args...), "")
}

func forbidden(message string) error { return fail(ReasonForbidden, message, "") }

// Reason returns the reason of an error of this package, or "".
func Reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == ErrorDomain {
			return info.GetReason()
		}
	}
	return ""
}

// outcome turns an error of the store into one for the client, who is not told what a database says. Errors that are for the client
// already stay as they are.
func (s *Service) outcome(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var known interface{ GRPCStatus() *status.Status }
	if errors.As(err, &known) {
		return known.GRPCStatus().Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fail(ReasonUnavailable, "the request was given up", "")
	case errors.Is(err, context.DeadlineExceeded):
		return fail(ReasonUnavailable, "the request took too long", "try again later")
	}
	s.logger.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("request_id", requestOf(ctx).ID), slog.String("error", err.Error()))
	return fail(ReasonUnavailable, "the database did not answer as it should", "try again; a write may have happened: read first, or use an Idempotency-Key")
}
