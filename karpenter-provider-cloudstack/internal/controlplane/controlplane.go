// Package controlplane runs a Kubernetes control plane on this machine: the real etcd and kube-apiserver, and as asked the scheduler,
// the controller manager and kwok, which plays the kubelets of nodes that no machine stands behind. All listen on loopback only, on
// ports that happen to be free, and leave nothing behind.
package controlplane

import (
	"context"
	"crypto/x509/pkix"
	_ "embed" // the stages of kwok
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/process"
)

// NodeAnnotation is the annotation, with the value "fake", of nodes that kwok keeps alive and runs the pods of. It leaves others alone.
const NodeAnnotation = "kwok.x-k8s.io/node"

const (
	// startTimeout is generous: on a busy machine the API server takes half a minute.
	startTimeout = 3 * time.Minute
	pollInterval = 100 * time.Millisecond
	// portAttempts is how often ports are drawn: between drawing and listening another process may take one.
	portAttempts = 3
	loopback     = "127.0.0.1"
)

// stages are what kwok does.
//
//go:embed kwok.yaml
var stages []byte

// Options say what a control plane consists of.
type Options struct {
	// Scheduler runs kube-scheduler.
	Scheduler bool
	// ControllerManager runs kube-controller-manager with the controllers of workloads and nodes. Without it, the API server does not
	// mark new nodes as not ready, because nothing would ever take the mark away.
	ControllerManager bool
	// Kwok runs kwok for the nodes that have NodeAnnotation.
	Kwok bool
	// Directory is where data, certificates and logs are put; it must exist, and stays. Empty: a temporary one, removed by Stop.
	Directory string
	// CRDs are installed before Start returns.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Output gets a line for each step. Nil: none.
	Output io.Writer
}

// ControlPlane is a control plane that runs.
type ControlPlane struct {
	// Config is the administrator's.
	Config *rest.Config
	// Kubeconfig is a file with the same for kubectl and other programs.
	Kubeconfig string
	// Directory has data, certificates and logs.
	Directory string

	mu        sync.Mutex
	temporary bool
	processes []*process.Process
}

// Start starts a control plane, and returns when the API server is ready and has the CRDs. It returns a MissingError where programs have
// not been built. The caller calls Stop; when the caller's process is killed, Linux kills the programs.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	binaries, err := find(o)
	if err != nil {
		return nil, err
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	c := &ControlPlane{Directory: o.Directory}
	if c.Directory == "" {
		if c.Directory, err = os.MkdirTemp("", "control-plane-"); err != nil {
			return nil, errors.Wrap(err, "making a folder for the control plane")
		}
		c.temporary = true
	}
	if err := c.start(ctx, o, binaries); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context, o Options, binaries map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := c.writeCertificates(ca); err != nil {
		return err
	}
	step := func(format string, args ...any) { _, _ = fmt.Fprintf(o.Output, format+"\n", args...) }

	step("starting etcd and kube-apiserver")
	etcdURL, err := c.startEtcd(ctx, binaries[etcd])
	if err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, binaries[apiServer], etcdURL, ca, o.ControllerManager); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("kwok.yaml"), stages, 0o600); err != nil {
		return errors.Wrap(err, "writing the configuration of kwok")
	}
	for _, name := range []string{scheduler, controllerManager, kwok} {
		if path, ok := binaries[name]; ok {
			step("starting %s", name)
			if _, err := c.run(name, path, c.arguments(name)...); err != nil {
				return err
			}
		}
	}
	if len(o.CRDs) > 0 {
		step("installing %d custom resource definitions", len(o.CRDs))
		if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: o.CRDs, Scheme: scheme.Scheme, MaxTime: startTimeout,
			PollInterval: pollInterval}); err != nil {
			return errors.Wrap(err, "installing custom resource definitions")
		}
	}
	return c.Err()
}

