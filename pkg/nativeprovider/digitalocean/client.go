package digitalocean

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// Paths of the API, as godo has them. They are needed here for requests that godo's own structures cannot say: an empty
// list, an empty map, a false.
const (
	clustersPath = "/v2/kubernetes/clusters"
	registryPath = "/v2/kubernetes/registry"
	vpcsPath     = "/v2/vpcs"
)

// pageSize is the most objects that a page of a list can hold.
const pageSize = 200

// client is the DigitalOcean API as this plugin uses it, for one configuration.
type client struct {
	api *godo.Client
	now func() time.Time // by the clock of the cloud

	// vpcCreation is held while a VPC is created: two that are created at once in one region can be given the same
	// range of addresses, and the second then fails.
	vpcCreation sync.Mutex
}

// newClient returns a client for a configuration that is complete.
func newClient(c config, version string, base http.RoundTripper) (*client, error) {
	// godo can retry by itself, but it repeats a POST after a lost answer too, and that is how an account gets two clusters from one
	// declaration.
	transport := &nativeprovider.RetryTransport{
		Base:           &nativeprovider.Authorized{Base: base, Scheme: "Bearer", Token: c.Token},
		Attempts:       c.RetryMax + 1,
		First:          c.RetryWaitMin,
		Longest:        c.RetryWaitMax,
		Budget:         retryBudget,
		AttemptsHeader: attemptsHeader,
	}
	options := []godo.ClientOpt{
		godo.SetBaseURL(c.Endpoint),
		godo.SetUserAgent("pulumi-resource-digitalocean-native/" + version),
	}
	if c.RequestsPerSecond > 0 {
		options = append(options, godo.SetStaticRateLimit(c.RequestsPerSecond))
	}
	api, err := godo.New(&http.Client{Transport: transport, CheckRedirect: refuseRedirect}, options...)
	if err != nil {
		return nil, errors.Wrap(err, "make the digitalocean client")
	}
	return &client{api: api, now: transport.Now}, nil
}

const (
	// retryBudget bounds all attempts of a request, and so the longest Retry-After that is waited for. The API's hourly quota
	// can ask for most of an hour; a person is better served by an error that says so.
	retryBudget = 5 * time.Minute

	// attemptsHeader is where godo looks for the number of attempts that it names in its error.
	attemptsHeader = "X-Godo-Retry-Attempts"
)

// Endpoint is the address of the API.
func (c *client) Endpoint() string { return c.api.BaseURL.String() }

// refuseRedirect keeps the token from being sent to wherever an answer points; the API does not redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// do sends one request and decodes the answer into out, unless out is nil. An error is marked as what it means: a
// definite not-found, or trouble that may go away.
func (c *client) do(ctx context.Context, method, path string, body, out any) error {
	req, err := c.api.NewRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	_, err = c.api.Do(ctx, req, out)
	if err != nil && ctx.Err() != nil {
		return errors.Wrapf(nativeprovider.RequestError(ctx, err), "%s %s", method, path)
	}
	return explain(err)
}

// status returns the HTTP status of an answer that is an error, and 0 when there was no answer.
func status(err error) int {
	var answer *godo.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}

// saysNotFound tells whether the API itself said that an object does not exist. A 404 in another format comes from
// something between here and the API (a proxy, a wrong endpoint) and says nothing about the object.
func saysNotFound(err error) bool {
	var answer *godo.ErrorResponse
	if !errors.As(err, &answer) || answer.Response == nil || answer.Response.StatusCode != http.StatusNotFound {
		return false
	}
	format, _, err := mime.ParseMediaType(answer.Response.Header.Get("Content-Type"))
	return err == nil && format == "application/json"
}

// isUndecided tells whether a request that failed may have been carried out all the same: the answer was lost, or it
// came from a server that had trouble of its own.
func isUndecided(err error) bool {
	if err == nil || nativeprovider.NeverSent(err) {
		return false
	}
	code := status(err)
	return code == 0 || code >= http.StatusInternalServerError || code == http.StatusRequestTimeout
}

// saysTaken tells whether the API refused a name because another object has it. There is no code for that: the message says so.
func saysTaken(err error) bool {
	switch status(err) {
	case http.StatusConflict, http.StatusUnprocessableEntity, http.StatusBadRequest:
		message := strings.ToLower(apiMessage(err))
		return strings.Contains(message, "already") || strings.Contains(message, "duplicate") || strings.Contains(message, "must be unique")
	default:
		return false
	}
}

