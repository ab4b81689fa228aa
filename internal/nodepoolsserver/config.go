package nodepoolsserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/plantonhq/project-planton/pkg/kinds"
	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/provision"
)

// databaseVariable names the database. Its address may hold a password, so there is no flag for it: others can read the arguments of a
// process.
const databaseVariable = "NODEPOOLS_DATABASE"

// config is what the flags of serve say.
type config struct {
	listen, socket         string
	tlsCert, tlsKey, tlsCA string
	authFile               string

	stateDirectory string
	keyFile        string

	cloud, plugins, profile        string
	civoConfig, digitalOceanConfig string
	timeScale                      float64
	platforms                      []string
	workers, parallel              int
	driftInterval                  time.Duration

	progressDeadline, deletionDeadline time.Duration
	keepEvents, keepAudit              time.Duration
	maxClusters, maxPools, maxNodes    int
	rate, unknownRate                  float64
	burst                              int
	webhooksHTTP, webhooksPrivate      bool
	openMetrics                        bool
	logFormat, logLevel                string
	grace                              time.Duration
}

func (c *config) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8080", "address of REST, gRPC and the page; empty for none")
	flags.StringVar(&c.socket, "unix-socket", "", "path of a unix socket to serve on too; whoever may use it is believed the header "+auth.UserHeader)
	flags.StringVar(&c.tlsCert, "tls-cert", "", "file of the certificate, with its chain, in PEM")
	flags.StringVar(&c.tlsKey, "tls-key", "", "file of the certificate's key, in PEM")
	flags.StringVar(&c.tlsCA, "tls-client-ca", "", "file of the certificates that sign those of clients, in PEM")
	flags.StringVar(&c.authFile, "auth", "", "file that says who may do what; without it, the service is in development mode and serves this machine alone")
	flags.StringVar(&c.keyFile, "key-file", "", "file of the key that seals secrets in the database, made when it is missing; else "+keyVariable)
	flags.StringVar(&c.cloud, "cloud", cloudEmulated, "where clusters are made: "+cloudEmulated+", on this machine and for nothing, or "+cloudReal)
	flags.Float64Var(&c.timeScale, "time-scale", 0.02, "how long things take in the emulated clouds: 1 as long as in the real ones")
	flags.StringVar(&c.plugins, "plugins", string(provision.Automatic), "provider plugins: automatic, native or official")
	flags.StringVar(&c.profile, "profile", "", "profile of the credentials file")
	flags.StringVar(&c.civoConfig, "civo-provider-config", "", "file with the provider config of Civo")
	flags.StringVar(&c.digitalOceanConfig, "digital-ocean-provider-config", "", "file with the provider config of DigitalOcean")
	flags.StringSliceVar(&c.platforms, "provision", nil, "platforms that workers of this service provision; those with credentials when it is not given")
	flags.IntVar(&c.workers, "workers", 16, "how many objects this process works on at a time; 0 serves the API alone")
	flags.IntVar(&c.parallel, "parallel", provision.DefaultParallel(), "how many engines run at a time; each needs some 110 MiB")
	flags.DurationVar(&c.driftInterval, "drift-interval", 10*time.Minute, "how often what is ready is compared with the cloud")
	flags.DurationVar(&c.progressDeadline, "progress-deadline", 30*time.Minute, "how long a generation may take before it is Failed")
	flags.DurationVar(&c.deletionDeadline, "deletion-deadline", 30*time.Minute, "how long a deletion may take before it is called stalled")
	flags.DurationVar(&c.keepEvents, "keep-events", 7*24*time.Hour, "how long events are kept, and so how far back a watch can begin")
	flags.DurationVar(&c.keepAudit, "keep-audit", 400*24*time.Hour, "how long the audit log is kept")
	flags.IntVar(&c.maxClusters, "max-clusters", 0, "how many clusters one owner may have; 0 is no bound")
	flags.IntVar(&c.maxPools, "max-nodepools", 0, "how many node pools one owner may have; 0 is no bound")
	flags.IntVar(&c.maxNodes, "max-nodes", 0, "how many nodes the specs of one owner may allow together; 0 is no bound")
	flags.Float64Var(&c.rate, "rate", 0, "requests a second that one identity may make; 0 is no bound")
	flags.Float64Var(&c.unknownRate, "unknown-rate", 10, "requests a second, of one address, that nobody can be known for; 0 is no bound")
	flags.IntVar(&c.burst, "burst", 100, "requests that one identity may make at once, or one address without any")
	flags.BoolVar(&c.webhooksHTTP, "webhooks-allow-http", false, "let webhooks be http too")
	flags.BoolVar(&c.webhooksPrivate, "webhooks-allow-private", false, "let webhooks be at private addresses: whoever makes one reaches your network")
	flags.BoolVar(&c.openMetrics, "open-metrics", false, "show /metrics to everyone, not only to who is known")
	flags.StringVar(&c.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.DurationVar(&c.grace, "shutdown-grace", time.Minute, "how long requests and engines may take to end")
}

