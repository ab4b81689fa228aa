// Package cloudstack calls the API of Apache CloudStack with its own SDK, and adds what that lacks: contexts, errors with types, a limit
// on the rate of requests, retries where they are safe, one poller for all jobs, metrics, and credentials that can be exchanged.
package cloudstack

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" // the signature of CloudStack is HMAC-SHA1
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/pkg/errors"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Credentials are what requests are signed with. Neither key is ever part of an error or a log.
type Credentials struct {
	// URL is the address of the API, such as https://cloudstack.example.com/client/api.
	URL string
	// APIKey is the key that names the user.
	APIKey string
	// SecretKey is the key that signs.
	SecretKey string
}

// Options configure a Client.
type Options struct {
	// Credentials are those to begin with; those of no field may come later, with SetCredentials.
	Credentials Credentials
	// SkipVerify has certificates of the API not verified.
	SkipVerify bool
	// CABundle has certificates in PEM that are trusted beside those of the system, to begin with; see SetCABundle.
	CABundle []byte
	// Proxy is the URL of a proxy; empty for that of HTTPS_PROXY and NO_PROXY.
	Proxy string
	// RequestTimeout bounds a request. Default: 30 s.
	RequestTimeout time.Duration
	// Rate is how many requests are made a second at most, Burst how many at once. Default: 20 and 40.
	Rate  float64
	Burst int
	// Attempts is how often a request that only reads is made at most. Default: 4.
	Attempts int
	// Backoff is the first pause between two attempts; each is twice as long as the one before, less up to half at random. Default: 0.5 s.
	Backoff time.Duration
	// JobPoll is the first pause between two looks at a job, JobPollMax the longest. Default: 0.5 s and 5 s.
	JobPoll, JobPollMax time.Duration
}

// Client calls the API. It is safe for concurrent use.
type Client struct {
	credentials atomic.Pointer[Credentials]
	transport   atomic.Pointer[http.Transport]
	limiter     *rate.Limiter
	options     Options
	jobs        *jobPoller
}

// New makes a client. It makes no request.
func New(options Options) (*Client, error) {
	if options.RequestTimeout == 0 {
		options.RequestTimeout = 30 * time.Second
	}
	if options.Rate == 0 {
		options.Rate = 20
	}
	if options.Burst == 0 {
		options.Burst = 40
	}
	if options.Attempts == 0 {
		options.Attempts = 4
	}
	if options.Backoff == 0 {
		options.Backoff = 500 * time.Millisecond
	}
	if options.JobPoll == 0 {
		options.JobPoll = 500 * time.Millisecond
	}
	if options.JobPollMax == 0 {
		options.JobPollMax = 5 * time.Second
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() // net/http says so
	transport.MaxIdleConnsPerHost = 32
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: options.SkipVerify} // by option only
	if options.Proxy != "" {
		proxy, err := url.Parse(options.Proxy)
		if err != nil || proxy.Host == "" {
			return nil, errors.New("the address of the proxy is no URL")
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	c := &Client{limiter: rate.NewLimiter(rate.Limit(options.Rate), options.Burst), options: options}
	c.transport.Store(transport)
	c.jobs = newJobPoller(c, options.JobPoll, options.JobPollMax)
	if len(options.CABundle) > 0 {
		if err := c.SetCABundle(options.CABundle); err != nil {
			return nil, err
		}
	}
	if options.Credentials == (Credentials{}) {
		return c, nil
	}
	if err := c.SetCredentials(options.Credentials); err != nil {
		return nil, err
	}
	return c, nil
}

// SetRate changes how many requests are made a second at most, and how many at once.
func (c *Client) SetRate(perSecond float64, burst int) {
	c.limiter.SetLimit(rate.Limit(perSecond))
	c.limiter.SetBurst(burst)
}

// SetCABundle exchanges the certificates in PEM that are trusted beside those of the system. Requests that were begun end with those from
// before, and so does no other: connections are not kept.
func (c *Client) SetCABundle(bundle []byte) error {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return errors.New("the CA bundle has no certificate in PEM")
	}
	transport := c.transport.Load().Clone()
	transport.TLSClientConfig.RootCAs = pool
	c.transport.Swap(transport).CloseIdleConnections()
	return nil
}

// SetCredentials exchanges the credentials. Requests that were begun end with those from before.
func (c *Client) SetCredentials(credentials Credentials) error {
	address, err := url.Parse(credentials.URL)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		return errors.New("the address of the CloudStack API is no http or https URL, such as https://cloudstack.example.com/client/api")
	case credentials.APIKey == "" || credentials.SecretKey == "":
		return errors.New("the API key and the secret key of CloudStack are needed")
	}
	c.credentials.Store(&credentials)
	return nil
}

// repeatable tells whether a command only reads, so that it may be asked again whatever became of it.
func repeatable(command string) bool {
	return strings.HasPrefix(command, "list") || strings.HasPrefix(command, "query") || strings.HasPrefix(command, "get")
}

// call runs a request of the SDK under a context. The SDK knows neither contexts nor types of errors: a client is made for each call, whose
// transport has both, and hands its error past the SDK.
func call[T any](ctx context.Context, c *Client, command string, request func(*sdk.CloudStackClient) (T, error)) (T, error) {
	var none T
	pause := c.options.Backoff
	for attempt := 1; ; attempt++ {
		answer, err := once(ctx, c, command, request)
		if err == nil {
			return answer, nil
		}
		// CloudStack counts a throttled request, and does nothing for it: that may be repeated, whatever was asked.
		again := IsThrottled(err) || repeatable(command) && (IsUnknownResult(err) || codeOf(err) == CodeInternal || codeOf(err) >= 500 && codeOf(err) < CodeInternal)
		if !again || attempt >= c.options.Attempts || ctx.Err() != nil {
			return none, err
		}
		retries.WithLabelValues(command).Inc()
		log.FromContext(ctx).V(1).Info("asking CloudStack again", "command", command, "attempt", attempt, "error", err.Error())
		wait := pause/2 + rand.N(pause/2+1)
		var e *Error
		if errors.As(err, &e) && e.retryAfter > wait {
			wait = e.retryAfter
		}
		select {
		case <-ctx.Done():
			return none, err
		case <-time.After(wait):
		}
		pause *= 2
	}
}

