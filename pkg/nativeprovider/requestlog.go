package nativeprovider

import (
	"context"
	"net/http"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// Request is a request to a cloud, for a log. It has neither headers, nor a body, nor what stands behind the path of its address.
type Request struct {
	// URN is the resource that it was sent for; empty for none.
	URN resource.URN
	// Method is the HTTP method.
	Method string
	// Address is scheme, host and path.
	Address string
	// Status is that of the answer, such as 200; 0 where there was none, and Err says why.
	Status int
	// Err is why there was no answer, without the token.
	Err string
	// Elapsed is how long the answer took to begin.
	Elapsed time.Duration
	// ID is the cloud's id of the request; empty where it told none.
	ID string
	// Attempt counts from 1.
	Attempt int
}

type (
	requestLogKey struct{}
	attemptKey    struct{}
)

// WithRequestLog is a context whose requests through [Authorized] are told to log, each attempt by itself, and those of a plugin that is
// served with it ([Provider.Serve]). log is called from several goroutines at once.
func WithRequestLog(ctx context.Context, log func(Request)) context.Context {
	return context.WithValue(ctx, requestLogKey{}, log)
}

func requestLog(ctx context.Context) func(Request) {
	log, _ := ctx.Value(requestLogKey{}).(func(Request))
	return log
}

// logRequest tells the log of a request's context, if it has one, what came of it. redact takes the token out of a text.
func logRequest(request *http.Request, start time.Time, response *http.Response, err error, redact func(string) string) {
	log := requestLog(request.Context())
	if log == nil {
		return
	}
	told := Request{
		Method: request.Method, Address: redact(request.URL.Scheme + "://" + request.URL.Host + request.URL.EscapedPath()),
		Elapsed: time.Since(start), Attempt: 1,
	}
	if attempt, ok := request.Context().Value(attemptKey{}).(int); ok {
		told.Attempt = attempt
	}
	if err != nil {
		told.Err = redact(err.Error())
	} else {
		told.Status, told.ID = response.StatusCode, redact(RequestID(response.Header))
	}
	log(told)
}
