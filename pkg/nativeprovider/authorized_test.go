package nativeprovider

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestAuthorized(t *testing.T) {
	t.Parallel()
	const token = "s3cret/token+1"
	forms := map[string]string{
		"plain":          token,
		"in a URL":       url.QueryEscape(token),
		"in a path":      url.PathEscape(token),
		"base64":         base64.StdEncoding.EncodeToString([]byte(token)),
		"base64, no end": base64.RawURLEncoding.EncodeToString([]byte(token)),
	}
	for reason, form := range forms {
		for _, status := range []int{http.StatusFound, http.StatusUnprocessableEntity, http.StatusBadGateway} {
			t.Run(reason+", "+http.StatusText(status), func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if got := r.Header.Get("Authorization"); got != "Bearer "+token {
						t.Errorf("Authorization: %s", got)
					}
					w.Header().Set("X-Request-Id", form)
					w.WriteHeader(status)
					_, _ = io.WriteString(w, `{"message":"no: `+form+`, said it"}`)
				}))
				defer server.Close()
				client := &http.Client{
					Transport:     &Authorized{Base: http.DefaultTransport, Scheme: "Bearer", Token: token},
					CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = response.Body.Close() }()
				body, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				if want := `{"message":"no: [token], said it"}`; string(body) != want {
					t.Errorf("body %s, want %s", body, want)
				}
				if got := response.Header.Get("X-Request-Id"); strings.Contains(got, form) {
					t.Errorf("the header repeats the token: %s", got)
				}
			})
		}
	}
}

// What a cloud hands out is handed on as it is: a kubeconfig may well hold the text of a token.
func TestAuthorizedLeavesAnswersAlone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the token") }))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&Authorized{Base: http.DefaultTransport, Scheme: "Bearer", Token: "token"}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, _ := io.ReadAll(response.Body); string(body) != "the token" {
		t.Errorf("body %q", body)
	}
	if request.Header.Get("Authorization") != "" {
		t.Error("the caller's request was changed")
	}
}
