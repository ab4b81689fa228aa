package civo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/civo/civogo"
	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// client is one account of Civo at one API endpoint.
//
// It speaks civogo's types but not through civogo's own client, for that one (v0.3.89) cannot do what this plugin promises: it takes no
// context, so no wait could be cancelled; it makes a new transport for every request and offers no way to give it one, so nothing can be
// retried and connections pile up; it hides status and headers behind its error values, which is how a 503 gets mistaken for "gone"; its
// region is a field that all requests share; and it leaves an empty label map out of a request, so the last label can never be removed.
type client struct {
	endpoint  *url.URL
	userAgent string
	token     string
	http      *http.Client
	// region is the provider's own; "" when it has none.
	region string

	mu sync.Mutex
	// located remembers in which region a cluster was found, by cluster id: a node pool does not know.
	located map[string]string
}

const (
	defaultEndpoint = "https://api.civo.com"
	// maxResponse bounds what is read of an answer; the longest, a list of clusters, is far below.
	maxResponse = 32 << 20
	// attemptsHeader is where the transport leaves the number of attempts of a request that failed.
	attemptsHeader = "X-Attempts"
)

// newClient makes a client of the provider's configuration, completed from the environment as the official plugin does it: CIVO_TOKEN,
// CIVO_API_URL, CIVO_REGION, CIVO_CREDENTIAL_FILE, ~/.civo.json.
func newClient(version string, config resource.PropertyMap) (*client, error) {
	token := firstOf(nativeprovider.GetString(config, "token"), os.Getenv("CIVO_TOKEN"))
	if token == "" {
		var err error
		if token, err = tokenFromFile(firstOf(nativeprovider.GetString(config, "credentialsFile"), os.Getenv("CIVO_CREDENTIAL_FILE"))); err != nil {
			return nil, err
		}
	}
	if token == "" {
		return nil, errors.New("no API token: set the token of the civo provider, or the environment variable CIVO_TOKEN")
	}
	address := firstOf(nativeprovider.GetString(config, "apiEndpoint"), os.Getenv("CIVO_API_URL"), defaultEndpoint)
	endpoint, err := url.Parse(address)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, errors.Errorf("apiEndpoint %q is not an http or https URL", address)
	}
	return &client{
		endpoint:  endpoint,
		userAgent: "pulumi-resource-civo-native/" + version,
		token:     token,
		http:      &http.Client{Transport: retrying(token, 5, 250*time.Millisecond, time.Minute)},
		region:    strings.ToUpper(firstOf(nativeprovider.GetString(config, "region"), os.Getenv("CIVO_REGION"))),
		located:   map[string]string{},
	}, nil
}

// retrying is the transport of the client.
func retrying(token string, attempts int, first, budget time.Duration) *nativeprovider.RetryTransport {
	return &nativeprovider.RetryTransport{
		Base:     &nativeprovider.Authorized{Base: nativeprovider.NewTransport(), Scheme: "bearer", Token: token},
		Attempts: attempts, First: first, Budget: budget, AttemptsHeader: attemptsHeader,
	}
}