// arguments are those of the programs that only need the API server.
func (c *ControlPlane) arguments(name string) []string {
	switch name {
	case scheduler:
		return []string{"--kubeconfig=" + c.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000"}
	case controllerManager:
		return []string{
			"--kubeconfig=" + c.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400",
			// On a machine that is busy, kwok is late with leases. A node that is given up for that stays so: nothing makes it ready again.
			"--node-monitor-grace-period=30m",
			// The others manage what is not here: service accounts, certificates, volumes, routes.
			"--controllers=deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,job-controller," +
				"garbage-collector-controller,namespace-controller,node-lifecycle-controller,pod-garbage-collector-controller,disruption-controller",
		}
	default:
		return []string{
			"--kubeconfig=" + c.Kubeconfig, "--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=" + NodeAnnotation + "=fake",
			// kwok renews a lease four times in its duration. Kubelets do so each ten seconds: of thousands of nodes that would be most of what
			// the API server has to do here, and nothing looks at it but the grace period above.
			"--node-lease-duration-seconds=200", "--config=" + c.path("kwok.yaml"),
		}
	}
}

func (c *ControlPlane) writeCertificates(ca *authority) error {
	if err := os.WriteFile(c.path("ca.crt"), ca.pem, 0o600); err != nil {
		return errors.Wrap(err, "writing certificates")
	}
	// Names of the server, as pods and this machine know it. 10.0.0.1 is the first address of the range of services.
	server, err := ca.sign(pkix.Name{CommonName: apiServer}, loopback, "10.0.0.1", "localhost", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	if err := server.write(c.Directory, "server"); err != nil {
		return err
	}
	accounts, err := ca.sign(pkix.Name{CommonName: "service-accounts"})
	if err != nil {
		return err
	}
	return accounts.write(c.Directory, "accounts")
}

func (c *ControlPlane) startEtcd(ctx context.Context, path string) (string, error) {
	var address string
	err := c.onFreePort(etcd, func(port string) error {
		address = net.JoinHostPort(loopback, port)
		p, err := c.run(etcd, path, "--data-dir="+c.path("etcd"), "--listen-client-urls=http://"+address,
			"--advertise-client-urls=http://"+address, "--listen-peer-urls=http://"+loopback+":0", "--unsafe-no-fsync=true", "--log-level=error")
		if err != nil {
			return err
		}
		return poll(ctx, p, etcd, func() error {
			connection, err := net.DialTimeout("tcp", address, time.Second)
			if err == nil {
				_ = connection.Close()
			}
			return err
		})
	})
	return "http://" + address, err
}

func (c *ControlPlane) startAPIServer(ctx context.Context, path, etcdURL string, ca *authority, marksNodes bool) error {
	admin, err := ca.sign(pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}})
	if err != nil {
		return err
	}
	disabled := []string{"ServiceAccount"}
	if !marksNodes {
		disabled = append(disabled, "TaintNodesByCondition")
	}
	certificate, key := c.ServerCertificate()
	return c.onFreePort(apiServer, func(port string) error {
		p, err := c.run(apiServer, path,
			"--etcd-servers="+etcdURL, "--bind-address="+loopback, "--advertise-address="+loopback, "--secure-port="+port,
			"--tls-cert-file="+certificate, "--tls-private-key-file="+key, "--client-ca-file="+c.path("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.path("accounts.crt"),
			"--service-account-signing-key-file="+c.path("accounts.key"), "--service-cluster-ip-range=10.0.0.0/24",
			"--authorization-mode=RBAC", "--disable-admission-plugins="+strings.Join(disabled, ","), "--endpoint-reconciler-type=none",
			"--enable-bootstrap-token-auth=true", "--profiling=false")
		if err != nil {
			return err
		}
		c.Config = &rest.Config{
			Host:            "https://" + net.JoinHostPort(loopback, port),
			TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem, CertData: admin.certificate, KeyData: admin.key},
			// What a test waits for is the control plane, not this limit.
			QPS: 1000, Burst: 2000,
		}
		if err := c.writeKubeconfig(); err != nil {
			return err
		}
		client, err := rest.HTTPClientFor(c.Config)
		if err != nil {
			return errors.Wrap(err, "making a client for the API server")
		}
		return poll(ctx, p, apiServer, func() error { return ready(ctx, client, c.Config.Host+"/readyz") })
	})
}

// ready returns nil when the URL answers with 200.
func ready(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.WithStack(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.Errorf("%s answers with %s", url, response.Status)
	}
	return nil
}

func (c *ControlPlane) writeKubeconfig() error {
	const name = "admin"
	c.Kubeconfig = c.path("kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: c.Config.CertData, ClientKeyData: c.Config.KeyData}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return errors.Wrap(clientcmd.WriteToFile(*config, c.Kubeconfig), "writing the kubeconfig")
}

// run starts a program of the control plane.
func (c *ControlPlane) run(name, path string, args ...string) (*process.Process, error) {
	p, err := process.Start(process.Options{Name: name, Path: path, Args: args, LogFile: c.LogFile(name)})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p, nil
}

// onFreePort starts a program on a port that is free, and on another when somebody else was quicker.
func (c *ControlPlane) onFreePort(name string, start func(port string) error) error {
	for attempt := 1; ; attempt++ {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return errors.Wrapf(err, "finding a port for %s", name)
		}
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return errors.Wrapf(err, "finding a port for %s", name)
		}
		if err := listener.Close(); err != nil {
			return errors.Wrapf(err, "finding a port for %s", name)
		}
		err = start(port)
		if err == nil || attempt == portAttempts || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		// The one that did not get its port has ended; it must not count as one that should run.
		c.mu.Lock()
		c.processes = c.processes[:len(c.processes)-1]
		c.mu.Unlock()
	}
}

// poll asks until it gets no error, the program has ended, or the context has.
func poll(ctx context.Context, p *process.Process, name string, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Err()
		case <-ctx.Done():
			return errors.Errorf("%s is not ready (%v: %v); the end of its log:\n%s", name, ctx.Err(), err, p.Tail())
		case <-time.After(pollInterval):
		}
	}
}

// Err tells of a program that has ended on its own, with the end of its log; nil while all run, and after Stop.
func (c *ControlPlane) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}

// ServerCertificate has the files of the certificate of the API server, and of its key. It is that of whatever stands before the API server on
// this machine, too.
func (c *ControlPlane) ServerCertificate() (certificate, key string) {
	return c.path("server.crt"), c.path("server.key")
}

// LogFile is where a program writes its log.
func (c *ControlPlane) LogFile(name string) string { return c.path(name + ".log") }

// Stop ends the programs, the last started first, and removes the folder that Start made. Called again, it does nothing.
func (c *ControlPlane) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range slices.Backward(c.processes) {
		// Nothing is kept, so nothing needs to be put in order.
		p.Kill()
	}
	c.processes = nil
	if c.temporary {
		// What cannot be removed is in the temporary folder, and harms nobody.
		_ = os.RemoveAll(c.Directory)
	}
}

func (c *ControlPlane) path(name string) string { return filepath.Join(c.Directory, name) }