// making is a request to make an object whose name must be unique, as nativeprovider.Operation.MakeOnce takes it.
func making(
	kind, name, parent string, find func(context.Context, string) ([]nativeprovider.Found, error), post func(context.Context) (string, error),
) nativeprovider.Making {
	return nativeprovider.Making{
		Kind: kind, Name: name, Parent: parent, Find: find, Post: post, Taken: saysTaken,
		Refused: func(err error) bool { return !isUndecided(err) },
	}
}

// explain marks an error as what it means, and adds the way out to those that a user can do something about.
func explain(err error) error {
	if err == nil {
		return nil
	}
	switch code := status(err); {
	case saysNotFound(err):
		return nativeprovider.NotFound(err)
	case code == http.StatusUnauthorized:
		return errors.Wrap(err, "digitalocean does not accept the token (it is wrong, expired or revoked); "+
			"set digitalocean:token or DIGITALOCEAN_TOKEN")
	case code == http.StatusForbidden:
		return errors.Wrap(err, "digitalocean forbids this; the token may lack a scope")
	case code == http.StatusNotFound:
		return errors.Wrap(err, "this is not how the digitalocean API says that an object does not exist; "+
			"check digitalocean:apiEndpoint and proxies")
	case code == http.StatusTooManyRequests:
		return nativeprovider.Transient(errors.Wrap(err,
			"the rate limit of the digitalocean API is used up; wait a while, or set digitalocean:requestsPerSecond"))
	case code == 0, code >= http.StatusInternalServerError:
		return nativeprovider.Transient(err)
	}
	return err
}

// escape makes an identifier safe as one segment of a path, so that an odd one cannot name another resource.
func escape(id string) string { return url.PathEscape(id) }

func clusterPath(id string) string { return clustersPath + "/" + escape(id) }

func poolsPath(clusterID string) string { return clusterPath(clusterID) + "/node_pools" }

func poolPath(clusterID, id string) string { return poolsPath(clusterID) + "/" + escape(id) }

func vpcPath(id string) string { return vpcsPath + "/" + escape(id) }

// liveCluster is a cluster as the API describes it. Its status is read as plain text, because godo refuses to decode a
// cluster in a state that it does not know, such as "deleting".
type liveCluster struct {
	godo.KubernetesCluster
	Status struct {
		State   string `json:"state"`
		Message string `json:"message"`
	} `json:"status"`
}

func (c *client) getCluster(ctx context.Context, id string) (*liveCluster, error) {
	var answer struct {
		Cluster *liveCluster `json:"kubernetes_cluster"`
	}
	if err := c.do(ctx, http.MethodGet, clusterPath(id), nil, &answer); err != nil {
		return nil, err
	}
	if answer.Cluster == nil || answer.Cluster.ID == "" {
		return nil, errors.Errorf("the answer about cluster %s holds no cluster", id)
	}
	if slices.ContainsFunc(answer.Cluster.NodePools, func(pool *godo.KubernetesNodePool) bool { return pool == nil || pool.ID == "" }) {
		return nil, errors.Errorf("the answer about cluster %s holds a node pool without an id", id)
	}
	return answer.Cluster, nil
}

// eachCluster calls f with each cluster of the account, until f returns false.
func (c *client) eachCluster(ctx context.Context, f func(*liveCluster) bool) error {
	return c.eachPage(ctx, clustersPath, func(path string) (*godo.Links, int, bool, error) {
		var answer struct {
			Clusters []*liveCluster `json:"kubernetes_clusters"`
			Links    *godo.Links    `json:"links"`
		}
		if err := c.do(ctx, http.MethodGet, path, nil, &answer); err != nil {
			return nil, 0, false, err
		}
		for _, cluster := range answer.Clusters {
			if cluster != nil && !f(cluster) {
				return nil, 0, false, nil
			}
		}
		return answer.Links, len(answer.Clusters), true, nil
	})
}

