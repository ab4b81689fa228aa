//go:build unix

package nodepoolsserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

const (
	chartFolder    = "../../charts/nodepools-server"
	chartNamespace = "nodepools"
	chartName      = "release-nodepools-server"
)

// The least that can be said, several processes, and all that can be switched on.
var chartValues = []string{"sqlite", "postgres", "everything"}

func valuesFile(name string) string { return filepath.Join(chartFolder, "ci", name+"-values.yaml") }

// helm runs Helm. Without one, the test is skipped: $HELM names it, or the tools of the Karpenter provider have built it.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		where, err := exec.CommandContext(t.Context(), "sh", "../../karpenter-provider-cloudstack/tools/tool", "--where", "helm").Output()
		if err != nil {
			t.Skipf("there is no Helm, so the chart is not rendered: set HELM to its path, or build it with "+
				"`karpenter-provider-cloudstack/tools/tool helm` (%v)", err)
		}
		program = strings.TrimSpace(string(where))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	home := t.TempDir()
	// A Helm that was built from source believes in a Kubernetes of old.
	command := exec.CommandContext(ctx, program, append(args, "--kube-version", "1.35.0")...)
	// Neither plugins nor repositories of whoever runs the test.
	command.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+os.DevNull)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	return out.String(), errs.String(), err
}

// chartTypes are the types of what the chart has. Those of the Prometheus operator are no dependency.
var chartTypes = map[string]func() metav1.Object{
	"apps/v1/Deployment":                      func() metav1.Object { return &appsv1.Deployment{} },
	"v1/Service":                              func() metav1.Object { return &corev1.Service{} },
	"v1/ServiceAccount":                       func() metav1.Object { return &corev1.ServiceAccount{} },
	"v1/ConfigMap":                            func() metav1.Object { return &corev1.ConfigMap{} },
	"v1/PersistentVolumeClaim":                func() metav1.Object { return &corev1.PersistentVolumeClaim{} },
	"policy/v1/PodDisruptionBudget":           func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy":      func() metav1.Object { return &networkingv1.NetworkPolicy{} },
	"monitoring.coreos.com/v1/ServiceMonitor": func() metav1.Object { return &unstructured.Unstructured{} },
	"monitoring.coreos.com/v1/PrometheusRule": func() metav1.Object { return &unstructured.Unstructured{} },
}

// objects are what the chart renders, by kind and name without that of the release.
type objects map[string]metav1.Object

// render renders the chart, and reads each object into its type. A field that the type does not have is an error.
func render(t *testing.T, values string, args ...string) objects {
	t.Helper()
	out, errs, err := helm(t, append([]string{"template", "release", chartFolder, "--namespace", chartNamespace, "-f", valuesFile(values)}, args...)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, errs)
	}
	found := objects{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(out)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := utilyaml.ToJSON(document)
		if err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal(text, &kind); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if kind.Kind == "" { // comments only
			continue
		}
		makes, ok := chartTypes[kind.APIVersion+"/"+kind.Kind]
		if !ok {
			t.Fatalf("the chart has a %s/%s, which the test does not know", kind.APIVersion, kind.Kind)
		}
		object := makes()
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(object); err != nil {
			t.Fatalf("%s: %v:\n%s", kind.Kind, err, document)
		}
		id := kind.Kind + strings.TrimPrefix(object.GetName(), chartName)
		if found[id] != nil {
			t.Fatalf("there are two of %s", id)
		}
		found[id] = object
	}
}

func get[T metav1.Object](t *testing.T, from objects, id string) T {
	t.Helper()
	object, ok := from[id].(T)
	if !ok {
		t.Fatalf("there is no %s; there are %v", id, slices.Sorted(maps.Keys(from)))
	}
	return object
}

func TestChartPassesTheLinter(t *testing.T) {
	t.Parallel()
	for _, values := range chartValues {
		if out, errs, err := helm(t, "lint", "--strict", chartFolder, "-f", valuesFile(values)); err != nil {
			t.Errorf("%s: %v\n%s%s", values, err, out, errs)
		}
	}
}

