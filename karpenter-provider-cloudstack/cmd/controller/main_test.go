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
	"slices"
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
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/internal/controlplane/process"
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

// childVariable has the test binary be the controller: a process of its own, with all that main does, that dies if it dies.
const childVariable = "CONTROLLER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// world is a control plane without scheduler and controllers, an emulated CloudStack with kubelets, and the controller.
type world struct {
	*testing.T
	admin       client.Client
	cloud       *fake.CloudStack
	logs        string
	metrics     string
	health      string
	credentials string
	controller  *process.Process
	output      string
	url         string
}

// until waits for what is to happen; what tells in one line what is.
func (w *world) until(what string, met func() (bool, string)) {
	w.Helper()
	last, began := "", time.Now()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err := w.controller.Err(); err != nil {
			w.Fatalf("%s: %v\n%s", what, err, w.tail())
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
		T: t, cloud: fake.Default(fake.Options{JobLatency: fake.Between(100*time.Millisecond, 200*time.Millisecond)}),
		logs: filepath.Join(directory, "log"), output: filepath.Join(directory, "output"), credentials: filepath.Join(directory, "credentials"),
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
	environment := []string{childVariable + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + directory}
	for name, value := range map[string]string{
		"KUBECONFIG": kubeconfig, "CLUSTER_NAME": "test", "SYSTEM_NAMESPACE": namespace, "LEADER_ELECTION_NAMESPACE": namespace,
		"METRICS_PORT": metrics, "HEALTH_PROBE_PORT": health, "LOG_OUTPUT_PATHS": w.logs, "LOG_ERROR_OUTPUT_PATHS": w.logs, "LOG_LEVEL": "debug",
		"BATCH_IDLE_DURATION": "200ms", "BATCH_MAX_DURATION": "1s", "CLOUDSTACK_API_RATE": "200", "CLOUDSTACK_API_BURST": "200",
		"CLOUDSTACK_CREDENTIALS_DIR": w.credentials, "CLOUDSTACK_CREDENTIALS_PERIOD": "50ms", "CLOUDSTACK_CHECK_PERIOD": "300ms",
	} {
		environment = append(environment, name+"="+value)
	}
	w.controller, err = process.Start(process.Options{Name: "the controller", Path: os.Args[0], Env: environment, LogFile: w.output})
	w.must(err)
	t.Cleanup(w.controller.Kill)
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
		"-f", filepath.Join(chart, "ci", "test-values.yaml"), "--set", "bootstrapTokens.enabled=true,secrets[0].names={user-data,missing}",
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

// told tells whether an event about a CloudStackNodeClass has that reason and a text.
func (w *world) told(name, reason, text string) bool {
	w.Helper()
	list := &corev1.EventList{}
	w.must(w.admin.List(w.Context(), list))
	return slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind == "CloudStackNodeClass" && e.InvolvedObject.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning &&
			strings.Contains(e.Message, text)
	})
}

