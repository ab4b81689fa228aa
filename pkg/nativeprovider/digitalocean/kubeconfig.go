package digitalocean

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/digitalocean/godo"
	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
)

// defaultCredentialLifetime is how long credentials last when no expiry is asked for.
const defaultCredentialLifetime = 7 * 24 * time.Hour

// longestRenewalMargin is the most of a lifetime that is given up to renew credentials before they expire.
const longestRenewalMargin = time.Hour

// credentials are what a Kubernetes client needs to reach one cluster. Everything in it is secret.
type credentials struct {
	Host                 string
	ClusterCACertificate string // base64 of PEM, as in a kubeconfig
	Token                string
	ClientCertificate    string // PEM; empty with tokens, which is what the API gives nowadays
	ClientKey            string // PEM; as ClientCertificate
	ExpiresAt            string // RFC 3339
	RawConfig            string // a kubeconfig in YAML
}

// newCredentials keeps what the API answered, with a kubeconfig made of it. Its names are those that the cloud's own
// tool gives: do-<region>-<cluster>.
func newCredentials(cluster, region string, from *godo.KubernetesClusterCredentials) (credentials, error) {
	c := credentials{
		Host:                 from.Server,
		ClusterCACertificate: base64.StdEncoding.EncodeToString(from.CertificateAuthorityData),
		Token:                from.Token,
		ClientCertificate:    string(from.ClientCertificateData),
		ClientKey:            string(from.ClientKeyData),
		ExpiresAt:            from.ExpiresAt.Format(time.RFC3339),
	}
	raw, err := renderKubeconfig(fmt.Sprintf("do-%s-%s", region, cluster), c)
	if err != nil {
		return credentials{}, err
	}
	c.RawConfig = raw
	return c, nil
}

// freshAt tells whether the credentials are there and will be valid for a while longer. The lifetime is the one that
// was asked for: short-lived credentials are renewed later, or they would be renewed each time.
func (c credentials) freshAt(now time.Time, lifetime time.Duration) bool {
	if c.RawConfig == "" || c.Token == "" && c.ClientCertificate == "" {
		return false
	}
	expires, err := time.Parse(time.RFC3339, c.ExpiresAt)
	if err != nil || expires.IsZero() {
		return false
	}
	return now.Add(min(lifetime/10, longestRenewalMargin)).Before(expires)
}

// kubeconfigFile is the part of a kubeconfig that is written; see k8s.io/client-go/tools/clientcmd/api/v1.
type kubeconfigFile struct {
	APIVersion     string              `yaml:"apiVersion"`
	Kind           string              `yaml:"kind"`
	Clusters       []kubeconfigCluster `yaml:"clusters"`
	Contexts       []kubeconfigContext `yaml:"contexts"`
	CurrentContext string              `yaml:"current-context"`
	Users          []kubeconfigUser    `yaml:"users"`
}

type kubeconfigCluster struct {
	Cluster struct {
		CertificateAuthorityData string `yaml:"certificate-authority-data"`
		Server                   string `yaml:"server"`
	} `yaml:"cluster"`
	Name string `yaml:"name"`
}

type kubeconfigContext struct {
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	} `yaml:"context"`
	Name string `yaml:"name"`
}

type kubeconfigUser struct {
	Name string `yaml:"name"`
	User struct {
		ClientCertificateData string `yaml:"client-certificate-data,omitempty"`
		ClientKeyData         string `yaml:"client-key-data,omitempty"`
		Token                 string `yaml:"token,omitempty"`
	} `yaml:"user"`
}

func renderKubeconfig(name string, c credentials) (string, error) {
	var (
		cluster = kubeconfigCluster{Name: name}
		user    = kubeconfigUser{Name: name + "-admin"}
		current = kubeconfigContext{Name: name}
	)
	cluster.Cluster.CertificateAuthorityData = c.ClusterCACertificate
	cluster.Cluster.Server = c.Host
	user.User.Token = c.Token
	if c.ClientCertificate != "" {
		user.User.ClientCertificateData = base64.StdEncoding.EncodeToString([]byte(c.ClientCertificate))
	}
	if c.ClientKey != "" {
		user.User.ClientKeyData = base64.StdEncoding.EncodeToString([]byte(c.ClientKey))
	}
	current.Context.Cluster = name
	current.Context.User = user.Name
	out, err := yaml.Marshal(kubeconfigFile{
		APIVersion:     "v1",
		Kind:           "Config",
		Clusters:       []kubeconfigCluster{cluster},
		Contexts:       []kubeconfigContext{current},
		CurrentContext: name,
		Users:          []kubeconfigUser{user},
	})
	return string(out), errors.Wrap(err, "write the kubeconfig")
}
