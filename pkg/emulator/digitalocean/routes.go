package digitalocean

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// reply is what a handler answers: a JSON document, a YAML text, or nothing but the status.
type reply struct {
	status   int
	document any
	yaml     string
}

func respond(status int, name string, object any) reply {
	return reply{status: status, document: map[string]any{name: object}}
}

// handle answers one kind of request. An error of type *apiError is answered as such.
type handle func(r *http.Request) (reply, error)

// routes is the table of the API's calls that are emulated.
func (c *Cloud) routes() http.Handler {
	const (
		clusters = "/v2/kubernetes/clusters"
		cluster  = clusters + "/{cluster}"
		pools    = cluster + "/node_pools"
		pool     = pools + "/{pool}"
	)
	table := map[string]handle{
		"GET /v2/account": c.getAccount,

		"GET /v2/kubernetes/options":     c.getOptions,
		"POST /v2/kubernetes/registry":   c.addRegistryToClusters,
		"DELETE /v2/kubernetes/registry": c.removeRegistryFromClusters,

		"POST " + clusters:                c.createCluster,
		"GET " + clusters:                 c.listClusters,
		"GET " + cluster:                  c.getCluster,
		"PUT " + cluster:                  c.updateCluster,
		"DELETE " + cluster:               c.deleteCluster,
		"POST " + cluster + "/upgrade":    c.upgradeCluster,
		"GET " + cluster + "/upgrades":    c.listUpgrades,
		"GET " + cluster + "/credentials": c.getCredentials,
		"GET " + cluster + "/kubeconfig":  c.getKubeconfig,

		"GET " + cluster + "/destroy_with_associated_resources":              c.listAssociatedResources,
		"DELETE " + cluster + "/destroy_with_associated_resources/dangerous": c.destroyWithAllResources,
		"DELETE " + cluster + "/destroy_with_associated_resources/selective": c.destroyWithSomeResources,

		"POST " + pools:                    c.createNodePool,
		"GET " + pools:                     c.listNodePools,
		"GET " + pool:                      c.getNodePool,
		"PUT " + pool:                      c.updateNodePool,
		"DELETE " + pool:                   c.deleteNodePool,
		"POST " + pool + "/recycle":        c.recycleNodes,
		"DELETE " + pool + "/nodes/{node}": c.deleteNode,

		"GET /v2/vpcs":               c.listVPCs,
		"POST /v2/vpcs":              c.createVPC,
		"GET /v2/vpcs/{vpc}":         c.getVPC,
		"PUT /v2/vpcs/{vpc}":         c.updateVPC,
		"PATCH /v2/vpcs/{vpc}":       c.updateVPC,
		"DELETE /v2/vpcs/{vpc}":      c.deleteVPC,
		"GET /v2/vpcs/{vpc}/members": c.listVPCMembers,

		"GET /v2/firewalls":               c.listFirewalls,
		"POST /v2/firewalls":              c.createFirewall,
		"GET /v2/firewalls/{firewall}":    c.getFirewall,
		"PUT /v2/firewalls/{firewall}":    c.updateFirewall,
		"DELETE /v2/firewalls/{firewall}": c.deleteFirewall,

		"GET /v2/registry":    c.getRegistry,
		"POST /v2/registry":   c.createRegistry,
		"DELETE /v2/registry": c.deleteRegistry,

		"GET /v2/load_balancers":                    c.listLoadBalancers,
		"GET /v2/load_balancers/{load_balancer}":    c.getLoadBalancer,
		"DELETE /v2/load_balancers/{load_balancer}": c.deleteLoadBalancer,
		"GET /v2/volumes":                           c.listVolumes,
		"GET /v2/volumes/{volume}":                  c.getVolume,
		"DELETE /v2/volumes/{volume}":               c.deleteVolume,
	}
	mux := http.NewServeMux()
	for pattern, h := range table {
		mux.Handle(pattern, c.answer(h))
	}
	mux.Handle("/", c.answer(func(*http.Request) (reply, error) {
		return reply{}, notFound("The resource you were accessing could not be found.")
	}))
	return mux
}