// Endpoint is the address of the API.
func (c *client) Endpoint() string { return c.endpoint.String() }

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// tokenFromFile reads the token that the civo command line saved. Only a file that was asked for must exist.
func tokenFromFile(path string) (string, error) {
	asked := path != ""
	if !asked {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil //nolint:nilerr // without a home there is no saved token either
		}
		path = filepath.Join(home, ".civo.json")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		if !asked {
			return "", nil
		}
		return "", errors.Wrap(err, "read the credentials file")
	}
	var file struct {
		APIKeys map[string]string `json:"apikeys"`
		Meta    struct {
			Current string `json:"current_apikey"`
		} `json:"meta"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		// The error would quote the file, which holds tokens.
		return "", errors.Errorf("the credentials file %s is not valid JSON", path)
	}
	return file.APIKeys[file.Meta.Current], nil
}

// regional is the API in one region. It is a value: nothing about it changes while others use it.
type regional struct {
	*client
	code string
}

// in is the API in the region that a resource asks for, or else in the provider's.
func (c *client) in(region string) (regional, error) {
	code := strings.ToUpper(firstOf(region, c.region))
	if code == "" {
		return regional{}, errors.New(
			"no region: set the region of the resource or of the civo provider, or the environment variable CIVO_REGION")
	}
	return regional{client: c, code: code}, nil
}

// apiError is an error that Civo's API answered.
type apiError struct {
	Status int
	Code   string
	Reason string
	// RequestID is what Civo's support finds the request by; "" when the answer has none.
	RequestID string
	// Attempts is how often the request was sent, "" for once.
	Attempts string
	call     string
}

// Error implements error.
func (e *apiError) Error() string {
	text := fmt.Sprintf("civo API: %s: %d %s", e.call, e.Status, http.StatusText(e.Status))
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Attempts != "" {
		text += ", after " + e.Attempts + " attempts"
	}
	if e.RequestID != "" {
		text += " (request id " + e.RequestID + ")"
	}
	switch {
	case e.Status == http.StatusUnauthorized, e.Code == "database_account_not_found", e.Code == "authentication_invalid_key":
		text += " (check the token of the civo provider)"
	case e.Code == "region_unavailable":
		text += " (check the region)"
	}
	return text
}

// hasCode tells whether err is an answer with one of the codes.
func hasCode(err error, codes ...string) bool {
	var answer *apiError
	return errors.As(err, &answer) && slices.Contains(codes, answer.Code)
}

// notFoundCodes are the codes that tell for certain that what stands at path does not exist, or what it stands in. The same code about
// something else (a network that a cluster names), and any code about a list, says nothing of the object.
// https://github.com/civo/civogo/blob/master/errors.go
func notFoundCodes(path string) []string {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(strings.TrimPrefix(path, "/v2/"), "/")
	switch length := len(segments); {
	case segments[0] == "networks" && length == 2:
		return []string{"database_network_not_found"}
	case segments[0] == "firewalls" && length == 4: // firewalls/ID/rules/ID
		return []string{"database_firewall_not_found", "database_firewall_rules_find"}
	case segments[0] == "firewalls" && length > 1:
		return []string{"database_firewall_not_found"}
	case segments[0] == "kubernetes" && length == 5: // kubernetes/clusters/ID/pools/ID
		return []string{"database_kubernetes_cluster_not_found", "database_cluster_pool_not_found"}
	case segments[0] == "kubernetes" && length > 2:
		return []string{"database_kubernetes_cluster_not_found"}
	default:
		return nil
	}
}

// Codes of a cluster that is busy with an earlier change and takes the next one later.
var busyCodes = []string{"cannot_scale_already_rescaling_cluster"}

// Codes of a name that is taken.
var duplicateCodes = []string{
	"database_network_exists", "database_network_duplicate_name",
	"database_firewall_exists", "database_firewall_duplicate_name",
	"database_kubernetes_cluster_duplicate", "database_cluster_pool_duplicate",
}

// call carries out one request (path may have a query) and decodes the answer into result, if given. A definite not-found is marked with nativeprovider.NotFound;
// 429, 5xx and connection errors with nativeprovider.Transient.
func (r regional) call(ctx context.Context, method, path string, body, result any) error {
	call := method + " " + path
	// A path in the endpoint is kept, as civogo does.
	address, err := url.Parse(strings.TrimSuffix(r.endpoint.String(), "/") + path)
	if err != nil {
		return errors.Wrapf(err, "make request %s", call)
	}

	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return errors.Wrapf(err, "encode %s", call)
		}
		content = bytes.NewReader(encoded)
	} else {
		query := address.Query()
		query.Set("region", r.code)
		address.RawQuery = query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), content)
	if err != nil {
		return errors.Wrapf(err, "make request %s", call)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", r.userAgent)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}

	response, err := r.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nativeprovider.RequestError(ctx, err)
		}
		return nativeprovider.Transient(errors.Wrap(err, "civo API"))
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		if ctx.Err() != nil {
			return nativeprovider.ContextError(ctx)
		}
		return nativeprovider.Transient(errors.Wrapf(err, "civo API: read the answer to %s", call))
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return refusal(method, path, response, answer)
	}
	if result == nil {
		return nil
	}
	// The decoder's error tells where, and quotes nothing of an answer that may hold a kubeconfig.
	return errors.Wrapf(json.Unmarshal(answer, result), "civo API: decode the answer to %s", call)
}

// holdsNothing is the error about an answer without what was asked for, such as null or {}. It tells nothing of the object, least of all that
// it is gone.
func holdsNothing(path, what string) error {
	return errors.Errorf("civo API: GET %s: the answer holds no %s", path, what)
}

func refusal(method, path string, response *http.Response, answer []byte) error {
	status := response.StatusCode
	// Fields may be of any type when something between here and Civo answers.
	var fields map[string]any
	_ = json.Unmarshal(answer, &fields)
	text := func(key string) string {
		s, _ := fields[key].(string)
		return s
	}
	refused := &apiError{
		Status: status, Code: text("code"), Reason: text("reason"), call: method + " " + path,
		RequestID: firstOf(nativeprovider.RequestID(response.Header), text("request_id")), Attempts: response.Header.Get(attemptsHeader),
	}
	if details := text("details"); details != "" {
		refused.Reason = strings.TrimPrefix(refused.Reason+", "+details, ", ")
	}
	if text("result") == "requires_authentication" {
		refused.Status = http.StatusUnauthorized
	}
	switch {
	case slices.Contains(notFoundCodes(path), refused.Code):
		return nativeprovider.NotFound(refused)
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return nativeprovider.Transient(refused)
	default:
		return refused
	}
}

// regionCodes are the codes of all regions that the account sees. There is at least one: an answer without would make everything that is not
// in the provider's region look as if it were gone.
func (c *client) regionCodes(ctx context.Context) ([]string, error) {
	var regions []civogo.Region
	if err := (regional{client: c, code: c.region}).call(ctx, http.MethodGet, "/v2/regions", nil, &regions); err != nil {
		return nil, err
	}
	codes := make([]string, len(regions))
	for i, region := range regions {
		codes[i] = region.Code
	}
	if len(codes) == 0 || slices.Contains(codes, "") {
		return nil, errors.New("civo API: GET /v2/regions: the answer names no region, or one without a code")
	}
	return codes, nil
}

// locate finds the region that something lives in: the one that is likely, else each of the account. look returns an error that IsNotFound
// when it is not there; locate does so when it is nowhere, and only then.
func (c *client) locate(ctx context.Context, likely string, look func(r regional) error) (regional, error) {
	tried := strings.ToUpper(firstOf(likely, c.region))
	var missing error
	if tried != "" {
		r := regional{client: c, code: tried}
		if missing = look(r); missing == nil {
			return r, nil
		}
		if !nativeprovider.IsNotFound(missing) {
			return regional{}, missing
		}
		if likely != "" {
			return regional{}, missing // the region was recorded, not guessed
		}
	}
	codes, err := c.regionCodes(ctx)
	if err != nil {
		return regional{}, err
	}
	for _, code := range codes {
		if strings.EqualFold(code, tried) {
			continue
		}
		r := regional{client: c, code: code}
		err := look(r)
		if err == nil {
			return r, nil
		}
		if !nativeprovider.IsNotFound(err) {
			return regional{}, err
		}
		missing = err
	}
	return regional{}, missing
}

// locateCluster finds a cluster by id wherever it is.
func (c *client) locateCluster(ctx context.Context, region, id string) (regional, *civogo.KubernetesCluster, error) {
	if region == "" {
		c.mu.Lock()
		region = c.located[id]
		c.mu.Unlock()
	}
	var cluster *civogo.KubernetesCluster
	r, err := c.locate(ctx, region, func(r regional) error {
		var err error
		cluster, err = r.cluster(ctx, id)
		return err
	})
	if err != nil {
		return regional{}, nil, err
	}
	c.mu.Lock()
	c.located[id] = r.code
	c.mu.Unlock()
	return r, cluster, nil
}

// making is a request to make an object whose name must be unique in the region, as nativeprovider.Operation.MakeOnce takes it.
func (r regional) making(
	kind, name string, find func(ctx context.Context, name string) ([]nativeprovider.Found, error), post func(ctx context.Context) (string, error),
) nativeprovider.Making {
	return nativeprovider.Making{
		Kind: kind, Name: name, Parent: r.code, Find: find, Post: post, Refused: isRefused,
		Taken: func(err error) bool { return hasCode(err, duplicateCodes...) },
	}
}

// isRefused tells whether an error says for certain that a request was not carried out.
func isRefused(err error) bool {
	var answer *apiError
	if !errors.As(err, &answer) {
		return nativeprovider.NeverSent(err)
	}
	return answer.Status < http.StatusInternalServerError && answer.Status != http.StatusRequestTimeout
}

// afterwards is a context for a last look after an operation failed, also when it failed because it was cancelled.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

// whenFree carries out a change of a cluster, waiting while the cluster is busy with another one.
func whenFree(ctx context.Context, op *nativeprovider.Operation, what string, change func(ctx context.Context) error) error {
	return nativeprovider.PollUntil(ctx, nativeprovider.Poll{What: what, First: 500 * time.Millisecond, Operation: op},
		func(ctx context.Context) (bool, string, error) {
			err := change(ctx)
			if hasCode(err, busyCodes...) {
				return false, "the cluster is busy with another change", nil
			}
			if err != nil && nativeprovider.IsTransient(err) {
				return false, "", stop(err)
			}
			return true, "", err
		})
}

// stop takes the mark of a transient error away, so that a poll ends with it: the transport has retried enough.
func stop(err error) error { return errors.New(err.Error()) }
