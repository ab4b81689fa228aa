package doctor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/credentials"
	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// cloud is what differs between the clouds.
type cloud struct {
	name     string // of the checks
	title    string // for people
	endpoint string // the API's
	path     string // what every token may read
	scheme   string // of the Authorization header
	find     func() (token, endpoint string, source credentials.Source, err error)
}

// clouds looks at the credentials of each cloud, and asks its API whether it accepts them. One cloud that can be used is enough.
func (o Options) clouds(ctx context.Context) []Check {
	clouds := []cloud{
		{
			name: "civo", title: "Civo", endpoint: "https://api.civo.com", path: "/v2/quota", scheme: "bearer",
			find: func() (string, string, credentials.Source, error) {
				config, source, err := o.Credentials.Civo()
				return config.GetApiToken(), config.GetApiEndpoint(), source, err
			},
		},
		{
			name: "digitalocean", title: "DigitalOcean", endpoint: "https://api.digitalocean.com", path: "/v2/account", scheme: "Bearer",
			find: func() (string, string, credentials.Source, error) {
				config, source, err := o.Credentials.DigitalOcean()
				return config.GetApiToken(), config.GetApiEndpoint(), source, err
			},
		},
	}
	found := make([][]Check, len(clouds))
	without := 0
	var wait sync.WaitGroup
	for i, cloud := range clouds {
		token, endpoint, source, err := cloud.find() // one after the other: they share the credentials file
		if endpoint == "" {
			endpoint = cloud.endpoint
		}
		check := Check{Name: "credentials/" + cloud.name, Status: OK}
		if err != nil {
			check.Status, check.Message, check.Fix = Missing, err.Error(), "mend it as it says, or set the token in the environment"
			var none *credentials.Error
			if errors.As(err, &none) && none.NoToken != "" {
				without++
				check.Status, check.Message, check.Fix = Note, "there is no API token for "+cloud.title, none.NoToken
			}
			token = ""
		}
		wait.Go(func() { found[i] = cloud.ask(ctx, check, token, endpoint, source) })
	}
	wait.Wait()
	var checks []Check
	for _, of := range found {
		if without == len(clouds) {
			of[0].Status = Missing
		}
		checks = append(checks, of...)
	}
	return checks
}

// ask asks the API whether it is there, and where there is a token whether it accepts it. A cloud that no token is for is only told.
func (c cloud) ask(ctx context.Context, credentials Check, token, endpoint string, source credentials.Source) []Check {
	reach := Check{Name: "api/" + c.name, Status: OK, Message: shown(endpoint) + " answers"}
	code, err := c.get(ctx, token, strings.TrimSuffix(endpoint, "/"))
	if err != nil {
		reach.Message = shown(endpoint) + ": " + err.Error()
		reach.Fix = "look whether the network, a proxy (HTTPS_PROXY) or a firewall lets this machine reach it"
		reach.Status = Missing
		if token == "" {
			reach.Status = Note
			return []Check{credentials, reach}
		}
		credentials.Status = Note
		credentials.Message = fmt.Sprintf("from %s; whether %s accepts it is not known", source, c.title)
		return []Check{credentials, reach}
	}
	if token == "" {
		return []Check{credentials, reach}
	}
	switch {
	case code < http.StatusMultipleChoices:
		credentials.Message = fmt.Sprintf("from %s; %s accepts it", source, c.title)
	case code == http.StatusUnauthorized:
		credentials.Status = Missing
		credentials.Message = fmt.Sprintf("from %s; %s does not accept it", source, c.title)
		credentials.Fix = "it may have expired or been revoked: make a new one and put it there"
	case code == http.StatusForbidden:
		credentials.Status = Note
		credentials.Message = fmt.Sprintf("from %s; %s knows it, but it may not read %s", source, c.title, c.path)
		credentials.Fix = "look whether it may manage networks, firewalls and Kubernetes"
	default:
		credentials.Status = Note
		credentials.Message = fmt.Sprintf("from %s; whether %s accepts it is not known", source, c.title)
		reach.Status = Missing
		reach.Message = fmt.Sprintf("%s answers %d %s", shown(endpoint), code, http.StatusText(code))
		reach.Fix = "is it the API of " + c.title + "? Else run the command again later"
	}
	return []Check{credentials, reach}
}

// get asks for what every token may read; without a token, for anything. It returns the code of the answer.
func (c cloud) get(ctx context.Context, token, endpoint string) (int, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if token != "" {
		client.Transport = &nativeprovider.Authorized{Base: http.DefaultTransport, Scheme: c.scheme, Token: token}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+c.path, nil)
	if err != nil {
		return 0, errors.New("it is no URL")
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, errors.New(unreachable(ctx, err))
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, response.Body.Close()
}

// unreachable says why there was no answer, without the address, which stands beside it.
func unreachable(ctx context.Context, err error) string {
	var failure *url.Error
	var name *net.DNSError
	switch {
	case ctx.Err() != nil:
		return "it did not answer in time"
	case errors.As(err, &name):
		return "its name cannot be looked up: " + name.Err
	case errors.As(err, &failure):
		return failure.Err.Error()
	default:
		return err.Error()
	}
}

// shown is an endpoint without a password in it.
func shown(endpoint string) string {
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return "the endpoint"
	}
	return parsed.Redacted()
}
