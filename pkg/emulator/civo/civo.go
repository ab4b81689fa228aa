// Package civo emulates the part of Civo's API (https://www.civo.com/api) that provisioning Kubernetes clusters needs:
// regions, networks, firewalls, clusters, node pools, the catalogues of versions, sizes and applications, and the lists of the
// volumes and load balancers that Kubernetes makes.
//
// The shapes are those that civogo v0.3.89 decodes, the error codes those that it tells apart, and the states come in the
// order in which the real cloud goes through them, so that both civogo and the Pulumi and Terraform providers of Civo work
// against a [Cloud] as they do against https://api.civo.com: set CIVO_API_URL to the address it listens on.
//
// Objects live in one region each. Requests name it in the query (GET, DELETE) or in the body (POST, PUT); LON1 is meant when
// they name none.
package civo

import (
	"net/http"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// How long things take in the real cloud, observed or from Civo's own statements ("under 90 seconds" for a cluster with its
// control plane, nodes a little later). Options.TimeScale shortens them.
const (
	clusterBuildTime   = 2 * time.Minute
	clusterUpgradeTime = 3 * time.Minute
	clusterDeleteTime  = 30 * time.Second
	// A node is listed a little after it was asked for, as BUILDING, and then becomes ACTIVE.
	nodeListedTime = 10 * time.Second
	nodeActiveTime = time.Minute
	// A node that was taken away is listed as DELETING for this long.
	nodeDeleteTime = 20 * time.Second
)

// Cloud is an emulated Civo account. It serves Civo's API over HTTP; its methods let tests look at what the account holds
// and change it behind the back of the API's clients. Every method may be called from several goroutines.
type Cloud struct {
	options emulator.Options
	clock   emulator.Clock
	store   *emulator.Store[account]
	log     emulator.Log
	handler http.Handler
}

// New is the account in options.StateFile, or a new one, which holds the default network of each region and its firewall
// and nothing else.
func New(options emulator.Options) (*Cloud, error) { return newCloud(options, nil) }

// newCloud lets the package's own tests give the time.
func newCloud(options emulator.Options, now func() time.Time) (*Cloud, error) {
	if err := options.Validate(); err != nil {
		return nil, errors.Wrap(err, "emulate civo")
	}
	store, err := emulator.OpenStore(options.StateFile, newAccount())
	if err != nil {
		return nil, errors.Wrap(err, "emulate civo")
	}
	var cloud string
	store.View(func(a *account) { cloud = a.Cloud })
	if cloud != cloudName {
		return nil, errors.Errorf("emulate civo: the state in %s is not that of an emulated Civo account", options.StateFile)
	}
	c := &Cloud{options: options, clock: emulator.NewClock(options.TimeScale, now), store: store}
	c.handler = emulator.Handler(options, &c.log, c.authenticate(c.routes()))
	return c, nil
}

// ServeHTTP answers one call of the API.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Name is "civo".
func (c *Cloud) Name() string { return cloudName }

// Requests are the latest calls of the API, oldest first, with secrets taken out.
func (c *Cloud) Requests() []emulator.Request { return c.log.Requests() }

// Count tells how many of Requests have the method, any for "", and a path that the pattern of [emulator.MatchPath] stands for.
func (c *Cloud) Count(method, pattern string) int { return c.log.Count(method, pattern) }

// ResetRequests empties what Requests returns.
func (c *Cloud) ResetRequests() { c.log.Reset() }

func (c *Cloud) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := emulator.BearerToken(r)
		switch {
		case token == "":
			emulator.WriteJSON(w, http.StatusUnauthorized, map[string]string{
				"result": "requires_authentication",
				"reason": "The API key is missing: send it as Authorization: bearer TOKEN",
			})
		case !c.options.Accepts(token):
			// What the real API says to a token that is wrong, expired or revoked.
			writeError(w, errAccountNotFound())
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (c *Cloud) routes() http.Handler {
	mux := http.NewServeMux()
	// In the order of the API's documentation.
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /v2/regions": c.listRegions,
		"GET /v2/quota":   c.getQuota,
		"GET /v2/sizes":   c.listSizes,

		"GET /v2/networks":         c.listNetworks,
		"POST /v2/networks":        c.createNetwork,
		"GET /v2/networks/{id}":    c.getNetwork,
		"PUT /v2/networks/{id}":    c.updateNetwork,
		"DELETE /v2/networks/{id}": c.deleteNetwork,

		"GET /v2/firewalls":                      c.listFirewalls,
		"POST /v2/firewalls":                     c.createFirewall,
		"GET /v2/firewalls/{id}":                 c.getFirewall,
		"PUT /v2/firewalls/{id}":                 c.updateFirewall,
		"DELETE /v2/firewalls/{id}":              c.deleteFirewall,
		"GET /v2/firewalls/{id}/rules":           c.listRules,
		"POST /v2/firewalls/{id}/rules":          c.createRule,
		"GET /v2/firewalls/{id}/rules/{rule}":    c.getRule,
		"DELETE /v2/firewalls/{id}/rules/{rule}": c.deleteRule,

		"GET /v2/volumes":       c.listVolumes,
		"GET /v2/loadbalancers": c.listLoadBalancers,

		"GET /v2/kubernetes/versions":     c.listVersions,
		"GET /v2/kubernetes/applications": c.listApplications,

		"GET /v2/kubernetes/clusters":                                         c.listClusters,
		"POST /v2/kubernetes/clusters":                                        c.createCluster,
		"GET /v2/kubernetes/clusters/{id}":                                    c.getCluster,
		"PUT /v2/kubernetes/clusters/{id}":                                    c.updateCluster,
		"DELETE /v2/kubernetes/clusters/{id}":                                 c.deleteCluster,
		"GET /v2/kubernetes/clusters/{id}/instances":                          c.listClusterInstances,
		"GET /v2/kubernetes/clusters/{id}/pools":                              c.listPools,
		"POST /v2/kubernetes/clusters/{id}/pools":                             c.createPool,
		"GET /v2/kubernetes/clusters/{id}/pools/{pool}":                       c.getPool,
		"PUT /v2/kubernetes/clusters/{id}/pools/{pool}":                       c.updatePool,
		"DELETE /v2/kubernetes/clusters/{id}/pools/{pool}":                    c.deletePool,
		"DELETE /v2/kubernetes/clusters/{id}/pools/{pool}/instances/{member}": c.deletePoolInstance,

		"/": func(r *http.Request) (any, error) { return nil, errNoSuchEndpoint(r) },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			document, err := answer(r)
			if err != nil {
				writeError(w, err)
				return
			}
			emulator.WriteJSON(w, http.StatusOK, document)
		})
	}
	return mux
}

