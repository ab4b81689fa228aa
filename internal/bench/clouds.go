package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"

	"github.com/plantonhq/project-planton/pkg/emulator"
	civocloud "github.com/plantonhq/project-planton/pkg/emulator/civo"
	digitaloceancloud "github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/nativeprovider"
	nativecivo "github.com/plantonhq/project-planton/pkg/nativeprovider/civo"
	nativedigitalocean "github.com/plantonhq/project-planton/pkg/nativeprovider/digitalocean"
)

// token is accepted by the clouds of the bench.
const token = "token-of-the-bench"

// nativePlugin is the native plugin of a provider.
func nativePlugin(provider string) (*nativeprovider.Provider, error) {
	switch provider {
	case kinds.Civo:
		return nativecivo.New(nativecivo.SDKVersion), nil
	case kinds.DigitalOcean:
		return nativedigitalocean.New(nativedigitalocean.SDKVersion), nil
	default:
		return nil, errors.Errorf("there is no native plugin for %q", provider)
	}
}

var _ plugin.Provider = (*nativeprovider.Provider)(nil)

// clouds are emulated clouds in which nothing takes time.
type clouds struct {
	civo                     *civocloud.Cloud
	digitalocean             *digitaloceancloud.Cloud
	civoURL, digitaloceanURL string
	servers                  []*emulator.Server
}

// startClouds serves new clouds. Close them.
func startClouds() (*clouds, error) {
	c := &clouds{}
	var err error
	if c.civo, err = civocloud.New(emulator.Options{Token: token}); err != nil {
		return nil, err
	}
	if c.digitalocean, err = digitaloceancloud.New(emulator.Options{Token: token}); err != nil {
		return nil, err
	}
	for _, cloud := range []struct {
		handler http.Handler
		url     *string
	}{{c.civo, &c.civoURL}, {c.digitalocean, &c.digitaloceanURL}} {
		server, err := emulator.Listen("127.0.0.1:0", cloud.handler)
		if err != nil {
			return nil, errors.Wrap(firstError(err, c.close()), "serve an emulated cloud")
		}
		c.servers = append(c.servers, server)
		*cloud.url = server.URL()
	}
	return c, nil
}

func (c *clouds) close() error {
	var first error
	for _, server := range c.servers {
		first = firstError(first, server.Close())
	}
	return first
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// requests are those of both clouds since forget.
func (c *clouds) requests() []emulator.Request {
	return append(c.civo.Requests(), c.digitalocean.Requests()...)
}

func (c *clouds) forget() {
	c.civo.ResetRequests()
	c.digitalocean.ForgetRequests()
}

// made is what a cloud answers to a create.
type made struct {
	ID  string              `json:"id"`
	VPC struct{ ID string } `json:"vpc"`
	K8s struct{ ID string } `json:"kubernetes_cluster"`
}

// post creates an object as its owner would, beside the operation that is measured.
func (c *clouds) post(provider, path string, body map[string]any) (made, error) {
	url := c.civoURL
	if provider == kinds.DigitalOcean {
		url = c.digitaloceanURL
	}
	var answer made
	encoded, err := json.Marshal(body)
	if err != nil {
		return answer, errors.Wrap(err, "write the request")
	}
	request, err := http.NewRequest(http.MethodPost, url+path, bytes.NewReader(encoded))
	if err != nil {
		return answer, errors.Wrap(err, "make the request")
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer, errors.Wrap(err, "create an object")
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= 300 {
		return answer, errors.Errorf("create an object: %s", response.Status)
	}
	return answer, errors.Wrap(json.NewDecoder(response.Body).Decode(&answer), "read the answer")
}

// summary writes requests down, without ids and versions of the API: "POST networks, GET networks/ID".
func summary(requests []emulator.Request) string {
	texts := make([]string, len(requests))
	for i, request := range requests {
		parts := strings.Split(strings.TrimPrefix(request.Path, "/v2/"), "/")
		for j, part := range parts {
			if strings.Count(part, "-") == 4 {
				parts[j] = "ID"
			}
		}
		texts[i] = request.Method + " " + strings.TrimPrefix(strings.Join(parts, "/"), "kubernetes/")
	}
	return strings.Join(texts, ", ")
}