// check tells what is wrong with the flags, and fills in what follows from others.
func (c *config) check(getenv func(string) string) error {
	var err error
	if c.stateDirectory, err = provision.StateDirectory(getenv); err != nil {
		return err
	}
	c.stateDirectory = filepath.Join(c.stateDirectory, "nodepools")
	if c.keyFile == "" {
		c.keyFile = filepath.Join(c.stateDirectory, "key")
	}
	if c.cloud != cloudEmulated && c.cloud != cloudReal {
		return errors.Errorf("--cloud %s: must be %s or %s", c.cloud, cloudEmulated, cloudReal)
	}
	if _, err := provision.ParseChoice(c.plugins); err != nil {
		return err
	}
	for _, platform := range c.platforms {
		if !slices.Contains([]string{kinds.Civo, kinds.DigitalOcean}, platform) {
			return errors.Errorf("--provision %s: must be %s or %s; controllers of other platforms register themselves", platform, kinds.Civo, kinds.DigitalOcean)
		}
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return errors.New("--tls-cert and --tls-key go together")
	}
	if c.tlsCA != "" && c.tlsCert == "" {
		return errors.New("--tls-client-ca needs --tls-cert and --tls-key")
	}
	if c.listen == "" && c.socket == "" {
		return errors.New("--listen or --unix-socket must be given")
	}
	if c.keepEvents < time.Hour || c.keepAudit < time.Hour {
		return errors.New("--keep-events and --keep-audit must be at least 1h")
	}
	if c.rate < 0 || c.unknownRate < 0 || c.burst < 1 {
		return errors.New("--rate and --unknown-rate must not be negative, and --burst must be at least 1")
	}
	if c.workers < 0 || c.parallel < 1 {
		return errors.New("--workers must not be negative, and --parallel must be at least 1")
	}
	return nil
}

// databaseAddress is that of the environment, else a file of the state directory.
func databaseAddress(getenv func(string) string, stateDirectory string) string {
	if address := getenv(databaseVariable); address != "" {
		return address
	}
	return filepath.Join(stateDirectory, "nodepools.db")
}

// shared tells whether other processes may use the database too.
func shared(address string) bool { return strings.HasPrefix(address, "postgres") }

// authConfig is the file that says who may do what.
type authConfig struct {
	// TokensFile names the file of static tokens; paths are relative to the folder of this file.
	TokensFile string `yaml:"tokensFile"`
	// OIDC are the identity providers whose tokens are believed.
	OIDC []struct {
		Issuer      string `yaml:"issuer"`
		Audience    string `yaml:"audience"`
		GroupsClaim string `yaml:"groupsClaim"`
	} `yaml:"oidc"`
	// TrustedPeers may say whose request they pass on, in the header X-User-Email.
	TrustedPeers struct {
		// CertificateNames are names in the client certificates of such peers.
		CertificateNames []string `yaml:"certificateNames"`
	} `yaml:"trustedPeers"`
	// Roles say what users of OIDC and of trusted peers may do; static tokens carry their own.
	Roles auth.Roles `yaml:"roles"`
}

// developmentRoles are those of development mode: everyone on this machine is who they say.
func developmentRoles() auth.Roles {
	return auth.Roles{
		{Subject: "admin@example.com", Role: auth.Admin},
		{Subject: "@controllers.example.com", Role: auth.ControllerRole},
		{Subject: "*", Role: auth.Editor},
	}
}

// authenticator is made from the file, or for development mode. development tells which.
func (c *config) authenticator() (_ auth.Authenticator, development bool, err error) {
	if c.authFile == "" {
		roles := developmentRoles()
		return auth.Header(roles, auth.LoopbackPeer, auth.UnixPeer), true, nil
	}
	text, err := os.ReadFile(c.authFile)
	if err != nil {
		return nil, false, errors.Wrap(err, "--auth")
	}
	var file authConfig
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, false, errors.Wrap(err, "--auth "+c.authFile)
	}
	if err := file.Roles.Validate(); err != nil {
		return nil, false, errors.Wrap(err, "--auth "+c.authFile+": roles")
	}
	var all []auth.Authenticator
	if file.TokensFile != "" {
		path := file.TokensFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(c.authFile), path)
		}
		tokens, err := auth.OpenTokens(path)
		if err != nil {
			return nil, false, err
		}
		all = append(all, tokens)
	}
	for _, provider := range file.OIDC {
		oidc, err := auth.NewOIDC(auth.OIDCOptions{
			Issuer: provider.Issuer, Audience: provider.Audience, GroupsClaim: provider.GroupsClaim, Roles: file.Roles,
		})
		if err != nil {
			return nil, false, errors.Wrap(err, "--auth "+c.authFile+": oidc")
		}
		all = append(all, oidc)
	}
	var peers []auth.Peer
	if len(file.TrustedPeers.CertificateNames) > 0 {
		if c.tlsCA == "" {
			return nil, false, errors.New("--auth " + c.authFile + ": trustedPeers.certificateNames needs --tls-client-ca")
		}
		peers = append(peers, auth.CertificatePeer(file.TrustedPeers.CertificateNames...))
	}
	if c.socket != "" {
		peers = append(peers, auth.UnixPeer)
	}
	if len(peers) > 0 {
		all = append(all, auth.Header(file.Roles, peers...))
	}
	if len(all) == 0 {
		return nil, false, errors.New("--auth " + c.authFile + ": nobody could be known by it: give tokensFile, oidc or trustedPeers")
	}
	return auth.Chain(all...), false, nil
}

// tlsConfig is nil without a certificate. The certificate is read anew when its file changes, so that it can be renewed while serving.
func (c *config) tlsConfig() (*tls.Config, error) {
	if c.tlsCert == "" {
		return nil, nil
	}
	certificate := &certificateFile{cert: c.tlsCert, key: c.tlsKey}
	if _, err := certificate.get(nil); err != nil {
		return nil, err
	}
	result := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.get, NextProtos: []string{"h2", "http/1.1"}}
	if c.tlsCA != "" {
		text, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, errors.Wrap(err, "--tls-client-ca")
		}
		result.ClientCAs = x509.NewCertPool()
		if !result.ClientCAs.AppendCertsFromPEM(text) {
			return nil, errors.Errorf("--tls-client-ca %s: there is no certificate in it", c.tlsCA)
		}
		result.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return result, nil
}