// faults are what users get wrong, by names of objects: what is changed, the condition that tells, and what it says: what is wrong, and what there is
// or what to change.
var faults = map[string]struct {
	change    func(*csv1.CloudStackNodeClassSpec)
	condition string
	says      []string
}{
	"unknown-zone": {func(s *csv1.CloudStackNodeClassSpec) { s.Zones = []string{"zone-x"} }, csv1.ConditionZonesReady, []string{"zone-x", fake.ZoneA}},
	"no-network": {func(s *csv1.CloudStackNodeClassSpec) {
		s.NetworkSelectorTerms = []csv1.NetworkSelectorTerm{{Name: "no-such-network"}}
	}, csv1.ConditionNetworksReady, []string{"networkSelectorTerms", fake.NetworkA}},
	"no-offering": {func(s *csv1.CloudStackNodeClassSpec) {
		s.ServiceOfferingSelectorTerms = []csv1.ServiceOfferingSelectorTerm{{Name: fake.OfferingSmall, HostTags: []string{"no-such-tag"}}}
	}, csv1.ConditionOfferingsReady, []string{"serviceOfferingSelectorTerms", fake.OfferingSmall}},
	"no-template": {func(s *csv1.CloudStackNodeClassSpec) {
		s.TemplateSelectorTerms = []csv1.TemplateSelectorTerm{{Name: "windows"}}
	}, csv1.ConditionTemplatesReady, []string{"templateSelectorTerms", fake.TemplateAMD64}},
	"invalid-expression": {func(s *csv1.CloudStackNodeClassSpec) {
		s.TemplateSelectorTerms = []csv1.TemplateSelectorTerm{{NameRegex: "["}}
	}, csv1.ConditionTemplatesReady, []string{"templateSelectorTerms[0].nameRegex"}},
	"no-security-group": {func(s *csv1.CloudStackNodeClassSpec) {
		s.SecurityGroupSelectorTerms = []csv1.SecurityGroupSelectorTerm{{Name: "open"}}
	}, csv1.ConditionSecurityGroupsReady, []string{"securityGroupSelectorTerms"}},
	"oversize-user-data": {func(s *csv1.CloudStackNodeClassSpec) {
		text := "{" + strings.Repeat(" ", 25000)
		s.Bootstrap, s.UserData = nil, &text
	}, csv1.ConditionBootstrapReady, []string{"33336 bytes", "32768", "vm.userdata.max.length"}},
	"invalid-user-data": {func(s *csv1.CloudStackNodeClassSpec) {
		text := "#!/bin/sh\necho {{ .NodName }}\n"
		s.Bootstrap, s.UserData = nil, &text
	}, csv1.ConditionBootstrapReady, []string{"line 2", "NodName"}},
	"missing-secret": {func(s *csv1.CloudStackNodeClassSpec) {
		s.UserDataSecretRef = &csv1.SecretKeyReference{Name: "missing"}
	}, csv1.ConditionBootstrapReady, []string{"userDataSecretRef", namespace + "/missing"}},
	"invalid-bundle": {func(s *csv1.CloudStackNodeClassSpec) { s.Bootstrap.CABundle = []byte("none") }, csv1.ConditionBootstrapReady, []string{"caBundle"}},
}

// badInput has every fault in a CloudStackNodeClass of its own, each with a NodePool and a pod that only this would take.
func (w *world) badInput() {
	w.Helper()
	for name, fault := range faults {
		nodeClass := lab.NodeClass(name)
		fault.change(&nodeClass.Spec)
		w.create(nodeClass, lab.NodePool(name, name))
		w.pending(name)
	}
	w.until("each fault shows as a condition and an event", func() (bool, string) {
		for name, fault := range faults {
			nodeClass, pool := &csv1.CloudStackNodeClass{}, &karpv1.NodePool{}
			w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: name}, nodeClass))
			condition := nodeClass.StatusConditions().Get(fault.condition)
			if !condition.IsFalse() {
				return false, fmt.Sprintf("%s: %+v", name, nodeClass.Status.Conditions)
			}
			for _, text := range fault.says {
				if !strings.Contains(condition.Message, text) {
					w.Errorf("%s: the condition says nothing of %q: %s", name, text, condition.Message)
				}
				if reason := strings.TrimSuffix(fault.condition, "Ready") + "NotReady"; !w.told(name, reason, text) {
					return false, fmt.Sprintf("%s: no event %s that tells of %q", name, reason, text)
				}
			}
			w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: name}, pool))
			if !pool.StatusConditions().Get(status.ConditionReady).IsFalse() {
				return false, fmt.Sprintf("%s: the NodePool has %+v", name, pool.Status.Conditions)
			}
		}
		return true, ""
	})
}

// pending makes a pod that waits for a node of a NodePool. There is no scheduler: the test says what it would say.
func (w *world) pending(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}, Spec: lab.PodSpec(name, "1", "1Gi")}
	w.create(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	w.must(w.admin.Status().Update(w.Context(), pod))
	return pod
}

// mend takes the fault from one CloudStackNodeClass, and deletes the others. The one is ready, the others go.
func (w *world) mend(name string) {
	w.Helper()
	for other := range faults {
		if other != name {
			w.must(w.admin.Delete(w.Context(), &csv1.CloudStackNodeClass{ObjectMeta: metav1.ObjectMeta{Name: other}}))
		}
	}
	nodeClass := &csv1.CloudStackNodeClass{}
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: name}, nodeClass))
	nodeClass.Spec = lab.NodeClass(name).Spec
	w.must(w.admin.Update(w.Context(), nodeClass))
	w.until("the CloudStackNodeClass is mended, and those that were not are gone", func() (bool, string) {
		list := &csv1.CloudStackNodeClassList{}
		w.must(w.admin.List(w.Context(), list))
		var text string
		for _, one := range list.Items {
			if _, wrong := faults[one.Name]; wrong && (one.Name != name || !one.StatusConditions().Get(status.ConditionReady).IsTrue()) {
				text += fmt.Sprintf("%s: %+v; ", one.Name, one.Status.Conditions)
			}
		}
		return text == "", text
	})
}

