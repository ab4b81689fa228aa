package nativeprovider

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRequestLog has each attempt of a request told, without what must not be known.
func TestRequestLog(t *testing.T) {
	t.Parallel()
	const token = "s3cret/token+1"
	refused := &url.Error{Op: "proxyconnect", URL: "http://proxy", Err: fmt.Errorf("refused %s", token)}
	for _, tc := range []struct {
		reason  string
		answers []answer
		want    []Request
	}{
		{"an answer", []answer{{status: 200}}, []Request{{Status: 200, Attempt: 1}}},
		{"each attempt by itself", []answer{{status: 429}, {status: 503}, {status: 404}}, []Request{
			{Status: 429, Attempt: 1}, {Status: 503, Attempt: 2}, {Status: 404, Attempt: 3},
		}},
		{"no answer", []answer{{err: refused}, {status: 200}}, []Request{
			{Err: `proxyconnect "http://proxy": refused [token]`, Attempt: 1}, {Status: 200, Attempt: 2},
		}},
	} {
		var got []Request
		ctx := WithRequestLog(t.Context(), func(request Request) {
			if request.Elapsed <= 0 {
				t.Errorf("%s: it took %s", tc.reason, request.Elapsed)
			}
			request.Elapsed = 0
			got = append(got, request)
		})
		transport := &RetryTransport{
			Base:     &Authorized{Base: identified{&script{answers: tc.answers}}, Scheme: "Bearer", Token: token},
			Attempts: 5, First: time.Nanosecond, Budget: time.Minute,
		}
		// A password in the address, the token in its path, and a secret behind that.
		address := "https://me:" + url.QueryEscape(token) + "@api.example.com/v2/" + url.PathEscape(token) + "/networks?key=" + url.QueryEscape(token)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, strings.NewReader(token))
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		for i := range tc.want {
			tc.want[i].Method, tc.want[i].Address = http.MethodGet, "https://api.example.com/v2/[token]/networks"
			if tc.want[i].Status != 0 {
				tc.want[i].ID = "request-7"
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
		}
	}
}

// identified is a cloud that gives each request an id.
type identified struct{ http.RoundTripper }

func (c identified) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if response != nil {
		response.Header.Set("X-Request-Id", "request-7")
	}
	return response, err
}
