package operator

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoperator "sigs.k8s.io/karpenter/pkg/operator"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/suite"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/reachability"
)

func TestMain(m *testing.M) { os.Exit(suite.Run(m)) }

const capabilities = `{"listcapabilitiesresponse":{"capability":{"cloudstackversion":"4.22.0.0"}}}`

// quick are options whose requests fail soon.
func quick() *options.Options {
	o := options.Defaults()
	o.ClusterName, o.APITimeout = "one", 5*time.Second
	return o
}

// Certificates are verified unless the options say otherwise, against those of the system and the bundle.
func TestCertificates(t *testing.T) {
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, capabilities) }))
	api.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes
	api.StartTLS()
	defer api.Close()
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(bundle, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))
	for name, test := range map[string]struct {
		change func(*options.Options)
		right  bool
	}{
		"by default":       {func(*options.Options) {}, false},
		"with a bundle":    {func(o *options.Options) { o.CABundleFile = bundle }, true},
		"without verifing": {func(o *options.Options) { o.VerifySSL = false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := quick()
			test.change(o)
			client, err := newClient(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.SetCredentials(cloudstack.Credentials{URL: api.URL, APIKey: "a", SecretKey: "b"}); err != nil {
				t.Fatal(err)
			}
			// Whoever is not believed is asked again: the end of the context is what makes this quick.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if !test.right {
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
			}
			answer, err := client.ListCapabilities(ctx)
			if (err == nil) != test.right {
				t.Fatalf("%v, %v", answer, err)
			}
		})
	}
	o := quick()
	o.CABundleFile = bundle
	write([]byte("no certificate"))
	if _, err := newClient(o); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("a bundle without a certificate: %v", err)
	}
	o.CABundleFile += ".gone"
	if _, err := newClient(o); err == nil || !strings.Contains(err.Error(), "read the CA bundle") {
		t.Errorf("a bundle that is not there: %v", err)
	}
}

func TestProxy(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Host
		_, _ = io.WriteString(w, capabilities)
	}))
	defer proxy.Close()
	o := quick()
	o.Proxy = proxy.URL
	client, err := newClient(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SetCredentials(cloudstack.Credentials{URL: "http://cloudstack.invalid/client/api", APIKey: "a", SecretKey: "b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ListCapabilities(t.Context()); err != nil || asked != "cloudstack.invalid" {
		t.Errorf("the proxy was asked for %q, %v", asked, err)
	}
}

// stub is a manager that notes what it is given.
type stub struct {
	manager.Manager
	t         *testing.T
	runnables []manager.Runnable
	handlers  map[string]http.Handler
}

func (s *stub) Add(runnable manager.Runnable) error {
	s.runnables = append(s.runnables, runnable)
	return nil
}

func (s *stub) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	s.handlers[path] = handler
	return nil
}

func (s *stub) AddHealthzCheck(name string, _ healthz.Checker) error {
	s.t.Errorf("the health depends on %s", name)
	return nil
}

func (s *stub) AddReadyzCheck(name string, _ healthz.Checker) error {
	s.t.Errorf("the readiness depends on %s", name)
	return nil
}

func (s *stub) GetControllerOptions() config.Controller {
	return config.Controller{MaxConcurrentReconciles: 7}
}

func kubeSystem() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "0a0b"}}
}

// core is what core makes, with the manager of a real API server. Its cluster is that of the objects.
func core(t *testing.T, objects ...runtime.Object) (*coreoperator.Operator, *stub) {
	t.Helper()
	real, err := controllerruntime.NewManager(suite.Config(t), controllerruntime.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	m := &stub{Manager: real, t: t, handlers: map[string]http.Handler{}}
	return &coreoperator.Operator{
		Manager: m, KubernetesInterface: fake.NewClientset(objects...), EventRecorder: events.NewRecorder(record.NewFakeRecorder(1)), Clock: clock.RealClock{},
		InstanceTypeStore: nodeoverlay.NewInstanceTypeStore(),
	}, m
}

// A controller without credentials is built all the same, and neither its health nor its readiness depends on CloudStack.
func TestBuildWithoutCredentials(t *testing.T) {
	defer func(before time.Duration) { lifecycle.LaunchTimeout = before }(lifecycle.LaunchTimeout)
	o := quick()
	o.CredentialsDirectory, o.LaunchTimeout = filepath.Join(t.TempDir(), "nowhere"), 10*time.Minute
	c, m := core(t, kubeSystem())
	_, built, err := Build(options.ToContext(t.Context(), o), c)
	if err != nil {
		t.Fatal(err)
	}
	if built.ClusterUID != "0a0b" {
		t.Errorf("the cluster is %q", built.ClusterUID)
	}
	if len(m.runnables) != 2 {
		t.Errorf("%d run: want that which watches the credentials, and that which checks the API", len(m.runnables))
	}
	for _, runnable := range m.runnables {
		if led, ok := runnable.(manager.LeaderElectionRunnable); !ok || led.NeedLeaderElection() {
			t.Errorf("%T waits to lead", runnable)
		}
	}
	if lifecycle.LaunchTimeout != 10*time.Minute {
		t.Errorf("core gives NodeClaims up after %s", lifecycle.LaunchTimeout)
	}
	recorder := httptest.NewRecorder()
	m.handlers[reachability.Path].ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, reachability.Path, nil))
	if recorder.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first check, the answer is %d", recorder.Code)
	}
	if _, err := built.Client.ListCapabilities(t.Context()); !cloudstack.IsUnauthorized(err) {
		t.Errorf("without credentials, a request ends in %v", err)
	}
	// Those with priorities may keep a controller from ending.
	if queues := c.GetControllerOptions(); queues.UsePriorityQueue == nil || *queues.UsePriorityQueue || queues.MaxConcurrentReconciles != 7 {
		t.Errorf("controllers are made with %+v", queues)
	}
	if built.CloudProvider.Name() != "cloudstack" {
		t.Errorf("the cloud provider is %s", built.CloudProvider.Name())
	}
}