func once[T any](ctx context.Context, c *Client, command string, request func(*sdk.CloudStackClient) (T, error)) (T, error) {
	var none T
	if err := c.limiter.Wait(ctx); err != nil {
		// The limiter gives up before the context ends, where its turn would come too late. The request was not made.
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return none, errors.Wrap(err, command+" waits for its turn")
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
	defer cancel()
	credentials := c.credentials.Load()
	if credentials == nil {
		return none, &Error{Command: command, Code: CodeUnauthorized, Text: "there are no credentials yet"}
	}
	trip := &roundTrip{ctx: ctx, transport: c.transport.Load(), command: command, secretKey: credentials.SecretKey}
	client := sdk.NewClient(credentials.URL, credentials.APIKey, credentials.SecretKey, !c.options.SkipVerify,
		sdk.WithHTTPClient(&http.Client{Transport: trip}))
	began := time.Now()
	answer, err := request(client)
	switch {
	case trip.err != nil:
		err = trip.err
	case err != nil && trip.answered:
		// The answer was 200, and the SDK cannot read it, or counts something other than one.
		if _, isCount := countOf(err); !isCount {
			err = &TransportError{Command: command, cause: errors.New("the answer cannot be understood")}
		}
	case err != nil:
		err = &TransportError{Command: command, cause: errors.New("the request was not made")}
	}
	observe(command, err, time.Since(began))
	if err != nil {
		return none, err
	}
	return answer, nil
}

// countOf recognises the errors that the SDK makes of lists with too few elements or too many.
func countOf(err error) (string, bool) {
	text := err.Error()
	return text, strings.HasPrefix(text, "No match found for") || strings.HasPrefix(text, "There is more than one result")
}

// roundTrip carries one request. It keeps what is wrong, because the SDK makes a text of it, and net/http puts the URL into it, which has
// the API key and the signature.
type roundTrip struct {
	ctx       context.Context // the SDK hands none on
	transport http.RoundTripper
	command   string
	secretKey string

	err      error
	answered bool
}

// maxAnswer bounds an answer: a page of 500 machines is about 2 MB.
const maxAnswer = 64 << 20

// RoundTrip implements http.RoundTripper.
func (r *roundTrip) RoundTrip(request *http.Request) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) {
		r.err = err
		return nil, err
	}
	request = request.Clone(r.ctx)
	if err := r.sign(request); err != nil {
		return fail(err)
	}
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		if r.ctx.Err() != nil {
			err = r.ctx.Err()
		}
		return fail(&TransportError{Command: r.command, cause: err})
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fail(&TransportError{Command: r.command, cause: errors.New("the answer was cut off")})
	}
	if response.StatusCode != http.StatusOK {
		return fail(r.refusal(response, body))
	}
	if !json.Valid(body) {
		return fail(&TransportError{Command: r.command, cause: errors.New("the answer is no JSON")})
	}
	r.answered = true
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// sign signs a request anew that has a ~ in it. The server signs what Java's URLEncoder makes of it, %7E, and the SDK leaves it as it is.
func (r *roundTrip) sign(request *http.Request) error {
	query := request.URL.RawQuery
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return errors.Wrap(err, "read the request")
		}
		query = string(body)
		request.Body = io.NopCloser(bytes.NewReader(body))
	}
	parameters, err := url.ParseQuery(query)
	if err != nil || !strings.Contains(query, "~") && !strings.Contains(query, "%7E") {
		return errors.Wrap(err, "read the request")
	}
	parameters.Del("signature")
	canonical := strings.ReplaceAll(sdk.EncodeValues(parameters), "~", "%7E")
	mac := hmac.New(sha1.New, []byte(r.secretKey))
	_, _ = mac.Write([]byte(strings.ToLower(canonical)))
	signed := canonical + "&signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	if request.Body == nil {
		request.URL.RawQuery = signed
		return nil
	}
	request.Body, request.ContentLength = io.NopCloser(strings.NewReader(signed)), int64(len(signed))
	request.GetBody = nil
	return nil
}

// refusal makes an error of an answer that is not 200: {"deployvirtualmachineresponse": {"errorcode": 431, "cserrorcode": 4350, ...}}.
// What has no such form comes from something between here and CloudStack.
func (r *roundTrip) refusal(response *http.Response, body []byte) error {
	var answer map[string]struct {
		Code          int    `json:"errorcode"`
		ExceptionCode int    `json:"cserrorcode"`
		Text          string `json:"errortext"`
	}
	refused := &Error{Command: r.command, Code: response.StatusCode, Text: http.StatusText(response.StatusCode)}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 60 {
		refused.retryAfter = time.Duration(seconds) * time.Second
	}
	if json.Unmarshal(body, &answer) == nil {
		for _, one := range answer {
			if one.Code != 0 {
				refused.Code, refused.ExceptionCode, refused.Text = one.Code, one.ExceptionCode, one.Text
				return refused
			}
		}
	}
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusTooManyRequests {
		return refused
	}
	return &TransportError{Command: r.command, cause: errors.Errorf("HTTP status %d", response.StatusCode)}
}