// TestChartIsInstalledAsItsReadmeSays: the values of the README's command are enough, and none of them is unknown.
func TestChartIsInstalledAsItsReadmeSays(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(chartFolder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, command, found := strings.Cut(strings.ReplaceAll(string(text), "\\\n", ""), "$ helm install nodepools charts/nodepools-server ")
	command, _, ends := strings.Cut(command, "\n")
	if !found || !ends || !strings.Contains(command, "--set auth.") {
		t.Fatalf("the README does not install the chart: %q", command)
	}
	for _, more := range []string{"", " --set cloud.kind=emulated --set cloud.existingSecret="} {
		if _, errs, err := helm(t, append([]string{"template", "nodepools", chartFolder}, strings.Fields(command+more)...)...); err != nil {
			t.Errorf("helm install %s%s: %v\n%s", command, more, err, errs)
		}
	}
}

// TestChartObjects: what holds for all objects, and which there are.
func TestChartObjects(t *testing.T) {
	t.Parallel()
	for values, want := range map[string][]string{
		"sqlite":   {"ConfigMap-auth", "Deployment", "PersistentVolumeClaim", "Service", "ServiceAccount"},
		"postgres": {"ConfigMap-auth", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"},
		"everything": {
			"ConfigMap-auth", "ConfigMap-dashboard", "Deployment", "Deployment-worker", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule",
			"Service", "ServiceAccount", "ServiceMonitor",
		},
	} {
		found := render(t, values)
		if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
			t.Errorf("%s: there are %v, want %v", values, got, want)
		}
		for id, object := range found {
			if object.GetNamespace() != chartNamespace || object.GetLabels()["app.kubernetes.io/instance"] != "release" || object.GetLabels()["helm.sh/chart"] == "" {
				t.Errorf("%s: %s is in %q, with the labels %v", values, id, object.GetNamespace(), object.GetLabels())
			}
		}
		deployment := get[*appsv1.Deployment](t, found, "Deployment")
		pod := labels.Set(deployment.Spec.Template.Labels)
		selectors := map[string]map[string]string{
			"Deployment": deployment.Spec.Selector.MatchLabels, "Service": get[*corev1.Service](t, found, "Service").Spec.Selector,
		}
		if budget, ok := found["PodDisruptionBudget"].(*policyv1.PodDisruptionBudget); ok {
			selectors["PodDisruptionBudget"] = budget.Spec.Selector.MatchLabels
		}
		for id, selector := range selectors {
			if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pod) {
				t.Errorf("%s: the %s does not select the pods: %v", values, id, selector)
			}
			if worker, ok := found["Deployment-worker"].(*appsv1.Deployment); ok && labels.SelectorFromSet(selector).Matches(labels.Set(worker.Spec.Template.Labels)) {
				t.Errorf("%s: the %s selects the workers too: %v", values, id, selector)
			}
		}
	}
}

// probes tells whether a probe asks a path of the one port that there is.
func probes(container corev1.Container, probe *corev1.Probe, path string, scheme corev1.URIScheme) bool {
	return probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Path == path && probe.HTTPGet.Scheme == scheme && len(container.Ports) == 1 &&
		container.Ports[0].Name == probe.HTTPGet.Port.StrVal && container.Ports[0].ContainerPort == 8080
}

func mounted(container corev1.Container, name string) corev1.VolumeMount {
	for _, mount := range container.VolumeMounts {
		if mount.Name == name {
			return mount
		}
	}
	return corev1.VolumeMount{}
}

func volume(pod corev1.PodSpec, name string) corev1.Volume {
	for _, one := range pod.Volumes {
		if one.Name == name {
			return one
		}
	}
	return corev1.Volume{}
}

func variable(container corev1.Container, name string) corev1.EnvVar {
	for _, one := range container.Env {
		if one.Name == name {
			return one
		}
	}
	return corev1.EnvVar{}
}

