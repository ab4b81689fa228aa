package cli

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// withRequestLog is a context whose requests to the clouds are told on stderr, where everything is told. Those of official plugins are not
// among them: they are processes of the engine's.
func (s Streams) withRequestLog(ctx context.Context) context.Context {
	if !s.tells(levelDebug) {
		return ctx
	}
	return nativeprovider.WithRequestLog(ctx, func(request nativeprovider.Request) {
		_, _ = fmt.Fprintln(s.Err, oneLine(requestLine(s.requester(request.URN), request)))
	})
}

// requester is what a request was sent for: the manifest and its resource, with a colon behind each.
func (s Streams) requester(urn resource.URN) string {
	if urn == "" {
		return ""
	}
	for _, role := range s.settings.cast.roles {
		if role.stack.Project == urn.Project().String() && role.stack.Stack == urn.Stack().Name().String() {
			return role.manifest.String() + ": " + urn.Name() + ": "
		}
	}
	return urn.Name() + ": "
}

// requestLine is a request as a line of a log.
func requestLine(requester string, request nativeprovider.Request) string {
	answer := request.Err
	if request.Status != 0 {
		answer = fmt.Sprintf("%d %s", request.Status, http.StatusText(request.Status))
	}
	line := fmt.Sprintf("debug: %s%s %s: %s in %s", requester, request.Method, request.Address, answer, request.Elapsed.Round(time.Millisecond))
	if request.Attempt > 1 {
		line += fmt.Sprintf(", attempt %d", request.Attempt)
	}
	if request.ID != "" {
		line += ", request id " + request.ID
	}
	return line
}
