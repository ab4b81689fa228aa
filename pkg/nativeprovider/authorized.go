package nativeprovider

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Authorized adds a token to each request, tells the request to the log of its context ([WithRequestLog]), and takes the token out of every answer that reports a failure: an error carries the words of the
// cloud, or of a gateway before it, and the engine writes errors into its checkpoints and backups, where nobody would look for a token.
type Authorized struct {
	// Base carries out the requests; it is given a copy of each.
	Base http.RoundTripper
	// Scheme stands before the token in the Authorization header, for example "Bearer".
	Scheme string
	// Token is the secret.
	Token string
}

// maxFailure bounds how much of a failed answer is read; what is beyond is no message for a person.
const maxFailure = 1 << 20

// redacted stands where the token stood.
const redacted = "[token]"

// RoundTrip implements http.RoundTripper.
func (a *Authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Clone(request.Context())
	sent.Header.Set("Authorization", a.Scheme+" "+a.Token)
	start := time.Now()
	response, err := a.Base.RoundTrip(sent)
	logRequest(request, start, response, err, a.redact)
	if err != nil || response.StatusCode < http.StatusMultipleChoices || a.Token == "" {
		return response, err
	}
	for _, values := range response.Header {
		for i := range values {
			values[i] = a.redact(values[i])
		}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxFailure))
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	body = []byte(a.redact(string(body)))
	response.Body = io.NopCloser(bytes.NewReader(body))
	response.ContentLength = int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

// redact takes the token out of a text.
func (a *Authorized) redact(text string) string {
	if a.Token == "" {
		return text
	}
	return strings.NewReplacer(a.forms()...).Replace(text)
}

// forms are pairs of a way in which the token could be repeated and what stands there instead; the longest first, for one is the start
// of another.
func (a *Authorized) forms() []string {
	raw := []byte(a.Token)
	var pairs []string
	for _, form := range []string{
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		url.QueryEscape(a.Token), url.PathEscape(a.Token), a.Token,
	} {
		pairs = append(pairs, form, redacted)
	}
	return pairs
}