// success is what the API answers to a call that has nothing else to say.
type success struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
	Label  string `json:"label,omitempty"`
	Result string `json:"result"`
}

func done() success { return success{Result: "success"} }

// decode reads the request's body.
func decode[T any](r *http.Request) (T, error) {
	var body T
	if err := emulator.ReadJSON(r, &body); err != nil {
		return body, errUnreadable(err)
	}
	return body, nil
}

// regionOf is the region that a request is about: inBody when the body has one, else that of the query, else the account's
// default. The case is of no matter.
func regionOf(r *http.Request, inBody string) (string, error) {
	code := inBody
	if code == "" {
		code = r.URL.Query().Get("region")
	}
	if code == "" {
		return defaultRegion, nil
	}
	code = strings.ToUpper(code)
	for _, region := range regions {
		if region.Code == code {
			return code, nil
		}
	}
	return "", errRegionUnavailable(code)
}

// view reads the account for a call about the objects of one region.
func (c *Cloud) view(r *http.Request, read func(a *account, region string) (any, error)) (document any, err error) {
	region, err := regionOf(r, "")
	if err != nil {
		return nil, err
	}
	c.store.View(func(a *account) { document, err = read(a.visible(c.clock.Now()), region) })
	return document, err
}

// update changes the account for a call about the objects of one region.
func (c *Cloud) update(r *http.Request, inBody string, change func(a *account, region string) (any, error)) (document any, err error) {
	region, err := regionOf(r, inBody)
	if err != nil {
		return nil, err
	}
	err = c.store.Update(func(a *account) error {
		now := c.clock.Now()
		a.forget(now)
		used, known := a.usage(now), a.ids()
		if document, err = change(a, region); err != nil {
			return err
		}
		a.hideNew(known, now, emulator.EffectsOf(r.Context()).Unseen)
		// The store undoes a change that would exceed the quota.
		return a.Quota.allows(used, a.usage(now))
	})
	if err != nil {
		return nil, err
	}
	return document, nil
}