// eachVPC calls f with each VPC of the account, until f returns false.
func (c *client) eachVPC(ctx context.Context, f func(*godo.VPC) bool) error {
	return c.eachPage(ctx, vpcsPath, func(path string) (*godo.Links, int, bool, error) {
		var answer struct {
			VPCs  []*godo.VPC `json:"vpcs"`
			Links *godo.Links `json:"links"`
		}
		if err := c.do(ctx, http.MethodGet, path, nil, &answer); err != nil {
			return nil, 0, false, err
		}
		for _, vpc := range answer.VPCs {
			if vpc != nil && !f(vpc) {
				return nil, 0, false, nil
			}
		}
		return answer.Links, len(answer.VPCs), true, nil
	})
}

// eachPage walks the pages of a list. fetch reads one page and tells its links, how many objects it held, and whether
// to go on.
func (c *client) eachPage(ctx context.Context, path string, fetch func(path string) (*godo.Links, int, bool, error)) error {
	for page := 1; ; page++ {
		query := url.Values{"page": {itoa(page)}, "per_page": {itoa(pageSize)}}
		links, count, more, err := fetch(path + "?" + query.Encode())
		if err != nil || !more {
			return err
		}
		if links == nil || links.IsLastPage() || count == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *client) getPool(ctx context.Context, clusterID, id string) (*godo.KubernetesNodePool, error) {
	return c.pool(ctx, http.MethodGet, clusterID, id, nil)
}

// pool sends a request about a node pool whose answer is the pool.
func (c *client) pool(ctx context.Context, method, clusterID, id string, body any) (*godo.KubernetesNodePool, error) {
	var answer struct {
		Pool *godo.KubernetesNodePool `json:"node_pool"`
	}
	if err := c.do(ctx, method, poolPath(clusterID, id), body, &answer); err != nil {
		return nil, err
	}
	if answer.Pool == nil || answer.Pool.ID == "" {
		return nil, errors.Errorf("the answer about node pool %s holds no node pool", id)
	}
	return answer.Pool, nil
}

func (c *client) listPools(ctx context.Context, clusterID string) ([]*godo.KubernetesNodePool, error) {
	var answer struct {
		Pools []*godo.KubernetesNodePool `json:"node_pools"`
	}
	if err := c.do(ctx, http.MethodGet, poolsPath(clusterID), nil, &answer); err != nil {
		return nil, err
	}
	return answer.Pools, nil
}

func (c *client) getVPC(ctx context.Context, id string) (*godo.VPC, error) {
	return c.vpc(ctx, http.MethodGet, id, nil)
}

// vpc sends a request about a VPC whose answer is the VPC.
func (c *client) vpc(ctx context.Context, method, id string, body any) (*godo.VPC, error) {
	var answer struct {
		VPC *godo.VPC `json:"vpc"`
	}
	if err := c.do(ctx, method, vpcPath(id), body, &answer); err != nil {
		return nil, err
	}
	if answer.VPC == nil || answer.VPC.ID == "" {
		return nil, errors.Errorf("the answer about VPC %s holds no VPC", id)
	}
	return answer.VPC, nil
}

// getCredentials mints new credentials for a cluster: each call gives a token that stays valid until it expires.
// lifetime 0 means the API's default, seven days.
func (c *client) getCredentials(ctx context.Context, cluster *liveCluster, lifetimeSeconds int) (credentials, error) {
	var answer godo.KubernetesClusterCredentials
	path := clusterPath(cluster.ID) + "/credentials?expiry_seconds=" + itoa(lifetimeSeconds)
	err := c.do(ctx, http.MethodGet, path, nil, &answer)
	if nativeprovider.IsNotFound(err) {
		// The cluster itself was found: this is not the not-found that means that it is gone.
		return credentials{}, errors.New(err.Error())
	}
	if err != nil {
		return credentials{}, err
	}
	return newCredentials(cluster.Name, cluster.RegionSlug, &answer)
}

// decided sends a request that the transport does not repeat, and repeats it a few times when it is undecided and done
// tells that it was not carried out. A request that was is answered with what done returns.
func decided[T any](ctx context.Context, send func(context.Context) (T, error), done func() (T, bool)) (T, error) {
	for attempt := 0; ; attempt++ {
		result, err := send(ctx)
		if err == nil || !isUndecided(err) {
			return result, err
		}
		if found, ok := done(); ok {
			return found, nil
		}
		if ctx.Err() != nil || attempt >= sendRepeats || nativeprovider.Sleep(ctx, sendPause<<attempt) != nil {
			return result, err
		}
	}
}

const (
	sendRepeats = 3
	sendPause   = time.Second // doubles with each repetition
)