func TestBuildUsesTheCredentials(t *testing.T) {
	defer func(before time.Duration) { lifecycle.LaunchTimeout = before }(lifecycle.LaunchTimeout)
	var key string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key = r.FormValue("apiKey")
		_, _ = io.WriteString(w, capabilities)
	}))
	defer api.Close()
	o := quick()
	o.CredentialsDirectory = t.TempDir()
	for name, content := range map[string]string{options.FileAPIURL: api.URL, options.FileAPIKey: "the-key", options.FileSecretKey: "s"} {
		if err := os.WriteFile(filepath.Join(o.CredentialsDirectory, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := core(t, kubeSystem())
	_, built, err := Build(options.ToContext(t.Context(), o), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := built.Client.ListCapabilities(t.Context()); err != nil || key != "the-key" {
		t.Errorf("the key is %q, %v", key, err)
	}
	select {
	case <-built.wake:
	default:
		t.Error("credentials that are new have no CloudStackNodeClass looked at")
	}
	// Nobody listens while another leads.
	built.credentialsChanged()
	built.credentialsChanged()
}

func TestBuildFails(t *testing.T) {
	o := quick()
	o.CredentialsDirectory = t.TempDir()
	c, _ := core(t, kubeSystem())
	broken := *o
	broken.Proxy = "nonsense"
	if _, _, err := Build(options.ToContext(t.Context(), &broken), c); err == nil || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a proxy that is none: %v", err)
	}
	c, _ = core(t)
	if _, _, err := Build(options.ToContext(t.Context(), o), c); err == nil || !strings.Contains(err.Error(), "identity of the cluster") {
		t.Errorf("a cluster without kube-system: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("New goes on without what it needs")
		}
	}()
	New(options.ToContext(t.Context(), o), c)
}

// What passes is asked again; what a role forbids is not.
func TestClusterUID(t *testing.T) {
	resource := schema.GroupResource{Resource: "namespaces"}
	for name, test := range map[string]struct {
		err   error
		asked int
		right bool
	}{
		"an API server that starts": {apierrors.NewServiceUnavailable("wait"), 2, true},
		"one that is not there":     {errors.New("connection refused"), 2, true},
		"a role that is missing":    {apierrors.NewForbidden(resource, metav1.NamespaceSystem, errors.New("no")), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			clients, asked := fake.NewClientset(kubeSystem()), 0
			clients.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return asked == 1, nil, test.err
			})
			uid, err := clusterUID(t.Context(), clients)
			if asked != test.asked || (err == nil) != test.right || test.right && uid != "0a0b" {
				t.Errorf("%q, %v, asked %d times", uid, err, asked)
			}
		})
	}
	if _, err := clusterUID(t.Context(), fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}})); err == nil {
		t.Error("no UID, and no error: machines of all such clusters would be one's")
	}
}

// In a cluster, the certificate authority is a file.
func TestClusterCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte("authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config rest.Config
		want   string
		wrong  bool
	}{
		"a file":     {rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file}}, "authority", false},
		"its text":   {rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("data")}}, "data", false},
		"none":       {rest.Config{}, "", false},
		"it is gone": {rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: file + ".gone"}}, "", true},
	} {
		got, err := clusterCA(&test.config)
		if string(got) != test.want || (err != nil) != test.wrong {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// Create ends before core gives the NodeClaim up: a machine that nobody hears of is garbage.
func TestLaunchTime(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{5 * time.Minute: 4 * time.Minute, time.Minute: 48 * time.Second} {
		if got := launchTime(timeout); got != want {
			t.Error(fmt.Sprint(timeout, got))
		}
	}
}
