package digitalocean

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/common/tokens"
)

// The tests of the environment cannot run beside others.
func TestConfig(t *testing.T) {
	defaults := config{Token: "t", Endpoint: defaultEndpoint, RetryMax: 4, RetryWaitMin: time.Second, RetryWaitMax: 30 * time.Second}
	changed := func(change func(*config)) config {
		c := defaults
		change(&c)
		return c
	}
	for _, test := range []struct {
		reason string
		env    map[string]string
		given  props
		want   config
		err    string
	}{
		{reason: "the defaults", given: props{"token": "t"}, want: defaults},
		{reason: "the token of the environment", env: map[string]string{"DIGITALOCEAN_TOKEN": "t"}, want: defaults},
		{reason: "its other name", env: map[string]string{"DIGITALOCEAN_ACCESS_TOKEN": "t"}, want: defaults},
		{reason: "the configuration wins", env: map[string]string{"DIGITALOCEAN_TOKEN": "x"}, given: props{"token": "t"}, want: defaults},
		{reason: "a newline after the token", given: props{"token": "t\n"}, want: defaults},
		{reason: "no token", err: "pulumi config set --secret digitalocean:token"},
		{reason: "the endpoint of the environment", env: map[string]string{"DIGITALOCEAN_API_URL": "http://127.0.0.1:1"}, given: props{"token": "t"},
			want: changed(func(c *config) { c.Endpoint = "http://127.0.0.1:1" })},
		{reason: "an endpoint that is none", given: props{"token": "t", "apiEndpoint": "api.digitalocean.com"}, err: "is not a URL"},
		{reason: "an endpoint of another kind", given: props{"token": "t", "apiEndpoint": "ftp://example.net"}, err: "is not a URL"},
		{reason: "a path, which would be lost", given: props{"token": "t", "apiEndpoint": "https://example.net/do"}, err: "has a path"},
		{reason: "the path of the API", given: props{"token": "t", "apiEndpoint": "https://example.net/v2/"},
			want: changed(func(c *config) { c.Endpoint = "https://example.net/v2/" })},
		{reason: "no retries", given: props{"token": "t", "httpRetryMax": 0}, want: changed(func(c *config) { c.RetryMax = 0 })},
		{reason: "other waits", given: props{"token": "t", "httpRetryWaitMin": 0.5, "httpRetryWaitMax": 2.0, "requestsPerSecond": 3.0},
			want: changed(func(c *config) {
				c.RetryWaitMin, c.RetryWaitMax, c.RequestsPerSecond = 500*time.Millisecond, 2*time.Second, 3
			})},
		{reason: "a longest wait that is shorter than the first", given: props{"token": "t", "httpRetryWaitMin": 60.0},
			want: changed(func(c *config) { c.RetryWaitMin, c.RetryWaitMax = time.Minute, time.Minute })},
	} {
		t.Run(test.reason, func(t *testing.T) {
			for _, name := range []string{"DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_API_URL"} {
				t.Setenv(name, test.env[name])
			}
			got, err := configOf(propertyMap(test.given))
			if test.err != "" {
				wantErr(t, err, test.err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPluginWithoutToken(t *testing.T) {
	for _, name := range []string{"DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"} {
		t.Setenv(name, "")
	}
	provider := dial(t)
	err := configure(t, provider, props{"apiEndpoint": "http://127.0.0.1:1"})
	if err == nil {
		// The SDK's client configures in the background, and tells at the first use.
		urn := resource.NewURN("dev", "test", "", vpcToken, "vpc")
		_, err = provider.Check(t.Context(), plugin.CheckRequest{URN: urn, Name: "vpc", Type: vpcToken, News: propertyMap(props{"region": "nyc1"})})
	}
	wantErr(t, err, "no digitalocean token", "DIGITALOCEAN_TOKEN")
}

func TestSecretsOfTheConfigurationAreMarked(t *testing.T) {
	t.Parallel()
	provider := dial(t)
	typ := tokens.Type("pulumi:providers:digitalocean")
	checked, err := provider.CheckConfig(t.Context(), plugin.CheckConfigRequest{
		URN: resource.NewURN("dev", "test", "", typ, "default"), Name: "default", Type: typ,
		News: propertyMap(props{"token": testToken, "spacesAccessId": "id", "spacesSecretKey": "key", "apiEndpoint": "http://127.0.0.1:1"}),
	})
	if err != nil || len(checked.Failures) > 0 {
		t.Fatalf("%v %+v", err, checked.Failures)
	}
	for _, key := range []resource.PropertyKey{"token", "spacesAccessId", "spacesSecretKey"} {
		if !checked.Properties[key].IsSecret() {
			t.Errorf("%s is not secret", key)
		}
	}
}

func TestPreviewsSendNothing(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	w.cloud.ForgetRequests()
	inputs, failures := cluster.check(withPool(simpleCluster(), props{"nodeCount": 5}))
	if len(failures) > 0 {
		t.Fatalf("%+v", failures)
	}
	updated, err := w.provider.Update(t.Context(), plugin.UpdateRequest{
		URN: cluster.urn, Name: "cluster", Type: clusterToken, ID: cluster.id, OldInputs: cluster.inputs, OldOutputs: cluster.state,
		NewInputs: inputs, Preview: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	pool := updated.Properties["nodePool"].ObjectValue()
	if pool["nodeCount"].NumberValue() != 5 || !pool["nodes"].ContainsUnknowns() || updated.Properties["kubeConfigs"].ContainsUnknowns() {
		t.Errorf("the plan is %v", pool)
	}
	created, err := w.provider.Create(t.Context(), plugin.CreateRequest{
		URN: cluster.urn, Name: "cluster", Type: clusterToken, Properties: inputs, Preview: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !created.Properties["endpoint"].ContainsUnknowns() || !created.Properties["kubeConfigs"].ContainsUnknowns() {
		t.Errorf("the plan is %v", created.Properties)
	}
	if n := len(w.cloud.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestNothingSecretIsInErrorsOrURLs(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	token, _ := cluster.get("kubeConfigs[0].token").(string)
	w.refuse("", "/v2/", http.StatusBadRequest, "bad_request")
	for _, err := range []error{
		func() error { _, err := cluster.refresh(); return err }(),
		func() error { _, err := cluster.up(withPool(simpleCluster(), props{"nodeCount": 5})); return err }(),
		cluster.destroy(),
	} {
		wantErr(t, err, "400")
		if containsText(err.Error(), token) {
			t.Error("an error tells the cluster's token")
		}
	}
	for _, r := range w.cloud.Requests() {
		if containsText(r.Path+r.Query, testToken) {
			t.Errorf("the token is in %s?%s", r.Path, r.Query)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	w, cluster := withCluster(t, 0)
	w.fault(func(out http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(out, r, "http://127.0.0.1:1/elsewhere", http.StatusFound)
	})
	_, err := cluster.refresh()
	wantErr(t, err, "302")
}