func TestChartDeployment(t *testing.T) {
	t.Parallel()
	found := render(t, "sqlite")
	deployment := get[*appsv1.Deployment](t, found, "Deployment")
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	security := container.SecurityContext
	claim := get[*corev1.PersistentVolumeClaim](t, found, "PersistentVolumeClaim")
	for what, is := range map[string]bool{
		"one process":                       *deployment.Spec.Replicas == 1,
		"the old ends before the new":       deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType,
		"liveness":                          probes(container, container.LivenessProbe, "/healthz", corev1.URISchemeHTTP),
		"readiness":                         probes(container, container.ReadinessProbe, "/readyz", corev1.URISchemeHTTP),
		"time to start":                     probes(container, container.StartupProbe, "/healthz", corev1.URISchemeHTTP),
		"it is not root":                    *security.RunAsNonRoot && *security.RunAsUser == 65532,
		"it gets no more rights":            !*security.AllowPrivilegeEscalation && security.Privileged == nil,
		"it has no capabilities":            slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(security.Capabilities.Add) == 0,
		"its own files stay as they are":    *security.ReadOnlyRootFilesystem,
		"its system calls are filtered":     security.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"it has no token of the cluster":    !*pod.AutomountServiceAccountToken && pod.ServiceAccountName == chartName,
		"nor its account":                   !*get[*corev1.ServiceAccount](t, found, "ServiceAccount").AutomountServiceAccountToken,
		"the state is on the volume":        volume(pod, "state").PersistentVolumeClaim.ClaimName == claim.Name && mounted(container, "state").MountPath == "/var/lib/nodepools",
		"which stays":                       claim.Annotations["helm.sh/resource-policy"] == "keep",
		"and is where it is looked for":     variable(container, "PLANTON_STATE_DIR").Value == "/var/lib/nodepools",
		"the key stays its owner's":         *pod.SecurityContext.FSGroup == 65532 && *pod.SecurityContext.FSGroupChangePolicy == corev1.FSGroupChangeOnRootMismatch,
		"it can write what is for a moment": volume(pod, "tmp").EmptyDir != nil && mounted(container, "tmp").MountPath == "/tmp",
		"it ends in peace":                  *pod.TerminationGracePeriodSeconds == 90,
		"tokens are mounted":                volume(pod, "tokens").Secret.SecretName == "nodepools-tokens" && mounted(container, "tokens").SubPath == "",
		"clouds are for the variables":      container.EnvFrom[0].SecretRef.Name == "nodepools-clouds",
		"no database is named":              variable(container, databaseVariable).Name == "",
	} {
		if !is {
			t.Errorf("SQLite: not so: %s", what)
		}
	}

	found = render(t, "postgres")
	deployment = get[*appsv1.Deployment](t, found, "Deployment")
	pod = deployment.Spec.Template.Spec
	container = pod.Containers[0]
	for what, is := range map[string]bool{
		"three processes":            *deployment.Spec.Replicas == 3,
		"one is always there":        deployment.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType && deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntVal == 0,
		"the database is a Secret's": variable(container, databaseVariable).ValueFrom.SecretKeyRef.Name == "nodepools-database",
		"so is the key":              variable(container, keyVariable).ValueFrom.SecretKeyRef.Name == "nodepools-key",
		"they share the states":      variable(container, "PULUMI_BACKEND_URL").Value == "s3://nodepools-stacks?region=eu-central-1",
		"and their passphrase":       container.EnvFrom[1].SecretRef.Name == "nodepools-pulumi",
		"they have no volume":        volume(pod, "state").EmptyDir != nil,
		"replicas are spread":        pod.TopologySpreadConstraints[0].LabelSelector.MatchLabels["app.kubernetes.io/component"] == "api",
		"each of them works":         slices.Contains(container.Args, "--workers=16"),
	} {
		if !is {
			t.Errorf("PostgreSQL: not so: %s", what)
		}
	}

	found = render(t, "everything")
	api := get[*appsv1.Deployment](t, found, "Deployment").Spec.Template.Spec.Containers[0]
	worker := get[*appsv1.Deployment](t, found, "Deployment-worker")
	pod = worker.Spec.Template.Spec
	container = pod.Containers[0]
	for what, is := range map[string]bool{
		"the API serves":                        slices.Contains(api.Args, "--workers=0"),
		"and has no credentials of clouds":      len(api.EnvFrom) == 0,
		"workers work":                          slices.Contains(container.Args, "--workers=32") && *worker.Spec.Replicas == 3,
		"and have them":                         len(container.EnvFrom) == 2,
		"TLS":                                   probes(container, container.ReadinessProbe, "/readyz", corev1.URISchemeHTTPS),
		"the grace of 1m30s, and half a minute": *pod.TerminationGracePeriodSeconds == 120,
		"keys are its group's alone":            *volume(pod, "tls").Secret.DefaultMode == 0o440 && mounted(container, "tls").ReadOnly,
		"who signs clients":                     volume(pod, "client-ca").ConfigMap.Name == "nodepools-client-ca",
		"what is more":                          mounted(container, "credentials").MountPath == "/etc/planton" && variable(container, "OTEL_EXPORTER_OTLP_ENDPOINT").Value != "",
		"the network is closed but for this":    len(get[*networkingv1.NetworkPolicy](t, found, "NetworkPolicy").Spec.PolicyTypes) == 2,
	} {
		if !is {
			t.Errorf("everything: not so: %s", what)
		}
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	container = get[*appsv1.Deployment](t, render(t, "sqlite", "--set", "image.repository=example.com/nodepools,image.digest="+digest), "Deployment").Spec.Template.Spec.Containers[0]
	if container.Image != "example.com/nodepools@"+digest {
		t.Errorf("the image is %s", container.Image)
	}
}

// TestChartIsUnderstood: the server takes the flags and the files that the chart gives it, each flag is one of the chart's values or said to
// be none, and defaults are the same in both places.
func TestChartIsUnderstood(t *testing.T) {
	t.Parallel()
	// Not for a pod; or given to it in variables.
	left := []string{"unix-socket", "key-file", "time-scale", "civo-provider-config", "digital-ocean-provider-config"}
	// The chart's own: a network to serve, real clouds, logs for machines, and metrics for the Prometheus beside it.
	own := []string{"listen", "auth", "cloud", "log-format", "parallel", "open-metrics"}
	given := map[string]bool{}
	for _, values := range chartValues {
		found := render(t, values)
		folder := t.TempDir()
		write := func(name, text string) {
			t.Helper()
			path := filepath.Join(folder, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		auth := strings.ReplaceAll(get[*corev1.ConfigMap](t, found, "ConfigMap-auth").Data["auth.yaml"], "/etc/nodepools", folder)
		write("auth/auth.yaml", auth)
		write("tokens/tokens.yaml", "tokens: []\n")
		certificate, key := selfSigned(t)
		write("tls/tls.crt", certificate)
		write("tls/tls.key", key)
		write("client-ca/ca.crt", certificate)
		for id, object := range found {
			deployment, ok := object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			args := deployment.Spec.Template.Spec.Containers[0].Args
			var read config
			flags := pflag.NewFlagSet(id, pflag.ContinueOnError)
			read.bind(flags)
			if err := flags.Parse(args); err != nil {
				t.Errorf("%s: %s: %v", values, id, err)
				continue
			}
			flags.Visit(func(flag *pflag.Flag) {
				given[flag.Name] = true
				if values == "sqlite" && !slices.Contains(own, flag.Name) && flag.Value.String() != flag.DefValue {
					t.Errorf("--%s is %s by default, for the server %s", flag.Name, flag.Value, flag.DefValue)
				}
			})
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "/etc/nodepools", folder)
			}
			// It ends where the database is opened: after all that can be wrong with flags and files.
			ended, end := context.WithCancel(t.Context())
			end()
			var log bytes.Buffer
			environment := func(name string) string { return map[string]string{"PLANTON_STATE_DIR": folder}[name] }
			if code := Run(ended, args, environment, io.Discard, &log); code != exitFailed || !strings.Contains(log.String(), "context canceled") {
				t.Errorf("%s: the server does not take what %s gives it: it ended with %d, and said: %s", values, id, code, log.String())
			}
		}
	}
	all := pflag.NewFlagSet("all", pflag.ContinueOnError)
	(&config{}).bind(all)
	all.VisitAll(func(flag *pflag.Flag) {
		if given[flag.Name] == slices.Contains(left, flag.Name) {
			t.Errorf("--%s: the chart gives it: %t", flag.Name, given[flag.Name])
		}
	})
}

// selfSigned is a certificate with its key, in PEM.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pair := server.TLS.Certificates[0]
	text, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

// TestChartRefuses: values that would break or lose something are told as such, by name.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reason, values, set, want string }{
		{"two processes would write one SQLite file", "sqlite", "replicas=2", "replicas and workers.replicas: SQLite is for one process"},
		{"so would workers apart", "sqlite", "workers.replicas=1", "SQLite is for one process"},
		{"each pod would seal with a key of its own", "postgres", "sealing.existingSecret=", "sealing.existingSecret"},
		{"each worker would have states of its own", "postgres", "pulumi.backendURL=", "pulumi.backendURL: 3 processes work"},
		{"nor is a file seen by all", "postgres", "pulumi.backendURL=file:///states", "pulumi.backendURL: several processes work, and a file"},
		{"a passphrase that a pod made would be lost", "postgres", "pulumi.existingSecret=", "PULUMI_CONFIG_PASSPHRASE"},
		{"workers that do nothing", "everything", "workers.concurrency=0", "workers.replicas: with workers.concurrency=0"},
		{"emulated clouds are of one process", "postgres", "cloud.kind=emulated", "cloud.kind: emulated clouds"},
		{"no cloud can be reached", "sqlite", "cloud.existingSecret=", "cloud.existingSecret: name a Secret"},
		{"everybody would be let in", "sqlite", "auth.tokens.existingSecret=", "auth: say who may do what"},
		{"nobody could be such a peer", "everything", "tls.clientCA.configMap=", "tls.clientCA: auth.config.trustedPeers"},
		{"clients show certificates over TLS alone", "everything", "tls.existingSecret=", "tls.existingSecret: tls.clientCA"},
		{"what is unknown is a mistake", "sqlite", "replica=2", "replica"},
		{"a duration has a unit", "sqlite", "settings.driftInterval=10", "driftInterval"},
		{"passwords do not belong into an address in clear", "postgres", "pulumi.backendURL=https://user:secret@example.com", "backendURL"},
	} {
		_, errs, err := helm(t, "template", "release", chartFolder, "-f", valuesFile(c.values), "--set", c.set)
		if err == nil || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %s with %s was answered with %v: %s; want %q", c.reason, c.values, c.set, err, errs, c.want)
		}
	}
}
