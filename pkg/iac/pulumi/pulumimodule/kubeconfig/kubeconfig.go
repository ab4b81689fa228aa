// Package kubeconfig reads the kubeconfigs that platforms hand out, and makes stack outputs of them.
//
// A kubeconfig is a secret from end to end: what is made of one stays secret, except for the certificate authority, which
// is public by nature and is said so explicitly.
package kubeconfig

import (
	"encoding/base64"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"go.yaml.in/yaml/v3"
)

// Config is what a kubeconfig says of its current context. Parts that it lacks are empty.
type Config struct {
	// CertificateAuthority is the base64-encoded PEM of the cluster's certificate authority, as the kubeconfig carries it.
	CertificateAuthority string
	// Server is the URL of the Kubernetes API.
	Server string
	// Token is the bearer token of the user. A secret.
	Token string
}

// file is the part of a kubeconfig that is read.
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
type file struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string `yaml:"name"`
		Cluster struct {
			CertificateAuthorityData string `yaml:"certificate-authority-data"`
			Server                   string `yaml:"server"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string `yaml:"name"`
		User struct {
			Token string `yaml:"token"`
		} `yaml:"user"`
	} `yaml:"users"`
}

// Parse reads a kubeconfig. Without a current context, its first cluster and first user count. An empty text gives an
// empty Config. The error never carries any of the text.
func Parse(text string) (Config, error) {
	var f file
	if err := yaml.Unmarshal([]byte(text), &f); err != nil {
		// The YAML library quotes what it read, which may be a credential.
		return Config{}, errors.New("read kubeconfig: not valid YAML")
	}
	var clusterName, userName string
	for _, c := range f.Contexts {
		if c.Name == f.CurrentContext {
			clusterName, userName = c.Context.Cluster, c.Context.User
			break
		}
	}
	var config Config
	for _, c := range f.Clusters {
		if clusterName == "" || c.Name == clusterName {
			config.CertificateAuthority, config.Server = c.Cluster.CertificateAuthorityData, c.Cluster.Server
			break
		}
	}
	for _, u := range f.Users {
		if userName == "" || u.Name == userName {
			config.Token = u.User.Token
			break
		}
	}
	return config, nil
}

// Base64 returns the kubeconfig encoded in base64 (RFC 4648, padded), as a secret. An empty kubeconfig stays empty.
func Base64(kubeconfig pulumi.StringOutput) pulumi.StringOutput {
	encoded := kubeconfig.ApplyT(func(text string) string {
		return base64.StdEncoding.EncodeToString([]byte(text))
	}).(pulumi.StringOutput)
	return secret(encoded)
}

// CertificateAuthority returns the base64-encoded PEM of the cluster's certificate authority, which is no secret even
// though the kubeconfig is one.
func CertificateAuthority(kubeconfig pulumi.StringOutput) pulumi.StringOutput {
	return pulumi.Unsecret(field(kubeconfig, func(c Config) string { return c.CertificateAuthority })).(pulumi.StringOutput)
}

// Server returns the URL of the Kubernetes API, which is no secret even though the kubeconfig is one.
func Server(kubeconfig pulumi.StringOutput) pulumi.StringOutput {
	return pulumi.Unsecret(field(kubeconfig, func(c Config) string { return c.Server })).(pulumi.StringOutput)
}

// Token returns the bearer token of the kubeconfig's user, as a secret.
func Token(kubeconfig pulumi.StringOutput) pulumi.StringOutput {
	return secret(field(kubeconfig, func(c Config) string { return c.Token }))
}

func field(kubeconfig pulumi.StringOutput, get func(Config) string) pulumi.StringOutput {
	return kubeconfig.ApplyT(func(text string) (string, error) {
		config, err := Parse(text)
		if err != nil {
			return "", err
		}
		return get(config), nil
	}).(pulumi.StringOutput)
}

func secret(output pulumi.StringOutput) pulumi.StringOutput {
	return pulumi.ToSecret(output).(pulumi.StringOutput)
}