// answer is what all calls have in common: headers, authentication, errors.
func (c *Cloud) answer(h handle) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requestID := emulator.NewID()
		w.Header().Set("X-Request-Id", requestID)
		c.rate.count(w.Header(), c.clock.Now())

		var result reply
		err := unauthorized()
		if c.options.Accepts(emulator.BearerToken(r)) {
			result, err = h(r)
		}
		switch {
		case err != nil:
			writeError(w, err, requestID)
		case result.yaml != "":
			w.Header().Set("Content-Type", "application/yaml")
			w.WriteHeader(result.status)
			_, _ = io.WriteString(w, result.yaml) // a client that went away is none of the cloud's business
		case result.document != nil:
			emulator.WriteJSON(w, result.status, result.document)
		default:
			w.WriteHeader(result.status)
		}
	})
}

func writeError(w http.ResponseWriter, err error, requestID string) {
	var refused *apiError
	if !errors.As(err, &refused) {
		refused = &apiError{Status: http.StatusInternalServerError, ID: "server_error", Message: err.Error()}
	}
	emulator.WriteJSON(w, refused.Status, map[string]string{
		"id": refused.ID, "message": refused.Message, "request_id": requestID,
	})
}

// read decodes the body of a request.
func read[T any](r *http.Request) (T, error) {
	var request T
	if err := emulator.ReadJSON(r, &request); err != nil {
		return request, badRequest("%s", err)
	}
	return request, nil
}

// rateCounter fills the headers that tell a client how many requests it has left. It refuses none.
// https://docs.digitalocean.com/reference/api/digitalocean/#section/Introduction/Rate-Limit
type rateCounter struct {
	mu    sync.Mutex
	reset time.Time
	used  int
}

const requestsPerHour = 5000

func (rc *rateCounter) count(header http.Header, now time.Time) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if !now.Before(rc.reset) {
		rc.reset, rc.used = now.Add(time.Hour), 0
	}
	rc.used++
	header.Set("Ratelimit-Limit", strconv.Itoa(requestsPerHour))
	header.Set("Ratelimit-Remaining", strconv.Itoa(max(requestsPerHour-rc.used, 0)))
	header.Set("Ratelimit-Reset", strconv.FormatInt(rc.reset.Unix(), 10))
}

const (
	defaultPerPage = 20
	maxPerPage     = 200
)

// listed answers one page of a list, with the links and the total that clients find the others by.
// https://docs.digitalocean.com/reference/api/digitalocean/#section/Introduction/Links-and-Pagination
func listed[T any](r *http.Request, name string, all []T) reply {
	query := r.URL.Query()
	page := positive(query.Get("page"), 1)
	perPage := min(positive(query.Get("per_page"), defaultPerPage), maxPerPage)
	pages := max((len(all)+perPage-1)/perPage, 1)

	items := []T{}
	if page <= pages {
		items = append(items, all[(page-1)*perPage:min(page*perPage, len(all))]...)
	}

	links := map[string]any{}
	if pages > 1 || page > 1 {
		to := func(n int) string {
			query.Set("page", strconv.Itoa(n))
			query.Set("per_page", strconv.Itoa(perPage))
			target := url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawQuery: query.Encode()}
			return target.String()
		}
		around := map[string]string{}
		if page > 1 {
			around["first"], around["prev"] = to(1), to(min(page-1, pages))
		}
		if page < pages {
			around["next"], around["last"] = to(page+1), to(pages)
		}
		links["pages"] = around
	}
	return reply{status: http.StatusOK, document: map[string]any{
		name: items, "links": links, "meta": map[string]int{"total": len(all)},
	}}
}

// positive reads a page number. What is none means the default, as for the real API.
func positive(text string, otherwise int) int {
	if number, err := strconv.Atoi(text); err == nil && number > 0 {
		return number
	}
	return otherwise
}

// flag reads a switch of the query: godo writes 1.
func flag(r *http.Request, name string) bool {
	on, err := strconv.ParseBool(r.URL.Query().Get(name))
	return err == nil && on
}