// measured are metrics that tell of what has happened in the life of the controller.
var measured = []string{
	`karpenter_cloudstack_request_duration_seconds_count{code="200",command="deployVirtualMachine"} [1-9]`,
	`karpenter_cloudstack_request_duration_seconds_count{code="401",command="listCapabilities"} [1-9]`,
	`karpenter_cloudstack_request_duration_seconds_count{code="none",command="listCapabilities"} [1-9]`,
	`karpenter_cloudstack_machines_created_total{capacity_type="on-demand",zone="zone-[ab]"} [1-9]`,
	`karpenter_cloudstack_machines_destroyed_total{expunge="true"} [1-9]`,
	`karpenter_cloudstack_launch_duration_seconds_count{zone="zone-[ab]"} [1-9]`,
	`karpenter_cloudstack_userdata_bytes_count{mode="Kubeadm"} [1-9]`,
	`karpenter_cloudstack_cache_hits_total{cache="[a-z_]+"} [1-9]`,
	`karpenter_cloudstack_cache_misses_total{cache="[a-z_]+"} [1-9]`,
	`karpenter_cloudstack_api_reachable 1`,
	`karpenter_cloudstack_credentials_valid 1`,
	// Core's own, of this provider.
	`karpenter_cloudprovider_duration_seconds_count{[^}]*method="Create",provider="cloudstack"} [1-9]`,
	`operator_status_condition_count{[^}]*kind="CloudStackNodeClass"[^}]*reason="SecretNotFound"[^}]*} 1`,
}

// measures fails where metrics do not tell of what has happened.
func (w *world) measures() {
	w.Helper()
	code, text := w.get(w.metrics, "/metrics")
	for _, line := range measured {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(text) {
			w.Errorf("no metric is as %s (%d)", line, code)
		}
	}
}

// TestController has the controller do all that it does in a life: it starts without credentials, gets wrong ones and right ones, makes a
// node although whatever else it is given is wrong, loses CloudStack for a while, deletes the node, and ends when it is told to. It has the
// rights that the chart gives it. It is one process all the time: nothing of that ends it.
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
		return condition.IsFalse() && strings.Contains(condition.Message, "Secret of the controller"), fmt.Sprint(condition)
	})
	w.until("an event says what to change", func() (bool, string) { return w.told("test", "ZonesNotReady", "Secret of the controller"), "" })
	w.writeCredentials(fake.DefaultSecretKey)
	w.cloudStack("with the right credentials", "")
	w.until("the CloudStackNodeClass is ready", func() (bool, string) {
		condition := ready()
		return condition.IsTrue(), fmt.Sprintf("%+v", nodeClass.Status.Conditions)
	})

	w.badInput()
	pod := w.pending("test")
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

	w.measures()
	w.mend("unknown-zone")

	w.must(syscall.Kill(w.controller.Pid(), syscall.SIGTERM))
	select {
	case <-w.controller.Done():
		if err := w.controller.Err(); err == nil || !strings.Contains(err.Error(), "status 0") {
			t.Errorf("it was told to end: %v", err)
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
		var entry struct{ Level, Time, Message string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level == "" || entry.Time == "" || entry.Message == "" {
			t.Errorf("a line of the log is no entry (%v): %s", err, line)
		}
	}
	output, err := os.ReadFile(w.output)
	w.must(err)
	for line := range strings.Lines(w.log() + string(output)) {
		for _, secret := range []string{fake.DefaultSecretKey, "wrong-secret-key", "hush-hush", fake.DefaultAPIKey} {
			if strings.Contains(line, secret) {
				t.Errorf("a secret is logged: %s", line)
			}
		}
	}
	if len(output) > 0 {
		t.Errorf("this is in no log: %s", output)
	}
}
