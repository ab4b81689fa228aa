package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/pkg/errors"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/crds"
	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/fake/kubelet"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/options"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/operator/reachability"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/test/lab"
)

const (
	namespace = "karpenter"
	account   = "release-karpenter-cloudstack"
	// userData stands for what must not be read by anybody who may read logs.
	userData = "#!/bin/sh\necho hush-hush\n"
)

func TestVersion(t *testing.T) {
	var text bytes.Buffer
	version(&text)
	if !regexp.MustCompile(`^karpenter-provider-cloudstack \S+ \(Karpenter core (v1\.\d+\.\d+|unknown), go1\.`).MatchString(text.String()) {
		t.Error(text.String())
	}
}

// world is a control plane without scheduler and controllers, an emulated CloudStack with kubelets, and the controller in this process.
type world struct {
	*testing.T
	admin       client.Client
	cloud       *fake.CloudStack
	logs        string
	metrics     string
	health      string
	credentials string
	ended       chan error
	url         string
}

// until waits for what is to happen; what tells in one line what is.
func (w *world) until(what string, met func() (bool, string)) {
	w.Helper()
	last, began := "", time.Now()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-w.ended:
			w.ended <- err
			w.Fatalf("%s: the controller has ended: %v\n%s", what, err, w.tail())
		default:
		}
		var ok bool
		if ok, last = met(); ok {
			w.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
			return
		}
		w.allowed()
	}
	w.Fatalf("it did not happen: %s: %s\n%s", what, last, w.tail())
}

func (w *world) log() string {
	content, err := os.ReadFile(w.logs)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // it is made with the first line
		w.Error(err)
	}
	return string(content)
}

func (w *world) tail() string {
	text := w.log()
	return text[max(0, len(text)-4000):]
}

// allowed fails when the API server has refused something: then the rights of the chart are not enough.
func (w *world) allowed() {
	w.Helper()
	for line := range strings.Lines(w.log()) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			w.Fatalf("the rights of the chart are not enough: %s", line)
		}
	}
}

// asking waits for probes as the kubelet does: readiness does not answer before caches are filled.
var asking = http.Client{Timeout: 10 * time.Second}

// get asks a probe; 0 is for no answer.
func (w *world) get(address, path string) (int, string) {
	response, err := asking.Get("http://" + address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		if err := w.admin.Create(w.Context(), object); err != nil {
			w.Fatalf("%T %s: %v", object, object.GetName(), err)
		}
	}
}

// free is a port that was free a moment ago.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// begin starts everything. The controller has no credentials for CloudStack yet.
func begin(t *testing.T) *world {
	t.Helper()
	o := controlplane.Options{CRDs: crds.All()}
	if err := controlplane.Check(o); err != nil {
		t.Skipf("the controller is not tested: %v", err)
	}
	plane, err := controlplane.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	directory := t.TempDir()
	w := &world{
		T: t, cloud: fake.Default(fake.Options{JobLatency: fake.Between(100*time.Millisecond, 200*time.Millisecond)}), ended: make(chan error, 2),
		logs: filepath.Join(directory, "log"), credentials: filepath.Join(directory, "credentials"),
	}
	w.admin, err = client.New(plane.Config, client.Options{Scheme: scheme.Scheme})
	w.must(err)
	url, stop, err := w.cloud.Start("127.0.0.1:0")
	w.must(err)
	t.Cleanup(stop)
	w.url = url
	ctx, cancel := context.WithCancel(context.Background())
	played := make(chan struct{})
	go func() {
		defer close(played)
		_ = kubelet.New(w.admin, w.cloud, kubelet.Options{}).Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-played })

	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "user-data", Namespace: namespace}, StringData: map[string]string{"userData": userData}})
	kubeconfig := plane.Kubeconfig
	if w.grant() {
		kubeconfig = w.serviceAccount(plane.Config, directory)
	}
	metrics, health := free(t), free(t)
	w.metrics, w.health = "127.0.0.1:"+metrics, "127.0.0.1:"+health
	for name, value := range map[string]string{
		"KUBECONFIG": kubeconfig, "CLUSTER_NAME": "test", "SYSTEM_NAMESPACE": namespace, "LEADER_ELECTION_NAMESPACE": namespace,
		"METRICS_PORT": metrics, "HEALTH_PROBE_PORT": health, "LOG_OUTPUT_PATHS": w.logs, "LOG_ERROR_OUTPUT_PATHS": w.logs, "LOG_LEVEL": "debug",
		"BATCH_IDLE_DURATION": "200ms", "BATCH_MAX_DURATION": "1s", "CLOUDSTACK_API_RATE": "200", "CLOUDSTACK_API_BURST": "200",
		"CLOUDSTACK_CREDENTIALS_DIR": w.credentials, "CLOUDSTACK_CREDENTIALS_PERIOD": "50ms", "CLOUDSTACK_CHECK_PERIOD": "300ms",
	} {
		t.Setenv(name, value)
	}
	arguments := os.Args
	t.Cleanup(func() { os.Args = arguments })
	os.Args = arguments[:1]
	if err := options.Check(nil); err != nil {
		t.Fatal(err)
	}
	go func() { w.ended <- run() }()
	return w
}

