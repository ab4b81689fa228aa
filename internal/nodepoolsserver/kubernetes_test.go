//go:build linux

package nodepoolsserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// kubernetes is a real API server, with nothing behind it that would run pods.
type kubernetes struct {
	t   *testing.T
	url string
}

// resources are where objects of the chart are written; what is missing here belongs to operators that need not be there.
var resources = map[string]string{
	"ServiceAccount": "/api/v1/namespaces/nodepools/serviceaccounts", "ConfigMap": "/api/v1/namespaces/nodepools/configmaps", "Pod": "/api/v1/namespaces/nodepools/pods",
	"PersistentVolumeClaim": "/api/v1/namespaces/nodepools/persistentvolumeclaims", "Service": "/api/v1/namespaces/nodepools/services",
	"Deployment": "/apis/apps/v1/namespaces/nodepools/deployments", "PodDisruptionBudget": "/apis/policy/v1/namespaces/nodepools/poddisruptionbudgets",
	"NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/nodepools/networkpolicies",
}

func startKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	apiserver, etcd := os.Getenv("KUBE_APISERVER"), os.Getenv("ETCD")
	if apiserver == "" || etcd == "" {
		t.Skip("KUBE_APISERVER and ETCD do not say where the API server of Kubernetes and its database are: make chart does")
	}
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(dir, "accounts.key")
	if err := os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("of-the-tests,admin,1,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var ports [3]string
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, ports[i], _ = net.SplitHostPort(listener.Addr().String())
		_ = listener.Close()
	}
	run := func(program string, arguments ...string) {
		said := &bytes.Buffer{}
		command := exec.CommandContext(context.WithoutCancel(t.Context()), program, arguments...)
		command.Stdout, command.Stderr, command.Dir = said, said, dir
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
			if text := said.String(); t.Failed() {
				t.Logf("%s said, in the end: %s", filepath.Base(program), text[max(0, len(text)-2000):])
			}
		})
	}
	client := "http://127.0.0.1:" + ports[0]
	run(etcd, "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--unsafe-no-fsync")
	run(apiserver, "--etcd-servers", client, "--secure-port", ports[2], "--bind-address", "127.0.0.1", "--cert-dir", filepath.Join(dir, "serving"),
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", private, "--service-account-signing-key-file", private,
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount")
	k := &kubernetes{t: t, url: "https://127.0.0.1:" + ports[2]}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if code, _, err := k.ask(http.MethodGet, "/readyz", nil); err == nil && code == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the API server is not ready")
		}
	}
	// The strictest of the standards for pods holds in the namespace.
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": chartNamespace, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if code, text, err := k.ask(http.MethodPost, "/api/v1/namespaces", namespace); err != nil || code != http.StatusCreated {
		t.Fatalf("make a namespace: %d %s (%v)", code, text, err)
	}
	return k
}

func (k *kubernetes) ask(method, path string, body any) (int, string, error) {
	k.t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		k.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(k.t.Context(), method, k.url+path, bytes.NewReader(content))
	if err != nil {
		k.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer of-the-tests")
	request.Header.Set("Content-Type", "application/json")
	// Its certificate was made by itself a moment ago, and it serves loopback alone.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// TestChartIsTaken: a real API server takes each object of the chart, with no field that it does not know, and the pods by the strictest of
// the standards for pods.
func TestChartIsTaken(t *testing.T) {
	t.Parallel()
	k := startKubernetes(t)
	take := func(values, kind string, object any) {
		t.Helper()
		path, ok := resources[kind]
		if !ok {
			if kind != "PrometheusRule" && kind != "ServiceMonitor" {
				t.Errorf("%s: nothing here knows where a %s is written", values, kind)
			}
			return
		}
		code, text, err := k.ask(http.MethodPost, path+"?dryRun=All&fieldValidation=Strict", object)
		if err != nil || code != http.StatusCreated {
			t.Errorf("%s: a %s is answered with %d %s (%v)", values, kind, code, text, err)
		}
	}
	for _, values := range chartValues {
		out, errs, err := helm(t, "template", "release", chartFolder, "--namespace", chartNamespace, "-f", valuesFile(values))
		if err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
		taken := 0
		for _, text := range strings.Split(out, "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := utilyaml.Unmarshal([]byte(text), &object.Object); err != nil {
				t.Fatal(err)
			}
			if len(object.Object) == 0 {
				continue
			}
			taken++
			take(values, object.GetKind(), object.Object)
			var deployment appsv1.Deployment
			if object.GetKind() == "Deployment" && utilyaml.Unmarshal([]byte(text), &deployment) == nil {
				template := deployment.Spec.Template
				pod := corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
				pod.APIVersion, pod.Kind, pod.GenerateName = "v1", "Pod", "pod-"
				take(values, "Pod", pod)
			}
		}
		if taken < 5 {
			t.Errorf("%s: only %d objects", values, taken)
		}
	}
}
