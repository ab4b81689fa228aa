// Package lab puts together all that the provider needs to be seen at work on one machine: a real control plane, an emulated CloudStack
// behind HTTP with a kubelet for each of its machines, and the provider itself as a process of its own, which may be killed at any time.
package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/process"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/crds"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake/kubelet"
)

// ClusterName is the name of the cluster, as the provider is told it.
const ClusterName = "lab"

// Options say how the lab is put together.
type Options struct {
	// Provider is the path of the provider's binary.
	Provider string
	// Environment has variables for the provider beside those that the lab sets, name=value; they count before the lab's.
	Environment []string
	// Cloud is the emulated CloudStack, with the keys that it has by default.
	Cloud *fake.CloudStack
	// JoinDelay is the time between a machine that runs and its node. Default: none.
	JoinDelay time.Duration
	// Kubelet changes what the kubelets of the machines do. Nil: nothing.
	Kubelet func(*kubelet.Options)
	// WatchAPI has the requests of the provider to the API server go through the lab, for OnAPIRequest.
	WatchAPI bool
	// Output gets a line for each step. Nil: none.
	Output io.Writer
}

// Lab is a lab that runs.
type Lab struct {
	// ControlPlane is the control plane.
	ControlPlane *controlplane.ControlPlane
	// Client speaks to its API server, without a cache.
	Client client.Client
	// Cloud is the emulated CloudStack.
	Cloud *fake.CloudStack
	// Kubelet plays the kubelets of the machines.
	Kubelet *kubelet.Kubelet
	// Directory has the logs.
	Directory string

	options  Options
	url      string
	closeAPI func()
	provider atomic.Pointer[process.Process]
	cancel   context.CancelFunc
	kubelet  chan error
	gateway  *gateway

	mu       sync.Mutex
	replicas []*Replica
}

// Start starts everything but the provider. It returns a MissingError of controlplane where programs have not been built.
func Start(ctx context.Context, o Options) (*Lab, error) {
	planes := controlplane.Options{Scheduler: true, ControllerManager: true, Kwok: true, CRDs: crds.All(), Output: o.Output}
	if err := controlplane.Check(planes); err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "karpenter-lab-")
	if err != nil {
		return nil, errors.Wrap(err, "making a folder for the lab")
	}
	planes.Directory = directory
	l := &Lab{Directory: directory, Cloud: o.Cloud, options: o, kubelet: make(chan error, 1)}
	if err := l.start(ctx, planes); err != nil {
		l.Stop()
		return nil, err
	}
	return l, nil
}

func (l *Lab) start(ctx context.Context, planes controlplane.Options) (err error) {
	if l.ControlPlane, err = controlplane.Start(ctx, planes); err != nil {
		return err
	}
	if l.Client, err = client.New(l.ControlPlane.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return errors.Wrap(err, "making a client for the API server")
	}
	if l.url, l.closeAPI, err = l.Cloud.Start("127.0.0.1:0"); err != nil {
		return err
	}
	if err := l.writeCredentials(); err != nil {
		return err
	}
	// Kubelets have a client of their own, so that they are in nobody's way.
	clients, err := client.New(l.ControlPlane.Config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return errors.Wrap(err, "making a client for the kubelets")
	}
	kubelets := kubelet.Options{Kwok: true, JoinDelay: func(fake.VM) time.Duration { return l.options.JoinDelay }}
	if l.options.Kubelet != nil {
		l.options.Kubelet(&kubelets)
	}
	l.Kubelet = kubelet.New(clients, l.Cloud, kubelets)
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { l.kubelet <- l.Kubelet.Start(ctx) }()
	if l.options.WatchAPI {
		l.gateway, err = startGateway(l.ControlPlane, filepath.Join(l.Directory, "provider.kubeconfig"))
	}
	return err
}

func (l *Lab) credentials() string { return filepath.Join(l.Directory, "credentials") }

func (l *Lab) writeCredentials() error {
	if err := os.MkdirAll(l.credentials(), 0o700); err != nil {
		return errors.Wrap(err, "writing credentials")
	}
	for name, value := range map[string]string{"api-url": l.url, "api-key": fake.DefaultAPIKey, "secret-key": fake.DefaultSecretKey} {
		if err := os.WriteFile(filepath.Join(l.credentials(), name), []byte(value), 0o600); err != nil {
			return errors.Wrap(err, "writing credentials")
		}
	}
	return nil
}

// StartProvider starts the provider, again after KillProvider.
func (l *Lab) StartProvider() error {
	p, err := process.Start(process.Options{
		Name: "the provider", Path: l.options.Provider, Env: l.environment(), LogFile: l.ProviderLog(),
	})
	if err != nil {
		return err
	}
	l.provider.Store(p)
	return nil
}

// environment is that of a provider.
func (l *Lab) environment() []string {
	return append([]string{
		"HOME=" + l.Directory, "PATH=" + os.Getenv("PATH"),
		"KUBECONFIG=" + l.kubeconfig(), "CLUSTER_NAME=" + ClusterName, "SYSTEM_NAMESPACE=default",
		"CLOUDSTACK_CREDENTIALS_DIR=" + l.credentials(),
		// Ports that happen to be free: nothing asks for them here.
		"METRICS_PORT=0", "HEALTH_PROBE_PORT=0",
		// One that was killed is followed by the next at once, not when its lease is over.
		"DISABLE_LEADER_ELECTION=true",
		// The pods of a lab come all at once: there is nothing to wait for.
		"BATCH_IDLE_DURATION=200ms", "BATCH_MAX_DURATION=2s",
	}, l.options.Environment...)
}

// ProviderLog is the log of the provider, all its lives in one file.
func (l *Lab) ProviderLog() string { return filepath.Join(l.Directory, "provider.log") }

// KillProvider ends the provider as kill -9 does.
func (l *Lab) KillProvider() {
	if p := l.provider.Load(); p != nil {
		p.Kill()
	}
}

// ProviderPid is the process of the provider.
func (l *Lab) ProviderPid() int { return l.provider.Load().Pid() }

// Err tells of a part that has ended on its own, with the end of its log.
func (l *Lab) Err() error {
	if err := l.ControlPlane.Err(); err != nil {
		return err
	}
	select {
	case err := <-l.kubelet:
		return errors.Errorf("the kubelets ended on their own: %v", err)
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.replicas {
		if err := r.Err(); err != nil {
			return err
		}
	}
	if p := l.provider.Load(); p != nil {
		return p.Err()
	}
	return nil
}

// Tails are the ends of the logs that tell why something does not happen.
func (l *Lab) Tails() string {
	var tails []string
	if l.provider.Load() != nil {
		tails = append(tails, "the end of the provider's log:\n"+process.Tail(l.ProviderLog()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.replicas {
		tails = append(tails, fmt.Sprintf("the end of %s:\n%s", r.Log, process.Tail(r.Log)))
	}
	return strings.Join(tails, "\n")
}

// Stop ends everything, and removes the logs. Called again, it does nothing.
func (l *Lab) Stop() {
	l.KillProvider()
	l.mu.Lock()
	for _, r := range l.replicas {
		r.Kill()
	}
	l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
	if l.closeAPI != nil {
		l.closeAPI()
	}
	if l.gateway != nil {
		l.gateway.stop()
	}
	if l.ControlPlane != nil {
		l.ControlPlane.Stop()
	}
	// What cannot be removed is in the temporary folder, and harms nobody.
	_ = os.RemoveAll(l.Directory)
}