// grant gives the service account of the chart the rights that the chart gives it. Without Helm, the controller is an administrator.
func (w *world) grant() bool {
	w.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		where, err := exec.CommandContext(w.Context(), "sh", "../../tools/tool", "--where", "helm").Output()
		if err != nil {
			w.Logf("there is no Helm: whether the rights of the chart are enough is not tested (%v)", err)
			return false
		}
		helm = strings.TrimSpace(string(where))
	}
	chart := "../../charts/karpenter-cloudstack"
	command := exec.CommandContext(w.Context(), helm, "template", "release", chart, "--namespace", namespace, "--kube-version", "1.35.0",
		"-f", filepath.Join(chart, "ci", "test-values.yaml"), "--set", "bootstrapTokens.enabled=true,secrets[0].names={user-data}",
		"--show-only", "templates/rbac.yaml", "--show-only", "templates/serviceaccount.yaml")
	rendered, err := command.Output()
	w.must(err)
	for _, object := range w.decode(rendered) {
		w.create(object)
	}
	return true
}

// decode reads the objects of a file.
func (w *world) decode(content []byte) []*unstructured.Unstructured {
	w.Helper()
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		w.must(err)
		object := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal(document, object))
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// examples has the API server check the examples against the rules of the definitions, which types do not have.
func (w *world) examples() {
	w.Helper()
	files, err := filepath.Glob("../../examples/*.yaml")
	w.must(err)
	if len(files) == 0 {
		w.Error("there are no examples")
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		w.must(err)
		for _, object := range w.decode(content) {
			if object.GetKind() == "Deployment" {
				object.SetNamespace(metav1.NamespaceDefault)
			}
			if err := w.admin.Create(w.Context(), object, client.DryRunAll); err != nil {
				w.Errorf("%s, %s %s: %v", file, object.GetKind(), object.GetName(), err)
			}
		}
	}
}

