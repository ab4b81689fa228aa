package digitalocean

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfigWithACertificate(t *testing.T) {
	t.Parallel()
	c, err := newCredentials("prod", "nyc1", &godo.KubernetesClusterCredentials{
		Server: "https://192.0.2.1", CertificateAuthorityData: []byte("authority"), ClientCertificateData: []byte("certificate"),
		ClientKeyData: []byte("key"), ExpiresAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := clientcmd.Load([]byte(c.RawConfig))
	if err != nil {
		t.Fatal(err)
	}
	user := parsed.AuthInfos["do-nyc1-prod-admin"]
	if user == nil || string(user.ClientCertificateData) != "certificate" || string(user.ClientKeyData) != "key" || user.Token != "" {
		t.Errorf("users are %v", parsed.AuthInfos)
	}
	cluster := parsed.Clusters["do-nyc1-prod"]
	if cluster == nil || cluster.Server != "https://192.0.2.1" || string(cluster.CertificateAuthorityData) != "authority" {
		t.Errorf("clusters are %v", parsed.Clusters)
	}
	if c.ExpiresAt != "2026-03-01T12:00:00Z" || c.ClientCertificate != "certificate" || c.ClusterCACertificate != "YXV0aG9yaXR5" {
		t.Error("the credentials beside the kubeconfig are others")
	}
}

func TestCredentialsAreRenewedInTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	good := credentials{RawConfig: "x", Token: "y"}
	at := func(d time.Duration) credentials {
		c := good
		c.ExpiresAt = now.Add(d).Format(time.RFC3339)
		return c
	}
	week := defaultCredentialLifetime
	for _, test := range []struct {
		reason   string
		c        credentials
		lifetime time.Duration
		want     bool
	}{
		{"none", credentials{}, week, false},
		{"no expiry", good, week, false},
		{"an expiry that is none", credentials{RawConfig: "x", Token: "y", ExpiresAt: "soon"}, week, false},
		{"no token", credentials{RawConfig: "x", ExpiresAt: now.Add(week).Format(time.RFC3339)}, week, false},
		{"a certificate is as good", credentials{RawConfig: "x", ClientCertificate: "c", ExpiresAt: now.Add(week).Format(time.RFC3339)}, week, true},
		{"days left", at(48 * time.Hour), week, true},
		{"an hour and a bit left", at(61 * time.Minute), week, true},
		{"less than an hour left", at(59 * time.Minute), week, false},
		{"expired", at(-time.Second), week, false},
		{"half of ten minutes", at(5 * time.Minute), 10 * time.Minute, true},
		{"the last of ten minutes", at(59 * time.Second), 10 * time.Minute, false},
	} {
		if got := test.c.freshAt(now, test.lifetime); got != test.want {
			t.Errorf("%s: %v, want %v", test.reason, got, test.want)
		}
	}
}

// Whether credentials are about to expire is judged by the clock of the cloud, which has dated them.
func TestCredentialsAreJudgedByTheCloudsClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		c, err := newClient(config{Endpoint: "http://127.0.0.1/", Token: "token"}, "1", roundTripper(func(*http.Request) (*http.Response, error) {
			date := time.Now().Add(ahead).UTC().Format(http.TimeFormat)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {date}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.api.Account.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if off := c.now().Sub(time.Now().Add(ahead)).Abs(); off > time.Minute {
			t.Errorf("the cloud's clock is %s ahead: it is taken to be off by %s", ahead, off)
		}
	}
}
