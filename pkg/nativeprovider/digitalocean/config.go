package digitalocean

import (
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"

	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// defaultEndpoint is where the API is.
const defaultEndpoint = "https://api.digitalocean.com"

// Defaults of the official plugin for requests that fail.
const (
	defaultRetryMax     = 4
	defaultRetryWaitMin = 1.0
	defaultRetryWaitMax = 30.0
)

// config is the plugin's configuration, complete.
type config struct {
	Token             string
	Endpoint          string
	RetryMax          int
	RetryWaitMin      time.Duration
	RetryWaitMax      time.Duration
	RequestsPerSecond float64
}

// configProperties are those of the official plugin. The ones for Spaces are taken and not used: no resource here lives
// in Spaces, but a program that sets them must not fail.
func configProperties() []nativeprovider.Property {
	return []nativeprovider.Property{
		{Name: "token", Type: nativeprovider.String, Secret: true,
			Description: "The API token. The environment variables DIGITALOCEAN_TOKEN and DIGITALOCEAN_ACCESS_TOKEN are used without it."},
		{Name: "apiEndpoint", Type: nativeprovider.String,
			Description: "URL of the API; DIGITALOCEAN_API_URL, then " + defaultEndpoint + " without it."},
		{Name: "httpRetryMax", Type: nativeprovider.Int, Check: atLeast(0),
			Description: "How often a request that failed is repeated at most; 4 by default, 0 for never."},
		{Name: "httpRetryWaitMin", Type: nativeprovider.Number, Check: atLeast(0),
			Description: "Seconds before the first repetition; 1 by default. Each further wait is twice as long."},
		{Name: "httpRetryWaitMax", Type: nativeprovider.Number, Check: atLeast(0),
			Description: "The longest wait in seconds between two repetitions; 30 by default. A Retry-After of the API may be longer."},
		{Name: "requestsPerSecond", Type: nativeprovider.Number, Check: atLeast(0),
			Description: "The most requests that are sent in a second; no limit without it."},
		{Name: "spacesAccessId", Type: nativeprovider.String, Secret: true, Description: "Not used: nothing here lives in Spaces."},
		{Name: "spacesSecretKey", Type: nativeprovider.String, Secret: true, Description: "Not used: nothing here lives in Spaces."},
		{Name: "spacesEndpoint", Type: nativeprovider.String, Description: "Not used: nothing here lives in Spaces."},
	}
}

// configOf completes a configuration with the environment and the defaults.
func configOf(m resource.PropertyMap) (config, error) {
	c := config{
		Token: strings.TrimSpace(firstOf(nativeprovider.GetString(m, "token"),
			os.Getenv("DIGITALOCEAN_TOKEN"), os.Getenv("DIGITALOCEAN_ACCESS_TOKEN"))),
		Endpoint:          firstOf(nativeprovider.GetString(m, "apiEndpoint"), os.Getenv("DIGITALOCEAN_API_URL"), defaultEndpoint),
		RetryMax:          defaultRetryMax,
		RetryWaitMin:      seconds(m, "httpRetryWaitMin", defaultRetryWaitMin),
		RetryWaitMax:      seconds(m, "httpRetryWaitMax", defaultRetryWaitMax),
		RequestsPerSecond: nativeprovider.GetFloat(m, "requestsPerSecond"),
	}
	if retries := optionalInt(m, "httpRetryMax"); retries != nil {
		c.RetryMax = *retries
	}
	c.RetryWaitMax = max(c.RetryWaitMax, c.RetryWaitMin)
	if c.Token == "" {
		return config{}, errors.New("no digitalocean token: set digitalocean:token (pulumi config set --secret digitalocean:token), " +
			"the provider's token argument, or the environment variable DIGITALOCEAN_TOKEN")
	}
	return c, checkEndpoint(c.Endpoint)
}

// checkEndpoint refuses a URL that requests could not be sent to. godo replaces the path of it, so that a path would be
// lost without a word; the API's own /v2 is allowed.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.Errorf("digitalocean apiEndpoint %q is not a URL such as %s", endpoint, defaultEndpoint)
	}
	if path := strings.Trim(u.Path, "/"); path != "" && path != "v2" {
		return errors.Errorf("digitalocean apiEndpoint %q has a path, which the API's client cannot use; give the URL without it", endpoint)
	}
	return nil
}

func seconds(m resource.PropertyMap, key resource.PropertyKey, otherwise float64) time.Duration {
	value := otherwise
	if m[key].IsNumber() {
		value = nativeprovider.GetFloat(m, key)
	}
	return time.Duration(value * float64(time.Second))
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