// serviceAccount is a kubeconfig of the service account.
func (w *world) serviceAccount(admin *rest.Config, directory string) string {
	w.Helper()
	clients, err := kubernetes.NewForConfig(admin)
	w.must(err)
	token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(w.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
	config.CurrentContext = "x"
	path := filepath.Join(directory, "kubeconfig")
	w.must(clientcmd.WriteToFile(*config, path))
	return path
}

// writeCredentials writes the files of the Secret.
func (w *world) writeCredentials(secretKey string) {
	w.Helper()
	w.must(os.MkdirAll(w.credentials, 0o700))
	for name, content := range map[string]string{
		options.FileAPIURL: w.url, options.FileAPIKey: fake.DefaultAPIKey, options.FileSecretKey: secretKey,
	} {
		w.must(os.WriteFile(filepath.Join(w.credentials, name), []byte(content), 0o600))
	}
}

// cloudStack waits until the answer of /cloudstackz has that reason, empty for one that can be used. Meanwhile the probes stay as they are.
func (w *world) cloudStack(what, reason string) {
	w.Helper()
	w.until(what, func() (bool, string) {
		for _, path := range []string{"/healthz", "/readyz"} {
			if code, body := w.get(w.health, path); code != http.StatusOK {
				w.Fatalf("%s: %s answers %d %s", what, path, code, body)
			}
		}
		code, body := w.get(w.metrics, reachability.Path)
		var state reachability.State
		if err := json.Unmarshal([]byte(body), &state); err != nil {
			return false, body
		}
		if state.Reachable != (code == http.StatusOK) || state.Reachable != (state.Reason == "") {
			w.Fatalf("%s: %d %s", what, code, body)
		}
		return state.Reason == reason, body
	})
}

// TestController has the controller do all that it does in a life: it starts without credentials, gets wrong ones and right ones, makes a
// node, loses CloudStack for a while, deletes the node, and ends when it is told to. It has the rights that the chart gives it.
func TestController(t *testing.T) {
	w := begin(t)
	w.examples()
	w.until("the controller is ready without credentials", func() (bool, string) {
		code, body := w.get(w.health, "/readyz")
		return code == http.StatusOK, body
	})
	w.cloudStack("without credentials", reachability.ReasonUnauthorized)
	w.writeCredentials("wrong-secret-key")
	w.until("wrong credentials are used", func() (bool, string) {
		return w.cloud.Counts()["listCapabilities"] > 2, ""
	})
	w.cloudStack("with wrong credentials", reachability.ReasonUnauthorized)

	nodeClass := lab.NodeClass("test")
	nodeClass.Spec.UserDataSecretRef = &csv1.SecretKeyReference{Name: "user-data"}
	w.create(nodeClass, lab.NodePool("test", "test"))
	ready := func() *status.Condition {
		w.must(w.admin.Get(t.Context(), client.ObjectKeyFromObject(nodeClass), nodeClass))
		return nodeClass.StatusConditions().Get(status.ConditionReady)
	}
	w.until("the CloudStackNodeClass says that it is not ready", func() (bool, string) {
		condition := ready()
		return condition != nil && !condition.IsTrue() && condition.Message != "", fmt.Sprint(condition)
	})
	w.writeCredentials(fake.DefaultSecretKey)
	w.cloudStack("with the right credentials", "")
	w.until("the CloudStackNodeClass is ready", func() (bool, string) {
		condition := ready()
		return condition.IsTrue(), fmt.Sprintf("%+v", nodeClass.Status.Conditions)
	})

	// There is no scheduler: the test says what it would say.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "test", Namespace: metav1.NamespaceDefault}, Spec: lab.PodSpec("test", "1", "1Gi")}
	w.create(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	w.must(w.admin.Status().Update(t.Context(), pod))
	node := &corev1.Node{}
	w.until("a node is initialized", func() (bool, string) {
		nodes := &corev1.NodeList{}
		w.must(w.admin.List(t.Context(), nodes))
		if len(nodes.Items) == 0 {
			return false, "no node"
		}
		*node = nodes.Items[0]
		return node.Labels[karpv1.NodeInitializedLabelKey] == "true", fmt.Sprintf("%v %v", node.Labels, node.Spec.Taints)
	})
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	w.must(w.admin.SubResource("binding").Create(t.Context(), pod, binding))

	w.cloud.SetDown(true)
	w.cloudStack("CloudStack is down", reachability.ReasonNoAnswer)
	w.cloud.SetDown(false)
	w.cloudStack("CloudStack is back", "")

	claims := &karpv1.NodeClaimList{}
	w.must(w.admin.List(t.Context(), claims))
	if len(claims.Items) != 1 || len(w.cloud.VMs()) != 1 {
		t.Errorf("%d NodeClaims, %d machines", len(claims.Items), len(w.cloud.VMs()))
	}
	w.must(w.admin.Delete(t.Context(), &claims.Items[0]))
	w.until("node and machine are gone", func() (bool, string) {
		w.must(w.admin.List(t.Context(), claims))
		running := 0
		for _, machine := range w.cloud.VMs() {
			if machine.State != fake.StateDestroyed && machine.State != fake.StateExpunging {
				running++
			}
		}
		return len(claims.Items) == 0 && running == 0, fmt.Sprintf("%d NodeClaims, %d machines", len(claims.Items), running)
	})
	w.must(w.admin.Delete(t.Context(), nodeClass))
	w.until("the CloudStackNodeClass is gone", func() (bool, string) {
		err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(nodeClass), nodeClass)
		return client.IgnoreNotFound(err) == nil && err != nil, fmt.Sprint(nodeClass.Finalizers)
	})

	w.must(syscall.Kill(os.Getpid(), syscall.SIGTERM))
	select {
	case err := <-w.ended:
		if err != nil {
			t.Errorf("it was told to end, and ends with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it was told to end, and does not")
	}
	lease := &coordinationv1.Lease{}
	w.must(w.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "karpenter-leader-election"}, lease))
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is still that of %s", *lease.Spec.HolderIdentity)
	}
	w.allowed()
	for line := range strings.Lines(w.log()) {
		for _, secret := range []string{fake.DefaultSecretKey, "wrong-secret-key", "hush-hush", fake.DefaultAPIKey} {
			if strings.Contains(line, secret) {
				t.Errorf("a secret is logged: %s", line)
			}
		}
	}
}
