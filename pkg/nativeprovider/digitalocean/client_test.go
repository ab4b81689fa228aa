package digitalocean

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEachAttemptHasTheToken: and the caller's request never has it.
func TestEachAttemptHasTheToken(t *testing.T) {
	t.Parallel()
	var tokens []string
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		return &http.Response{StatusCode: http.StatusTooManyRequests, Body: io.NopCloser(strings.NewReader(""))}, nil
	})
	transport := &nativeprovider.RetryTransport{Base: &nativeprovider.Authorized{Base: base, Scheme: "Bearer", Token: "secret"}, Attempts: 2, Budget: retryBudget}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if len(tokens) != 2 || tokens[0] != "Bearer secret" || tokens[1] != "Bearer secret" {
		t.Errorf("sent %q", tokens)
	}
	if request.Header.Get("Authorization") != "" {
		t.Error("the caller's request has the token")
	}
}
